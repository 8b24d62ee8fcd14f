//! What of the user's quota is used up, where there is one.

use super::request::{Asked, Trouble};
use super::rows;
use maud::{Markup, html};
use serde::Deserialize;

/// The share of a quota from which it is pointed at.
const NEARLY: f64 = 0.9;

/// A row of `memory_usage()` with a quota.
#[derive(Debug, Deserialize)]
struct Used {
    resource: String,
    used: i64,
    quota: i64,
}

/// Each limit with what is used of it; nothing without a quota.
///
/// # Errors
/// What memory says.
pub async fn show(asked: &Asked) -> Result<Markup, Trouble> {
    let sql = "SELECT to_jsonb(u) FROM memory_usage() u WHERE u.quota IS NOT NULL";
    let used: Vec<Used> = rows::read(&asked.rows(sql, &[]).await?)?;
    Ok(html! {
        @if !used.is_empty() {
            h3 { "Your quota" }
            @for used in &used { p { span.state data-state=(used.dot()) { (used.words()) } } }
        }
    })
}

impl Used {
    fn dot(&self) -> &'static str {
        if self.used as f64 >= NEARLY * self.quota as f64 { "attention" } else { "fine" }
    }

    fn words(&self) -> String {
        let Self { used, quota, .. } = self;
        let (what, over) = match self.resource.as_str() {
            "entries" => ("entries", "nothing new is remembered until you forget some"),
            "bytes" => ("bytes of text", "nothing new is remembered until you forget some"),
            "daily_tokens" => {
                ("tokens of language models today", "facts are learned again after midnight UTC")
            }
            other => (other, "nothing more is allowed"),
        };
        let words = format!("{used} of {quota} {what}");
        if used < quota { words + "." } else { format!("{words}: {over}.") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_up_says_what_follows() {
        let used =
            |resource: &str, used: i64| Used { resource: resource.to_owned(), used, quota: 100 };
        assert_eq!((used("entries", 89).dot(), used("entries", 90).dot()), ("fine", "attention"));
        assert_eq!(used("bytes", 99).words(), "99 of 100 bytes of text.");
        let over = used("daily_tokens", 120).words();
        assert!(over.starts_with("120 of 100") && over.ends_with("after midnight UTC."), "{over}");
    }
}
