#!/usr/bin/env python3
"""Makes the reference of the C interface from the public headers: one page of HTML without scripts.

usage: reference.py INCLUDE_FOLDER VERSION > reference.html

Headers are read as they are written here: a comment belongs to the declarations that follow it up to the next comment or
blank line, one that ends a line to the declaration on it, and `/* ---- title ---- text */` begins a section.
"""
import html
import pathlib
import re
import sys

COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
# For the compiler only: all directives but definitions, and the include guards.
PLUMBING = re.compile(r'^(?:#ifdef __cplusplus\n.*?#endif|#(?!define)\w+[^\n]*|#define (?:KOINE_\w+_H|KN_API\b|CL_\w+)[^\n]*)\n', re.S | re.M)
STYLE = """body { max-width: 62em; margin: 2em auto; padding: 0 1em; font: 16px/1.5 sans-serif; color: #222; }
pre { background: #f4f4f4; padding: .6em .8em; overflow-x: auto; font-size: 14px; line-height: 1.4; margin: 0 0 .4em; }
h2 { border-bottom: 2px solid #1769b3; margin-top: 2.5em; } h3 { margin-top: 2em; }
.item { margin: 1.2em 0; } .item p { margin: .3em 0 .6em; } a { color: #1769b3; text-decoration: none; }
.index { columns: 3; font-size: 14px; } @media (max-width: 50em) { .index { columns: 1; } }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd; } pre { background: #292929; } a { color: #6fb3f2; } }"""


class Declaration:
    def __init__(self, code):
        self.code = re.sub(r"\s*\\\n", "\n", code) if code.startswith("#") else code
        call = re.match(r"KN_API\b[^;]*?\b(kn_\w+)\s*\(", code)
        kind = re.match(r"typedef\b.*?\b(kn_\w+)(?:\)\(.*)?;\s*\Z", code, re.S) or re.match(r"(?:enum|struct)\s+(\w+)", code)
        macro = re.match(r"#define (\w+)", code)
        self.function = bool(call)
        self.name = next((match.group(1) for match in (call, kind, macro) if match), None)


class Header:
    def __init__(self, path):
        self.name = path.name
        text = path.read_text(encoding="utf-8")
        first = COMMENT.match(text)
        self.about = cleaned(first.group(1)) if first else ""
        text = PLUMBING.sub("", text[first.end() if first else 0:])
        self.parts = [("", "", [])]  # title, text, items: (declarations, their comment) each
        for block in re.split(r"\n\s*\n(?=\S)", text):
            self.add_block(block.strip())

    def add_block(self, block):
        about, at, same = "", 0, False
        while at < len(block):
            rest = block[at:]
            comment = COMMENT.match(rest)
            if comment:
                about, at, same = cleaned(comment.group(1)), at + comment.end(), False
                section = re.match(r"-{4} (.*?) -{4,}\n?(.*)\Z", about, re.S)
                if section:
                    self.parts.append((section.group(1).capitalize(), section.group(2).strip(), []))
                    about = ""
            else:
                end = declaration_end(rest)
                trailing = re.match(r"[ \t]*/\*(.*?)\*/", rest[end:], re.S)
                self.add(rest[:end].strip(), about, same, cleaned(trailing.group(1)) if trailing else "")
                at, same = at + end + (trailing.end() if trailing else 0), not trailing
            at += len(block[at:]) - len(block[at:].lstrip())

    def add(self, code, about, same, trailing):
        """`same`: the declaration before has the same comment."""
        items = self.parts[-1][2]
        if same and not trailing:
            items[-1][0].append(Declaration(code))
        else:
            items.append(([Declaration(code)], "\n\n".join(filter(None, ("" if same else about, trailing)))))

    def declarations(self):
        return [declaration for _, _, items in self.parts for group, _ in items for declaration in group]


def declaration_end(text):
    """Where the first declaration or line of the preprocessor ends."""
    if text.startswith("#"):
        return re.match(r"(?:[^\n]*\\\n)*[^\n]*", text).end()
    depth = 0
    for match in re.finditer(r"/\*.*?\*/|[{};]", text, re.S):
        depth += {"{": 1, "}": -1}.get(match.group(), 0)
        if match.group() == ";" and not depth:
            return match.end()
    return len(text)


def cleaned(comment):
    """A comment's text without its stars."""
    return "\n".join(re.sub(r"^ \* ?| \*$", "", line) for line in comment.split("\n")).strip("\n ")


def linked(text, names):
    return re.sub(r"\b(?:kn|KN)_\w+", lambda match: f'<a href="#{match.group()}">{match.group()}</a>'
                  if match.group() in names else match.group(), html.escape(text, quote=False))


def prose(text, names):
    """Paragraphs; lines that are indented by four are code."""
    pieces = []
    for code, paragraph in re.findall(r"((?:^ {4,}\S.*\n?|^\s*\n(?= {4,}\S))+)|((?:^ {0,3}\S.*\n?)+)", text, flags=re.M):
        pieces.append(f"<pre>{linked(code.rstrip(), names)}</pre>" if code else f"<p>{linked(paragraph.strip(), names)}</p>")
    return "\n".join(pieces)


def shown(group, about, names, seen):
    """`seen`: the anchors so far; a type may be declared in two headers."""
    lines = []
    for declaration in group:
        name = declaration.name
        anchor = f'<a id="{name}"></a>' if name and name not in seen else ""
        seen.add(name)
        lines.append(anchor + linked(declaration.code.replace("KN_API ", ""), names - {name}))
    return f'<div class="item"><pre>{chr(10).join(lines)}</pre>\n{prose(about, names)}</div>'


def page(headers, version):
    headers = [header for header in headers if header.declarations()]
    every = [declaration for header in headers for declaration in header.declarations()]
    names = {declaration.name for declaration in every if declaration.name}
    functions = sorted(declaration.name for declaration in every if declaration.function)
    body = [f"<h1>Koine {html.escape(version)}: the C interface</h1>", "<ul>"]
    body += [f'<li><a href="#{header.name}">koine/{header.name}</a>: {linked(header.about.split(". ")[0].split(chr(10) * 2)[0].rstrip("."), names)}</li>'
             for header in headers]
    body.append("</ul>")
    seen = set()
    for header in headers:
        body += [f'<h2 id="{header.name}">koine/{header.name}</h2>', prose(header.about, names)]
        for title, text, items in header.parts:
            body += [f"<h3>{html.escape(title)}</h3>"] if title else []
            body += [prose(text, names), *(shown(*item, names, seen) for item in items)]
    body += ["<h2>All functions</h2>", '<div class="index">', *(f'<a href="#{name}">{name}</a><br>' for name in functions), "</div>"]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Koine {html.escape(version)}: the C interface</title>\n'
            f"<style>{STYLE}</style></head><body>\n" + "\n".join(filter(None, body)) + "\n</body></html>\n")


def main():
    folder, version = pathlib.Path(sys.argv[1]), sys.argv[2]
    headers = [Header(path) for path in sorted((folder / "koine").glob("*.h"))]
    sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(page(headers, version))


if __name__ == "__main__":
    main()
