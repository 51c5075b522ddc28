"""Makes the golden ids of the pre-tokenizers and of SentencePiece.

    python3 -m venv venv && venv/bin/pip install tokenizers==0.23.3 sentencepiece==0.2.3 protobuf
    venv/bin/python make_tokens.py

The ids are those of Hugging Face's tokenizers and of the SentencePiece library. The vocabularies are trained here: small
ones, whose tokens reach over every place where a pre-tokenizer may cut, so that each cut shows in the ids.

    random.json         random texts, behind the 200 of ../host/qwen3_tokens.json in all that follows
    composed.json       texts that normal form C changes, by their number
    byte_level.json     merges of the byte-level vocabulary, and tokens that no merge makes
    sentencepiece.json  pieces, scores and types, and the variants of the model
    ids/NAME.u16        of every text the number of its ids and the ids, as 16-bit integers, low byte first
"""

import json
import random
import struct
import unicodedata
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).parent

# What the authors published in tokenizer.json.
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
MINICPM5 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
SEED_CODER = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|" + SPACES
CAPITALS, SMALL = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALL}+|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALL}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
)
GPT4O = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}*{SMALL}+{CONTRACTIONS}?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{CAPITALS}+{SMALL}*{CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES
)
DEEPSEEK_V3 = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
DEEPSEEK_HAN = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# The first and last letters of ranges.
DEEPSEEK_LETTERS = (
    "41-5a 61-7a b5 c0-d6 d8-f6 f8-1ba 1bc-1bf 1c4-293 295-2af 370-373 376-377 37b-37d 37f 386 388-38a 38c 38e-3a1"
    " 3a3-3f5 3f7-481 48a-52f 531-556 10a0-10c5 13a0-13f5 13f8-13fd 1c90-1cba 1cbd-1cbf 1d00-1d2b 1d6b-1d77 1d79-1d9a"
    " 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4"
    " 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128"
    " 212a-212d 212f-2134 2139 213c-213f 2145-2149 214e 2183-2184 2c00-2c7b 2c7e-2ce4 2ceb-2cee 2cf2-2cf3 a640-a66d"
    " a680-a69b a722-a76f a771-a787 a78b-a78e ab70-abbf fb00-fb06 fb13-fb17 ff21-ff3a ff41-ff5a 10400-1044f 104b0-104d3"
    " 104d8-104fb 10c80-10cb2 10cc0-10cf2 118a0-118df 1e900-1e943"
)


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def byte_level(use_regex, add_prefix_space=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=use_regex)


def letters(ranges):
    ends = [[chr(int(end, 16)) for end in each.split("-")] for each in ranges.split()]
    return "".join("-".join(each) for each in ends)


DIGITS = pre_tokenizers.Digits(individual_digits=True)

# By the name in a file: steps, whether text is brought to normal form C, whether whole words are taken as they are.
PIPELINES = {
    "qwen2": ([split(QWEN2), byte_level(False)], True, False),
    "qwen35": ([split(QWEN35), byte_level(False)], True, False),
    "llama-bpe": ([split(LLAMA3), byte_level(False)], False, True),
    "smaug-bpe": ([split(LLAMA3), byte_level(False)], False, False),
    "minicpm5": ([split(r"\p{N}{1,3}"), split(MINICPM5), byte_level(False)], False, True),
    "seed-coder": ([split(SEED_CODER), byte_level(False)], False, False),
    "gpt-4o": ([split(GPT4O), byte_level(False)], False, True),
    "tekken": ([split(TEKKEN), byte_level(False)], False, True),
    "gpt-2": ([byte_level(True)], False, False),
    "gpt-2-space": ([byte_level(True, add_prefix_space=True)], False, False),
    "olmo": ([byte_level(True)], True, False),
    "smollm": ([DIGITS, byte_level(True)], False, False),
    "command-r": ([DIGITS, byte_level(True)], True, False),
    "deepseek-llm": (
        [
            split("[\r\n]"),
            split(r"\s?[" + letters(DEEPSEEK_LETTERS) + "]+"),
            split("\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
            split(r"\s+$"),
            split(DEEPSEEK_HAN),
            DIGITS,
            byte_level(False),
        ],
        False,
        False,
    ),
    "deepseek-coder": (
        [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(DEEPSEEK_HAN), DIGITS, byte_level(False)],
        False,
        False,
    ),
    "deepseek-v3": (
        [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"), split(DEEPSEEK_V3), byte_level(False)],
        False,
        False,
    ),
    "falcon": (
        [
            pre_tokenizers.Punctuation("contiguous"),
            byte_level(True),
            pre_tokenizers.Digits(individual_digits=False),
            split("[0-9][0-9][0-9]"),
        ],
        False,
        False,
    ),
}

NEWLINES = ["\n", "\r\n", "\r", "\n\n", "\n \n", " \n", "\u2028", "\u2029", "\x85", "\x0b", "\x0c"]
BLANKS = [" ", "  ", "   ", "\t", "\u00a0", "\u3000", "\u2003", "\u200a", "\u1680", "\u202f", "\u205f", " " * 9]
APOSTROPHES = ["'s", "'S", "'t", "'re", "'RE", "'Ve", "'ll", "'LL", "'d", "'m", "'", "''", "\u2019s", "'\u017f", "'l", "'r"]
EMOJI = ["😀", "👩\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "👍🏽", "🇩🇪", "❤\ufe0f", "☺", "⚡\ufe0f"]
PARTS = [
    *["e\u0301", "a\u0308\u0323", "\u1100\u1161\u11a8", "\u0915\u094d\u0937\u093f", "\u0e01\u0e33", "한국어", "日本語", "漢字かな"],
    *["カタカナー", "Привет", "ΑΒΓαβγ", "HelloWorld", "camelCase", "ABCdef", "ß", "\u01c5", "\ufb00", "\u212b", "\u00c5"],
    *["<s>", "</s>", "<0x0A>", "\u2581", "\u2581\u2581", "foo_bar", "http://", "...", "---", "/**", "#!/", '"x"', "3.14"],
    *["1,000", "12345678", "٣٤٥", "१२३", "½²³", "\u2167", "𝟘𝟙", "<u>", "\u1f7d", "\u1fbe", "\u2126"],
]
WORDS = "the of and a to in is you that it he was for on are with as I his they be at one have this from or".split()


def random_texts(count):
    """Texts of characters of every category, and of what pre-tokenizers look for."""
    chance = random.Random(1)
    categories = {}
    for code in range(0x110000):
        category = unicodedata.ucd_3_2_0.category(chr(code))
        if category not in ("Cn", "Cs"):
            categories.setdefault(category, []).append(chr(code))
    categories = [categories[category] for category in sorted(categories)]

    def part():
        kind = chance.random()
        if kind < 0.35:
            return chance.choice(chance.choice(categories)) * chance.choice([1, 1, 1, 2])
        if kind < 0.43:
            return chance.choice(NEWLINES)
        if kind < 0.54:
            return chance.choice(BLANKS)
        if kind < 0.62:
            return chance.choice(WORDS) + chance.choice(APOSTROPHES)
        if kind < 0.66:
            return chance.choice(EMOJI)
        if kind < 0.78:
            return chance.choice(PARTS)
        if kind < 0.84:
            return "".join(chr(chance.randint(33, 126)) for _ in range(chance.randint(1, 5)))
        if kind < 0.90:
            return str(chance.randint(0, 10 ** chance.randint(1, 9)))
        word = chance.choice(WORDS)
        return chance.choice(["", " "]) + chance.choice([word.upper(), word, word.title()])

    return ["".join(part() for _ in range(chance.randint(1, 9))) for _ in range(count)]


def write_json(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


def write_ids(name, ids):
    assert all(len(each) < 1 << 16 and max(each, default=0) < 1 << 16 for each in ids)
    (HERE / "ids" / f"{name}.u16").write_bytes(b"".join(struct.pack(f"<{len(each) + 1}H", len(each), *each) for each in ids))


def byte_level_vocabulary(texts):
    """Merges across whole texts, and words of more than one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = byte_level(False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1800, initial_alphabet=alphabet, max_token_length=10, show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    merges = [tuple(merge) for merge in json.loads(tokenizer.to_str())["model"]["merges"]]

    characters = {}
    other = 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174:
            characters[byte] = chr(byte)
        else:
            characters[byte] = chr(other)
            other += 1
    assert set(characters.values()) == set(alphabet)
    tokens = list(dict.fromkeys([characters[byte] for byte in range(256)] + [left + right for left, right in merges]))

    words = pre_tokenizers.Sequence([split(LLAMA3), byte_level(False)])
    counts = {}
    for text in texts:
        for word, _ in words.pre_tokenize_str(text):
            counts[word] = counts.get(word, 0) + 1
    unseen = [word for word in counts if word not in set(tokens) and 3 <= len(word) <= 16]
    extra = sorted(unseen, key=lambda word: (-counts[word], word))[:80]
    write_json("byte_level.json", {"merges": [" ".join(merge) for merge in merges], "extra": extra})
    return {token: index for index, token in enumerate(tokens + extra)}, merges


def byte_level_ids(texts):
    vocabulary, merges = byte_level_vocabulary(texts)
    composed = [normalizers.NFC().normalize_str(text) for text in texts]
    write_json("composed.json", {i: new for i, (old, new) in enumerate(zip(texts, composed)) if old != new})
    for name, (steps, is_composed, takes_whole_words) in PIPELINES.items():
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=takes_whole_words))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
        tokenizer.decoder = decoders.ByteLevel()
        if is_composed:
            tokenizer.normalizer = normalizers.NFC()
        ids = [tokenizer.encode(text).ids for text in texts]
        if name != "gpt-2-space":
            assert [tokenizer.decode(each) for each in ids] == (composed if is_composed else texts), name
        write_ids(name, ids)


def sentencepiece_ids(texts):
    lines = [line for text in texts[:500] for line in text.split("\n") if line]
    prefix = HERE / "sentencepiece"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 2),
        model_prefix=str(prefix),
        model_type="bpe",
        vocab_size=1800,
        character_coverage=0.98,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_by_whitespace=False,
        split_by_unicode_script=False,
        split_by_number=False,
        allow_whitespace_only_pieces=True,
        control_symbols=["[INST]"],
        user_defined_symbols=["<u>", "foo_bar", "foo", "the", "\u2581\u2581\u2581"],
        minloglevel=2,
    )
    trained = sentencepiece_model_pb2.ModelProto()
    trained.ParseFromString(prefix.with_suffix(".model").read_bytes())
    for suffix in (".model", ".vocab"):
        prefix.with_suffix(suffix).unlink()

    types = [piece.type for piece in trained.pieces]
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece
    without_bytes = [kinds.CONTROL if kind == kinds.BYTE else kind for kind in types]
    half_unused = [kinds.UNUSED if kind == kinds.NORMAL and id % 2 else kind for id, kind in enumerate(types)]
    # The types, whether a space is put before a text, and whether spaces are removed.
    variants = {
        "llama": (types, True, False),
        "no-space": (types, False, False),
        "tidy": (types, True, True),
        "no-space-tidy": (types, False, True),
        "no-bytes": (without_bytes, True, False),
        "unused": (half_unused, True, False),
    }
    described = []
    for name, (types, adds_space, removes_spaces) in variants.items():
        model = sentencepiece_model_pb2.ModelProto()
        model.CopyFrom(trained)
        for piece, kind in zip(model.pieces, types):
            piece.type = kind
        model.normalizer_spec.add_dummy_prefix = adds_space
        model.normalizer_spec.remove_extra_whitespaces = removes_spaces
        model.trainer_spec.byte_fallback = name != "no-bytes"
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
        ids = [processor.encode(text) for text in texts]
        write_ids(f"sentencepiece-{name}", ids)
        decoded = {}
        for index, (text, each) in enumerate(zip(texts, ids)):
            # The library writes U+2047 for the unknown token, where others have its name.
            if trained.trainer_spec.unk_id not in each and processor.decode(each) != text:
                decoded[index] = processor.decode(each)
        described.append(
            {"name": name, "types": types, "space": adds_space, "tidy": removes_spaces, "decoded": decoded}
        )
    pieces = [[piece.piece, piece.score] for piece in trained.pieces]
    write_json("sentencepiece.json", {"pieces": pieces, "variants": described})


def main():
    (HERE / "ids").mkdir(exist_ok=True)
    texts = [case["text"] for case in json.loads((HERE / "../host/qwen3_tokens.json").read_text())]
    made = random_texts(1000)
    write_json("random.json", made)
    byte_level_ids(texts + made)
    sentencepiece_ids(texts + made)


main()
