//! The layers that some models have after pooling, and that their exported graph leaves out: those
//! of sentence-transformers, each a folder with a config.json and a model.safetensors. The rerankers
//! of the Ettin family end in such layers.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use crate::engine::folder::{self, MAX_CONFIG_BYTES, MAX_LAYER_BYTES};

/// What PyTorch adds to the variance before it divides by it.
const NORM_EPSILON: f32 = 1e-5;

/// A function from one vector to another.
#[derive(Debug, Clone)]
pub enum Layer {
    /// `activation(weight * x + bias)`; the rows of `weight` are as long as `x`.
    Dense { weight: Vec<f32>, bias: Vec<f32>, activation: Activation },
    /// `x` with mean 0 and variance 1, times `weight`, plus `bias`.
    Norm { weight: Vec<f32>, bias: Vec<f32> },
}

/// The function at the end of a dense layer.
#[derive(Debug, Clone, Copy)]
pub enum Activation {
    Identity,
    Gelu,
    Relu,
    Tanh,
}

impl Layer {
    /// Reads a dense layer.
    ///
    /// # Errors
    /// What is wrong with the files, and what to do.
    pub(crate) fn dense(directory: &Path, path: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Config {
            out_features: usize,
            activation_function: String,
        }
        let file = format!("{path}/config.json");
        let config: Config = folder::read(&directory.join(&file), MAX_CONFIG_BYTES)
            .map_err(|error| error.to_string())
            .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
            .map_err(|error| format!("{file} cannot be read ({error}): put it into the folder"))?;
        let activation = match config.activation_function.rsplit('.').next().unwrap_or_default() {
            "Identity" => Activation::Identity,
            "GELU" => Activation::Gelu,
            "ReLU" => Activation::Relu,
            "Tanh" => Activation::Tanh,
            other => {
                return Err(format!(
                    "{file} asks for \"{other}\": Identity, GELU, ReLU and Tanh are supported"
                ));
            }
        };
        let mut tensors = read_tensors(directory, path)?;
        let weight = take(&mut tensors, path, "linear.weight")?;
        let bias = tensors.remove("linear.bias").unwrap_or_else(|| vec![0.0; config.out_features]);
        if bias.is_empty() || bias.len() != config.out_features || weight.len() % bias.len() != 0 {
            return Err(format!(
                "{file} does not fit {path}/model.safetensors: download both again"
            ));
        }
        Ok(Self::Dense { weight, bias, activation })
    }

    /// Reads a layer that normalises.
    ///
    /// # Errors
    /// As [`Self::dense`].
    pub(crate) fn norm(directory: &Path, path: &str) -> Result<Self, String> {
        let mut tensors = read_tensors(directory, path)?;
        let weight = take(&mut tensors, path, "norm.weight")?;
        let bias = take(&mut tensors, path, "norm.bias")?;
        Ok(Self::Norm { weight, bias })
    }

    /// Applies the layer.
    ///
    /// # Errors
    /// If the vector does not have the length the layer takes.
    pub fn apply(&self, vector: &[f32]) -> Result<Vec<f32>, String> {
        let wanted = match self {
            Self::Dense { weight, bias, .. } => weight.len() / bias.len(),
            Self::Norm { weight, bias } => weight.len().min(bias.len()),
        };
        if vector.len() != wanted {
            return Err(format!("a layer takes {wanted} numbers, not {}", vector.len()));
        }
        Ok(match self {
            Self::Dense { weight, bias, activation } => weight
                .chunks_exact(wanted)
                .zip(bias)
                .map(|(row, bias)| {
                    let sum: f32 = row.iter().zip(vector).map(|(a, b)| a * b).sum();
                    activation.apply(sum + bias)
                })
                .collect(),
            Self::Norm { weight, bias } => {
                let count = vector.len() as f32;
                let mean = vector.iter().sum::<f32>() / count;
                let variance = vector.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / count;
                let scale = (variance + NORM_EPSILON).sqrt().recip();
                let parameters = weight.iter().zip(bias);
                vector
                    .iter()
                    .zip(parameters)
                    .map(|(x, (w, b))| (x - mean) * scale * w + b)
                    .collect()
            }
        })
    }
}

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            Self::Identity => x,
            Self::Gelu => {
                let x = f64::from(x);
                (0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))) as f32
            }
            Self::Relu => x.max(0.0),
            Self::Tanh => x.tanh(),
        }
    }
}

/// The error function to seven digits (Abramowitz and Stegun, 7.1.26).
fn erf(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 5] =
        [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
    let t = 1.0 / (1.0 + 0.3275911 * x.abs());
    let polynomial = COEFFICIENTS.iter().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    (1.0 - polynomial * (-x * x).exp()).copysign(x)
}

fn take(
    tensors: &mut HashMap<String, Vec<f32>>,
    path: &str,
    name: &str,
) -> Result<Vec<f32>, String> {
    tensors
        .remove(name)
        .ok_or_else(|| format!("{path}/model.safetensors has no \"{name}\": download it again"))
}

/// The tensors of a layer. A file of safetensors is the length of a JSON text, that text, which
/// says where each tensor lies, and the tensors.
fn read_tensors(directory: &Path, path: &str) -> Result<HashMap<String, Vec<f32>>, String> {
    let file = format!("{path}/model.safetensors");
    let bytes = folder::read(&directory.join(&file), MAX_LAYER_BYTES)
        .map_err(|error| format!("{file} cannot be read ({error}): put it into the folder"))?;
    parse_tensors(&bytes).ok_or_else(|| {
        format!("{file} is not a file of safetensors with F32 or BF16 numbers: save it as one")
    })
}

fn parse_tensors(bytes: &[u8]) -> Option<HashMap<String, Vec<f32>>> {
    #[derive(Deserialize)]
    struct Tensor {
        dtype: String,
        data_offsets: (usize, usize),
    }
    let (length, rest) = bytes.split_first_chunk()?;
    let (header, data) = rest.split_at_checked(u64::from_le_bytes(*length).try_into().ok()?)?;
    let mut header: HashMap<String, serde_json::Value> = serde_json::from_slice(header).ok()?;
    header.remove("__metadata__");
    header
        .into_iter()
        .map(|(name, value)| {
            let Tensor { dtype, data_offsets: (start, end) } =
                serde_json::from_value(value).ok()?;
            let data = data.get(start..end)?;
            let numbers = match dtype.as_str() {
                "F32" => {
                    data.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
                }
                // The upper half of an F32.
                "BF16" => data
                    .as_chunks()
                    .0
                    .iter()
                    .map(|[low, high]| f32::from_le_bytes([0, 0, *low, *high]))
                    .collect(),
                _ => return None,
            };
            Some((name, numbers))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gelu_has_seven_digits() {
        for (x, expected) in [(0.0, 0.0), (1.0, 0.841_344_7), (-2.0, -0.045_500_264), (9.0, 9.0)] {
            assert!((Activation::Gelu.apply(x) - expected).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn layers_apply_to_vectors_of_their_length() {
        let dense = Layer::Dense {
            weight: vec![1.0, 2.0, 3.0, -4.0],
            bias: vec![0.5, 0.0],
            activation: Activation::Relu,
        };
        assert_eq!(dense.apply(&[1.0, 1.0]), Ok(vec![3.5, 0.0]));
        assert!(dense.apply(&[1.0]).is_err());
        let norm = Layer::Norm { weight: vec![2.0, 2.0], bias: vec![0.0, 1.0] };
        let normalised = norm.apply(&[10.0, 14.0]).unwrap();
        assert!((normalised[0] + 2.0).abs() < 1e-4 && (normalised[1] - 3.0).abs() < 1e-4);
    }

    #[test]
    fn tensors_of_both_types_are_read_and_damage_is_not() {
        let header = br#"{"__metadata__":{},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]}}"#;
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header);
        file.extend(1.5_f32.to_le_bytes());
        file.extend(&(-2.0_f32).to_le_bytes()[2..]);
        let tensors = parse_tensors(&file).unwrap();
        assert_eq!((&tensors["a"], &tensors["b"]), (&vec![1.5], &vec![-2.0]));
        for length in [0, 7, 20, file.len() - 1] {
            assert!(parse_tensors(&file[..length]).is_none(), "{length}");
        }
        file[..8].fill(255);
        assert!(parse_tensors(&file).is_none());
    }
}
