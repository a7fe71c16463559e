"""What MkDocs does besides reading docs: pages made from the source, and links that leave docs.

The site's home is the project's README. Links to files that the site lacks lead to `repo_url` if mkdocs.yml has one, and
become plain text otherwise.
"""
import pathlib
import posixpath
import re
import sys

from mkdocs.structure.files import File

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages  # noqa: E402

# Code of any kind, which stays as it is; or a link with its text and target.
LINK = re.compile(r"(^```.*?^```|^    [^\n]*|`[^`\n]+`)|(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)", re.S | re.M)
EXTERNAL = re.compile(r"[a-z]+:|#")


def on_files(files, config):
    home = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=home))
    for path, make in pages.PAGES.items():
        files.append(File.generated(config, path, content=make()))
    for path in pages.SOURCES:
        files.append(File.generated(config, f"source/{path}", content=(pages.ROOT / path).read_text(encoding="utf-8")))
    return files


def in_source(page):
    """Where a page of the site is in the source."""
    if page == "index.md":
        return "README.md"
    return page[len("source/"):] if page.startswith("source/") else f"docs/{page}"


def page_for(path, files):
    """The page for a file of the source, or None."""
    path = re.sub(r"\.ipynb$", ".md", path.rstrip("/"))
    for page in ([path[len("docs/"):]] if path.startswith("docs/") else
                 ["index.md"] if path == "README.md" else [f"source/{path}", f"source/{path}/README.md"]):
        if files.get_file_from_path(page):
            return page
    return None


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri

    def moved(match):
        code, image, text, target = match.groups()
        if code:
            return code
        text = LINK.sub(moved, text)  # a picture that is a link
        if EXTERNAL.match(target):
            return f"{image}[{text}]({target})"
        name, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(in_source(here)), name))
        found = page_for(path, files)
        if found:
            return f"{image}[{text}]({posixpath.relpath(found, posixpath.dirname(here))}{'#' + anchor if anchor else ''})"
        return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path})" if config.repo_url else text

    # Tables and lists of GitHub's Markdown may follow a paragraph without a blank line.
    markdown = re.sub(r"^(?![-*|#> ]|\d+\. )(\S.*)\n(?=- |\d+\. |\| )", r"\1\n\n", markdown, flags=re.M)
    return LINK.sub(moved, markdown)
