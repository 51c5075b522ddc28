"""The forward pass of small models of the architectures qwen35, qwen35moe and qwen3next in float64, as their equations say it: a gated delta net
takes one token after the other into its memories. It needs numpy.

Matrices are f16 or f32. `second_pass.py` computes the same in another way.
"""

import struct
from pathlib import Path

import numpy as np


def read_gguf(path):
    """The metadata and the tensors, in row-major order, in the type that each is stored in."""
    data, at = Path(path).read_bytes(), 0
    numbers = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def number(code):
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize(code)
        return value

    def text():
        nonlocal at
        length = number("Q")
        at += length
        return data[at - length : at].decode("utf-8", "replace")

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            element, length = number("I"), number("Q")
            return [value(element) for _ in range(length)]
        return number(numbers[kind])

    assert data[:4] == b"GGUF"
    at = 8
    tensor_count, pair_count = number("Q"), number("Q")
    metadata = {}
    for _ in range(pair_count):
        key = text()
        metadata[key] = value(number("I"))
    infos = []
    for _ in range(tensor_count):
        name = text()
        shape = [number("Q") for _ in range(number("I"))]
        infos.append((name, shape[::-1], number("I"), number("Q")))
    base = -(-at // 32) * 32
    tensors = {}
    for name, shape, kind, offset in infos:
        stored = {0: np.float32, 1: np.float16}[kind]
        flat = np.frombuffer(data, stored, int(np.prod(shape)), base + offset)
        tensors[name] = flat.reshape(shape)
    return metadata, tensors


def rms(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


class Model:
    """A model of `metadata` and `tensors`. After a forward pass `gaps` has for each token the smallest distance between the logits of an expert that
    was chosen and of one that was not."""

    def __init__(self, metadata, tensors):
        self.metadata, self.stored = metadata, tensors
        self.tensors = {name: tensor.astype(np.float64) for name, tensor in tensors.items()}
        self.architecture = metadata["general.architecture"]
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")
        self.layers = self.key("block_count") - self.key("nextn_predict_layers", 0)
        self.gaps = None

    def key(self, name, otherwise=None):
        return self.metadata.get(f"{self.architecture}.{name}", otherwise)

    def weight(self, layer, name):
        return self.tensors[f"blk.{layer}.{name}"]

    def is_recurrent(self, layer):
        listed = self.key("attention.recurrent_layers")
        if layer >= self.layers:
            return False
        return bool(listed[layer]) if listed else (layer + 1) % self.key("full_attention_interval", 4) != 0

    def beta_and_alpha(self, layer, h, key_heads, heads):
        """Of each value head. In files of qwen3next rows of one matrix give both: for each key head the betas of its value heads, then the alphas."""
        if f"blk.{layer}.ssm_ba.weight" not in self.tensors:
            return (h @ self.weight(layer, f"ssm_{name}.weight").T for name in ("beta", "alpha"))
        both = (h @ self.weight(layer, "ssm_ba.weight").T).reshape(len(h), key_heads, 2, heads // key_heads)
        return both[:, :, 0].reshape(len(h), heads), both[:, :, 1].reshape(len(h), heads)

    def delta_net(self, layer, x):
        """The mixer of a recurrent layer, and all values on the way."""
        size, key_heads, heads = (self.key("ssm." + name) for name in ("state_size", "group_count", "time_step_rank"))
        tokens, of = len(x), lambda name: self.weight(layer, name)
        h = rms(x, of("attn_norm.weight"), self.epsilon)
        qkv, z = h @ of("attn_qkv.weight").T, h @ of("attn_gate.weight").T
        beta, alpha = self.beta_and_alpha(layer, h, key_heads, heads)
        padded = np.vstack([np.zeros((3, qkv.shape[1])), qkv])
        taps = of("ssm_conv1d.weight")
        mixed = silu(sum(padded[j : j + tokens] * taps[:, j] for j in range(4)))
        q, k, v = np.split(mixed, [key_heads * size, 2 * key_heads * size], axis=1)
        unit = lambda u: u / np.sqrt((u * u).sum(-1, keepdims=True) + 1e-6)
        q = unit(q.reshape(tokens, key_heads, size)) / np.sqrt(size)
        k, v = unit(k.reshape(tokens, key_heads, size)), v.reshape(tokens, heads, size)
        keep = np.exp(of("ssm_a") * np.log1p(np.exp(alpha + of("ssm_dt.bias"))))
        write = sigmoid(beta)
        grouped = self.architecture == "qwen3next"
        memory, results = np.zeros((heads, size, size)), np.zeros((tokens, heads, size))
        for t in range(tokens):
            for head in range(heads):
                key_head = head // (heads // key_heads) if grouped else head % key_heads
                key, query = k[t, key_head], q[t, key_head]
                memory[head] *= keep[t, head]
                memory[head] += np.outer(key, write[t, head] * (v[t, head] - memory[head].T @ key))
                results[t, head] = memory[head].T @ query
        gated = rms(results, of("ssm_norm.weight"), self.epsilon).reshape(tokens, -1) * silu(z)
        y = x + gated @ of("ssm_out.weight").T
        return dict(
            x=x, qkv=qkv, z=z, beta=beta, alpha=alpha, mixed=mixed, results=results.reshape(tokens, -1), gated=gated, y=y,
            memory=memory.transpose(0, 2, 1),
        )

    def attention(self, layer, x):
        size, heads, kv_heads = self.key("attention.key_length"), self.key("attention.head_count"), self.key("attention.head_count_kv")
        tokens, rotated, of = len(x), self.key("rope.dimension_count"), lambda name: self.weight(layer, name)
        h = rms(x, of("attn_norm.weight"), self.epsilon)
        both = (h @ of("attn_q.weight").T).reshape(tokens, heads, 2 * size)
        q, gate = both[..., :size], both[..., size:]
        k, v = ((h @ of(f"attn_{name}.weight").T).reshape(tokens, kv_heads, size) for name in "kv")
        q, k = rms(q, of("attn_q_norm.weight"), self.epsilon), rms(k, of("attn_k_norm.weight"), self.epsilon)
        angles = np.arange(tokens)[:, None] * self.key("rope.freq_base") ** (-np.arange(0, rotated, 2) / rotated)
        cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]

        def rotate(u):
            a, b, rest = u[..., : rotated // 2], u[..., rotated // 2 : rotated], u[..., rotated:]
            return np.concatenate([a * cosine - b * sine, a * sine + b * cosine, rest], axis=-1)

        q, k = rotate(q), rotate(k)
        out = np.zeros((tokens, heads, size))
        for head in range(heads):
            kv = head // (heads // kv_heads)
            scores = q[:, head] @ k[:, kv].T / np.sqrt(size)
            scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = weights @ v[:, kv] / weights.sum(-1, keepdims=True)
        return dict(y=x + (out * sigmoid(gate)).reshape(tokens, -1) @ of("attn_output.weight").T)

    def experts(self, layer, h):
        """What the chosen experts and the shared one give."""
        of = lambda name: self.weight(layer, f"ffn_{name}.weight")
        if f"blk.{layer}.ffn_gate_up_exps.weight" in self.tensors:
            gate, up = np.split(of("gate_up_exps"), 2, axis=1)
        else:
            gate, up = of("gate_exps"), of("up_exps")
        shared = (silu(h @ of("gate_shexp").T) * (h @ of("up_shexp").T)) @ of("down_shexp").T
        y = sigmoid(h @ of("gate_inp_shexp"))[:, None] * shared
        logits, used = h @ of("gate_inp").T, self.key("expert_used_count")
        for t in range(len(h)):
            order = np.argsort(-logits[t])
            chosen = order[:used]
            self.gaps[t] = min(self.gaps[t], logits[t, order[used - 1]] - logits[t, order[used]])
            weights = np.exp(logits[t, chosen] - logits[t].max())
            for expert, weight in zip(chosen, weights / weights.sum()):
                y[t] += weight * (of("down_exps")[expert] @ (silu(gate[expert] @ h[t]) * (up[expert] @ h[t])))
        return y

    def block(self, layer, x):
        """What a layer gives, and the values of its mixer."""
        values = (self.delta_net if self.is_recurrent(layer) else self.attention)(layer, x)
        x = values["y"]
        h = rms(x, self.weight(layer, "post_attention_norm.weight"), self.epsilon)
        if f"blk.{layer}.ffn_gate_inp.weight" in self.tensors:
            return x + self.experts(layer, h), values
        gate, up, down = (self.weight(layer, f"ffn_{name}.weight") for name in ("gate", "up", "down"))
        return x + (silu(h @ gate.T) * (h @ up.T)) @ down.T, values

    def forward(self, ids):
        """The logits, the vectors that the head multiplies, and the values of each layer's mixer."""
        x, mixers = self.tensors["token_embd.weight"][ids], []
        self.gaps = np.full(len(ids), np.inf)
        for layer in range(self.layers):
            x, values = self.block(layer, x)
            mixers.append(values)
        hidden = rms(x, self.tensors["output_norm.weight"], self.epsilon)
        head = self.tensors.get("output.weight", self.tensors["token_embd.weight"])
        return hidden @ head.T, hidden, mixers

    def predict(self, hidden, ids):
        """The block for multi-token prediction: from vectors that a head has multiplied and the tokens that came after them, the logits of the tokens
        after those, and the vectors that the block's head multiplies."""
        own = lambda name: self.tensors.get(f"blk.{self.layers}.nextn.{name}.weight")
        either = lambda name, otherwise: self.tensors[otherwise] if own(name) is None else own(name)
        embedded = either("embed_tokens", "token_embd.weight")[ids]
        both = np.hstack([rms(embedded, own("enorm"), self.epsilon), rms(hidden, own("hnorm"), self.epsilon)])
        x, _ = self.block(self.layers, both @ own("eh_proj").T)
        hidden = rms(x, either("shared_head_norm", "output_norm.weight"), self.epsilon)
        return hidden @ either("shared_head_head", "output.weight").T, hidden
