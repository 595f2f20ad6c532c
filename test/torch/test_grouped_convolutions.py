# SPDX-License-Identifier: Apache-2.0
"""Grouped and strided 3x3 convolutions, against torch. Needs torch, torchvision and vecdet on PYTHONPATH."""

import copy
import pickle
import sys
import unittest

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional
from vecdet.torch import _convolutions

FORMATS = (torch.contiguous_format, torch.channels_last)
OURS = "vecdet::_grouped_conv3x3"
# groups, input and output channels of a group
GROUPS = ((5, 4, 4), (3, 8, 8), (2, 16, 32), (1, 18, 7), (1, 3, 20))


def operators_of(function):
    """The torch operators that function() calls, and its result."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    return [event.name for event in profile.events()], result


def operands(groups, inputs, outputs, layout=torch.contiguous_format, size=(11, 17)):
    x = torch.randn(2, groups * inputs, *size).to(memory_format=layout)
    weight = torch.randn(groups * outputs, inputs, 3, 3).to(memory_format=layout)
    return [each.requires_grad_() for each in (x, weight, torch.randn(groups * outputs))]


def gradients(function, given, upstream):
    output = function(*given)
    return output, *torch.autograd.grad(output, given, upstream.to(output.dtype))


class GroupedConvolutions(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def assert_near(self, found, exact):
        self.assertEqual((found.shape, found.dtype), (exact.shape, torch.float32))
        error = float((found.double() - exact).abs().max())
        self.assertLess(error, 1e-5 * float(exact.abs().max()))

    def test_outputs_and_gradients(self):
        for groups, inputs, outputs in GROUPS:
            for layout in FORMATS:
                for stride in (1, 2):
                    with self.subTest(groups=groups, inputs=inputs, layout=layout, stride=stride):
                        given = operands(groups, inputs, outputs, layout)
                        exact = [each.detach().double().requires_grad_() for each in given]
                        upstream = torch.randn_like(
                            functional.conv2d(*given, stride, 1, groups=groups))
                        expected = gradients(lambda *of: functional.conv2d(
                            *of, stride, 1, groups=groups), exact, upstream)
                        found = gradients(lambda *of: vecdet.torch.ops.grouped_conv3x3(
                            *of, groups, stride), given, upstream)
                        for a, b in zip(found, expected):
                            self.assert_near(a, b)
                        for each in found[:2]:
                            self.assertTrue(each.is_contiguous(memory_format=layout))

    def test_only_the_gradients_that_are_needed(self):
        for needed in range(3):
            given = operands(2, 4, 4)
            for i, each in enumerate(given):
                each.requires_grad_(i == needed)
            vecdet.torch.ops.grouped_conv3x3(*given, 2).sum().backward()
            expected = [each.detach().clone().requires_grad_(each.requires_grad) for each in given]
            functional.conv2d(*expected, 1, 1, groups=2).sum().backward()
            for i, (a, b) in enumerate(zip(given, expected)):
                self.assertEqual(a.grad is not None, i == needed)
                if i == needed:
                    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
        x, weight, _ = operands(2, 4, 4)
        vecdet.torch.ops.grouped_conv3x3(x, weight, groups=2).sum().backward()
        self.assertIsNotNone(weight.grad)

    def test_a_gradient_is_differentiated_again(self):
        for stride in (1, 2):
            given = operands(2, 4, 4, size=(5, 6))

            def second(function):
                grads = torch.autograd.grad(function(*given).pow(3).sum(), given, create_graph=True)
                return *grads, *torch.autograd.grad(sum(each.square().sum() for each in grads),
                                                    given)

            for a, b in zip(second(lambda *of: vecdet.torch.ops.grouped_conv3x3(*of, 2, stride)),
                            second(lambda *of: functional.conv2d(*of, stride, 1, groups=2))):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.detach().abs().max()))

    def test_same_bits_for_any_number_of_threads(self):
        given, threads, results = operands(10, 4, 4, size=(60, 61)), torch.get_num_threads(), []
        try:
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                results.append(gradients(lambda *of: vecdet.torch.ops.grouped_conv3x3(*of, 10),
                                         given, torch.ones(1).expand(2, 40, 60, 61)))
        finally:
            torch.set_num_threads(threads)
        for result in results[1:]:
            for a, b in zip(result, results[0]):
                self.assertTrue(torch.equal(a, b))

    def test_errors(self):
        x, weight, bias = (each.detach() for each in operands(2, 4, 4))
        for arguments, text in (
            ((x[0], weight, bias, 2), "grouped_conv3x3: input.shape"),
            ((x, weight[0], bias, 2), "grouped_conv3x3: weight.shape"),
            ((x, weight, bias[:3], 2), "grouped_conv3x3: bias.shape"),
            ((x.double(), weight, bias, 2), "grouped_conv3x3: input.dtype is Double, expected float32"),
            ((x, weight.bfloat16(), bias, 2), "grouped_conv3x3: weight.dtype is BFloat16"),
            ((x, weight, bias.double(), 2), "grouped_conv3x3: bias.dtype is Double"),
            ((x, weight, bias, 0), "grouped_conv3x3: params.groups is 0, expected 1 or more"),
            ((x, weight, bias, 2, 3), "grouped_conv3x3: params.stride is 3, expected 1 or 2"),
            ((x, weight, bias, 2, 0), "grouped_conv3x3: params.stride is 0"),
            ((x, weight, bias, 4), "grouped_conv3x3: weights.channels.. is 4, expected 2"),
            ((x, weight[:, :2].contiguous(), bias, 4), "params.groups is 4, expected 1, or groups"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                vecdet.torch.ops.grouped_conv3x3(*arguments)

    def test_errors_without_data(self):
        x, weight, bias = (each.detach().to("meta") for each in operands(2, 4, 4))
        self.assertEqual(vecdet.torch.ops.grouped_conv3x3(x, weight, bias, 2).shape,
                         (*x.shape[:1], *weight.shape[:1], *x.shape[2:]))
        for arguments, text in (
            ((x[0], weight, bias, 2), "grouped_conv3x3: input.shape"),
            ((x, weight, bias, 0), "grouped_conv3x3: params.groups is 0, expected 1 or more"),
            ((x, weight, bias, 2, 3), "grouped_conv3x3: params.stride is 3, expected 1 or 2"),
            ((x, weight, bias, 2, 0), "grouped_conv3x3: params.stride is 0, expected 1 or 2"),
            ((x, weight, bias, 4), "grouped_conv3x3: input.shape"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                vecdet.torch.ops.grouped_conv3x3(*arguments)

    def test_forward_mode_is_refused(self):
        given = [each.detach() for each in operands(2, 4, 4)]
        with forward_ad.dual_level():
            given[0] = forward_ad.make_dual(given[0], torch.ones_like(given[0]))
            with self.assertRaises(RuntimeError):
                vecdet.torch.ops.grouped_conv3x3(*given, 2)


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(8)

    def network(self):
        return nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, groups=8, bias=False), nn.ReLU(),
                             nn.Conv2d(32, 32, 3, 2, 1, groups=4), nn.ReLU(),
                             nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
                             nn.Conv2d(64, 64, 3, padding="same", groups=4))

    def test_modules_are_replaced_and_restored(self):
        network = self.network()
        x = torch.randn(2, 32, 24, 21)
        expected, keys = network(x), list(network.state_dict())
        ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(network))
        self.assertEqual([type(each) for each in ours[::2]], 4 * [_convolutions.GroupedConv2d])
        self.assertEqual(list(ours.state_dict()), keys)
        for each in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            names, found = operators_of(lambda: each(x))
            self.assertEqual(names.count(OURS), 3)  # the last one is left to torch
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        vecdet.torch.restore(ours)
        self.assertEqual([type(each) for each in ours], [type(each) for each in network])
        self.assertTrue(torch.equal(ours(x), expected))

    def test_gradients_of_a_resnext(self):
        def step(accelerated):
            torch.manual_seed(9)
            model = torchvision.models.resnext50_32x4d(weights=None).eval()
            if accelerated:
                vecdet.torch.accelerate_convolutions(model)
            names, _ = operators_of(lambda: model(torch.ones(1, 3, 64, 64)).square().sum().backward())
            return names, {name: each.grad for name, each in model.named_parameters()}

        names, found = step(True)
        _, expected = step(False)
        self.assertEqual(names.count(OURS), 9)
        self.assertEqual(names.count(OURS + "_grad"), 9)
        for name, grad in found.items():
            difference = float((grad - expected[name]).norm())
            self.assertLessEqual(difference, 1e-3 * float(expected[name].norm()) + 1e-6, name)

    def test_what_torch_computes(self):
        x = torch.randn(1, 32, 9, 8)

        def module(**changes):
            options = dict(in_channels=32, out_channels=32, kernel_size=3, padding=1, groups=8)
            return nn.Conv2d(**{**options, **changes})

        for changes in (dict(groups=2, out_channels=24), dict(groups=32), dict(stride=3),
                        dict(stride=(1, 2)), dict(padding=0), dict(dilation=2, padding=2),
                        dict(padding_mode="reflect"), dict(kernel_size=5, padding=2)):
            with self.subTest(changes=changes):
                self.assertIs(type(vecdet.torch.accelerate_convolutions(module(**changes))), nn.Conv2d)

        def changed(**attributes):
            ours = vecdet.torch.accelerate_convolutions(module())
            for name, value in attributes.items():
                setattr(ours, name, value)
            return ours

        for given, ours in ((x.double(), vecdet.torch.accelerate_convolutions(module()).double()),
                            (x.bfloat16(), vecdet.torch.accelerate_convolutions(module()).bfloat16()),
                            (x[0], changed()), (x[:0], changed()), (x, changed(stride=(3, 3))),
                            (x, changed(groups=4, weight=nn.Parameter(torch.randn(20, 8, 3, 3)),
                                        out_channels=20, bias=None))):
            names, found = operators_of(lambda: ours(given))
            self.assertNotIn(OURS, names)
            expected = vecdet.torch.restore(ours)(given)
            self.assertTrue(torch.equal(found, expected))
        ours = changed()
        with torch.autocast("cpu", torch.bfloat16):
            names, found = operators_of(lambda: ours(x))
        self.assertNotIn(OURS, names)
        self.assertEqual(found.dtype, torch.bfloat16)
        with forward_ad.dual_level():
            y = ours(forward_ad.make_dual(x, torch.ones_like(x)))
            self.assertIsNotNone(forward_ad.unpack_dual(y).tangent)

    def test_flops(self):
        try:
            from torch.utils.flop_counter import FlopCounterMode
        except ImportError:
            self.skipTest("this PyTorch has no flop counter")
        counts = []
        for accelerated in (False, True):
            network = self.network()
            if accelerated:
                vecdet.torch.accelerate_convolutions(network)
            with FlopCounterMode(display=False) as mode:
                # Only forward: of groups, PyTorch counts the weights' gradient as that of one group.
                network(torch.randn(2, 32, 24, 20))
            counts.append(mode.get_total_flops())
        self.assertEqual(counts[0], counts[1])


if __name__ == "__main__":
    unittest.main()
