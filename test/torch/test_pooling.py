# SPDX-License-Identifier: Apache-2.0
"""Max pooling, against torch. Needs torch, torchvision and vecdet on PYTHONPATH."""

import copy
import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional
from vecdet.torch import _pooling

FORMATS = (torch.contiguous_format, torch.channels_last)
OURS = "vecdet::_max_pool"
# kernel_size, stride, padding, dilation, ceil_mode
WINDOWS = ((3, 2, 1, 1, False), (2, 2, 0, 1, True), (5, 1, 2, 1, False), ((3, 2), (1, 3), (1, 0), 1, False),
           (3, None, 1, 1, False), ((2, 3), 2, 1, (1, 2), True))


def operators_of(function):
    """The torch operators that function() calls, and its result."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    return [event.name for event in profile.events()], result


def some_map(layout=torch.contiguous_format, dtype=torch.float32, shape=(2, 19, 23, 37)):
    """Few different numbers, with some NaN and infinities."""
    x = torch.randint(-5, 6, shape).to(dtype)
    x.view(-1)[::97] = float("nan")
    x.view(-1)[5::89] = float("-inf")
    return x.to(memory_format=layout)


class Pooling(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def assert_same(self, a, b):
        self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
        self.assertTrue(torch.equal(a.isnan(), b.isnan()))
        self.assertTrue(torch.equal(a.nan_to_num(), b.nan_to_num()))

    def test_outputs_and_gradients(self):
        for window in WINDOWS:
            for layout in FORMATS:
                for dtype in (torch.float32, torch.float64, torch.bfloat16):
                    with self.subTest(window=window, layout=layout, dtype=dtype):
                        ours = some_map(layout, dtype).requires_grad_()
                        exact = ours.detach().double().requires_grad_()
                        expected = functional.max_pool2d(exact, *window)
                        found = vecdet.torch.ops.max_pool2d(ours, *window)
                        self.assert_same(found.double(), expected)
                        self.assertTrue(found.is_contiguous(memory_format=layout))
                        upstream = torch.randn(found.shape).to(dtype)
                        found.backward(upstream)
                        expected.backward(upstream.double())
                        self.assertEqual(ours.grad.dtype, dtype)
                        self.assertTrue(ours.grad.is_contiguous(memory_format=layout))
                        error = (ours.grad.double() - exact.grad).abs()
                        allowed = {torch.bfloat16: 2 ** -8, torch.float32: 1e-6}.get(dtype, 1e-14)
                        self.assertLessEqual(float((error - allowed * exact.grad.abs()).max()),
                                             1e-5 if dtype != torch.float64 else 1e-13)

    def test_float32_has_the_bits_of_torch(self):
        for window in WINDOWS:
            x = some_map().requires_grad_()
            other = x.detach().clone().requires_grad_()
            found, expected = vecdet.torch.ops.max_pool2d(x, *window), functional.max_pool2d(other, *window)
            self.assert_same(found, expected)
            upstream = torch.randn_like(expected)
            found.backward(upstream)
            expected.backward(upstream)
            torch.testing.assert_close(x.grad, other.grad, rtol=1e-6, atol=1e-6)

    def test_without_a_gradient_no_positions(self):
        for x in (some_map(), some_map().half()):
            names, found = operators_of(lambda: vecdet.torch.ops.max_pool2d(x, 3, 2, 1))
            self.assertIn(OURS, names)
            self.assert_same(found, functional.max_pool2d(x.float(), 3, 2, 1).to(x.dtype))

    def test_same_bits_for_any_number_of_threads(self):
        x, threads = some_map(shape=(2, 40, 60, 61)), torch.get_num_threads()
        results = []
        try:
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                leaf = x.clone().requires_grad_()
                y = vecdet.torch.ops.max_pool2d(leaf, 3, 2, 1)
                y.nan_to_num().square().sum().backward()
                results.append((y, leaf.grad))
        finally:
            torch.set_num_threads(threads)
        for y, grad in results[1:]:
            self.assert_same(y, results[0][0])
            self.assert_same(grad, results[0][1])

    def test_a_gradient_is_differentiated_again(self):
        for window in WINDOWS:
            with self.subTest(window=window):
                x = torch.randn(2, 3, 12, 13, requires_grad=True)

                def second(function):
                    (grad,) = torch.autograd.grad(function(x * x, *window).pow(3).sum(), x,
                                                  create_graph=True)
                    return grad, *torch.autograd.grad(grad.square().sum(), x)

                for a, b in zip(second(vecdet.torch.ops.max_pool2d), second(functional.max_pool2d)):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    def test_meta(self):
        for layout in FORMATS:
            for window in WINDOWS:
                x = some_map(layout)
                y = vecdet.torch.ops.max_pool2d(x.to("meta"), *window)
                expected = functional.max_pool2d(x, *window)
                self.assertEqual(y.shape, expected.shape)
                self.assertTrue(y.is_contiguous(memory_format=layout))

    def test_errors(self):
        x = some_map()
        for arguments, text in (
            ((x[0], 2), "max_pool: input.shape"),
            ((x, 0), "max_pool: params.window_height is 0"),
            ((x, 3, 2, 2), "max_pool: params.padding_height is 2, expected at most 1"),
            ((x, 17), "max_pool: params.window_height . window_width is 289, expected at most 256"),
            ((x, 3, 0), "max_pool: params.stride_height is 0"),
            ((x[:, :, :1], 2), "max_pool: input.shape"),
            ((x.long(), 2), "max_pool: input.dtype"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                vecdet.torch.ops.max_pool2d(*arguments)


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def test_replaces_and_restores(self):
        net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, return_indices=True))
        types, keys = [type(m) for m in net], list(net.state_dict())
        vecdet.torch.accelerate_convolutions(net)
        self.assertIs(type(net[1]), _pooling.MaxPool2d)
        self.assertEqual(list(net.state_dict()), keys)
        vecdet.torch.restore(net)
        self.assertEqual([type(m) for m in net], types)

    def test_forward_and_backward(self):
        for layout in FORMATS:
            net = nn.Sequential(nn.MaxPool2d(3, 2, 1), nn.MaxPool2d(2, ceil_mode=True)).train()
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
            x = torch.randn(2, 16, 33, 30).to(memory_format=layout)
            leaves = [x.clone(memory_format=torch.preserve_format).requires_grad_() for _ in range(2)]
            names, found = operators_of(lambda: ours(leaves[0]))
            self.assertEqual(names.count(OURS), 2 if layout == torch.contiguous_format else 0)
            expected = net(leaves[1])
            self.assertTrue(torch.equal(found, expected))
            upstream = torch.randn_like(expected)
            found.backward(upstream)
            expected.backward(upstream)
            torch.testing.assert_close(leaves[0].grad, leaves[1].grad)

    def test_what_torch_computes(self):
        x = torch.randn(2, 4, 20, 21)
        pool = vecdet.torch.accelerate_convolutions(nn.MaxPool2d(2, return_indices=True))
        for a, b in zip(pool(x), functional.max_pool2d(x, 2, return_indices=True)):
            self.assertTrue(torch.equal(a, b))
        pool = vecdet.torch.accelerate_convolutions(nn.MaxPool2d(17))
        self.assertTrue(torch.equal(pool(x), functional.max_pool2d(x, 17)))
        pool = vecdet.torch.accelerate_convolutions(nn.MaxPool2d(2))
        self.assertTrue(torch.equal(pool(x[0]), functional.max_pool2d(x[0], 2)))
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            names, y = operators_of(lambda: pool(dual))
            self.assertNotIn(OURS, names)
            self.assertTrue(torch.equal(forward_ad.unpack_dual(y).tangent,
                                        torch.ones(2, 4, 10, 10)))

    def test_autocast_keeps_the_type(self):
        pool = vecdet.torch.accelerate_convolutions(nn.MaxPool2d(2))
        for dtype in (torch.float32, torch.bfloat16):
            x = torch.randn(2, 4, 20, 21).to(dtype)
            with torch.autocast("cpu", torch.bfloat16):
                self.assertEqual(pool(x).dtype, dtype)

    def test_hooks(self):
        pool, seen = vecdet.torch.accelerate_convolutions(nn.MaxPool2d(2)), []
        pool.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
        pool(torch.randn(1, 2, 8, 8))
        self.assertEqual(seen, [torch.Size([1, 2, 4, 4])])


if __name__ == "__main__":
    unittest.main()
