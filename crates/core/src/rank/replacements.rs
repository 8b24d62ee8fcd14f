//! Stale rows and the rows that replaced them: which candidate stands for the
//! current truth, and how both stay together through pool, threshold and order.
//!
//! A stale row still finds what was asked ("where does Anna live?"), only its
//! answer is old. So it is not removed: its replacement goes first. If the
//! replacement was found too, it keeps its own score and the stale row sinks
//! below it. If no arm found it, nothing is known of it but that it answers the
//! same question; it takes the stale row's place and the stale row follows. A
//! row with several replacements follows all of them.

use crate::rank::pipeline::{Candidate, Scored};

/// How far a stale row is placed below the row that replaced it. Small against
/// any real difference, large enough to survive the cast to `real`.
const DEMOTION_STEP: f64 = 1e-6;

/// What replaced each candidate, by index. A turn may have said several things
/// that changed since, so a row can have several replacements; there are no
/// circles.
#[derive(Debug)]
pub(crate) struct Replacements {
    by: Vec<Vec<usize>>,
}

impl Replacements {
    /// `demoted_below` of every candidate, without indexes out of range and
    /// without the links that would close a circle.
    pub(crate) fn of(candidates: &[Candidate]) -> Self {
        let mut replacements = Self { by: vec![Vec::new(); candidates.len()] };
        for (row, candidate) in candidates.iter().enumerate() {
            for &replacement in &candidate.demoted_below {
                let is_usable = replacement < candidates.len()
                    && replacement != row
                    && !replacements.by[row].contains(&replacement)
                    && !replacements.successors(replacement).contains(&row);
                if is_usable {
                    replacements.by[row].push(replacement);
                }
            }
        }
        replacements
    }

    /// All rows that came after `row`, each once, the nearest first.
    pub(crate) fn successors(&self, row: usize) -> Vec<usize> {
        self.successors_through(row, |_| true)
    }

    /// The rows that came after `row`, up to and with the nearest on each path
    /// that fails `goes_on`.
    fn successors_through(&self, row: usize, goes_on: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut successors = self.by[row].clone();
        let mut visited = 0;
        while let Some(&successor) = successors.get(visited) {
            visited += 1;
            if !goes_on(successor) {
                continue;
            }
            for next in &self.by[successor] {
                if !successors.contains(next) {
                    successors.push(*next);
                }
            }
        }
        successors
    }

    /// The fused scores with those of replacements that no arm found raised to
    /// the best row they replaced. Their own score says nothing: it is 0, and
    /// would stretch the scale of the other rows.
    pub(crate) fn inherited(&self, candidates: &[Candidate], fused: &[f64]) -> Vec<f64> {
        let is_heir = |row: usize| !candidates[row].is_found();
        let mut inherited = fused.to_vec();
        for (row, score) in fused.iter().enumerate() {
            let heirs = self.successors_through(row, is_heir);
            for heir in heirs.into_iter().filter(|heir| is_heir(*heir)) {
                inherited[heir] = inherited[heir].max(*score);
            }
        }
        inherited
    }

    /// The same links between the positions of a pool, given as candidate
    /// indexes. A replacement that is not in the pool is stood for by those that
    /// came after it.
    pub(crate) fn within(&self, pool: &[(usize, f64)]) -> PoolReplacements {
        let mut position_of = vec![None; self.by.len()];
        for (position, (index, _)) in pool.iter().enumerate() {
            position_of[*index] = Some(position);
        }
        let positions = |rows: Vec<usize>| -> Vec<usize> {
            rows.into_iter().filter_map(|row| position_of[row]).collect()
        };
        let is_outside = |row: usize| position_of[row].is_none();
        let mut current_first: Vec<usize> = (0..pool.len()).collect();
        current_first
            .sort_by_cached_key(|position| positions(self.successors(pool[*position].0)).len());
        PoolReplacements {
            by: pool
                .iter()
                .map(|(index, _)| positions(self.successors_through(*index, is_outside)))
                .collect(),
            current_first,
        }
    }
}

/// What replaced each row of the pool, by position.
#[derive(Debug)]
pub(crate) struct PoolReplacements {
    by: Vec<Vec<usize>>,
    /// All positions, each after its replacements, so that chains are worked off
    /// link by link.
    current_first: Vec<usize>,
}

impl PoolReplacements {
    /// Per position, those of the rows it has to wait for.
    pub(crate) fn by_position(&self) -> &[Vec<usize>] {
        &self.by
    }

    /// Marks every row one of whose replacements is marked: what is out of date is
    /// not shown without what is true now.
    pub(crate) fn spread_to_stale(&self, marked: &mut [bool]) {
        for (stale, replacement) in self.links() {
            marked[stale] |= marked[replacement];
        }
    }

    /// Puts every stale row right below the lowest of its replacements, unless it
    /// is lower already, after each replacement that no arm found was lifted to
    /// the stale row's score. A row that was dropped lifts nothing.
    pub(crate) fn settle(&self, candidates: &[Candidate], scored: &mut [Scored]) {
        for (stale, replacement) in self.links().rev() {
            if scored[stale].dropped.is_none() && !candidates[scored[replacement].index].is_found()
            {
                scored[replacement].score = scored[replacement].score.max(scored[stale].score);
            }
        }
        for (stale, replacement) in self.links() {
            let limit = scored[replacement].score - DEMOTION_STEP;
            scored[stale].score = scored[stale].score.min(limit);
        }
    }

    /// (stale, replacement), the links to the current truth first.
    fn links(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.current_first
            .iter()
            .flat_map(|stale| self.by[*stale].iter().map(|replacement| (*stale, *replacement)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rank::pipeline::tests::{assert_close, dense, of, rank, selected, settings};
    use crate::rank::pipeline::{DroppedAt, RankSettings, pool};

    fn replaced<const N: usize>(candidate: Candidate, by: [usize; N]) -> Candidate {
        Candidate { demoted_below: by.to_vec(), ..candidate }
    }

    fn lost() -> Candidate {
        Candidate::default()
    }

    #[test]
    fn links_are_cut_one_by_one() {
        let candidates = [
            replaced(lost(), [1, 2, 0, 1, 99]),
            replaced(lost(), [3]),
            replaced(lost(), [0, 3]),
            replaced(lost(), [0, 4]),
            lost(),
        ];
        let replacements = Replacements::of(&candidates);
        assert_eq!(replacements.by, [vec![1, 2], vec![3], vec![3], vec![4], vec![]]);
        assert_eq!(replacements.successors(0), [1, 2, 3, 4]);
        assert!(replacements.successors(4).is_empty());
    }

    #[test]
    fn a_replacement_outside_the_pool_is_stood_for_by_what_came_after_it() {
        let candidates =
            [replaced(lost(), [1, 2]), replaced(lost(), [3]), lost(), replaced(lost(), [2])];
        let within = Replacements::of(&candidates).within(&[(0, 0.0), (2, 0.0), (3, 0.0)]);
        assert_eq!(within.by_position(), [vec![1, 2], vec![], vec![1]]);
        assert_eq!(within.current_first, [1, 2, 0]);
    }

    #[test]
    fn a_stale_row_comes_right_below_the_lowest_of_its_replacements() {
        let candidates =
            [replaced(dense(1.0), [3, 1]), dense(0.6), dense(0.5), dense(0.4), dense(0.0)];
        let ranking = rank(&candidates, None, &settings());
        assert_eq!(selected(&ranking), [1, 2, 3, 0, 4]);
        assert_close(of(&ranking, 1).score, 0.6);
        assert_close(of(&ranking, 3).score, 0.4);
        assert_close(of(&ranking, 0).score, 0.4 - DEMOTION_STEP);
        // The order in which they are named does not matter.
        let mut turned = candidates.clone();
        turned[0].demoted_below.reverse();
        assert_eq!(rank(&turned, None, &settings()), ranking);
    }

    #[test]
    fn every_replacement_that_no_arm_found_takes_the_place_of_the_stale_row() {
        let candidates = [replaced(dense(1.0), [1, 2]), lost(), lost(), dense(0.6), dense(0.2)];
        let ranking = rank(&candidates, None, &settings());
        assert_eq!(selected(&ranking), [1, 2, 0, 3, 4]);
        assert_close(of(&ranking, 1).score, 1.0);
        assert_close(of(&ranking, 2).score, 1.0);
        // A low logit of either pulls nothing down.
        let ranking = rank(&candidates, Some(&[-3.0, -4.0, 3.0, 0.0, 0.0]), &settings());
        assert_eq!(selected(&ranking), [1, 2, 0, 3, 4]);

        // One that was found keeps its score; the other takes the place all the same.
        let candidates = [replaced(dense(1.0), [1, 2]), lost(), dense(0.3), dense(0.6), dense(0.2)];
        let ranking = rank(&candidates, None, &settings());
        assert_eq!(selected(&ranking), [1, 3, 2, 0, 4]);
        assert_close(of(&ranking, 1).score, 1.0);
    }

    #[test]
    fn all_replacements_enter_the_pool_before_the_stale_row() {
        // Row 3 replaced row 4 too, by one step more.
        let candidates = [
            replaced(dense(1.0), [3, 4]),
            dense(0.9),
            dense(0.8),
            dense(0.1),
            replaced(dense(0.2), [3]),
        ];
        let order = |max_candidates| {
            let pool = pool(&candidates, &RankSettings { max_candidates, ..settings() });
            pool.iter().map(|row| row.0).collect::<Vec<_>>()
        };
        assert_eq!(order(2), [3, 4]);
        assert_eq!(order(5), [3, 4, 0, 1, 2]);
    }

    #[test]
    fn a_stale_row_does_not_show_without_all_its_replacements() {
        let candidates = [replaced(dense(1.0), [1, 3]), dense(0.9), dense(0.6), dense(0.2)];
        // Cut by top_k.
        let top_two = RankSettings { top_k: Some(2), ..settings() };
        let ranking = rank(&candidates, None, &top_two);
        assert_eq!(selected(&ranking), [1, 2]);
        assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Mmr));
        // Cut by the threshold: the pool is 1, 3, 0, 2.
        let threshold = RankSettings { score_threshold: Some(0.5), ..settings() };
        let ranking = rank(&candidates, Some(&[3.0, -3.0, 3.0, 3.0]), &threshold);
        assert_eq!(selected(&ranking), [1, 2]);
        assert_eq!(of(&ranking, 0).dropped, Some(DroppedAt::Threshold));
    }

    #[test]
    fn diversity_brings_a_stale_row_before_none_of_its_replacements() {
        let with_embedding = |candidate, embedding: [f32; 2]| Candidate {
            embedding: Some(embedding.to_vec()),
            ..candidate
        };
        // Rows 0 to 2 say the same; the stale row 3 is the only one that differs.
        let candidates = [
            with_embedding(dense(1.0), [1.0, 0.0]),
            with_embedding(dense(0.9), [1.0, 0.0]),
            with_embedding(dense(0.8), [1.0, 0.0]),
            with_embedding(replaced(dense(0.7), [0, 2]), [0.0, 1.0]),
        ];
        let diverse = RankSettings { mmr_lambda: 0.1, ..settings() };
        assert_eq!(selected(&rank(&candidates, None, &diverse)), [0, 1, 2, 3]);
    }
}
