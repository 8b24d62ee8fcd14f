//! From text to the token sequences a model takes: special tokens around the text, long texts
//! cut or split into windows, pairs of query and document cut where they are longest.
//!
//! Texts can be a megabyte while a model reads 512 tokens, so a text is tokenised in pieces and
//! only as far as its tokens are used.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use sha2::{Digest, Sha256};
use tokenizers::Tokenizer;

use crate::engine::config::ModelConfig;
use crate::engine::defects::Defects;
use crate::engine::folder::MAX_TOKENIZER_BYTES;
use crate::error::InferenceError;
use crate::protocol::{ModelKind, Purpose};

/// Tokens that two neighbouring windows of a long document share, so that a sentence at a
/// border is whole in one of them.
pub const WINDOW_OVERLAP_TOKENS: usize = 64;

/// Least room for text in a window: each has to bring something that the one before it has not.
const MIN_WINDOW_TOKENS: usize = WINDOW_OVERLAP_TOKENS + WINDOW_OVERLAP_TOKENS / 2;

/// Most windows of one document; text beyond them is not embedded. With 512 tokens a window,
/// 32 windows are about 14,000 tokens or 20 pages, and bound the cost of one text to seconds.
pub const MAX_WINDOWS: usize = 32;

/// Most tokens in all windows of one document, for models that take long ones.
const MAX_WINDOW_TOKENS: usize = 16_384;

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

/// The text put before a text of some purpose.
#[derive(Debug)]
struct Prefix {
    ids: Vec<u32>,
    /// The whitespace that it ends in. It belongs to the word that follows: tokenizers that make
    /// one token of a blank and a word would make two otherwise.
    space: String,
}

/// The tokenizer of one model with that model's limits. Tokenisation never fails on a text
/// and never pads.
#[derive(Debug)]
pub struct ModelTokenizer {
    tokenizer: Arc<PublishedTokenizer>,
    max_tokens: usize,
    query_prefix: Prefix,
    document_prefix: Prefix,
    single: Template,
    /// `None` for an embedder.
    pair: Option<Template>,
}

/// What a `tokenizer.json` says, without its own truncation and padding.
#[derive(Debug)]
pub struct PublishedTokenizer {
    tokenizer: Tokenizer,
    pad_id: u32,
}

/// The tokenizers in use, by the sha256 of their files. An embedder and a reranker often come with one and
/// the same vocabulary, of several megabytes in memory.
static IN_USE: Mutex<Vec<([u8; 32], Weak<PublishedTokenizer>)>> = Mutex::new(Vec::new());

/// Reads `directory/tokenizer.json`, or takes the tokenizer of a loaded model whose file is the same.
pub(crate) fn read_tokenizer(
    directory: &Path,
    defects: &mut Defects,
) -> Option<Arc<PublishedTokenizer>> {
    let remedy = "save the tokenizer as one file, as AutoTokenizer of transformers does";
    let bytes = defects.read(directory, "tokenizer.json", MAX_TOKENIZER_BYTES, remedy)?;
    let digest: [u8; 32] = Sha256::digest(&bytes).into();
    let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    in_use.retain(|(_, tokenizer)| tokenizer.strong_count() > 0);
    let known = in_use.iter().find(|(of_file, _)| *of_file == digest);
    if let Some(tokenizer) = known.and_then(|(_, tokenizer)| tokenizer.upgrade()) {
        return Some(tokenizer);
    }
    let read = Tokenizer::from_bytes(bytes)
        .map_err(|error| {
            defects.add(format_args!("tokenizer.json cannot be loaded ({error})"), remedy)
        })
        .ok()?;
    let tokenizer = Arc::new(defects.keep(PublishedTokenizer::new(read))?);
    in_use.push((digest, Arc::downgrade(&tokenizer)));
    Some(tokenizer)
}

impl PublishedTokenizer {
    /// # Errors
    /// The reason as text, and what to do, if its truncation cannot be switched off.
    pub fn new(mut tokenizer: Tokenizer) -> Result<Self, String> {
        let pad_id = pad_id(&tokenizer);
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| unusable(error.to_string()))?;
        // Memory content is data: "[SEP]" in a text is five characters, not a separator.
        tokenizer.set_encode_special_tokens(true);
        Ok(Self { tokenizer, pad_id })
    }
}

fn unusable(reason: String) -> String {
    format!("tokenizer.json cannot be used ({reason}): take that of the model as it is published")
}

impl ModelTokenizer {
    /// Prepares a tokenizer for a model.
    ///
    /// # Errors
    /// The reason as text, and what to do, if it does not fit `config`.
    pub fn new(published: Arc<PublishedTokenizer>, config: &ModelConfig) -> Result<Self, String> {
        let tokenizer = &published.tokenizer;
        let single = learn_template(tokenizer, 1).map_err(unusable)?;
        let pair = match config.kind {
            ModelKind::Embedder => None,
            ModelKind::Reranker => Some(learn_template(tokenizer, 2).map_err(unusable)?),
        };
        if pair.as_ref().is_some_and(|pair| pair.parts[1].is_empty()) {
            return Err(unusable("it puts no token between query and document".to_owned()));
        }
        let prefix = |purpose| {
            let text = config.prefix(purpose);
            let words = text.trim_end();
            let ids = content_ids(tokenizer, words, usize::MAX)?;
            Ok::<_, InferenceError>(Prefix { ids, space: text[words.len()..].to_owned() })
        };
        let failed = |error: InferenceError| unusable(error.to_string());
        let loaded = Self {
            query_prefix: prefix(Purpose::Query).map_err(failed)?,
            document_prefix: prefix(Purpose::Document).map_err(failed)?,
            tokenizer: published,
            max_tokens: config.max_tokens,
            single,
            pair,
        };
        let longest_prefix = loaded.query_prefix.ids.len().max(loaded.document_prefix.ids.len());
        let template = loaded.pair.as_ref().unwrap_or(&loaded.single);
        if 2 * longest_prefix + template.special_tokens() + MIN_WINDOW_TOKENS > config.max_tokens {
            return Err(format!(
                "a prefix of {longest_prefix} tokens is too long for {} tokens in all: shorten it \
                 in config.json",
                config.max_tokens
            ));
        }
        Ok(loaded)
    }

    /// The token that padding consists of.
    pub fn pad_id(&self) -> u32 {
        self.tokenizer.pad_id
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
        let max_windows = match purpose {
            Purpose::Query => 1,
            Purpose::Document => (MAX_WINDOW_TOKENS / self.max_tokens).clamp(1, MAX_WINDOWS),
        };
        let prefix = &self.prefix(purpose).ids;
        let width = self.max_tokens - self.single.special_tokens() - prefix.len();
        let step = width - WINDOW_OVERLAP_TOKENS;
        let ids = self.content_ids(text, purpose, width + (max_windows - 1) * step)?;

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
        let template = self
            .pair
            .as_ref()
            .ok_or_else(|| InferenceError::Internal("an embedder takes no pairs".to_owned()))?;
        let budget = self.max_tokens - template.special_tokens();
        let text_ids = move |text: &str, purpose| {
            let mut ids = self.prefix(purpose).ids.clone();
            ids.extend(self.content_ids(text, purpose, budget - ids.len())?);
            Ok::<_, InferenceError>(ids)
        };
        let query_ids = text_ids(query, Purpose::Query)?;
        Ok(documents.into_iter().map(move |document| {
            let document_ids = text_ids(document, Purpose::Document)?;
            let (query_tokens, document_tokens) =
                truncate_longest_first(query_ids.len(), document_ids.len(), budget);
            Ok(template.fill(&[&[&query_ids[..query_tokens]], &[&document_ids[..document_tokens]]]))
        }))
    }

    fn prefix(&self, purpose: Purpose) -> &Prefix {
        match purpose {
            Purpose::Query => &self.query_prefix,
            Purpose::Document => &self.document_prefix,
        }
    }

    /// The first `limit` tokens of a text as they follow its prefix, without special tokens.
    fn content_ids(
        &self,
        text: &str,
        purpose: Purpose,
        limit: usize,
    ) -> Result<Vec<u32>, InferenceError> {
        let prefix = self.prefix(purpose);
        if prefix.space.is_empty() {
            return content_ids(&self.tokenizer.tokenizer, text, limit);
        }
        content_ids(&self.tokenizer.tokenizer, &format!("{}{text}", prefix.space), limit)
    }
}

/// The token that a tokenizer pads with. Most say so only in their vocabulary.
fn pad_id(tokenizer: &Tokenizer) -> u32 {
    let named = |name| tokenizer.token_to_id(name);
    tokenizer
        .get_padding()
        .map(|padding| padding.pad_id)
        .or_else(|| named("[PAD]"))
        .or_else(|| named("<pad>"))
        .unwrap_or(0)
}

/// The first `limit` tokens of a text, without special tokens.
fn content_ids(
    tokenizer: &Tokenizer,
    text: &str,
    limit: usize,
) -> Result<Vec<u32>, InferenceError> {
    let piece_bytes =
        limit.saturating_mul(PIECE_BYTES_PER_TOKEN).clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
    let mut ids = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && ids.len() < limit {
        let (piece, after) = rest.split_at(piece_end(rest, piece_bytes));
        let encoding = tokenizer
            .encode_fast(piece, false)
            .map_err(|error| InferenceError::Internal(format!("tokenizer: {error}")))?;
        ids.extend_from_slice(encoding.get_ids());
        rest = after;
    }
    ids.truncate(limit);
    Ok(ids)
}

/// Where a piece of at most `limit` bytes ends: before the last whitespace in it, so that no word
/// is cut and a word keeps the blank before it, which belongs to its token in some vocabularies;
/// else at a character boundary. At least one character, as `limit` exceeds any.
fn piece_end(text: &str, limit: usize) -> usize {
    if text.len() <= limit {
        return text.len();
    }
    let boundary = text.floor_char_boundary(limit);
    let piece = &text[..boundary];
    let is_space = |c: char| c.is_ascii_whitespace();
    let words = piece.rfind(is_space).map_or("", |end| piece[..end].trim_end_matches(is_space));
    if words.is_empty() { boundary } else { words.len() }
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
    fn models_with_the_same_tokenizer_share_it_while_one_of_them_is_loaded() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/memory-embed-small");
        let published = std::fs::read_to_string(shipped.join("tokenizer.json")).unwrap();
        // Blanks that no other test's file has.
        let read = |name: &str, blanks: &str| {
            let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("tokenizer.json"), format!("{published}{blanks}")).unwrap();
            let tokenizer = read_tokenizer(&folder, &mut Defects::default()).unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            tokenizer
        };
        let (embedder, reranker, other) =
            (read("embedder", " "), read("reranker", " "), read("other", "  "));
        assert!(Arc::ptr_eq(&embedder, &reranker) && !Arc::ptr_eq(&embedder, &other));
        let released = Arc::downgrade(&embedder);
        drop((embedder, reranker));
        assert!(released.upgrade().is_none());
    }

    #[test]
    fn truncation_takes_from_the_longer_text() {
        assert_eq!(truncate_longest_first(10, 20, 100), (10, 20));
        assert_eq!(truncate_longest_first(10, 200, 100), (10, 90));
        assert_eq!(truncate_longest_first(200, 10, 100), (90, 10));
        assert_eq!(truncate_longest_first(200, 300, 101), (50, 51));
        assert_eq!(truncate_longest_first(0, 300, 101), (0, 101));
    }

    #[test]
    fn pieces_end_before_whitespace_or_between_characters() {
        assert_eq!(piece_end("short", 100), 5);
        assert_eq!(piece_end("one two \n three", 6), 3);
        assert_eq!(piece_end("one two \n three", 9), 7);
        assert_eq!(piece_end("   longer", 7), 7);
        assert_eq!(piece_end("漢漢漢漢", 7), 6);
    }
}
