//! What each view shows.

use crate::reader::{Reader, read};
use crate::{ALLERGY_SAID, HAMBURG, LISBON, database, gateway, gateway_with_admins, with_life};
use memory_agent_e2e::memory::{run, value};

#[test]
fn facts_say_what_they_replaced_and_what_they_were_made_from() {
    let _client = with_life("views_facts");
    let gateway = gateway("views_facts", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let page = reader.page("/ui");
    let text = read(&page);
    let order = ["one table per month", "no meat since", "Rua das Flores 12 in Lisbon", "Lena is"];
    let places: Vec<usize> = order.iter().map(|part| text.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "newest first: {text}");
    let home = text.split_once("Ann lives at Rua das Flores 12").unwrap().1;
    let home = home.split("May 2026").next().unwrap();
    assert!(home.contains("since 5 Sep 2026 home"), "{home}");
    let before = "Before Ann moves from Hamburg to Rua das Flores 12 in Lisbon in September 2026. until 5 Sep 2026";
    assert!(home.contains(before), "{home}");
    assert!(home.contains("And before Before Ann lives in Hamburg. until 18 Jun 2026"), "{home}");
    assert!(
        home.contains("We have arrived in Lisbon. Boxes everywhere. You 5 Sep 2026, 20:03 UTC")
    );
    let link = page.split_once("In the conversation").unwrap().0.rsplit_once("href=\"").unwrap().1;
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let there = reader.page(link.split('#').next().unwrap());
    let anchor = link.split_once('#').unwrap().1;
    assert!(there.contains(&format!("id=\"{anchor}\"")), "{link} leads to what was said");
}

#[test]
fn facts_of_a_time_are_those_that_held_then() {
    let _client = with_life("views_then");
    let gateway = gateway("views_then", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let text = read(&reader.page("/ui?as_of=2026-03-10T12:00"));
    assert!(text.contains("What held on 10 Mar 2026, 12:00 UTC : 2 facts."), "{text}");
    assert!(text.contains("Ann lives in Hamburg.") && !text.contains("Lisbon in Sep"), "{text}");
    assert!(text.contains("We live in Hamburg, near the harbour"), "its source: {text}");
    let reply = reader.get("/ui?as_of=yesterday");
    assert_eq!(reply.status, 400);
    assert!(read(reply.text()).contains("This is not a time"));
}

#[test]
fn sessions_have_their_summaries_and_what_was_said() {
    let _client = with_life("views_sessions");
    let gateway = gateway("views_sessions", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let list = read(&reader.page("/ui/sessions"));
    let order = ["12 Nov 2026 work", "24 Oct 2026 kitchen", "5 Sep 2026 moving"];
    let places: Vec<usize> = order.iter().map(|part| list.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "by day, newest first: {list}");
    assert!(list.contains("Recipes without hazelnuts for Lena"), "{list}");
    assert!(list.contains("3 messages 1 fact"), "{list}");
    let found = read(&reader.page("/ui/sessions?q=hazelnuts"));
    assert!(found.contains("kitchen Lena is allergic to hazelnuts, so please"), "{found}");
    assert!(!found.contains("PostgreSQL"), "{found}");
    assert!(read(&reader.page("/ui/sessions?q=MOVI")).contains("moving"), "by name");
    let one = read(&reader.page("/ui/session?session=kitchen&agent=default"));
    assert!(one.contains("Summary Recipes without hazelnuts"), "{one}");
    let said = one.find("Lena is allergic to hazelnuts, so please").unwrap();
    assert!(said < one.find("Understood: no hazelnuts").unwrap(), "oldest first: {one}");
    assert_eq!(reader.get("/ui/session?session=none").status, 404);
}

#[test]
fn search_shows_the_parts_of_scores_and_what_was_left_out() {
    let _client = with_life("views_search");
    let gateway = gateway("views_search", Some("ann"));
    let mut reader = Reader::of(&gateway);
    assert!(read(&reader.page("/ui/search")).contains("Ask as you would ask a person."));
    let page = reader.page("/ui/search?q=What+must+Lena+not+eat%3F&top=2");
    let text = read(&page);
    assert!(text.contains("2 answers out of 20 memories"), "{text}");
    let (found, left_out) = text.split_once("Left out").unwrap();
    assert!(found.contains("allergic to hazelnuts"), "{found}");
    let reason = "Left out: it is too improbable that it answers the question.";
    assert!(left_out.contains(reason), "what was dropped, and why: {left_out}");
    let verdicts = ["Likely", "Maybe", "Probably unrelated"];
    assert!(verdicts.iter().any(|verdict| found.contains(verdict)), "a verdict: {found}");
    assert!(found.contains("Both say “Lena”"), "{found}");
    for part in
        ["Why?", "Of a hundred memories like this one", "score", "relevance", "logit", "gap"]
    {
        assert!(found.contains(part), "{part}: {found}");
    }
    for jargon in ["mmr", "pool", "threshold", "reranked"] {
        assert!(!text.contains(jargon), "{jargon}: {text}");
    }
    assert!(page.matches("<rect class=\"value\" width=\"").count() >= 10, "one bar each");
    let then = read(&reader.page("/ui/search?q=Where+does+Ann+live%3F&as_of=2026-03-10T12:00"));
    let first = then.find("Ann lives in Hamburg.").expect("what held then");
    assert!(then.find("Rua das Flores").is_none_or(|place| place > first), "{then}");
    let inside = read(&reader.page("/ui/search?q=hazelnuts&session=kitchen"));
    assert!(inside.contains("no hazelnuts") && !inside.contains("Boxes everywhere"), "{inside}");
}

#[test]
fn a_memory_has_its_history_its_sources_and_what_was_learned_from_it() {
    let _client = with_life("views_memory");
    let gateway = gateway("views_memory", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let text = read(&reader.page(&format!("/ui/memory/{LISBON}")));
    assert!(text.contains("A fact Ann lives at Rua das Flores 12 in Lisbon."), "{text}");
    assert!(text.contains("Where it comes from We have arrived in Lisbon."), "{text}");
    assert!(
        text.contains("What happened to it This was imported, ")
            && text.contains("Ann lives in Hamburg.")
    );
    let old = read(&reader.page(&format!("/ui/memory/{HAMBURG}")));
    assert!(old.contains("This is not remembered any more. What took its place"), "{old}");
    let said = read(&reader.page(&format!("/ui/memory/{ALLERGY_SAID}")));
    assert!(said.contains("What was learned from it Lena is allergic to hazelnuts."), "{said}");
    for path in ["/ui/memory/0199c3a5-0000-7000-8000-00000000ffff", "/ui/memory/x", "/ui/nothing"] {
        assert_eq!(reader.get(path).status, 404, "{path}");
    }
}

#[test]
fn documents_are_shown_as_wholes() {
    let mut client = database("views_documents");
    run(
        &mut client,
        "SELECT memory_add_document('The harbour has nine piers. ' || repeat('Ships come and go. ', 20), 'Harbour')",
    );
    let gateway = gateway("views_documents", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let found = reader.page("/ui/search?q=How+many+piers%3F");
    let chunk = found.split_once("/ui/memory/").unwrap().1.split('"').next().unwrap().to_owned();
    let page = reader.page(&format!("/ui/memory/{chunk}"));
    assert!(read(&page).contains("The whole document"), "{page}");
    let whole = page.split_once("The whole document").unwrap().0;
    let whole = whole.rsplit_once("href=\"").unwrap().1.split('"').next().unwrap();
    let text = read(&reader.page(whole));
    assert!(
        text.contains("A document Harbour") && text.contains("Erase… The harbour has nine piers."),
        "{text}"
    );
}

#[test]
fn background_work_is_the_users_and_what_it_took_the_administrators() {
    let mut client = with_life("views_background");
    run(
        &mut client,
        "INSERT INTO memory_agent.jobs (id, kind, user_id, session_id, status, attempts, last_error) VALUES \
             (gen_random_uuid(), 'extract', 'ann', 'kitchen', 'dead', 5, 'the model said no'), \
             (gen_random_uuid(), 'extract', 'bob', 'secret', 'dead', 5, 'about bob'); \
         INSERT INTO memory_agent.llm_calls (id, user_id, purpose, model, prompt_tokens, completion_tokens, status) \
             VALUES (gen_random_uuid(), 'ann', 'extract', 'small', 1200, 34, 'ok'), \
                    (gen_random_uuid(), 'bob', 'extract', 'large', 77777, 88888, 'ok'); \
         SELECT memory_create_token('bob', 'phone')",
    );
    let gateway = gateway("views_background", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let text = read(&reader.page("/ui/background"));
    assert!(text.contains("1 task failed Learning facts from what was said failed"), "{text}");
    let reason = "Tried 5 times. The reason: the model said no. in kitchen";
    assert!(text.contains(reason), "{text}");
    assert!(text.contains("the model said no") && !text.contains("bob"), "{text}");
    assert!(!text.contains("Language models") && !text.contains("1200"), "{text}");
    // Who started the gateway for one person sees the server; no part that does not run is green.
    assert!(text.contains("Server") && text.contains("model server"), "{text}");
    let page = reader.page("/ui/background");
    let worker = page.split_once(">worker<").unwrap().1.split("</tr>").next().unwrap();
    assert!(worker.contains("data-state=\"idle\">not running"), "{worker}");
    let token: String = value(&mut client, "SELECT memory_create_token('ann', 'browser')", &[]);
    let many = crate::gateway("views_background", None);
    let text = read(&Reader::signed_in(&many, &token).page("/ui/background"));
    assert!(text.contains("1 task failed") && !text.contains("Server"), "{text}");
    assert!(!text.contains("pid") && !text.contains("threads"), "{text}");
    let reply = reader.post("/ui/retry", &[]);
    assert_eq!(reply.header("location"), Some("/ui/background?done=retried"));
    assert!(read(&reader.page("/ui/background?done=retried")).contains("It runs again."));
    let admins = gateway_with_admins("views_background", "ann", "ann");
    let mut admin = Reader::of(&admins);
    let text = read(&admin.page("/ui/background"));
    assert!(text.contains("extract small 1 0 1200 34"), "{text}");
    assert!(!text.contains("large") && !text.contains("about bob"), "{text}");
    assert!(text.contains("bob phone") && text.contains("No endpoints are listed."), "{text}");
    let text = read(&admin.page("/ui/background?of=bob"));
    assert!(text.contains("extract large 1 0 77777 88888"), "{text}");
    assert!(!text.contains("about bob"), "whose memory it is about stays theirs: {text}");
    let others = gateway_with_admins("views_background", "carl", "ann");
    let text = read(&Reader::of(&others).page("/ui/background?of=bob"));
    assert!(!text.contains("77777") && !text.contains("phone"), "{text}");
}

#[test]
fn a_quota_is_shown_where_there_is_one_and_said_to_be_used_up() {
    let mut client = database("views_quota");
    let gateway = gateway("views_quota", Some("ann"));
    let mut reader = Reader::of(&gateway);
    assert!(!read(&reader.page("/ui/background")).contains("quota"));
    run(&mut client, "SELECT memory_set_quota('ann', entries => 2, daily_tokens => 900)");
    run(&mut client, "SELECT memory_add('Ann keeps bees.', infer => false)");
    let text = read(&reader.page("/ui/background"));
    assert!(text.contains("Your quota 1 of 2 entries. 0 of 900 tokens of language"), "{text}");
    run(&mut client, "SELECT memory_add('Ann has a boat.', infer => false)");
    let text = read(&reader.page("/ui/background"));
    assert!(text.contains("2 of 2 entries: nothing new is remembered until you forget"), "{text}");
    // What is added over it is refused.
    reader.page("/ui");
    let reply = reader.post("/ui/add", &[("content", "Ann sings."), ("back", "/ui")]);
    assert_eq!(reply.status, 409);
}

#[test]
fn a_new_user_sees_that_there_is_nothing() {
    let _client = database("views_empty");
    let gateway = gateway("views_empty", Some("new"));
    let mut reader = Reader::of(&gateway);
    for (path, said) in [
        ("/ui", "Nothing is remembered yet."),
        ("/ui?as_of=2026-03-10T12:00", "No facts yet."),
        ("/ui/sessions", "No sessions yet."),
        ("/ui/search?q=anything", "Nothing was found."),
        ("/ui/files", "0"),
        ("/ui/background", "Nothing to do."),
    ] {
        let text = read(&reader.page(path));
        assert!(text.contains(said), "{path}: {text}");
    }
}
