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
    pub logit: f64,
    /// Of what the best logit of the list has over this one.
    pub behind: f64,
    /// Times `query_size`.
    pub behind_by_size: f64,
    pub scope_size: f64,
}

/// By the names that the embedders are registered by.
pub(super) static EMBEDDERS: [(&str, RowWeights); 3] = [
    (
        "memory-embed-small",
        RowWeights {
            intercept: -4.7262,
            gap: -6.9612,
            gap_share: 0.0,
            lexical_relative: 1.5745,
            session_fit: 0.2165,
            long: -2.8032,
            other_speaker: -1.8994,
            out_of_time: -2.8894,
            newest_session_by_size: 1.0396,
            similarity: 7.5365,
            lexical_share: 2.6588,
            scope_size: -0.3519,
        },
    ),
    (
        "bge-small-en-v1.5",
        RowWeights {
            intercept: -2.7989,
            gap: -6.6113,
            gap_share: 0.0,
            lexical_relative: 1.9109,
            session_fit: 0.2457,
            long: -3.0744,
            other_speaker: -2.3769,
            out_of_time: -2.8380,
            newest_session_by_size: 1.0396,
            similarity: 4.1239,
            lexical_share: 3.9919,
            scope_size: -0.3607,
        },
    ),
    (
        "all-MiniLM-L6-v2",
        RowWeights {
            intercept: -0.9422,
            gap: -3.2146,
            gap_share: 0.0,
            lexical_relative: 2.0183,
            session_fit: 0.2388,
            long: -3.3134,
            other_speaker: -2.3789,
            out_of_time: -2.9260,
            newest_session_by_size: 0.8112,
            similarity: 1.7582,
            lexical_share: 4.4410,
            scope_size: -0.3664,
        },
    ),
];

/// Those of any other embedder: a cosine counts by its place between the lowest and the highest of the candidates.
pub(super) static ANY_EMBEDDER: RowWeights = RowWeights {
    intercept: -0.0733,
    gap: 0.0,
    gap_share: -2.4912,
    lexical_relative: 1.8593,
    session_fit: 0.2276,
    long: -3.0520,
    other_speaker: -2.3984,
    out_of_time: -2.8961,
    newest_session_by_size: 0.9683,
    similarity: 0.0,
    lexical_share: 4.4462,
    scope_size: -0.3592,
};

pub(super) static WORDS: WordWeights = WordWeights {
    intercept: -2.7285,
    lexical_relative: 2.2647,
    lexical_share: 6.0250,
    long: -3.2980,
    other_speaker: -2.4898,
    out_of_time: -0.5345,
    scope_size: -0.4185,
    query_size: 0.7458,
};

/// By the names that the cross-encoders are registered by.
pub(super) static RERANKERS: [(&str, ReadWeights); 2] = [
    (
        "ms-marco-MiniLM-L-12-v2",
        ReadWeights {
            intercept: 0.3508,
            log_odds: 0.5308,
            logit: 0.0907,
            behind: -0.1969,
            behind_by_size: 0.2090,
            scope_size: -0.1062,
        },
    ),
    (
        "memory-rerank-small",
        ReadWeights {
            intercept: 0.2620,
            log_odds: 0.6344,
            logit: 0.0717,
            behind: -0.1332,
            behind_by_size: 0.1214,
            scope_size: -0.0756,
        },
    ),
];
