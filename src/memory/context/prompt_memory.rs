//! Recalled memories as prompts tell them: each with who said it and when, of a long one a passage, facts before what
//! was said, and what no longer holds marked.

use crate::identity::SHARED_USER;
use crate::memory::context::tokens::TokenCounter;
use crate::memory::prelude::*;
use crate::memory::recall;
use crate::memory::recall::echo::{Untold, Why};
use crate::memory::recall::request::Request;
use crate::memory::recall::stale::Treatment;
use crate::settings::{PromptStaleSources, Prompts};
use crate::store::facts::stale::Replaced;
use crate::store::rows::scope::Layer;
use crate::store::search::candidate_details::Detail;
use crate::store::summaries::archives::CONVERSATION;
use crate::store::{facts::stale, rows::entries, schema};
use memory_agent_core::prompt::augment::{self, Outdated};
use memory_agent_core::prompt::echo::normalized;
use memory_agent_core::text::words_sought::Sought;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// No prompt tells a memory below this probability, unless the application chose a threshold. The best twenty rows of the
/// four labelled sets hold what they held without up to .002, but there prompts lose what says the same as a memory
/// that is told; at .005 they lose answers (docs/ranking.md).
const LEAST_TOLD: f32 = 0.0005;

/// A memory, or a part of an archived conversation.
#[derive(Clone)]
pub struct PromptMemory {
    pub id: Uuid,
    kind: String,
    pub role: String,
    /// The name of who said it.
    speaker: Option<String>,
    session_id: Option<String>,
    metadata: Value,
    /// The whole text.
    pub content: String,
    /// What is told of it instead.
    passage: Option<String>,
    /// What a still shorter one would be about.
    sought: Option<Rc<Sought>>,
    pub created_at: TimestampWithTimeZone,
    pub score: f32,
    pub similarity: Option<f32>,
    pub outdated: Vec<Outdated>,
    /// What stands in brackets before it.
    label: String,
    pub is_fact: bool,
    /// The conversation that it is a part of.
    pub held: Option<Held>,
    /// Where recall found it.
    pub layer: Option<Layer>,
}

/// What a recall finds for a prompt.
#[derive(Default)]
pub struct Recollection {
    /// Best first, each text once.
    pub memories: Vec<PromptMemory>,
    /// What else was found, and is not told.
    pub untold: Vec<Untold>,
}

/// Where a conversation was held, and with which agent.
#[derive(Clone, PartialEq, Eq)]
pub struct Held {
    pub session_id: Option<String>,
    pub agent_id: Option<String>,
}

impl PromptMemory {
    fn of(row: recall::RecallRow, cited: &[&str]) -> Self {
        let metadata: Value = serde_json::from_str(&row.metadata.0).unwrap_or_else(|_| json!({}));
        // What a document says is not known of the user, whatever stands in its metadata.
        let is_document = row.kind == "document";
        let name = metadata["name"].as_str().filter(|name| !is_document && !name.trim().is_empty());
        let role = if is_document { row.kind.clone() } else { row.role };
        let label =
            augment::label(&role, name, &day(row.created_at)) + &augment::cited(&metadata, cited);
        Self {
            id: row.id,
            label,
            is_fact: row.kind == "fact",
            kind: row.kind,
            role,
            speaker: name.map(str::to_owned),
            session_id: row.session_id,
            metadata,
            content: row.content,
            passage: None,
            sought: None,
            created_at: row.created_at,
            score: row.score,
            similarity: row.similarity,
            outdated: Vec::new(),
            held: None,
            layer: None,
        }
    }

    /// A part of an archived conversation.
    pub fn of_conversation(row: recall::RecallRow, held: Held, outdated: Vec<Outdated>) -> Self {
        let label = format!("conversation of {}", day(row.created_at));
        let memory = Self::of(row, &[]);
        Self { role: CONVERSATION.to_owned(), label, held: Some(held), outdated, ..memory }
    }

    /// A part of a conversation that is not cut any further.
    pub fn into_memory(self) -> Self {
        Self { held: None, ..self }
    }

    /// Why this one is not told, if recall found it.
    pub fn untold(&self, why: Why) -> Option<Untold> {
        Some(Untold { id: self.id, layer: self.layer?, why })
    }

    /// The text that is told: the whole, or a passage.
    pub fn text(&self) -> &str {
        self.passage.as_deref().unwrap_or(&self.content)
    }

    /// Has it tell no more than this passage, and name itself, so that the whole text can be read.
    pub fn tell(&mut self, passage: String) {
        if self.passage.replace(passage).is_none() {
            self.label.push_str(&format!(", part of {}", self.id));
        }
    }

    /// Whether it is a memory of which a passage is told.
    pub fn can_wait(&self) -> bool {
        self.passage.is_some() && self.held.is_none()
    }

    /// Has it tell a passage of at most so many tokens; `false` if it tells none.
    pub fn tell_less(&mut self, most: u32, tokens: &TokenCounter) -> bool {
        let Some(sought) = self.sought.clone() else { return false };
        let less = tokens.passages(&[&self.content], &sought, most).into_iter().flatten().next();
        less.map(|less| self.tell(less)).is_some()
    }

    /// As a line of the prompt tells it.
    pub fn told(&self) -> augment::Memory<'_> {
        augment::Memory { label: &self.label, content: self.text(), outdated: &self.outdated }
    }

    /// As results list it.
    pub fn to_json(&self) -> Value {
        // As short as SQL writes it: the nearest f64 of .85_f32 is .8500000238.
        let score: f64 = self.score.to_string().parse().unwrap_or_default();
        json!({
            "id": self.id.to_string(),
            "kind": self.kind,
            "role": self.role,
            "speaker": self.speaker,
            "session_id": self.session_id,
            "content": self.text(),
            "shortened": self.passage.is_some(),
            "metadata": self.metadata,
            "created_at": self.created_at.to_iso_string(),
            "score": score,
            "no_longer_true": marks_to_json(&self.outdated),
        })
    }
}

/// Puts facts before everything else; within each group the order stays.
pub fn facts_first(memories: &mut [PromptMemory]) {
    memories.sort_by_key(|memory| !memory.is_fact);
}

/// Has long memories tell a passage around the words of the request.
pub fn shorten(memories: &mut [PromptMemory], request: &Request, tokens: &TokenCounter) {
    let sought = Rc::new(request.sought());
    let texts: Vec<&str> = memories.iter().map(|memory| memory.content.as_str()).collect();
    let passages = tokens.passages(&texts, &sought, tokens.memory_tokens);
    for (memory, passage) in memories.iter_mut().zip(passages) {
        if let Some(passage) = passage {
            memory.tell(passage);
            memory.sought = Some(Rc::clone(&sought));
        }
    }
}

/// The memories that a recall finds for a prompt.
pub fn recalled(
    request: &Request,
    prompts: &Prompts,
    tokens: &TokenCounter,
) -> PgResult<Recollection> {
    let Some(recalled) = recall::run(request)? else { return Ok(Recollection::default()) };
    let (replaced, doubted) = (recalled.replaced.clone(), recalled.doubted.clone());
    let mut untold = recalled.untold.clone();
    let of_rows = recalled.details.iter().zip(&recalled.members);
    let layers: HashMap<Uuid, Layer> = of_rows
        .map(|(detail, member)| {
            (detail.id, member.layer.unwrap_or_else(|| home_of(detail, request)))
        })
        .collect();
    let mut memories = Vec::new();
    let mut texts = HashSet::new();
    // What holds instead of something that was found is told whatever its own words are.
    let instead: HashSet<Uuid> =
        replaced.iter().chain(&doubted).filter_map(|(_, by)| *by).collect();
    // Other scores are no probabilities.
    let is_gated = recalled.features.is_some() && request.settings.score_threshold.is_none();
    let cited: Vec<&str> =
        prompts.prompt_metadata.split(',').map(str::trim).filter(|key| !key.is_empty()).collect();
    for row in recall::rows(request, recalled)? {
        let memory = PromptMemory::of(row, &cited);
        let memory = PromptMemory { layer: layers.get(&memory.id).copied(), ..memory };
        if !texts.insert(normalized(&memory.content)) {
            untold.extend(memory.untold(Why::Repeated));
        } else if is_gated && memory.score < LEAST_TOLD && !instead.contains(&memory.id) {
            untold.extend(memory.untold(Why::Gate));
        } else {
            memories.push(memory);
        }
    }
    memories.truncate(request.settings.top_k.unwrap_or(memories.len()));
    shorten(&mut memories, request, tokens);
    let marks = roles::read_as_owner(|spi| {
        let mut all = marks(spi, request, &replaced, tokens)?;
        all.extend(doubts(spi, request, &doubted, tokens)?);
        Ok(all)
    })?;
    for (turn, mark) in marks {
        if let Some(memory) = memories.iter_mut().find(|memory| memory.id == turn) {
            memory.outdated.push(mark);
        }
    }
    Ok(Recollection { memories, untold })
}

/// Where a row is at home that no search found: it replaced one that was found.
fn home_of(detail: &Detail, request: &Request) -> Layer {
    match schema::home_of(detail.session_id.as_deref()) {
        _ if detail.user_id == SHARED_USER => Layer::Shared,
        None => Layer::Global,
        session if session == request.scope.session_id.as_deref() => Layer::Session,
        Some(_) => Layer::OtherSessions,
    }
}

/// What is not told, as results list it.
pub fn untold_to_json(untold: &[Untold]) -> Vec<Value> {
    let to_json = |Untold { id, layer, why }: &Untold| json!({"id": id.to_string(), "layer": layer.as_str(), "why": why.as_str()});
    untold.iter().map(to_json).collect()
}

/// Those of these memories that are not among the ones that are told: they have no room.
pub fn without_room(all: Vec<Untold>, told: &[PromptMemory]) -> Vec<Untold> {
    all.into_iter().filter(|row| !told.iter().any(|memory| memory.id == row.id)).collect()
}

/// What these turns say and what no longer holds, unless the setting wants it to be shown as true.
pub fn outdated(
    request: &Request,
    turns: &[Uuid],
    tokens: &TokenCounter,
) -> PgResult<Vec<(Uuid, Outdated)>> {
    if request.stale == Treatment::Show {
        return Ok(Vec::new());
    }
    roles::read_as_owner(|spi| {
        let replaced = stale::replaced(spi, &request.scope, turns)?;
        marks(spi, request, &replaced, tokens)
    })
}

/// The marks of stale turns, given each with the facts that hold instead, the newest first: the facts that
/// were replaced, or, where they have no text, what holds.
fn marks(
    spi: &Spi,
    request: &Request,
    replaced: &[Replaced],
    tokens: &TokenCounter,
) -> PgResult<Vec<(Uuid, Outdated)>> {
    let mut newest: Vec<Replaced> = Vec::new();
    for &(turn, by) in replaced {
        match newest.iter_mut().find(|(known, _)| *known == turn) {
            None => newest.push((turn, by)),
            Some((_, known)) => *known = known.or(by),
        }
    }
    let turns: Vec<Uuid> = newest.iter().map(|(turn, _)| *turn).collect();
    let users = request.scope.caller.visible();
    let was = stale::no_longer_true(spi, &users, &turns)?;
    newest.retain(|(turn, _)| !was.iter().any(|(marked, _)| marked == turn));
    let facts: Vec<Uuid> = newest.iter().filter_map(|(_, fact)| *fact).collect();
    let now = if facts.is_empty() { Vec::new() } else { entries::contents(spi, &users, &facts)? };
    let mut marks: Vec<(Uuid, Outdated)> =
        was.into_iter().map(|(turn, fact)| (turn, Outdated::Was(fact))).collect();
    for (turn, fact) in newest {
        if let Some((_, content)) = now.iter().find(|(id, _)| Some(*id) == fact) {
            marks.push((turn, Outdated::Now(content.content.clone())));
        }
    }
    let (turns, mut marks): (Vec<Uuid>, Vec<Outdated>) = marks.into_iter().unzip();
    shorten_marks(&mut marks, tokens);
    Ok(turns.into_iter().zip(marks).collect())
}

/// The marks of what perhaps no longer holds: what was said later, as far as it is in the scope.
fn doubts(
    spi: &Spi,
    request: &Request,
    doubted: &[Replaced],
    tokens: &TokenCounter,
) -> PgResult<Vec<(Uuid, Outdated)>> {
    if doubted.is_empty() {
        return Ok(Vec::new());
    }
    let later: Vec<Uuid> = doubted.iter().filter_map(|(_, by)| *by).collect();
    let contents: HashMap<Uuid, entries::Content> =
        entries::contents(spi, &request.scope.caller.visible(), &later)?.into_iter().collect();
    let (ids, mut marks): (Vec<Uuid>, Vec<Outdated>) = doubted
        .iter()
        .map(|(id, by)| {
            let later = by.and_then(|by| contents.get(&by)).map(|later| later.content.clone());
            (*id, Outdated::Perhaps(later.unwrap_or_default()))
        })
        .unzip();
    shorten_marks(&mut marks, tokens);
    Ok(ids.into_iter().zip(marks).collect())
}

/// Leaves of long facts in marks the beginning.
pub fn shorten_marks(marks: &mut [Outdated], tokens: &TokenCounter) {
    let texts: Vec<&str> = marks.iter().map(Outdated::fact).collect();
    let passages = tokens.passages(&texts, &Sought::default(), tokens.memory_tokens);
    for (mark, passage) in marks.iter_mut().zip(passages) {
        if let Some(passage) = passage {
            *mark = match mark {
                Outdated::Was(_) => Outdated::Was(passage),
                Outdated::Now(_) => Outdated::Now(passage),
                Outdated::Perhaps(_) => Outdated::Perhaps(passage),
            };
        }
    }
}

fn marks_to_json(marks: &[Outdated]) -> Vec<Value> {
    let mark = |mark: &Outdated| match mark {
        Outdated::Was(fact) => json!({ "was": fact }),
        Outdated::Now(fact) => json!({ "now": fact }),
        Outdated::Perhaps(later) => json!({ "perhaps": later }),
    };
    marks.iter().map(mark).collect()
}

/// The summary of a session, and what stands behind it in a prompt: what it says and what no longer holds.
pub fn summary(
    key: &SessionKey,
    stale_sources: PromptStaleSources,
    tokens: &TokenCounter,
) -> PgResult<Option<(String, String)>> {
    roles::read_as_owner(|spi| {
        let Some(text) = sessions::summary(spi, key)? else { return Ok(None) };
        let mut outdated = match stale_sources.into() {
            Treatment::Show => Vec::new(),
            _ => stale::no_longer_summarized(spi, key)?,
        };
        shorten_marks(&mut outdated, tokens);
        Ok(Some((text, augment::marked("", &outdated))))
    })
}

/// The day of a time, in the time zone of the SQL session.
pub fn day(at: TimestampWithTimeZone) -> String {
    format!("{:04}-{:02}-{:02}", at.year(), at.month(), at.day())
}
