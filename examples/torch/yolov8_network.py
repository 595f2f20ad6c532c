# SPDX-License-Identifier: Apache-2.0
"""A network with the layers and sizes of YOLOv8-s, with random weights, to time: backbone, pyramid and head for 80
classes. Its outputs are the head's maps, without decoding and losses."""

import torch
from torch import nn


def block(inputs, outputs, size=3, stride=1):
    """A convolution without bias, batch normalisation and SiLU."""
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
                         nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03), nn.SiLU(inplace=True))


class Bottleneck(nn.Module):
    def __init__(self, channels, adds):
        super().__init__()
        self.blocks, self.adds = nn.Sequential(block(channels, channels), block(channels, channels)), adds

    def forward(self, x):
        return x + self.blocks(x) if self.adds else self.blocks(x)


class Stage(nn.Module):
    """Bottlenecks on half of the channels, whose inputs and outputs are all joined."""

    def __init__(self, inputs, outputs, count, adds):
        super().__init__()
        half = outputs // 2
        self.first, self.last = block(inputs, outputs, 1), block((2 + count) * half, outputs, 1)
        self.bottlenecks = nn.ModuleList(Bottleneck(half, adds) for _ in range(count))

    def forward(self, x):
        parts = list(self.first(x).chunk(2, 1))
        for bottleneck in self.bottlenecks:
            parts.append(bottleneck(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pooling(nn.Module):
    """The maxima of 5 x 5, 9 x 9 and 13 x 13 locations, joined."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.last = block(channels, channels // 2, 1), block(2 * channels, channels, 1)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class YOLOv8s(nn.Module):
    def __init__(self, classes=80):
        super().__init__()
        self.fine = nn.Sequential(block(3, 32, 3, 2), block(32, 64, 3, 2), Stage(64, 64, 1, True),
                                  block(64, 128, 3, 2), Stage(128, 128, 2, True))
        self.middle = nn.Sequential(block(128, 256, 3, 2), Stage(256, 256, 2, True))
        self.coarse = nn.Sequential(block(256, 512, 3, 2), Stage(512, 512, 1, True), Pooling(512))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.to_middle, self.to_fine = Stage(768, 256, 1, False), Stage(384, 128, 1, False)
        self.down_to_middle, self.from_fine = block(128, 128, 3, 2), Stage(384, 256, 1, False)
        self.down_to_coarse, self.from_middle = block(256, 256, 3, 2), Stage(768, 512, 1, False)
        self.boxes = nn.ModuleList(self.branch(channels, 64, 64) for channels in (128, 256, 512))
        self.classes = nn.ModuleList(self.branch(channels, 128, classes) for channels in (128, 256, 512))

    @staticmethod
    def branch(inputs, width, outputs):
        return nn.Sequential(block(inputs, width), block(width, width), nn.Conv2d(width, outputs, 1))

    def forward(self, x):
        """Six maps: those of the boxes' distributions and of the classes' logits, at strides 8, 16 and 32."""
        fine = self.fine(x)
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        middle = self.to_middle(torch.cat([self.up(coarse), middle], 1))
        fine = self.to_fine(torch.cat([self.up(middle), fine], 1))
        middle = self.from_fine(torch.cat([self.down_to_middle(fine), middle], 1))
        coarse = self.from_middle(torch.cat([self.down_to_coarse(middle), coarse], 1))
        levels = (fine, middle, coarse)
        return [branch(level) for branches in (self.boxes, self.classes) for branch, level in zip(branches, levels)]
