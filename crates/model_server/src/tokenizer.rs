//! From text to the token sequences a model takes: special tokens around the text, long texts
//! cut or split into windows, pairs of query and document cut where they are longest.
//!
//! Texts can be a megabyte while a model reads 512 tokens, so a text is tokenised in pieces and
//! only as far as its tokens are used.

use std::path::Path;

use tokenizers::Tokenizer;

use crate::config::{ModelConfig, unreadable};
use crate::error::InferenceError;
use crate::protocol::{ModelKind, Purpose};

/// Tokens that two neighbouring windows of a long document share, so that a sentence at a
/// border is whole in one of them.
pub const WINDOW_OVERLAP_TOKENS: usize = 64;

/// Most windows of one document; text beyond them is not embedded. With 512 tokens a window,
/// 32 windows are about 14,000 tokens or 20 pages, and bound the cost of one text to seconds.
pub const MAX_WINDOWS: usize = 32;

/// Bytes of text tokenised at once per token wanted. English has 4 to 5 bytes per token; with 6
/// most texts need one piece.
const PIECE_BYTES_PER_TOKEN: usize = 6;
const PIECE_BYTES: std::ops::RangeInclusive<usize> = 1024..=16 * 1024;

/// One input of a model: token ids and, of equal length, the segment (0 or 1) of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSequence {
    pub ids: Vec<u32>,
    pub segments: Vec<u8>,
}

impl TokenSequence {
    /// Number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn extend(&mut self, ids: &[u32], segment: u8) {
        self.ids.extend_from_slice(ids);
        self.segments.resize(self.ids.len(), segment);
    }
}

/// The special tokens a tokenizer puts around one text or two, learnt from an example: between
/// `parts[i]` and `parts[i + 1]` stands text number i, in segment `text_segments[i]`.
#[derive(Debug)]
struct Template {
    parts: Vec<TokenSequence>,
    text_segments: Vec<u8>,
}

impl Template {
    fn special_tokens(&self) -> usize {
        self.parts.iter().map(TokenSequence::len).sum()
    }

    fn fill(&self, texts: &[&[&[u32]]]) -> TokenSequence {
        let mut sequence = self.parts[0].clone();
        for ((text, segment), part) in texts.iter().zip(&self.text_segments).zip(&self.parts[1..]) {
            for ids in *text {
                sequence.extend(ids, *segment);
            }
            sequence.ids.extend_from_slice(&part.ids);
            sequence.segments.extend_from_slice(&part.segments);
        }
        sequence
    }
}

/// The tokenizer of one model with that model's limits. Tokenisation never fails on a text
/// and never pads.
#[derive(Debug)]
pub struct ModelTokenizer {
    tokenizer: Tokenizer,
    model: String,
    max_tokens: usize,
    query_prefix: Vec<u32>,
    document_prefix: Vec<u32>,
    single: Template,
    /// `None` for an embedder.
    pair: Option<Template>,
}

impl ModelTokenizer {
    /// Reads `directory/tokenizer.json`. Its own truncation and padding are switched off.
    ///
    /// # Errors
    /// [`InferenceError::ModelMissing`] if the file cannot be read,
    /// [`InferenceError::ModelInvalid`] if it is no tokenizer or does not fit `config`.
    pub fn load(config: &ModelConfig, directory: &Path) -> Result<Self, InferenceError> {
        let path = directory.join("tokenizer.json");
        let bytes =
            std::fs::read(&path).map_err(|error| unreadable(&config.name, &path, &error))?;
        let invalid = |reason: String| InferenceError::ModelInvalid {
            model: config.name.clone(),
            reason: format!("\"{}\": {reason}", path.display()),
        };
        let mut tokenizer =
            Tokenizer::from_bytes(bytes).map_err(|error| invalid(error.to_string()))?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| invalid(error.to_string()))?;
        // Memory content is data: "[SEP]" in a text is five characters, not a separator.
        tokenizer.set_encode_special_tokens(true);

        let single = learn_template(&tokenizer, 1).map_err(&invalid)?;
        let pair = match config.kind {
            ModelKind::Embedder => None,
            ModelKind::Reranker => Some(learn_template(&tokenizer, 2).map_err(&invalid)?),
        };
        let mut loaded = Self {
            tokenizer,
            model: config.name.clone(),
            max_tokens: config.max_tokens,
            query_prefix: Vec::new(),
            document_prefix: Vec::new(),
            single,
            pair,
        };
        loaded.query_prefix = loaded.content_ids(config.prefix(Purpose::Query), usize::MAX)?;
        loaded.document_prefix =
            loaded.content_ids(config.prefix(Purpose::Document), usize::MAX)?;
        let longest_prefix = loaded.query_prefix.len().max(loaded.document_prefix.len());
        if longest_prefix + loaded.single.special_tokens() + 2 * WINDOW_OVERLAP_TOKENS
            > config.max_tokens
        {
            return Err(invalid(format!("a prefix of {longest_prefix} tokens is too long")));
        }
        Ok(loaded)
    }

    /// The sequences to embed for a text: one for a query, which is cut at the model's limit;
    /// for a document as many windows as it needs, at most [`MAX_WINDOWS`], each overlapping
    /// the one before by [`WINDOW_OVERLAP_TOKENS`]. Never empty.
    ///
    /// # Errors
    /// [`InferenceError::Internal`] if the tokenizer library fails.
    pub fn windows(
        &self,
        text: &str,
        purpose: Purpose,
    ) -> Result<Vec<TokenSequence>, InferenceError> {
        let (prefix, max_windows) = match purpose {
            Purpose::Query => (&self.query_prefix, 1),
            Purpose::Document => (&self.document_prefix, MAX_WINDOWS),
        };
        let width = self.max_tokens - self.single.special_tokens() - prefix.len();
        let step = width - WINDOW_OVERLAP_TOKENS;
        let ids = self.content_ids(text, width + (max_windows - 1) * step)?;

        let mut windows = Vec::new();
        let mut start = 0;
        loop {
            let end = ids.len().min(start + width);
            windows.push(self.single.fill(&[&[prefix, &ids[start..end]]]));
            if end == ids.len() {
                return Ok(windows);
            }
            start += step;
        }
    }

    /// The sequences that pair the query with each document, each made when it is asked for, cut to the model's limit by
    /// taking tokens from the longer side until both are equally long, then from both.
    ///
    /// # Errors
    /// [`InferenceError::Internal`] if the model is no reranker or the tokenizer library fails.
    pub fn pairs<'a>(
        &'a self,
        query: &str,
        documents: impl IntoIterator<Item = &'a str> + 'a,
    ) -> Result<impl Iterator<Item = Result<TokenSequence, InferenceError>> + 'a, InferenceError>
    {
        let template = self.pair.as_ref().ok_or_else(|| {
            InferenceError::Internal(format!("model \"{}\" takes no pairs", self.model))
        })?;
        let budget = self.max_tokens - template.special_tokens();
        let query_ids = self.content_ids(query, budget)?;
        Ok(documents.into_iter().map(move |document| {
            let document_ids = self.content_ids(document, budget)?;
            let (query_tokens, document_tokens) =
                truncate_longest_first(query_ids.len(), document_ids.len(), budget);
            Ok(template.fill(&[&[&query_ids[..query_tokens]], &[&document_ids[..document_tokens]]]))
        }))
    }

    /// The first `limit` tokens of a text, without special tokens.
    fn content_ids(&self, text: &str, limit: usize) -> Result<Vec<u32>, InferenceError> {
        let piece_bytes = limit
            .saturating_mul(PIECE_BYTES_PER_TOKEN)
            .clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
        let mut ids = Vec::new();
        let mut rest = text;
        while !rest.is_empty() && ids.len() < limit {
            let (piece, after) = rest.split_at(piece_end(rest, piece_bytes));
            let encoding = self.tokenizer.encode_fast(piece, false).map_err(|error| {
                InferenceError::Internal(format!("tokenizer of \"{}\": {error}", self.model))
            })?;
            ids.extend_from_slice(encoding.get_ids());
            rest = after;
        }
        ids.truncate(limit);
        Ok(ids)
    }
}

/// Where a piece of at most `limit` bytes ends: after a whitespace if the piece has one, so that
/// no word is cut, else at a character boundary. At least one character, as `limit` exceeds any.
fn piece_end(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let boundary = text.floor_char_boundary(limit);
    match text.as_bytes()[..boundary].iter().rposition(u8::is_ascii_whitespace) {
        Some(whitespace) => whitespace + 1,
        None => boundary,
    }
}

/// Lengths of two texts after cutting the longer one until both together fit `budget`.
fn truncate_longest_first(first: usize, second: usize, budget: usize) -> (usize, usize) {
    let half = budget / 2;
    if first + second <= budget {
        (first, second)
    } else if first <= half {
        (first, budget - first)
    } else if second <= half {
        (budget - second, second)
    } else {
        (half, budget - half)
    }
}

/// Encodes short example texts with and without special tokens and cuts the first result at the
/// second: what remains are the special tokens.
fn learn_template(tokenizer: &Tokenizer, texts: usize) -> Result<Template, String> {
    const EXAMPLES: [&str; 2] = ["alpha", "beta"];
    let encoding = if texts == 1 {
        tokenizer.encode(EXAMPLES[0], true)
    } else {
        tokenizer.encode((EXAMPLES[0], EXAMPLES[1]), true)
    }
    .map_err(|error| error.to_string())?;
    let segments: Vec<u8> = encoding
        .get_type_ids()
        .iter()
        .map(|id| u8::try_from(*id).map_err(|_| format!("segment {id} is out of range")))
        .collect::<Result<_, _>>()?;
    let ids = encoding.get_ids();

    let mut template = Template { parts: Vec::new(), text_segments: Vec::new() };
    let mut position = 0;
    for example in &EXAMPLES[..texts] {
        let bare = tokenizer.encode(*example, false).map_err(|error| error.to_string())?;
        let bare = bare.get_ids();
        let start = ids[position..]
            .windows(bare.len().max(1))
            .position(|window| window == bare)
            .map(|offset| position + offset)
            .ok_or_else(|| "the text is not to be found between the special tokens".to_owned())?;
        template.parts.push(TokenSequence {
            ids: ids[position..start].to_vec(),
            segments: segments[position..start].to_vec(),
        });
        template.text_segments.push(segments[start]);
        position = start + bare.len();
    }
    template.parts.push(TokenSequence {
        ids: ids[position..].to_vec(),
        segments: segments[position..].to_vec(),
    });
    Ok(template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_takes_from_the_longer_text() {
        assert_eq!(truncate_longest_first(10, 20, 100), (10, 20));
        assert_eq!(truncate_longest_first(10, 200, 100), (10, 90));
        assert_eq!(truncate_longest_first(200, 10, 100), (90, 10));
        assert_eq!(truncate_longest_first(200, 300, 101), (50, 51));
        assert_eq!(truncate_longest_first(0, 300, 101), (0, 101));
    }

    #[test]
    fn pieces_end_after_whitespace_or_between_characters() {
        assert_eq!(piece_end("short", 100), 5);
        assert_eq!(piece_end("one two three", 9), 8);
        assert_eq!(piece_end("漢漢漢漢", 7), 6);
    }
}
