//! Which LLM an agent's memory asks: the endpoint that was chosen for the agent, else that of the settings.

use crate::pg::prelude::*;
use crate::settings::providers::{self, NamedEndpoint};
use crate::store::llm::endpoints;
use memory_agent_model_server::protocol::Endpoint;

/// The endpoint that an agent asks.
#[derive(Clone, Debug)]
pub struct Chosen(Option<NamedEndpoint>);

impl Chosen {
    /// The one for this agent.
    pub fn of_agent(spi: &Spi, agent_id: &str) -> PgResult<Self> {
        Ok(Self(endpoints::of_agent(spi, agent_id)?))
    }

    pub fn of_row(named: NamedEndpoint) -> Self {
        Self(Some(named))
    }

    /// That of the settings.
    pub fn of_settings() -> Self {
        Self(None)
    }

    /// The name of its row; `None` for that of the settings.
    pub fn name(&self) -> Option<&str> {
        self.0.as_ref().map(|named| named.name.as_str())
    }

    /// Where it is, as it is now.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn endpoint(&self) -> Result<Endpoint, String> {
        match &self.0 {
            Some(named) => named.endpoint(),
            None => providers::llm()?.ok_or_else(|| providers::NO_LLM.to_owned()),
        }
    }

    /// The same for summaries, which the settings may let another model write.
    ///
    /// # Errors
    /// Why it cannot be asked.
    pub fn endpoint_of_summaries(&self) -> Result<Endpoint, String> {
        let endpoint = self.endpoint()?;
        Ok(match (&self.0, providers::summary_model()) {
            (None, Some(model)) => Endpoint { model, ..endpoint },
            _ => endpoint,
        })
    }

    /// Most tokens a day, and what sets that; 0 for no limit.
    pub fn daily_tokens(&self) -> (i64, String) {
        match &self.0 {
            Some(named) => (named.daily_tokens, format!("daily_tokens of \"{}\"", named.name)),
            None => (providers::daily_tokens(), "memory_agent.llm_daily_tokens".to_owned()),
        }
    }

    /// Whether it takes requests in OpenAI's format as they are.
    pub fn speaks_openai(&self) -> bool {
        match &self.0 {
            Some(named) => named.speaks_openai(),
            None => providers::speaks_openai(),
        }
    }
}

/// Why an agent has no LLM that could ever be asked; `None` when jobs for one make sense.
pub fn missing(spi: &Spi, agent_id: &str) -> PgResult<Option<&'static str>> {
    match providers::missing_llm() {
        Some(providers::NO_LLM) if endpoints::of_agent(spi, agent_id)?.is_some() => Ok(None),
        missing => Ok(missing),
    }
}

/// The same of all agents.
pub fn all_missing(spi: &Spi) -> PgResult<Option<&'static str>> {
    match providers::missing_llm() {
        Some(providers::NO_LLM) if endpoints::are_used(spi)? => Ok(None),
        missing => Ok(missing),
    }
}
