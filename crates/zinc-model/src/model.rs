//! A model file, opened: its configuration and where its tensors are.

use std::path::Path;

use zinc_kernels::formats::decode;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::gguf::File;
use crate::weights::{ModelWeights, TensorId, WeightTensor};

/// A model on the host. The weights stay in the mapped file.
#[derive(Debug)]
pub struct Model {
    /// The file.
    pub file: File,
    /// What kind of network it is.
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
        let file = File::open(path)?;
        let config = ModelConfig::from_gguf(&file)?;
        let weights = ModelWeights::find(&file, &config)?;
        Ok(Self { file, config, weights })
    }

    /// The bytes of a tensor.
    #[must_use]
    pub fn data(&self, tensor: &WeightTensor) -> &[u8] {
        self.file.data(&self.file.tensors()[tensor.file_index])
    }

    /// A tensor of one row, decoded.
    #[must_use]
    pub fn vector(&self, id: TensorId) -> Vec<f32> {
        let tensor = self.weights.tensor(id);
        let mut values = vec![0.0; tensor.columns as usize];
        decode(tensor.format, self.data(tensor), &mut values);
        values
    }
}
