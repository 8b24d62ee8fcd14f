//! Web pages of other origins that may ask the gateway, as `--allow-origin` names them. A browser asks first whether a
//! page may (a preflight), and shows the page no answer that does not name its origin. The gateway's own page is for
//! no other.

use crate::gateway::Gateway;
use crate::page;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// What pages may do.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE");
/// How long a browser remembers that, in seconds.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");
/// What a page of a public address asks for, to reach this machine.
const ASKS_FOR_PRIVATE: &str = "access-control-request-private-network";
const IS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");
/// What a browser says of a page, and what tells the gateway's own page from others.
const OF_PAGES: [&str; 4] = ["origin", "sec-fetch-dest", "sec-fetch-mode", "sec-fetch-site"];

/// Answers preflights, and vouches for requests of pages that are allowed: they go on as those of programs.
pub async fn allow(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    if gateway.origins.is_empty() || request.uri().path().starts_with(page::ROOT) {
        return next.run(request).await;
    }
    let origin = request.headers().get(ORIGIN).cloned();
    let origin = origin.filter(|origin| gateway.origins.iter().any(|one| origin == one.as_str()));
    let mut response = match &origin {
        Some(_) if is_preflight(&request) => preflight(request.headers()),
        Some(_) => {
            for name in OF_PAGES {
                request.headers_mut().remove(name);
            }
            next.run(request).await
        }
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
    response
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whatever headers the page wants to send, it may: none of them is a cookie.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    if asked.contains_key(ASKS_FOR_PRIVATE) {
        headers.insert(IS_PRIVATE, HeaderValue::from_static("true"));
    }
    response
}

/// Reads an origin as a browser writes it.
///
/// # Errors
/// What it looks like.
pub fn one_origin(text: &str) -> Result<String, String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        let is_host = |c: char| is_name(c) || "[]:_".contains(c);
        !scheme.is_empty()
            && scheme.chars().all(is_name)
            && !host.is_empty()
            && host.chars().all(is_host)
    });
    match is_origin {
        true => Ok(text.to_owned()),
        false => {
            Err("it needs an origin as browsers write it, such as http://localhost:3000".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_written_as_browsers_write_it() {
        for origin in [
            "http://localhost:3000",
            "https://chat.example",
            "app://obsidian.md",
            "http://[::1]:80",
        ] {
            assert_eq!(one_origin(origin).as_deref(), Ok(origin));
        }
        for other in [
            "*",
            "null",
            "",
            "localhost:3000",
            "http://",
            "http://a/",
            "http://A.example",
            "http://*.a",
            "://a",
        ] {
            assert!(one_origin(other).is_err(), "{other}");
        }
    }
}
