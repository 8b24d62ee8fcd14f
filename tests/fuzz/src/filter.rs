//! The filter of recall. A filter that was read and is spelled out is read as the same.

use memory_agent_core::rank::filter::Filter;
use serde_json::{Value, json};

pub fn check(data: &[u8]) {
    let text = crate::text(data);
    crate::linear(text.len(), || {
        let Ok(value) = serde_json::from_str::<Value>(&text) else { return };
        let filter = match Filter::parse(&value) {
            Ok(filter) => filter,
            Err(error) => return crate::short(error),
        };
        let spelled = json!({
            "metadata": filter.metadata,
            "role": filter.roles,
            "kind": filter.kinds,
            "markers_any": filter.markers_any,
            "markers_all": filter.markers_all,
            "created_after": filter.created_after,
            "created_before": filter.created_before,
            "session_id": filter.session_ids,
            "episode_id": filter.episode_id,
            "agent_id": filter.agent_ids,
        });
        assert_eq!(Filter::parse(&spelled), Ok(filter));
    });
}
