"""The website: every document has a place in it, and it builds without a warning where MkDocs is installed.

usage: site.py KOINE HOUSE_TESTS

MKDOCS names the program, if it is not on the PATH.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from koine import ENVIRONMENT, KOINE, Skipped, case, expect, run_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["KOINE"] = KOINE
sys.path.insert(0, str(ROOT / "tools/site"))
import pages  # noqa: E402

MKDOCS = os.environ.get("MKDOCS") or shutil.which("mkdocs")


@case
def navigation_is_complete(folder):
    """Without MkDocs: each document of docs is in the navigation once, and what the navigation names is there."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = re.findall(r": ([\w./-]+\.md)$", text, flags=re.M)
    documents = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    made = {"index.md", *pages.PAGES, *(f"source/{path}" for path in pages.SOURCES)}
    expect(len(named) == len(set(named)), f"a page has two places: {sorted(named)}")
    expect(documents <= set(named), f"not in the navigation: {sorted(documents - set(named))}")
    expect(set(named) <= documents | made, f"there is no page: {sorted(set(named) - documents - made)}")


@case
def pages_are_made(folder):
    """Each command, header and layer has its heading."""
    commands, interface = pages.command_page(), pages.c_page()
    for name, _ in pages.commands():
        expect(f"\n## koine {name}\n" in commands and f"usage: koine {name}" in commands, f"{name} is not in the reference")
    expect(len(pages.commands()) > 10, f"found {pages.commands()}")
    for path in (ROOT / "include/koine").glob("*.h"):
        if "KN_API kn" in path.read_text(encoding="utf-8"):
            expect(f"## koine/{path.name} " in interface, f"{path.name} is not in the reference")
    expect("## Layers" in pages.model_page(), "the model format has no layers")
    expect(all(f"\n## {name}\n" in pages.data_page() for name in ("digits", "csv", "cifar10")), "data sources are missing")
    expect("::: koine.model" in pages.python_page(), "the Python reference lacks Model")
    expect("```python" in pages.notebook_page(), "the notebook has no code")


@case
def recording_replays(folder):
    """The picture has each text of the terminal with the time when it was there, and ends with the last one."""
    picture = os.path.join(folder, "picture.svg")
    script = r"printf 'step 1'; sleep 0.3; printf '\rstep \033[K2 <&'; sleep 0.3; printf '\n\346\274\242 done\n'; exit 3"
    done = subprocess.run([sys.executable, ROOT / "tools/site/record.py", "--seconds", "0.4", picture, "sh", "-c", script],
                          capture_output=True, text=True)
    expect(done.returncode == 3, f"expected the command's status: {done}")
    tree = xml.etree.ElementTree.parse(picture).getroot()
    texts = {text.text: text.get("style") for text in tree.iter("{http://www.w3.org/2000/svg}text")}
    expect({text for text in texts if not text.startswith("$ sh")} == {"step 1", "step 2 <&", "\u6f22 done"}, f"found {texts}")
    style = next(tree.iter("{http://www.w3.org/2000/svg}style")).text
    length = float(re.search(r"animation:([\d.]+)s", style).group(1))
    expect(3.2 < length < 3.6, f"expected 0.4 s and the end, found {length}")
    shown = re.search(rf"@keyframes {texts['step 1'].split(':')[1]}{{(.*?)}}}}", style).group(1)
    expect("to{visibility:hidden" in shown, f"the first step is not replaced: {shown}")


@case
def site_builds(folder):
    if not MKDOCS:
        raise Skipped("mkdocs is not installed")
    done = subprocess.run([ROOT / "tools/site/build", "--site-dir", folder], env={**ENVIRONMENT, "MKDOCS": MKDOCS, "KOINE": KOINE},
                          capture_output=True, text=True)
    expect(done.returncode == 0 and "WARNING" not in done.stderr, f"{done.stdout}{done.stderr}")
    index = json.loads(pathlib.Path(folder, "search/search_index.json").read_text(encoding="utf-8"))
    text = " ".join(entry["title"] + " " + entry["text"] for entry in index["docs"])
    for word in ("kn_session_run", "--shard-optimizer", "MatMulNBits", "checkpoints", "train_step", "cross-entropy"):
        expect(word in text, f"the search does not find {word}")


run_cases()
