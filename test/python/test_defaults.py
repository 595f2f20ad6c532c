# SPDX-License-Identifier: Apache-2.0
"""A default is the same in functions on arrays, in functions on tensors and in the C++ headers,
from which operators have their defaults."""
import ast
import inspect
import pathlib
import re
import sys
import unittest

import support  # noqa: F401 (skips without NumPy)
import vecdet
from vecdet import _boxes

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "packaging"))
import declarations  # noqa: E402 (of the folder above)
import torch_functions  # noqa: E402
import torch_operators  # noqa: E402

# Defaults that differ from the operator's, or from those of the function on arrays.
DIFFERENT = {
    ("smooth_l1_loss", "beta"): "torch's, where C++ has that of torchvision's detectors",
    ("smooth_l1_loss", "reduction"): "torch's",
    ("ctc_loss", "reduction"): "torch's on tensors",
}
# Of functions that are no operators: the headers that declare their defaults.
DECLARED = {"count_foreground": ("labels.hpp", "background ignore"),
            "softmax_cross_entropy_loss_and_grad": ("softmax_cross_entropy.hpp", "background"),
            "pyramid_levels": ("multiscale_roi_align.hpp", "canonical_level")}
# Arguments of operators that Python names as torch and torchvision do.
NAMES = {"epsilon": "eps", "canonical_size": "canonical_scale"}
# Defaults that mean "not given": the function that is called has the value.
NOTHING = (None, (), "{}", "")


def value_of(text):
    """The value in Python of a default in C++."""
    name = text.split("::")[-1]
    if name in ("true", "false"):
        return name == "true"
    if re.fullmatch(r"-?\d[\d.e-]*( / [\d.]+)?", text):
        return eval(text)
    return name.lower()  # an enumerator


def defaults_of_arrays():
    for name in vecdet.__all__:
        if inspect.isfunction(function := getattr(vecdet, name)):
            parameters = inspect.signature(function).parameters.values()
            yield name, {own.name: own.default for own in parameters
                         if own.default is not own.empty}


def functions_on_tensors():
    """Name, the operators that it calls, and the defaults, read without PyTorch."""
    folder = ROOT / "python/vecdet/torch"
    known = {**vars(_boxes), "EPS": float(re.search(r"^EPS = (\S+)", (folder / "_names.py")
                                                    .read_text(), re.M)[1])}
    for path in sorted(folder.glob("_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                given = node.args
                pairs = [*zip(given.args[len(given.args) - len(given.defaults):], given.defaults),
                         *zip(given.kwonlyargs, given.kw_defaults)]
                yield node.name, re.findall(r"\b_ops\.(\w+)", ast.unparse(node)), {
                    own.arg: eval(ast.unparse(value), known) for own, value in pairs if value}


class Defaults(unittest.TestCase):
    def setUp(self):
        self.operators = torch_operators.public(*reversed(declarations.read()))
        self.arrays = dict(defaults_of_arrays())
        self.compared, self.different = 0, set()

    def compare(self, function, parameter, value, other, of):
        if value in NOTHING or other in NOTHING:
            return
        self.compared += 1
        if (function, parameter) in DIFFERENT and value != other:
            self.different.add((function, parameter))
        else:
            self.assertEqual(value, other, f"{function}: the default of {parameter} differs from "
                             f"that of {of}")

    def compare_with_operator(self, function, defaults, operator):
        row = torch_functions.FUNCTIONS.get(function, torch_functions.Function())
        for argument in self.operators[operator].arguments:
            name = row.given.get(argument.name, argument.name)
            if name not in defaults:
                name = NAMES.get(name, name)
            if name in defaults:
                self.compare(function, name, defaults[name], value_of(
                    self.operators[operator].default(argument, False)), f"operator {operator}")

    def test_every_default(self):
        for name, called, defaults in functions_on_tensors():
            for parameter in defaults.keys() & self.arrays.get(name, {}).keys():
                self.compare(name, parameter, defaults[parameter], self.arrays[name][parameter],
                             f"vecdet.{name}")
            for operator in set(called) & self.operators.keys():
                self.compare_with_operator(name, defaults, operator)
        for name in self.arrays.keys() & self.operators.keys():
            self.compare_with_operator(name, self.arrays[name], name)
        for name, declared in DECLARED.items():
            for parameter, value in torch_operators.declared(*declared).items():
                self.compare(name, parameter, self.arrays[name][parameter], int(value), declared[0])
        self.assertGreater(self.compared, 300)
        self.assertEqual(self.different, set(DIFFERENT))


if __name__ == "__main__":
    unittest.main()
