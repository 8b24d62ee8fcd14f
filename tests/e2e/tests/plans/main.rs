//! What a statement of ours reads does not depend on how many rows others have: not by the plan that is made for
//! its parameters, nor by the generic one, which a connection changes to at the sixth execution.
//!
//! Every plan that runs is in the server's log (auto_explain), those of the worker's statements too, so nothing
//! has to be listed here. Every function is called ten times by one session, about what is there and what is not.

mod calls;
mod crowd;
#[path = "../isolation/llm.rs"]
mod llm;
mod log;

use crowd::Users;
use llm::Gossip;
use log::{Finding, OF_THE_TEST};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster};
use std::collections::BTreeSet;

/// One more than it takes to come to a generic plan, and some that use it.
const ROUNDS: usize = 10;
const DATABASE: &str = "plans";

struct Scene {
    client: Client,
    // Dropped after the client's session, the cluster last.
    _stub: LlmStub,
    cluster: Cluster,
}

impl Scene {
    /// A database in which others have many rows, and every plan is logged.
    fn start(users: Users, plan_cache_mode: &str) -> Self {
        let stub = LlmStub::start(Gossip::new());
        let mut builder = Cluster::builder()
            .setting("shared_preload_libraries", "memory_agent, auto_explain")
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", "stub-1")
            // Some jobs begin when a conversation is long, and here none is.
            .setting("memory_agent.compression_threshold_tokens", 300)
            .setting("memory_agent.archive_conversations", "on")
            .setting("memory_agent.max_entries", 12)
            .setting("plan_cache_mode", plan_cache_mode);
        for (name, value) in log::SETTINGS {
            builder = builder.setting(name, value);
        }
        let cluster = builder.start();
        let mut client = cluster.database(DATABASE).connect();
        run(&mut client, "SET auto_explain.log_min_duration = -1");
        crowd::add(&mut client, users);
        run(&mut client, "RESET auto_explain.log_min_duration");
        Self { client, cluster, _stub: stub }
    }

    /// Every call, ten times, and the jobs that come of them.
    fn play(&mut self) {
        run(&mut self.client, calls::SETUP);
        for round in 0..ROUNDS {
            for statement in calls::of_round(round) {
                if let Err(error) = self.client.simple_query(&statement) {
                    panic!("{statement}: {error:?}");
                }
            }
            let wait = format!("{OF_THE_TEST} SELECT memory_wait('60 s')");
            assert!(value::<bool>(&mut self.client, &wait, &[]), "jobs of round {round}");
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let plans = log::plans(&self.cluster);
        let tables = log::tables(&plans);
        // Else nothing was looked at.
        for table in crowd::LARGE {
            assert!(tables.contains_key(table), "no statement about {table}: {tables:?}");
        }
        log::findings(&plans)
    }
}

fn nothing_is_read_of_others(users: Users, plan_cache_mode: &str) {
    let mut scene = Scene::start(users, plan_cache_mode);
    scene.play();
    let findings = scene.findings();
    let shown: Vec<String> =
        findings.iter().map(|found| format!("{}\n    {}", found.what, found.statement)).collect();
    assert!(findings.is_empty(), "{} statements:\n{}", findings.len(), shown.join("\n"));
}

#[test]
fn generic_plans_read_nothing_of_many_others() {
    nothing_is_read_of_others(Users::Many, "force_generic_plan");
}

#[test]
fn generic_plans_read_nothing_of_a_few_others() {
    nothing_is_read_of_others(Users::Few, "force_generic_plan");
}

#[test]
fn the_plans_of_a_connection_read_nothing_of_many_others() {
    nothing_is_read_of_others(Users::Many, "auto");
}

#[test]
fn the_plans_of_a_connection_read_nothing_of_a_few_others() {
    nothing_is_read_of_others(Users::Few, "auto");
}

/// A function that is new has to be called here.
#[test]
fn every_function_is_called() {
    let mut client = memory_agent_e2e::shared().database("plans_functions").connect();
    let functions: Vec<String> = values(
        &mut client,
        "SELECT DISTINCT p.proname::text FROM pg_depend d \
           JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
           JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass \
          WHERE d.deptype = 'e' AND p.pronamespace = 'public'::regnamespace",
        &[],
    );
    let script = (0..ROUNDS).flat_map(calls::of_round).collect::<Vec<_>>().join("\n");
    let is_called = |name: &String| script.contains(&format!("{name}("));
    let left_out: BTreeSet<String> =
        functions.into_iter().filter(|name| !is_called(name)).collect();
    let expected = calls::LEFT_OUT.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(left_out, expected);
}
