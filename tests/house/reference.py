"""The reference made from the public headers has every public function, and says something about each.

usage: reference.py GENERATOR INCLUDE_FOLDER
"""
import html.parser
import pathlib
import re
import subprocess
import sys

from report import code_only, run

GENERATOR, HEADERS = sys.argv[1], pathlib.Path(sys.argv[2])
PAGE = subprocess.run([sys.executable, GENERATOR, str(HEADERS), "1.2.3"], capture_output=True, check=True,
                      encoding="utf-8").stdout


class Page(html.parser.HTMLParser):
    """Open elements, anchors, and links of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.anchors, self.targets, self.bad = [], [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors += [attributes["id"]] if "id" in attributes else []
        self.targets += [attributes["href"]] if "href" in attributes else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.bad.append(f"</{tag}> at {self.getpos()} closes nothing")


def promised():
    for path in sorted(HEADERS.rglob("*.h")):
        for declaration in re.findall(r"^KN_API\b[^;]*;", code_only(path.read_text(encoding="utf-8")), flags=re.M):
            yield path.name, re.search(r"\b(kn_\w+)\s*\(", declaration).group(1)


def each_is_there():
    names = list(promised())
    missing = [f"{name} of {header} is not in the reference" for header, name in names if f'id="{name}"' not in PAGE]
    missing += [f"{name} is not in the index" for _, name in names if f'<a href="#{name}">{name}</a><br>' not in PAGE]
    return missing if len(names) > 100 else ["the headers declare next to nothing"]


def contracts_are_there():
    """Comments of the headers appear completely, with their declarations."""
    complaints = []
    for name, words in (("kn_trainer_step_fetch", "also fetches the extra values by name"),
                        ("kn_loader_seek", "may be <a href=\"#kn_loader_batches\">kn_loader_batches</a>()"),
                        ("kn_trainer_learning_rate", "of the next step")):
        items = [item for item in re.findall(r'<div class="item">(.*?)</div>', PAGE, re.S) if f'id="{name}"' in item]
        if len(items) != 1 or words not in " ".join(items[0].split()):
            complaints.append(f"{name} lacks {words!r}")
    return complaints


def page_is_whole():
    page = Page()
    page.feed(PAGE)
    complaints = page.bad + [f"<{tag}> is not closed" for tag in page.open]
    complaints += [f"two anchors {name}" for name in sorted(set(page.anchors)) if page.anchors.count(name) > 1]
    return complaints + [f"{target} leads nowhere" for target in set(page.targets)
                         if not target.startswith("#") or target[1:] not in page.anchors]


run([("every public function is in the reference", each_is_there), ("with its contract", contracts_are_there),
     ("the page is well-formed", page_is_whole)])
