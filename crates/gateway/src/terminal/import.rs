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
        progress: Progress { read, size, shown: 0, is_terminal: io::stderr().is_terminal() },
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
                self.store(&batch).await?;
                batch.clear();
                bytes = 0;
            }
        }
        self.store(&batch).await
    }

    /// Stores a batch; where the database refuses it, each memory by itself.
    async fn store(&mut self, batch: &[Ready]) -> Result<(), String> {
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
        self.progress.show(self.stored);
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
}

impl Progress {
    fn show(&mut self, stored: u64) {
        let share = self.size.filter(|size| *size > 0).map(|size| {
            let read = self.read.load(Ordering::Relaxed).min(size);
            (BAR * read / size, 100 * read / size)
        });
        if !self.is_terminal {
            if stored / LINE_EVERY > self.shown / LINE_EVERY {
                say(&format!("{stored} memories"));
                self.shown = stored;
            }
            return;
        }
        let bar = share.map(|(marks, percent)| {
            let bar: String = (0..BAR).map(|at| if at < marks { '#' } else { '.' }).collect();
            format!("[{bar}] {percent:3} % read, ")
        });
        let bar = bar.unwrap_or_default();
        let mut to = io::stderr().lock();
        // A terminal that is gone shows nothing.
        let _ = write!(to, "\r{bar}{stored} memories").and_then(|()| to.flush());
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
