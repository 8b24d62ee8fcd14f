//! Requests about facts: which a turn or an episode holds, and how they relate to known ones.

use super::{CONFIDENCE, ScriptedModel, statement};
use crate::llm::{Call, Change, Document, Statement};
use memory_agent_core::text::markers;
use serde_json::{Value, json};

/// What an episode says last on a topic.
struct News {
    statement: Statement,
    /// The turns that say so.
    turns: Vec<u64>,
    /// Other turns on the topic, each with its value; those with the same one are not replaced.
    replaces: Vec<(u64, String)>,
    /// The built-in markers of these turns.
    markers: Vec<String>,
}

impl ScriptedModel {
    pub(super) fn extract(&self, document: &Document) -> Value {
        let facts: Vec<Value> = document
            .turns
            .iter()
            .flat_map(|(id, text)| {
                let statements = self.turns.get(text).map_or(&[][..], Vec::as_slice);
                statements
                    .iter()
                    .map(move |s| json!({"turn": id, "text": s.fact, "confidence": CONFIDENCE}))
            })
            .collect();
        json!({"facts": facts})
    }

    /// A fact that is not known is on a topic of its own.
    fn fact(&self, text: &str) -> Statement {
        let unknown = || statement(text, text, text, Change::New);
        self.facts.get(text).cloned().unwrap_or_else(unknown)
    }

    /// A memory on the topic of a fact is the same or has another value.
    pub(super) fn reconcile(&self, document: &Document) -> Value {
        document.decide(|new, existing| {
            let fact = self.fact(new);
            let related = |memory: &Statement| {
                (memory.topic == fact.topic).then_some(memory.value == fact.value)
            };
            let known: Vec<(u64, bool)> = (existing.iter())
                .filter_map(|(id, text)| Some((*id, related(&self.fact(text))?)))
                .collect();
            match (known.iter().find(|(_, same)| !same), known.first()) {
                (Some((id, _)), _) if fact.change == Change::Contradiction => format!("ends {id}"),
                (Some((id, _)), _) => format!("replaces {id}"),
                (None, Some((id, _))) => format!("same as {id}"),
                (None, None) => "new".to_owned(),
            }
        })
    }

    /// Every memory is listed. Of what the user says on a topic in the episode, the last counts.
    pub(super) fn reflect(&self, call: &Call) -> Value {
        let news = self.news(call);
        let mut actions = Vec::new();
        let mut taken_up = Vec::new();
        for (id, text) in Document::of(call).existing {
            let memory = self.fact(&text);
            let said = news.iter().position(|news| news.statement.topic == memory.topic);
            actions.push(match said.map(|said| (said, &news[said])) {
                None => json!({"action": "keep", "id": id, "turns": []}),
                Some((said, news)) if news.statement.value == memory.value => {
                    taken_up.push(said);
                    json!({"action": "keep", "id": id, "turns": news.turns})
                }
                // What ends a fact is a fact of its own.
                Some((_, news)) if news.statement.change == Change::Contradiction => {
                    json!({"action": "remove", "id": id, "turns": news.turns})
                }
                Some((said, news)) => {
                    taken_up.push(said);
                    news.action("update", Some(id))
                }
            });
        }
        let new = news.iter().enumerate().filter(|(said, _)| !taken_up.contains(said));
        actions.extend(new.map(|(_, news)| news.action("add", None)));
        json!({"actions": actions})
    }

    fn news(&self, call: &Call) -> Vec<News> {
        let data = call.data();
        let mut all: Vec<News> = Vec::new();
        for turn in data["turns"].as_array().into_iter().flatten() {
            let (Some(id), Some(text)) = (turn["turn"].as_u64(), turn["text"].as_str()) else {
                continue;
            };
            if turn["role"] == "assistant" {
                self.note_repetitions(&mut all, id, text);
            }
            if turn["role"] != "user" {
                continue;
            }
            let markers: Vec<String> = (turn["markers"].as_array().into_iter().flatten())
                .filter_map(Value::as_str)
                .filter(|marker| markers::BUILT_IN.contains(marker))
                .map(str::to_owned)
                .collect();
            for statement in self.turns.get(text).into_iter().flatten() {
                let earlier = all.iter().position(|n| n.statement.topic == statement.topic);
                if let Some(same) = earlier.filter(|at| all[*at].statement.value == statement.value)
                {
                    all[same].turns.push(id);
                    continue;
                }
                let statement = self.fact(&statement.fact);
                let mut fresh = News {
                    statement,
                    turns: vec![id],
                    replaces: Vec::new(),
                    markers: markers.clone(),
                };
                let Some(at) = earlier else {
                    all.push(fresh);
                    continue;
                };
                let old = &mut all[at];
                fresh.replaces = std::mem::take(&mut old.replaces);
                fresh
                    .replaces
                    .extend(old.turns.iter().map(|turn| (*turn, old.statement.value.clone())));
                *old = fresh;
            }
        }
        all
    }

    /// An assistant says nothing new, but may repeat a fact word for word.
    fn note_repetitions(&self, news: &mut [News], turn: u64, text: &str) {
        for (_, said) in self.facts.iter().filter(|(fact, _)| text.contains(fact.as_str())) {
            for news in news.iter_mut().filter(|news| news.statement.topic == said.topic) {
                news.replaces.push((turn, said.value.clone()));
            }
        }
    }

    /// Of memories on a topic the newest replaces those with other values.
    pub(super) fn contradictions(&self, call: &Call) -> Value {
        let data = call.data();
        let memories: Vec<(u64, &str, Vec<Statement>)> = (data["memories"].as_array())
            .into_iter()
            .flatten()
            .filter_map(|memory| {
                let text = memory["text"].as_str()?;
                Some((memory["id"].as_u64()?, memory["since"].as_str()?, self.meaning(text)))
            })
            .collect();
        // By day; on the same day what became known later is newer.
        let age = |since: &str, said: &Statement| {
            (since.to_owned(), self.order.iter().position(|fact| *fact == said.fact))
        };
        let newest = |topic: &str| {
            let all = memories.iter().flat_map(|(_, since, said)| said.iter().map(|s| (*since, s)));
            all.filter(|(_, said)| said.topic == topic).max_by_key(|(since, said)| age(since, said))
        };
        let verdicts = memories.iter().map(|(id, _, said)| {
            let is_old = |said: &Statement| {
                newest(&said.topic).is_some_and(|(_, newest)| newest.value != said.value)
            };
            let has_rival = |said: &Statement| {
                let others = memories.iter().flat_map(|(_, _, others)| others);
                others.into_iter().any(|o| o.topic == said.topic && o.value != said.value)
            };
            let verdict = if !said.is_empty() && said.iter().all(is_old) {
                "DELETE"
            } else if said.iter().any(has_rival) {
                "UPDATE"
            } else {
                "KEEP"
            };
            json!({"id": id, "verdict": verdict})
        });
        json!({"verdicts": verdicts.collect::<Vec<_>>()})
    }
}

impl News {
    fn action(&self, action: &str, id: Option<u64>) -> Value {
        let mut replaces: Vec<u64> = (self.replaces.iter())
            .filter(|(_, value)| *value != self.statement.value)
            .map(|(turn, _)| *turn)
            .collect();
        replaces.sort_unstable();
        json!({
            "action": action,
            "id": id,
            "text": self.statement.fact,
            "markers": self.markers,
            "confidence": CONFIDENCE,
            "turns": self.turns,
            "replaces": replaces,
        })
    }
}
