//! The documentation is true: every example of README.md and docs/ runs and gives the output shown,
//! tables list what the server has, links and `make` targets exist.

mod beside;
mod blocks;
mod llm;
mod markdown;
mod output;
mod runbook;
mod seeds;
mod tables;

use markdown::{Document, code, repository};
use std::path::Path;

fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn readme_examples_run() {
    let readme = Document::read("README.md");
    assert!(readme.blocks().iter().filter(|block| block.language == "sql").count() > 5);
    assert_none(&blocks::problems(&readme));
}

#[test]
fn examples_of_docs_run() {
    let pages = Document::for_users().into_iter().skip(1);
    assert_none(&pages.flat_map(|page| blocks::problems(&page)).collect::<Vec<_>>());
}

/// The pages with links, beside those for users.
fn all_pages() -> Vec<Document> {
    let others = [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/internals/evaluation_runs.md",
        "docs/internals/seeds.md",
        "models/README.md",
        "tests/README.md",
    ];
    Document::for_users().into_iter().chain(others.map(Document::read)).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut problems = Vec::new();
    let mut checked = 0;
    for page in all_pages() {
        for (line, target) in page.links().into_iter().filter(|(_, target)| !target.contains("://"))
        {
            checked += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => page.path.clone(),
                file => page.path.parent().unwrap_or(Path::new("")).join(file),
            };
            let exists = repository().join(&path).exists();
            if !exists
                || !anchor.is_empty()
                    && !Document::read(&path).anchors().iter().any(|known| known == anchor)
            {
                problems.push(format!("{}: {target}", page.place(line)));
            }
        }
    }
    assert!(checked > 20, "only {checked} links were found");
    assert_none(&problems);
}

#[test]
fn make_targets_exist() {
    let makefile = std::fs::read_to_string(repository().join("Makefile")).expect("Makefile");
    let targets: Vec<&str> =
        makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    let mut problems = Vec::new();
    let mut checked = 0;
    for page in all_pages() {
        let prose = page.prose();
        let inline = prose.iter().flat_map(|(line, text)| {
            code(text).into_iter().map(move |code| (*line, code.to_owned()))
        });
        let blocks = page.blocks();
        let in_blocks = blocks
            .iter()
            .filter(|block| block.language == "sh")
            .flat_map(|block| block.body.lines().map(move |text| (block.line, text.to_owned())));
        for (line, command) in inline.chain(in_blocks) {
            let words: Vec<&str> = command.split_whitespace().collect();
            for target in words.windows(2).filter(|pair| pair[0] == "make").map(|pair| pair[1]) {
                checked += 1;
                if !targets.contains(&target) {
                    problems.push(format!("{}: make {target}", page.place(line)));
                }
            }
        }
    }
    assert!(checked > 5, "only {checked} commands were found");
    assert_none(&problems);
}
