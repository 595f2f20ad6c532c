# SPDX-License-Identifier: Apache-2.0
"""Lays out generated code in lines of at most 100 characters."""

from __future__ import annotations

import re
import textwrap


def call(head: str, arguments: list[str]) -> str:
    """A call or an import in Python: `head`, which ends with a bracket, and the arguments. Lines
    break between arguments, and go on below the first one."""
    head, *listed = (own.replace(" ", "\0") for own in [head, *arguments])
    return textwrap.fill(f"{head}{', '.join(listed)})", 100, subsequent_indent=" " * len(head),
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def cpp(code: str) -> str:
    """Code in C++. Lines that are too long break after commas, and where they define an alias or a
    variable, also after =. If the first comma comes too late, they break after the first bracket,
    too."""
    lines = []
    for line in code.splitlines():
        if len(line) <= 100 or line.lstrip().startswith("//"):
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        after = ",=" if line.startswith("using ") or "(" not in line.split(" = ")[0] else ","
        text = re.sub(rf"(?<![{after}]) ", "\0", line.lstrip())
        if len(indent + text.split(" ")[0]) > 100:
            text = text.replace("(", "( ", 1)
        lines += [each.replace("\0", " ") for each in textwrap.wrap(
            text, 100, initial_indent=indent, subsequent_indent=indent + "    ",
            break_long_words=False, break_on_hyphens=False)]
    return "\n".join(lines) + "\n"


def comment(text: str, indent: str = "") -> list[str]:
    """The lines of a comment with ///."""
    return textwrap.wrap(text, 100, initial_indent=indent + "/// ",
                         subsequent_indent=indent + "/// ", break_long_words=False,
                         break_on_hyphens=False)
