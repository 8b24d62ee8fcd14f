//! The phrases of a language, by the text search configuration of an agent: those of a folder of its name, else
//! English. Files are read once for each process.

use crate::models::paths;
use crate::pg::error::warn;
use memory_agent_core::text::language::Language;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Largest file of phrases that is read.
const MAX_BYTES: u64 = 1024 * 1024;

thread_local! {
    /// By folder. `None` is English, and a language whose files cannot be used.
    static READ: RefCell<HashMap<PathBuf, Option<Rc<Language>>>> = RefCell::default();
}

/// The phrases of the language of a configuration.
pub struct Phrases(Option<Rc<Language>>);

impl Phrases {
    /// Those of `memory_agent.language_dir`, else the installed ones, else English. The schema of a
    /// configuration is no part of its language's name.
    pub fn of(configuration: &str) -> Self {
        let name = configuration.rsplit('.').next().unwrap_or(configuration).trim_matches('"');
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !is_name || name == "english" {
            return Self(None);
        }
        Self(paths::languages().find_map(|folder| read_once(&folder.join(name))))
    }

    /// Those of another language than English.
    pub fn of_another_language(&self) -> Option<&Language> {
        self.0.as_deref()
    }

    /// The same for texts whose markers are to be detected, nothing for others.
    pub fn for_markers(is_wanted: bool, configuration: &str) -> Option<Self> {
        is_wanted.then(|| Self::of(configuration))
    }
}

impl std::ops::Deref for Phrases {
    type Target = Language;

    fn deref(&self) -> &Language {
        self.0.as_deref().unwrap_or_else(|| Language::english())
    }
}

fn read_once(folder: &Path) -> Option<Rc<Language>> {
    if let Some(known) = READ.with_borrow(|read| read.get(folder).cloned()) {
        return known;
    }
    let language = match read(folder) {
        Ok(language) => language.map(Rc::new),
        Err(problem) => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            let problem =
                format!("the phrases of the language \"{name}\" cannot be used: {problem}");
            warn(
                problem,
                "The installed phrases are used, or English. Correct the files, then connect again.",
            );
            None
        }
    };
    READ.with_borrow_mut(|read| read.insert(folder.to_owned(), language.clone()));
    language
}

/// The language of a folder; `None` if there is no such folder. A list that is not there is empty.
fn read(folder: &Path) -> Result<Option<Language>, String> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let list = |file: &str| text(&folder.join(file)).map_err(|error| format!("{file}: {error}"));
    let language =
        Language::parse(&list("markers.txt")?, &list("freshness.txt")?, &list("times.txt")?);
    language.map(Some).map_err(|error| error.to_string())
}

fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    match File::open(file) {
        Ok(file) => file.take(MAX_BYTES + 1).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(text),
        Err(error) => return Err(error),
    };
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(text)
}
