//! Whether what one conversation says may change what another one knows. Facts about the user are the same
//! everywhere, and so are those about a person who is named. "The database is PostgreSQL" may be about another
//! database in each conversation.

use crate::text::word_lists::List;
use crate::text::words::words;

/// What users call themselves in what they state as a fact. Few words, as the first of a fact may be one of another
/// language: "Im Projekt", "US law".
const OWN: [&str; 28] = [
    "i", "i'm", "i've", "my", "we", "our", "ich", "mein", "meine", "wir", "je", "j'ai", "mon",
    "ma", "mes", "nous", "notre", "yo", "mi", "mis", "eu", "meu", "minha", "io", "mio", "mia", "я",
    "мой",
];
const UNSPACED_OWN: [&str; 4] = ["私", "僕", "我", "저는"];

/// Words before what is said of a person: "The husband of the user's sister".
const SUBJECT: usize = 6;

/// Words that begin a sentence and name no person.
const ARTICLES: [&str; 32] = [
    "the", "a", "an", "this", "that", "these", "those", "all", "every", "each", "some", "no",
    "der", "die", "das", "ein", "eine", "le", "la", "les", "un", "une", "el", "los", "las", "una",
    "il", "lo", "o", "os", "as", "um",
];

/// Whether a fact of another conversation, `known`, may be repeated, replaced or ended by `new`: it is about the
/// user, or names the person that `new` begins with. A name is a word with a capital letter in both, in no other form, and in
/// one of them within the sentence, where only names have one (in German nouns too), or as an owner.
#[must_use]
pub fn concerns_both(new: &str, known: &str) -> bool {
    is_about_user(known) || shares_name(new, known)
}

/// Whether a fact is about the user, or about what is theirs.
#[must_use]
pub fn is_about_user(fact: &str) -> bool {
    let begins_own =
        |word: &str| OWN.contains(&word) || UNSPACED_OWN.iter().any(|own| word.starts_with(own));
    let is_user = |word: &str| {
        List::AnyUser.begins(word) || List::User.begins(word) || List::UnspacedUser.is_within(word)
    };
    let words = words(fact);
    // As it is written: "Mia's" is not the Italian "mia".
    words.first().is_some_and(|word| begins_own(&word.raw.to_lowercase()))
        || words.iter().take(SUBJECT).any(|word| is_user(&word.folded))
}

/// Whether both name the person that `new` begins with.
fn shares_name(new: &str, known: &str) -> bool {
    let bare_words = |text| words(text).iter().map(|word| bare(word.raw)).collect::<Vec<_>>();
    let (new, known) = (bare_words(new), bare_words(known));
    let Some(&(name, is_owner)) = new.first() else { return false };
    let lower = name.to_lowercase();
    if !name.starts_with(char::is_uppercase) || ARTICLES.contains(&lower.as_str()) {
        return false;
    }
    let is_common = new.iter().chain(&known).any(|(word, _)| *word == lower);
    let mut found = known.iter().enumerate().filter(|(_, (word, _))| *word == name).peekable();
    let is_within = new.iter().skip(1).any(|(word, _)| *word == name);
    !is_common
        && found.peek().is_some()
        && (is_owner || is_within || found.any(|(at, (_, owns))| at > 0 || *owns))
}

/// A word without the ending of an owner ("Anne's"), and whether it has that. Things have it only where they have
/// a name.
fn bare(word: &str) -> (&str, bool) {
    let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s"));
    (owner.unwrap_or(word), owner.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_about_the_user_are_the_same_everywhere() {
        for fact in [
            "The user lives in Hamburg",
            "The user's wife is named Anne",
            "User prefers tea",
            "I live in Hamburg",
            "My wife is Anne",
            "We moved to Lisbon",
            "Die Schwester des Nutzers, Eva, ist Lehrerin",
            "La esposa del usuario se llama Ana",
            "L'utilisateur habite à Lyon",
            "A esposa do usuário é Ana",
            "Пользователь живёт в Праге",
            "Жена пользователя — врач",
            "ユーザーの妻はアンです",
            "用户住在柏林",
            "사용자는 서울에 산다",
            "Kullanıcının eşi doktor",
            "Użytkownik mieszka w Krakowie",
            "私は東京に住んでいます",
        ] {
            assert!(is_about_user(fact), "{fact}");
            assert!(concerns_both("The user moved to Lisbon", fact), "{fact}");
        }
    }

    #[test]
    fn somebody_who_is_named_is_the_same_everywhere() {
        for (new, known) in [
            ("Anne moved to Milan", "The boss of Anne lives in Rome"),
            ("Anne's office moved to Milan", "Anne works in Rome"),
            ("Project Apollo was cancelled in May", "The deadline of Project Apollo is 3 July"),
            ("Zoë ist nach Wien gezogen", "In Graz wohnt Zoë"),
        ] {
            assert!(concerns_both(new, known), "{new:?} and {known:?}");
        }
    }

    #[test]
    fn things_of_one_conversation_are_not() {
        for (new, known) in [
            ("The database is MySQL", "The database is PostgreSQL"),
            ("Database is MySQL", "Database is PostgreSQL"),
            ("The user moved to Lisbon", "The database is PostgreSQL"),
            ("The deadline is 3 July", "The deadline is 1 May"),
            ("PostgreSQL is slow here", "MySQL is the database"),
            ("Deployment needs the new database", "the database needs a deployment"),
            ("Anne moved to Milan", "Tim lives in Rome"),
            ("Anne moved to Milan", "Mia's birthday is on Saturday"),
            ("Tim met Anne", "Only Anne has the key"),
            ("The database is MySQL", "The database of the shop is MySQL"),
            ("Die Datenbank ist MySQL", "Die Datenbank ist PostgreSQL"),
            ("これはデータベースです", "データベースはMySQLです"),
            ("", ""),
        ] {
            assert!(!concerns_both(new, known), "{new:?} and {known:?}");
        }
    }
}
