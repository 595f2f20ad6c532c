#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks the search of the built documentation for words that readers look for. Answers as the page's JavaScript does: the
entries of the word's first letter that begin with the word, in the order of the list.

    check_search.py <folder of the site> [<word>]     with a word: prints what it finds
"""

import pathlib
import re
import sys

# For each word, pages of which one must be among the first five results.
EXPECTED = {
    "install": "getting_started packages", "pip": "numpy packages", "wheel": "numpy packages",
    "cmake": "building packages", "crowd": "families_matching getting_started semantics", "gradient": "families_focal_loss",
    "memory": "faq pytorch building", "example": "packages", "warning": "faq building", "pkg-config": "packages building",
    "NMS": "families_nms", "torch": "pytorch numpy", "numpy": "numpy", "threads": "threads_and_instruction_sets",
    "avx": "threads_and_instruction_sets portability building", "profile": "profiler", "onnx": "onnx_runtime",
    "error": "faq", "single": "packages building", "anchors": "families_anchors", "focal": "families_focal_loss",
    "debian": "packages own_gate", "yolo": "families_postprocess_yolo", "rust": "c",
    "ignore": "families_matching getting_started", "batched_nms": "families_nms",
}


def convert_to_id(search):
    """search.js, convertToId."""
    return "".join(c if re.match(r"[a-z0-9\u0080-\uffff]", c) else f"_{ord(c):02x}" for c in search)


def results(site, search):
    search = search.strip(" ").lower()
    letters = re.search(r'0: "(.*?)"', (site / "search/searchdata.js").read_text())[1]
    if search[0] not in letters:
        return []
    data = (site / f"search/all_{letters.index(search[0]):x}.js").read_text()
    return [(title, target) for name, title, target in re.findall(r"^  \['(.*?)',\['(.*?)',\['\.\./(.*?)'", data, re.M)
            if name.lower().startswith(convert_to_id(search))]


def main():
    site = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        print("\n".join(f"{title}: {target}" for title, target in results(site, sys.argv[2])))
        return
    wrong = []
    for word, pages in EXPECTED.items():
        found = [target.partition("#")[0] for _, target in results(site, word)[:5]]
        if not {f"p_docs_{page}.html" for page in pages.split()} & set(found):
            wrong.append(f"the search for '{word}' finds {', '.join(found) or 'nothing'}, expected one of: {pages}")
    sys.exit("\n".join(wrong) or print(f"{len(EXPECTED)} words") or 0)


if __name__ == "__main__":
    main()
