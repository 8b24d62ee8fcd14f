//! The sections of a document, and which of them go into one chunk.

use std::ops::Range;

use super::markdown::{Block, Kind};
use super::sums::Sums;

/// Blocks that go into one chunk, or a section that has to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub blocks: Range<usize>,
    /// Whether the blocks fit into one chunk.
    pub is_whole: bool,
}

/// The headings that each block stands under.
pub(super) struct Outline {
    headings: Vec<Option<Heading>>,
    /// For each block the blocks that are its headings, itself included, the outermost first.
    paths: Vec<Vec<usize>>,
}

struct Heading {
    level: usize,
    title: String,
}

impl Outline {
    pub(super) fn of(blocks: &[Block]) -> Self {
        let headings: Vec<Option<Heading>> = blocks
            .iter()
            .map(|block| match &block.kind {
                Kind::Heading { level, title } => {
                    Some(Heading { level: *level, title: title.clone() })
                }
                _ => None,
            })
            .collect();
        let mut paths = Vec::with_capacity(blocks.len());
        let mut path: Vec<(usize, usize)> = Vec::new();
        for (index, heading) in headings.iter().enumerate() {
            if let Some(Heading { level, .. }) = heading {
                path.retain(|(_, above)| above < level);
                path.push((index, *level));
            }
            paths.push(path.iter().map(|(index, _)| *index).collect());
        }
        Self { headings, paths }
    }

    /// The titles that all of the text in these blocks stands under. Headings that no text follows
    /// count only where there is nothing else.
    pub(super) fn headings(&self, blocks: Range<usize>) -> Vec<String> {
        let has_text = blocks.clone().any(|block| self.headings[block].is_none());
        let mut paths = blocks
            .filter(|block| !has_text || self.headings[*block].is_none())
            .map(|block| self.paths[block].as_slice());
        let Some(first) = paths.next() else { return Vec::new() };
        let common = paths.fold(first, |common, path| {
            let same = common.iter().zip(path).take_while(|(a, b)| a == b).count();
            &common[..same]
        });
        let titles = common.iter().filter_map(|block| self.headings[*block].as_ref());
        titles.map(|heading| heading.title.clone()).filter(|title| !title.is_empty()).collect()
    }

    /// Divides the document at its headings until each unit fits or has no more headings in it.
    /// Neighbours that fit together stay together. `tokens` are those of the blocks.
    pub(super) fn divide(&self, tokens: &[u32], max_tokens: u32) -> Vec<Unit> {
        let mut units = Vec::new();
        if !tokens.is_empty() {
            let sums = Sums::of(tokens.iter().copied());
            self.divide_range(0..tokens.len(), &sums, u64::from(max_tokens), &mut units);
        }
        units
    }

    fn divide_range(&self, blocks: Range<usize>, tokens: &Sums, max: u64, units: &mut Vec<Unit>) {
        if tokens.of_range(blocks.clone()) <= max {
            units.push(Unit { blocks, is_whole: true });
            return;
        }
        let starts = self.inner_starts(blocks.clone());
        if starts.is_empty() {
            units.push(Unit { blocks, is_whole: false });
            return;
        }
        let ends = starts.iter().copied().chain([blocks.end]);
        let begins = std::iter::once(blocks.start).chain(starts.iter().copied());
        let mut last_is_whole = false;
        for (start, end) in begins.zip(ends) {
            let together = units.last().map_or(start, |last| last.blocks.start)..end;
            if last_is_whole && tokens.of_range(together.clone()) <= max {
                units.pop();
                units.push(Unit { blocks: together, is_whole: true });
            } else {
                last_is_whole = tokens.of_range(start..end) <= max;
                self.divide_range(start..end, tokens, max, units);
            }
        }
    }

    /// The outermost headings behind the first text of these blocks. Before it there are only
    /// headings, which stay with it.
    fn inner_starts(&self, blocks: Range<usize>) -> Vec<usize> {
        let level = |block: usize| self.headings[block].as_ref().map(|heading| heading.level);
        let inner = || {
            let first_text = blocks.clone().skip_while(|block| level(*block).is_some());
            first_text.filter_map(|block| level(block).map(|level| (block, level)))
        };
        let Some(outermost) = inner().map(|(_, level)| level).min() else { return Vec::new() };
        inner().filter(|(_, level)| *level == outermost).map(|(block, _)| block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::markdown;
    use super::*;

    /// The units of a text whose blocks have a token for each byte but those of white space, and
    /// the headings of each.
    fn divide(text: &str, max_tokens: u32) -> Vec<(Vec<String>, bool, String)> {
        let blocks = markdown::blocks(text);
        let tokens: Vec<u32> = blocks
            .iter()
            .map(|block| text[block.range.clone()].split_whitespace().map(|w| w.len() as u32).sum())
            .collect();
        let outline = Outline::of(&blocks);
        outline
            .divide(&tokens, max_tokens)
            .into_iter()
            .map(|unit| {
                let range =
                    blocks[unit.blocks.start].range.start..blocks[unit.blocks.end - 1].range.end;
                let text = text[range].split_whitespace().collect::<Vec<_>>().join(" ");
                (outline.headings(unit.blocks), unit.is_whole, text)
            })
            .collect()
    }

    fn titles(titles: &[&str]) -> Vec<String> {
        titles.iter().map(|title| (*title).to_owned()).collect()
    }

    const GUIDE: &str =
        "# G\n\n## A\n\naaaa\n\n### A1\n\nbbbb\n\n## B\n\ncccc\n\n## C\n\ndddddddddddddddd\n";

    #[test]
    fn a_document_that_fits_is_one_unit() {
        assert_eq!(divide(GUIDE, 100).len(), 1);
        assert_eq!(divide(GUIDE, 100)[0].0, titles(&["G"]));
        assert!(divide("", 10).is_empty());
    }

    #[test]
    fn a_document_is_divided_at_its_headings() {
        let units = divide(GUIDE, 19);
        assert_eq!(
            units,
            [
                (titles(&["G", "A"]), true, "# G ## A aaaa ### A1 bbbb".to_owned()),
                (titles(&["G", "B"]), true, "## B cccc".to_owned()),
                (titles(&["G", "C"]), true, "## C dddddddddddddddd".to_owned()),
            ]
        );
    }

    #[test]
    fn small_neighbours_stay_together_and_long_sections_are_to_be_cut() {
        let units =
            divide("# A\n\naa\n\n# B\n\nbb\n\n# C\n\ncccccccccccccccccc\n\n# D\n\ndd\n", 12);
        assert_eq!(
            units,
            [
                (titles(&[]), true, "# A aa # B bb".to_owned()),
                (titles(&["C"]), false, "# C cccccccccccccccccc".to_owned()),
                (titles(&["D"]), true, "# D dd".to_owned()),
            ]
        );
    }

    #[test]
    fn headings_without_text_stay_with_what_follows() {
        let units =
            divide("# A\n## B\n### C\n\ncccccccccccc\n\n### D\n\ndddd\n\n## E\n\neeee\n", 20);
        assert_eq!(
            units,
            [
                (titles(&["A", "B", "C"]), false, "# A ## B ### C cccccccccccc".to_owned()),
                (titles(&["A", "B", "D"]), true, "### D dddd".to_owned()),
                (titles(&["A", "E"]), true, "## E eeee".to_owned()),
            ]
        );
        assert_eq!(divide("# A\n## B\n# C\n", 20)[0].0, titles(&[]));
        assert_eq!(divide("# A\n## B\n", 20)[0].0, titles(&["A"]));
    }

    #[test]
    fn levels_in_any_order_are_divided_too() {
        let units = divide("### A\n\naaaa\n\n# B\n\nbbbb\n\n## C\n\ncccc\n", 10);
        let texts: Vec<_> = units.iter().map(|(headings, ..)| headings.clone()).collect();
        assert_eq!(texts, [titles(&["A"]), titles(&["B"]), titles(&["B", "C"])]);
    }
}
