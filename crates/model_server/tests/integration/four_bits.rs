//! The shape of models/multilingual.py: words of 4 bits, which ONNX Runtime looks up with an operator of its own,
//! and one step for each token. models/shapes_multilingual.py made the tiny model and what it has to give.

use std::ops::ControlFlow;
use std::path::Path;

use memory_agent_model_server::protocol::{ModelRef, Purpose};
use memory_agent_model_server::{Engine, EngineOptions};
use serde_json::Value;

use crate::common::{cosine, onnxruntime};

/// What rounding to int8 may take away; the answers are those of floats.
const LEAST_COSINE: f32 = 0.995;

#[test]
fn words_of_four_bits_give_the_known_answers_alone_and_in_a_batch() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/four_bits");
    let answers = std::fs::read(folder.join("answers.json")).unwrap();
    let answers: Vec<Value> = serde_json::from_slice(&answers).unwrap();
    let directory = folder.to_str().unwrap().to_owned();
    let model = ModelRef { name: "four-bits".to_owned(), directory, remote: None };
    let engine =
        Engine::new(EngineOptions { onnxruntime_path: onnxruntime(), threads: 1 }).unwrap();
    for (purpose, its_name) in [(Purpose::Query, "query"), (Purpose::Document, "document")] {
        let expected: Vec<&Value> =
            answers.iter().filter(|answer| answer["purpose"] == its_name).collect();
        let texts: Vec<&str> =
            expected.iter().map(|answer| answer["text"].as_str().unwrap()).collect();
        let embed = |texts: &[&str]| -> Vec<Vec<f32>> {
            let mut go_on = || ControlFlow::Continue(());
            let windows = engine.embed(&model, purpose, texts, &mut go_on).unwrap();
            windows.into_iter().flatten().collect()
        };
        for ((answer, text), together) in expected.iter().zip(&texts).zip(embed(&texts)) {
            let row: Vec<f32> = serde_json::from_value(answer["row"].clone()).unwrap();
            let found = cosine(&together, &row);
            assert!(found > LEAST_COSINE, "{its_name} {text}: {found}");
            assert!(cosine(&embed(&[text])[0], &together) > 0.999_999, "{its_name} {text}");
        }
    }
}
