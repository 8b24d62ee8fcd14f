//! A pause after something outside was unavailable, longer each time.

use std::time::{Duration, Instant};

/// First and longest pause after the LLM or the models could not be reached, when the answer does not say how long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A pause of one kind of work.
#[derive(Default)]
pub struct Pause {
    until: Option<Instant>,
    length: Duration,
}

impl Pause {
    pub fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= Instant::now())
    }

    /// Begins a pause, twice as long as the last one unless the answer says how long. Several failures at
    /// once are one outage: they share a pause.
    pub fn begin(&mut self, length: Option<Duration>) -> Duration {
        if let Some(left) = self.left().filter(|left| !left.is_zero()) {
            let length = length.unwrap_or(left).max(left);
            self.until = Some(Instant::now() + length);
            return length;
        }
        self.length = (self.length * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let length = length.unwrap_or(self.length);
        self.until = Some(Instant::now() + length);
        length
    }

    pub fn end(&mut self) {
        *self = Self::default();
    }

    pub fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}
