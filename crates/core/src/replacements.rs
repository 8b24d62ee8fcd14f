//! Stale rows and the rows that replaced them: which candidate stands for the
//! current truth, and how both stay together through pool, threshold and order.
//!
//! A stale row still finds what was asked ("where does Anna live?"), only its
//! answer is old. So it is not removed: its replacement goes first. If the
//! replacement was found too, it keeps its own score and the stale row sinks
//! below it. If no arm found it, nothing is known of it but that it answers the
//! same question; it takes the stale row's place and the stale row follows.

use crate::rank::{Candidate, Scored};

/// How far a stale row is placed below the row that replaced it. Small against
/// any real difference, large enough to survive the cast to `real`.
const DEMOTION_STEP: f64 = 1e-6;

/// What replaced each candidate, by index.
#[derive(Debug)]
pub(crate) struct Replacements {
    by: Vec<Option<usize>>,
}

impl Replacements {
    /// `demoted_below` of every candidate, without indexes out of range and
    /// without the links that would close a circle.
    pub(crate) fn of(candidates: &[Candidate]) -> Self {
        let mut by: Vec<Option<usize>> = vec![None; candidates.len()];
        for (row, candidate) in candidates.iter().enumerate() {
            let Some(replacement) = candidate.demoted_below else {
                continue;
            };
            if replacement >= candidates.len() {
                continue;
            }
            let mut last = replacement;
            while last != row
                && let Some(next) = by[last]
            {
                last = next;
            }
            if last != row {
                by[row] = Some(replacement);
            }
        }
        Self { by }
    }

    /// All rows that came after `row`, the nearest first, the current truth last.
    pub(crate) fn chain(&self, row: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.by[row], |row| self.by[*row])
    }

    /// The fused scores with those of replacements that no arm found raised to
    /// the best row they replaced. Their own score says nothing: it is 0, and
    /// would stretch the scale of the other rows.
    pub(crate) fn inherited(&self, candidates: &[Candidate], fused: &[f64]) -> Vec<f64> {
        let mut inherited = fused.to_vec();
        for (row, score) in fused.iter().enumerate() {
            let heirs = self.chain(row).take_while(|heir| !candidates[*heir].is_found());
            for heir in heirs {
                inherited[heir] = inherited[heir].max(*score);
            }
        }
        inherited
    }

    /// The same links between the positions of a pool, given as candidate indexes.
    pub(crate) fn within(&self, pool: &[(usize, f64)]) -> PoolReplacements {
        let mut position_of = vec![None; self.by.len()];
        for (position, (index, _)) in pool.iter().enumerate() {
            position_of[*index] = Some(position);
        }
        let chain = |position: usize| {
            let rows = self.chain(pool[position].0);
            rows.filter_map(|row| position_of[row])
        };
        let mut current_first: Vec<usize> = (0..pool.len()).collect();
        current_first.sort_by_cached_key(|position| chain(*position).count());
        PoolReplacements {
            by: (0..pool.len()).map(|position| chain(position).next()).collect(),
            current_first,
        }
    }
}

/// What replaced each row of the pool, by position.
#[derive(Debug)]
pub(crate) struct PoolReplacements {
    by: Vec<Option<usize>>,
    /// All positions, each after its replacement, so that chains are worked off
    /// link by link.
    current_first: Vec<usize>,
}

impl PoolReplacements {
    /// Per position, that of the row it has to wait for.
    pub(crate) fn by_position(&self) -> &[Option<usize>] {
        &self.by
    }

    /// Marks every row whose replacement is marked: what is out of date is not
    /// shown without what is true now.
    pub(crate) fn spread_to_stale(&self, marked: &mut [bool]) {
        for (stale, replacement) in self.links() {
            marked[stale] |= marked[replacement];
        }
    }

    /// Puts every stale row right below its replacement, unless it is lower
    /// already, after a replacement that no arm found was lifted to the stale
    /// row's score. A row that was dropped lifts nothing.
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
        let link = |stale: &usize| self.by[*stale].map(|replacement| (*stale, replacement));
        self.current_first.iter().filter_map(link)
    }
}
