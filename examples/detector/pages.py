# SPDX-License-Identifier: Apache-2.0
"""Helpers for the scripts that write measured figures into pages of the documentation."""
import pathlib
import re
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import figures  # noqa: E402 (removes what spoils figures from the environment)

processor = figures.processor

# Legible on both white and black.
COLOURS = {"torch": "#d9730d", "vecdet": "#2f81f7", "text": "#737c87", "grid": "#8b949e"}


def around(page, mark):
    """The text up to <!-- mark --> and that from <!-- end of mark -->, both with the mark."""
    found = re.fullmatch(rf"(.*<!-- {mark} -->\n).*(<!-- end of {mark} -->.*)", page.read_text(), re.S)
    return found.groups() if found else sys.exit(f"{page}: no lines <!-- {mark} --> and <!-- end of {mark} -->")


def put(page, mark, text):
    """Replaces the text between the two marks."""
    before, after = around(page, mark)
    unfinished = page.with_name(page.name + ".unfinished")
    unfinished.write_text(before + text + after)
    unfinished.replace(page)  # a page is never left incomplete
