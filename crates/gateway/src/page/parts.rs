//! What several views show: times, bars, short texts, the links to the next page.

use super::rows::Entry;
use crate::db::place;
use maud::{Markup, html};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A time in UTC, as PostgreSQL prints it in JSON, for people: the day.
pub fn day(at: &str) -> String {
    let part = |range| at.get(range).and_then(|part: &str| part.parse::<usize>().ok());
    match (at.get(0..4), part(5..7), part(8..10)) {
        (Some(year), Some(month @ 1..=12), Some(day)) => {
            format!("{day} {} {year}", MONTHS[month - 1])
        }
        _ => at.to_owned(),
    }
}

/// The day, for people and programs. The script shows it in the browser's own time.
pub fn on(at: &str) -> Markup {
    html! { time.day datetime={ (at) "Z" } title={ (clock(at)) } { (day(at)) } }
}

/// The moment, for people and programs.
pub fn at(at: &str) -> Markup {
    html! { time datetime={ (at) "Z" } { (clock(at)) } }
}

fn clock(at: &str) -> String {
    match at.get(11..16) {
        Some(minute) => format!("{}, {minute} UTC", day(at)),
        None => day(at),
    }
}

/// The value of a field of type `datetime-local`.
pub fn for_field(at: &str) -> &str {
    at.get(..16).unwrap_or(at)
}

/// A number with its noun.
pub fn count(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// A bar as long as a number is large, 0 to 1, and the number.
pub fn bar(value: Option<f64>, kind: &str, shown: &str) -> Markup {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return html! { span.none { "–" } };
    };
    let width = (value.clamp(0.0, 1.0) * 100.0).round();
    html! {
        span.bar {
            svg class=(kind) viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                rect.track width="100" height="8" rx="2" {}
                rect.value width=(width) height="8" rx="2" {}
            }
            span.number { (shown) }
        }
    }
}

/// The beginning of a text.
pub fn beginning(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}

/// A part of an address.
pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The page of a memory.
pub fn memory_path(id: &str) -> String {
    format!("/ui/memory/{}", encoded(id))
}

/// The page of a session, from an entry on if one is given.
pub fn session_path(session_id: &str, agent_id: &str, from: Option<(&str, &str)>) -> String {
    let (session, agent) = (encoded(session_id), encoded(agent_id));
    let path = format!("/ui/session?session={session}&agent={agent}");
    match from {
        Some((created_at, id)) => {
            format!("{path}&from={}#m-{}", encoded(&place::written(created_at, id)), encoded(id))
        }
        None => path,
    }
}

/// Where a form leads back to: a view of the page.
pub fn is_view(path: &str) -> bool {
    let rest = path.strip_prefix("/ui");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['?', '/']))
        && path.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The headings of a table, the last few of them over numbers.
pub fn headings(names: &[&str], numbers: usize) -> Markup {
    html! {
        thead {
            tr {
                @for (place, name) in names.iter().enumerate() {
                    th.number[place + numbers >= names.len()] scope="col" { (name) }
                }
            }
        }
    }
}

/// The link to what comes next, if there is more.
pub fn further(path: Option<&str>, text: &str) -> Markup {
    html! {
        @if let Some(path) = path {
            nav.further aria-label="Pages" { a rel="next" href=(path) { (text) } }
        }
    }
}

/// What is said where there is nothing to show.
pub fn empty(text: &str, hint: &str) -> Markup {
    html! { div.empty { p { (text) } p.muted { (hint) } } }
}

/// Who said something, for people.
pub fn speaker(entry: &Entry) -> &str {
    match (entry.kind.as_str(), entry.role.as_str()) {
        ("document", _) => "Document",
        ("fact", _) => "Fact",
        (_, "user") => "You",
        (_, "assistant") => "Assistant",
        (_, "system") => "System",
        (_, "tool") => "Tool",
        (_, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        assert_eq!(day("2026-01-09T08:07:06.5"), "9 Jan 2026");
        assert_eq!(clock("2026-12-31T23:59:59"), "31 Dec 2026, 23:59 UTC");
        for odd in ["", "infinity", "2026-13-01T00:00:00", "äöü-äö-äö"] {
            assert_eq!(day(odd), odd);
            let _ = (clock(odd), for_field(odd));
        }
    }

    #[test]
    fn forms_lead_back_to_views_only() {
        for view in ["/ui", "/ui?q=a+b", "/ui/memory/1?done=same"] {
            assert!(is_view(view), "{view}");
        }
        for other in ["", "/", "/uix", "//ui", "/ui ", "https://example.org/ui", "/ui\n", "/v1"] {
            assert!(!is_view(other), "{other}");
        }
    }

    #[test]
    fn texts_are_cut_between_letters() {
        assert_eq!(beginning("Grüße", 3), "Grü…");
        assert_eq!(beginning("Grüße", 5), "Grüße");
        assert_eq!(encoded("a b&c/ä"), "a+b%26c%2F%C3%A4");
    }

    #[test]
    fn bars_are_never_longer_than_whole() {
        for (value, width) in [(-1.0, 0), (0.5, 50), (7.0, 100)] {
            let drawn = bar(Some(value), "k", "x").into_string();
            assert!(drawn.contains(&format!("class=\"value\" width=\"{width}\"")), "{drawn}");
        }
        assert!(!bar(Some(f64::NAN), "k", "x").into_string().contains("svg"));
    }
}
