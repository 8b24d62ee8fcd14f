//! The server: its paths, what every request is counted and logged by, how long clients are waited for, and
//! how it ends.

use crate::chat::protocol::{Completions, Messages, Protocol, Responses};
use crate::gateway::Gateway;
use crate::health::{self, Looks};
use crate::refusal::{Code, Refusal};
use crate::{chat, chat::forward, cross_origin, log, mcp, mem0, page};
use axum::Router;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{self, HeaderValue, Uri};
use axum::middleware::{self, Next};
use axum::response::{Redirect, Response};
use axum::routing::{MethodRouter, any, get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service;

/// What every answer says, unless it says something else itself: it is for who asked, is what it says that it
/// is, and is data. A browser runs nothing in it, and shows it apart from the page.
const ALWAYS: [(HeaderName, &str); 3] = [
    (CACHE_CONTROL, "no-store"),
    (CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];
/// Until a connection can be taken again, when there are too many open files.
const PAUSE: Duration = Duration::from_millis(100);

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
    let router = router(Arc::clone(&gateway))?;
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let bound = listener.local_addr().map_err(cannot)?;
    log::write("listening", json!({"address": bound.to_string()}));
    let connections = GracefulShutdown::new();
    accept(&gateway, &router, &listener, &connections, stop).await;
    drop(listener);
    log::write("stopping", json!({}));
    let finishing = async {
        connections.shutdown().await;
        gateway.until_idle().await;
    };
    let outcome = tokio::time::timeout(last_moment, finishing).await;
    log::write("stopped", json!({}));
    outcome.map_err(|_| "answers were cut off: they took too long to end".to_owned())
}

/// Takes connections until `stop` is over.
async fn accept(
    gateway: &Arc<Gateway>,
    router: &Router,
    listener: &TcpListener,
    connections: &GracefulShutdown,
    stop: impl Future<Output = ()>,
) {
    let patience = gateway.client_patience;
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        if prepare(&stream, patience).is_err() {
            continue;
        }
        let router = router.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            router.clone().call(request)
        });
        // Without a time, who opens connections and says nothing has all of them.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connections.watch(connection));
    }
}

/// Has each piece of a stream go out at once, and a connection end whose client takes nothing of what it is
/// sent, or is gone without a word.
fn prepare(stream: &TcpStream, patience: Duration) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_user_timeout(Some(patience))?;
    Ok(())
}

/// All paths.
///
/// # Errors
/// That the system has no random numbers.
pub fn router(gateway: Arc<Gateway>) -> Result<Router, String> {
    let looks = Looks::new(Arc::clone(&gateway));
    let router = Router::new()
        .route("/v1/chat/completions", chats(&Completions))
        .route("/v1/responses", chats(&Responses))
        .route("/v1/messages", chats(&Messages))
        .route("/v1/messages/count_tokens", post(forward::count_tokens))
        .route("/v1/embeddings", post(forward::embeddings))
        .route("/v1/models", get(forward::models))
        .route("/v1/{*path}", any(forward::other))
        .route("/mcp", any(mcp::http))
        .merge(mem0::routes())
        .with_state(Arc::clone(&gateway))
        .route("/health", get(health::health).with_state(looks.clone()))
        .route("/health/ready", get(health::health).with_state(looks.clone()))
        .route("/health/live", get(health::live))
        .route("/metrics", get(health::metrics).with_state(looks))
        .merge(page::router(Arc::clone(&gateway))?)
        .route("/", get(async || Redirect::to(page::ROOT)))
        .fallback(async |uri: Uri| Refusal::no_such_path(uri.path()))
        .method_not_allowed_fallback(async |uri: Uri| Refusal::no_such_method(uri.path()))
        .layer(middleware::from_fn_with_state(Arc::clone(&gateway), cross_origin::allow))
        .layer(middleware::from_fn_with_state(gateway, counted));
    Ok(router)
}

/// A path for chats in this protocol.
fn chats(protocol: &'static dyn Protocol) -> MethodRouter<Arc<Gateway>> {
    post(move |State(gateway), ConnectInfo(peer), request| {
        chat::answer(protocol, gateway, peer, request)
    })
}

/// Counts and logs a request, by the path that is known here and never by the one that was sent.
async fn counted(State(gateway): State<Arc<Gateway>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    for (name, value) in ALWAYS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    let status = response.status().as_u16();
    gateway.metrics.requests.add(&status.to_string(), 1);
    if let Some(code) = response.extensions().get::<Code>() {
        gateway.metrics.refused.add(code.0, 1);
    }
    log::write(
        "request",
        json!({
            "path": path.as_ref().map_or("other", MatchedPath::as_str),
            "status": status,
            "milliseconds": started.elapsed().as_millis() as u64,
        }),
    );
    response
}
