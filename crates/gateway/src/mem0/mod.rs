//! The routes of mem0: those that the client of its platform calls (`MemoryClient`), and those of its own server.
//! A memory of mem0's is a fact here. Whose it is, the token says; a request may only agree.

mod history;
mod page_ends;
mod queries;
mod request;

use crate::db::cause::Cause;
use crate::db::memory::MemoryError;
use crate::gateway::{Gateway, Permit};
use crate::people::authentication::Person;
use crate::refusal::Refusal;
use axum::body::Body;
use axum::extract::{ConnectInfo, RawPathParams, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{RequestExt, Router};
use futures_util::future::BoxFuture;
pub use page_ends::PageEnds;
use queries::Page;
use request::{Fields, Scope, blank};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;

/// Memories on a page, where nothing else is said, and at most.
const PAGE: i64 = 100;
/// Memories that a search returns, where nothing else is said: as many as mem0's platform does.
const TOP_K: i64 = 10;

/// The paths.
pub fn routes() -> Router<Arc<Gateway>> {
    let one = || get(to(one)).put(to(update)).delete(to(forget));
    Router::new()
        .route("/v1/ping/", get(to(ping)))
        .route("/v3/memories/add/", post(to(add)))
        .route("/v3/memories/", post(to(list)))
        .route("/v3/memories/search/", post(to(search)))
        .route("/v1/memories/", delete(to(forget_all)))
        .route("/v1/memories/{id}/", one())
        .route("/v1/memories/{id}/history/", get(to(history)))
        .route("/memories", post(to(add)).get(to(list)).delete(to(forget_all)))
        .route("/memories/{id}", one())
        .route("/memories/{id}/history", get(to(history)))
        .route("/search", post(to(search)))
}

/// A request that was let in and read.
struct Call {
    gateway: Arc<Gateway>,
    person: Person,
    /// Until it is answered.
    _permit: Permit,
    /// The id in the path.
    id: Option<Uuid>,
    /// What its query and its body say.
    fields: Fields,
}

impl Call {
    async fn open(
        gateway: Arc<Gateway>,
        peer: SocketAddr,
        mut request: Request,
    ) -> Result<Self, Refusal> {
        let params: Option<RawPathParams> = request.extract_parts().await.ok();
        let id = params.as_ref().and_then(|params| params.iter().next());
        let id = id.map(|(_, id)| id.parse().map_err(|_| no_memory())).transpose()?;
        let (head, body) = request.into_parts();
        let (person, permit) = gateway.admit_here(&head, peer.ip()).await?;
        let body = gateway.body(&head, body, &permit).await?;
        let mut fields = Fields::read(head.uri.query(), &body)?;
        let person = person.acting_for(&head.headers, fields.named_user())?;
        fields.user_id.clone_from(&person.user_id);
        Ok(Self { gateway, person, _permit: permit, id, fields })
    }

    /// The id of the memory that the path names.
    fn memory(&self) -> Result<Uuid, Refusal> {
        self.id.ok_or_else(no_memory)
    }
}

/// What answers a path: JSON, as it is sent.
fn to<A>(
    answer: fn(Call) -> A,
) -> impl Fn(State<Arc<Gateway>>, ConnectInfo<SocketAddr>, Request) -> BoxFuture<'static, Response> + Clone
where
    A: Future<Output = Result<String, Refusal>> + Send + 'static,
{
    move |State(gateway), ConnectInfo(peer), request| {
        Box::pin(async move {
            let answered = match Call::open(gateway, peer, request).await {
                Ok(call) => answer(call).await,
                Err(refusal) => Err(refusal),
            };
            let json = HeaderValue::from_static("application/json");
            match answered {
                Ok(text) => ([(CONTENT_TYPE, json)], text).into_response(),
                Err(refusal) => refused(refusal),
            }
        })
    }
}

/// An error in the form of mem0's: its clients show `detail`.
fn refused(refusal: Refusal) -> Response {
    let mut document: Value = serde_json::from_str(&refusal.to_json()).unwrap_or_default();
    document["detail"] = document["error"]["message"].clone();
    let mut response = refusal.into_response();
    *response.body_mut() = Body::from(document.to_string());
    response
}

fn no_memory() -> Refusal {
    Refusal::no_such_memory("there is no such memory")
}

/// What a failure of the database is for the client.
fn failed(error: &MemoryError) -> Refusal {
    let MemoryError::Refused(said) = error else { return Refusal::no_memory(error.to_string()) };
    match said.cause() {
        // It was replaced or forgotten.
        Cause::WrongState => no_memory(),
        Cause::WrongKind => Refusal::invalid(
            "this memory is a passage of a document or a row of a table, which cannot be changed here",
        ),
        Cause::OverQuota => Refusal::over_quota(),
        cause if cause.is_an_argument() => {
            Refusal::invalid(format!("the database refused an argument: SQLSTATE {}", said.code))
        }
        _ => Refusal::no_memory(error.to_string()),
    }
}

/// `GET /v1/ping/`: the token was looked at. The client insists on an organisation and a project.
async fn ping(call: Call) -> Result<String, Refusal> {
    call.fields.end()?;
    let name = "memory-agent";
    Ok(json!({"status": "ok", "org_id": name, "project_id": name, "user_email": null}).to_string())
}

/// Stores messages as facts, or has facts inferred from them in the background.
async fn add(mut call: Call) -> Result<String, Refusal> {
    let scope = Scope::read(&mut call.fields)?;
    scope.without_times()?;
    let messages = call.fields.messages()?;
    let infers = call.fields.boolean("infer")?.unwrap_or(true);
    let at = call.fields.number("timestamp")?;
    let expires = call.fields.text("expiration_date")?;
    call.fields.end()?;
    let texts = match infers {
        true => vec![request::conversation(&messages)],
        // As mem0 does: what the system says is no memory.
        false => messages
            .into_iter()
            .filter(|message| message.role != "system")
            .map(|message| message.content)
            .collect(),
    };
    if texts.iter().all(|text| blank(text)) {
        return Err(Refusal::invalid("messages has no text"));
    }
    let added = queries::add(&call, &scope, &texts, infers, at, expires.as_deref()).await;
    added.map_err(|error| match error {
        MemoryError::Refused(said) if said.cause() == Cause::WrongState => Refusal::invalid(
            "facts can only be inferred with an LLM, and the database has none: send infer = false",
        ),
        other => failed(&other),
    })
}

/// All memories, a page of them.
async fn list(mut call: Call) -> Result<String, Refusal> {
    let scope = Scope::read(&mut call.fields)?;
    let limit = call.fields.whole("limit")?.or(call.fields.whole("top_k")?);
    let page = Page {
        number: call.fields.whole("page")?.unwrap_or(1).max(1),
        size: call.fields.whole("page_size")?.or(limit).unwrap_or(PAGE).clamp(1, PAGE * 10),
    };
    call.fields.end()?;
    queries::list(&call, &scope, page).await.map_err(|error| failed(&error))
}

/// The memories that answer a query.
async fn search(mut call: Call) -> Result<String, Refusal> {
    let scope = Scope::read(&mut call.fields)?;
    let query = call.fields.text("query")?.filter(|query| !blank(query));
    let query = query.ok_or_else(|| Refusal::invalid("query is missing or blank"))?;
    let limit = call.fields.whole("limit")?;
    let top_k = call.fields.whole("top_k")?.or(limit).unwrap_or(TOP_K);
    let threshold = call.fields.number("threshold")?;
    let rerank = call.fields.boolean("rerank")?;
    call.fields.end()?;
    let found = queries::search(&call, &scope, &query, top_k, threshold, rerank).await;
    found.map_err(|error| failed(&error))
}

/// One memory, by its id or by that of an earlier version.
async fn one(call: Call) -> Result<String, Refusal> {
    call.fields.end()?;
    let found = queries::one(&call, call.memory()?).await;
    found.map_err(|error| failed(&error))?.ok_or_else(no_memory)
}

/// Gives a memory another text.
async fn update(mut call: Call) -> Result<String, Refusal> {
    let mut text = None;
    for name in ["text", "data", "memory"] {
        text = text.or(call.fields.text(name)?);
    }
    call.fields.end()?;
    let text =
        text.ok_or_else(|| Refusal::invalid("text is missing: nothing else can be changed"))?;
    let updated = queries::update(&call, call.memory()?, &text).await;
    updated.map_err(|error| failed(&error))?.ok_or_else(no_memory)
}

/// Forgets a memory.
async fn forget(call: Call) -> Result<String, Refusal> {
    call.fields.end()?;
    let forgotten = queries::forget(&call, call.memory()?).await;
    if !forgotten.map_err(|error| failed(&error))? {
        return Err(no_memory());
    }
    Ok(json!({"message": "Memory deleted successfully!"}).to_string())
}

/// Forgets all memories of the user, or of an agent or a run of the user's.
async fn forget_all(mut call: Call) -> Result<String, Refusal> {
    let scope = Scope::read(&mut call.fields)?;
    call.fields.end()?;
    if !scope.is_named {
        return Err(Refusal::invalid("name user_id, agent_id or run_id"));
    }
    queries::forget_all(&call, &scope).await.map_err(|error| failed(&error))?;
    Ok(json!({"message": "Memories deleted successfully!"}).to_string())
}

/// What happened to a memory.
async fn history(call: Call) -> Result<String, Refusal> {
    call.fields.end()?;
    let id = call.memory()?;
    let events = queries::history(&call, id).await.map_err(|error| failed(&error))?;
    let events = history::told(id, &call.person.user_id, &events);
    if events.is_empty() { Err(no_memory()) } else { Ok(Value::from(events).to_string()) }
}
