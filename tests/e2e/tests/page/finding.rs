//! What comes first in the lists, and what a search in them finds beyond what they look through.

use crate::reader::{Reader, read};
use crate::{database, gateway};
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Browser, json};

/// Where each of these stands in a text, which has all of them.
#[track_caller]
fn places(text: &str, parts: &[&str]) -> Vec<usize> {
    let place = |part: &&str| text.find(*part).unwrap_or_else(|| panic!("{part}: {text}"));
    parts.iter().map(place).collect()
}

#[test]
fn facts_about_the_user_and_sessions_with_titles_come_first() {
    let mut client = database("finding_first");
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; \
         SELECT memory_add(fact, infer => false, created_at => at::timestamptz, user_id => whose) FROM (VALUES \
             ('The user sails.', '2026-03-01', 'ann'), ('Ann''s boat is called Sula.', '2026-03-02', 'ann'), \
             ('The harbour closes at nine.', '2026-03-03', 'ann'), ('The user reads this, too.', '2026-03-04', '*'), \
             ('Annie sells nets.', '2026-03-05', 'ann'), ('The tide is late.', '2026-04-01', 'ann')) f (fact, at, whose); \
         SELECT memory_ingest(session, 'user', 'Hello.', metadata => title::jsonb, created_at => at::timestamptz) FROM (VALUES \
             ('one', '{\"title\": \"Nets\"}', '2026-03-01 08:00+00'), ('two', '{}', '2026-03-01 09:00+00'), \
             ('three', '{\"title\": \" \"}', '2026-03-01 10:00+00'), ('four', '{}', '2026-03-02 08:00+00')) s (session, title, at)",
    );
    let gateway = gateway("finding_first", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let (tide, boat, sails) = ("The tide is late.", "Ann's boat", "The user sails.");
    let others = ["Annie sells nets.", "The user reads this", "The harbour closes"];
    let newest_first = [&[tide], &others[..], &[boat, sails]].concat();
    let about_first = [&[tide, boat, sails], &others[..]].concat();
    for (query, order) in [("", about_first), ("?sort=newest", newest_first)] {
        let found = places(&read(&reader.page(&format!("/ui{query}"))), &order);
        assert!(found.is_sorted(), "{query}: {found:?}");
    }
    // A day, then in it the title, then the others by time.
    let sessions = read(&reader.page("/ui/sessions"));
    let list = sessions.split_once("2 Mar 2026").unwrap().1;
    let found =
        places(list, &["four Hello.", "1 Mar 2026", "Nets Hello.", "three Hello.", "two Hello."]);
    assert!(found.is_sorted(), "{found:?}: {list}");
}

#[test]
fn words_are_found_in_all_facts_and_the_page_says_what_is_not() {
    let mut client = database("finding_words");
    run(
        &mut client,
        "SET memory_agent.embed_on_ingest = off; \
         SELECT memory_add('The ferry to Zanzibar leaves at ' || n || '.', infer => false, created_at => '2020-01-01') \
           FROM generate_series(7, 8) n; \
         SELECT memory_add('Number ' || n || '.', infer => false, \
                           created_at => '2026-01-01'::timestamptz + n * interval '1 minute') \
           FROM generate_series(1, 510) n",
    );
    let gateway = gateway("finding_words", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let more = "of more than 500. Beyond the newest 500, up to 30 are found, by whole words and by meaning.";
    let text = read(&reader.page("/ui?q=ferry+zanzibar"));
    assert!(text.contains(&format!("2 facts {more}")), "{text}");
    assert!(!text.contains("With a similar meaning"), "they say it: {text}");
    assert!(places(&text, &["leaves at 8.", "leaves at 7."]).len() == 2);
    let part = read(&reader.page("/ui?q=zanzib"));
    assert!(part.contains(&format!("0 facts {more}")) && part.contains("No fact fits."), "{part}");
    assert!(read(&reader.page("/ui?q=umber+509")).contains(&format!("1 fact {more}")));
    // Who looks for more goes on with the same words.
    let page = reader.page("/ui?q=ferry+%26+zanzibar");
    let link = "<a class=\"clear\" href=\"/ui/search?q=ferry+%26+zanzibar\">Search everything, with reasons</a>";
    assert!(page.contains(link), "{page}");
    assert!(!reader.page("/ui").contains("with reasons"));
    // What is said is long, and covered by nothing.
    let browser = Browser::start();
    for width in [390, 1200] {
        let metrics =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false});
        browser.devtools("Emulation.setDeviceMetricsOverride", &metrics);
        browser.open(&format!("http://{}/ui?q=ferry+zanzibar", gateway.address()));
        let covered = "const text = document.createRange(); \
                       text.selectNodeContents(document.querySelector('#count')); \
                       const button = document.querySelector('.add summary').getBoundingClientRect(); \
                       return [...text.getClientRects()].some(line => line.right > button.left && \
                              line.bottom > button.top && line.top < button.bottom)";
        assert_eq!(browser.run(covered), false, "{width}");
    }
}

#[test]
fn sessions_are_found_by_name_and_the_page_says_whose_titles_count() {
    let mut client = database("finding_sessions");
    let sessions = |client: &mut _, from: u32, to: u32| {
        let fill = format!(
            "SET memory_agent.embed_on_ingest = off; \
             SELECT memory_ingest('chat ' || n, 'user', 'Hello.', metadata => jsonb_build_object('title', 'Plan ' || n), \
                                  created_at => '2026-01-01'::timestamptz + n * interval '1 minute') \
               FROM generate_series({from}, {to}) n"
        );
        run(client, &fill);
    };
    run(
        &mut client,
        "SELECT memory_ingest('harbour walk', 'user', 'Good morning.', metadata => '{\"title\": \"Boats\"}', \
                              created_at => '2025-01-01')",
    );
    sessions(&mut client, 1, 30);
    let gateway = gateway("finding_sessions", Some("ann"));
    let mut reader = Reader::of(&gateway);
    let few = read(&reader.page("/ui/sessions?q=boats"));
    assert!(few.contains("1 session. All sessions Found Boats Good morning."), "{few}");
    sessions(&mut client, 31, 1_000);
    // Of the oldest of more than a thousand, the name still counts.
    let said =
        "Titles were looked for in the latest 1000 sessions, names and what was said in all.";
    let named = read(&reader.page("/ui/sessions?q=harbour"));
    assert!(
        named.contains(&format!("1 session. {said}")) && named.contains("Boats Good"),
        "{named}"
    );
    let titled = read(&reader.page("/ui/sessions?q=boats"));
    assert!(titled.contains(&format!("0 sessions. {said}")), "{titled}");
    let newest = read(&reader.page("/ui/sessions?q=plan+1000"));
    assert!(newest.contains(&format!("1 session. {said}")), "{newest}");
    assert!(newest.contains("Plan 1000 Hello."), "{newest}");
}
