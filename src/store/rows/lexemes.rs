//! Lexical index values: a `tsvector` built from any text without ever failing, and read here
//! directly (its lexemes, their frequencies, its length), which is what exact BM25 needs.
#![allow(unsafe_code)]

use crate::pg::prelude::*;
use crate::pg::spi::Session;
use memory_agent_core::text::lexical::{self, PlacedLexeme, Term};
use memory_agent_core::text::unicode;
use std::cmp::Ordering;
use std::ffi::CString;

/// Text up to this size always fits a tsvector (1 MiB of lexemes and positions).
const PIECE_BYTES: usize = 64 * 1024;
/// What the pieces' vectors may add up to.
const MAX_VECTOR_BYTES: usize = 1_000_000;
/// PostgreSQL does not index longer words, and says so in a NOTICE for each.
const MAX_WORD_BYTES: usize = 2046;

/// An owned tsvector, in the memory context it was made in.
#[derive(Clone, Copy)]
pub struct Lexemes {
    vector: pg_sys::Datum,
}

/// One lexeme of a tsvector.
struct Lexeme<'a> {
    text: &'a [u8],
    /// Occurrences; PostgreSQL keeps at most 255 positions of a lexeme.
    frequency: u16,
    /// Where it occurs first, in words.
    position: u16,
}

impl IntoDatum for Lexemes {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(self.vector)
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TSVECTOROID
    }
}

impl Lexemes {
    /// Indexes a text, in the form in which words are looked up.
    pub fn index(session: &Session, configuration: &str, content: &str) -> PgResult<Self> {
        Self::of(session, configuration, &unicode::indexed(content))
    }

    /// Indexes a text as it is written. Text beyond a tsvector's limit is indexed by its longest prefix that fits,
    /// counted in pieces of 64 KiB.
    pub fn of(session: &Session, configuration: &str, content: &str) -> PgResult<Self> {
        let content = lexical::without_overlong_words(content, MAX_WORD_BYTES);
        let mut whole: Option<Self> = None;
        for piece in lexical::lexical_pieces(&content, PIECE_BYTES) {
            let vector = Self::index_piece(session, configuration, piece)?;
            whole = Some(match whole {
                None => vector,
                Some(before) if before.bytes() + vector.bytes() > MAX_VECTOR_BYTES => {
                    return Ok(before);
                }
                Some(before) => before.concatenated(vector)?,
            });
        }
        match whole {
            Some(vector) => Ok(vector),
            None => Self::index_piece(session, configuration, ""),
        }
    }

    fn index_piece(session: &Session, configuration: &str, piece: &str) -> PgResult<Self> {
        let mut params = params![configuration, piece];
        session
            .first("SELECT to_tsvector($1::regconfig, $2)", &mut params, |row| {
                let datum =
                    row.datum(1).ok_or_else(|| Error::internal("to_tsvector returned NULL"))?;
                // SAFETY: a tsvector datum of a live row, copied before the row goes.
                Ok(unsafe { Self::copied(datum) })
            })?
            .ok_or_else(|| Error::internal("to_tsvector returned no row"))
    }

    /// # Safety
    /// `datum` must be a live tsvector.
    unsafe fn copied(datum: pg_sys::Datum) -> Self {
        // SAFETY: the caller vouches for the datum.
        let copy = unsafe { pg_sys::pg_detoast_datum_copy(datum.cast_mut_ptr()) };
        Self { vector: pg_sys::Datum::from(copy) }
    }

    fn concatenated(self, other: Self) -> PgResult<Self> {
        // SAFETY: both are tsvectors; the result is one.
        let datum = unsafe {
            pgrx::direct_function_call_as_datum(
                pg_sys::tsvector_concat,
                &[Some(self.vector), Some(other.vector)],
            )
        };
        datum
            .map(|vector| Self { vector })
            .ok_or_else(|| Error::internal("tsvector_concat returned NULL"))
    }

    fn bytes(self) -> usize {
        // SAFETY: `vector` is a detoasted varlena.
        unsafe { pgrx::varsize_4b(self.vector.cast_mut_ptr()) as usize }
    }

    /// Number of indexed words, repetitions included: BM25's document length.
    pub fn document_length(self) -> i32 {
        // SAFETY: `vector` is a detoasted tsvector that lives as long as its memory context.
        let lexemes = unsafe { View::new(self.vector) };
        let length: u64 = lexemes.iter().map(|lexeme| u64::from(lexeme.frequency)).sum();
        i32::try_from(length).unwrap_or(i32::MAX)
    }

    /// The distinct lexemes, in the order in which they first occur.
    pub fn placed(self) -> Vec<PlacedLexeme> {
        // SAFETY: as above.
        let lexemes = unsafe { View::new(self.vector) };
        let mut found: Vec<Lexeme<'_>> = lexemes.iter().collect();
        found.sort_by_key(|lexeme| lexeme.position);
        let placed = |found: &Lexeme<'_>| PlacedLexeme {
            position: found.position,
            lexeme: String::from_utf8_lossy(found.text).into_owned(),
        };
        found.iter().map(placed).collect()
    }
}

/// How often each of `terms` occurs in a tsvector datum of a live row.
///
/// # Safety
/// `datum` must be a live tsvector.
pub unsafe fn frequencies(datum: pg_sys::Datum, terms: &[Term]) -> Vec<u16> {
    // SAFETY: the caller vouches for the datum. A packed or toasted value is expanded first.
    unsafe {
        let original = datum.cast_mut_ptr::<pg_sys::varlena>();
        let detoasted = pg_sys::pg_detoast_datum(original);
        let view = View::new(pg_sys::Datum::from(detoasted));
        let frequency = |term: &Term| {
            term.lexemes().map(|lexeme| view.frequency(lexeme.as_bytes())).max().unwrap_or_default()
        };
        let found = terms.iter().map(frequency).collect();
        if detoasted != original {
            pg_sys::pfree(detoasted.cast());
        }
        found
    }
}

/// A query that matches any of the terms.
pub fn any_of(terms: &[Term]) -> PgResult<pg_sys::Datum> {
    let text = CString::new(lexical::tsquery_any(terms.iter().flat_map(Term::lexemes)))
        .map_err(|_| Error::internal("a lexeme contains NUL"))?;
    // SAFETY: tsqueryin reads a C string and raises an ERROR if it is no query.
    unsafe {
        pgrx::direct_function_call_as_datum(
            pg_sys::tsqueryin,
            &[Some(pg_sys::Datum::from(text.as_ptr()))],
        )
    }
    .ok_or_else(|| Error::internal("tsqueryin returned NULL"))
}

/// PostgreSQL's tsvector in memory (tsearch/ts_type.h): a count, that many 32-bit entries
/// (1 bit has-positions, 11 bits length, 20 bits offset), sorted by lexeme; then the lexemes, each
/// followed, 2-byte aligned, by a 16-bit count and that many 16-bit positions.
struct View<'a> {
    entries: &'a [u32],
    text: &'a [u8],
}

impl<'a> View<'a> {
    /// # Safety
    /// `datum` must be a detoasted tsvector that outlives the view.
    unsafe fn new(datum: pg_sys::Datum) -> Self {
        // SAFETY: the layout above; the total size comes from the varlena header.
        unsafe {
            let start = datum.cast_mut_ptr::<u8>();
            let total = pgrx::varsize_4b(start.cast()) as usize;
            let count = start.add(4).cast::<i32>().read().max(0) as usize;
            let entries = std::slice::from_raw_parts(start.add(8).cast::<u32>(), count);
            let offset = 8 + count * size_of::<u32>();
            let text = std::slice::from_raw_parts(start.add(offset), total.saturating_sub(offset));
            Self { entries, text }
        }
    }

    fn lexeme(&self, entry: u32) -> Lexeme<'a> {
        let has_positions = entry & 1 != 0;
        let length = (entry >> 1 & 0x7ff) as usize;
        let offset = (entry >> 12) as usize;
        let end = (offset + length).min(self.text.len());
        let text = &self.text[offset.min(end)..end];
        let counter = end + (end & 1);
        let number = |at: usize| match self.text.get(at..at + 2) {
            Some(bytes) if has_positions => u16::from_ne_bytes([bytes[0], bytes[1]]),
            _ => 0,
        };
        // The two highest bits of a position are its weight.
        Lexeme { text, frequency: number(counter).max(1), position: number(counter + 2) & 0x3fff }
    }

    fn iter(&self) -> impl Iterator<Item = Lexeme<'a>> + '_ {
        self.entries.iter().map(|&entry| self.lexeme(entry))
    }

    fn frequency(&self, term: &[u8]) -> u16 {
        self.entries
            .binary_search_by(|&entry| compare(self.lexeme(entry).text, term))
            .map_or(0, |at| self.lexeme(self.entries[at]).frequency)
    }
}

/// The order of lexemes in a tsvector: by bytes, a prefix before what it begins.
fn compare(left: &[u8], right: &[u8]) -> Ordering {
    left.cmp(right)
}
