//! Tests of passages: they are around what was asked for, fit, and cut nothing that belongs together.

use proptest::prelude::*;
use std::convert::Infallible;
use unicode_segmentation::UnicodeSegmentation;

use super::*;

/// A token for each four bytes of a word, each three of other scripts, and each mark.
fn tokens(texts: &[String]) -> Result<Vec<u32>, Infallible> {
    let count = |text: &String| {
        let words = text.split_whitespace().map(|word| word.len().div_ceil(4) as u32);
        words.sum::<u32>() + text.matches(['.', '\n', '…']).count() as u32
    };
    Ok(texts.iter().map(count).collect())
}

fn count(text: &str) -> u32 {
    tokens(&[text.to_owned()]).unwrap()[0]
}

/// The passage of a text, which is short enough, in order, and has an ellipsis just where it is cut.
fn of(text: &str, question: &str, most: u32) -> Option<String> {
    let excerpts = excerpts(&[text], &Sought::of(question), most, &mut tokens).unwrap();
    let excerpt = excerpts.into_iter().next().unwrap()?;
    assert!(count(&excerpt) <= most, "{excerpt}");
    let kept = excerpt.trim_start_matches("… ").trim_end_matches(" …");
    let text = text.trim();
    assert!(text.contains(kept), "{excerpt}");
    assert!(excerpt.starts_with("… ") || text.starts_with(kept), "{excerpt}");
    assert!(excerpt.ends_with(" …") || text.ends_with(kept), "{excerpt}");
    assert_ne!(excerpt, text);
    Some(excerpt)
}

fn prose(sentences: usize) -> Vec<String> {
    (0..sentences).map(|n| format!("Line {n} of the log says that nothing happened.")).collect()
}

#[test]
fn a_short_text_is_told_whole() {
    assert_eq!(of("Ann moved to Rome.", "Where is Ann?", 20), None);
    assert_eq!(of("", "Where is Ann?", 20), None);
    // More bytes than tokens may be, but not more tokens.
    assert_eq!(of("antidisestablishmentarianism is a word.", "word", 12), None);
    // Blanks cost nothing here.
    assert_eq!(of(&format!("Ann{}moved.", " ".repeat(9000)), "moved", 20), None);
}

#[test]
fn the_passage_is_around_what_is_asked_for() {
    let mut text = prose(200);
    text[120] = "The shard leader timed out because its disk was full.".to_owned();
    let told = of(&text.join(" "), "Why does the shard leader time out?", 60).unwrap();
    assert!(told.starts_with("… ") && told.ends_with(" …"), "{told}");
    assert!(told.contains("The shard leader timed out because its disk was full."), "{told}");
    assert!(told.contains("Line 119") && told.contains("Line 121"), "{told}");
    assert!(count(&told) > 40, "the rest is filled: {told}");
    for sentence in told.trim_matches(['…', ' ']).split_inclusive('.') {
        assert!(text.contains(&sentence.trim().to_owned()), "whole sentences: {told}");
    }
}

#[test]
fn most_words_of_the_question_count_and_rare_ones_most() {
    let mut text = prose(100);
    text[10] = "The log of the leader.".to_owned();
    text[50] = "A leader has a shard.".to_owned();
    let text = text.join("\n");
    let told = of(&text, "Which shard has the leader in its log?", 40).unwrap();
    assert!(told.contains("A leader has a shard."), "{told}");
    let told = of(&text, "What does the log say about nothing?", 40).unwrap();
    assert!(told.contains("nothing happened"), "{told}");
}

#[test]
fn without_a_word_of_the_question_it_is_the_beginning() {
    let text = prose(100).join(" ");
    for question in ["", "Is it so?", "Wo wohnt Eva?"] {
        let told = of(&text, question, 40).unwrap();
        assert!(told.starts_with("Line 0 of the log"), "{told}");
    }
}

#[test]
fn scripts_without_spaces_are_cut_between_sentences() {
    let mut text: Vec<String> = (0..80).map(|n| format!("第{n}行日志没有任何内容。")).collect();
    text[40] = "用户对榛子过敏，所以不能吃这种蛋糕。".to_owned();
    let told = of(&text.concat(), "用户对什么过敏？", 60).unwrap();
    assert!(told.contains(&text[40]), "{told}");
    assert!(told.trim_end_matches(" …").ends_with('。'), "{told}");
}

#[test]
fn one_huge_sentence_is_cut_between_words() {
    let mut words: Vec<String> = (0..3000).map(|n| format!("word{n}")).collect();
    words[1500] = "hazelnuts".to_owned();
    let told = of(&words.join(" "), "Who may eat hazelnuts?", 50).unwrap();
    assert!(told.contains(" hazelnuts "), "{told}");
    for word in told.split_whitespace().filter(|word| *word != ELLIPSIS) {
        assert!(words.iter().any(|known| known == word), "{word}");
    }
    // Without words, between characters as readers see them.
    let family = "👩‍👩‍👧‍👦";
    let told = of(&family.repeat(200), "?", 30).unwrap();
    assert!(told.graphemes(true).all(|c| [family, " ", ELLIPSIS].contains(&c)), "{told}");
    assert!(told.contains(family), "{told}");
}

#[test]
fn code_is_cut_between_lines() {
    let mut lines: Vec<String> =
        (0..300).map(|n| format!("    let value_{n} = read({n})?;")).collect();
    lines[200] = "    let deadline = Instant::now() + patience;".to_owned();
    let told = of(&lines.join("\n"), "How is the deadline computed?", 60).unwrap();
    assert!(told.contains("let deadline = Instant::now() + patience;"), "{told}");
    for line in told.trim_matches(['…', ' ']).lines() {
        assert!(lines.iter().any(|known| known.trim() == line.trim()), "{line}");
    }
}

#[test]
fn texts_are_told_one_by_one() {
    let long = prose(50).join(" ");
    let texts = ["Ann.", &long, "A text that is not longer than it may be."];
    let told = excerpts(&texts, &Sought::of("Ann"), 20, &mut tokens).unwrap();
    assert_eq!(told.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    let mut fails = |_: &[String]| Err("down");
    assert_eq!(excerpts(&texts, &Sought::of("Ann"), 20, &mut fails), Err("down"));
    // A counter without an answer lets nothing through but an ellipsis.
    let mut silent = |_: &[String]| Ok::<_, Infallible>(Vec::new());
    let told = excerpts(&[&long], &Sought::of("Ann"), 20, &mut silent).unwrap();
    assert_eq!(told, [Some(ELLIPSIS.to_owned())]);
}

proptest! {
    #[test]
    fn a_passage_fits_and_cuts_no_character(
        text in "([A-Za-z ,.\\n]{0,200}|[日本語。é👩\u{200d}👧e\u{301} ]{0,100}){0,6}",
        question in "[a-z日本 ]{0,20}", most in 20..60_u32,
    ) {
        if let Some(told) = of(&text, &question, most) {
            let kept = told.trim_start_matches("… ").trim_end_matches(" …");
            let text = text.trim();
            let is_whole = |at: usize| {
                let is_blank = text[..at].ends_with(char::is_whitespace);
                is_blank || at == text.len() || text.grapheme_indices(true).any(|(start, _)| start == at)
            };
            let mut places = text.match_indices(kept);
            prop_assert!(places.any(|(at, _)| is_whole(at) && is_whole(at + kept.len())), "{told}");
        }
    }
}
