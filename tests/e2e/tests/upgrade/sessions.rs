//! An application of an older version may rely on sessions that know nothing of each other: they stay apart until
//! an administrator says otherwise.

use crate::{RELEASED, older_database, update};
use memory_agent_e2e::memory::{ingest, run, value, values};
use memory_agent_e2e::{Client, Json, json, shared_without_worker};

const MONDAY: &str = "My wife is called Anne.";

/// Whether prompts of another session are told it.
#[track_caller]
fn is_told(client: &mut Client) -> bool {
    let augment = "SELECT memory_augment('[{\"role\": \"user\", \"content\": \"What is my wife called?\"}]', 'tuesday')";
    let context = "SELECT memory_context('tuesday', 'What is my wife called?')";
    let told = [augment, context]
        .map(|prompt| value::<Json>(client, prompt, &[]).to_string().contains(MONDAY));
    assert_eq!(told[0], told[1]);
    told[0]
}

fn status(client: &mut Client) -> Vec<String> {
    let rows = "SELECT concat_ws(' | ', state, detail, hint) FROM memory_status() WHERE component = 'session_recall'";
    values(client, rows, &[])
}

#[test]
fn sessions_of_an_older_version_stay_apart() {
    for version in RELEASED {
        let name = format!("upgrade_sessions_{}", version.replace('.', "_"));
        let mut client = older_database(shared_without_worker(), &name, version);
        // What was stored for all users of the agent stays.
        let stored =
            "SELECT settings FROM memory_agent.agents WHERE user_id = '*' AND agent_id = 'default'";
        run(
            &mut client,
            "SELECT memory_configure(settings => '{\"auto_detect_markers\": false}', user_id => '*')",
        );
        ingest(&mut client, "monday", MONDAY);
        assert!(!is_told(&mut client), "{version}: as it was");
        assert!(status(&mut client).is_empty());

        update(&mut client);
        assert_eq!(
            value::<Json>(&mut client, stored, &[]),
            json!({"auto_detect_markers": false, "session_recall": "session"})
        );
        assert!(!is_told(&mut client), "{version}");
        let found = status(&mut client).join("");
        assert!(found.starts_with("session | ") && found.contains("\"default\""), "{found}");

        // An agent that had no sessions is as in a new database.
        run(&mut client, "SET memory_agent.agent_id = 'new'");
        ingest(&mut client, "monday", MONDAY);
        assert!(is_told(&mut client), "{version}");
        run(&mut client, "RESET memory_agent.agent_id");

        let hint = found.rsplit_once("SELECT ").unwrap().1.trim_end_matches('.');
        run(&mut client, &format!("SELECT {}", hint.replace("'...'", "'default'")));
        assert!(is_told(&mut client), "{version}");
        assert!(status(&mut client).is_empty());
    }
}

#[test]
fn without_sessions_nothing_is_kept_apart() {
    for version in RELEASED {
        let name = format!("upgrade_no_sessions_{}", version.replace('.', "_"));
        let mut client = older_database(shared_without_worker(), &name, version);
        update(&mut client);
        ingest(&mut client, "monday", MONDAY);
        assert!(is_told(&mut client), "{version}");
        assert!(status(&mut client).is_empty());
    }
}
