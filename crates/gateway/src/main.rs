//! `memory-agent`: brings the memory of a PostgreSQL database to clients that speak HTTP. It calls
//! `memory_*` functions and knows nothing of how memory works.

mod archives;
mod args;
mod chat;
mod cross_origin;
mod db;
mod doctor;
mod gateway;
mod health;
mod http_server;
mod log;
mod mcp;
mod mem0;
mod metrics;
mod page;
mod people;
mod refusal;
mod screen;
mod serve_args;
mod terminal;
mod upstream;

use args::{Cli, Command};
use chat::stored_ids::StoredIds;
use chat::tool_loops::ToolLoops;
use clap::Parser;
use db::memory::{Memory, MemoryError};
use gateway::{Gateway, ROOM_AT_ONCE, Room, share};
use metrics::Metrics;
use people::admins::Admins;
use people::authentication::Authenticator;
use people::jwt::Jwt;
use people::rates::Rates;
use people::shares::Shares;
use people::spending::Spending;
use serde_json::json;
use serve_args::Serve;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use upstream::{KeyIn, Upstream};

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("cannot start: {error}")),
    };
    let outcome = match command {
        Command::Serve(options) => runtime.block_on(run(*options)),
        Command::Mcp(options) => runtime.block_on(mcp::run(options)),
        Command::Chat(options) => {
            return terminal::ended(runtime.block_on(terminal::chat(options)));
        }
        Command::Doctor(options) => return runtime.block_on(doctor::run(options)),
        Command::Add(options) => return terminal::ended(runtime.block_on(terminal::add(options))),
        Command::Recall(options) => {
            return terminal::ended(runtime.block_on(terminal::recall(options)));
        }
        Command::Forget(options) => {
            return terminal::ended(runtime.block_on(terminal::forget(options)));
        }
        Command::Export(options) => {
            return terminal::ended(runtime.block_on(terminal::export(options)));
        }
        Command::Import(options) => {
            return terminal::ended(runtime.block_on(terminal::import(options)));
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => failed(&problem),
    }
}

fn failed(problem: &str) -> ExitCode {
    log::write("failed", json!({"problem": problem}));
    ExitCode::FAILURE
}

async fn run(options: Serve) -> Result<(), String> {
    options.check()?;
    let jwt = jwt(&options)?;
    let silence = Duration::from_secs(options.upstream_timeout);
    let upstream = |base: &str, file: &Option<PathBuf>, key_in| {
        let read =
            |file| std::fs::read_to_string(file).map_err(|error| format!("the key file: {error}"));
        let key = file.as_ref().map(read).transpose()?;
        Upstream::new(base, key.as_deref(), key_in, silence)
    };
    let messages_upstream =
        upstream(&options.messages_upstream, &options.messages_upstream_key_file, KeyIn::ApiKey)?;
    let upstream = upstream(&options.upstream, &options.upstream_key_file, KeyIn::Authorization)?;
    let metrics = Arc::new(Metrics::default());
    let patience = Duration::from_millis(options.patience);
    let connections = usize::from(options.connections);
    let memory = Memory::new(&options.database, connections, patience, Arc::clone(&metrics))?;
    match memory.status().await {
        Ok(_) => {}
        Err(error) if matches!(error, MemoryError::ModeOfRoles) || options.require_memory => {
            return Err(error.for_operator());
        }
        // It may come later; until then chats go on without memory.
        Err(error) => {
            log::write("memory_failed", json!({"step": "start", "reason": error.for_operator()}))
        }
    }
    if options.user.is_none() || options.daily_tokens > 0 {
        memory.may_look_up().await.map_err(|problem| format!("--database: {problem}"))?;
    }
    let admins = match &options.admin_database {
        Some(database) => {
            let metrics = Arc::clone(&metrics);
            Some(Admins::new(database, options.admins, patience, metrics).await?)
        }
        None => None,
    };
    let authenticator = match options.user {
        Some(user) => {
            log::write(
                "one_person",
                json!({"hint": "requests need no token, and come from this machine only"}),
            );
            Authenticator::for_one(user)
        }
        None => {
            let metrics = Arc::clone(&metrics);
            Authenticator::with_tokens(metrics, jwt, options.proxies)
        }
    };
    let is_for_one = authenticator.is_for_one();
    let max_in_flight = options.max_in_flight as usize;
    // A body that is allowed fits into a share.
    let share_of_bodies =
        share(options.max_bodies, is_for_one).max(options.max_body.saturating_add(ROOM_AT_ONCE));
    let gateway = Gateway {
        authenticator,
        spending: Spending::new(memory.clone(), options.daily_tokens),
        client_patience: Duration::from_secs(options.client_timeout),
        memory,
        admins,
        upstream,
        messages_upstream,
        metrics,
        patience,
        requires_memory: options.require_memory,
        client_sessions: options.client_sessions,
        origins: options.allow_origins,
        max_body: options.max_body,
        bodies: Room::new(options.max_bodies, share_of_bodies),
        answers: Room::new(options.max_answers, share(options.max_answers, is_for_one)),
        max_in_flight: options.max_in_flight,
        in_flight: Arc::new(Semaphore::new(max_in_flight)),
        shares_in_flight: Shares::new(share(max_in_flight, is_for_one)),
        rates: Rates::new(options.rate),
        page_ends: mem0::PageEnds::default(),
        stored_ids: StoredIds::default(),
        tool_loops: ToolLoops::default(),
    };
    let stop = stop_signal()?;
    let last_moment = Duration::from_secs(options.stop_timeout);
    http_server::serve(Arc::new(gateway), options.listen, last_moment, stop).await
}

/// What JWTs are checked with, where they are wanted.
fn jwt(options: &Serve) -> Result<Option<Jwt>, String> {
    let (claim, audience) = (options.jwt_claim.as_str(), options.jwt_audience.as_deref());
    let unread = |error: std::io::Error| format!("the file of JWTs: {error}");
    if let Some(file) = &options.jwt_secret_file {
        let secret = std::fs::read(file).map_err(unread)?;
        return Jwt::with_secret(secret.trim_ascii(), claim, audience).map(Some);
    }
    let Some(file) = &options.jwt_keys_file else { return Ok(None) };
    let keys = std::fs::read_to_string(file).map_err(unread)?;
    Jwt::with_keys(&keys, claim, audience).map(Some)
}

/// Over when the process is told to end.
fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static, String> {
    let listen = |kind| signal(kind).map_err(|error| format!("signals: {error}"));
    let (mut terminate, mut interrupt) =
        (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
