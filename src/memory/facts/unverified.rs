//! Facts that an LLM made up: each is compared with what it was made of.

use crate::memory::facts::extracted_facts::Fact;
use crate::memory::texts::language::Phrases;
use crate::store::facts::extraction::WaitingTurn;
use memory_agent_core::facts::earlier::{self, EarlierMessage};
use memory_agent_core::facts::extract::original_message;
use memory_agent_core::facts::grounding::{self, Grounds, Sources};
use memory_agent_core::facts::statement_check;
use memory_agent_core::jobs::payloads::SavedFact;
use memory_agent_core::jobs::session_settings::UngroundedFacts;

/// A fact that what was said does not bear out, and why.
pub struct Unverified {
    pub fact: Fact,
    pub reason: String,
}

/// Takes from facts of turns those that the turns do not bear out, and returns those that are kept for
/// the caller that asks for them. `before` is what came before each turn, which they may refer to. The phrases of a
/// language mean times, beside those of English.
pub fn of_turns(
    facts: &mut Vec<Fact>,
    turns: &[WaitingTurn],
    before: &[Vec<EarlierMessage>],
    treatment: UngroundedFacts,
    language: &Phrases,
) -> Vec<Unverified> {
    take(facts, treatment, |fact| {
        let is_source = |turn: &&WaitingTurn| fact.source_ids.contains(&turn.id);
        let (own, others): (Vec<_>, Vec<_>) = turns.iter().partition(is_source);
        let text = |turns: Vec<&'_ WaitingTurn>| -> Vec<String> {
            turns.iter().map(|turn| original_message(&turn.content).to_owned()).collect()
        };
        let speaker = own.iter().find_map(|turn| turn.speaker.as_deref());
        let names: Vec<&str> = others.iter().filter_map(|turn| turn.speaker.as_deref()).collect();
        let (said, others) = (text(own.clone()), text(others.clone()));
        let shown_before = |id| turns.iter().zip(before).find(|(turn, _)| turn.id == id);
        let tells_of_before = |(turn, said): (&&WaitingTurn, &String)| {
            shown_before(turn.id)
                .is_some_and(|(_, before)| earlier::tells_of_before(&fact.text, said, before))
        };
        if !own.is_empty() && own.iter().zip(&said).all(tells_of_before) {
            return Some("it was said before the turn, not in it".to_owned());
        }
        // Its times are counted from its own day.
        let dated = |message: &EarlierMessage| {
            grounding::dated(&message.text, &message.said_at, language.of_another_language())
        };
        let earlier: Vec<String> = before.iter().flatten().map(dated).collect();
        let earlier = earlier.iter().map(String::as_str);
        let context = others.iter().map(String::as_str).chain(earlier).chain(names);
        check(fact, &said, context, speaker, language)
    })
}

/// Takes out the facts that the LLM, asked again, does not take for a statement of the user in any of their
/// turns. A turn that it was not asked about counts as stating its facts.
pub fn take_doubted(
    facts: &mut Vec<Fact>,
    saved: &[SavedFact],
    treatment: UngroundedFacts,
) -> Vec<Unverified> {
    take(facts, treatment, |fact| {
        let copies = saved.iter().filter(|saved| saved.text == fact.text);
        let doubts: Option<Vec<_>> =
            copies.map(|saved| saved.checked.as_deref().and_then(statement_check::doubt)).collect();
        let doubt = doubts?.into_iter().next()?;
        Some(format!("asked again, the LLM takes it for {doubt}"))
    })
}

/// Whether both have the same text and a turn in common.
pub fn is_same_fact(fact: &Fact, saved: &SavedFact) -> bool {
    fact.text == saved.text && fact.source_ids.iter().any(|id| id.to_string() == saved.turn)
}

/// Why a fact does not rest on its sources.
fn check<'a>(
    fact: &Fact,
    said: &[String],
    context: impl Iterator<Item = &'a str>,
    speaker: Option<&str>,
    language: &Phrases,
) -> Option<String> {
    let said: Vec<&str> = said.iter().map(String::as_str).collect();
    let context: Vec<&str> = context.collect();
    let (said_at, language) = (fact.said_at.as_str(), language.of_another_language());
    let sources = Sources { said: &said, context: &context, speaker, said_at, language };
    Grounds::of(&sources).check(&fact.text).err().map(|reason| reason.to_string())
}

/// Takes the facts out for which there is a reason; they are dropped or returned.
fn take(
    facts: &mut Vec<Fact>,
    treatment: UngroundedFacts,
    reason: impl Fn(&Fact) -> Option<String>,
) -> Vec<Unverified> {
    if treatment == UngroundedFacts::Accept {
        return Vec::new();
    }
    let (mut grounded, mut unverified) = (Vec::new(), Vec::new());
    for fact in facts.drain(..) {
        match reason(&fact) {
            Some(reason) => unverified.push(Unverified { fact, reason }),
            None => grounded.push(fact),
        }
    }
    *facts = grounded;
    if treatment == UngroundedFacts::Drop {
        unverified.clear();
    }
    unverified
}
