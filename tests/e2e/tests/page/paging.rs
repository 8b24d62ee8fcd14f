//! Long lists, page by page: everything is there once, though many rows have the same time.

use crate::reader::{Reader, read};
use crate::{ROLE, cluster, database, gateway};
use memory_agent_e2e::http::request;
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway, Json, bindir, json, wait_until};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// Nobody waits longer than needed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Follows the links to the next page; the numbers of what is shown on each.
fn pages(reader: &mut Reader, first: &str, relation: &str, word: &str) -> Vec<Vec<u32>> {
    let mut path = first.to_owned();
    let mut pages = Vec::new();
    loop {
        let page = reader.page(&path);
        let shown = page.split_once("<main").unwrap().1.split("</main>").next().unwrap().to_owned();
        let numbers = read(&shown);
        let numbers = numbers.split(word).skip(1).filter_map(|rest| {
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
        });
        let mut numbers: Vec<u32> = numbers.collect();
        numbers.dedup();
        pages.push(numbers);
        assert!(pages.len() < 20, "the pages end");
        let Some(link) = page.split_once(&format!("rel=\"{relation}\" href=\"")) else {
            return pages;
        };
        path = link.1.split('"').next().unwrap().replace("&amp;", "&");
    }
}

fn all_of(pages: &[Vec<u32>], count: usize, most: usize) {
    assert!(pages.iter().all(|page| page.len() <= most), "{pages:?}");
    let all: Vec<u32> = pages.iter().flatten().copied().collect();
    assert_eq!(all.len(), count, "each once: {pages:?}");
    let wanted: BTreeSet<u32> = (1..=count as u32).collect();
    assert_eq!(all.into_iter().collect::<BTreeSet<u32>>(), wanted);
}

#[test]
fn long_lists_are_read_page_by_page() {
    let mut client = database("paging");
    // Ten at a time have the same time.
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; \
         SELECT memory_add('Number ' || n || '.', infer => false, \
                           created_at => '2026-01-01'::timestamptz + (n / 10) * interval '1 day') \
           FROM generate_series(1, 130) n; \
         SELECT memory_ingest('long', 'user', 'Turn ' || n || '.', \
                              created_at => '2026-01-01'::timestamptz + (n / 10) * interval '1 minute') \
           FROM generate_series(1, 130) n; \
         SELECT memory_ingest('chat ' || n || ' of many', 'user', 'Hello.', \
                              created_at => '2025-01-01'::timestamptz + (n / 10) * interval '1 day') \
           FROM generate_series(1, 75) n",
    );
    let gateway = gateway("paging", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let facts = pages(&mut reader, "/ui", "next", "Number ");
    all_of(&facts, 130, 50);
    let oldest = pages(&mut reader, "/ui?sort=oldest", "next", "Number ");
    all_of(&oldest, 130, 50);
    assert!(oldest[0][0] < 10, "the oldest come first: {oldest:?}");
    let sessions = pages(&mut reader, "/ui/sessions", "next", "chat ");
    all_of(&sessions, 75, 30);
    let turns = pages(&mut reader, "/ui/session?session=long", "prev", "Turn ");
    all_of(&turns, 130, 40);
    let back = reader.page("/ui/session?session=long");
    let earlier = back.split_once("rel=\"prev\" href=\"").unwrap().1.split('"').next().unwrap();
    let earlier = reader.page(&earlier.replace("&amp;", "&"));
    let later = earlier.split_once("rel=\"next\" href=\"").unwrap().1.split('"').next().unwrap();
    let later = reader.page(&later.replace("&amp;", "&"));
    assert!(read(&later).contains("Turn 130."), "and back again: {later}");
    assert_eq!(reader.get("/ui?from=2026-01-01_x").status, 400);
}

#[test]
fn what_fits_is_found_however_far_back_it_is() {
    let mut client = database("paging_choice");
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; \
         SELECT memory_add('Number ' || n || '.', infer => false, \
                           markers => CASE WHEN n IN (1, 2, 3, 1190) THEN '{goal}'::text[] END, \
                           created_at => '2026-01-01'::timestamptz + n * interval '1 minute') \
           FROM generate_series(1, 1200) n",
    );
    let gateway = gateway("paging_choice", Some("ann"));
    let mut reader = Reader::of(&gateway);
    for (path, first) in [("/ui?marker=goal", 1190), ("/ui?marker=goal&sort=oldest", 1)] {
        let found = pages(&mut reader, path, "next", "Number ");
        let all: Vec<u32> = found.iter().flatten().copied().collect();
        assert_eq!((all.len(), all[0]), (4, first), "{path}: {found:?}");
        assert!(found.len() <= 3, "each page looks through 500: {found:?}");
    }
    let page = read(&reader.page("/ui?key=nothing"));
    assert!(page.contains("None of these facts fits.") && page.contains("Earlier facts"), "{page}");
    assert!(read(&reader.page("/ui")).contains("More than 500 facts."));
}

/// Rows of entries that were read so far, by sequential scans and through indexes.
fn rows_read(client: &mut Client) -> i64 {
    value(
        client,
        "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::int8 FROM pg_stat_user_tables \
          WHERE relid = 'memory_agent.entries'::regclass",
        &[],
    )
}

/// Stores facts and turns from one number to another, in another order than that of their times. They are as if
/// everything had been done with them, so that nothing else counts them.
fn fill(client: &mut Client, from: u32, to: u32) {
    for (kind, role, session) in [("fact", "memory", "NULL"), ("turn", "user", "'long'")] {
        run(
            client,
            &format!(
                "INSERT INTO memory_agent.entries (id, user_id, agent_id, session_id, kind, role, content, \
                        created_at, token_count, doc_len, lexemes, lexeme_config, embedding, embedding_model, \
                        extracted_at) \
                 SELECT gen_random_uuid(), 'ann', 'default', {session}, '{kind}', '{role}', 'Number ' || n || '.', \
                        '2026-01-01'::timestamptz - (n * 7919 % 100003) * interval '1 minute', 2, 2, '', 'simple', \
                        '[1]', 'none', now() \
                   FROM generate_series({from}, {to}) n"
            ),
        );
    }
    run(client, "VACUUM ANALYZE memory_agent.entries");
}

/// How many rows of entries are read while something looks at them through connections of its own.
fn while_looking(client: &mut Client, look: impl FnOnce()) -> i64 {
    run(client, "SELECT pg_stat_force_next_flush()");
    let before = rows_read(client);
    look();
    // Connections say what they read when they end.
    wait_until(PATIENCE, "the connections to end", || {
        value::<i64>(
            client,
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'memory-agent' \
                AND datname = current_database()",
            &[],
        ) == 0
    });
    rows_read(client) - before
}

fn newest_fact(client: &mut Client) -> String {
    value(
        client,
        "SELECT id::text FROM memory_list(kind => 'fact', \"limit\" => 1, user_id => 'ann')",
        &[],
    )
}

/// A look at each list of the page, the page after it, and one memory.
fn look_at_pages(newest: &str) {
    let gateway = gateway("paging_many", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let memory = format!("/ui/memory/{newest}");
    for (path, relation) in [
        ("/ui", Some("next")),
        ("/ui/session?session=long", Some("prev")),
        ("/ui/sessions", None),
        ("/ui?marker=none", None),
        ("/ui?sort=oldest&key=none", None),
        (memory.as_str(), None),
    ] {
        let page = reader.page(path);
        if let Some(relation) = relation {
            let link = page.split_once(&format!("rel=\"{relation}\" href=\"")).unwrap().1;
            let next = link.split('"').next().unwrap().replace("&amp;", "&");
            assert!(read(&reader.page(&next)).contains("Number "), "{next}");
        }
    }
}

/// A look at the lists of mem0's routes and of MCP's tools, the page after each, and one memory.
fn look_at_programs(newest: &str) {
    let gateway = gateway("paging_many", Some("ann"));
    let ask = |method: &str, path: &str, body: Json| {
        let headers = [
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        let reply = request(gateway.address(), method, path, &headers, body.to_string().as_bytes());
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    };
    for page in 1..=2 {
        let found = ask("POST", "/v3/memories/", json!({"page": page, "page_size": 40}));
        assert_eq!(found["results"].as_array().unwrap().len(), 40);
        assert_eq!(found["count"], Json::Null);
        assert_eq!(found["next"], format!("/v3/memories/?page={}&page_size=40", page + 1));
    }
    assert_eq!(ask("GET", &format!("/v1/memories/{newest}/"), json!({}))["id"], *newest);
    for kind in ["fact", "turn"] {
        let mut cursor = Json::Null;
        for _ in 0..2 {
            let arguments = json!({"kind": kind, "limit": 40, "cursor": cursor});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                              "params": {"name": "list_memories", "arguments": arguments}});
            let found = &ask("POST", "/mcp", call)["result"]["structuredContent"];
            assert_eq!(found["memories"].as_array().unwrap().len(), 40, "{found}");
            cursor = found["next_cursor"].clone();
        }
    }
}

/// An export of everything; how many memories are in it.
fn export() -> usize {
    let output = Command::new(bindir().join("memory-agent"))
        .env_clear()
        .args(["export", "--user", "ann", "-", "--database"])
        .arg(Gateway::database(cluster(), ROLE, "paging_many"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
}

#[test]
fn a_page_reads_no_more_rows_of_a_hundred_times_as_many_memories() {
    let mut client = database("paging_many");
    run(&mut client, "SELECT memory_ingest('long', 'user', 'The first turn.')");
    let looks: [fn(&str); 2] = [look_at_pages, look_at_programs];
    let look = |client: &mut Client| {
        let newest = newest_fact(client);
        looks.map(|look| while_looking(client, || look(&newest)))
    };
    fill(&mut client, 1, 500);
    let few = look(&mut client);
    fill(&mut client, 501, 50_000);
    let many = look(&mut client);
    for (few, many) in few.into_iter().zip(many) {
        let numbers = format!("{few} rows of 1,000 memories, {many} of 100,000");
        assert!(few > 100 && many <= few + few / 5, "{numbers}");
    }
    // A page of all kinds reads one of each.
    let mut written = 0;
    let read = while_looking(&mut client, || written = export());
    assert_eq!(written, 100_001);
    assert!(read <= 300_003, "{read} rows are read for {written} memories");
}
