//! `memory-agent import`: memories out of a file. Each has an id that the same file gives it again, so a file can
//! be imported again, also after it was stopped: what is there stays as it is, and what was forgotten stays so.

use super::formats::{Piece, Reading};
use super::{PATIENCE_WITH_MANY, memory_of, plain, say};
use crate::args::Import;
use crate::memory::{Memory, MemoryError, Param};
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::types::Type;

/// Memories in one statement, which is one transaction.
const BATCH: usize = 64;
/// Bytes after which a batch is not filled up.
const BATCH_BYTES: usize = 1 << 20;
/// Memories that wait for the database.
const AHEAD: usize = 256;
/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;
/// Without a terminal, a line after so many memories.
const LINE_EVERY: u64 = 1_000;
/// Seconds after which a rate says something.
const LEAST_TIME: f64 = 2.0;
/// Marks of a whole bar.
const BAR: u64 = 30;

/// Imports a file; whether all of it was.
///
/// # Errors
/// Why it stopped.
pub async fn import(options: Import) -> Result<bool, String> {
    let (memory, user) = memory_of(&options.person).await?;
    let read = Arc::new(AtomicU64::new(0));
    let (file, size) = open(&options.file)?;
    let file = BufReader::with_capacity(BUFFER, Counted { file, read: Arc::clone(&read) });
    let (pieces, taken) = mpsc::channel(AHEAD);
    let (end, ended) = oneshot::channel();
    // A thread of its own: the program ends although standard input may say nothing for long.
    std::thread::spawn(move || {
        let take = |piece| pieces.blocking_send(piece).is_ok();
        let Import { format, from_user, .. } = options;
        let outcome = Reading { format, from_user, take }.read(file);
        // After a stop there is no one to hear it.
        let _ = end.send(outcome);
    });
    let mut importing = Importing {
        memory,
        user,
        progress: Progress {
            read,
            size,
            shown: 0,
            is_terminal: io::stderr().is_terminal(),
            since: Instant::now(),
        },
        stored: 0,
        bad: 0,
    };
    let outcome = match importing.all(taken).await {
        Ok(()) => ended.await.unwrap_or_else(|_| Err("the file cannot be read".to_owned())),
        stopped => stopped,
    };
    importing.progress.end();
    let Importing { stored, bad, .. } = importing;
    say(&format!("{stored} memories are stored, {bad} are not."));
    outcome.map(|()| bad == 0).map_err(|problem| {
        format!("{problem}. The import stopped; run it again, and it continues where it stopped")
    })
}

fn open(path: &Path) -> Result<(Box<dyn Read + Send>, Option<u64>), String> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let unread = |error: io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(unread)?;
    let size = file.metadata().map_err(unread)?.len();
    Ok((Box::new(file), Some(size)))
}

/// A file, and how much of it has been read.
struct Counted {
    file: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.file.read(to)?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

struct Importing {
    memory: Memory,
    user: String,
    progress: Progress,
    stored: u64,
    bad: u64,
}

/// Where a memory is in its file, and what `memory_import_markdown` reads.
type Ready = (String, String);

impl Importing {
    async fn all(&mut self, mut taken: mpsc::Receiver<Piece>) -> Result<(), String> {
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
        while let Some(Piece { place, file }) = taken.recv().await {
            match file {
                Ok(file) => {
                    bytes += file.len();
                    batch.push((place, file));
                }
                Err(problem) => self.report(&place, &problem),
            }
            if batch.len() >= BATCH || bytes >= BATCH_BYTES {
                self.store(&batch, taken.len()).await?;
                batch.clear();
                bytes = 0;
            }
        }
        self.store(&batch, 0).await
    }

    /// Stores a batch; where the database refuses it, each memory by itself. `waiting` are read already.
    async fn store(&mut self, batch: &[Ready], waiting: usize) -> Result<(), String> {
        match self.call(batch).await {
            Ok(()) => self.stored += batch.len() as u64,
            Err(error) if !is_about_one(&error) => return Err(plain(&error)),
            Err(_) => {
                for one in batch.chunks(1) {
                    match self.call(one).await {
                        Ok(()) => self.stored += 1,
                        Err(error) if is_about_one(&error) => {
                            self.report(&one[0].0, &plain(&error));
                        }
                        Err(error) => return Err(plain(&error)),
                    }
                }
            }
        }
        self.progress.show(self.stored, waiting as u64);
        Ok(())
    }

    async fn call(&self, batch: &[Ready]) -> Result<(), MemoryError> {
        if batch.is_empty() {
            return Ok(());
        }
        let sql = "SELECT count(memory_import_markdown(NULL, f.file, user_id => $2)) \
                     FROM unnest($1) WITH ORDINALITY f(file, position)";
        let files: Vec<&str> = batch.iter().map(|(_, file)| file.as_str()).collect();
        let params: [Param<'_>; 2] = [(&files, Type::TEXT_ARRAY), (&self.user, Type::TEXT)];
        self.memory.call(&self.user, PATIENCE_WITH_MANY, sql, &params).await.map(drop)
    }

    fn report(&mut self, place: &str, problem: &str) {
        self.bad += 1;
        self.progress.clear();
        say(&format!("{place}: {problem}"));
    }
}

/// Whether the database refused a memory for what it is: a wrong value (22), one in the place of another (23), or
/// one that is too large (54). Any other refusal would be the same for all.
fn is_about_one(error: &MemoryError) -> bool {
    matches!(error, MemoryError::Refused(said)
        if ["22", "23", "54"].iter().any(|class| said.code.starts_with(class)))
}

/// How far it is, on standard error.
struct Progress {
    read: Arc<AtomicU64>,
    /// Bytes of the file, where it is one.
    size: Option<u64>,
    /// The number of memories in the last line.
    shown: u64,
    is_terminal: bool,
    since: Instant,
}

impl Progress {
    fn show(&mut self, stored: u64, waiting: u64) {
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
    fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }

    fn end(&self) {
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
