//! The ways of ranking that are compared on every labelled set, from one arm alone to the shipped defaults.
//! docs/ranking.md explains the steps they switch.

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
    /// The arms of each row alone, and nothing else.
    PlainArms,
    /// The shipped arms and fusion, none of the later steps.
    ShippedArms,
    /// Everything as shipped.
    Defaults,
    /// The weights set by hand.
    Weighted,
}

impl Base {
    fn settings(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let (later, arms): (Settings, Settings) = match self {
            Self::PlainArms => (LATER_STEPS_OFF, NO_NEIGHBORS),
            Self::ShippedArms => (LATER_STEPS_OFF, &[]),
            Self::Defaults => (&[], &[]),
            Self::Weighted => (&[("ranking", "weighted")], &[]),
        };
        later.iter().chain(arms).copied()
    }
}

/// What leaves nothing but the two arms and their fusion.
const LATER_STEPS_OFF: Settings = &[
    ("ranking", "weighted"),
    ("rerank", "off"),
    ("score_threshold", "0"),
    ("recency_weight", "0"),
    ("marker_weight", "0"),
];
const NO_NEIGHBORS: Settings = &[("neighbor_weight", "0")];

/// The single arms, each with what it is best with: on no set may the defaults be worse than one of them.
pub const ARMS: [&str; 3] = ["cosines alone", "cosines with neighbours", "BM25 alone"];
/// The defaults, asked as the data says.
pub const AS_SHIPPED: &str = "defaults";
const NO_RERANKER: &str = "defaults, no reranker";

/// One way of ranking.
#[derive(Debug)]
pub struct Configuration {
    pub name: &'static str,
    base: Base,
    /// What differs from the base.
    changes: Settings,
    pub asked: Asked,
    /// The argument `score_threshold`: strict, other than the setting.
    pub threshold: Option<f32>,
}

impl Configuration {
    const fn new(name: &'static str, base: Base, changes: Settings) -> Self {
        Self { name, base, changes, asked: Asked::Then, threshold: None }
    }

    /// What to set before the first recall, in this order.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.base.settings().chain(self.changes.iter().copied())
    }
}

pub const CONFIGURATIONS: &[Configuration] = &[
    Configuration::new(ARMS[0], Base::PlainArms, &[("dense_weight", "1")]),
    Configuration::new(ARMS[1], Base::ShippedArms, &[("dense_weight", "1")]),
    Configuration::new(ARMS[2], Base::ShippedArms, &[("dense_weight", "0")]),
    Configuration::new("fusion alone", Base::ShippedArms, &[]),
    Configuration::new(NO_RERANKER, Base::Defaults, &[("rerank", "off")]),
    Configuration::new(AS_SHIPPED, Base::Defaults, &[]),
    // The defaults and the weighted ranking with one step changed, for what each step gives or takes.
    Configuration {
        asked: Asked::Now,
        ..Configuration::new("defaults, asked today", Base::Defaults, &[])
    },
    Configuration::new("defaults, no neighbours", Base::Defaults, &[("neighbor_weight", "0")]),
    Configuration::new("weighted", Base::Weighted, &[]),
    Configuration::new("weighted, no recency", Base::Weighted, &[("recency_weight", "0")]),
    Configuration {
        threshold: Some(0.35),
        ..Configuration::new("weighted, strictly above .35", Base::Weighted, &[])
    },
];

/// A labelled set.
pub struct Plan {
    /// Its directory below that of all data.
    pub folder: &'static str,
    pub title: &'static str,
    /// Whether the speaker's name is part of what is embedded and indexed.
    pub named_speakers: bool,
    /// When its questions are asked where that makes no difference to what is measured.
    pub asked: Asked,
    /// The lowest recall at five without and with the reranker.
    targets: [f64; 2],
}

impl Plan {
    /// The lowest recall at five of a configuration.
    pub fn target(&self, configuration: &str) -> Option<f64> {
        let names = [NO_RERANKER, AS_SHIPPED];
        names.iter().position(|name| *name == configuration).map(|place| self.targets[place])
    }
}

pub const PLANS: [Plan; 4] = [
    Plan {
        folder: "locomo-open",
        title: "LoCoMo (two people chat, turns)",
        named_speakers: true,
        asked: Asked::Now,
        targets: [0.71, 0.72],
    },
    Plan {
        folder: "realmem-open",
        title: "RealMem (an agent's memory points of projects)",
        named_speakers: false,
        asked: Asked::Then,
        targets: [0.38, 0.38],
    },
    Plan {
        folder: "realtalk-open",
        title: "REALTALK (two real people's messages)",
        named_speakers: true,
        asked: Asked::Then,
        targets: [0.48, 0.51],
    },
    Plan {
        folder: "beam-open",
        title: "BEAM (a user and an assistant, long turns)",
        // One person speaks with an assistant: names would say nothing.
        named_speakers: false,
        asked: Asked::Then,
        targets: [0.50, 0.49],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_what_is_compared_is_measured() {
        let names: HashSet<&str> = CONFIGURATIONS.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), CONFIGURATIONS.len());
        assert!(ARMS.iter().chain([&AS_SHIPPED, &NO_RERANKER]).all(|name| names.contains(name)));
        assert_eq!(PLANS[0].target(AS_SHIPPED), Some(0.72));
        assert_eq!(PLANS[0].target("weighted"), None);
    }

    #[test]
    fn changes_come_after_the_base() {
        let of = |name| CONFIGURATIONS.iter().find(|one| one.name == name).unwrap();
        let settings: Vec<_> = of("weighted, no recency").settings().collect();
        assert_eq!(settings.last(), Some(&("recency_weight", "0")));
        assert_eq!(settings.first(), Some(&("ranking", "weighted")));
        assert_eq!(of(AS_SHIPPED).settings().count(), 0);
    }
}
