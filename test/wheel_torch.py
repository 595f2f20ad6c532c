# SPDX-License-Identifier: Apache-2.0
"""A training step of torchvision's RetinaNet, before and after vecdet.torch.accelerate(): for
test/wheel.sh, in a root directory with the wheel, PyTorch and torchvision."""

import time

import torch
import torchvision

import vecdet.torch

print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, vecdet.torch "
      f"{vecdet.torch.__version__}")


def step(model):
    """The losses, the sum of the parameters' gradients, and seconds."""
    torch.manual_seed(1)
    images = [torch.rand(3, 200, 240), torch.rand(3, 220, 200)]
    corners = torch.rand(5, 2) * 100
    boxes = torch.cat([corners, corners + 20 + 60 * torch.rand(5, 2)], 1)
    targets = [{"boxes": boxes, "labels": torch.arange(1, 6)} for _ in images]
    model.zero_grad()
    start = time.perf_counter()
    losses = model(images, targets)
    sum(losses.values()).backward()
    seconds = time.perf_counter() - start
    grad = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    return {name: loss.item() for name, loss in losses.items()}, grad.norm(), seconds


torch.manual_seed(0)
model = torchvision.models.detection.retinanet_resnet50_fpn(
    weights=None, weights_backbone=None, num_classes=20, min_size=256, max_size=320).train()
for module in model.modules():  # as in training from a backbone with weights
    if isinstance(module, torch.nn.BatchNorm2d):
        module.eval()
expected, norm, theirs = step(model)
for convolutions, tolerance in (False, 1e-5), (True, 1e-4):
    vecdet.torch.accelerate(model, convolutions=convolutions)
    vecdet.torch.profile.reset()
    vecdet.torch.profile.enable()
    found, found_norm, ours = step(model)
    vecdet.torch.profile.disable()
    vecdet.torch.restore(model)
    computed = {row["name"].split("/")[0] for row in vecdet.torch.profile.rows()}
    assert any("loss" in name for name in computed), computed
    assert any("conv3x3" in name for name in computed) == convolutions, computed
    for name, loss in expected.items():
        assert abs(found[name] - loss) <= tolerance * abs(loss), (convolutions, name, found, loss)
    assert abs(found_norm - norm) <= 1e-3 * norm, (convolutions, found_norm, norm)
    print(f"convolutions={convolutions}: losses within {tolerance} of torchvision's; a step takes "
          f"{ours:.2f} s, torchvision's {theirs:.2f} s")
