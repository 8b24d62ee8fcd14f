//! From a request to an answer: who asks, whether a form is one of the page's own, and what every answer
//! says in its headers.

use super::frame::{self, Here};
use super::uploads::{self, Fields, Upload};
use super::visits::{self, Cookie};
use super::{Page, ROOT};
use crate::db::cause::Cause;
use crate::db::memory::{End, MemoryError, Param};
use crate::gateway::Permit;
use crate::people::admins::Admins;
use crate::people::authentication::{Person, TOKEN_HEADER};
use crate::refusal::{Code, Refusal};
use axum::extract::Request;
use axum::http::header::{self, AUTHORIZATION, HeaderValue};
use axum::http::{HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::Markup;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::Row;

/// Nothing comes from elsewhere, nothing in the text of a page is run or changes its looks, no other site
/// shows it in a frame, and forms go nowhere else.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// The field of every form that says it is the page's own.
pub const FORM_TOKEN: &str = "form_token";

/// Who looks at the page.
pub struct Visit {
    pub page: Arc<Page>,
    pub person: Person,
    /// See [`FORM_TOKEN`].
    pub form_token: String,
    /// Whether there is something to sign out of.
    pub has_signed_in: bool,
    cookie: Cookie,
    /// Held until the answer is there.
    _permit: Permit,
    _import: Option<Import>,
}

/// That a user sends files: only once at a time.
type Import = Arc<OwnedSemaphorePermit>;

impl Visit {
    /// Signs out: the visit is over, and the browser forgets its name.
    pub fn end(&self, response: &mut Response) {
        self.page.visits.end(&self.cookie);
        for cookie in visits::forgotten() {
            set_cookie(response, &cookie);
        }
    }
}

/// A request that was let in.
pub struct Asked {
    pub visit: Arc<Visit>,
    pub path: String,
    pub query: Fields,
    pub form: Fields,
    pub files: Vec<Upload>,
    /// The address of the gateway, as the browser has it.
    pub origin: String,
}

/// What a view comes to.
pub enum Answer {
    /// A page, with its title.
    Page(Here, String, Markup),
    /// Another page is to be looked at.
    See(String),
    /// Something that is no page.
    Other(Box<Response>),
}

/// Why there is nothing to show.
#[derive(Debug)]
pub struct Trouble {
    pub status: StatusCode,
    pub message: String,
    pub hint: Option<String>,
    /// For the count of refusals.
    code: Option<Code>,
    retry_after: Option<HeaderValue>,
}

impl Asked {
    /// The id that the path names.
    ///
    /// # Errors
    /// That it names none.
    pub fn id(&self) -> Result<uuid::Uuid, Trouble> {
        let part = self.path.split('/').nth(3).unwrap_or_default();
        uuid::Uuid::parse_str(part).map_err(|_| Trouble::nothing_here())
    }

    /// The address of this view without what was just done in it, to come back to.
    pub fn here(&self) -> String {
        self.but_for(&["done", "ids"])
    }

    /// The address of this view without some fields.
    pub fn but_for(&self, names: &[&str]) -> String {
        match self.query.without(names) {
            query if query.is_empty() => self.path.clone(),
            query => format!("{}?{query}", self.path),
        }
    }

    /// Whose memory this is about.
    pub fn user_id(&self) -> &str {
        &self.visit.person.user_id
    }

    /// Asks memory.
    ///
    /// # Errors
    /// What memory says.
    pub async fn rows(&self, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Trouble> {
        self.run(sql, params, End::Commit).await
    }

    /// Asks memory, and keeps what that does or not.
    ///
    /// # Errors
    /// What memory says.
    pub async fn run(
        &self,
        sql: &str,
        params: &[Param<'_>],
        end: End,
    ) -> Result<Vec<Row>, Trouble> {
        let memory = &self.visit.page.gateway.memory;
        let outcome = memory.ask(self.user_id(), sql, params, end).await;
        outcome.map_err(|error| self.trouble(&error))
    }

    /// The administrators' connection, if this is one of them.
    pub fn admins(&self) -> Option<&Admins> {
        self.visit.page.gateway.admins_with(&self.visit.person)
    }

    /// Why memory did not answer.
    pub fn trouble(&self, error: &MemoryError) -> Trouble {
        let trouble = Trouble::from(error);
        // A malformed request is not a failure of memory.
        if trouble.status.is_server_error() {
            self.visit.page.gateway.missed("page", error);
        }
        trouble
    }
}

impl Trouble {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), hint: None, code: None, retry_after: None }
    }

    pub fn nothing_here() -> Self {
        let hint = "The link may be wrong, or cut off.".to_owned();
        let message = "There is no such page.";
        Self { hint: Some(hint), ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    /// That there is no such memory, or session.
    pub fn gone(what: &str) -> Self {
        let hint = "It may have been erased: what is erased leaves nothing behind.".to_owned();
        let message = format!("There is no such {what}.");
        Self { hint: Some(hint), ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    /// What it is called.
    pub fn title(&self) -> &'static str {
        match self.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::SERVICE_UNAVAILABLE => "Memory cannot be reached",
            StatusCode::TOO_MANY_REQUESTS => "Not now",
            StatusCode::CONFLICT => "That is not possible",
            _ => "That did not work",
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        let mut trouble = Self::new(refusal.status(), sentence(refusal.message()));
        let response = refusal.into_response();
        trouble.code = response.extensions().get::<Code>().copied();
        trouble.retry_after = response.headers().get(header::RETRY_AFTER).cloned();
        trouble
    }
}

impl From<&MemoryError> for Trouble {
    fn from(error: &MemoryError) -> Self {
        let MemoryError::Refused(said) = error else {
            let hint = "Nothing is lost. Try again in a moment; the administrator can see why.";
            let message = sentence(&error.to_string());
            let trouble = Self::new(StatusCode::SERVICE_UNAVAILABLE, message);
            return Self { hint: Some(hint.to_owned()), ..trouble };
        };
        let status = match said.cause() {
            Cause::Unknown => StatusCode::NOT_FOUND,
            Cause::NotPermitted => StatusCode::FORBIDDEN,
            Cause::Exists
            | Cause::ReadOnly
            | Cause::WrongKind
            | Cause::OverQuota
            | Cause::WrongState => StatusCode::CONFLICT,
            cause if cause.is_about_what_was_sent() => StatusCode::BAD_REQUEST,
            _ => {
                let message = format!("The database could not do this: SQLSTATE {}.", said.code);
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, message);
            }
        };
        Self { hint: said.hint.clone(), ..Self::new(status, sentence(&said.message)) }
    }
}

/// A message of a program as a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(char::to_uppercase);
    let end = if message.ends_with(['.', '?', '!']) { "" } else { "." };
    first.into_iter().flatten().chain(letters).collect::<String>() + end
}

/// Answers a request for the page.
pub async fn answer<Show, Shown>(
    page: Arc<Page>,
    peer: SocketAddr,
    request: Request,
    show: Show,
) -> Response
where
    Show: Fn(Asked) -> Shown,
    Shown: Future<Output = Result<Answer, Trouble>>,
{
    let known = Cookie::read(request.headers());
    let is_secure = visits::is_secure(request.headers());
    let Some(cookie) = known.clone().or_else(|| page.visits.new_cookie()) else {
        return frame::trouble(None, &Trouble::nothing_here());
    };
    let (mut response, is_one) = match admit(&page, peer, request, &cookie).await {
        Ok(asked) => {
            let visit = Arc::clone(&asked.visit);
            let response = match show(asked).await {
                Ok(Answer::Page(here, title, body)) => {
                    frame::page(Some(&visit), here, &title, &body)
                }
                Ok(Answer::See(path)) => see(&path),
                Ok(Answer::Other(response)) => *response,
                Err(trouble) => frame::trouble(Some(&visit), &trouble),
            };
            (response, !visit.has_signed_in)
        }
        Err(Stopped::AtTheDoor(path)) => (see(path), false),
        Err(Stopped::By(trouble)) => (frame::trouble(None, &trouble), false),
    };
    if is_one && known.is_none() {
        set_cookie(&mut response, &cookie.set(is_secure));
    }
    with_headers(response)
}

/// Why a request was not let in.
enum Stopped {
    /// The visitor has to sign in.
    AtTheDoor(&'static str),
    By(Trouble),
}

impl From<Trouble> for Stopped {
    fn from(trouble: Trouble) -> Self {
        Self::By(trouble)
    }
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::By(refusal.into())
    }
}

async fn admit(
    page: &Arc<Page>,
    peer: SocketAddr,
    request: Request,
    cookie: &Cookie,
) -> Result<Asked, Stopped> {
    let (mut head, body) = request.into_parts();
    let is_form = head.method == Method::POST;
    if is_form && !visits::is_from_here(&head.headers) {
        return Err(not_ours().into());
    }
    // Only a cookie counts here: what a program sends with its requests is for the other paths.
    head.headers.remove(AUTHORIZATION);
    head.headers.remove(TOKEN_HEADER);
    let has_signed_in = !page.gateway.authenticator.is_for_one();
    if has_signed_in {
        let Some(token) = page.visits.token(cookie, Instant::now()) else {
            return Err(Stopped::AtTheDoor("/ui/login"));
        };
        head.headers.insert(TOKEN_HEADER, token);
    }
    let (person, permit) = match page.gateway.admit(&head, peer.ip(), false).await {
        Ok(admitted) => admitted,
        Err(refusal) if refusal.status() == StatusCode::UNAUTHORIZED => {
            page.visits.end(cookie);
            return Err(Stopped::AtTheDoor("/ui/login?ended=yes"));
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let query = Fields::read(head.uri.query().unwrap_or_default().as_bytes());
    let (mut form, mut files, mut import) = (Fields::default(), Vec::new(), None);
    if is_form {
        if uploads::may_have_files(&head.headers) {
            let turn = page.imports.of(&person.user_id).try_acquire_owned();
            import = Some(Arc::new(turn.map_err(|_| importing())?));
        }
        let body = page.gateway.body(&head, body, &permit).await?;
        let kept = (Arc::clone(&page.gateway), Arc::clone(&permit), import.clone());
        let take_room = move |bytes| Ok(kept.0.make_room(bytes, &kept.1)?);
        (form, files) = uploads::read(&head.headers, body, Box::new(take_room)).await?;
        let token = form.get(FORM_TOKEN).unwrap_or_default();
        if !page.visits.is_form_token(cookie, token) {
            return Err(not_ours().into());
        }
    }
    let form_token = page.visits.form_token(cookie);
    let (page, cookie) = (Arc::clone(page), cookie.clone());
    let visit =
        Visit { page, person, form_token, has_signed_in, cookie, _permit: permit, _import: import };
    let visit = Arc::new(visit);
    let scheme = if visits::is_secure(&head.headers) { "https" } else { "http" };
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = format!("{scheme}://{}", host.unwrap_or("127.0.0.1:8765"));
    Ok(Asked { visit, path: head.uri.path().to_owned(), query, form, files, origin })
}

fn importing() -> Trouble {
    let message = "An import of yours is running. Wait until it has ended.";
    Trouble::new(StatusCode::TOO_MANY_REQUESTS, message)
}

/// The form of another site, or of a visit that is over.
pub fn not_ours() -> Trouble {
    let hint = "Open the page anew, and try again.".to_owned();
    let message = "This form does not come from this page, or has expired.";
    Trouble { hint: Some(hint), ..Trouble::new(StatusCode::FORBIDDEN, message) }
}

/// Has the browser look at another page.
pub fn see(path: &str) -> Response {
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(ROOT));
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// Adds a cookie to an answer.
pub fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// What every answer says to the browser. The origin of a form is sent with it, and nothing of an address
/// to other sites.
pub fn with_headers(mut response: Response) -> Response {
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

impl Trouble {
    /// Adds to an answer what it says beside the text.
    pub fn mark(&self, response: &mut Response) {
        *response.status_mut() = self.status;
        if let Some(code) = self.code {
            response.extensions_mut().insert(code);
        }
        if let Some(wait) = &self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, wait.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sentences() {
        assert_eq!(sentence("the body broke off"), "The body broke off.");
        assert_eq!(sentence("Done?"), "Done?");
        assert_eq!(sentence(""), ".");
    }
}
