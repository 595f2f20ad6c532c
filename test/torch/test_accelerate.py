# SPDX-License-Identifier: Apache-2.0
"""Accelerated detectors with user-defined parts, against the same detectors of torchvision.
Needs torch, torchvision and vecdet on PYTHONPATH."""

import sys
import unittest
from unittest import mock

try:
    import torch
    import torchvision  # noqa: F401 (the tests below need it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import test_package
import test_two_stage
import vecdet.torch
from test_training import called
from torch import nn
from torchvision.models import detection
from torchvision.models.detection import roi_heads
from torchvision.models.detection._utils import BoxLinearCoder
from vecdet.torch._parts import joined_levels


def part_of(model, path):
    for name in path.split("."):
        model = getattr(model, name)
    return model


def set_part(model, path, part):
    parent, _, name = path.rpartition(".")
    setattr(part_of(model, parent) if parent else model, name, part)


def altered(name, result):
    """A user's method: changes torchvision's result but keeps its form."""
    if isinstance(result, torch.Tensor):
        return result * 1.25 if result.is_floating_point() else result
    if isinstance(result, dict):
        return type(result)((key, altered(name, value)) for key, value in result.items())
    if name in ("forward", "encode") and isinstance(result, (list, tuple)):
        return type(result)(altered(name, value) for value in result)
    return result


# Methods that users must not override: their callers require torchvision's exact form.
_KEPT = ("train", "eval", "state_dict", "eager_outputs", "torch_choice", "has_mask",
         "has_keypoint", "set_cell_anchors", "num_anchors_per_location", "generate_anchors")


def users_class(cls, seen):
    """A subclass whose methods record their calls and return other numbers."""
    methods = {}
    for base in cls.__mro__:
        if base in (nn.Module, object):
            break
        for name, method in vars(base).items():
            if (name in methods or name in _KEPT or not callable(method) or isinstance(method, type)
                    or (name.startswith("_") and name != "__call__")):
                continue

            def call(self, *args, _name=name, _method=method, **kwargs):
                seen.add(_name)
                return altered(_name, _method(self, *args, **kwargs))

            methods[name] = call
    return type("Users" + cls.__name__, (cls,), methods)


ONE_STAGE = ["backbone", "transform", "anchor_generator", "head", "head.classification_head",
             "head.regression_head", "proposal_matcher", "box_coder"]
TWO_STAGES = ["backbone", "transform", "rpn", "rpn.anchor_generator", "rpn.head", "rpn.box_coder",
              "rpn.proposal_matcher", "rpn.fg_bg_sampler", "roi_heads.box_roi_pool",
              "roi_heads.box_head", "roi_heads.box_predictor", "roi_heads.proposal_matcher",
              "roi_heads.fg_bg_sampler", "roi_heads.box_coder", "roi_heads.mask_roi_pool",
              "roi_heads.mask_head", "roi_heads.mask_predictor"]
PARTS = {
    "RetinaNet": ONE_STAGE + ["head.regression_head.box_coder", "head.classification_head.conv",
                              "head.regression_head.conv"],
    "FCOS": [path for path in ONE_STAGE if path != "proposal_matcher"] + ["head.box_coder",
             "head.classification_head.conv"],
    "SSD": ONE_STAGE,
    "MaskRCNN": TWO_STAGES,
    "FasterRCNN": ["roi_heads"],  # masks are pasted by boxes that only torchvision makes
}


class Parts(unittest.TestCase):
    """Every replaceable part of every supported detector."""

    setUp = test_two_stage.TwoStages.setUp

    def model(self, name):
        if name.endswith("RCNN"):
            return test_two_stage.TwoStages.model(getattr(detection, name))
        return test_package.Detectors.models()[name]

    def results(self, model, seen=None):
        """The losses of a step, the detections, and the user's methods that each called."""
        seen = set() if seen is None else seen
        results, calls = [], []
        for training in (True, False):
            seen.clear()
            torch.manual_seed(3)
            model.train(training)
            with torch.set_grad_enabled(training):
                results.append(model(self.images, self.targets) if training
                               else model(self.images))
            calls.append(set(seen))
        return results, calls

    def assert_same(self, found, expected, detections=True):
        for key, loss in expected[0].items():
            torch.testing.assert_close(found[0][key], loss, rtol=1e-4, atol=1e-6)
        if not detections:
            return
        for mine, other in zip(found[1], expected[1]):
            self.assertTrue(torch.equal(mine["labels"], other["labels"]))
            for key in other:
                torch.testing.assert_close(mine[key], other[key], rtol=1e-3, atol=1e-3)

    def check(self, name, change, called_before=None):
        """Compares torchvision's model with accelerated ones, changed before and afterwards. With
        convolutions, detections of nearly equal scores may change places."""
        expected = None
        for order in ("torchvision", "before", "after", "convolutions"):
            model, seen = self.model(name), set()
            if order == "after":
                vecdet.torch.accelerate(model, convolutions=False)
            change(model, seen)
            if order == "before":
                vecdet.torch.accelerate(model, convolutions=False)
            if order == "convolutions":
                vecdet.torch.accelerate(model)
            results, calls = self.results(model, seen)
            if expected is None:
                expected = results, calls
                continue
            with self.subTest(order):
                self.assert_same(results, expected[0], detections=order != "convolutions")
                # Not every method that is called inside, but in both training and evaluation.
                for mine, other in zip(calls, expected[1]):
                    self.assertEqual(bool(mine), bool(other))
        return expected[1]

    def test_of_a_class_of_the_users(self):
        for name, paths in PARTS.items():
            for path in paths:
                def change(model, seen):
                    # A new part from a constructor, unknown to accelerate().
                    part = part_of(self.model(name), path)
                    part.__class__ = users_class(type(part), seen)
                    set_part(model, path, part)

                with self.subTest(model=name, part=path):
                    calls = self.check(name, change)
                    self.assertTrue(calls[0] or calls[1])

    def test_new_parts_of_torchvisions_classes(self):
        """A head for other classes, as users install for fine-tuning."""
        for name, path in (("RetinaNet", "head"), ("RetinaNet", "head.classification_head"),
                           ("RetinaNet", "head.regression_head"), ("FCOS", "head"),
                           ("FCOS", "head.classification_head"), ("SSD", "head"),
                           ("MaskRCNN", "rpn"), ("MaskRCNN", "roi_heads")):
            with self.subTest(model=name, part=path):
                self.check(name, lambda model, seen: set_part(model, path,
                                                              part_of(self.model(name), path)))

    def test_methods_set_in_an_object(self):
        for name, path, method in (
                ("RetinaNet", "head", "compute_loss"), ("RetinaNet", "head", "forward"),
                ("RetinaNet", "head.classification_head", "forward"),
                ("RetinaNet", "head.classification_head", "compute_loss"),
                ("RetinaNet", "head.regression_head", "compute_loss"),
                ("RetinaNet", "box_coder", "decode_single"),
                ("RetinaNet", "head.regression_head.box_coder", "encode_single"),
                ("RetinaNet", "proposal_matcher", "set_low_quality_matches_"),
                ("FCOS", "head", "compute_loss"), ("FCOS", "head", "forward"),
                ("FCOS", "head.classification_head", "forward"), ("FCOS", "box_coder", "decode"),
                ("FCOS", "head.box_coder", "encode"), ("SSD", "box_coder", "encode_single"),
                ("SSD", "box_coder", "decode_single"), ("MaskRCNN", "rpn", "filter_proposals"),
                ("MaskRCNN", "rpn", "compute_loss"), ("MaskRCNN", "rpn.box_coder", "decode_single"),
                ("MaskRCNN", "roi_heads", "postprocess_detections"),
                ("MaskRCNN", "roi_heads.box_coder", "decode_single")):
            def change(model, seen):
                part = part_of(model, path)
                usual = getattr(part, method)

                def users(*args, **kwargs):
                    seen.add(method)
                    return altered(method, usual(*args, **kwargs))

                vars(part)[method] = users

            with self.subTest(model=name, part=path, method=method):
                calls = self.check(name, change)
                self.assertTrue(calls[0] or calls[1])

    def test_losses_replaced_in_torchvisions_module(self):
        def users_loss(logits, deltas, labels, targets):
            return logits.sum() * 0 + 7, deltas.sum() * 0 + 11

        model = vecdet.torch.accelerate(self.model("MaskRCNN")).train()
        with mock.patch.object(roi_heads, "fastrcnn_loss", users_loss), \
                mock.patch.object(roi_heads, "maskrcnn_loss", lambda *args: args[0].sum() * 0 + 13):
            losses = model(self.images, self.targets)
        self.assertEqual([losses[name].item() for name in
                          ("loss_classifier", "loss_box_reg", "loss_mask")], [7, 11, 13])

    def test_linear_coder_of_fcos(self):
        """Distances that are not divided by the anchors' sizes."""

        def change(model, seen):
            model.box_coder = BoxLinearCoder(normalize_by_size=False)
            model.head.box_coder = BoxLinearCoder(normalize_by_size=False)

        self.check("FCOS", change)


class Labels(unittest.TestCase):
    """Labels that no class has."""

    setUp = test_package.Detectors.setUp

    def losses(self, model):
        return {key: loss.item() for key, loss in model.train()(self.images, self.targets).items()}

    def test_negative_labels(self):
        for label in (-1, -2):
            self.targets[0]["labels"] = torch.tensor([label, 5])
            models = test_package.Detectors.models()
            for name in ("RetinaNet", "SSD"):
                with self.subTest(model=name, label=label), \
                        self.assertRaisesRegex(RuntimeError, f"labels.*{label}, expected 0"):
                    self.losses(vecdet.torch.accelerate(models[name]))
            # torchvision's FCOS treats such anchors as background.
            expected = self.losses(models["FCOS"])
            found = self.losses(vecdet.torch.accelerate(models["FCOS"]))
            for key, loss in expected.items():
                self.assertAlmostEqual(found[key], loss, delta=1e-5 * abs(loss))

    def test_ignored_labels_of_ssd(self):
        model = test_package.Detectors.models()["SSD"]
        self.targets[0]["labels"] = torch.tensor([-100, 5])  # cross_entropy's
        expected = self.losses(model)
        for key, loss in self.losses(vecdet.torch.accelerate(model)).items():
            self.assertAlmostEqual(loss, expected[key], delta=1e-5 * abs(expected[key]))


class MinedForeground(unittest.TestCase):
    """SSD with a foreground of more than a quarter of an image's anchors: torchvision's ranking extends
    into the foreground, whose losses then count twice."""

    def test_is_torchvisions(self):
        torch.manual_seed(4)
        model = test_package.Detectors.models()["SSD"]
        anchors, classes = 40, 7
        boxes = test_package.some_boxes(anchors)
        for counts in ((9, 10), (11, 10), (13, 0), (15, 20), (39, 40), (30, 3)):
            matches = [torch.full((anchors,), -1) for _ in counts]
            for per_image, count in zip(matches, counts):
                per_image[torch.randperm(anchors)[:count]] = torch.randint(0, 5, (count,))
            targets = [{"boxes": test_package.some_boxes(5), "labels": torch.randint(1, 7, (5,))}
                       for _ in counts]
            targets[1]["labels"][0] = 0  # a box of the background: torchvision allows it
            results = []
            for _ in range(2):
                logits = torch.randn(2, anchors, classes,
                                     generator=torch.Generator().manual_seed(5)).requires_grad_()
                outputs = {"cls_logits": logits, "bbox_regression": torch.zeros(2, anchors, 4)}
                losses = model.compute_loss(targets, outputs, [boxes] * 2, matches)
                losses["classification"].backward()
                results.append((losses["classification"].detach(), logits.grad))
                vecdet.torch.accelerate(model)
            vecdet.torch.restore(model)
            with self.subTest(foreground=counts):
                for mine, other in zip(results[1], results[0]):
                    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)

    def test_a_model_full_of_foreground(self):
        test_package.Detectors.setUp(self)
        model = test_package.Detectors.models()["SSD"].train()
        model.proposal_matcher.high_threshold = model.proposal_matcher.low_threshold = 0.02
        expected = model(self.images, self.targets)["classification"]
        found = vecdet.torch.accelerate(model)(self.images, self.targets)["classification"]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


class Models(unittest.TestCase):
    setUp = test_package.Detectors.setUp

    def test_detections_in_double(self):
        for name, model in test_package.Detectors.models().items():
            model.double().eval()
            images = [image.double() for image in self.images]
            with self.subTest(model=name), torch.no_grad():
                expected = model(images)
                for mine, other in zip(vecdet.torch.accelerate(model)(images), expected):
                    for key, value in other.items():
                        self.assertEqual(mine[key].dtype, value.dtype)
                        torch.testing.assert_close(mine[key], value)

    def test_levels_in_two_storages(self):
        numbers = torch.arange(24.0).numpy()
        first, second = (torch.from_numpy(part).view(1, 3, 4) for part in (numbers[:12],
                                                                           numbers[12:]))
        self.assertEqual(first.data_ptr() + 48, second.data_ptr())
        self.assertTrue(torch.equal(joined_levels([first, second]), torch.cat([first, second], 1)))
        whole = torch.randn(2, 6, 4)
        joined = joined_levels(list(whole.split([4, 2], 1)))
        self.assertEqual(joined.data_ptr(), whole.data_ptr())
        self.assertTrue(torch.equal(joined, whole))

    def test_scripting(self):
        model = vecdet.torch.accelerate(test_package.Detectors.models()["RetinaNet"])
        for scripted in (model, nn.Sequential(model), model.head):
            with self.assertRaisesRegex(RuntimeError, r"torch.jit.script\(vecdet.torch.restore\(model\)"):
                torch.jit.script(scripted)
        # TorchScript does not support this small model, but it does its head.
        torch.jit.script(vecdet.torch.restore(model).head)

    def test_invalid_boxes_after_the_transform(self):
        """A user's transform may create boxes that torchvision refuses."""
        model = vecdet.torch.accelerate(test_package.Detectors.models()["SSD"]).train()

        class Flattens(type(model.transform)):
            def forward(self, images, targets=None):
                images, targets = super().forward(images, targets)
                targets[1]["boxes"][0, 3] = targets[1]["boxes"][0, 1]
                return images, targets

        model.transform.__class__ = Flattens
        with self.assertRaisesRegex(AssertionError, "positive height and width.*at index 1"):
            model(self.images, self.targets)

    def test_focal_loss_of_own_heads_still_runs_on_vecdet(self):
        model = vecdet.torch.accelerate(test_package.Detectors.models()["RetinaNet"])

        class Own(type(model.head.regression_head)):
            pass

        model.head.regression_head.__class__ = Own
        calls = called(lambda: model.train()(self.images, self.targets))
        self.assertIn("vecdet::sigmoid_focal_loss", calls)
        self.assertIn("vecdet::match_anchors", calls)


if __name__ == "__main__":
    unittest.main()
