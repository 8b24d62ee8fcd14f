//! The harness itself: clusters start, stop, crash and replicate, and leave nothing behind.

use memory_agent_e2e::{Cluster, StopMode, processes, shared};

#[test]
fn shared_cluster_has_the_extension() {
    let database = shared().database("smoke");
    let version: String = database
        .connect()
        .query_one("SELECT extversion FROM pg_extension WHERE extname = 'memory_agent'", &[])
        .unwrap()
        .get(0);
    assert!(!version.is_empty());
    let server = shared().model_server_pid();
    assert!(shared().processes().iter().any(|process| process.pid == server));
}

#[test]
fn cluster_survives_kill_and_leaves_nothing() {
    let cluster = Cluster::builder().start();
    cluster.connect("postgres").batch_execute("CREATE TABLE kept ()").unwrap();
    cluster.connect("postgres").batch_execute("CHECKPOINT").unwrap();
    cluster.kill_postmaster();
    cluster.wait_for_no_processes();
    cluster.start();
    cluster.connect("postgres").batch_execute("TABLE kept").unwrap();
    cluster.alter_system("memory_agent.max_entries", Some("7"));
    let seen: String = cluster
        .connect("postgres")
        .query_one(
            "SELECT setting FROM pg_file_settings WHERE name = 'memory_agent.max_entries'",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(seen, "7");
    let data = cluster.data();
    cluster.stop(StopMode::Fast);
    assert!(processes::of_data_directory(&data).is_empty());
    drop(cluster);
    assert!(!data.exists());
}

#[test]
fn standby_follows() {
    let primary = Cluster::builder().start();
    let standby = primary.standby();
    primary.connect("postgres").batch_execute("CREATE TABLE followed AS SELECT 1 AS one").unwrap();
    primary.wait_for_replay(&standby);
    let mut reader = standby.connect("postgres");
    let row = reader.query_one("SELECT one, pg_is_in_recovery() FROM followed", &[]).unwrap();
    assert!(row.get::<_, i32>(0) == 1 && row.get::<_, bool>(1));
}
