# SPDX-License-Identifier: Apache-2.0
"""For scripts that publish figures: what was measured, and an environment that does not spoil it.

Import this module before numpy and torch: it removes OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE from the environment, and
warns if they were set. OpenBLAS, the library of matrix products (BLAS) under NumPy and PyTorch, reads them when it is
loaded. With the kernels of an older processor, its products take twice as long. Programs that the script starts
inherit the environment.
"""

import ctypes
import os
import pathlib
import re
import sys

SPOILING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def clean_environment():
    """Removes the variables and returns the names of those that were set."""
    found = [name for name in SPOILING if os.environ.pop(name, None) is not None]
    if found:
        print(f"warning: {' and '.join(found)} can slow OpenBLAS down; removed from the environment", file=sys.stderr)
    return found


def loaded_libraries():
    """The paths of the BLAS libraries in this process. An alternative such as libblas.so.3 is its own file."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(None, 5)[5].strip() for line in maps if "blas" in line or "libmkl_rt" in line}
    return sorted(path for path in paths if re.search(r"/lib(\w*openblas|blas|blis|mkl_rt)[^/]*\.so", path))


def blas_of(path):
    """A library's name, version and kernels: "OpenBLAS 0.3.21, kernels SkylakeX"."""
    library = ctypes.CDLL(str(path))
    for prefix in ("", "scipy_"):
        for suffix in ("", "64_"):
            try:
                config = getattr(library, f"{prefix}openblas_get_config{suffix}")
                core = getattr(library, f"{prefix}openblas_get_corename{suffix}")
            except AttributeError:
                continue
            config.restype = core.restype = ctypes.c_char_p
            return f"{' '.join(config().decode().split()[:2])}, kernels {core().decode()}"
    return "BLAS " + "/".join(pathlib.Path(path).parts[-2:])


def blas():
    """The names of the BLAS libraries that this process has loaded, or that none is."""
    return "; ".join(dict.fromkeys(map(blas_of, loaded_libraries()))) or "no BLAS in a library of its own"


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        words = dict(line.split(":", 1) for line in lines if ":" in line)
    words = {key.strip(): value.strip() for key, value in words.items()}
    try:
        return f"{words['model name']}, family {words['cpu family']}, model {words['model']}"
    except KeyError:  # 64-bit Arm
        return "unknown processor"


def is_unsteady(fastest, median):
    """Whether half of the rounds took a third longer than the fastest one."""
    return median > 4 / 3 * fastest


clean_environment()
