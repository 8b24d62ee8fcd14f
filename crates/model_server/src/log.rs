//! The server's log: one line per event on standard error, which the supervisor forwards to
//! PostgreSQL's log. Lines never contain a text that was sent for inference.

use std::fmt::Arguments;
use std::io::{self, Write};

/// Writes one line. A closed standard error is no reason to stop serving.
pub fn line(message: Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "memory_agent_model_server: {message}");
}

/// Logs panics by their place only, from now on: the message of a panic can contain a text, as
/// that of a string cut inside a character does.
pub fn hide_panic_messages() {
    std::panic::set_hook(Box::new(|info| match info.location() {
        Some(place) => line(format_args!("panic at {place}")),
        None => line(format_args!("panic")),
    }));
}
