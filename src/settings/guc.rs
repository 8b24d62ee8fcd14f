//! Every setting `memory_agent.*`: its meaning, unit, default and bounds, with a typed getter.
//! Defaults come from the designs this extension unites; docs/settings.md repeats this table and a
//! test compares the two.
//!
//! Contexts: what ranks and how text is ingested is for the user (SET); what names files, processes
//! or identity rules is for the server's owner (postgresql.conf, reload).
#![allow(unsafe_code)] // check hooks are C callbacks, and PostgreSQL is asked for texts

use crate::pg::catalog::text_of;
use memory_agent_core::limits;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use serde_json::Value;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

mod checks;
pub mod choices;
pub mod retired;

use crate::settings::guc::checks::*;
use crate::settings::guc::choices::*;

/// Declares the statics, the getters and `register()` from one table.
macro_rules! settings {
    ($( $kind:ident $name:ident : $type:ty = $default:expr, $context:ident, ($($bounds:tt)*),
        $full:literal, $short:literal; )*) => {
        mod value {
            use crate::settings::guc::*;
            $( #[allow(non_upper_case_globals)]
               pub static $name: GucSetting<settings!(@store $kind $type)> =
                   GucSetting::<settings!(@store $kind $type)>::new(settings!(@boot $kind $default)); )*
        }
        $( #[doc = concat!("`memory_agent.", stringify!($name), "`: see [`register`].")]
           pub fn $name() -> $type { settings!(@get $kind $name) } )*

        /// Defines all settings; called once when the library is loaded.
        pub fn register() {
            let mut given: Vec<&'static str> = Vec::new();
            $( if matches!(GucContext::$context, GucContext::Sighup) && is_given(cstr($full)) {
                given.push($full.trim_end_matches('\0'));
            } )*
            GIVEN_BEFORE.get_or_init(|| given);
            $( settings!(@define $kind $name, $full, $short, $context, ($($bounds)*)); )*
            retired::register();
            // From here on a mistyped memory_agent.* name is an error, not a silent placeholder.
            // SAFETY: the argument is a C string that lives forever.
            unsafe { pg_sys::MarkGUCPrefixReserved(c"memory_agent".as_ptr()) };
        }

        /// The settings that every role can set, without the prefix, with the values in effect.
        pub fn user_settings() -> Vec<(&'static str, Value)> {
            let mut found = Vec::new();
            $( if matches!(GucContext::$context, GucContext::Userset) {
                found.push((stringify!($name), settings!(@json $kind $name, $full)));
            } )*
            found
        }

        /// Whether every role can set the setting of this name, which has no prefix.
        pub fn is_user_setting(name: &str) -> bool {
            $( if matches!(GucContext::$context, GucContext::Userset) && name == stringify!($name) {
                return true;
            } )*
            false
        }
    };
    (@store text $type:ty) => { Option<CString> };
    (@store $kind:ident $type:ty) => { $type };
    (@boot text $default:expr) => { Some($default) };
    (@boot $kind:ident $default:expr) => { $default };
    (@get text $name:ident) => { text(value::$name.get()) };
    (@get $kind:ident $name:ident) => { value::$name.get() };
    (@json text $name:ident, $full:literal) => { Value::from(text(value::$name.get())) };
    (@json choice $name:ident, $full:literal) => { Value::from(shown(cstr($full))) };
    (@json $kind:ident $name:ident, $full:literal) => { Value::from(value::$name.get()) };
    (@define flag $name:ident, $full:literal, $short:literal, $context:ident, ()) => {
        GucRegistry::define_bool_guc(cstr($full), cstr($short), c"", &value::$name,
            GucContext::$context, GucFlags::default())
    };
    (@define int $name:ident, $full:literal, $short:literal, $context:ident,
     ($min:expr, $max:expr)) => {
        settings!(@define int $name, $full, $short, $context, ($min, $max, GucFlags::default()))
    };
    (@define int $name:ident, $full:literal, $short:literal, $context:ident,
     ($min:expr, $max:expr, $flags:expr)) => {
        GucRegistry::define_int_guc(cstr($full), cstr($short), c"", &value::$name, $min, $max,
            GucContext::$context, $flags)
    };
    (@define real $name:ident, $full:literal, $short:literal, $context:ident,
     ($min:expr, $max:expr)) => {
        GucRegistry::define_float_guc_with_hooks(cstr($full), cstr($short), c"", &value::$name,
            $min, $max, GucContext::$context, GucFlags::default(), Some(refuse_nan), None, None)
    };
    (@define text $name:ident, $full:literal, $short:literal, $context:ident, ($flags:expr)) => {
        settings!(@define text $name, $full, $short, $context, ($flags, refuse_long))
    };
    (@define text $name:ident, $full:literal, $short:literal, $context:ident,
     ($flags:expr, $check:ident)) => {
        // SAFETY: the hook keeps to PostgreSQL's protocol for check hooks.
        unsafe {
            GucRegistry::define_string_guc_with_hooks(cstr($full), cstr($short), c"",
                &value::$name, GucContext::$context, $flags, Some($check), None, None)
        }
    };
    (@define choice $name:ident, $full:literal, $short:literal, $context:ident, ()) => {
        GucRegistry::define_enum_guc(cstr($full), cstr($short), c"", &value::$name,
            GucContext::$context, GucFlags::default())
    };
}

settings! {
    // Ranking.
    int default_top_k: i32 = 5, Userset, (1, 1000),
        "memory_agent.default_top_k\0", "Rows that recall returns when top_k is not given.\0";
    int exact_scan_rows: i32 = 50_000, Userset, (0, 10_000_000),
        "memory_agent.exact_scan_rows\0", "Scopes of up to this many rows are searched exactly, larger ones through indexes.\0";
    real neighbor_weight: f64 = 0.3, Userset, (0.0, 1.0),
        "memory_agent.neighbor_weight\0", "Share of the turns before and after in an entry's dense score; 0 looks at the entry alone.\0";
    real dense_weight: f64 = 0.5, Userset, (0.0, 1.0),
        "memory_agent.dense_weight\0", "Share of the dense arm in the weighted fusion.\0";
    choice ranking: RankingForm = RankingForm::Learned, Userset, (),
        "memory_agent.ranking\0", "How the numbers of a candidate become its relevance: a learned probability, or weights set by hand.\0";
    real recency_weight: f64 = -1.0, Userset, (-1.0, 1.0),
        "memory_agent.recency_weight\0", "Share of recency in the score; -1 means what is learned, else 0.2.\0";
    real score_threshold: f64 = -1.0, Userset, (-1.0, 1.0),
        "memory_agent.score_threshold\0", "Least probability of a row that is returned, or least sigmoid of the reranker's logit; -1 means 0.05 and 0.35.\0";
    flag rerank: bool = true, Userset, (),
        "memory_agent.rerank\0", "Rerank candidates with the cross-encoder.\0";
    int rerank_rows: i32 = 8, Userset, (0, limits::MAX_RERANK_ROWS),
        "memory_agent.rerank_rows\0", "How many of the most promising rows the cross-encoder reads in one recall; 0 means none.\0";
    real marker_weight: f64 = 0.1, Userset, (0.0, 1.0),
        "memory_agent.marker_weight\0", "Factor of the boost that marked entries get.\0";
    choice stale_sources: StaleSources = StaleSources::Demote, Userset, (),
        "memory_agent.stale_sources\0", "What recall does with turns whose facts were replaced: rank them below what replaced them (demote), leave them out (hide), or nothing (show).\0";
    choice session_recall: SessionRecall = SessionRecall::User, Userset, (),
        "memory_agent.session_recall\0", "What prompts of a session recall beside the session itself, global and shared memory: the user's other sessions of the agent (user), or nothing (session).\0";
    choice prompt_stale_sources: PromptStaleSources = PromptStaleSources::Mark, Userset, (),
        "memory_agent.prompt_stale_sources\0", "What prompts do with turns whose facts were replaced: say so, and leave out those of which nothing holds any more (mark), leave all of them out (hide), or nothing (show).\0";
    int memory_tokens: i32 = 200, Userset, (20, 100_000),
        "memory_agent.memory_tokens\0", "Most tokens of a memory's text in a prompt; of a longer text, the passage around what was asked for is told.\0";
    text prompt_metadata: String = c"", Userset, (GucFlags::default()),
        "memory_agent.prompt_metadata\0", "Keys of metadata, separated by commas, that prompts tell of each memory that has them.\0";
    choice prompt_tokenizer: PromptTokenizer = PromptTokenizer::Cl100k, Userset, (),
        "memory_agent.prompt_tokenizer\0", "Tokens in which prompts are counted: those of the model that reads them.\0";

    // Who.
    text user_id: String = c"", Userset, (GucFlags::default()),
        "memory_agent.user_id\0", "The user whose memory this session reads and writes; empty means current_user.\0";
    text agent_id: String = c"", Userset, (GucFlags::default()),
        "memory_agent.agent_id\0", "The agent whose memory this session reads and writes; empty means default.\0";
    choice identity: IdentityMode = IdentityMode::Setting, Sighup, (),
        "memory_agent.identity\0", "Where a session's identity comes from: setting, required (setting, never empty), role, or claims (sub of request.jwt.claims).\0";

    // Ingest.
    text text_search_config: String = c"english", Sighup, (GucFlags::default()),
        "memory_agent.text_search_config\0", "Text search configuration of lexical recall, and the language of phrases.\0";
    choice embed_on_ingest: EmbedOnIngest = EmbedOnIngest::Sync, Userset, (),
        "memory_agent.embed_on_ingest\0", "Embed in the ingesting statement, by a job, or not at all.\0";
    flag auto_detect_markers: bool = true, Userset, (),
        "memory_agent.auto_detect_markers\0", "Detect decision, constraint, failure and goal markers.\0";
    int max_content_bytes: i32 = 1_048_576, Sighup, (1, 67_108_864, GucFlags::UNIT_BYTE),
        "memory_agent.max_content_bytes\0", "Longest content of one entry.\0";
    choice secrets: Secrets = Secrets::Redact, Sighup, (),
        "memory_agent.secrets\0", "What becomes of keys, tokens and card numbers in a text that is stored: taken out (redact), an error (refuse), or stored (keep).\0";
    flag secret_phrases: bool = false, Sighup, (),
        "memory_agent.secret_phrases\0", "Whether what a text says is a password or a PIN is a secret too.\0";
    int episode_max_turns: i32 = 20, Userset, (0, 1_000_000),
        "memory_agent.episode_max_turns\0", "Turns after which an episode is closed; 0 means no limit.\0";
    int episode_gap: i32 = 1800, Userset, (0, i32::MAX, GucFlags::UNIT_S),
        "memory_agent.episode_gap\0", "Silence after which an episode is closed; 0 means no limit.\0";
    int max_entries: i32 = 500, Sighup, (0, i32::MAX),
        "memory_agent.max_entries\0", "Turns and facts of a session in its window before the oldest leave it; 0 means no limit.\0";
    int default_ttl: i32 = 0, Sighup, (0, i32::MAX, GucFlags::UNIT_S),
        "memory_agent.default_ttl\0", "Time after which an entry expires when ttl is not given; 0 means never.\0";

    int purge_after: i32 = 0, Sighup, (0, i32::MAX, GucFlags::UNIT_S),
        "memory_agent.purge_after\0", "Time after which an inactive entry, a recorded LLM call or a trace is deleted for good; 0 means never.\0";

    // Extraction.
    choice extraction: Extraction = Extraction::Turn, Userset, (),
        "memory_agent.extraction\0", "Whether facts are extracted: from the user's turns (turn), from those of an episode when it is over (episode), or not (off).\0";
    flag assistant_decisions: bool = false, Userset, (),
        "memory_agent.assistant_decisions\0", "Whether what an assistant decided becomes facts too, where a turn has the marker decision.\0";
    choice fact_scope: FactScopeChoice = FactScopeChoice::Session, Userset, (),
        "memory_agent.fact_scope\0", "Whose memory an extracted fact becomes: the session's, or the user's global memory.\0";
    int extraction_batch: i32 = 8, Userset, (0, 30),
        "memory_agent.extraction_batch\0", "Largest number of turns in one extraction call; 0 asks about each sentence in a call of its own.\0";
    int extraction_context: i32 = 0, Userset, (0, 20),
        "memory_agent.extraction_context\0", "Largest number of messages before a turn that an extraction call shows with it.\0";
    choice ungrounded_facts: UngroundedChoice = UngroundedChoice::Unverified, Userset, (),
        "memory_agent.ungrounded_facts\0", "What becomes of facts with a name, number, date or negation that was not said: kept but not recalled (unverified), not stored (drop), or stored unchecked (accept).\0";
    choice statement_check: StatementChoice = StatementChoice::Auto, Userset, (),
        "memory_agent.statement_check\0", "Asks the LLM again whether the user states a fact, if its message contains more than statements: never (off), always (on), or if it has not passed the probe (auto).\0";

    // Episodes.
    int min_episode_turns: i32 = 3, Userset, (1, 1000),
        "memory_agent.min_episode_turns\0", "Turns from which facts are extracted from an episode by itself; a shorter one is carried into the next.\0";

    // Summaries.
    flag summarization: bool = true, Userset, (),
        "memory_agent.summarization\0", "Keep a summary of each session, made by the LLM.\0";
    int summary_min_tokens: i32 = 100, Userset, (1, 1_000_000),
        "memory_agent.summary_min_tokens\0", "Tokens of new turns after which a session's summary is renewed.\0";
    int summary_chunk_tokens: i32 = 3000, Userset, (200, 100_000),
        "memory_agent.summary_chunk_tokens\0", "Tokens that are summarised in one call of the LLM; more are summarised in chunks first.\0";
    text summary_model: String = c"", Sighup, (GucFlags::default()),
        "memory_agent.summary_model\0", "Name of the LLM that summarises; empty means llm_model.\0";
    flag compression: bool = true, Userset, (),
        "memory_agent.compression\0", "Summarise the older turns of a full window and take them out of it.\0";
    int compression_threshold_tokens: i32 = 10_000, Userset, (0, 10_000_000),
        "memory_agent.compression_threshold_tokens\0", "Tokens of a window from which it is compressed; 0 means never.\0";
    int recent_messages_to_keep: i32 = 10, Userset, (0, 10_000),
        "memory_agent.recent_messages_to_keep\0", "Newest turns that compression leaves in the window.\0";
    flag archive_conversations: bool = false, Userset, (),
        "memory_agent.archive_conversations\0", "Archive what compression summarised, to be found from other sessions.\0";

    int archive_idle_after: i32 = 0, Sighup, (0, i32::MAX, GucFlags::UNIT_S),
        "memory_agent.archive_idle_after\0", "Silence after which a session's conversation is archived; 0 means never.\0";

    // Archive and documents.
    flag cross_session: bool = true, Userset, (),
        "memory_agent.cross_session\0", "Let memory_context, memory_augment and memory_chat look into archived conversations when the message asks for them.\0";
    choice cross_session_agents: CrossSessionAgents = CrossSessionAgents::Same, Userset, (),
        "memory_agent.cross_session_agents\0", "Whose archived conversations are told to an agent that is named: its own (same), or those with all agents of the user (all).\0";
    text cross_session_triggers: String = c"what did we discuss, previous conversation, last time, remind me, we mentioned, earlier you said", Userset, (GucFlags::default()),
        "memory_agent.cross_session_triggers\0", "Phrases, separated by commas, that ask for archived conversations.\0";
    real relevance_threshold: f64 = -1.0, Userset, (-1.0, 1.0),
        "memory_agent.relevance_threshold\0", "Least cosine similarity of an archived conversation that a prompt tells; -1 means the values calibrated for the models.\0";
    int chunk_tokens: i32 = 800, Userset, (50, 8000),
        "memory_agent.chunk_tokens\0", "Tokens of one chunk of a document.\0";

    // Chat and window.
    flag query_rewrite: bool = false, Userset, (),
        "memory_agent.query_rewrite\0", "Let the LLM rewrite the message into further queries in memory_augment and memory_chat.\0";
    flag read_contradiction_check: bool = false, Userset, (),
        "memory_agent.read_contradiction_check\0", "Let the LLM leave out memories that others contradict in memory_augment and memory_chat.\0";
    int context_limit: i32 = 40_000, Userset, (1, 100_000_000),
        "memory_agent.context_limit\0", "Tokens that the application's model reads, its answer included; bounds prompts and the window.\0";
    choice memory_message: MemoryMessage = MemoryMessage::User, Userset, (),
        "memory_agent.memory_message\0", "Where memory_augment and memory_chat put memories: into the user's last message (user), or into a system message before it (system).\0";

    // Audit.
    text audit_key_file: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.audit_key_file\0", "File with the key of signatures and of the chains of history as its first line, older keys in further lines; empty means that nothing is signed.\0";

    // Worker and LLM.
    flag worker: bool = true, Sighup, (),
        "memory_agent.worker\0", "Run background workers; off on logical subscribers.\0";
    int job_workers: i32 = 1, Sighup, (1, 16),
        "memory_agent.job_workers\0", "Background workers of one database.\0";
    int max_workers: i32 = 4, Sighup, (1, 64),
        "memory_agent.max_workers\0", "Background workers of the whole cluster.\0";
    int sweep_interval: i32 = 60, Sighup, (1, 86_400, GucFlags::UNIT_S),
        "memory_agent.sweep_interval\0", "Time between two sweeps of what expired or was forgotten by a job.\0";
    choice llm_provider: LlmProvider = LlmProvider::OpenAi, Sighup, (),
        "memory_agent.llm_provider\0", "Protocol of the LLM's endpoint: openai (also Ollama, vLLM, llama.cpp), azure or anthropic.\0";
    text llm_base_url: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY, refuse_no_url),
        "memory_agent.llm_base_url\0", "Where the LLM is, for example http://localhost:11434/v1; empty means none.\0";
    text llm_model: String = c"", Sighup, (GucFlags::default()),
        "memory_agent.llm_model\0", "Name of the LLM at its endpoint.\0";
    text llm_api_key_file: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.llm_api_key_file\0", "File with the key of the LLM's endpoint as its first line, read before every call; empty means none.\0";
    text llm_key_dir: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.llm_key_dir\0", "Directory with a folder for each host, named like it, and in that files with keys as their first lines, for endpoints of memory_set_endpoint; empty means none.\0";
    text llm_api_version: String = c"", Sighup, (GucFlags::default()),
        "memory_agent.llm_api_version\0", "Version of the protocol, for azure and anthropic; empty means the provider's usual one.\0";
    int llm_timeout: i32 = 60_000, Sighup, (100, 3_600_000, GucFlags::UNIT_MS),
        "memory_agent.llm_timeout\0", "Longest time of one call of the LLM.\0";
    int llm_answer_tokens: i32 = 0, Sighup, (0, 1_000_000),
        "memory_agent.llm_answer_tokens\0", "Tokens that every answer of the LLM may have at least, thoughts included; 0 means as many as the question needs.\0";
    int llm_max_attempts: i32 = 5, Sighup, (1, 100),
        "memory_agent.llm_max_attempts\0", "Failures of a job before it is given up; an outage of the endpoint does not count.\0";
    int llm_concurrency: i32 = 4, Sighup, (1, 32),
        "memory_agent.llm_concurrency\0", "Calls of the LLM that a background worker has in flight.\0";
    int llm_calls_per_minute: i32 = 0, Sighup, (0, 1_000_000),
        "memory_agent.llm_calls_per_minute\0", "Most calls of the LLM's endpoint in a minute, all databases together; 0 means no limit.\0";
    int llm_daily_tokens: i32 = 0, Sighup, (0, i32::MAX),
        "memory_agent.llm_daily_tokens\0", "Tokens of a database, per day in UTC, after which the worker stops calling the LLM; 0 means no limit.\0";
    choice trace: Trace = Trace::Off, Sighup, (),
        "memory_agent.trace\0", "Whether llm_calls keeps the texts of requests and answers (calls) or not (off).\0";

    // Inference.
    choice inference: Inference = Inference::Server, Sighup, (),
        "memory_agent.inference\0", "Where the models run: one server process for the cluster, or each backend.\0";
    int inference_threads: i32 = 0, Sighup, (0, 256),
        "memory_agent.inference_threads\0", "Threads of the model server; 0 means the number of cores, at most 4. A backend always uses 1.\0";
    int inference_timeout: i32 = 30_000, Userset, (100, 3_600_000, GucFlags::UNIT_MS),
        "memory_agent.inference_timeout\0", "Longest wait for the model server before a call goes on without it.\0";
    text model_server_path: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.model_server_path\0", "Program of the model server; empty means the one that was installed.\0";
    text onnxruntime_path: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.onnxruntime_path\0", "The ONNX Runtime library; empty means the one that was installed.\0";
    text model_dir: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.model_dir\0", "Directory of the model folders; empty means the one that was installed.\0";
    text language_dir: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.language_dir\0", "Directory of further languages, with a folder of phrases for each.\0";
    text embedding_model: String = c"memory-embed-small", Sighup, (GucFlags::default()),
        "memory_agent.embedding_model\0", "Embedding model of a database in which none was activated yet.\0";
    text rerank_model: String = c"ms-marco-MiniLM-L-12-v2", Sighup, (GucFlags::default()),
        "memory_agent.rerank_model\0", "Rerank model of a database in which none was activated yet; empty means none.\0";
    choice embedding_provider: EmbeddingProvider = EmbeddingProvider::Local, Sighup, (),
        "memory_agent.embedding_provider\0", "Where embeddings are made: by a local model, by an endpoint in OpenAI's protocol (http), or by Azure OpenAI (azure).\0";
    text embedding_api_version: String = c"", Sighup, (GucFlags::default()),
        "memory_agent.embedding_api_version\0", "Version of the protocol, for azure; empty means the usual one.\0";
    text embedding_base_url: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY, refuse_no_url),
        "memory_agent.embedding_base_url\0", "Where the embedding endpoint is, for example http://localhost:11434/v1.\0";
    text embedding_api_key_file: String = c"", Sighup, (GucFlags::SUPERUSER_ONLY),
        "memory_agent.embedding_api_key_file\0", "File with the key of the embedding endpoint as its first line, read before every call; empty means none.\0";
    int embedding_dimension: i32 = 0, Sighup, (0, 16_000),
        "memory_agent.embedding_dimension\0", "Dimension that the embedding endpoint must return; 0 means whatever it returns first.\0";
}

/// Settings of the server's owner that had a value before the library was loaded: from a file, or
/// from the connection options of a client.
static GIVEN_BEFORE: OnceLock<Vec<&'static str>> = OnceLock::new();

/// The settings for postgresql.conf that had a value before the library was loaded. PostgreSQL
/// refuses a client's value for them, but has by then forgotten the one in the file, so a setting of
/// this list whose source is `default` was hidden by a client.
pub fn given_before_load() -> &'static [&'static str] {
    GIVEN_BEFORE.get().map_or(&[], Vec::as_slice)
}

/// `memory_agent.text_search_config` as the server has it, whatever is stored for the agent that a call is for.
pub fn server_text_search_config() -> String {
    of_server(c"memory_agent.text_search_config")
}

/// `memory_agent.max_content_bytes`; what is stored for an agent lowers what the server has, and never raises it.
pub fn content_limit() -> i32 {
    let of_server = of_server(c"memory_agent.max_content_bytes").parse().unwrap_or(i32::MAX);
    max_content_bytes().min(of_server)
}

/// `memory_agent.secrets`, as its word.
pub fn secrets_shown() -> String {
    shown(c"memory_agent.secrets")
}

/// The value of a setting to which RESET would go back.
fn of_server(name: &CStr) -> String {
    // SAFETY: looks a setting of ours up, which every role may see; the text is copied at once.
    unsafe { text_of(pg_sys::GetConfigOptionResetString(name.as_ptr())) }.unwrap_or_default()
}

/// Whether a setting has a value before it is defined: a placeholder made by a file or a client.
fn is_given(name: &CStr) -> bool {
    // SAFETY: looks a name up; NULL when there is no such setting.
    !unsafe { pg_sys::GetConfigOption(name.as_ptr(), true, false) }.is_null()
}

/// The value of a setting as PostgreSQL prints it.
fn shown(name: &CStr) -> String {
    // SAFETY: looks a setting of ours up, which every role may see; the text is copied at once.
    unsafe { text_of(pg_sys::GetConfigOption(name.as_ptr(), true, false)) }.unwrap_or_default()
}

fn cstr(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).unwrap_or_default()
}

fn text(value: Option<CString>) -> String {
    value.map(|v| v.to_string_lossy().into_owned()).unwrap_or_default()
}
