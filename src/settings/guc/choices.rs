//! The values of settings that are one of several words.

use pgrx::guc::PostgresGucEnum;

/// `memory_agent.ranking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum RankingForm {
    #[name = c"learned"]
    Learned,
    #[name = c"weighted"]
    Weighted,
}

/// `memory_agent.fusion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Fusion {
    #[name = c"weighted"]
    Weighted,
    #[name = c"rrf"]
    Rrf,
}

/// `memory_agent.score_normalization`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Normalization {
    #[name = c"sigmoid"]
    Sigmoid,
    #[name = c"minmax"]
    MinMax,
}

/// `memory_agent.recency_decay`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Decay {
    #[name = c"exponential"]
    Exponential,
    #[name = c"half_life"]
    HalfLife,
    #[name = c"reciprocal"]
    Reciprocal,
}

/// `memory_agent.recall_scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum RecallScope {
    #[name = c"all"]
    All,
    #[name = c"active"]
    Active,
}

/// `memory_agent.stale_sources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum StaleSources {
    #[name = c"demote"]
    Demote,
    #[name = c"hide"]
    Hide,
    #[name = c"show"]
    Show,
}

/// `memory_agent.prompt_stale_sources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum PromptStaleSources {
    #[name = c"mark"]
    Mark,
    #[name = c"hide"]
    Hide,
    #[name = c"show"]
    Show,
}

/// `memory_agent.ungrounded_facts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum UngroundedChoice {
    #[name = c"unverified"]
    Unverified,
    #[name = c"drop"]
    Drop,
    #[name = c"accept"]
    Accept,
}

/// `memory_agent.embed_on_ingest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum EmbedOnIngest {
    #[name = c"sync"]
    Sync,
    #[name = c"async"]
    Async,
    #[name = c"off"]
    Off,
}

/// `memory_agent.identity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum IdentityMode {
    #[name = c"setting"]
    Setting,
    #[name = c"required"]
    Required,
    #[name = c"role"]
    Role,
    #[name = c"claims"]
    Claims,
}

/// `memory_agent.inference`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Inference {
    #[name = c"server"]
    Server,
    #[name = c"backend"]
    Backend,
}

/// `memory_agent.extraction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Extraction {
    #[name = c"turn"]
    Turn,
    #[name = c"episode"]
    Episode,
    #[name = c"off"]
    Off,
}

/// `memory_agent.fact_scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum FactScopeChoice {
    #[name = c"session"]
    Session,
    #[name = c"global"]
    Global,
}

/// `memory_agent.llm_provider`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum LlmProvider {
    #[name = c"openai"]
    OpenAi,
    #[name = c"azure"]
    Azure,
    #[name = c"anthropic"]
    Anthropic,
}

/// `memory_agent.embedding_provider`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum EmbeddingProvider {
    #[name = c"local"]
    Local,
    #[name = c"http"]
    Http,
    #[name = c"azure"]
    Azure,
}

/// `memory_agent.trace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum Trace {
    #[name = c"off"]
    Off,
    #[name = c"calls"]
    Calls,
}
