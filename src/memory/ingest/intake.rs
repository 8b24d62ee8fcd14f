//! Rows of attached tables become entries, whether a trigger or the worker read them. Whatever a policy
//! says against a row, the statement that wrote it goes on: the row is left out, a WARNING says so, and a
//! dead job keeps its key.

use crate::identity;
use crate::memory::quotas::Rooms;
use crate::memory::{
    scope::{active_model, scope_settings},
    texts::{prepare, secrets, turn},
};
use crate::pg::error::warn;
use crate::pg::memory_context::scratch;
use crate::pg::pinned_settings::by_index;
use crate::pg::prelude::*;
use crate::pg::spi::sees_one_snapshot;
use crate::settings::{Effective, Secrets};
use crate::store::attach::attached_entries::{self as store, Ended, Known, NewRow};
use crate::store::attach::attached_jobs::{RowJobs, Whose};
use crate::store::attach::attachments::{Embed, Source};
use crate::store::attach::source_rows::SourceRow;
use crate::store::facts::embeddings;
use crate::store::models::Kind;
use crate::store::rows::entries::new_id;
use crate::store::rows::forms::{content_hash, says};
use memory_agent_core::attached::{self, Change, Comparison};
use memory_agent_core::text::ids;
use memory_agent_core::text::tokens;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Rounds in which rows are compared with what is stored, when another transaction stores the same rows.
const ROUNDS: usize = 3;
/// Keys in one dead job.
const KEYS_PER_JOB: usize = 500;

/// Where rows come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A statement that added them.
    Insert,
    /// A statement that changed them.
    Update,
    /// The worker, which found them in the table.
    Worker,
}

impl Via {
    /// What history says of a version that ends with this one.
    fn reason(self) -> &'static str {
        match self {
            Self::Insert => "its row was inserted again",
            Self::Update => "its row was updated",
            Self::Worker => "its row was found changed",
        }
    }
}

/// How rows of a source are taken in.
pub struct Intake<'a> {
    pub source: &'a Source,
    /// Whose memory rows belong to that say nothing about it; `Err` says why no user's.
    pub default_user: Result<String, String>,
    /// Who is told of rows that are refused and have no user.
    pub writer: String,
    pub via: Via,
    /// Whether the rows were not there before: they belong to the role that wrote them, also where another row
    /// had their key.
    pub is_new: bool,
    /// Of the agent of the source.
    pub settings: Effective,
    /// Scopes with entries to embed, and one such entry of each.
    pub to_embed: RefCell<BTreeMap<Scope, Uuid>>,
}

/// A user and a session, or the user's global memory.
pub type Scope = (String, Option<String>);

/// What is to be done with a row.
struct Plan<'a> {
    row: &'a SourceRow,
    /// The user; `None` when there is nothing to remember.
    user_id: Option<&'a str>,
    role: &'a str,
}

impl<'a> Intake<'a> {
    /// Rows as the role writes them that runs the statement.
    pub fn of_writer(source: &'a Source, via: Via) -> PgResult<Self> {
        let is_said =
            source.definition.user_id.is_some() || source.definition.user_id_column.is_some();
        let writer = roles::current_role_name();
        let default_user = if is_said {
            Ok(writer.clone())
        } else {
            identity::writer_identity().map_err(|error| error.message().to_owned())
        };
        let is_new = via == Via::Insert;
        let settings = settings_of(source, default_user.as_deref().ok())?;
        let to_embed = RefCell::default();
        Ok(Self { source, default_user, writer, via, is_new, settings, to_embed })
    }

    /// Whose memory rows are that say nothing about it, for a job that takes them in later.
    pub fn whose(&self) -> Whose<'_> {
        match &self.default_user {
            Ok(user_id) => Whose { user_id, of_nobody: false },
            Err(_) => Whose { user_id: &self.writer, of_nobody: true },
        }
    }

    /// Takes in a batch of rows. Runs as the extension's owner, in the transaction that wrote them.
    pub fn take(&self, rows: &[SourceRow]) -> PgResult<()> {
        let compare = |rows: &[SourceRow]| {
            scratch(|| {
                let spi = Spi::read_write()?;
                let label = &self.source.label;
                let known = store::known(&spi, label, rows)?;
                let plans = self.admit(&spi, rows, &known)?;
                let mut is_done = self.bring_in_line(&spi, &plans, &known)?;
                for _ in 1..ROUNDS {
                    if is_done {
                        break;
                    }
                    let known = store::known(&spi, label, rows)?;
                    is_done = self.bring_in_line(&spi, &plans, &known)?;
                }
                Ok(())
            })
        };
        roles::write_as_owner(|spi| {
            let rows = &*self.without_secrets(spi, rows)?;
            if !sees_one_snapshot() {
                return by_index(|| compare(rows));
            }
            let (rows, left) = store::in_sight(&self.source.label, rows.to_vec(), |row| &row.key)?;
            let left: Vec<JsonbText> = left.into_iter().map(|row| row.key).collect();
            row_jobs(spi, self.source, &self.settings).written(
                &self.whose(),
                self.is_new,
                &left,
            )?;
            by_index(|| compare(&rows))
        })
    }

    /// Rows as they are stored and compared.
    fn without_secrets<'r>(
        &self,
        spi: &Spi,
        rows: &'r [SourceRow],
    ) -> PgResult<Cow<'r, [SourceRow]>> {
        let mut rows = Cow::Borrowed(rows);
        if self.settings.content.secrets == Secrets::Refuse {
            // Refused one by one, not all together.
            return Ok(rows);
        }
        for index in 0..rows.len() {
            let row = &rows[index];
            let Some(content) = &row.content else { continue };
            let clean = secrets::clean(content, &row.metadata, &self.settings.content)?;
            if let Some((content, metadata)) = clean {
                // In the form in which it is compared with what is stored.
                let metadata = spi.one("SELECT $1", &mut params![metadata])?;
                let row = &mut rows.to_mut()[index];
                (row.content, row.metadata) = (Some(content), metadata);
            }
        }
        Ok(rows)
    }

    /// Why a row is not to be remembered, for what it says.
    fn refusal(&self, row: &SourceRow) -> Option<String> {
        secrets::refusal(row.content.as_deref()?, &row.metadata, &self.settings.content)
    }

    /// Queues what the rows taken in so far still need: once a statement, not once a batch.
    pub fn finish(self) -> PgResult<()> {
        let to_embed = self.to_embed.take();
        if to_embed.is_empty() {
            return Ok(());
        }
        roles::write_as_owner(|spi| row_jobs(spi, self.source, &self.settings).embedding(&to_embed))
    }

    /// Which rows are to be remembered; those that a policy is against are noted.
    fn admit<'r>(
        &'r self,
        spi: &Spi,
        rows: &'r [SourceRow],
        known: &'r [Vec<Known>],
    ) -> PgResult<Vec<Plan<'r>>> {
        let definition = &self.source.definition;
        let max_bytes = self.settings.content.max_content_bytes;
        // By who is told, whether it is known whose memory they are, and the reason.
        let mut refused: BTreeMap<(String, bool, String), Vec<&JsonbText>> = BTreeMap::new();
        let mut plans = Vec::with_capacity(rows.len());
        let mut rooms = Rooms::default();
        for (row, known) in rows.iter().zip(known) {
            let role = row.role.as_deref().unwrap_or(&definition.role);
            let user_id = match (&definition.user_id, &definition.user_id_column) {
                (Some(fixed), _) => Ok(Some(fixed.as_str())),
                (None, Some(_)) => Ok(row.user_id.as_deref()),
                // A role that changes another user's row leaves it to that user.
                (None, None) => match (known.first(), &self.default_user) {
                    (Some(known), _) if !self.is_new => Ok(Some(known.user_id.as_str())),
                    (_, Ok(user_id)) => Ok(Some(user_id.as_str())),
                    (_, Err(reason)) if row.content.is_some() => Err(reason.clone()),
                    (_, Err(_)) => Ok(None),
                },
            };
            let is_fixed = definition.user_id.is_some();
            let admitted = user_id.clone().and_then(|user_id| {
                let admitted = match &row.problem {
                    Some(problem) => Err(problem.clone()),
                    None => attached::admit(&row.row(user_id, role), max_bytes, is_fixed),
                };
                match admitted {
                    Ok(true) => self.refusal(row).map_or(Ok(user_id), Err),
                    Ok(false) => Ok(None),
                    Err(refusal) => Err(refusal.to_string()),
                }
            });
            let admitted = match admitted {
                Ok(Some(user_id)) => {
                    // One that has an entry already takes no more room.
                    let is_new = !known.iter().any(|known| known.user_id == user_id);
                    let bytes = row.content.as_ref().map_or(0, String::len);
                    let problem = rooms.problem(spi, user_id, is_new.then_some(bytes))?;
                    problem.map_or(Ok(Some(user_id)), Err)
                }
                admitted => admitted,
            };
            let user_id = match admitted {
                Ok(user_id) => user_id,
                Err(reason) => {
                    let of_nobody = user_id.is_err();
                    let told = user_id.ok().flatten().filter(|id| is_user(id));
                    let told = told.unwrap_or(&self.writer).to_owned();
                    refused.entry((told, of_nobody, reason)).or_default().push(&row.key);
                    None
                }
            };
            plans.push(Plan { row, user_id, role });
        }
        for ((user_id, of_nobody, reason), keys) in refused {
            self.note_refused(spi, &Whose { user_id: &user_id, of_nobody }, &reason, &keys)?;
        }
        Ok(plans)
    }

    fn note_refused(
        &self,
        spi: &Spi,
        whose: &Whose<'_>,
        reason: &str,
        keys: &[&JsonbText],
    ) -> PgResult<()> {
        let label = &self.source.label;
        for keys in keys.chunks(KEYS_PER_JOB) {
            let [first, rest @ ..] = keys else { continue };
            let first = match self.via {
                // The reader of this is neither the writer nor the owner of the row.
                Via::Worker if whose.user_id == self.writer => format!("a row of {label}"),
                _ => format!("the row {} of {label}", shortened(&first.0)),
            };
            let which = match rest.len() {
                0 => format!("{first} was"),
                more => format!("{first} and {more} more were"),
            };
            let problem = format!("{which} not taken into memory: {reason}");
            row_jobs(spi, self.source, &self.settings).refused(whose, keys, &problem)?;
            if self.via != Via::Worker {
                warn(
                    problem,
                    "The row itself is stored; memory_retry(id) of its job reads it again.",
                );
            }
        }
        Ok(())
    }

    /// Compares the rows with their entries and does what is needed. False when another transaction stored the same
    /// rows meanwhile, so that they have to be compared again.
    fn bring_in_line(&self, spi: &Spi, plans: &[Plan<'_>], known: &[Vec<Known>]) -> PgResult<bool> {
        let now = pgrx::datum::datetime_support::now();
        let (mut added, mut ended, mut relabelled) = (Vec::new(), Vec::new(), Vec::new());
        for (plan, known) in plans.iter().zip(known) {
            // There is one, unless rows were written while the triggers were off.
            let (before, others) = match known.split_first() {
                Some((first, others)) => (Some(first), others),
                None => (None, [].as_slice()),
            };
            ended.extend(others.iter().map(|known| Ended { known, replaced_by: None }));
            let compared = before.map(|before| self.compare(plan, before));
            let change = attached::change(plan.user_id.is_some(), compared);
            match (change, before) {
                (Change::Keep, _) => {}
                (Change::Relabel, Some(before)) => relabelled.push((before, plan.row)),
                (Change::End, Some(before)) => {
                    ended.push(Ended { known: before, replaced_by: None });
                }
                (_, before) => {
                    let Some(row) = self.new_row(plan, before, now)? else { continue };
                    if let Some(before) = before {
                        // An id of another user's memory is not told to this one.
                        let replaced_by =
                            (change == Change::Replace).then_some((row.id, row.created_at));
                        ended.push(Ended { known: before, replaced_by });
                    }
                    added.push(row);
                }
            }
        }
        store::end(spi, &ended, self.via.reason())?;
        store::relabel(spi, &relabelled)?;
        self.add(spi, added)
    }

    fn compare(&self, plan: &Plan<'_>, known: &Known) -> Comparison {
        let content = plan.row.content.as_deref().unwrap_or_default();
        // The speaker's name is part of what is searched.
        let same_name = known.metadata == plan.row.metadata
            || turn::indexed_text("", &known.metadata)
                == turn::indexed_text("", &plan.row.metadata);
        Comparison {
            same_owner: plan.user_id == Some(known.user_id.as_str())
                && known.agent_id == self.source.definition.agent_id,
            same_content: says(known.content_hash.as_deref(), content)
                && known.session_id == plan.row.session_id
                && known.role == plan.role
                && same_name,
            same_metadata: known.same_metadata,
        }
    }

    fn new_row<'r>(
        &self,
        plan: &Plan<'r>,
        before: Option<&Known>,
        now: TimestampWithTimeZone,
    ) -> PgResult<Option<NewRow<'r>>> {
        let (Some(user_id), Some(content)) = (plan.user_id, plan.row.content.as_deref()) else {
            return Ok(None);
        };
        let created_at =
            attached::begins(plan.row.created_at, now, before.map(|before| before.created_at));
        Ok(Some(NewRow {
            id: new_id(),
            row: plan.row,
            user_id,
            role: plan.role,
            content,
            indexed_text: turn::indexed_text(content, &plan.row.metadata),
            token_count: i32::try_from(tokens::estimate_tokens(content)).unwrap_or(i32::MAX),
            markers: turn::markers_of(None, content, &self.settings.content)?,
            created_at,
        }))
    }

    /// Stores new entries, with their embeddings or a job that makes them.
    fn add(&self, spi: &Spi, rows: Vec<NewRow<'_>>) -> PgResult<bool> {
        let configuration = &self.settings.content.text_search_config;
        let stored = store::insert(spi, self.source, configuration, &rows)?;
        match self.source.definition.embed {
            Embed::Off => {}
            Embed::Sync if self.via != Via::Worker && embed(spi, &rows, configuration)? => {}
            Embed::Sync | Embed::Async => {
                let mut to_embed = self.to_embed.borrow_mut();
                for row in &rows {
                    let scope = (row.user_id.to_owned(), row.row.session_id.clone());
                    to_embed.entry(scope).or_insert(row.id);
                }
            }
        }
        Ok(stored == rows.len() as u64)
    }
}

/// The queue, for jobs about rows of a table.
pub fn row_jobs<'a>(spi: &'a Spi, source: &'a Source, settings: &Effective) -> RowJobs<'a> {
    RowJobs { spi, source, max_attempts: settings.llm_limits.max_attempts }
}

/// What is stored for the agent of a source: of the user that owns all its rows, or of all users where each
/// row says whose it is. `default_user` is whose rows are that say nothing about it.
pub fn settings_of(source: &Source, default_user: Option<&str>) -> PgResult<Effective> {
    let definition = &source.definition;
    let user_id = match (&definition.user_id, &definition.user_id_column) {
        (Some(fixed), _) => fixed,
        (None, Some(_)) => identity::SHARED_USER,
        (None, None) => default_user.unwrap_or(identity::SHARED_USER),
    };
    let read = |settings: &Effective| Ok(settings.clone());
    scope_settings::scoped_to(user_id, &definition.agent_id, None, read)
}

/// Embeds new entries in this statement; false when that is left to a job.
fn embed(spi: &Spi, rows: &[NewRow<'_>], configuration: &str) -> PgResult<bool> {
    let Some(model) = active_model::active(spi, Kind::Embedder)? else { return Ok(false) };
    if rows.is_empty() {
        return Ok(true);
    }
    let prepared = prepare::prepare_by(
        Some(model.clone()),
        true,
        rows.iter().map(|row| row.indexed_text.clone()).collect(),
        rows.iter().map(|row| row.content.to_owned()).collect(),
        configuration.to_owned(),
    );
    if prepared.needs_job() {
        return Ok(false);
    }
    for (index, row) in rows.iter().enumerate() {
        let hash = content_hash(row.content);
        let windows = prepared.embedding(index).map(|windows| (model.name.as_str(), windows));
        let tokens = prepared.token_count(index);
        embeddings::complete(spi, row.user_id, (row.id, Some(&hash)), windows, tokens)?;
    }
    Ok(true)
}

fn is_user(id: &str) -> bool {
    id != identity::SHARED_USER && ids::check(id).is_ok()
}

/// A key as a message shows it.
fn shortened(key: &str) -> String {
    const SHOWN: usize = 60;
    match key.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &key[..end]),
        None => key.to_owned(),
    }
}
