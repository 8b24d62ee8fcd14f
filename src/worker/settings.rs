//! What a job keeps of the settings of the session that queued it: the user-settable ones that the
//! result depends on. They travel in the job's payload; URLs and keys never do.

use crate::guc::{self, FactScopeChoice};
use serde::{Deserialize, Serialize};

/// Settings of an extraction, as its session had them.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct ExtractionSettings {
    /// Most facts of one turn.
    pub max_facts_per_turn: u32,
    /// Whether facts become the user's global memory instead of the session's.
    pub global: bool,
    /// Cosine from which a fact is a duplicate; negative means the model's own value.
    pub dedup_similarity: f64,
    /// Cosine from which a fact is compared by the LLM; negative means the model's own value.
    pub reconcile_similarity: f64,
    /// Whether markers are detected in the facts.
    pub detect_markers: bool,
}

impl Default for ExtractionSettings {
    fn default() -> Self {
        Self {
            max_facts_per_turn: guc::max_facts_per_turn().max(1) as u32,
            global: guc::fact_scope() == FactScopeChoice::Global,
            dedup_similarity: guc::dedup_similarity(),
            reconcile_similarity: guc::reconcile_similarity(),
            detect_markers: guc::auto_detect_markers(),
        }
    }
}

impl ExtractionSettings {
    /// The settings in a job's payload, within their bounds.
    pub fn of(payload: &serde_json::Value) -> Self {
        let mut settings: Self = payload
            .get("settings")
            .and_then(|settings| serde_json::from_value(settings.clone()).ok())
            .unwrap_or_default();
        settings.max_facts_per_turn = settings.max_facts_per_turn.clamp(1, 20);
        settings
    }
}

/// The payload of an extract job queued by this session.
pub fn extraction_payload() -> String {
    let settings = serde_json::to_value(ExtractionSettings::default()).unwrap_or_default();
    serde_json::json!({ "settings": settings }).to_string()
}
