#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a folder of HTML pages. The files and anchors of all links must exist, and nothing may be loaded from
elsewhere. The text must not contain Markdown marks, which Doxygen leaves in place when it does not understand them.

    check_links.py <folder>
"""

import html.parser
import pathlib
import re
import sys
import urllib.parse


# The parts of a page in which Markdown marks are legitimate.
VERBATIM = re.compile(r"<(pre|code|script)\b.*?</\1>|<div class=\"fragment\">.*?<!-- fragment -->|<[^>]*>", re.S)


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        text = path.read_text(encoding="utf-8", errors="replace")
        self.feed(text)
        self.marks = re.findall(r".{0,30}(?:\*\*|`|(?<!\[)\]\().{0,30}", VERBATIM.sub("", text))

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag == "link" and values.get("href"):
            self.loads.append(values["href"])
        if tag in ("img", "script", "source") and values.get("src", values.get("srcset")):
            self.loads.append(values.get("src", values.get("srcset")))


def main():
    root = pathlib.Path(sys.argv[1])
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}
    broken, checked = [], 0
    for path, page in pages.items():
        broken += [f"{path.name}: Markdown left in the text: {mark}" for mark in page.marks]
        for link in page.links + page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                if link in page.loads:
                    broken.append(f"{path.name}: loads {link}")
                continue
            checked += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: no file {link}")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.name}: no anchor {link}")
    for line in sorted(set(broken)):
        print(line, file=sys.stderr)
    print(f"{len(pages)} pages, {checked} links, {len(broken)} broken")
    sys.exit(1 if broken or not pages else 0)


if __name__ == "__main__":
    main()
