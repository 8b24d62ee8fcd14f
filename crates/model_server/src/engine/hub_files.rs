//! What is known about a model from the files that transformers and sentence-transformers put into
//! its folder, so that one can be used as it was downloaded from a model hub.

use std::collections::HashMap;
use std::path::{Component, Path};

use serde::Deserialize;
use serde_json::Value;

use crate::engine::config::Pooling;
use crate::engine::defects::Defects;
use crate::engine::fields::{self, Fields};
use crate::engine::head::Layer;
use crate::protocol::ModelKind;

/// Architectures whose first positions are taken: what they call 514 positions are 512 tokens.
const OFFSET_POSITIONS: [&str; 4] = ["roberta", "xlm-roberta", "camembert", "mpnet"];

/// Most tokens unless config.json asks for more. Attention takes time and memory by the square of the
/// length: a graph with 6 heads took 3.3 GB for 8,192 tokens, .3 GB for 2,048. Longer texts are not
/// lost: they are embedded in windows.
const MAX_TOKENS: usize = 2048;

/// What the files say; nothing of it has to be there.
#[derive(Debug, Default)]
pub(crate) struct HubFiles {
    pub kind: Option<ModelKind>,
    pub pooling: Option<Pooling>,
    pub layers: Vec<Layer>,
    pub query_prefix: Option<String>,
    pub document_prefix: Option<String>,
    pub max_tokens: Option<usize>,
    /// Most tokens the graph has positions for.
    pub positions: Option<usize>,
}

/// A line of modules.json.
#[derive(Debug, Deserialize)]
struct Module {
    path: String,
    /// The name of a class, with where it is defined.
    #[serde(rename = "type")]
    class: String,
}

impl HubFiles {
    /// Reads the files of a folder.
    ///
    /// * `config`: its config.json. A pooling in it replaces that of modules.json; null, all of that.
    pub fn read(directory: &Path, config: &Fields, defects: &mut Defects) -> Self {
        let mut published = Self::default();
        let sentence = Fields::optional(directory, "config_sentence_transformers.json", defects);
        published.set_kind(directory, config, sentence.as_ref(), defects);
        published.set_lengths(directory, config, defects);
        if let Some(sentence) = sentence {
            let mut prompts: HashMap<String, Option<String>> =
                sentence.get("prompts", defects).unwrap_or_default();
            let mut prompt = |name| prompts.remove(name).flatten();
            published.query_prefix = prompt("query");
            published.document_prefix = prompt("document").or_else(|| prompt("passage"));
        }
        let has_result = config.names("pooling") && config.lacks("pooling");
        if directory.join("modules.json").exists() && !has_result {
            published.set_modules(directory, config, defects);
        }
        published
    }

    fn set_kind(
        &mut self,
        directory: &Path,
        config: &Fields,
        sentence: Option<&Fields>,
        defects: &mut Defects,
    ) {
        let architectures: Vec<String> = config.get("architectures", defects).unwrap_or_default();
        let family: Option<String> =
            sentence.and_then(|sentence| sentence.get("model_type", defects));
        let is_classifier =
            architectures.iter().any(|name| name.ends_with("ForSequenceClassification"));
        self.kind = if is_classifier || family.as_deref() == Some("CrossEncoder") {
            Some(ModelKind::Reranker)
        } else {
            directory.join("modules.json").exists().then_some(ModelKind::Embedder)
        };
    }

    fn set_lengths(&mut self, directory: &Path, config: &Fields, defects: &mut Defects) {
        let family: Option<String> = config.get("model_type", defects);
        let taken = if OFFSET_POSITIONS.contains(&family.as_deref().unwrap_or_default()) {
            config.get("pad_token_id", defects).unwrap_or(1) + 1
        } else {
            0
        };
        self.positions = config
            .get("max_position_embeddings", defects)
            .map(|positions: usize| positions.saturating_sub(taken));
        let mut limit = |file, field| {
            // Who knows no limit writes a number with thirty digits, or null.
            let value: Option<f64> =
                Fields::optional(directory, file, defects)?.get(field, defects);
            value.map(|tokens| tokens as usize)
        };
        self.max_tokens = [
            limit("sentence_bert_config.json", "max_seq_length"),
            limit("tokenizer_config.json", "model_max_length"),
            self.positions,
        ]
        .into_iter()
        .flatten()
        .min()
        .map(|tokens| tokens.min(MAX_TOKENS));
    }

    fn set_modules(&mut self, directory: &Path, config: &Fields, defects: &mut Defects) {
        let modules: Vec<Module> =
            fields::read(directory, "modules.json", defects).unwrap_or_default();
        for Module { path, class } in modules {
            let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
            if !Path::new(&path).components().all(is_inside) {
                defects.add(
                    format_args!("modules.json names the folder \"{path}\""),
                    "only folders within that of the model are read",
                );
                continue;
            }
            match class.rsplit('.').next().unwrap_or_default() {
                // Every vector is scaled to length 1 unless config.json says otherwise.
                "Transformer" | "Normalize" => {}
                "Pooling" if config.lacks("pooling") => {
                    self.pooling = pooling(directory, &path, defects);
                }
                "Pooling" => {}
                "Dense" => self.layers.extend(defects.keep(Layer::dense(directory, &path))),
                "LayerNorm" => self.layers.extend(defects.keep(Layer::norm(directory, &path))),
                other => defects.add(
                    format_args!("modules.json has a step \"{other}\", which is not supported"),
                    "export a graph that includes it, and write \"pooling\": null into config.json",
                ),
            }
        }
    }
}

/// The pooling of sentence-transformers: one name, in older files a flag for each.
fn pooling(directory: &Path, path: &str, defects: &mut Defects) -> Option<Pooling> {
    let file = format!("{path}/config.json");
    let fields: HashMap<String, Value> = fields::read(directory, &file, defects)?;
    let mut modes: Vec<&str> = fields
        .iter()
        .filter(|(name, value)| name.starts_with("pooling_mode_") && **value == Value::Bool(true))
        .map(|(name, _)| name.as_str())
        .collect();
    modes.extend(fields.get("pooling_mode").and_then(Value::as_str));
    match modes[..] {
        ["cls" | "pooling_mode_cls_token"] => Some(Pooling::Cls),
        ["mean" | "pooling_mode_mean_tokens"] => Some(Pooling::Mean),
        _ => {
            defects.add(
                format_args!("{file} asks for a pooling that is not supported ({modes:?})"),
                "models that pool by cls or by mean can be used",
            );
            None
        }
    }
}
