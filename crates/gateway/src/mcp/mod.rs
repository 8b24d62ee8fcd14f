//! `memory-agent mcp` and `/mcp`: the tools of memory for programs that speak the Model Context Protocol, on
//! standard input and output or over HTTP.

mod arguments;
mod config;
mod queries;
mod server;
mod shapes;
mod tools;

use crate::args::Mcp;
use crate::db::memory::{Memory, MemoryError};
use crate::gateway::Gateway;
use crate::log;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse, Response};
use rmcp::service::ServerInitializeError;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use server::{Server, Who};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// One client asks for little at once; one of these is for what waits for a language model.
const CONNECTIONS: usize = 3;
/// How long a token may be looked up, and a connection made.
const PATIENCE: Duration = Duration::from_secs(10);

/// `memory-agent mcp`: until standard input ends.
///
/// # Errors
/// Why it cannot start, or what broke.
pub async fn run(options: Mcp) -> Result<(), String> {
    if let Some(client) = options.print_config {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let config =
            config::config(client, &program, &options.person, |name| std::env::var(name).ok());
        return writeln!(std::io::stdout(), "{config}").map_err(|error| error.to_string());
    }
    let person = options.person;
    let metrics = Arc::new(Metrics::default());
    let memory = Memory::new(&person.database, CONNECTIONS, PATIENCE, Arc::clone(&metrics))?;
    let who = match (person.user, person.token) {
        (Some(user), _) => Who::User(user),
        (None, token) => Who::Token(Sha256::digest(token.unwrap_or_default().as_bytes()).into()),
    };
    match known(&memory, &who).await {
        Ok(true) => {}
        Ok(false) => return Err("this memory token is unknown, or has expired".to_owned()),
        Err(error @ MemoryError::ModeOfRoles) => return Err(error.to_string()),
        // It may come later; until then the tools say so.
        Err(error) => {
            log::write("memory_failed", json!({"step": "start", "reason": error.for_operator()}))
        }
    }
    let server = Server { memory, metrics, who };
    let running = match rmcp::serve_server(server, rmcp::transport::stdio()).await {
        Ok(running) => running,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

/// Whether the database knows who this is; it also says whether it can be asked at all.
async fn known(memory: &Memory, who: &Who) -> Result<bool, MemoryError> {
    match who {
        Who::User(_) => memory.status().await.map(|_| true),
        Who::Token(hash) => Ok(memory.token_user(hash).await?.is_some()),
    }
}

/// `/mcp`. Nothing is kept between requests, so any gateway can answer the next one.
pub async fn http(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    answer(&gateway, peer, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(
    gateway: &Gateway,
    peer: SocketAddr,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    // Held until the answer is there.
    let (person, permit) = gateway.admit_here(&head, peer.ip()).await?;
    let body = gateway.body(&head, body, &permit).await?;
    let server = Server {
        memory: gateway.memory.clone(),
        metrics: Arc::clone(&gateway.metrics),
        who: Who::User(person.user_id),
    };
    // The authenticator has looked at Host and Origin, and at the length of the body.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_max_request_body_bytes(gateway.max_body);
    let sessions = Arc::new(NeverSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let answer = service.handle(Request::from_parts(head, Body::from(body))).await;
    Ok(answer.map(Body::new))
}
