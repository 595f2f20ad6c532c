# SPDX-License-Identifier: Apache-2.0
"""Writes a small ONNX model with the inputs and outputs of an exported YOLOv8, and a picture for it. They stand in for
a trained model, whose licence may not permit a copy here.

    stand_in.py <model>.onnx <picture>.png

The model finds squares of 64 pixels, red ones (class 0) and blue ones (class 1), at multiples of 8 pixels. Needs onnx,
NumPy and Pillow.
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image, ImageDraw

SIDE, SQUARE, STRIDE = 640, 64, 8
CELLS = (SIDE - SQUARE) // STRIDE + 1  # positions of a square along each axis
# x1, y1, x2, y2 and class in a picture of 640 x 480, which YOLO's letterbox moves down by 80 pixels.
OBJECTS = [(48, 40, 112, 104, 0), (320, 160, 384, 224, 1), (400, 328, 464, 392, 0), (528, 64, 592, 128, 1)]


def write_model(path):
    """A pixel is 1 for its class if it is pure red or blue. The mean over a window is the window's share of such
    pixels, and a steep logistic function of it the score."""
    pick = np.float32([[1, -1, -1], [-1, -1, 1]]).reshape(2, 3, 1, 1)
    low = STRIDE * np.arange(CELLS, dtype=np.float32) + SQUARE / 2
    boxes = np.stack([np.tile(low, CELLS), np.repeat(low, CELLS), *np.full((2, CELLS**2), SQUARE, np.float32)])
    constants = {"pick": pick, "boxes": boxes[None].astype(np.float32), "steepness": np.float32(40),
                 "middle": np.float32(-36), "shape": np.int64([1, 2, CELLS**2])}
    nodes = [
        helper.make_node("Conv", ["images", "pick"], ["coloured"], kernel_shape=[1, 1]),  # OpenCV needs the attribute
        helper.make_node("Relu", ["coloured"], ["pixels"]),
        helper.make_node("AveragePool", ["pixels"], ["shares"], kernel_shape=[SQUARE] * 2, strides=[STRIDE] * 2),
        helper.make_node("Mul", ["shares", "steepness"], ["scaled"]),
        helper.make_node("Add", ["scaled", "middle"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["maps"]),
        helper.make_node("Reshape", ["maps", "shape"], ["scores"]),
        helper.make_node("Concat", ["boxes", "scores"], ["output0"], axis=1),
    ]
    model = helper.make_model(
        helper.make_graph(
            nodes, "squares",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
            [helper.make_tensor_value_info("output0", TensorProto.FLOAT, [1, 6, CELLS**2])],
            [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]),
        ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(model, {"names": str({0: "red", 1: "blue"})})  # as ultralytics exports class names
    onnx.save(model, path)


def write_picture(path):
    image = Image.new("RGB", (640, 480), (70, 90, 70))
    draw = ImageDraw.Draw(image)
    for x1, y1, x2, y2, label in OBJECTS:
        draw.rectangle((x1, y1, x2 - 1, y2 - 1), fill=((255, 0, 0), (0, 0, 255))[label])
    image.save(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_model(sys.argv[1])
    write_picture(sys.argv[2])
