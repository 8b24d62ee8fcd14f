//! What an assistant repeats of a fact is out of date as soon as the fact is.

use crate::scene::Scene;
use memory_agent_e2e::Uuid;
use memory_agent_e2e::llm::ScriptedModel;
use memory_agent_e2e::memory::{Recalled, recall, run, value};

const QUESTION: &str = "Which city does the user live in?";
const ROME: &str = "User lives in Rome.";
const OSLO: &str = "User lives in Oslo.";

/// A conversation of one session: a minute of the 3rd of May 2023, a role, a text.
const MOVED: [(u32, &str, &str); 4] = [
    (0, "user", "I live in Rome."),
    (1, "assistant", "Noted. You live in Rome, a city with many cats."),
    (10, "user", "I moved to Oslo."),
    (11, "assistant", "Noted. You live in Oslo."),
];

fn model() -> ScriptedModel {
    ScriptedModel::new()
        .knows("I live in Rome.", "home", "Rome", ROME)
        .knows("I moved to Oslo.", "home", "Oslo", OSLO)
        .knows("My rent is 810 euros.", "rent", "810", "The rent of the user is 810 euros.")
        .knows_the_end("My rent is 945 euros.", "rent", "945", "The rent of the user is 945 euros.")
}

#[track_caller]
fn say(scene: &mut Scene, session: &str, (minute, role, text): (u32, &str, &str)) -> Uuid {
    let sql =
        format!("SELECT memory_ingest($1, $2, $3, created_at => '2023-05-03 10:{minute:02}+00')");
    value(&mut scene.client, &sql, &[&session, &role, &text])
}

/// Says all of it; what becomes of it is waited for after each turn, or in the end only.
#[track_caller]
fn talk(scene: &mut Scene, session: &str, turns: &[(u32, &str, &str)], is_slow: bool) -> Vec<Uuid> {
    let said = (turns.iter())
        .map(|turn| {
            let id = say(scene, session, *turn);
            if is_slow {
                scene.drain();
            }
            id
        })
        .collect();
    scene.drain();
    said
}

#[track_caller]
fn asked(scene: &mut Scene, session: &str, further: &str) -> Vec<Recalled> {
    recall(&mut scene.client, &format!("'{QUESTION}', '{session}'{further}"))
}

fn row(rows: &[Recalled], id: Uuid) -> Option<&Recalled> {
    rows.iter().find(|row| row.id == id)
}

/// The rows without a text that say which turns repeat something.
fn kept(scene: &mut Scene, session: &str) -> i64 {
    value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries \
          WHERE kind = 'fact' AND content = '' AND session_id = $1",
        &[&session],
    )
}

/// Of the answers to a conversation like [`MOVED`] the first is out of date, the second is not.
#[track_caller]
fn is_settled(scene: &mut Scene, session: &str, said: &[Uuid]) {
    let oslo: Uuid = value(
        &mut scene.client,
        "SELECT id FROM memory_agent.entries \
          WHERE kind = 'fact' AND state = 'active' AND source_ids @> ARRAY[$1::uuid]",
        &[&said[2]],
    );
    let rows = asked(scene, session, "");
    let place = |id: Uuid| rows.iter().position(|row| row.id == id);
    let old = row(&rows, said[1]).expect("the first answer is demoted, not hidden");
    assert_eq!(old.metadata["superseded_by"], oslo.to_string(), "{rows:#?}");
    assert!(place(oslo) < place(said[1]), "{rows:#?}");
    let new = row(&rows, said[3]).expect("the second answer");
    assert!(new.metadata.get("superseded_by").is_none(), "{rows:#?}");
    run(&mut scene.client, "SET memory_agent.stale_sources = hide");
    let rows = asked(scene, session, "");
    run(&mut scene.client, "RESET memory_agent.stale_sources");
    assert!(row(&rows, said[1]).is_none() && row(&rows, said[3]).is_some(), "{rows:#?}");
}

#[test]
fn what_an_assistant_repeats_is_out_of_date_with_the_fact() {
    // Each part has sessions of its own, which say the same.
    let mut scene = Scene::with_settings(model(), &[("memory_agent.session_recall", "session")]);
    repeated_after_it_was_stored(&mut scene);
    repeated_before_it_was_stored(&mut scene);
    of_facts_of_all_sessions(&mut scene);
    up_to_date_before_the_change(&mut scene);
    up_to_date_when_the_fact_is_back(&mut scene);
    up_to_date_when_it_says_what_holds(&mut scene);
    after_a_contradiction(&mut scene);
    when_somebody_corrects_the_fact(&mut scene);
    erased_with_what_it_is_about(&mut scene);
}

fn repeated_after_it_was_stored(scene: &mut Scene) {
    let said = talk(scene, "slow", &MOVED, true);
    is_settled(scene, "slow", &said);
    assert_eq!(kept(scene, "slow"), 1);
}

fn repeated_before_it_was_stored(scene: &mut Scene) {
    scene.stub.hold(true);
    let said: Vec<Uuid> = MOVED.iter().map(|turn| say(scene, "fast", *turn)).collect();
    scene.stub.hold(false);
    scene.drain();
    is_settled(scene, "fast", &said);
}

fn of_facts_of_all_sessions(scene: &mut Scene) {
    run(&mut scene.client, "SET memory_agent.fact_scope = global");
    let first = talk(scene, "here", &MOVED[..2], false);
    let then = talk(scene, "there", &MOVED[2..], false);
    run(&mut scene.client, "RESET memory_agent.fact_scope");
    let rows = asked(scene, "here", "");
    let old = row(&rows, first[1]).expect("the answer");
    assert!(old.metadata.get("superseded_by").is_some(), "{rows:#?}");
    let rows = asked(scene, "there", "");
    let new = row(&rows, then[1]).expect("the answer");
    assert!(new.metadata.get("superseded_by").is_none(), "{rows:#?}");
    run(
        &mut scene.client,
        "SELECT memory_erase(session_id => 'here'), memory_erase(session_id => 'there')",
    );
}

fn up_to_date_before_the_change(scene: &mut Scene) {
    let said = talk(scene, "past", &MOVED, false);
    for (moment, is_stale) in [("10:05", false), ("10:20", true)] {
        let rows = asked(scene, "past", &format!(", as_of => '2023-05-03 {moment}+00'"));
        let old = row(&rows, said[1]).expect("the first answer");
        assert_eq!(old.metadata.get("superseded_by").is_some(), is_stale, "{moment}: {rows:#?}");
        assert!(rows.iter().all(|row| !row.content.is_empty()), "{rows:#?}");
    }
}

fn up_to_date_when_the_fact_is_back(scene: &mut Scene) {
    let said = talk(scene, "back", &MOVED, false);
    let restore = "SELECT memory_forget(new.id), memory_restore(old.id) \
        FROM memory_agent.entries old JOIN memory_agent.entries new ON new.id = old.replaced_by \
       WHERE old.session_id = 'back' AND old.content = 'User lives in Rome.'";
    run(&mut scene.client, restore);
    let rows = asked(scene, "back", "");
    for turn in [said[0], said[1]] {
        let turn = row(&rows, turn).expect("said of Rome");
        assert!(turn.metadata.get("superseded_by").is_none(), "{rows:#?}");
    }
}

fn up_to_date_when_it_says_what_holds(scene: &mut Scene) {
    let both = "You live in Rome. Or rather: you live in Oslo.";
    let turns = [MOVED[0], (5, "assistant", both), MOVED[2]];
    let said = talk(scene, "both", &turns, false);
    assert_eq!(kept(scene, "both"), 0);
    let rows = asked(scene, "both", "");
    let answer = row(&rows, said[1]).expect("the answer");
    assert!(answer.metadata.get("superseded_by").is_none(), "{rows:#?}");
}

fn after_a_contradiction(scene: &mut Scene) {
    let said = talk(
        scene,
        "rent",
        &[
            (0, "user", "My rent is 810 euros."),
            (1, "assistant", "The rent of the user is 810 euros, I see."),
            (2, "assistant", "The rent of the neighbour is 810 euros."),
            (10, "user", "My rent is 945 euros."),
        ],
        false,
    );
    let rows = recall(&mut scene.client, "'How much is the rent of the user?', 'rent'");
    let is_stale =
        |id: Uuid| row(&rows, id).is_some_and(|row| row.metadata.get("superseded_by").is_some());
    assert!(is_stale(said[0]) && is_stale(said[1]), "{rows:#?}");
    assert!(!is_stale(said[2]) && !is_stale(said[3]), "{rows:#?}");
}

fn when_somebody_corrects_the_fact(scene: &mut Scene) {
    let said = talk(scene, "corrected", &MOVED[..2], false);
    let correct = "SELECT memory_update(id, 'User lives in Rieti.') FROM memory_agent.entries \
                    WHERE kind = 'fact' AND session_id = 'corrected'";
    let rieti: Uuid = value(&mut scene.client, correct, &[]);
    let rows = asked(scene, "corrected", "");
    let answer = row(&rows, said[1]).expect("the answer");
    assert_eq!(answer.metadata["superseded_by"], rieti.to_string(), "{rows:#?}");
}

fn erased_with_what_it_is_about(scene: &mut Scene) {
    let said = talk(scene, "erased", &MOVED, false);
    assert_eq!(kept(scene, "erased"), 1);
    run(&mut scene.client, &format!("SELECT memory_erase(id => '{}')", said[0]));
    let holds_rome: i64 = value(
        &mut scene.client,
        "SELECT count(*) FROM memory_agent.entries \
          WHERE session_id = 'erased' AND kind = 'fact' AND content LIKE '%Rome%'",
        &[],
    );
    assert_eq!(holds_rome, 0, "a repetition does not keep the fact of a turn that was erased");
    run(&mut scene.client, &format!("SELECT memory_erase(id => '{}')", said[1]));
    assert_eq!(kept(scene, "erased"), 0, "the turn took along what was noted about it");
    talk(scene, "gone", &MOVED, false);
    assert_eq!(kept(scene, "gone"), 1);
    run(&mut scene.client, "SELECT memory_erase(session_id => 'gone')");
    assert_eq!(kept(scene, "gone"), 0);
}

/// A fact that says all of the one before it and more ends nothing that was said.
#[test]
fn what_is_only_added_to_holds() {
    let mut scene = Scene::start(model());
    let add = "SELECT memory_add($1, session_id => 's', fact_key => 'drinks', infer => false)";
    say(&mut scene, "s", (0, "assistant", "Noted. You like tea."));
    for (fact, outdated) in [
        ("The user likes tea.", 0),
        ("The user likes tea and coffee.", 0),
        ("The user likes water.", 0),
    ] {
        value::<Uuid>(&mut scene.client, add, &[&fact]);
        assert_eq!(kept(&mut scene, "s"), outdated, "{fact}");
    }
    say(&mut scene, "s", (1, "assistant", "Noted. You like water."));
    value::<Uuid>(&mut scene.client, add, &[&"The user likes milk."]);
    assert_eq!(kept(&mut scene, "s"), 1);
}
