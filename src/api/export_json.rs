//! `memory_export_json` and `memory_import_json`: everything of one user as JSON objects, and back. The format
//! is the core crate's `record`; a memory is checked and stored as from a Markdown file.

use crate::api::prelude::*;
use crate::memory::scope::configure;
use crate::memory::transfer::import_archive::import_archive;
use crate::memory::transfer::import_entries::import;
use crate::memory::transfer::import_history::{import_episode, import_event, import_trace};
use crate::store::transfer::exports::{self, ExportScope};
use memory_agent_core::files::markdown::MarkdownError;
use memory_agent_core::files::record::Record;

/// Events and traces that are read at once: each may be as large as a file.
const PAGE: i64 = 16;

#[pg_extern(sql = false)]
fn memory_export_json(
    _limits: WithinLimits,
    user_id: Option<String>,
    agent_id: Option<String>,
) -> Result<SetOfIterator<'static, JsonbText>, ErrorReport> {
    let caller = identity::resolve_kept(user_id.as_deref(), agent_id.as_deref(), Level::Reader)?;
    // As by the functions and views that show one of them at a time.
    let tells_past = caller.level >= Level::User;
    // All agents, unless one is named.
    let agent = caller.agent_id.filter(|_| caller.agent_is_explicit);
    let user = caller.user_id;
    let (archives, scopes, episodes, configured) = roles::read_as_owner(|spi| {
        let agent = agent.as_deref();
        let archives = exports::archives(spi, &user, agent)?;
        let scopes = exports::scopes(spi, &user, agent)?;
        let episodes = exports::episodes(spi, &user, agent)?;
        Ok((archives, scopes, episodes, exports::configured(spi, &user, agent)?))
    })?;
    let archives = (archives.into_iter())
        .map(|(archive, content)| Record::Archive(archive).write(Some(&content)));
    // One scope after the other, and some events at a time: who has much is not read at once.
    let user_of_memories = user.clone();
    let memories = scopes.into_iter().flat_map(move |(agent, session)| {
        or_error(memories(&user_of_memories, &agent, session.as_deref()))
    });
    let episodes = episodes.into_iter().map(|episode| Record::Episode(episode).write(None));
    let (user_of_traces, agent_of_traces) = (user.clone(), agent.clone());
    let events = in_pages(move |after| {
        let read = |spi: &_| exports::events(spi, &user, agent.as_deref(), after, PAGE);
        let page = roles::read_as_owner(read)?;
        Ok(page.into_iter().map(|(id, event)| (id, Record::Event(event))).collect())
    });
    let traces = in_pages(move |after| {
        let (user, agent) = (&user_of_traces, agent_of_traces.as_deref());
        let read = |spi: &_| exports::traces(spi, user, agent, after, PAGE);
        let page = roles::read_as_owner(read)?;
        Ok(page.into_iter().map(|(id, trace)| (id, Record::Trace(trace))).collect())
    });
    // Last: what is imported makes the sessions.
    let configured =
        configured.into_iter().map(|configured| Record::Configured(configured).write(None));
    let past = tells_past.then(|| events.chain(traces)).into_iter().flatten();
    let records = archives.chain(memories).chain(episodes).chain(past).chain(configured);
    Ok(SetOfIterator::new(records.map(JsonbText)))
}

/// What was read, or the ERROR.
fn or_error<T>(read: PgResult<Vec<T>>) -> Vec<T> {
    read.unwrap_or_else(|report| {
        report.report(PgLogLevel::ERROR);
        Vec::new()
    })
}

/// Records with their ids, read a page after the other by what returns those after an id.
fn in_pages(page: impl Fn(Uuid) -> PgResult<Vec<(Uuid, Record)>>) -> impl Iterator<Item = String> {
    let mut after = Some(Uuid::from_bytes([0; 16]));
    let pages = std::iter::from_fn(move || {
        let records = or_error(page(after?));
        after = records.last().map(|(id, _)| *id);
        after.map(|_| records)
    });
    pages.flatten().map(|(_, record)| record.write(None))
}

fn memories(user_id: &str, agent: &str, session_id: Option<&str>) -> PgResult<Vec<String>> {
    let scope = ExportScope { user_id, agent_id: Some(agent), session_id };
    let memories = roles::read_as_owner(|spi| exports::memories(spi, &scope))?;
    let write =
        |(memory, content): (_, String)| Record::Memory(Box::new(memory)).write(Some(&content));
    Ok(memories.into_iter().map(write).collect())
}

#[pg_extern(sql = false)]
fn memory_import_json(
    _limits: WithinLimits,
    record: Option<JsonbText>,
    user_id: Option<String>,
) -> PgResult<Option<Uuid>> {
    // Who may not import learns nothing about a record either.
    let level = identity::require(Level::User)?;
    let json = record.map_or_else(|| "null".to_owned(), |record| record.0);
    let (record, content) = Record::read(&json).map_err(refused)?;
    let caller = identity::resolve_at(level, user_id.as_deref(), record.agent_id())?;
    let server = Content::current();
    match record {
        Record::Memory(memory) => import(&caller, &memory, &content, &server).map(Some),
        Record::Archive(archive) => import_archive(&caller, &archive, &content, &server).map(Some),
        Record::Episode(episode) => import_episode(&caller, &episode).map(Some),
        Record::Event(event) => import_event(&caller, &event).map(Some),
        Record::Trace(trace) => import_trace(&caller, &trace).map(Some),
        Record::Configured(configured) => configure::import(&caller, &configured).map(|()| None),
    }
}

fn refused(error: MarkdownError) -> ErrorReport {
    Error::invalid(
        error.to_string(),
        "A memory is {\"role\": \"user\", \"content\": \"...\"} and what else \
         SELECT memory_export_json() shows.",
    )
}
