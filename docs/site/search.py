#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds the pages of docs/ to the search of the documentation.

    search.py <folder of the site>

Doxygen finds a page only by the first word of its title. This adds an entry for each name that docs/functions.md lists
after the link to a page, and for each word of the pages: it finds the pages that are most about the word, first those
with the word in the title, then in a heading, which opens there, then in the text. The new entries come first and
replace Doxygen's own.

Doxygen also makes a page of every Markdown file, which is nearly empty and only links to the real page (filter.py).
Those pages are removed, and links to them go to the real ones.
"""

import collections
import html
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from filter import ROOT, label, slug

COMMON = set("""a about above after all also an and any are as at be because before below between both but by can do does
    each either else first for from give given gives has have how if in instead into is it its like may more most must
    need needs no not of on once one only or other out over own same see should so some such take takes than that the
    their them then there these they this those through to two under until up use used uses using was were what when where
    which while who will with within without you your""".split())
PAGES_OF_WORD = 5
# Pages that list: their text has every word and explains none.
LISTS = ("figures.md", "promises.md", "releasing.md", "index.md", "functions.md")
PAGES = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/families").glob("*.md"), ROOT / "bench/gate/README.md",
         ROOT / "examples/detector/README.md", ROOT / "examples/profile_step.md"]


def words_in(text):
    return [word for word in re.findall(r"(?<!\w)[a-z][a-z0-9+-]*[a-z0-9+](?![\w(])", text.lower())
            if word not in COMMON]


class Page:
    def __init__(self, path):
        text = re.sub(r"<!--.*?-->", "", path.read_text(), flags=re.S)
        title, text = re.match(r"# (.*)\n((?s:.*))", text).groups()
        self.stem = "_".join(path.relative_to(ROOT).with_suffix("").parts)
        self.path = path
        self.file = "index.html" if path.name == "index.md" else f"{label(path)}.html"
        self.title = title.replace("`", "")
        # In a page of the tree, headings have no labels (filter.py).
        in_tree = path.name in ("index.md", "functions.md")
        self.headings = [(heading.replace("`", ""), "" if in_tree else "#" + label(path, slug(heading)))
                         for heading in re.findall(r"^##+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S),
                                                   re.M)]
        prose = re.sub(r"\]\([^)]*\)|^\|[^a-z]*$", " ", text, flags=re.M)
        self.words = collections.Counter(words_in(prose))
        self.length = max(200, self.words.total())

    def functions(self):
        entry = re.search(rf"\]\((?:families/)?{self.path.name}\)(.*?)(?=\n- |\n\n|\Z)",
                          (ROOT / "docs/functions.md").read_text(), re.S)
        return [name.rpartition("::")[2] for name in re.findall(r"`([\w:]+)`", entry[1] if entry else "")]


def singular(word):
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def found_by_word(pages):
    """Words and their pages: [(word, [(page, heading, anchor), ...]), ...]. Words are plural if a page has the plural,
    because the search compares with the beginnings of words; the shorter ones come first, as readers search for them."""
    in_headings = collections.Counter(heading for page in pages for heading, _ in page.headings)
    scores, places, plurals = collections.defaultdict(collections.Counter), {}, {}

    def add(word, page, score, heading="", anchor=""):
        key = singular(word)
        plurals[key] = max(plurals.get(key, ""), word, key=len)
        scores[key][page] += score
        if heading:
            places.setdefault((key, page), (heading, anchor))

    for page in pages:
        for word in words_in(page.title):
            add(word, page, 100)
        for heading, anchor in page.headings:
            for word in words_in(heading):
                add(word, page, 10 / in_headings[heading], heading, anchor)
        for word, count in page.words.items() if page.path.name not in LISTS else ():
            add(word, page, 100 * count / page.length)
    return [(plurals[key], [(page, *places.get((key, page), ("", ""))) for page, _ in
                            sorted(scores[key].items(), key=lambda item: (-item[1], item[0].stem))[:PAGES_OF_WORD]])
            for key in sorted(scores)]


def identifier(name):
    """A name as Doxygen's search encodes it."""
    return "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in name.lower())


def entries():
    """The lines to add to the search, by first letter."""
    def line(name, rank, page, anchor, about):
        title, about = (html.escape(text, quote=False).replace("'", "&#39;") for text in (page.title, about))
        return f"  ['{identifier(name)}_page_{rank}_{page.stem}',['{title}',['../{page.file}{anchor}',1,'{about}']]],\n"

    pages = [Page(path) for path in PAGES]
    found = collections.defaultdict(list)
    for word, places in found_by_word(pages):
        for rank, (page, heading, anchor) in enumerate(places):
            found[word[0]].append(line(word, rank, page, anchor, heading or word))
    for page in pages:
        for name in dict.fromkeys(page.functions()):
            found[name[0].lower()].append(line(name, 0, page, "", name))
    return {letter: "".join(lines) for letter, lines in found.items()}


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
               for target in re.findall(r"'\.\./([^'#]+\.html(?:#p_[^']*)?)'", index.read_text())}
    pages = {file: (site / file).read_text() if (site / file).exists() else None
             for file in {target.partition("#")[0] for target in results}}

    def exists(target):
        file, _, anchor = target.partition("#")
        return pages[file] is not None and (not anchor or f'id="{anchor}"' in pages[file])

    missing = sorted(target for target in results if not exists(target))
    if missing:
        sys.exit(f"search results open pages that do not exist: {', '.join(missing)}")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    add_pages(folder)
    remove_stubs(folder)
    check(folder)
