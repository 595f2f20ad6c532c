# SPDX-License-Identifier: Apache-2.0
"""Compares the rules that choose between vecdet and PyTorch with a table. The test of
vecdet-profile compares its copy of the rules with the same table. Needs torch, torchvision and
vecdet on PYTHONPATH."""

import pathlib
import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from torch import nn
from vecdet.torch import _convolutions, _normalization

TABLE = pathlib.Path(__file__).parent.parent / "data" / "torch_rules.txt"
FORMATS = {"nchw": torch.contiguous_format, "nhwc": torch.channels_last}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def convolution(inputs, outputs, groups, stride, layout, locations):
    layer = nn.Conv2d(int(inputs), int(outputs), 3, int(stride), padding=1, groups=int(groups))
    if _convolutions.is_3x3(layer):
        return "conv3x3"
    width = int(locations) * int(stride)
    maps = torch.empty(1, int(inputs), 1, width, memory_format=FORMATS[layout])
    return "grouped_conv3x3" if _convolutions._fits_grouped(layer, maps) else "pytorch"


def normalisation(images, channels, height, width, layout, type, activation):
    layer = nn.BatchNorm2d(int(channels))
    maps = torch.empty(int(images), int(channels), int(height), int(width), dtype=TYPES[type],
                       memory_format=FORMATS[layout])
    return "batch_norm" if _normalization._fits(layer, maps, activation) else "pytorch"


class Rules(unittest.TestCase):
    def test_table(self):
        rows = [line.split() for line in TABLE.read_text().splitlines()
                if line and not line.startswith("#")]
        self.assertGreater(len(rows), 40)
        for kind, *layer, expected in rows:
            with self.subTest(kind=kind, layer=layer):
                rule = {"conv": convolution, "batch_norm": normalisation}[kind]
                self.assertEqual(rule(*layer), expected)


if __name__ == "__main__":
    unittest.main()
