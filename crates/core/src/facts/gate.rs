//! The gate before reconciliation: decides about a new fact without an LLM where that is safe.
//!
//! Most facts are new or said again, and a call to an LLM for each would cost seconds and money.
//! Only a fact that may change something known needs one.

use crate::facts::same::says_the_same;

/// A stored fact near a new one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor<'a> {
    pub content: &'a str,
    /// Cosine of the two embeddings, -1 to 1.
    pub similarity: f64,
    /// Whether the two texts have the same content hash.
    pub same_hash: bool,
}

/// Similarities that belong to the embedding model: its config carries calibrated ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateThresholds {
    /// Less similar facts have nothing to do with each other.
    pub related: f64,
    /// Facts that are at least this similar may say the same. `None`: the model has no such
    /// value, only equal texts are repetitions.
    pub duplicate: Option<f64>,
}

/// What to do with a new fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate<Known = usize> {
    /// Nothing known is about the same: add it.
    Add,
    /// It repeats this neighbour, by default named by its index.
    Same(Known),
    /// The LLM has to decide.
    Ask,
}

/// Judges a new fact by its nearest stored facts.
///
/// It repeats a neighbour with the same hash, or else the nearest one that is similar enough and
/// of which [`says_the_same`] holds; similarity alone does not tell 500 from 700 euros. A
/// similarity that is no number counts as related.
#[must_use]
pub fn gate(content: &str, neighbors: &[Neighbor], thresholds: &GateThresholds) -> Gate {
    if let Some(same) = neighbors.iter().position(|neighbor| neighbor.same_hash) {
        return Gate::Same(same);
    }
    let is_duplicate = |neighbor: &Neighbor| {
        thresholds.duplicate.is_some_and(|duplicate| neighbor.similarity >= duplicate)
            && says_the_same(content, neighbor.content)
    };
    let nearest_duplicate = (neighbors.iter().enumerate())
        .filter(|(_, neighbor)| is_duplicate(neighbor))
        // The first one of equals.
        .reduce(|best, other| if other.1.similarity > best.1.similarity { other } else { best });
    match nearest_duplicate {
        Some((same, _)) => Gate::Same(same),
        None if neighbors.iter().all(|neighbor| neighbor.similarity < thresholds.related) => {
            Gate::Add
        }
        None => Gate::Ask,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THRESHOLDS: GateThresholds = GateThresholds { related: 0.6, duplicate: Some(0.95) };

    fn near(content: &str, similarity: f64) -> Neighbor<'_> {
        Neighbor { content, similarity, same_hash: false }
    }

    fn judge(content: &str, neighbors: &[Neighbor]) -> Gate {
        gate(content, neighbors, &THRESHOLDS)
    }

    #[test]
    fn a_fact_that_is_near_nothing_is_added() {
        assert_eq!(judge("The user likes tea", &[]), Gate::Add);
        assert_eq!(judge("The user likes tea", &[near("Bob is 40", 0.59)]), Gate::Add);
    }

    #[test]
    fn a_fact_near_another_is_asked_about() {
        assert_eq!(judge("The user likes tea", &[near("The user likes coffee", 0.6)]), Gate::Ask);
        assert_eq!(judge("The user likes tea", &[near("Bob is 40", f64::NAN)]), Gate::Ask);
    }

    #[test]
    fn an_equal_text_is_the_same_whatever_its_similarity() {
        let equal = Neighbor { content: "the same", similarity: 0.1, same_hash: true };
        assert_eq!(judge("the same", &[near("other", 0.99), equal]), Gate::Same(1));
        let none = GateThresholds { duplicate: None, ..THRESHOLDS };
        assert_eq!(gate("the same", &[equal], &none), Gate::Same(0));
    }

    #[test]
    fn the_nearest_rewording_is_the_same() {
        let neighbors = [
            near("User lives in Rome", 0.95),
            near("The user lives in Rome.", 0.99),
            near("The user lives in Paris", 1.0),
        ];
        assert_eq!(judge("The user lives in Rome", &neighbors), Gate::Same(1));
        assert_eq!(judge("The user lives in Rome", &neighbors[..1]), Gate::Same(0));
    }

    #[test]
    fn similarity_alone_is_not_enough() {
        for (new, known) in [
            ("Bob joined Microsoft", "Bob joined Google"),
            ("The budget is 700 euros", "The budget is 500 euros"),
            ("The user does not eat meat", "The user eats meat"),
        ] {
            assert_eq!(judge(new, &[near(known, 0.999)]), Gate::Ask, "{new}");
        }
        let rewording = [near("The user lives in Rome.", 0.94)];
        assert_eq!(judge("The user lives in Rome", &rewording), Gate::Ask);
        let none = GateThresholds { duplicate: None, ..THRESHOLDS };
        assert_eq!(
            gate("The user lives in Rome", &[near("The user lives in Rome.", 1.0)], &none),
            Gate::Ask
        );
    }

    proptest! {
        #[test]
        fn an_answer_is_justified(
            content in "(Anna|Bob) likes (tea|5)",
            known in prop::collection::vec(("(Anna|Bob) likes (tea|5)", -1.0..=1.0, any::<bool>()), 0..5),
        ) {
            let neighbors: Vec<Neighbor> = known
                .iter()
                .map(|(content, similarity, same_hash)| {
                    Neighbor { content, similarity: *similarity, same_hash: *same_hash }
                })
                .collect();
            match judge(&content, &neighbors) {
                Gate::Add => prop_assert!(neighbors.iter().all(|n| n.similarity < 0.6)),
                Gate::Same(index) => {
                    let same = neighbors[index];
                    let is_near = same.similarity >= 0.95 && says_the_same(&content, same.content);
                    prop_assert!(same.same_hash || is_near);
                }
                Gate::Ask => prop_assert!(neighbors.iter().any(|n| n.similarity >= 0.6)),
            }
        }
    }
}
