//! How many tokens a text has, roughly; the exact count is the tokeniser's.

/// The tokeniser, as the rules here see it: the tokens of each of the texts. A call may be a
/// request to another process, so many texts are better counted at once.
pub type Counter<'a, E> = dyn FnMut(&[String]) -> Result<Vec<u32>, E> + 'a;

/// The tokens of each text. A text without a count is taken for endless, so that no limit is
/// exceeded because of it.
pub(crate) fn count_all<'a, E>(
    texts: impl IntoIterator<Item = &'a str>,
    count: &mut Counter<'_, E>,
) -> Result<Vec<u32>, E> {
    let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let mut counts = count(&texts)?;
    counts.resize(texts.len(), u32::MAX);
    Ok(counts)
}

/// The tokens of one text.
pub(crate) fn count_one<E>(text: &str, count: &mut Counter<'_, E>) -> Result<u32, E> {
    let counts = count_all([text], count)?;
    Ok(counts.first().copied().unwrap_or(u32::MAX))
}

/// A guess at the number of cl100k_base tokens, for use while the tokeniser is
/// not reachable. It leans high, so that a budget counted with it is kept.
///
/// cl100k_base never joins letters with digits, takes digits in threes and each
/// run of punctuation or line breaks by itself; so many tokens can be counted.
/// The rest is an average: a token for every 4.5 lower-case letters of a word, 2
/// capitals or 2 punctuation marks. Beyond ASCII the tables are thin: a character
/// of 2 UTF-8 bytes counts 1 (Cyrillic, Greek, accented letters), of 3 bytes 1.5
/// (Chinese, Japanese, Korean, Indic scripts), of 4 bytes 3 (emoji).
pub fn estimate_tokens(text: &str) -> u32 {
    let mut total = 0.0;
    let mut run: Option<(Run, f64)> = None;
    for character in text.chars() {
        total += match character.len_utf8() {
            1 => 0.0,
            2 => 1.0,
            3 => 1.5,
            _ => 3.0,
        };
        let Some(kind) = Run::of(character) else {
            continue;
        };
        match &mut run {
            Some((running, length)) if *running == kind => *length += 1.0,
            // A capital belongs to the lower-case letters that follow it.
            Some((running @ Run::Upper, length)) if kind == Run::Lower && *length == 1.0 => {
                *running = kind;
                *length += 1.0;
            }
            _ => {
                total += run.map_or(0.0, |(kind, length)| kind.tokens(length));
                run = Some((kind, 1.0));
            }
        }
    }
    total += run.map_or(0.0, |(kind, length)| kind.tokens(length));
    // The cast saturates.
    total.ceil() as u32
}

/// A run of ASCII characters that the tokeniser keeps apart from its neighbours.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Lower,
    Upper,
    Digits,
    Marks,
    Space,
    LineBreaks,
}

impl Run {
    /// `None` for characters beyond ASCII, which do not end a word.
    fn of(character: char) -> Option<Self> {
        match character {
            'a'..='z' => Some(Self::Lower),
            'A'..='Z' => Some(Self::Upper),
            '0'..='9' => Some(Self::Digits),
            '\n' | '\r' => Some(Self::LineBreaks),
            _ if character.is_ascii_whitespace() => Some(Self::Space),
            _ if character.is_ascii() => Some(Self::Marks),
            _ => None,
        }
    }

    /// Tokens for a run of `length` characters.
    fn tokens(self, length: f64) -> f64 {
        match self {
            Self::Lower => (length / 4.5).max(1.0),
            Self::Upper | Self::Marks => (length / 2.0).max(1.0),
            Self::Digits => (length / 3.0).ceil(),
            // One space belongs to the word behind it.
            Self::Space => (length - 1.0).min(1.0),
            Self::LineBreaks => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counts of cl100k_base for texts of several kinds. The estimate may be
    /// below by a tenth and above by three quarters.
    #[test]
    fn token_estimates_lean_high() {
        let counted = [
            (16, "a b c d e f g h i j k l m n o p"),
            (29, "fn main() { let x = vec![1, 2, 3]; for i in &x { println!(\"{}\", i); } }"),
            (
                26,
                "SELECT id, name FROM users WHERE created_at > '2024-01-01' ORDER BY id DESC LIMIT 10;",
            ),
            (18, "550e8400-e29b-41d4-a716-446655440000"),
            (19, "3.14159265358979323846264338327950288419716939937510"),
            (19, "https://example.com/path/to/some/page.html?query=abc&id=123#frag"),
            (40, "我喜欢在周末和家人一起去公园散步,然后在附近的餐馆吃饭。"),
            (39, "저는 주말마다 친구들과 함께 등산을 가고 저녁에는 집에서 책을 읽습니다."),
            (31, "Я люблю гулять в парке по выходным, а потом читать книги дома."),
            (
                28,
                "J'aime me promener dans le parc avec ma famille le week-end, puis déjeuner à côté de l'hôtel.",
            ),
            (
                36,
                "Ich gehe am Wochenende gerne mit meiner Familie im Park spazieren und esse danach in einem Gasthaus, die Straßenbahnhaltestelle ist gegenüber.",
            ),
            (37, "🎉🎉 great!! 👍🏽👨‍👩‍👧‍👦 🇩🇪"),
        ];
        for (tokens, text) in counted {
            let estimate = f64::from(estimate_tokens(text));
            let ratio = estimate / f64::from(tokens);
            assert!((0.9..=1.75).contains(&ratio), "{estimate} for {tokens}: {text}");
        }
        assert_eq!(estimate_tokens(""), 0);
    }

    proptest! {
        #[test]
        fn a_longer_text_is_never_cheaper(text in "\\PC{0,100}", more in "\\PC{0,100}") {
            let joined = format!("{text} {more}");
            prop_assert!(estimate_tokens(&joined) + 1 >= estimate_tokens(&text));
            prop_assert!(text.trim().is_empty() || estimate_tokens(&text) > 0);
        }
    }
}
