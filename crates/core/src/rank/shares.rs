//! How a bounded pool is filled from several scopes: each is sure of a share, so that a large one
//! cannot keep a small one out, and the best of all take what is left.

/// Which rows get a place. `scopes` has the scope of each row, the best row first. A scope is sure of
/// an equal part of the places; what it has no rows for goes to the best of the others.
#[must_use]
pub fn fill(scopes: &[usize], places: usize) -> Vec<bool> {
    if scopes.len() <= places {
        return vec![true; scopes.len()];
    }
    let mut rows_of = vec![0usize; scopes.iter().max().map_or(0, |last| last + 1)];
    for &scope in scopes {
        rows_of[scope] += 1;
    }
    let share = places / rows_of.iter().filter(|rows| **rows > 0).count().max(1);
    let mut left = places - rows_of.iter().map(|&rows| rows.min(share)).sum::<usize>();
    let mut taken = vec![0usize; rows_of.len()];
    scopes
        .iter()
        .map(|&scope| {
            taken[scope] += 1;
            if taken[scope] <= share {
                return true;
            }
            let is_best = left > 0;
            left -= usize::from(is_best);
            is_best
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept(scopes: &[usize], places: usize) -> Vec<usize> {
        let filled = fill(scopes, places);
        (0..scopes.len()).filter(|row| filled[*row]).collect()
    }

    #[test]
    fn a_small_scope_is_not_kept_out() {
        // 60 rows of one scope are better than the two of another.
        let mut scopes = vec![2; 60];
        scopes.extend([0, 0]);
        let kept = kept(&scopes, 50);
        assert_eq!(kept.len(), 50);
        assert_eq!(kept[47..], [47, 60, 61], "48 of the large one, both of the small one");
    }

    #[test]
    fn places_that_a_scope_cannot_use_go_to_the_best_of_the_others() {
        let scopes = [0, 0, 0, 0, 1, 1, 1, 1, 2];
        assert_eq!(kept(&scopes, 6), [0, 1, 2, 4, 5, 8]);
        assert_eq!(kept(&[1, 1, 1], 2), [0, 1], "one scope has all");
        assert_eq!(kept(&[0, 1, 2], 2), [0, 1], "fewer places than scopes: the best");
        assert_eq!(kept(&[0, 1, 2], 0), [0; 0]);
        assert_eq!(kept(&[], 5), [0; 0]);
    }

    proptest! {
        #[test]
        fn all_places_are_filled_and_each_scope_has_its_share(
            scopes in prop::collection::vec(0usize..3, 0..200), places in 0usize..120,
        ) {
            let filled = fill(&scopes, places);
            prop_assert_eq!(
                filled.iter().filter(|kept| **kept).count(),
                scopes.len().min(places)
            );
            let present = (0..3).filter(|scope| scopes.contains(scope)).count().max(1);
            for scope in 0..3 {
                let rows: Vec<bool> = scopes.iter().zip(&filled)
                    .filter(|(of, _)| **of == scope).map(|(_, kept)| *kept).collect();
                let kept = rows.iter().filter(|kept| **kept).count();
                prop_assert!(kept >= rows.len().min(places / present));
                // The best of a scope are those that are kept.
                prop_assert!(rows.iter().take(kept).all(|kept| *kept));
            }
        }
    }
}
