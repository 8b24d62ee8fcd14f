//! Text on a terminal: what is stored, relayed or read from a file may hold characters that move the cursor, change
//! what was written before, or turn the order of letters around. None of them reaches a terminal.

/// Whether a character does something to a terminal or to the order of letters, beside line feeds and tabs.
fn is_unsafe(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// A text in its own lines.
pub fn lines(text: &str) -> String {
    text.chars().filter(|letter| !is_unsafe(*letter)).collect()
}

/// A text in one line.
pub fn line(text: &str) -> String {
    let shown = |letter: char| if is_unsafe(letter) || letter.is_control() { ' ' } else { letter };
    text.chars().map(shown).collect()
}

/// JSON that means the same.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            // All of them have four digits, and stand in strings.
            letter if is_unsafe(letter) => safe.push_str(&format!("\\u{:04x}", u32::from(letter))),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn nothing_unsafe_is_left() {
        let unsafe_ones: String = (0..=0x9f_u32)
            .chain([0x61c])
            .chain(0x200e..=0x200f)
            .chain(0x202a..=0x202e)
            .chain(0x2066..=0x2069)
            .filter_map(char::from_u32)
            .filter(|letter| !matches!(letter, '\n' | '\t' | ' '..='~'))
            .collect();
        assert_eq!(unsafe_ones.chars().count(), 31 - 1 + 1 + 32 + 12);
        let text = format!("a\n\tb{unsafe_ones}é\u{200d}👍");
        assert_eq!(lines(&text), "a\n\tbé\u{200d}👍");
        let blanks = " ".repeat(unsafe_ones.chars().count());
        assert_eq!(line(&text), format!("a  b{blanks}é\u{200d}👍"));
        let written = json!({"text": text}).to_string();
        let shown = super::json(&written);
        assert!(!shown.chars().any(is_unsafe) && written.chars().any(is_unsafe));
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["text"], text);
    }
}
