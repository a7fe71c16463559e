"""Docstrings as Markdown for the website: examples become code, and lines that explain a parameter a list."""
import re

from griffe import Extension

EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\s*$).*)*", re.M)
PARAMETER = re.compile(r"^([a-z_]\w*(?:, [a-z_]\w*)*): ", re.M)


def as_markdown(text):
    parts, at = [], 0
    for match in EXAMPLE.finditer(text):
        parts += [PARAMETER.sub(r"\n- `\1`: ", text[at:match.start()]), f"{'' if match[1] else chr(10)}{match[1]}```pycon\n{match[0]}\n{match[1]}```\n"]
        at = match.end()
    return "".join(parts) + PARAMETER.sub(r"\n- `\1`: ", text[at:])


class Docstrings(Extension):
    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
