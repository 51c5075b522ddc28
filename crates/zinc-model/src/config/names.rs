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
pub(crate) const ATTENTION_OUTPUT_BIAS: &str = "attn_output.bias";
pub(crate) const SINKS: &str = "attn_sinks.weight";
pub(crate) const FEED_FORWARD_NORM: &str = "ffn_norm.weight";
/// In some architectures the norm of the feed-forward part has this name.
pub(crate) const POST_ATTENTION_NORM: &str = "post_attention_norm.weight";
pub(crate) const GATE: &str = "ffn_gate.weight";
pub(crate) const UP: &str = "ffn_up.weight";
pub(crate) const DOWN: &str = "ffn_down.weight";
pub(crate) const ROUTER: &str = "ffn_gate_inp.weight";
pub(crate) const EXPERT_GATES: &str = "ffn_gate_exps.weight";
pub(crate) const EXPERT_UPS: &str = "ffn_up_exps.weight";
/// [`EXPERT_GATES`] and [`EXPERT_UPS`] in one: of each expert first the rows of its gate.
pub(crate) const EXPERT_GATES_AND_UPS: &str = "ffn_gate_up_exps.weight";
pub(crate) const EXPERT_DOWNS: &str = "ffn_down_exps.weight";
pub(crate) const ROUTER_BIAS: &str = "ffn_gate_inp.bias";
pub(crate) const EXPERT_GATE_BIASES: &str = "ffn_gate_exps.bias";
pub(crate) const EXPERT_UP_BIASES: &str = "ffn_up_exps.bias";
pub(crate) const EXPERT_DOWN_BIASES: &str = "ffn_down_exps.bias";
/// The row of the router whose logit opens the shared expert.
pub(crate) const SHARED_ROUTER: &str = "ffn_gate_inp_shexp.weight";
pub(crate) const SHARED_GATE: &str = "ffn_gate_shexp.weight";
pub(crate) const SHARED_UP: &str = "ffn_up_shexp.weight";
pub(crate) const SHARED_DOWN: &str = "ffn_down_shexp.weight";
pub(crate) const DELTA_QKV: &str = "attn_qkv.weight";
pub(crate) const DELTA_GATE: &str = "attn_gate.weight";
pub(crate) const DELTA_BETA: &str = "ssm_beta.weight";
pub(crate) const DELTA_ALPHA: &str = "ssm_alpha.weight";
/// [`DELTA_BETA`] and [`DELTA_ALPHA`] in one: of the value heads of each key head first the rows of beta.
pub(crate) const DELTA_BETA_AND_ALPHA: &str = "ssm_ba.weight";
pub(crate) const DELTA_CONVOLUTION: &str = "ssm_conv1d.weight";
pub(crate) const DELTA_ALPHA_BIAS: &str = "ssm_dt.bias";
pub(crate) const DELTA_DECAY: &str = "ssm_a";
pub(crate) const DELTA_NORM: &str = "ssm_norm.weight";
pub(crate) const DELTA_OUTPUT: &str = "ssm_out.weight";

// Of a block that drafts tokens, beside the tensors of a layer.
/// Takes a token's embedding and the vector that the head multiplied before it, both normed and in this order, to the block.
pub(crate) const MTP_INPUT: &str = "nextn.eh_proj.weight";
pub(crate) const MTP_EMBEDDING_NORM: &str = "nextn.enorm.weight";
pub(crate) const MTP_HIDDEN_NORM: &str = "nextn.hnorm.weight";
/// In place of [`OUTPUT_NORM`].
pub(crate) const MTP_OUTPUT_NORM: &str = "nextn.shared_head_norm.weight";
/// In place of [`TOKEN_EMBEDDING`].
pub(crate) const MTP_TOKEN_EMBEDDING: &str = "nextn.embed_tokens.weight";
/// In place of [`OUTPUT`].
pub(crate) const MTP_OUTPUT: &str = "nextn.shared_head_head.weight";

/// Pairs of matrices of a layer for which a file may have one tensor: the first, the second, and that tensor, in which blocks of rows of both alternate.
pub(crate) const FUSED: [[&str; 3]; 2] =
    [[EXPERT_GATES, EXPERT_UPS, EXPERT_GATES_AND_UPS], [DELTA_BETA, DELTA_ALPHA, DELTA_BETA_AND_ALPHA]];

/// The full name of a layer's tensor; `layer` counts from 0.
pub(crate) fn in_layer(layer: u32, name: &str) -> String {
    format!("blk.{layer}.{name}")
}

/// The layer that a tensor of this name belongs to; `None` if it belongs to none.
pub(crate) fn layer_of(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split_once('.')?.0.parse().ok()
}

/// The name that older files have for a tensor in place of `name`, if there is one: those of gpt-oss whose architecture is named `gptoss`.
pub(crate) fn older_name(name: &str) -> Option<String> {
    const OLDER: [(&str, &str); 4] = [
        (ATTENTION_OUTPUT, "attn_out.weight"),
        (ATTENTION_OUTPUT_BIAS, "attn_out.bias"),
        (SINKS, "attn_sinks"),
        (POST_ATTENTION_NORM, FEED_FORWARD_NORM),
    ];
    OLDER.iter().find_map(|(newer, older)| name.strip_suffix(newer).map(|prefix| format!("{prefix}{older}")))
}
