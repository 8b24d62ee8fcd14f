//! Summaries as models send them: what is around the text goes, the sections are bounded.

use memory_agent_core::condense::summarize::{clean, sections};

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    crate::linear(text.len(), || {
        let cleaned = clean(&text);
        assert!(cleaned.len() <= text.len() && !cleaned.contains('\0'));
        assert_eq!(cleaned.trim(), cleaned);
        if text.len() < 10_000 {
            assert_eq!(clean(&cleaned), cleaned);
        }
        let sections = sections(&text);
        for list in [&sections.topics, &sections.entities, &sections.decisions, &sections.questions]
        {
            assert!(list.len() <= 50);
            assert!(list.iter().all(|entry| !entry.is_empty() && entry.chars().count() <= 500));
            assert!(list.iter().all(|entry| !entry.contains('\0')));
        }
        assert!(!sections.summary.contains('\0'));
    });
}
