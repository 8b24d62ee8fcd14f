//! A message on its way through the gateway, and the answer as it comes back.

use crate::chat::Sent;
use crate::chat::sse::Splitter;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::{Method, Response, StatusCode, header};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tower_service::Service;

/// The longest answer that is read as a whole: an error, or a list of models.
const MAX_WHOLE: usize = 4 << 20;
/// Models that are named where one has to be chosen.
const NAMED: usize = 20;

/// The gateway, and the model that answers.
pub struct Talk {
    router: Router,
    model: String,
    key: Option<String>,
}

/// What came of a message.
#[derive(Debug, Default)]
pub struct Said {
    /// The text of the answer.
    pub answer: String,
    /// What was remembered; `None` without memory.
    pub hits: Option<Vec<Value>>,
    /// The request as it went upstream.
    pub request: Value,
    /// What was asked.
    pub question: String,
    /// What memory could not do, by the step.
    failed: String,
    is_stored: bool,
    is_interrupted: bool,
    /// What the upstream said instead of an end.
    problem: Option<String>,
}

impl Said {
    /// What the person should know beside the answer.
    pub fn notices(&self) -> Vec<&str> {
        let mut notices = Vec::new();
        if self.failed.contains("recall") {
            notices.push("Memory could not be asked: this answer is without it.");
        }
        // Where the answer is stored in the end, so is what it answers.
        if self.failed.contains("store") && !self.is_stored {
            notices.push("What you said could not be stored.");
        }
        if self.is_interrupted {
            notices.push("Stopped.");
        } else if let Some(problem) = &self.problem {
            notices.push(problem);
        } else if !self.is_stored && !self.answer.trim().is_empty() {
            notices.push("The answer could not be stored.");
        }
        notices
    }
}

impl Talk {
    pub fn new(router: Router) -> Self {
        let key = std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.trim().is_empty());
        Self { router, model: String::new(), key }
    }

    /// Takes the model that was named, or the only one that the service has.
    ///
    /// # Errors
    /// Which ones it has, or that it does not say.
    pub async fn choose_model(&mut self, named: Option<String>) -> Result<(), String> {
        if let Some(named) = named.filter(|named| !named.trim().is_empty()) {
            self.model = named;
            return Ok(());
        }
        let hint = "name one with --model";
        let response = self.send(Method::GET, "/v1/models", Body::empty(), Sent::default()).await;
        let is_there = response.status().is_success();
        let body = whole(response).await;
        let list: Value = serde_json::from_slice(&body).unwrap_or_default();
        if !is_there {
            return Err(format!("the models cannot be listed ({}): {hint}", problem(&list)));
        }
        let models = list["data"].as_array().into_iter().flatten();
        let mut names: Vec<&str> = models.filter_map(|model| model["id"].as_str()).collect();
        match names.as_slice() {
            [] => Err(format!("the service does not say which models it has: {hint}")),
            [only] => {
                self.model = (*only).to_owned();
                Ok(())
            }
            _ => {
                names.truncate(NAMED);
                Err(format!("the service has several models: {hint}, such as {}", names.join(", ")))
            }
        }
    }

    /// Sends the messages, of which the last is the user's, and shows the answer as it comes.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn say(
        &mut self,
        session: &str,
        messages: &[Value],
        show: impl Fn(&str),
    ) -> Result<Said, String> {
        let body = json!({
            "model": self.model, "messages": messages, "stream": true, "memory_id": session,
        });
        let sent = Sent::default();
        let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        let asking =
            self.send(Method::POST, "/v1/chat/completions", body.to_string().into(), sent.clone());
        let response = tokio::select! {
            response = asking => response,
            _ = interrupts.recv() => return Err("Stopped.".to_owned()),
        };
        let question =
            messages.last().and_then(|last| last["content"].as_str()).unwrap_or_default();
        let mut said = Said { question: question.to_owned(), ..Said::default() };
        let header =
            |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        said.failed = header("x-memory-failed").unwrap_or_default().to_owned();
        let streams = header(header::CONTENT_TYPE.as_str())
            .is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
        let status = response.status();
        if streams {
            said.listen(response, &mut interrupts, show).await;
        } else {
            let document: Value =
                serde_json::from_slice(&whole(response).await).unwrap_or_default();
            if !status.is_success() {
                return Err(format!("{}: {}", status.as_u16(), problem(&document)));
            }
            said.take(&document, &show);
        }
        said.request =
            sent.0.get().and_then(|sent| serde_json::from_str(sent).ok()).unwrap_or_default();
        Ok(said)
    }

    async fn send(&mut self, method: Method, path: &str, body: Body, sent: Sent) -> Response<Body> {
        let here = ConnectInfo(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost")
            .header(header::CONTENT_TYPE, "application/json")
            .extension(here)
            .extension(sent);
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        match request.body(body) {
            Ok(request) => match self.router.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
            // A key that no header can hold.
            Err(_) => {
                let mut response = Response::new(Body::from(
                    r#"{"error":{"message":"OPENAI_API_KEY is not one line of text"}}"#,
                ));
                *response.status_mut() = StatusCode::BAD_REQUEST;
                response
            }
        }
    }
}

impl Said {
    /// Takes a stream to its end, or until the person has enough of it.
    async fn listen(
        &mut self,
        response: Response<Body>,
        interrupts: &mut Signal,
        show: impl Fn(&str),
    ) {
        let mut pieces = response.into_body().into_data_stream();
        let mut splitter = Splitter::default();
        let mut has_end = false;
        loop {
            let piece = tokio::select! {
                piece = pieces.next() => piece,
                _ = interrupts.recv() => {
                    self.is_interrupted = true;
                    return;
                }
            };
            let Some(Ok(piece)) = piece else { break };
            splitter.feed(&piece);
            while let Some(event) = splitter.next_event() {
                let Some(data) = event.data() else { continue };
                has_end |= data.trim() == "[DONE]";
                if let Ok(chunk) = serde_json::from_str(&data) {
                    self.take(&chunk, &show);
                }
            }
        }
        if !has_end && self.problem.is_none() {
            self.problem = Some("The answer broke off.".to_owned());
        }
    }

    /// Takes a chunk of an answer, or a whole one.
    fn take(&mut self, chunk: &Value, show: &impl Fn(&str)) {
        if let Some(hits) = chunk["memory_hits"].as_array() {
            self.hits = Some(hits.clone());
        }
        self.is_stored |= chunk["memory_stored"].is_string();
        if chunk["error"].is_object() {
            self.problem = Some(problem(chunk));
        }
        let choice = &chunk["choices"][0];
        for part in ["delta", "message"] {
            if let Some(text) = choice[part]["content"].as_str() {
                self.answer.push_str(text);
                show(text);
            }
        }
    }
}

/// What an error of OpenAI's form says.
fn problem(document: &Value) -> String {
    let message = document["error"]["message"].as_str().or(document["error"].as_str());
    message.unwrap_or("no reason is given").to_owned()
}

/// A body that is short, or as much of it as is read.
async fn whole(response: Response<Body>) -> Vec<u8> {
    let mut pieces = response.into_body().into_data_stream();
    let mut read: Vec<u8> = Vec::new();
    while let Some(Ok(piece)) = pieces.next().await {
        let piece: Bytes = piece;
        read.extend_from_slice(&piece);
        if read.len() > MAX_WHOLE {
            break;
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_told_what_memory_did_not_do() {
        let fine = Said { is_stored: true, answer: "Yes.".to_owned(), ..Said::default() };
        assert!(fine.notices().is_empty());
        let silent = Said::default();
        assert!(silent.notices().is_empty(), "nothing was said that could be stored");
        let failed = Said {
            failed: "recall,store".to_owned(),
            answer: "Yes.".to_owned(),
            ..Said::default()
        };
        let expected = [
            "Memory could not be asked: this answer is without it.",
            "What you said could not be stored.",
            "The answer could not be stored.",
        ];
        assert_eq!(failed.notices(), expected);
        let late = Said { failed: "store".to_owned(), is_stored: true, ..Said::default() };
        assert!(late.notices().is_empty(), "it was stored in the end");
        let stopped = Said { is_interrupted: true, answer: "Ye".to_owned(), ..Said::default() };
        assert_eq!(stopped.notices(), ["Stopped."]);
    }

    #[test]
    fn chunks_become_an_answer() {
        let mut said = Said::default();
        let shown = std::cell::RefCell::new(String::new());
        let show = |text: &str| shown.borrow_mut().push_str(text);
        for chunk in [
            json!({"choices": [{"delta": {"role": "assistant"}}], "memory_hits": [{"content": "x"}]}),
            json!({"choices": [{"delta": {"content": "As "}}]}),
            json!({"choices": [{"delta": {"content": "said."}}]}),
            json!({"choices": [], "usage": {}}),
            json!({"choices": [{"delta": {}}], "memory_stored": "id"}),
        ] {
            said.take(&chunk, &show);
        }
        assert_eq!((said.answer.as_str(), shown.into_inner().as_str()), ("As said.", "As said."));
        assert_eq!((said.is_stored, said.hits.map(|hits| hits.len())), (true, Some(1)));
        assert_eq!(problem(&json!({"error": {"message": "No."}})), "No.");
    }
}
