//! `/health` and `/metrics`: whether everything is there that a chat needs, and what was counted.

use crate::door::{Door, Person};
use crate::gateway::Gateway;
use crate::memory::Status;
use crate::metrics::Gauge;
use crate::refusal::Refusal;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Everybody may ask, so the database and the upstream are not asked more often than this.
const FRESH: Duration = Duration::from_secs(1);
/// The states of jobs that `memory_status()` counts.
const STATES: [&str; 3] = ["pending", "running", "dead"];

/// What the last check found.
type Found = Mutex<Option<(Instant, Health)>>;

/// What `/health` and `/metrics` look at.
#[derive(Clone)]
pub struct Looks {
    gateway: Arc<Gateway>,
    found: Arc<Found>,
}

/// Whether what a chat needs is there.
#[derive(Clone, Debug)]
struct Health {
    database: bool,
    /// What `memory_status()` says of it; `unknown` without a database.
    model_server: String,
    /// Background jobs by [`STATES`]; nothing without a database.
    jobs: Vec<(&'static str, f64)>,
    upstream: bool,
    is_ready: bool,
    /// The name of the database, and how many memories a recall returns.
    store: Option<(String, Option<String>)>,
}

impl Health {
    async fn look(gateway: &Gateway) -> Self {
        let memory = gateway.memory.watched();
        let (status, store, upstream) =
            tokio::join!(memory.status(), memory.store_name(), gateway.upstream.is_there());
        let database = status.is_ok();
        let rows = status.unwrap_or_default();
        let row = |component| rows.iter().find(|row: &&Status| row.component == component);
        let model_server = row("model server").map(|row| row.state.clone());
        Self {
            database,
            model_server: model_server.unwrap_or_else(|| "unknown".to_owned()),
            jobs: row("queue").map(|row| jobs(&row.detail)).unwrap_or_default(),
            upstream,
            store: store.ok(),
            is_ready: upstream && (database || !gateway.requires_memory),
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
        Self { gateway, found: Arc::default() }
    }

    async fn health(&self) -> Health {
        let mut found = self.found.lock().await;
        if let Some((_, health)) = found.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return health.clone();
        }
        let health = Health::look(&self.gateway).await;
        *found = Some((Instant::now(), health.clone()));
        health
    }

    async fn admit(&self, head: &Parts, peer: SocketAddr) -> Result<Person, Refusal> {
        let Gateway { door, memory, .. } = self.gateway.as_ref();
        door.admit(&head.uri, &head.headers, peer.ip(), true, &memory.watched()).await
    }
}

/// `GET /health`: 200 when chats can be answered, 503 when not; the process is alive in both cases. Everybody
/// may ask; where things are is for who may chat.
pub async fn health(
    State(looks): State<Looks>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (gateway, head) = (&looks.gateway, request.into_parts().0);
    let may_know = async {
        let shows = gateway.door.is_for_one() || Door::has_token(&head.headers);
        shows && looks.admit(&head, peer).await.is_ok()
    };
    let (health, may_know) = tokio::join!(looks.health(), may_know);
    let word = |is_there: bool| if is_there { "ok" } else { "down" };
    let whole = health.is_ready && health.database;
    let mut body = json!({
        "status": if whole { "ok" } else if health.is_ready { "degraded" } else { "down" },
        "live": true,
        "ready": health.is_ready,
        "database": word(health.database),
        "model_server": health.model_server,
        "upstream": word(health.upstream),
        "version": env!("CARGO_PKG_VERSION"),
    });
    if may_know {
        // As agent-cli's proxy says it.
        body["openai_base_url"] = gateway.upstream.base().into();
        if let Some((name, top_k)) = health.store {
            body["memory_store"] = name.into();
            body["default_top_k"] = top_k.into();
        }
    }
    let status = if health.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, "application/json", body.to_string())
}

/// `GET /metrics`, for who may chat as well; what was spent, for administrators.
pub async fn metrics(
    State(looks): State<Looks>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let gateway = &looks.gateway;
    let (head, _) = request.into_parts();
    let (health, person) = tokio::join!(looks.health(), looks.admit(&head, peer));
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
        Gauge::one("database_up", "Whether the database answers.", is_up(health.database)),
        Gauge::one("upstream_up", "Whether the upstream answers.", is_up(health.upstream)),
        Gauge::one(
            "model_server_up",
            "Whether the model server runs.",
            is_up(health.model_server == "running"),
        ),
    ];
    if !health.jobs.is_empty() {
        let (name, help) = ("jobs", "Background jobs of all users by their state.");
        gauges.push(Gauge { name, help, label: Some("state"), numbers: health.jobs });
    }
    if let Some(admins) = gateway.admins_with(&person).filter(|_| health.database) {
        match admins.spent_today(gateway.memory.watched().patience).await {
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
