//! What the two programs of this crate share: the benchmark (`make bench`, src/main.rs) and the
//! evaluation of conversations (`make evaluate`, src/evaluation).

pub mod environment;
pub mod llm_scene;
pub mod report;
pub mod samples;
pub mod synthetic;

/// What can go wrong is told to the user as it is.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A number of the command line that has to be one at least.
pub fn positive(value: &str) -> std::result::Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "not a positive number".to_owned())
}
