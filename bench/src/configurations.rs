//! The ways of ranking that are compared, from one arm alone to the shipped defaults, and for each
//! labelled set which of them are run on it. docs/ranking.md explains the steps they switch.

/// Settings of memory_agent and their values.
type Settings = &'static [(&'static str, &'static str)];

/// The moment a question is asked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// When the data says, through `as_of`.
    Then,
    /// Today: every row is equally old.
    Now,
}

/// What a configuration starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Fusion of cosine and textbook BM25, and nothing else.
    PlainArms,
    /// The shipped arms and fusion, none of the later steps.
    ShippedArms,
    /// Everything as shipped.
    Defaults,
}

impl Base {
    fn settings(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let (later, arms): (Settings, Settings) = match self {
            Self::PlainArms => (LATER_STEPS_OFF, PLAIN_ARMS),
            Self::ShippedArms => (LATER_STEPS_OFF, &[]),
            Self::Defaults => (&[], &[]),
        };
        later.iter().chain(arms).copied()
    }
}

/// What leaves nothing but the two arms and their fusion.
const LATER_STEPS_OFF: Settings = &[
    ("ranking", "weighted"),
    ("rerank_rows", "100"),
    ("rerank", "off"),
    ("score_threshold", "0"),
    ("recency_weight", "0"),
    ("freshness_boost", "off"),
    ("marker_weight", "0"),
    ("mmr_lambda", "1"),
];
const PLAIN_ARMS: Settings = &[("neighbor_weight", "0"), ("bm25_length_floor", "0")];

/// The single arms, each with what it is best with: on no set may the defaults be worse than one of them.
pub const ARMS: [&str; 4] = [DENSE.name, DENSE_NEIGHBORS.name, BM25.name, BM25_FLOOR.name];
/// The defaults, asked as the data says.
pub const AS_SHIPPED: &str = DEFAULTS.name;

/// One way of ranking.
pub struct Configuration {
    pub name: &'static str,
    base: Base,
    /// What differs from the base.
    changes: Settings,
    pub asked: Asked,
    /// The argument `score_threshold`: strict, other than the setting.
    pub threshold: Option<f32>,
    /// Recall at five of the same steps in a Python reference implementation, for parity.
    pub reference: Option<f64>,
}

impl Configuration {
    const fn new(name: &'static str, base: Base, changes: Settings) -> Self {
        Self { name, base, changes, asked: Asked::Then, threshold: None, reference: None }
    }

    const fn now(self) -> Self {
        Self { asked: Asked::Now, ..self }
    }

    const fn strictly_above(self, threshold: f32) -> Self {
        Self { threshold: Some(threshold), ..self }
    }

    const fn like(self, reference: f64) -> Self {
        Self { reference: Some(reference), ..self }
    }

    /// What to set before the first recall, in this order.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.base.settings().chain(self.changes.iter().copied())
    }
}

const DENSE: Configuration =
    Configuration::new("dense only", Base::PlainArms, &[("dense_weight", "1")]);
const DENSE_NEIGHBORS: Configuration =
    Configuration::new("dense only, with neighbours", Base::ShippedArms, &[("dense_weight", "1")]);
const BM25: Configuration =
    Configuration::new("BM25 only", Base::PlainArms, &[("dense_weight", "0")]);
const BM25_FLOOR: Configuration =
    Configuration::new("BM25 only, length floor", Base::ShippedArms, &[("dense_weight", "0")]);
const RRF: Configuration = Configuration::new("rrf", Base::PlainArms, &[("fusion", "rrf")]);
const WEIGHTED: Configuration = Configuration::new("weighted .5", Base::PlainArms, &[]);
const WEIGHTED_CE: Configuration =
    Configuration::new("weighted .5, CE order of 30", Base::PlainArms, CE_ORDER);
const NO_NEIGHBORS: Configuration = Configuration::new(
    "shipped fusion, no neighbours",
    Base::ShippedArms,
    &[("neighbor_weight", "0")],
);
const FUSED: Configuration = Configuration::new("shipped fusion", Base::ShippedArms, &[]);
const FUSED_CE: Configuration =
    Configuration::new("shipped fusion, CE order of 30", Base::ShippedArms, CE_ORDER);
const BLEND: Configuration =
    Configuration::new("shipped fusion + CE", Base::ShippedArms, &[("rerank", "on")]);

/// The cross-encoder's order alone, over as many candidates as the reference had.
const CE_ORDER: Settings = &[
    ("rerank", "on"),
    ("rerank_weight", "1"),
    ("score_normalization", "minmax"),
    ("max_candidates", "30"),
];

const NO_RERANKER: Configuration =
    Configuration::new("defaults, no reranker, as_of", Base::Defaults, &[("rerank", "off")]);
const NO_RERANKER_NOW: Configuration =
    Configuration::new("defaults, no reranker, now", Base::Defaults, &[("rerank", "off")]).now();
const DEFAULTS: Configuration = Configuration::new("defaults, as_of", Base::Defaults, &[]);
const DEFAULTS_NOW: Configuration = Configuration::new("defaults, now", Base::Defaults, &[]).now();

/// As 0.2.0 ranked, but for long rows, of which the cross-encoder read the beginning.
const BEFORE: Settings = &[("ranking", "weighted"), ("rerank_rows", "100")];
const WEIGHTED_RANKING: Configuration =
    Configuration::new("defaults of 0.2.0, as_of", Base::Defaults, BEFORE);
const WEIGHTED_RANKING_NOW: Configuration =
    Configuration::new("defaults of 0.2.0, now", Base::Defaults, BEFORE).now();
const SAME_ROWS: Configuration =
    Configuration::new("weighted ranking, as_of", Base::Defaults, &[("ranking", "weighted")]);

// The defaults with one step changed, for what each step gives or takes.
const DEFAULTS_WITHOUT_NEIGHBORS: Configuration =
    Configuration::new("defaults, no neighbours", Base::Defaults, &[("neighbor_weight", "0")]);
const NO_RECENCY: Configuration = Configuration::new(
    "defaults, recency 0",
    Base::Defaults,
    &[("recency_weight", "0"), ("freshness_boost", "off")],
);
const NO_FRESHNESS: Configuration =
    Configuration::new("defaults, freshness off", Base::Defaults, &[("freshness_boost", "off")]);
const NO_MMR: Configuration =
    Configuration::new("defaults, MMR off", Base::Defaults, &[("mmr_lambda", "1")]);
const MIN_MAX_LOGITS: Configuration = Configuration::new(
    "defaults, logits by min-max",
    Base::Defaults,
    &[("score_normalization", "minmax")],
);
const STRICT_THRESHOLD: Configuration =
    Configuration::new("defaults, threshold .35 strict", Base::Defaults, &[]).strictly_above(0.35);

/// A labelled set and what is run on it.
pub struct Plan {
    /// Its directory below that of all data.
    pub folder: &'static str,
    pub title: &'static str,
    /// Whether the speaker's name is part of what is embedded and indexed.
    pub named_speakers: bool,
    /// When its questions are asked where that makes no difference to what is measured.
    pub asked: Asked,
    pub configurations: &'static [Configuration],
    /// Configuration, lowest recall at five.
    pub targets: &'static [(&'static str, f64)],
}

/// References for one arm are of the shipped embedder; those of both arms were made with another
/// one, all-MiniLM-L6-v2.
pub const PLANS: [Plan; 4] = [
    Plan {
        folder: "locomo-open",
        title: "LoCoMo (two people chat, turns)",
        named_speakers: true,
        asked: Asked::Now,
        configurations: &[
            DENSE.like(0.497),
            DENSE_NEIGHBORS,
            BM25.like(0.522),
            BM25_FLOOR,
            RRF.like(0.500),
            WEIGHTED.like(0.567),
            WEIGHTED_CE.like(0.667),
            NO_NEIGHBORS,
            FUSED,
            FUSED_CE,
            BLEND,
            NO_RERANKER_NOW,
            NO_RERANKER,
            DEFAULTS_NOW,
            DEFAULTS,
            WEIGHTED_RANKING_NOW,
            WEIGHTED_RANKING,
            SAME_ROWS,
            DEFAULTS_WITHOUT_NEIGHBORS,
            NO_RECENCY,
            NO_FRESHNESS,
            NO_MMR,
            MIN_MAX_LOGITS,
            STRICT_THRESHOLD,
        ],
        targets: &[
            (NO_RERANKER_NOW.name, 0.70),
            (NO_RERANKER.name, 0.70),
            (DEFAULTS_NOW.name, 0.71),
            (DEFAULTS.name, 0.71),
        ],
    },
    Plan {
        folder: "realmem-open",
        title: "RealMem (an agent's memory points of projects)",
        named_speakers: false,
        asked: Asked::Then,
        configurations: &[
            DENSE.like(0.288),
            DENSE_NEIGHBORS,
            BM25.like(0.273),
            BM25_FLOOR,
            RRF.like(0.335),
            WEIGHTED,
            NO_NEIGHBORS,
            FUSED,
            BLEND,
            NO_RERANKER,
            DEFAULTS,
            WEIGHTED_RANKING,
            SAME_ROWS,
            DEFAULTS_WITHOUT_NEIGHBORS,
            NO_RECENCY,
            NO_FRESHNESS,
            NO_MMR,
            MIN_MAX_LOGITS,
            STRICT_THRESHOLD,
        ],
        targets: &[(NO_RERANKER.name, 0.38), (DEFAULTS.name, 0.38)],
    },
    Plan {
        folder: "realtalk-open",
        title: "REALTALK (two real people's messages)",
        named_speakers: true,
        asked: Asked::Then,
        configurations: IN_SHORT,
        targets: &[(NO_RERANKER.name, 0.48), (DEFAULTS.name, 0.49)],
    },
    Plan {
        folder: "beam-open",
        title: "BEAM (a user and an assistant, long turns)",
        // One person speaks with an assistant: names would say nothing.
        named_speakers: false,
        asked: Asked::Then,
        configurations: IN_SHORT,
        targets: &[(NO_RERANKER.name, 0.48), (DEFAULTS.name, 0.48)],
    },
];

/// The arms and what is shipped.
const IN_SHORT: &[Configuration] = &[
    DENSE,
    DENSE_NEIGHBORS,
    BM25,
    BM25_FLOOR,
    FUSED,
    NO_RERANKER_NOW,
    NO_RERANKER,
    DEFAULTS_NOW,
    DEFAULTS,
    WEIGHTED_RANKING,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_targets_are_of_configurations() {
        for plan in &PLANS {
            let names: HashSet<&str> = plan.configurations.iter().map(|one| one.name).collect();
            assert_eq!(names.len(), plan.configurations.len());
            assert!(plan.targets.iter().all(|(name, _)| names.contains(name)));
            // Each set says whether the defaults are worth having.
            assert!(ARMS.iter().chain([&AS_SHIPPED]).all(|name| names.contains(name)));
        }
    }

    #[test]
    fn changes_come_after_the_base() {
        let settings: Vec<_> = WEIGHTED_CE.settings().collect();
        let last =
            |name| settings.iter().rfind(|(other, _)| *other == name).map(|(_, value)| *value);
        assert_eq!(last("rerank"), Some("on"));
        assert_eq!(last("mmr_lambda"), Some("1"));
        assert_eq!(DEFAULTS.settings().count(), 0);
    }
}
