//! What `memory_agent.jobs` keeps about a job: what it is about, and how far it has come. Jobs outlive
//! updates in both directions, so what cannot be read is as if it were missing, and what a later version
//! added is kept.

use crate::condense::shorten::Counted;
use crate::condense::summarize::Sections;
use crate::jobs::session_settings::{ExtractionSettings, ReflectionSettings, SummarySettings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The payload of a kind of jobs.
pub trait Payload: Serialize + DeserializeOwned + Default {
    /// The payload in a row.
    #[must_use]
    fn read(row: &Value) -> Self {
        Self::deserialize(row).unwrap_or_default()
    }

    /// The payload for a row.
    #[must_use]
    fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({}))
    }

    /// The same as text.
    #[must_use]
    fn text(&self) -> String {
        self.to_value().to_string()
    }
}

/// A value, or its default where it is of another shape.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Declares payloads: fields that are not there are not written.
macro_rules! payloads {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
                pub $field: $type,
            )*
            /// What other versions keep here.
            #[serde(flatten)]
            pub other: Map<String, Value>,
        }

        impl Payload for $name {}
    )*};
}

fn is_default<T: Default + Serialize>(value: &T) -> bool {
    serde_json::to_value(value).ok() == serde_json::to_value(T::default()).ok()
}

payloads! {
    /// Of `embed` jobs.
    Embed {
        /// How far it had come when it made room for another.
        place: Option<EmbedPlace>,
    }

    /// Of `extract` jobs.
    Extract {
        /// Of the session that queued it.
        settings: Option<ExtractionSettings>,
        /// Ids of the turns that it took.
        entries: Vec<String>,
        /// The attempt for which they were taken.
        tried: Option<i64>,
        /// What an LLM answered, until it is stored.
        facts: Option<Vec<SavedFact>>,
        /// What it answered about the first passages of its turn, until it was asked about all of them.
        answers: Option<PassageAnswers>,
        /// What it stored so far, if a trace is to tell of it.
        stored: Effects,
    }

    /// Of `reflect` jobs.
    Reflect {
        /// Of the session that queued it.
        settings: Option<ReflectionSettings>,
    }

    /// Of `summarize` and `compress` jobs.
    Summary {
        /// Of the session that queued it.
        settings: Option<SummarySettings>,
        /// Whether a caller asked for it, whatever the window's size.
        forced: bool,
        /// Ids of what is being condensed.
        sources: Option<Vec<String>>,
        /// What an LLM answered so far, by the digests of the questions.
        answers: BTreeMap<String, Condensed>,
    }

    /// Of `evict` jobs.
    Evict {}

    /// Of `reembed` jobs.
    Reembed {
        /// The name of the model that is to be used.
        model: String,
    }

    /// Of `attach` jobs.
    Attach {
        /// The id of the attachment.
        attachment: Option<String>,
        /// After the rows come the entries: those of rows that are gone end.
        phase: Option<Phase>,
        /// Keys of rows, if it is about these only. They are texts: a number of theirs may have more
        /// digits than a JSON parser keeps.
        keys: Option<Vec<String>>,
        /// Whether it is not known whose memory the rows are: the job's user is only who is told.
        of_nobody: bool,
        /// Whether the rows were not there before.
        is_new: bool,
        /// Whether it is only about rows that are gone.
        only_gone: bool,
        /// The last key that was taken in.
        after: Option<Vec<String>>,
        /// The last key whose entry was looked at.
        behind: Option<String>,
        /// Rows that were looked at.
        done: i64,
        /// Rows of the next stretch.
        rows: Option<u64>,
        /// How often it had been interrupted when this was kept.
        interrupted: i64,
    }

    /// Of `reindex` jobs.
    Reindex {
        /// Whether all entries were looked at, and it is the archives' turn.
        archives: bool,
        /// The id of the last row that there was when the job came to the table.
        until: Option<String>,
        /// The id up to which its rows were looked at. No user is named: an erasure leaves the job.
        after: Option<String>,
        /// Rows that were looked at.
        done: i64,
    }
}

impl Extract {
    /// Of a new job with these settings.
    #[must_use]
    pub fn with(settings: &ExtractionSettings) -> Self {
        Self { settings: Some(settings.clone()), ..Self::default() }
    }

    /// The settings that the job runs with; `server` is the server's text search configuration.
    #[must_use]
    pub fn session_settings(&self, server: &str) -> ExtractionSettings {
        self.settings.clone().unwrap_or_default().for_job(server)
    }
}

impl Reflect {
    /// Of a new job with these settings.
    #[must_use]
    pub fn with(settings: &ReflectionSettings) -> Self {
        Self { settings: Some(settings.clone()), ..Self::default() }
    }
}

impl Summary {
    /// Of a new job with these settings.
    #[must_use]
    pub fn with(settings: &SummarySettings, forced: bool) -> Self {
        Self { settings: Some(settings.clone()), forced, ..Self::default() }
    }

    /// The settings that the job runs with; `server` is the server's text search configuration.
    #[must_use]
    pub fn session_settings(&self, server: &str) -> SummarySettings {
        self.settings.clone().unwrap_or_default().for_job(server)
    }
}

/// How far an `embed` job had come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmbedPlace {
    /// The attempt that this was: the next one looks at all entries again.
    pub attempt: i32,
    pub after: String,
    pub done: i64,
    pub refused: Option<String>,
}

/// A fact as it is kept, so that a later attempt need not extract again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedFact {
    pub text: String,
    /// Id of the turn it came from.
    pub turn: String,
    /// Ids of the turns that repeated it.
    #[serde(default)]
    pub repeated: Vec<String>,
    pub confidence: Option<f32>,
    /// The word of the [statement check](crate::facts::statement_check), once it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked: Option<String>,
}

/// Answers about passages of a turn, so that a later attempt goes on with the next passage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassageAnswers {
    /// How many passages were asked about.
    pub asked: usize,
    pub facts: Vec<SavedFact>,
    /// Why the last answer that could not be used could not be, and how many there were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<(usize, String)>,
}

/// Ids of the facts that a job stored, and of those that it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effects {
    pub saved: Vec<String>,
    pub ended: Vec<String>,
}

/// A text that came out of a question for a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condensed {
    pub text: String,
    pub tokens: u32,
    /// The LLM's name as it gave it.
    pub model: String,
    pub sections: Option<Sections>,
}

impl Counted for Condensed {
    fn tokens(&self) -> u32 {
        self.tokens
    }

    /// One that left the sections out has those of the other.
    fn or_shorter(self, earlier: Option<Self>) -> Self {
        let Some(earlier) = earlier else { return self };
        let (mut shorter, longer) =
            if self.tokens < earlier.tokens { (self, earlier) } else { (earlier, self) };
        if !shorter.sections.as_ref().is_some_and(Sections::has_lists) {
            shorter.sections = longer.sections;
        }
        shorter
    }
}

/// Where an `attach` job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::session_settings::UngroundedFacts;

    /// Reads a row as a version before wrote it, and writes it again.
    fn again<P: Payload>(row: Value) -> Value {
        P::read(&row).to_value()
    }

    #[test]
    fn rows_of_earlier_versions_are_read_and_written_as_they_are() {
        for row in [
            json!({}),
            json!({"entries": ["a"], "tried": 0, "facts": []}),
            json!({"facts": [{"text": "t", "turn": "a", "repeated": [], "confidence": 0.5}]}),
            json!({"later": {"x": 1}}),
        ] {
            assert_eq!(again::<Extract>(row.clone()), row);
        }
        let row = json!({"stored": {"saved": ["a"], "ended": []}});
        assert_eq!(again::<Extract>(row.clone()), row);
        // What 0.2.0 kept of a reflection on its way is kept, and read no more.
        let row = json!({"episodes": ["a"], "after": ["b"], "answer": {"text": "t"}});
        assert_eq!(again::<Reflect>(row.clone()), row);
        let condensed = json!({"text": "t", "tokens": 3, "model": "m", "sections": null});
        let row = json!({"forced": true, "sources": ["a"], "answers": {"d": condensed}});
        assert_eq!(again::<Summary>(row.clone()), row);
        let place = json!({"attempt": 0, "after": "a", "done": 2, "refused": null});
        assert_eq!(again::<Embed>(json!({"place": place})), json!({"place": place}));
        assert_eq!(again::<Reembed>(json!({"model": "m"})), json!({"model": "m"}));
        let row = json!({"archives": true, "until": "b", "after": "a", "done": 7});
        assert_eq!(again::<Reindex>(row.clone()), row);
        for row in [
            json!({"attachment": "a", "phase": "gone"}),
            json!({"attachment": "a", "keys": [], "of_nobody": true, "is_new": true}),
            json!({"attachment": "a", "keys": ["1"], "only_gone": true, "rows": 16, "done": 3}),
            json!({"attachment": "a", "after": ["1"], "behind": "2", "interrupted": 1}),
        ] {
            assert_eq!(again::<Attach>(row.clone()), row);
        }
    }

    #[test]
    fn settings_that_a_row_lacks_have_their_defaults() {
        let read = |row: Value| Extract::read(&row).session_settings("german");
        let default = ExtractionSettings::default().for_job("german");
        assert_eq!(default.text_search_config, "german");
        // Rows of 0.1.0 have no settings, and none has those of a later version.
        assert_eq!(read(json!({})), default);
        assert_eq!(read(json!({"settings": null})), default);
        assert_eq!(read(json!({"settings": 7})), default);
        let some = ExtractionSettings { global: true, extraction_context: 3, ..default.clone() };
        assert_eq!(read(json!({"settings": {"global": true, "extraction_context": 3}})), some);
        // A value of another shape is as if it were missing.
        let strange = json!({"global": true, "extraction_context": 3, "extraction_batch": "many",
                             "ungrounded_facts": "eaten", "text_search_config": null});
        assert_eq!(read(json!({"settings": strange})), some);
        // Numbers of turns stay within their bounds.
        let far = read(json!({"settings": {"extraction_context": 1000, "extraction_batch": 1000}}));
        assert_eq!((far.extraction_context, far.extraction_batch), (20, 30));
        assert_eq!(
            Summary::read(&json!({})).session_settings("german"),
            SummarySettings::default().for_job("german")
        );
    }

    #[test]
    fn settings_are_kept_even_where_they_are_the_defaults() {
        let text_search_config = "dutch".to_owned();
        let settings = ExtractionSettings {
            global: true,
            text_search_config,
            ..ExtractionSettings::default()
        };
        let payload = Extract::with(&settings);
        assert_eq!(Extract::read(&payload.to_value()).session_settings("german"), settings);
        // Another version may have other defaults.
        let written = Extract::with(&ExtractionSettings::default()).to_value();
        assert_eq!(written["settings"]["ungrounded_facts"], json!(UngroundedFacts::Unverified));
        // What a later version added is kept, also in what a reflect job hands over.
        let mut later = written["settings"].clone();
        later["later"] = json!({"x": 1});
        assert_eq!(again::<Extract>(json!({"settings": later})), json!({"settings": later}));
        let row = Reflect::read(&json!({"settings": {"extraction": later, "other": 1}}));
        let extraction = row.settings.clone().expect("settings").extraction();
        later["traces"] = json!(true);
        assert_eq!(Extract::with(&extraction).to_value(), json!({"settings": later}));
        assert_eq!(row.to_value()["settings"]["other"], 1);
    }

    #[test]
    fn a_row_that_names_no_extraction_has_its_settings_beside_those_of_episodes() {
        let settings = json!({"max_facts": 2, "min_episode_turns": 1, "global": true,
                              "text_search_config": "dutch", "ungrounded_facts": "drop"});
        let read = Reflect::read(&json!({ "settings": settings })).settings.expect("settings");
        let extraction = read.extraction();
        assert_eq!((read.min_episode_turns, extraction.global), (1, true));
        assert_eq!(extraction.text_search_config, "dutch");
        assert_eq!(extraction.ungrounded_facts, UngroundedFacts::Drop);
        assert_eq!(ReflectionSettings::default().extraction().extraction_batch, 8);
    }

    #[test]
    fn what_cannot_be_read_is_as_if_it_were_missing() {
        let row = json!({"entries": 7, "tried": "x", "facts": [{"text": 1}], "settings": null});
        assert_eq!(again::<Extract>(row), json!({}));
        assert_eq!(again::<Attach>(json!({"phase": "other", "rows": -1})), json!({}));
        assert_eq!(again::<Reembed>(Value::Null), json!({}));
    }
}
