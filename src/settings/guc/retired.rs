//! Settings of earlier versions that nothing reads any more. Their names stay, so that a value in postgresql.conf, of a
//! role or of a database stops nothing. Who sets one in a session, or for a role, is told.
#![allow(unsafe_code)] // check hooks are C callbacks

use crate::settings::guc::cstr;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use std::ffi::CString;

/// Declares the settings, `register()` and `NAMES`.
macro_rules! retired {
    ($($name:ident)*) => {
        /// Their names, without the prefix.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        mod value {
            use super::*;
            $( #[allow(non_upper_case_globals)]
               pub static $name: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None); )*
        }

        mod told {
            use super::*;
            $( #[pgrx::pg_guard]
               pub unsafe extern "C-unwind" fn $name(
                   _new_value: *mut *mut std::ffi::c_char,
                   _extra: *mut *mut std::ffi::c_void,
                   source: pg_sys::GucSource::Type,
               ) -> bool {
                   tell(stringify!($name), source);
                   true
               } )*
        }

        /// Defines them, hidden from SHOW ALL and pg_settings.
        pub fn register() {
            // SAFETY: the hooks keep to PostgreSQL's protocol for check hooks.
            $( unsafe {
                GucRegistry::define_string_guc_with_hooks(
                    cstr(concat!("memory_agent.", stringify!($name), "\0")),
                    c"Has no effect any more.",
                    c"",
                    &value::$name,
                    GucContext::Userset,
                    GucFlags::NO_SHOW_ALL,
                    Some(told::$name),
                    None,
                    None,
                );
            } )*
        }
    };
}

// Of 0.2.0, until 0.3.0: docs/settings.md says what took their places.
retired! {
    bm25_b bm25_k1 bm25_length_floor candidate_multiplier chunk_overlap consolidation_similarity context_margin
    current_episode_share dedup_similarity default_token_budget episode_close_on_tool_result
    episode_topic_similarity freshness_boost fusion max_candidates max_facts_per_episode max_facts_per_turn
    message_overhead_tokens mmr_lambda recall_scope recency_days recency_decay
    reconcile_similarity rerank_max_query_chars rerank_weight score_normalization summary_chunk_overlap
}

/// Tells the user who sets one by hand; a file or the value of a role is read in, and would tell, each session.
fn tell(name: &str, source: pg_sys::GucSource::Type) {
    if [pg_sys::GucSource::PGC_S_SESSION, pg_sys::GucSource::PGC_S_TEST].contains(&source) {
        pgrx::notice!("memory_agent.{name} has no effect any more");
    }
}
