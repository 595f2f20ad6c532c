# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md's rule of who includes whom, and the lists that must name each family:
vecdet.hpp, torch.hpp, isa/all_kernels.hpp, the README and docs/functions.md."""
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


def included_by(name):
    """The header and all that it includes, from vecdet, on the way."""
    found, left = set(), [name]
    while left:
        each = left.pop()
        if each not in found:
            found.add(each)
            left += re.findall(r"#include <vecdet/(.*)>", (ROOT / each).read_text())
    return found


def missing(header, names):
    included = included_by(header)
    return [f"{header} does not include {name}" for name in sorted(names) if name not in included]


def below(folder, pattern):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.glob(pattern)}


# Headers for users of PyTorch, of OpenCV and of the profiler.
wrong += missing("vecdet.hpp", below(ROOT, "*.hpp").keys()
                 - {"torch.hpp", "opencv.hpp", "profile.hpp"})
wrong += missing("torch.hpp", below(ROOT, "torch/generated/*.hpp"))
kernels = below(ROOT, "kernels/*/*.hpp")
wrong += missing("isa/all_kernels.hpp",
                 [name for name, text in kernels.items() if "\nVECDET_KERNELS(" in text])
for page, prefix in ("README.md", "docs/"), ("docs/functions.md", ""):
    text = (ROOT.parent.parent / page).read_text()
    wrong += [f"{page} has no link to {name}"
              for name in below(ROOT.parent.parent / "docs", "families/*.md")
              if f"({prefix}{name}" not in text]
sys.exit("\n".join(wrong) or 0)
