//! Results of statements, and the outputs that the documentation shows for them.

use postgres::SimpleQueryMessage;

/// Columns whose values are computed by the models. Processors round differently, so what is
/// shown may differ a little from what a reader sees.
const NEAR: [&str; 3] = ["similarity", "lexical", "recency"];
const TOLERANCE: f64 = 0.05;
/// Probabilities, most of them small: what counts is their proportion. It moves more than a cosine does,
/// and a slow machine reads fewer rows with the cross-encoder.
const SCORES: [&str; 2] = ["score", "relevance"];
const SCORE_TOLERANCE: f64 = 0.3;
/// What rounding to two digits takes away, on both sides.
const ROUNDED: f64 = 0.01;

/// A result as text: names of columns, and rows with empty strings for NULL.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Output {
    /// The last result with columns; `None` if no statement had any.
    pub fn last_of(messages: &[SimpleQueryMessage]) -> Option<Self> {
        let mut last = None;
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let columns = columns.iter().map(|column| column.name().to_owned()).collect();
                    last = Some(Self { columns, rows: Vec::new() });
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned());
                    last.get_or_insert_with(Self::default).rows.push(cells.collect());
                }
                _ => {}
            }
        }
        last
    }

    /// Reads what psql prints in its aligned format, without the line that counts the rows.
    pub fn of_psql(text: &str) -> Self {
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let mut lines = text.lines();
        let columns = lines.next().map(cells).unwrap_or_default();
        Self { columns, rows: lines.skip(1).map(cells).collect() }
    }

    /// As psql would show it, for the author who corrects a page.
    fn aligned(&self) -> String {
        let lines = || std::iter::once(&self.columns).chain(&self.rows);
        let width = |at: usize| {
            lines().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max()
        };
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().enumerate();
            let cells: Vec<String> = cells
                .map(|(at, cell)| format!(" {cell:<width$} ", width = width(at).unwrap_or(0)))
                .collect();
            cells.join("|").trim_end().to_owned()
        };
        lines().map(line).collect::<Vec<_>>().join("\n")
    }

    /// In what `self`, which is shown, differs from the `actual` one; `None` when a reader sees
    /// the same.
    pub fn difference(&self, actual: &Self) -> Option<String> {
        if self.columns != actual.columns {
            return Some(format!("columns {:?} instead of {:?}", actual.columns, self.columns));
        }
        if self.rows.len() != actual.rows.len() {
            let (seen, shown) = (actual.rows.len(), self.rows.len());
            return Some(format!("{seen} rows instead of {shown}:\n{}", actual.aligned()));
        }
        for (shown, seen) in self.rows.iter().zip(&actual.rows) {
            for ((column, shown), seen) in self.columns.iter().zip(shown).zip(seen) {
                if !is_same(column, shown, seen) {
                    let all = actual.aligned();
                    return Some(format!("{column} is {seen:?} instead of {shown:?}:\n{all}"));
                }
            }
        }
        None
    }
}

fn is_same(column: &str, shown: &str, seen: &str) -> bool {
    let tolerance = |shown: f64| match column {
        _ if NEAR.contains(&column) => Some(TOLERANCE),
        _ if SCORES.contains(&column) => Some(ROUNDED + SCORE_TOLERANCE * shown.abs()),
        _ => None,
    };
    if let (Ok(shown), Ok(seen)) = (shown.parse::<f64>(), seen.parse::<f64>())
        && let Some(tolerance) = tolerance(shown)
    {
        return (shown - seen).abs() <= tolerance;
    }
    // Trailing blanks do not survive psql's alignment.
    shown == seen.trim()
}

/// Cuts a block into statements: each ends with a semicolon at the end of a line, outside of `$$`.
pub fn statements(block: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut current = String::new();
    let mut is_quoted = false;
    for line in block.lines() {
        current.push_str(line);
        current.push('\n');
        is_quoted ^= line.matches("$$").count() % 2 == 1;
        let code = line.split("--").next().unwrap_or_default();
        if code.trim_end().ends_with(';') && !is_quoted {
            statements.push(std::mem::take(&mut current));
        }
    }
    if !current.trim().is_empty() {
        statements.push(current);
    }
    statements
}

#[test]
fn differences_are_noticed() {
    let shown = Output::of_psql(" content | score\n---------+-------\n tea     |  0.50\n");
    let seen = |content: &str, score: &str| Output {
        columns: vec!["content".into(), "score".into()],
        rows: vec![vec![content.into(), score.into()]],
    };
    assert_eq!(shown.difference(&seen("tea", "0.53")), None);
    // What the other ranking would give.
    let small = Output::of_psql(" content | score\n---------+-------\n tea     |  0.03\n");
    assert!(small.difference(&seen("tea", "0.06")).is_some());
    assert!(small.difference(&seen("tea", "0.01")).is_some());
    for other in
        [seen("coffee", "0.50"), seen("tea", "0.70"), Output { rows: vec![], ..seen("", "") }]
    {
        assert!(shown.difference(&other).is_some(), "{other:?}");
    }
    let renamed = Output { columns: vec!["text".into(), "score".into()], ..seen("tea", "0.50") };
    assert!(shown.difference(&renamed).is_some());
}

#[test]
fn blocks_are_cut_into_statements() {
    let block = "SELECT 1; -- one\nDO $$\nBEGIN\n  NULL;\nEND $$;\n\nSELECT\n  2\n";
    let cut = statements(block);
    assert_eq!(cut.len(), 3);
    assert!(cut[1].contains("NULL;") && cut[2].contains('2'));
}
