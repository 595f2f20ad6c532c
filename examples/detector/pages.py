# SPDX-License-Identifier: Apache-2.0
"""Helpers for the scripts that write measured figures into pages of the documentation."""
import pathlib
import re
import sys

# Legible on both white and black.
COLOURS = {"torch": "#d9730d", "vecdet": "#2f81f7", "text": "#737c87", "grid": "#8b949e"}


def processor():
    names = re.findall(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return f"{len(names)} x {names[0]}" if names else "unknown processor"


def put(page, mark, text):
    """Replaces the text between <!-- mark --> and <!-- end of mark -->."""
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    before, rest = page.read_text().split(begin)
    page.write_text(before + begin + text + end + rest.split(end)[1])


def one_recipe(runs):
    """The runs, which must have the same recipe."""
    recipes = {run.recipe for run in runs}
    if len(recipes) > 1:
        sys.exit("runs of different recipes:\n" + "\n".join(sorted(recipes)))
    return runs
