//! Messages survive the way through bytes, and bytes that are no messages do no harm.

use memory_agent_model_server::FrameReader;
use memory_agent_model_server::protocol::{
    AnswerFormat, ApiKey, BreakerState, CallRecord, ChatAnswer, ChatFailure, ChatFailureKind,
    ChatMessage, ChatOutcome, ChatRequest, ChatRole, Conversation, Encoding, Endpoint,
    EndpointStatus, ErrorCode, FRAME_HEADER_BYTES, Frame, LoadedModel, MAX_FRAME_BYTES,
    MAX_TEXTS_PER_REQUEST, ModelDescription, ModelKind, ModelRef, PROTOCOL_VERSION, ProtocolError,
    Provider, Purpose, RemoteEmbedder, Request, Response, ServerStatus, encode,
};
use proptest::prelude::*;

fn model() -> impl Strategy<Value = ModelRef> {
    let remote = (endpoint(), prop::option::of(any::<u32>()), any::<u32>()).prop_map(
        |(endpoint, dimension, batch)| Box::new(RemoteEmbedder { endpoint, dimension, batch }),
    );
    (".{0,20}", ".{0,40}", prop::option::of(remote))
        .prop_map(|(name, directory, remote)| ModelRef { name, directory, remote })
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    let provider =
        prop_oneof![Just(Provider::OpenAi), Just(Provider::Azure), Just(Provider::Anthropic)];
    (provider, any::<[u32; 3]>(), prop::array::uniform4(".{0,20}")).prop_map(
        |(provider, numbers, [base_url, model, api_key, api_version])| Endpoint {
            provider,
            base_url,
            model,
            api_key: ApiKey::new(api_key),
            api_version,
            timeout_ms: numbers[0],
            calls_per_minute: numbers[1],
            max_response_bytes: numbers[2],
        },
    )
}

fn chat_request() -> impl Strategy<Value = ChatRequest> {
    let role = prop_oneof![Just(ChatRole::System), Just(ChatRole::User), Just(ChatRole::Assistant)];
    let message = (role, ".{0,50}").prop_map(|(role, content)| ChatMessage { role, content });
    let answer = prop_oneof![
        Just(AnswerFormat::Text),
        any::<[u32; 2]>()
            .prop_map(|[turns, max_per_turn]| AnswerFormat::Facts { turns, max_per_turn }),
        any::<u32>().prop_map(|facts| AnswerFormat::Checks { facts }),
        any::<[u32; 2]>().prop_map(|[existing, new]| AnswerFormat::Decisions { existing, new }),
        any::<u32>().prop_map(|max| AnswerFormat::Rewrites { max }),
        any::<u32>().prop_map(|rows| AnswerFormat::Verdicts { rows }),
    ];
    (endpoint(), prop::collection::vec(message, 0..4), answer, any::<u32>(), -1e6_f32..1e6)
        .prop_map(|(endpoint, messages, answer, max_answer_tokens, temperature)| ChatRequest {
            endpoint,
            messages,
            answer,
            max_answer_tokens,
            temperature,
        })
}

fn conversation() -> impl Strategy<Value = Conversation> {
    (chat_request(), ".{0,50}", prop::option::of(0.0_f32..2.0)).prop_map(
        |(request, messages, temperature)| Conversation {
            endpoint: request.endpoint,
            messages,
            max_answer_tokens: request.max_answer_tokens,
            temperature,
            fields: "{}".to_owned(),
        },
    )
}

fn chat_outcome() -> impl Strategy<Value = ChatOutcome> {
    let kind = prop_oneof![
        Just(ChatFailureKind::Unavailable),
        Just(ChatFailureKind::Failed),
        Just(ChatFailureKind::Refused),
        Just(ChatFailureKind::BadAnswer),
    ];
    let failure = (kind, ".{0,50}", prop::option::of(any::<u64>()))
        .prop_map(|(kind, message, retry_after_ms)| ChatFailure { kind, message, retry_after_ms });
    let answer = (".{0,50}", ".{0,20}", ".{0,50}").prop_map(|(text, model, document)| ChatAnswer {
        text,
        model,
        document,
    });
    let result = prop_oneof![answer.prop_map(Ok), failure.prop_map(Err)];
    let tokens = || prop::option::of(any::<u32>());
    let record = (".{0,10}", any::<u32>(), tokens(), tokens(), prop::option::of(".{0,20}"))
        .prop_map(|(status, latency_ms, prompt_tokens, completion_tokens, error)| CallRecord {
            status,
            latency_ms,
            prompt_tokens,
            completion_tokens,
            error,
        });
    (result, prop::collection::vec(record, 0..3))
        .prop_map(|(result, calls)| ChatOutcome { result, calls })
}

fn endpoint_status() -> impl Strategy<Value = EndpointStatus> {
    let breaker = prop_oneof![
        Just(BreakerState::Closed),
        Just(BreakerState::Open),
        Just(BreakerState::HalfOpen)
    ];
    (
        breaker,
        prop::array::uniform3(".{0,20}"),
        prop::option::of(".{0,20}"),
        any::<[u64; 2]>(),
        any::<[u32; 2]>(),
    )
        .prop_map(|(breaker, [base_url, model, answer_mode], last_error, wide, narrow)| {
            EndpointStatus {
                base_url,
                model,
                breaker,
                failures: narrow[0],
                retry_in_ms: wide[0],
                answer_mode,
                last_error,
                in_flight: narrow[1],
                calls: wide[1],
            }
        })
}

fn kind() -> impl Strategy<Value = ModelKind> {
    prop_oneof![Just(ModelKind::Embedder), Just(ModelKind::Reranker)]
}

fn request() -> impl Strategy<Value = Request> {
    let texts = || prop::collection::vec(".{0,50}", 0..6);
    let purpose = prop_oneof![Just(Purpose::Query), Just(Purpose::Document)];
    prop_oneof![
        (prop::option::of(model()), purpose, texts(), texts()).prop_map(
            |(model, purpose, texts, token_texts)| Request::Prepare {
                model,
                purpose,
                texts,
                token_texts
            }
        ),
        (model(), ".{0,50}", texts(), any::<bool>()).prop_map(
            |(model, query, documents, waits)| Request::Rerank { model, query, documents, waits }
        ),
        model().prop_map(|model| Request::Describe { model }),
        Just(Request::Status),
        Just(Request::FlushCaches),
        chat_request().prop_map(|request| Request::Chat(Box::new(request))),
        conversation().prop_map(|conversation| Request::Converse(Box::new(conversation))),
        (prop::sample::select(Encoding::ALL.to_vec()), texts())
            .prop_map(|((_, encoding), texts)| Request::Count { encoding, texts }),
    ]
}

fn status() -> impl Strategy<Value = ServerStatus> {
    let loaded = (".{0,20}", ".{0,20}", kind(), any::<u64>(), any::<u32>()).prop_map(
        |(name, directory, kind, loaded_seconds_ago, load_milliseconds)| LoadedModel {
            name,
            directory,
            kind,
            loaded_seconds_ago,
            load_milliseconds,
        },
    );
    (
        ".{0,10}",
        any::<[u32; 2]>(),
        any::<[u64; 12]>(),
        prop::collection::vec(loaded, 0..3),
        prop::collection::vec(endpoint_status(), 0..3),
    )
        .prop_map(|(version, [pid, threads], numbers, models, endpoints)| ServerStatus {
            version,
            pid,
            uptime_seconds: numbers[0],
            threads,
            models,
            queue_items: numbers[1],
            queue_bytes: numbers[2],
            requests: numbers[3],
            rejected: numbers[4],
            sequences: numbers[5],
            query_cache_hits: numbers[6],
            query_cache_misses: numbers[7],
            pair_cache_hits: numbers[8],
            pair_cache_misses: numbers[9],
            resident_bytes: numbers[10],
            reranks_refused: numbers[11],
            endpoints,
        })
}

fn response() -> impl Strategy<Value = Response> {
    let number = || -1e6_f32..1e6;
    let vector = move || prop::collection::vec(number(), 0..8);
    let windows = prop::collection::vec(prop::collection::vec(vector(), 0..3), 0..3);
    let code = prop_oneof![
        Just(ErrorCode::Busy),
        Just(ErrorCode::ModelMissing),
        Just(ErrorCode::ModelInvalid),
        Just(ErrorCode::RuntimeMissing),
        Just(ErrorCode::InvalidRequest),
        Just(ErrorCode::Internal),
        Just(ErrorCode::Version),
        Just(ErrorCode::RemoteUnavailable),
    ];
    prop_oneof![
        (windows, prop::collection::vec(any::<u32>(), 0..4))
            .prop_map(|(embeddings, token_counts)| Response::Prepared { embeddings, token_counts }),
        prop::option::of(vector()).prop_map(Response::Logits),
        chat_outcome().prop_map(Response::Chat),
        (".{0,20}", kind(), prop::option::of(any::<u32>()), any::<[u32; 2]>()).prop_map(
            |(name, kind, dimension, [max_tokens, load_milliseconds])| {
                Response::Description(ModelDescription {
                    name,
                    kind,
                    dimension,
                    max_tokens,
                    load_milliseconds,
                })
            }
        ),
        status().prop_map(Response::Status),
        Just(Response::Flushed),
        (code, ".{0,50}").prop_map(|(code, message)| Response::Error { code, message }),
    ]
}

proptest! {
    /// Whether a request may be carried out once for several clients is read off its bytes.
    #[test]
    fn only_questions_to_the_models_are_pure(request in request()) {
        let body = encode(1, &request).unwrap()[FRAME_HEADER_BYTES..].to_vec();
        let expected = matches!(
            request,
            Request::Prepare { .. } | Request::Rerank { .. } | Request::Count { .. }
        );
        prop_assert_eq!(Frame { id: 1, body }.is_pure(), expected);
    }
}

/// Pushes bytes in pieces of the given lengths, over and over, and collects the frames.
fn read(bytes: &[u8], pieces: &[usize]) -> Result<Vec<Frame>, ProtocolError> {
    let mut reader = FrameReader::new();
    let mut frames = Vec::new();
    let mut rest = bytes;
    for piece in pieces.iter().cycle() {
        let (now, later) = rest.split_at(rest.len().min(*piece));
        reader.push(now);
        while let Some(frame) = reader.pop()? {
            frames.push(frame);
        }
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn messages_survive_any_fragmentation(
        requests in prop::collection::vec((any::<u64>(), request()), 1..4),
        last in response(),
        pieces in prop::collection::vec(1_usize..40, 1..5),
    ) {
        let mut bytes = Vec::new();
        for (id, request) in &requests {
            bytes.extend(encode(*id, request).unwrap());
        }
        bytes.extend(encode(9, &last).unwrap());
        let frames = read(&bytes, &pieces).unwrap();
        prop_assert_eq!(frames.len(), requests.len() + 1);
        for (frame, (id, request)) in frames.iter().zip(&requests) {
            prop_assert_eq!(frame.id, *id);
            prop_assert_eq!(&frame.decode::<Request>().unwrap(), request);
        }
        prop_assert_eq!(frames[requests.len()].decode::<Response>().unwrap(), last);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        pieces in prop::collection::vec(1_usize..40, 1..5),
    ) {
        if let Ok(frames) = read(&bytes, &pieces) {
            for frame in frames {
                let _ = frame.decode::<Request>();
                let _ = frame.decode::<Response>();
            }
        }
    }

    #[test]
    fn random_bodies_never_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
        let frame = Frame { id: 1, body };
        let _ = frame.decode::<Request>();
        let _ = frame.decode::<Response>();
    }

    #[test]
    fn a_changed_byte_never_panics(request in request(), place: usize, value: u8) {
        let mut bytes = encode(1, &request).unwrap();
        let place = FRAME_HEADER_BYTES + place % (bytes.len() - FRAME_HEADER_BYTES);
        bytes[place] = value;
        for frame in read(&bytes, &[7]).unwrap() {
            let _ = frame.decode::<Request>();
        }
    }
}

#[test]
fn the_header_is_as_documented() {
    let frame = encode(0x0102_0304, &Request::Status).unwrap();
    assert_eq!(frame, [1, 0, 0, 0, PROTOCOL_VERSION, 4, 3, 2, 1, 0, 0, 0, 0, 3]);
}

#[test]
fn lengths_and_versions_are_checked_before_the_body() {
    let mut reader = FrameReader::new();
    let mut header = ((MAX_FRAME_BYTES + 1) as u32).to_le_bytes().to_vec();
    header.extend([PROTOCOL_VERSION, 0, 0, 0, 0, 0, 0, 0, 0]);
    reader.push(&header);
    assert!(matches!(reader.pop(), Err(ProtocolError::TooLong(_))));
    let mut reader = FrameReader::new();
    reader.push(&[0, 0, 0, 0, PROTOCOL_VERSION + 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches!(reader.pop(), Err(ProtocolError::Version(_))));
    let long = Response::Error { code: ErrorCode::Busy, message: "x".repeat(MAX_FRAME_BYTES) };
    assert!(matches!(encode(1, &long), Err(ProtocolError::TooLong(_))));
}

#[test]
fn bytes_after_a_message_and_endless_lists_are_refused() {
    let mut body = encode(1, &Request::Status).unwrap().split_off(FRAME_HEADER_BYTES);
    body.push(0);
    let frame = Frame { id: 1, body };
    assert!(matches!(frame.decode::<Request>(), Err(ProtocolError::TrailingBytes(1))));

    let texts = |count| Request::Prepare {
        model: None,
        purpose: Purpose::Query,
        texts: vec![String::new(); count],
        token_texts: Vec::new(),
    };
    let decode = |request: &Request| {
        let body = encode(1, request).unwrap().split_off(FRAME_HEADER_BYTES);
        Frame { id: 1, body }.decode::<Request>()
    };
    assert!(decode(&texts(MAX_TEXTS_PER_REQUEST)).is_ok());
    assert!(matches!(decode(&texts(MAX_TEXTS_PER_REQUEST + 1)), Err(ProtocolError::Malformed(_))));
}
