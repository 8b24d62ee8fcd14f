//! Embeddings of a model behind HTTP: what is sent, which answers are accepted, what is kept.

use base64::Engine as _;
use memory_agent_core::jobs::blame::HARMLESS;
use memory_agent_model_server::protocol::{
    Endpoint, ErrorCode, ModelKind, ModelRef, Provider, Purpose, RemoteEmbedder, Request, Response,
};
use serde_json::{Value, json};

use crate::common::{Server, single_windows};
use crate::http_stub::{Asked, Reply, Stub};
use crate::remote::{KEY, endpoint};

fn model(stub: &Stub) -> ModelRef {
    model_with(RemoteEmbedder { endpoint: endpoint(stub), dimension: Some(3), batch: 2 })
}

fn model_with(remote: RemoteEmbedder) -> ModelRef {
    ModelRef { name: "remote".to_owned(), directory: String::new(), remote: Some(Box::new(remote)) }
}

fn prepare(model: ModelRef, purpose: Purpose, texts: &[&str]) -> Request {
    Request::Prepare {
        model: Some(model),
        purpose,
        texts: texts.iter().map(ToString::to_string).collect(),
        token_texts: vec!["two words".to_owned()],
    }
}

/// An answer with these rows, numbered as given.
fn rows(rows: &[(usize, Value)]) -> Reply {
    let data: Vec<Value> =
        rows.iter().map(|(index, row)| json!({ "index": index, "embedding": row })).collect();
    Reply::json(200, json!({ "data": data, "model": "stub", "usage": { "prompt_tokens": 5 } }))
}

fn error(server: &Server, request: &Request) -> (ErrorCode, String) {
    match server.connect().call(request).unwrap() {
        Response::Error { code, message } => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_go_in_batches_and_come_back_in_order_with_length_one() {
    let stub = Stub::play([
        rows(&[(1, json!([0, 2, 0])), (0, json!([3, 0, 4]))]),
        rows(&[(0, json!([0, 0, -5]))]),
    ]);
    let server = Server::start();
    let request = prepare(model(&stub), Purpose::Document, &["a", "b", "c"]);
    let response = server.connect().call(&request).unwrap();
    let Response::Prepared { token_counts, .. } = &response else { panic!("{response:?}") };
    assert_eq!(token_counts, &[2]);
    assert_eq!(
        single_windows(response),
        [[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [0.0, 0.0, -1.0]].map(Vec::from)
    );
    let asked = stub.asked();
    assert_eq!(asked[0].line, "POST /v1/embeddings");
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(asked[0].body, json!({"model": "stub", "input": ["a", "b"], "dimensions": 3}));
    assert_eq!(asked[1].body["input"], json!(["c"]));
}

#[test]
fn base64_is_read_too() {
    let bytes: Vec<u8> = [0.0_f32, -1.0, 0.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let stub = Stub::play([rows(&[(0, json!(text))]), rows(&[(0, json!("AAAA!"))])]);
    let server = Server::start();
    let request = prepare(model(&stub), Purpose::Document, &["a"]);
    let response = server.connect().call(&request).unwrap();
    assert_eq!(single_windows(response), [[0.0, -1.0, 0.0]]);
    assert_eq!(error(&server, &request).0, ErrorCode::RemoteUnavailable);
}

#[test]
fn questions_are_remembered_until_the_caches_are_flushed() {
    let stub = Stub::always(rows(&[(0, json!([1, 0, 0]))]));
    let server = Server::start();
    let mut client = server.connect();
    let request = prepare(model(&stub), Purpose::Query, &["where?"]);
    let first = client.call(&request).unwrap();
    assert_eq!(client.call(&request).unwrap(), first);
    assert_eq!(stub.calls(), 1);
    client.call(&Request::FlushCaches).unwrap();
    client.call(&request).unwrap();
    assert_eq!(stub.calls(), 2);
    // Another model at the same address is another model.
    let mut other = model(&stub);
    other.remote.as_mut().unwrap().endpoint.model = "other".to_owned();
    client.call(&prepare(other, Purpose::Query, &["where?"])).unwrap();
    assert_eq!(stub.calls(), 3);
    for _ in 0..2 {
        client.call(&prepare(model(&stub), Purpose::Document, &["where?"])).unwrap();
    }
    assert_eq!(stub.calls(), 5);
}

#[test]
fn a_first_look_tells_the_dimension() {
    let stub = Stub::always(rows(&[(0, json!([1, 2, 3, 4]))]));
    let server = Server::start();
    let remote = RemoteEmbedder { endpoint: endpoint(&stub), dimension: None, batch: 64 };
    let request = Request::Describe { model: model_with(remote) };
    let response = server.connect().call(&request).unwrap();
    let Response::Description(description) = response else { panic!("{response:?}") };
    assert_eq!((description.kind, description.dimension), (ModelKind::Embedder, Some(4)));
    assert_eq!(description.name, "remote");
    assert_eq!(stub.asked()[0].body.get("dimensions"), None);
    assert_eq!(
        error(&server, &Request::Describe { model: model(&stub) }).0,
        ErrorCode::ModelInvalid
    );
}

#[test]
fn an_endpoint_that_lets_nobody_choose_the_length_is_asked_without() {
    let stub = Stub::play([Reply::error(400, "extra inputs are not permitted")]);
    stub.then(rows(&[(0, json!([1, 0, 0]))]));
    stub.then(rows(&[(0, json!([1, 0, 0]))]));
    let server = Server::start();
    for text in ["a", "b"] {
        let request = prepare(model(&stub), Purpose::Query, &[text]);
        single_windows(server.connect().call(&request).unwrap());
    }
    let dimensions: Vec<_> =
        stub.asked().iter().map(|asked| asked.body.get("dimensions").cloned()).collect();
    assert_eq!(dimensions, [Some(json!(3)), None, None]);
}

#[test]
fn embeddings_that_are_not_what_they_should_be_are_refused() {
    let one = |row: Value| rows(&[(0, row)]);
    for (reply, code, message) in [
        (one(json!([1, 0])), ErrorCode::ModelInvalid, "2 numbers instead of 3"),
        (one(json!([0, 0, 0])), ErrorCode::ModelInvalid, "all zeros"),
        (one(json!([1e300, 0, 0])), ErrorCode::ModelInvalid, "finite"),
        (one(json!(["a"])), ErrorCode::RemoteUnavailable, "not of the shape"),
        (rows(&[]), ErrorCode::RemoteUnavailable, "0 embeddings came for 1 texts"),
        (rows(&[(1, json!([1, 0, 0]))]), ErrorCode::RemoteUnavailable, "indexes"),
        (Reply::error(400, "no such model"), ErrorCode::RemoteUnavailable, "HTTP 400"),
        (Reply::error(500, "boom"), ErrorCode::RemoteUnavailable, "HTTP 500"),
        (Reply::error(401, KEY), ErrorCode::RemoteUnavailable, "HTTP 401"),
        (Reply::error(429, "slow"), ErrorCode::RemoteUnavailable, "HTTP 429"),
        (Reply::close(), ErrorCode::RemoteUnavailable, "connection lost"),
    ] {
        let stub = Stub::always(reply);
        let server = Server::start();
        let (actual, text) = error(&server, &prepare(model(&stub), Purpose::Query, &["a"]));
        assert_eq!(actual, code, "{text}");
        assert!(text.contains(message) && !text.contains(KEY), "{text}");
    }
}

/// A text that a filter refuses, or on which the endpoint fails, is its own failure while another is embedded.
#[test]
fn a_text_that_is_refused_stops_no_other() {
    let good = || rows(&[(0, json!([1, 0, 0]))]);
    for reply in [Reply::error(403, "flagged"), Reply::error(500, "boom"), Reply::close()] {
        let stub = Stub::play([]);
        let server = Server::start();
        for _ in 0..6 {
            stub.then(reply.clone());
            stub.then(good());
            let request = prepare(model(&stub), Purpose::Document, &["FLAGGED"]);
            let (code, text) = error(&server, &request);
            assert_eq!(code, ErrorCode::InvalidRequest, "{text}");
            let harmless = stub.asked().pop().unwrap().body;
            assert_eq!(
                (&harmless["input"], &harmless["dimensions"]),
                (&json!([HARMLESS]), &json!(3))
            );
        }
        stub.then(good());
        let request = prepare(model(&stub), Purpose::Document, &["good"]);
        single_windows(server.connect().call(&request).unwrap());
    }
}

#[test]
fn long_documents_get_several_windows() {
    let stub = Stub::always(rows(&[(0, json!([1, 0, 0])), (1, json!([0, 1, 0]))]));
    let server = Server::start();
    let text = "word ".repeat(5_000);
    let request = prepare(model(&stub), Purpose::Document, &[&text]);
    let response = server.connect().call(&request).unwrap();
    let Response::Prepared { embeddings, .. } = response else { panic!("{response:?}") };
    assert_eq!(embeddings, [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]].map(Vec::from)]);
    assert_eq!(stub.calls(), 1);
}

#[test]
fn windows_get_as_short_as_an_endpoint_wants_them() {
    let two = rows(&[(0, json!([1, 0, 0])), (1, json!([0, 1, 0]))]);
    let stub = Stub::play([Reply::error(413, "input must have less than 512 tokens")]);
    stub.then(two.clone());
    stub.then(two);
    let server = Server::start();
    let text = "words ".repeat(400);
    for _ in 0..2 {
        let request = prepare(model(&stub), Purpose::Document, &[&text]);
        let response = server.connect().call(&request).unwrap();
        let Response::Prepared { embeddings, .. } = response else { panic!("{response:?}") };
        assert_eq!(embeddings.iter().map(Vec::len).collect::<Vec<_>>(), [2]);
    }
    let asked = stub.asked();
    let windows = |asked: &Asked| asked.body["input"].as_array().unwrap().len();
    assert_eq!(asked.iter().map(windows).collect::<Vec<_>>(), [1, 2, 2]);
    assert!(asked.iter().all(|asked| asked.body["dimensions"] == 3));
}

#[test]
fn azure_has_embeddings_and_anthropic_has_none() {
    let stub = Stub::always(rows(&[(0, json!([1, 0, 0]))]));
    let server = Server::start();
    let remote = |provider| {
        let endpoint = Endpoint { provider, base_url: stub.url(), ..endpoint(&stub) };
        model_with(RemoteEmbedder { endpoint, dimension: None, batch: 1 })
    };
    let azure = prepare(remote(Provider::Azure), Purpose::Query, &["a"]);
    single_windows(server.connect().call(&azure).unwrap());
    assert_eq!(
        stub.asked()[0].line,
        "POST /openai/deployments/stub/embeddings?api-version=2024-10-21"
    );
    let (_, message) =
        error(&server, &prepare(remote(Provider::Anthropic), Purpose::Query, &["a"]));
    assert!(message.contains("no embeddings"), "{message}");
}

#[test]
fn a_remote_model_does_not_rerank() {
    let stub = Stub::play([]);
    let server = Server::start();
    let request = Request::Rerank {
        model: model(&stub),
        query: "where?".to_owned(),
        documents: vec!["here".to_owned()],
        waits: true,
    };
    let (code, message) = error(&server, &request);
    assert_eq!(code, ErrorCode::ModelInvalid);
    assert!(message.contains("remote"), "{message}");
    assert_eq!(stub.calls(), 0);
}
