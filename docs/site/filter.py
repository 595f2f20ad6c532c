#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Doxygen reads of a page or a header.

Pages: formulas as GitHub has them (```math, $`...`$) become Doxygen's; pages and headings get labels,
links to them become references, so that a broken one is a warning. In docs/index.md and docs/functions.md
links make the tree of pages. Headers: the comment at the top becomes the file's text, and the inline namespace goes.
"""

import html
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def label(page, heading=""):
    words = str(page.relative_to(ROOT).with_suffix("")) + (" " + heading if heading else "")
    return "p_" + re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def slug(heading):
    return re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")


def code(found):
    """A span of code as HTML, where Doxygen's own would end at an apostrophe or lose a % or the :: of no C++ name;
    an option in one line, as a line may end behind a hyphen."""
    if re.fullmatch(r"-.{1,23}", found[1]):
        return f'<span class="option">{found[0]}</span>'
    if not re.search(r"['%]|-\w+::", found[1]):
        return found[0]
    text = html.escape(found[1], quote=False)
    return "<code>" + re.sub(r"::|---?|[\\@#%$]", r"\\\g<0>", text) + "</code>"


def page_text(page, text):
    tree = page in (ROOT / "docs/index.md", ROOT / "docs/functions.md")

    def link(found):
        title, target = found[1].replace("`", "").replace("\n", " "), found[2]  # Doxygen wants it in one line
        if re.match(r"[a-z]+:", target):
            return found[0]
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        if not file.exists():
            return f"\\ref no_such_file_{re.sub('[^a-zA-Z0-9]', '_', target)}"  # Doxygen warns of it
        if file.suffix == ".md" and (ROOT / "docs" in file.parents or file.relative_to(ROOT).as_posix() in
                                     ("bench/gate/README.md", "examples/detector/README.md", "examples/profile_step.md",
                                      "CHANGELOG.md")):
            # A page stands once in the tree: docs/functions.md holds the families.
            of_tree = page.name == "index.md" or file.parent.name == "families"
            command = "subpage" if tree and of_tree and not anchor else "ref"
            return f'\\{command} {label(file, anchor)} "{title}"'
        if file.suffix in (".svg", ".png"):
            return found[0]
        if file.suffix == ".hpp" and file.parent == ROOT / "include/vecdet":
            return f'\\ref vecdet/{file.name} "{title}"'
        path = file.relative_to(ROOT).as_posix()
        return f"`{path}`" if path.endswith(title) else f"{title} (`{path}`)"

    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    text = re.sub(r"^```math\n(.*?)^```$", r"\\f[\n\1\\f]", text, flags=re.M | re.S)
    text = re.sub(r"\$`(.*?)`\$", r"\\f$\1\\f$", text)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        part = re.sub(r"^# (.*)$", lambda m: f"# {m[1].replace('`', '')} {{#{label(page)}}}" +
                      ("" if tree else "\n\n[TOC]\n"), parts[i], flags=re.M)
        # Sections of a page of the tree would stand in it, before all pages.
        part = re.sub(r"^(##+) (.*)$", lambda m: f"<h2>{m[2]}</h2>" if tree else
                      f"{m[1]} {m[2].replace('`', '')} {{#{label(page, slug(m[2]))}}}", part, flags=re.M)
        part = re.sub(r"(?<!!)\[([^\]]*)\]\(([^) ]*)\)", link, part)
        part = re.sub(r"`([^`]+)`", code, part)
        parts[i] = re.sub(r"\*\*((?:<|`).*?)\*\*", r"<b>\1</b>", part, flags=re.S)  # ** before code is no bold
    # Doxygen has a page of the file as well: it leads here.
    parts.append(f"\n\\file\n\\brief \\ref {label(page)}\n")
    return re.sub(r"^```(cpp|cmake|python|sh)$", lambda m: "```{." + {"sh": "bash", "cmake": "bash"}.get(
        m[1], "py" if m[1] == "python" else m[1]) + "}", "".join(parts), flags=re.M)


def header_text(text):
    text = re.sub(r"^inline namespace VECDET_ABI \{\n|^\}  // namespace VECDET_ABI\n", "", text, flags=re.M)
    text = re.sub(r"^#include <vecdet/impl/.*\n", "", text, flags=re.M)
    head = re.match(r"// SPDX[^\n]*\n((?://[^\n]*\n)*)", text)
    lines = [line[3:] for line in head[1].splitlines()]
    brief = " ".join(lines[:lines.index("")] if "" in lines else lines)
    brief = re.sub(r"[<>]", r"\\\g<0>", brief)
    rest = "\n".join(lines[lines.index("") + 1:]) if "" in lines else ""
    comment = f"/** \\file\n\\brief {brief}\n" + (f"\\verbatim\n{rest}\n\\endverbatim\n" if rest else "") + "*/\n"
    return comment + text[head.end():]


file = pathlib.Path(sys.argv[1]).resolve()
print((page_text if file.suffix == ".md" else lambda _, t: header_text(t))(file, file.read_text()), end="")
