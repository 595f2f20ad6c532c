#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Filters a page or a header for Doxygen.

Pages: GitHub's formulas (```math, $`...`$) become Doxygen's. Pages and headings get labels, and links to them become
references, so that Doxygen warns of a broken one. The links of docs/index.md and docs/functions.md make the tree of
pages. docs/index.md, the front page, starts with the overview of README.md. The page of a family gets the signatures
declared in the headers to which it links. Headers: the comment at the top becomes the text of the file, and the inline
namespace is removed.
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
    """A span of code. It becomes HTML if Doxygen's own span would end at an apostrophe, or would lose a % or a :: that
    is not part of a C++ name. A compiler option gets a class that keeps it on one line."""
    if re.fullmatch(r"-.{1,23}", found[1]):
        return f'<span class="option">{found[0]}</span>'
    if not re.search(r"['%]|-\w+::", found[1]):
        return found[0]
    text = html.escape(found[1], quote=False)
    return "<code>" + re.sub(r"::|---?|[\\@#%$]", r"\\\g<0>", text) + "</code>"


def overview():
    """The claim in the title of README.md, and its text before the section on installing."""
    text = (ROOT / "README.md").read_text().split("\n## Install\n")[0]
    picture = re.search(r'<picture>.*?srcset="docs/(.*?)".*?src="docs/(.*?)" alt="(.*?)".*?</picture>', text, re.S)
    images = "".join(f'<img class="{theme}-theme" src="{file}" alt="{picture[3]}"/>\n'
                     for theme, file in (("dark", picture[1]), ("light", picture[2])))
    text = text.replace(picture[0], images).replace("<table>", '<table class="samples">', 1)
    text = re.sub(r"^# (\w+): (.)(.*)$", lambda m: f'# {m[1]}\n\n<div class="claim">{m[2].upper()}{m[3]}</div>',
                  text, count=1, flags=re.M)
    return re.sub(r"\[([^\]]*)\]\((docs/[^)#]*\.md)#?([^)]*)\)",
                  lambda m: f'\\ref {label(ROOT / m[2], m[3])} "{m[1]}"', text)


def declarations(header):
    """The declarations of functions in the header's namespace."""
    text = re.sub(r"//[^\n]*|^#[^\n]*", "", header.read_text(), flags=re.M)
    text = text.partition("inline namespace VECDET_ABI {")[2]
    found, start, braces, parentheses = [], 0, 0, 0
    for i, character in enumerate(text):
        parentheses += (character == "(") - (character == ")")
        if parentheses:
            continue
        if character == "{":
            if braces == 0:
                found.append(text[start:i])
            braces += 1
        elif character == "}":
            braces -= 1
            start = i + 1
        elif character == ";" and braces == 0:
            found.append(text[start:i])
            start = i + 1
        if braces < 0:
            break
    types = r"(?:template <[^{}]*?>\s*)?(?:struct|class|enum|namespace|using|extern|static_assert)\b"
    found = [re.sub(r",? detail::require_\w+<\w+> = 0", "", " ".join(part.split())) for part in found]
    return [broken(part) for part in found if re.match(r"[^(=]+\(", part) and not re.match(types, part)]


def presets(header):
    """The static functions of the header's types, which return parameters."""
    text = re.sub(r"//[^\n]*", "", header.read_text())
    types = re.compile(r"^(?:struct|class) (\w+)[^;{]*\{\n(.*?)^\};", re.M | re.S)
    functions = re.compile(r"^  static ([\w:<>]*params|[\w:<>]*shapes>?) (\w+)\((.*?)\)", re.M | re.S)
    return [broken(" ".join(f"{preset[1]} {struct[1]}::{preset[2]}({preset[3]})".split()))
            for struct in types.finditer(text) for preset in functions.finditer(struct[2])]


def broken(declaration, width=80):
    """A declaration in lines of at most `width` characters: the template's line, and arguments that fill lines."""
    template, rest = re.fullmatch(r"(template <.*?> (?=[\w:]+[^>]))?(?:inline )?(.*)", declaration).groups()
    lines = [template.strip()] if template else []
    if len(rest) < width:
        return "\n".join([*lines, rest + ";"])
    head, _, arguments = rest.partition("(")
    lines.append(head + "(")
    line, depth, start = "   ", 0, 0
    arguments += ";"
    for i, character in enumerate(arguments):
        depth += (character in "(<{") - (character in ")>}")
        if (character == "," and depth == 0) or character == ";":
            argument = arguments[start:i + 1].strip()
            if len(line) + 1 + len(argument) > width:
                lines.append(line)
                line = "   "
            line += " " + argument
            start = i + 1
    return "\n".join([*lines, line])


def signatures(page, text):
    """The section with the functions of the headers to which the page's first part links."""
    section = ""
    for link in re.finditer(r"\[(\w+\.hpp)\]\((\S+?)\)", text.partition("\n## ")[0]):
        header = (page.parent / link[2]).resolve()
        found = declarations(header) + presets(header)
        if found:
            section += f"{link[0]}:\n\n```cpp\n" + "\n\n".join(found) + "\n```\n\n"
    return f"## Signatures\n\n{section}" if section else ""


def page_text(page, text):
    if page == ROOT / "docs/index.md":
        text = overview() + text.partition("\n")[2]
    elif page.parent == ROOT / "docs/families":
        section = signatures(page, text)
        text = re.sub(r"^(?=## Shapes and types$|## Example$)", lambda _: section, text, count=1, flags=re.M)
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
            # A page is in the tree once: the families are below docs/functions.md.
            in_tree = page.name == "index.md" or file.parent.name == "families"
            command = "subpage" if tree and in_tree and not anchor else "ref"
            return f'\\{command} {label(file, anchor)} "{title}"'
        if file.suffix in (".svg", ".png"):
            return found[0]
        if file.suffix == ".hpp" and file.parent == ROOT / "include/vecdet":
            return f'\\ref vecdet/{file.name} "{title}"'
        path = file.relative_to(ROOT).as_posix()
        return f"`{path}`" if path.endswith(title) else f"{title} (`{path}`)"

    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    text = re.sub(r"^```math\n(.*?)^```$", formulas, text, flags=re.M | re.S)
    text = re.sub(r"\$`(.*?)`\$", r"\\f$\1\\f$", text)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    for i in range(0, len(parts), 2):
        part = re.sub(r"^# (.*)$", lambda m: f"# {m[1].replace('`', '')} {{#{label(page)}}}" +
                      ("" if tree else "\n\n[TOC]\n"), parts[i], flags=re.M)
        # In a page of the tree, headings are not sections, which the tree would list before the pages.
        part = re.sub(r"^(##+) (.*)$", lambda m: f"<h2>{m[2]}</h2>" if tree else
                      f"{m[1]} {m[2].replace('`', '')} {{#{label(page, slug(m[2]))}}}", part, flags=re.M)
        part = re.sub(r"(?<!!)\[([^\]]*)\]\(([^) ]*)\)", link, part)
        part = re.sub(r"`([^`]+)`", code, part)
        parts[i] = re.sub(r"\*\*((?:<|`).*?)\*\*", r"<b>\1</b>", part, flags=re.S)  # Doxygen does not read ** before code
    # Doxygen also makes a page of the file, which leads here.
    parts.append(f"\n\\file\n\\brief \\ref {label(page)}\n")
    return re.sub(r"^```(cpp|cmake|python|sh)$", lambda m: "```{." + {"sh": "bash", "cmake": "bash"}.get(
        m[1], "py" if m[1] == "python" else m[1]) + "}", "".join(parts), flags=re.M)


def formulas(found):
    """Formulas that stand side by side are below each other in a narrow window."""
    parts = [f"\\f[\n{part.strip()}\n\\f]" for part in re.split(r"(?:\\qquad\s*)+", found[1])]
    return parts[0] if len(parts) == 1 else "<div class=\"formulas\">\n" + "\n".join(parts) + "\n</div>"


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


if __name__ == "__main__":
    file = pathlib.Path(sys.argv[1]).resolve()
    print((page_text if file.suffix == ".md" else lambda _, t: header_text(t))(file, file.read_text()), end="")
