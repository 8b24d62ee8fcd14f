//! What a person types: lines of a terminal, edited and kept for the next time, or the lines of a pipe.

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::fs::DirBuilder;
use std::io::{self, BufRead, IsTerminal};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use tokio::sync::mpsc as lines;

const PROMPT: &str = "> ";
/// Lines that are kept for the next time.
const KEPT: usize = 1_000;
/// The longest line of a pipe; memory takes no longer text.
const MAX_LINE: u64 = 8 << 20;

/// What came.
#[derive(Debug)]
pub enum Line {
    Said(String),
    /// A line that was given up.
    Nothing,
    End,
    /// Nothing can be read any more, and why.
    Broken(String),
}

/// Where lines come from: a thread of its own, for a person may think for long.
pub struct Input {
    wants: Option<mpsc::Sender<()>>,
    lines: lines::Receiver<Line>,
    reader: Option<JoinHandle<()>>,
    is_terminal: bool,
}

impl Input {
    /// `history` is where lines are kept, if somewhere else than usual, or nowhere.
    ///
    /// # Errors
    /// That the terminal cannot be used.
    pub fn new(history: Option<PathBuf>) -> Result<Self, String> {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let (wants, wanted) = mpsc::channel::<()>();
        let (sender, lines) = lines::channel(1);
        let read = if is_terminal {
            let (editor, history) = editor(history)?;
            std::thread::spawn(move || edit(editor, history.as_deref(), &wanted, &sender))
        } else {
            std::thread::spawn(move || read_all(&wanted, &sender))
        };
        Ok(Self { wants: Some(wants), lines, reader: Some(read), is_terminal })
    }

    /// Whether a person sits before it, who sees what goes wrong.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Waits for the next line.
    pub async fn next(&mut self) -> Line {
        let asked = self.wants.as_ref().is_some_and(|wants| wants.send(()).is_ok());
        if !asked {
            return Line::End;
        }
        self.lines.recv().await.unwrap_or(Line::End)
    }

    /// Nothing more is wanted: what was typed is kept.
    pub fn end(&mut self) {
        self.wants = None;
        // The thread of an editor ends when it is not asked; a pipe may say nothing for long.
        if let Some(reader) = self.reader.take().filter(|_| self.is_terminal) {
            let _ = reader.join();
        }
    }
}

fn editor(history: Option<PathBuf>) -> Result<(DefaultEditor, Option<PathBuf>), String> {
    let unusable = |error: ReadlineError| format!("the terminal: {error}");
    let mut editor = DefaultEditor::with_config(Config::default()).map_err(unusable)?;
    editor.set_max_history_size(KEPT).map_err(unusable)?;
    editor.set_auto_add_history(true);
    // What begins with a space is not kept, as in shells.
    editor.set_history_ignore_space(true);
    let history = match history {
        Some(file) if file.as_os_str().is_empty() => None,
        Some(file) => Some(file),
        None => usual_history(),
    };
    if let Some(file) = &history {
        // The first time there is none.
        let _ = editor.load_history(file);
    }
    Ok((editor, history))
}

/// A file in the person's state directory, which only they may read.
fn usual_history() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?;
    let directory = state.join("memory-agent");
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).ok()?;
    Some(directory.join("history"))
}

fn edit(
    mut editor: DefaultEditor,
    history: Option<&Path>,
    wanted: &mpsc::Receiver<()>,
    lines: &lines::Sender<Line>,
) {
    while wanted.recv().is_ok() {
        let line = match editor.readline(PROMPT) {
            Ok(line) => Line::Said(line),
            Err(ReadlineError::Interrupted) => Line::Nothing,
            Err(ReadlineError::Eof) => Line::End,
            Err(error) => Line::Broken(format!("the terminal: {error}")),
        };
        if lines.blocking_send(line).is_err() {
            break;
        }
    }
    if let Some(file) = history {
        // Next time it begins with fewer lines.
        let _ = editor.append_history(file);
    }
}

fn read_all(wanted: &mpsc::Receiver<()>, lines: &lines::Sender<Line>) {
    let mut stdin = io::stdin().lock();
    while wanted.recv().is_ok() {
        let mut bytes = Vec::new();
        let line = match io::Read::take(&mut stdin, MAX_LINE).read_until(b'\n', &mut bytes) {
            Ok(0) => Line::End,
            Ok(_) => match String::from_utf8(bytes) {
                Ok(line) => Line::Said(line),
                Err(_) => Line::Broken("standard input is not UTF-8".to_owned()),
            },
            Err(error) => Line::Broken(format!("standard input: {error}")),
        };
        if lines.blocking_send(line).is_err() {
            break;
        }
    }
}
