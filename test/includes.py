# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md's rule of who includes whom."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parent.parent / "include" / "vecdet"
wrong = []
for path in sorted(ROOT.rglob("*.[hc]pp")):
    name = path.relative_to(ROOT).as_posix()
    folder, family = name.split("/")[0], name.split("/")[1:-1]
    header_only = False  # within #if !defined(VECDET_DISPATCH)
    for line in path.read_text().splitlines():
        if line.startswith("#if"):
            header_only = "!defined(VECDET_DISPATCH)" in line
        elif line.startswith(("#endif", "#else", "#elif")):
            header_only = False
        included = re.match(r"#include <vecdet/(.*)>", line)
        if not included:
            continue
        to = included[1]
        if folder in ("kernels", "simd", "args", "detail"):
            allowed = not to.startswith(("impl/", "profile/", "reference/", "torch"))
            if folder == "kernels" and family and re.match(r"kernels/[^/]+/", to):
                of = to.split("/")[1]
                allowed = (of == family[0] or to.endswith("/terms.hpp")
                           or (family[0], of) == ("grouped_conv3x3", "conv3x3"))
        elif folder == "profile":
            allowed = to.startswith(("profile/", "detail/"))
        else:
            allowed = header_only or folder == "isa" or not to.startswith(("kernels/", "simd/"))
        if not allowed:
            wrong.append(f"{name} includes {to}")
sys.exit("\n".join(wrong) or 0)
