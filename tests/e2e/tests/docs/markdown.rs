//! As much of Markdown as the documentation uses: code blocks, tables, links and headings.

use std::path::{Path, PathBuf};

/// A fenced code block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Line of its opening fence, from 1.
    pub line: usize,
    /// The first word after the fence.
    pub language: String,
    /// The other words.
    pub info: String,
    /// Without the indentation of the fence.
    pub body: String,
    /// Whether nothing but blank lines stands between this block and the one before.
    pub follows_directly: bool,
}

/// A file of the documentation.
#[derive(Debug, Clone)]
pub struct Document {
    /// Relative to the top of the repository.
    pub path: PathBuf,
    text: String,
}

/// The top of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Document {
    pub fn read(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let text = std::fs::read_to_string(repository().join(&path))
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// README.md and the pages of docs/, the former first.
    pub fn for_users() -> Vec<Self> {
        let mut pages: Vec<PathBuf> = std::fs::read_dir(repository().join("docs"))
            .expect("the directory docs")
            .map(|entry| Path::new("docs").join(entry.expect("an entry of docs").file_name()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect();
        pages.sort();
        std::iter::once(PathBuf::from("README.md")).chain(pages).map(Self::read).collect()
    }

    /// A short name that fits into that of a database.
    pub fn name(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().to_lowercase()
    }

    /// `path:line`, for messages.
    pub fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }

    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        let mut follows_directly = false;
        while let Some((number, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else {
                follows_directly = follows_directly && line.trim().is_empty();
                continue;
            };
            let indentation = line.len() - line.trim_start().len();
            let body: Vec<&str> = lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| line.trim() != "```")
                .map(|line| line.get(indentation..).unwrap_or_default())
                .collect();
            let (language, info) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
            blocks.push(Block {
                line: number + 1,
                language: language.to_owned(),
                info: info.to_owned(),
                body: body.join("\n"),
                follows_directly,
            });
            follows_directly = true;
        }
        blocks
    }

    /// The lines outside of code blocks, with their numbers.
    pub fn prose(&self) -> Vec<(usize, &str)> {
        let mut in_block = false;
        self.text
            .lines()
            .enumerate()
            .filter_map(|(number, line)| {
                let is_fence = line.trim_start().starts_with("```");
                in_block ^= is_fence;
                (!in_block && !is_fence).then_some((number + 1, line))
            })
            .collect()
    }

    /// The cells of every table row below a header whose first cell is `first`, header and ruler
    /// left out, with line numbers. A `\|` is a bar within a cell.
    pub fn rows_under(&self, first: &str) -> Vec<(usize, Vec<String>)> {
        let mut rows = Vec::new();
        let mut wanted = false;
        for (number, line) in self.prose() {
            let Some(inner) = line.trim().strip_prefix('|') else {
                wanted = false;
                continue;
            };
            let inner = inner.strip_suffix('|').unwrap_or(inner).replace("\\|", "\u{1}");
            let cells: Vec<String> =
                inner.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
            if cells[0] == first {
                wanted = true;
            } else if wanted && !cells[0].starts_with("---") {
                rows.push((number, cells));
            }
        }
        rows
    }

    /// Targets of `[text](target)`, with line numbers.
    pub fn links(&self) -> Vec<(usize, &str)> {
        self.prose()
            .into_iter()
            .flat_map(|(number, line)| {
                line.split("](").skip(1).filter_map(move |rest| {
                    rest.split_once(')').map(|(target, _)| (number, target))
                })
            })
            .collect()
    }

    /// The anchors that GitHub gives to the headings.
    pub fn anchors(&self) -> Vec<String> {
        self.prose()
            .into_iter()
            .filter(|(_, line)| line.starts_with('#'))
            .map(|(_, line)| anchor(line.trim_start_matches('#').trim()))
            .collect()
    }
}

fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

/// What stands between backquotes in a cell.
pub fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn blocks_and_tables_are_found() {
    let text = "# A `b`: c\n```sql error=1 x\nSELECT 1;\n```\n\n  ```text\n  1\n   2\n  ```\nx\n```sh\n```\n\
                | Key | B |\n|---|---|\n| `a\\|b` | [t](u.md#v) |\n\n| Other |\n|---|\n| x |\n";
    let document = Document { path: "x.md".into(), text: text.to_owned() };
    let blocks = document.blocks();
    assert_eq!(blocks.len(), 3);
    assert_eq!(
        (blocks[0].line, blocks[0].language.as_str(), blocks[0].info.as_str()),
        (2, "sql", "error=1 x")
    );
    assert_eq!((blocks[1].body.as_str(), blocks[1].follows_directly), ("1\n 2", true));
    assert!(!blocks[0].follows_directly && !blocks[2].follows_directly);
    assert_eq!(
        document.rows_under("Key"),
        [(15, vec!["`a|b`".to_owned(), "[t](u.md#v)".to_owned()])]
    );
    assert_eq!(document.links(), [(15, "u.md#v")]);
    assert_eq!(document.anchors(), ["a-b-c"]);
    assert_eq!(code("`a`, `b` c"), ["a", "b"]);
}
