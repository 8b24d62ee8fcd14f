//! Names that differ by their inflection: "Зои" of "Зоя", "Praze" of "Praha", "Annával" of "Anna".
//!
//! No language is known here. Two names are forms of one if they begin alike and end in what endings are made of:
//! vowels and few consonants. A fleeting vowel ("Paweł", "Pawła") and a softened consonant ("Praha", "Praze") may
//! stand between. Romance names of a man and a woman differ so, too ("Mario", "Maria"), and "Jon" is not "John":
//! only names of languages that inflect names are compared so.

use crate::text::word_lists::List;
use crate::text::words::Word;

/// Letters of an ending, and of the begin that both names must share.
const MOST_ENDING: usize = 3;
const LEAST_BEGIN: usize = 3;
/// Letters of a name that may have an ending with one more.
const LONG_NAME: usize = 6;
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

fn vowels(text: &str) -> bool {
    text.chars().all(|c| VOWELS.contains(c))
}

fn begins_with_vowel(text: &str) -> bool {
    text.starts_with(|c| VOWELS.contains(c))
}

fn is_ending(text: &str) -> bool {
    begins_with_vowel(text) && text.chars().all(|c| VOWELS.contains(c) || ENDING.contains(c))
}

/// Whether the one ends in a vowel and a consonant, and the other, which lacks that vowel or has another one in its
/// place, in the same consonant and an ending: "Paweł", "Pawłem"; "Львів", "Львова"; but not "Milan", "Milena".
fn is_fleeting(with: &str, without: &str) -> bool {
    let mut letters = with.chars();
    let (Some(vowel), Some(consonant), None) = (letters.next(), letters.next(), letters.next())
    else {
        return false;
    };
    let without = match vowel {
        'і' | 'ї' => without.trim_start_matches(['о', 'е', 'є']),
        _ => without,
    };
    let is_closed = VOWELS.contains(vowel) && !VOWELS.contains(consonant);
    without.chars().count() <= MOST_ENDING + 1
        && without.strip_prefix(consonant).is_some_and(|rest| is_closed && is_ending(rest))
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
    if alike < LEAST_BEGIN {
        // "Зоя", "Зои"; but not "Оля", "Олег"
        let is_one = |text: &str| text.chars().count() == 1 && vowels(text);
        return alike + 1 == LEAST_BEGIN && is_one(short) && is_one(long);
    }
    let either = |test: &dyn Fn(&str, &str) -> bool| test(short, long) || test(long, short);
    if either(&is_fleeting) {
        return true;
    }
    // "Tampere", "Tampereella"
    let is_long_name = alike >= LONG_NAME && is_bare(short) && long.is_ascii();
    if long.chars().count() > MOST_ENDING + usize::from(is_long_name) {
        return false;
    }
    if is_bare(short) {
        // "Petr", "Petrem"; of longer names also "Győr", "Győrben"; but not "Jan", "Janusz", "Иван", "Иванка"
        let is_long_enough = alike > LEAST_BEGIN;
        return match begins_with_vowel(long) {
            true if is_long_enough => !OTHER_NAMES.contains(&long),
            true => is_ending(long) && long.chars().count() < MOST_ENDING,
            false => {
                is_bare(long) || is_long_enough && long.is_ascii() && !long.starts_with(['k', 'c'])
            }
        };
    }
    let is_softened = either(&|hard, soft| {
        SOFTENED.iter().any(|(from, to)| {
            let ends = (hard.strip_prefix(from), soft.strip_prefix(to));
            matches!(ends, (Some(left), Some(right)) if vowels(left) && vowels(right))
        })
    });
    is_softened || (is_ending(short) && is_ending(long))
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
    // A name may be of another language than its text, and a small word may look English: "i", "do", "to".
    if found.iter().any(|word| is_eastern(word) && !word.is_capitalised()) {
        return Some(true);
    }
    let eastern = found.iter().filter(|word| is_eastern(word)).count();
    match found.iter().filter(|word| is_western(word)).count() {
        0 if eastern == 0 => None,
        western => Some(eastern > 2 * western),
    }
}

/// Whether names are inflected, by what was said and by a fact made of it.
pub(super) fn either_inflects(said: Option<bool>, fact: &[Word<'_>]) -> bool {
    let is_english = |word: &&Word<'_>| word.is_in(List::Empty) || word.is_in(List::Personal);
    // "on" is Finnish, too.
    let english = fact.iter().filter(is_english).count();
    match (said, inflects(fact)) {
        (Some(true), _) | (_, Some(true)) => true,
        (Some(false), _) | (_, Some(false)) => false,
        (None, None) => english * 6 < fact.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::is_same_name;
    use crate::text::words::folded;

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
            "Tampere Tampereella",
            "Paweł Pawłem",
            "Marek Markiem",
            "Γιώργος Γιώργο",
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
