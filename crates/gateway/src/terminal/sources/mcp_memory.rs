//! The graph of the official MCP memory server, `memory.jsonl`: a line for each entity with observations, and for
//! each relation. Each observation and each relation is a fact.

use super::{Item, Told, list, origin, text};
use crate::terminal::record::{Clock, Line};
use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

const SOURCE: &str = "mcp-memory";
const UNOBSERVED: &str = "entities without observations";

/// Whether a line is one of such a file.
pub fn is_line(value: &Value) -> bool {
    matches!(text(value, "type"), Some("entity" | "relation"))
        && value.get("role").is_none()
        && value.get("content").is_none()
}

/// What a line says.
pub fn read(value: &Value, clock: &mut Clock, now: DateTime<Utc>) -> Vec<Item> {
    let mut fact = |content: String, id: String, more: &[(&str, &str)]| {
        let mut metadata: Map<String, Value> = origin(SOURCE);
        let more = more.iter().map(|(key, said)| ((*key).to_owned(), Value::from(*said)));
        metadata.extend(more);
        let role = "memory".to_owned();
        let line = Line { role, content, metadata, ..Line::default() };
        match clock.next(None, None, now) {
            Ok(created_at) => Item::Told(Box::new(Told { line, created_at, id })),
            Err(problem) => Item::Wrong(problem),
        }
    };
    if text(value, "type") == Some("relation") {
        let keys = ["from", "relationType", "to"].map(|key| text(value, key));
        let [Some(from), Some(relation), Some(to)] = keys else {
            return vec![Item::Wrong("the relation lacks from, relationType or to".to_owned())];
        };
        let content = format!("{from} {} {to}", relation.replace('_', " "));
        let id = format!("{SOURCE}:relation:{from}:{relation}:{to}");
        let more = [("from", from), ("relation", relation), ("to", to)];
        return vec![fact(content, id, &more)];
    }
    let Some(name) = text(value, "name") else {
        return vec![Item::Wrong("the entity has no name".to_owned())];
    };
    let kind = text(value, "entityType").unwrap_or_default();
    let observed = list(value, "observations").iter().map(|observed| match observed.as_str() {
        Some(said) if !said.trim().is_empty() => {
            let id = format!("{SOURCE}:entity:{name}:{said}");
            fact(format!("{name}: {said}"), id, &[("entity", name), ("entity_type", kind)])
        }
        _ => Item::Wrong("an observation is no text".to_owned()),
    });
    let items: Vec<Item> = observed.collect();
    if items.is_empty() { vec![Item::LeftOut(UNOBSERVED)] } else { items }
}
