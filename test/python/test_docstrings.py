# SPDX-License-Identifier: Apache-2.0
"""Runs the examples in the docstrings of the package. Every public function has a docstring."""
import doctest
import importlib
import pathlib
import sys

import support  # noqa: F401 (skips without NumPy)
import vecdet

failed = attempted = 0
for path in sorted(pathlib.Path(vecdet.__file__).parent.glob("*.py")):
    name = "vecdet" if path.stem == "__init__" else f"vecdet.{path.stem}"
    results = doctest.testmod(importlib.import_module(name))
    failed += results.failed
    attempted += results.attempted
for name in vecdet.__all__:
    if name != "__version__" and not getattr(vecdet, name).__doc__:
        print(f"vecdet.{name} has no docstring")
        failed += 1
print(f"{attempted} examples, {failed} failed")
sys.exit(failed != 0 or attempted < 50)
