//! Signing in with a token, and out. The token comes in the body of a form, never in an address, and is
//! tried like those of programs, with the same bound on wrong ones.

use super::frame::{self, Here};
use super::request::{self, Answer, Asked, FORM_TOKEN, Trouble, not_ours, see, with_headers};
use super::uploads::Fields;
use super::visits::{self, Cookie};
use super::{Page, ROOT};
use crate::people::authentication::TOKEN_HEADER;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::response::Response;
use maud::{Markup, html};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who has not signed in may send so much, and take so long.
const MAX_BYTES: usize = 16 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// `GET /ui/login`.
pub async fn show(State(page): State<Arc<Page>>, request: Request) -> Response {
    if page.gateway.authenticator.is_for_one() {
        return with_headers(see(ROOT));
    }
    let query = Fields::read(request.uri().query().unwrap_or_default().as_bytes());
    let problem = query.get("ended").map(|_| "Your token has ended, or was revoked.");
    let known = Cookie::read(request.headers());
    let Some(cookie) = known.clone().or_else(|| page.visits.new_cookie()) else {
        return frame::trouble(None, &Trouble::nothing_here());
    };
    let body = form(&page.visits.form_token(&cookie), problem);
    let mut response = frame::page(None, Here::Elsewhere, "Sign in", &body);
    if known.is_none() {
        request::set_cookie(&mut response, &cookie.set(visits::is_secure(request.headers())));
    }
    response
}

fn form(form_token: &str, problem: Option<&str>) -> Markup {
    html! {
        section.login {
            h1 { "Sign in" }
            p { "With a memory token. An administrator makes one with " code { "memory_create_token" } "." }
            form method="post" action="/ui/login" {
                input type="hidden" name=(FORM_TOKEN) value=(form_token);
                @if let Some(problem) = problem { p.note.bad #problem role="alert" { (problem) } }
                label for="token" { "Token" }
                input #token type="password" name="token" required autofocus autocomplete="current-password"
                    aria-describedby=[problem.map(|_| "problem")];
                div.actions { button.primary type="submit" { "Sign in" } }
            }
        }
    }
}

/// `POST /ui/login`.
pub async fn enter(
    State(page): State<Arc<Page>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    match try_token(&page, peer, request).await {
        Ok(response) => with_headers(response),
        Err(trouble) => frame::trouble(None, &trouble),
    }
}

async fn try_token(
    page: &Arc<Page>,
    peer: SocketAddr,
    request: Request,
) -> Result<Response, Trouble> {
    let (mut head, body) = request.into_parts();
    let is_secure = visits::is_secure(&head.headers);
    if !visits::is_from_here(&head.headers) {
        return Err(not_ours());
    }
    let body = tokio::time::timeout(PATIENCE, to_bytes(body, MAX_BYTES)).await;
    let body = body.ok().and_then(Result::ok).ok_or_else(not_ours)?;
    let fields = Fields::read(&body);
    // An attacker who made a visitor sign in with the attacker's token would read what is stored from then on.
    let cookie = Cookie::read(&head.headers).ok_or_else(not_ours)?;
    if !page.visits.is_form_token(&cookie, fields.get(FORM_TOKEN).unwrap_or_default()) {
        return Err(not_ours());
    }
    let token = fields.get("token").unwrap_or_default().trim();
    let token = HeaderValue::from_str(token).unwrap_or(HeaderValue::from_static("?"));
    head.headers.remove(AUTHORIZATION);
    head.headers.insert(TOKEN_HEADER, token.clone());
    let caller = match page.gateway.admit(&head, peer.ip(), false).await {
        Ok((person, _)) => person.caller,
        Err(refusal) if refusal.status() == axum::http::StatusCode::UNAUTHORIZED => {
            let form = form(
                &page.visits.form_token(&cookie),
                Some("This token is unknown, or has expired."),
            );
            let mut response = frame::page(None, Here::Elsewhere, "Sign in", &form);
            Trouble::from(refusal).mark(&mut response);
            return Ok(response);
        }
        Err(refusal) => return Err(refusal.into()),
    };
    // A name that was known before the visitor signed in may be known to others.
    page.visits.end(&cookie);
    let cookie = page.visits.new_cookie().ok_or_else(not_ours)?;
    page.visits.begin(&cookie, caller, token, Instant::now());
    let mut response = see(ROOT);
    request::set_cookie(&mut response, &cookie.set(is_secure));
    Ok(response)
}

/// `POST /ui/logout`.
///
/// # Errors
/// None.
pub async fn leave(asked: Asked) -> Result<Answer, Trouble> {
    let mut response = see("/ui/login");
    asked.visit.end(&mut response);
    Ok(Answer::Other(Box::new(response)))
}
