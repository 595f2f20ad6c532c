#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the search of the documentation lead to the pages in docs/.

    search.py <folder of HTML pages>

Doxygen finds a page only by the first word of its title. This adds an entry for every word of the title, and for every
name that docs/functions.md lists after the link to the page. The new entries come first and replace Doxygen's own. They
also replace the entries of the Markdown files, whose pages only link to the real page.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import filter as pages

COMMON = {"a", "and", "by", "for", "from", "in", "of", "on", "or", "own", "the", "to", "what", "with", "your"}


def names_of(page):
    """The names by which a page is found, and its title."""
    title = re.search(r"^# (.*)$", page.read_text(), re.M)[1].replace("`", "")
    names = [word.lower() for word in re.findall(r"[\w-]+", title) if word.lower() not in COMMON]
    entry = re.search(rf"\]\((?:families/)?{page.name}\)(.*?)(?=\n- |\n\n|\Z)",
                      (pages.ROOT / "docs/functions.md").read_text(), re.S)
    return names + re.findall(r"`(\w+)`", entry[1] if entry else ""), title


def identifier(name):
    """A name as Doxygen's search encodes it."""
    return "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name.lower())


def main():
    root = pathlib.Path(sys.argv[1])
    entries = {}
    for page in [*(pages.ROOT / "docs").glob("*.md"), *(pages.ROOT / "docs/families").glob("*.md")]:
        file = f"{pages.label(page)}.html"
        if (root / file).exists():
            names, title = names_of(page)
            for name in dict.fromkeys(names):
                entries.setdefault(name[0], []).append(
                    f"  ['{identifier(name)}_page_{page.stem}',['{title}',['../{file}',1,'']]],\n")
    added = 0
    for script in sorted((root / "search").glob("all_*.js")):
        text = script.read_text()
        first = re.search(r"\['(.)", text)[1]
        text = re.sub(r"^  \['\w+',\['(?:\w+\.md',|[^\[]*\['\.\./p_docs_).*\n", "", text, flags=re.M)
        new = entries.get(first, [])
        script.write_text(text.replace("[\n", "[\n" + "".join(sorted(new)), 1))
        added += len(new)
    print(f"search: {added} entries of pages")
    sys.exit(0 if added else "search.py: Doxygen's search has another format")


if __name__ == "__main__":
    main()
