//! What readers see of what is known: choices, titles of conversations, the prompt that a model would get, imports of
//! other programs' conversations, and what is said where something is not there.

use crate::reader::{Reader, read};
use crate::{ALLERGY, NEVER_LATE, ROLE, database, gateway, with_life};
use memory_agent_e2e::memory::{run, value};
use memory_agent_e2e::{Client, Gateway, json};
use std::process::Command;

#[test]
fn choices_narrow_what_is_shown() {
    let mut client = with_life("known_choices");
    run(
        &mut client,
        "SELECT memory_add('Ann keeps bees.', infer => false, markers => '{goal}', metadata => '{\"imported_from\": \"chatgpt\"}'); \
         SELECT memory_add('The office closes at six.', infer => false, user_id => '*'); \
         SELECT memory_add('Ann has a sister in Faro.', infer => false); \
         UPDATE memory_agent.entries SET state = 'inactive', state_reason = 'unverified', state_at = now(), valid_to = created_at \
          WHERE content LIKE '%sister%'",
    );
    let gateway = gateway("known_choices", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let page = reader.page("/ui");
    assert!(read(&page).contains("8 facts."), "{page}");
    for option in ["work (1)", "allergies of Lena (1)", "goal (1)", "chatgpt (1)"] {
        assert!(page.contains(&format!(">{option}<")), "{option}: {page}");
    }
    for (query, fact) in [
        ("session=work", "The team stores forecasts"),
        ("key=diet", "Ann eats fish"),
        ("marker=goal", "Ann keeps bees."),
        ("program=chatgpt", "Ann keeps bees."),
        ("shared=yes", "The office closes at six."),
        ("q=BEES+ann", "Ann keeps bees."),
        ("q=bees&marker=goal", "Ann keeps bees."),
    ] {
        let text = read(&reader.page(&format!("/ui?{query}")));
        let found = text.split_once("Clear all").unwrap().1;
        let of = if query == "session=work" { "1 fact of 1." } else { "of 8." };
        assert!(found.contains(fact) && found.contains(of), "{query}: {found}");
    }
    let text = read(&reader.page("/ui?key=nothing"));
    assert!(text.contains("No fact fits.") && text.contains("0 facts of 8."), "{text}");
    // What has to do with the words is found by its meaning, below what says them.
    let text = read(&reader.page("/ui?q=allergic"));
    let (said, meant) = text.split_once("With a similar meaning").unwrap_or((&text, ""));
    assert!(
        said.contains("Lena is allergic to hazelnuts.") && !meant.contains("allergic to"),
        "{text}"
    );
    let text = read(&reader.page("/ui?unverified=yes"));
    assert!(text.contains("Ann has a sister in Faro.") && text.contains("1 statement"), "{text}");
    assert!(!text.contains("Ann keeps bees."), "{text}");
    let id: String = value(
        &mut client,
        "SELECT id::text FROM memory_agent.entries WHERE content LIKE '%sister%'",
        &[],
    );
    let reply = reader.post("/ui/restore", &[("id", &id), ("back", "/ui?unverified=yes")]);
    let back = format!("/ui?unverified=yes&done=restored&ids={id}");
    assert_eq!(reply.header("location"), Some(&*back));
    assert!(read(&reader.page("/ui")).contains("Ann has a sister in Faro."));
    let oldest = read(&reader.page("/ui?sort=oldest"));
    assert!(oldest.find("Lena is seven") < oldest.find("Ann eats fish"), "{oldest}");
    // No form leads elsewhere.
    reader.page("/ui");
    let reply = reader.post("/ui/forget", &[("id", &id), ("back", "https://evil.example/")]);
    assert_eq!(reply.header("location"), Some(&*format!("/ui/memory/{id}?done=forgotten")));
    assert_eq!(reader.post("/ui/forget", &[("back", "/ui")]).status, 400);
    assert_eq!(reader.post("/ui/add", &[("content", " "), ("back", "/ui")]).status, 400);
}

#[test]
fn the_prompt_is_shown_with_its_tokens_and_reasons() {
    let mut client = with_life("known_prompt");
    run(&mut client, "SELECT memory_add('Lena is  allergic to hazelnuts!', infer => false)");
    let gateway = gateway("known_prompt", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let before: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert!(read(&reader.page("/ui/prompt")).contains("No model is asked, and nothing is stored."));
    let page =
        reader.page("/ui/prompt?q=Which+cake+can+I+bake+for+Lena%3F&session=kitchen&budget=600");
    let text = read(&page);
    assert!(text.contains(" of 600 tokens"), "{text}");
    for part in ["Summary", "Memories", "This conversation", "The message", "Room left"] {
        assert!(text.split_once("in the prompt").unwrap().0.contains(part), "{part}: {text}");
    }
    // The parts of the bar are the whole of it.
    let widths =
        page.split_once("<svg class=\"tokens\"").unwrap().1.split("</svg>").next().unwrap();
    let widths = widths.split(" width=\"").skip(1);
    let widths: f64 =
        widths.map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((999.0..=1001.0).contains(&widths), "{widths}");
    assert!(text.contains("A fact about you. It and the message say “Lena”."), "{text}");
    assert!(text.contains("The prompt, word for word system <memory note="), "{text}");
    // What there is no room for is named, with the reason.
    let small = read(&reader.page("/ui/prompt?q=Lena+and+Lisbon&budget=120"));
    assert!(small.contains("There is no room for it"), "{small}");
    // A memory is forgotten where it is seen.
    let back = "/ui/prompt?q=Which+cake+can+I+bake+for+Lena%3F";
    reader.page(back);
    let reply = reader.post(&format!("/ui/memory/{ALLERGY}/forget"), &[("back", back)]);
    let there = reader.page(reply.header("location").unwrap());
    assert!(read(&there).contains("Forgotten.") && there.contains("action=\"/ui/restore\""));
    let in_prompt = there.split_once("in the prompt").unwrap().1.split("<details").next().unwrap();
    assert!(!in_prompt.contains(ALLERGY), "{in_prompt}");
    let after: i64 = value(&mut client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(before, after, "a look stores nothing");
    assert_eq!(
        reader.get("/ui/prompt?q=Hello+there&budget=1").status,
        400,
        "the message has no room"
    );
}

/// The settings that a prompt is made with are its agent's.
#[test]
fn the_prompt_is_shown_as_its_agent_has_it() {
    let mut client = with_life("known_agent");
    let gateway = gateway("known_agent", Some("ann"));
    let path = "/ui/prompt?q=Which+cake+can+I+bake+for+Lena%3F&session=kitchen";
    let looked = || Reader::of(&gateway).page(path);
    let (bar, dash) = ("<svg class=\"fits\"", "<span class=\"none\">");
    let usual = looked();
    assert!(usual.contains(bar) && !usual.contains(dash), "{usual}");
    run(&mut client, "SELECT memory_configure(settings => '{\"ranking\": \"weighted\"}')");
    let own = looked();
    assert!(own.contains(dash) && !own.contains(bar), "its scores are no probabilities: {own}");
}

#[test]
fn what_is_said_again_is_one_answer() {
    let mut client = database("known_again");
    run(
        &mut client,
        "SELECT memory_ingest('chat ' || n, 'user', 'The key is under the' || repeat(' ', n) || ' blue pot' || substr('.!?', n, 1)) \
           FROM generate_series(1, 3) n; \
         SELECT memory_ingest('garden', 'user', 'The roses want water.')",
    );
    let gateway = gateway("known_again", Some("ann"));
    let page = Reader::of(&gateway).page("/ui/search?q=Where+is+the+key%3F");
    let text = read(&page);
    assert!(text.contains("Said three times"), "{text}");
    assert_eq!(page.matches("<li data-row").count(), 2, "{page}");
}

#[test]
fn a_search_says_when_it_is_less_certain() {
    let mut client = with_life("known_certain");
    let set = |client: &mut Client, what: &str| {
        run(client, &format!("ALTER ROLE {ROLE} IN DATABASE known_certain {what}"));
    };
    let path = "/ui/search?q=What+must+Lena+not+eat%3F";
    let looked = || read(&Reader::of(&gateway("known_certain", Some("ann"))).page(path));
    let notice = "were not read closely this time";
    let usual = looked();
    assert!(usual.contains("Likely") && !usual.contains(notice), "{usual}");
    set(&mut client, "SET memory_agent.rerank = off");
    assert!(looked().contains(notice), "{}", looked());
    // Other rankings have no probabilities.
    set(&mut client, "SET memory_agent.ranking = weighted");
    let weighted = looked();
    assert!(weighted.contains("Lena is allergic") && !weighted.contains("Likely"), "{weighted}");
}

/// A ZIP archive with these files.
fn zipped(files: &[(&str, String)]) -> Vec<u8> {
    let script = "import io, json, sys, zipfile\n\
                  out = io.BytesIO()\n\
                  with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as archive:\n\
                  \x20   for name, text in json.loads(sys.argv[1]): archive.writestr(name, text)\n\
                  sys.stdout.buffer.write(out.getvalue())";
    let files = json!(files).to_string();
    let output = Command::new("/usr/bin/python3").args(["-c", script, &files]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// What ChatGPT delivers: a conversation with a title and a picture, and files that are none.
pub fn delivered() -> Vec<u8> {
    let said = |parent: &str, role: &str, time: f64, text: &str| {
        json!({"parent": parent, "message": {"id": null, "author": {"role": role}, "create_time": time,
               "content": {"content_type": "multimodal_text", "parts": [text, {"content_type": "image_asset_pointer"}]}}})
    };
    let conversation = json!([{"id": "7e032a40-52a4-4d0c-9a35-0123456789ab", "title": "Bees in the orchard",
        "create_time": 1_767_000_000.0, "current_node": "b", "mapping": {
            "root": {"parent": null, "message": null},
            "a": said("root", "user", 1_767_000_001.0, "I moved the bees to the orchard last week."),
            "b": said("a", "assistant", 1_767_000_002.0, "How do they like it there?"),
    }}]);
    zipped(&[
        ("export/conversations.json", conversation.to_string()),
        ("export/user.json", "{}".to_owned()),
    ])
}

#[test]
fn what_a_provider_delivers_is_imported_as_it_is() {
    let mut client = database("known_import");
    let gateway = gateway("known_import", Some("ann"));
    let mut reader = Reader::of(&gateway);
    reader.page("/ui/files");
    let archive = delivered();
    let shown = read(reader.upload("/ui/import/preview", &[("chatgpt.zip", &archive)]).text());
    assert!(shown.contains("1 conversation, 2 memories, from 29 Dec 2025"), "{shown}");
    assert!(shown.contains("Left out: pictures (2)."), "{shown}");
    assert!(shown.contains("about 1 call of a language model"), "{shown}");
    let stored =
        |client: &mut _| value::<i64>(client, "SELECT count(*) FROM memory_agent.entries", &[]);
    assert_eq!(stored(&mut client), 0, "that was only a look");
    let text = read(reader.upload("/ui/import", &[("chatgpt.zip", &archive)]).text());
    assert!(text.contains("2 memories are stored, 0 were there already."), "{text}");
    assert!(text.contains("No facts are learned from them."), "{text}");
    let text = read(reader.upload("/ui/import", &[("chatgpt.zip", &archive)]).text());
    assert!(text.contains("0 memories are stored, 2 were there already."), "{text}");
    assert_eq!(stored(&mut client), 2);
    assert_eq!(reader.page("/ui/import/progress"), "null");
    // It has its title everywhere, and says where it comes from.
    let list = read(&reader.page("/ui/sessions"));
    assert!(list.contains("Bees in the orchard I moved the bees"), "{list}");
    assert!(list.contains("imported from chatgpt") && !list.contains("7e032a40"), "{list}");
    assert!(read(&reader.page("/ui/sessions?q=orchard")).contains("1 session."));
    let found = read(&reader.page("/ui/search?q=Where+are+the+bees%3F"));
    assert!(found.contains("in Bees in the orchard") && !found.contains("7e032a40"), "{found}");
    let lines = b"{\"role\": \"user\", \"content\": \"Hello.\", \"session_id\": \"s\"}\n{\"role\": \"nobody\", \"content\": \"x\"}\n";
    let text = read(reader.upload("/ui/import", &[("lines.jsonl", lines.as_slice())]).text());
    assert!(text.contains("1 memory is stored"), "{text}");
    assert!(text.contains("1 file or memory was not stored: lines.jsonl: line 2"), "{text}");
}

#[test]
fn what_is_not_there_is_told_apart() {
    let _client = with_life("known_missing");
    let here = gateway("known_missing", Some("ann"));
    let mut reader = Reader::of(&here);
    let wrong = reader.get("/ui/nothing");
    assert_eq!(wrong.status, 404);
    assert!(
        read(wrong.text()).contains("There is no such page. The link may be wrong"),
        "{}",
        wrong.text()
    );
    let erased = reader.get("/ui/memory/0199c3a5-0000-7000-8000-00000000ffff");
    assert_eq!(erased.status, 404);
    assert!(read(erased.text()).contains("There is no such memory. It may have been erased"));
    let session = reader.get("/ui/session?session=none");
    assert!(read(session.text()).contains("There is no such session."));
    let arguments = [
        "--database",
        "host=127.0.0.1 port=9 dbname=none user=none",
        "--upstream",
        "http://127.0.0.1:9",
        "--patience",
        NEVER_LATE,
        "--user",
        "ann",
    ];
    let stopped = Gateway::start(&arguments);
    let reply = Reader::of(&stopped).get("/ui");
    let text = read(reply.text());
    assert_eq!(reply.status, 503, "{text}");
    assert!(
        text.contains("Memory cannot be reached") && text.contains("Nothing is lost."),
        "{text}"
    );
    for reply in [&wrong, &erased, &reply] {
        assert!(read(reply.text()).contains("Go to what is known"));
    }
}
