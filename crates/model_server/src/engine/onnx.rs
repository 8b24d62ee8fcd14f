//! ONNX Runtime: loading the library, loading a graph, running a batch of sequences through it.
//! Nothing here knows what the numbers mean; see `model.rs` for that.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;
use ort::logging::LogLevel;
use ort::session::builder::GraphOptimizationLevel;
use ort::session::{RunOptions, Session, SessionInputValue};
use ort::value::{TensorElementType, TensorRef, ValueType};

use crate::engine::tokenizer::TokenSequence;
use crate::error::InferenceError;
use crate::signals::SignalsBlocked;

/// The library can be initialised once per process and must stay until the process ends.
static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);

/// The loaded ONNX Runtime library.
#[derive(Debug, Clone)]
pub struct Runtime {
    environment: Environment,
}

impl Runtime {
    /// Loads libonnxruntime (1.22 or newer) from `path`. Once loaded it serves the process to
    /// its end: a later call returns the same library, whatever its path says.
    ///
    /// # Errors
    /// [`InferenceError::RuntimeMissing`] if the file is missing, no library, too old, or fails
    /// to initialise. A later call may succeed.
    pub fn load(path: &Path) -> Result<Self, InferenceError> {
        let missing =
            |reason: String| InferenceError::RuntimeMissing { path: path.to_owned(), reason };
        let mut slot = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(environment) = &*slot {
            return Ok(Self { environment: environment.clone() });
        }
        // Without this, ort looks for a relative path beside the executable.
        let absolute = std::path::absolute(path).map_err(|error| missing(error.to_string()))?;
        let _signals = SignalsBlocked::new().map_err(|error| missing(error.to_string()))?;
        // The library queues events about the process, its title included, for its makers before
        // it can be told not to; only this variable is read early enough.
        // SAFETY: no other thread of ours reads the environment: the library is loaded once, before
        // any model thread exists.
        #[allow(unsafe_code)]
        unsafe {
            std::env::set_var("ORT_DISABLE_TELEMETRY", "1");
        }
        // ort panics when the library does not offer the API version it was built for.
        let environment = catch_unwind(AssertUnwindSafe(|| {
            let builder = ort::init_from(&absolute).map_err(|error| error.to_string())?;
            let environment = builder
                .with_name("memory_agent")
                .with_telemetry(false)
                .build()
                .map_err(|error| error.to_string())?;
            environment.set_log_level(LogLevel::Error);
            Ok(environment)
        }))
        .unwrap_or_else(|panic| Err(panic_message(&*panic)))
        .map_err(missing)?;
        *slot = Some(environment.clone());
        Ok(Self { environment })
    }
}

/// How a graph is loaded.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    pub path: PathBuf,
    /// Threads that share the work of one run.
    pub intra_threads: usize,
}

/// What an input of the graph is fed with.
#[derive(Debug, Clone, Copy)]
enum Input {
    Ids,
    AttentionMask,
    Segments,
}

/// The numbers a graph returned for a batch: `data` in row-major order of `shape`, whose first
/// dimension counts the sequences.
#[derive(Debug)]
pub struct Output<'a> {
    pub shape: &'a [i64],
    pub data: &'a [f32],
}

/// A graph ready to run, one batch at a time.
#[derive(Debug)]
pub struct OnnxSession {
    session: Session,
    inputs: Vec<(String, Input)>,
    /// Whether it keeps the memory of a run of a long sequence.
    keeps_much: bool,
}

impl OnnxSession {
    /// Loads and optimises a graph. All threads it starts block every signal.
    ///
    /// # Errors
    /// The reasons as text if the file is no graph that takes BERT-like input: tensors of 64-bit
    /// integers named `input_ids` and, if it wants them, `attention_mask` and `token_type_ids`.
    pub fn load(runtime: &Runtime, options: &SessionOptions) -> Result<Self, Vec<String>> {
        let _signals = SignalsBlocked::new().map_err(|error| vec![error.to_string()])?;
        let session = build_session(runtime, options).map_err(|error| {
            vec![format!(
                "the graph cannot be loaded ({error}): export or download it again, whole"
            )]
        })?;
        let mut inputs = Vec::new();
        let mut reasons = Vec::new();
        for outlet in session.inputs() {
            let input = match outlet.name() {
                "input_ids" => Some(Input::Ids),
                "attention_mask" => Some(Input::AttentionMask),
                "token_type_ids" => Some(Input::Segments),
                _ => None,
            };
            match (input, outlet.dtype()) {
                (Some(input), ValueType::Tensor { ty: TensorElementType::Int64, .. }) => {
                    inputs.push((outlet.name().to_owned(), input));
                }
                (Some(_), other) => reasons.push(format!(
                    "the graph's input \"{}\" is {other}: export the graph with inputs of int64",
                    outlet.name()
                )),
                (None, _) => reasons.push(format!(
                    "the graph wants an unknown input \"{}\": export one that takes input_ids, \
                     attention_mask and token_type_ids or fewer of them",
                    outlet.name()
                )),
            }
        }
        if session.outputs().is_empty() {
            reasons.push("the graph has no output: export one that has".to_owned());
        }
        if reasons.is_empty() {
            Ok(Self { session, inputs, keeps_much: false })
        } else {
            Err(reasons)
        }
    }

    /// The names of what the graph returns.
    pub fn outputs(&self) -> impl Iterator<Item = &str> {
        self.session.outputs().iter().map(|outlet| outlet.name())
    }

    /// Runs sequences as one batch, the shorter ones padded to the longest, and hands one of the
    /// graph's outputs to `read`.
    ///
    /// * `pad`: the id of the token that padding consists of.
    /// * `output`: the position of the output.
    ///
    /// # Errors
    /// The reason as text if the run failed or the output is not 32-bit floating point.
    pub fn run<T>(
        &mut self,
        batch: &[&TokenSequence],
        pad: u32,
        output: usize,
        read: impl FnOnce(Output<'_>) -> T,
    ) -> Result<T, String> {
        let rows = batch.len();
        let columns = batch.iter().map(|sequence| sequence.len()).max().unwrap_or(0);
        let tensors: Vec<Vec<i64>> =
            self.inputs.iter().map(|(_, input)| fill(*input, batch, columns, pad)).collect();
        let mut values: Vec<(&str, SessionInputValue<'_>)> = Vec::with_capacity(tensors.len());
        for ((name, _), tensor) in self.inputs.iter().zip(&tensors) {
            let value = TensorRef::from_array_view(([rows, columns], tensor.as_slice()))
                .map_err(|error| error.to_string())?;
            values.push((name, value.into()));
        }
        let is_long = columns > LONG_SEQUENCE;
        let gives_back = columns > VERY_LONG_SEQUENCE || (self.keeps_much && !is_long);
        let options = run_options(gives_back).map_err(|error| error.to_string())?;
        self.keeps_much = is_long && !gives_back;
        let outputs =
            self.session.run_with_options(values, &options).map_err(|error| error.to_string())?;
        let (shape, data) =
            outputs[output].try_extract_tensor::<f32>().map_err(|error| error.to_string())?;
        Ok(read(Output { shape, data }))
    }
}

/// Attention takes memory by the square of the length, and ONNX Runtime keeps what it has taken: 22 MB after one
/// sequence of 512 tokens. The next run of shorter sequences gives it back; until then long ones use it again.
const LONG_SEQUENCE: usize = 256;
/// A run of a longer one gives its memory back itself.
const VERY_LONG_SEQUENCE: usize = 1024;

fn run_options(gives_back: bool) -> ort::Result<RunOptions> {
    let mut options = RunOptions::new()?;
    if gives_back {
        options.set("memory.enable_memory_arena_shrinkage", "cpu:0")?;
    }
    Ok(options)
}

fn build_session(runtime: &Runtime, options: &SessionOptions) -> ort::Result<Session> {
    Session::builder(&runtime.environment)?
        .with_optimization_level(GraphOptimizationLevel::All)?
        .with_intra_threads(options.intra_threads)?
        .with_inter_threads(1)?
        // A thread that spins after its share of a run burns a core of a database server.
        .with_intra_op_spinning(false)?
        // Every run has another shape; patterns would be kept for each.
        .with_memory_pattern(false)?
        .with_log_level(LogLevel::Error)?
        .commit_from_file(&options.path)
}

/// One input tensor of a batch, row by row; the places after a sequence's end are padding.
fn fill(input: Input, batch: &[&TokenSequence], columns: usize, pad: u32) -> Vec<i64> {
    let padding = match input {
        Input::Ids => i64::from(pad),
        Input::AttentionMask | Input::Segments => 0,
    };
    let mut tensor = vec![padding; batch.len() * columns];
    for (row, sequence) in tensor.chunks_exact_mut(columns.max(1)).zip(batch) {
        match input {
            Input::Ids => copy(row, &sequence.ids),
            Input::Segments => copy(row, &sequence.segments),
            Input::AttentionMask => row[..sequence.len()].fill(1),
        }
    }
    tensor
}

fn copy<T: Copy + Into<i64>>(row: &mut [i64], values: &[T]) {
    for (place, value) in row.iter_mut().zip(values) {
        *place = (*value).into();
    }
}

/// The text of a caught panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|message| (*message).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic without a message".to_owned())
}
