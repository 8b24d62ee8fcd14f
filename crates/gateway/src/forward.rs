//! Paths that go through as they are: the list of models, embeddings, and counting the tokens of a message.

use crate::answer::{MAX_ANSWER_BYTES, Usage};
use crate::gateway::{Gateway, relayed, relayed_after};
use crate::protocol::{Completions, Messages, Protocol};
use crate::refusal::Refusal;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where tokens are counted upstream.
const COUNT_TOKENS: &str = "/messages/count_tokens";

/// `GET /v1/models`.
pub async fn models(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    forward(gateway, &Completions, peer, request, Method::GET, "/models")
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// `POST /v1/embeddings`.
pub async fn embeddings(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    forward(gateway, &Completions, peer, request, Method::POST, "/embeddings")
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// `POST /v1/messages/count_tokens`.
pub async fn count_tokens(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let path = match request.uri().query() {
        Some("beta=true") => "/messages/count_tokens?beta=true",
        _ => COUNT_TOKENS,
    };
    forward(gateway, &Messages, peer, request, Method::POST, path)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

async fn forward(
    gateway: Arc<Gateway>,
    protocol: &dyn Protocol,
    peer: SocketAddr,
    request: Request,
    method: Method,
    path: &'static str,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let upstream = protocol.upstream(&gateway);
    let (person, permit) = gateway.admit(&head, peer.ip(), upstream.has_key()).await?;
    let body = gateway.body(&head, body, &permit).await?;
    // To ask which models there are, or to have tokens counted, costs nothing.
    let is_free = method == Method::GET || path.starts_with(COUNT_TOKENS);
    let guess = match is_free || !upstream.has_key() {
        true => None,
        false => gateway.spending.begin(&person, body.len(), None).await?,
    };
    let answer = upstream.send(method, path, &head.headers, body).await;
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(reason) => {
            if let Some(guess) = guess {
                guess.settle(&gateway, &permit, 0);
            }
            return Err(Refusal::no_upstream(reason));
        }
    };
    let Some(guess) = guess else { return Ok(relayed(gateway, answer, permit)) };
    if !answer.status().is_success() {
        guess.settle(&gateway, &permit, 0);
        return Ok(relayed(gateway, answer, permit));
    }
    let mut bytes = Vec::new();
    while bytes.len() <= MAX_ANSWER_BYTES && gateway.answers.holds(bytes.len(), &permit) {
        match upstream.next(&mut answer).await.map_err(Refusal::no_upstream)? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => {
                if let Some(usage) = Usage::of_answer(&bytes) {
                    guess.settle(&gateway, &permit, usage.total());
                }
                break;
            }
        }
    }
    Ok(relayed_after(bytes, gateway, answer, permit))
}
