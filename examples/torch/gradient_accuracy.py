# SPDX-License-Identifier: Apache-2.0
"""Compares the gradients of a Mask R-CNN-ResNet18, in float32, with those in float64: with PyTorch's 3x3 convolutions,
with vecdet's, with vecdet's outputs, input gradients or weight gradients alone, and with PyTorch's on outputs that were
multiplied by 1 + 1e-6 x normal noise. Each runs once with the proposals that it samples itself, and once with those of
the computation in float64. Prints, for several random networks and pictures, the norm of the gradients' difference,
relative to the norm of all gradients.

    PYTHONPATH=<build tree>/python python3 gradient_accuracy.py [size] [--networks N]
"""

import argparse
import copy
import functools

import torch
import vecdet.torch
from torchvision.models import detection
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone


def make_model(size):
    backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=5)
    return detection.MaskRCNN(backbone, 91, min_size=size, max_size=size, rpn_post_nms_top_n_train=200,
                              box_batch_size_per_image=32)


def is_replaced(module):
    return isinstance(module, torch.nn.Conv2d) and module.kernel_size == (3, 3) and module.stride == (1, 1)


def add_noise(model):
    """Multiplies the outputs of the convolutions that vecdet replaces by 1 + 1e-6 x normal noise."""
    generator = torch.Generator().manual_seed(2)

    def noisy(module, inputs, output):
        return output * (1 + 1e-6 * torch.randn(output.shape, generator=generator))

    for module in model.modules():
        if is_replaced(module):
            module.register_forward_hook(noisy)
    return model


class MixedConvolution(torch.autograd.Function):
    """A 3x3 convolution whose output, input gradient and weight gradient are each PyTorch's or vecdet's."""

    @staticmethod
    def forward(context, inputs, weight, functions):
        context.save_for_backward(inputs, weight)
        context.functions = functions
        return functions["output"](inputs, weight)

    @staticmethod
    def backward(context, upstream):
        saved = [tensor.detach().requires_grad_() for tensor in context.saved_tensors]
        grads = []
        for tensor, name in zip(saved, ("input gradient", "weight gradient")):
            with torch.enable_grad():
                output = context.functions[name](*saved)
            grads += torch.autograd.grad(output, [tensor], upstream)
        return *grads, None


def replace_only(part):
    """A change of a model: vecdet computes this part of its 3x3 convolutions, PyTorch the others."""
    functions = dict.fromkeys(("output", "input gradient", "weight gradient"),
                              functools.partial(torch.nn.functional.conv2d, padding=1))
    functions[part] = vecdet.torch.ops.conv3x3

    def change(model):
        for module in model.modules():
            if is_replaced(module):
                def forward(inputs, module=module):
                    output = MixedConvolution.apply(inputs, module.weight, functions)
                    return output if module.bias is None else output + module.bias[:, None, None]

                module.forward = forward
        return model

    return change


def gradients(model, image, target, dtype=torch.float32, samples=None):
    """The gradients of a training step, and the proposals that it samples. `samples`: take these instead."""
    def cast(tensors):
        return [x.to(dtype) if x.is_floating_point() else x for x in tensors]

    model = model.to(dtype).train()
    select, kept = model.roi_heads.select_training_samples, []

    def select_samples(proposals, targets):
        kept.extend(select(proposals, targets) if samples is None else samples)
        return tuple(cast(tensors) for tensors in kept)

    model.roi_heads.select_training_samples = select_samples
    torch.manual_seed(0)  # of the samples
    losses = model(cast([image]), [dict(zip(target, cast(target.values())))])
    sum(losses.values()).backward()
    return torch.cat([p.grad.double().flatten() for p in model.parameters()]), kept


CHANGES = {
    "PyTorch": lambda model: model,
    "vecdet's convolutions": vecdet.torch.accelerate_convolutions,
    "vecdet's outputs": replace_only("output"),
    "vecdet's input gradients": replace_only("input gradient"),
    "vecdet's weight gradients": replace_only("weight gradient"),
    "PyTorch, with noise": add_noise,
}


def errors_of_network(seed, size):
    torch.manual_seed(seed)
    model, image = make_model(size), torch.rand(3, size, size)
    boxes = torch.tensor([[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]) * size
    masks = torch.zeros(2, size, size, dtype=torch.uint8)
    masks[:, size // 4:size // 2, size // 3:size // 2] = 1
    target = {"boxes": boxes, "labels": torch.tensor([3, 17]), "masks": masks}
    exact, samples = gradients(copy.deepcopy(model), image, target, torch.float64)
    for name, change in CHANGES.items():
        errors = [float((gradients(change(copy.deepcopy(model)), image, target, samples=chosen)[0] - exact).norm()
                        / exact.norm()) for chosen in (None, samples)]
        print(f"network {seed}: {name:25} own samples {errors[0]:.1e}  the same samples {errors[1]:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("size", nargs="?", type=int, default=64)
    parser.add_argument("--networks", type=int, default=3)
    options = parser.parse_args()
    for seed in range(options.networks):
        errors_of_network(seed, options.size)


if __name__ == "__main__":
    main()
