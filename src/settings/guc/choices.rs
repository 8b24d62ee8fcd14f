//! The values of settings that are one of several words.

use pgrx::guc::PostgresGucEnum;

/// Declares the values of each setting with their words.
macro_rules! choices {
    ($($setting:ident: $name:ident { $($value:ident = $word:tt),* })*) => { $(
        #[doc = concat!("`memory_agent.", stringify!($setting), "`.")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
        pub enum $name { $(#[name = $word] $value,)* }
    )* };
}

choices! {
    ranking: RankingForm { Learned = c"learned", Weighted = c"weighted" }
    cross_session_agents: CrossSessionAgents { Same = c"same", All = c"all" }
    memory_message: MemoryMessage { User = c"user", System = c"system" }
    prompt_tokenizer: PromptTokenizer { Cl100k = c"cl100k_base", O200k = c"o200k_base" }
    session_recall: SessionRecall { User = c"user", Session = c"session" }
    stale_sources: StaleSources { Demote = c"demote", Hide = c"hide", Show = c"show" }
    prompt_stale_sources: PromptStaleSources { Mark = c"mark", Hide = c"hide", Show = c"show" }
    ungrounded_facts: UngroundedChoice { Unverified = c"unverified", Drop = c"drop", Accept = c"accept" }
    statement_check: StatementChoice { Off = c"off", On = c"on", Auto = c"auto" }
    embed_on_ingest: EmbedOnIngest { Sync = c"sync", Async = c"async", Off = c"off" }
    secrets: Secrets { Redact = c"redact", Refuse = c"refuse", Keep = c"keep" }
    identity: IdentityMode { Setting = c"setting", Required = c"required", Role = c"role", Claims = c"claims" }
    inference: Inference { Server = c"server", Backend = c"backend" }
    extraction: Extraction { Turn = c"turn", Episode = c"episode", Off = c"off" }
    fact_scope: FactScopeChoice { Session = c"session", Global = c"global" }
    llm_provider: LlmProvider { OpenAi = c"openai", Azure = c"azure", Anthropic = c"anthropic" }
    embedding_provider: EmbeddingProvider { Local = c"local", Http = c"http", Azure = c"azure" }
    trace: Trace { Off = c"off", Calls = c"calls" }
}
