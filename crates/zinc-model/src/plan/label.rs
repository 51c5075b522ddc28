//! The names of operations in tables: the kernel, and the formats and shapes of the matrices that it reads.

use super::Op;
use crate::weights::{ModelWeights, TensorId};

impl Op {
    /// A name that ops of the same kernel, format and shape share: `mat_vec Q6_K 151936x2048`.
    #[must_use]
    pub fn label(&self, weights: &ModelWeights) -> String {
        let mut label = self.name().to_owned();
        let mut matrices: Vec<(String, usize)> = Vec::new();
        for id in self.matrices() {
            let tensor = weights.tensor(id);
            let experts = if tensor.matrices > 1 { format!(" of {}", tensor.matrices) } else { String::new() };
            let text = format!("{} {}x{}{experts}", tensor.format, tensor.rows, tensor.columns);
            match matrices.last_mut() {
                Some((last, count)) if *last == text => *count += 1,
                _ => matrices.push((text, 1)),
            }
        }
        for (index, (text, count)) in matrices.iter().enumerate() {
            label.push_str(if index == 0 { " " } else { ", " });
            if *count > 1 {
                label.push_str(&format!("{count}x "));
            }
            label.push_str(text);
        }
        label
    }

    /// The matrices that the op reads.
    fn matrices(&self) -> Vec<TensorId> {
        match self {
            Self::Gather { table, .. } => vec![*table],
            Self::MatVec { products, .. } | Self::MatMul { products, .. } => {
                products.iter().map(|product| product.weights).collect()
            }
            Self::Router { matrix, .. } | Self::RouterMul { matrix, .. } => vec![*matrix],
            Self::GateUp { gate, up, .. } | Self::GateUpMul { gate, up, .. } => vec![*gate, *up],
            Self::ExpertDown { down, .. } | Self::ExpertMul { down, .. } => vec![*down],
            Self::List
            | Self::Lookup(_)
            | Self::Propose { .. }
            | Self::Round { .. }
            | Self::Append { .. }
            | Self::Attention { .. }
            | Self::AttentionRows { .. }
            | Self::DeltaConv { .. }
            | Self::DeltaNet { .. }
            | Self::HeadGate { .. }
            | Self::Route { .. }
            | Self::Join { .. }
            | Self::LastRows
            | Self::LastAccepted
            | Self::MtpNorms { .. }
            | Self::Dry
            | Self::Adjust
            | Self::Choose
            | Self::Sample
            | Self::Advance { .. }
            | Self::Cancel
            | Self::LogprobShares
            | Self::Logprobs => Vec::new(),
        }
    }
}
