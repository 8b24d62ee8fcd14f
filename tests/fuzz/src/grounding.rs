//! Facts of an LLM and the turns that they are compared with: any texts are read, in linear time.

use memory_agent_core::facts::grounding::{Grounds, Sources, dated};
use memory_agent_core::text::language::Language;
use std::sync::LazyLock;

static GERMAN: LazyLock<Language> = LazyLock::new(|| {
    let times = include_str!("../../../languages/german/times.txt");
    Language::parse("", "", times).expect("the installed list")
});

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    // The first line is the fact, what follows is what was said.
    let (fact, said) = text.split_once('\n').unwrap_or((&text, &text));
    LazyLock::force(&GERMAN);
    crate::linear(text.len(), || {
        let sources = Sources {
            said: &[said],
            context: &[fact],
            speaker: Some(fact),
            said_at: "2024-05-03",
            language: Some(&GERMAN),
        };
        let grounds = Grounds::of(&sources);
        let first = grounds.check(fact);
        assert_eq!(first, grounds.check(fact));
        let dated_fact = dated(fact, "2024-05-03", Some(&GERMAN));
        assert_eq!(dated(&dated_fact, "2024-05-03", Some(&GERMAN)), dated_fact);
        let _ = grounds.check(&dated_fact);
    });
}
