//! Tests of the chunks of documents.

use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// A token for each word.
fn words(texts: &[String]) -> Result<Vec<u32>, Infallible> {
    Ok(texts.iter().map(|text| text.split_whitespace().count() as u32).collect())
}

fn cut(markdown: &str, max_tokens: u32, overlap_tokens: u32) -> Vec<Chunk> {
    chunks(markdown, Limits { max_tokens, overlap_tokens }, &mut words).unwrap()
}

fn texts(chunks: &[Chunk]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk.text.as_str()).collect()
}

/// `many` sentences of four words, numbered from `first`.
fn sentences_of_four(first: usize, many: usize) -> String {
    let sentence = |number| format!("Sentence {number} is here.");
    (first..first + many).map(sentence).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_short_document_is_one_chunk() {
    assert_eq!(
        cut("\n# Title\n\nSome text.\n\n", 100, 10),
        [Chunk {
            text: "# Title\n\nSome text.".to_owned(),
            headings: vec!["Title".to_owned()],
            granularity: Granularity::Document,
            tokens: 4,
        }]
    );
    assert!(cut("", 100, 10).is_empty() && cut(" \n\n", 100, 10).is_empty());
}

#[test]
fn sections_stay_whole_and_know_their_headings() {
    let text = format!(
        "# Guide\n\n## Install\n\n{}\n\n## Use\n\n{}\n",
        sentences_of_four(1, 4),
        sentences_of_four(5, 4)
    );
    let chunks = cut(&text, 20, 5);
    assert_eq!(chunks.len(), 2);
    assert_eq!(chunks[0].text, format!("# Guide\n\n## Install\n\n{}", sentences_of_four(1, 4)));
    assert_eq!(chunks[1].text, format!("## Use\n\n{}", sentences_of_four(5, 4)));
    let about = |chunk: &Chunk| (chunk.headings.join(" > "), chunk.granularity, chunk.tokens);
    assert_eq!(about(&chunks[0]), ("Guide > Install".to_owned(), Granularity::Section, 20));
    assert_eq!(about(&chunks[1]), ("Guide > Use".to_owned(), Granularity::Section, 18));
}

#[test]
fn a_long_section_is_cut_between_sentences_and_overlaps() {
    let text = format!("# A\n\n{}\n", sentences_of_four(1, 12));
    let chunks = cut(&text, 20, 5);
    assert_eq!(
        texts(&chunks),
        [
            format!("# A\n\n{}", sentences_of_four(1, 4)).as_str(),
            &sentences_of_four(4, 5),
            &sentences_of_four(8, 5),
        ]
    );
    assert!(chunks.iter().all(|chunk| chunk.granularity == Granularity::Chunk));
    assert!(chunks.iter().all(|chunk| chunk.headings == ["A"]));
    assert_eq!(texts(&cut(&text, 20, 0))[1], sentences_of_four(5, 5), "no overlap asked for");
}

#[test]
fn paragraphs_stay_together_where_they_fit() {
    let (a, b, c) = (sentences_of_four(1, 3), sentences_of_four(4, 3), sentences_of_four(7, 3));
    let text = format!("{a}\n\n{b}\n\n{c}\n");
    assert_eq!(texts(&cut(&text, 25, 0)), [format!("{a}\n\n{b}").as_str(), &c]);
    let last = sentences_of_four(6, 1);
    assert_eq!(texts(&cut(&text, 25, 6))[1], format!("{last}\n\n{c}"), "the end is repeated");
}

#[test]
fn code_stays_together_and_is_never_repeated_in_part() {
    let code = format!("```\n{}\n```", ["let x = 1;"; 4].join("\n"));
    let (before, after) = (sentences_of_four(1, 3), sentences_of_four(4, 3));
    let text = format!("{before}\n\n{code}\n\n{after}\n");
    let chunks = cut(&text, 20, 8);
    assert_eq!(texts(&chunks), [before.as_str(), &code, &after], "no room to repeat, or only code");
}

#[test]
fn code_that_is_too_long_alone_is_cut_between_lines() {
    let line = "let x = 1;";
    let code = format!("```\n{}\n```", [line; 9].join("\n"));
    let chunks = cut(&code, 16, 4);
    assert!(chunks.len() > 2);
    for chunk in &chunks {
        assert!(chunk.text.lines().all(|part| part == line || part == "```"), "{}", chunk.text);
        assert!(chunk.tokens <= 16);
    }
    assert!(chunks[1].text.starts_with(line) && chunks[1].text.lines().count() == 4);
}

#[test]
fn lists_are_cut_between_their_items() {
    let items: Vec<String> = (1..=8).map(|item| format!("- item {item} of\n  the list")).collect();
    let chunks = cut(&items.join("\n"), 18, 0);
    assert_eq!(
        texts(&chunks),
        [items[..3].join("\n"), items[3..6].join("\n"), items[6..].join("\n")]
    );
    let list = items[..3].join("\n");
    let text = format!("{}\n\n{list}\n", sentences_of_four(1, 2));
    assert_eq!(texts(&cut(&text, 18, 0)), [sentences_of_four(1, 2).as_str(), &list]);
}

#[test]
fn tables_are_cut_between_their_rows() {
    let table = ["| a | b |"; 8].join("\n");
    for chunk in cut(&table, 16, 0) {
        assert!(chunk.text.lines().all(|row| row == "| a | b |"));
    }
}

#[test]
fn a_text_without_any_end_is_cut_between_words_and_then_characters() {
    let endless = ["word"; 100].join(" ");
    let chunks = cut(&endless, 30, 10);
    assert!(chunks.iter().all(|chunk| chunk.text.split(' ').all(|word| word == "word")));
    assert!(chunks.iter().all(|chunk| chunk.tokens <= 30));

    let mut bytes = |texts: &[String]| {
        Ok::<_, Infallible>(texts.iter().map(|text| text.len() as u32).collect::<Vec<_>>())
    };
    let limits = Limits { max_tokens: 16, overlap_tokens: 0 };
    let chunks = chunks_of(&"語".repeat(50), limits, &mut bytes);
    assert_eq!(chunks.concat(), "語".repeat(50));
    assert!(chunks.iter().all(|chunk| chunk.len() <= 16));
}

fn chunks_of(text: &str, limits: Limits, count: &mut Counter<'_, Infallible>) -> Vec<String> {
    chunks(text, limits, count).unwrap().into_iter().map(|chunk| chunk.text).collect()
}

#[test]
fn a_text_with_more_tokens_than_its_parts_is_cut_again() {
    // Every joint of two sentences costs three tokens more.
    let mut joints = |texts: &[String]| {
        let count = |text: &String| {
            let sentences = text.matches('.').count().saturating_sub(1) * 3;
            (text.split_whitespace().count() + sentences) as u32
        };
        Ok::<_, Infallible>(texts.iter().map(count).collect::<Vec<_>>())
    };
    let text = sentences_of_four(1, 20);
    let limits = Limits { max_tokens: 20, overlap_tokens: 0 };
    let chunks = chunks(&text, limits, &mut joints).unwrap();
    assert!(chunks.iter().all(|chunk| chunk.tokens <= 20));
    assert_eq!(texts(&chunks).join(" "), text);
}

#[test]
fn the_counter_is_asked_few_times() {
    let section = |n| format!("# S{n}\n\n{}\n\n", sentences_of_four(n, 30));
    let text: String = (0..50).map(section).collect();
    let mut asked = 0;
    let mut counter = |texts: &[String]| {
        asked += 1;
        words(texts)
    };
    let limits = Limits { max_tokens: 50, overlap_tokens: 10 };
    assert!(chunks(&text, limits, &mut counter).unwrap().len() > 100);
    assert_eq!(asked, 3, "blocks, atoms, chunks");
    let mut fails = |_: &[String]| Err("down");
    assert_eq!(chunks("text", limits, &mut fails), Err("down"));
}

/// Nanoseconds that this thread has had a processor for: what else runs on the machine does not count.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().and_then(|time| time.parse().ok()).unwrap()
}

#[test]
fn texts_made_to_be_slow_are_not() {
    let texts: [fn(usize) -> String; 8] = [
        |many| ".".repeat(many),
        |many| format!("a{}b", " ".repeat(many)),
        |many| "\n".repeat(many) + "a",
        |many| "a.\n".repeat(many),
        |many| ".)".repeat(many),
        |many| "# a\n".repeat(many),
        |many| "- ".repeat(many),
        |many| "```\n".repeat(many),
    ];
    for (number, text) in texts.into_iter().enumerate() {
        let time = |many: usize| {
            let text = text(many);
            let started = processor_time();
            let kept: usize = cut(&text, 400, 100).iter().map(|chunk| chunk.text.len()).sum();
            assert!(kept >= text.split_whitespace().map(str::len).sum());
            processor_time() - started
        };
        let (short, long) = (time(50_000), time(200_000));
        // Linear time is four times as much, quadratic time sixteen times.
        assert!(long < 10 * short + 50_000_000, "text {number}: {short} and {long} ns");
    }
}

#[test]
fn limits_that_make_no_sense_are_mended() {
    let chunks = cut(&sentences_of_four(1, 20), 0, 1_000);
    assert!(chunks.iter().all(|chunk| chunk.tokens <= 16) && chunks.len() < 20);
    assert_eq!(Granularity::Section.as_str(), "section");
}

/// A document of blocks of all kinds, each word in it once.
fn document() -> impl Strategy<Value = String> {
    let block = (0..7_usize, 1..25_usize);
    prop::collection::vec(block, 0..14).prop_map(|blocks| {
        let mut number = 0;
        let mut word = || {
            number += 1;
            format!("w{number}")
        };
        let mut lines = |many: usize, per_line: usize, before: &str, after: &str| {
            let line = |_| {
                let line: Vec<String> = (0..per_line).map(|_| word()).collect();
                format!("{before}{}{after}", line.join(" "))
            };
            (0..many).map(line).collect::<Vec<_>>()
        };
        let block = |(kind, many)| match kind {
            0 => lines(1, 2, "# ", "").join("\n"),
            1 => lines(1, 2, "### ", "").join("\n"),
            2 => format!("```\n{}\n```", lines(many, 3, "  ", ";").join("\n")),
            3 => lines(many, 4, "- ", ".").join("\n"),
            4 => lines(many, 2, "| ", " |").join("\n"),
            5 => lines(1, many * 4, "", "").join(" "),
            _ => lines(many, 5, "S ", ".").join(" "),
        };
        blocks.into_iter().map(block).collect::<Vec<_>>().join("\n\n")
    })
}

/// Finds the chunks in the text, one after the other, each with something new.
fn covered(text: &str, chunks: &[Chunk]) -> Result<(), TestCaseError> {
    let mut end = 0;
    for chunk in chunks {
        let mut places = text.match_indices(&chunk.text).map(|(at, found)| at..at + found.len());
        let Some(place) = places.find(|place| place.end > end) else {
            return Err(TestCaseError::fail(format!("nothing new: {:?}", chunk.text)));
        };
        let left_out = text.get(end..place.start).unwrap_or_default();
        prop_assert!(left_out.trim().is_empty(), "left out: {left_out:?}");
        end = place.end;
    }
    prop_assert!(text[end..].trim().is_empty(), "left out: {:?}", &text[end..]);
    Ok(())
}

proptest! {
    #[test]
    fn every_word_is_in_a_chunk_and_the_order_stays(
        text in document(), max_tokens in 16..80_u32, overlap_tokens in 0..60_u32,
    ) {
        let chunks = cut(&text, max_tokens, overlap_tokens);
        covered(&text, &chunks)?;
        for chunk in &chunks {
            prop_assert!(chunk.tokens <= max_tokens && chunk.text.trim() == chunk.text);
            prop_assert_eq!(chunk.text.split_whitespace().count(), chunk.tokens as usize);
        }
        let is_one = chunks.len() == 1 && chunks[0].granularity == Granularity::Document;
        let total = text.split_whitespace().count() as u32;
        prop_assert_eq!(is_one, (1..=max_tokens).contains(&total));
    }

    #[test]
    fn chunks_repeat_no_more_than_they_may(
        text in document(), max_tokens in 16..80_u32, overlap_tokens in 0..60_u32,
    ) {
        let chunks = cut(&text, max_tokens, overlap_tokens);
        for pair in chunks.windows(2) {
            let known: Vec<&str> = pair[0].text.split_whitespace().collect();
            let is_repeated = |word: &&str| word.starts_with('w') && known.contains(word);
            let repeated = pair[1].text.split_whitespace().filter(is_repeated).count();
            prop_assert!(repeated <= overlap_tokens as usize);
            if repeated > 0 {
                prop_assert_eq!(pair[1].granularity, Granularity::Chunk);
                prop_assert_eq!(&pair[0].headings, &pair[1].headings, "only within a section");
            }
        }
    }

    #[test]
    fn any_text_comes_through(text in "(\\PC|\\n){0,120}", max_tokens in 0..40_u32) {
        let kept: String = cut(&text, max_tokens, 0).iter().map(|chunk| chunk.text.as_str()).collect();
        let without_space = |text: &str| text.split_whitespace().collect::<String>();
        prop_assert_eq!(without_space(&kept), without_space(&text));
    }
}

#[test]
fn a_chunk_is_edited_where_it_stands() {
    for (document, old, new, expected) in [
        ("One. Two. Three.", "Two.", "2.", Some("One. 2. Three.")),
        ("One. Two. Three.", "Two. Three.", "Two.", Some("One. Two.")),
        ("Uno. Tés. 三つ。", "Tés.", "日本", Some("Uno. 日本 三つ。")),
        ("Two. Two.", "Two.", "2.", None),
        ("One. 2.", "Two.", "2.", None),
    ] {
        assert_eq!(edited(document, old, new).as_deref(), expected, "{document} {old} {new}");
    }
}
