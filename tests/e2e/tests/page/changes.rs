//! What readers change: they correct, forget, restore and erase, and see what comes of it.

use crate::reader::{Reader, read};
use crate::{ALLERGY, ALLERGY_SAID, database, gateway, with_life};
use memory_agent_e2e::Client;
use memory_agent_e2e::memory::{run, value};

fn path(id: &str, what: &str) -> String {
    format!("/ui/memory/{id}{what}")
}

fn recalled(client: &mut Client, question: &str) -> String {
    let sql = "SELECT string_agg(content, ' | ') FROM memory_recall($1, top_k => 3)";
    value::<Option<String>>(client, sql, &[&question]).unwrap_or_default()
}

#[test]
fn a_fact_is_corrected() {
    let mut client = with_life("changes_correct");
    let gateway = gateway("changes_correct", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page(&path(ALLERGY, ""));
    let right = "Lena is allergic to hazelnuts\r\nand walnuts.";
    let reply = reader.post(&path(ALLERGY, "/correct"), &[("content", right)]);
    assert_eq!(reply.status, 303, "{}", reply.text());
    let place = reply.header("location").unwrap().to_owned();
    assert!(place.ends_with("?done=corrected") && !place.contains(ALLERGY), "{place}");
    let text = read(&reader.page(&place));
    assert!(text.contains("Corrected."), "{text}");
    let found = recalled(&mut client, "What is Lena allergic to?");
    assert!(found.contains("hazelnuts\nand walnuts."), "{found}");
    let facts = read(&reader.page("/ui"));
    assert!(facts.contains("Before Lena is allergic to hazelnuts. until"), "{facts}");
    let reply = reader.post(&path(ALLERGY, "/correct"), &[("content", "Again.")]);
    assert_eq!(reply.status, 409, "it does not hold any more");
    let refused = reader.post(&path(ALLERGY, "/restore"), &[]);
    assert_eq!(refused.status, 409);
    assert!(read(refused.text()).contains("is a later version of it"), "{}", refused.text());
    let empty = reader.post(&place.replace("?done=corrected", "/correct"), &[("content", "")]);
    assert_eq!(empty.status, 400);
}

#[test]
fn a_memory_is_forgotten_and_restored() {
    let mut client = with_life("changes_forget");
    let gateway = gateway("changes_forget", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page(&path(ALLERGY_SAID, ""));
    let reason = [("reason", "said in jest")];
    let reply = reader.post(&path(ALLERGY_SAID, "/forget"), &reason);
    let place = reply.header("location").unwrap().to_owned();
    assert_eq!(place, path(ALLERGY_SAID, "?done=forgotten"));
    let page = reader.page(&place);
    assert!(read(&page).contains("Forgotten. It is not used any more"), "{page}");
    let text = read(&page);
    let forgotten = text.split_once("You had this forgotten, ").unwrap().1;
    let because = "Reason: said in jest. Lena is allergic to hazelnuts, so please";
    assert!(forgotten.contains(because), "{text}");
    assert!(!text.contains("This is not remembered any more."), "one notice says it: {text}");
    let later = read(&reader.page(&path(ALLERGY_SAID, "")));
    assert!(later.contains("This is not remembered any more."), "{later}");
    assert!(!recalled(&mut client, "What must never be suggested?").contains("so please"));
    let again = reader.post(&path(ALLERGY_SAID, "/forget"), &[]);
    assert_eq!(again.header("location"), Some(&*path(ALLERGY_SAID, "?done=nothing")));
    let reply = reader.post(&path(ALLERGY_SAID, "/restore"), &[]);
    assert_eq!(reply.header("location"), Some(&*path(ALLERGY_SAID, "?done=restored")));
    assert!(recalled(&mut client, "What must never be suggested?").contains("so please"));
}

fn rows(client: &mut Client) -> i64 {
    value(client, "SELECT count(*) FROM memory_agent.entries", &[])
}

#[test]
fn what_will_go_is_shown_and_only_the_typed_word_erases() {
    let mut client = with_life("changes_erase");
    let gateway = gateway("changes_erase", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page(&path(ALLERGY_SAID, ""));
    let all = rows(&mut client);
    let one = ("id", ALLERGY_SAID);
    let shown = read(reader.post("/ui/erase", &[one]).text());
    assert!(shown.contains("What will go") && shown.contains("with old versions 2"), "{shown}");
    assert!(shown.contains("Type erase to confirm"), "{shown}");
    assert_eq!(rows(&mut client), all, "that was only a look");
    for word in ["", "Erase", "yes"] {
        let reply = reader.post("/ui/erased", &[one, ("word", word)]);
        assert!(
            read(reply.text()).contains("You typed something else, so nothing was erased."),
            "{word}"
        );
        assert_eq!(rows(&mut client), all, "{word}");
    }
    let gone = read(reader.post("/ui/erased", &[one, ("word", " erase ")]).text());
    assert!(
        gone.contains("It is gone for good.") && gone.contains("with old versions 2"),
        "{gone}"
    );
    assert_eq!(rows(&mut client), all - 2, "with the fact that was made of nothing else");
    assert_eq!(reader.get(&path(ALLERGY_SAID, "")).status, 404);
    assert_eq!(reader.get(&path(ALLERGY, "")).status, 404);
}

#[test]
fn a_session_and_everything_are_erased() {
    let mut client = with_life("changes_erase_all");
    run(
        &mut client,
        "SET memory_agent.user_id = 'bob'; SELECT memory_ingest('s', 'user', 'Of bob.')",
    );
    let gateway = gateway("changes_erase_all", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/session?session=work");
    let session = [("session", "work"), ("agent", "default")];
    let shown = read(reader.post("/ui/erase", &session).text());
    assert!(shown.contains("The session work goes"), "{shown}");
    let reply = reader.post("/ui/erased", &[&session[..], &[("word", "work")]].concat());
    assert!(read(reply.text()).contains("It is gone for good."), "{}", reply.text());
    assert_eq!(reader.get("/ui/session?session=work").status, 404);
    assert_eq!(reader.get("/ui/session?session=moving").status, 200);
    reader.page("/ui/files");
    let everything = ("everything", "yes");
    let shown = read(reader.post("/ui/erase", &[everything]).text());
    assert!(shown.contains("Everything that is remembered of ann goes"), "{shown}");
    let kept = reader.post("/ui/erased", &[everything, ("word", "bob")]);
    assert!(read(kept.text()).contains("nothing was erased."));
    let reply = reader.post("/ui/erased", &[everything, ("word", "ann")]);
    assert!(read(reply.text()).contains("It is gone for good."), "{}", reply.text());
    let left: String =
        value(&mut client, "SELECT string_agg(content, ',') FROM memory_agent.entries", &[]);
    assert_eq!(left, "Of bob.");
    let nothing = reader.post("/ui/erase", &[]);
    assert_eq!(nothing.status, 400);
}

#[test]
fn what_all_users_share_is_shown_and_cannot_be_changed() {
    let mut client = database("changes_shared");
    run(
        &mut client,
        "SELECT memory_add('The office closes at six.', infer => false, user_id => '*')",
    );
    let gateway = gateway("changes_shared", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let page = reader.page("/ui");
    assert!(read(&page).contains("The office closes at six. since"), "{page}");
    assert!(read(&page).contains("shared with all users"), "{page}");
    let id = page.split_once("/ui/memory/").unwrap().1.split('"').next().unwrap().to_owned();
    let one = reader.page(&path(&id, ""));
    assert!(!one.contains("/forget") && !one.contains("/ui/erase"), "{one}");
    reader.page("/ui/files");
    let reply = reader.post(&path(&id, "/forget"), &[]);
    assert_eq!(reply.header("location"), Some(&*path(&id, "?done=nothing")));
    assert_eq!(reader.post(&path(&id, "/correct"), &[("content", "x")]).status, 404);
    let erased = read(reader.post("/ui/erased", &[("id", &id), ("word", "erase")]).text());
    assert!(erased.contains("Nothing: there is no such memory."), "{erased}");
    let left: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(left, 1);
}
