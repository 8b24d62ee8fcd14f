//! Repeated measurements of one thing, and what is reported of them.

use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Durations in milliseconds, or ratios of such.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Runs something and adds how long it took, in milliseconds.
    pub fn time<T, E>(&mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let started = Instant::now();
        let value = work()?;
        self.add(started.elapsed());
        Ok(value)
    }

    pub fn add(&mut self, duration: Duration) {
        self.push(duration.as_secs_f64() * 1000.0);
    }

    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Adds all samples of others.
    pub fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    /// The latest sample; 0 when there is none.
    pub fn last(&self) -> f64 {
        self.0.last().copied().unwrap_or(0.0)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest sample that at least this share of all samples does not exceed (the nearest
    /// rank); NaN when there is none.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// For the JSON report.
    pub fn summary(&self) -> Value {
        json!({"n": self.len(), "p50": self.median(), "p95": self.quantile(0.95)})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples = Samples((1..=20).rev().map(f64::from).collect());
        assert_eq!(samples.median(), 10.0);
        assert_eq!(samples.quantile(0.95), 19.0);
        assert_eq!(samples.quantile(1.0), 20.0);
        assert_eq!(samples.quantile(0.0), 1.0);
        assert!(Samples::default().median().is_nan());
    }
}
