//! An opened model file: its configuration, and where its tensors are.

use std::path::Path;

use zinc_kernels::formats::decode;
use zinc_kernels::ops::{MAX_EXPERTS, MAX_HEAD_SIZE, MAX_USED, RUN, UNIT};

use crate::config::{FeedForward, Layer, Mixer, ModelConfig, RopeOverrides};
use crate::error::{Error, Result};
use crate::gguf::File;
use crate::weights::{ModelWeights, TensorId, WeightTensor};

/// A model on the host. The weights stay in the mapped file.
#[derive(Debug)]
pub struct Model {
    /// The file.
    pub file: File,
    /// The kind and the sizes of its network.
    pub config: ModelConfig,
    /// Where its tensors are.
    pub weights: ModelWeights,
}

impl Model {
    /// Opens a GGUF file and checks that zinc can run it.
    ///
    /// # Errors
    /// A file that cannot be read, an architecture or a format that is not supported, a tensor that is missing or has the wrong shape.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &RopeOverrides::default())
    }

    /// As [`Self::open`], with a position embedding of which `overrides` replaces parts.
    ///
    /// # Errors
    /// Those of [`Self::open`], and overrides that do not go with the file.
    pub fn open_with(path: impl AsRef<Path>, overrides: &RopeOverrides) -> Result<Self> {
        let file = File::open(path)?;
        let config = ModelConfig::with_overrides(&file, overrides)?;
        let weights = ModelWeights::find(&file, &config)?;
        check_kernels(&config, &weights, &file)?;
        Ok(Self { file, config, weights })
    }

    /// The bytes of a tensor as the file has them.
    #[must_use]
    pub fn data(&self, tensor: &WeightTensor) -> &[u8] {
        self.file.data(&self.file.tensors()[tensor.file_index])
    }

    /// A tensor of one vector, or of one for each expert, decoded to `[rows, columns]` f32.
    #[must_use]
    pub fn vector(&self, id: TensorId) -> Vec<f32> {
        let tensor = self.weights.tensor(id);
        let mut values = vec![0.0; tensor.elements() as usize];
        decode(tensor.format, self.data(tensor), &mut values);
        values
    }
}

/// Checks that the kernels can run a model of these sizes.
///
/// # Errors
/// [`Error::KernelLimit`], [`Error::ExpertScale`] or [`Error::RowLength`] with the size that they cannot.
fn check_kernels(config: &ModelConfig, weights: &ModelWeights, file: &File) -> Result<()> {
    config.layers.iter().try_for_each(check_layer)?;
    let matrices = weights.tensors.iter().filter(|t| t.rows > 1 || t.matrices > 1);
    match matrices.into_iter().find(|t| !t.columns.is_multiple_of(UNIT)) {
        Some(tensor) => Err(Error::RowLength {
            name: file.tensors()[tensor.file_index].name.clone(),
            columns: tensor.columns,
            unit: UNIT,
        }),
        None => Ok(()),
    }
}

fn check_layer(layer: &Layer) -> Result<()> {
    let limit = |what: &'static str, value: u32, expected: String| Err(Error::KernelLimit { what, value, expected });
    let Mixer::Attention(attention) = layer.mixer;
    if attention.head_dim > MAX_HEAD_SIZE || !attention.head_dim.is_multiple_of(RUN) {
        return limit("the head size", attention.head_dim, format!("a multiple of {RUN} up to {MAX_HEAD_SIZE}"));
    }
    if let FeedForward::Experts { n_expert, n_expert_used, weights, .. } = layer.feed_forward {
        if n_expert > MAX_EXPERTS {
            return limit("the number of experts", n_expert, format!("at most {MAX_EXPERTS}"));
        }
        if n_expert_used > MAX_USED {
            return limit("the number of experts used", n_expert_used, format!("at most {MAX_USED}"));
        }
        if weights.scale != 1.0 {
            return Err(Error::ExpertScale { found: weights.scale });
        }
    }
    Ok(())
}
