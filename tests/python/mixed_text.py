"""Text in many scripts, with code, emoji, marks and digits, for the tests of vocabularies."""
import pathlib
import random
import unicodedata

# Blocks that have not changed since Unicode 8: the libraries know different versions.
BLOCKS = ((0x41, 0x5a), (0x61, 0x7a), (0xc0, 0x17f), (0x391, 0x3a1), (0x3b1, 0x3c9), (0x410, 0x44f), (0x5d0, 0x5ea), (0x627, 0x64a),
          (0x905, 0x939), (0x985, 0x9b9), (0xe01, 0xe30), (0x10d0, 0x10f0), (0x1100, 0x1112), (0x3041, 0x3096), (0x30a1, 0x30fa),
          (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0x1f600, 0x1f64f), (0x1f300, 0x1f5ff), (0x2190, 0x21ff), (0x2200, 0x22ff), (0xff01, 0xff5e),
          (0x1e00, 0x1eff), (0x1200, 0x1248), (0xd05, 0xd39), (0xe81, 0xeb0), (0xf40, 0xf6c), (0x1780, 0x17b3), (0x300, 0x345),
          (0x20000, 0x2a6d6), (0x1d400, 0x1d454), (0x2460, 0x24ff), (0x2000, 0x200f), (0x660, 0x669), (0x966, 0x96f), (0x1f1e6, 0x1f1ff),
          (0xfb00, 0xfb06), (0x1d15e, 0x1d164), (0x2150, 0x2188), (0xa0, 0xbf), (1, 8), (0x7f, 0x9f))
LETTERS = [[chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) != "Cn"] for first, last in BLOCKS]
GLUE = (" ", "  ", "\n", "\n\n", "\t", ", ", ". ", "! ", "? ", "-", "'s ", "'LL ", "\u2019s ", "'t", " '", "(", ") ", "\r\n", "    ", "\u3000", "\u200d",
        "\ufe0f", "0", "12", "345", "3.14", "_", "#", "//", " /* ", "{\n", "}\n", ";\n", "==", " <|im_end|> ", "<s>", " [MASK] ", "[CLS]", "\u0130",
        "\u017f", "'\u017f", "\xdf", "\u2581", "\0", "\x85", "\u180e", "e\u0301\u0323", "<0x41>", " " * 40)


def drawn(chance, words):
    """A text of so many words."""
    pieces = []
    for _ in range(words):
        letters = chance.choice(LETTERS)
        pieces += [chance.choice(letters) for _ in range(min(int(chance.expovariate(0.25)) + 1, 40))]
        pieces.append(chance.choice(GLUE) if chance.random() < 0.5 else " ")
    return "".join(pieces)


def mixed(root, size):
    """A text of at least so many bytes, the same in each call: the project's files, then drawn words."""
    chance, pieces, total = random.Random(1), [], 0
    for path in sorted(pathlib.Path(root).glob("[cdist]*/**/*")):
        if path.suffix in (".c", ".h", ".md", ".py", ".cl", ".koine") and total < size // 2:
            pieces.append(path.read_text(encoding="utf-8"))
            total += len(pieces[-1].encode())
    while total < size:
        pieces.append(drawn(chance, 200))
        total += len(pieces[-1].encode())
    return "".join(pieces)
