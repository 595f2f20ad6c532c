# SPDX-License-Identifier: Apache-2.0
"""Masks as tensors: those of the NumPy functions, bit for bit, and torchvision's pasted masks."""
import copy
import functools
import unittest
from unittest import mock

import numpy as np
import test_two_stage
import torch
import vecdet
import vecdet.torch
from torchvision.models import detection
from torchvision.models.detection import roi_heads, transform
from torchvision.ops import boxes as box_ops
from vecdet.torch import ops


def tolerance(side):
    """PyTorch computes positions between locations in float. In each direction, up to three
    roundings change a position in a map of `side` locations by (side + 2) * 2^-24 each. In a
    checkerboard, numbers change as much as positions."""
    return 2.0**-19 + 6 * (side + 2) * 2.0**-24


def some_boxes(count, height, width):
    corners = torch.rand(count, 2, 2) * torch.tensor([width, height]) * 1.4 - 0.2 * width
    boxes = torch.cat([corners.amin(1), corners.amax(1) + 1], 1)
    return boxes


def inside(boxes, height, width):
    """Boxes within the picture, with which torchvision does not fail."""
    limits = torch.tensor([width, height, width, height]) - 3.0
    boxes = torch.minimum(boxes.clamp(min=1), limits)
    boxes[:, 2:] = torch.maximum(boxes[:, 2:], boxes[:, :2] + 1)
    return boxes


class Masks(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(4)

    def same(self, found, expected):
        for mine, other in zip(found[:3], expected[:3]):
            np.testing.assert_array_equal(mine.numpy(), other)
        self.assertEqual(found.kind, expected.kind)
        self.assertGreater(len(expected.pixels), 0)

    def test_masks_from_prototypes(self):
        prototypes, coefficients = torch.randn(2, 7, 20, 30), torch.randn(9, 7)
        boxes, sizes = some_boxes(9, 80, 120), [(80, 120), (66, 120)]
        for pixels in ("bits", "bytes"):
            for rule in ("native", "upsampled", "cropped"):
                with self.subTest(pixels=pixels, rule=rule):
                    found = ops.masks_from_prototypes(
                        prototypes, [coefficients[:4], coefficients[4:]], [boxes[:4], boxes[4:]],
                        sizes, rule=rule, pixels=pixels)
                    expected = vecdet.masks_from_prototypes(
                        prototypes, coefficients, boxes, sizes, [0, 4, 9], rule=rule,
                        pixels=pixels)
                    self.same(found, expected)
                    np.testing.assert_array_equal(found.full(80, 120).numpy(),
                                                  expected.full(80, 120))
                    for index in (0, 3, -1):
                        np.testing.assert_array_equal(found.rectangle(index).numpy(),
                                                      expected.rectangle(index))
        # One image; a strided matrix of coefficients; float16 is computed in float32.
        single = ops.masks_from_prototypes(prototypes[:1], torch.cat([coefficients] * 2, 1)[:, :7],
                                           boxes, (80, 120))
        self.same(single, vecdet.masks_from_prototypes(prototypes[0], coefficients, boxes,
                                                       (80, 120)))
        half = ops.masks_from_prototypes(prototypes[:1].half(), coefficients, boxes, (80, 120))
        self.same(half, vecdet.masks_from_prototypes(prototypes[0].half().float(), coefficients,
                                                     boxes, (80, 120)))
        narrow = ops.masks_from_prototypes(prototypes[:1].bfloat16(), coefficients, boxes,
                                           (80, 120))
        self.same(narrow, vecdet.masks_from_prototypes(prototypes[0].bfloat16().float(),
                                                       coefficients, boxes, (80, 120)))
        none = ops.masks_from_prototypes(prototypes[:1], torch.zeros(0, 7), torch.zeros(0, 4),
                                         (80, 120))
        self.assertEqual([len(part) for part in none[:3]], [0, 1, 0])
        self.assertEqual(none.full(3, 4).shape, (0, 3, 4))

    def test_paste_masks(self):
        maps, boxes = torch.rand(8, 1, 14, 14), some_boxes(8, 60, 90)
        for pixels in ("bits", "bytes"):
            found = ops.paste_masks(maps, [boxes[:3], boxes[3:]], [(60, 90), (50, 70)],
                                    threshold=0.4, pixels=pixels)
            self.same(found, vecdet.paste_masks(maps, boxes, [(60, 90), (50, 70)], [0, 3, 8],
                                                threshold=0.4, pixels=pixels))
        soft = ops.paste_soft_masks(maps, boxes, (60, 90))
        np.testing.assert_array_equal(soft[:, 0].numpy(),
                                      vecdet.paste_soft_masks(maps, boxes, (60, 90)))
        full = ops.paste_masks(maps, boxes, (60, 90)).full(60, 90)
        differ = full != (soft[:, 0] > 0.5)
        self.assertLess((soft[:, 0][differ] - 0.5).abs().sum().item(), 1e-5)
        self.assertEqual(ops.paste_soft_masks(maps[:0], boxes[:0], (6, 9)).shape, (0, 1, 6, 9))

    def test_torchvisions_masks(self):
        for height, width, side in ((60, 90, 28), (200, 131, 14), (33, 40, 1)):
            with self.subTest(side=side):
                maps = torch.rand(20, 1, side, side)
                boxes = inside(some_boxes(20, height, width), height, width)
                expected = roi_heads.paste_masks_in_image(maps, boxes, (height, width))
                found = ops.paste_soft_masks(maps, boxes, (height, width))
                self.assertEqual(found.dtype, expected.dtype)
                self.assertEqual(found.shape, expected.shape)
                self.assertLess((found - expected).abs().max().item(), tolerance(side))
                with vecdet.torch.patched():
                    self.assertTrue(torch.equal(found, roi_heads.paste_masks_in_image(
                        maps, boxes, (height, width))))
                    self.assertTrue(torch.equal(found, transform.paste_masks_in_image(
                        maps, boxes, (height, width))))
                full = ops.paste_masks(maps, boxes, (height, width)).full(height, width)
                differ = full != (expected[:, 0] > 0.5)
                self.assertLess((expected[:, 0][differ] - 0.5).abs().sum().item(), 1e-4)

    def test_checkerboards(self):
        """The maps whose numbers change most with the position."""
        for side in (28, 56):
            board = (torch.arange(side)[:, None] + torch.arange(side)) % 2
            worst = 0
            for length in (100, 337, 755, 868, 869, 910, 951, 952, 953):
                box = torch.tensor([[10.0, 10, 10 + length * side / (side + 2), 20]])
                maps = board[None, None].float()
                expected = roi_heads.paste_masks_in_image(maps, box, (40, 1000))
                found = ops.paste_soft_masks(maps, box, (40, 1000))
                worst = max(worst, (found - expected).abs().max().item())
            self.assertLess(worst, tolerance(side))

    def test_forms(self):
        """Maps without a channel, and sizes in an array."""
        maps, boxes = torch.rand(4, 1, 9, 9), some_boxes(4, 30, 40)
        sizes, lists = [(30, 40), (25, 20)], [boxes[:1], boxes[1:]]
        expected = ops.paste_masks(maps, lists, sizes)
        for own in (np.array(sizes), torch.tensor(sizes)):
            found = ops.paste_masks(maps[:, 0], lists, own)
            for mine, other in zip(found[:3], expected[:3]):
                self.assertTrue(torch.equal(mine, other))
        self.assertTrue(torch.equal(ops.paste_soft_masks(maps[:, 0], boxes, (30, 40)),
                                    ops.paste_soft_masks(maps, boxes, (30, 40))))

    def test_what_patched_leaves_to_torchvision(self):
        maps, boxes = torch.rand(3, 1, 14, 14), inside(some_boxes(3, 30, 40), 30, 40)
        cases = {
            "padding": lambda paste: paste(maps, boxes, (30, 40), padding=2),
            "float64": lambda paste: paste(maps.double(), boxes.double(), (30, 40)),
            "not square": lambda paste: paste(maps[..., :9], boxes, (30, 40)),
            "gradient": lambda paste: paste(maps.clone().requires_grad_(), boxes, (30, 40)),
        }
        for name, call in cases.items():
            with self.subTest(name):
                expected = call(roi_heads.paste_masks_in_image)
                with vecdet.torch.patched():
                    found = call(roi_heads.paste_masks_in_image)
                self.assertTrue(torch.equal(found, expected))
                self.assertEqual(found.requires_grad, name == "gradient")

    def test_errors(self):
        maps, boxes, given = torch.rand(3, 1, 4, 4), some_boxes(3, 9, 9), torch.rand(1, 5, 6, 6)
        for call, text in (
                (lambda: ops.paste_masks(maps[:2], boxes, (9, 9)), r"maps.images\(\) is 2"),
                (lambda: ops.paste_masks(maps, boxes[0], (9, 9)), r"boxes.shape is \[4\]"),
                (lambda: ops.paste_masks(maps.double(), boxes, (9, 9)), "maps.dtype is Double"),
                (lambda: ops.paste_masks(maps[0, 0], boxes, (9, 9)), "maps.shape is"),
                (lambda: ops.paste_masks(maps, boxes, (9, 9, 9)), r"sizes.size\(\) is 3"),
                (lambda: ops.paste_masks(maps, boxes, (9, -1)), "sizes.0. is -1"),
                (lambda: ops.paste_masks(maps, boxes, (9, 9), threshold=np.inf), "threshold is inf"),
                (lambda: ops.paste_soft_masks(maps, boxes, (9,)), r"size.size\(\) is 1"),
                (lambda: ops.paste_soft_masks(maps, boxes, (9, -1)), "size is -1"),
                (lambda: ops.paste_soft_masks(maps.repeat(1, 2, 1, 1), boxes, (9, 9)),
                 r"maps.channels\(\) is 2"),
                (lambda: ops.paste_soft_masks(maps, [boxes], (9, 9)), "boxes is a list, expected"),
                (lambda: ops.masks_from_prototypes(
                    given.repeat(2, 1, 1, 1), [torch.rand(1, 5), torch.rand(2, 5)],
                    [boxes[:2], boxes[2:]], (9, 9)),
                 r"lengths of coefficients are \[1, 2\], expected \[2, 1\], those of boxes"),
                (lambda: ops.masks_from_prototypes(given.repeat(2, 1, 1, 1), torch.rand(3, 5),
                                                   boxes, (9, 9)),
                 "boxes is one tensor, expected a list of 2 tensors, one per image"),
                (lambda: ops.masks_from_prototypes(given, torch.rand(2, 5), boxes, (9, 9)),
                 "coefficients.shape is"),
                (lambda: ops.masks_from_prototypes(given, torch.rand(3, 4), boxes, (9, 9)),
                 r"coefficients.cols\(\) is 4"),
                (lambda: ops.masks_from_prototypes(given[0], torch.rand(3, 5), boxes, (9, 9)),
                 "prototypes.shape is")):
            with self.subTest(text), self.assertRaisesRegex(RuntimeError, text):
                call()
        with self.assertRaisesRegex(ValueError, "Invalid value for argument 'pixels': 'own'"):
            ops.paste_masks(maps, boxes, (9, 9), pixels="own")
        with self.assertRaisesRegex(ValueError, "Invalid value for argument 'rule': 'own'"):
            ops.masks_from_prototypes(given, torch.rand(3, 5), boxes, (9, 9), rule="own")


class MaskRCNN(unittest.TestCase):
    """accelerate() in Mask R-CNN."""

    setUp = test_two_stage.TwoStages.setUp

    def test_masks(self):
        """From the same boxes and logits, the masks are torchvision's."""
        model = test_two_stage.TwoStages.model().eval()
        logits, labels = torch.randn(7, 5, 28, 28), [torch.tensor([1, 4, 0]), torch.arange(4)]
        boxes = [inside(some_boxes(3, 60, 80), 60, 80), inside(some_boxes(4, 64, 64), 64, 64)]

        def masks():
            probabilities = type(model.roi_heads).forward.__globals__["maskrcnn_inference"](
                logits, labels)
            result = [{"boxes": own, "masks": each} for own, each in zip(boxes, probabilities)]
            found = model.transform.postprocess(result, [(60, 80), (64, 64)],
                                                [(120, 140), (64, 64)])
            return [each["masks"] for each in found]

        expected = masks()
        vecdet.torch.accelerate(model)
        calls = test_two_stage.called(masks)
        self.assertIn("vecdet::paste_soft_masks", calls)
        for mine, other in zip(masks(), expected):
            self.assertEqual(mine.shape, other.shape)
            self.assertEqual(mine.dtype, other.dtype)
            self.assertLess((mine - other).abs().max().item(), tolerance(28))
        # Users' functions count.
        with mock.patch.object(transform, "paste_masks_in_image", lambda *args: args[0] * 0 + 13):
            self.assertTrue(all((each == 13).all() for each in masks()))

        @functools.wraps(transform.paste_masks_in_image)
        def users(*args):
            return args[0] * 0 + 14

        with mock.patch.object(transform, "paste_masks_in_image", users):
            self.assertTrue(all((each == 14).all() for each in masks()))
        with mock.patch.object(transform, "resize_boxes", lambda boxes, old, new: boxes * 0 + 5):
            self.assertEqual([each.count_nonzero() < 10 for each in masks()], [True, True])
        with vecdet.torch.patched():
            self.assertIn("vecdet::paste_soft_masks", test_two_stage.called(masks))
            wrapper = functools.wraps(transform.paste_masks_in_image)(users)
            with mock.patch.object(transform, "paste_masks_in_image", wrapper):
                self.assertTrue(all((each == 14).all() for each in masks()))
        with mock.patch.object(roi_heads, "maskrcnn_inference",
                               lambda x, labels: [x[:3, :1] * 0, x[3:, :1] * 0]):
            self.assertFalse(any(each.any() for each in masks()))
        vecdet.torch.restore(model)
        self.assertNotIn("vecdet::paste_soft_masks", test_two_stage.called(masks))
        for mine, other in zip(masks(), expected):
            self.assertTrue(torch.equal(mine, other))

    def test_other_transforms(self):
        """Models without masks keep torchvision's transform, and names replaced in its module
        count."""
        model = vecdet.torch.accelerate(test_two_stage.TwoStages.model(detection.KeypointRCNN))
        self.assertIs(type(model.transform), transform.GeneralizedRCNNTransform)
        with torch.no_grad(), mock.patch.object(transform, "resize_boxes",
                                                lambda boxes, old, new: boxes * 0 + 5):
            found = model.eval()(self.images)
        self.assertTrue(all((each["boxes"] == 5).all() for each in found))

    def test_box_similarity_of_users(self):
        model = vecdet.torch.accelerate(test_two_stage.TwoStages.model()).train()
        calls = []

        @functools.wraps(box_ops.box_iou)
        def users(*boxes):
            calls.append(boxes)
            return theirs(*boxes)

        theirs, model.rpn.box_similarity = model.rpn.box_similarity, users
        model(self.images, self.targets)
        self.assertGreater(len(calls), 0)

    def test_what_runs(self):
        model = vecdet.torch.accelerate(test_two_stage.TwoStages.model()).eval()
        with torch.no_grad():
            self.assertIn("vecdet::paste_soft_masks",
                          test_two_stage.called(lambda: model(self.images)))
        # Masks with a gradient are torchvision's.
        found = model(self.images)
        self.assertTrue(found[0]["masks"].requires_grad)
        found[0]["masks"].sum().backward()
        self.assertGreater(model.roi_heads.mask_predictor.mask_fcn_logits.weight.grad.abs().sum(),
                           0)
        self.assertIs(type(copy.deepcopy(model).transform), type(model.transform))
        model.train()
        self.assertIn("loss_mask", model(self.images, self.targets))


if __name__ == "__main__":
    unittest.main()
