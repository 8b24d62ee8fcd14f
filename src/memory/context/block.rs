//! System messages of a prompt: what is told before the conversation, each in a fence and within its share
//! of the token budget.

use crate::memory::context::prompt_memory::{self, PromptMemory};
use crate::memory::context::tokens::TokenCounter;
use memory_agent_core::prompt::augment::{Memory, marked, memory_line, text_block};
use memory_agent_core::prompt::fence;
use memory_agent_core::text::excerpt::ELLIPSIS;

/// Most of a prompt's budget that the summary may take.
pub const SUMMARY_SHARE: f64 = 0.25;
/// Less of a text is not worth its heading, in tokens.
const LEAST_CUT: i64 = 24;
/// The best memory is sure of this part of the room, if that is enough for a passage of it.
const BEST_PART: i64 = 3;
/// What a passage is worth beside a whole memory of the same score: its place is that of several short ones, and the
/// answer may stand elsewhere in the text. Of the labelled rows of RealMem and BEAM, prompts of 1,000, 2,000 and 4,000
/// tokens tell most at a quarter to a half, and no fewer than with whole memories of any length (docs/context.md).
const PASSAGE_WORTH: f32 = 1.0 / 3.0;
/// Where a passage has no room, one of half its length may have, and so on down to this part.
const LEAST_PART: u32 = 8;
/// Tokens that joining texts may cost beside those of the texts.
const SLACK: i64 = 2;

/// What each of these is worth, best first: none more than what stands before it, whatever its own score.
fn worth(items: &[PromptMemory], is_best_sure: bool) -> Vec<f32> {
    let mut least = f32::INFINITY;
    let of_place = |(place, item): (usize, &PromptMemory)| {
        least = least.min(item.score);
        match item.can_wait() {
            _ if place == 0 && is_best_sure => f32::INFINITY,
            true => least * PASSAGE_WORTH,
            false => least,
        }
    };
    items.iter().enumerate().map(of_place).collect()
}

/// The line of something told. Its own lines are indented, so that none can pass for another entry.
fn line(memory: &Memory<'_>) -> String {
    format!("\n{}", memory_line(memory))
}

/// A system message with a heading.
pub struct Block<'a> {
    pub heading: &'a str,
    /// Tokens that a message costs beside its text.
    pub overhead: i64,
    pub tokens: &'a TokenCounter,
}

impl Block<'_> {
    /// What fits into `share` tokens, and what the message costs then. The best comes first, unless it takes too
    /// much; passages wait for whole memories of a third of their score. Where a passage has no room, a shorter one
    /// may have; a part of a conversation is cut at a sentence. What is too long then is passed over. Facts are put
    /// before the rest.
    pub fn fit(&self, mut items: Vec<PromptMemory>, share: i64) -> (Vec<PromptMemory>, i64) {
        // Lines are counted once; where joining them costs a token more, one more goes.
        let mut lines: Vec<String> = items.iter().map(|item| line(&item.told())).collect();
        lines.push(fence::fenced(self.heading));
        let mut counts = self.tokens.count(lines);
        let mut left = share - self.overhead - counts.pop().unwrap_or(0);
        let mut places: Vec<usize> = (0..items.len()).collect();
        let best_in_full = counts.first().copied().unwrap_or(0);
        let full = self.brief(items.first_mut(), &mut counts, share / BEST_PART);
        let is_sure = counts.first().is_some_and(|&cost| cost <= share / BEST_PART);
        let worth = worth(&items, is_sure);
        places.sort_by(|&left, &right| worth[right].total_cmp(&worth[left]));
        let mut is_kept = vec![false; items.len()];
        let mut is_full = false;
        for place in places {
            let count = match counts[place] {
                count if count <= left => Some(count),
                // What is left gets no more, and each trial is a count of its own.
                _ if is_full && items[place].can_wait() => None,
                _ => self.shorten(&mut items[place], left),
            };
            is_full |= count.is_none() && items[place].can_wait();
            left -= count.unwrap_or(0);
            is_kept[place] = count.is_some();
        }
        // What no other memory takes is the best one's.
        if let (Some(full), Some(best), Some(&brief), Some(true)) =
            (full, items.first_mut(), counts.first(), is_kept.first())
            && best_in_full <= left + brief
        {
            best.tell(full);
        }
        let kept = items.into_iter().zip(is_kept);
        let mut kept: Vec<PromptMemory> =
            kept.filter_map(|(item, is_kept)| is_kept.then_some(item)).collect();
        prompt_memory::facts_first(&mut kept);
        while let Some(text) = self.text(&kept) {
            let cost = self.tokens.count_one(&text) + self.overhead;
            if cost <= share {
                return (kept, cost);
            }
            kept.pop();
        }
        (kept, 0)
    }

    /// Has the best memory tell half of its passage where that costs at most `room` tokens and the whole passage
    /// more; returns the whole passage then.
    fn brief(
        &self,
        best: Option<&mut PromptMemory>,
        counts: &mut [i64],
        room: i64,
    ) -> Option<String> {
        let (best, cost) = (best?, counts.first_mut()?);
        if *cost <= room || !best.can_wait() {
            return None;
        }
        let full = best.text().to_owned();
        if !best.tell_less(self.tokens.memory_tokens / 2, self.tokens) {
            return None;
        }
        let brief = self.tokens.count_one(&line(&best.told()));
        if brief > room {
            best.tell(full);
            return None;
        }
        *cost = brief;
        Some(full)
    }

    /// Has a passage, or a part of a conversation, tell less, so that its line has at most `left` tokens, and
    /// returns how many it has then.
    fn shorten(&self, item: &mut PromptMemory, left: i64) -> Option<i64> {
        if item.held.is_none() {
            let mut part = 2;
            while part <= LEAST_PART
                && item.tell_less(self.tokens.memory_tokens / part, self.tokens)
            {
                let count = self.tokens.count_one(&line(&item.told()));
                if count <= left {
                    return Some(count);
                }
                part *= 2;
            }
            return None;
        }
        let text = item.text().to_owned();
        item.tell(String::new());
        let told = item.told();
        let shown = |content: &str| format!("{content} {ELLIPSIS}");
        let with = |content: &str| {
            self.tokens.count_one(&line(&Memory { content: &shown(content), ..told }))
        };
        let (content, count) = self.cut(&text, left - SLACK, with)?;
        item.tell(shown(&content));
        Some(count)
    }

    /// The beginning of a text, cut at a sentence, that costs at most `room` tokens in its place, and what it
    /// costs there. `None` when there is no room worth it.
    fn cut(&self, text: &str, room: i64, cost: impl Fn(&str) -> i64) -> Option<(String, i64)> {
        let mut most = room - cost("");
        while most >= LEAST_CUT {
            let cut = self.tokens.cut(text, most);
            let cost = cost(&cut);
            if cost <= room {
                return (!cut.is_empty()).then_some((cut, cost));
            }
            // Indentation costs tokens too.
            most -= cost - room;
        }
        None
    }

    /// The text of the message; `None` when there is nothing to tell.
    pub fn text(&self, items: &[PromptMemory]) -> Option<String> {
        if items.is_empty() {
            return None;
        }
        let lines = items.iter().map(|item| line(&item.told()));
        let block: String = std::iter::once(self.heading.to_owned()).chain(lines).collect();
        Some(fence::fenced(&block))
    }

    /// A text below the heading, cut at a sentence if it is too long for `share` tokens with `tail` behind
    /// it, and what the message costs. `None` when there is no room for it.
    pub fn fit_text(&self, text: &str, tail: &str, share: i64) -> Option<(String, i64)> {
        let cost =
            |text: &str| self.tokens.count_one(&self.below_heading(text, tail)) + self.overhead;
        let whole = cost(text);
        if whole <= share {
            return Some((text.to_owned(), whole));
        }
        self.cut(text, share, cost)
    }

    /// The message of [`Self::fit_text`].
    pub fn below_heading(&self, text: &str, tail: &str) -> String {
        let text = marked(text, &[]);
        fence::fenced(&text_block(self.heading, &format!("{text}{tail}")))
    }
}
