//! What keeps the folder of a model from being used, gathered so that one error says all of it.

use std::fmt::{Display, Write};
use std::path::Path;

use crate::engine::folder;
use crate::error::InferenceError;
use crate::protocol::ModelRef;

/// What a folder lacks or has wrong, in the order it was found.
#[derive(Debug, Default)]
pub(crate) struct Defects {
    list: Vec<String>,
    file_missing: bool,
}

impl Defects {
    /// Adds a defect and what to do about it.
    pub fn add(&mut self, what: impl Display, remedy: &str) {
        self.push(format!("{what}: {remedy}"));
    }

    /// Adds a defect that says what to do about it.
    pub fn push(&mut self, defect: String) {
        self.list.push(defect);
    }

    /// Adds the error, if it is one.
    pub fn keep<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|defect| self.push(defect)).ok()
    }

    /// The bytes of a file that has to be there, at most `max`.
    pub fn read(
        &mut self,
        directory: &Path,
        file: &str,
        max: u64,
        remedy: &str,
    ) -> Option<Vec<u8>> {
        let read = folder::read(&directory.join(file), max);
        read.map_err(|error| self.missing(file, error, remedy)).ok()
    }

    /// Adds a file that cannot be read.
    pub fn missing(&mut self, file: &str, error: impl Display, remedy: &str) {
        self.file_missing = true;
        self.add(format_args!("{file} cannot be read ({error})"), remedy);
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All defects as one error.
    pub fn into_error(self, reference: &ModelRef) -> InferenceError {
        let mut reason = format!("\"{}\" does not hold a usable model", reference.directory);
        for (number, defect) in self.list.iter().enumerate() {
            let mark = if number == 0 { ": " } else { "; " };
            let _ = write!(reason, "{mark}({}) {defect}", number + 1);
        }
        let model = reference.name.clone();
        if self.file_missing {
            InferenceError::ModelMissing { model, reason }
        } else {
            InferenceError::ModelInvalid { model, reason }
        }
    }
}
