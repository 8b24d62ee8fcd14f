//! A recall's arguments, checked: what SQL gave, the settings' values where it gave nothing, and an
//! error for everything that makes no sense. Nothing here touches a table of ours.

use crate::memory::prelude::*;
use crate::memory::recall::stale::Treatment;
use crate::memory::scope::checks::check_session;
use crate::memory::scope::scope_settings;
use crate::memory::texts::language::Phrases;
use crate::settings::{Effective, Recall, SessionRecall};
use crate::store::rows::scope::{Archives, Scope};
use crate::store::{rows::entries, schema};
use memory_agent_core::limits::{MAX_RERANK_ROWS, MAX_REWRITES, MAX_TOP_K, QUERY_BYTES};
use memory_agent_core::prompt::echo::Said;
use memory_agent_core::rank::filter::Filter;
use memory_agent_core::rank::pipeline::RankSettings;
use memory_agent_core::text::words_sought::Sought;
use memory_agent_core::{rank::score, text::entry};

/// A row below this probability is dropped while enough others remain.
const LEAST_PROBABILITY: f64 = 0.05;
/// Candidates of each arm and scope for each row that is wanted.
const CANDIDATES_PER_ROW: usize = 3;
/// Most candidates that are ranked, unless more rows are asked for.
const MAX_CANDIDATES: usize = 50;
/// At least so many rows go on to ranking when the scope has them, whatever top_k is.
const LEAST_CANDIDATES: usize = 30;

/// The arguments as SQL gives them; NULL means the setting's value.
#[derive(Default)]
pub struct Arguments {
    pub query: Option<String>,
    pub rerank_rows: Option<i32>,
    pub session_id: Option<String>,
    pub top_k: Option<i32>,
    pub token_budget: Option<i32>,
    pub kinds: Option<Vec<Option<String>>>,
    pub filter: Option<JsonbText>,
    pub as_of: Option<TimestampWithTimeZone>,
    pub score_threshold: Option<f32>,
    pub recency_weight: Option<f32>,
    pub mmr_lambda: Option<f32>,
    pub rerank: Option<bool>,
    pub query_embedding: Option<Vector>,
    pub rewrites: Option<Vec<Option<String>>>,
    /// Not an argument of `memory_recall`, which never sees archived conversations.
    pub archives: Archives,
    /// The agent and the id of a session that is left out.
    pub except_session: Option<(String, String)>,
    /// Whether the rows are for a prompt: then settings of their own say what becomes of stale turns, and whether other
    /// sessions are read.
    pub for_prompt: bool,
}

/// A checked request.
pub struct Request {
    pub scope: Scope,
    pub query: String,
    pub rewrites: Vec<String>,
    pub query_embedding: Option<Vector>,
    pub rerank: bool,
    /// The settings of the session where the call says nothing else.
    pub chosen: Recall,
    pub token_budget: Option<u32>,
    pub candidates_per_arm: usize,
    pub stale: Treatment,
    /// Without what [`Request::settings_of`] adds.
    pub settings: RankSettings,
    /// Whether neither the call nor a setting has a weight of recency.
    pub recency_is_learned: bool,
    pub asks_for_fresh: bool,
    pub wants_nothing: bool,
    /// The texts of the request that the rows are for: what stands in them is left out, and of turns with the same
    /// text all but the newest.
    pub said: Option<Said>,
}

impl Request {
    /// The settings of a ranking by learned probabilities, or by weights set by hand: what is not set
    /// has another default in each.
    pub fn settings_of(&self, is_learned: bool) -> RankSettings {
        let mut settings = self.settings.clone();
        let (weight, threshold) = if is_learned { (0.0, LEAST_PROBABILITY) } else { (0.2, 0.35) };
        if self.recency_is_learned {
            settings.recency_weight = weight;
        }
        // The learned ranking has the words in its features.
        if !(is_learned && self.recency_is_learned) {
            settings.recency_weight =
                score::raise_recency_weight(settings.recency_weight, self.asks_for_fresh);
        }
        settings.score_threshold.get_or_insert(threshold);
        settings
    }

    /// The words that passages of long texts are to have.
    pub fn sought(&self) -> Sought {
        Sought::of(&format!("{}\n{}", self.query, self.rewrites.join("\n")))
    }
}

impl Arguments {
    /// Runs `body` for the checked request, with the settings of the agent and the session that are
    /// asked about.
    pub fn with_settings<T>(
        self,
        caller: Caller,
        body: impl FnOnce(Request) -> PgResult<T>,
    ) -> PgResult<T> {
        check_session(self.session_id.as_deref())?;
        let settings =
            scope_settings::stored(&caller.user_id, caller.agent(), self.session_id.as_deref())?;
        settings.during(|settings| body(self.check(caller, settings)?))
    }

    /// Checks everything that can be checked without touching a table.
    pub fn check(self, caller: Caller, settings: &Effective) -> PgResult<Request> {
        check_session(self.session_id.as_deref())?;
        let query = self.query.unwrap_or_default();
        if query.trim().is_empty() && self.query_embedding.is_none() {
            return Err(Error::invalid(
                "query is empty",
                "Pass the question, or a query_embedding.",
            ));
        }
        if query.len() > QUERY_BYTES {
            return Err(Error::invalid(
                format!("query has {} bytes, the limit is {QUERY_BYTES}", query.len()),
                "Ask a shorter question.",
            ));
        }
        let rewrites = strings(self.rewrites)?.unwrap_or_default();
        if rewrites.len() > MAX_REWRITES || rewrites.iter().any(|rewrite| rewrite.trim().is_empty())
        {
            return Err(Error::invalid(
                format!("rewrites must be at most {MAX_REWRITES} texts that are not empty"),
                "Pass the best few wordings of the question.",
            ));
        }
        if let Some(Vector(values)) = &self.query_embedding
            && (values.is_empty() || values.iter().any(|value| !value.is_finite()))
        {
            return Err(Error::invalid(
                "query_embedding has no finite values",
                "Use memory_embed().",
            ));
        }
        let kinds = strings(self.kinds)?;
        if let Some(unknown) =
            kinds.iter().flatten().find(|kind| !entry::KINDS.contains(&kind.as_str()))
        {
            return Err(Error::invalid(
                format!("unknown kind \"{unknown}\""),
                format!("Kinds are {}.", entry::KINDS.join(", ")),
            ));
        }
        let (filter, filter_metadata) = parse_filter(self.filter)?;
        let as_of = self.as_of.map(|at| entries::finite("as_of", at)).transpose()?;
        let threshold = unit("score_threshold", self.score_threshold)?;
        let mut chosen = settings.recall.clone();
        if let Some(rows) = self.rerank_rows {
            chosen.rerank_rows = rerank_rows(rows)?;
        }
        let search = settings.search.clone();
        let base_weight = unit("recency_weight", self.recency_weight)?.or(chosen.recency_weight);
        let mmr_lambda = unit("mmr_lambda", self.mmr_lambda)?;
        let asks_for_fresh = Phrases::of(&search.text_search_config).asks_for_fresh(&query);
        let token_budget = match self.token_budget {
            Some(budget) if budget < 0 => {
                return Err(Error::invalid(
                    "token_budget is negative",
                    "Leave it out for no budget.",
                ));
            }
            budget => budget.map(|budget| budget as u32),
        };
        check_top_k(self.top_k)?;
        // With a budget and no top_k, the budget alone cuts the ranked candidates.
        let top_k = match (self.top_k, token_budget) {
            (Some(top_k), _) => Some(top_k),
            (None, Some(_)) => None,
            (None, None) => Some(chosen.default_top_k),
        };
        let wanted = top_k.unwrap_or(chosen.default_top_k).max(0) as usize;
        // More are ranked only for a caller who asks for more.
        let max_candidates = MAX_CANDIDATES.max(top_k.unwrap_or(0).max(0) as usize);
        let candidates_per_arm = wanted.saturating_mul(CANDIDATES_PER_ROW).max(LEAST_CANDIDATES);
        Ok(Request {
            settings: RankSettings {
                dense_weight: chosen.dense_weight,
                max_candidates,
                score_threshold: threshold.or(chosen.score_threshold),
                threshold_is_explicit: threshold.is_some(),
                threshold_keeps: wanted,
                recency_weight: base_weight.unwrap_or(0.0),
                marker_weight: chosen.marker_weight,
                mmr_lambda: mmr_lambda.unwrap_or(1.0),
                top_k: top_k.map(|top_k| top_k.max(0) as usize),
            },
            recency_is_learned: base_weight.is_none(),
            asks_for_fresh,
            stale: match self.for_prompt {
                true => chosen.prompt_stale_sources.into(),
                false => chosen.stale_sources.into(),
            },
            wants_nothing: top_k.is_some_and(|top_k| top_k <= 0),
            rerank: self.rerank.unwrap_or(chosen.rerank) && chosen.rerank_rows > 0,
            scope: Scope {
                caller,
                session_id: self.session_id,
                other_sessions: self.for_prompt
                    && chosen.session_recall == SessionRecall::User
                    && schema::has_0_3(),
                kinds,
                filter,
                filter_metadata,
                as_of,
                archives: self.archives,
                except_session: self.except_session,
                search,
            },
            chosen,
            query,
            rewrites,
            query_embedding: self.query_embedding,
            token_budget,
            candidates_per_arm,
            said: None,
        })
    }
}

fn strings(values: Option<Vec<Option<String>>>) -> PgResult<Option<Vec<String>>> {
    values.map(crate::pg::sql_types::without_nulls).transpose()
}

/// The number of rows that is asked for.
///
/// # Errors
/// 22023 for one that cannot be meant.
pub fn check_top_k(top_k: Option<i32>) -> PgResult<()> {
    match top_k {
        Some(top_k) if top_k < 0 => Err(Error::invalid(
            "top_k is negative",
            "0 returns nothing; leave it out for memory_agent.default_top_k.",
        )),
        Some(top_k) if top_k > MAX_TOP_K => Err(Error::invalid(
            format!("top_k must be at most {MAX_TOP_K}"),
            "Read memory_entries to see everything.",
        )),
        _ => Ok(()),
    }
}

/// Rows for the cross-encoder, in the range of the setting.
fn rerank_rows(rows: i32) -> PgResult<usize> {
    let is_in_range = (0..=MAX_RERANK_ROWS).contains(&rows);
    usize::try_from(rows).ok().filter(|_| is_in_range).ok_or_else(|| {
        Error::invalid(
            format!("rerank_rows must be between 0 and {MAX_RERANK_ROWS}, not {rows}"),
            "Leave it out for the setting's value.",
        )
    })
}

/// A weight between 0 and 1; NaN is refused.
fn unit(name: &str, value: Option<f32>) -> PgResult<Option<f64>> {
    match value {
        Some(value) if !(0.0..=1.0).contains(&value) => Err(Error::invalid(
            format!("{name} must be between 0 and 1, not {value}"),
            "Leave it out for the setting's value.",
        )),
        value => Ok(value.map(f64::from)),
    }
}

fn parse_filter(filter: Option<JsonbText>) -> PgResult<(Filter, Option<JsonbText>)> {
    let Some(filter) = filter else { return Ok((Filter::default(), None)) };
    let value: serde_json::Value = serde_json::from_str(&filter.0).map_err(|error| {
        Error::invalid(
            format!("filter cannot be read: {error}"),
            "Use numbers in the range of a double.",
        )
    })?;
    let parsed = Filter::parse(&value).map_err(Error::refused)?;
    // The object as it was written: a double would drop digits that jsonb keeps.
    let metadata = match &parsed.metadata {
        Some(_) => serde_json::from_str::<RawFilter<'_>>(&filter.0)
            .ok()
            .and_then(|raw| raw.metadata)
            .map(|metadata| JsonbText(metadata.get().to_owned())),
        None => None,
    };
    Ok((parsed, metadata))
}

/// The part of a filter that PostgreSQL compares itself.
#[derive(serde::Deserialize)]
struct RawFilter<'a> {
    #[serde(borrow)]
    metadata: Option<&'a serde_json::value::RawValue>,
}
