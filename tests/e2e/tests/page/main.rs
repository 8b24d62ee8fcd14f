//! The page `/ui`, as readers and attackers ask for it, and in a real browser.

mod accessible;
mod attacks;
mod browser;
mod changes;
mod everyday;
mod files;
mod finding;
mod known;
mod paging;
mod reader;
mod seconds;
mod views;
mod visits;

use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Cluster, Gateway, keep};
use std::sync::OnceLock;

/// The gateway's role, with the level `user`.
const ROLE: &str = "gateway";
/// Longer than any test takes, in milliseconds.
const NEVER_LATE: &str = "60000";
/// The ids of `life.sql`.
const LISBON: &str = "0199c3a5-0000-7000-8000-000000000a03";
const HAMBURG: &str = "0199c3a5-0000-7000-8000-000000000a01";
const ALLERGY: &str = "0199c3a5-0000-7000-8000-000000000a05";
const ALLERGY_SAID: &str = "0199c3a5-0000-7000-8000-000000000201";

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

/// A database with the extension in which the gateway has its level, and a superuser's session in it, as
/// ann.
fn database(name: &str) -> Client {
    let mut superuser = cluster().plain_database(name);
    run(
        &mut superuser,
        &format!(
            "CREATE EXTENSION memory_agent CASCADE; SELECT memory_grant('{ROLE}', 'gateway'); \
             SET memory_agent.user_id = 'ann'"
        ),
    );
    superuser
}

/// The same, with what is remembered of ann.
fn with_life(name: &str) -> Client {
    let mut superuser = database(name);
    run(&mut superuser, include_str!("life.sql"));
    superuser
}

/// A gateway over a database, for one person or with tokens.
fn gateway(name: &str, user: Option<&str>) -> Gateway {
    gateway_as(ROLE, name, user)
}

/// A gateway for one person, where another, or the same, is an administrator.
fn gateway_with_admins(name: &str, user: &str, admin: &str) -> Gateway {
    let mut superuser = cluster().connect(name);
    run(
        &mut superuser,
        "DO $$ BEGIN CREATE ROLE gateway_admin LOGIN; \
               EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$; \
         SELECT memory_grant('gateway_admin', 'admin')",
    );
    let (to, admins) = (
        Gateway::database(cluster(), ROLE, name),
        Gateway::database(cluster(), "gateway_admin", name),
    );
    let fixed = ["--database", &to, "--upstream", "http://127.0.0.1:9", "--patience", NEVER_LATE];
    Gateway::start(
        &[&fixed[..], &["--admin-database", &admins, "--admin", admin, "--user", user]].concat(),
    )
}

fn gateway_as(role: &str, name: &str, user: Option<&str>) -> Gateway {
    let database = Gateway::database(cluster(), role, name);
    let mut arguments = vec!["--database", &database, "--patience", NEVER_LATE];
    // Nothing is asked upstream here, and nothing answers there.
    arguments.extend(["--upstream", "http://127.0.0.1:9"]);
    if let Some(user) = user {
        arguments.extend(["--user", user]);
    }
    Gateway::start(&arguments)
}
