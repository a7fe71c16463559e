"""Runs the cases of a house test and prints them the way cmocka does, so that they are counted the same way."""
import re
import signal
import sys


class Skipped(Exception):
    """A requirement of a case that the machine lacks."""


def part_of(cases, part, parts):
    """Those that this part of so many runs, by their place; the last words of a command line."""
    return cases[int(part)::int(parts)]


def run(cases):
    """cases: (name, function) pairs; a function returns the list of its complaints, or raises Skipped. Exits."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that a case removes its folders
    failed = 0
    for name, function in cases:
        print(f"[ RUN      ] {name}")
        try:
            complaints = function()
        except Skipped as reason:
            print(f"  {reason}\n[  SKIPPED ] {name}")
            continue
        for complaint in complaints:
            print(f"  {complaint}")
        print(f"[  FAILED  ] {name}" if complaints else f"[       OK ] {name}")
        failed += bool(complaints)
    sys.exit(1 if failed else 0)


def code_only(text):
    """C text with comments and the insides of strings blanked; line numbers stay."""
    def blank(match):
        piece = match.group(0)
        if piece.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", piece)
        return piece[0] + piece[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
