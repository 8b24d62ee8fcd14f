//! What a user sees when a model, the library or a request is wrong, and that the server goes on.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;

use memory_agent_model_server::protocol::{
    ErrorCode, ModelRef, PROTOCOL_VERSION, Purpose, Request, Response,
};

use crate::common::{Server, TemporaryDirectory, embed_request, embedder, reranker, wait_until};

fn error(response: Response) -> (ErrorCode, String) {
    let Response::Error { code, message } = response else { panic!("{response:?}") };
    (code, message)
}

/// A copy of the embedder in which some files have other content; an empty content leaves the
/// file out.
fn altered_embedder(directory: &Path, files: &[(&str, &[u8])]) -> ModelRef {
    let source = embedder();
    for name in ["config.json", "tokenizer.json", "model.onnx"] {
        match files.iter().find(|(file, _)| *file == name) {
            Some((_, [])) => {}
            Some((_, content)) => std::fs::write(directory.join(name), content).unwrap(),
            None => {
                let original = Path::new(&source.directory).join(name);
                std::os::unix::fs::symlink(original, directory.join(name)).unwrap();
            }
        }
    }
    ModelRef { directory: directory.to_str().unwrap().to_owned(), ..source }
}

#[test]
fn broken_models_are_refused_with_the_reason_and_nothing_else_suffers() {
    let server = Server::start();
    let mut client = server.connect();
    let config = std::fs::read_to_string(format!("{}/config.json", embedder().directory)).unwrap();
    let wrong_dimension = config.replace("384", "383");
    let no_pooling = config.replace("\"cls\"", "null");
    let endless = config.replace("512", "51200");
    let cases: [(&str, &[u8], ErrorCode, &str); 10] = [
        ("config.json", b"", ErrorCode::ModelMissing, "config.json"),
        ("config.json", b"{}", ErrorCode::ModelInvalid, "no file says what kind"),
        ("config.json", wrong_dimension.as_bytes(), ErrorCode::ModelInvalid, "383"),
        ("config.json", no_pooling.as_bytes(), ErrorCode::ModelInvalid, "shape"),
        ("config.json", endless.as_bytes(), ErrorCode::ModelInvalid, "max_tokens 51200"),
        ("tokenizer.json", b"", ErrorCode::ModelMissing, "tokenizer.json"),
        ("tokenizer.json", b"{}", ErrorCode::ModelInvalid, "tokenizer.json"),
        ("model.onnx", b"", ErrorCode::ModelMissing, "model.onnx"),
        ("model.onnx", b"no graph", ErrorCode::ModelInvalid, "bge-small"),
        ("model.onnx", &[0; 4096], ErrorCode::ModelInvalid, "bge-small"),
    ];
    for (file, content, expected_code, expected_text) in cases {
        let directory = TemporaryDirectory::new();
        let model = altered_embedder(directory.path(), &[(file, content)]);
        let (code, message) = error(client.call(&Request::Describe { model }).unwrap());
        assert_eq!(code, expected_code, "{file}: {message}");
        assert!(message.contains(expected_text), "{file}: {message}");
    }
    let response = client.call(&Request::Describe { model: embedder() }).unwrap();
    assert!(matches!(response, Response::Description(_)), "{response:?}");
}

#[test]
fn a_model_under_another_name_or_of_another_kind_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for _ in ["before it is loaded", "after"] {
        let model = ModelRef { name: "other".to_owned(), ..embedder() };
        let (code, message) = error(client.call(&Request::Describe { model }).unwrap());
        assert_eq!(code, ErrorCode::ModelInvalid);
        assert!(message.contains("holds the model \"bge-small-en-v1.5\""), "{message}");
        client.call(&embed_request(Purpose::Query, &["load it"])).unwrap();
    }
    let request = Request::Rerank {
        model: embedder(),
        query: "q".to_owned(),
        documents: vec!["d".to_owned()],
        waits: true,
    };
    let (code, message) = error(client.call(&request).unwrap());
    assert_eq!(code, ErrorCode::ModelInvalid);
    assert!(message.contains("is of kind embedder, not reranker"), "{message}");
}

#[test]
fn texts_without_a_model_are_refused() {
    let server = Server::start();
    let request = Request::Prepare {
        model: None,
        purpose: Purpose::Document,
        texts: vec!["text".to_owned()],
        token_texts: Vec::new(),
    };
    let (code, _) = error(server.connect().call(&request).unwrap());
    assert_eq!(code, ErrorCode::InvalidRequest);
}

#[test]
fn without_the_library_tokens_are_still_counted() {
    let not_a_library = TemporaryDirectory::new();
    let text_file = not_a_library.path().join("libonnxruntime.so");
    std::fs::write(&text_file, "not a library").unwrap();
    for path in ["/nonexistent/libonnxruntime.so", text_file.to_str().unwrap()] {
        let server = Server::start_with(&["--onnxruntime", path]);
        let mut client = server.connect();
        let (code, message) = error(client.call(&Request::Describe { model: reranker() }).unwrap());
        assert_eq!(code, ErrorCode::RuntimeMissing);
        assert!(message.contains(path), "{message}");
        let request = Request::Prepare {
            model: None,
            purpose: Purpose::Document,
            texts: Vec::new(),
            token_texts: vec!["hello world".to_owned()],
        };
        let counted = client.call(&request).unwrap();
        assert_eq!(counted, Response::Prepared { embeddings: Vec::new(), token_counts: vec![2] });
    }
}

#[test]
fn a_library_of_something_else_is_refused() {
    // Any shared library without ONNX Runtime's entry point will do: the C library is one.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.split_whitespace().find(|word| word.contains("libc.so")).unwrap();
    let server = Server::start_with(&["--onnxruntime", libc]);
    let response = server.connect().call(&Request::Describe { model: reranker() }).unwrap();
    assert_eq!(error(response).0, ErrorCode::RuntimeMissing);
}

#[test]
fn garbage_closes_its_connection_and_no_other() {
    let server = Server::start();
    let mut good = server.connect();
    let mut too_long = u32::MAX.to_le_bytes().to_vec();
    too_long.extend([PROTOCOL_VERSION; 9]);
    for garbage in [b"GET / HTTP/1.1\r\n\r\n".to_vec(), too_long, vec![255; 4096]] {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.write_all(&garbage).unwrap();
        let mut answer = Vec::new();
        // The server says why and closes; unread garbage may turn the close into a reset.
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    }
    assert!(matches!(good.call(&Request::Status).unwrap(), Response::Status(_)));
    wait_until("a log line each", || server.log().matches("closed a connection").count() == 3);
}

#[test]
fn another_protocol_version_is_told_so() {
    let server = Server::start();
    let mut frame = memory_agent_model_server::protocol::encode(1, &Request::Status).unwrap();
    frame[4] = PROTOCOL_VERSION + 1;
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    stream.write_all(&frame[..13]).unwrap();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
    let mut reader = memory_agent_model_server::FrameReader::new();
    reader.push(&answer);
    let response: Response = reader.pop().unwrap().unwrap().decode().unwrap();
    assert_eq!(error(response).0, ErrorCode::Version);
}

#[test]
fn a_malformed_body_is_an_error_of_that_request_only() {
    let server = Server::start();
    let mut stream = UnixStream::connect(server.socket()).unwrap();
    let mut reader = memory_agent_model_server::FrameReader::new();
    for body in [vec![77_u8; 10], Vec::new()] {
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.push(PROTOCOL_VERSION);
        frame.extend(5_u64.to_le_bytes());
        frame.extend(&body);
        stream.write_all(&frame).unwrap();
        let answer = loop {
            let mut buffer = [0; 1024];
            let count = std::io::Read::read(&mut stream, &mut buffer).unwrap();
            assert_ne!(count, 0, "the connection was closed");
            reader.push(&buffer[..count]);
            if let Some(answer) = reader.pop().unwrap() {
                break answer;
            }
        };
        assert_eq!(answer.id, 5);
        assert_eq!(error(answer.decode().unwrap()).0, ErrorCode::InvalidRequest);
    }
}

#[test]
fn the_log_never_contains_texts() {
    let server = Server::start();
    let mut client = server.connect();
    let secret = "Xylophonequartz";
    client.call(&embed_request(Purpose::Document, &[secret])).unwrap();
    let model =
        ModelRef { name: "none".to_owned(), directory: "/nonexistent".to_owned(), remote: None };
    client
        .call(&Request::Rerank {
            model,
            query: secret.to_owned(),
            documents: vec![secret.to_owned()],
            waits: true,
        })
        .unwrap();
    assert!(!server.log().contains(secret));
}
