//! The protocols that a chat may come in. Reading the request, recall, storing, streaming and hang-ups are the
//! same for all of them; here is what differs: the form of a request, what an answer says and where it ends, and
//! where a client of the protocol accepts what is said about memory.

mod completions;
mod messages;
mod responses;

pub use completions::Completions;
pub use messages::Messages;
pub use responses::Responses;

use crate::answer::Answer;
use crate::chat_form::Form;
use crate::gateway::Gateway;
use crate::refusal::Refusal;
use crate::sse::Event;
use crate::upstream::Upstream;
use uuid::Uuid;

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

    /// The service that answers.
    fn upstream<'a>(&self, gateway: &'a Gateway) -> &'a Upstream {
        &gateway.upstream
    }

    /// Takes the data of an event, or a whole answer. What is neither is passed over.
    fn take(&self, answer: &mut Answer, data: &str) -> Stage;

    /// The event with the memories in it; unchanged if it is none that can hold them.
    ///
    /// # Errors
    /// The unchanged event.
    fn with_hits(&self, event: Event, hits: &str) -> Result<Event, Event>;

    /// The events that waited, with the news that the answer is stored.
    fn with_stored(&self, waited: Vec<Event>, answer: &Answer, id: Uuid) -> Vec<Event>;

    /// An error in the middle of a stream.
    fn error(&self, refusal: &Refusal) -> Event;
}
