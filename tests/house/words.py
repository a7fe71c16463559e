"""Prose and names use the words of docs/glossary.md: retired words do not come back.

usage: words.py SOURCE_ROOT
"""
import pathlib
import re
import sys

from report import run

ROOT = pathlib.Path(sys.argv[1])
# Folders and files whose comments, strings, names and papers are checked.
PLACES = ["include", "src", "cl", "tools", "docs", "tests", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md",
          "SECURITY.md", "meson.build", "meson_options.txt"]
SUFFIXES = (".c", ".h", ".cl", ".md", ".py", ".sh", ".build", ".txt", ".koine")
SELF = "tests/house/words.py"  # names all retired words

# Pattern (any case) -> what to write instead.
RETIRED = {
    r"weave|woven": "transpose_lanes",
    r"rehears": "precompile",
    r"\bsteady\b": "invariant",
    r"\bthin\b": "skinny",
    r"kn_own|\bown kernels\b": "custom",
    r"on the way\b": "as needed; fused; not stored",
    r"\bbrings? near\b": "prefetch",
    r"\bcircles?\b": "cycle",
    r"\bsigns of (a|the) text\b|\badd_sign\b": "tokens",
    r"with fractions\b|\bfloat types?\b": "floating-point type",
    r"\bin front of\b": "before",
    r"\bbehind\b": "after",
    r"\bwho(m|so)?ever\b|\bsomebody\b|\bnobody\b|\bwho (asks|wants|needs|calls|sets)\b": "the caller, or the thing's name",
    r"\bthe begin\b|\bits begin\b": "the beginning",
    r"\b(has|have|had) to be\b": "must be",
    r"\bof (its|their) own\b(?! (kernels|file))": "separate, or leave it out",
    r"\bin words that\b": "in terms of",
    r"\bbeside\b": "besides, next to, with",
    r"\bwhole numbers?\b": "integer",
    r"\bshares?\b(?= (of|that) )|\bshare\b(?= is )": "fraction, slice, partial sum, alias or chunk",
    r"\blearnt of\b": "measured, known about",
    r"\btells? apart\b": "distinguishes; reports",
    r"\bgives? back\b|\bgive_back\b": "release, return",
    r"\banswers?\b (how|whether|the|NULL|false|KN_)": "returns",
    r"\bjudg(e|ed|ing) by\b": "test, evaluate",
    r"\bpictures? (is|are|of)\b": "image",
    r"\b(samples|frames|numbers|bytes|operations|times|many|steps) a second\b": "per second",
    r"(?-i:\bMOST_[A-Z]|\bLEAST_[A-Z]|\bDEEPEST\b|\bLONGEST_)": "MAX_, MIN_",
}
# (file, text of the match) -> why it stays.
ALLOWED = {
    ("tools/command/bench_crossover_plot.c", "circle"): "an element of SVG",
    ("tools/command/svg.c", "circle"): "an element of SVG",
    ("tests/tools/page.py", "circle"): "an element of SVG",
    ("tests/ops/limited.py", "thin"): "an option of Clang",
    ("src/data/sentences.c", "behind"): "a word of the sentences that it generates",
    ("src/data/sentences.c", "beside"): "a word of the sentences that it generates",
}


def retired_words():
    complaints = []
    used = set()
    for place in PLACES:
        files = [path for path in [ROOT / place, *sorted((ROOT / place).rglob("*"))] if path.suffix in SUFFIXES]
        if not files:
            complaints.append(f"{place} has no files to check")
        for path in files:
            name = path.relative_to(ROOT).as_posix()
            if name == SELF:
                continue
            # Comments and strings that continue on the next line are one text.
            text = re.sub(r'"\s*\n\s*"|\n\s*\* ', lambda match: " " * len(match.group(0)), path.read_text(encoding="utf-8"))
            for pattern, instead in RETIRED.items():
                for match in re.finditer(pattern, text, re.I):
                    key = (name, re.sub(r"\s+", " ", match.group(0)).lower())
                    if key in ALLOWED:
                        used.add(key)
                        continue
                    line = path.read_text(encoding="utf-8").count("\n", 0, match.start()) + 1
                    complaints.append(f"{name}:{line}: '{key[1]}' is retired: {instead}")
    complaints += [f"the exception {key} is not needed any more" for key in ALLOWED if key not in used]
    return complaints


def patterns_match():
    """Each pattern finds a text that it is meant to find."""
    samples = ["weave", "rehearsal", "steady", "thin", "kn_own_x", "made on the way", "brings near", "a circle", "signs of a text",
               "a type with fractions", "in front of", "behind", "whoever", "the begin of", "has to be", "of its own",
               "in words that", "beside", "a whole number", "the share of it", "learnt of a device", "tells apart", "give_back",
               "answers NULL", "judged by", "a picture of", "samples a second", "MOST_BYTES"]
    return [f"no text of the test matches {pattern!r}" for pattern in RETIRED
            if not any(re.search(pattern, sample, re.I) for sample in samples)]


run([("retired words", retired_words), ("patterns match", patterns_match)])
