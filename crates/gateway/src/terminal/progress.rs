//! How far an import is, on standard error: a bar on a terminal, elsewhere a line now and then.

use super::say;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Without a terminal, a line after so many memories.
const LINE_EVERY: u64 = 1_000;
/// Seconds after which a rate says something.
const LEAST_TIME: f64 = 2.0;
/// Marks of a whole bar.
const BAR: u64 = 30;

/// How far it is.
pub struct Progress {
    read: Arc<AtomicU64>,
    /// Bytes of all files, where that is known.
    size: Option<u64>,
    /// The number of memories in the last line.
    shown: u64,
    is_terminal: bool,
    since: Instant,
}

impl Progress {
    /// `read` counts bytes of the files, of which there are `size`.
    pub fn new(read: Arc<AtomicU64>, size: Option<u64>) -> Self {
        let (is_terminal, since) = (io::stderr().is_terminal(), Instant::now());
        Self { read, size, shown: 0, is_terminal, since }
    }

    /// Shows how many memories are stored; `waiting` are read already.
    pub fn show(&mut self, stored: u64, waiting: u64) {
        let share = self.size.filter(|size| *size > 0).map(|size| {
            let read = self.read.load(Ordering::Relaxed).min(size);
            read as f64 / size as f64
        });
        let pace = pace(stored, waiting, share, self.since.elapsed());
        if !self.is_terminal {
            if stored / LINE_EVERY > self.shown / LINE_EVERY {
                say(&format!("{stored} memories{pace}"));
                self.shown = stored;
            }
            return;
        }
        let bar = share.map(|share| {
            let is_full = |at: u64| (at as f64) < BAR as f64 * share;
            let bar: String = (0..BAR).map(|at| if is_full(at) { '#' } else { '.' }).collect();
            format!("[{bar}] {:3.0} % read, ", 100.0 * share)
        });
        let bar = bar.unwrap_or_default();
        let mut to = io::stderr().lock();
        // A terminal that is gone shows nothing; what the line before had more than this one goes.
        let _ = write!(to, "\r{bar}{stored} memories{pace}\x1b[K").and_then(|()| to.flush());
    }

    /// Makes room for a line.
    pub fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    /// Ends the line.
    pub fn end(&self) {
        if self.is_terminal {
            let _ = writeln!(io::stderr().lock());
        }
    }
}

/// How many memories are stored a second and, of a file, how long the rest will take: `share` of it has been read,
/// and `waiting` memories of that are not stored. Nothing in the first seconds, which say little.
fn pace(stored: u64, waiting: u64, share: Option<f64>, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if stored == 0 || seconds < LEAST_TIME {
        return String::new();
    }
    let rate = stored as f64 / seconds;
    let digits = if rate < 10.0 { 1 } else { 0 };
    let left = share.filter(|share| *share > 0.0).map(|share| {
        let all = (stored + waiting) as f64 / share;
        let left = (all - stored as f64) / rate;
        match left {
            left if left < 90.0 => format!(", about {left:.0} s left"),
            left if left < 5_400.0 => format!(", about {:.0} min left", left / 60.0),
            left => format!(", about {:.1} h left", left / 3_600.0),
        }
    });
    format!(", {rate:.digits$} a second{}", left.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_says_how_long_the_rest_takes() {
        let of = |stored, waiting, share, seconds| {
            pace(stored, waiting, share, Duration::from_secs(seconds))
        };
        assert_eq!(of(1_000, 0, Some(0.5), 10), ", 100 a second, about 10 s left");
        // A quarter of the file has been read, but only half of that is stored.
        assert_eq!(of(640, 640, Some(0.25), 128), ", 5.0 a second, about 15 min left");
        assert_eq!(of(1_000, 0, Some(0.01), 1_000), ", 1.0 a second, about 27.5 h left");
        assert_eq!(of(1_000, 0, None, 10), ", 100 a second");
        assert_eq!(of(1_000, 0, Some(1.0), 10), ", 100 a second, about 0 s left");
        assert_eq!(
            (of(64, 0, Some(0.5), 1), of(0, 64, Some(0.5), 60)),
            (String::new(), String::new())
        );
    }
}
