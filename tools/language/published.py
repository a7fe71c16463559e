"""Compares published models in GGUF files with transformers, and with llama.cpp.

usage: published.py MODEL.gguf [CHECK …]     checks: folder, greedy, perplexity, perplexity=FILE; default: the first three

Needs torch, transformers and gguf, the koine package, koine in PATH or $KOINE, and xllamacpp for llama.cpp. koine convert writes the file as a
folder, which transformers opens. The checks:

  folder      the folder has the weights that the gguf package dequantizes, the same tokens for the project's documents, the same logits
  greedy      200 tokens after each of five prompts
  perplexity  of 100 kB of the project's documents, or of FILE, in windows of 512 tokens; that of llama.cpp as well

Exits with 1 if something differs.
"""
import glob
import importlib.util
import os
import resource
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers

import koine
from llama import Llama
from koine._generate import _Writer

transformers.utils.logging.disable_progress_bar()
LIMIT, LENGTH, GREEDY, WINDOW = 2e-5, 200, 200, 512
ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
PROMPTS = ("The history of the printing press begins", "def fibonacci(n):", "Once upon a time, in a small village by the sea,",
           "The three most important inventions of the 20th century are", "Dear Sir or Madam,")


def documents():
    """100 kB of the project's documents."""
    text = ""
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "*.md"))):
        with open(path, encoding="utf-8") as file:
            text += file.read()
    return text[:100_000]


def logits_of(llama, tokens):
    llama.clear()
    return llama.read(tokens, every=True)


def difference(found, expected):
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def oracle(path):
    """The model as transformers reads the file by itself, with the gguf package, in float32."""
    folder, name = os.path.split(os.path.abspath(path))
    return transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)


def check_folder(path, network, folder, _):
    own, failed = oracle(path).state_dict(), []
    made = network.state_dict()
    if set(own) != set(made):
        failed.append("names of weights")
    worst = max(float((made[name] - own[name]).abs().max()) for name in own if name in made)
    if worst > 1e-7:
        failed.append("weights")
    words, theirs = koine.Vocabulary(path), transformers.AutoTokenizer.from_pretrained(folder)
    ours = koine.Vocabulary(folder)
    lines = documents().splitlines()
    others = [sum(list(words.encode(line)) != list(other(line)) for line in lines)
              for other in (ours.encode, lambda line: theirs(line)["input_ids"])]
    if any(others):
        failed.append("tokens")
    tokens = np.array([words.encode(documents())[:LENGTH]], np.int32)
    with torch.no_grad():
        expected = network(input_ids=torch.tensor(tokens).long()).logits.numpy()
    model = koine.Model(path, window=LENGTH, fast_math=False)
    first = difference(model.predict(tokens), expected)
    second = difference(koine.Model(folder, window=LENGTH, fast_math=False).predict(tokens), expected)
    if not max(first, second) <= LIMIT:
        failed.append("logits")
    print(f"folder: weights differ by {worst:.1e}, tokens in {others[0]} lines with Koine and {others[1]} with transformers of {len(lines)}, "
          f"logits by {first:.1e} and from the folder {second:.1e}", flush=True)
    return failed


def check_greedy(path, network, folder, _):
    words, failed = koine.Vocabulary(path), []
    model = koine.Model(path, window=GREEDY + 64)
    for prompt in PROMPTS:
        given = torch.tensor([list(words.encode(prompt))])
        text, writer, past, same = given[0].tolist(), _Writer(model), None, 0
        for same in range(GREEDY + 1):
            if same == GREEDY:
                break
            with torch.no_grad():
                made = network(input_ids=given, past_key_values=past, use_cache=True)
            expected, past = made.logits[0, -1].numpy(), made.past_key_values
            token = int(expected.argmax())
            if int(writer.logits(text).argmax()) != token:
                failed.append("greedy tokens")
                break
            text.append(token)
            given = torch.tensor([[token]])
        print(f"greedy: {same} of {GREEDY} tokens are the same: {words.decode(text[:20])!r}", flush=True)
    return failed


def windows_of(path, text):
    """x and y, (count, WINDOW): tokens, and the token after each."""
    tokens = np.array(koine.Vocabulary(path).encode(text), np.int32)
    count = (len(tokens) - 1) // WINDOW * WINDOW
    return tokens[:count].reshape(-1, WINDOW), tokens[1:count + 1].reshape(-1, WINDOW)


def loss(logits, y):
    """The mean over the positions of a window."""
    return float(torch.nn.functional.cross_entropy(torch.as_tensor(logits), torch.as_tensor(y).long()))


def peak():
    """The peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check_perplexity(path, network, folder, file):
    if file:
        with open(file, encoding="utf-8") as stream:
            text = stream.read(100_000)
    else:
        text = documents()
    x, y = windows_of(path, text)
    before = peak()
    own = koine.Model(path, window=WINDOW).evaluate(x, y, batch_size=1).loss
    print(f"Koine's evaluation raises the peak memory from {before:.0f} MB to {peak():.0f} MB", flush=True)
    with torch.no_grad():
        theirs = np.mean([loss(network(input_ids=torch.tensor(a[None]).long()).logits[0], b) for a, b in zip(x, y)])
    llama = Llama(path, WINDOW) if importlib.util.find_spec("xllamacpp") else None
    third = own
    if llama:
        third = np.mean([loss(logits_of(llama, a), b) for a, b in zip(x, y)])
    found = [float(np.exp(mean)) for mean in (theirs, own, third)]
    print(f"perplexity of {x.size} tokens: transformers {found[0]:.4f}, Koine {found[1]:.4f} ({found[1] / found[0] - 1:+.1e})"
          + (f", llama.cpp {found[2]:.4f} ({found[2] / found[1] - 1:+.1e})" if llama else ""), flush=True)
    return [] if abs(found[1] / found[0] - 1) < 1e-3 and abs(found[2] / found[1] - 1) < 1e-2 else ["perplexity"]


CHECKS = {"folder": check_folder, "greedy": check_greedy, "perplexity": check_perplexity}


def main(path, *wanted):
    failed = []
    with tempfile.TemporaryDirectory(prefix="koine-") as parent:
        folder = os.path.join(parent, "model", "")
        subprocess.run([os.environ.get("KOINE", "koine"), "convert", path, folder], check=True)
        network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for check in wanted or CHECKS:
            name, _, file = check.partition("=")
            failed += CHECKS[name](path, network, folder, file)
    if failed:
        print("DIFFER:", ", ".join(failed))
    return len(failed) > 0


sys.exit(main(*sys.argv[1:]))
