//! The mixes of llama.cpp: which format each tensor of a file has.

use clap::ValueEnum;
use zinc_kernels::Format;
use zinc_model::ModelConfig;
use zinc_model::config::{ExpectedTensor, Storage};

/// A mix of formats, by llama.cpp's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mix {
    /// Q4_K, with Q6_K in the head and in half of the layers' values and downs
    #[value(name = "q4_k_m")]
    Q4KM,
    /// Q4_K in gates and ups, Q5_K in downs, and more in what mixes positions, as popular files of Qwen3.5 and later
    #[value(name = "ud-q4_k_m")]
    UdQ4KM,
    /// Q5_K, with Q6_K in the same places
    #[value(name = "q5_k_m")]
    Q5KM,
    /// Q6_K
    #[value(name = "q6_k")]
    Q6K,
    /// Q8_0
    #[value(name = "q8_0")]
    Q8_0,
    /// MXFP4 in experts, and Q8_0
    #[value(name = "mxfp4_moe")]
    MXFP4Moe,
    /// Q5_1
    #[value(name = "q5_1")]
    Q5_1,
    /// Q5_0
    #[value(name = "q5_0")]
    Q5_0,
    /// Q4_1
    #[value(name = "q4_1")]
    Q4_1,
    /// Q4_0
    #[value(name = "q4_0")]
    Q4_0,
    /// 16-bit floats
    #[value(name = "f16")]
    F16,
    /// 16-bit floats with the exponent of 32-bit ones
    #[value(name = "bf16")]
    BF16,
    /// 32-bit floats
    #[value(name = "f32")]
    F32,
}

impl Mix {
    /// The number of the mix in `general.file_type`.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
            Self::Q5_0 => 8,
            Self::Q5_1 => 9,
            Self::Q4KM | Self::UdQ4KM => 15,
            Self::Q5KM => 17,
            Self::Q6K => 18,
            Self::BF16 => 32,
            Self::MXFP4Moe => 38,
        }
    }

    /// The format of a tensor. Norms, biases and routers are F32 in every mix. Rows that are no whole blocks of the mix's format are Q8_0.
    pub(super) fn format(self, tensor: &ExpectedTensor, config: &ModelConfig) -> Format {
        if tensor.storage == Storage::Single || tensor.name.ends_with("ffn_gate_inp.weight") {
            return Format::F32;
        }
        let (base, more) = match self {
            Self::Q4KM => (Format::Q4K, Format::Q6K),
            Self::UdQ4KM => {
                let format = by_sensitivity(&tensor.name, config);
                (format, format)
            }
            Self::Q5KM => (Format::Q5K, Format::Q6K),
            Self::Q6K => (Format::Q6K, Format::Q6K),
            Self::MXFP4Moe if is_of_experts(&tensor.name) => (Format::MXFP4, Format::MXFP4),
            Self::MXFP4Moe | Self::Q8_0 => (Format::Q8_0, Format::Q8_0),
            Self::Q5_1 => (Format::Q5_1, Format::Q5_1),
            Self::Q5_0 => (Format::Q5_0, Format::Q5_0),
            Self::Q4_1 => (Format::Q4_1, Format::Q4_1),
            Self::Q4_0 => (Format::Q4_0, Format::Q4_0),
            Self::F16 => (Format::F16, Format::F16),
            Self::BF16 => (Format::BF16, Format::BF16),
            Self::F32 => (Format::F32, Format::F32),
        };
        let is_more = match layer_and_part(&tensor.name) {
            Some((layer, "attn_v.weight" | "ffn_down.weight" | "ffn_down_exps.weight")) => {
                more_bits(layer, config.n_layer())
            }
            Some(_) => false,
            // The output matrix, which is the embedding if the file has no other.
            None => tensor.name == "output.weight" || config.tied_embeddings,
        };
        let format = if is_more { more } else { base };
        if tensor.shape[0].is_multiple_of(format.block_elements() as u64) { format } else { Format::Q8_0 }
    }
}

/// The format of a matrix by how much a model suffers from rounding it: most from that of the output of delta nets and of their gates, then from that of
/// other mixers, and least from that of gates and ups. Where there are experts, all that is not theirs is small beside them.
fn by_sensitivity(name: &str, config: &ModelConfig) -> Format {
    let has_experts = config.feed_forward(0).experts().0 > 0;
    match layer_and_part(name) {
        None if name == "output.weight" || config.tied_embeddings => Format::Q6K,
        None => Format::Q4K,
        Some((_, "ffn_gate.weight" | "ffn_up.weight" | "ffn_gate_exps.weight" | "ffn_up_exps.weight")) => Format::Q4K,
        Some((_, "ffn_down.weight" | "ffn_down_exps.weight")) => Format::Q5K,
        Some((_, "ssm_alpha.weight" | "ssm_beta.weight" | "ssm_out.weight" | "nextn.eh_proj.weight")) => Format::Q8_0,
        Some(_) => {
            if has_experts {
                Format::Q8_0
            } else {
                Format::Q6K
            }
        }
    }
}

/// Whether a tensor has the matrices of a layer's experts.
fn is_of_experts(name: &str) -> bool {
    name.ends_with("_exps.weight")
}

/// Layers whose values and downs get more bits: the first eighth, the last, and every third between them.
fn more_bits(layer: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

/// The layer and the part that a name like `blk.3.attn_v.weight` consists of.
fn layer_and_part(name: &str) -> Option<(u32, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}

#[cfg(test)]
mod tests {
    use zinc_model::config::expected_tensors;

    use super::*;
    use crate::synth::Preset;

    fn format(mix: Mix, preset: Preset, name: &str) -> Format {
        let config = preset.config(None);
        let tensors = expected_tensors(&config);
        let tensor = tensors.iter().find(|tensor| tensor.name == name).unwrap_or_else(|| panic!("no {name}"));
        mix.format(tensor, &config)
    }

    #[test]
    fn half_of_the_layers_get_more_bits() {
        let chosen = |layers: u32| (0..layers).filter(|&layer| more_bits(layer, layers)).collect::<Vec<_>>();
        assert_eq!(chosen(8), [0, 3, 6, 7]);
        assert_eq!(chosen(48).len(), 6 + 12 + 6);
        assert_eq!(chosen(1), [0]);
        assert_eq!(chosen(2), [1]);
    }

    #[test]
    fn the_mix_of_q4_k_m() {
        let moe = |name| format(Mix::Q4KM, Preset::Qwen3Moe30bA3b, name);
        for name in ["blk.0.attn_v.weight", "blk.8.ffn_down_exps.weight", "blk.47.attn_v.weight", "output.weight"] {
            assert_eq!(moe(name), Format::Q6K, "{name}");
        }
        for name in ["token_embd.weight", "blk.6.attn_v.weight", "blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight"] {
            assert_eq!(moe(name), Format::Q4K, "{name}");
        }
        for name in ["blk.0.ffn_gate_inp.weight", "blk.0.attn_q_norm.weight", "output_norm.weight"] {
            assert_eq!(moe(name), Format::F32, "{name}");
        }
        assert_eq!(format(Mix::Q4KM, Preset::Qwen3Dense600m, "token_embd.weight"), Format::Q6K);
    }

    #[test]
    fn other_mixes_are_of_one_format() {
        assert_eq!(format(Mix::Q8_0, Preset::Qwen3Dense8b, "blk.0.attn_v.weight"), Format::Q8_0);
        assert_eq!(format(Mix::Q8_0, Preset::Qwen3Dense8b, "output.weight"), Format::Q8_0);
        assert_eq!(format(Mix::Q5KM, Preset::Qwen3Dense8b, "blk.5.attn_v.weight"), Format::Q5K);
    }

    #[test]
    fn the_mixes_of_qwen35() {
        let moe = |name| format(Preset::Qwen36Moe35bA3b.usual_mix(), Preset::Qwen36Moe35bA3b, name);
        let dense = |name| format(Preset::Qwen38Dense27b.usual_mix(), Preset::Qwen38Dense27b, name);
        for (name, of_moe, of_dense) in [
            ("token_embd.weight", Format::Q4K, Format::Q4K),
            ("output.weight", Format::Q6K, Format::Q6K),
            ("blk.0.attn_qkv.weight", Format::Q8_0, Format::Q6K),
            ("blk.0.ssm_beta.weight", Format::Q8_0, Format::Q8_0),
            ("blk.0.ssm_out.weight", Format::Q8_0, Format::Q8_0),
            ("blk.0.ssm_conv1d.weight", Format::F32, Format::F32),
            ("blk.3.attn_q.weight", Format::Q8_0, Format::Q6K),
        ] {
            assert_eq!((moe(name), dense(name)), (of_moe, of_dense), "{name}");
        }
        for (name, expected) in [
            ("blk.0.ffn_gate_inp.weight", Format::F32),
            ("blk.0.ffn_gate_inp_shexp.weight", Format::F32),
            ("blk.0.ffn_gate_exps.weight", Format::Q4K),
            ("blk.39.ffn_down_exps.weight", Format::Q5K),
            ("blk.39.ffn_down_shexp.weight", Format::Q8_0),
        ] {
            assert_eq!(moe(name), expected, "{name}");
        }
        for (name, expected) in [("blk.0.ffn_up.weight", Format::Q4K), ("blk.63.ffn_down.weight", Format::Q5K)] {
            assert_eq!(dense(name), expected, "{name}");
        }
    }

    #[test]
    fn the_mix_of_gpt_oss() {
        let of = |name| format(Preset::GptOss20b.usual_mix(), Preset::GptOss20b, name);
        for name in ["blk.0.ffn_gate_exps.weight", "blk.23.ffn_down_exps.weight"] {
            assert_eq!(of(name), Format::MXFP4, "{name}");
        }
        for name in ["token_embd.weight", "output.weight", "blk.0.attn_q.weight", "blk.0.attn_v.weight"] {
            assert_eq!(of(name), Format::Q8_0, "{name}");
        }
        for name in ["blk.0.ffn_gate_inp.weight", "blk.0.ffn_down_exps.bias", "blk.0.attn_sinks.weight"] {
            assert_eq!(of(name), Format::F32, "{name}");
        }
        // Rows of 2,880 are no whole blocks of 256.
        assert_eq!(format(Mix::Q4KM, Preset::GptOss20b, "blk.0.ffn_up_exps.weight"), Format::Q8_0);
        assert_eq!(format(Mix::Q4KM, Preset::GptOss20b, "blk.1.attn_output.weight"), Format::Q4K);
    }
}
