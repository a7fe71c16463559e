"""What the command makes of its sources of data: the list of them, regression, text and writing.

usage: data.py KOINE HOUSE_TESTS
"""
import os
import re

from koine import case, expect, koine, run_cases, write

WALK = "koine 1\nmodel walk\ninput x 6 int32\nembedding 8 8\nlstm 12\nlogits = linear 8\n"
LINE = "abcdéf\nabcdéf\n"  # each sign tells the next one


def walk(folder, *options, text=LINE * 30, **wanted):
    write(folder, "walk.koine", WALK)
    write(folder, "walk.txt", text)
    return koine("train", "walk.koine", "--data", "text:walk.txt", "--epochs", "30", "--batch", "16", "--lr", "0.03",
                 *options, folder=folder).needs(0, **wanted)


@case
def sources_are_listed(folder):
    found = koine("datasets").needs(0, out=("digits", "wind", "text:FILE", "npy:X.npy,Y.npy"), err="")
    listed = [row["data"] for row in koine("datasets", "--json").objects("data", "text")]
    expect(listed == re.findall(r"^  (\S+)$", found.out, flags=re.M), f"--json lists {listed}")


@case
def wind_tells_how_much_it_explains(folder):
    found = koine("train", "wind", "--data", "wind", "--steps", "150", "--lr", "0.02", folder=folder)
    found.needs(0, out=("R2 ", "% of what can be explained", "saved in wind.safetensors"))
    found = koine("eval", "wind.safetensors", "--data", "wind", "--json", folder=folder).objects()[0]
    expect(0 < found["r2"] < 0.83 and found["accuracy"] is None and found["samples"] == 5000, f"found {found}")


@case
def text_is_learnt_and_written(folder):
    walk(folder, err="7 signs: \\nabcdfé", out=("validation loss 0.", " nats a character, accuracy "))
    found = koine("generate", "walk.safetensors", "--prompt", "cd", "--length", "12", "--temperature", "0",
                  folder=folder).needs(0)
    expect(found.out == "cdéf\nabcdéf\nab\n", f"it wrote {found.out!r}")
    row = koine("generate", "walk.safetensors", "--length", "7", "--temperature", "0", "--json", folder=folder).objects(
        "prompt", "text")[0]
    expect(row == {"prompt": "", "text": "abcdéf\n"}, f"found {row}")
    first, again, other = (koine("generate", "walk.safetensors", "--temperature", "3", "--seed", seed, folder=folder).out
                           for seed in ("5", "5", "6"))
    expect(first == again != other, "the seed does not decide")
    expect(len(first) == 301 and set(first) <= set(LINE), f"it wrote {first!r}")
    koine("generate", "walk.safetensors", "--prompt", "axb", folder=folder).needs(1, err="the prompt has 'xb")
    # Another text is read with the signs of the first.
    write(folder, "other.txt", "dédédédé" * 20)
    row = koine("eval", "walk.safetensors", "--data", "text:other.txt", "--json", folder=folder).objects()[0]
    expect(row["accuracy"] < 0.9, f"found {row}")
    write(folder, "other.txt", "abz" * 60)
    koine("eval", "walk.safetensors", "--data", "text:other.txt", folder=folder).needs(
        1, err="U+007A, which is not among the 7")


@case
def bytes_are_written(folder):
    write(folder, "bytes.koine", WALK.replace("walk", "bytes").replace("8 8", "256 8").replace("linear 8", "linear 256"))
    with open(os.path.join(folder, "raw"), "wb") as file:
        file.write(bytes([7, 255, 0, 9]) * 60)
    koine("train", "bytes.koine", "--data", "text:raw?bytes", "--epochs", "20", "--lr", "0.03", folder=folder).needs(
        0, out="nats a byte")
    koine("eval", "bytes.safetensors", "--data", "text:raw", folder=folder).needs(0, out="nats a byte")


# Looks back, has places of its own, and a window that the text outgrows.
ATTEND = """koine 1
input x 6 int32
place = parameter 6x8 init=normal:1
sign = embedding @x 8 8
seen = add @sign @place
linear 24
attention heads=2 causal=1
add @ @seen
logits = linear 8
"""


@case
def a_sign_at_a_time_or_all_at_once(folder):
    write(folder, "attend.koine", ATTEND)
    write(folder, "walk.txt", LINE * 30)
    koine("train", "attend.koine", "--data", "text:walk.txt", "--steps", "9", folder=folder).needs(0)
    text = koine("generate", "attend.safetensors", "--prompt", "c", "--length", "9", "--temperature", "0",
                 folder=folder).needs(0).out
    for known in range(2, 9):  # what it wrote as the prompt of the rest
        found = koine("generate", "attend.safetensors", "--prompt", text[:known], "--length", str(10 - known),
                      "--temperature", "0", folder=folder).needs(0)
        expect(found.out == text, f"from {known} signs on it wrote {found.out!r}, and {text!r} from one")


@case
def what_cannot_write(folder):
    koine("generate").needs(2, err="generate needs a saved model")
    koine("generate", "lstm", folder=folder).needs(1, err="has no weights")
    koine("generate", "lstm", "--length", "0", folder=folder).needs(2, err="--length is 0")
    koine("generate", "lstm", "--temperature=-1", folder=folder).needs(2, err="from 0 on")
    koine("train", "wind", "--data", "wind", "--steps", "1", folder=folder).needs(0)
    koine("generate", "wind.safetensors", folder=folder).needs(1, err="holds no vocabulary")


@case
def too_many_signs(folder):
    write(folder, "walk.koine", WALK)
    write(folder, "many.txt", "abcdefghijklmnopqrstuvwxyz" * 10)
    koine("train", "walk.koine", "--data", "text:many.txt", folder=folder).needs(1, err="has 26 classes")


run_cases()
