//! The gateway as its clients see it: real HTTP on both sides, a real cluster behind.

mod admins;
mod answers;
mod broken_off;
mod browsers;
mod captured;
mod clients;
mod codings;
mod demo;
mod doctor;
mod echo;
mod failures;
mod forms;
mod http;
mod jwts;
mod kills;
mod leaving;
mod libraries;
mod limits;
mod mcp;
mod mem0;
mod monitoring;
mod passages;
mod passing;
mod people;
mod protocols;
mod proxy;
#[path = "../common/random.rs"]
#[allow(dead_code, reason = "shared with suites that use other parts")]
mod random;
mod relay;
mod service;
mod services;
mod sessions;
mod spending;
mod streams;
mod taken_back;
mod terminal;
mod tls;
mod tool_loops;
mod turns;
mod upstream;
mod web;
mod wire;

use memory_agent_e2e::memory::{run, values};
use memory_agent_e2e::{Client, Cluster, Gateway, keep};
use std::sync::OnceLock;
use std::time::Duration;
use upstream::Upstream;

/// Nobody waits longer than needed, and a busy machine needs a while.
const PATIENCE: Duration = Duration::from_secs(60);
/// The gateway's role, with the level `gateway`.
const ROLE: &str = "gateway";
/// Longer than any test takes, in milliseconds: memory is late only where a test is about that.
const NEVER_LATE: &str = "60000";
/// From now on memory refuses what an assistant says.
const NO_ANSWERS: &str = "ALTER TABLE memory_agent.entries \
    ADD CONSTRAINT no_answers CHECK (role IS DISTINCT FROM 'assistant')";

/// A server that insists on a user in every transaction. Nothing is made of what is stored.
fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<&'static Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let cluster = Cluster::builder()
            .preload(true)
            .setting("memory_agent.worker", "off")
            .setting("memory_agent.identity", "required")
            .start();
        run(&mut cluster.connect("postgres"), &format!("CREATE ROLE {ROLE} LOGIN"));
        keep(cluster)
    })
}

/// A database with the extension in which the gateway has its level, and a superuser's session in it.
fn database(cluster: &Cluster, name: &str) -> Client {
    let mut superuser = cluster.plain_database(name);
    run(
        &mut superuser,
        &format!("CREATE EXTENSION memory_agent CASCADE; SELECT memory_grant('{ROLE}', 'gateway')"),
    );
    superuser
}

/// A gateway for ann alone, over a new database.
fn for_ann(name: &str, upstream: &Upstream, arguments: &[&str]) -> (Gateway, Client) {
    let client = database(cluster(), name);
    let database = Gateway::database(cluster(), ROLE, name);
    let url = upstream.url();
    let fixed =
        ["--database", &database, "--upstream", &url, "--messages-upstream", &url, "--user", "ann"];
    let patience = ["--patience", NEVER_LATE];
    let patience = if arguments.contains(&"--patience") { &[][..] } else { &patience[..] };
    (Gateway::start(&[&fixed, patience, arguments].concat()), client)
}

/// What is stored of a user's session, oldest first: role, content, and a mark if it was interrupted.
fn stored(client: &mut Client, user: &str, session: &str) -> Vec<String> {
    values(
        client,
        "SELECT concat(e.role, ': ', e.content, \
                       CASE WHEN e.metadata ->> 'interrupted' = 'true' THEN ' (interrupted)' END) \
           FROM memory_agent.entries e \
          WHERE e.user_id = $1 AND e.session_id = $2 AND e.state <> 'inactive' \
          ORDER BY e.created_at, e.id",
        &[&user, &session],
    )
}
