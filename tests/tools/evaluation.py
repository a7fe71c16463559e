"""What koine eval reports besides loss and accuracy, recomputed from the results of koine infer.

usage: evaluation.py KOINE HOUSE_TESTS
"""
import math
import os
import random

import byte_model
from koine import CLASSES, SAMPLES, TINY, WIDTH, case, expect, koine, numbers_of, problem, read_npy, run_cases, train, write
from koine import write_npy

CLASS_KEYS = ["class", "name", "samples", "predicted", "precision", "recall", "f1"]


def near(found, wanted, what):
    expect(found == wanted or (found is not None and wanted is not None and math.isclose(found, wanted, rel_tol=1e-4)),
           f"{what}: found {found}, expected {wanted}")


def share(part, whole):
    return part / whole if whole else None


def answers(folder, model):
    koine("infer", model, "--input", "x.npy", "--output", "z.npy", folder=folder).needs(0)
    shape, numbers = read_npy(os.path.join(folder, "z.npy"))
    return [numbers[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]


@case
def classes_are_counted(folder):
    train(folder, "--epochs", "3", "--batch", "10", "--lr", "0.01")
    found = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", "--batch", "7", "--json",
                  folder=folder).objects()[0]
    truth = read_npy(os.path.join(folder, "y.npy"))[1]
    predicted = [row.index(max(row)) for row in answers(folder, "tiny.safetensors")]
    matrix = [[sum(t == i and s == j for t, s in zip(truth, predicted)) for j in range(CLASSES)] for i in range(CLASSES)]
    expect(found["confusion"] == matrix, f"found {found['confusion']}, expected {matrix}")
    expect(found["top5"] is None and found["perplexity"] is None, f"found {found}")
    near(found["accuracy"], sum(matrix[c][c] for c in range(CLASSES)) / SAMPLES, "accuracy")
    for c, one in enumerate(found["classes"]):
        expect(list(one) == CLASS_KEYS and (one["class"], one["name"]) == (c, str(c)), f"found {one}")
        shown, told = sum(matrix[c]), sum(row[c] for row in matrix)
        expect((one["samples"], one["predicted"]) == (shown, told), f"found {one} of {matrix}")
        near(one["precision"], share(matrix[c][c], told), "precision")
        near(one["recall"], share(matrix[c][c], shown), "recall")
        near(one["f1"], share(2 * matrix[c][c], told + shown), "f1")
    text = koine("eval", "tiny.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(
        0, err="", out=("class ", "precision", "recall", "predicted")).out
    rows = [line.split() for line in text.splitlines()[-CLASSES:]]
    expect([list(map(int, row[1:])) for row in rows] == matrix, f"found {text}")


@case
def ignored_targets_do_not_count(folder):
    """Whole batches of them neither; the means are over the other targets, for any batch."""
    problem(folder)
    write(folder, "some.koine", TINY.replace("model tiny\n", "model some\nloss cross-entropy ignore=1\n"))
    truth = [1 if i < 30 or i % 4 == 0 else t for i, t in enumerate(read_npy(os.path.join(folder, "y.npy"))[1])]
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), truth)
    koine("train", "some.koine", "--data", "npy:x.npy,y.npy", "--epochs", "3", "--batch", "50", "--lr", "0.01",
          folder=folder).needs(0)
    rows = [(row, t) for row, t in zip(answers(folder, "some.safetensors"), truth) if t != 1]
    for batch in "7", "100":
        found = koine("eval", "some.safetensors", "--data", "npy:x.npy,y.npy", "--batch", batch, "--json",
                      folder=folder).objects()[0]
        near(found["accuracy"], sum(row.index(max(row)) == t for row, t in rows) / len(rows), "accuracy")
        near(found["loss"], sum(math.log(sum(map(math.exp, row))) - row[t] for row, t in rows) / len(rows), "loss")
        expect(sum(map(sum, found["confusion"])) == len(rows), f"found {found['confusion']}")


@case
def names_of_classes_keep_whole_letters(folder):
    """Names longer than the column and longer than the limit: cut between letters, with aligned columns."""
    names = ["ä" * 9 + "x", "é" * 30, "aa" + "ß" * 90]
    write(folder, "rows.csv", "a,b,kind\n" + "".join(f"{i % 7},{i % 5},{names[i % 3]}\n" for i in range(90)))
    data = ["--data", "csv:rows.csv,target=kind"]
    koine("train", "table-classes", *data, "--steps", "2", "--save", "t.safetensors", folder=folder).needs(0)
    text = koine("eval", "t.safetensors", *data, folder=folder).needs(0).out
    expect("\ufffd" not in text and "ä" * 9 + "x " in text and "é" * 16 in text, f"found {text}")
    rows = text[text.index("class "):text.index("predicted")].splitlines()[:4]
    expect(len({len(row) for row in rows}) == 1, f"columns are not in line: {rows}")
    matrix = text.splitlines()[-4:]
    expect(len({len(row) for row in matrix}) == 1, f"columns are not in line: {matrix}")
    found = koine("eval", "t.safetensors", *data, "--json", folder=folder).objects()[0]
    expect(all("\ufffd" not in one["name"] for one in found["classes"]), f"found {found['classes']}")


@case
def the_five_likeliest(folder):
    problem(folder)
    labels = [(3 * i) % 8 for i in range(SAMPLES)]
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), labels)
    write(folder, "eight.koine", f"koine 1\nmodel eight\ninput x {WIDTH}\nlogits = linear 8\n")
    koine("train", "eight.koine", "--data", "npy:x.npy,y.npy", "--steps", "3", folder=folder).needs(0)
    found = koine("eval", "eight.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    hits = sum(label in sorted(range(8), key=lambda c: -row[c])[:5]
               for row, label in zip(answers(folder, "eight.safetensors"), labels))
    expect(0 < hits < SAMPLES, f"nothing to tell: {hits}")
    near(found["top5"], hits / SAMPLES, "top-5")
    koine("eval", "eight.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(
        0, out=f"top-5 accuracy {100 * hits / SAMPLES:.2f}%")


@case
def ten_classes_fit_on_a_line(folder):
    problem(folder, 2000)
    labels = [i % 10 for i in range(2000)]
    write_npy(os.path.join(folder, "y.npy"), "<i4", (2000,), labels)
    write(folder, "ten.koine", f"koine 1\nmodel ten\ninput x {WIDTH}\nlogits = linear 10\n")
    koine("train", "ten.koine", "--data", "npy:x.npy,y.npy", "--steps", "1", folder=folder).needs(0)
    text = koine("eval", "ten.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(0).out
    lines = text.splitlines()[-11:]
    expect(lines[0].split() == ["true"] + [str(c) for c in range(10)] and max(map(len, lines)) <= 80, f"found {text}")
    predicted = [row.index(max(row)) for row in answers(folder, "ten.safetensors")]
    matrix = [[sum(t == i and s == j for t, s in zip(labels, predicted)) for j in range(10)] for i in range(10)]
    expect([list(map(int, line.split()[1:])) for line in lines[1:]] == matrix, f"found {text}")


@case
def many_classes_are_shown_by_the_worst(folder):
    problem(folder)
    write_npy(os.path.join(folder, "y.npy"), "<i4", (SAMPLES,), [i % 50 for i in range(SAMPLES)])
    write(folder, "fifty.koine", f"koine 1\nmodel fifty\ninput x {WIDTH}\nlogits = linear 300\n")
    koine("train", "fifty.koine", "--data", "npy:x.npy,y.npy", "--steps", "1", folder=folder).needs(0)
    text = koine("eval", "fifty.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(
        0, out="the 24 of 300 classes with the lowest F1").out
    expect(len(text.split("\n\n")[1].splitlines()) == 2 + 24, f"found {text}")
    pairs = text.split("\n\n")[2].splitlines()
    expect(pairs[:2] == ["most frequent confusions", "true              predicted          samples    share"], f"found {text}")
    predicted = [row.index(max(row)) for row in answers(folder, "fifty.safetensors")]
    counts = {}
    for i, one in enumerate(predicted):
        if one != i % 50:
            counts[i % 50, one] = counts.get((i % 50, one), 0) + 1
    rows = [line.split() for line in pairs[2:]]
    expect([int(row[2]) for row in rows] == sorted(counts.values(), reverse=True)[:16], f"found {text}")
    expect(all(counts[int(row[0]), int(row[1])] == int(row[2]) for row in rows), f"found {text}")
    found = koine("eval", "fifty.safetensors", "--data", "npy:x.npy,y.npy", "--json", folder=folder).objects()[0]
    expect(found["confusion"] is None and len(found["classes"]) == 300, f"found {found}")
    expect(found["classes"][60]["recall"] is None and found["classes"][60]["samples"] == 0, f"found {found['classes'][60]}")


@case
def numbers_beside_the_truth(folder):
    problem(folder)
    x = numbers_of(SAMPLES * WIDTH)
    truth = [x[i * WIDTH] - 2 * x[i * WIDTH + 1] + 3 for i in range(SAMPLES)]
    write_npy(os.path.join(folder, "y.npy"), "<f4", (SAMPLES, 1), truth)
    write(folder, "line.koine", f"koine 1\nmodel line\ninput x {WIDTH}\nlinear 1\nloss mse\n")
    koine("train", "line.koine", "--data", "npy:x.npy,y.npy", "--epochs", "5", "--lr", "0.05", folder=folder).needs(0)
    found = koine("eval", "line.safetensors", "--data", "npy:x.npy,y.npy", "--batch", "9", "--json", folder=folder).objects(
        "model", "data", "samples", "loss", "accuracy", "r2", "samples_per_s", "rmse", "mae")[0]
    away = [abs(row[0] - t) for row, t in zip(answers(folder, "line.safetensors"), truth)]
    near(found["rmse"], math.sqrt(sum(a * a for a in away) / SAMPLES), "root mean square")
    near(found["mae"], sum(away) / SAMPLES, "mean")
    near(found["loss"], found["rmse"]**2, "loss")
    koine("eval", "line.safetensors", "--data", "npy:x.npy,y.npy", folder=folder).needs(0, out=("R2 ", "mean absolute error"))


@case
def a_table_is_evaluated_in_its_own_unit(folder):
    draw = random.Random(3)
    rows = [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(60)]
    write(folder, "t.csv", "a,b,height\n" + "".join(f"{a:.4f},{b:.4f},{1000 + 100 * a:.3f}\n" for a, b in rows))
    koine("train", "table", "--data", "csv:t.csv,target=height", "--steps", "1", folder=folder).needs(0)
    found = koine("eval", "table.safetensors", "--data", "csv:t.csv", "--json", folder=folder).objects()[0]
    deviation = 100 * math.sqrt(sum(a * a for a, _ in rows) / 60 - (sum(a for a, _ in rows) / 60)**2)
    expect(math.isclose(found["rmse"], deviation * math.sqrt(found["loss"]), rel_tol=0.02), f"{found}, {deviation}")


@case
def perplexity_of_text(folder):
    write(folder, "walk.txt", "abcabcabd" * 60)
    write(folder, "walk.koine", "koine 1\nmodel walk\ninput x 8 int32\nembedding 16 8\nlogits = linear 16\n")
    koine("train", "walk.koine", "--data", "text:walk.txt", "--steps", "5", folder=folder).needs(0)
    found = koine("eval", "walk.safetensors", "--data", "text:walk.txt", "--json", folder=folder).objects()[0]
    near(found["perplexity"], math.exp(found["loss"]), "perplexity")
    expect(sum(map(sum, found["confusion"])) == 8 * found["samples"], f"found {found}")
    text = koine("eval", "walk.safetensors", "--data", "text:walk.txt", folder=folder).needs(
        0, out=("perplexity ", " samples of text:walk.txt: its last tenth, the test part\n")).out
    expect("recall" not in text, f"found {text}")


@case
def logits_of_language_models_are_not_stored(folder):
    byte_model.write(os.path.join(folder, "model.gguf"))
    write(folder, "text.txt", "abc d" * 40)
    data = ["--data", "text:text.txt", "--length", "16"]
    found = koine("eval", "model.gguf", *data, "--json", folder=folder).objects()[0]
    near(found["perplexity"], math.exp(found["loss"]), "perplexity")
    expect(found["top5"] is None and found["accuracy"] > 0.5 and "classes" not in found, f"found {found}")
    koine("eval", "model.gguf", *data, folder=folder).needs(0, out=f"perplexity {found['perplexity']:.3f}")


run_cases()
