//! The JSON files of a model's folder, read field by field: what is wrong with one field does not
//! hide what is wrong with the next.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::engine::defects::Defects;
use crate::engine::folder::MAX_CONFIG_BYTES;

/// The fields of one file.
#[derive(Debug)]
pub(crate) struct Fields {
    file: String,
    values: Map<String, Value>,
}

impl Fields {
    /// Reads a file that has to be there.
    pub fn required(directory: &Path, file: &str, defects: &mut Defects) -> Option<Self> {
        let values = read(directory, file, defects)?;
        Some(Self { file: file.to_owned(), values })
    }

    /// Reads a file that may be there.
    pub fn optional(directory: &Path, file: &str, defects: &mut Defects) -> Option<Self> {
        directory.join(file).exists().then(|| Self::required(directory, file, defects))?
    }

    /// Whether the file has that field, be it null.
    pub fn names(&self, field: &str) -> bool {
        self.values.contains_key(field)
    }

    /// Whether the file says nothing about that field.
    pub fn lacks(&self, field: &str) -> bool {
        self.values.get(field).is_none_or(Value::is_null)
    }

    /// A field that is there, not null and of the right type.
    pub fn get<T: DeserializeOwned>(&self, field: &str, defects: &mut Defects) -> Option<T> {
        let value = self.values.get(field).filter(|value| !value.is_null())?;
        T::deserialize(value)
            .map_err(|error| {
                defects
                    .add(format_args!("\"{field}\" in {} is wrong", self.file), &error.to_string());
            })
            .ok()
    }
}

/// The content of a JSON file that has to be there.
pub(crate) fn read<T: DeserializeOwned>(
    directory: &Path,
    file: &str,
    defects: &mut Defects,
) -> Option<T> {
    let bytes = defects.read(directory, file, MAX_CONFIG_BYTES, "put it into the folder")?;
    serde_json::from_slice(&bytes)
        .map_err(|error| defects.add(format_args!("{file} cannot be read"), &error.to_string()))
        .ok()
}
