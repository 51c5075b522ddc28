#!/usr/bin/env python3
"""Writes small models with random weights and their logits in float64: qwen3next; qwen35moe with the experts' gate and up in one tensor and
recurrent layers listed; and qwen35 with a block for multi-token prediction (MTP), which in one file shares the model's embedding and head and in
the other has its own.

Usage: make_models.py, which needs numpy and gguf. Every value is computed by `forward.py` and by `second_pass.py`, and none is written where they
differ by more than 1e-9.

Of a model NAME it writes NAME.gguf, and for a short prompt and a long one NAME.json and NAME-long.json, with the prompt (`ids`), the greedy
continuation and its margins, and the positions whose logits `.logits.f32` has, `[positions, vocabulary]`. NAME-predicted.json says what the MTP
block computes from the short prompt: row i of its logits comes from the vector that the head multiplies at position i and `tokens[i]`, the token
behind it. The last rows are drafts: their vectors are the block's own, of the row before.
"""

import json
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from forward import Model, read_gguf
from second_pass import SecondPass

HERE = Path(__file__).parent
WIDTH, VOCABULARY, NETWORK, EXPERTS = 64, 263, 96, 4
HEAD, HEADS, ROTATED = 32, 2, 16
DELTA_HEAD, KEY_HEADS, VALUE_HEADS = 32, 2, 4
SHORT, LONG, GREEDY, DRAFTS = 40, 150, 12, 4


def metadata(architecture, name, **keys):
    common = {
        "context_length": 4096, "embedding_length": WIDTH, "vocab_size": VOCABULARY, "attention.head_count": HEADS, "attention.head_count_kv": 1,
        "attention.key_length": HEAD, "attention.value_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e7,
        "rope.dimension_count": ROTATED, "ssm.conv_kernel": 4, "ssm.state_size": DELTA_HEAD, "ssm.group_count": KEY_HEADS,
        "ssm.time_step_rank": VALUE_HEADS, "ssm.inner_size": VALUE_HEADS * DELTA_HEAD,
    }  # fmt: skip
    if architecture == "qwen35":
        common["feed_forward_length"] = NETWORK
    else:
        common |= {"expert_count": EXPERTS, "expert_used_count": 2, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 32}
    if architecture != "qwen3next":
        common["rope.dimension_sections"] = [3, 3, 2, 0]
    own = {f"{architecture}.{key}": value for key, value in (common | keys).items()}
    return {"general.architecture": architecture, "general.name": name, "general.file_type": 1} | own


class Weights:
    """Random tensors by their names in files: a matrix keeps the magnitude of what it multiplies, but for those whose products are added to the
    residual stream, which have the gain `added`."""

    def __init__(self, seed, added):
        self.random, self.tensors, self.added = np.random.default_rng(seed), {}, added

    def matrix(self, name, *shape, gain=1.0, kind=np.float16):
        self.tensors[name + ".weight"] = (self.random.standard_normal(shape) * gain * shape[-1] ** -0.5).astype(kind)

    def norm(self, name, size):
        self.tensors[name + ".weight"] = (1 + 0.2 * self.random.standard_normal(size)).astype(np.float32)

    def recurrent(self, at, fused):
        inner, channels = VALUE_HEADS * DELTA_HEAD, (2 * KEY_HEADS + VALUE_HEADS) * DELTA_HEAD
        self.matrix(at + "attn_qkv", channels, WIDTH)
        self.matrix(at + "attn_gate", inner, WIDTH)
        for name, rows in [("ssm_ba", 2 * VALUE_HEADS)] if fused else [("ssm_beta", VALUE_HEADS), ("ssm_alpha", VALUE_HEADS)]:
            self.matrix(at + name, rows, WIDTH)
        self.matrix(at + "ssm_conv1d", channels, 4, gain=2.0, kind=np.float32)
        self.matrix(at + "ssm_out", WIDTH, inner, gain=self.added)
        self.norm(at + "ssm_norm", DELTA_HEAD)
        # Memories keep between a third and nearly all of themselves from one token to the next.
        self.tensors[at + "ssm_dt.bias"] = self.random.uniform(-3, 0, VALUE_HEADS).astype(np.float32)
        self.tensors[at + "ssm_a"] = -np.exp(self.random.uniform(-4, 0, VALUE_HEADS)).astype(np.float32)

    def attention(self, at):
        self.matrix(at + "attn_q", 2 * HEADS * HEAD, WIDTH)
        self.matrix(at + "attn_k", HEAD, WIDTH)
        self.matrix(at + "attn_v", HEAD, WIDTH)
        self.matrix(at + "attn_output", WIDTH, HEADS * HEAD, gain=self.added)
        self.norm(at + "attn_q_norm", HEAD)
        self.norm(at + "attn_k_norm", HEAD)

    def network(self, at):
        for name in ("ffn_gate", "ffn_up"):
            self.matrix(at + name, NETWORK, WIDTH)
        self.matrix(at + "ffn_down", WIDTH, NETWORK, gain=self.added)

    def experts(self, at, fused):
        # Logits so far apart that rounding does not change which experts are chosen.
        self.matrix(at + "ffn_gate_inp", EXPERTS, WIDTH, gain=4.0, kind=np.float32)
        self.matrix(at + "ffn_gate_inp_shexp", WIDTH, kind=np.float32)
        for name in ["ffn_gate_up_exps"] if fused else ["ffn_gate_exps", "ffn_up_exps"]:
            self.matrix(at + name, EXPERTS, 64 if fused else 32, WIDTH)
        self.matrix(at + "ffn_down_exps", EXPERTS, WIDTH, 32)
        for name in ("ffn_gate_shexp", "ffn_up_shexp"):
            self.matrix(at + name, 32, WIDTH)
        self.matrix(at + "ffn_down_shexp", WIDTH, 32)

    def prediction(self, at, own):
        self.matrix(at + "nextn.eh_proj", WIDTH, 2 * WIDTH)
        if not own:
            # As the trunk does, it takes mostly a token's embedding to its layer, so that it often predicts what the trunk does.
            self.tensors[at + "nextn.eh_proj.weight"][:, :WIDTH] = 2 * np.eye(WIDTH)
        for name in ["enorm", "hnorm"] + ([] if own else ["shared_head_norm"]):
            self.norm(at + "nextn." + name, WIDTH)
        if own:
            self.matrix(at + "nextn.embed_tokens", VOCABULARY, WIDTH)
            self.matrix(at + "nextn.shared_head_head", VOCABULARY, WIDTH, gain=1.4)


def make_weights(architecture, seed, recurrent, fused=False, own=False):
    """`recurrent` says it of each layer of the trunk. A model of qwen35 has an MTP block behind them, with an embedding and a head of its `own` or
    not."""
    dense = architecture == "qwen35"
    weights = Weights(seed, added=0.25 if dense and not own else 1.0)
    weights.matrix("token_embd", VOCABULARY, WIDTH, gain=WIDTH**0.5 if dense else 1.4)
    weights.norm("output_norm", WIDTH)
    if dense:
        weights.matrix("output", VOCABULARY, WIDTH, gain=1.4)
    for layer, is_recurrent in enumerate(recurrent + ([False] if dense else [])):
        at = f"blk.{layer}."
        weights.norm(at + "attn_norm", WIDTH)
        weights.norm(at + "post_attention_norm", WIDTH)
        weights.recurrent(at, architecture == "qwen3next") if is_recurrent else weights.attention(at)
        weights.network(at) if dense else weights.experts(at, fused)
    if dense:
        weights.prediction(f"blk.{len(recurrent)}.", own)
    return weights.tensors


def write_gguf(path, fields, tensors):
    writer = GGUFWriter(path, fields["general.architecture"])
    kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
    for key, value in fields.items():
        if key != "general.architecture":
            kinds[type(value)](key, value)
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}
    tokens = ["<|bos|>", "<|eos|>"] + [letters[byte] for byte in range(256)] + ["aa", "bb", "cc", "dd", "ee"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35" if "qwen35" in fields["general.architecture"] else "qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (VOCABULARY - 2))
    writer.add_token_merges(["a a", "b b", "c c", "d d", "e e"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def checked(first, second):
    """The first, where both passes agree."""
    difference = max(np.abs(a - b).max() for a, b in zip(first, second))
    print(f"  passes differ by {difference:.1e}")
    assert difference <= 1e-9
    return first


def margins(logits):
    """The distance of the largest logit of each row to the second one."""
    ordered = np.sort(logits)
    return [round(float(margin), 6) for margin in ordered[:, -1] - ordered[:, -2]]


def write_values(name, logits, values):
    (HERE / f"{name}.logits.f32").write_bytes(logits.astype("<f4").tobytes())
    values |= dict(vocab=VOCABULARY, source="float64 over the file's tensors, by make_models.py")
    (HERE / f"{name}.json").write_text(json.dumps(values) + "\n")


def prompt(model, random, tokens):
    """A prompt whose tokens choose their experts clearly, as those of its greedy continuation do; the continuation; the last token's logits and those
    of the continuation's tokens but its last; and the smallest distance between experts."""
    draw = lambda: int(random.integers(2, VOCABULARY))
    ids = [draw() for _ in range(tokens)]
    while len(ids) < tokens + GREEDY:
        logits, _, _ = model.forward(ids)
        unclear = np.flatnonzero(model.gaps < 0.05)
        if unclear.size:
            first = min(int(unclear[0]), tokens - 1)
            ids[first:] = [draw()] + ids[first + 1 : tokens]
        else:
            ids.append(int(logits[-1].argmax()))
    return ids[:tokens], ids[tokens:], logits[tokens - 1 :], float(model.gaps.min())


def make(name, architecture, seed, recurrent, fused=False, own=False, **keys):
    path, tensors = HERE / f"{name}.gguf", make_weights(architecture, seed, recurrent, fused, own)
    write_gguf(path, metadata(architecture, name, **keys), tensors)
    print(f"{name}: {path.stat().st_size} bytes")
    model, second, random = Model(*read_gguf(path)), SecondPass(path), np.random.default_rng(seed)
    for which, tokens in (("", SHORT), ("-long", LONG)):
        ids, greedy, continued, gap = prompt(model, random, tokens)
        logits, hidden = checked(model.forward(ids)[:2], second.forward(ids))
        positions = list(range(tokens)) if tokens == SHORT else sorted({*range(0, tokens, 7), *range(tokens - 8, tokens)})
        values = dict(ids=ids, greedy=greedy, margins=margins(continued), positions=positions, std=float(logits.std()), gguf=path.name)
        write_values(name + which, logits[positions], values | ({} if gap == np.inf else dict(router_gap=round(gap, 5))))
        if tokens == SHORT and architecture == "qwen35":
            tokens = ids[1:] + greedy[:1]
            for draft in range(DRAFTS):
                logits, drafted = checked(model.predict(hidden, tokens), second.predict(hidden, tokens))
                if draft + 1 < DRAFTS:
                    hidden = np.vstack([hidden, drafted[-1:]])
                    tokens = tokens + [int(logits[-1].argmax())]
            write_values(name + "-predicted", logits, dict(ids=ids, tokens=tokens, margins=margins(logits), std=float(logits.std()), gguf=path.name))


make("qwen3next-a-f16", "qwen3next", 1, [True, True, False], block_count=3, full_attention_interval=3)
listed = [False, True, True]
make("qwen35moe-fused-a-f16", "qwen35moe", 2, listed, fused=True, block_count=3, **{"attention.recurrent_layers": listed})
with_prediction = dict(block_count=3, full_attention_interval=2, nextn_predict_layers=1)
make("qwen35-mtp-a-f16", "qwen35", 3, [True, False], **with_prediction)
make("qwen35-mtp-b-f16", "qwen35", 4, [True, False], own=True, **with_prediction)
