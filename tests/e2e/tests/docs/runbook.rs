//! docs/runbook.md against the code: an entry for every hint of `memory_status()`, and no entry for another one.

use crate::markdown::{Document, code, repository};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What makes the rows of `memory_status()`, and the failures whose hints go into them. Each text there that ends
/// with a full stop is a hint.
const SOURCES: [&str; 5] = [
    "src/memory/status",
    "src/jobs/status.rs",
    "src/jobs/run/launcher.rs",
    "src/models/interface.rs",
    "src/models/supervisor.rs",
];

/// The files of a folder, or the file.
fn files(path: &str) -> Vec<PathBuf> {
    let path = repository().join(path);
    match std::fs::read_dir(&path) {
        Ok(entries) => entries.map(|entry| entry.expect("an entry").path()).collect(),
        Err(_) => vec![path],
    }
}

/// The texts between double quotes of a source file, comments on lines of their own left out.
fn literals(source: &str) -> Vec<String> {
    let lines: Vec<&str> =
        source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = lines.join("\n");
    let mut characters = code.chars().peekable();
    let mut found = Vec::new();
    while let Some(character) = characters.next() {
        if character != '"' {
            continue;
        }
        let mut text = String::new();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => match characters.next() {
                    Some('\n') => while characters.next_if(|c| c.is_whitespace()).is_some() {},
                    Some(escaped) => text.push(escaped),
                    None => break,
                },
                other => text.push(other),
            }
        }
        found.push(text);
    }
    found
}

/// As the page shows a hint: an ellipsis in the place of each value.
fn shown(hint: &str) -> String {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut shown = String::new();
    let mut rest = hint;
    while let Some((before, after)) = rest.split_once('{') {
        shown.push_str(before);
        match after.split_once('}') {
            Some((name, after)) if is_name(name) => {
                shown.push('…');
                rest = after;
            }
            _ => {
                shown.push('{');
                rest = after;
            }
        }
    }
    shown + rest
}

#[test]
fn runbook_has_every_hint_of_status() {
    let mut hints = BTreeSet::new();
    for path in SOURCES {
        let before = hints.len();
        for file in files(path) {
            let source = std::fs::read_to_string(&file).expect("a source file");
            let found = literals(&source).into_iter().filter(|text| text.ends_with('.'));
            hints.extend(found.map(|hint| shown(&hint)));
        }
        assert!(hints.len() > before, "{path} has no hint");
    }
    let rows = Document::read("docs/runbook.md").rows_under("Component");
    let documented: BTreeSet<String> =
        rows.iter().map(|(_, cells)| code(&cells[2]).concat()).collect();
    assert_eq!(documented.len(), rows.len(), "a hint is there twice");
    let missing: Vec<&String> = hints.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&hints).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "not in docs/runbook.md: {missing:#?}\nin no source file: {stale:#?}"
    );
}

#[test]
fn runbook_has_components_and_states_of_operations() {
    let known = Document::read("docs/operations.md").rows_under("Component");
    for (line, cells) in Document::read("docs/runbook.md").rows_under("Component") {
        let [components, states, _, meaning, action, end] = cells.as_slice() else {
            panic!("docs/runbook.md:{line} has {} cells", cells.len());
        };
        for component in code(components) {
            let row = known.iter().find(|(_, cells)| code(&cells[0]).contains(&component));
            let (_, row) = row.unwrap_or_else(|| panic!("docs/runbook.md:{line}: {component}"));
            for state in code(states) {
                let stands = row[1..].iter().any(|cell| code(cell).contains(&state));
                assert!(stands, "docs/runbook.md:{line}: {component} has no state {state}");
            }
        }
        let is_complete = [meaning, action, end].iter().all(|cell| !cell.is_empty());
        assert!(is_complete, "docs/runbook.md:{line} has an empty cell");
    }
}

#[test]
fn hints_are_found_in_a_source() {
    let source =
        "// \"No.\"\nlet a = \"Run \\\"x\\\", \\\n    then y.\";\nformat!(\"{n} of {m} {}\")";
    assert_eq!(literals(source), ["Run \"x\", then y.", "{n} of {m} {}"]);
    assert_eq!(shown("id = '{job}', {\"a\": 1}, {}."), "id = '…', {\"a\": 1}, {}.");
}
