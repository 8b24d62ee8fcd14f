//! What a model's folder lacks, and which files do not belong to it.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use memory_agent_model_server::protocol::ErrorCode;
use serde_json::json;

use crate::common::TemporaryDirectory;
use crate::shapes::{Copy, models};

/// A device without end would fill the memory, a pipe would wait for a writer, and neither can be cancelled.
#[test]
fn what_is_no_file_of_a_model_is_not_read() {
    for file in ["config.json", "tokenizer.json", "model.onnx"] {
        let copy = Copy::of("bert-reranker");
        let path = copy.path(file);
        fs::remove_file(&path).unwrap();
        let irregular = format!("{file} cannot be read (not a regular file)");
        symlink("/dev/zero", &path).unwrap();
        copy.assert_defects("bert-reranker", ErrorCode::ModelMissing, &[&irregular]);

        fs::remove_file(&path).unwrap();
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        copy.assert_defects("bert-reranker", ErrorCode::ModelMissing, &[&irregular]);

        fs::remove_file(&path).unwrap();
        fs::File::create(&path).unwrap().set_len(40 << 30).unwrap();
        let large = format!("{file} cannot be read (42949672960 bytes, expected at most ");
        copy.assert_defects("bert-reranker", ErrorCode::ModelMissing, &[&large]);
    }
}

#[test]
fn one_error_names_all_that_a_folder_lacks() {
    let empty = Copy(TemporaryDirectory::new());
    empty.assert_defects(
        "m",
        ErrorCode::ModelMissing,
        &[
            "config.json cannot be read",
            "tokenizer.json cannot be read",
            "model.onnx cannot be read",
        ],
    );

    let copy = Copy::of("bert-reranker");
    fs::write(copy.path("config.json"), r#"{"pooling": "last", "normalize": 3}"#).unwrap();
    fs::write(copy.path("tokenizer.json"), "{}").unwrap();
    fs::copy(models().join("refused/strange-inputs.onnx"), copy.path("model.onnx")).unwrap();
    copy.assert_defects(
        "m",
        ErrorCode::ModelInvalid,
        &[
            "write \"kind\"",
            "write \"max_tokens\"",
            "\"pooling\" in config.json is wrong",
            "\"normalize\" in config.json is wrong",
            "tokenizer.json cannot be loaded",
            "\"attention_mask\" is Tensor<i32>",
            "unknown input \"task_id\"",
        ],
    );

    let copy = Copy::of("mean-embedder");
    copy.set(
        "config.json",
        json!({"dimension": 7, "max_tokens": 513, "query_prefix": "a ".repeat(300)}),
    );
    copy.set(
        "1_Pooling/config.json",
        json!({"pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true}),
    );
    copy.remove("onnx/model.onnx");
    copy.assert_defects(
        "m",
        ErrorCode::ModelMissing,
        &["pooling_mode_lasttoken", "max_tokens 513", "model.onnx", "a prefix of 300 tokens"],
    );
}
