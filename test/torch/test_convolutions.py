# SPDX-License-Identifier: Apache-2.0
"""3x3 convolutions and kept memory, against torch. Needs torch, torchvision and vecdet on
PYTHONPATH."""

import copy
import gc
import io
import os
import subprocess
import sys
import unittest

# With AMX, PyTorch computes convolutions of bfloat16.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import test_two_stage
import vecdet.torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional
from torchvision.models import detection
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.ops import FeaturePyramidNetwork
from vecdet.torch import _convolutions

FORMATS = (torch.contiguous_format, torch.channels_last)
OURS = "vecdet::_conv3x3"
BFLOAT16 = torch.bfloat16


def operators_of(function):
    """The torch operators that function() calls, and its result."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    return [event.name for event in profile.events()], result


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in (value.values() if isinstance(value, dict) else value)
            for tensor in tensors_of(each)]


def some_maps(channels=24, layout=torch.contiguous_format, sizes=((20, 17), (9, 8), (4, 3))):
    return [torch.randn(2, channels, *size).to(memory_format=layout).requires_grad_()
            for size in sizes]


def some_weight(outputs=40, inputs=24, layout=torch.contiguous_format):
    weight = torch.randn(outputs, inputs, 3, 3).mul_(0.1).to(memory_format=layout)
    return weight.requires_grad_(), torch.randn(outputs, requires_grad=True)


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def assert_near(self, found, expected, tolerance=1e-5):
        self.assertEqual(found.shape, expected.shape)
        self.assertEqual(found.dtype, expected.dtype)
        self.assertLessEqual(float((found - expected).abs().max()),
                             tolerance * float(expected.abs().max()))


class Operators(Case):
    def compare(self, inputs, weight, bias, relu):
        ours = vecdet.torch.ops.conv3x3_levels(inputs, weight, bias, relu)
        theirs = [functional.conv2d(x, weight, bias, padding=1) for x in inputs]
        if relu:
            theirs = [functional.relu(x) for x in theirs]
        upstream = [torch.randn_like(x) for x in theirs]
        leaves = [*inputs, weight] + ([] if bias is None else [bias])
        grads = torch.autograd.grad(ours, leaves, upstream)
        expected = torch.autograd.grad(theirs, leaves, upstream)
        for a, b in zip([*ours, *grads], [*theirs, *expected]):
            self.assert_near(a, b)
        for a, b in zip([*ours, *grads], [*inputs, *leaves]):
            if b.dim() == 4:
                self.assertTrue(a.is_contiguous() if b.is_contiguous() else
                                a.is_contiguous(memory_format=torch.channels_last))

    def test_outputs_and_gradients_in_every_layout(self):
        for layout in FORMATS:
            for weight_layout in FORMATS:
                for relu in (False, True):
                    for has_bias in (False, True):
                        with self.subTest(layout=layout, weight_layout=weight_layout, relu=relu,
                                          has_bias=has_bias):
                            weight, bias = some_weight(layout=weight_layout)
                            self.compare(some_maps(layout=layout), weight,
                                         bias if has_bias else None, relu)

    def test_shapes_for_which_aten_is_faster(self):
        for relu in (False, True):
            with self.subTest(relu=relu):
                weight, bias = some_weight(5, 3)
                self.compare(some_maps(3), weight, bias, relu)

    def test_of_one_map(self):
        weight, bias = some_weight()
        (x,) = some_maps(sizes=((20, 19),))
        names, y = operators_of(lambda: vecdet.torch.ops.conv3x3(x, weight, bias, True))
        self.assertIn(OURS, names)
        self.assert_near(y, functional.relu(functional.conv2d(x, weight, bias, padding=1)))

    def test_gradients_of_chosen_tensors(self):
        for chosen in range(1, 8):
            with self.subTest(chosen=chosen):
                weight, bias = some_weight()
                (x,) = some_maps(sizes=((20, 19),))
                leaves = [x, weight, bias]
                expected = torch.autograd.grad(
                    functional.conv2d(x, weight, bias, padding=1).square().sum(), leaves)
                for i, leaf in enumerate(leaves):
                    leaf.requires_grad_(bool(chosen >> i & 1))
                vecdet.torch.ops.conv3x3(x, weight, bias).square().sum().backward()
                for leaf, grad in zip(leaves, expected):
                    if leaf.requires_grad:
                        self.assert_near(leaf.grad, grad, 1e-4)
                    else:
                        self.assertIsNone(leaf.grad)

    def test_levels_without_a_gradient(self):
        weight, bias = some_weight()
        inputs = some_maps()
        vecdet.torch.ops.conv3x3_levels(inputs, weight, bias)[1].sum().backward()
        grads = [x.grad.clone() for x in inputs]
        expected = torch.autograd.grad(
            functional.conv2d(inputs[1], weight, bias, padding=1).sum(), inputs[1])
        self.assert_near(grads[1], expected[0])
        self.assertEqual(float(grads[0].abs().max()), 0)

    def test_no_copy_of_either_layout(self):
        weight, bias = some_weight()
        for layout in FORMATS:
            (x,) = some_maps(layout=layout, sizes=((20, 19),))
            upstream = torch.randn(2, 40, 20, 19).to(memory_format=layout)
            names, _ = operators_of(
                lambda: vecdet.torch.ops.conv3x3(x, weight, bias, True).backward(upstream))
            self.assertNotIn("aten::copy_", names)

    def test_float64_is_atens(self):
        weight, bias = some_weight()
        (x,) = some_maps(sizes=((20, 19),))
        typed = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
        for enabled in (False, True):
            with torch.autocast("cpu", BFLOAT16, enabled):
                names, y = operators_of(lambda: vecdet.torch.ops.conv3x3(*typed, True))
                self.assertNotIn(OURS, names)
                self.assertTrue(torch.equal(
                    y, functional.relu(functional.conv2d(*typed, padding=1))))
            self.assertEqual(y.dtype, torch.float64)

    def test_kept_weights_follow_every_change(self):
        weight, bias = some_weight()
        (x,) = some_maps(sizes=((20, 19),))

        def data_is_scaled():  # without a new version
            weight.data.mul_(3)

        def data_is_replaced():
            weight.data = weight.detach() * 0.5

        def step():
            weight.add_(1)

        def one_value():
            weight[7, 5, 1, 1] = 40

        with torch.no_grad():
            for change in (lambda: None, data_is_scaled, data_is_replaced, step, one_value):
                change()
                for _ in range(2):
                    self.assert_near(vecdet.torch.ops.conv3x3(x, weight, bias),
                                     functional.conv2d(x, weight, bias, padding=1))

    def test_kept_weights_follow_flipped_signs(self):
        (x,) = some_maps(sizes=((20, 19),))
        for layout in FORMATS:
            weight, _ = some_weight(layout=layout)
            in_memory = weight.detach().permute(0, 2, 3, 1).flatten() if (
                layout == torch.channels_last) else weight.detach().flatten()
            self.assertEqual(in_memory.data_ptr(), weight.data_ptr())
            everything = torch.arange(len(in_memory))
            for flipped in ([1], [1, 8, 9], [3, 10, 11], [4001, 4008, 4009], [0, 1], [2, 5],
                            everything, everything[1::2], everything[torch.rand(
                                len(everything)) < 0.3]):
                with self.subTest(layout=layout, flipped=flipped), torch.no_grad():
                    vecdet.torch.ops.conv3x3(x, weight)
                    in_memory[flipped] *= -1
                    self.assert_near(vecdet.torch.ops.conv3x3(x, weight),
                                     functional.conv2d(x, weight, padding=1))

    def test_kept_weights_go_with_their_tensor(self):
        vecdet.torch.free_cached_memory()
        (x,) = some_maps(sizes=((20, 19),))
        with torch.no_grad():
            weights = [some_weight()[0] for _ in range(9)]
            for weight in weights:  # at 9 addresses
                vecdet.torch.ops.conv3x3(x, weight)
            del weights[1:], weight
            other, _ = some_weight()
            vecdet.torch.ops.conv3x3(x, other)
            both = vecdet.torch.free_cached_memory()
            vecdet.torch.ops.conv3x3(x, other)
        self.assertEqual(both, 2 * vecdet.torch.free_cached_memory())

    def test_same_bits_for_any_number_of_threads(self):
        weight, bias = some_weight()
        inputs, threads = some_maps(), torch.get_num_threads()
        results = []
        try:
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                outputs = vecdet.torch.ops.conv3x3_levels(inputs, weight, bias, True)
                results.append([*outputs, *torch.autograd.grad(
                    sum(y.square().sum() for y in outputs), [*inputs, weight, bias])])
        finally:
            torch.set_num_threads(threads)
        for other in results[1:]:
            for a, b in zip(results[0], other):
                self.assertTrue(torch.equal(a, b))

    def test_meta(self):
        weight, bias = some_weight()
        (x,) = some_maps(layout=torch.channels_last, sizes=((20, 19),))
        y = vecdet.torch.ops.conv3x3(x.detach().to("meta"), weight.detach().to("meta"),
                               bias.detach().to("meta"), True)
        self.assertEqual(y.shape, (2, 40, 20, 19))
        self.assertTrue(y.is_contiguous(memory_format=torch.channels_last))

    def test_a_gradient_is_differentiated_again(self):
        """By PyTorch's operators."""
        for relu in (False, True):
            weight, bias = some_weight()
            inputs = some_maps()
            leaves = [*inputs, weight, bias]

            def second(outputs):
                grads = torch.autograd.grad(sum(y.square().sum() for y in outputs), leaves,
                                            create_graph=True)
                return grads + torch.autograd.grad(sum(g.square().sum() for g in grads), leaves)

            theirs = [functional.conv2d(x, weight, bias, padding=1) for x in inputs]
            expected = second([functional.relu(y) for y in theirs] if relu else theirs)
            found = second(vecdet.torch.ops.conv3x3_levels(inputs, weight, bias, relu))
            for a, b in zip(found, expected):
                self.assertLessEqual(float((a - b).norm()), 1e-3 * float(b.norm()))

    def test_errors(self):
        weight, bias = some_weight()
        (x,) = some_maps(sizes=((20, 19),))
        for arguments, text in (
            ((x[0], weight), "conv3x3: input.shape"),
            ((x[:, :5], weight), "conv3x3: input.shape"),
            ((x, weight[..., :1]), "conv3x3: weight.shape"),
            ((x, weight, bias[:3]), "conv3x3: bias.shape"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                vecdet.torch.ops.conv3x3(*arguments)
        with self.assertRaisesRegex(RuntimeError, "conv3x3: inputs.size"):
            vecdet.torch.ops.conv3x3_levels([], weight)
        with self.assertRaisesRegex(RuntimeError, "conv3x3: input.shape"):
            vecdet.torch.ops.conv3x3_levels([x, x[:1]], weight)


class Bfloat16(Case):
    """Maps of bfloat16, against float64."""

    SIZES = ((34, 33), (9, 8), (4, 3))
    TYPES = (torch.float32, BFLOAT16)

    def problem(self, weight_type=torch.float32, bias_type=torch.float32,
                layout=torch.contiguous_format, sizes=SIZES):
        inputs = [x.detach().to(BFLOAT16).requires_grad_()
                  for x in some_maps(layout=layout, sizes=sizes)]
        weight, bias = some_weight()
        return (inputs, weight.detach().to(weight_type).requires_grad_(),
                bias.detach().to(bias_type).requires_grad_())

    def assert_rounded(self, found, exact):
        """That the result is the exact one except for float's error, rounded to its type."""
        self.assertEqual(found.shape, exact.shape)
        rounding = 2 ** -8 if found.dtype == BFLOAT16 else 0
        error = (found.double() - exact).abs() - rounding * exact.abs()
        self.assertLessEqual(float(error.max()), 1e-5 * float(exact.abs().max()))

    def check(self, inputs, weight, bias, relu, outputs, leaves=None):
        """Outputs and gradients."""
        leaves = leaves or [*inputs, weight, bias]
        upstream = [torch.randn_like(y) for y in outputs]
        grads = torch.autograd.grad(outputs, leaves, upstream)
        exact = [t.detach().double().requires_grad_() for t in (*inputs, weight, bias)]
        expected = [functional.conv2d(x, *exact[-2:], padding=1) for x in exact[:-2]]
        for y, e in zip(outputs, expected):
            self.assertEqual(y.dtype, BFLOAT16)
            self.assert_rounded(y, functional.relu(e) if relu else e)
        arriving = [u.double() * (y > 0) if relu else u.double() for u, y in zip(upstream, outputs)]
        for leaf, grad, e in zip(leaves, grads, torch.autograd.grad(expected, exact, arriving)):
            self.assertEqual(grad.dtype, leaf.dtype)
            if leaf.dtype == torch.float32 and leaf.dim() == 4 and leaf is not weight:
                grad = grad.to(BFLOAT16)  # that of autocast's copy, widened
            self.assert_rounded(grad, e)

    def test_outputs_and_gradients(self):
        for layout in FORMATS:
            for weight_type in self.TYPES:
                for bias_type in self.TYPES:
                    for relu in (False, True):
                        with self.subTest(layout=layout, weight=weight_type, bias=bias_type,
                                          relu=relu):
                            inputs, weight, bias = self.problem(weight_type, bias_type, layout)
                            names, outputs = operators_of(
                                lambda: vecdet.torch.ops.conv3x3_levels(inputs, weight, bias, relu))
                            self.assertIn(OURS, names)
                            self.assertNotIn("aten::conv2d", names)
                            for y in outputs:
                                self.assertTrue(y.is_contiguous(memory_format=layout))
                            self.check(inputs, weight, bias, relu, outputs)

    def test_no_copy_of_either_layout(self):
        for layout in FORMATS:
            (x,), weight, bias = self.problem(layout=layout, sizes=((34, 33),))
            upstream = torch.randn(2, 40, 34, 33).to(BFLOAT16).to(memory_format=layout)
            names, _ = operators_of(
                lambda: vecdet.torch.ops.conv3x3(x, weight, bias, True).backward(upstream))
            self.assertIn("vecdet::_conv3x3_grad", names)
            self.assertNotIn("aten::copy_", names)

    def test_autocast(self):
        """The inputs are rounded, weight and bias are not."""
        for types in ((torch.float32, torch.float32), (BFLOAT16, torch.float32),
                      (torch.float32, BFLOAT16)):
            for relu in (False, True):
                with self.subTest(types=types, relu=relu):
                    inputs, weight, bias = self.problem(types[1], types[1])
                    given = [x.detach().to(types[0]).requires_grad_() for x in inputs]
                    with torch.autocast("cpu", BFLOAT16):
                        names, outputs = operators_of(
                            lambda: vecdet.torch.ops.conv3x3_levels(given, weight, bias, relu))
                        (one,) = vecdet.torch.ops.conv3x3(given[0], weight, bias, relu)[None]
                    self.assertIn(OURS, names)
                    self.assertNotIn("aten::conv2d", names)
                    self.assertTrue(torch.equal(one, outputs[0]))
                    self.check(inputs, weight, bias, relu, outputs, [*given, weight, bias])

    def test_shapes_for_which_aten_is_faster(self):
        """ATen takes only one type."""
        for enabled in (False, True):
            for relu in (False, True):
                with self.subTest(autocast=enabled, relu=relu):
                    (x,), weight, bias = self.problem(sizes=((5, 4),))
                    with torch.autocast("cpu", BFLOAT16, enabled):
                        names, y = operators_of(
                            lambda: vecdet.torch.ops.conv3x3(x, weight, bias, relu))
                    self.assertIn("aten::conv2d", names)
                    theirs = functional.conv2d(x, weight.to(BFLOAT16), bias.to(BFLOAT16), padding=1)
                    theirs = functional.relu(theirs) if relu else theirs
                    self.assertTrue(torch.equal(y, theirs))
                    leaves, upstream = [x, weight, bias], torch.randn_like(y)
                    for a, b in zip(torch.autograd.grad(y, leaves, upstream),
                                    torch.autograd.grad(theirs, leaves, upstream)):
                        self.assertEqual(a.dtype, b.dtype)
                        self.assertTrue(torch.equal(a, b))

    def test_a_gradient_is_differentiated_again(self):
        (x,), weight, bias = self.problem(sizes=((34, 33),))
        leaves = [x, weight, bias]

        def second(y):
            grads = torch.autograd.grad(y.float().square().sum(), leaves, create_graph=True)
            return torch.autograd.grad(sum(g.float().square().sum() for g in grads), leaves)

        try:
            second(functional.conv2d(x, weight.to(BFLOAT16), bias.to(BFLOAT16), padding=1))
        except RuntimeError:
            self.skipTest("this PyTorch cannot differentiate twice in bfloat16")
        expected = second(functional.conv2d(*(t.float() for t in leaves), padding=1))
        for found, other in zip(second(vecdet.torch.ops.conv3x3(x, weight, bias)), expected):
            self.assertEqual(found.dtype, other.dtype)
            self.assertLessEqual(float((found - other).float().norm()),
                                 0.03 * float(other.float().norm()))

    def test_forward_mode_is_atens(self):
        (x,), weight, bias = self.problem(sizes=((34, 33),))
        for enabled in (False, True):
            with torch.autocast("cpu", BFLOAT16, enabled), forward_ad.dual_level():
                dual = forward_ad.make_dual(x.detach(), torch.ones_like(x))
                names, y = operators_of(lambda: vecdet.torch.ops.conv3x3(dual, weight, bias))
                self.assertNotIn(OURS, names)
                found = forward_ad.unpack_dual(y).tangent
            expected = functional.conv2d(torch.ones_like(x).float(), weight, padding=1)
            self.assertLessEqual(float((found - expected).norm()), 0.02 * float(expected.norm()))

    @unittest.skipUnless(hasattr(torch, "func"), "this PyTorch has no torch.func")
    def test_transforms(self):
        inputs, weight, bias = self.problem(sizes=((34, 33),))
        conv = vecdet.torch.accelerate_convolutions(nn.Conv2d(24, 40, 3, padding=1))
        for enabled in (False, True):
            with torch.autocast("cpu", BFLOAT16, enabled):
                x = inputs[0].detach().float() if enabled else inputs[0].detach()
                module = conv if enabled else copy.deepcopy(conv).to(BFLOAT16)
                found = torch.func.vmap(lambda each: module(each[None])[0])(x)
                self.assert_near(found.float(), module(x).float(), 0.02)

    def test_kept_weights_follow_every_change(self):
        for weight_type in self.TYPES:
            (x,), weight, bias = self.problem(weight_type, sizes=((34, 33),))
            with torch.no_grad():
                for factor in (1, -2, 0.5):
                    weight.data.mul_(factor)
                    for _ in range(2):
                        self.assert_rounded(
                            vecdet.torch.ops.conv3x3(x, weight, bias),
                            functional.conv2d(x.double(), weight.double(), bias.double(),
                                              padding=1))

    def test_meta(self):
        for weight_type in self.TYPES:
            (x,), weight, bias = self.problem(weight_type, sizes=((34, 33),))
            data = [x, weight, bias]
            meta = [t.detach().to("meta").requires_grad_() for t in data]
            ours, known = (vecdet.torch.ops.conv3x3(*t, True) for t in (data, meta))
            grads, shapes = (torch.autograd.grad(y, t, torch.ones_like(y))
                             for y, t in ((ours, data), (known, meta)))
            for a, b in zip((ours, *grads), (known, *shapes)):
                self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))

    def test_types_that_differ(self):
        inputs, weight, bias = self.problem()
        x = inputs[0]
        for arguments, text in (
            ((x, weight.double()), "conv3x3: weight.dtype is Double, expected bfloat16 or float32"),
            ((x, weight, bias.half()), "conv3x3: bias.dtype is Half, expected bfloat16 or float32"),
            ((x.float(), weight.to(BFLOAT16)), "conv3x3: weight.dtype is BFloat16, expected the"),
            ((x.float(), weight, bias.double()), "conv3x3: bias.dtype is Double, expected the"),
            ((x.double(), weight), "conv3x3: weight.dtype is Float, expected the type of the"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                vecdet.torch.ops.conv3x3(*arguments)
        with self.assertRaisesRegex(RuntimeError, "input.dtype is Float, expected one type on all"):
            vecdet.torch.ops.conv3x3_levels([x, x.float()], weight)

    def test_modules(self):
        """Under autocast, and of bfloat16: a fused ReLU, hooks, gradients of the parameters."""
        for is_cast in (True, False):
            net = nn.Sequential(nn.Conv2d(24, 40, 3, padding=1), nn.ReLU(),
                                nn.Conv2d(40, 24, 3, padding=1))
            x = torch.randn(2, 24, 34, 33).to(BFLOAT16)
            if is_cast:
                x = x.float()
            else:
                net = net.to(BFLOAT16)
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
            exact = copy.deepcopy(net).double()
            expected = exact(x.double())
            with self.subTest(autocast=is_cast), torch.autocast("cpu", BFLOAT16, is_cast):
                names, found = operators_of(lambda: ours(x))
                self.assertEqual(names.count(OURS), 2)
                self.assertNotIn("aten::conv2d", names)
                self.assertNotIn("aten::relu", names)
                seen = []
                hook = ours[1].register_forward_hook(lambda *values: seen.append(values[-1]))
                self.assertTrue(torch.equal(ours(x), found))
                hook.remove()
                self.assertEqual([y.dtype for y in seen], [BFLOAT16])
                self.assertEqual(found.dtype, BFLOAT16)
                self.assertLessEqual(float((found - expected).norm()),
                                     0.005 * float(expected.norm()))
            upstream = torch.randn_like(found)
            found.backward(upstream)
            expected.backward(upstream.double())
            for mine, other in zip(ours.parameters(), exact.parameters()):
                self.assertEqual(mine.grad.dtype, mine.dtype)
                self.assertLessEqual(float((mine.grad - other.grad).norm()),
                                     0.005 * float(other.grad.norm()))

    def test_heads_take_one_call(self):
        models = detectors()
        del models["FCOS"]  # Old versions of PyTorch have no group_norm() under autocast.
        for name, model in models.items():
            head = getattr(model, "head", None) or model.rpn.head
            maps = [torch.randn(1, 32, side, side) for side in (40, 20)]
            head.eval()
            with torch.no_grad(), torch.autocast("cpu", BFLOAT16):
                expected = tensors_of(head(maps))
                vecdet.torch.accelerate(model)
                names, found = operators_of(lambda: tensors_of(head(maps)))
            with self.subTest(name):
                self.assertEqual(names.count(OURS), {"FasterRCNN": 1, "RetinaNet": 10}[name])
                for mine, other in zip(found, expected):
                    self.assertEqual(mine.dtype, other.dtype)
                    self.assertLessEqual(float((mine - other).float().norm()),
                                         0.02 * float(other.float().norm()))


class Strided(nn.Conv2d):
    """Left to PyTorch, as all derived classes are: other roundings can switch hidden units of these
    networks, which changes gradients by 1e-3. test_grouped_convolutions.py tests convolutions with
    stride 2."""


class Pyramid(nn.Module):
    """A backbone with a pyramid of two levels."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(Strided(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1))
        self.down = Strided(32, 32, 3, 2, 1)
        self.pyramid = FeaturePyramidNetwork([32, 32], 32)
        self.out_channels = 32

    def forward(self, x):
        fine = self.body(x)
        return self.pyramid({"0": fine, "1": self.down(fine)})


def detectors():
    options = dict(min_size=64, max_size=80)
    one = AnchorGenerator(((16,), (32,)), ((1.0,),) * 2)
    return {
        "RetinaNet": detection.RetinaNet(Pyramid(), 7, anchor_generator=AnchorGenerator(
            ((16,), (32,)), ((0.5, 1.0, 2.0),) * 2), **options),
        "FCOS": detection.FCOS(Pyramid(), 7, anchor_generator=one, **options),
        "FasterRCNN": detection.FasterRCNN(
            Pyramid(), 7, rpn_anchor_generator=one,
            box_roi_pool=torchvision.ops.MultiScaleRoIAlign(["0", "1"], 7, 2), **options),
    }


class Accelerated(Case):
    def setUp(self):
        test_two_stage.TwoStages.setUp(self)
        self.models = detectors()

    def run_model(self, model):
        torch.manual_seed(3)
        model.train()
        model.zero_grad()
        losses = model(self.images, self.targets)
        sum(losses.values()).backward()
        grads = {name: p.grad for name, p in model.named_parameters()}
        model.eval()
        with torch.no_grad():
            return losses, grads, model(self.images)

    def test_losses_gradients_and_detections(self):
        for name, model in self.models.items():
            for layout in FORMATS:
                with self.subTest(model=name, layout=layout):
                    model = model.to(memory_format=layout)
                    ours = vecdet.torch.accelerate(copy.deepcopy(model))
                    expected, found = self.run_model(model), self.run_model(ours)
                    alike = self.run_model(vecdet.torch.accelerate(copy.deepcopy(model),
                                                             convolutions=False))
                    for key, loss in expected[0].items():
                        torch.testing.assert_close(found[0][key], loss, rtol=1e-4, atol=1e-7)
                    for key, grad in alike[1].items():
                        self.assertLessEqual(float((found[1][key] - grad).norm()),
                                             1e-4 * float(grad.norm()) + 1e-7, key)
                    for mine, other in zip(found[2], expected[2]):
                        self.assertEqual(len(mine["boxes"]), len(other["boxes"]))

    def test_levels_take_one_call(self):
        for name, calls in (("RetinaNet", 10), ("FCOS", 10), ("FasterRCNN", 1)):
            head = getattr(self.models[name], "head", None) or self.models[name].rpn.head
            model = vecdet.torch.accelerate(self.models[name])
            head.eval()
            maps = [torch.randn(1, 32, side, side) for side in (20, 10)]
            with self.subTest(name), torch.no_grad():
                names, _ = operators_of(lambda: head(maps))
                # Convolutions, each for both levels; FCOS has a third predictor.
                self.assertEqual(names.count(OURS), calls + (name == "FCOS"))
            vecdet.torch.restore(model)

    def test_restore_and_without_convolutions(self):
        for name, model in self.models.items():
            with self.subTest(name):
                keys, parameters = list(model.state_dict()), [id(p) for p in model.parameters()]
                before = [type(module) for module in model.modules()]
                vecdet.torch.accelerate(model)
                self.assertTrue(_convolutions.has_replaced(model))
                self.assertEqual(list(model.state_dict()), keys)
                self.assertEqual([id(p) for p in model.parameters()], parameters)
                vecdet.torch.restore(model)
                self.assertEqual([type(module) for module in model.modules()], before)
                vecdet.torch.accelerate(model, convolutions=False)
                self.assertFalse(_convolutions.has_replaced(model))

    def test_pickle(self):
        model = vecdet.torch.accelerate(self.models["RetinaNet"])
        buffer = io.BytesIO()
        torch.save(model, buffer)
        buffer.seek(0)
        loaded = torch.load(buffer, weights_only=False)
        self.assertTrue(_convolutions.has_replaced(loaded))
        expected, found = self.run_model(model), self.run_model(loaded)
        for key, loss in expected[0].items():
            self.assertTrue(torch.equal(found[0][key], loss))

    def test_hooks_see_every_level(self):
        model = vecdet.torch.accelerate(self.models["RetinaNet"])
        tower, seen = model.head.classification_head.conv, []
        watched = [module for module in tower.modules() if isinstance(module, nn.Conv2d)][1]
        watched.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[-1]))
        self.run_model(model)
        self.assertEqual(len(seen), 4)  # two levels, in training and in evaluation


class OtherModules(Case):
    def network(self):
        return nn.Sequential(nn.Conv2d(20, 24, 3, padding=1), nn.ReLU(inplace=True),
                             nn.Conv2d(24, 24, 3, padding="same"), nn.BatchNorm2d(24),
                             nn.Conv2d(24, 16, 3, 2, 1))

    def test_replaces_what_fits(self):
        net = self.network()
        x = torch.randn(2, 20, 14, 15)
        expected = net(x)
        expected.sum().backward()
        grads = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        self.assertIs(vecdet.torch.accelerate_convolutions(net), net)
        self.assertEqual([type(m) is _convolutions.Conv2d for m in net],
                         [True, False, True, False, False])
        names, found = operators_of(lambda: net(x))
        self.assertEqual(names.count(OURS), 2)
        self.assert_near(found, expected, 1e-4)
        found.sum().backward()
        for p, grad in zip(net.parameters(), grads):
            # That of the bias before the normalisation is 0, and only rounding remains.
            self.assertLessEqual(float((p.grad - grad).norm()), 1e-3 * float(grad.norm()) + 1e-3)
        vecdet.torch.restore(net)
        self.assertFalse(_convolutions.has_replaced(net))

    def test_fuses_a_relu_in_a_sequence(self):
        net = vecdet.torch.accelerate_convolutions(self.network())
        x = torch.randn(2, 20, 14, 15)
        self.assertIs(type(net), _convolutions.Sequential)
        names, fused = operators_of(lambda: net(x))
        self.assertNotIn("aten::relu_", names)
        seen = []
        hook = net[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
        names, found = operators_of(lambda: net(x))
        self.assertIn("aten::relu_", names)
        self.assertEqual(len(seen), 1)
        self.assertTrue(torch.equal(found, fused))
        hook.remove()
        net[1] = nn.LeakyReLU()
        self.assertFalse(torch.equal(net(x), fused))
        self.assertEqual(len(net[:2]), 2)
        self.assertIs(type(vecdet.torch.restore(net)), nn.Sequential)
        # Nothing to fuse.
        other = vecdet.torch.accelerate_convolutions(nn.Sequential(nn.ReLU(),
                                                                   nn.Conv2d(16, 16, 3, padding=1)))
        self.assertIs(type(other), nn.Sequential)

    def test_leaves_users_convolutions_alone(self):
        class Users(nn.Conv2d):
            def forward(self, input):
                return super().forward(input) + 1

        derived, patched = Users(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        patched.forward = lambda input: input * 2
        x = torch.randn(1, 16, 10, 10)
        expected = derived(x), patched(x)
        for module, result in zip((derived, patched), expected):
            before = type(module)
            vecdet.torch.accelerate_convolutions(module)
            self.assertIs(type(module), before)
            self.assertTrue(torch.equal(module(x), result))

    def test_decides_at_every_call(self):
        conv = vecdet.torch.accelerate_convolutions(nn.Conv2d(16, 16, 3, padding=1))
        x = torch.randn(1, 16, 12, 12)

        def changed(**values):
            module = copy.deepcopy(conv)
            for name, value in values.items():
                setattr(module, name, value)
            return module

        for module in (changed(stride=(2, 2)), changed(padding=(0, 0)), changed(dilation=(2, 2)),
                       changed(groups=2, weight=nn.Parameter(torch.randn(16, 8, 3, 3))),
                       changed(weight=nn.Parameter(torch.randn(16, 16, 5, 5))),
                       copy.deepcopy(conv).double()):
            given = x.to(module.weight.dtype)
            names, found = operators_of(lambda: module(given))
            self.assertNotIn(OURS, names)
            self.assertTrue(torch.equal(found, vecdet.torch.restore(module)(given)))
        unbatched = conv(x[0])
        self.assert_near(unbatched, conv(x)[0])


class Tools(Case):
    """Of PyTorch, with replaced modules."""

    def networks(self):
        net = nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.ReLU(),
                            nn.Conv2d(24, 16, 3, padding=1))
        return net, vecdet.torch.accelerate_convolutions(copy.deepcopy(net))

    def models_with_heads(self):
        """Models, and functions that run them up to their losses. Of Faster R-CNN, only the RPN's
        head runs: the number of its proposals depends on rounding."""
        test_two_stage.TwoStages.setUp(self)

        def run(model):
            torch.manual_seed(3)
            return sum(model(self.images, self.targets).values())

        def run_head(model):
            return sum(level.sum() for part in model.rpn.head(
                [torch.ones(1, 32, side, side) for side in (20, 10)]) for level in part)

        for name, model in detectors().items():
            yield name, model, run_head if name == "FasterRCNN" else run

    def test_hooks_of_all_modules(self):
        """Global hooks are called for the same modules as without vecdet."""
        def calls(model, register, run):
            names, seen = {module: name for name, module in model.named_modules()}, []
            handle = register(lambda module, *values: seen.append(
                (names.get(module, type(module).__name__), form_of(values[-1]))))
            try:
                run(model)
            finally:
                handle.remove()
            return seen

        def form_of(values):
            if isinstance(values, torch.Tensor):
                return values.dim()
            return [form_of(each) for each in values] if isinstance(values, (
                list, tuple)) else type(values).__name__

        def backward(net):
            net(torch.ones(1, 16, 20, 20)).sum().backward()

        every = nn.modules.module
        for kind in ("forward_pre_hook", "forward_hook", "full_backward_pre_hook",
                     "full_backward_hook"):
            register = getattr(every, f"register_module_{kind}", None)
            if register is None:
                continue  # PyTorch 1.13 has no global backward pre-hooks
            net, ours = self.networks()
            with self.subTest(kind):
                expected = calls(net, register, backward)
                self.assertEqual(len(expected), 4)
                self.assertEqual(calls(ours, register, backward), expected)
            if "backward" in kind:
                continue  # of detectors, whose ReLUs are in place
            for name, model, run in self.models_with_heads():
                with self.subTest(kind, model=name):
                    ours = vecdet.torch.accelerate(copy.deepcopy(model))
                    # Heads call their modules one after the other, each for all levels.
                    self.assertEqual(sorted(calls(ours, register, run), key=str),
                                     sorted(calls(model, register, run), key=str))

    @unittest.skipUnless(hasattr(torch.utils, "swap_tensors"), "this PyTorch cannot swap tensors")
    def test_swapped_weights(self):
        x = torch.randn(1, 16, 20, 20)

        def used():
            net, ours = self.networks()
            with torch.no_grad():
                self.assert_near(ours(x), net(x), 1e-4)
            return net, ours

        def check(net, ours):
            with torch.no_grad():
                names, found = operators_of(lambda: ours(x))
                self.assertIn(OURS, names)
                self.assert_near(found, net(x), 1e-4)

        net, ours = used()
        for each in (net, ours):
            torch.manual_seed(8)
            torch.utils.swap_tensors(each[0].weight, nn.Parameter(torch.randn(24, 16, 3, 3)))
        check(net, ours)
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            net, ours = used()
            check(net.double().float(), ours.double().float())
            net, ours = used()
            other, _ = self.networks()
            for each in (net, ours):
                each.load_state_dict(other.state_dict())
            check(net, ours)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    def test_flops(self):
        try:
            from torch.utils.flop_counter import FlopCounterMode, register_flop_formula  # noqa: F401
        except ImportError:
            self.skipTest("this PyTorch has no formulas of FLOPs")

        def flops(run):
            with FlopCounterMode(display=False) as counter:
                run()
            return counter.get_total_flops()

        def step(net, is_frozen=False):
            net.requires_grad_(not is_frozen)
            x = torch.ones(2, 16, 20, 20, requires_grad=is_frozen)
            return lambda: net(x).sum().backward()

        net, ours = self.networks()
        expected = 2 * 2 * 400 * 16 * 24 * 9 * 2
        for is_frozen, factor in ((False, 2.5), (True, 2)):  # the first input has no gradient
            self.assertEqual(flops(step(net, is_frozen)), factor * expected)
            self.assertEqual(flops(step(ours, is_frozen)), factor * expected)
        weight, bias = some_weight()
        inputs = some_maps()
        self.assertEqual(
            flops(lambda: vecdet.torch.ops.conv3x3_levels(inputs, weight, bias, True)),
            flops(lambda: [functional.conv2d(x, weight, bias, padding=1) for x in inputs]))
        # No formula.
        value, points = torch.randn(1, 20, 2, 3), torch.rand(1, 5, 2, 2, 3, 2)
        self.assertEqual(flops(lambda: vecdet.torch.ops.deformable_attention(
            value, [(4, 4), (2, 2)], points, points[..., 0])), 0)
        self.assertEqual(flops(lambda: functional.grid_sample(
            value.permute(0, 2, 3, 1)[..., :16].reshape(2, 3, 4, 4), points[0, :2, :, 0],
            align_corners=False)), 0)
        for name, model, run in self.models_with_heads():
            with self.subTest(name):
                expected = flops(lambda: run(model).backward())
                self.assertGreater(expected, 1e6)
                vecdet.torch.accelerate(model)
                self.assertEqual(flops(lambda: run(model).backward()), expected)


class Memory(Case):
    def used_network(self):
        """A replaced network whose weights were transformed in both directions."""
        net = vecdet.torch.accelerate_convolutions(nn.Sequential(
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)))
        net.requires_grad_(False)
        net(torch.randn(1, 32, 20, 20, requires_grad=True)).sum().backward()
        return net

    def test_transformed_weights_go_with_their_module(self):
        def dropped(net):
            pass

        def in_a_cycle(net):
            net[0].itself = net[0]

        def replaced(net):
            net[0], net[2] = nn.ReLU(), nn.ReLU()
            return net

        def restored(net):
            return vecdet.torch.restore(net)

        vecdet.torch.free_cached_memory()
        net = self.used_network()
        self.assertGreaterEqual(vecdet.torch.free_cached_memory(), 2 * 2 * 4 * 32 * 32 * 9 * 4)
        for end in (dropped, in_a_cycle, replaced, restored):
            with self.subTest(end.__name__):
                net = self.used_network()
                alive = end(net)
                del net
                gc.collect()
                self.assertEqual(vecdet.torch.free_cached_memory(), 0)
                del alive

    def test_modules_that_end_within_a_mode(self):
        """Which gets every operator that is called."""
        from torch._subclasses import FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode

        class Refusing(TorchDispatchMode):
            def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
                raise AssertionError(f"{operator} was called")

        for mode in (FakeTensorMode, Refusing):
            vecdet.torch.free_cached_memory()
            net, wrong, hook = self.used_network(), [], sys.unraisablehook
            sys.unraisablehook = wrong.append
            try:
                with mode():
                    del net
                    gc.collect()
            finally:
                sys.unraisablehook = hook
            self.assertEqual(wrong, [])
            self.assertEqual(vecdet.torch.free_cached_memory(), 0)

    def test_modules_at_the_end_of_the_process(self):
        code = ("import torch, vecdet.torch\n"
                "net = vecdet.torch.accelerate_convolutions(torch.nn.Sequential("
                "torch.nn.Conv2d(32, 32, 3, padding=1)))\n"
                "net.itself = [net]\n"
                "torch.kept_for_ever = net\n"
                "with torch.no_grad():\n"
                "    net(torch.randn(1, 32, 20, 20))\n")
        ended = subprocess.run([sys.executable, "-c", code], text=True, stderr=subprocess.PIPE)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))

    def test_gradients_reuse_memory(self):
        vecdet.torch.free_cached_memory()
        logits = torch.randn(30000, 20, requires_grad=True)
        labels = torch.randint(0, 20, (30000,))

        def gradient():
            logits.grad = None
            vecdet.torch.ops.sigmoid_focal_loss(logits, labels=labels, reduction="sum").backward()
            return logits.grad

        first = gradient()
        copied, place = first.clone(), first.data_ptr()
        held = first[3:5]
        del first
        second = gradient()
        self.assertNotEqual(second.data_ptr(), place)  # a view is alive
        self.assertTrue(torch.equal(held, copied[3:5]))
        del held
        places = {second.data_ptr(), place}
        del second
        self.assertIn(gradient().data_ptr(), places)
        self.assertGreaterEqual(vecdet.torch.free_cached_memory(), 30000 * 20 * 4)
        self.assertTrue(torch.equal(logits.grad, copied))

    def test_unused_memory_is_bounded(self):
        vecdet.torch.free_cached_memory()
        grads = []
        for _ in range(6):
            logits = torch.randn(1 << 20, 32, requires_grad=True)  # 128 MiB
            vecdet.torch.ops.sigmoid_focal_loss(logits, labels=torch.zeros(1 << 20, dtype=torch.int64),
                                          reduction="sum").backward()
            grads.append(logits.grad)
            logits.grad = None
        del logits
        grads.clear()
        self.assertEqual(vecdet.torch.free_cached_memory(), 512 << 20)
        self.assertEqual(vecdet.torch.free_cached_memory(), 0)

    def test_keep_memory(self):
        """An array that was freed is allocated again without page faults."""
        code = ("import resource, sys, vecdet.torch\n"
                "def faults():\n"
                "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
                "    bytes([1]) * (1 << 27)\n"
                "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
                "faults()\n"
                "usual, kept = faults(), vecdet.torch.keep_memory()\n"
                "faults()\n"
                "print(kept, usual, faults())\n")
        kept, usual, faults = subprocess.run([sys.executable, "-c", code], check=True, text=True,
                                             stdout=subprocess.PIPE).stdout.split()
        if kept == "True":
            self.assertGreater(int(usual), 60)  # pages of 2 MB
            self.assertLess(int(faults), 10)


if __name__ == "__main__":
    unittest.main()
