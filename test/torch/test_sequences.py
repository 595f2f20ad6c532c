# SPDX-License-Identifier: Apache-2.0
"""CTC, against torch. Needs torch and vecdet on PYTHONPATH."""

import inspect
import random
import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from test_package import names_in
from torch import nn
from torch.nn import functional
from vecdet.torch import ops

# The reference is torch in double: its float gradients are wrong by up to 8e-4 in these problems.
WITHIN = {torch.float32: dict(rtol=1e-5, atol=1e-5), torch.float64: dict(rtol=1e-7, atol=1e-9)}


class Problem:
    """Arguments of ctc_loss: any shape, layout and form of lengths and targets."""

    def __init__(self, seed):
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.steps, self.samples, classes = (draw.randint(1, 40), draw.randint(1, 5),
                                             draw.choice([2, 3, 7, 40, 300]))
        self.dtype = draw.choice([torch.float32, torch.float64])
        self.blank = draw.choice([0, classes - 1, draw.randrange(classes)])
        self.is_single = draw.random() < 0.2
        if self.is_single:
            self.samples = 1
        longest = draw.choice([0, 1, self.steps // 2, self.steps + 2])
        counts = [draw.randint(0, longest) for _ in range(self.samples)]
        self.input_lengths = [draw.choice([self.steps, draw.randint(1, self.steps)])
                              for _ in range(self.samples)]
        others = [c for c in range(classes) if c != self.blank]
        padded = torch.tensor([[draw.choice(others) for _ in range(max(counts))]
                               for _ in range(self.samples)], dtype=torch.int64)
        padded = padded.view(self.samples, max(counts))
        if draw.random() < 0.5 or self.is_single:
            self.targets = torch.cat([row[:count] for row, count in zip(padded, counts)])
        else:
            self.targets = padded
        if draw.random() < 0.3:
            self.targets = self.targets.int()
        self.target_lengths = counts
        if draw.random() < 0.5:
            self.input_lengths = torch.tensor(self.input_lengths)
            self.target_lengths = torch.tensor(counts)
        self.zero_infinity = draw.random() < 0.5
        scale = draw.choice([1, 5, 30])
        shape = (self.steps, self.samples, classes)
        order = draw.choice([(0, 1, 2), (1, 0, 2), (1, 2, 0)])
        logits = torch.randn([shape[axis] for axis in order], dtype=self.dtype) * scale
        self.logits = logits.permute([order.index(axis) for axis in range(3)])
        if self.is_single:
            self.logits = self.logits[:, 0]

    def run(self, function, x, reduction):
        return function(x, self.targets, self.input_lengths, self.target_lengths, self.blank,
                        reduction, self.zero_infinity)


def loss_and_grad(problem, function, reduction, upstream, softmax=True):
    x = problem.logits.detach()
    x = (x.double() if function is functional.ctc_loss else x).requires_grad_()
    loss = problem.run(function, x.log_softmax(-1) if softmax else x, reduction)
    loss.backward(upstream.to(loss) if reduction == "none" else None)
    return loss.detach(), x.grad


class AgainstTorch(unittest.TestCase):
    def test_random_problems(self):
        finite = infinite = 0
        for seed in range(400):
            problem = Problem(seed)
            losses = problem.run(functional.ctc_loss, problem.logits.log_softmax(-1), "none")
            upstream = torch.rand(losses.shape)
            for reduction in ("none", "mean", "sum"):
                with self.subTest(seed=seed, reduction=reduction):
                    expected, grad = loss_and_grad(problem, functional.ctc_loss, reduction,
                                                   upstream)
                    for softmax in (True, False):
                        found, ours = loss_and_grad(problem, ops.ctc_loss, reduction, upstream,
                                                    softmax)
                        self.assertEqual(found.dtype, problem.dtype)
                        torch.testing.assert_close(found.double(), expected,
                                                   **WITHIN[problem.dtype])
                        self.assertFalse(ours.isnan().any())
                        # torch's gradient is NaN without an alignment.
                        has_paths = ~grad.isnan()
                        torch.testing.assert_close(ours[has_paths].double(), grad[has_paths],
                                                   **WITHIN[problem.dtype])
                        self.assertTrue((ours[~has_paths] == 0).all())
            finite += int(losses.isfinite().sum())
            infinite += int(losses.isinf().sum())
        self.assertGreater(finite, 500)
        self.assertGreater(infinite, 50)

    def test_gradient_layout(self):
        x = torch.randn(2, 9, 5).transpose(0, 1).requires_grad_()
        arguments = torch.tensor([[1, 2], [3, 3]]), (9, 8), (2, 1)
        ops.ctc_loss(x, *arguments).backward()
        self.assertEqual(x.grad.stride(), x.stride())
        y = x.detach().contiguous().requires_grad_()
        ops.ctc_loss(y, *arguments).backward()
        self.assertTrue(torch.equal(x.grad, y.grad))

    def test_signature_is_torchs(self):
        expected = inspect.signature(functional.ctc_loss).parameters
        mine = inspect.signature(ops.ctc_loss).parameters
        self.assertEqual(list(mine)[:len(expected)], list(expected))
        for name, parameter in expected.items():
            self.assertEqual(mine[name].default, parameter.default)

    def test_scale_and_weights(self):
        problem = next(each for each in map(Problem, range(99)) if each.samples > 2)
        weights = torch.rand(problem.samples)
        arguments = (problem.logits, problem.targets, problem.input_lengths,
                     problem.target_lengths, problem.blank)
        losses = ops.ctc_loss(*arguments, "none", zero_infinity=True)
        counts = torch.as_tensor(problem.target_lengths).clamp(min=1)
        for reduction, expected in (("none", losses * weights * 3),
                                    ("sum", (losses * weights).sum() * 3),
                                    ("mean", (losses * weights / counts).mean() * 3)):
            found = ops.ctc_loss(*arguments, reduction, True, scale=3.0, sample_weights=weights)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5, check_dtype=False)


class Hostile(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(4, 2, 3, requires_grad=True)

    def loss(self, targets, input_lengths=(4, 4), target_lengths=(1, 1), **options):
        return ops.ctc_loss(self.x, torch.as_tensor(targets), input_lengths, target_lengths,
                            **options)

    def refused(self, message, *arguments, **options):
        with self.assertRaisesRegex(RuntimeError, r"ctc_loss\w*: " + message):
            self.loss(*arguments, **options)

    def test_errors(self):
        self.refused(r"targets\[1\].*not the blank, 0", [[1], [0]])
        self.refused(r"targets\[0\].* is 3", [[3], [1]])
        self.refused(r"input_lengths\[1\].* 5.*0 to 4", [[1], [1]], (4, 5))
        self.refused(r"input_lengths\[0\].* -1", [[1], [1]], (-1, 4))
        self.refused(r"target_lengths\[0\].* 2.*0 to 1", [[1], [1]], (4, 4), (2, 1))
        self.refused(r"targets.size\(\).* 3.*2, the sum", [1, 1, 1])
        self.refused("input_lengths.shape", [[1], [1]], (4,))
        self.refused("target_lengths.shape", [[1], [1]], (4, 4), (1, 1, 1))
        self.refused("targets.shape", [[1], [1], [1]])
        self.refused("targets.dtype", [[1.0], [1.0]])
        self.refused("target_lengths.dtype", [[1], [1]], (4, 4), torch.tensor([1.0, 1.0]))
        self.refused("input_lengths.dtype", [[1], [1]], (3.5, 4))
        self.refused("target_lengths.dtype", [[1], [1]], (4, 4), (1.0, 1.0))
        self.refused("blank is 3", [[1], [1]], blank=3)
        self.refused("blank is -1", [[1], [1]], blank=-1)
        for reduction in ("none", "mean", "sum"):
            self.refused(r"sample_weights.size", [[1], [1]], reduction=reduction,
                         sample_weights=torch.ones(3))
            self.refused("sample_weights.dtype is ComplexFloat", [[1], [1]], reduction=reduction,
                         sample_weights=torch.ones(2, dtype=torch.complex64))
            # Also if the scale of the mean, which is smaller, is a float.
            self.refused(r"scale is 6\S*e\+38, expected a finite float", [[1], [1]],
                         reduction=reduction, scale=6e38)
        with self.assertRaisesRegex(ValueError, "reduction"):
            self.loss([[1], [1]], reduction="max")
        self.x = self.x.detach()[0, 0]
        self.refused("logits.shape", [1])

    def test_meta_tensors(self):
        x = torch.empty(4, 2, 3, device="meta")
        lengths = torch.empty(2, dtype=torch.int64, device="meta")
        for reduction, shape in (("none", (2,)), ("mean", ()), ("sum", ())):
            self.assertEqual(ops.ctc_loss(x, lengths[:, None], lengths, lengths,
                                          reduction=reduction).shape, shape)
        # Shapes that the call with data rejects do not end in an internal error.
        for shape in ((), (3,)):
            self.assertEqual(ops.ctc_loss(torch.empty(shape, device="meta"), lengths, lengths,
                                          lengths, reduction="none").shape, ())

    def test_no_steps_and_empty_targets(self):
        losses = self.loss([1], (0, 0), (0, 1), reduction="none")
        self.assertEqual(losses.tolist(), [0, float("inf")])
        losses.sum().backward()
        self.assertTrue((self.x.grad == 0).all())
        nothing = torch.zeros(0, dtype=torch.int64)
        blanks = -self.x.detach().log_softmax(2)[:, :, 0].sum(0)
        for targets in (nothing, nothing.view(2, 0)):
            torch.testing.assert_close(self.loss(targets, (4, 4), (0, 0), reduction="none"), blanks)
        empty = torch.empty(0, 2, 3)
        self.assertEqual(ops.ctc_loss(empty, nothing, (0, 0), (0, 0), reduction="sum"), 0)
        nobody = torch.empty(4, 0, 3)
        self.assertEqual(ops.ctc_loss(nobody, nothing, (), (), reduction="sum"), 0)
        self.assertTrue(ops.ctc_loss(nobody, nothing, (), ()).isnan())

    def test_no_alignment(self):
        """The other sample's gradient does not suffer, unlike torch's batch."""
        targets = [[1, 1, 1, 1], [1, 2, 1, 2]]
        losses = self.loss(targets, (4, 4), (4, 4), reduction="none")
        self.assertEqual(losses.isinf().tolist(), [True, False])
        losses.sum().backward()
        self.assertTrue((self.x.grad[:, 0] == 0).all())
        self.assertTrue(self.x.grad[:, 1].isfinite().all() and (self.x.grad[:, 1] != 0).any())
        self.assertEqual(self.loss(targets, (4, 4), (4, 4), reduction="none",
                                   zero_infinity=True)[0], 0)

    def test_log_probabilities_that_are_not_normalised(self):
        """The softmax is part of the loss, so a constant per step does not matter."""
        targets = torch.tensor([[1], [2]])
        expected = ops.ctc_loss(self.x, targets, (4, 4), (1, 1))
        torch.testing.assert_close(ops.ctc_loss(self.x + 3, targets, (4, 4), (1, 1)), expected)

    def test_second_derivative_raises(self):
        grad, = torch.autograd.grad(self.loss([[1], [2]]), self.x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "differentiated again"):
            grad.sum().backward()

    def test_narrow_types_and_autocast(self):
        targets, lengths = torch.tensor([[1], [2]]), ((4, 4), (1, 1))
        for dtype in (torch.bfloat16, torch.float16):
            x = self.x.detach().to(dtype).requires_grad_()
            exact = ops.ctc_loss(x.detach().float(), targets, *lengths)
            loss = ops.ctc_loss(x, targets, *lengths)
            self.assertTrue(torch.equal(loss, exact.to(dtype)))
            with torch.autocast("cpu", torch.bfloat16):
                loss = ops.ctc_loss(x, targets, *lengths)
                theirs = functional.ctc_loss(x.float().log_softmax(2), targets, *lengths)
            self.assertEqual(loss.dtype, torch.float32)
            torch.testing.assert_close(loss, theirs)
            loss.backward()
            self.assertEqual(x.grad.dtype, dtype)


class Patched(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.x = torch.randn(6, 2, 5).log_softmax(2).requires_grad_()
        self.arguments = torch.tensor([[1, 2], [3, 3]]), torch.tensor([6, 5]), torch.tensor([2, 2])

    def calls(self, run):
        with torch.profiler.profile() as trace:
            result = run()
        return result, names_in(trace)

    def test_module(self):
        original, module = functional.ctc_loss, nn.CTCLoss(blank=0, zero_infinity=True)
        expected = module(self.x, *self.arguments)
        expected.backward()
        grad, self.x.grad = self.x.grad, None
        with vecdet.torch.patched():
            self.assertIsNot(functional.ctc_loss, original)
            found, calls = self.calls(lambda: module(self.x, *self.arguments))
            found.backward()
        self.assertIs(functional.ctc_loss, original)
        self.assertIn("vecdet::ctc_loss", calls)
        self.assertNotIn("aten::_ctc_loss", calls)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(self.x.grad, grad)

    def test_every_keyword(self):
        options = dict(blank=4, reduction="sum", zero_infinity=True)
        known = inspect.signature(functional.ctc_loss).parameters
        self.assertEqual(list(known)[4:], list(options))
        for chosen in ({}, *({name: value} for name, value in options.items()), options):
            expected = functional.ctc_loss(self.x, *self.arguments, **chosen)
            with vecdet.torch.patched():
                torch.testing.assert_close(
                    functional.ctc_loss(self.x, *self.arguments, **chosen), expected)
        with vecdet.torch.patched():
            torch.testing.assert_close(
                functional.ctc_loss(self.x, *self.arguments, 4, "sum", True), expected)

    def test_what_vecdet_lacks_goes_to_torch(self):
        def newer(log_probs, targets, input_lengths, target_lengths, blank=0, deterministic=False):
            return "torch's"

        function = vecdet.torch._patch._guarded(ops.ctc_loss, newer, True)
        self.assertEqual(function(self.x, *self.arguments, deterministic=True), "torch's")
        self.assertEqual(function(self.x.to("meta"), *self.arguments), "torch's")
        self.assertIsNot(function(self.x, *self.arguments), "torch's")
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(self.x.detach(), torch.ones_like(self.x))
            self.assertEqual(function(dual, *self.arguments), "torch's")


if __name__ == "__main__":
    unittest.main()
