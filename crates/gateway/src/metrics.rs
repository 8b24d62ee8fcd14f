//! What `/metrics` shows, in the text format of Prometheus: counters and times of this process. Names of
//! users, sessions and models are in none of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the times, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// How often and how long something took.
#[derive(Debug, Default)]
pub struct Times {
    counts: [AtomicU64; BOUNDS.len() + 1],
    microseconds: AtomicU64,
}

impl Times {
    /// Adds one.
    pub fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let place = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    fn print(&self, name: &str, help: &str, text: &mut String) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} histogram\n");
        let mut total = 0;
        for (count, bound) in self.counts.iter().zip(BOUNDS) {
            total += count.load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}_bucket{{le=\"{bound}\"}} {total}");
        }
        total += self.counts[BOUNDS.len()].load(Ordering::Relaxed);
        let sum = self.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        let _ = write!(
            text,
            "{name}_bucket{{le=\"+Inf\"}} {total}\n{name}_sum {sum}\n{name}_count {total}\n"
        );
    }
}

/// Counters by the value of one label. Only fixed words are values.
#[derive(Debug, Default)]
pub struct Counts(Mutex<BTreeMap<String, u64>>);

impl Counts {
    /// Adds to the counter of this value.
    pub fn add(&self, value: &str, number: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(value) {
            Some(count) => *count += number,
            None => drop(counts.insert(value.to_owned(), number)),
        }
    }

    fn print(&self, name: &str, label: &str, help: &str, text: &mut String) {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n");
        for (value, count) in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(text, "{name}{{{label}=\"{value}\"}} {count}");
        }
    }
}

/// What is there now, by the value of one label or without.
pub struct Gauge<'a> {
    pub name: &'a str,
    pub help: &'a str,
    pub label: Option<&'a str>,
    /// The value of the label, and the number.
    pub numbers: Vec<(&'a str, f64)>,
}

impl<'a> Gauge<'a> {
    /// One number.
    pub fn one(name: &'a str, help: &'a str, number: f64) -> Self {
        Self { name, help, label: None, numbers: vec![("", number)] }
    }

    fn print(&self, text: &mut String) {
        let Self { name, help, .. } = self;
        let name = format!("memory_gateway_{name}");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
        for (value, number) in &self.numbers {
            let _ = match self.label {
                Some(label) => writeln!(text, "{name}{{{label}=\"{value}\"}} {number}"),
                None => writeln!(text, "{name} {number}"),
            };
        }
    }
}

/// What is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Requests by the status of their answer.
    pub requests: Counts,
    /// Requests that ended here, by the reason.
    pub refused: Counts,
    /// What memory could not do, by the step: `recall`, `store`, `token`, `spend`, `tool`.
    pub memory_failures: Counts,
    /// Turns that were stored, by the role.
    pub stored: Counts,
    /// Tokens that the upstream counted, by `prompt` and `completion`.
    pub tokens: Counts,
    /// Answers that broke off, by who left: `client`, `upstream`.
    pub broken: Counts,
    /// From the request to the last byte of the answer.
    pub chats: Times,
    /// What recall took.
    pub recalls: Times,
    /// Its parts in the database: embedding the question, searching, reranking, ranking.
    pub recall_parts: [Times; 4],
    /// What storing a turn took.
    pub stores: Times,
    /// From sending the request upstream to the headers of its answer.
    pub upstream: Times,
}

impl Metrics {
    /// Everything as text, with what is there now.
    pub fn print(&self, gauges: &[Gauge<'_>]) -> String {
        let mut text = String::new();
        for (counts, name, label, help) in [
            (&self.requests, "requests_total", "status", "Requests by the status of the answer."),
            (&self.refused, "refused_total", "reason", "Requests that ended in the gateway."),
            (&self.memory_failures, "memory_failures_total", "step", "What memory could not do."),
            (&self.stored, "turns_stored_total", "role", "Turns that were stored."),
            (&self.tokens, "llm_tokens_total", "kind", "Tokens that the upstream counted."),
            (&self.broken, "broken_answers_total", "by", "Answers that broke off, by who left."),
        ] {
            counts.print(&format!("memory_gateway_{name}"), label, help, &mut text);
        }
        let [embed, search, rerank, rank] = &self.recall_parts;
        for (times, name, help) in [
            (embed, "recall_embed_seconds", "Of a recall: embedding the question."),
            (search, "recall_search_seconds", "Of a recall: both searches."),
            (rerank, "recall_rerank_seconds", "Of a recall: the reranker."),
            (rank, "recall_rank_seconds", "Of a recall: the order."),
            (&self.chats, "chat_seconds", "From the request to the last byte of the answer."),
            (&self.recalls, "recall_seconds", "What recall took."),
            (&self.stores, "store_seconds", "What storing a turn took."),
            (&self.upstream, "upstream_seconds", "Until the headers of the upstream's answer."),
        ] {
            times.print(&format!("memory_gateway_{name}"), help, &mut text);
        }
        for gauge in gauges {
            gauge.print(&mut text);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_each_bound() {
        let metrics = Metrics::default();
        for milliseconds in [1, 2, 40, 60_000] {
            metrics.recalls.add(Duration::from_millis(milliseconds));
        }
        metrics.stored.add("user", 2);
        metrics.stored.add("user", 1);
        let jobs = vec![("pending", 2.0), ("dead", 1.0)];
        let text = metrics.print(&[
            Gauge::one("in_flight", "Requests.", 3.0),
            Gauge { name: "jobs", help: "Jobs.", label: Some("state"), numbers: jobs },
        ]);
        for line in [
            "memory_gateway_recall_seconds_bucket{le=\"0.001\"} 1",
            "memory_gateway_recall_seconds_bucket{le=\"0.05\"} 3",
            "memory_gateway_recall_seconds_bucket{le=\"+Inf\"} 4",
            "memory_gateway_recall_seconds_sum 60.043",
            "memory_gateway_turns_stored_total{role=\"user\"} 3",
            "memory_gateway_in_flight 3",
            "memory_gateway_jobs{state=\"dead\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing:\n{text}");
        }
    }
}
