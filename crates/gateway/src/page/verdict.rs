//! What a probability is worth, in words. With the learned ranking, of a hundred memories with a relevance of .3 about
//! thirty answer the question (docs/ranking.md, "What a probability is worth"). Of questions that have nothing to do
//! with a memory, no more than one in twenty finds something that reaches [`LIKELY`], whatever the size of the memory.
//! [`MAYBE`] is what at least 95 of 100 questions with an answer reach, but in the largest memories; below it, fewer
//! than one in ten answers.

use std::collections::HashSet;

const LIKELY: f64 = 0.3;
const MAYBE: f64 = 0.1;

/// Whether a memory answers a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Likely,
    Maybe,
    Unrelated,
}

impl Verdict {
    pub fn of(probability: f64) -> Self {
        match probability {
            likely if likely >= LIKELY => Self::Likely,
            maybe if maybe >= MAYBE => Self::Maybe,
            _ => Self::Unrelated,
        }
    }

    /// The word that the style sheet knows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Likely => "likely",
            Self::Maybe => "maybe",
            Self::Unrelated => "unrelated",
        }
    }

    pub fn in_words(self) -> &'static str {
        match self {
            Self::Likely => "Likely",
            Self::Maybe => "Maybe",
            Self::Unrelated => "Probably unrelated",
        }
    }
}

/// Words that are in both texts and say something, as the first one writes them.
pub fn shared_words(question: &str, text: &str, most: usize) -> Vec<String> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        words.filter(|word| word.chars().count() > 2).map(str::to_owned).collect()
    };
    let known: HashSet<String> = words(text).iter().map(|word| word.to_lowercase()).collect();
    let mut seen = HashSet::new();
    let mut shared = words(question);
    shared.retain(|word| {
        let word = word.to_lowercase();
        known.contains(&word) && !COMMON.contains(&word.as_str()) && seen.insert(word)
    });
    shared.truncate(most);
    shared
}

/// Words that questions have in common with anything.
const COMMON: [&str; 50] = [
    "about", "all", "and", "any", "are", "been", "but", "can", "could", "did", "does", "for",
    "from", "had", "has", "have", "her", "his", "how", "its", "must", "not", "our", "out", "she",
    "should", "that", "the", "their", "them", "there", "they", "this", "use", "was", "were",
    "what", "when", "where", "which", "who", "whose", "why", "will", "with", "would", "you",
    "your", "him", "may",
];

/// Words in quotes.
pub fn quoted(words: &[String]) -> String {
    words.iter().map(|word| format!("“{word}”")).collect::<Vec<_>>().join(", ")
}

/// A probability of a hundred.
pub fn percent(probability: f64) -> String {
    if probability < 0.005 { "< 1 %".to_owned() } else { format!("{:.0} %", probability * 100.0) }
}

/// A text as it is compared with others that may say the same.
pub fn normal(text: &str) -> String {
    let words =
        text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_in_words() {
        for (probability, verdict) in [
            (1.0, Verdict::Likely),
            (0.3, Verdict::Likely),
            (0.299, Verdict::Maybe),
            (0.1, Verdict::Maybe),
            (0.099, Verdict::Unrelated),
            (f64::NAN, Verdict::Unrelated),
        ] {
            assert_eq!(Verdict::of(probability), verdict, "{probability}");
        }
    }

    #[test]
    fn words_in_common() {
        let shared = |question, text| shared_words(question, text, 3);
        assert_eq!(shared("What must Lena not eat?", "LENA is allergic."), ["Lena"]);
        assert_eq!(shared("Where does Ann live? Where?", "Ann lives where she does."), ["Ann"]);
        assert_eq!(shared("Who is it?", "It is the one who was here."), [""; 0]);
        assert_eq!(shared("Where is the key?", "The key is here."), ["key"]);
        assert_eq!(
            shared("plums pears apples figs", "figs, apples, pears, plums"),
            ["plums", "pears", "apples"]
        );
    }

    #[test]
    fn texts_that_say_the_same() {
        assert_eq!(normal("We signed the  lease!"), normal("we signed the lease."));
        assert_ne!(normal("We signed the lease."), normal("We signed a lease."));
    }
}
