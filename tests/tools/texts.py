"""koine infer with texts: an encoder in a folder gives the vector of each.

usage: texts.py KOINE HOUSE_TESTS
"""
import json
import math
import os

from koine import case, expect, koine, run_cases
from text_encoder import LONGEST, PLACES, TOKENS, TYPES, WIDTH, WORDS, write


def vector(text):
    tokens = [2, *[WORDS.index(word) if word in WORDS else 1 for word in text.split()][:LONGEST - 2], 3]
    total = [0.0] * WIDTH
    for place, token in enumerate(tokens):
        row = [TOKENS[token][i] + PLACES[place][i] + TYPES[0][i] for i in range(WIDTH)]
        for _ in range(3):
            middle = sum(row) / WIDTH
            size = math.sqrt(sum((x - middle) ** 2 for x in row) / WIDTH)
            row = [(x - middle) / size for x in row]
        total = [a + b for a, b in zip(total, row)]
    size = math.sqrt(sum(x * x for x in total))
    return [x / size for x in total]


def check(found, texts):
    expect(len(found) == len(texts), found)
    for row, text in zip(found, texts):
        worst = max(abs(float(a) - b) for a, b in zip(row, vector(text)))
        expect(len(row) == WIDTH and worst < 1e-5, f"'{text}': {row}, expected {vector(text)}")


@case
def texts_have_vectors(folder):
    write(os.path.join(folder, "encoder"))
    texts = ["a b b", "", "b zz a", "a " * 30]
    with open(os.path.join(folder, "texts.txt"), "w", newline="") as file:
        file.write("a b b\n\nb zz a\r\n" + "a " * 30)
    koine("infer", "encoder", "texts.txt", "--output", "found.csv", folder=folder).needs()
    with open(os.path.join(folder, "found.csv")) as file:
        rows = [line.split(",") for line in file.read().split()]
    check(rows[1:], texts)
    # A short window, and a batch smaller than the number of texts.
    koine("infer", "encoder/", "texts.txt", "texts.txt", "--batch", "3", "--output", "more.csv", folder=folder).needs()
    with open(os.path.join(folder, "more.csv")) as file:
        check([line.split(",") for line in file.read().split()][1:], texts + texts)
    koine("infer", "encoder", "--text", "b a", "--output", "one.csv", folder=folder).needs()
    with open(os.path.join(folder, "one.csv")) as file:
        check([line.split(",") for line in file.read().split()][1:], ["b a"])
    koine("models", "encoder", folder=folder).needs(out="input   length int32 (batch)")
    koine("plan", "encoder", folder=folder).needs(out="blk0.attn_q")


@case
def texts_need_an_encoder(folder):
    write(os.path.join(folder, "encoder"), pooled=False)
    koine("infer", "encoder", "--text", "a", folder=folder).needs(1, err="modules.json")
    os.remove(os.path.join(folder, "encoder", "tokenizer.json"))
    koine("infer", "encoder", "--text", "a", "x.npy", folder=folder).needs(2, err="--text and files exclude each other")
    write(os.path.join(folder, "other"))
    open(os.path.join(folder, "empty.txt"), "w").close()
    koine("infer", "other", "empty.txt", folder=folder).needs(1, err="no lines")
    koine("infer", "other", "missing.txt", folder=folder).needs(1, err="missing.txt")
    path = os.path.join(folder, "other", "tokenizer.json")
    with open(path) as file:
        words = json.load(file)
    del words["post_processor"]
    with open(path, "w") as file:
        json.dump(words, file)
    koine("infer", "other", "--text", " ", folder=folder).needs(1, err="text 1 has no tokens")
    os.remove(path)
    koine("infer", "other", "--text", "a", folder=folder).needs(1, err="tokenizer.json")


run_cases()
