//! What the layers of a model are, each kind once.

use std::fmt;

use serde::Serialize;
use zinc_model::config::{AttentionLayer, FeedForward, Layer, Mixer, ModelConfig};

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
    },
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum FeedForwardRow {
    Dense { width: u32 },
    Experts { experts: u32, used: u32, width: u32 },
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
            Mixer::Attention(AttentionLayer { n_head, n_head_kv, head_dim, window, sinks, .. }) => {
                MixerRow::Attention { heads: n_head, kv_heads: n_head_kv, head_size: head_dim, window, sinks }
            }
        };
        let feed_forward = match layer.feed_forward {
            FeedForward::Dense { n_ff, .. } => FeedForwardRow::Dense { width: n_ff },
            FeedForward::Experts { n_expert, n_expert_used, n_ff, .. } => {
                FeedForwardRow::Experts { experts: n_expert, used: n_expert_used, width: n_ff }
            }
        };
        Self { layers, mixer, feed_forward }
    }
}

impl fmt::Display for LayerRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MixerRow::Attention { heads, kv_heads, head_size, window, sinks } = self.mixer;
        write!(f, "{} with attention by {heads} heads of {head_size}, {kv_heads} of keys", self.layers)?;
        if let Some(window) = window {
            write!(f, ", to the last {window} positions")?;
        }
        if sinks {
            write!(f, ", with sinks")?;
        }
        match self.feed_forward {
            FeedForwardRow::Dense { width } => write!(f, ", and a dense part of {width}"),
            FeedForwardRow::Experts { experts, used, width } => {
                write!(f, ", and {used} of {experts} experts of {width}")
            }
        }
    }
}
