//! The server: its paths, what every request is counted and logged by, and how it ends.

use crate::gateway::Gateway;
use crate::health::{self, Found};
use crate::refusal::{Code, Refusal};
use crate::{chat, forward, log};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::json;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// What is answered here; every other path is refused.
const CHAT: &str = "/v1/chat/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
const MODELS: &str = "/v1/models";
const METRICS: &str = "/metrics";
const HEALTH: &str = "/health";
const PATHS: [&str; 5] = [CHAT, EMBEDDINGS, MODELS, METRICS, HEALTH];

/// Listens until `stop` is over, then finishes what streams and what is being stored; not longer than
/// `last_moment`.
///
/// # Errors
/// Why it cannot listen.
pub async fn serve(
    gateway: Arc<Gateway>,
    address: SocketAddr,
    last_moment: Duration,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), String> {
    let cannot = |error: std::io::Error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    log::write("listening", json!({"address": bound.to_string()}));
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = async move {
        stop.await;
        log::write("stopping", json!({}));
        // The receiver waits below.
        let _ = stopping.send(());
    };
    let app = router(Arc::clone(&gateway)).into_make_service_with_connect_info::<SocketAddr>();
    let serving = async move {
        let outcome = axum::serve(listener, app).with_graceful_shutdown(stop).await;
        gateway.until_idle().await;
        outcome.map_err(|error| error.to_string())
    };
    let too_late = async move {
        // Without a signal there is no last moment.
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(last_moment).await;
    };
    let outcome = tokio::select! {
        outcome = serving => outcome,
        () = too_late => Err("answers were cut off: they took too long to end".to_owned()),
    };
    log::write("stopped", json!({}));
    outcome
}

fn router(gateway: Arc<Gateway>) -> Router {
    let found: Arc<Found> = Arc::default();
    Router::new()
        .route(CHAT, post(chat::complete))
        .route(EMBEDDINGS, post(forward::embeddings))
        .route(MODELS, get(forward::models))
        .route(METRICS, get(health::metrics))
        .with_state(Arc::clone(&gateway))
        .route(HEALTH, get(health::health).with_state((Arc::clone(&gateway), found)))
        .fallback(|| async { Refusal::no_such_path() })
        .method_not_allowed_fallback(|| async { Refusal::no_such_method() })
        .layer(middleware::from_fn_with_state(gateway, counted))
}

/// Counts and logs a request, by the path that is known here and never by the one that was sent.
async fn counted(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let path = PATHS.into_iter().find(|path| request.uri().path() == *path).unwrap_or("other");
    let response = next.run(request).await;
    let status = response.status().as_u16();
    gateway.metrics.requests.add(&status.to_string(), 1);
    if let Some(code) = response.extensions().get::<Code>() {
        gateway.metrics.refused.add(code.0, 1);
    }
    log::write(
        "request",
        json!({
            "path": path,
            "status": status,
            "milliseconds": started.elapsed().as_millis() as u64,
        }),
    );
    response
}
