//! Conversations and memories of other programs, as they are sent to the page: what a file holds, before and while it
//! is stored. The formats are those of `memory-agent import`.

use super::request::{Asked, Trouble};
use super::uploads::Upload;
use crate::db::memory::{End, Param};
use crate::terminal::formats::{Piece, Reading, Ready, What};
use crate::terminal::{STORE, cost};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::parts::{count, on};

/// Memories in one statement, which is one transaction.
const BATCH: usize = 64;
/// Bytes after which a batch is not filled up.
const BATCH_BYTES: usize = 1 << 20;
/// Memories that wait for the database.
const AHEAD: usize = 256;
/// Problems that are kept, to be shown.
const PROBLEMS: usize = 20;

/// What became of files, or what would.
#[derive(Debug, Default)]
pub struct Tally {
    /// Memories that are new, and that were stored, or forgotten, before.
    pub stored: u64,
    pub there: u64,
    /// How many were refused, and why the first of them were.
    pub bad: u64,
    pub problems: Vec<(String, String)>,
    pub left_out: BTreeMap<String, u64>,
    sessions: BTreeSet<String>,
    days: Option<(String, String)>,
    of_user: u64,
    tokens: u64,
}

impl Tally {
    /// Takes down a problem with something.
    pub fn refuse(&mut self, place: String, problem: String) {
        self.bad += 1;
        if self.problems.len() < PROBLEMS {
            self.problems.push((place, problem));
        }
    }

    /// Takes down that something is no text to be remembered.
    pub fn leave_out(&mut self, kind: &str, number: u64) {
        *self.left_out.entry(kind.to_owned()).or_default() += number;
    }

    fn note(&mut self, ready: &Ready) {
        self.of_user += u64::from(ready.is_the_users);
        self.tokens += ready.tokens;
        self.sessions.extend(ready.session_id.clone());
        let at = &ready.created_at;
        let (first, last) = self.days.get_or_insert_with(|| (at.clone(), at.clone()));
        if at < first {
            first.clone_from(at);
        }
        if at > last {
            last.clone_from(at);
        }
    }

    /// What is in the files, in a few words.
    pub fn contents(&self) -> Markup {
        html! {
            @if !self.sessions.is_empty() {
                (count(self.sessions.len(), "conversation", "conversations")) ", "
            }
            (count(self.stored as usize, "memory", "memories"))
            @if let Some((first, last)) = &self.days {
                ", from " (on(first.trim_end_matches('Z'))) " to " (on(last.trim_end_matches('Z')))
            }
            "."
        }
    }

    /// What was left out.
    pub fn left_out(&self) -> Markup {
        let kinds: Vec<String> =
            self.left_out.iter().map(|(kind, number)| format!("{kind} ({number})")).collect();
        html! { @if !kinds.is_empty() { p { "Left out: " (kinds.join(", ")) "." } } }
    }

    /// What it takes to learn facts from it.
    pub fn costs(&self) -> Option<Markup> {
        (self.of_user > 0).then(|| {
            let (calls, tokens) = cost(self.of_user, self.tokens);
            html! { "about " (calls) @if calls == 1 { " call" } @else { " calls" } " of a language model and " (tokens) " tokens" }
        })
    }
}

/// Whether a file holds what other programs keep.
pub fn is_of_others(file: &Upload) -> bool {
    file.text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
}

/// Reads a file piece by piece, and stores what is in it, or only counts.
///
/// # Errors
/// What memory says of all.
pub async fn take(
    asked: &Asked,
    file: Upload,
    extracts: bool,
    stores: bool,
    tally: &mut Tally,
) -> Result<(), Trouble> {
    let Upload { path, text } = file;
    let (pieces, mut taken) = mpsc::channel(AHEAD);
    // It takes a while, and others wait for the threads that answer.
    let reading = tokio::task::spawn_blocking(move || {
        let mut from_user = None;
        let take = |piece| pieces.blocking_send(piece).is_ok();
        let reading =
            Reading { format: None, from_user: &mut from_user, is_given: false, extracts, take };
        reading.read(Cursor::new(text))
    });
    let (mut batch, mut bytes) = (Vec::with_capacity(BATCH), 0);
    while let Some(Piece { place, what }) = taken.recv().await {
        match what {
            What::Memory(ready) => {
                bytes += ready.file.len();
                tally.note(&ready);
                batch.push((format!("{path}: {place}"), ready));
            }
            What::Wrong(problem) => tally.refuse(format!("{path}: {place}"), problem),
            What::LeftOut(kind) => tally.leave_out(kind, 1),
        }
        if batch.len() >= BATCH || bytes >= BATCH_BYTES {
            finish(asked, &batch, stores, tally).await?;
            batch.clear();
            bytes = 0;
        }
    }
    finish(asked, &batch, stores, tally).await?;
    match reading.await {
        Ok(Ok(())) => {}
        Ok(Err(problem)) => tally.refuse(path, problem),
        Err(_) => tally.refuse(path, "it cannot be read".to_owned()),
    }
    Ok(())
}

/// Stores a batch; where the database refuses it, each memory by itself.
async fn finish(
    asked: &Asked,
    batch: &[(String, Ready)],
    stores: bool,
    tally: &mut Tally,
) -> Result<(), Trouble> {
    if !stores {
        tally.stored += batch.len() as u64;
        return Ok(());
    }
    match store(asked, batch, tally).await {
        Ok(()) => {}
        Err(trouble) if trouble.status.is_server_error() || batch.len() == 1 => {
            return refused(batch, trouble, tally);
        }
        Err(_) => {
            for one in batch.chunks(1) {
                if let Err(trouble) = store(asked, one, tally).await {
                    refused(one, trouble, tally)?;
                }
            }
        }
    }
    asked.visit.page.progress(asked.user_id(), tally.stored + tally.there);
    Ok(())
}

fn refused(batch: &[(String, Ready)], trouble: Trouble, tally: &mut Tally) -> Result<(), Trouble> {
    match batch {
        [(place, _)] if !trouble.status.is_server_error() => {
            tally.refuse(place.clone(), trouble.message);
            Ok(())
        }
        _ => Err(trouble),
    }
}

async fn store(asked: &Asked, batch: &[(String, Ready)], tally: &mut Tally) -> Result<(), Trouble> {
    if batch.is_empty() {
        return Ok(());
    }
    let files: Vec<&str> = batch.iter().map(|(_, ready)| ready.file.as_str()).collect();
    let ids: Vec<Uuid> = batch.iter().map(|(_, ready)| ready.id).collect();
    let user = asked.user_id();
    let params: [Param<'_>; 3] =
        [(&files, Type::TEXT_ARRAY), (&ids, Type::UUID_ARRAY), (&user, Type::TEXT)];
    let rows = asked.run(STORE, &params, End::Commit).await?;
    let before = rows.iter().filter(|row| matches!(row.try_get::<_, Option<Uuid>>(0), Ok(Some(_))));
    let before = before.count() as u64;
    tally.there += before;
    tally.stored += batch.len() as u64 - before;
    Ok(())
}
