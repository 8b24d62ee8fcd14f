//! The protocols that a chat may come in. Reading the request, recall, storing, streaming and hang-ups are the
//! same for all of them; here is what differs: the form of a request, what an answer says and where it ends, and
//! where a client of the protocol accepts what is said about memory.

mod completions;
mod messages;
mod responses;

pub use completions::Completions;
pub use messages::Messages;
pub use responses::Responses;

use crate::chat::answer::Answer;
use crate::chat::chat_form::Form;
use crate::chat::sse::Event;
use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::upstream::Upstream;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use uuid::Uuid;

/// What Anthropic's clients send with every request, and where they send a key.
const VERSION: &str = "anthropic-version";
const KEY: &str = "x-api-key";

/// Where a stream stands after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The answer goes on.
    Open,
    /// The same; this event says what the answer took, and nothing else.
    Counted,
    /// Everything is said; this event and those after it wait until the answer is stored.
    Closing,
    /// The same, and no event comes after this one.
    Over,
}

/// What one protocol does in its own way.
pub trait Protocol: Send + Sync {
    /// How its requests look.
    fn form(&self) -> &'static Form;

    /// Where requests go upstream, by the query of the request: fixed words, whatever a client sends.
    fn path(&self, query: Option<&str>) -> &'static str;

    /// Whether it is Anthropic's: then its service and its clients are.
    fn is_anthropics(&self) -> bool {
        false
    }

    /// The service that answers.
    fn upstream<'a>(&self, gateway: &'a Gateway) -> &'a Upstream {
        if self.is_anthropics() { &gateway.messages_upstream } else { &gateway.upstream }
    }

    /// Takes the data of an event, or a whole answer. What is neither is passed over.
    fn take(&self, answer: &mut Answer, data: &str) -> Stage;

    /// The event with the memories in it; unchanged if it cannot hold them.
    ///
    /// # Errors
    /// The unchanged event.
    fn with_hits(&self, event: Event, hits: &str) -> Result<Event, Event>;

    /// The events that waited, with the news that the answer is stored.
    fn with_stored(&self, waited: Vec<Event>, answer: &Answer, id: Uuid) -> Vec<Event>;

    /// An error in the middle of a stream.
    fn error(&self, refusal: &Refusal) -> Event;
}

/// The protocol of a path that both services have, as the client's headers say it.
pub fn spoken(gateway: &Gateway, headers: &HeaderMap) -> &'static dyn Protocol {
    // Where the gateway has the key, a memory token may stand in the place of one.
    let has_key = headers.contains_key(KEY) && !gateway.upstream.has_key();
    if has_key || headers.contains_key(VERSION) { &Messages } else { &Completions }
}

/// Refuses a caller's key that is not for the service that it would go to.
///
/// # Errors
/// Which base URL is the right one.
pub fn check_key(
    protocol: &dyn Protocol,
    gateway: &Gateway,
    headers: &HeaderMap,
) -> Result<(), Refusal> {
    let is_one_service = gateway.upstream.base() == gateway.messages_upstream.base();
    if protocol.upstream(gateway).has_key() || is_one_service {
        return Ok(());
    }
    let is_anthropics = [VERSION, KEY].iter().any(|name| headers.contains_key(*name));
    let has_key =
        [AUTHORIZATION.as_str(), "api-key"].iter().any(|name| headers.contains_key(*name));
    match (protocol.is_anthropics(), is_anthropics) {
        (false, true) => Err(Refusal::invalid(
            "anthropic-version and x-api-key are of Anthropic's API, and this path is of OpenAI's: \
             the base URL for Anthropic's clients is the gateway's address without /v1",
        )),
        (true, false) if has_key => Err(Refusal::invalid(
            "this path is of Anthropic's API, whose clients send anthropic-version: \
             the base URL for OpenAI's clients is the gateway's address with /v1",
        )),
        _ => Ok(()),
    }
}
