#!/usr/bin/env python3
"""Computes one layer of a small model of architecture qwen35 in float64 and writes what goes in and what comes out.

Usage: make_delta_layer.py MODEL.gguf LOGITS.f32 IDS.json, which needs numpy. The model's matrices are f16 and its logits, `[tokens, vocabulary]`
f32, come from another implementation: the whole forward pass is compared with them before anything is written. The layer's tokens are the first
ROWS of `ids`.

It writes delta_layer.json, the index of arrays (name, shape, type, offset in bytes), and delta_layer.bin. `memory` is what is left behind the last
token, for each value head a column of keys for each element of values.
"""

import json
import sys
from pathlib import Path

import numpy as np
from forward import Model, read_gguf

LAYER, ROWS = 1, 20


def main():
    model_path, logits_path, ids_path = sys.argv[1:]
    model, ids = Model(*read_gguf(model_path)), json.loads(Path(ids_path).read_text())["ids"]
    logits, _, _ = model.forward(ids)
    expected = np.fromfile(logits_path, np.float32).reshape(logits.shape)
    error = np.abs(logits - expected).max()
    print(f"largest difference of {logits.size} logits: {error:.2e}")
    assert error < 1e-5
    values = model.forward(ids[:ROWS])[2][LAYER]
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
