#!/usr/bin/env python3
"""Records a command in a terminal as an animated picture (SVG without scripts), such as the one of the README.

usage: record.py [--seconds 10] [--columns 92] [--rows 18] OUTPUT.svg COMMAND [ARGUMENT…]

The command runs in a pseudo-terminal. The picture replays its output with its timing, scaled to the given seconds if it took
longer, and then shows the end for three seconds. Standard error is part of the recording; the exit status is the command's.
"""
import argparse
import fcntl
import html
import os
import pathlib
import pty
import re
import shlex
import struct
import sys
import termios
import time

HOLD = 3.0  # seconds that the end stays
LINE, WIDTH, MARGIN = 20, 8.43, 16  # pixels: height of a line, width of a character of 14 pixels
ESCAPE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """As much of a terminal as progress lines need: lines of text, a cursor, and the sequences that erase and move."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.lines, self.row, self.column, self.pending = [""], 0, 0, ""

    def write(self, text):
        text, at = self.pending + text, 0
        self.pending = ""
        while at < len(text):
            match = ESCAPE.match(text, at)
            if match:
                self.escape(match.group(1), match.group(2))
                at = match.end()
            elif text[at] == "\x1b":
                if len(text) - at < 16:  # the rest of the sequence has not arrived
                    self.pending = text[at:]
                    return
                at += 1
            else:
                self.character(text[at])
                at += 1

    def escape(self, numbers, kind):
        line = self.lines[self.row]
        if kind == "K":
            self.lines[self.row] = {"": line[:self.column], "0": line[:self.column], "1": " " * self.column + line[self.column:]}.get(numbers, "")
        elif kind == "A":
            self.row = max(0, self.row - int(numbers or 1))

    def character(self, one):
        if one == "\r":
            self.column = 0
        elif one == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append("")
        elif one >= " ":
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[:self.column] + one + line[self.column + 1:]
            self.column += 1

    def shown(self):
        wrapped = [line[at:at + self.columns].rstrip() for line in self.lines for at in range(0, max(1, len(line.rstrip())), self.columns)]
        return tuple(wrapped[-self.rows:])


def recorded(command, rows, columns):
    """([(seconds, lines shown)…], exit status)"""
    process, terminal = pty.fork()
    if not process:
        os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", NO_COLOR="1")
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    screen, frames, begun, rest = Screen(rows - 1, columns), [(0.0, ())], time.monotonic(), b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the end, on Linux
            break
        if not data:
            break
        try:
            text, rest = (rest + data).decode(), b""
        except UnicodeDecodeError:  # a character arrives in two pieces
            rest += data
            continue
        screen.write(text)
        if screen.shown() != frames[-1][1]:
            frames.append((time.monotonic() - begun, screen.shown()))
    return frames, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def spans(frames, end):
    """(row, text, first second, last second) of each text that a row has without a break."""
    found, since = [], {}
    for seconds, lines in [*frames, (end, ())]:
        for row in {*since, *range(len(lines))}:
            text = lines[row] if row < len(lines) else ""
            if row in since and since[row][0] != text:
                found.append((row, *since.pop(row), seconds))
            if text and row not in since:
                since[row] = (text, seconds)
    return found


def picture(frames, prompt, seconds, rows, columns):
    took = frames[-1][0]
    scale = min(1.0, seconds / took) if took else 1.0
    shortest = 0.08  # seconds; what changes faster is skipped
    kept = []
    for at, lines in [(at * scale, ("$ " + prompt, *lines)) for at, lines in frames]:
        if kept and at - kept[-1][0] < shortest:
            kept[-1] = (kept[-1][0], lines)
        else:
            kept.append((at, lines))
    end = kept[-1][0] + HOLD
    width, height = columns * WIDTH + 2 * MARGIN, rows * LINE + 2 * MARGIN
    styles, texts = [], []
    for number, (row, text, first, last) in enumerate(spans(kept, end)):
        a, b = 100 * first / end, 100 * last / end
        hidden = [f"0%,{a - .01:.2f}%{{visibility:hidden}}"] if first > 0 else []
        after = [f"{b:.2f}%,to{{visibility:hidden}}"] if last < end else []
        name = ""
        if hidden or after:
            styles.append(f"@keyframes k{number}{{{''.join(hidden)}{a:.2f}%,{b - .01:.2f}%{{visibility:visible}}{''.join(after)}}}")
            name = f' style="animation-name:k{number}"'
        texts.append(f'<text x="{MARGIN}" y="{MARGIN + LINE * (row + 1) - 6}"{name}>{html.escape(text, quote=False)}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">\n'
            f"<title>{html.escape(prompt, quote=False)}</title>\n"
            f"<style>rect{{fill:#1d2330}}text{{font:14px 'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:#d7dde8;white-space:pre;"
            f"animation:{end:.2f}s step-end infinite}}{''.join(styles)}</style>\n"
            f'<rect width="100%" height="100%" rx="8"/>\n' + "\n".join(texts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--columns", type=int, default=92)
    parser.add_argument("--rows", type=int, default=18)
    parser.add_argument("output")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    frames, status = recorded(given.command, given.rows, given.columns)
    prompt = shlex.join([pathlib.Path(given.command[0]).name, *given.command[1:]])
    used = max(len(lines) for _, lines in frames) + 1
    pathlib.Path(given.output).write_text(picture(frames, prompt, given.seconds, min(used, given.rows), given.columns), encoding="utf-8")
    print(f"{given.output}: {len(frames)} changes in {frames[-1][0]:.1f} s", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
