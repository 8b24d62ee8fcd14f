//! A user's data as a whole: how much there is, files to take along and to bring, and the way to erase everything.

use super::conversations::{self, Tally, is_of_others};
use super::frame::{Here, form_token};
use super::parts::{self, encoded};
use super::request::{Answer, Asked, Trouble};
use super::rows;
use super::uploads::Upload;
use crate::db::memory::Param;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse;
use futures_util::stream;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio_postgres::types::Type;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, StreamWriter};

/// Pieces of an archive that wait for the browser.
const AHEAD: usize = 4;
/// A piece of an archive is at least so large, but for the last.
const PIECE: usize = 64 << 10;

/// `GET /ui/files`.
///
/// # Errors
/// What memory says.
pub async fn show(asked: Asked) -> Result<Answer, Trouble> {
    let counts = counts(&asked).await?;
    Ok(Answer::Page(Here::Files, "Your data".to_owned(), body(&asked, &counts, None)))
}

type Counts = Map<String, Value>;

async fn counts(asked: &Asked) -> Result<Counts, Trouble> {
    let counts: Vec<Counts> = rows::read(&asked.rows("SELECT memory_stats()", &[]).await?)?;
    Ok(counts.into_iter().next().unwrap_or_default())
}

fn count_of(counts: &Counts, name: &str) -> u64 {
    counts.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn body(asked: &Asked, counts: &Counts, report: Option<Markup>) -> Markup {
    let token = form_token(&asked.visit);
    html! {
        h1 { "Your data" }
        @if let Some(report) = report { (report) }
        dl.figures {
            @for (name, shown) in [("facts", "facts"), ("turns", "messages"), ("sessions", "sessions"),
                                   ("documents", "parts of documents"), ("tokens", "tokens of text"),
                                   ("inactive", "forgotten or replaced")] {
                div { dt { (shown) } dd { (count_of(counts, name)) } }
            }
        }
        section aria-labelledby="import" {
            h2 #import { "Import" }
            p {
                "Conversations of ChatGPT, Claude or Claude Code, memories of mem0 or of the MCP memory server, JSON \
                 lines, or an export of this page. Choose the ZIP archive as it was delivered, or single files, also \
                 compressed with gzip. What is there already stays as it is."
            }
            form.import method="post" action="/ui/import" enctype="multipart/form-data" data-import="/ui/import/preview"
                data-progress="/ui/import/progress" {
                (token)
                label.drop for="files" {
                    b { "Files" }
                    span.muted data-drop hidden { "Drop them here, or click to choose." }
                    input #files type="file" name="files" accept=".md,.zip,.json,.jsonl,.gz" multiple required;
                }
                div #preview role="status" {}
                label.check {
                    input type="checkbox" name="extract" value="yes";
                    "Have a language model learn facts from what you said, which costs its calls"
                }
                div.actions { button.primary type="submit" { "Import" } }
                progress #progress hidden aria-label="Import" {}
            }
        }
        section aria-labelledby="export" {
            h2 #export { "Export" }
            p {
                "A ZIP archive of Markdown files, one for each memory: what was said, facts, summaries, and \
                 what was forgotten or replaced."
            }
            div.actions { a.button href="/ui/export" { "Export everything" } }
        }
        section aria-labelledby="everything" {
            h2 #everything { "Erase everything" }
            p { "You see first what will go, and confirm it." }
            form method="post" action="/ui/erase" {
                (token)
                input type="hidden" name="everything" value="yes";
                div.actions { button.danger type="submit" { "Erase everything…" } }
            }
        }
    }
}

/// Files of other programs, and Markdown files in the order in which they are stored: what was replaced comes after
/// what replaced it, and summaries after what they are of.
fn sorted(asked: &mut Asked) -> Result<(Vec<Upload>, Vec<Upload>), Trouble> {
    let files = std::mem::take(&mut asked.files);
    if files.is_empty() {
        return Err(Trouble::invalid("Choose a ZIP archive, or files of conversations."));
    }
    let (others, mut own): (Vec<Upload>, Vec<Upload>) = files.into_iter().partition(is_of_others);
    own.sort_by_cached_key(|file| {
        let is_in = |part: &str| file.path.contains(part);
        (is_in("/deleted/"), is_in("/summaries/"), file.path.clone())
    });
    Ok((others, own))
}

/// `POST /ui/import/preview`: what the files hold. Nothing is stored.
///
/// # Errors
/// That no files came.
pub async fn preview(mut asked: Asked) -> Result<Answer, Trouble> {
    let (others, own) = sorted(&mut asked)?;
    let mut tally = Tally::default();
    for file in others {
        conversations::take(&asked, file, false, false, &mut tally).await?;
    }
    let body = html! {
        h1 { "What the files hold" }
        div #preview {
            @if tally.stored > 0 { p { (tally.contents()) } }
            @if !own.is_empty() { p { (parts::count(own.len(), "Markdown file", "Markdown files")) "." } }
            (tally.left_out())
            @if let Some(costs) = tally.costs() { p.muted { "Learning facts from them takes " (costs) ", and more to compare the facts with known ones." } }
            (problems(&tally))
        }
    };
    Ok(Answer::Page(Here::Files, "What the files hold".to_owned(), body))
}

/// `POST /ui/import`. What is there already is left as it is, so a file that failed can be sent again together with
/// the others.
///
/// # Errors
/// What memory says of all files together.
pub async fn import(mut asked: Asked) -> Result<Answer, Trouble> {
    let (others, own) = sorted(&mut asked)?;
    let all = |counts: &Counts| {
        let kinds = ["facts", "turns", "documents", "inactive"];
        kinds.iter().map(|name| count_of(counts, name)).sum::<u64>()
    };
    let before = all(&counts(&asked).await?);
    let extracts = asked.form.get("extract").is_some();
    let (mut stored, mut tally) = (0_usize, Tally::default());
    let has_others = !others.is_empty();
    let _ending = Ending(&asked);
    for file in others {
        conversations::take(&asked, file, extracts, true, &mut tally).await?;
    }
    for file in own {
        match import_one(&asked, &file).await {
            Ok(()) => stored += 1,
            Err(trouble) if trouble.status.is_server_error() => return Err(trouble),
            Err(trouble) => tally.refuse(file.path, trouble.message),
        }
        asked.visit.page.progress(asked.user_id(), tally.stored + stored as u64);
    }
    let counts = counts(&asked).await?;
    let new = all(&counts).saturating_sub(before);
    let report = html! {
        div.note.good role="status" {
            @if has_others {
                p { (parts::count(tally.stored as usize, "memory is", "memories are")) " stored, " (tally.there) " were there already." }
                (tally.left_out())
                @if !extracts { @if let Some(costs) = tally.costs() { p.muted { "No facts are learned from them. That would take " (costs) "." } } }
            }
            @if stored > 0 || !has_others {
                p {
                    (stored) @if stored == 1 { " file is" } @else { " files are" } " in memory. "
                    (parts::count(new as usize, "memory is", "memories are")) " new."
                }
            }
        }
        (problems(&tally))
    };
    Ok(Answer::Page(Here::Files, "Your data".to_owned(), body(&asked, &counts, Some(report))))
}

/// The user is not told how far an import has come that has ended, also where its browser left.
struct Ending<'a>(&'a Asked);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.visit.page.end_progress(self.0.user_id());
    }
}

fn problems(tally: &Tally) -> Markup {
    let more = tally.bad - tally.problems.len() as u64;
    html! {
        @if tally.bad > 0 {
            div.note.bad role="alert" {
                p { (tally.bad) @if tally.bad == 1 { " file or memory was" } @else { " files or memories were" } " not stored:" }
                ul { @for (path, message) in &tally.problems { li { code { (path) } " " (message) } } }
                @if more > 0 { p { "… and " (more) " more." } }
            }
        }
    }
}

/// `GET /ui/import/progress`: how much of an import is stored, as JSON; `null` where none runs.
///
/// # Errors
/// None.
pub async fn progress(asked: Asked) -> Result<Answer, Trouble> {
    let stored = asked.visit.page.stored_so_far(asked.user_id());
    let body = stored.map_or_else(|| "null".to_owned(), |stored| stored.to_string());
    Ok(Answer::Other(Box::new(([(CONTENT_TYPE, "application/json")], body).into_response())))
}

async fn import_one(asked: &Asked, file: &Upload) -> Result<(), Trouble> {
    let params: [Param<'_>; 2] = [(&file.path, Type::TEXT), (&file.text, Type::TEXT)];
    asked.rows("SELECT memory_import_markdown($1, $2)", &params).await.map(drop)
}

/// What is exported together: a session, or what an agent keeps beside sessions.
#[derive(Debug, Deserialize)]
struct Part {
    session_id: Option<String>,
    agent_id: String,
}

/// `GET /ui/export`, of a session or of everything.
///
/// # Errors
/// What memory says.
pub async fn export(asked: Asked) -> Result<Answer, Trouble> {
    let session = asked.query.get("session").map(|session| Part {
        session_id: Some(session.to_owned()),
        agent_id: asked.query.get("agent").unwrap_or("default").to_owned(),
    });
    let name = if session.is_some() { "session.zip" } else { "memory.zip" };
    let parts = match session {
        Some(session) => vec![session],
        None => all_parts(&asked).await?,
    };
    let (pieces, taken) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let packed = tokio::select! {
            packed = pack(&asked, &parts, &pieces) => packed,
            // The browser has left, and the statement ends with it.
            () = pieces.closed() => return,
        };
        // The browser sees where the archive is not whole.
        let end = packed.map_err(io::Error::other);
        // The browser may have left.
        let _ = pieces.send(end).await;
    });
    let body =
        stream::unfold(
            taken,
            |mut taken| async move { taken.recv().await.map(|piece| (piece, taken)) },
        );
    let headers = [
        (CONTENT_TYPE, "application/zip".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    Ok(Answer::Other(Box::new((headers, Body::from_stream(body)).into_response())))
}

async fn all_parts(asked: &Asked) -> Result<Vec<Part>, Trouble> {
    let sql = "SELECT jsonb_build_object('session_id', p.session_id, 'agent_id', p.agent_id) FROM ( \
                   SELECT s.session_id, s.agent_id FROM memory_sessions s WHERE s.user_id = $1 \
                   UNION SELECT NULL, s.agent_id FROM memory_sessions s WHERE s.user_id = $1 \
                   UNION SELECT NULL, e.agent_id FROM memory_entries e WHERE e.user_id = $1 \
                   UNION SELECT NULL, 'default') p \
                ORDER BY p.agent_id, p.session_id NULLS FIRST";
    let user = asked.user_id();
    rows::read(&asked.rows(sql, &[(&user, Type::TEXT)]).await?)
}

type Pieces = mpsc::Sender<io::Result<Bytes>>;

/// Packs files as they come out of memory; returns the end of the archive.
async fn pack(asked: &Asked, parts: &[Part], pieces: &Pieces) -> Result<Bytes, String> {
    let packed = Packed::default();
    let mut archive = zip::ZipWriter::new_stream(packed.clone());
    let broken = |error: &dyn std::fmt::Display| error.to_string();
    for part in parts {
        let params: [Param<'_>; 2] = [(&part.session_id, Type::TEXT), (&part.agent_id, Type::TEXT)];
        let sql = "SELECT path, content FROM memory_export_markdown($1, agent_id => $2)";
        let rows = asked.rows(sql, &params).await.map_err(|trouble| trouble.message)?;
        for row in rows {
            let path: String = row.try_get(0).map_err(|error| broken(&error))?;
            let text: String = row.try_get(1).map_err(|error| broken(&error))?;
            add(&mut archive, &part.agent_id, &path, &text).map_err(|error| broken(&error))?;
            if let Some(piece) = packed.take(PIECE) {
                pieces.send(Ok(piece)).await.map_err(|_| "the browser has left".to_owned())?;
            }
        }
    }
    archive.finish().map_err(|error| broken(&error))?;
    Ok(packed.take(0).unwrap_or_default())
}

/// Paths do not name the agent, so each but the usual one has a directory.
fn add(
    archive: &mut zip::ZipWriter<StreamWriter<Packed>>,
    agent_id: &str,
    path: &str,
    text: &str,
) -> io::Result<()> {
    let path = match agent_id {
        "default" => path.to_owned(),
        agent => format!("agents/{}/{path}", encoded(agent).replace('.', "%2E")),
    };
    // Files are small: packing each by itself saves little, and takes more memory than it has text.
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    archive.start_file(path, options)?;
    archive.write_all(text.as_bytes())
}

/// What was packed and has not been sent.
#[derive(Clone, Default)]
struct Packed(Arc<Mutex<Vec<u8>>>);

impl Packed {
    /// Everything, if that is at least so much.
    fn take(&self, least: usize) -> Option<Bytes> {
        let mut bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (bytes.len() >= least).then(|| Bytes::from(std::mem::take(&mut *bytes)))
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
