//! Which rows the cross-encoder reads, and what of them.

use super::{relevance_only, weighted};
use memory_agent_e2e::memory::{explain, ingest, ingest_all, recall, run, value};
use memory_agent_e2e::{Client, Cluster, Json, expect_error, shared};

const QUESTION: &str = "'How many people live in Berlin?'";
const ANSWER: &str = "Ada keeps the spare key under the blue pot.";

/// How many rows were read: those that have a logit.
fn read(document: &Json) -> usize {
    let candidates = document["candidates"].as_array().unwrap();
    let read = candidates.iter().filter(|row| row["logit"].is_number()).count();
    assert_eq!(document["rows"]["reranked"], read, "{document}");
    read
}

fn years(client: &mut Client) {
    let turns: Vec<String> = (0..40)
        .map(|n| format!("In {} people lived in Berlin, and {n} in huts.", 1900 + n))
        .collect();
    ingest_all(client, "s", &turns.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn so_many_of_the_most_promising_rows_are_read() {
    let mut client = shared().database("rerank_rows").connect();
    years(&mut client);
    relevance_only(&mut client);
    run(&mut client, "SET memory_agent.rerank = on");
    // Unread rows come after read ones by a rule of this formula; see learned.rs for the other.
    weighted(&mut client);
    let default: String = value(&mut client, "SHOW memory_agent.rerank_rows", &[]);
    assert_eq!(read(&explain(&mut client, QUESTION)), default.parse::<usize>().unwrap());
    let pool = explain(&mut client, QUESTION)["rows"]["pool"].as_u64().unwrap() as usize;
    for rows in [1, 12, pool, 100] {
        run(&mut client, &format!("SET memory_agent.rerank_rows = {rows}"));
        assert_eq!(read(&explain(&mut client, QUESTION)), rows.min(pool));
    }

    run(&mut client, "SET memory_agent.rerank_rows = 12");
    let some = explain(&mut client, QUESTION);
    let candidates = some["candidates"].as_array().unwrap();
    let of = |is_read: bool, value: &str| {
        let rows = candidates.iter().filter(|row| row["logit"].is_null() != is_read);
        rows.filter_map(|row| row[value].as_f64()).collect::<Vec<_>>()
    };
    let least = of(true, "fused").into_iter().fold(f64::INFINITY, f64::min);
    assert!(of(false, "fused").iter().all(|fused| *fused <= least), "the best come first");
    let worst = of(true, "logit")
        .into_iter()
        .map(|logit| 1.0 / (1.0 + (-logit).exp()))
        .fold(f64::INFINITY, f64::min);
    for row in candidates.iter().filter(|row| row["logit"].is_null()) {
        if let Some(relevance) = row["relevance"].as_f64() {
            assert!(relevance <= 0.5 * worst + 0.5 + 1e-6, "{row}");
        }
    }
    // One call may say otherwise, and the session's name is still the second of the other function.
    let document =
        |client: &mut Client, arguments: &str| explain(client, &format!("{QUESTION}, {arguments}"));
    assert_eq!(read(&document(&mut client, "rerank_rows => 3")), 3);
    let rows = recall(
        &mut client,
        &format!("{QUESTION}, rerank_rows => 3, session_id => 's', top_k => 40"),
    );
    assert!(rows.len() > 3);
    assert_eq!(document(&mut client, "'elsewhere'")["rows"]["pool"], 0);
    assert_eq!(read(&document(&mut client, "NULL")), 12);
    for rows in ["-1", "101"] {
        let call = format!("SELECT memory_explain({QUESTION}, rerank_rows => {rows})");
        assert!(expect_error(client.query(&call, &[]), "22023").contains("rerank_rows"));
    }
    // None are as no reranker.
    run(&mut client, "BEGIN");
    let none = document(&mut client, "rerank_rows => 0");
    assert_eq!((read(&none), &none["reranking"]), (0, &Json::from("off")));
    let rows = recall(&mut client, &format!("{QUESTION}, rerank_rows => 0"));
    assert_eq!(rows, recall(&mut client, &format!("{QUESTION}, rerank => false")));
    run(&mut client, "COMMIT");
}

#[test]
fn another_server_gives_the_same_logits() {
    let cluster = Cluster::builder().preload(true).start();
    let database = cluster.database("rows_again");
    years(&mut database.connect());
    let logits = || -> Vec<(String, Option<f64>)> {
        let asked = format!("{QUESTION}, as_of => '2100-01-01'");
        let document = explain(&mut database.connect(), &asked);
        assert!(read(&document) > 1);
        let rows = document["candidates"].as_array().unwrap().iter();
        rows.map(|row| (row["id"].to_string(), row["logit"].as_f64())).collect()
    };
    let (first, server) = (logits(), cluster.model_server_pid());
    cluster.restart();
    assert_eq!(logits(), first, "bit for bit");
    assert_ne!(cluster.model_server_pid(), server);
}

#[test]
fn of_a_long_row_the_passage_with_the_answer_is_read() {
    let mut client = shared().database("rows_long").connect();
    let filler = "The harbour was closed that week, and the ships had to wait outside. ";
    let chunk = format!("{}{ANSWER} {}", filler.repeat(20), filler.repeat(20));
    client.execute("SELECT memory_add_document($1, 'Log')", &[&chunk]).unwrap();
    // Far more than any model reads, and found by its words.
    run(&mut client, "SET memory_agent.embed_on_ingest = off");
    let turn = format!("{}{ANSWER} {}", filler.repeat(700), filler.repeat(100));
    ingest(&mut client, "s", &turn);
    for n in 0..12 {
        ingest(&mut client, "s", &format!("Ship {n} has no key, and pot {n} is not blue."));
    }
    let question = "Where does Ada keep the spare key?";
    let mut logits = |texts: &[&str]| -> Vec<f32> {
        value(&mut client, "SELECT memory_rerank($1, $2)", &[&question, &texts])
    };
    let [alone, beginning] = logits(&[ANSWER, &turn])[..] else { panic!() };
    assert!(alone > beginning + 8.0, "{alone} {beginning}");
    run(&mut client, "SET memory_agent.rerank_rows = 6");
    let document = explain(&mut client, &format!("'{question}'"));
    assert_eq!(read(&document), 6, "a long row takes the place of no other");
    let long = document["candidates"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["token_count"].as_i64() > Some(100));
    let logits: Vec<f64> = long.map(|row| row["logit"].as_f64().expect("a logit")).collect();
    assert!(logits.len() == 2, "{document}");
    for logit in logits {
        assert!(logit > f64::from(alone) - 3.0, "{logit}, alone {alone}");
    }
}
