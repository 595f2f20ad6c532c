# SPDX-License-Identifier: Apache-2.0
"""Gradients and forward-mode derivatives with respect to every tensor argument in every operator's
schema, and torch.func. Needs torch and vecdet on PYTHONPATH."""

import math
import sys
import unittest

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import vecdet.torch  # also loads the operators
from test_package import some_boxes
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional
from vecdet.torch import _library

transforms = getattr(torch, "func", None)  # PyTorch 2.0 and newer

CLASSES, ROWS = 4, 6


def levels(columns):
    return [torch.randn(1, 2 * columns, side, side) for side in (3, 2)]


def wave(*shape):
    """Numbers that look random, and leave those of torch's generator to others."""
    return (7 * torch.arange(float(math.prod(shape)))).sin().view(shape)


def samples():
    """Arguments for each operator, including every tensor argument."""
    torch.manual_seed(0)
    boxes, others, logits = some_boxes(ROWS), some_boxes(ROWS) + 1, torch.randn(ROWS, CLASSES)
    labels, weights = torch.randint(0, CLASSES, (ROWS,)), torch.rand(ROWS) + 0.5
    scores, anchors = torch.rand(ROWS), some_boxes(26)
    turned = torch.cat([boxes, scores[:, None]], 1)  # centre, width, height, angle
    scored = dict(logits=logits, labels=labels, scores=scores, row_weights=weights, reduction=2)
    centres = torch.tensor([10.0, 30, 50])
    points = torch.stack([centres.repeat(3), centres.repeat_interleave(3)], 1)
    squares = torch.cat([points - 8, points + 8], 1)
    grid = dict(level_sizes=[3, 3], boxes=boxes[:2], regions=boxes[2:3])
    image = dict(image_sizes=[90.0, 90.0])
    convolution = dict(weight=torch.randn(16, 16, 3, 3), bias=torch.randn(16), relu=True)
    # Not random: other samples keep their numbers.
    normalization = dict(input=wave(2, 3, 4, 5),
                         weight=torch.tensor([1.0, -0.5, 2.0]), bias=torch.tensor([0.1, -0.2, 0.3]))
    rois = dict(boxes=some_boxes(3), output_size=[2, 2])
    queries = dict(logits=[torch.randn(1, 5, CLASSES)], boxes=[torch.rand(1, 5, 4)],
                   targets=torch.rand(2, 4), classes=labels[:2])
    return {
        "conv3x3": dict(input=torch.randn(1, 16, 9, 9), **convolution),
        "conv3x3_levels": dict(inputs=[torch.randn(1, 16, side, side) for side in (8, 5)],
                               **convolution),
        "grouped_conv3x3": dict(input=wave(1, 8, 6, 5), weight=wave(8, 4, 3, 3), bias=wave(8),
                                groups=2, stride=2),
        "max_pool": dict(input=torch.randn(1, 2, 8, 8)),
        "batch_norm": dict(**normalization, activation=2),
        "batch_norm_inference": dict(**normalization, statistics=torch.eye(2, 3).double() + 0.5),
        "deformable_attention": dict(value=torch.randn(1, 20, 2, 3), level_sizes=[4, 4, 2, 2],
                                     points=torch.rand(1, 5, 2, 2, 3, 2),
                                     weights=torch.rand(1, 5, 2, 2, 3)),
        "sigmoid_focal_loss": dict(logits=logits, targets=torch.rand(ROWS, CLASSES),
                                   row_weights=weights, reduction=2),
        "smooth_l1_loss": dict(predictions=boxes, targets=others, labels=labels,
                               box_weights=weights, reduction=2),
        "iou_loss": dict(predicted=boxes, targets=others, kind=2, box_weights=weights, reduction=2),
        "prob_iou_loss": dict(predicted=turned, targets=turned + 1, angles=3, box_weights=weights,
                              reduction=2),
        "regression_loss": dict(deltas=torch.randn(ROWS, 4), anchors=boxes, targets=others,
                                matches=torch.arange(ROWS), labels=labels, box_weights=weights),
        "quality_focal_loss": scored, "varifocal_loss": scored, "bce_loss": scored,
        "distribution_focal_loss": dict(logits=logits, targets=scores, row_weights=weights,
                                        reduction=2),
        "softmax_cross_entropy_loss": dict(logits=logits, labels=labels, reduction=2),
        "mined_cross_entropy_loss": dict(logits=logits[None], labels=labels[None]),
        "ctc_loss": dict(logits=torch.randn(7, 2, CLASSES), targets=torch.tensor([[1, 2], [3, 3]]),
                         input_lengths=torch.tensor([7, 5]), target_lengths=torch.tensor([2, 2]),
                         sample_weights=torch.rand(2), reduction=2),
        "sigmoid_focal_loss_levels": dict(logits=levels(CLASSES),
                                          labels=torch.randint(-2, CLASSES, (1, 26)),
                                          image_scales=torch.ones(1)),
        "retinanet_loss": dict(logits=levels(CLASSES), deltas=levels(4), anchors=anchors,
                               boxes=anchors[:2] + 1, classes=labels[:2], regions=anchors[5:6]),
        "match_anchors": dict(anchors=anchors, boxes=boxes, classes=labels, regions=boxes),
        "assign_atss": dict(anchors=squares, **grid),
        "assign_fcos": dict(anchors=squares, **grid),
        "assign_task_aligned": dict(scores=torch.rand(9, CLASSES), predicted=some_boxes(9),
                                    points=points, classes=labels[:2], **grid),
        "assign_rotated_task_aligned": dict(
            scores=torch.rand(9, CLASSES), predicted=torch.rand(9, 5), points=points,
            level_sizes=[3, 3], boxes=turned[:2], classes=labels[:2], box_counts=[], angles=3,
            regions=boxes[2:3]),
        "assign_sim_ota": dict(logits=torch.rand(9, CLASSES), objectness=torch.rand(9),
                               predicted=some_boxes(9), points=points, strides=[8.0],
                               classes=labels[:2], **grid),
        "match_queries": queries, "assign_least_cost": dict(costs=torch.rand(3, 4)),
        "set_loss": dict(matches=[torch.tensor([[3, 1]])], **queries),
        "encode_boxes": dict(targets=boxes, anchors=others),
        "decode_boxes": dict(deltas=boxes, anchors=others),
        "encode_distances": dict(targets=boxes, anchors=others),
        "decode_distances": dict(distances=boxes, anchors=others),
        "decode_distributions": dict(logits=logits),
        "decode_distribution_boxes": dict(logits=torch.randn(2, 4, 5), points=points[:2],
                                          strides=torch.ones(2)),
        "pairwise_iou": dict(a=boxes, b=others), "elementwise_iou": dict(a=boxes, b=others),
        "pairwise_rotated_iou": dict(a=turned, b=turned, angles=0),
        "elementwise_rotated_iou": dict(a=turned, b=turned, angles=3),
        "pairwise_prob_iou": dict(a=turned, b=turned, angles=0),
        "elementwise_prob_iou": dict(a=turned, b=turned, angles=3),
        "convert_rotated_boxes": {"boxes": turned, "in_fmt": 0, "out_fmt": 2, "angles": 0},
        "rotated_box_areas": dict(boxes=turned),
        "convert_boxes": {"boxes": boxes, "in_fmt": 0, "out_fmt": 1},
        "clip_boxes": dict(boxes=boxes, image_size=[50.0, 50.0]),
        "box_areas": dict(boxes=boxes), "large_boxes": dict(boxes=boxes, min_size=2.0),
        "nms": dict(boxes=boxes, scores=scores, iou_threshold=0.5),
        "rotated_nms": dict(boxes=turned, scores=scores, angles=0, iou_threshold=0.5,
                            classes=labels),
        "prob_iou_nms": dict(boxes=turned, scores=scores, angles=0, iou_threshold=0.5,
                             classes=labels),
        "batched_nms": dict(boxes=boxes, scores=scores, classes=scores, iou_threshold=0.5),
        "soft_nms": dict(boxes=boxes, scores=scores, classes=labels),
        "filter_topk": dict(logits=logits, score_threshold=0.1, k=3),
        "postprocess": dict(logits=logits[None], deltas=torch.randn(1, ROWS, 4), anchors=boxes,
                            centerness=scores[None], kind=1, **image),
        "rpn_postprocess": dict(logits=levels(1), deltas=levels(4), anchors=anchors, **image),
        "postprocess_box_head": dict(logits=logits, deltas=torch.randn(ROWS, 4 * CLASSES),
                                     proposals=boxes, proposal_counts=[ROWS], **image),
        "sample_balanced": dict(labels=labels),
        "masks_from_prototypes": dict(prototypes=torch.randn(1, CLASSES, 6, 7), coefficients=logits,
                                      boxes=boxes, sizes=[24, 28]),
        "paste_masks": dict(maps=torch.rand(ROWS, 1, 4, 4), boxes=boxes, sizes=[24, 28]),
        "paste_soft_masks": dict(maps=torch.rand(ROWS, 1, 4, 4), boxes=boxes, size=[24, 28]),
        "roi_align": dict(features=torch.randn(1, 2, 8, 8), **rois),
        "multiscale_roi_align": dict(features=[torch.randn(1, 2, side, side) for side in (8, 4)],
                                     scales=[0.5, 0.25], **rois),
    }


# The arguments with a gradient: the first ones.
DIFFERENTIABLE = {name: 1 for name in samples() if name.endswith(("_loss", "_levels", "roi_align"))}
DIFFERENTIABLE.update(retinanet_loss=2, set_loss=2, conv3x3=3, conv3x3_levels=3, grouped_conv3x3=3, max_pool=1,
                      batch_norm=3, deformable_attention=4)


def schemas():
    found = {}
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace == "vecdet" and not name.startswith("_"):
            found[name] = schema
    return found


def tracked(value):
    """The value as leaves of the graph."""
    if isinstance(value, list):
        return [tensor.detach().clone().requires_grad_() for tensor in value]
    return value.detach().clone().requires_grad_()


def arguments_of(schema):
    """The sample's arguments, and the index and name of each that has floating-point tensors."""
    given = samples()[schema.name.partition("::")[2]]
    arguments = [given.get(each.name, each.default_value) for each in schema.arguments]
    floating = [(i, each.name) for i, each in enumerate(schema.arguments)
                if "Tensor" in str(each.type) and tensors_of(arguments[i])[0].is_floating_point()]
    return arguments, floating


def changed(value, change):
    """The value with change(tensor) for each of its tensors."""
    return [change(each) for each in value] if isinstance(value, list) else change(value)


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in tensors_of(each)]


class Gradients(unittest.TestCase):
    def test_every_tensor_argument(self):
        known = schemas()
        self.assertEqual(set(known), set(samples()))
        for name, schema in known.items():
            for argument in schema.arguments:
                if "Tensor" in str(argument.type):
                    self.assertIn(argument.name, samples()[name], name)
            for index, argument in arguments_of(schema)[1]:
                with self.subTest(operator=name, argument=argument):
                    arguments, _ = arguments_of(schema)
                    leaves = tracked(arguments[index])
                    arguments[index] = leaves
                    self.check(name, arguments, tensors_of(leaves),
                               index < DIFFERENTIABLE.get(name, 0), argument)

    def check(self, name, arguments, leaves, is_differentiable, argument):
        operator = getattr(torch.ops.vecdet, name)
        if name in DIFFERENTIABLE and not is_differentiable:
            with self.assertRaisesRegex(RuntimeError, f"vecdet::{name}: {argument} requires a "
                                                      f"gradient, .*{argument}.detach"):
                operator(*arguments)
            with torch.no_grad():
                operator(*arguments)
            return
        results = [result for result in tensors_of(operator(*arguments))
                   if result.is_floating_point()]
        if is_differentiable:
            sum(result.sum() for result in results).backward()
            for leaf in leaves:
                self.assertIsNotNone(leaf.grad)
            return
        for result in results:  # integers never have a gradient
            self.assertTrue(result.requires_grad)
            with self.assertRaisesRegex(RuntimeError, f"derivative for vecdet::{name} is not"):
                result.sum().backward()


def joined(tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors
                      if tensor.is_floating_point()])


def weighted_sum(results):
    """A fixed linear function of all floating-point results."""
    generator = torch.Generator().manual_seed(2)
    return sum((result * torch.randn(result.shape, generator=generator)).sum()
               for result in tensors_of(results) if result.is_floating_point())


class ForwardMode(unittest.TestCase):
    """A derivative in forward mode is right or an error, and never silently 0."""

    def tangents(self, function, value, directions):
        """The derivatives of the results of function(value) in the given directions."""
        remaining = iter(directions)
        with forward_ad.dual_level():
            dual = changed(value, lambda tensor: forward_ad.make_dual(tensor, next(remaining)))
            results = [forward_ad.unpack_dual(result) for result in tensors_of(function(dual))]
            return joined([torch.zeros_like(result.primal) if result.tangent is None
                           else result.tangent for result in results])

    def quotients(self, function, value, directions, step=1e-3):
        """The same from differences."""
        ends = []
        for sign in (-step, step):
            remaining = iter(directions)
            with torch.no_grad():
                ends.append(joined(tensors_of(function(
                    changed(value, lambda tensor: tensor + sign * next(remaining))))))
        return (ends[1] - ends[0]) / (2 * step)

    def check(self, name, function, value):
        """Whether there is a derivative. If so, it is right, otherwise the error names function and
        reason."""
        torch.manual_seed(1)
        directions = [torch.randn_like(tensor) for tensor in tensors_of(value)]
        try:
            found = self.tangents(function, value, directions)
        except NotImplementedError as error:
            self.assertRegex(str(error), "forward AD")
            self.assertRegex(str(error), f"vecdet::(multiscale_)?{name}")
            return False
        expected = self.quotients(function, value, directions)
        # Some ReLUs are between the two ends.
        self.assertLess(float((found - expected).norm()), 0.05 * float(expected.norm()))
        return True

    def test_every_tensor_argument(self):
        computed = set()
        for name, schema in schemas().items():
            operator = getattr(torch.ops.vecdet, name)
            for index, argument in arguments_of(schema)[1]:
                is_differentiable = index < DIFFERENTIABLE.get(name, 0)
                for mode in (torch.enable_grad, torch.no_grad):
                    for is_tracked in (False, True) if is_differentiable else (False,):
                        with self.subTest(operator=name, argument=argument, mode=mode.__name__,
                                          is_tracked=is_tracked), mode():
                            arguments, _ = arguments_of(schema)
                            value = arguments[index]
                            if self.check(name, lambda tensor: operator(
                                    *arguments[:index], tensor, *arguments[index + 1:]),
                                    tracked(value) if is_tracked else value):
                                computed.add(name)
        self.assertEqual(computed, {"conv3x3", "conv3x3_levels"})

    def test_under_autocast(self):
        for name in ("smooth_l1_loss", "decode_boxes", "multiscale_roi_align"):
            arguments, _ = arguments_of(schemas()[name])
            with self.subTest(name), torch.autocast("cpu", torch.bfloat16):
                self.assertFalse(self.check(
                    name, lambda value: getattr(torch.ops.vecdet, name)(value, *arguments[1:]),
                    arguments[0]))

    def test_frozen_network(self):
        torch.manual_seed(0)
        network = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                                nn.Conv2d(16, 16, 3, padding=1)).requires_grad_(False)
        x, direction = torch.randn(1, 16, 20, 20), torch.randn(1, 16, 20, 20)
        expected = self.tangents(network, x, [direction])
        vecdet.torch.accelerate_convolutions(network)
        torch.testing.assert_close(self.tangents(network, x, [direction]), expected)

    def test_boxes_and_patched_functions_are_torchvisions(self):
        torch.manual_seed(0)  # some boxes overlap
        boxes, others = some_boxes(ROWS), some_boxes(ROWS) + 1
        ours, theirs = vecdet.torch.ops, torchvision.ops
        for name, function in {
            "box_convert": lambda value: ours.box_convert(value, "xyxy", "cxcywh"),
            "box_area": ours.box_area,
            "clip_boxes_to_image": lambda value: ours.clip_boxes_to_image(value, (50, 50)),
            "box_iou": lambda value: theirs.box_iou(value, others),
            "generalized_box_iou_loss": lambda value: theirs.generalized_box_iou_loss(value,
                                                                                      others),
        }.items():
            with self.subTest(name), vecdet.torch.patched():
                self.assertTrue(self.check(name, function, boxes))

    def test_through_backward(self):
        """The upstream gradient has a tangent, and a value of 1 or another one."""
        for name in ("sigmoid_focal_loss", "smooth_l1_loss", "set_loss", "conv3x3"):
            for factor in (1.0, 0.7):
                arguments, _ = arguments_of(schemas()[name])
                leaves = tracked(arguments[0])
                (leaf,) = tensors_of(leaves)
                results = getattr(torch.ops.vecdet, name)(leaves, *arguments[1:])
                upstream = torch.full_like(results, factor)
                with self.subTest(name, factor=factor), forward_ad.dual_level():
                    plain, = torch.autograd.grad(results, leaf, upstream, retain_graph=True)
                    dual = forward_ad.make_dual(upstream, torch.full_like(results, 3.0))
                    grad, = torch.autograd.grad(results, leaf, dual)
                    # The gradient is linear in the upstream gradient.
                    torch.testing.assert_close(forward_ad.unpack_dual(grad).tangent,
                                               plain * (3 / factor), rtol=1e-4, atol=1e-4)


class SecondDerivatives(unittest.TestCase):
    def test_of_a_factor_of_a_loss(self):
        """d(d(s loss)/dx)/ds is the gradient of the loss; d(d(s loss)/dx)/dx is an error."""
        for name in ("sigmoid_focal_loss", "smooth_l1_loss", "set_loss"):
            with self.subTest(name):
                arguments, _ = arguments_of(schemas()[name])
                leaves = tracked(arguments[0])
                (leaf,) = tensors_of(leaves)
                factor = torch.tensor(2.0, requires_grad=True)
                loss = getattr(torch.ops.vecdet, name)(leaves, *arguments[1:]).sum()
                plain, = torch.autograd.grad(loss, leaf, retain_graph=True)
                grad, = torch.autograd.grad(factor * loss, leaf, create_graph=True)
                found, = torch.autograd.grad(grad.square().sum(), factor, retain_graph=True)
                self.assertAlmostEqual(float(found / (4 * plain.square().sum())), 1, places=5)
                with self.assertRaisesRegex(RuntimeError, "cannot be differentiated again"):
                    torch.autograd.grad(grad.sum(), leaf)

    def test_of_losses_whose_inputs_are_gone(self):
        """The outputs of a head, which nobody holds, as in a detector that returns losses."""
        for name, count in DIFFERENTIABLE.items():
            if not name.endswith(("_loss", "_levels")) or name == "conv3x3_levels":
                continue
            with self.subTest(name):
                given, _ = arguments_of(schemas()[name])
                weight = torch.ones((), requires_grad=True)
                factor = torch.tensor(2.0, requires_grad=True)

                def loss():
                    inputs = [changed(each, lambda tensor: tensor * weight)
                              for each in given[:count]]
                    return sum(each.sum() for each in tensors_of(
                        getattr(torch.ops.vecdet, name)(*inputs, *given[count:])))

                plain, = torch.autograd.grad(loss(), weight)
                grad, = torch.autograd.grad(factor * loss(), weight, create_graph=True)
                found, = torch.autograd.grad(grad, factor, retain_graph=True)
                torch.testing.assert_close(found, plain)
                with self.assertRaisesRegex(RuntimeError, "cannot be differentiated again"):
                    torch.autograd.grad(grad, weight)

    @unittest.skipUnless(hasattr(torch.utils, "swap_tensors"), "PyTorch 2.3 and newer")
    def test_losses_do_not_refer_to_their_inputs(self):
        logits, others = torch.randn(ROWS, CLASSES, requires_grad=True), torch.randn(ROWS, CLASSES)
        loss = torch.ops.vecdet.smooth_l1_loss(logits, others, 1.0, 2)
        torch.utils.swap_tensors(logits, others.clone().requires_grad_())
        self.assertTrue(loss.requires_grad)

    def test_of_all_operators(self):
        for name, count in DIFFERENTIABLE.items():
            schema = schemas()[name]
            for index, argument in arguments_of(schema)[1]:
                if index >= count:
                    continue
                with self.subTest(operator=name, argument=argument):
                    arguments, _ = arguments_of(schema)
                    leaves = tracked(arguments[index])
                    arguments[index] = leaves
                    value = weighted_sum(getattr(torch.ops.vecdet, name)(*arguments))
                    slopes = torch.autograd.grad(value, tensors_of(leaves), retain_graph=True)
                    grads = torch.autograd.grad(value.square(), tensors_of(leaves),
                                                create_graph=True)
                    along = sum((grad * slope).sum() for grad, slope in zip(grads, slopes))
                    if name == "batch_norm":  # the numbers are those of test_normalization.py
                        for again in torch.autograd.grad(along, tensors_of(leaves)):
                            self.assertGreater(float(again.abs().max()), 0)
                        continue
                    if not name.startswith(("conv3x3", "grouped_conv3x3", "max_pool")):
                        with self.assertRaisesRegex(RuntimeError, "again|is not implemented"):
                            torch.autograd.grad(along, tensors_of(leaves))
                        continue
                    # The value is linear in pieces, so the second derivative of its square in
                    # the direction of its slope is twice the square of the slope's square.
                    again = torch.autograd.grad(along, tensors_of(leaves))
                    found = sum(float((a * b).sum()) for a, b in zip(again, slopes))
                    square = sum(float(slope.square().sum()) for slope in slopes)
                    self.assertAlmostEqual(found / (2 * square ** 2), 1, delta=1e-3)


@unittest.skipIf(transforms is None, "this PyTorch has no torch.func")
class Transforms(unittest.TestCase):
    def network(self):
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
                             nn.Conv2d(16, 16, 3, padding=1))

    def compare(self, compute):
        """compute(network) for an accelerated network and for the same without vecdet."""
        leaves = torch.utils._pytree.tree_leaves
        expected = leaves(compute(self.network()))
        found = leaves(compute(vecdet.torch.accelerate_convolutions(self.network())))
        for a, b in zip(found, expected):
            largest = float(b.abs().max())
            self.assertGreater(largest, 0)
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * largest)

    def test_accelerated_modules(self):
        f = transforms
        torch.manual_seed(1)
        images, directions = torch.randn(2, 3, 16, 9, 9)
        small = images[:1, :, :3, :3]

        def loss(network):
            return lambda parameters, image: f.functional_call(
                network, parameters, (image[None],)).square().mean()

        def parameters(network):
            return {name: p.detach() for name, p in network.named_parameters()}

        def total(network):
            return lambda x: network(x).square().sum()

        for name, compute in {
            "vmap": lambda n: f.vmap(n)(images),
            "grad": lambda n: f.grad(total(n))(images),
            "grad of parameters": lambda n: f.grad(loss(n))(parameters(n), images[0]),
            "per-sample gradients": lambda n: f.vmap(f.grad(loss(n)), (None, 0))(
                parameters(n), images),
            "ensemble": lambda n: f.vmap(lambda p, x: f.functional_call(n, p, (x,)), (0, None))(
                {name: torch.stack([p, 2 * p]) for name, p in parameters(n).items()}, images),
            "vjp": lambda n: f.vjp(n, images)[1](directions)[0],
            "jvp": lambda n: f.jvp(n, (images,), (directions,)),
            "jvp of vmap": lambda n: f.jvp(f.vmap(n), (images,), (directions,)),
            "jvp of grad": lambda n: f.jvp(f.grad(total(n)), (images,), (directions,)),
            "jvp of jvp": lambda n: f.jvp(
                lambda x: f.jvp(total(n), (x,), (directions,))[1], (images,), (directions,)),
            "jacrev": lambda n: f.jacrev(n)(small),
            "jacfwd": lambda n: f.jacfwd(n)(small),
            "hessian": lambda n: f.hessian(total(n))(small),
            "jacobian": lambda n: torch.autograd.functional.jacobian(n, small, vectorize=True),
            "forward jacobian": lambda n: torch.autograd.functional.jacobian(
                n, small, vectorize=True, strategy="forward-mode"),
            "torch.autograd's hessian": lambda n: torch.autograd.functional.hessian(total(n),
                                                                                    small),
        }.items():
            with self.subTest(name):
                self.compare(compute)

    def test_losses_raise_or_are_right(self):
        """PyTorch loops over the samples of vmap, and a factor's derivative does not need the
        loss's. All other transforms raise."""
        f = transforms
        work = {"vmap", "grad of a factor", "jvp of a factor", "vmap of a factor"}
        torch.manual_seed(1)
        x, targets, direction = torch.randn(3, 5, 4)
        one = torch.tensor(1.0)

        def ours(x):
            return torch.ops.vecdet.smooth_l1_loss(x, targets, 1.0, 2)

        def theirs(x):
            return functional.smooth_l1_loss(x, targets, reduction="sum")

        for name, transform in {
            "jvp": lambda g: f.jvp(g, (x,), (direction,))[1],
            "jacfwd": lambda g: f.jacfwd(g)(x),
            "grad": lambda g: f.grad(g)(x),
            "jacrev": lambda g: f.jacrev(g)(x),
            "hessian": lambda g: f.hessian(g)(x),
            "vmap": lambda g: f.vmap(g)(torch.stack([x, direction])),
            "jvp of jvp": lambda g: f.jvp(
                lambda x: f.jvp(lambda y: g(x) * y, (one,), (one,))[1], (x,), (direction,))[1],
            "jvp of grad": lambda g: f.jvp(
                lambda x: f.grad(lambda y: g(x) * y)(one), (x,), (direction,))[1],
            "grad of grad": lambda g: f.grad(lambda x: f.grad(lambda y: g(x) * y)(one))(x),
            "grad of jvp": lambda g: f.grad(
                lambda x: f.jvp(lambda y: g(x) * y, (one,), (one,))[1])(x),
            "jvp of vmap": lambda g: f.jvp(
                lambda x: f.vmap(lambda row: g(row + x))(torch.stack([x, direction])).sum(),
                (x,), (direction,))[1],
            "jvp of vmap of a constant": lambda g: f.jvp(
                lambda x: f.vmap(lambda y: g(x) * y)(torch.ones(2)).sum(), (x,), (direction,))[1],
            "vmap of jvp": lambda g: f.vmap(lambda d: f.jvp(g, (x,), (d,))[1])(
                torch.stack([direction, targets])),
            "grad of a factor": lambda g: f.grad(lambda y: g(x) * y)(one),
            "jvp of a factor": lambda g: f.jvp(lambda y: g(x) * y, (one,), (one,))[1],
            "vmap of a factor": lambda g: f.vmap(lambda y: g(x) * y)(torch.ones(2)),
        }.items():
            with self.subTest(name):
                if name in work:
                    torch.testing.assert_close(transform(ours), transform(theirs))
                    continue
                with self.assertRaisesRegex(RuntimeError,
                                            "forward AD|functorch transforms|of an outer|"
                                            "predictions requires a gradient inside torch.func"):
                    transform(ours)

    def test_functions_of_the_package_under_vmap(self):
        """PyTorch loops over the samples, also if they require an ordinary gradient."""
        for name, schema in schemas().items():
            kinds = {str(each.type) for each in (*schema.arguments, *schema.returns)}
            if "List[Tensor]" in kinds:  # PyTorch's loop has no lists
                continue
            operator = getattr(_library.ops, name)
            for index, argument in arguments_of(schema)[1]:
                if name in DIFFERENTIABLE and index >= DIFFERENTIABLE[name]:
                    continue  # must have no gradient
                for mode in (torch.enable_grad, torch.no_grad):
                    with self.subTest(operator=name, argument=argument, mode=mode.__name__), mode():
                        arguments, _ = arguments_of(schema)
                        before, value, after = (arguments[:index], tracked(arguments[index]),
                                                arguments[index + 1:])
                        expected = tensors_of(operator(*before, value, *after))
                        found = tensors_of(transforms.vmap(
                            lambda value: operator(*before, value, *after))(value[None]))
                        for a, b in zip(found, expected):
                            torch.testing.assert_close(a[0], b, equal_nan=True)
                            self.assertEqual(a.requires_grad, b.requires_grad)

    def test_integers_have_no_gradient_that_is_lost(self):
        """An index computed from a network whose parameters were not detached."""
        names = []
        for name, schema in schemas().items():
            for operators in (torch.ops.vecdet, _library.ops):
                for index, argument in arguments_of(schema)[1]:
                    arguments, _ = arguments_of(schema)
                    value, operator = tracked(arguments[index]), getattr(operators, name)
                    results = tensors_of(operator(*arguments))
                    if any(each.is_floating_point() for each in results):
                        continue
                    names.append(name)

                    def total(shift):
                        moved = changed(value, lambda tensor: tensor + shift)
                        operator(*arguments[:index], moved, *arguments[index + 1:])
                        return sum(tensor.sum() for tensor in tensors_of(moved))

                    with self.subTest(operator=name, argument=argument):
                        self.assertEqual(float(transforms.grad(total)(torch.zeros(()))),
                                         sum(tensor.numel() for tensor in tensors_of(value)))
        self.assertIn("nms", names)

    def test_nested_transforms_of_all_operators(self):
        """The outer transform's derivative is not lost, although the inner one's does not need the
        operator's."""
        f, one = transforms, torch.tensor(1.0)
        for name, schema in schemas().items():
            operator = getattr(torch.ops.vecdet, name)
            for index, argument in arguments_of(schema)[1]:
                arguments, _ = arguments_of(schema)
                value = arguments[index]

                def weighted(value):
                    return weighted_sum(operator(*arguments[:index], value, *arguments[index + 1:]))

                def inside(value):
                    return f.grad(lambda factor: weighted(value) * factor)(one)

                has_derivative = isinstance(weighted(value), torch.Tensor)
                for transform in (f.grad(inside), lambda x: f.jvp(inside, (x,), (x,))):
                    with self.subTest(operator=name, argument=argument):
                        try:
                            transform(value)
                        except RuntimeError as error:
                            self.assertRegex(str(error), "forward AD|functorch transforms|"
                                                         "of an outer|inside torch.func|"
                                                         "is not implemented")
                            continue
                        self.assertTrue(name.startswith("conv3x3") or not has_derivative)


if __name__ == "__main__":
    unittest.main()
