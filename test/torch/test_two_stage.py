# SPDX-License-Identifier: Apache-2.0
"""Two-stage detectors against torchvision: RoIAlign, proposals, detections, samples, and accelerated
Faster and Mask R-CNN. Needs torch, torchvision and vecdet on PYTHONPATH."""

import contextlib
import copy
import pickle
import sys
import unittest
from collections import OrderedDict

try:
    import torch
    import torchvision
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import test_package
import vecdet.torch
from test_package import some_boxes
from test_training import called
from torchvision import ops as theirs
from torchvision.models import detection
from torchvision.models.detection import faster_rcnn, keypoint_rcnn, mask_rcnn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from vecdet.torch import ops as ours


def value_and_grad(function, inputs, weight):
    """The result, and its gradient with respect to the given tensor or tensors."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    result = function(*leaves)
    return result.detach(), torch.autograd.grad((result * weight).sum(), leaves)


class RoIAlign(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.boxes = [some_boxes(6), some_boxes(0), some_boxes(5)]

    def assert_same(self, ours_of, theirs_of, inputs):
        weight = torch.rand_like(theirs_of(*inputs))
        (mine, grads), (other, expected) = (value_and_grad(f, inputs, weight)
                                            for f in (ours_of, theirs_of))
        self.assertEqual(mine.dtype, other.dtype)
        # torchvision rounds positions to float, which a large coordinate shows.
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
        for grad, other_grad, features in zip(grads, expected, inputs):
            torch.testing.assert_close(grad, other_grad, rtol=1e-4, atol=1e-4)
            self.assertEqual(grad.stride(), features.stride())

    def test_is_torchvisions(self):
        rois = torch.cat([torch.cat([torch.full((len(b), 1), float(i)), b], 1)
                          for i, b in enumerate(self.boxes)])
        for layout in (torch.contiguous_format, torch.channels_last):
            features = torch.randn(3, 8, 15, 20).to(memory_format=layout)
            for boxes in (self.boxes, rois):
                for size in (7, (3, 5)):
                    for options in ((0.15, 2), (0.15, 2, True), (0.2,), (0.2, -1, True)):
                        self.assert_same(lambda x: ours.roi_align(x, boxes, size, *options),
                                         lambda x: theirs.roi_align(x, boxes, size, *options),
                                         [features])

    def test_pyramids(self):
        corner = torch.rand(60, 2) * 100
        boxes = torch.cat([corner, corner + torch.rand(60, 2) * 500 + 10], 1)
        per_image = [boxes[:20], boxes[20:]]
        shapes = [(620, 640), (640, 600)]
        for names, layout in ((("0", "1", "2", "3"), torch.channels_last),
                              (("0", "1", "2", "3"), torch.contiguous_format),
                              (("1",), torch.contiguous_format)):
            levels = [torch.randn(2, 4, 160 >> k, 160 >> k).to(memory_format=layout)
                      for k in range(5)]

            used = [levels[int(name)] for name in names]

            def pool_with(kind):
                module = kind(list(names), 7, 2)
                return lambda *x: module(OrderedDict(zip(names, x), pool=levels[4]), per_image,
                                         shapes)

            self.assert_same(pool_with(ours.MultiScaleRoIAlign),
                             pool_with(theirs.MultiScaleRoIAlign), used)
        module = ours.MultiScaleRoIAlign(["0"], 7, sampling_ratio=2, canonical_level=5)
        self.assertEqual(repr(module), repr(theirs.MultiScaleRoIAlign(["0"], 7, 2)))
        # A pyramid that leaves out a level goes to torchvision.
        module = ours.MultiScaleRoIAlign(["0", "2"], 7, 2)
        features = {"0": levels[0], "2": levels[2]}
        self.assertFalse(any("vecdet" in name for name in called(
            lambda: module(features, per_image, shapes))))

    def test_errors(self):
        features = torch.randn(2, 3, 8, 8)
        with self.assertRaisesRegex(RuntimeError, "roi_align: boxes requires a gradient"):
            ours.roi_align(features, [b.clone().requires_grad_() for b in self.boxes[:2]], 2)
        for image in (-1.0, 2.0, float("nan"), float("inf"), 1e30):
            with self.assertRaisesRegex(RuntimeError, r"roi_align: boxes.images\[0\] is .*0 to 1"):
                ours.roi_align(features, torch.tensor([[image, 1, 1, 5, 5]]), 2)
        with self.assertRaisesRegex(RuntimeError, r"box_counts.size\(\) is 3, expected [0-9]+, the number"):
            ours.roi_align(features, self.boxes, 2)
        with self.assertRaisesRegex(RuntimeError, r"box_counts.size\(\) is 0, expected [0-9]+, the number"):
            ours.roi_align(features, self.boxes[0], 2)

    def test_empty_lists(self):
        features, sizes = torch.randn(1, 3, 8, 8), [(64, 64)]
        for name, arguments, said in (
                ("roi_align", (features, [], 2), "boxes is an empty list"),
                ("multiscale_roi_align", ([features], [], 2, [1.0]), "boxes is an empty list"),
                ("multiscale_roi_align", ([], self.boxes, 2, [1.0]), "1 or more levels"),
                ("rpn_postprocess", ([], [], self.boxes[0], sizes), r"logits.size\(\) is 0"),
                ("postprocess_box_head", (torch.rand(6, 2), torch.rand(6, 8), [], sizes),
                 "proposals is an empty list"),
                ("sample_balanced", ([],), "labels is an empty list")):
            with self.assertRaisesRegex(RuntimeError, f"vecdet::{name}: .*{said}"):
                getattr(ours, name)(*arguments)

    def test_without_gradients(self):
        features = torch.randn(3, 3, 8, 8, requires_grad=True)
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assertFalse(ours.roi_align(features, self.boxes, 2).requires_grad)

    def test_features_may_change_before_backward(self):
        features = torch.randn(3, 3, 8, 8, requires_grad=True)
        doubled = features * 2
        out = ours.roi_align(doubled, self.boxes, 2)
        doubled.zero_()
        out.sum().backward()

    def test_trace_and_script(self):
        features, rois = torch.randn(1, 3, 8, 8), torch.tensor([[0.0, 1, 1, 5, 6]])

        def pool(x, b):
            return torch.ops.vecdet.roi_align(x, b, [2, 3], 0.5, 2)

        for compiled in (torch.jit.trace(pool, (features, rois)), torch.jit.script(pool)):
            self.assertTrue(torch.equal(compiled(features, rois), pool(features, rois)))

    def test_patched(self):
        features = torch.randn(3, 3, 8, 8)
        with vecdet.torch.patched():
            calls = called(lambda: torchvision.ops.poolers.roi_align(features, self.boxes, 2))
            self.assertIn("vecdet::multiscale_roi_align", calls)
            # torchvision's error says nothing about boxes with a gradient.
            calls = called(lambda: torchvision.ops.roi_align(
                features, [b.clone().requires_grad_() for b in self.boxes], 2))
            self.assertNotIn("vecdet::multiscale_roi_align", calls)


class Samples(unittest.TestCase):
    def test_shares(self):
        labels = torch.randint(-2, 3, (2, 500), generator=torch.Generator().manual_seed(1))
        chosen = ours.sample_balanced(list(labels), 64, 0.25, seed=3)
        for each, (positives, negatives) in zip(labels, chosen):
            self.assertEqual((len(positives), len(negatives)), (16, 48))
            self.assertTrue(bool((each[positives] >= 0).all()))
            self.assertTrue(bool((each[negatives] == -1).all()))
        again = ours.sample_balanced(list(labels), 64, 0.25, seed=3)
        self.assertTrue(torch.equal(chosen[1][0], again[1][0]))
        drawn = []
        for seed in (5, 5, 6):
            torch.manual_seed(seed)
            drawn.append(ours.sample_balanced(labels[0], 64)[0][1])
        self.assertTrue(torch.equal(drawn[0], drawn[1]))
        self.assertFalse(torch.equal(drawn[0], drawn[2]))

    def test_few_labels(self):
        (positives, negatives), = ours.sample_balanced(torch.tensor([-1, 0, -2]), seed=0)
        self.assertEqual((positives.tolist(), negatives.tolist()), ([1], [0]))


class FPN(torch.nn.Module):
    """The smallest backbone with levels that halve."""

    out_channels = 16

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 16, 8, stride=8)
        self.second = torch.nn.Conv2d(16, 16, 2, stride=2)

    def forward(self, x):
        first = self.first(x).relu()
        return OrderedDict([("0", first), ("1", self.second(first).relu())])


class TwoStages(unittest.TestCase):
    """Small models whose weights produce proposals and detections with different scores."""

    @classmethod
    def model(cls, kind=detection.MaskRCNN, **options):
        torch.manual_seed(1)
        anchors = AnchorGenerator(((16,), (32,)), ((0.5, 1.0, 2.0),) * 2)
        pool, large_pool = (torchvision.ops.MultiScaleRoIAlign(["0", "1"], size, 2)
                            for size in (7, 14))
        if kind is detection.MaskRCNN:
            options.update(mask_roi_pool=large_pool,
                           mask_head=mask_rcnn.MaskRCNNHeads(16, (16,), 1),
                           mask_predictor=mask_rcnn.MaskRCNNPredictor(16, 16, 7))
        if kind is detection.KeypointRCNN:
            options.update(keypoint_roi_pool=large_pool,
                           keypoint_head=keypoint_rcnn.KeypointRCNNHeads(16, (16,)),
                           keypoint_predictor=keypoint_rcnn.KeypointRCNNPredictor(16, 17))
        model = kind(FPN(), rpn_anchor_generator=anchors, box_roi_pool=pool,
                     box_head=faster_rcnn.TwoMLPHead(16 * 7 * 7, 64),
                     box_predictor=faster_rcnn.FastRCNNPredictor(64, 7), min_size=64, max_size=80,
                     rpn_pre_nms_top_n_train=150, rpn_post_nms_top_n_train=60,
                     rpn_pre_nms_top_n_test=100, rpn_post_nms_top_n_test=40,
                     rpn_batch_size_per_image=32, box_batch_size_per_image=24, **options)
        for name, weight in model.named_parameters():
            if name.endswith("weight") and ("rpn.head" in name or "predictor" in name):
                torch.nn.init.normal_(weight, std=0.1 if "rpn" in name else 0.03)
        return model

    def setUp(self):
        torch.manual_seed(2)
        self.images = [torch.rand(3, 60, 75), torch.rand(3, 64, 64)]
        self.targets = [
            {"boxes": torch.tensor([[5.0, 10, 30, 45], [35, 15, 70, 55]]),
             "labels": torch.tensor([3, 5]),
             "masks": (torch.rand(2, 60, 75) > 0.5).to(torch.uint8),
             "keypoints": torch.tensor([15.0, 20, 1]).repeat(2, 17, 1)},
            {"boxes": torch.tensor([[5.0, 5, 60, 50]]), "labels": torch.tensor([1]),
             "masks": (torch.rand(1, 64, 64) > 0.5).to(torch.uint8),
             "keypoints": torch.tensor([15.0, 20, 1]).repeat(1, 17, 1)},
        ]

    def step(self, model, images, targets):
        torch.manual_seed(3)  # of the samples
        return test_package.Detectors.step(self, model, images, targets)

    def assert_same_step(self, model, images, targets):
        losses, grads = self.step(model, images, targets)
        vecdet.torch.accelerate(model)
        fast_losses, fast_grads = self.step(model, images, targets)
        vecdet.torch.restore(model)
        self.assertEqual(losses.keys(), fast_losses.keys())
        for name, loss in losses.items():
            torch.testing.assert_close(fast_losses[name], loss, rtol=1e-5, atol=1e-7)
        largest = max(grad.abs().max().item() for grad in grads.values())
        for name, grad in grads.items():
            torch.testing.assert_close(fast_grads[name], grad, rtol=1e-4, atol=1e-5 * largest)

    def assert_same_detections(self, model, images):
        model.eval()
        with torch.no_grad():
            expected = model(images)
            found = vecdet.torch.accelerate(model)(images)
        vecdet.torch.restore(model)
        for mine, other in zip(found, expected):
            self.assertGreater(len(other["boxes"]), 0)
            self.assertEqual(mine.keys(), other.keys())
            self.assertTrue(torch.equal(mine["labels"], other["labels"]))
            for name in set(mine) - {"labels"}:
                torch.testing.assert_close(mine[name], other[name], rtol=1e-4, atol=1e-3)

    def test_same_losses_and_detections(self):
        nothing = [{"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64),
                    "masks": torch.zeros(0, 60, 75, dtype=torch.uint8)}]
        for kind in (detection.FasterRCNN, detection.MaskRCNN):
            model = self.model(kind)
            for layout in (torch.contiguous_format, torch.channels_last):
                model = model.to(memory_format=layout)
                steps = [(self.images, self.targets), (self.images[:1], self.targets[:1])]
                # PyTorch 1.13 does not support a convolution of zero masks in channels last.
                if kind is detection.FasterRCNN or layout is torch.contiguous_format:
                    steps.append((self.images[:1], nothing))
                for images, targets in steps:
                    with self.subTest(model=kind.__name__, layout=layout, images=len(images),
                                      boxes=len(targets[0]["boxes"])):
                        self.assert_same_step(model, images, targets)
                self.assert_same_detections(model, self.images)

    def test_keypoints(self):
        model = self.model(detection.KeypointRCNN)
        self.assert_same_step(model, self.images, self.targets)
        self.assert_same_detections(model, self.images)

    def test_what_runs(self):
        model = vecdet.torch.accelerate(self.model())
        calls = called(lambda: self.step(model, self.images, self.targets))
        for name in ("rpn_postprocess", "match_anchors", "sigmoid_focal_loss_levels",
                     "regression_loss", "multiscale_roi_align", "softmax_cross_entropy_loss",
                     "smooth_l1_loss"):
            self.assertIn(f"vecdet::{name}", calls)
        for name in ("torchvision::roi_align", "torchvision::nms"):
            self.assertNotIn(name, calls)
        model.eval()
        for surroundings in (contextlib.nullcontext(), vecdet.torch.patched()):
            with torch.no_grad(), surroundings:
                calls = called(lambda: model(self.images))
            self.assertIn("vecdet::rpn_postprocess", calls)
            self.assertIn("vecdet::postprocess_box_head", calls)
            self.assertNotIn("torchvision::nms", calls)

    def test_matches_and_samples_are_torchvisions(self):
        """The samplers' inputs and draws are identical."""
        seen = []

        class Watched(detection._utils.BalancedPositiveNegativeSampler):
            def __call__(self, labels):
                chosen = super().__call__(labels)
                seen.append([tensor.long() for tensors in (labels, *chosen) for tensor in tensors])
                return chosen

        model = self.model(detection.FasterRCNN)
        model.rpn.fg_bg_sampler = Watched(32, 0.5)
        model.roi_heads.fg_bg_sampler = Watched(24, 0.25)
        self.step(model, self.images, self.targets)
        self.step(vecdet.torch.accelerate(model), self.images, self.targets)
        self.assertEqual(len(seen), 4)
        for before, after in zip(seen[:2], seen[2:]):
            for mine, other in zip(after, before):
                self.assertTrue(torch.equal(mine, other))

    def test_other_parts_stay_what_they_are(self):
        class OtherCoder(detection._utils.BoxCoder):
            pass

        class OtherMatcher(detection._utils.Matcher):
            pass

        model = self.model(detection.FasterRCNN)
        model.rpn.box_coder = OtherCoder((1.0, 1.0, 1.0, 1.0))
        model.roi_heads.proposal_matcher = OtherMatcher(0.5, 0.5, False)
        self.assert_same_step(model, self.images, self.targets)
        vecdet.torch.accelerate(model)
        calls = called(lambda: self.step(model, self.images, self.targets))
        self.assertFalse({"vecdet::rpn_postprocess", "vecdet::match_anchors"} & calls)
        model = self.model(detection.FasterRCNN, rpn_score_thresh=0.3)
        self.assert_same_detections(model, self.images)

    def test_double(self):
        model = self.model(detection.FasterRCNN).double()
        images = [image.double() for image in self.images]
        targets = [dict(target, boxes=target["boxes"].double()) for target in self.targets]
        self.assert_same_step(model, images, targets)
        self.assert_same_detections(model, images)

    def test_autocast(self):
        model = self.model(detection.FasterRCNN)
        vecdet.torch.accelerate(model)
        with torch.autocast("cpu", torch.bfloat16):
            losses, _ = self.step(model, self.images, self.targets)
        exact, _ = self.step(model, self.images, self.targets)
        for name, loss in losses.items():
            self.assertEqual(loss.dtype, torch.float32)
            torch.testing.assert_close(loss, exact[name], rtol=0.2, atol=0.1)

    def test_parts_in_other_modes_than_the_model(self):
        for accelerated in (False, True):
            model = self.model(detection.FasterRCNN)
            if accelerated:
                vecdet.torch.accelerate(model)
            model.train()
            model.rpn.eval()
            torch.manual_seed(3)
            self.assertEqual(sorted(model(self.images, self.targets)),
                             ["loss_box_reg", "loss_classifier"])
            model.eval()
            for part in (model.rpn, model.roi_heads):
                part.train()
                with self.assertRaisesRegex(ValueError, "targets should not be None"):
                    model(self.images)
                part.eval()

    def test_models_stay_what_they_are(self):
        model = self.model()
        names = list(model.state_dict())
        classes = [type(module) for module in model.modules()]
        vecdet.torch.accelerate(vecdet.torch.accelerate(model))
        self.assertEqual(list(model.state_dict()), names)
        self.assertEqual([type(module).__name__ for module in model.modules()],
                         [cls.__name__ for cls in classes])
        for other in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            vecdet.torch.restore(other)
            self.assertEqual([type(module) for module in other.modules()], classes)
        # A user's own pool is not replaced.
        own = ours.MultiScaleRoIAlign(["0"], 7, 2)
        self.assertIs(type(vecdet.torch.restore(own)), ours.MultiScaleRoIAlign)


class OneStage(unittest.TestCase):
    """Models that existed before."""

    setUp = test_package.Detectors.setUp
    step = test_package.Detectors.step

    def test_heads_in_other_modes_than_the_model(self):
        for name, model in test_package.Detectors.models().items():
            model.eval()
            with torch.no_grad():
                expected = model(self.images)
            losses, _ = self.step(model, self.images, self.targets)
            vecdet.torch.accelerate(model).eval()
            model.head.train()
            with self.subTest(model=name), torch.no_grad():
                for mine, other in zip(model(self.images), expected):
                    torch.testing.assert_close(mine["scores"], other["scores"])
                model.train()
                model.head.eval()
                for key, loss in model(self.images, self.targets).items():
                    torch.testing.assert_close(loss, losses[key], rtol=1e-5, atol=1e-7)

    def test_a_head_of_its_own_gives_tensors(self):
        for name in ("RetinaNet", "FCOS"):
            model = vecdet.torch.accelerate(test_package.Detectors.models()[name]).train()
            features = list(model.backbone(torch.rand(1, 3, 64, 64)).values())
            for output in model.head(features).values():
                self.assertIsInstance(output, torch.Tensor)

    def test_matching_of_fcos(self):
        """Matches identical to torchvision's, through the loss."""
        model = test_package.Detectors.models()["FCOS"].train()
        corner = torch.rand(40, 2) * 50
        boxes = torch.cat([corner, corner + torch.rand(40, 2) * 60 + 2], 1)
        targets = [{"boxes": boxes[:25], "labels": torch.arange(25) % 7},
                   {"boxes": boxes[25:], "labels": torch.arange(15) % 7}]
        seen = []

        def watch():
            model.head.compute_loss = lambda t, h, a, matches: seen.append(matches) or {}

        watch()
        model(self.images, targets)
        del model.head.compute_loss
        vecdet.torch.accelerate(model)
        watch()
        calls = called(lambda: model(self.images, targets))
        self.assertIn("vecdet::assign_fcos", calls)
        for mine, other in zip(seen[1], seen[0]):
            self.assertTrue(torch.equal(mine, other))
            self.assertGreater(int((mine >= 0).sum()), 3)


if __name__ == "__main__":
    unittest.main()
