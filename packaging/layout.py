# SPDX-License-Identifier: Apache-2.0
"""Lays out generated code in lines of at most 100 characters."""

from __future__ import annotations

import re
import textwrap
from typing import Iterable


def call(head: str, arguments: list[str]) -> str:
    """A call in Python: `head`, which ends with the opening bracket, and the arguments. Lines break
    between arguments and continue below the first one."""
    head, *listed = (own.replace(" ", "\0") for own in [head, *arguments])
    return textwrap.fill(f"{head}{', '.join(listed)})", 100, subsequent_indent=" " * len(head),
                         break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def imported(module: str, names: Iterable[str]) -> str:
    """An import in Python: constants, classes and functions, each in alphabetical order."""
    return call(f"from {module} import (", sorted(
        names, key=lambda name: (not name.isupper(), name[0].islower(), name)))


def exported(names: Iterable[str]) -> str:
    """The list __all__ of a module in Python."""
    listed = ", ".join(f'"{name}"' for name in sorted(names))
    return "__all__ = [\n" + textwrap.fill(listed + ",", 100, initial_indent="    ",
                                           subsequent_indent="    ") + "\n]\n"


def cpp(code: str) -> str:
    """Code in C++. A line that is too long breaks after commas. A definition of an alias or a
    variable also breaks after =. If the first comma is too far to the right, the line also breaks
    after the first bracket."""
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
