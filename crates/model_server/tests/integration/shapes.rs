//! Models of others, of every shape that is supported: tiny ones, made by models/shapes.py, which also
//! computed what they have to give.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use memory_agent_model_server::protocol::{
    ErrorCode, ModelKind, ModelRef, Purpose, Request, Response,
};
use memory_agent_model_server::{Engine, EngineOptions, InferenceError};
use serde_json::{Map, Value, json};

use crate::common::{Server, TemporaryDirectory, cosine, logits, onnxruntime, single_windows};

/// What the models and the program that computed the answers may differ by.
const TOLERANCE: f32 = 1e-4;

fn engine() -> Engine {
    Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 1 }).unwrap()
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models")
}

fn reference(name: &str, directory: &Path) -> ModelRef {
    let directory = directory.to_str().unwrap().to_owned();
    ModelRef { name: name.to_owned(), directory, remote: None }
}

fn model(name: &str) -> ModelRef {
    reference(name, &models().join(name))
}

/// What a model has to give, by model.
fn answers() -> HashMap<String, Vec<Map<String, Value>>> {
    serde_json::from_slice(&fs::read(models().join("answers.json")).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

/// A text that was written as a part and how often it comes.
fn repeated(value: &Value) -> String {
    value[0].as_str().unwrap().repeat(value[1].as_u64().unwrap() as usize)
}

fn assert_close(what: &str, row: &[f32], expected: &[f32]) {
    assert_eq!(row.len(), expected.len(), "{what}");
    let is_close = |(a, b): (&f32, &f32)| (a - b).abs() < TOLERANCE;
    assert!(row.iter().zip(expected).all(is_close), "{what}: {row:?}, not {expected:?}");
}

#[test]
fn rerankers_give_the_known_answers_alone_and_in_a_batch() {
    let engine = engine();
    for (name, max_tokens) in
        [("bert-reranker", 128), ("modernbert-reranker", 8192), ("mean-reranker", 128)]
    {
        let description = engine.describe(&model(name)).unwrap();
        assert_eq!((description.kind, description.dimension), (ModelKind::Reranker, None));
        assert_eq!(description.max_tokens, max_tokens);
        let answers = &answers()[name];
        let query = repeated(&answers[0]["query"]);
        let documents: Vec<String> =
            answers.iter().map(|answer| repeated(&answer["document"])).collect();
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let expected: Vec<f32> =
            answers.iter().flat_map(|answer| numbers(&answer["row"])).collect();
        let together = engine.rerank(&model(name), &query, &documents, &mut go_on).unwrap();
        assert_close(name, &together, &expected);
        for (document, expected) in documents.iter().zip(expected) {
            let alone = engine.rerank(&model(name), &query, &[document], &mut go_on).unwrap();
            assert_close(name, &alone, &[expected]);
        }
        // The last document is cut, so the last answer is that of a sequence of the greatest length.
        assert_eq!(answers.last().unwrap()["tokens"], max_tokens);
    }
}

#[test]
fn embedders_give_the_known_answers_alone_and_in_a_batch() {
    let engine = engine();
    for (name, max_tokens) in
        [("mean-embedder", 512), ("cls-embedder", 256), ("pooling-embedder", 512)]
    {
        let description = engine.describe(&model(name)).unwrap();
        assert_eq!((description.kind, description.dimension), (ModelKind::Embedder, Some(8)));
        assert_eq!(description.max_tokens, max_tokens);
        for (purpose, its_name) in [(Purpose::Query, "query"), (Purpose::Document, "document")] {
            let mut answers = answers().remove(name).unwrap();
            answers.retain(|answer| answer["purpose"] == its_name);
            let texts: Vec<&str> =
                answers.iter().map(|answer| answer["text"].as_str().unwrap()).collect();
            let together = engine.embed(&model(name), purpose, &texts, &mut go_on).unwrap();
            for ((answer, text), windows) in answers.iter().zip(&texts).zip(together) {
                let what = format!("{name}, {its_name} {text}");
                let expected = numbers(&answer["row"]);
                assert_close(&what, &windows.concat(), &expected);
                let alone = engine.embed(&model(name), purpose, &[text], &mut go_on).unwrap();
                assert_close(&what, &alone.concat().concat(), &expected);
            }
        }
    }
}

#[test]
fn a_published_limit_is_used_up_to_2048_tokens() {
    let copy = Copy::of("modernbert-reranker");
    let limit = || engine().describe(&reference("m", copy.0.path())).unwrap().max_tokens;
    copy.set("config.json", json!({"max_tokens": null}));
    assert_eq!(limit(), 2048);
    copy.set("tokenizer_config.json", json!({"model_max_length": 1000}));
    assert_eq!(limit(), 1000);
    fs::write(copy.path("sentence_bert_config.json"), r#"{"max_seq_length": 300}"#).unwrap();
    assert_eq!(limit(), 300);
}

#[test]
fn padding_has_the_id_that_the_tokenizer_gives_it() {
    // Its graph has no other way to know what is padding, so with another one it could not be run
    // in batches.
    let model = engine().model(&model("pooling-embedder")).unwrap();
    assert!(model.max_batch() > 1);
}

#[test]
fn tokens_of_a_long_text_are_those_of_the_tokenizers_library() {
    let engine = engine();
    // Long enough for several pieces, most of whose borders are between words.
    let words = "the cat sleeps where does she work in berlin rent doubled last spring ".repeat(20);
    let text = format!("{words}on a  mat.\n\nwho? \t\u{a0}1234 ").repeat(40);
    for name in ["modernbert-reranker", "bert-reranker"] {
        let library =
            tokenizers::Tokenizer::from_file(models().join(name).join("tokenizer.json")).unwrap();
        let prefix = if name == "bert-reranker" { "passage: " } else { "" };
        let expected = library.encode(format!("{prefix}{text}"), false).unwrap();
        let loaded = engine.model(&model(name)).unwrap();
        let sequence = loaded.pairs("cat", [text.as_str()]).unwrap().next().unwrap().unwrap();
        let query = if name == "bert-reranker" { "query: cat" } else { "cat" };
        let before = library.encode(query, false).unwrap().len() + 2;
        let ids = &sequence.ids[before..sequence.len() - 1];
        assert_eq!(ids, &expected.get_ids()[..ids.len()], "{name}");
        let limit = if name == "bert-reranker" { 128 } else { 8192 };
        assert!(ids.len() + 10 > limit, "{}", ids.len());
    }
}

#[test]
fn long_sequences_run_alone_and_a_call_can_be_cancelled_between_them() {
    let long = "the cat sleeps ".repeat(9000);
    let mut checks = 0;
    let mut third_breaks = || {
        checks += 1;
        if checks == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let documents = [long.as_str(); 4];
    let result =
        engine().rerank(&model("modernbert-reranker"), "cat", &documents, &mut third_breaks);
    assert!(matches!(result, Err(InferenceError::Cancelled)), "{result:?}");
    assert_eq!(checks, 3);
}

/// A copy of a tiny model, removed with the value.
pub struct Copy(pub TemporaryDirectory);

impl Copy {
    pub fn of(name: &str) -> Self {
        let copy = Self(TemporaryDirectory::new());
        copy_folder(&models().join(name), copy.0.path());
        copy
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    /// Sets fields of a JSON file.
    pub fn set(&self, file: &str, fields: Value) {
        let mut content: Map<String, Value> =
            serde_json::from_slice(&fs::read(self.path(file)).unwrap()).unwrap();
        content.extend(fields.as_object().unwrap().clone());
        fs::write(self.path(file), Value::Object(content).to_string()).unwrap();
    }

    pub fn remove(&self, file: &str) {
        fs::remove_file(self.path(file)).unwrap();
    }

    fn load(&self, name: &str) -> Result<u32, InferenceError> {
        let description = engine().describe(&reference(name, self.0.path()))?;
        Ok(description.dimension.unwrap_or(0))
    }

    /// The error has these parts and no other defects.
    pub fn assert_defects(&self, name: &str, code: ErrorCode, parts: &[&str]) {
        let error = self.load(name).unwrap_err();
        let message = error.to_string();
        assert_eq!(error.code(), code, "{message}");
        for (number, part) in parts.iter().enumerate() {
            assert!(message.contains(part), "{part}: {message}");
            assert!(message.contains(&format!("({})", number + 1)), "{message}");
        }
        assert!(!message.contains(&format!("({})", parts.len() + 1)), "{message}");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn own_fields_win_over_published_ones() {
    let copy = Copy::of("mean-embedder");
    let unchanged = copy.load("any-name").unwrap();
    assert_eq!(unchanged, 8);
    copy.set(
        "config.json",
        json!({"name": "own", "pooling": "cls", "query_prefix": "", "max_tokens": 200}),
    );
    let own = reference("own", copy.0.path());
    let engine = engine();
    assert_eq!(engine.describe(&own).unwrap().max_tokens, 200);
    let embed = |model: &ModelRef| {
        let texts = ["Where does she work?"];
        engine.embed(model, Purpose::Query, &texts, &mut go_on).unwrap().concat().concat()
    };
    let published = embed(&model("mean-embedder"));
    assert!(cosine(&embed(&own), &published) < 0.99);
    copy.assert_defects("other", ErrorCode::ModelInvalid, &["holds the model \"own\""]);

    // A pooling replaces the published one, not what comes after it; null replaces both.
    let copy = Copy::of("modernbert-reranker");
    copy.set("1_Pooling/config.json", json!({"pooling_mode": "lasttoken"}));
    copy.assert_defects("m", ErrorCode::ModelInvalid, &["lasttoken", "with its classification"]);
    copy.set("config.json", json!({"pooling": "cls"}));
    assert!(copy.load("m").is_ok());
    copy.set("config.json", json!({"pooling": null}));
    copy.assert_defects("m", ErrorCode::ModelInvalid, &["with its classification head"]);
}

#[test]
fn a_classifier_is_a_reranker_without_being_called_so() {
    let copy = Copy::of("bert-reranker");
    let config = json!({
        "architectures": ["RobertaForSequenceClassification"],
        "model_type": "roberta",
        "max_position_embeddings": 130,
        "pad_token_id": 1,
    });
    fs::write(copy.path("config.json"), config.to_string()).unwrap();
    let description = engine().describe(&reference("m", copy.0.path())).unwrap();
    assert_eq!((description.kind, description.max_tokens), (ModelKind::Reranker, 128));
}

#[test]
fn a_pooling_in_the_graph_serves_where_no_other_is_asked_for() {
    let copy = Copy::of("pooling-embedder");
    let engine = engine();
    let texts = ["Where does she work?"];
    let embed = |model: &ModelRef| {
        engine.embed(model, Purpose::Query, &texts, &mut go_on).unwrap().concat().concat()
    };
    let pooled = embed(&model("pooling-embedder"));
    copy.set("config.json", json!({"pooling": "mean"}));
    // The mean over the tokens is what the graph computes too, the first token is not.
    assert!(cosine(&embed(&reference("mean", copy.0.path())), &pooled) > 0.9999);
    let copy = Copy::of("pooling-embedder");
    copy.set("config.json", json!({"pooling": "cls"}));
    assert!(cosine(&embed(&reference("cls", copy.0.path())), &pooled) < 0.99);
}

#[test]
fn a_model_whose_files_were_replaced_is_loaded_again_when_it_is_described() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ask = |request: Request| client.call(&request).unwrap();
    let (embedder, reranker) = (Copy::of("mean-embedder"), Copy::of("bert-reranker"));
    let references =
        [reference("m", embedder.0.path()), reference("bert-reranker", reranker.0.path())];
    let embedding = |ask: &mut dyn FnMut(Request) -> Response| {
        let (model, texts) = (Some(references[0].clone()), vec!["a cat".to_owned()]);
        let purpose = Purpose::Query;
        single_windows(ask(Request::Prepare { model, purpose, texts, token_texts: Vec::new() }))
    };
    let logit = |ask: &mut dyn FnMut(Request) -> Response| {
        let (model, query) = (references[1].clone(), "a cat".to_owned());
        let documents = vec!["a dog".to_owned()];
        logits(ask(Request::Rerank { model, query, documents, waits: true }))
    };
    let before = (embedding(&mut ask), logit(&mut ask));
    embedder.set("config.json", json!({"pooling": "cls"}));
    reranker.set("config.json", json!({"query_prefix": "dog "}));
    assert_eq!((embedding(&mut ask), logit(&mut ask)), before);
    for model in &references {
        let description = ask(Request::Describe { model: model.clone() });
        assert!(matches!(description, Response::Description(_)), "{description:?}");
    }
    let after = (embedding(&mut ask), logit(&mut ask));
    assert!(cosine(&after.0[0], &before.0[0]) < 0.99);
    assert!((after.1[0] - before.1[0]).abs() > TOLERANCE);

    fs::write(embedder.path("tokenizer.json"), "{}").unwrap();
    let refused = ask(Request::Describe { model: references[0].clone() });
    assert!(matches!(refused, Response::Error { .. }), "{refused:?}");
    assert_eq!(embedding(&mut ask), after.0, "what is in use stays in use");
}

#[test]
fn a_step_outside_of_the_folder_is_refused() {
    let copy = Copy::of("mean-embedder");
    let outside = TemporaryDirectory::new();
    copy_folder(&copy.path("1_Pooling"), outside.path());
    let absolute = outside.path().to_str().unwrap();
    let relative = format!("../{}", outside.path().file_name().unwrap().to_str().unwrap());
    let step = |path: &str| json!({"path": path, "type": "sentence_transformers.models.Pooling"});
    let steps = json!([step(absolute), step(&relative), step("1_Pooling/../1_Pooling")]);
    fs::write(copy.path("modules.json"), steps.to_string()).unwrap();
    let outside = |path: &str| format!("modules.json names the folder \"{path}\"");
    let names = [outside(absolute), outside(&relative), outside("1_Pooling/../1_Pooling")];
    let mut parts: Vec<&str> = names.iter().map(String::as_str).collect();
    // Without a pooling.
    parts.push("the graph does not run");
    copy.assert_defects("m", ErrorCode::ModelInvalid, &parts);
}

#[test]
fn a_wrong_graph_is_refused_with_the_remedy() {
    let copy = Copy::of("bert-reranker");
    fs::copy(models().join("refused/two-classes.onnx"), copy.path("model.onnx")).unwrap();
    copy.assert_defects("bert-reranker", ErrorCode::ModelInvalid, &["2 numbers for a pair"]);

    // The ONNX file of a reranker without the files of its head.
    let copy = Copy::of("modernbert-reranker");
    copy.remove("modules.json");
    copy.assert_defects("m", ErrorCode::ModelInvalid, &["with its classification head"]);
    let copy = Copy::of("modernbert-reranker");
    copy.remove("2_Dense/model.safetensors");
    copy.remove("4_Dense/config.json");
    let parts = ["2_Dense/model.safetensors", "4_Dense/config.json", "8 numbers for a pair"];
    copy.assert_defects("m", ErrorCode::ModelInvalid, &parts);

    let copy = Copy::of("mean-embedder");
    copy.remove("modules.json");
    copy.set("config.json", json!({"kind": "embedder"}));
    copy.assert_defects("m", ErrorCode::ModelInvalid, &["write \"pooling\""]);
}

#[test]
fn a_wrong_length_or_dimension_is_found_when_a_model_is_loaded() {
    let copy = Copy::of("cls-embedder");
    // The graph has 256 positions, which only it knows.
    copy.set("config.json", json!({"dimension": 7, "max_tokens": 600}));
    let parts = ["dimension 7 is wrong, the graph gives 8", "does not take 600 tokens"];
    copy.assert_defects("cls-embedder", ErrorCode::ModelInvalid, &parts);
    copy.set("config.json", json!({"dimension": 8, "max_tokens": 9000}));
    let parts = ["max_tokens 9000 is not within 128..=8192", "does not take 1024 tokens"];
    copy.assert_defects("cls-embedder", ErrorCode::ModelInvalid, &parts);
}

#[test]
fn weights_in_a_file_of_their_own_have_to_be_there() {
    let copy = Copy::of("cls-embedder");
    assert_eq!(copy.load("cls-embedder").unwrap(), 8);
    copy.remove("model.onnx_data");
    copy.assert_defects("cls-embedder", ErrorCode::ModelInvalid, &["model.onnx_data"]);
}

#[test]
fn a_tokenizer_that_does_not_part_query_and_document_is_refused() {
    let copy = Copy::of("modernbert-reranker");
    copy.set("tokenizer.json", json!({"post_processor": null}));
    copy.assert_defects("m", ErrorCode::ModelInvalid, &["no token between query and document"]);
}
