"""The program that embeds the kernels: every byte arrives, and a failure leaves no file.

usage: embedder.py EMBED
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from report import run

EMBED = sys.argv[1]


def embed(files, names, options=()):
    """(exit status, text written or None, messages) of embedding NAMES out of a folder with FILES."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = pathlib.Path(folder, "in", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        output = pathlib.Path(folder, "out.c")
        result = subprocess.run([EMBED, *options, str(output), f"{folder}/in", *names], capture_output=True, text=True)
        return result.returncode, output.read_text() if output.exists() else None, result.stderr


def every_byte():
    content = bytes(range(256)) * 3
    status, text, _ = embed({"all.cl": content, "sub/none.cl": b""}, ["sub/none.cl", "all.cl"])
    if status:
        return [f"exit status {status}"]
    arrays = [bytes(int(number) for number in re.findall(r"\d+", body))
              for body in re.findall(r"\] = \{([\d,\s]*)\};", text)]
    complaints = [] if arrays == [content + b"\0", b"\0"] else ["the bytes differ"]
    if not re.search(r'\{"all\.cl", \w+, 768, 0x[0-9a-f]{16}ull\},\s*\{"sub/none\.cl", \w+, 0, 0xcbf29ce484222325ull\}',
                     text):
        complaints.append("names, sizes, order or hashes differ")
    return complaints


def another_table():
    status, text, _ = embed({"a.txt": b"a", "b": b"b"}, ["a.txt", "b"],
                            ["--table", "kn_zoo", "--header", "zoo/zoo.h", "--strip", ".txt"])
    if status:
        return [f"exit status {status}"]
    wanted = ['#include "zoo/zoo.h"', "const kn_zoo_file kn_zoo_files[]", '{"a", file_0', '{"b", file_1',
              "kn_zoo_file_count = 2"]
    return [f"lacks {words}" for words in wanted if words not in text] + (
        ["still says embedded.h"] if "embedded.h" in text else [])


def unknown_option():
    status, text, messages = embed({"a": b"a"}, ["a"], ["--colour", "red"])
    return [] if status == 2 and text is None and "usage" in messages else [f"exit status {status}: {messages}"]


def refused(files, names, word):
    status, text, messages = embed(files, names)
    complaints = [] if status == 1 else [f"exit status {status}"]
    if text is not None:
        complaints.append("did not remove its output")
    if word not in messages:
        complaints.append(f"does not say '{word}': {messages}")
    return complaints


run([("every byte", every_byte),
     ("another table", another_table),
     ("unknown option", unknown_option),
     ("missing file", lambda: refused({"a.cl": b"a"}, ["a.cl", "b.cl"], "b.cl")),
     ("listed twice", lambda: refused({"a.cl": b"a"}, ["a.cl", "a.cl"], "twice")),
     ("a quote in a name", lambda: refused({'a".cl': b"a"}, ['a".cl'], "may not hold"))])
