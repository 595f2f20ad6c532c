#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes vecdet as a single header, vecdet.hpp, without dispatch.

    packaging/single_header.py <file to write>

Each header stands where it is first included. Version, revision and its date stand at the top.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r"\s*#\s*include\s*<(vecdet/[^>]+)>")
# Always true here, because the header refuses the macro: guarded includes may be inlined at first use.
WITHOUT_DISPATCH = re.compile(r"\s*#\s*if !defined\(VECDET_DISPATCH\)\s*$")

HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// vecdet {version}, revision {revision}: SIMD kernels for training and running object detectors on CPUs.
// A single header, made by packaging/single_header.py from the tree's: do not edit it.
//
// It needs C++17, xsimd 8.1 or newer and oneTBB (-ltbb), and computes with the instruction set that
// the including file is compiled for: with -march=x86-64-v3 for AVX2, -march=x86-64-v4 for AVX-512.
// The same bits as the rest of vecdet take -ffp-contract=off, and no -ffast-math.
#pragma once

#if defined(VECDET_DISPATCH)
#error "vecdet.hpp is header-only: VECDET_DISPATCH needs vecdet's source tree"
#endif
"""


def revision():
    """Abbreviated revision and its date; local changes are listed."""

    def git(*arguments):
        return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, text=True,
                              capture_output=True).stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain", "include") else ""
        return git("log", "-1", "--format=%h of %cs") + changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def version():
    text = (ROOT / "include/vecdet/version.hpp").read_text()
    return ".".join(re.findall(r"define VECDET_VERSION_\w+ (\d+)", text))


def inline(name, written, out):
    if name in written:
        return
    written.add(name)
    conditions = []
    for line in (ROOT / "include" / name).read_text().splitlines():
        included = INCLUDE.match(line)
        if re.match(r"\s*#\s*if", line):
            conditions.append(bool(WITHOUT_DISPATCH.match(line)))
        elif re.match(r"\s*#\s*el", line):
            conditions[-1] = False
        elif re.match(r"\s*#\s*endif", line):
            conditions.pop()
        if included:
            if not all(conditions):
                sys.exit(f"{name}: <{included[1]}> is included under a condition, and may be missed elsewhere")
            inline(included[1], written, out)
        elif line != "#pragma once" and not line.startswith("// SPDX-License-Identifier"):
            out.append(line)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out, written = [], set()
    for name in ("vecdet/vecdet.hpp", "vecdet/profile.hpp"):
        inline(name, written, out)
    text = HEAD.format(version=version(), revision=revision()) + "\n".join(out) + "\n"
    pathlib.Path(sys.argv[1]).write_text(re.sub(r"\n{3,}", "\n\n", text))


if __name__ == "__main__":
    main()
