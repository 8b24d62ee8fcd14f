//! Texts of any kind: their parts, words, times, languages and lengths.

pub(crate) mod calendar;
pub mod cut;
pub mod entry;
pub mod excerpt;
pub mod freshness;
pub mod half_characters;
pub mod highlights;
pub mod ids;
pub mod language;
pub mod lexical;
pub mod markers;
pub(crate) mod phrases;
pub mod raw_json;
pub mod secrets;
pub(crate) mod sentences;
pub mod time_phrases;
pub mod tokens;
pub mod triggers;
pub mod unicode;
pub(crate) mod word_lists;
pub(crate) mod words;
pub mod words_sought;
