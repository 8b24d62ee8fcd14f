//! Paths that go through as they are: the list of models, embeddings, counting the tokens of a message, and
//! everything else of an upstream that gets the caller's own key.

use crate::chat::answer::{MAX_ANSWER_BYTES, Usage};
use crate::chat::protocol::{self, Completions, Messages, Protocol};
use crate::gateway::Gateway;
use crate::people::authentication::holds_token;
use crate::refusal::Refusal;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, Uri};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where tokens are counted upstream.
const COUNT_TOKENS: &str = "/messages/count_tokens";
/// What is answered here, by memory: what is unknown of it goes nowhere else. And what a base URL with one /v1 too
/// many leads to.
const NOWHERE: [&str; 3] = ["memories", "ping", "v1"];

/// `GET /v1/models`.
pub async fn models(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let protocol = protocol::spoken(&gateway, request.headers());
    forward(gateway, protocol, peer, request, Method::GET, "/models")
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

/// Every other path under `/v1/`, where the caller's own key goes upstream. The gateway's is for nothing else
/// than what it counts.
pub async fn other(
    State(gateway): State<Arc<Gateway>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let nowhere = Refusal::no_such_path(request.uri().path());
    let Some(path) = plain_path(request.uri()) else { return nowhere.into_response() };
    let protocol: &dyn Protocol = match path.starts_with("/messages/") {
        true => &Messages,
        false => protocol::spoken(&gateway, request.headers()),
    };
    if protocol.upstream(&gateway).has_key() {
        return nowhere.into_response();
    }
    let method = request.method().clone();
    if !matches!(method, Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE)
    {
        return Refusal::no_such_method(request.uri().path()).into_response();
    }
    forward(gateway, protocol, peer, request, method, &path)
        .await
        .unwrap_or_else(IntoResponse::into_response)
}

/// What stands behind `/v1` in an address, if it can lead nowhere but there: no dots that climb, nothing that is
/// encoded, and no memory token.
fn plain_path(uri: &Uri) -> Option<String> {
    let path = uri.path().strip_prefix("/v1")?;
    let mut parts = path.strip_prefix('/')?.split('/');
    let is_plain = |part: &str| {
        let is_letter = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-' | b':')
        };
        !part.is_empty() && !matches!(part, "." | "..") && part.bytes().all(is_letter)
    };
    let first = parts.clone().next()?;
    if NOWHERE.contains(&first) || !parts.all(is_plain) {
        return None;
    }
    let whole = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    (!holds_token(whole.as_bytes())).then_some(whole)
}

async fn forward(
    gateway: Arc<Gateway>,
    protocol: &dyn Protocol,
    peer: SocketAddr,
    request: Request,
    method: Method,
    path: &str,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let upstream = protocol.upstream(&gateway);
    let (person, permit) = gateway.admit(&head, peer.ip(), upstream.has_key()).await?;
    protocol::check_key(protocol, &gateway, &head.headers)?;
    let body = gateway.body(&head, body, &permit).await?;
    if upstream.has_key() {
        let text = std::str::from_utf8(&body);
        let text = text.map_err(|_| Refusal::invalid("the body is not UTF-8"))?;
        gateway.stored_ids.check(&person.caller, text)?;
    }
    // To ask which models there are, or to have tokens counted, costs nothing.
    let is_free = method == Method::GET || path.starts_with(COUNT_TOKENS);
    let guess = match is_free || !upstream.has_key() {
        true => None,
        false => gateway.spending.begin(&person, body.len(), None).await?,
    };
    let answer = upstream.send(method, path, &head.headers, &person.caller, body).await;
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(reason) => {
            if let Some(guess) = guess {
                guess.settle(&gateway, &permit, 0);
            }
            return Err(Refusal::no_upstream(reason));
        }
    };
    let Some(guess) = guess else {
        return Ok(answer.relayed(Vec::new(), &gateway, permit).await);
    };
    if !answer.status().is_success() {
        guess.settle(&gateway, &permit, 0);
        return Ok(answer.relayed(Vec::new(), &gateway, permit).await);
    }
    let mut bytes = Vec::new();
    while bytes.len() <= MAX_ANSWER_BYTES && gateway.answers.holds(bytes.len(), &permit) {
        match answer.next().await.map_err(Refusal::no_upstream)? {
            Some(chunk) => bytes.extend_from_slice(&chunk),
            None => {
                if let Some(usage) = Usage::of_answer(&bytes) {
                    guess.settle(&gateway, &permit, usage.total());
                }
                break;
            }
        }
    }
    Ok(answer.relayed(bytes, &gateway, permit).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_but_behind_the_upstreams_address() {
        let plain = |uri: &str| plain_path(&uri.parse().unwrap());
        for (uri, expected) in [
            ("/v1/files", "/files"),
            ("/v1/responses/resp_1?stream=true&a=%2F..", "/responses/resp_1?stream=true&a=%2F.."),
            ("/v1/models/ft:gpt-4o:my-org::id", "/models/ft:gpt-4o:my-org::id"),
            ("/v1/a..b/..c", "/a..b/..c"),
        ] {
            assert_eq!(plain(uri).as_deref(), Some(expected), "{uri}");
        }
        let token = format!("mat_{}", "0a".repeat(32));
        for uri in [
            "/v1",
            "/v1/",
            "/v1/files/",
            "/v1//files",
            "/v1/../admin",
            "/v1/files/..",
            "/v1/./files",
            "/v1/%2e%2e/admin",
            "/v1/files%2F..",
            "/v1/@other.example/x",
            "/v1/a\\b",
            "/v1/memories/x/y",
            "/v1/ping",
            "/v1/v1/models",
            "/v2/files",
            &format!("/v1/files/{token}"),
            &format!("/v1/files?key={token}"),
        ] {
            if let Ok(uri) = uri.parse() {
                assert_eq!(plain_path(&uri), None, "{uri}");
            }
        }
    }
}
