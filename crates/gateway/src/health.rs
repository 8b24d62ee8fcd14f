//! `/health` and `/metrics`: whether everything is there that a chat needs, and what was counted.

use crate::gateway::Gateway;
use crate::memory::Status;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Everybody may ask, so the database and the upstream are not asked more often than this.
const FRESH: Duration = Duration::from_secs(1);

/// What was found when somebody asked last.
pub type Found = Mutex<Option<(Instant, Health)>>;

/// Whether what a chat needs is there.
#[derive(Clone, Debug)]
pub struct Health {
    database: bool,
    /// What `memory_status()` says of it; `unknown` without a database.
    model_server: String,
    upstream: bool,
    is_ready: bool,
}

impl Health {
    async fn look(gateway: &Gateway) -> Self {
        let (status, upstream) = tokio::join!(gateway.memory.status(), gateway.upstream.is_there());
        let model_server = status.as_ref().ok().and_then(|rows| {
            let is_it = |row: &&Status| row.component == "model server";
            rows.iter().find(is_it).map(|row| row.state.clone())
        });
        let database = status.is_ok();
        Self {
            database,
            model_server: model_server.unwrap_or_else(|| "unknown".to_owned()),
            upstream,
            is_ready: upstream && (database || !gateway.requires_memory),
        }
    }
}

/// `GET /health`: 200 when chats can be answered, 503 when not; the process is alive in both cases.
pub async fn health(State((gateway, found)): State<(Arc<Gateway>, Arc<Found>)>) -> Response {
    let mut found = found.lock().await;
    let health = match found.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
        Some((_, health)) => health.clone(),
        None => {
            let health = Health::look(&gateway).await;
            *found = Some((Instant::now(), health.clone()));
            health
        }
    };
    drop(found);
    let word = |is_there: bool| if is_there { "ok" } else { "down" };
    let whole = health.is_ready && health.database;
    let body = json!({
        "status": if whole { "ok" } else if health.is_ready { "degraded" } else { "down" },
        "live": true,
        "ready": health.is_ready,
        "database": word(health.database),
        "model_server": health.model_server,
        "upstream": word(health.upstream),
        "version": env!("CARGO_PKG_VERSION"),
    });
    let status = if health.is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, "application/json", body.to_string())
}

/// `GET /metrics`, for who may chat as well.
pub async fn metrics(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (head, _) = request.into_parts();
    if let Err(refusal) = gateway.door.admit(&head.uri, &head.headers, peer.ip(), true).await {
        return refusal.into_response();
    }
    let (open, idle) = gateway.memory.connections();
    let text = gateway.metrics.print(&[
        ("in_flight", "Requests that are being answered.", f64::from(gateway.busy())),
        ("database_connections", "Open connections to the database.", open as f64),
        ("database_connections_idle", "Those that nobody uses.", idle as f64),
    ]);
    answer(StatusCode::OK, "text/plain; version=0.0.4", text)
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response {
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}
