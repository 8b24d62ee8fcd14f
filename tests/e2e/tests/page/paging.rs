//! Long lists, page by page: everything is there once, though many rows have the same time.

use crate::reader::{Reader, read};
use crate::{database, gateway};
use memory_agent_e2e::memory::run;
use std::collections::BTreeSet;

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
    all_of(&facts, 130, 25);
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
