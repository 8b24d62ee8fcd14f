//! The turns that tell most of a conversation, where no LLM summarises it.
//!
//! After SumBasic (A. Nenkova, L. Vanderwende, "The Impact of Frequency on Summarization", Microsoft Research
//! MSR-TR-2005-101, 2005): a turn is worth the probabilities of its words, and the words of a turn that was
//! chosen count less for the next, so that what is chosen does not repeat itself. SumBasic takes their mean;
//! here it is their sum, because turns are shorter than sentences of a newspaper, and a greeting's two words
//! would be worth more than a long answer's.

use std::collections::{BTreeSet, HashMap};

use crate::text::words::parts;

/// Shorter words of the Latin alphabet are mostly function words, which every turn has.
const SHORT: usize = 3;

/// A turn of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    pub content: &'a str,
    pub tokens: u32,
}

/// The indices of the turns that are kept, in the order of the conversation: all of them if they have at most
/// `most_tokens` tokens together, else the best that fit, and at least one.
#[must_use]
pub fn highlights(turns: &[Turn<'_>], most_tokens: u32) -> Vec<usize> {
    let mut left = u64::from(most_tokens);
    if turns.iter().map(|turn| u64::from(turn.tokens)).sum::<u64>() <= left {
        return (0..turns.len()).collect();
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let said: Vec<Vec<usize>> = turns
        .iter()
        .map(|turn| {
            let number = |word: String| {
                let next = numbers.len();
                *numbers.entry(word).or_insert(next)
            };
            words(turn.content).map(number).collect()
        })
        .collect();
    // What a turn repeats is said once.
    let words: Vec<BTreeSet<usize>> =
        said.iter().map(|words| words.iter().copied().collect()).collect();
    let count = said.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let mut probabilities = vec![0.0_f64; numbers.len()];
    for &word in said.iter().flatten() {
        probabilities[word] += 1.0 / count;
    }
    let all = 0..turns.len();
    let fits = |left: u64| move |&turn: &usize| u64::from(turns[turn].tokens) <= left;
    // What has no words, "Ok" say, tells nothing.
    let mut open: Vec<usize> =
        all.clone().filter(|turn| fits(left)(turn) && !words[*turn].is_empty()).collect();
    if open.is_empty() {
        (open, left) = (all.collect(), 0);
    }
    let mut kept = Vec::new();
    loop {
        let worth =
            |turn: usize| -> f64 { words[turn].iter().map(|&word| probabilities[word]).sum() };
        // Of equals, the earlier one.
        let best = open.iter().copied().rev().max_by(|&a, &b| worth(a).total_cmp(&worth(b)));
        let Some(best) = best else { break };
        kept.push(best);
        if left == 0 {
            break;
        }
        left -= u64::from(turns[best].tokens);
        for &word in &words[best] {
            probabilities[word] *= probabilities[word];
        }
        open.retain(|turn| *turn != best && fits(left)(turn));
    }
    kept.sort_unstable();
    kept
}

/// The words of a text that tell what it is about, in lower case.
fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    parts(text)
        .filter(|word| word.chars().count() > SHORT || !word.is_ascii())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(turns: &[&str], most_tokens: u32) -> Vec<usize> {
        let turns: Vec<Turn<'_>> =
            turns.iter().map(|content| Turn { content, tokens: 10 }).collect();
        highlights(&turns, most_tokens)
    }

    #[test]
    fn what_the_conversation_is_about_is_kept() {
        let talk = [
            "Good morning!",
            "We want to renew the kitchen, with a new oven.",
            "Which oven should the kitchen have?",
            "Ok.",
            "By the way, my bike was stolen yesterday.",
            "The kitchen offer of the carpenter is too expensive.",
        ];
        assert_eq!(kept(&talk, 60), [0, 1, 2, 3, 4, 5], "all of it fits");
        let two = kept(&talk, 20);
        assert!(two.len() == 2 && two.contains(&2), "{two:?}");
        assert!(!two.contains(&0) && !two.contains(&3), "greetings say nothing: {two:?}");
    }

    #[test]
    fn what_was_said_twice_is_kept_once() {
        let talk =
            ["The flight leaves Monday.", "The flight leaves Monday.", "Bring warm clothes."];
        assert_eq!(kept(&talk, 20), [0, 2]);
    }

    #[test]
    fn one_turn_is_kept_even_if_it_is_too_long() {
        assert_eq!(kept(&["Something long about kitchens", "Ok"], 5), [0]);
        assert_eq!(kept(&[], 5), [0_usize; 0]);
        assert_eq!(kept(&["", "!"], 5), [0]);
    }

    #[test]
    fn words_of_scripts_without_spaces_count() {
        assert_eq!(kept(&["ok", "我们 计划 去 挪威", "嗯"], 10), [1]);
    }

    proptest! {
        #[test]
        fn what_is_kept_fits_and_is_in_order(
            turns in prop::collection::vec(("[a-c ]{0,12}", 0_u32..40), 0..30),
            most in 0_u32..200,
        ) {
            let turns: Vec<Turn<'_>> =
                turns.iter().map(|(content, tokens)| Turn { content, tokens: *tokens }).collect();
            let kept = highlights(&turns, most);
            prop_assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            let tokens: u32 = kept.iter().map(|&turn| turns[turn].tokens).sum();
            prop_assert!(tokens <= most || kept.len() == 1);
            prop_assert!(kept.is_empty() == turns.is_empty());
        }
    }
}
