//! `/health`, `/health/ready`, `/health/live` and `/metrics`: whether everything is there that a chat needs, and what was counted.

use crate::db::memory::Status;
use crate::gateway::Gateway;
use crate::metrics::Gauge;
use crate::people::authentication::{Authenticator, Person};
use crate::refusal::Refusal;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Callers without a token may ask, so the database and the upstream are not asked more often than this.
const FRESH: Duration = Duration::from_secs(1);
/// The states of jobs that `memory_status()` counts.
const STATES: [&str; 3] = ["pending", "running", "dead"];

/// How long `/metrics` waits for the upstream. A look that takes longer goes on, and is what the next one shows.
const PROMPTLY: Duration = Duration::from_millis(500);

/// What `/health` and `/metrics` look at.
#[derive(Clone)]
pub struct Looks {
    gateway: Arc<Gateway>,
    database: Arc<Look<Database>>,
    upstream: Arc<Look<bool>>,
}

/// A look at something, and what the last one found.
#[derive(Default)]
struct Look<T> {
    found: Mutex<Option<(Instant, T)>>,
    /// One at a time.
    looking: tokio::sync::Mutex<()>,
}

impl<T: Clone + Send + 'static> Look<T> {
    fn last(&self) -> Option<(Instant, T)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is found now, or was a moment ago; `None` if the look broke down. It goes on when no caller waits
    /// for it any more: else one that asks and leaves could have any number of looks begun, and connections to the
    /// database closed.
    async fn now(self: &Arc<Self>, look: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let this = Arc::clone(self);
        let looking = tokio::spawn(async move {
            let _alone = this.looking.lock().await;
            if let Some((_, found)) = this.last().filter(|(at, _)| at.elapsed() < FRESH) {
                return found;
            }
            let found = look.await;
            let kept = Some((Instant::now(), found.clone()));
            *this.found.lock().unwrap_or_else(PoisonError::into_inner) = kept;
            found
        });
        looking.await.ok()
    }
}

/// What is there of a database.
#[derive(Clone, Debug, Default)]
struct Database {
    is_there: bool,
    /// What `memory_status()` says of it; nothing without a database.
    model_server: Option<String>,
    /// Background jobs by [`STATES`]; nothing without a database.
    jobs: Vec<(&'static str, f64)>,
    /// The name of the database, and how many memories a recall returns.
    store: Option<(String, Option<String>)>,
}

impl Database {
    async fn look(gateway: &Gateway) -> Self {
        let memory = gateway.memory.watched();
        let (status, store) = tokio::join!(memory.status(), memory.store_name());
        let is_there = status.is_ok();
        let rows = status.unwrap_or_default();
        let row = |component| rows.iter().find(|row: &&Status| row.component == component);
        Self {
            is_there,
            model_server: row("model server").map(|row| row.state.clone()),
            jobs: row("queue").map(|row| jobs(&row.detail)).unwrap_or_default(),
            store: store.ok(),
        }
    }
}

/// The numbers in "2 pending, 1 running, 0 dead, oldest 3 s".
fn jobs(detail: &str) -> Vec<(&'static str, f64)> {
    let parts = detail.split(", ").filter_map(|part| part.split_once(' '));
    parts
        .filter_map(|(number, state)| {
            let state = STATES.into_iter().find(|known| *known == state)?;
            Some((state, number.parse().ok()?))
        })
        .collect()
}

impl Looks {
    pub fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, database: Arc::default(), upstream: Arc::default() }
    }

    async fn database(&self) -> Database {
        let gateway = Arc::clone(&self.gateway);
        let look = async move { Database::look(&gateway).await };
        self.database.now(look).await.unwrap_or_default()
    }

    async fn upstream(&self) -> bool {
        let gateway = Arc::clone(&self.gateway);
        let look = async move { gateway.upstream.is_there().await };
        self.upstream.now(look).await.unwrap_or_default()
    }

    /// The same for a caller who does not wait: what was found last, where it is not found promptly.
    async fn upstream_promptly(&self) -> bool {
        let found = tokio::time::timeout(PROMPTLY, self.upstream()).await;
        found.unwrap_or_else(|_| self.upstream.last().is_some_and(|(_, found)| found))
    }

    async fn admit(&self, head: &Parts, peer: SocketAddr) -> Result<Person, Refusal> {
        let Gateway { authenticator, memory, .. } = self.gateway.as_ref();
        authenticator.admit(&head.uri, &head.headers, peer.ip(), true, &memory.watched()).await
    }
}

/// `GET /health/live`: the process answers, whatever else does not. It looks at nothing, so that an orchestrator does
/// not restart a gateway whose database is away.
pub async fn live() -> Response {
    let body = json!({ "live": true, "version": env!("CARGO_PKG_VERSION") });
    answer(StatusCode::OK, "application/json", body.to_string())
}

/// `GET /health` and `GET /health/ready`: 200 when chats can be answered, 503 when not; the process is alive in both
/// cases. Callers without a token may ask; only those who may chat learn where things are.
pub async fn health(
    State(looks): State<Looks>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (gateway, head) = (&looks.gateway, request.into_parts().0);
    let may_know = async {
        let shows = gateway.authenticator.is_for_one() || Authenticator::has_token(&head.headers);
        shows && looks.admit(&head, peer).await.is_ok()
    };
    let (database, upstream, may_know) = tokio::join!(looks.database(), looks.upstream(), may_know);
    let word = |is_there: bool| if is_there { "ok" } else { "down" };
    let is_ready = upstream && (database.is_there || !gateway.requires_memory);
    let whole = is_ready && database.is_there;
    let mut body = json!({
        "status": if whole { "ok" } else if is_ready { "degraded" } else { "down" },
        "live": true,
        "ready": is_ready,
        "database": word(database.is_there),
        "model_server": database.model_server.as_deref().unwrap_or("unknown"),
        "upstream": word(upstream),
        "version": env!("CARGO_PKG_VERSION"),
    });
    if may_know {
        // As agent-cli's proxy says it.
        body["openai_base_url"] = gateway.upstream.base().into();
        if let Some((name, top_k)) = database.store {
            body["memory_store"] = name.into();
            body["default_top_k"] = top_k.into();
        }
    }
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, "application/json", body.to_string())
}

/// `GET /metrics`, for callers who may chat as well; what was spent, for administrators.
pub async fn metrics(
    State(looks): State<Looks>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let gateway = &looks.gateway;
    let (head, _) = request.into_parts();
    let (database, upstream, person) =
        tokio::join!(looks.database(), looks.upstream_promptly(), looks.admit(&head, peer));
    let person = match person {
        Ok(person) => person,
        Err(refusal) => return refusal.into_response(),
    };
    let (open, idle) = gateway.memory.connections();
    let is_up = |is_there: bool| f64::from(u8::from(is_there));
    let mut gauges = vec![
        Gauge::one("in_flight", "Requests that are being answered.", f64::from(gateway.busy())),
        Gauge::one("database_connections", "Open connections to the database.", open as f64),
        Gauge::one("database_connections_idle", "Connections that are not in use.", idle as f64),
        Gauge::one("database_up", "Whether the database answers.", is_up(database.is_there)),
        Gauge::one("upstream_up", "Whether the upstream answers.", is_up(upstream)),
        Gauge::one(
            "model_server_up",
            "Whether the model server runs.",
            is_up(database.model_server.as_deref() == Some("running")),
        ),
    ];
    if !database.jobs.is_empty() {
        let (name, help) = ("jobs", "Background jobs of all users by their state.");
        gauges.push(Gauge { name, help, label: Some("state"), numbers: database.jobs });
    }
    if let Some(admins) = gateway.admins_with(&person).filter(|_| database.is_there) {
        match admins.memory.spent_today(gateway.memory.watched().patience).await {
            Ok(spent) => {
                let numbers = [("gateway", spent.by_callers), ("database", spent.by_endpoints)];
                gauges.push(Gauge {
                    name: "llm_tokens_today",
                    help: "Tokens of language models since midnight UTC, by whose key they took.",
                    label: Some("key"),
                    numbers: numbers.map(|(key, tokens)| (key, tokens as f64)).into(),
                });
            }
            Err(error) => gateway.missed("spend", &error),
        }
    }
    answer(StatusCode::OK, "text/plain; version=0.0.4", gateway.metrics.print(&gauges))
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_by_their_state() {
        let expected = vec![("pending", 2.0), ("running", 1.0), ("dead", 0.0)];
        assert_eq!(jobs("2 pending, 1 running, 0 dead, oldest 3 s"), expected);
        assert_eq!(jobs("2 pending, 1 running, 0 dead"), expected);
        assert_eq!(jobs(""), vec![]);
    }
}
