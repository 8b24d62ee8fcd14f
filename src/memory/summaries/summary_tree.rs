//! How a text of any length becomes one summary: at once when it fits into one request, otherwise in
//! chunks (L1), groups of chunks (L2) and the whole (L3). A conversation that grows by a few turns at a time
//! gets its chunks and groups when enough of them have come together. Every answer is kept under the digest of its
//! question, so a later attempt asks only what is new, whatever changed meanwhile.

use crate::models::Failure;
use crate::models::counting::{count, count_one};
use crate::store::summaries::{Chunk, Coverage, Current, Source};
use memory_agent_core::condense::levels::{self, SummaryLevel};
use memory_agent_core::condense::material::{self, GROUP_SIZE, Piece};
use memory_agent_core::condense::summarize::{
    self, Ask, ContentType, Known, Said, Sections, SummaryPrompt,
};
use memory_agent_core::facts::answers::ChatMessage;
use memory_agent_core::facts::extract::original_message;
pub use memory_agent_core::jobs::payloads::Condensed;
use memory_agent_core::{condense::chunk, text::cut};
use memory_agent_model_server::protocol::ChatAnswer;
use pgrx::datum::Uuid;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// What is condensed.
pub struct Material {
    pub content_type: ContentType,
    /// The summary so far.
    pub current: Option<Current>,
    /// What came after it, oldest first. Without any, the summary so far is only taken apart into its
    /// sections.
    pub sources: Vec<Source>,
    /// Facts instead of turns, which are gone.
    pub are_facts: bool,
    /// Whether topics, entities, decisions and questions are asked for beside the summary.
    pub with_sections: bool,
    /// Those of an earlier summary, to be brought up to date.
    pub last_sections: Option<Sections>,
    pub behind: Behind,
}

/// What has no part yet of a conversation that the summary so far covers, if a part of it is due.
#[derive(Default)]
pub struct Behind {
    /// Turns that are in no chunk, oldest first.
    pub turns: Vec<Source>,
    /// Chunks that are in no group.
    pub chunks: Vec<Chunk>,
}

/// How material is divided among requests.
pub struct Division {
    /// The sources, those cut that are too long.
    pieces: Vec<Piece>,
    /// Which pieces are asked about together.
    chunks: Vec<Range<usize>>,
    max_tokens: u32,
}

/// The text of an answer, counted.
///
/// # Errors
/// The model server's, when it cannot count.
pub fn read(question: &Question, answer: &ChatAnswer) -> Result<Condensed, Failure> {
    let sections = question.with_sections.then(|| summarize::sections(&answer.text));
    let text = match &sections {
        Some(sections) => sections.summary.clone(),
        None => summarize::clean(&answer.text),
    };
    Ok(Condensed { tokens: count_one(&text)?, text, model: answer.model.clone(), sections })
}

/// Cuts what no retry made short enough, at the end of a sentence.
///
/// # Errors
/// The model server's, when it cannot count.
pub fn cut_short(condensed: &mut Condensed, target_tokens: u32) -> Result<(), Failure> {
    condensed.text = cut::cut_to(&condensed.text, levels::most_tokens(target_tokens), &mut count)?;
    condensed.tokens = count_one(&condensed.text)?;
    Ok(())
}

/// Answers by the digests of their questions.
pub type Answers = BTreeMap<String, Condensed>;

/// What is to be asked next.
pub struct Question {
    pub digest: String,
    pub messages: Vec<ChatMessage>,
    pub target_tokens: u32,
    pub with_sections: bool,
    /// Whether other questions depend on the answer.
    pub is_part: bool,
}

/// One part of a conversation: what it covers, and its summary.
pub struct Part {
    pub source_ids: Vec<Uuid>,
    pub coverage: Coverage,
    pub input_tokens: u32,
    pub condensed: Condensed,
    /// The stored chunks that it was made of.
    pub made_of: Vec<Uuid>,
}

impl Part {
    /// `None` for no sources.
    fn of(sources: &[Source], are_facts: bool, input_tokens: u32, text: Condensed) -> Option<Self> {
        Some(Self {
            source_ids: sources.iter().map(|source| source.id).collect(),
            coverage: Coverage::of(sources, are_facts)?,
            input_tokens,
            condensed: text,
            made_of: Vec::new(),
        })
    }
}

/// Everything that came out.
pub struct Tree {
    pub chunks: Vec<Part>,
    pub groups: Vec<Part>,
    pub whole: Condensed,
}

/// How far the condensing has come.
pub enum Next {
    Ask(Box<Question>),
    Done(Box<Tree>),
}

impl Division {
    /// Divides material into pieces that fit into a request, and these into requests.
    ///
    /// # Errors
    /// The model server's, when it cannot count the tokens of a text that has to be cut.
    pub fn of(material: &Material, limits: chunk::Limits) -> Result<Self, Failure> {
        let texts: Vec<(&str, u32)> = material
            .sources
            .iter()
            .map(|source| (original_message(&source.content), source.tokens))
            .collect();
        let pieces = material::pieces(&texts, limits, &mut count)?;
        let tokens: Vec<u32> = pieces.iter().map(|piece| piece.tokens).collect();
        let chunks = material::group(&tokens, limits.max_tokens, limits.overlap_tokens);
        Ok(Self { pieces, chunks, max_tokens: limits.max_tokens })
    }

    fn sources_of(&self, pieces: &Range<usize>) -> Range<usize> {
        let pieces = &self.pieces[pieces.clone()];
        let first = pieces.first().map_or(0, |piece| piece.turn);
        first..pieces.last().map_or(first, |piece| piece.turn + 1)
    }
}

impl Material {
    /// Tokens of the sources.
    pub fn new_tokens(&self) -> u32 {
        self.sources.iter().fold(0, |sum, source| sum.saturating_add(source.tokens))
    }

    /// Everything that the new summary covers.
    pub fn coverage(&self) -> Option<Coverage> {
        let before = self.current.as_ref().and_then(|current| current.coverage.clone());
        match (before, Coverage::of(&self.sources, self.are_facts)) {
            (Some(before), Some(new)) => Some(before.joined(new)),
            (before, new) => before.or(new),
        }
    }

    /// Its tokens.
    pub fn covered_tokens(&self) -> u32 {
        self.coverage().map_or(0, |coverage| coverage.tokens)
    }

    /// The level of the new summary.
    pub fn level(&self) -> SummaryLevel {
        SummaryLevel::of(self.covered_tokens())
    }

    /// What is to be asked next, given the answers so far.
    pub fn next(&self, division: &Division, answers: &Answers) -> Next {
        let target = levels::target_tokens(self.covered_tokens());
        if let (true, Some(current)) = (self.sources.is_empty(), &self.current) {
            let last = self.last_sections.as_ref().map(Sections::to_string);
            let ask =
                self.ask(SummaryPrompt::Standard, last.as_deref(), target.max(current.tokens));
            let ask = Ask { material: summarize::Material::Text(&current.sections.summary), ..ask };
            return whole(&ask, Vec::new(), Vec::new(), answers);
        }
        let previous = self.previous();
        let previous = previous.as_deref();
        if division.chunks.len() <= 1 {
            let prompt = match previous {
                Some(_) => SummaryPrompt::Rolling,
                None if self.level() <= SummaryLevel::Brief => SummaryPrompt::Brief,
                None => SummaryPrompt::Standard,
            };
            let ask = self.ask(prompt, previous, target);
            let (chunks, groups) = match self.parts_behind(division.max_tokens, answers) {
                Ok(parts) => parts,
                Err(question) => return Next::Ask(question),
            };
            return self.with_pieces(&division.pieces, |material| {
                whole(&Ask { material, ..ask }, chunks, groups, answers)
            });
        }
        let (mut ranges, mut chunks) = (Vec::new(), Vec::new());
        for chunk in &division.chunks {
            let pieces = &division.pieces[chunk.clone()];
            let tokens = pieces.iter().map(|piece| piece.tokens).sum();
            let ask = self.ask(SummaryPrompt::Chunk, None, levels::chunk_target(tokens));
            let asked = self.with_pieces(pieces, |material| {
                found(&Ask { material, with_sections: false, ..ask }, true, answers)
            });
            match asked {
                Err(question) => return Next::Ask(question),
                Ok(condensed) => {
                    let sources = division.sources_of(chunk);
                    let covered = &self.sources[sources.clone()];
                    chunks.extend(Part::of(covered, self.are_facts, tokens, condensed));
                    ranges.push(sources);
                }
            }
        }
        let mut groups = Vec::new();
        for members in material::groups(chunks.len()) {
            let texts: Vec<&str> = chunks[members.clone()]
                .iter()
                .map(|chunk: &Part| chunk.condensed.text.as_str())
                .collect();
            let tokens = chunks[members.clone()].iter().map(|chunk| chunk.condensed.tokens).sum();
            match self.group(&texts, tokens, answers) {
                Err(question) => return Next::Ask(question),
                Ok(condensed) => {
                    let covered =
                        &self.sources[ranges[members.start].start..ranges[members.end - 1].end];
                    groups.extend(Part::of(covered, self.are_facts, tokens, condensed));
                }
            }
        }
        let parts = if groups.is_empty() { &chunks } else { &groups };
        let texts: Vec<String> = parts.iter().map(|part| part.condensed.text.clone()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let prompt = if previous.is_some() { SummaryPrompt::Rolling } else { SummaryPrompt::Meta };
        let ask = self.ask(prompt, previous, target);
        let ask = Ask { material: summarize::Material::Summaries(&texts), ..ask };
        whole(&ask, chunks, groups, answers)
    }

    /// The parts that are due of a conversation that grows: a chunk of the oldest turns that are in none, once
    /// they and the new ones fill it, and a group of the chunks before it.
    fn parts_behind(
        &self,
        max_tokens: u32,
        answers: &Answers,
    ) -> Result<(Vec<Part>, Vec<Part>), Box<Question>> {
        let turns: Vec<&Source> = self.behind.turns.iter().chain(&self.sources).collect();
        let sum = |turns: &[&Source]| turns.iter().map(|turn| u64::from(turn.tokens)).sum::<u64>();
        if self.behind.turns.is_empty() || self.are_facts || sum(&turns) < u64::from(max_tokens) {
            return Ok((Vec::new(), Vec::new()));
        }
        let fits = |count: &usize| sum(&turns[..*count]) <= u64::from(max_tokens);
        let count = (1..=turns.len()).take_while(fits).last().unwrap_or(1);
        let sources: Vec<Source> = turns[..count].iter().map(|turn| (*turn).clone()).collect();
        let tokens = u32::try_from(sum(&turns[..count])).unwrap_or(u32::MAX);
        let turns: Vec<Said<'_>> = sources.iter().map(said).collect();
        let ask = self.ask(SummaryPrompt::Chunk, None, levels::chunk_target(tokens));
        let material = summarize::Material::Turns(&turns);
        let condensed = found(&Ask { material, with_sections: false, ..ask }, true, answers)?;
        let chunk = Part::of(&sources, false, tokens, condensed);
        Ok((chunk.into_iter().collect(), self.group_behind(answers)?.into_iter().collect()))
    }

    /// The group of the stored chunks that are in none, if they are enough.
    fn group_behind(&self, answers: &Answers) -> Result<Option<Part>, Box<Question>> {
        let Some((first, rest)) = self.behind.chunks.split_first() else { return Ok(None) };
        if rest.len() + 1 < GROUP_SIZE {
            return Ok(None);
        }
        let chunks = || std::iter::once(first).chain(rest);
        let texts: Vec<&str> = chunks().map(|chunk| chunk.content.as_str()).collect();
        let input_tokens = chunks().map(|chunk| chunk.tokens).sum();
        let condensed = self.group(&texts, input_tokens, answers)?;
        Ok(Some(Part {
            source_ids: chunks().flat_map(|chunk| &chunk.source_ids).copied().collect(),
            coverage: rest
                .iter()
                .fold(first.coverage.clone(), |sum, chunk| sum.joined(chunk.coverage.clone())),
            input_tokens,
            condensed,
            made_of: chunks().map(|chunk| chunk.id).collect(),
        }))
    }

    /// The summary of the summaries of chunks.
    fn group(
        &self,
        texts: &[&str],
        tokens: u32,
        answers: &Answers,
    ) -> Result<Condensed, Box<Question>> {
        let ask = self.ask(SummaryPrompt::Meta, None, levels::group_target(tokens));
        let material = summarize::Material::Summaries(texts);
        found(&Ask { material, with_sections: false, ..ask }, true, answers)
    }

    /// A question of this material that asks about nothing yet.
    fn ask<'a>(
        &self,
        prompt: SummaryPrompt,
        previous: Option<&'a str>,
        target_tokens: u32,
    ) -> Ask<'a> {
        Ask {
            prompt,
            content_type: self.content_type,
            previous,
            material: summarize::Material::Text(""),
            target_tokens,
            with_sections: self.with_sections,
        }
    }

    /// The summary so far, with its sections if they are asked for.
    fn previous(&self) -> Option<Cow<'_, str>> {
        let current = self.current.as_ref()?;
        match &self.last_sections {
            Some(last) if self.with_sections => {
                let summary = current.sections.summary.clone();
                Some(Sections { summary, ..last.clone() }.to_string().into())
            }
            _ => Some(current.sections.summary.as_str().into()),
        }
    }

    /// Calls `body` with pieces in the form in which they are asked about.
    fn with_pieces<T>(
        &self,
        pieces: &[Piece],
        body: impl FnOnce(summarize::Material<'_>) -> T,
    ) -> T {
        if self.are_facts {
            let facts: Vec<Known<'_>> = pieces
                .iter()
                .map(|piece| Known { since: &self.sources[piece.turn].said_at, text: &piece.text })
                .collect();
            return body(summarize::Material::Facts(&facts));
        }
        let turns: Vec<Said<'_>> = pieces
            .iter()
            .map(|piece| Said { text: &piece.text, ..said(&self.sources[piece.turn]) })
            .collect();
        body(summarize::Material::Turns(&turns))
    }
}

/// A turn in the form in which it is asked about.
fn said(turn: &Source) -> Said<'_> {
    Said {
        speaker: turn.speaker.as_deref(),
        role: &turn.role,
        said_at: &turn.said_at,
        text: original_message(&turn.content),
    }
}

fn whole(ask: &Ask<'_>, chunks: Vec<Part>, groups: Vec<Part>, answers: &Answers) -> Next {
    match found(ask, false, answers) {
        Err(question) => Next::Ask(question),
        Ok(whole) => Next::Done(Box::new(Tree { chunks, groups, whole })),
    }
}

/// The answer to a question, or the question if it has no answer yet.
fn found(ask: &Ask<'_>, is_part: bool, answers: &Answers) -> Result<Condensed, Box<Question>> {
    let messages = summarize::messages(ask);
    let digest = digest(&messages);
    match answers.get(&digest) {
        Some(condensed) => Ok(condensed.clone()),
        None => Err(Box::new(Question {
            digest,
            messages,
            target_tokens: ask.target_tokens,
            with_sections: ask.with_sections,
            is_part,
        })),
    }
}

fn digest(messages: &[ChatMessage]) -> String {
    let mut hash = Sha256::new();
    for message in messages {
        hash.update(message.content.len().to_le_bytes());
        hash.update(&message.content);
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
