#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the pages of docs/ to the search of the documentation.

    search.py <folder of the site>

Doxygen finds a page only by the first word of its title. This adds an entry for every word of the title, and for every
name that docs/functions.md lists after the link to the page. The new entries come first and replace Doxygen's own.

Doxygen also makes a page of every Markdown file, which is nearly empty and only links to the real page (filter.py).
Those pages are removed, and links to them go to the real ones.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from filter import ROOT, label

COMMON = {"a", "and", "by", "for", "from", "in", "of", "on", "or", "own", "the", "to", "what", "with", "your"}


def names_of(page):
    """The title of a page, the words in it, and the names of its functions."""
    title = re.search(r"^# (.*)$", page.read_text(), re.M)[1].replace("`", "")
    words = [word.lower() for word in re.findall(r"[\w-]+", title) if word.lower() not in COMMON]
    entry = re.search(rf"\]\((?:families/)?{page.name}\)(.*?)(?=\n- |\n\n|\Z)",
                      (ROOT / "docs/functions.md").read_text(), re.S)
    functions = [name.rpartition("::")[2] for name in re.findall(r"`([\w:]+)`", entry[1] if entry else "")]
    return title.replace("'", "&#39;"), words, functions


def identifier(name):
    """A name as Doxygen's search encodes it."""
    return "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name.lower())


def entries():
    """The lines to add to the search, by first letter."""
    found = {}
    for page in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/families").glob("*.md")]:
        file = "index.html" if page.name == "index.md" else f"{label(page)}.html"
        title, words, functions = names_of(page)
        for name in dict.fromkeys(words + functions):
            about = "" if name in words else name
            found.setdefault(name[0].lower(), []).append(
                f"  ['{identifier(name)}_page_{page.stem}',['{title}',['../{file}',1,'{about}']]],\n")
    return {letter: "".join(sorted(lines)) for letter, lines in found.items()}


def add_pages(site):
    letters = re.search(r'0: "(.*?)"', (site / "search/searchdata.js").read_text())[1]
    new = entries()
    for i, letter in enumerate(letters):
        script = site / f"search/all_{i:x}.js"
        text = re.sub(r"^  \['\w+',\['(?:\w+\.md',|[^\[]*\['\.\./p_docs_).*\n", "", script.read_text(), flags=re.M)
        script.write_text(text.replace("[\n", "[\n" + new.pop(letter, ""), 1))
    if new:
        sys.exit(f"the search has no entries that begin with {', '.join(sorted(new))}")


def remove_stubs(site):
    pages = {}
    for stub in site.glob("*_8md.html"):
        contents = re.search(r'<div class="contents">(.*?)<!-- contents -->', stub.read_text(), re.S)
        pages[stub.name] = re.search(r'href="([^"#]*)', contents[1])[1]
        stub.unlink()
    for file in [*site.rglob("*.html"), *site.rglob("*.js")]:
        text = file.read_text()
        changed = re.sub(r"\b\w+_8md\.html", lambda found: pages.get(found[0], found[0]), text)
        if changed != text:
            file.write_text(changed)


def check(site):
    results = {target for index in (site / "search").glob("*.js")
               for target in re.findall(r"'\.\./([^'#]+\.html)", index.read_text())}
    missing = sorted(target for target in results if not (site / target).exists())
    if missing:
        sys.exit(f"search results open pages that do not exist: {', '.join(missing)}")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    add_pages(folder)
    remove_stubs(folder)
    check(folder)
