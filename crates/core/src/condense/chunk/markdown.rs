//! The blocks of a Markdown text: headings, code, lists, tables, and paragraphs of anything else.
//!
//! This is no parser of Markdown: it finds the lines between which a text may be cut. Plain text is
//! a row of paragraphs.

use std::ops::Range;

/// A longer line is no heading, whatever it begins with.
const MAX_HEADING_CHARS: usize = 200;
/// Metadata at the start of a document is not longer.
const MAX_FRONT_MATTER_LINES: usize = 100;
/// More spaces before a line make it code or a part of a list.
const MAX_INDENT: usize = 3;
/// Fewest characters that open code.
const MIN_FENCE: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Heading {
        level: usize,
        title: String,
    },
    /// Code between fences.
    Code,
    List,
    Table,
    Prose,
}

/// Consecutive lines of a text with the blank lines behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub kind: Kind,
    pub range: Range<usize>,
}

/// The blocks of the text. Together they are the whole text.
pub(super) fn blocks(text: &str) -> Vec<Block> {
    let mut reader = Reader { text, ..Reader::default() };
    let mut start = 0;
    let front_matter = front_matter(text);
    if front_matter > 0 {
        reader.open(Kind::Prose, 0, front_matter);
        reader.after_blank = true;
        start = front_matter;
    }
    for line in text[start..].split_inclusive('\n') {
        let end = start + line.len();
        reader.read(line, start, end);
        start = end;
    }
    reader.blocks
}

/// The bytes of the metadata between two lines `---` at the start of the text.
fn front_matter(text: &str) -> usize {
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').take(MAX_FRONT_MATTER_LINES).enumerate() {
        at += line.len();
        match (number, line.trim_end()) {
            (0, "---") => {}
            (0, _) => return 0,
            (_, "---" | "...") => return at,
            _ => {}
        }
    }
    0
}

/// What opened a code block.
#[derive(Clone, Copy)]
struct Fence {
    mark: char,
    length: usize,
}

#[derive(Default)]
struct Reader<'a> {
    text: &'a str,
    blocks: Vec<Block>,
    /// Set while in a code block, which may be a part of a list.
    fence: Option<Fence>,
    after_blank: bool,
    /// Whether the last block is a paragraph of one line that a line below may make a heading.
    is_one_line: bool,
}

impl Reader<'_> {
    fn read(&mut self, line: &str, start: usize, end: usize) {
        if let Some(fence) = self.fence {
            self.extend(end);
            if closes(line, fence) {
                self.fence = None;
                self.after_blank = true;
            }
            return;
        }
        if line.trim().is_empty() {
            // Blank lines before the first block belong to it.
            self.extend(end);
            self.after_blank = true;
            return;
        }
        let was_one_line = std::mem::replace(&mut self.is_one_line, false);
        let after_blank = std::mem::replace(&mut self.after_blank, false);
        let content = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - content.len();
        let in_list = matches!(self.last_kind(), Some(Kind::List));
        let continues_list = in_list && indent >= 2;

        if let Some(fence) = opens(content) {
            if !continues_list {
                self.open(Kind::Code, start, end);
            }
            self.extend(end);
            self.fence = Some(fence);
        } else if continues_list {
            self.extend(end);
        } else if indent <= MAX_INDENT
            && let Some((level, title)) = heading(content)
        {
            self.open(Kind::Heading { level, title }, start, end);
        } else if was_one_line
            && !after_blank
            && let Some(level) = underline(content)
        {
            self.underline(level, end);
        } else if is_item(content) {
            if in_list {
                self.extend(end);
            } else {
                self.open(Kind::List, start, end);
            }
        } else if content.starts_with('|') {
            if matches!(self.last_kind(), Some(Kind::Table)) && !after_blank {
                self.extend(end);
            } else {
                self.open(Kind::Table, start, end);
            }
        } else if !after_blank && matches!(self.last_kind(), Some(Kind::Prose | Kind::List)) {
            self.extend(end);
        } else {
            self.open(Kind::Prose, start, end);
            self.is_one_line = content.chars().count() <= MAX_HEADING_CHARS;
        }
    }

    fn last_kind(&self) -> Option<&Kind> {
        self.blocks.last().map(|block| &block.kind)
    }

    /// Adds a block. The first one takes the blank lines before it.
    fn open(&mut self, kind: Kind, start: usize, end: usize) {
        let start = if self.blocks.is_empty() { 0 } else { start };
        self.blocks.push(Block { kind, range: start..end });
    }

    fn extend(&mut self, end: usize) {
        if let Some(block) = self.blocks.last_mut() {
            block.range.end = end;
        }
    }

    /// Makes the paragraph before this line a heading.
    fn underline(&mut self, level: usize, end: usize) {
        if let Some(block) = self.blocks.last_mut() {
            let title = self.text[block.range.clone()].trim().to_owned();
            block.kind = Kind::Heading { level, title };
            block.range.end = end;
        }
    }
}

/// The fence that a line opens, given without its indentation.
fn opens(content: &str) -> Option<Fence> {
    let mark = content.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
    let rest = content.trim_start_matches(mark);
    let length = content.len() - rest.len();
    // `code` within a line is no fence.
    let is_fence = length >= MIN_FENCE && !(mark == '`' && rest.contains('`'));
    is_fence.then_some(Fence { mark, length })
}

fn closes(line: &str, fence: Fence) -> bool {
    let line = line.trim();
    line.len() >= fence.length && line.trim_start_matches(fence.mark).is_empty()
}

/// The level and the text of a heading `## Text ##`.
fn heading(content: &str) -> Option<(usize, String)> {
    let rest = content.trim_start_matches('#');
    let level = content.len() - rest.len();
    let is_heading = (1..=6).contains(&level)
        && rest.chars().next().is_none_or(char::is_whitespace)
        && content.chars().count() <= MAX_HEADING_CHARS;
    is_heading.then(|| (level, rest.trim().trim_end_matches('#').trim_end().to_owned()))
}

/// The level of the heading that a line of `=` or `-` makes of the line above it.
fn underline(content: &str) -> Option<usize> {
    let content = content.trim_end();
    let all = |mark| content.len() > 1 && content.chars().all(|c| c == mark);
    if all('=') {
        Some(1)
    } else if all('-') {
        Some(2)
    } else {
        None
    }
}

/// Whether a line, given without its indentation, begins an item of a list.
pub(super) fn is_item(content: &str) -> bool {
    let digits = content.len() - content.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let marker = &content[digits..];
    let rest = match digits {
        0 => marker.strip_prefix(['-', '*', '+', '•']),
        1..=9 => marker.strip_prefix(['.', ')']),
        _ => None,
    };
    rest.is_some_and(|rest| rest.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The first letter of the kind of each block, and its trimmed text.
    fn read(text: &str) -> Vec<(String, &str)> {
        let name = |kind: &Kind| match kind {
            Kind::Heading { level, title } => format!("H{level} {title}"),
            other => format!("{other:?}"),
        };
        blocks(text).iter().map(|b| (name(&b.kind), text[b.range.clone()].trim())).collect()
    }

    fn kinds(text: &str) -> Vec<String> {
        read(text).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn headings_are_found_in_both_forms() {
        assert_eq!(
            kinds("# One\ntext\n### Two ##\n#hashtag\n\nThree\n===\n\nFour\n----\n#\n"),
            ["H1 One", "Prose", "H3 Two", "Prose", "H1 Three", "H2 Four", "H1 "]
        );
        assert_eq!(kinds("two\nlines\n---\n"), ["Prose"], "no heading of several lines");
        assert_eq!(kinds(&format!("# {}", "x".repeat(200))), ["Prose"], "too long for a heading");
        assert_eq!(kinds("    # code"), ["Prose"]);
    }

    #[test]
    fn code_is_one_block_whatever_it_holds() {
        let text = "Run:\n```sh\n# no heading\n\n- no list\n~~~\n```\nDone.\n";
        assert_eq!(kinds(text), ["Prose", "Code", "Prose"]);
        assert_eq!(kinds("````\n```\n````\ntext"), ["Code", "Prose"]);
        assert_eq!(kinds("```\nnever closed\n# x"), ["Code"]);
        assert_eq!(kinds("```inline``` code\n# x"), ["Prose", "H1 x"]);
    }

    #[test]
    fn a_list_holds_what_is_indented_in_it() {
        let text = "- one\n  more\n\n  ```\n# code\n  ```\n- two\nlazy\n\nNot in the list.\n";
        assert_eq!(kinds(text), ["List", "Prose"]);
        assert_eq!(kinds("1. one\n2) two\n\n* three"), ["List"]);
        assert_eq!(kinds("-no item\n2024 was good"), ["Prose"]);
    }

    #[test]
    fn tables_and_metadata_are_blocks() {
        assert_eq!(
            kinds("a\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n| c |\n"),
            ["Prose", "Table", "Table"]
        );
        assert_eq!(
            read("---\ntitle: x\n---\n# One\n"),
            [("Prose".to_owned(), "---\ntitle: x\n---"), ("H1 One".to_owned(), "# One")]
        );
        assert_eq!(kinds("---\n\ntext"), ["Prose", "Prose"], "no metadata without an end");
    }

    #[test]
    fn blank_lines_belong_to_the_block_before() {
        let ranges: Vec<_> = blocks("\n \na\n\n\nb\n").into_iter().map(|b| b.range).collect();
        assert_eq!(ranges, [0..7, 7..9]);
        assert!(blocks(" \n\n").is_empty() && blocks("").is_empty());
    }

    proptest! {
        #[test]
        fn the_blocks_are_the_whole_text(
            text in "(#{1,3} a|```|~~~|- x|  y|1\\. z|\\| t|===|---|word\\.|[ \t]|\n|\r\n){0,30}",
        ) {
            let blocks = blocks(&text);
            let mut end = 0;
            for block in &blocks {
                prop_assert_eq!(block.range.start, end);
                end = block.range.end;
                prop_assert!(!text[block.range.clone()].trim().is_empty());
            }
            prop_assert!(end == text.len() || (blocks.is_empty() && text.trim().is_empty()));
        }

        #[test]
        fn any_text_can_be_read(text in "\\PC{0,80}") {
            prop_assert_eq!(blocks(&text).is_empty(), text.trim().is_empty());
        }
    }
}
