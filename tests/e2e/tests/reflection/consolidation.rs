//! What a reflection does to the facts that are known: kept, updated, removed, added; which of them it
//! is shown; repetitions; markers; limits.

use crate::script::{CONFIDENCE, facts_of, obedient, start};
use memory_agent_e2e::llm::{Call, Document, Purpose};
use memory_agent_e2e::memory::{recall, run, trust_llm, value};
use memory_agent_e2e::{Json, Uuid, json};

const LISBON: &str = "User lives in the city of Lisbon.";
const OSLO: &str = "User lives in the city of Oslo.";
const RENT: &str = "User's monthly rent is 810 euros.";
const LAPTOP: &str = "The user's laptop has 16 GB of memory.";

/// Makes a scope so large that the nearest facts alone are shown.
const SHELVES: &str = "SELECT memory_add(format('Shelf %s holds %s red folders.', n, n * 7), 's', infer => false) \
     FROM generate_series(1, 49) n";

#[test]
fn facts_are_kept_updated_removed_and_added() {
    let mut scene = start(obedient);
    let first = scene.episode(&[
        &format!("Note: {LISBON}"),
        &format!("Note: {RENT}"),
        &format!("Note: {LAPTOP}"),
    ]);
    assert_eq!(scene.facts(), [LAPTOP, LISBON, RENT]);
    let lisbon = scene.fact(LISBON);
    assert_eq!((lisbon.sources.as_slice(), lisbon.confidence), (&first[..1], Some(CONFIDENCE)));
    let second = scene.episode(&[
        &format!("Change: {LISBON} => {OSLO}"),
        &format!("Forget: {RENT}"),
        "Note: The user's dentist is called Moreau.",
    ]);
    assert_eq!(scene.facts(), ["The user's dentist is called Moreau.", LAPTOP, OSLO]);
    let (lisbon, oslo, rent) = (scene.fact(LISBON), scene.fact(OSLO), scene.fact(RENT));
    assert_eq!((lisbon.state.as_str(), lisbon.reason.as_deref()), ("inactive", Some("superseded")));
    assert_eq!(lisbon.replaced_by, Some(oslo.id));
    assert_eq!(oslo.sources, second[..1]);
    assert_eq!((rent.state.as_str(), rent.reason.as_deref()), ("inactive", Some("contradicted")));
    assert_eq!(rent.replaced_by, Some(second[1]), "what was said against it");
    assert_eq!(scene.history(lisbon.id), ["add", "supersede"]);
    assert_eq!(scene.history(rent.id), ["add", "delete"]);
    assert_eq!(scene.history(oslo.id), ["add"]);
    let laptop = scene.fact(LAPTOP).id;
    assert_eq!(scene.history(laptop), ["add"]);
    // A fact ends when what was said against it was said.
    let ends: bool = value(
        &mut scene.client,
        "SELECT bool_and(f.valid_to = t.created_at) FROM memory_agent.entries f \
           JOIN memory_agent.entries t ON t.id = CASE f.content WHEN $1 THEN $2::uuid ELSE $3::uuid END \
          WHERE f.id = ANY ($4)",
        &[&LISBON, &second[0], &second[1], &&[lisbon.id, rent.id][..]],
    );
    assert!(ends);
    let counters: bool = value(
        &mut scene.client,
        "SELECT s.active_entries = (SELECT count(*) FROM memory_agent.entries e \
                                     WHERE e.session_id = s.session_id AND e.state = 'active') \
           FROM memory_agent.sessions s",
        &[],
    );
    assert!(counters);
}

#[test]
fn the_llm_is_shown_what_the_episode_may_concern() {
    let mut scene = start(obedient);
    scene.episode(&[
        &format!("Note: [decision] {LISBON}"),
        &format!("Note: {RENT}"),
        &format!("Note: {LAPTOP}"),
    ]);
    let moves = ["I am moving to another city.", "So I will live in Oslo.", "Lisbon was too hot."];
    let shown = |scene: &crate::scene::Scene| facts_of(scene.reflections().last().expect("a call"));
    scene.episode(&moves);
    assert_eq!(shown(&scene).len(), 3, "a small scope is shown as a whole");
    assert_eq!(shown(&scene)[0], LISBON, "the nearest first");
    let sent = scene.reflections()[1].data();
    assert_eq!(sent["existing_memories"][0]["markers"], json!(["decision"]));
    let since: String =
        value(&mut scene.client, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD')", &[]);
    assert_eq!(sent["existing_memories"][0]["since"], json!(since));

    // Of a large scope the nearest facts are shown: nothing was said about the rent, a laptop or shelves.
    run(&mut scene.client, SHELVES);
    assert_eq!(scene.facts().len(), 52);
    scene.episode(&moves);
    assert_eq!(shown(&scene), [LISBON]);
}

/// Of a correction no fact is made that holds no more, but the turn that was corrected says it all the
/// same.
#[test]
fn a_turn_that_was_corrected_in_its_own_episode_is_out_of_date() {
    const FIRST: &str = "The shop stores its data in MySQL.";
    const THEN: &str = "The shop stores its data in PostgreSQL.";
    let mut scene = start(obedient);
    let said = scene.episode(&[FIRST, &format!("Rather: {THEN}"), "Yes."]);
    assert_eq!(scene.facts(), [THEN]);
    let fact = scene.fact(THEN);
    assert_eq!(fact.sources, [said[1]], "a source says what holds");
    assert_eq!(scene.traces()[0]["actions"][0]["replaces"], json!([said[0].to_string()]));
    let asked = |scene: &mut crate::scene::Scene| {
        recall(&mut scene.client, "'Where does the shop store its data?', 's'")
    };
    let rows = asked(&mut scene);
    let place = |id| rows.iter().position(|row| row.id == id);
    let old = rows.iter().find(|row| row.id == said[0]).expect("demoted, not hidden");
    assert_eq!(old.metadata["superseded_by"], json!(fact.id.to_string()), "{rows:#?}");
    assert!(place(fact.id) < place(said[0]), "{rows:#?}");
    let new = rows.iter().find(|row| row.id == said[1]).expect("the correction");
    assert!(new.metadata.get("superseded_by").is_none(), "{rows:#?}");

    run(&mut scene.client, "SET memory_agent.stale_sources = hide");
    let rows = asked(&mut scene);
    assert!(rows.iter().all(|row| row.id != said[0]), "{rows:#?}");
    run(&mut scene.client, "RESET memory_agent.stale_sources");
    // What came after it is out of date as well when that changes.
    scene.episode(&[
        &format!("Change: {THEN} => The shop stores its data in Oracle."),
        "Oh.",
        "Yes.",
    ]);
    let oracle = scene.fact("The shop stores its data in Oracle.");
    let rows = asked(&mut scene);
    for turn in &said[..2] {
        let row = rows.iter().find(|row| row.id == *turn).expect("an old turn");
        assert_eq!(row.metadata["superseded_by"], json!(oracle.id.to_string()), "{rows:#?}");
    }
    // Without the turn nothing is left of what was noted about it.
    let kept = "SELECT count(*) FROM memory_agent.entries WHERE content = ''";
    assert_eq!(value::<i64>(&mut scene.client, kept, &[]), 1);
    run(&mut scene.client, &format!("SELECT memory_erase(id => '{}')", said[0]));
    assert_eq!(value::<i64>(&mut scene.client, kept, &[]), 0);
}

/// Nothing in the turns is near to the fact, but what the LLM makes of them is.
#[test]
fn an_answer_that_is_near_to_a_fact_that_was_not_shown_is_asked_again() {
    const SAID: &str = "Zurich it is, from Monday on.";
    const ZURICH: &str = "User lives in the city of Zurich.";
    let model = |call: &Call| -> Json {
        let knows = facts_of(call).iter().position(|fact| fact == LISBON);
        if !crate::script::turns_of(call).iter().any(|text| text == SAID) {
            return obedient(call);
        }
        let action = match knows {
            Some(index) => json!({"action": "update", "id": index + 1}),
            None => json!({"action": "add"}),
        };
        let mut action = action;
        action["text"] = json!(ZURICH);
        action["turns"] = json!([1]);
        json!({"actions": [action]})
    };
    let mut scene = start(model);
    run(&mut scene.client, SHELVES);
    scene.episode(&[&format!("Note: {LISBON}"), &format!("Note: {LAPTOP}"), "Thanks."]);
    scene.episode(&[SAID, "Really?", "Yes."]);
    let shown: Vec<Vec<String>> = scene.reflections()[1..].iter().map(facts_of).collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(!shown[0].contains(&LISBON.to_owned()), "{shown:?}");
    assert!(shown[1].contains(&LISBON.to_owned()), "{shown:?}");
    let of_interest = |fact: &String| !fact.starts_with("Shelf");
    let facts: Vec<String> = scene.facts().into_iter().filter(of_interest).collect();
    assert_eq!(facts, [LAPTOP, ZURICH]);
    assert_eq!(scene.traces()[1]["rounds"], 2);
}

#[test]
fn what_says_the_same_is_one_fact() {
    let mut scene = start(obedient);
    let first = scene.episode(&[&format!("Note: {LISBON}"), "Nice there.", "Yes."]);
    // Word for word, and in other words; once more within one episode.
    let second = scene.episode(&[
        &format!("Note: {LISBON}"),
        "Note: The user lives in the city of Lisbon",
        "Note: Bread needs salt.",
        "Note: Bread needs salt.",
    ]);
    assert_eq!(scene.facts(), ["Bread needs salt.", LISBON]);
    let known = scene.fact(LISBON);
    assert_eq!(known.state, "active");
    assert!(known.sources.contains(&first[0]), "{known:?}");
    assert_eq!(scene.all_facts().len(), 2);
    assert_eq!(scene.fact("Bread needs salt.").sources.len(), 1, "{second:?}");
    // Another number is another fact, however similar.
    scene.episode(&[&format!("Note: {RENT}"), "Note: User's monthly rent is 945 euros.", "Hm."]);
    assert_eq!(scene.facts().len(), 4);
}

#[test]
fn facts_carry_markers() {
    let mut scene = start(obedient);
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'Note: [goal] The shop opens in May.');
         SELECT memory_ingest('s', 'user', 'Note: [custom:secret] The safe is blue.');
         SELECT memory_ingest('s', 'user', 'Note: [custom:house] The roof is red.', markers => '{custom:house}');
         SELECT memory_ingest('s', 'user', 'Note: Decision: we use PostgreSQL for the shop.')",
    );
    scene.end_episode();
    scene.drain();
    let markers = |scene: &mut crate::scene::Scene, fact: &str| scene.fact(fact).markers;
    assert_eq!(markers(&mut scene, "The shop opens in May."), ["goal"]);
    assert!(
        markers(&mut scene, "The safe is blue.").is_empty(),
        "a model makes no markers of its own"
    );
    assert_eq!(markers(&mut scene, "The roof is red."), ["custom:house"]);
    assert_eq!(markers(&mut scene, "Decision: we use PostgreSQL for the shop."), ["decision"]);
    run(&mut scene.client, "SET memory_agent.auto_detect_markers = off");
    scene.episode(&[
        "Change: The shop opens in May. => [goal] The shop opens in June.",
        "Note: Decision: we use Rust for the kiosk.",
        "Change: The roof is red. => The roof is green now.",
    ]);
    assert_eq!(markers(&mut scene, "The shop opens in June."), ["goal"]);
    assert_eq!(markers(&mut scene, "The roof is green now."), ["custom:house"]);
    assert!(markers(&mut scene, "Decision: we use Rust for the kiosk.").is_empty());
}

#[test]
fn an_episode_gives_only_so_many_facts() {
    const THINGS: [&str; 7] = [
        "Jupiter has many moons.",
        "Bread needs salt.",
        "Trains run late in winter.",
        "Anna is a pilot.",
        "The roof leaks.",
        "Seven hens live in the garden.",
        "Chess has two queens.",
    ];
    let mut scene = start(obedient);
    let said: Vec<String> = THINGS.iter().map(|thing| format!("Note: {thing}")).collect();
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    scene.episode(&said);
    assert_eq!(scene.facts().len(), 5);
    assert_eq!(scene.traces()[0]["dropped"], 2);
    scene.episode(&[
        "Note: Chess is old.",
        "Note: Clara sings in a choir.",
        "Note: The lake is deep.",
        "Note: Pears are ripe in autumn.",
        "Note: Boris plays the tuba.",
        "Change: Bread needs salt. => Bread needs sea salt.",
    ]);
    let facts = scene.facts();
    assert_eq!(facts.len(), 9, "an update counts before an addition: {facts:?}");
    assert!(facts.contains(&"Bread needs sea salt.".to_owned()), "{facts:?}");
}

#[test]
fn what_was_said_before_a_fact_does_not_end_it() {
    let mut scene = start(obedient);
    scene.episode(&[&format!("Note: {OSLO}"), &format!("Note: {RENT}"), "Yes."]);
    // An import of what was said the year before.
    let said = [
        format!("Change: {OSLO} => {LISBON}"),
        format!("Forget: {RENT}"),
        format!("Note: {LAPTOP}"),
    ];
    for text in &said {
        let sql = "SELECT memory_ingest('s', 'user', $1, created_at => now() - interval '1 year')";
        scene.client.execute(sql, &[text]).expect("ingest");
    }
    scene.end_episode();
    scene.drain();
    assert_eq!(scene.facts(), [LAPTOP, OSLO, RENT]);
    let (lisbon, oslo) = (scene.fact(LISBON), scene.fact(OSLO));
    assert_eq!((lisbon.state.as_str(), lisbon.replaced_by), ("inactive", Some(oslo.id)));
    let then: Vec<String> = memory_agent_e2e::memory::recalled_texts(
        &mut scene.client,
        "'Which city does the user live in?', 's', kinds => '{fact}', as_of => now() - interval '6 months'",
    );
    assert!(then.contains(&LISBON.to_owned()) && !then.contains(&OSLO.to_owned()), "{then:?}");
}

/// Small models remove what nobody spoke of, and update what was not meant.
#[test]
fn what_an_llm_changes_that_has_not_passed_the_probe_is_doubted() {
    const CHESS: &str = "The user plays chess.";
    let model = |call: &Call| -> Json {
        if call.purpose() == Purpose::Probe {
            return Document::of(call).unrelated();
        }
        let id =
            |fact: &str| facts_of(call).iter().position(|known| known == fact).map(|at| at + 1);
        match (id(LISBON), id(RENT)) {
            (Some(lisbon), Some(rent)) => json!({"actions": [
                {"action": "remove", "id": rent, "turns": [1]},
                {"action": "update", "id": lisbon, "text": CHESS, "turns": [1]},
            ]}),
            _ => obedient(call),
        }
    };
    let mut scene = start(model);
    scene.episode(&[&format!("Note: {LISBON}"), &format!("Note: {RENT}"), "Yes."]);
    let said = scene.episode(&["I play chess.", "Really?", "Yes."]);
    assert_eq!(scene.facts(), [CHESS, LISBON, RENT]);
    let (lisbon, rent, chess) = (scene.fact(LISBON), scene.fact(RENT), scene.fact(CHESS));
    let doubted: Vec<(String, Uuid)> = scene
        .client
        .query("SELECT content, doubted_by FROM memory_agent.entries WHERE doubted_by IS NOT NULL ORDER BY 1", &[])
        .expect("doubts")
        .iter()
        .map(|row| (row.get(0), row.get(1)))
        .collect();
    assert_eq!(doubted, [(LISBON.to_owned(), chess.id), (RENT.to_owned(), said[0])]);
    let trace = scene.traces().pop().expect("a trace");
    let actions = trace["actions"].as_array().expect("actions").clone();
    let kept = json!({"action": "keep", "id": rent.id.to_string(), "doubted": "remove", "turns": [said[0].to_string()]});
    assert!(actions.contains(&kept), "{actions:?}");
    let added = actions.iter().find(|action| action["action"] == "add").expect("an addition");
    assert_eq!(added["doubts"], json!(lisbon.id.to_string()));
    let counted = crate::script::shown(
        &mut scene.client,
        "SELECT detail FROM memory_status() WHERE component = 'replacements'",
    );
    assert_eq!(
        counted,
        "2 facts were doubted, of which 2 still are; probe of stub-1: 4 of 16 right"
    );
    // An LLM that has passed the probe is believed.
    trust_llm(&mut scene.client);
    scene.episode(&["I like tea.", "Really?", "Yes."]);
    assert_eq!(scene.facts(), [CHESS]);
    assert_eq!(scene.fact(RENT).reason.as_deref(), Some("contradicted"));
}

#[test]
fn facts_can_be_global() {
    let mut scene = start(obedient);
    run(&mut scene.client, "SET memory_agent.fact_scope = global");
    scene.episode(&[&format!("Note: {LISBON}"), &format!("Note: {RENT}"), "Yes."]);
    run(
        &mut scene.client,
        &format!(
            "SELECT memory_ingest('t', 'user', 'Change: {LISBON} => {OSLO}');
             SELECT memory_ingest('t', 'user', 'Right.');
             SELECT memory_ingest('t', 'user', 'Right?');
             SELECT memory_close_episode('t')"
        ),
    );
    scene.drain();
    assert_eq!(scene.facts(), [OSLO, RENT]);
    assert!(scene.all_facts().iter().all(|fact| fact.session.is_none()));
}

/// What is about the user is the same in all sessions, "Jupiter" is not.
#[test]
fn an_episode_concerns_what_other_sessions_know_of_the_user() {
    let mut scene = start(obedient);
    let jupiter = "Jupiter has moons.";
    scene.episode(&[
        &format!("Note: {LISBON}"),
        &format!("Note: {RENT}"),
        &format!("Note: {LAPTOP}"),
        &format!("Note: {jupiter}"),
    ]);
    let said = [
        format!("Change: {LISBON} => {OSLO}"),
        format!("Forget: {RENT}"),
        format!("Forget: {jupiter}"),
        format!("Note: {LAPTOP}"),
    ];
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    memory_agent_e2e::memory::ingest_all(&mut scene.client, "t", &said);
    run(&mut scene.client, "SELECT memory_close_episode('t')");
    scene.drain();
    let shown = scene.reflections().last().map(facts_of).expect("a reflection");
    assert!(!shown.contains(&jupiter.to_owned()), "{shown:?}");
    assert_eq!(
        scene.facts_by_session(),
        ["s: Jupiter has moons.".to_owned(), format!("s: {LAPTOP}"), format!("t: {OSLO}")]
    );
    assert_eq!(scene.fact(LISBON).replaced_by, Some(scene.fact(OSLO).id));
    assert_eq!(scene.fact(LAPTOP).sources.len(), 2, "both sessions say it");
    let wrong: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.sessions s \
          WHERE s.active_entries <> (SELECT count(*) FROM memory_agent.entries e \
                                      WHERE e.session_id = s.session_id AND e.state = 'active')",
        &[],
    );
    assert_eq!(wrong, 0, "counters");
}

#[test]
fn turns_that_were_deleted_meanwhile_leave_no_facts() {
    let mut scene = start(obedient);
    scene.stub.hold(true);
    let turns: Vec<Uuid> =
        scene.say_all(&[&format!("Note: {LISBON}"), &format!("Note: {RENT}"), "Yes."]);
    scene.end_episode();
    scene.wait_for_calls(1);
    run(
        &mut scene.client,
        &format!(
            "UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'deleted', state_at = now() \
              WHERE id = '{}'",
            turns[0]
        ),
    );
    scene.stub.hold(false);
    scene.drain();
    assert_eq!(scene.facts(), [RENT]);
    // The deleted one still waits: memory_restore may bring it back.
    assert_eq!(
        (scene.episodes(), scene.waiting_turns()),
        (vec!["3 reflected manual".to_owned()], 1)
    );
}

#[test]
fn known_facts_name_who_is_spoken_of() {
    let mut scene = start(obedient);
    let shop = "Tyler works in his uncle's chip shop.";
    scene.episode(&[&format!("Note: {shop}"), "Yes.", "Always."]);
    let (raise, invented) =
        ("The uncle of Tyler pays 7.50 an hour.", "The uncle of Gustav pays 7.50 an hour.");
    scene.stub.set_model(move |_: &Call| {
        let add = |text: &str| {
            json!({"action": "add", "id": null, "text": text, "markers": [], "confidence": 1, "turns": [1]})
        };
        json!({"actions": [add(raise), add(invented)]})
    });
    scene.episode(&["My uncle gave me a raise, he pays 7.50 an hour now.", "Nice.", "Yes."]);
    assert_eq!(scene.facts(), [raise, shop]);
    assert_eq!(scene.fact(invented).reason.as_deref(), Some("unverified"));
}
