# SPDX-License-Identifier: Apache-2.0
"""Constant normalisation folded into convolutions, against torchvision's ResNets. Needs torch,
torchvision and vecdet on PYTHONPATH."""

import copy
import os
import sys
import unittest

# With AMX, PyTorch computes convolutions of bfloat16.
os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch
from torch import nn
from torchvision.models import resnet
from torchvision.ops.misc import FrozenBatchNorm2d
from vecdet.torch import _resnet

BLOCKS = {
    "BasicBlock": lambda norm: resnet.BasicBlock(32, 32, norm_layer=norm),
    "Bottleneck": lambda norm: resnet.Bottleneck(64, 16, norm_layer=norm),
    "groups": lambda norm: resnet.Bottleneck(64, 16, groups=4, base_width=64, norm_layer=norm),
    "downsample": lambda norm: resnet.Bottleneck(
        32, 16, stride=2, norm_layer=norm,
        downsample=nn.Sequential(nn.Conv2d(32, 64, 1, 2, bias=False), norm(64))),
}


def make_block(name, norm):
    block = BLOCKS[name](norm)
    for module in block.modules():
        if isinstance(module, (FrozenBatchNorm2d, nn.BatchNorm2d)):
            for tensor in (module.weight, module.running_var):
                tensor.data.uniform_(0.5, 1.5)
            for tensor in (module.bias, module.running_mean):
                tensor.data.normal_(0, 0.1)
    return block


def operators_of(function):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    return [event.name for event in profile.events()], result


class Folding(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)

    def run_block(self, block, x, autocast=False):
        block.zero_grad()
        x = x.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            y = block(x)
        y.float().square().mean().backward()
        return [y.detach(), x.grad, *(p.grad for p in block.parameters() if p.grad is not None)]

    def compare(self, block, ours, x, tolerance):
        expected, found = self.run_block(block, x), self.run_block(ours, x)
        self.assertEqual(len(found), len(expected))
        for i, (a, b) in enumerate(zip(found, expected)):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            # A unit within rounding of 0 passes a gradient in one computation, none in the other.
            allowed = tolerance if i == 0 else max(tolerance, 3e-3)
            self.assertLessEqual(float((a - b).float().norm()), allowed * float(b.float().norm()))

    def compare_under_autocast(self, block, ours, x):
        """The same types, and errors in bfloat16 of less than three times those without vecdet."""
        exact = self.run_block(copy.deepcopy(block).double(), x.double())
        expected, found = self.run_block(block, x, True), self.run_block(ours, x, True)
        for a, b, e in zip(found, expected, exact):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            self.assertLessEqual(float((a - e).norm()), 3 * float((b - e).norm()))

    def test_frozen(self):
        for name in BLOCKS:
            for layout in (torch.contiguous_format, torch.channels_last):
                block = make_block(name, FrozenBatchNorm2d).to(memory_format=layout)
                ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
                x = torch.randn(2, block.conv1.in_channels, 30, 30).to(memory_format=layout)
                with self.subTest(name, layout=layout):
                    names, _ = operators_of(lambda: ours(x))
                    self.assertNotIn("aten::rsub", names)
                    self.compare(block, ours, x, 1e-5)
                    self.compare_under_autocast(block, ours, x)

    def test_evaluation_mode(self):
        for name in BLOCKS:
            block = make_block(name, nn.BatchNorm2d).eval()
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
            x = torch.randn(2, block.conv1.in_channels, 30, 30)
            with self.subTest(name):
                # The factors have gradients: not folded.
                names, _ = operators_of(lambda: ours(x))
                self.assertIn("aten::batch_norm", names)
                self.compare(block, ours, x, 1e-5)
                for each in (block, ours):
                    for module in each.modules():
                        if isinstance(module, nn.BatchNorm2d):
                            module.requires_grad_(False)
                names, _ = operators_of(lambda: ours(x))
                self.assertNotIn("aten::batch_norm", names)
                self.compare(block, ours, x, 1e-5)

    def test_inference(self):
        """The transforms of 3x3 weights are kept; other convolutions are folded."""
        for name in BLOCKS:
            block = make_block(name, FrozenBatchNorm2d).eval()
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
            x = torch.randn(2, block.conv1.in_channels, 30, 30)
            with self.subTest(name), torch.no_grad():
                expected = block(x)
                for _ in range(2):
                    self.assertLessEqual(float((ours(x) - expected).norm()),
                                         1e-5 * float(expected.norm()))

    def test_training_mode_is_torchs(self):
        for name in BLOCKS:
            block = make_block(name, nn.BatchNorm2d).train()
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
            x = torch.randn(2, block.conv1.in_channels, 30, 30)
            with self.subTest(name):
                self.compare(block, ours, x, 1e-3)
                for a, b in zip(ours.buffers(), block.buffers()):
                    torch.testing.assert_close(a, b)

    def test_changes_count(self):
        """Statistics, factors and weights are read at each call."""
        block = make_block("Bottleneck", FrozenBatchNorm2d)
        ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
        x = torch.randn(2, 64, 30, 30)
        for change in (lambda b: b.bn1.running_var.mul_(2), lambda b: b.bn2.weight.mul_(-1),
                       lambda b: b.bn3.bias.add_(1), lambda b: b.conv1.weight.data.mul_(0.5),
                       lambda b: setattr(b.bn1, "eps", 0.5)):
            for each in (block, ours):
                change(each)
            self.compare(block, ours, x, 1e-5)

    def test_hooks(self):
        block = make_block("Bottleneck", FrozenBatchNorm2d)
        ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(block))
        x, seen = torch.randn(2, 64, 30, 30), []
        for module in (ours.conv1, ours.bn2, ours.relu):
            module.register_forward_hook(lambda module, inputs, output: seen.append(type(module)))
        self.compare(block, ours, x, 1e-5)
        self.assertEqual(len(seen), 5)

    def test_restore(self):
        for name in BLOCKS:
            block = make_block(name, FrozenBatchNorm2d)
            types, keys = [type(m) for m in block.modules()], list(block.state_dict())
            vecdet.torch.accelerate_convolutions(block)
            self.assertIn(type(block), (_resnet.BasicBlock, _resnet.Bottleneck))
            self.assertEqual(list(block.state_dict()), keys)
            vecdet.torch.restore(block)
            self.assertEqual([type(m) for m in block.modules()], types)

    def test_a_backbone(self):
        for returned in ({"bn1": "0", "layer1": "1"}, {"relu": "0"}, {"conv1": "0"},
                         {"layer2": "0"}):
            body = torchvision.models._utils.IntermediateLayerGetter(
                resnet.resnet18(weights=None, norm_layer=FrozenBatchNorm2d), returned)
            ours = vecdet.torch.accelerate_convolutions(copy.deepcopy(body))
            x = torch.randn(1, 3, 70, 66)
            for enabled in (False, True):
                with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                    expected, found = body(x), ours(x)
                self.assertEqual(list(found), list(expected))
                for a, b in zip(found.values(), expected.values()):
                    self.assertEqual(a.dtype, b.dtype)
                    self.assertLessEqual(float((a - b).float().norm()),
                                         (0.05 if enabled else 1e-5) * float(b.float().norm()))

    def test_a_detector(self):
        model = torchvision.models.detection.retinanet_resnet50_fpn(
            weights=None, weights_backbone=None, num_classes=5, min_size=96, max_size=96)
        ours = vecdet.torch.accelerate(copy.deepcopy(model))
        images = [torch.rand(3, 96, 96)]
        targets = [{"boxes": torch.tensor([[10.0, 12, 60, 70]]), "labels": torch.tensor([2])}]
        expected, found = model.train()(images, targets), ours.train()(images, targets)
        for key, loss in expected.items():
            torch.testing.assert_close(found[key], loss, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
