#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes search results and links open pages. Doxygen also finds a page of docs/ by its file's name. That result
opens a nearly empty page of the file, which only links to the real one (filter.py). Such results and links are
changed to open the real page, and the nearly empty pages are removed.

    search.py <folder of the site>
"""

import pathlib
import re
import sys

site = pathlib.Path(sys.argv[1])
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
results = [target for index in (site / "search").glob("*.js")
           for target in re.findall(r"'\.\./([^'#]+\.html)", index.read_text())]
missing = sorted({target for target in results if not (site / target).exists()})
if missing:
    sys.exit(f"search results open pages that do not exist: {', '.join(missing)}")
if not pages or not set(pages.values()) & set(results):
    sys.exit("no search result opens a page of docs/")
