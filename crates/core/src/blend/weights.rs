//! The weights of the blend, as `models/blend.py` fitted them.

/// What a row has before others of its list, and how well it fits by itself. They belong to the cosines of one
/// embedder.
#[derive(Debug)]
pub(super) struct RowWeights {
    pub intercept: f64,
    pub gap: f64,
    pub gap_share: f64,
    pub lexical_relative: f64,
    pub session_fit: f64,
    pub long: f64,
    pub other_speaker: f64,
    pub out_of_time: f64,
    /// Times `query_size`.
    pub newest_session_by_size: f64,
    pub similarity: f64,
    pub lexical_share: f64,
    pub scope_size: f64,
}

/// A row without an embedding.
#[derive(Debug)]
pub(super) struct WordWeights {
    pub intercept: f64,
    pub lexical_relative: f64,
    pub lexical_share: f64,
    pub long: f64,
    pub other_speaker: f64,
    pub out_of_time: f64,
    pub scope_size: f64,
    pub query_size: f64,
}

/// A row that a cross-encoder read. They belong to its logits.
#[derive(Debug)]
pub(super) struct ReadWeights {
    pub intercept: f64,
    /// Of the row before it was read.
    pub log_odds: f64,
    pub query_size: f64,
    pub logit: f64,
    /// Times `query_size`.
    pub logit_by_size: f64,
}

/// By the names that the embedders are registered by.
pub(super) static EMBEDDERS: [(&str, RowWeights); 1] = [(
    "memory-embed-small",
    RowWeights {
        intercept: -4.6346,
        gap: -6.8658,
        gap_share: 0.0,
        lexical_relative: 1.5806,
        session_fit: 0.2137,
        long: -2.8207,
        other_speaker: -1.7993,
        out_of_time: -2.8945,
        newest_session_by_size: 1.08,
        similarity: 7.5758,
        lexical_share: 2.6292,
        scope_size: -0.3656,
    },
)];

/// Those of any other embedder, however its cosines are spread.
pub(super) static ANY_EMBEDDER: RowWeights = RowWeights {
    intercept: -1.0,
    gap: 0.0,
    gap_share: -2.0,
    lexical_relative: 1.5806,
    session_fit: 0.2137,
    long: -2.8207,
    other_speaker: -1.7993,
    out_of_time: -2.8945,
    newest_session_by_size: 1.08,
    similarity: 0.0,
    lexical_share: 2.6292,
    scope_size: -0.3656,
};

pub(super) static WORDS: WordWeights = WordWeights {
    intercept: -2.7941,
    lexical_relative: 2.2351,
    lexical_share: 6.1474,
    long: -3.2474,
    other_speaker: -2.1273,
    out_of_time: -0.6019,
    scope_size: -0.417,
    query_size: 0.897,
};

/// By the names that the cross-encoders are registered by.
pub(super) static RERANKERS: [(&str, ReadWeights); 2] = [
    (
        "ms-marco-MiniLM-L-12-v2",
        ReadWeights {
            intercept: 0.005,
            log_odds: 0.8645,
            query_size: 0.5037,
            logit: 0.1254,
            logit_by_size: -0.115,
        },
    ),
    (
        "memory-rerank-small",
        ReadWeights {
            intercept: 0.005,
            log_odds: 0.8645,
            query_size: 0.5037,
            logit: 0.1254,
            logit_by_size: -0.115,
        },
    ),
];
