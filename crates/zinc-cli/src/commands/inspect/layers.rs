//! What the layers of a model are, each kind once.

use std::fmt;

use serde::Serialize;
use zinc_model::config::{AttentionLayer, DeltaNetLayer, FeedForward, Layer, Mixer, ModelConfig};

/// A kind of layer.
#[derive(Serialize)]
pub(super) struct LayerRow {
    /// How many layers of the model are of this kind.
    layers: usize,
    mixer: MixerRow,
    feed_forward: FeedForwardRow,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum MixerRow {
    Attention {
        heads: u32,
        kv_heads: u32,
        head_size: u32,
        /// How many positions each position attends to; absent where that is all before it.
        #[serde(skip_serializing_if = "Option::is_none")]
        window: Option<u32>,
        /// Whether query heads have a sink.
        sinks: bool,
        /// Whether the result has a gate.
        gate: bool,
    },
    /// A gated delta net.
    DeltaNet { value_heads: u32, key_heads: u32, head_size: u32 },
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum FeedForwardRow {
    Dense {
        width: u32,
    },
    Experts {
        experts: u32,
        used: u32,
        width: u32,
        /// The width of the expert that every token uses; absent where there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        shared: Option<u32>,
    },
}

/// The kinds of layers of a model, in the order in which they first come.
pub(super) fn rows(config: &ModelConfig) -> Vec<LayerRow> {
    let mut kinds: Vec<(&Layer, usize)> = Vec::new();
    for layer in &config.layers {
        match kinds.iter_mut().find(|(kind, _)| *kind == layer) {
            Some((_, layers)) => *layers += 1,
            None => kinds.push((layer, 1)),
        }
    }
    kinds.into_iter().map(|(kind, layers)| LayerRow::new(kind, layers)).collect()
}

impl LayerRow {
    fn new(layer: &Layer, layers: usize) -> Self {
        let mixer = match layer.mixer {
            Mixer::Attention(AttentionLayer { n_head, n_head_kv, head_dim, window, sinks, gate, .. }) => {
                MixerRow::Attention { heads: n_head, kv_heads: n_head_kv, head_size: head_dim, window, sinks, gate }
            }
            Mixer::DeltaNet(DeltaNetLayer { n_value_head, n_key_head, head_dim, .. }) => {
                MixerRow::DeltaNet { value_heads: n_value_head, key_heads: n_key_head, head_size: head_dim }
            }
        };
        let feed_forward = match layer.feed_forward {
            FeedForward::Dense { n_ff, .. } => FeedForwardRow::Dense { width: n_ff },
            FeedForward::Experts { n_expert, n_expert_used, n_ff, shared, .. } => FeedForwardRow::Experts {
                experts: n_expert,
                used: n_expert_used,
                width: n_ff,
                shared: shared.map(|shared| shared.n_ff),
            },
        };
        Self { layers, mixer, feed_forward }
    }
}

impl fmt::Display for LayerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mixer {
            MixerRow::Attention { heads, kv_heads, head_size, window, sinks, gate } => {
                write!(f, "{} with attention by {heads} heads of {head_size}, {kv_heads} of keys", self.layers)?;
                if let Some(window) = window {
                    write!(f, ", to the last {window} positions")?;
                }
                if sinks {
                    write!(f, ", with sinks")?;
                }
                if gate {
                    write!(f, ", with gates")?;
                }
            }
            MixerRow::DeltaNet { value_heads, key_heads, head_size } => {
                let layers = self.layers;
                write!(
                    f,
                    "{layers} with a gated delta net of {value_heads} heads of {head_size}, {key_heads} of keys"
                )?;
            }
        }
        match self.feed_forward {
            FeedForwardRow::Dense { width } => write!(f, ", and a dense part of {width}"),
            FeedForwardRow::Experts { experts, used, width, shared } => {
                write!(f, ", and {used} of {experts} experts of {width}")?;
                shared.map_or(Ok(()), |shared| write!(f, " beside a shared one of {shared}"))
            }
        }
    }
}
