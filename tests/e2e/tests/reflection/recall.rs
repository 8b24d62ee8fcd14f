//! What reflection is for: a recall within a token budget that puts marked facts and the running
//! episode first.

use crate::scene::Scene;
use crate::script::{obedient, start};
use memory_agent_e2e::memory::{Recalled, recall, run};

#[test]
fn marked_facts_and_the_running_episode_come_first_within_the_budget() {
    let mut scene = start(obedient);
    // Two facts that fit the question equally well; one of them is marked.
    let backup = "SELECT memory_ingest('s', 'user', 'Note: The import of the customer files goes through the \
                  backup server.', markers => '{constraint}')";
    run(&mut scene.client, backup);
    scene.episode(&[
        "Note: The import of the customer files goes through the staging server.",
        "Note: Anna is a pilot.",
    ]);
    for number in 0..6 {
        scene.say(&format!("Step {number}: copy folder {number}."));
    }
    run(&mut scene.client, "SET memory_agent.rerank = off; SET memory_agent.recency_weight = 0");
    let question = "'Which server does the import of the customer files go through?', 's'";
    let facts = |weight: f64, scene: &mut Scene| -> Vec<Recalled> {
        run(&mut scene.client, &format!("SET memory_agent.marker_weight = {weight}"));
        recall(&mut scene.client, &format!("{question}, kinds => '{{fact}}'"))
    };
    let marked = |rows: &[Recalled]| -> f32 {
        rows.iter().find(|row| row.content.contains("backup")).expect("the marked fact").score
    };
    let log_odds = |score: f32| (score / (1.0 - score)).ln();
    let unmarked = facts(0.0, &mut scene);
    let boost = log_odds(marked(&facts(0.1, &mut scene))) - log_odds(marked(&unmarked));
    assert!((boost - 0.16).abs() < 1e-2, "a constraint adds 4 * .4 times the weight, not {boost}");
    let first = &facts(1.0, &mut scene)[0];
    assert!(first.content.contains("backup") && first.markers == ["constraint"], "{first:?}");

    // The budget has room for a few rows: half of it is the running episode's, the rest is filled by
    // rank, and it is never exceeded.
    for budget in [20, 40, 60, 100] {
        let rows = recall(&mut scene.client, &format!("{question}, token_budget => {budget}"));
        let used: i32 = rows.iter().map(|row| row.token_count).sum();
        assert!(used <= budget, "{used} of {budget}");
        let steps: Vec<&str> = rows
            .iter()
            .map(|row| row.content.as_str())
            .filter(|content| content.starts_with("Step"))
            .collect();
        assert!(steps.iter().any(|step| step.starts_with("Step 5")), "{budget}: {rows:#?}");
        if budget >= 40 {
            assert!(rows.iter().any(|row| row.content.contains("backup")), "{budget}: {rows:#?}");
        }
    }
}

/// A turn whose fact was removed says what no longer holds, like one whose fact was updated.
#[test]
fn a_turn_whose_fact_was_removed_ranks_below_what_was_said_against_it() {
    const RENT: &str = "The user's monthly rent is 810 euros.";
    const FLAT: &str = "The user's flat costs no monthly rent since it was bought.";
    let mut scene = start(obedient);
    let first = scene.episode(&[&format!("Note: {RENT}"), "Note: Anna is a pilot.", "Yes."]);
    let second = scene.episode(&[&format!("End: {RENT} => {FLAT}"), "Really?", "Yes."]);
    assert_eq!(scene.facts(), ["Anna is a pilot.", FLAT]);
    let rows = recall(&mut scene.client, "'How much is the monthly rent?', 's'");
    let place = |id| rows.iter().position(|row| row.id == id);
    let (said, ended) = (place(first[0]), place(second[0]));
    assert!(ended.is_some() && said.is_none_or(|said| Some(said) > ended), "{rows:#?}");
    assert!(rows.iter().all(|row| row.kind != "fact" || row.content != RENT));
    run(&mut scene.client, "SET memory_agent.stale_sources = hide");
    let rows = recall(&mut scene.client, "'How much is the monthly rent?', 's'");
    assert!(rows.iter().all(|row| row.id != first[0]), "{rows:#?}");
}
