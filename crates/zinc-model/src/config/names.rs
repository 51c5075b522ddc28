//! The names that tensors have in GGUF files: the one list of them, for the check of a file and for finding its weights.

pub(crate) const TOKEN_EMBEDDING: &str = "token_embd.weight";
pub(crate) const ROPE_FACTORS: &str = "rope_freqs.weight";
pub(crate) const OUTPUT_NORM: &str = "output_norm.weight";
pub(crate) const OUTPUT: &str = "output.weight";

// The tensors of a layer; [`in_layer`] puts the layer's prefix before them.
pub(crate) const ATTENTION_NORM: &str = "attn_norm.weight";
pub(crate) const Q: &str = "attn_q.weight";
pub(crate) const K: &str = "attn_k.weight";
pub(crate) const V: &str = "attn_v.weight";
pub(crate) const Q_BIAS: &str = "attn_q.bias";
pub(crate) const K_BIAS: &str = "attn_k.bias";
pub(crate) const V_BIAS: &str = "attn_v.bias";
pub(crate) const Q_NORM: &str = "attn_q_norm.weight";
pub(crate) const K_NORM: &str = "attn_k_norm.weight";
pub(crate) const ATTENTION_OUTPUT: &str = "attn_output.weight";
pub(crate) const FEED_FORWARD_NORM: &str = "ffn_norm.weight";
pub(crate) const GATE: &str = "ffn_gate.weight";
pub(crate) const UP: &str = "ffn_up.weight";
pub(crate) const DOWN: &str = "ffn_down.weight";
pub(crate) const ROUTER: &str = "ffn_gate_inp.weight";
pub(crate) const EXPERT_GATES: &str = "ffn_gate_exps.weight";
pub(crate) const EXPERT_UPS: &str = "ffn_up_exps.weight";
pub(crate) const EXPERT_DOWNS: &str = "ffn_down_exps.weight";

/// The full name of a layer's tensor; `layer` counts from 0.
pub(crate) fn in_layer(layer: u32, name: &str) -> String {
    format!("blk.{layer}.{name}")
}
