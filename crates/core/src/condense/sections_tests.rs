//! Tests of the reading of an answer with sections.

use proptest::prelude::*;

use super::*;

fn list(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

fn jwt() -> Sections {
    Sections {
        summary: "Ann and Bob chose JWT.\nIt expires after 1 hour.".to_owned(),
        topics: list(&["authentication", "JWT"]),
        entities: list(&["Ann", "Bob", "UserService"]),
        decisions: list(&["Use JWT, with 1-hour expiration", "Keep Redis"]),
        questions: list(&["Do we need refresh tokens?"]),
    }
}

#[test]
fn an_answer_as_it_was_asked_for_is_read() {
    let answer = "## SUMMARY\nAnn and Bob chose JWT.\nIt expires after 1 hour.\n\n\
                  ## TOPICS\nauthentication, JWT\n\n## ENTITIES\nAnn, Bob, UserService\n\n\
                  ## DECISIONS\nUse JWT, with 1-hour expiration\nKeep Redis\n\n\
                  ## QUESTIONS\nDo we need refresh tokens?\n";
    assert_eq!(sections(answer), jwt());
    assert_eq!(sections(&jwt().to_string()), jwt());
}

#[test]
fn other_forms_of_the_headings_and_lists_are_read_too() {
    for answer in [
        "**Summary:** Ann and Bob chose JWT.\nIt expires after 1 hour.\n\n**Topics:** authentication, \
         JWT.\n**Key Entities:**\n- Ann\n- Bob\n- `UserService`\n**Decisions Made:**\n1. Use JWT, with \
         1-hour expiration\n2. Keep Redis\n**Open Questions:**\n* Do we need refresh tokens?",
        "Here is the summary of the conversation:\n\n# Summary\nAnn and Bob chose JWT.\nIt expires after \
         1 hour.\n# Main topics\n• authentication\n• JWT\n# Entities\nAnn, Bob, and UserService\n# Decisions\n\
         - [x] Use JWT, with 1-hour expiration\n- [ ] Keep Redis\n# Unresolved questions\n- Do we need \
         refresh tokens?",
        "```markdown\nTOPICS: authentication, JWT\nSUMMARY\nAnn and Bob chose JWT.\nIt expires after 1 \
         hour.\nENTITIES: \"Ann\", **Bob**, UserService\nDECISIONS\nUse JWT, with 1-hour expiration\nKeep \
         Redis\nQUESTIONS\nDo we need refresh tokens?\n```",
        "Ann and Bob chose JWT.\nIt expires after 1 hour.\n\n1. TOPICS: authentication; JWT\n2. ENTITIES: \
         Ann, Bob, UserService\n3. DECISIONS:\n- Use JWT, with 1-hour expiration\n- Keep Redis\n- keep \
         redis\n4. QUESTIONS:\n- Do we need refresh tokens?\n## NOTES\nNot asked for.",
    ] {
        assert_eq!(sections(answer), jwt(), "{answer}");
    }
}

#[test]
fn an_answer_in_json_is_read_too() {
    let answer = r#"```json
{"SUMMARY": "Ann and Bob chose JWT.\nIt expires after 1 hour.", "topics": ["authentication", "JWT"],
 "Entities": "Ann, Bob, UserService", "decisions": ["Use JWT, with 1-hour expiration", "Keep Redis"],
 "questions": ["Do we need refresh tokens?"]}
```"#;
    assert_eq!(sections(answer), jwt());
    let expected = Sections { summary: "x".to_owned(), ..Sections::default() };
    assert_eq!(sections(r#"{"summary": "x", "topics": null, "decisions": {}}"#), expected);
}

#[test]
fn none_is_an_empty_list() {
    for none in [
        "None",
        "none.",
        "- None",
        "N/A",
        "-",
        "",
        "No decisions were made.",
        "No open questions.",
        "There are no unresolved questions in this conversation.",
        "None of the questions remain open.",
        "**None**",
    ] {
        let answer = format!("## SUMMARY\nThey met.\n## DECISIONS\n{none}\n## QUESTIONS\n{none}");
        let expected = Sections { summary: "They met.".to_owned(), ..Sections::default() };
        assert_eq!(sections(&answer), expected, "{none}");
    }
    let answer = "## SUMMARY\nThey met.\n## DECISIONS\nNo meetings on Friday\n## TOPICS\nNone";
    assert_eq!(sections(answer).decisions, ["No meetings on Friday"]);
}

#[test]
fn an_answer_without_headings_is_the_summary() {
    let expected = Sections { summary: "They met.\nNo more.".to_owned(), ..Sections::default() };
    assert_eq!(sections("They met.\nNo more."), expected);
    assert_eq!(sections("Summary: They met.\nNo more."), expected);
    assert_eq!(sections(""), Sections::default());
}

#[test]
fn headings_within_the_summary_belong_to_it() {
    let answer =
        "Preface.\n## SUMMARY\n### Monday\nThey met.\n## TOPICS\nmeeting\n## REMARKS\nx, y";
    let read = sections(answer);
    assert_eq!((read.summary.as_str(), read.topics), ("### Monday\nThey met.", list(&["meeting"])));
    let answer = "## SUMMARY\nThey spoke.\nTopics and decisions were many: a lot.\n## TOPICS\na";
    assert_eq!(sections(answer).summary, "They spoke.\nTopics and decisions were many: a lot.");
}

#[test]
fn commas_in_brackets_and_numbers_divide_nothing() {
    let topics = |line: &str| sections(&format!("## TOPICS\n{line}")).topics;
    assert_eq!(
        topics("React (a library, by Meta), Redis"),
        ["React (a library, by Meta)", "Redis"]
    );
    assert_eq!(
        topics("a budget of 1,000 euros, 2,5 hours"),
        ["a budget of 1,000 euros", "2,5 hours"]
    );
    assert_eq!(topics("a) first, b"), ["a) first", "b"]);
    assert_eq!(topics("時間、場所"), ["時間", "場所"]);
}

#[test]
fn lists_are_bounded() {
    let many: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    assert_eq!(sections(&format!("## TOPICS\n{}", many.join(","))).topics.len(), MAX_ENTRIES);
    let long = "ü".repeat(1_000);
    let decisions = sections(&format!("## DECISIONS\n{long}")).decisions;
    assert_eq!(decisions[0].chars().count(), MAX_ENTRY_CHARS);
}

proptest! {
    #[test]
    fn sections_come_back_as_they_were(
        summary in "[A-Z][a-z]{1,8}( [a-z]{1,8}){1,6}\\.",
        topics in prop::collection::vec("[a-z]{4}[0-9a-z ]{0,8}[a-z]", 0..5),
        decisions in prop::collection::vec("[A-Z][a-z]{4}( [a-z,]{3,8}){1,3}[a-z]", 0..5),
    ) {
        let mut topics = topics;
        let mut decisions = decisions;
        topics.sort();
        topics.dedup();
        decisions.sort();
        decisions.dedup();
        let written = Sections { summary, entities: topics.clone(), topics, decisions, questions: vec![] };
        prop_assert_eq!(sections(&written.to_string()), written);
    }

    #[test]
    fn any_answer_can_be_read(
        answer in "((#{0,3} ?|\\*\\*|- )(SUMMARY|Topics|decisions|None|a, b|:|\\PC{0,6}|\\x00)(:|\\*\\*)?\n){0,10}",
    ) {
        let read = sections(&answer);
        for list in [&read.topics, &read.entities, &read.decisions, &read.questions] {
            for (at, entry) in list.iter().enumerate() {
                prop_assert!(!entry.trim().is_empty() && !entry.contains(['\0', '\n']));
                prop_assert!(!list[..at].contains(entry));
            }
        }
        prop_assert!(!read.summary.contains('\0'));
    }
}
