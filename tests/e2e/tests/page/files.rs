//! Export and import: what one takes along, another brings back.

use crate::reader::{Reader, read};
use crate::{NEVER_LATE, ROLE, cluster, database, gateway, with_life};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Gateway, wait_until};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that files carry, in order.
fn everything(client: &mut Client) -> Vec<String> {
    values(
        client,
        "SELECT concat_ws(' ', e.id, e.kind, e.role, e.agent_id, e.session_id, e.state, e.content, e.created_at, \
                          e.fact_key, e.confidence, e.source_ids, e.replaced_by, e.valid_to) \
           FROM memory_agent.entries e WHERE e.user_id = 'ann' \
         UNION ALL \
         SELECT concat_ws(' ', s.session_id, s.agent_id, s.level, s.content) \
           FROM memory_agent.session_summaries s WHERE s.user_id = 'ann' ORDER BY 1",
        &[],
    )
}

#[test]
fn what_was_exported_is_imported_elsewhere() {
    let mut client = with_life("files_from");
    run(
        &mut client,
        "SELECT memory_ingest('a/b', 'user', 'Hello, helper.', agent_id => 'helper/../x'); \
         SELECT memory_add('Ann likes rain.', infer => false, agent_id => 'helper/../x'); \
         SET memory_agent.user_id = 'bob'; SELECT memory_ingest('s', 'user', 'Of bob.')",
    );
    let from = gateway("files_from", Some("ann"));
    let mut reader = Reader::of(&from);
    let reply = reader.get("/ui/export");
    assert_eq!(reply.header("content-type"), Some("application/zip"));
    assert_eq!(reply.header("content-disposition"), Some("attachment; filename=\"memory.zip\""));
    let archive = reply.body;
    let mut other = database("files_to");
    let theres = gateway("files_to", Some("ann"));
    let mut there = Reader::of(&theres);
    there.page("/ui/files");
    for _ in 0..2 {
        let reply = there.upload("/ui/import", &[("memory.zip", &archive)]);
        let text = read(reply.text());
        assert!(text.contains("files are in memory.") && !text.contains("not stored"), "{text}");
        assert_eq!(everything(&mut other), everything(&mut client));
    }
    let session = reader.get("/ui/export?session=kitchen&agent=default");
    let names = String::from_utf8_lossy(&session.body).into_owned();
    assert!(names.contains("entries/kitchen/turns/") && !names.contains("entries/moving/"));
}

#[test]
fn files_that_are_wrong_are_named_and_the_others_stored() {
    let mut client = database("files_wrong");
    let gateway = gateway("files_wrong", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let good = b"---\nrole: memory\n---\nAnn likes tea.\n".as_slice();
    let wrong = b"---\nrole: nobody\n---\nx\n".as_slice();
    let files = [("entries/s/facts/tea.md", good), ("entries/s/facts/wrong.md", wrong)];
    let text = read(reader.upload("/ui/import", &files).text());
    assert!(text.contains("1 file is in memory."), "{text}");
    assert!(
        text.contains("1 file or memory was not stored: ") && text.contains("wrong.md"),
        "{text}"
    );
    let stored: Vec<String> = values(&mut client, "SELECT content FROM memory_agent.entries", &[]);
    assert_eq!(stored, ["Ann likes tea."]);
    assert_eq!(reader.upload("/ui/import", &[]).status, 400);
    assert_eq!(reader.upload("/ui/import", &[("x.zip", b"PK\x03\x04nothing")]).status, 400);
    assert_eq!(reader.upload("/ui/import", &[("x.md", &[0xff, 0xfe])]).status, 400);
}

/// The database refuses one memory, as too large (54) or for what is in it (23), and not all of them.
#[test]
fn what_the_database_refuses_is_named_and_the_others_stored() {
    let mut client = database("files_refused");
    run(
        &mut client,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             RAISE EXCEPTION 'too much' USING ERRCODE = substr(NEW.content, 9, 5); END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON memory_agent.entries \
             FOR EACH ROW WHEN (NEW.content LIKE 'Refused %') EXECUTE FUNCTION refuse()",
    );
    let gateway = gateway("files_refused", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let fact = |text: &str| format!("---\nrole: memory\n---\n{text}\n");
    let line = |text: &str| format!("{{\"role\": \"user\", \"content\": \"{text}\"}}\n");
    for (number, code) in ["54000", "23514"].into_iter().enumerate() {
        let (refused, good) = (format!("Refused {code}"), format!("Good {code}"));
        let lines = line(&refused) + &line(&good);
        let files = [
            ("entries/s/facts/1.md", fact(&refused)),
            ("entries/s/facts/2.md", fact(&good)),
            ("said.jsonl", lines),
        ];
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
        let reply = reader.upload("/ui/import", &files);
        let text = read(reply.text());
        assert_eq!(reply.status, 200, "{text}");
        assert!(
            text.contains("1 memory is stored") && text.contains("1 file is in memory."),
            "{text}"
        );
        assert!(text.contains("2 files or memories were not stored:"), "{text}");
        for place in ["said.jsonl: line 1 Too much.", "entries/s/facts/1.md Too much."] {
            assert!(text.contains(place), "{place}: {text}");
        }
        assert_eq!(stored(&mut client), 2 * (number as i64 + 1));
        let added = reader.post("/ui/add", &[("content", &refused), ("back", "/ui")]);
        assert_eq!(added.status, 400, "{}", read(added.text()));
    }
    // Anything else would be the same for all.
    let files = [("entries/s/facts/3.md", fact("Refused 58030"))];
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    assert_eq!(reader.upload("/ui/import", &files).status, 500);
}

/// What gzip makes of bytes.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let script =
        "import gzip, sys\nsys.stdout.buffer.write(gzip.compress(sys.stdin.buffer.read()))";
    piped(script, bytes)
}

#[test]
fn files_may_be_compressed() {
    let mut client = database("files_gzip");
    let gateway = gateway("files_gzip", Some("ann"));
    let mut reader = Reader::of(&gateway);
    assert!(reader.page("/ui/files").contains(",.gz\""), "the browser offers them");
    let line = b"{\"role\": \"user\", \"content\": \"I keep bees.\", \"session_id\": \"s\"}\n";
    let files = [
        ("said.jsonl.gz", compressed(line)),
        ("tea.md.gz", compressed(b"---\nrole: memory\n---\nAnn likes tea.\n")),
    ];
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, bytes)| (*path, bytes.as_slice())).collect();
    let shown = read(reader.upload("/ui/import/preview", &files).text());
    assert!(
        shown.contains("1 conversation, 1 memory") && shown.contains("1 Markdown file."),
        "{shown}"
    );
    let text = read(reader.upload("/ui/import", &files).text());
    assert!(text.contains("1 memory is stored") && text.contains("1 file is in memory."), "{text}");
    assert_eq!(stored(&mut client), 2);
    let broken = reader.upload("/ui/import", &[("said.jsonl.gz", &files[0].1[..20])]);
    let text = read(broken.text());
    assert!(broken.status == 400 && text.contains("said.jsonl.gz cannot be unpacked."), "{text}");
}

/// An archive of so many files, each of which is mostly blanks.
fn bomb(files: u32, bytes: usize) -> Vec<u8> {
    let script = format!(
        "import io, sys, zipfile\n\
         out = io.BytesIO()\n\
         with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:\n\
         \x20   for n in range({files}):\n\
         \x20       archive.writestr(f'entries/s/facts/{{n}}.md', \
                       f'---\\nrole: memory\\n---\\nNumber {{n}}.' + ' ' * {bytes})\n\
         sys.stdout.buffer.write(out.getvalue())"
    );
    piped(&script, b"")
}

/// What a script in Python makes of bytes.
fn piped(script: &str, bytes: &[u8]) -> Vec<u8> {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

fn stored(client: &mut Client) -> i64 {
    value(client, "SELECT count(*) FROM memory_agent.entries", &[])
}

#[test]
fn what_is_unpacked_counts_with_the_bodies_of_requests() {
    let mut client = database("files_unpacked");
    let to = Gateway::database(cluster(), ROLE, "files_unpacked");
    let limits = ["--max-body", "1000000", "--max-bodies", "8000000"];
    let fixed = ["--database", &to, "--upstream", "http://127.0.0.1:9", "--patience", NEVER_LATE];
    let gateway = Gateway::start(&[&fixed[..], &limits].concat());
    let [ann, bob]: [String; 2] = ["ann", "bob"]
        .map(|user| value(&mut client, "SELECT memory_create_token($1, 'browser')", &[&user]));
    let (mut ann, mut bob) = (Reader::signed_in(&gateway, &ann), Reader::signed_in(&gateway, &bob));
    ann.page("/ui/files");
    bob.page("/ui/files");
    // A quarter of the room is what one user has.
    let packed = bomb(5, 900_000);
    assert!(packed.len() < 100_000);
    let refused = ann.upload("/ui/import", &[("all.zip", &packed)]);
    assert_eq!(refused.status, 429, "{}", read(refused.text()));
    let line = format!("{{\"role\": \"user\", \"content\": \"x{}\"}}\n", " ".repeat(900_000));
    let packed = compressed(line.repeat(5).as_bytes());
    assert!(packed.len() < 100_000);
    ann.page("/ui/files");
    let refused = ann.upload("/ui/import", &[("all.jsonl.gz", &packed)]);
    assert_eq!(refused.status, 429, "{}", read(refused.text()));
    assert_eq!(stored(&mut client), 0);
    // It is free again, and small ones are let in.
    for reader in [&mut ann, &mut bob] {
        reader.page("/ui/files");
        let reply = reader.upload("/ui/import", &[("some.zip", &bomb(1, 900_000))]);
        let text = read(reply.text());
        assert!(text.contains("1 file is in memory."), "{text}");
    }
}

#[test]
fn one_import_at_a_time() {
    let mut client = database("files_turns");
    run(
        &mut client,
        "CREATE FUNCTION hold_up() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             PERFORM pg_advisory_xact_lock_shared(4712); RETURN NEW; END $$; \
         CREATE TRIGGER hold_up BEFORE INSERT ON memory_agent.entries \
             FOR EACH ROW EXECUTE FUNCTION hold_up()",
    );
    let mut holder = cluster().connect("files_turns");
    run(&mut holder, "SELECT pg_advisory_lock(4712)");
    let gateway = gateway("files_turns", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let mut other = Reader::of(&gateway);
    other.page("/ui/files");
    let file = b"---\nrole: memory\n---\nAnn likes tea.\n".as_slice();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| reader.upload("/ui/import", &[("tea.md", file)]).status);
        wait_until(PATIENCE, "the import to be held up", || {
            let waits = "SELECT count(*) FROM pg_stat_activity \
                          WHERE datname = current_database() AND wait_event = 'advisory'";
            value::<i64>(&mut client, waits, &[]) == 1
        });
        let refused = other.upload("/ui/import", &[("tea.md", file)]);
        let text = read(refused.text());
        assert!(refused.status == 429 && text.contains("An import of yours is running"), "{text}");
        run(&mut holder, "SELECT pg_advisory_unlock(4712)");
        assert_eq!(first.join().unwrap(), 200);
    });
    assert_eq!(other.upload("/ui/import", &[("tea.md", file)]).status, 200);
    assert_eq!(stored(&mut client), 1);
}
