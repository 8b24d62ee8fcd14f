//! From the numbers a graph returns to one embedding: pooling over tokens and scaling.

use crate::engine::config::Pooling;

/// Pools the token vectors of one sequence.
///
/// * `tokens`: `length * dimension` numbers or more, one token after the other; what follows
///   `length` tokens is padding.
/// * `length`: number of real tokens, at least 1.
pub fn pool(pooling: Pooling, tokens: &[f32], length: usize, dimension: usize) -> Vec<f32> {
    match pooling {
        Pooling::Cls => tokens[..dimension].to_vec(),
        Pooling::Mean => {
            let mut mean = vec![0.0; dimension];
            for token in tokens[..length * dimension].chunks_exact(dimension) {
                for (sum, value) in mean.iter_mut().zip(token) {
                    *sum += value;
                }
            }
            for value in &mut mean {
                *value /= length as f32;
            }
            mean
        }
    }
}

/// Scales a vector to Euclidean length 1; the zero vector stays as it is.
pub fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        for value in vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cls_takes_the_first_token() {
        assert_eq!(pool(Pooling::Cls, &[1.0, 2.0, 3.0, 4.0], 2, 2), [1.0, 2.0]);
    }

    #[test]
    fn mean_leaves_padding_out() {
        let tokens = [1.0, 2.0, 3.0, 6.0, 99.0, 99.0];
        assert_eq!(pool(Pooling::Mean, &tokens, 2, 2), [2.0, 4.0]);
    }

    #[test]
    fn normalize_gives_length_one_and_leaves_zero_alone() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut zero = [0.0, 0.0];
        normalize(&mut zero);
        assert_eq!(zero, [0.0, 0.0]);
    }
}
