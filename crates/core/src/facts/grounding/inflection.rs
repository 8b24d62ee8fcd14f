//! Names that differ by their inflection: "Зои" of "Зоя", "Praze" of "Praha", "Annával" of "Anna".
//!
//! No language is known here. Two names are forms of one if they begin alike and end in what endings are made of:
//! vowels and few consonants. A fleeting vowel ("Paweł", "Pawła") and a softened consonant ("Praha", "Praze") may
//! stand between. Romance names of a man and a woman differ so, too ("Mario", "Maria"), and "Jon" is not "John":
//! only names of languages that inflect names are compared so.

use super::words::{List, Word};

/// Letters of an ending, and of the begin that both names must share.
const MOST_ENDING: usize = 3;
const LEAST_BEGIN: usize = 3;
/// Most names of the sources that begin alike and are compared.
pub(super) const MOST_ALIKE: usize = 64;

const VOWELS: &str = "aeiouyаеиоуыэюяіїєьйαεηιουωάέήίόύώ";
/// The consonants of endings between vowels: "-em", "-ovi", "-ego", "-ach", "-us", "-ом", "-ов", "-ах", "-ος".
const ENDING: &str = "mjvwghcsмвгхς";
/// Consonants that endings soften.
const SOFTENED: [(&str, &str); 9] = [
    ("h", "z"),
    ("g", "dz"),
    ("g", "z"),
    ("k", "c"),
    ("ch", "s"),
    ("г", "з"),
    ("к", "ц"),
    ("х", "с"),
    ("t", "c"),
];
/// What makes another name of a name: "Viktor", "Viktoria".
const OTHER_NAMES: [&str; 3] = ["ia", "ия", "ія"];

/// The letters by which names that may be forms of one are found.
pub(super) fn begin(name: &str) -> Option<&str> {
    let (end, last) = name.char_indices().nth(1)?;
    Some(&name[..end + last.len_utf8()])
}

/// Whether two names may be forms of one.
pub(super) fn is_same_name(left: &str, right: &str) -> bool {
    let alike = left.char_indices().zip(right.chars()).take_while(|((_, l), r)| l == r).count();
    let split = |name: &str| {
        let at = name.char_indices().nth(alike).map_or(name.len(), |(at, _)| at);
        name[at..].to_owned()
    };
    let (left, right) = (split(left), split(right));
    let is_bare = |text: &str| matches!(text, "" | "s" | "ς");
    let (short, long) = (left.as_str(), right.as_str());
    let (short, long) = match (is_bare(short), is_bare(long)) {
        (false, true) => (long, short),
        _ if short.chars().count() > long.chars().count() => (long, short),
        _ => (short, long),
    };
    let vowels = |text: &str| text.chars().all(|c| VOWELS.contains(c));
    if alike < LEAST_BEGIN {
        // "Зоя", "Зои"; but not "Оля", "Олег"
        let is_one = |text: &str| text.chars().count() == 1 && vowels(text);
        return alike + 1 == LEAST_BEGIN && is_one(short) && is_one(long);
    }
    if long.chars().count() > MOST_ENDING {
        return false;
    }
    let begins_with_vowel = |text: &str| text.starts_with(|c| VOWELS.contains(c));
    let is_ending = |text: &str| {
        begins_with_vowel(text) && text.chars().all(|c| VOWELS.contains(c) || ENDING.contains(c))
    };
    if is_bare(short) {
        // "Petr", "Petrem"; of longer names also "Győr", "Győrben"; but not "Jan", "Janusz", "Иван", "Иванка"
        let is_long_enough = alike > LEAST_BEGIN;
        return match begins_with_vowel(long) {
            true if is_long_enough => !OTHER_NAMES.contains(&long),
            true => is_ending(long) && long.chars().count() < MOST_ENDING,
            false => is_long_enough && long.is_ascii() && !long.starts_with(['k', 'c']),
        };
    }
    let either = |test: &dyn Fn(&str, &str) -> bool| test(short, long) || test(long, short);
    let is_softened = either(&|hard, soft| {
        SOFTENED.iter().any(|(from, to)| {
            let ends = (hard.strip_prefix(from), soft.strip_prefix(to));
            matches!(ends, (Some(left), Some(right)) if vowels(left) && vowels(right))
        })
    });
    let consonants = |text: &str| text.chars().filter(|c| !VOWELS.contains(*c)).collect::<String>();
    // "Paweł", "Pawła"; "Львів", "Львова"; but not "Milan", "Milena"
    let is_fleeting = consonants(short) == consonants(long)
        && either(&|with, without| {
            begins_with_vowel(with)
                && (!begins_with_vowel(without)
                    || with.starts_with(['і', 'ї']) && without.starts_with(['о', 'е', 'є']))
        });
    is_softened || is_fleeting || (is_ending(short) && is_ending(long))
}

/// Whether a text is of a language that inflects names, as far as its letters and words tell.
pub(super) fn inflects(found: &[Word<'_>]) -> Option<bool> {
    // The languages of Western Europe, which have such names as they are, lack these letters.
    let is_eastern = |word: &Word<'_>| {
        word.raw.contains(|c| {
            matches!(c, '\u{100}'..='\u{24f}' | '\u{370}'..='\u{52f}') && !matches!(c, 'œ' | 'Œ')
        })
    };
    // "l'utente", "d'Anna"
    let elides = |word: &Word<'_>| word.folded.get(1..2) == Some("'");
    let is_western =
        |word: &Word<'_>| word.is_in(List::English) || word.is_in(List::Foreign) || elides(word);
    // A name may be of another language than its text.
    if found.iter().any(|word| is_eastern(word) && !word.is_capitalised()) {
        return Some(true);
    }
    match found.iter().any(is_western) {
        true => Some(false),
        false => found.iter().any(is_eastern).then_some(true),
    }
}

/// Whether a fact shows it, if what was said does not.
pub(super) fn fact_inflects(found: &[Word<'_>]) -> bool {
    let is_english = |word: &Word<'_>| word.is_in(List::Empty) || word.is_in(List::Personal);
    inflects(found).unwrap_or_else(|| !found.iter().any(is_english))
}

#[cfg(test)]
mod tests {
    use super::super::words::folded;
    use super::is_same_name;

    #[test]
    fn forms_of_a_name_are_told_from_other_names() {
        let same = |left: &str, right: &str| {
            let (left, right) = (folded(left), folded(right));
            let is_same = is_same_name(&left, &right);
            assert_eq!(is_same, is_same_name(&right, &left), "{left} {right}");
            is_same
        };
        for pair in [
            "Зоя Зои",
            "Оля Олю",
            "Тверь Твери",
            "Пётр Петром",
            "Львів Львові",
            "Харків Харкова",
            "Мария Марией",
            "Алексей Алексея",
            "Марек Марка",
            "Ольга Ользі",
            "Paweł Pawła",
            "Praha Praze",
            "Kraków Krakowie",
            "Petr Petrem",
            "Jan Janem",
            "Marta Marcie",
            "Katowice Katowicach",
            "Győr Győrben",
            "Anna Annával",
            "Vilnius Vilniuje",
            "Jonas Jono",
            "Warszawa Warszawie",
            "Praga Pradze",
            "Γιώργος Γιώργου",
        ] {
            let (left, right) = pair.split_once(' ').unwrap();
            assert!(same(left, right), "{pair}");
        }
        for pair in [
            "Зоя Нина",
            "Зоя Зоран",
            "Оля Олег",
            "Мария Марина",
            "Марк Мария",
            "Иван Иванка",
            "Виктор Виктория",
            "Тверь Тула",
            "Казань Казахстан",
            "Самара Самарканд",
            "Алексей Александр",
            "Paweł Piotr",
            "Paweł Paulina",
            "Praha Brno",
            "Kraków Kielce",
            "Marek Maria",
            "Marta Maria",
            "Marta Martin",
            "Jan Janusz",
            "Jan Janek",
            "Milan Milena",
            "Martin Marton",
            "Zosia Zofia",
            "Ania Anna",
            "Anna Annika",
            "Ada Adam",
            "Vilnius Vilkija",
            "Jon John",
            "Annával Andrea",
            "Eva Petra",
        ] {
            let (left, right) = pair.split_once(' ').unwrap();
            assert!(!same(left, right), "{pair}");
        }
    }
}
