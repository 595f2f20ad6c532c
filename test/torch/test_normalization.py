# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation, against torch. Needs torch, torchvision and vecdet on PYTHONPATH."""

import copy
import gc
import pickle
import sys
import unittest
import weakref
from unittest import mock

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
from torchvision.models import feature_extraction
from vecdet.torch import _normalization

FORMATS = (torch.contiguous_format, torch.channels_last)
ACTIVATIONS = {"none": lambda x: x, "relu": functional.relu, "silu": functional.silu}
OURS = "vecdet::_batch_norm"
INFERENCE = "vecdet::batch_norm_inference"


def operators_of(function):
    """The torch operators that function() calls, and its result."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    # On the stable ABI, functions in Python call the operators with an underscore.
    return [event.name.replace("vecdet::_batch_norm_inference", INFERENCE)
            for event in profile.events()], result


def some_map(layout=torch.contiguous_format, dtype=torch.float32, shape=(3, 19, 11, 13)):
    means = 2 * torch.randn(1, shape[1], 1, 1)
    return (torch.randn(shape) + means).to(dtype).to(memory_format=layout)


def parameters(channels=19, dtype=torch.float32):
    return [torch.randn(channels).to(dtype).requires_grad_() for _ in range(2)]


def copied(x):
    return x.detach().clone(memory_format=torch.preserve_format).requires_grad_()


class Conv(nn.Module):
    """ultralytics' Conv, by its form."""

    def __init__(self, inputs, outputs, act=None):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)
        self.act = nn.SiLU(inplace=True) if act is None else act

    def forward(self, x):
        """Convolution, normalisation, activation."""
        return self.act(self.bn(self.conv(x)))


class ConvTwice(Conv):
    def forward(self, x):
        return self.act(self.bn(self.conv(self.conv(x))))


class NamedConv(Conv):
    def forward(self, inputs):
        return self.act(self.bn(self.conv(inputs)))


class ScaledConv(Conv):
    def forward(self, x, scale=None):
        return self.act(self.bn(self.conv(x)))


class Normalization(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def assert_near(self, found, exact, dtype, factor=1.0):
        unit = {torch.bfloat16: 2 ** -8, torch.float32: 4e-6, torch.float64: 1e-12}[dtype]
        self.assertEqual(found.shape, exact.shape)
        error = (found.double() - exact.double()).abs()
        self.assertLessEqual(float((error - unit * exact.abs()).max()), factor * (
            unit if dtype != torch.bfloat16 else 1e-5) * max(1, float(exact.abs().mean())))

    def test_outputs_gradients_and_running_statistics(self):
        for layout in FORMATS:
            for dtype in (torch.float32, torch.float64, torch.bfloat16):
                for name, activation in ACTIVATIONS.items():
                    with self.subTest(layout=layout, dtype=dtype, activation=name):
                        real = torch.float64 if dtype == torch.float64 else torch.float32
                        x, weights = some_map(layout, dtype).requires_grad_(), parameters(dtype=real)
                        exact = [copied(x.double()), *(copied(each.double()) for each in weights)]
                        running = [torch.randn(19).to(real), torch.rand(19).to(real)]
                        expected_running = [each.double() for each in running]
                        found = vecdet.torch.ops.batch_norm(x, *running, *weights, True, 0.2, 1e-3, name)
                        expected = activation(functional.batch_norm(
                            exact[0], *expected_running, *exact[1:], True, 0.2, 1e-3))
                        self.assertEqual(found.dtype, dtype)
                        self.assertTrue(found.is_contiguous(memory_format=layout))
                        self.assert_near(found, expected, dtype)
                        for a, b in zip(running, expected_running):
                            self.assert_near(a, b, real)
                        upstream = torch.randn(found.shape).to(dtype)
                        found.backward(upstream)
                        expected.backward(upstream.double())
                        self.assertTrue(x.grad.is_contiguous(memory_format=layout))
                        self.assertEqual(x.grad.dtype, dtype)
                        self.assert_near(x.grad, exact[0].grad, dtype)
                        for a, b in zip(weights, exact[1:]):
                            self.assertEqual(a.grad.dtype, real)
                            self.assert_near(a.grad, b.grad, real, 10)

    def test_inference(self):
        running = [torch.randn(19), torch.rand(19)]
        weights = [each.detach() for each in parameters()]
        for layout in FORMATS:
            for dtype in (torch.float32, torch.bfloat16):
                for name, activation in ACTIVATIONS.items():
                    x = some_map(layout, dtype)
                    found = vecdet.torch.ops.batch_norm(x, *running, *weights, activation=name)
                    expected = activation(functional.batch_norm(
                        x.double(), *(each.double() for each in (*running, *weights))))
                    self.assertTrue(found.is_contiguous(memory_format=layout))
                    self.assert_near(found, expected, dtype)

    def test_left_out_and_narrow_parameters(self):
        x = some_map(dtype=torch.bfloat16)
        exact = functional.batch_norm(x.double(), None, None, training=True)
        self.assert_near(vecdet.torch.ops.batch_norm(x, None, None, training=True), exact,
                         torch.bfloat16)
        weight, bias = parameters(dtype=torch.bfloat16)
        for only in ({"weight": weight}, {"bias": bias}):
            leaf = copied(x)
            y = vecdet.torch.ops.batch_norm(leaf, None, None, training=True, **only)
            y.float().square().sum().backward()
            for each in only.values():
                self.assertEqual(each.grad.dtype, torch.bfloat16)
                exact = copied(each.double())
                functional.batch_norm(x.double(), None, None, training=True,
                                      **dict.fromkeys(only, exact)).square().sum().backward()
                self.assertLess(float((each.grad - exact.grad).abs().max()),
                                0.01 * float(exact.grad.abs().max()))

    def test_half(self):
        x = some_map(dtype=torch.float16)
        found = vecdet.torch.ops.batch_norm(x, None, None, training=True, activation="silu")
        self.assertEqual(found.dtype, torch.float16)
        exact = functional.silu(functional.batch_norm(x.float(), None, None, training=True))
        self.assertLess(float((found.float() - exact).abs().max()), 5e-3)

    def test_same_bits_for_any_number_of_threads(self):
        threads, results = torch.get_num_threads(), []
        x, weights = some_map(shape=(2, 40, 60, 61)), parameters(40)
        try:
            for count in (1, 2, 3):
                torch.set_num_threads(count)
                leaf = copied(x)
                y = vecdet.torch.ops.batch_norm(leaf, None, None, *weights, training=True, activation="silu")
                grads = torch.autograd.grad(y.square().sum(), [leaf, *weights])
                results.append((y, *grads))
        finally:
            torch.set_num_threads(threads)
        for other in results[1:]:
            for a, b in zip(other, results[0]):
                self.assertTrue(torch.equal(a, b))

    def test_a_gradient_is_differentiated_again(self):
        for name, activation in ACTIVATIONS.items():
            with self.subTest(activation=name):
                x = some_map(dtype=torch.float64, shape=(2, 3, 4, 5)).requires_grad_()
                weights = parameters(3, torch.float64)

                def second(function):
                    grads = torch.autograd.grad(function().pow(3).sum(), [x, *weights],
                                                create_graph=True)
                    return (*grads, *torch.autograd.grad(sum(g.square().sum() for g in grads),
                                                         [x, *weights]))

                ours = second(lambda: vecdet.torch.ops.batch_norm(
                    x, None, None, *weights, training=True, activation=name))
                theirs = second(lambda: activation(functional.batch_norm(
                    x, None, None, *weights, training=True)))
                for a, b in zip(ours, theirs):
                    torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)

    def test_a_large_mean_takes_no_digits_of_a_gradient(self):
        x = (some_map() + 1e6).requires_grad_()
        exact, upstream = copied(x.double()), torch.randn(x.shape)
        functional.batch_norm(exact, None, None, training=True).backward(upstream.double())
        for create_graph in (False, True):
            y = vecdet.torch.ops.batch_norm(x, None, None, training=True)
            found, = torch.autograd.grad(y, x, upstream, create_graph=create_graph)
            torch.testing.assert_close(found.double(), exact.grad, rtol=0, atol=1e-5)

    def test_only_what_needs_a_gradient_has_one(self):
        x, (weight, bias) = some_map(), parameters()
        for needed in range(1, 8):
            leaves = [copied(each).requires_grad_(bool(needed >> k & 1))
                      for k, each in enumerate((x, weight, bias))]
            y = vecdet.torch.ops.batch_norm(leaves[0], None, None, *leaves[1:], training=True)
            y.square().sum().backward()
            self.assertEqual([each.grad is not None for each in leaves],
                             [each.requires_grad for each in leaves])

    def test_meta(self):
        for layout in FORMATS:
            x = some_map(layout)
            y, statistics = torch.ops.vecdet.batch_norm(x.to("meta"))
            self.assertEqual((y.shape, statistics.shape), (x.shape, (2, 19)))
            self.assertEqual(statistics.dtype, torch.float64)
            self.assertTrue(y.is_contiguous(memory_format=layout))

    def test_errors(self):
        x, norm = some_map(), vecdet.torch.ops.batch_norm
        for call, text in (
            (lambda: norm(x[0], None, None, training=True), "batch_norm: input.shape"),
            (lambda: norm(x.long(), None, None, training=True), "batch_norm: input.dtype"),
            (lambda: norm(x, None, None, torch.ones(3), training=True), "batch_norm: weight.shape"),
            (lambda: norm(x, None, None, None, torch.ones(3), training=True), "batch_norm: bias.shape"),
            (lambda: norm(x[:1, :, :1, :1], None, None, training=True),
             "images . height . width of input is 1, expected 2 or more"),
            (lambda: norm(x, None, None), "batch_norm: running_mean or running_var is None"),
            (lambda: norm(x, torch.ones(3), torch.ones(3)),
             r"batch_norm: running_mean.shape is \[3\], expected \[19\]"),
            (lambda: norm(x, torch.ones(19), torch.ones(3)), "batch_norm: running_var.shape"),
            (lambda: norm(x, torch.ones(1, 19), None, training=True),
             r"running_mean.shape is \[1, 19\]"),
            (lambda: norm(x, torch.ones(19).long(), torch.ones(19), training=True),
             "running_mean.dtype is torch.int64"),
            (lambda: norm(x[0], torch.ones(19), torch.ones(19)),
             "batch_norm_inference: input.shape"),
            (lambda: torch.ops.vecdet.batch_norm_inference(x[0].to("meta"), torch.ones(2, 19)),
             "batch_norm_inference: input.shape"),
            (lambda: norm(x, None, None, 1j * torch.ones(19), training=True),
             "batch_norm: weight.dtype"),
            (lambda: norm(x, None, None, None, torch.ones(19).long(), training=True),
             "batch_norm: bias.dtype"),
            (lambda: torch.ops.vecdet.batch_norm_inference(x, torch.ones(2, 19).long()),
             "batch_norm_inference: statistics.dtype"),
            (lambda: norm(x, None, None, training=True, eps=-1.0), "params.epsilon is -1"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "activation"):
            norm(x, None, None, training=True, activation="gelu")

    def test_an_error_leaves_the_running_statistics(self):
        running_mean = torch.zeros(19)
        with self.assertRaisesRegex(RuntimeError, "running_var.shape"):
            vecdet.torch.ops.batch_norm(some_map(), running_mean, torch.ones(3), training=True)
        self.assertFalse(running_mean.any())

    def test_no_channels(self):
        nothing = torch.ones(0)
        y = vecdet.torch.ops.batch_norm(some_map()[:, :0], nothing, nothing, training=True)
        self.assertEqual(y.shape, (3, 0, 11, 13))


class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)
        # Small maps suffice here; Choice tests the rule.
        patch = mock.patch.object(_normalization, "_is_faster", lambda *_: True)
        patch.start()
        self.addCleanup(patch.stop)

    def networks(self):
        """Networks whose ReLU and SiLU all follow a normalisation."""
        misc = torchvision.ops.misc
        own = getattr(misc, "Conv2dNormActivation", None) or misc.ConvNormActivation
        return {
            "sequential": nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(True),
                                        nn.Sequential(nn.BatchNorm2d(16, momentum=None), nn.SiLU())),
            "torchvision": nn.Sequential(own(3, 16, 3), own(16, 16, 1, activation_layer=nn.SiLU)),
            "ultralytics": nn.Sequential(Conv(3, 16), Conv(16, 8, nn.ReLU()), Conv(8, 8, nn.Identity())),
            "plain": nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.GELU(),
                                   nn.BatchNorm2d(3, track_running_stats=False)),
        }

    def compare_steps(self, net, ours, layout):
        """Three steps of training, then evaluation."""
        for step in range(3):
            x = some_map(layout, shape=(2, 3, 12, 14))
            net.zero_grad()
            ours.zero_grad()
            expected = net(x)
            names, y = operators_of(lambda: ours(x))
            self.assertEqual(names.count(OURS),
                             sum(type(m) is _normalization.BatchNorm2d for m in ours.modules()))
            activations = sum(name in ("aten::relu", "aten::relu_", "aten::silu", "aten::silu_")
                              for name in names)
            self.assertEqual(activations, 0)
            torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)
            if not y.requires_grad:
                continue
            upstream = torch.randn_like(y)
            y.backward(upstream)
            expected.backward(upstream)
            for (name, a), (_, b) in zip(ours.named_parameters(), net.named_parameters()):
                torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3, msg=name)
            for (name, a), (_, b) in zip(ours.state_dict().items(), net.state_dict().items()):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, msg=name)
        for model in (net, ours):
            model.eval()
        names, y = operators_of(lambda: ours(x))
        self.assertEqual(names.count(OURS), sum(
            getattr(m, "track_running_stats", True) is False for m in ours.modules()))
        torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-4)
        with torch.no_grad():
            names, y = operators_of(lambda: ours(x))
            torch.testing.assert_close(y, net(x), rtol=1e-4, atol=1e-4)

    def test_training_and_evaluation(self):
        for layout in FORMATS:
            for name, net in self.networks().items():
                with self.subTest(network=name, layout=layout):
                    ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
                    self.compare_steps(net, ours, layout)

    def test_evaluation_is_ours_without_a_gradient(self):
        net = vecdet.torch.accelerate_convolutions(nn.Sequential(nn.BatchNorm2d(3), nn.SiLU())).eval()
        x = some_map(shape=(2, 3, 5, 6))
        with torch.no_grad():
            names, y = operators_of(lambda: net(x))
        self.assertIn(INFERENCE, names)
        names, other = operators_of(lambda: net(x))
        self.assertNotIn(INFERENCE, names)
        torch.testing.assert_close(y, other.detach())

    def test_restore(self):
        for net in self.networks().values():
            types, keys = [type(m) for m in net.modules()], list(net.state_dict())
            vecdet.torch.accelerate_convolutions(net)
            self.assertNotEqual([type(m) for m in net.modules()], types)
            self.assertEqual(list(net.state_dict()), keys)
            vecdet.torch.accelerate_convolutions(net)
            vecdet.torch.restore(net)
            self.assertEqual([type(m) for m in net.modules()], types)

    def test_copies_and_pickles(self):
        x = some_map(shape=(2, 3, 12, 14))
        for name, net in self.networks().items():
            ours = vecdet.torch.accelerate_convolutions(net)
            for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
                with self.subTest(network=name):
                    self.assertEqual([type(m) for m in other.modules()], [type(m) for m in ours.modules()])
                    before = [b.clone() for b in ours.buffers()]
                    y = other(x)
                    for a, b in zip(ours.buffers(), before):  # the copy has buffers of its own
                        self.assertTrue(torch.equal(a, b))
                    other.load_state_dict(ours.state_dict())
                    self.assertTrue(torch.equal(copy.deepcopy(ours)(x), y))

    def test_hooks_see_each_module(self):
        for make in (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.SiLU()), lambda: Conv(3, 3)):
            net, seen = vecdet.torch.accelerate_convolutions(make()), []
            for module in net.children():
                if not isinstance(module, nn.Conv2d):
                    module.register_forward_hook(lambda module, inputs, output: seen.append(type(module).__name__))
            net(some_map(shape=(2, 3, 5, 6)))
            self.assertEqual(seen, ["BatchNorm2d", "SiLU"])

    def test_parts_that_users_change(self):
        x = some_map(shape=(2, 3, 5, 6))
        net = vecdet.torch.accelerate_convolutions(Conv(3, 3))
        net.bn = nn.Identity()
        names, y = operators_of(lambda: net(x))
        self.assertNotIn(OURS, names)
        net.bn = nn.BatchNorm2d(3)
        torch.testing.assert_close(net(x), functional.silu(copy.deepcopy(net.bn)(net.conv(x))))
        net = vecdet.torch.accelerate_convolutions(nn.Sequential(nn.BatchNorm2d(3), nn.ReLU()))
        net[1].forward = lambda x: x
        self.assertLess(float(net(x).min()), 0)
        twice = ConvTwice(3, 3)
        vecdet.torch.accelerate_convolutions(twice)
        self.assertIs(type(twice), ConvTwice)

    def test_scripted_and_traced_parts(self):
        x, part = some_map(shape=(2, 3, 5, 6)), nn.Conv2d(4, 3, 1)
        for compiled in (torch.jit.script(part), torch.jit.trace(part, torch.ones(1, 4, 2, 2))):
            net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), compiled)
            expected = net(x)
            names, y = operators_of(lambda: vecdet.torch.accelerate_convolutions(net)(x))
            self.assertIn(OURS, names)
            torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-4)

    def test_the_form_includes_the_arguments(self):
        x = some_map(shape=(2, 3, 5, 6))
        for kind, call in ((Conv, lambda net: net(x=x)), (NamedConv, lambda net: net(inputs=x)),
                           (ScaledConv, lambda net: net(x, None))):
            with self.subTest(kind=kind.__name__):
                net = kind(3, 3)
                expected = call(copy.deepcopy(net))
                vecdet.torch.accelerate_convolutions(net)
                torch.testing.assert_close(call(net), expected, rtol=1e-4, atol=1e-4)

    def test_other_normalisation_leaves_the_form_alone(self):
        net = Conv(4, 4)
        net.bn = nn.GroupNorm(2, 4)
        vecdet.torch.accelerate_convolutions(net)
        self.assertIs(type(net), Conv)
        self.assertNotIn("forward", vars(net))

    def test_scripting_is_refused(self):
        net = Conv(3, 3)
        vecdet.torch.accelerate_convolutions(net)
        with self.assertRaisesRegex(RuntimeError, "an accelerated model cannot be scripted"):
            torch.jit.script(net)

    def test_replicas_and_shallow_copies_have_their_own_parts(self):
        x, net = some_map(shape=(2, 3, 5, 6)), vecdet.torch.accelerate_convolutions(Conv(3, 3))
        for make in (lambda: net._replicate_for_data_parallel(), lambda: copy.copy(net)):
            other = make()
            vars(other)["_modules"] = {"conv": net.conv, "bn": nn.Identity(), "act": nn.Identity()}
            self.assertIsInstance(other, Conv)
            self.assertTrue(torch.equal(other(x), net.conv(x)))

    def test_models_are_freed_at_once(self):
        for kind in (Conv, lambda *sizes: nn.Sequential(nn.BatchNorm2d(3), nn.SiLU())):
            net = vecdet.torch.accelerate_convolutions(kind(3, 3))
            net(some_map(shape=(2, 3, 5, 6)))
            freed = weakref.ref(net)
            gc.disable()
            try:
                del net
                self.assertIsNone(freed())
            finally:
                gc.enable()

    def test_symbolic_tracing(self):
        """A normalisation is a leaf of torch.fx's graph, as without vecdet."""
        x = some_map(shape=(2, 3, 12, 14))
        for name, net in self.networks().items():
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
            last = feature_extraction.get_graph_node_names(ours)[0][-1]
            for trace in (torch.fx.symbolic_trace,
                          lambda net: feature_extraction.create_feature_extractor(net, [last])):
                with self.subTest(network=name):
                    expected_net, traced = copy.deepcopy(net), trace(copy.deepcopy(ours))
                    norms = sum(type(m) is nn.BatchNorm2d for m in net.modules())
                    for _ in range(2):
                        names, y = operators_of(lambda: traced(x))
                        self.assertEqual(names.count(OURS), norms)
                        y = y[last] if isinstance(y, dict) else y
                        torch.testing.assert_close(y, expected_net(x), rtol=1e-4, atol=1e-4)
                    expected = expected_net.state_dict()
                    for key, found in traced.state_dict().items():
                        torch.testing.assert_close(found, expected[key], rtol=1e-4, atol=1e-4)

    def test_epsilons_that_only_torch_takes(self):
        x = some_map(shape=(2, 3, 5, 6))
        for eps in (-1e-9, float("inf")):
            net = nn.BatchNorm2d(3, eps=eps)
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
            try:
                expected = net(x)
            except ValueError:  # PyTorch 2.14 takes no negative ones
                self.assertRaises(ValueError, ours, x)
                continue
            torch.testing.assert_close(ours(x), expected)
            self.assertEqual(int(ours.num_batches_tracked), 1)

    def test_what_torch_computes(self):
        norm = vecdet.torch.accelerate_convolutions(nn.BatchNorm2d(4))
        for bad, error in ((torch.randn(1, 4, 1, 1), ValueError), (torch.randn(2, 3, 4, 4), RuntimeError),
                           (torch.randn(4, 4), ValueError)):
            with self.assertRaises(error):
                norm(bad)
        x = torch.randn(2, 4, 5, 6)
        strided = torch.randn(2, 5, 6, 4)[:, :, ::2].permute(0, 3, 1, 2)
        names, _ = operators_of(lambda: norm(strided))
        self.assertNotIn(OURS, names)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            names, _ = operators_of(lambda: norm.eval()(dual))
            self.assertNotIn(INFERENCE, names)

    def test_frozen_parameters_and_no_gradient(self):
        net = vecdet.torch.accelerate_convolutions(nn.Sequential(nn.BatchNorm2d(3), nn.SiLU()))
        for parameter in net.parameters():
            parameter.requires_grad_(False)
        x = some_map(shape=(2, 3, 5, 6))
        self.assertFalse(net(x).requires_grad)
        leaf = copied(x)
        net(leaf).sum().backward()
        self.assertIsNone(net[0].weight.grad)
        self.assertIsNotNone(leaf.grad)

    def test_autocast_keeps_the_type(self):
        net = nn.Sequential(nn.BatchNorm2d(4), nn.SiLU())
        ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(net))
        for dtype in (torch.float32, torch.bfloat16):
            x = some_map(dtype=dtype, shape=(2, 4, 20, 21))
            with torch.autocast("cpu", torch.bfloat16):
                names, y = operators_of(lambda: ours(x))
                self.assertIn(OURS, names)
                self.assertEqual(y.dtype, net(x).dtype)


class Choice(unittest.TestCase):
    """Who computes, by the rule of docs/pytorch.md."""

    def test_size_type_layout_and_activation(self):
        plain, last = FORMATS
        narrow, wide = torch.bfloat16, torch.float32
        million = (2, 32, 128, 128)  # 2 ** 20 numbers
        less, quarter = (2, 32, 128, 127), (1, 16, 128, 128)
        activations = {"none": None, "relu": nn.ReLU(), "silu": nn.SiLU()}
        for activation, shape, layout, dtype, trains, is_ours in (
            ("none", quarter, plain, wide, True, True), ("none", (1, 16, 128, 127), plain, wide, True, False),
            ("silu", quarter, plain, wide, True, True), ("silu", quarter, plain, wide, False, False),
            ("silu", quarter, plain, narrow, True, False), ("silu", quarter, last, wide, True, False),
            ("silu", million, plain, wide, False, True), ("silu", less, plain, wide, False, False),
            ("silu", million, plain, narrow, True, True), ("silu", million, last, narrow, True, True),
            ("silu", less, last, wide, True, False), ("silu", million, last, wide, True, True),
            ("relu", million, last, wide, True, False), ("relu", (4, 32, 128, 128), last, wide, True, True),
            ("none", (4, 32, 128, 128), last, wide, True, False),
            ("none", (4, 32, 128, 128), plain, wide, False, False),
            ("silu", (4, 15, 256, 128), last, wide, True, False), ("silu", (4, 16, 256, 128), last, wide, True, True),
            ("silu", million, plain, torch.float64, True, False),
        ):
            with self.subTest(activation=activation, shape=shape, layout=layout, dtype=dtype, trains=trains):
                after = activations[activation]
                net = nn.Sequential(nn.BatchNorm2d(shape[1]), *([] if after is None else [after]))
                net = vecdet.torch.accelerate_convolutions(net).train(trains)
                if dtype == torch.float64:
                    net = net.double()
                with torch.no_grad():
                    names, _ = operators_of(lambda: net(torch.zeros(shape, dtype=dtype).to(memory_format=layout)))
                self.assertEqual(any(name in (OURS, INFERENCE) for name in names), is_ours)


if __name__ == "__main__":
    unittest.main()
