//! The model server seen from a PostgreSQL process: one connection a process, kept open from call to
//! call, and what is asked over it.

use super::connection::{CallOptions, Connection, Patience};
use super::interface::{Failure, Models, Prepared};
use super::supervisor_state;
use memory_agent_model_server::protocol::{
    ChatOutcome, ChatRequest, Conversation, Encoding, ModelDescription, ModelRef, Purpose, Request,
    Response, ServerStatus,
};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// After a failure, calls within this time fail at once instead of waiting again.
const FAILURE_MEMORY: Duration = Duration::from_secs(1);
thread_local! {
    static CONNECTION: RefCell<Option<Connection>> = const { RefCell::new(None) };
    static LAST_FAILURE: RefCell<Option<Remembered>> = const { RefCell::new(None) };
}

/// The last failure of this process.
#[derive(Clone)]
struct Remembered {
    at: Instant,
    failure: Failure,
}

fn remembered() -> Option<Failure> {
    LAST_FAILURE
        .with_borrow(|last| last.clone().filter(|last| last.at.elapsed() < FAILURE_MEMORY))
        .map(|last| last.failure)
}

/// Inference by the cluster's model server.
pub struct ServerModels;

impl Models for ServerModels {
    fn prepare(
        &self,
        model: Option<&ModelRef>,
        purpose: Purpose,
        texts: Vec<String>,
        token_texts: Vec<String>,
    ) -> Result<Prepared, Failure> {
        let expected = (texts.len(), token_texts.len());
        let request = Request::Prepare { model: model.cloned(), purpose, texts, token_texts };
        call(&request, &CallOptions::of_inference(), |response| match response {
            Response::Prepared { embeddings, token_counts }
                if (embeddings.len(), token_counts.len()) == expected
                    && embeddings.iter().all(|windows| !windows.is_empty())
                    && embeddings.iter().flatten().flatten().all(|value| value.is_finite()) =>
            {
                Ok(Prepared { embeddings, token_counts })
            }
            other => Err(other),
        })
    }

    fn count(&self, encoding: Encoding, texts: Vec<String>) -> Result<Vec<u32>, Failure> {
        let expected = texts.len();
        let request = Request::Count { encoding, texts };
        call(&request, &CallOptions::of_inference(), |response| match response {
            Response::Prepared { token_counts, .. } if token_counts.len() == expected => {
                Ok(token_counts)
            }
            other => Err(other),
        })
    }

    fn rerank(
        &self,
        model: &ModelRef,
        query: &str,
        documents: Vec<String>,
        waits: bool,
    ) -> Result<Option<Vec<f32>>, Failure> {
        let expected = documents.len();
        let (model, query) = (model.clone(), query.to_owned());
        let request = Request::Rerank { model, query, documents, waits };
        call(&request, &CallOptions::of_inference(), |response| match response {
            Response::Logits(Some(logits))
                if logits.len() == expected && logits.iter().all(|logit| logit.is_finite()) =>
            {
                Ok(Some(logits))
            }
            Response::Logits(None) if !waits => Ok(None),
            other => Err(other),
        })
    }

    fn describe(&self, model: &ModelRef) -> Result<ModelDescription, Failure> {
        let request = Request::Describe { model: model.clone() };
        call(&request, &CallOptions::of_inference(), |response| match response {
            Response::Description(description) => Ok(description),
            other => Err(other),
        })
    }
}

/// The server's own account of itself, for `memory_status()`. Asks for a start, but does not wait
/// for it.
pub fn status() -> Result<ServerStatus, Failure> {
    call(&Request::Status, &CallOptions::of_status(), |response| match response {
        Response::Status(status) => Ok(status),
        other => Err(other),
    })
}

/// Empties the server's caches. A server that does not run has none; it is not waited for.
pub fn flush_caches() -> Result<(), Failure> {
    call(&Request::FlushCaches, &CallOptions::of_status(), |response| match response {
        Response::Flushed => Ok(()),
        other => Err(other),
    })
}

/// Asks an LLM and waits for what comes of it, however long the settings let that take.
///
/// * `sending`: called before the question goes to the model server; from then on it may cost something.
///   It is called again when another connection has to be tried.
pub fn chat(request: ChatRequest, sending: &dyn Fn()) -> Result<ChatOutcome, Failure> {
    let endpoint = request.endpoint.clone();
    call(&Request::Chat(Box::new(request)), &CallOptions::of_chat(&endpoint, sending), outcome)
}

/// Passes a conversation on and waits for its next answer, as [`chat`] does.
pub fn converse(conversation: Conversation, sending: &dyn Fn()) -> Result<ChatOutcome, Failure> {
    let endpoint = conversation.endpoint.clone();
    call(
        &Request::Converse(Box::new(conversation)),
        &CallOptions::of_chat(&endpoint, sending),
        outcome,
    )
}

fn outcome(response: Response) -> Result<ChatOutcome, Response> {
    match response {
        Response::Chat(outcome) => Ok(outcome),
        other => Err(other),
    }
}

/// Sends a request and waits for its answer, which `accept` takes or gives back. A connection that
/// turns out to be dead, kept or new, is replaced once, unless it is lost while the server carries out
/// what may not be repeated. An answer of the wrong kind is nonsense: its connection is of no more use
/// either.
fn call<T>(
    request: &Request,
    options: &CallOptions<'_>,
    accept: impl Fn(Response) -> Result<T, Response>,
) -> Result<T, Failure> {
    let kept = CONNECTION.take();
    let was_kept = kept.is_some();
    // A statement that has waited in vain once does not wait again for its next step.
    if let (false, false, Some(failure)) = (was_kept, options.is_tried_anew(), remembered()) {
        return Err(failure);
    }
    let patience = options.patience;
    let fresh = || {
        Connection::open(options).and_then(|connection| connection.call(request, options, &accept))
    };
    let first = match kept {
        Some(connection) => connection.call(request, options, &accept),
        None => fresh(),
    };
    // A new connection may be dead too: a killed server's socket outlives it by a moment.
    let outcome = match first {
        Err(lost) if lost.may_retry => fresh(),
        outcome => outcome,
    };
    match outcome {
        Ok((connection, answer)) => {
            CONNECTION.set(Some(connection));
            LAST_FAILURE.set(None);
            answer
        }
        Err(lost) => {
            if lost.failure.is_outage && patience == Patience::ForStart {
                LAST_FAILURE
                    .set(Some(Remembered { at: Instant::now(), failure: lost.failure.clone() }));
            }
            if lost.failure.is_outage {
                supervisor_state::ask_to_check();
            }
            Err(lost.failure)
        }
    }
}
