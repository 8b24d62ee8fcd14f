//! Labelled conversations: `corpus.jsonl` and `queries.jsonl` of one directory.

use crate::Result;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The category whose questions have a false premise: reported, but not part of the headline.
pub const ADVERSARIAL: &str = "adversarial";

/// One turn, or one memory that was made of turns.
#[derive(Debug, Deserialize)]
pub struct Document {
    pub id: String,
    pub conversation_id: String,
    pub session_id: String,
    pub role: String,
    pub speaker: String,
    pub content: String,
    pub created_at: String,
}

/// One question, to be answered from its own conversation.
#[derive(Debug, Deserialize)]
pub struct Question {
    pub query_id: String,
    pub conversation_id: String,
    pub query: String,
    /// Ids of the documents that answer it, at least one.
    pub evidence: Vec<String>,
    pub category: String,
    pub asked_at: String,
}

/// A labelled set.
#[derive(Debug)]
pub struct Dataset {
    pub documents: Vec<Document>,
    pub questions: Vec<Question>,
}

impl Dataset {
    /// Reads a set, with at most `limit` questions of each conversation.
    pub fn read(directory: &Path, limit: Option<usize>) -> Result<Self> {
        let mut questions: Vec<Question> = lines(&directory.join("queries.jsonl"))?;
        if let Some(limit) = limit {
            let mut taken: BTreeMap<String, usize> = BTreeMap::new();
            questions.retain(|question| {
                let taken = taken.entry(question.conversation_id.clone()).or_default();
                *taken += 1;
                *taken <= limit
            });
        }
        if let Some(question) = questions.iter().find(|question| question.evidence.is_empty()) {
            return Err(format!("question {} has no evidence", question.query_id).into());
        }
        Ok(Self { documents: lines(&directory.join("corpus.jsonl"))?, questions })
    }

    /// The documents of each conversation, in their order.
    pub fn conversations(&self) -> BTreeMap<&str, Vec<&Document>> {
        let mut conversations: BTreeMap<&str, Vec<&Document>> = BTreeMap::new();
        for document in &self.documents {
            conversations.entry(&document.conversation_id).or_default().push(document);
        }
        conversations
    }
}

fn lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let place = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let file = File::open(path).map_err(|error| place(&error))?;
    let mut items = Vec::new();
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|error| place(&error))?;
        items.push(serde_json::from_str(&line).map_err(|error| place(&error))?);
    }
    Ok(items)
}
