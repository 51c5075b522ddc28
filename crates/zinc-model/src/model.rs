//! An opened model file: its configuration, and where its tensors are.

use std::borrow::Cow;
use std::path::Path;

use zinc_kernels::formats::decode;
use zinc_kernels::ops::{DELTA_HEAD_SIZES, MAX_EXPERTS, MAX_HEAD_SIZE, MAX_USED, RUN, UNIT};

use zinc_kernels::step::MOST_RUN;

use crate::config::{AttentionLayer, DeltaNetLayer, FeedForward, Layer, Mixer, ModelConfig, ModelOptions};
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
        Self::open_with(path, &ModelOptions::default())
    }

    /// As [`Self::open`], with what is left to the caller.
    ///
    /// # Errors
    /// Those of [`Self::open`], and options that do not go with the file.
    pub fn open_with(path: impl AsRef<Path>, options: &ModelOptions) -> Result<Self> {
        let file = File::open(path)?;
        let config = ModelConfig::with_options(&file, options)?;
        let weights = ModelWeights::find(&file, &config)?;
        let model = Self { file, config, weights };
        check_kernels(&model)?;
        Ok(model)
    }

    /// The bytes of a tensor as the file has them: its rows one behind the other, copied where they are not so in the file.
    #[must_use]
    pub fn data(&self, tensor: &WeightTensor) -> Cow<'_, [u8]> {
        tensor.data(&self.file)
    }

    /// The name of a tensor in the file; that of the first, if several are its sources.
    #[must_use]
    pub fn name(&self, tensor: &WeightTensor) -> &str {
        tensor.sources.first().map_or("", |source| &self.file.tensors()[source.file_index].name)
    }

    /// A tensor of one vector, or of one for each expert, decoded to `[rows, columns]` f32.
    #[must_use]
    pub fn vector(&self, id: TensorId) -> Vec<f32> {
        let tensor = self.weights.tensor(id);
        let mut values = vec![0.0; tensor.elements() as usize];
        decode(tensor.format, &self.data(tensor), &mut values);
        values
    }
}

/// Checks that the kernels can run a model of these sizes.
///
/// # Errors
/// [`Error::KernelLimit`], [`Error::ExpertScale`] or [`Error::RowLength`] with the size that they cannot.
fn check_kernels(model: &Model) -> Result<()> {
    model.config.blocks().try_for_each(check_layer)?;
    let matrices = model.weights.tensors.iter().filter(|t| t.rows > 1 || t.matrices > 1);
    match matrices.into_iter().find(|t| !t.columns.is_multiple_of(UNIT)) {
        Some(tensor) => {
            Err(Error::RowLength { name: model.name(tensor).to_owned(), columns: tensor.columns, unit: UNIT })
        }
        None => Ok(()),
    }
}

fn check_layer(layer: &Layer) -> Result<()> {
    let limit = |what: &'static str, value: u32, expected: String| Err(Error::KernelLimit { what, value, expected });
    match layer.mixer {
        Mixer::Attention(AttentionLayer { head_dim, .. }) => {
            if head_dim > MAX_HEAD_SIZE || !head_dim.is_multiple_of(RUN) {
                return limit("the head size", head_dim, format!("a multiple of {RUN} up to {MAX_HEAD_SIZE}"));
            }
        }
        Mixer::DeltaNet(delta_net) => {
            let DeltaNetLayer { n_value_head, head_dim, .. } = delta_net;
            if !DELTA_HEAD_SIZES.contains(&head_dim) {
                let expected = DELTA_HEAD_SIZES.map(|size| size.to_string()).join(", ");
                return limit("the head size of a delta net", head_dim, expected);
            }
            if u32::try_from(delta_net.heads().recurrent_bytes(MOST_RUN - 1)).is_err() {
                let expected = "as many as have a recurrent state of less than 4 GiB".to_owned();
                return limit("the number of heads of a delta net", n_value_head, expected);
            }
        }
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
