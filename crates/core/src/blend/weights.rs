//! The weights of the regressions, as `models/blend.py` fitted them.

/// The weights of the regression for rows that no cross-encoder has read, by feature; `_by_size` is times
/// `query_size`. They belong to the cosines of one embedder.
#[derive(Debug)]
pub(super) struct UnreadWeights {
    pub intercept: f64,
    pub similarity: f64,
    pub gap: f64,
    pub lexical_share: f64,
    pub recency: f64,
    pub recency_by_size: f64,
    pub query_size: f64,
    pub other_speaker: f64,
    pub in_time: f64,
    pub out_of_time: f64,
    pub session: f64,
    pub session_fit: f64,
    pub newest_session: f64,
    pub newest_session_by_size: f64,
    pub length: f64,
}

/// The weights of the regression for rows that a cross-encoder read, as above. They belong to the cosines of
/// one embedder and the logits of one cross-encoder.
#[derive(Debug)]
pub(super) struct ReadWeights {
    /// The name that the cross-encoder is registered by.
    pub reranker: &'static str,
    pub intercept: f64,
    pub gap: f64,
    pub lexical_relative: f64,
    pub recency: f64,
    pub recency_by_size: f64,
    pub query_size: f64,
    pub other_speaker: f64,
    pub in_time: f64,
    pub session_fit: f64,
    pub newest_session: f64,
    pub newest_session_by_size: f64,
    pub length: f64,
    pub logit: f64,
    pub logit_by_size: f64,
    pub logit_above_knee: f64,
}

/// What was fitted to the cosines of an embedder.
#[derive(Debug)]
pub(super) struct Fitted {
    /// The name that the embedder is registered by.
    pub embedder: &'static str,
    pub unread: UnreadWeights,
    pub read: &'static [ReadWeights],
}

/// The default embedder of earlier versions comes first.
pub(super) static FITTED: [Fitted; 2] = [
    Fitted {
        embedder: "bge-small-en-v1.5",
        unread: UnreadWeights {
            intercept: -4.8489,
            similarity: 0.1929,
            gap: -9.9793,
            lexical_share: 6.5231,
            recency: 0.2024,
            recency_by_size: 1.3968,
            query_size: -0.9304,
            other_speaker: -2.7325,
            in_time: 1.1508,
            out_of_time: -0.4349,
            session: -3.6813,
            session_fit: 0.7866,
            newest_session: 0.1802,
            newest_session_by_size: 0.7347,
            length: 0.3905,
        },
        read: &[
            ReadWeights {
                reranker: "ms-marco-MiniLM-L-12-v2",
                intercept: -3.6424,
                gap: -9.9678,
                lexical_relative: 1.3386,
                recency: -0.0414,
                recency_by_size: 2.1084,
                query_size: -2.5715,
                other_speaker: -1.7905,
                in_time: 1.1568,
                session_fit: 0.1361,
                newest_session: -0.3644,
                newest_session_by_size: 2.0041,
                length: 0.3928,
                logit: 0.0961,
                logit_by_size: -0.1382,
                logit_above_knee: 0.1223,
            },
            ReadWeights {
                reranker: "memory-rerank-small",
                intercept: -4.0126,
                gap: -9.9654,
                lexical_relative: 1.4125,
                recency: -0.0093,
                recency_by_size: 2.2412,
                query_size: -2.8308,
                other_speaker: -1.9671,
                in_time: 1.1413,
                session_fit: 0.2437,
                newest_session: -0.3590,
                newest_session_by_size: 2.2359,
                length: 0.4129,
                logit: 0.0979,
                logit_by_size: -0.1542,
                logit_above_knee: 0.1120,
            },
        ],
    },
    Fitted {
        embedder: "memory-embed-small",
        unread: UnreadWeights {
            intercept: -4.5710,
            similarity: 1.0042,
            gap: -12.9576,
            lexical_share: 5.4743,
            recency: 0.3317,
            recency_by_size: 1.2145,
            query_size: -1.0696,
            other_speaker: -2.5085,
            in_time: 1.1820,
            out_of_time: -0.5176,
            session: -2.6576,
            session_fit: 0.6368,
            newest_session: 0.0081,
            newest_session_by_size: 0.8071,
            length: 0.2901,
        },
        read: &[
            ReadWeights {
                reranker: "ms-marco-MiniLM-L-12-v2",
                intercept: -3.3973,
                gap: -12.2543,
                lexical_relative: 1.1839,
                recency: -0.1941,
                recency_by_size: 1.8909,
                query_size: -2.4733,
                other_speaker: -1.6676,
                in_time: 1.2205,
                session_fit: 0.1496,
                newest_session: -0.2648,
                newest_session_by_size: 2.1855,
                length: 0.3772,
                logit: 0.0864,
                logit_by_size: -0.1113,
                logit_above_knee: 0.1058,
            },
            ReadWeights {
                reranker: "memory-rerank-small",
                intercept: -3.6141,
                gap: -12.1442,
                lexical_relative: 1.2302,
                recency: -0.1228,
                recency_by_size: 2.5933,
                query_size: -2.9072,
                other_speaker: -1.9583,
                in_time: 1.2069,
                session_fit: 0.2496,
                newest_session: -0.3229,
                newest_session_by_size: 2.0246,
                length: 0.3601,
                logit: 0.0847,
                logit_by_size: -0.1295,
                logit_above_knee: 0.1041,
            },
        ],
    },
];
