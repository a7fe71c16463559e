"""Measures how fast language models generate text and read prompts, beside llama.cpp, in turn.

usage: speed.py [--prompt 512] [--length 128] [--rounds 3] [--threads 2] MODEL.gguf …

Needs numpy, the koine package and xllamacpp. Each round measures Koine, Koine with activations="int8", and llama.cpp with the given number of
threads; Koine uses the cores of its device. Prints the median tokens per second of each, and the bytes per second of the file that generation
reads: a prompt and its first token are not counted as generated.
"""
import argparse
import os
import statistics
import time

import numpy as np

import koine
from koine._generate import _Writer
from llama import Llama


class LlamaText(Llama):
    def logits(self, tokens):
        return self.read(tokens[self.used:])[0]


class Koine:
    def __init__(self, path, context, activations):
        self.model = koine.Model(path, window=context, activations=activations)
        self.writer = _Writer(self.model)
        self.logits = self.writer.logits

    def clear(self):
        self.writer.kept = 0


def measure(program, prompt, length):
    """Seconds per token of the prompt and of the generated text."""
    program.clear()
    tokens, start = list(prompt), time.perf_counter()
    tokens.append(int(np.argmax(program.logits(tokens))))
    read = time.perf_counter()
    for _ in range(length):
        tokens.append(int(np.argmax(program.logits(tokens))))
    return (read - start) / len(prompt), (time.perf_counter() - read) / length


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("prompt", 512), ("length", 128), ("rounds", 3), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("files", nargs="+")
    asked = parser.parse_args()
    context = asked.prompt + asked.length + 1
    for path in asked.files:
        programs = {"koine": Koine(path, context, "float32"), "koine int8": Koine(path, context, "int8"),
                    "llama.cpp": LlamaText(path, context, asked.threads)}
        prompt = [int(token) for token in np.random.default_rng(1).integers(300, 20000, asked.prompt)]
        times = {name: [] for name in programs}
        for program in programs.values():  # compiles
            measure(program, prompt, 2)
        for _ in range(asked.rounds):
            for name, program in programs.items():
                times[name].append(measure(program, prompt, asked.length))
        for name, pairs in times.items():
            read, written = (statistics.median(pair[i] for pair in pairs) for i in range(2))
            print(f"{os.path.basename(path)} {name}: prompt {1 / read:.0f} tokens/s, generation {1 / written:.1f} tokens/s, "
                  f"{os.path.getsize(path) / written / 1e9:.1f} GB/s", flush=True)


main()
