//! `memory-agent import`: memories out of files. Each has an id that the same file gives it again, so a file can
//! be imported again, also after it was stopped: what is there stays as it is, and what was forgotten stays so.

use super::formats::{Piece, Reading, Ready, What};
use super::progress::Progress;
use super::{PATIENCE_WITH_MANY, memory_of, plain, say, unpacked};
use crate::args::Import;
use crate::db::memory::{Memory, MemoryError, Param, column};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use uuid::Uuid;

/// Memories in one statement, which is one transaction.
const BATCH: usize = 64;
/// Bytes after which a batch is not filled up.
const BATCH_BYTES: usize = 1 << 20;
/// Memories that wait for the database.
const AHEAD: usize = 256;
/// Of an extraction call: turns in it, and about how many tokens of instructions and answer.
const TURNS_A_CALL: u64 = 8;
const TOKENS_A_CALL: u64 = 1_500;
/// Stores memories ($1 files, $2 their ids, $3 the user), and returns the ids of those that were there before. What
/// is forgotten has a history too.
pub const STORE: &str = "SELECT CASE WHEN f.was_there THEN f.id END, \
            memory_import_markdown(NULL, f.file, user_id => $3) \
       FROM (SELECT n.file, n.id, \
                    EXISTS (SELECT FROM memory_history(n.id, user_id => $3)) AS was_there \
               FROM unnest($1, $2) WITH ORDINALITY n(file, id, position) \
              ORDER BY n.position OFFSET 0) f";
/// What an archive has beside its conversations.
const OTHER_FILES: &str = "other files of the archive";

/// Imports files; whether all of them were.
///
/// # Errors
/// Why it stopped.
pub async fn import(options: Import) -> Result<bool, String> {
    let (memory, user) = memory_of(&options.person).await?;
    let read = Arc::new(AtomicU64::new(0));
    let progress = Progress::new(Arc::clone(&read), unpacked::size(&options.files));
    let extracts = options.extract;
    let (pieces, taken) = mpsc::channel(AHEAD);
    // A thread of its own: the program ends although standard input may say nothing for long.
    std::thread::spawn(move || read_all(options, &read, &pieces));
    let counts = Counts::default();
    let mut importing = Importing { memory, user, progress, counts };
    let outcome = tokio::select! {
        outcome = importing.all(taken) => outcome,
        _ = tokio::signal::ctrl_c() => Err("stopped".to_owned()),
    };
    importing.progress.end();
    importing.report_all(extracts);
    let is_whole = importing.counts.bad == 0;
    outcome.map(|()| is_whole).map_err(|problem| {
        format!(
            "{problem}. The import stopped. What is stored stays; run it again, and it continues where it stopped"
        )
    })
}

/// Reads all files into the channel, until the receiver is gone.
fn read_all(options: Import, counter: &Arc<AtomicU64>, pieces: &mpsc::Sender<Piece>) {
    let Import { format, mut from_user, extract: extracts, files, .. } = options;
    let (are_many, is_given) = (files.len() > 1, from_user.is_some());
    for path in &files {
        let name = path.display().to_string();
        let outcome = unpacked::each(path, counter, |packed, file| {
            let name = packed.or(are_many.then_some(name.as_str()));
            let take = |Piece { place, what }| {
                let place = name.map(|name| format!("{name}: {place}")).unwrap_or(place);
                pieces.blocking_send(Piece { place, what }).is_ok()
            };
            let from_user = &mut from_user;
            Reading { format, from_user, is_given, extracts, take }.read(file)
        });
        let what = match outcome {
            Ok(others) => (0..others).map(|_| What::LeftOut(OTHER_FILES)).collect(),
            Err(problem) => vec![What::Wrong(problem)],
        };
        let place = if path == Path::new("-") { "standard input".to_owned() } else { name };
        for what in what {
            let piece = Piece { place: place.clone(), what };
            if pieces.blocking_send(piece).is_err() {
                return;
            }
        }
    }
}

/// What became of what was read.
#[derive(Default)]
struct Counts {
    stored: u64,
    /// Memories that were stored, or forgotten, before.
    there: u64,
    bad: u64,
    left_out: BTreeMap<&'static str, u64>,
    /// Of what is stored, what the user said, and the tokens of all turns.
    of_user: u64,
    tokens: u64,
}

struct Importing {
    memory: Memory,
    user: String,
    progress: Progress,
    counts: Counts,
}

/// Where a memory is, and what is stored.
type Placed = (String, Ready);

impl Importing {
    async fn all(&mut self, mut taken: mpsc::Receiver<Piece>) -> Result<(), String> {
        let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
        while let Some(Piece { place, what }) = taken.recv().await {
            match what {
                What::Memory(ready) => {
                    bytes += ready.file.len();
                    batch.push((place, ready));
                }
                What::Wrong(problem) => self.report(&place, &problem),
                What::LeftOut(kind) => *self.counts.left_out.entry(kind).or_default() += 1,
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
    async fn store(&mut self, batch: &[Placed], waiting: usize) -> Result<(), String> {
        match self.call(batch).await {
            Ok(before) => self.count(batch, &before),
            Err(error) if !is_about_one(&error) => return Err(plain(&error)),
            Err(_) => {
                for one in batch.chunks(1) {
                    match self.call(one).await {
                        Ok(before) => self.count(one, &before),
                        Err(error) if is_about_one(&error) => {
                            self.report(&one[0].0, &plain(&error));
                        }
                        Err(error) => return Err(plain(&error)),
                    }
                }
            }
        }
        self.progress.show(self.counts.stored + self.counts.there, waiting as u64);
        Ok(())
    }

    /// Stores memories, and returns the ids of those that were there before.
    async fn call(&self, batch: &[Placed]) -> Result<HashSet<Uuid>, MemoryError> {
        if batch.is_empty() {
            return Ok(HashSet::new());
        }
        let files: Vec<&str> = batch.iter().map(|(_, ready)| ready.file.as_str()).collect();
        let ids: Vec<Uuid> = batch.iter().map(|(_, ready)| ready.id).collect();
        let params: [Param<'_>; 3] =
            [(&files, Type::TEXT_ARRAY), (&ids, Type::UUID_ARRAY), (&self.user, Type::TEXT)];
        let rows = self.memory.call(&self.user, PATIENCE_WITH_MANY, STORE, &params).await?;
        let before = rows.iter().map(|row| column::<Option<Uuid>>(row, 0));
        Ok(before.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn count(&mut self, batch: &[Placed], before: &HashSet<Uuid>) {
        let mut seen = before.clone();
        for (_, ready) in batch {
            // A file may say the same twice.
            if !seen.insert(ready.id) {
                self.counts.there += 1;
                continue;
            }
            self.counts.stored += 1;
            self.counts.of_user += u64::from(ready.is_the_users);
            self.counts.tokens += ready.tokens;
        }
    }

    fn report(&mut self, place: &str, problem: &str) {
        self.counts.bad += 1;
        self.progress.clear();
        say(&format!("{place}: {problem}"));
    }

    /// Says what became of everything.
    fn report_all(&self, extracts: bool) {
        let Counts { stored, there, bad, left_out, of_user, tokens } = &self.counts;
        say(&format!(
            "{} stored, {there} were there already, {bad} could not be stored.",
            match stored {
                1 => "1 memory is".to_owned(),
                many => format!("{many} memories are"),
            }
        ));
        if !left_out.is_empty() {
            let kinds: Vec<String> =
                left_out.iter().map(|(kind, count)| format!("{kind} ({count})")).collect();
            say(&format!("Left out: {}.", kinds.join(", ")));
        }
        let later =
            format!("SELECT memory_backfill(user_id => '{}')", self.user.replace('\'', "''"));
        if *of_user > 0 {
            let (calls, tokens) = cost(*of_user, *tokens);
            say(&match extracts {
                true => format!(
                    "An LLM extracts facts from {of_user} new turns of the user: {calls} calls and about {tokens} \
                     tokens, and more to compare the facts with known ones."
                ),
                false => format!(
                    "No facts are extracted from {of_user} new turns of the user. With --extract, an LLM would get \
                     {calls} calls and about {tokens} tokens, and more to compare the facts with known ones. \
                     {later} does it later."
                ),
            });
        }
        if extracts && *there > 0 {
            say(&format!(
                "What was there already stays as it is; {later} extracts facts from turns of which none were \
                 extracted."
            ));
        }
    }
}

/// About how many calls of a language model extraction takes, and how many tokens: of so many turns of the user, and
/// so many tokens of all turns.
pub fn cost(of_user: u64, tokens: u64) -> (u64, u64) {
    let calls = of_user.div_ceil(TURNS_A_CALL);
    (calls, rounded(tokens + calls * TOKENS_A_CALL))
}

/// A number of which two digits say enough.
fn rounded(number: u64) -> u64 {
    let unit = 10_u64.pow(number.max(1).ilog10().saturating_sub(1));
    number.div_ceil(unit) * unit
}

/// Whether the database refused a memory for what it is.
fn is_about_one(error: &MemoryError) -> bool {
    matches!(error, MemoryError::Refused(said) if said.cause().is_about_what_was_sent())
}
