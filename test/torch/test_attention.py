# SPDX-License-Identifier: Apache-2.0
"""Deformable attention against grid_sample. Needs torch and vecdet on PYTHONPATH."""

import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from vecdet.torch import ops
from torch.nn import functional as F

SIZES = [[6, 9], [3, 5], [2, 2]]
LOCATIONS = sum(height * width for height, width in SIZES)


def by_grid_sample(value, sizes, points, weights, counts):
    """The formula with torch's operators; points [N, Q, M, all, 2]."""
    images, _, heads, channels = value.shape
    queries = points.shape[1]
    first_location, first_point, total = 0, 0, 0
    for (height, width), count in zip(sizes, counts):
        level = value[:, first_location:first_location + height * width]
        maps = level.permute(0, 2, 3, 1).reshape(images * heads, channels, height, width)
        some = slice(first_point, first_point + count)
        grid = points[:, :, :, some].transpose(1, 2).reshape(images * heads, queries, count, 2)
        samples = F.grid_sample(maps, 2 * grid - 1, align_corners=False)
        factors = weights[:, :, :, some].transpose(1, 2).reshape(images * heads, 1, queries, count)
        total = total + (samples * factors).sum(-1)
        first_location += height * width
        first_point += count
    return total.view(images, heads * channels, queries).transpose(1, 2)


def operands(counts=(2, 2, 2), dtype=torch.float32, queries=11, channels=5):
    torch.manual_seed(0)
    value = torch.randn(2, LOCATIONS, 4, channels, dtype=dtype)
    points = torch.rand(2, queries, 4, sum(counts), 2, dtype=dtype) * 1.4 - 0.2
    weights = torch.rand(2, queries, 4, sum(counts), dtype=dtype)
    return [tensor.requires_grad_() for tensor in (value, points, weights)]


def with_grads(function, tensors):
    out = function(*tensors)
    upstream = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad(out, tensors, upstream)]


class Attention(unittest.TestCase):
    def assert_near(self, actual, expected, tolerance=1e-5):
        for ours, theirs in zip(actual, expected):
            self.assertEqual(ours.shape, theirs.shape)
            self.assertEqual(ours.dtype, theirs.dtype)
            scale = theirs.abs().max().item()
            self.assertLess((ours - theirs).abs().max().item(), tolerance * scale)

    def test_equals_grid_sample(self):
        for counts in ((2, 2, 2), (4, 0, 1)):
            for queries in (3, 60):
                with self.subTest(counts=counts, queries=queries):
                    tensors = operands(counts, queries=queries)
                    self.assert_near(
                        with_grads(lambda v, p, w: ops.deformable_attention(
                            v, SIZES, p, w, counts), tensors),
                        with_grads(lambda v, p, w: by_grid_sample(v, SIZES, p, w, counts),
                                   tensors))

    def test_signatures_of_models(self):
        value, points, weights = operands()
        expected = by_grid_sample(value, SIZES, points, weights, (2, 2, 2))
        as_levels = points.unflatten(3, (3, 2)), weights.unflatten(3, (3, 2))
        for sizes in (SIZES, torch.tensor(SIZES), [tuple(size) for size in SIZES]):
            self.assert_near([ops.ms_deform_attn_core_pytorch(value, sizes, *as_levels)],
                             [expected])
            self.assert_near([ops.deformable_attention_core_func_v2(
                value, sizes, points, weights, [2, 2, 2])], [expected])
        with self.assertRaisesRegex(ValueError, "method is 'discrete'"):
            ops.deformable_attention_core_func_v2(value, SIZES, points, weights, [2, 2, 2],
                                                  "discrete")

    def test_gradcheck(self):
        tensors = operands(dtype=torch.float64, queries=2, channels=3)
        self.assertTrue(torch.autograd.gradcheck(
            lambda v, p, w: ops.deformable_attention(v, SIZES, p, w), tensors))

    def test_only_what_needs_a_gradient(self):
        expected = with_grads(lambda *t: ops.deformable_attention(t[0], SIZES, *t[1:]),
                              operands())
        for i in range(3):
            tensors = [tensor.detach() for tensor in operands()]
            tensors[i].requires_grad_()
            out = ops.deformable_attention(tensors[0], SIZES, *tensors[1:])
            upstream = torch.linspace(-1, 1, out.numel()).view_as(out)
            (grad,) = torch.autograd.grad(out, tensors[i], upstream)
            self.assertTrue(torch.equal(grad, expected[i + 1]))
        with torch.no_grad():
            self.assertFalse(ops.deformable_attention(tensors[0], SIZES,
                                                      *tensors[1:]).requires_grad)

    def test_types(self):
        value, points, weights = (tensor.detach() for tensor in operands())
        expected = by_grid_sample(value, SIZES, points, weights, (2, 2, 2))
        for dtype, tolerance in ((torch.bfloat16, 2e-2), (torch.float16, 2e-3)):
            narrow = value.to(dtype).requires_grad_()
            out = ops.deformable_attention(narrow, SIZES, points, weights)
            self.assertEqual(out.dtype, dtype)
            self.assert_near([out.float()], [expected], tolerance)
            out.float().sum().backward()
            self.assertEqual(narrow.grad.dtype, dtype)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(ops.deformable_attention(value.bfloat16(), SIZES, points,
                                                      weights).dtype, torch.bfloat16)
            under_autocast = ops.deformable_attention(value, SIZES, points, weights)
        self.assertTrue(torch.equal(
            under_autocast, ops.deformable_attention(value, SIZES, points, weights)))

    def test_strides_and_meta(self):
        value, points, weights = (tensor.detach() for tensor in operands())
        expected = ops.deformable_attention(value, SIZES, points, weights)
        strided = value.permute(3, 0, 2, 1).contiguous().permute(1, 3, 2, 0)
        self.assertFalse(strided.is_contiguous())
        self.assertTrue(torch.equal(
            ops.deformable_attention(strided, SIZES, points, weights), expected))
        on_meta = ops.deformable_attention(
            *(x.to("meta") if isinstance(x, torch.Tensor) else x
              for x in (value, SIZES, points, weights)))
        self.assertEqual(on_meta.shape, expected.shape)

    def test_is_differentiable_once(self):
        tensors = operands()
        out = ops.deformable_attention(tensors[0], SIZES, *tensors[1:])
        (grad,) = torch.autograd.grad(out.sum(), tensors[0], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "_deformable_attention_grad"):
            grad.sum().backward()

    def test_errors(self):
        value, points, weights = (tensor.detach() for tensor in operands())
        for arguments, message in (
                ((value[0], SIZES, points, weights), "value.shape"),
                ((value, SIZES, points[:1], weights), "points.shape"),
                ((value, SIZES, points, weights[:, :1]), "weights.shape"),
                ((value, SIZES[:2], points, weights), r"value.size\(1\) is 73, expected 69"),
                ((value, SIZES, points, weights, [1, 2, 4]),
                 "the number of points per query and head is 6, expected 7"),
                ((value, SIZES, points, weights, [3, 3]), r"level_points.size\(\)"),
                ((value.int(), SIZES, points, weights), "value.dtype")):
            with self.assertRaisesRegex(RuntimeError, "deformable_attention: " + message):
                ops.deformable_attention(*arguments)


if __name__ == "__main__":
    unittest.main()
