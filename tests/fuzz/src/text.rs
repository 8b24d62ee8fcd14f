//! Texts of turns and queries: pieces for full-text search, markers, words that ask for the newest,
//! whether two statements say the same, and how they stand in a prompt.

use memory_agent_core::facts::repetition::is_repeated;
use memory_agent_core::facts::same::{repeats, says_the_same};
use memory_agent_core::prompt::augment::{MESSAGE_HEADER, original_message};
use memory_agent_core::prompt::fence;
use memory_agent_core::text::entry::{lexical_pieces, tsquery_any, without_overlong_words};
use memory_agent_core::text::language::Language;
use memory_agent_core::text::markers;

const PIECE_BYTES: usize = 4_000;
const WORD_BYTES: usize = 300;

pub fn check(data: &[u8]) {
    let (first, second) = crate::two_texts(data);
    crate::linear(first.len() + second.len(), || {
        let pieces: Vec<&str> = lexical_pieces(&second, PIECE_BYTES).collect();
        assert_eq!(pieces.concat(), second);
        assert!(pieces.iter().all(|piece| (1..=PIECE_BYTES).contains(&piece.len())));
        let short = without_overlong_words(&second, WORD_BYTES);
        assert!(short.len() <= second.len());
        assert!(short.split_whitespace().count() <= second.len());

        let found = Language::english().markers(&second);
        assert!(found.iter().all(|marker| markers::BUILT_IN.contains(marker)));
        let explicit: Vec<String> = second.split(',').map(str::to_owned).collect();
        if explicit.iter().all(|marker| markers::validate(marker).is_ok()) {
            assert!(markers::merge(Some(&explicit), &found).len() <= explicit.len());
        }
        let _ = Language::english().asks_for_fresh(&second);

        let said = original_message(&second);
        assert!(second.contains(said));
        assert!(said.len() <= second.len() && (said == second || second.contains(MESSAGE_HEADER)));

        let fenced = fence::fenced(&fence::data(&second));
        let own = fenced.lines().skip(2).filter(|line| !line.starts_with("  "));
        assert_eq!(own.collect::<Vec<_>>(), [fence::CLOSE]);
        let safe = fence::escaped(&second);
        assert_eq!(fence::escaped(&safe), safe);

        let words: Vec<String> = second.split_whitespace().map(str::to_owned).collect();
        let query = tsquery_any(words.iter().map(String::as_str));
        assert!(query.len() <= 2 * second.len() + 6 * words.len());

        assert_eq!(says_the_same(&first, &second), says_the_same(&second, &first));
        assert!(says_the_same(&second, &second) && repeats(&second, &second));
        let _ = is_repeated(&first, &second, first.len() % 2 == 0);
    });
}
