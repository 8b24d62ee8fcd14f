//! Rows that an older version stored in the form in which they were written: they are found before the update and after
//! it, and a worker brings them into the forms of today.

use crate::{RELEASED, older_database, update};
use memory_agent_e2e::memory::{ingest, recalled_texts, run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, json, processes, wait_until};
use postgres::NoTls;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Letters and their accents apart, full width, a soft hyphen; the same as most write them.
const SALON: &str = "Chloe\u{301} Dupre\u{301} fu\u{308}hrt das Salon.";
const SALON_NOW: &str = "Chlo\u{e9} Dupr\u{e9} f\u{fc}hrt das Salon.";
const CODE: &str = "Der Code ist \u{ff21}\u{ff22}\u{ff23}\u{ff11}\u{ff12}\u{ff13}.";
const NUTS: &str = "妈妈对花生过敏，所以我们不买花生酱。";
/// A run of fourteen letters.
const SEASIDE: &str = "我们每年夏天都去青岛海边度假。";
const HOUSES: &str = "Die alten Ha\u{308}user stehen am Fluss.";
const DOCUMENT: &str = "Zoe\u{308} Re\u{301}gional: ge\u{f6}ffnet ab acht.";
/// Of which both forms are one.
const PLAIN: &str = "Anna's atelier Zo\u{eb} is closed on Mondays.";

/// The hash and the words that the older versions made of every row.
const AS_BEFORE: &str = "
    UPDATE memory_agent.entries e
       SET content_hash = sha256(convert_to(btrim(e.content), 'UTF8')), lexemes = o.lexemes, doc_len = o.length
      FROM (SELECT t.user_id, t.id, t.lexemes,
                   (SELECT coalesce(sum(cardinality(w.positions)), 0) FROM unnest(t.lexemes) w) AS length
              FROM (SELECT n.user_id, n.id, to_tsvector(n.lexeme_config::regconfig,
                           coalesce(n.metadata ->> 'name' || ': ', '') || n.content) AS lexemes
                      FROM memory_agent.entries n) t) o
     WHERE e.user_id = o.user_id AND e.id = o.id;
    UPDATE memory_agent.archives a SET content_hash = sha256(convert_to(btrim(a.content), 'UTF8'))";

/// A table that has been attached, with a row.
const NOTES: &str = "
    CREATE TABLE notes (id int PRIMARY KEY, body text, owner text, seen int);
    SELECT memory_attach('notes', 'body', 'owner', metadata_columns => '{seen}', backfill => false, embed => 'off');
    INSERT INTO notes VALUES (1, 'Zoe\u{301} hat Geburtstag.', 'alice', 0)";

/// A database of a version with such rows, in a cluster whose workers are off.
fn filled(cluster: &Cluster, name: &str, version: &str) -> (Client, [Uuid; 3]) {
    let mut client = older_database(cluster, name, version);
    by_words_alone(&mut client);
    for text in [NUTS, SEASIDE, PLAIN] {
        ingest(&mut client, "s", text);
    }
    run(
        &mut client,
        "SELECT memory_ingest('s', 'user', 'I am here.', metadata => '{\"name\": \"Rene\u{301}\"}')",
    );
    let houses = ingest(&mut client, "s", HOUSES);
    let german = "UPDATE memory_agent.entries SET lexeme_config = 'german' WHERE id = ";
    run(&mut client, &format!("{german}'{houses}'"));
    let ids = [SALON, CODE].map(|text| add(&mut client, text));
    let document = add_document(&mut client, DOCUMENT);
    if version != RELEASED[0] {
        run(&mut client, NOTES);
    }
    run(&mut client, AS_BEFORE);
    (client, [ids[0], ids[1], document])
}

fn by_words_alone(client: &mut Client) {
    run(client, "SET memory_agent.embed_on_ingest = off; SET memory_agent.rerank = off");
}

fn add(client: &mut Client, text: &str) -> Uuid {
    value(client, "SELECT memory_add($1, infer => false)", &[&text])
}

fn add_document(client: &mut Client, text: &str) -> Uuid {
    value(client, "SELECT memory_add_document($1)", &[&text])
}

fn finds(client: &mut Client, words: &str, text: &str) -> bool {
    recalled_texts(client, &format!("'{words}', session_id => 's'"))
        .iter()
        .any(|found| found == text)
}

/// What was found with the older version is, and what it knew is not stored twice.
#[track_caller]
fn is_as_before(client: &mut Client, ids: [Uuid; 3]) {
    for (words, text) in [
        ("Dupre\u{301}", SALON),
        ("\u{ff21}\u{ff22}\u{ff23}\u{ff11}\u{ff12}\u{ff13}", CODE),
        ("妈妈对花生过敏", NUTS),
        ("我们每年夏天都去青岛海边度假", SEASIDE),
        ("Rene\u{301}", "I am here."),
        ("Zo\u{eb}", PLAIN),
    ] {
        assert!(finds(client, words, text), "{words}");
    }
    assert_eq!([SALON, CODE].map(|text| add(client, text)), [ids[0], ids[1]]);
    assert_eq!(add_document(client, DOCUMENT), ids[2]);
    if value(client, "SELECT to_regclass('notes') IS NOT NULL", &[]) {
        run(client, "UPDATE notes SET seen = seen + 1");
        let of_notes =
            "SELECT count(*) FROM memory_agent.entries WHERE source_relation IS NOT NULL";
        assert_eq!(value::<i64>(client, of_notes, &[]), 1, "the row has one entry");
    }
}

fn status(client: &mut Client) -> Vec<String> {
    let row =
        "SELECT concat_ws('|', state, detail) FROM memory_status() WHERE component = 'older rows'";
    values(client, row, &[])
}

fn end_of_job(client: &mut Client) {
    let job = "SELECT status = 'done' FROM memory_agent.jobs WHERE kind = 'reindex'";
    wait_until(PATIENCE, "the rows to be indexed anew", || value(client, job, &[]));
}

#[test]
fn texts_in_other_forms_are_found_all_the_while() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    for version in RELEASED {
        cluster.alter_system("memory_agent.worker", Some("off"));
        let (mut client, ids) = filled(&cluster, &format!("forms_{version}"), version);
        // What has changed besides the hash, the words and a new column, if anything; and what the words are.
        let rest = "SELECT md5(string_agg((to_jsonb(e) - '{content_hash,lexemes,doc_len,doubted_by}'::text[])::text, '' ORDER BY e.id)) \
                      FROM memory_agent.entries e WHERE e.source_relation IS NULL";
        let rest_before: String = value(&mut client, rest, &[]);
        is_as_before(&mut client, ids);
        assert!(!finds(&mut client, "花生", NUTS) && !finds(&mut client, "Dupr\u{e9}", SALON));
        update(&mut client);
        is_as_before(&mut client, ids);
        assert_eq!(status(&mut client), ["pending|0 of 0 rows are looked at"]);

        cluster.alter_system("memory_agent.worker", Some("on"));
        end_of_job(&mut client);
        assert_eq!(status(&mut client), [""; 0]);
        is_as_before(&mut client, ids);
        for (words, text) in [
            ("花生", NUTS),
            ("青岛", SEASIDE),
            ("Dupr\u{e9}", SALON),
            ("ABC123", CODE),
            ("Ren\u{e9}", "I am here."),
        ] {
            assert!(finds(&mut client, words, text), "{words}");
        }
        assert_eq!(add(&mut client, SALON_NOW), ids[0]);
        assert_eq!(
            add_document(&mut client, "Zo\u{eb} R\u{e9}gional: ge\u{f6}ffnet ab acht."),
            ids[2]
        );
        // By the configuration of the row, not of the server.
        let houses = "SELECT lexemes::text FROM memory_agent.entries WHERE content = $1";
        let houses: String = value(&mut client, houses, &[&HOUSES]);
        assert_eq!(houses, "'alt':2 'fluss':6 'haus':3 'steh':4");
        assert_eq!(value::<String>(&mut client, rest, &[]), rest_before);
        let history: Vec<String> =
            values(&mut client, "SELECT state FROM memory_verify_history()", &[]);
        assert_eq!(history, ["intact"]);
    }
    // Where there are no rows there is nothing to do.
    let mut empty = older_database(&cluster, "forms_empty", RELEASED[1]);
    update(&mut empty);
    assert_eq!(value::<i64>(&mut empty, "SELECT count(*) FROM memory_agent.jobs", &[]), 0);
}

/// Two documents of an older version that differ in their form alone: both stay.
#[test]
fn documents_that_become_the_same_stay() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = older_database(&cluster, "forms_documents", RELEASED[1]);
    by_words_alone(&mut client);
    let first = add_document(&mut client, DOCUMENT);
    run(&mut client, AS_BEFORE);
    let now = "Zo\u{eb} R\u{e9}gional: ge\u{f6}ffnet ab acht.";
    let second = add_document(&mut client, now);
    assert_ne!(first, second);
    update(&mut client);
    cluster.alter_system("memory_agent.worker", Some("on"));
    end_of_job(&mut client);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM memory_list_documents()", &[]), 2);
    assert_eq!(add_document(&mut client, now), second);
    assert!([first, second].contains(&add_document(&mut client, DOCUMENT)));
}

/// Enough rows for several steps, which take long.
fn slowly_filled(cluster: &Cluster, name: &str) -> Client {
    let mut client = older_database(cluster, name, RELEASED[1]);
    by_words_alone(&mut client);
    let turns = "SELECT memory_ingest('s', 'user', 'Turn ' || i || ' of Rene\u{301}.') FROM generate_series(1, 300) i";
    run(&mut client, turns);
    run(&mut client, AS_BEFORE);
    run(
        &mut client,
        "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN PERFORM pg_sleep(0.005); RETURN new; END $$; \
         CREATE TRIGGER linger BEFORE UPDATE ON memory_agent.entries FOR EACH ROW EXECUTE FUNCTION linger()",
    );
    update(&mut client);
    client
}

/// The rows that have the forms of today, with the transaction of each.
const RENEWED: &str = "SELECT xmin || ' ' || id FROM memory_agent.entries \
    WHERE lexemes @@ 'ren\u{e9}'::tsquery ORDER BY id";

#[test]
fn a_killed_worker_goes_on_where_it_was() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = slowly_filled(&cluster, "forms_killed");
    cluster.alter_system("memory_agent.worker", Some("on"));
    wait_until(PATIENCE, "a step", || !values::<String>(&mut client, RENEWED, &[]).is_empty());
    let worker: i32 = value(
        &mut client,
        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'memory_agent worker' AND datname = 'forms_killed'",
        &[],
    );
    processes::signal(worker, libc::SIGKILL);
    wait_until(PATIENCE, "the connection to be lost", || client.batch_execute("").is_err());
    wait_until(PATIENCE, "PostgreSQL to take sessions", || {
        cluster.config("forms_killed").connect(NoTls).is_ok()
    });
    let mut client = cluster.connect("forms_killed");
    let before: Vec<String> = values(&mut client, RENEWED, &[]);
    assert!((1..300).contains(&before.len()), "{}", before.len());
    end_of_job(&mut client);
    let after: Vec<String> = values(&mut client, RENEWED, &[]);
    assert_eq!(after.len(), 300);
    assert!(before.iter().all(|row| after.contains(row)), "rows are written once");
    let job = "SELECT concat_ws(' ', interrupted, progress, progress_of, payload) FROM memory_agent.jobs \
                WHERE kind = 'reindex'";
    assert_eq!(value::<String>(&mut client, job, &[]), "1 300 300 {}");
}

/// A user who changes rows waits for no more than a step, and the job waits for the user.
#[test]
fn rows_in_use_are_left_for_later() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = slowly_filled(&cluster, "forms_in_use");
    let mut user = cluster.connect("forms_in_use");
    let last = "SELECT FROM memory_agent.entries ORDER BY id DESC LIMIT 1 FOR UPDATE";
    run(&mut user, &format!("BEGIN; {last}"));
    cluster.alter_system("memory_agent.worker", Some("on"));
    let waits = "SELECT status = 'pending' AND last_error = 'its rows are in use by another transaction' \
                   FROM memory_agent.jobs WHERE kind = 'reindex'";
    wait_until(PATIENCE, "the job to wait", || {
        value::<Option<bool>>(&mut client, waits, &[]) == Some(true)
    });
    assert_eq!(values::<String>(&mut client, RENEWED, &[]).len(), 299);
    assert_eq!(status(&mut client).len(), 1);
    run(&mut user, "COMMIT");
    end_of_job(&mut client);
    assert_eq!(values::<String>(&mut client, RENEWED, &[]).len(), 300);
}

/// A client that changes its last message is understood, whatever form the messages before it were stored in.
#[test]
fn what_a_client_takes_back_is_known() {
    let cluster = Cluster::builder().preload(true).setting("memory_agent.worker", "off").start();
    let mut client = older_database(&cluster, "forms_taken_back", RELEASED[1]);
    by_words_alone(&mut client);
    for (role, text) in [
        ("user", SALON),
        ("assistant", "Noted."),
        ("user", "Cafe\u{301} or tea?"),
        ("assistant", "Tea."),
    ] {
        run(&mut client, &format!("SELECT memory_ingest('t', '{role}', '{text}')"));
    }
    run(&mut client, AS_BEFORE);
    update(&mut client);
    let history =
        json!([{"role": "user", "content": SALON}, {"role": "assistant", "content": "Noted."}]);
    let once = "SELECT cardinality(replaced)::int8 FROM memory_ingest_once('t', 'user', 'Cafe\u{301} or cocoa?', history => $1)";
    assert_eq!(value::<i64>(&mut client, once, &[&history]), 2);
}
