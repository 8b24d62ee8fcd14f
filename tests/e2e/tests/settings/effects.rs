//! Settings of postgresql.conf that say whose memory and which text: each in a cluster that has them.

use memory_agent_e2e::memory::{ingest, recall, run, try_recall, value};
use memory_agent_e2e::{Cluster, expect_error};

#[test]
fn text_search_config() {
    let cluster = Cluster::builder()
        .preload(true)
        .setting("memory_agent.text_search_config", "simple")
        .setting("memory_agent.max_content_bytes", 100)
        .start();
    let mut client = cluster.database("text_search_config").connect();
    run(&mut client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    ingest(&mut client, "s", "The cats sleep");
    let config: String = value(&mut client, "SELECT lexeme_config FROM memory_agent.entries", &[]);
    assert_eq!(config, "simple");
    assert!(recall(&mut client, "'cat'").is_empty(), "words are not stemmed");
    assert_eq!(recall(&mut client, "'cats'").len(), 1);
    assert_eq!(recall(&mut client, "'the'").len(), 1, "there are no stop words");
}

#[test]
fn max_content_bytes() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.max_content_bytes", "100B").start();
    let mut client = cluster.database("max_content_bytes").connect();
    ingest(&mut client, "s", &"ö".repeat(50));
    for call in [
        "memory_ingest('s', 'user', repeat('x', 101))",
        "memory_ingest('s', 'user', repeat('ö', 51))",
        "memory_ingest('s', 'user', 'x', metadata => jsonb_build_object('k', repeat('x', 100)))",
        "memory_add(repeat('x', 101), infer => false)",
        "memory_embed(repeat('x', 101))",
        "memory_context('s', repeat('x', 101))",
    ] {
        let message = expect_error(client.query(&format!("SELECT {call}"), &[]), "22023");
        assert!(message.contains("100"), "{call}: {message}");
    }
    // It may be raised at any time.
    cluster.alter_system("memory_agent.max_content_bytes", Some("1kB"));
    let mut client = cluster.connect("max_content_bytes");
    run(&mut client, "SET memory_agent.user_id = 'alice'");
    ingest(&mut client, "s", &"x".repeat(1024));
    let longer = client.query("SELECT memory_ingest('s', 'user', repeat('x', 1025))", &[]);
    expect_error(longer, "22023");
}

#[test]
fn identity() {
    let cluster =
        Cluster::builder().preload(true).setting("memory_agent.identity", "required").start();
    let database = cluster.database("identity");
    run(
        &mut database.connect(),
        "CREATE ROLE carol LOGIN; SELECT memory_grant('carol');
         SET memory_agent.embed_on_ingest = off;
         SELECT memory_ingest('s', 'user', 'apple of alice')",
    );
    let mut carol = cluster.connect_as("identity", "carol");
    run(&mut carol, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
    expect_error(try_recall(&mut carol, "'apple'"), "42501");
    run(&mut carol, "SET memory_agent.user_id = 'alice'");
    assert_eq!(recall(&mut carol, "'apple'").len(), 1, "the role is trusted to name users");

    cluster.alter_system("memory_agent.identity", Some("role"));
    let mut carol = cluster.connect_as("identity", "carol");
    run(&mut carol, "SET memory_agent.rerank = off; SET memory_agent.user_id = 'alice'");
    assert!(recall(&mut carol, "'apple'").is_empty(), "the role is who she is");
    expect_error(try_recall(&mut carol, "'apple', user_id => 'alice'"), "42501");
    ingest(&mut carol, "s", "apple of carol");
    let mut owner = cluster.connect("identity");
    let user: String = value(
        &mut owner,
        "SELECT user_id FROM memory_agent.entries WHERE content = 'apple of carol'",
        &[],
    );
    assert_eq!(user, "carol");
}
