//! How a refusal names what it is about.

/// Most characters of a name that an error repeats.
const SHOWN_CHARS: usize = 40;

pub fn takes_no(name: &str) -> String {
    format!("the provider anthropic takes no {}", quoted(name))
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.chars().take(SHOWN_CHARS).collect::<String>())
}
