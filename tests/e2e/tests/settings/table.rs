//! The settings as documented, one row each, and the test that shows what each does.

/// What values a setting takes.
pub enum Values {
    Bool,
    /// Smallest, largest, unit.
    Int(i64, i64, &'static str),
    Real(f64, f64),
    Choice(&'static [&'static str]),
    Text,
}

use Values::{Bool, Choice, Int, Real, Text};

/// Name without `memory_agent.`, default, who may set it (`user`: anyone with SET, `sighup`: the
/// server's owner), values, and `suite::test` that fails if the setting does nothing.
pub type Setting =
    (&'static str, &'static str, &'static str, Values, &'static str);

const MAX_INT: i64 = i32::MAX as i64;

pub const SETTINGS: [Setting; 47] = [
    ("default_top_k", "5", "user", Int(1, 1000, ""), "settings::default_top_k"),
    ("candidate_multiplier", "3", "user", Int(1, 100, ""), "settings::candidates_of_each_arm_grow_with_top_k"),
    ("max_candidates", "50", "user", Int(1, 500, ""), "settings::the_pool_is_bounded"),
    ("exact_scan_rows", "50000", "user", Int(0, 10_000_000, ""), "recall::the_boundary_is_the_size_of_the_scope"),
    ("bm25_k1", "1.2", "user", Real(0.0, 10.0), "recall::lexical_scores_are_exactly_bm25"),
    ("bm25_b", "0.75", "user", Real(0.0, 1.0), "recall::lexical_scores_are_exactly_bm25"),
    ("bm25_length_floor", "64", "user", Int(0, 1_000_000, ""), "recall::lexical_scores_are_exactly_bm25"),
    ("neighbor_weight", "0.3", "user", Real(0.0, 1.0), "recall::a_turn_counts_with_its_neighbours"),
    ("fusion", "weighted", "user", Choice(&["weighted", "rrf"]), "recall::reciprocal_rank_fusion_adds_reciprocal_ranks"),
    ("dense_weight", "0.5", "user", Real(0.0, 1.0), "recall::weighted_fusion_adds_scaled_scores"),
    ("mmr_lambda", "0.7", "user", Real(0.0, 1.0), "recall::mmr_puts_something_else_before_a_repetition"),
    ("recency_weight", "0.2", "user", Real(0.0, 1.0), "recall::the_score_is_relevance_recency_and_markers_by_their_weights"),
    ("recency_decay", "exponential", "user", Choice(&["exponential", "half_life", "reciprocal"]), "recall::recency_decays_in_the_form_that_is_set"),
    ("recency_days", "-1", "user", Real(-1.0, 36_500.0), "recall::recency_decays_in_the_form_that_is_set"),
    ("score_threshold", "0.35", "user", Real(0.0, 1.0), "recall::the_default_threshold_leaves_at_least_top_k_rows"),
    ("score_normalization", "sigmoid", "user", Choice(&["sigmoid", "minmax"]), "recall::logits_may_be_scaled_by_their_range_instead"),
    ("rerank", "on", "user", Bool, "recall::the_reranker_is_left_out_by_argument_or_setting"),
    ("rerank_weight", "0.5", "user", Real(0.0, 1.0), "recall::relevance_blends_the_sigmoid_of_the_logit_with_the_fused_score"),
    ("rerank_max_query_chars", "250", "user", Int(0, 1_000_000, ""), "recall::long_questions_are_not_reranked"),
    ("marker_weight", "0.1", "user", Real(0.0, 1.0), "recall::every_marker_has_its_boost"),
    ("freshness_boost", "on", "user", Bool, "recall::a_question_about_now_favours_the_new"),
    ("recall_scope", "all", "user", Choice(&["all", "active"]), "recall::archived_rows_are_seen_unless_the_scope_is_active_and_inactive_ones_never"),
    ("default_token_budget", "2000", "user", Int(1, 10_000_000, ""), "inference::the_default_budget_is_a_setting"),
    ("current_episode_share", "0.5", "user", Real(0.0, 1.0), "recall::the_newest_turns_of_the_open_episode_have_their_share"),
    ("message_overhead_tokens", "4", "user", Int(0, 1000, ""), "inference::the_overhead_of_a_message_is_a_setting"),
    ("user_id", "", "user", Text, "ingest::user_and_agent_come_from_the_session_when_they_are_not_given"),
    ("agent_id", "", "user", Text, "ingest::user_and_agent_come_from_the_session_when_they_are_not_given"),
    ("identity", "setting", "sighup", Choice(&["setting", "required", "role"]), "settings::identity"),
    ("text_search_config", "english", "sighup", Text, "settings::text_search_config"),
    ("embed_on_ingest", "sync", "user", Choice(&["sync", "async", "off"]), "ingest::async_queues_one_job_for_a_scope"),
    ("auto_detect_markers", "on", "user", Bool, "ingest::cue_phrases_are_detected"),
    ("max_content_bytes", "1048576", "sighup", Int(1, 67_108_864, "B"), "settings::max_content_bytes"),
    ("episode_max_turns", "20", "user", Int(0, 1_000_000, ""), "ingest::an_episode_ends_after_max_turns"),
    ("episode_gap", "1800", "user", Int(0, MAX_INT, "s"), "ingest::a_gap_in_event_time_ends_an_episode"),
    ("episode_close_on_tool_result", "on", "user", Bool, "ingest::a_tool_result_ends_its_own_episode"),
    ("episode_topic_similarity", "0", "user", Real(0.0, 1.0), "ingest::another_topic_ends_an_episode_when_asked_for"),
    ("dedup_similarity", "-1", "user", Real(-1.0, 1.0), "facts::a_calibrated_threshold_decides_unless_one_is_set"),
    ("max_entries", "500", "sighup", Int(0, MAX_INT, ""), "ingest::default_ttl_and_max_entries"),
    ("default_ttl", "0", "sighup", Int(0, MAX_INT, "s"), "ingest::default_ttl_and_max_entries"),
    ("inference", "server", "sighup", Choice(&["server", "backend"]), "inference::everything_works_without_a_model_server"),
    ("inference_threads", "0", "sighup", Int(0, 256, ""), "settings::inference_threads"),
    ("inference_timeout", "30000", "user", Int(100, 3_600_000, "ms"), "settings::inference_timeout"),
    ("model_server_path", "", "sighup", Text, "settings::model_server_path"),
    ("onnxruntime_path", "", "sighup", Text, "settings::onnxruntime_path"),
    ("model_dir", "", "sighup", Text, "settings::model_dir"),
    ("embedding_model", "bge-small-en-v1.5", "sighup", Text, "settings::embedding_model_and_rerank_model"),
    ("rerank_model", "ms-marco-MiniLM-L-12-v2", "sighup", Text, "settings::embedding_model_and_rerank_model"),
];
