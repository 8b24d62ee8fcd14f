//! What an episode does to the facts that are known: kept, replaced, ended, added; repetitions; markers; scopes.

use crate::script::{CONFIDENCE, obedient, start};
use memory_agent_e2e::memory::{recall, run, value};
use memory_agent_e2e::{Uuid, json};

const LISBON: &str = "User lives in the city of Lisbon.";
const OSLO: &str = "User lives in the city of Oslo.";
const RENT: &str = "User's monthly rent is 810 euros.";
const FLAT: &str = "User's flat costs no monthly rent since it was bought.";
const LAPTOP: &str = "The user's laptop has 16 GB of memory.";

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
        &format!("End: {RENT} => {FLAT}"),
        "Note: The user's dentist is called Moreau.",
    ]);
    assert_eq!(scene.facts(), ["The user's dentist is called Moreau.", LAPTOP, OSLO, FLAT]);
    let (lisbon, oslo, rent) = (scene.fact(LISBON), scene.fact(OSLO), scene.fact(RENT));
    assert_eq!((lisbon.state.as_str(), lisbon.reason.as_deref()), ("inactive", Some("superseded")));
    assert_eq!(lisbon.replaced_by, Some(oslo.id));
    assert_eq!(oslo.sources, second[..1]);
    assert_eq!((rent.state.as_str(), rent.reason.as_deref()), ("inactive", Some("contradicted")));
    assert_eq!(rent.replaced_by, Some(scene.fact(FLAT).id), "what was said against it");
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

/// The turn that was corrected says what no longer holds, like its fact.
#[test]
fn a_turn_that_was_corrected_in_its_own_episode_is_out_of_date() {
    const FIRST: &str = "The shop stores its data in MySQL.";
    const THEN: &str = "The shop stores its data in PostgreSQL.";
    let mut scene = start(obedient);
    let said =
        scene.episode(&[&format!("Note: {FIRST}"), &format!("Change: {FIRST} => {THEN}"), "Yes."]);
    assert_eq!(scene.facts(), [THEN]);
    let fact = scene.fact(THEN);
    assert_eq!(fact.sources, [said[1]], "a source says what holds");
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
    assert_eq!(scene.fact("Bread needs salt.").sources, second[2..], "both turns say it");
    // Another number is another fact, however similar.
    scene.episode(&[&format!("Note: {RENT}"), "Note: User's monthly rent is 945 euros.", "Hm."]);
    assert_eq!(scene.facts().len(), 4);
}

#[test]
fn facts_carry_markers() {
    let mut scene = start(obedient);
    run(
        &mut scene.client,
        "SELECT memory_ingest('s', 'user', 'Note: The shop opens in May.', markers => '{goal}');
         SELECT memory_ingest('s', 'user', 'Note: The roof is red.', markers => '{custom:house}');
         SELECT memory_ingest('s', 'user', 'Note: Decision: we use PostgreSQL for the shop.')",
    );
    scene.end_episode();
    scene.drain();
    let markers = |scene: &mut crate::scene::Scene, fact: &str| scene.fact(fact).markers;
    assert_eq!(markers(&mut scene, "The shop opens in May."), ["goal"]);
    assert_eq!(markers(&mut scene, "The roof is red."), ["custom:house"]);
    assert_eq!(markers(&mut scene, "Decision: we use PostgreSQL for the shop."), ["decision"]);
    run(&mut scene.client, "SET memory_agent.auto_detect_markers = off");
    scene.episode(&[
        "Change: The shop opens in May. => The shop opens in June.",
        "Note: Decision: we use Rust for the kiosk.",
        "Yes.",
    ]);
    assert!(markers(&mut scene, "Decision: we use Rust for the kiosk.").is_empty());
}

#[test]
fn what_was_said_before_a_fact_does_not_end_it() {
    let mut scene = start(obedient);
    scene.episode(&[&format!("Note: {OSLO}"), &format!("Note: {RENT}"), "Yes."]);
    // An import of what was said the year before.
    let said = [
        format!("Change: {OSLO} => {LISBON}"),
        format!("End: {RENT} => {FLAT}"),
        format!("Note: {LAPTOP}"),
    ];
    for text in &said {
        let sql = "SELECT memory_ingest('s', 'user', $1, created_at => now() - interval '1 year')";
        scene.client.execute(sql, &[text]).expect("ingest");
    }
    scene.end_episode();
    scene.drain();
    assert_eq!(scene.facts(), [LAPTOP, OSLO, RENT]);
    assert_eq!(scene.fact(FLAT).state, "inactive");
    let (lisbon, oslo) = (scene.fact(LISBON), scene.fact(OSLO));
    assert_eq!((lisbon.state.as_str(), lisbon.replaced_by), ("inactive", Some(oslo.id)));
    let then: Vec<String> = memory_agent_e2e::memory::recalled_texts(
        &mut scene.client,
        "'Which city does the user live in?', 's', kinds => '{fact}', as_of => now() - interval '6 months'",
    );
    assert!(then.contains(&LISBON.to_owned()) && !then.contains(&OSLO.to_owned()), "{then:?}");
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
        format!("End: {RENT} => {FLAT}"),
        format!("End: {jupiter} => Jupiter has rings."),
        format!("Note: {LAPTOP}"),
    ];
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    memory_agent_e2e::memory::ingest_all(&mut scene.client, "t", &said);
    run(&mut scene.client, "SELECT memory_close_episode('t')");
    scene.drain();
    assert_eq!(
        scene.facts_by_session(),
        [
            "s: Jupiter has moons.".to_owned(),
            format!("s: {LAPTOP}"),
            "t: Jupiter has rings.".to_owned(),
            format!("t: {OSLO}"),
            format!("t: {FLAT}"),
        ]
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
        (scene.episodes(), scene.unextracted_turns()),
        (vec!["3 reflected manual".to_owned()], 1)
    );
}
