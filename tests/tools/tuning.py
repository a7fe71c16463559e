"""koine tune: finds planted kernels, survives what crashes, hangs and lies, and keeps what it found.

usage: tuning.py KOINE HOUSE_TESTS KERNELS [all]

KERNELS is cl/ of the source; copies of it get kernels that are slow, wrong, crash or never end. `all`: more
shapes and operators, which take minutes.
"""
import os
import re
import shutil
import sys

from koine import case, expect, koine, run_cases, strict, write

KERNELS, ALL = sys.argv[3], sys.argv[4:] == ["all"]
TIMEOUT = "12"
MODEL = "koine 1\nmodel tiny\ninput x 48\nlogits = linear 64\n"
# Hundreds of times as slow as the whole product; a work-item for wide vectors computes many results.
SLOW = "{ volatile float waste = 0; for (int w = 0; w < 100000; w++) waste += 1; }\n"
SLOW_WIDE = SLOW.replace("100000", "3000000")
# Matrix units have kernels that are not planted.
NO_UNIT = ("--matrix-unit", "none")
# Compilers take long for some kernels, longer on a busy machine.
LENIENT = ("--timeout", "300")
CRASH = "*(volatile global int *)8 = 1;\n"
HANG = "{ volatile int spin = get_global_id(0) == 0; while (spin) ; }\n"


def plant(folder, name, **planted):
    """A copy of the kernels in which files of matmul/, "tiled", have `planted` code where a product's kernel begins."""
    own = os.path.join(folder, name)
    shutil.copytree(KERNELS, own)
    for file, code in planted.items():
        path = os.path.join(own, "matmul", file + ".cl")
        with open(path, encoding="utf-8") as source:
            text = source.read()
        text, count = re.subn(r"((?:kernel void|KN_WIDE) kn_matmul\w*\([^{]*\{\n)", lambda found: found.group(1) + code, text)
        expect(count > 0, f"no kernel begins in {path}")
        write(own, "matmul/" + file + ".cl", text)
    return own


def tuned(folder, kernels, *words, kind="gpu"):
    # With AddressSanitizer too a crash ends a process by its signal.
    sanitizer = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
    return koine("tune", *words, "--kernels", kind, *NO_UNIT, "--kernel-cache", os.path.join(folder, "cache"), folder=folder,
                 environment={"KOINE_KERNEL_DIR": kernels, "ASAN_OPTIONS": sanitizer})


def other(folder, kernels, *words, kind="gpu"):
    return koine(*words, "--kernels", kind, *NO_UNIT, "--kernel-cache", os.path.join(folder, "cache"), folder=folder,
                 environment={"KOINE_KERNEL_DIR": kernels})


def kept(folder):
    """The path of the file of choices and its lines."""
    devices = os.path.join(folder, "cache", "devices")
    name, = [one for one in os.listdir(devices) if one.endswith(".tuned")]
    path = os.path.join(devices, name)
    with open(path, encoding="utf-8") as file:
        return path, file.read().splitlines()


PLAN = ("plan", "tiny.koine", "--batch", "64", "--mode", "infer")
TUNE = ("tiny.koine", "--batch", "64", "--mode", "infer", "--timeout", TIMEOUT, "--seconds", "300")


@case
def planted_kernels_for_many_threads(folder):
    write(folder, "tiny.koine", MODEL)
    # The rule takes the tile of 64, which is slow; that of 8 is the only one that is fast and right.
    tiled = (f"#if KN_TILE_M == 64\n{SLOW}#elif KN_TILE_M == 32\n{CRASH}#elif KN_TILE_M == 16\nk = max(k - 4, 0);\n#endif\n")
    kernels = plant(folder, "kernels", tiled=tiled, plain=HANG)
    other(folder, kernels, *PLAN).needs(0, out="matmul/tiled.cl:kn_matmul", err="")
    found = tuned(folder, kernels, *TUNE, "--json").needs(0)
    lines = [strict(line) for line in found.out.splitlines()]
    ends = {line["kernel"]: line["end"] for line in lines if "end" in line}
    expect(ends == {"tiled:32x32x16/4x4": "crashed", "tiled:16x16x16/4x4": "wrong", "plain": "hung"}, f"found {ends}: {found}")
    shapes = [line for line in lines if "us" in line and "shape" in line]
    expect(len(shapes) == 1 and shapes[0]["kernel"] == "tiled:8x8x16/8x8" and shapes[0]["untuned"] == "tiled", f"found {shapes}")
    expect(shapes[0]["untuned_us"] > shapes[0]["us"], f"found {shapes}")
    expect(lines[-1]["tuned"] == 1 and lines[-1]["faster"] == 1 and lines[-1]["refused"] == 3, f"found {lines[-1]}")
    # The second start uses it, and tries nothing again.
    other(folder, kernels, *PLAN).needs(0, out="tuned: tiled:8x8x16/8x8")
    other(folder, kernels, *PLAN, "--math", "exact").needs(0, out="matmul/tiled.cl:kn_matmul")
    expect("tuned:" not in other(folder, kernels, *PLAN[:3], "65", *PLAN[4:]).out, "another shape was tuned too")
    again = tuned(folder, kernels, *TUNE, "--json").needs(0, err="").objects()
    expect(again[-1]["tuned"] == 0 and again[-1]["known"] == 1 and len(again) == 1, f"found {again}")
    path, entries = kept(folder)
    expect(sorted(line.split(" ")[2] for line in entries[2:])[-3:] == ["failed", "hung", "wrong"], f"found {entries}")
    listed = tuned(folder, kernels, "--list").needs(0, err="")
    expect(len(listed.out.splitlines()) == 4 and "tiled:8x8x16/8x8" in listed.out and "hung" in listed.out, f"found {listed}")
    exported(folder, kernels, path, entries)
    damaged(folder, kernels, path, entries)
    refused_by_its_trial(folder, kernels, path, entries)


def exported(folder, kernels, path, entries):
    tuned(folder, kernels, "--export", "mine.tuned").needs(0, out="", err="")
    tuned(folder, kernels, "--export", "mine.tuned").needs(1, out="", err="--overwrite")
    with open(os.path.join(folder, "mine.tuned"), encoding="utf-8") as file:
        expect(sorted(file.read().splitlines()) == sorted(entries), "the exported file is another")
    os.remove(path)
    expect("tuned:" not in other(folder, kernels, *PLAN).out, "what was removed is used")
    tuned(folder, kernels, "--import", "mine.tuned").needs(0, out="4 entries taken, 0 refused", err="")
    other(folder, kernels, *PLAN).needs(0, out="tuned: tiled:8x8x16/8x8")
    expect(sorted(kept(folder)[1]) == sorted(entries), "the imported file is another")
    key = next(line for line in entries if line.endswith("hung")).split(" ")[0]
    hashed = key.split("/")[3]
    write(folder, "other.tuned", "\n".join(entries[:2] + [
        key.replace(hashed, "0" * 16) + " plain 1 2", key + " no-such-kernel 1 2", "no_such_row/1/2/3 plain 1 2",
        key + " plain nan 1", key + " plain", "", key + " plain 1 2 3", "x" * 5000 + " plain 1 2"]))
    tuned(folder, kernels, "--import", "other.tuned").needs(
        0, out="0 entries taken, 8 refused: 1 of other kernels or another version, 2 of unknown operators or kernels, 5 damaged lines")
    write(folder, "other.tuned", "\n".join([entries[0], "another device"] + entries[2:]))
    tuned(folder, kernels, "--import", "other.tuned").needs(1, out="", err="belongs to a different device or driver")
    write(folder, "other.tuned", "nothing")
    tuned(folder, kernels, "--import", "other.tuned").needs(1, out="", err='line 1 is not "koine tuned 1"')
    expect(sorted(kept(folder)[1]) == sorted(entries), "a refused file changed something")


def damaged(folder, kernels, path, entries):
    """Damage of each kind is ignored, with one warning; what is whole is used."""
    choice = next(line for line in entries if "8x8x16/8x8" in line)
    key = choice.split(" ")[0]
    texts = {"no such kernel": "\n".join(entries[:2] + [key + " no-such-kernel 1.0 2.0"]),
             "a tile that there is not": "\n".join(entries[:2] + [key + " tiled:1x1x1/1x1 1.0 2.0"]),
             "cut short": "\n".join(entries)[:len("\n".join(entries[:2])) + 40],
             "no numbers": "\n".join(entries[:2] + [key + " tiled:8x8x16/8x8 -1 inf"]),
             "of another device": "\n".join([entries[0], "another"] + entries[2:]),
             "something else": "\x00\x01\xff" * 1000, "nothing": ""}
    for what, text in texts.items():
        write(folder, path, text)
        found = other(folder, kernels, *PLAN).needs(0, out="matmul/tiled.cl:kn_matmul", err="are damaged or have unknown names")
        expect(found.err.count("warning") == 1 and "tuned:" not in found.out, f"{what}: {found}")
    write(folder, path, "\n".join(entries[:2] + ["nonsense", choice, "more nonsense"]))
    other(folder, kernels, *PLAN).needs(0, out="tuned: tiled:8x8x16/8x8", err="are damaged")


def refused_by_its_trial(folder, kernels, path, entries):
    """An entry that names a kernel which is wrong here is not used, since it fails the trial of any kernel."""
    key = next(line for line in entries if "8x8x16/8x8" in line).split(" ")[0]
    write(folder, path, "\n".join(entries[:2] + [key + " tiled:16x16x16/4x4 1.0 2.0"]))
    found = other(folder, kernels, "bench", "tiny.koine", "--mode", "infer", "--batch", "64", "--seconds", "0.05").needs(0)
    expect("matmul/tiled" in found.err and "reference" in found.err, f"found {found}")


@case
def a_planted_kernel_for_wide_vectors(folder):
    write(folder, "tiny.koine", MODEL)
    kernels = plant(folder, "kernels", wide=SLOW_WIDE, plain=CRASH)
    found = tuned(folder, kernels, *TUNE, "--json", kind="cpu").needs(0)
    lines = found.objects()
    shapes = [line for line in lines if "us" in line and "shape" in line]
    expect(len(shapes) == 1 and shapes[0]["kernel"] == "tiled" != shapes[0]["untuned"], f"found {found}")
    expect(shapes[0]["untuned_us"] > shapes[0]["us"], f"found {shapes}")
    expect([line["kernel"] for line in lines if line.get("end") == "crashed"] == ["plain"], f"found {found}")
    other(folder, kernels, *PLAN, kind="cpu").needs(0, out="tuned: " + shapes[0]["kernel"])
    # Kernels for many threads have separate choices, and so have other kernels.
    expect("tuned:" not in other(folder, kernels, *PLAN).out, "the kinds of kernels share a choice")
    expect("tuned:" not in other(folder, KERNELS, *PLAN, kind="cpu").out, "other kernels share a choice")


@case
def command_lines_that_are_wrong(folder):
    for words, text in (((), "tune needs one of"), (("lenet", "--list"), "tune needs one of"), (("lenet", "--seconds", "0"), "--seconds is 0"),
                        (("lenet", "--timeout", "-1"), "--timeout is -1"), (("lenet", "--batch", "0"), "--batch is 0"),
                        (("lenet", "--no-cache"), "--no-cache would discard the results"), (("lenet", "--mode", "both"), "--mode is 'both'")):
        koine("tune", *words, folder=folder).needs(2, out="", err=text)
    cache = ("--kernel-cache", os.path.join(folder, "cache"))
    koine("tune", "no-such-model", *cache, folder=folder).needs(1, out="", err="no-such-model")
    koine("tune", "--operators", "no_such_operator", *cache, folder=folder).needs(1, out="", err="no operator that is benchmarked")
    koine("tune", "--import", "missing", *cache, folder=folder).needs(1, out="", err="nothing was taken")
    koine("tune", "--list", *cache, folder=folder).needs(0, out="nothing is tuned on this device", err="")
    found = koine("tune", "lenet", "--seconds", "1e-9", *cache, folder=folder).needs(0, out=("0 of ", "left out, which the same command continues with"))
    expect("conv2d float32 64,32,26,26; 64,32,3,3 x 1" in found.out, f"found {found}")


if ALL:
    @case
    def operators_and_training(folder):
        shutil.copytree(KERNELS, os.path.join(folder, "kernels"))
        for kind in ("gpu", "cpu"):
            words = ("--operators", "softmax,sum", "--json", "--seconds", "200", *LENIENT)
            first = tuned(folder, "kernels", *words, kind=kind).needs(0).objects()[-1]
            expect(first["tuned"] >= 2 and not first["left_out"] and not first["refused"], f"found {first}")
            second = tuned(folder, "kernels", *words, kind=kind).needs(0).objects()
            expect(len(second) == 1 and second[0]["known"] == first["tuned"], f"found {second}")
            words = ("tiny.koine", "--batch", "32", "--json", *LENIENT)
            write(folder, "tiny.koine", "koine 1\nmodel tiny\ninput x 3x12x12\nconv 8 3\nbatchnorm\nrelu\nreshape 800\nlogits = linear 10\n")
            first = tuned(folder, "kernels", *words, kind=kind).needs(0).objects()[-1]
            expect(first["tuned"] >= 4 and not first["left_out"] and not first["refused"], f"found {first}")
            again = tuned(folder, "kernels", *words, "--retune", kind=kind).needs(0).objects()[-1]
            expect(again["tuned"] == first["tuned"] and not again["known"], f"found {again}")
            other(folder, "kernels", "bench", "tiny.koine", "--batch", "32", "--seconds", "0.1", kind=kind).needs(0, err="")


run_cases()
