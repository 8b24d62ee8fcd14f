//! What calls of the LLM cost, and `memory_agent.llm_daily_tokens`: every call counts that somebody may
//! have to pay, also when its answer was not read or its transaction did not commit.

use crate::failures::{failure, own_scene};
use crate::scene::{PATIENCE, Session, said};
use memory_agent_e2e::memory::value;
use memory_agent_e2e::processes::signal;
use memory_agent_e2e::{Cluster, wait_until};

#[test]
fn the_tokens_of_a_day_are_a_limit_for_chats_too() {
    let (stub, cluster) = own_scene(&[("memory_agent.llm_daily_tokens", "5")]);
    let mut session = Session::open(&cluster, "agent");
    let first = session.chat(&said("Hello!"), "'s'");
    assert!(first.get("error").is_none(), "{first}");
    let second = session.chat(&said("Hello again!"), "'s', model => 'another'");
    let (code, message) = failure(&second);
    assert!(code == "unavailable" && message.contains("llm_daily_tokens"), "{message}");
    assert_eq!(stub.call_count(), 1);
    assert_eq!(session.turns("s").len(), 3, "what the user said is stored");
}

/// The rows of `llm_calls` are rolled back, the tokens are spent.
#[test]
fn what_is_rolled_back_counts_among_the_tokens_of_a_day() {
    let settings = [("memory_agent.llm_daily_tokens", "5"), ("memory_agent.extraction", "off")];
    let (stub, cluster) = own_scene(&settings);
    let mut session = Session::open(&cluster, "agent");
    let chat = format!("SELECT memory_chat('{}', 's')", said("Hello!"));
    session.client.batch_execute(&format!("BEGIN; {chat}; ROLLBACK")).unwrap();
    let refused = session.chat(&said("Hello again!"), "'s'");
    assert!(failure(&refused).1.contains("llm_daily_tokens"), "{refused}");
    assert_eq!(stub.call_count(), 1);

    // The worker makes rows of them.
    cluster.alter_system("memory_agent.worker", Some("on"));
    cluster.alter_system("memory_agent.llm_daily_tokens", Some("0"));
    let calls = "SELECT count(*) FROM memory_agent.llm_calls WHERE purpose = 'chat'";
    let mut wait_for = |count: i64| {
        wait_until(PATIENCE, "the rows of the calls", || {
            session.client.query_one(calls, &[]).unwrap().get::<_, i64>(0) == count
        });
    };
    wait_for(1);
    let mut other = cluster.connect("agent");
    for end in ["ROLLBACK TO a; COMMIT", "RELEASE a; COMMIT", "RELEASE a; ROLLBACK"] {
        other.batch_execute(&format!("BEGIN; SAVEPOINT a; {chat}; {end}")).unwrap();
    }
    wait_for(4);
    other
        .batch_execute(&format!(
            "DO $$ BEGIN PERFORM memory_chat('{}', 's'); \
                                            PERFORM 1 / 0; \
                                   EXCEPTION WHEN division_by_zero THEN END $$",
            said("Hello!")
        ))
        .unwrap();
    wait_for(5);
    assert_eq!(stub.call_count(), 5);
}

#[test]
fn with_a_limit_of_tokens_nothing_is_asked_that_cannot_be_counted() {
    let (stub, cluster) = own_scene(&[("memory_agent.llm_daily_tokens", "1000000")]);
    let mut session = Session::open(&cluster, "agent");
    let ask = format!("SELECT memory_augment('{}', 's')", said("Hello!"));
    session.client.batch_execute("SET memory_agent.query_rewrite = on").unwrap();
    session.client.batch_execute(&format!("BEGIN READ ONLY; {ask}; COMMIT")).unwrap();
    assert_eq!(stub.call_count(), 0);
    session.client.batch_execute(&ask).unwrap();
    assert!(stub.call_count() > 0);
}

/// One call uses up the tokens of the day.
const ONE_CALL: [(&str, &str); 2] =
    [("memory_agent.llm_daily_tokens", "5"), ("memory_agent.extraction", "off")];

/// Lets the worker record what is left, without a limit.
fn settle(cluster: &Cluster) {
    cluster.alter_system("memory_agent.worker", Some("on"));
    cluster.alter_system("memory_agent.llm_daily_tokens", Some("0"));
}

/// `purpose status` of the calls on record that have a number of prompt tokens.
fn counted(session: &mut Session) -> Vec<String> {
    let calls = "SELECT coalesce(string_agg(purpose || ' ' || status, ',' ORDER BY purpose), '') \
                   FROM memory_agent.llm_calls WHERE prompt_tokens > 5";
    let calls: String = value(&mut session.client, calls, &[]);
    calls.split(',').filter(|call| !call.is_empty()).map(str::to_owned).collect()
}

const QUESTION: &str = "Where did I leave the keys of the garden shed this morning?";

#[test]
fn a_call_whose_answer_nobody_reads_counts_among_the_tokens_of_a_day() {
    for (statement, recorded) in [
        (format!("SELECT memory_chat('{}', 's')", said(QUESTION)), "chat abandoned"),
        (
            format!(
                "SET memory_agent.query_rewrite = on; SELECT memory_augment('{}', 's')",
                said(QUESTION)
            ),
            "rewrite abandoned",
        ),
        (format!("SELECT memory_summarize('{}', 16)", QUESTION.repeat(20)), "summarize abandoned"),
    ] {
        let (stub, cluster) = own_scene(&ONE_CALL);
        let mut session = Session::open(&cluster, "agent");
        let mut other = Session::connect(&cluster, "agent");
        let token = other.client.cancel_token();
        stub.hold(true);
        let running = std::thread::spawn(move || {
            let ended = other.client.batch_execute(&statement);
            (other, ended)
        });
        wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
        let refused = session.chat(&said("Hello!"), "'s'");
        assert!(failure(&refused).1.contains("llm_daily_tokens"), "in flight: {refused}");
        token.cancel_query(postgres::NoTls).unwrap();
        let (mut other, ended) = running.join().unwrap();
        ended.unwrap_err();
        for session in [&mut session, &mut other] {
            let refused = session.chat(&said("Hello again!"), "'s'");
            assert!(failure(&refused).1.contains("llm_daily_tokens"), "{recorded}: {refused}");
        }
        // The model server may learn late that nobody waits, and would ask again for an answer it cannot use.
        assert_eq!(stub.call_count(), 1, "{recorded}");
        stub.hold(false);
        settle(&cluster);
        wait_until(PATIENCE, recorded, || counted(&mut session) == [recorded]);
    }
}

#[test]
fn the_call_of_a_killed_backend_counts_among_the_tokens_of_a_day() {
    let (stub, cluster) = own_scene(&ONE_CALL);
    let mut session = Session::open(&cluster, "agent");
    let pid: i32 = value(&mut session.client, "SELECT pg_backend_pid()", &[]);
    stub.hold(true);
    let running = std::thread::spawn(move || {
        session.client.execute(&format!("SELECT memory_chat('{}', 's')", said(QUESTION)), &[])
    });
    wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
    signal(pid, libc::SIGKILL);
    running.join().unwrap().unwrap_err();
    stub.hold(false);
    wait_until(PATIENCE, "the cluster to be back", || {
        cluster
            .config("agent")
            .connect(postgres::NoTls)
            .is_ok_and(|mut client| client.query("SELECT memory_embed('x')", &[]).is_ok())
    });
    let mut session = Session::connect(&cluster, "agent");
    let refused = session.chat(&said("Hello again!"), "'s'");
    assert!(failure(&refused).1.contains("llm_daily_tokens"), "{refused}");
    assert_eq!(stub.call_count(), 1);
    settle(&cluster);
    wait_until(PATIENCE, "its row", || counted(&mut session) == ["chat abandoned"]);
}

/// The answer of the LLM is lost with the model server.
#[test]
fn the_calls_of_a_killed_model_server_count_among_the_tokens_of_a_day() {
    let (stub, cluster) = own_scene(&ONE_CALL);
    let mut session = Session::open(&cluster, "agent");
    stub.hold(true);
    let running = std::thread::spawn(move || {
        let document = session.chat(&said(QUESTION), "'s'");
        (session, document)
    });
    wait_until(PATIENCE, "the LLM to be asked", || stub.in_flight() == 1);
    signal(cluster.model_server_pid(), libc::SIGKILL);
    let (mut session, document) = running.join().unwrap();
    stub.hold(false);
    assert_eq!(failure(&document).0, "unavailable");
    assert_eq!(counted(&mut session), ["chat abandoned"]);
    // What never reached an LLM costs nothing.
    let refused = session.chat(&said("Hello again!"), "'s'");
    assert!(failure(&refused).1.contains("llm_daily_tokens"), "{refused}");
    assert_eq!(session.recorded().len(), 1);
}

#[test]
fn the_calls_of_one_statement_count_for_each_other() {
    let (stub, cluster) = own_scene(&ONE_CALL);
    let mut session = Session::open(&cluster, "agent");
    let chats = "SELECT memory_chat($1, 's') FROM generate_series(1, 3)";
    session.client.query(chats, &[&said("Hello!")]).unwrap();
    assert_eq!(stub.call_count(), 1);
}
