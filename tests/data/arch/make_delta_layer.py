#!/usr/bin/env python3
"""Computes one layer of a small model of architecture qwen35 in float64 and writes what goes in and what comes out.

Usage: make_delta_layer.py MODEL.gguf LOGITS.f32 IDS.json, which needs numpy. The model's matrices are f16 and its logits, `[tokens, vocabulary]`
f32, come from another implementation: the whole forward pass is compared with them before anything is written. The layer's tokens are the first
ROWS of `ids`.

It writes delta_layer.json, the index of arrays (name, shape, type, offset in bytes), and delta_layer.bin. `memory` is what is left behind the last
token, for each value head a column of keys for each element of values.
"""

import json
import struct
import sys
from pathlib import Path

import numpy as np

LAYER, ROWS = 1, 20


def read_gguf(path):
    """The metadata and the tensors, float64 in row-major order, with the type that each is stored in."""
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
    def __init__(self, path):
        self.metadata, self.stored = read_gguf(path)
        self.tensors = {name: tensor.astype(np.float64) for name, tensor in self.stored.items()}
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")

    def key(self, name):
        return self.metadata["qwen35." + name]

    def weight(self, layer, name):
        return self.tensors[f"blk.{layer}.{name}"]

    def delta_net(self, layer, x):
        """The mixer of a recurrent layer, and all values on the way."""
        size, key_heads, heads = (self.key("ssm." + name) for name in ("state_size", "group_count", "time_step_rank"))
        tokens, of = len(x), lambda name: self.weight(layer, name)
        h = rms(x, of("attn_norm.weight"), self.epsilon)
        qkv, z = h @ of("attn_qkv.weight").T, h @ of("attn_gate.weight").T
        beta, alpha = h @ of("ssm_beta.weight").T, h @ of("ssm_alpha.weight").T
        padded = np.vstack([np.zeros((3, qkv.shape[1])), qkv])
        taps = of("ssm_conv1d.weight")
        mixed = silu(sum(padded[j : j + tokens] * taps[:, j] for j in range(4)))
        q, k, v = np.split(mixed, [key_heads * size, 2 * key_heads * size], axis=1)
        unit = lambda u: u / np.sqrt((u * u).sum(-1, keepdims=True) + 1e-6)
        q = unit(q.reshape(tokens, key_heads, size)) / np.sqrt(size)
        k, v = unit(k.reshape(tokens, key_heads, size)), v.reshape(tokens, heads, size)
        keep = np.exp(of("ssm_a") * np.log1p(np.exp(alpha + of("ssm_dt.bias"))))
        write = sigmoid(beta)
        memory, results = np.zeros((heads, size, size)), np.zeros((tokens, heads, size))
        for t in range(tokens):
            for head in range(heads):
                key, query = k[t, head % key_heads], q[t, head % key_heads]
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

    def forward(self, ids):
        """The logits, and the values of each layer's mixer."""
        x, layers = self.tensors["token_embd.weight"][ids], []
        for layer in range(self.key("block_count")):
            full = (layer + 1) % self.key("full_attention_interval") == 0
            layers.append((self.attention if full else self.delta_net)(layer, x))
            x = layers[-1]["y"]
            h = rms(x, self.weight(layer, "post_attention_norm.weight"), self.epsilon)
            gate, up, down = (self.weight(layer, f"ffn_{name}.weight") for name in ("gate", "up", "down"))
            x = x + (silu(h @ gate.T) * (h @ up.T)) @ down.T
        return rms(x, self.tensors["output_norm.weight"], self.epsilon) @ self.tensors["output.weight"].T, layers


def main():
    model_path, logits_path, ids_path = sys.argv[1:]
    model, ids = Model(model_path), json.loads(Path(ids_path).read_text())["ids"]
    logits, _ = model.forward(ids)
    expected = np.fromfile(logits_path, np.float32).reshape(logits.shape)
    error = np.abs(logits - expected).max()
    print(f"largest difference of {logits.size} logits: {error:.2e}")
    assert error < 1e-5
    values = model.forward(ids[:ROWS])[1][LAYER]
    arrays = {name: value.astype(np.float32) for name, value in values.items()}
    for name in ("attn_norm", "attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha", "ssm_conv1d", "ssm_norm", "ssm_out"):
        arrays[name] = model.stored[f"blk.{LAYER}.{name}.weight"]
    arrays["ssm_dt"], arrays["ssm_a"] = model.stored[f"blk.{LAYER}.ssm_dt.bias"], model.stored[f"blk.{LAYER}.ssm_a"]
    index, content = [], b""
    for name, array in arrays.items():
        index.append(dict(name=name, shape=array.shape, type={2: "f16", 4: "f32"}[array.itemsize], offset=len(content)))
        content += array.tobytes()
    here = Path(__file__).parent
    (here / "delta_layer.bin").write_bytes(content)
    (here / "delta_layer.json").write_text(json.dumps(dict(rows=ROWS, epsilon=model.epsilon, arrays=index), indent=1) + "\n")


main()
