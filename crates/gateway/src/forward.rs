//! Paths that go through as they are: the list of models, and embeddings.

use crate::gateway::{Gateway, relayed};
use crate::refusal::Refusal;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

/// `GET /v1/models`.
pub async fn models(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    forward(gateway, peer, request, Method::GET, "/models")
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// `POST /v1/embeddings`.
pub async fn embeddings(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    forward(gateway, peer, request, Method::POST, "/embeddings")
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn forward(
    gateway: Arc<Gateway>,
    peer: SocketAddr,
    request: Request,
    method: Method,
    path: &'static str,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let (_, permit) = gateway.admit(&head, peer.ip()).await?;
    let body = gateway.body(&head, body).await?;
    let answer = gateway.upstream.send(method, path, &head.headers, body).await;
    Ok(relayed(Arc::clone(&gateway), answer.map_err(Refusal::no_upstream)?, permit))
}
