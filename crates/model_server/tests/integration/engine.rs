//! Models run in this process: known answers, windows, truncation, cancelling, signals.

use std::ops::ControlFlow;
use std::sync::Arc;

use memory_agent_model_server::engine::tokenizer::{
    MAX_WINDOWS, ModelTokenizer, PublishedTokenizer, TokenSequence,
};
use memory_agent_model_server::protocol::{ModelKind, ModelRef, Purpose};
use memory_agent_model_server::{
    Engine, EngineOptions, InferenceError, engine::config::ModelConfig,
};
use tokenizers::{Tokenizer, TruncationParams};

use crate::common::{cosine, embedder, mean_embedder, onnxruntime, reranker, text};

fn engine() -> Engine {
    Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 1 }).unwrap()
}

fn published_tokenizer(model: &ModelRef) -> Tokenizer {
    Tokenizer::from_file(format!("{}/tokenizer.json", model.directory)).unwrap()
}

fn tokenizer(model: &ModelRef) -> (ModelConfig, ModelTokenizer) {
    let config = ModelConfig::load(model).unwrap();
    let published = PublishedTokenizer::new(published_tokenizer(model)).unwrap();
    let tokenizer = ModelTokenizer::new(Arc::new(published), &config).unwrap();
    (config, tokenizer)
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn reranker_gives_the_published_answers() {
    let documents = [
        "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square \
         kilometers.",
        "New York City is famous for the Metropolitan Museum of Art.",
    ];
    let query = "How many people live in Berlin?";
    let logits = engine().rerank(&reranker(), query, &documents, &mut go_on).unwrap();
    assert!((logits[0] - 9.21).abs() < 0.3, "{logits:?}");
    assert!((logits[1] + 11.18).abs() < 0.3, "{logits:?}");
}

#[test]
fn embeddings_are_normalised_and_close_for_paraphrases() {
    let texts = [
        "She works as a nurse in a hospital.",
        "Her job is nursing at the hospital.",
        "The train to Munich leaves at nine.",
    ];
    let embeddings =
        engine().embed(&embedder(), Purpose::Document, &texts, &mut go_on).unwrap().concat();
    for embedding in &embeddings {
        assert_eq!(embedding.len(), 384);
        assert!((cosine(embedding, embedding) - 1.0).abs() < 1e-5);
    }
    let paraphrase = cosine(&embeddings[0], &embeddings[1]);
    let unrelated = cosine(&embeddings[0], &embeddings[2]);
    assert!(paraphrase > unrelated + 0.15, "{paraphrase} {unrelated}");
}

#[test]
fn a_model_that_pools_by_the_mean_ignores_padding() {
    let engine = engine();
    // Of slightly different lengths, so that they share a batch.
    let texts: Vec<String> = (0..6).map(|seed| text(seed, 30 + seed % 3)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together =
        engine.embed(&mean_embedder(), Purpose::Document, &texts, &mut go_on).unwrap().concat();
    for (text, embedding) in texts.iter().zip(together) {
        assert_eq!(embedding.len(), 384);
        let alone = engine.embed(&mean_embedder(), Purpose::Document, &[text], &mut go_on);
        assert!(cosine(&alone.unwrap().concat().concat(), &embedding) > 0.9999);
    }
}

#[test]
fn a_question_gets_the_query_prefix() {
    let engine = engine();
    let question = ["Where does she work?"];
    let embed = |purpose| {
        engine.embed(&embedder(), purpose, &question, &mut go_on).unwrap().concat().concat()
    };
    let (as_query, as_document) = (embed(Purpose::Query), embed(Purpose::Document));
    assert!(cosine(&as_query, &as_document) < 0.999);
    let prefix = ModelConfig::load(&embedder()).unwrap().query_prefix;
    let by_hand = engine
        .embed(&embedder(), Purpose::Document, &[&format!("{prefix}{}", question[0])], &mut go_on)
        .unwrap()
        .concat()
        .concat();
    assert!(cosine(&as_query, &by_hand) > 0.9999);
}

#[test]
fn a_result_does_not_depend_on_the_other_texts_of_a_call() {
    let engine = engine();
    let texts: Vec<String> = (0..12).map(|seed| text(seed, 4 + seed * 5)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together =
        engine.embed(&embedder(), Purpose::Document, &texts, &mut go_on).unwrap().concat();
    let scores = engine.rerank(&reranker(), "Who moved?", &texts, &mut go_on).unwrap();
    for ((text, embedding), score) in texts.iter().zip(together).zip(scores) {
        let alone = engine.embed(&embedder(), Purpose::Document, &[text], &mut go_on).unwrap();
        assert!(cosine(&alone.concat().concat(), &embedding) > 0.9999);
        let alone = engine.rerank(&reranker(), "Who moved?", &[text], &mut go_on).unwrap();
        assert!((alone[0] - score).abs() < 0.01, "{alone:?} {score}");
    }
}

#[test]
fn several_threads_per_run_give_the_same_scores() {
    let shared =
        Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 2 }).unwrap();
    let documents = [text(1, 30), text(2, 60)];
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let one = engine().rerank(&reranker(), "Who moved?", &documents, &mut go_on).unwrap();
    let two = shared.rerank(&reranker(), "Who moved?", &documents, &mut go_on).unwrap();
    for (a, b) in one.iter().zip(&two) {
        assert!((a - b).abs() < 0.01, "{one:?} {two:?}");
    }
}

#[test]
fn a_long_document_has_windows_and_a_long_query_is_cut() {
    let engine = engine();
    let long = text(1, 1200);
    let embed = |purpose, text: &str| {
        engine.embed(&embedder(), purpose, &[text], &mut go_on).unwrap().remove(0)
    };
    let windows = embed(Purpose::Document, &long);
    assert!((3..=4).contains(&windows.len()), "{} windows", windows.len());
    assert!(windows.iter().all(|window| (cosine(window, window) - 1.0).abs() < 1e-5));
    assert_eq!(embed(Purpose::Query, &long).len(), 1);
    assert_eq!(embed(Purpose::Document, "").len(), 1);
}

#[test]
fn windows_overlap_and_are_bounded_in_number_and_length() {
    let (config, tokenizer) = tokenizer(&embedder());
    let windows = tokenizer.windows(&text(1, 1200), Purpose::Document).unwrap();
    for (window, next) in windows.iter().zip(&windows[1..]) {
        assert_eq!(window.len(), config.max_tokens);
        let end = window.len() - 1;
        assert_eq!(window.ids[end - 64..end], next.ids[1..65]);
    }
    let endless = "word ".repeat(200_000);
    let windows = tokenizer.windows(&endless, Purpose::Document).unwrap();
    assert_eq!(windows.len(), MAX_WINDOWS);
    assert!(windows.iter().all(|window| window.len() == config.max_tokens));
}

#[test]
fn sequences_are_those_of_the_tokenizers_library() {
    let (config, ours) = tokenizer(&reranker());
    let mut theirs = published_tokenizer(&reranker());
    theirs.with_padding(None);
    let truncation = TruncationParams { max_length: config.max_tokens, ..Default::default() };
    theirs.with_truncation(Some(truncation)).unwrap();
    let texts = ["", "Naïve café, 日本語!", &text(3, 300), &text(4, 20), &text(5, 2000)];
    for query in texts {
        for document in texts {
            let expected = theirs.encode((query, document), true).unwrap();
            let sequence: TokenSequence =
                ours.pairs(query, [document]).unwrap().next().unwrap().unwrap();
            let second = expected.get_type_ids().iter().filter(|id| **id == 1).count();
            assert_eq!(sequence.len(), expected.len());
            let difference =
                sequence.segments.iter().filter(|id| **id == 1).count().abs_diff(second);
            // When both texts are cut, the odd token may go to either.
            assert!(difference <= 1);
            if difference == 0 {
                assert_eq!(sequence.ids, expected.get_ids());
            }
        }
    }
}

#[test]
fn special_tokens_in_a_text_are_only_characters() {
    let (_, tokenizer) = tokenizer(&reranker());
    let pair = tokenizer.pairs("a [SEP] b", ["[CLS] [PAD] c"]).unwrap().next().unwrap().unwrap();
    let separator = pair.ids[pair.len() - 1];
    assert_eq!(pair.ids.iter().filter(|id| **id == separator).count(), 2);
    assert_eq!(pair.ids.iter().filter(|id| **id == pair.ids[0]).count(), 1);
}

#[test]
fn empty_lists_need_no_model() {
    let engine = engine();
    let nowhere = memory_agent_model_server::protocol::ModelRef {
        name: "none".to_owned(),
        directory: "/nonexistent".to_owned(),
        remote: None,
    };
    assert!(engine.embed(&nowhere, Purpose::Query, &[], &mut go_on).unwrap().is_empty());
    assert!(engine.rerank(&nowhere, "query", &[], &mut go_on).unwrap().is_empty());
    assert!(engine.count_tokens(&[]).is_empty());
}

#[test]
fn a_call_can_be_cancelled_between_batches() {
    let engine = engine();
    let documents: Vec<String> = (0..50).map(|seed| text(seed, 100)).collect();
    let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
    let mut checks = 0;
    let mut third_breaks = || {
        checks += 1;
        if checks == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let result = engine.rerank(&reranker(), "Who moved?", &documents, &mut third_breaks);
    assert!(matches!(result, Err(InferenceError::Cancelled)), "{result:?}");
    assert_eq!(checks, 3);
}

#[test]
fn describes_models_and_refuses_the_wrong_kind() {
    let engine = engine();
    let description = engine.describe(&embedder()).unwrap();
    assert_eq!(description.kind, ModelKind::Embedder);
    assert_eq!(description.dimension, Some(384));
    assert_eq!(description.max_tokens, 512);
    let description = engine.describe(&reranker()).unwrap();
    assert_eq!((description.kind, description.dimension), (ModelKind::Reranker, None));
    let wrong = engine.embed(&reranker(), Purpose::Query, &["text"], &mut go_on);
    assert!(matches!(wrong, Err(InferenceError::WrongKind { .. })), "{wrong:?}");
    let wrong = engine.rerank(&embedder(), "query", &["text"], &mut go_on);
    assert!(matches!(wrong, Err(InferenceError::WrongKind { .. })), "{wrong:?}");
}

#[test]
fn threads_of_onnx_runtime_block_all_signals() {
    let blocking = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok())
            .filter_map(|status| {
                let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
                u64::from_str_radix(mask.trim(), 16).ok()
            })
            .filter(|mask| mask & (1 << (libc::SIGTERM - 1)) != 0)
            .count()
    };
    let engine =
        Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 3 }).unwrap();
    engine.describe(&reranker()).unwrap();
    assert!(blocking() >= 2, "a session with 3 threads starts 2 that block signals");
}
