# SPDX-License-Identifier: Apache-2.0
"""Hostile calls of every function of the NumPy package. Each either succeeds or raises a TypeError
or ValueError whose message names the function as the user calls it, an argument as the user passes
it, the value and what was expected: `vecdet.nms: iou_threshold is 50, expected a number in [0, 1]`.

With --all it prints the failures of all kinds, one message each."""
import collections
import decimal
import fractions
import inspect
import re
import resource
import sys
import unittest
import warnings

import numpy as np
import vecdet
import vecdet.sahi
import vecdet.supervision
from vecdet._messages import found
from support import Remote, calls, generator, some_boxes

MESSAGE = re.compile(r"vecdet\.(?P<function>[\w.]+): (?P<argument>\w+)(?:\[[\d, ]+\])*"
                     r"(?:\.(?:sizes|offsets|counts|boxes|pixels|kind)(?:\[\d+\])?)?"  # of masks
                     r"(?:\.shape(?:\[-?\d\])?|\.dtype)? (?:is|has) (?P<value>.+?), expected .+",
                     re.DOTALL)
CPP = re.compile(r"::|\w\(\)|params\.|truth\.|layers\[|std::|enumerators|null")  # names of C++


# From several numbers of an array, or characters of a text.
COMPUTED = r"at -?\w|a score of |the sum |text |the count |\d+ points"
ARRAYS = np.ndarray, list, tuple, memoryview, bytearray, range


class Refusing:
    """Refuses every conversion."""

    def __array__(self, *arguments, **options):
        raise RuntimeError("there is no array")

    __float__ = __index__ = __len__ = __iter__ = __array__

    def __repr__(self):
        return "Refusing"


class Truthless:
    """Has no truth value and equals nothing, like an array."""

    __hash__ = None

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise ValueError("it has no truth value")


def objects():
    """What is no argument of most functions."""
    return [
        None, "a", "", b"ab", "9", True, 0, -1, -2, 7, 1.5, 2.0, -0.5, 1e30, 1e300, -1e300,
        float("nan"), float("inf"), -float("inf"), 2**31, 2**62, 2**63, -2**63, 2**64, -2**200,
        2**2000, 1j, decimal.Decimal("0.5"), decimal.Decimal("nan"), fractions.Fraction(1, 3),
        np.float32(0.5), np.float16("nan"), np.int8(-3), np.uint64(2**64 - 1), np.complex64(1j),
        np.bool_(True), np.str_("a"), np.datetime64(3, "D"), np.timedelta64(3), np.array(0.5),
        np.array(3), np.array("a"), np.array(None), np.array(1j), np.array([]), np.array(2**62),
        np.zeros((2, 2)), np.zeros((2, 3, 4, 5), np.float32), np.ones(3, bool), np.array([1, None]),
        np.array(["a", "b"]), np.zeros(2, [("x", "f4")]), np.array([2**64 - 1], np.uint64), [],
        [1], [1.5], ["a"], [None], [[]], [[], []], [[1], [1, 2]], [[[1]], [2]], [[1, 2, 3, 4]],
        [1j], [2**70], [[2**70]], [float("nan")] * 2, [np.zeros(2), np.zeros(3)], (), (1, 2),
        (1.5, 2), (-1, 5), (2**62, 2**62), (float("nan"),) * 2, ("a", "b"), (None, None), {},
        {"a": 1}, {1, 2}, range(3), iter([1]), slice(3), object(), object, len, NotImplemented,
        ..., bytearray(b"12"), memoryview(b"12"), memoryview(np.zeros((2, 4), np.float32)),
        Refusing(), Remote(), Truthless(), [Refusing()], [Remote()], [Truthless()]]


def arrays(array):
    """Arrays like one that is accepted: other types, shapes and values."""
    yield from (array.astype(kind) for kind in (
        np.float64, np.float16, np.int8, np.int64, bool, complex, object, "U9", "M8[D]", ">f4"))
    yield np.full_like(array, 255).astype(np.uint8)
    yield from (array[None], array[..., None], array.ravel(), array.T, array[:0], array[..., :0],
                array[:-1], array[..., :-1], np.concatenate([array] * 2), array.tolist(),
                np.concatenate([array] * 2, -1), np.ma.array(array), np.array(array[:0].T))
    if not array.size:
        return
    yield array[0]
    if array.dtype.kind == "f":
        for bad in (np.nan, np.inf, -np.inf, -1, 2, 3e38):
            yield np.full_like(array, bad)
            one = array.copy()
            one.flat[generator.integers(one.size)] = bad
            yield one
    else:
        for bad in (0,) if array.dtype == np.uint8 else (-1, -3, 4, 2**40):
            one = array.copy()
            one.flat[-1] = bad
            yield one
    yield array.tolist()[:-1] + [None]
    yield array.tolist()[:-1] + [[]]


def lists(value):
    """Lists like one that is accepted, with other elements or too few or many."""
    values = list(value)
    yield from (values * 2, values[:-1], values + [None], [values], np.array(value, object),
                iter(values))
    bad = [*objects(), *hostile(values[-1])] if values else []
    for element in bad:
        yield [*values[:-1], element]


def hostile(value):
    """Arguments in the place of one that is accepted."""
    if isinstance(value, np.ndarray):
        yield from arrays(value)
    elif isinstance(value, (list, tuple)):
        yield from lists(value)


def problems():
    """Every function: its name in messages, the callable and arguments that it accepts."""
    for name, given in calls().items():
        yield name, getattr(vecdet, name), given
    rows = np.c_[some_boxes(5), np.linspace(.9, .1, 5), [0, 1, 0, 1, 1]]
    for module in (vecdet.sahi, vecdet.supervision):
        own = module.__name__.split(".")[1]
        for name, call in inspect.getmembers(module, inspect.isfunction):
            if call.__module__ == module.__name__ and name[0] != "_":
                first = next(iter(inspect.signature(call).parameters))
                more = {"group": [0, 2]} if name == "merged_score" else {}
                if name.startswith("mask_"):
                    more = {"masks": np.ones((5, 3, 4), np.uint8)}
                yield f"{own}.{name}", call, {first: rows, **more}
    sides = {"image_size": (480, 640), "input_size": (64, 64)}
    for name in ("centred", "top_left"):
        yield (f"LetterboxTransform.{name}", getattr(vecdet.LetterboxTransform, name), sides)
    weight = generator.normal(0, 1, (3, 2, 3, 3)).astype(np.float32)
    convolution = vecdet.Conv3x3(weight)
    yield "Conv3x3", vecdet.Conv3x3, {"weight": weight, "bias": np.ones(3, np.float32)}
    yield "Conv3x3", convolution.__call__, {"input": np.ones((1, 2, 5, 5), np.float32)}
    yield "grouped_conv3x3", vecdet.grouped_conv3x3, {
        "input": np.ones((1, 2, 5, 5), np.float32), "weight": weight, "bias": np.ones(3, np.float32)}
    yield "AnchorIndex", vecdet.AnchorIndex, {"anchors": some_boxes(4)}
    yield "match_anchors", vecdet.match_anchors, {"anchors": vecdet.AnchorIndex(some_boxes(4)),
                                                  "boxes": [some_boxes(2), some_boxes(1)],
                                                  "classes": [[1, 2], [0]],
                                                  "regions": [some_boxes(1), some_boxes(0)]}
    boxes, logits = some_boxes(6), np.zeros((6, 3), np.float32)
    yield "roi_align", vecdet.roi_align, {"input": np.ones((2, 1, 4, 4), np.float32),
                                          "boxes": [boxes[:2], boxes[2:]], "output_size": (1, 2)}
    yield "sigmoid_focal_loss", vecdet.sigmoid_focal_loss, {
        "inputs": logits, "targets": logits, "row_weights": np.ones(6, np.float32)}
    yield "sigmoid_focal_loss", vecdet.sigmoid_focal_loss, {
        "inputs": logits, "labels": np.zeros(6, int), "scores": np.ones(6, np.float32)}
    yield "regression_loss", vecdet.regression_loss, {
        "deltas": boxes, "anchors": boxes, "targets": boxes[:2], "matches": np.zeros(6, int),
        "box_weights": np.ones(6, np.float32)}
    centres = np.full((1, 4, 4), 0.4, np.float32)
    queries = {"logits": [np.zeros((1, 4, 3), np.float32)] * 2, "boxes": [centres] * 2,
               "targets": [centres[0, :2]], "classes": [[0, 1]]}
    yield "match_queries", vecdet.match_queries, queries
    yield "set_loss_and_grad", vecdet.set_loss_and_grad, {
        **queries, "matches": np.array([[[0, 1]]] * 2)}
    output = np.zeros((1, 40, 7), np.float32)
    yield "postprocess_yolo", vecdet.postprocess_yolo, {
        "output": output, "model": "yolov5", "extras": 1, "class_count": 1,
        "classes": [0], "class_thresholds": [0.5], "class_groups": [3],
        "transforms": [vecdet.LetterboxTransform.centred((9, 9), (9, 9))]}
    yield "postprocess", vecdet.postprocess, {
        "logits": np.zeros((1, 6, 3), np.float32), "deltas": boxes[None], "anchors": boxes,
        "image_sizes": [(9, 9)], "level_sizes": [4, 2], "detector": "fcos",
        "centerness": np.zeros((1, 6), np.float32), "weights": (1, 1, 1, 1),
        "classes": [0, 2], "class_thresholds": [0.1, 0.2, 0.3], "class_groups": [0, 0, 1]}
    yield "postprocess_detr", vecdet.postprocess_detr, {
        "logits": np.zeros((1, 4, 3), np.float32), "boxes": centres, "image_sizes": [(9, 9)],
        "classes": [0, 1]}
    yield "batched_nms", vecdet.batched_nms, {
        "boxes": boxes, "scores": np.ones(6, np.float32), "idxs": [0, 1, 2, 0, 1, 2],
        "iou_threshold": 0.5, "classes": [0, 2], "class_thresholds": [0.1, 0.2, 0.3],
        "class_groups": [0, 0, 1]}
    yield "profile.write", vecdet.profile.write, {"path": "/nonexistent/report.json"}
    yield "profile.scope", lambda name: vecdet.profile.scope(name).__enter__().__exit__(), {
        "name": "a"}
    yield "set_threads", vecdet.set_threads, {"threads": 0}
    yield "set_isa", vecdet.set_isa, {"name": vecdet.active_isa()}


def holds(text, word):
    """Whether a text contains a word, not only inside another word or number."""
    at = text.find(word)
    while word and at >= 0:
        before, after = text[at - 1:at], text[at + len(word):at + len(word) + 1]
        if not ((before.isalnum() or before in ("-", ".", "_")) and word[0].isalnum()
                or (after.isalnum() or after in (".", "_")) and word[-1].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def said(value, depth=4):
    """What a message may say of a value: itself, its type, shape, length or elements."""
    shape = ()
    if isinstance(value, np.ndarray):
        yield from (str([*value.shape]), str(value.dtype), *map(str, value.shape))
    yield found("", "", value).split(" is ", 1)[1]
    yield from (type(value).__name__, str(value))
    if value is not None:
        yield "given"
    for convert in (lambda: f"{float(value)!r}", lambda: f"{float(value):.17g}",
                    lambda: str(np.asarray(value).dtype), lambda: str(len(value))):
        try:
            yield convert()
        except Exception:
            pass
    try:
        shape = np.shape(value)
    except Exception:  # ragged
        pass
    yield from (str([*shape]), *map(str, shape))
    if 0 in shape:  # an empty array may have any shape
        yield "[0,"
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OV":
        elements = {*value.ravel()[:500].tolist()}
        yield from map(repr, elements)
        if value.dtype.kind == "f":
            yield from (f"{element:.17g}" for element in elements)
            if value.max(initial=0) > 1e30:
                yield from ("inf", "infinite")
    if depth and (not isinstance(value, np.ndarray) or value.size <= 120):
        try:
            elements = [*value]
        except Exception:
            return
        for whole in (tuple(elements), elements):
            yield found("", "", whole).split(" is ", 1)[1]
        for element in elements[:4] + elements[-4:]:
            yield from said(element, depth - 1)


def fault(function, parameters, changed, error):
    """What a message lacks, or None. `changed`: the arguments that are not the accepted ones."""
    text = str(error)
    if type(error) is MemoryError:
        return None if text.startswith(f"vecdet.{function}: ") else "MemoryError of no function"
    if not isinstance(error, (TypeError, ValueError)):
        return f"is a {type(error).__name__}"
    parts = MESSAGE.fullmatch(text)
    if parts is None:
        return "has no function, argument, value and expectation"
    if parts["function"] != function:
        return f"names the function {parts['function']}"
    if parts["argument"] not in parameters:
        return f"names no argument, {parts['argument']}"
    if CPP.search(text):
        return "has names of C++"
    if "\n" in text and len(text) > 500:
        return "is long"
    if not any(re.search(rf"\b{name}\b", text) for name in changed):
        # Only arrays may be described by another argument, whose shape no longer fits.
        if not any(isinstance(value, ARRAYS) for value in changed.values()):
            return "names another argument"
    if parts["argument"] in changed and not hasattr(changed[parts["argument"]], "__next__"):
        value = parts["value"]
        if not re.match(COMPUTED, value) and not any(
                holds(value, word) for word in said(changed[parts["argument"]])):
            return "does not name the value"
    return None


class Messages(unittest.TestCase):
    def setUp(self):
        # A call for more memory than there is fails at once.
        limit = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_AS, limit)
        self.addCleanup(vecdet.set_isa, vecdet.active_isa())
        self.addCleanup(vecdet.set_threads, 0)
        vecdet.set_threads(1)
        self.calls, self.raised = 0, 0
        self.faults = collections.defaultdict(list)

    def run(self, result=None):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return super().run(result)

    def call(self, function, call, parameters, given, changed):
        self.calls += 1
        try:
            call(**{**given, **changed})
        except Exception as error:
            self.raised += 1
            if function == "profile.write" and type(error) is RuntimeError:
                return
            what = fault(function, parameters, changed, error)
            if what is not None:
                self.faults[function, what].append((changed, error))

    def report(self, least):
        count = sum(map(len, self.faults.values()))
        lines = [f"{count} of {self.raised} errors of {self.calls} calls"]
        for (function, what), examples in sorted(self.faults.items()):
            changed, error = examples[0]
            lines.append(f"{function}: {len(examples)} errors: {what}: {str(changed)[:160]}:"
                         f"\n    {type(error).__name__}: {str(error)[:240]}")
        if "--all" in sys.argv:
            print("\n".join(lines))
        self.assertGreater(self.raised, least)
        self.assertEqual(count, 0, "\n".join(lines[:60]))

    def test_every_function_is_covered(self):
        covered = {name for name, _, _ in problems()}
        for name in vecdet.__all__:
            found = getattr(vecdet, name)
            has_parameters = inspect.isfunction(found) and inspect.signature(found).parameters
            if has_parameters:
                self.assertIn(name, covered)

    def test_one_argument(self):
        """Every argument of every function, one at a time."""
        for function, call, given in problems():
            parameters = inspect.signature(call).parameters
            for argument, parameter in parameters.items():
                value = given.get(argument, parameter.default)
                for bad in (*objects(), *hostile(value)):
                    self.call(function, call, parameters, given, {argument: bad})
        self.report(15000)

    def test_two_arguments(self):
        """Two arguments of each call, drawn at random."""
        for function, call, given in problems():
            parameters = inspect.signature(call).parameters
            if len(parameters) < 2:
                continue
            for _ in range(100):
                changed = {}
                for argument in generator.choice([*parameters], 2, replace=False).tolist():
                    bad = [*objects(), *hostile(given.get(argument))]
                    changed[argument] = bad[generator.integers(len(bad))]
                self.call(function, call, parameters, given, changed)
        self.report(5000)


if __name__ == "__main__":
    unittest.main(argv=[argument for argument in sys.argv if argument != "--all"])
