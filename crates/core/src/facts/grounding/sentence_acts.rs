//! What one sentence does, by the words that it begins with and those that it has.

use super::acts::Act;
use crate::text::word_lists::List;
use crate::text::words::Word;

/// How far behind "my" what belongs to the user is named.
const OWNED_WORDS: usize = 3;

const WH: [&str; 9] = ["how", "what", "what's", "which", "who", "where", "when", "why", "whose"];

/// A sentence of a source.
pub(super) struct Sentence<'a> {
    /// The whole source.
    pub text: &'a str,
    pub words: &'a [Word<'a>],
    /// Whether it ends with a question mark.
    pub is_asking: bool,
}

impl Sentence<'_> {
    pub fn name(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| word.folded.as_str())
    }

    /// Whether the words from `at` on are those of one of the phrases, and how many these are.
    pub fn begins(
        &self,
        at: usize,
        phrases: impl IntoIterator<Item = &'static str>,
    ) -> Option<usize> {
        let words = |phrase: &'static str| phrase.split([' ', '_']);
        let fits = |phrase: &&'static str| {
            words(phrase).enumerate().all(|(n, word)| self.name(at + n) == word)
        };
        phrases.into_iter().find(fits).map(|phrase| words(phrase).count())
    }

    pub fn has(&self, list: List) -> bool {
        self.words.iter().any(|word| word.is_in(list))
    }

    /// Whether it names the user by "I" or "my"; "me" is the person that the assistant serves.
    pub fn is_personal(&self) -> bool {
        self.words.iter().any(|word| {
            (word.is_in(List::FirstPerson) || word.is_in(List::Own))
                && !(word.is_quoted || matches!(word.folded.as_str(), "me" | "us"))
        })
    }

    /// The text before a word, behind the one before it.
    pub fn before(&self, at: usize) -> &str {
        let from = at.checked_sub(1).map_or_else(|| self.words[0].begin, |at| self.words[at].end());
        &self.text[from..self.words[at].begin]
    }

    /// The place of the first word that says something.
    pub fn start(&self) -> usize {
        self.words.iter().position(|word| !word.is_in(List::Filler)).unwrap_or(0)
    }

    /// The place behind a topic: "cargo: how do i".
    fn behind_topic(&self, start: usize) -> Option<usize> {
        let next = start + 1;
        (next < self.words.len() && self.before(next).starts_with(':')).then_some(next)
    }

    /// What it does, and whether all that follows does the same.
    pub fn act(&self, before: Act) -> (Act, bool) {
        if let Some(goes_on) = self.instructs(before) {
            return (Act::Instruct, goes_on);
        }
        if self.is_courtesy() {
            return (Act::Greet, false);
        }
        let start = self.start();
        if self.is_task(start) {
            let is_text = ["this", "following", "below"].iter().any(|name| self.has_name(name));
            return (Act::Task, is_text && !self.is_of_user());
        }
        if self.begins(start, ["what if"]).is_some() && self.would() {
            return (Act::Imagine, false);
        }
        // With a question mark, the first look has answered.
        let behind_topic = || self.behind_topic(start).filter(|_| !self.is_asking);
        if let Some(act) = self.asks(start).or_else(|| self.asks(behind_topic()?)) {
            return (act, false);
        }
        // The answer to one's own question: a riddle.
        if before == Act::Ask && self.name(start) == "because" && !self.is_personal() {
            return (Act::Ask, false);
        }
        // "What if I'd studied law? I'd be rich."
        if self.imagines(start) || (before == Act::Imagine && self.would()) {
            return (Act::Imagine, false);
        }
        (Act::State, false)
    }

    fn is_task(&self, start: usize) -> bool {
        let mut verb = start;
        while let Some(length) = self.begins(verb, List::AskedPolitely.words()) {
            verb += length;
        }
        let next = self.name(verb + 1);
        let is_object = List::Determiner.has(next)
            || List::Cardinal.has(next)
            || next.starts_with(|c: char| c.is_ascii_digit())
            || self.words.get(verb + 1).is_some_and(|word| word.is_quoted);
        let is_finite = (verb + 1..verb + 4).any(|at| List::Auxiliary.has(self.name(at)));
        let is_ordered = match self.name(verb) {
            "remind" => next == "me" && WH.contains(&self.name(verb + 2)),
            "give" | "tell" | "show" => matches!(next, "me" | "us"),
            // "Make a list of capitals", and not "Make is a build tool".
            "make" | "prepare" => is_object || matches!(next, "me" | "us"),
            // They are nouns as well: "List price is 300 euros".
            "list" | "sort" | "count" | "draft" | "outline" | "format" | "rank" => is_object,
            // "Write access is off", "I translate for a living"
            name => {
                let is_for_us = next == "for" && matches!(self.name(verb + 2), "me" | "us");
                List::Task.has(name)
                    && (is_object || WH.contains(&next) || !is_finite)
                    && (is_for_us
                        || !matches!(
                            next,
                            "for" | "at" | "in" | "on" | "with" | "to" | "as" | "from" | "about"
                        ))
            }
        };
        is_ordered && !self.is_standing()
    }

    /// Whether it is about more than now.
    fn is_standing(&self) -> bool {
        self.words.iter().any(|word| word.is_in(List::Standing) && !word.is_quoted)
            || (0..self.words.len()).any(|at| self.begins(at, ["from now"]).is_some())
    }

    fn asks(&self, start: usize) -> Option<Act> {
        let is_telling = self.begins(start, List::Confiding.words()).is_some()
            || self.name(start).ends_with("n't");
        if is_telling {
            return None;
        }
        if self.begins(start, List::Asking.words()).is_some() {
            return Some(Act::Ask);
        }
        // A request that is no task may be a wish that stays.
        if self.begins(start, List::AskedPolitely.words()).is_some() {
            return (self.is_asking && !self.is_standing()).then_some(Act::Doubt);
        }
        let (first, second) = (self.name(start), self.name(start + 1));
        let has_opener = WH.contains(&first) || List::Auxiliary.has(first);
        let is_amount = matches!(second, "many" | "much" | "tall" | "far" | "long" | "old" | "to");
        // "what time is it"
        let is_of_what = matches!(first, "what" | "which")
            && List::Auxiliary.has(self.name(start + 2))
            && !self.words[start + 1].is_capitalised();
        let is_open = (matches!(first, "what's" | "whats") && List::Determiner.has(second))
            || (WH.contains(&first) && (List::Auxiliary.has(second) || is_amount || is_of_what));
        let is_open = is_open && !self.is_personal();
        match self.is_asking {
            true if has_opener => Some(Act::Ask),
            true => Some(Act::Doubt),
            false => is_open.then_some(Act::Ask),
        }
    }

    /// "If we ever moved, I would quit."
    fn imagines(&self, start: usize) -> bool {
        self.begins(start, ["suppose", "imagine", "what if", "assume", "assuming", "pretend"])
            .is_some()
            || self.begins(start, ["i wish", "if only", "i dreamed", "i dreamt"]).is_some()
            || (self.begins(start, List::Supposing.words()).is_some()
                && (self.would() || self.should(start + 2)))
            || ((self.has_name("if") || self.has_name("unless")) && self.would())
    }

    /// "Were I younger, I should leave."
    fn should(&self, from: usize) -> bool {
        (from..self.words.len()).any(|at| matches!(self.name(at), "should" | "might"))
    }

    fn would(&self) -> bool {
        (0..self.words.len()).any(|at| {
            let name = self.name(at);
            (matches!(name, "would" | "wouldn't" | "wouldnt" | "could" | "couldn't" | "couldnt")
                || name.ends_with("'d")
                || self.is_short_would(at))
                && !matches!(self.name(at + 1), "like" | "love" | "prefer" | "rather")
        })
    }

    /// "If I won, id open a cafe", and not "if my id expires".
    fn is_short_would(&self, at: usize) -> bool {
        let before = at.checked_sub(1).map_or("", |at| self.name(at));
        let next = self.name(at + 1);
        self.name(at) == "id"
            && self.has_name("if")
            && !(List::Own.has(before) || List::Owner.has(before) || List::Determiner.has(before))
            && !(next.is_empty() || List::Auxiliary.has(next))
    }

    /// Marks "what a lovely morning it is".
    pub fn exclaimed(&self, acts: &mut [Act]) {
        if self.begins(0, ["what a", "what an"]).is_none() {
            return;
        }
        let clause = self.words.iter().take_while(|word| word.clause == self.words[0].clause);
        let length = clause.count();
        let is_it =
            self.begins(length.saturating_sub(2), ["it is", "it was", "this is", "that was"]);
        let tells = |word: &Word<'_>| {
            let is_name = word.is_capitalised() && !word.is_first;
            let goes_on = matches!(word.folded.as_str(), "at" | "in" | "for" | "with" | "of");
            word.is_in(List::Own)
                || word.is_in(List::FirstPerson)
                || is_name
                || goes_on
                || word.has_digit()
        };
        if is_it.is_some() && !self.words[..length].iter().any(tells) {
            acts[..length].fill(Act::Greet);
        }
    }

    /// Marks what a question or a task states of the user: clauses that tell it, and what is the user's.
    pub fn own(&self, acts: &mut [Act]) {
        let pieces = self.pieces();
        let is_open = |piece: &(usize, usize)| {
            let name = self.name(self.told_from(*piece));
            List::Auxiliary.has(name)
                || WH.contains(&name)
                || List::Task.has(name)
                || name == "you"
                || name.ends_with("n't")
        };
        let first_open = pieces.iter().position(is_open);
        if let Some(open) = first_open
            && acts.first() == Some(&Act::Doubt)
            && self.name(self.told_from(pieces[open])) != "you"
        {
            acts[pieces[open].0..].fill(Act::Ask);
        }
        for (number, piece) in pieces.iter().enumerate() {
            let told = self.told_from(*piece);
            let is_condition = matches!(self.name(piece.0), "if" | "whether" | "when");
            let first = &self.words[told];
            let is_own =
                !first.is_quoted && (first.is_in(List::FirstPerson) || first.is_in(List::Own));
            // "Arun is allergic, can he eat this?"
            let is_before = first_open.is_some_and(|open| number < open)
                && (piece.0..piece.1).any(|at| {
                    let word = &self.words[at];
                    let is_plain = word.is_in(List::Greeting) || word.is_in(List::Courtesy);
                    !(is_plain || word.is_in(List::Filler) || word.is_in(List::Empty))
                });
            if !is_condition
                && (is_own || is_before)
                && !is_open(piece)
                && (number > 0 || pieces.len() > 1)
            {
                acts[piece.0..piece.1].fill(Act::State);
            }
        }
        for at in 0..self.words.len() {
            if !self.words[at].is_in(List::Own) || self.words[at].is_quoted {
                continue;
            }
            let is_owned = |n: &usize| {
                let word = &self.words[*n];
                word.clause == self.words[at].clause && !word.is_in(List::Empty) && !word.is_quoted
            };
            let owned = (at + 1..self.words.len().min(at + 1 + OWNED_WORDS))
                .take_while(is_owned)
                .last()
                .unwrap_or(at);
            // "Summarize our conversation": it is the assistant's as well.
            if matches!(self.name(at + 1), "conversation" | "chat" | "dialogue") {
                continue;
            }
            // What a clause states stays a statement.
            let own = acts[at..=owned].iter_mut().filter(|act| **act != Act::State);
            own.for_each(|act| *act = Act::Own);
        }
    }

    /// Clauses, also those that a conjunction begins.
    fn pieces(&self) -> Vec<(usize, usize)> {
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in 1..self.words.len() {
            let is_new = self.words[at].clause != self.words[at - 1].clause
                || self.words[at].is_in(List::Linking)
                || (matches!(self.name(at), "and" | "so") && self.name(at + 1).starts_with('i'));
            if is_new {
                pieces.push((from, at));
                from = at;
            }
        }
        pieces.push((from, self.words.len()));
        pieces
    }

    /// The place of the first word of a piece that says something.
    fn told_from(&self, (from, to): (usize, usize)) -> usize {
        (from..to)
            .find(|at| {
                !(self.words[*at].is_in(List::Filler) || self.words[*at].is_in(List::Linking))
            })
            .unwrap_or(from)
    }

    /// What stands behind the colon of a task is what it is about, unless that is the user's.
    pub fn pasted(&self, acts: &mut [Act]) {
        if !self.is_of_user() {
            acts[self.colon()..].fill(Act::Task);
        }
    }

    /// The place behind a colon, or the end.
    fn colon(&self) -> usize {
        (1..self.words.len()).find(|at| self.before(*at).contains(':')).unwrap_or(self.words.len())
    }

    /// Whether what stands before a colon names the user.
    fn is_of_user(&self) -> bool {
        Sentence { words: &self.words[..self.colon()], ..*self }.is_personal()
    }

    pub fn has_name(&self, name: &str) -> bool {
        self.words.iter().any(|word| word.folded == name)
    }
}
