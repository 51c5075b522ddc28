"""The same forward pass as that of `forward.py` in another formulation, to find errors of either: a gated delta net by chunks, each the solution of a
triangular system, convolution and attention by matrices over all tokens, rotation by complex numbers, and every expert for every token. It shares no
code with `forward.py`, and it reads files with the package gguf.
"""

import numpy as np
from gguf import GGUFReader

CHUNK = 64


def normed(x, w, eps):
    return np.einsum("...i,i,...->...i", x, w, (np.einsum("...i,...i->...", x, x) / x.shape[-1] + eps) ** -0.5)


def logistic(x):
    return 0.5 * (np.tanh(0.5 * x) + 1)


def swish(x):
    return x * logistic(x)


class SecondPass:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = {name.split(".", 1)[1]: field.contents() for name, field in reader.fields.items() if "." in name}
        self.tensors = {t.name: np.array(t.data, dtype=np.float64) for t in reader.tensors}
        self.family = reader.fields["general.architecture"].contents()
        self.eps = self.fields["attention.layer_norm_rms_epsilon"]
        self.trunk = self.fields["block_count"] - self.fields.get("nextn_predict_layers", 0)

    def gated_delta_net(self, w, h):
        n, f = len(h), self.fields
        d, nk, nv = f["ssm.state_size"], f["ssm.group_count"], f["ssm.time_step_rank"]
        each = nv // nk
        if self.family == "qwen3next":
            of_value_head = np.repeat(np.arange(nk), each)
            rows = w["ssm_ba.weight"].reshape(nk, 2, each, -1)
            w_beta, w_alpha = (rows[:, i].reshape(nv, -1) for i in (0, 1))
        else:
            of_value_head = np.tile(np.arange(nk), each)
            w_beta, w_alpha = w["ssm_beta.weight"], w["ssm_alpha.weight"]
        inputs = np.einsum("ci,ti->tc", w["attn_qkv.weight"], h)
        # A band matrix for each tap: the last tap is that of the token itself.
        bands = np.stack([np.eye(n, k=tap - 3) for tap in range(4)])
        u = swish(np.einsum("jts,sc,cj->tc", bands, inputs, w["ssm_conv1d.weight"], optimize=True))
        heads = u.reshape(n, 2 * nk + nv, d)
        length = lambda x: np.sqrt(np.einsum("tgi,tgi->tg", x, x) + 1e-6)[..., None]
        q, k, v = heads[:, :nk], heads[:, nk : 2 * nk], heads[:, 2 * nk :]
        q, k = ((x / length(x))[:, of_value_head] for x in (q, k))
        q = q * d**-0.5
        beta = logistic(h @ w_beta.T)
        decay = w["ssm_a"] * np.logaddexp(0, h @ w_alpha.T + w["ssm_dt.bias"])
        state, outputs = np.zeros((nv, d, d)), []
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            qc, kc, vc, bc = (x[part].swapaxes(0, 1) for x in (q, k, v, beta))
            total = np.cumsum(decay[part], axis=0).T
            size = total.shape[1]
            lower = np.tri(size)
            between = np.exp(np.where(lower > 0, total[:, :, None] - total[:, None, :], 0)) * lower
            system = np.eye(size) + np.tril(bc[..., None] * (kc @ kc.swapaxes(1, 2)) * between, -1)
            wanted = bc[..., None] * (vc - np.exp(total)[..., None] * (kc @ state))
            values = np.linalg.solve(system, wanted)
            outputs.append(np.exp(total)[..., None] * (qc @ state) + (qc @ kc.swapaxes(1, 2) * between) @ values)
            left = np.exp(total[:, -1:] - total)
            state = np.exp(total[:, -1])[:, None, None] * state + np.einsum("hti,ht,htj->hij", kc, left, values)
        out = normed(np.concatenate(outputs, axis=1), w["ssm_norm.weight"], self.eps).swapaxes(0, 1).reshape(n, nv * d)
        return (out * swish(h @ w["attn_gate.weight"].T)) @ w["ssm_out.weight"].T

    def gated_attention(self, w, h):
        n, f = len(h), self.fields
        d, nq, nkv, turned = f["attention.key_length"], f["attention.head_count"], f["attention.head_count_kv"], f["rope.dimension_count"]
        matrix = w["attn_q.weight"].reshape(nq, 2, d, -1)
        q, gate = (np.einsum("hdi,ti->htd", matrix[:, i], h) for i in (0, 1))
        k, v = (np.einsum("hdi,ti->htd", w[name].reshape(nkv, d, -1), h) for name in ("attn_k.weight", "attn_v.weight"))
        turns = np.exp(1j * np.outer(np.arange(n), f["rope.freq_base"] ** (-2 * np.arange(turned // 2) / turned)))

        def prepared(x, weights):
            x = normed(x, weights, self.eps)
            pairs = (x[..., : turned // 2] + 1j * x[..., turned // 2 : turned]) * turns
            return np.concatenate([pairs.real, pairs.imag, x[..., turned:]], axis=-1)

        q, k = prepared(q, w["attn_q_norm.weight"]), prepared(k, w["attn_k_norm.weight"])
        k, v = (np.repeat(x, nq // nkv, axis=0) for x in (k, v))
        weights = np.exp(np.einsum("htd,hsd->hts", q, k) * d**-0.5) * np.tri(n)
        mixed = np.einsum("hts,hsd->htd", weights / weights.sum(axis=2, keepdims=True), v) * logistic(gate)
        return mixed.swapaxes(0, 1).reshape(n, nq * d) @ w["attn_output.weight"].T

    def network(self, w, h):
        half = lambda gate, up: swish(h @ gate.T) * (h @ up.T)
        if "ffn_gate.weight" in w:
            return half(w["ffn_gate.weight"], w["ffn_up.weight"]) @ w["ffn_down.weight"].T
        logits = h @ w["ffn_gate_inp.weight"].T
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        least = np.sort(weights, axis=1)[:, -self.fields["expert_used_count"], None]
        weights = np.where(weights >= least, weights, 0)
        weights /= weights.sum(axis=1, keepdims=True)
        result = np.zeros_like(h)
        for expert, down in enumerate(w["ffn_down_exps.weight"]):
            if "ffn_gate_up_exps.weight" in w:
                fused = w["ffn_gate_up_exps.weight"][expert]
                gate, up = fused[: len(fused) // 2], fused[len(fused) // 2 :]
            else:
                gate, up = w["ffn_gate_exps.weight"][expert], w["ffn_up_exps.weight"][expert]
            result += weights[:, expert, None] * (half(gate, up) @ down.T)
        shared = half(w["ffn_gate_shexp.weight"], w["ffn_up_shexp.weight"]) @ w["ffn_down_shexp.weight"].T
        return result + logistic(h @ w["ffn_gate_inp_shexp.weight"].ravel())[:, None] * shared

    def layer(self, index, x):
        start = f"blk.{index}."
        w = {name.removeprefix(start): tensor for name, tensor in self.tensors.items() if name.startswith(start)}
        mixer = self.gated_delta_net if "ssm_a" in w else self.gated_attention
        x = x + mixer(w, normed(x, w["attn_norm.weight"], self.eps))
        return x + self.network(w, normed(x, w["post_attention_norm.weight"], self.eps))

    def forward(self, ids):
        """The logits, and the vectors that the head multiplies."""
        x = self.tensors["token_embd.weight"][ids]
        for index in range(self.trunk):
            x = self.layer(index, x)
        x = normed(x, self.tensors["output_norm.weight"], self.eps)
        return x @ self.tensors.get("output.weight", self.tensors["token_embd.weight"]).T, x

    def predict(self, hidden, ids):
        """Logits and vectors of the block for multi-token prediction."""
        get = lambda name, otherwise: self.tensors.get(f"blk.{self.trunk}.nextn.{name}.weight", self.tensors.get(otherwise))
        joined = get("eh_proj", None)
        width = joined.shape[0]
        e = normed(get("embed_tokens", "token_embd.weight")[ids], get("enorm", None), self.eps)
        h = normed(hidden, get("hnorm", None), self.eps)
        x = self.layer(self.trunk, e @ joined[:, :width].T + h @ joined[:, width:].T)
        x = normed(x, get("shared_head_norm", "output_norm.weight"), self.eps)
        return x @ get("shared_head_head", "output.weight").T, x
