# SPDX-License-Identifier: Apache-2.0
"""Accelerated deformable attention in the forms of public DETRs, against the modules themselves.
Needs torch, torchvision and vecdet on PYTHONPATH."""

import copy
import gc
import io
import sys
import unittest
import weakref

try:
    import torch
    import torchvision  # noqa: F401 (vecdet needs it)
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

import detr_forms
import vecdet.torch
from test_attention import LOCATIONS, SIZES
from torch import nn

EQUAL, VARYING = (2, 2, 2), (4, 0, 1)
FORMS = {
    "RT-DETR": lambda: detr_forms.RtDetr.MSDeformableAttention(EQUAL),
    "RT-DETRv2": lambda: detr_forms.RtDetrV2.MSDeformableAttention(VARYING),
    "Hugging Face": lambda: detr_forms.HuggingFaceAttention(EQUAL),
    "Hugging Face without a list": lambda: detr_forms.HuggingFaceWithoutList(EQUAL),
    "Hugging Face's RT-DETRv2": lambda: detr_forms.HuggingFaceRtDetrV2(VARYING),
    "Hugging Face's D-FINE": lambda: detr_forms.HuggingFaceDFine(VARYING),
    "Deformable DETR": lambda: detr_forms.MSDeformAttn(EQUAL),
    "Mask2Former": lambda: detr_forms.Mask2Former(EQUAL),
}
UNKNOWN = {
    "RT-DETRv2, discrete": lambda: detr_forms.RtDetrV2.MSDeformableAttention(VARYING, "discrete"),
    "Hugging Face, discrete": lambda: detr_forms.HuggingFaceRtDetrV2(VARYING, "discrete"),
    "Hugging Face's D-FINE, discrete": lambda: detr_forms.HuggingFaceDFine(VARYING, "discrete"),
    "D-FINE": lambda: detr_forms.DFine.MSDeformableAttention(VARYING),
    "no attention": lambda: nn.Linear(2, 2),
}


class Decoder(nn.Module):
    """Two layers of the attention on a small backbone."""

    def __init__(self, form):
        super().__init__()
        self.backbone = nn.Conv2d(3, detr_forms.CHANNELS, 3, padding=1)
        self.layers = nn.ModuleList([form(), form()])

    def forward(self, image, queries, reference_points):
        value = self.backbone(image).flatten(2).transpose(1, 2)
        mask = torch.arange(value.shape[1]) > 3
        for layer in self.layers:
            queries = queries + layer(queries, reference_points, value, SIZES,
                                      value_mask=mask.expand(len(value), -1))
        return queries


class Forms(unittest.TestCase):
    def model(self, form):
        torch.manual_seed(0)
        return Decoder(form)

    def step(self, model):
        """The output, the gradients of a step, and how often the model's own function ran."""
        torch.manual_seed(1)
        detr_forms.calls = 0
        image = torch.randn(2, 3, 1, LOCATIONS)
        queries, points = torch.randn(2, 7, detr_forms.CHANNELS), torch.rand(2, 7, 2)
        model.zero_grad()
        out = model(image, queries, points)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
        return [out.detach(), *(p.grad for p in model.parameters())], detr_forms.calls

    def assert_near(self, actual, expected):
        for ours, theirs in zip(actual, expected):
            torch.testing.assert_close(ours, theirs, rtol=1e-4,
                                       atol=1e-5 * theirs.abs().max().item())

    def test_known(self):
        for name, form in FORMS.items():
            with self.subTest(name):
                model = self.model(form)
                expected, own = self.step(model)
                self.assertEqual(own, 2)
                keys, attributes = list(model.state_dict()), dict(vars(model.layers[0]))
                kinds = [type(module) for module in model.modules()]

                self.assertIs(vecdet.torch.accelerate(model, convolutions=False), model)
                results, own = self.step(model)
                self.assertEqual(own, 0)
                self.assert_near(results, expected)
                self.assertEqual(list(model.state_dict()), keys)
                vecdet.torch.accelerate(model, convolutions=False)  # again

                saved = io.BytesIO()
                torch.save(model, saved)
                saved.seek(0)
                loaded = (torch.load(saved, weights_only=False) if "weights_only" in
                          torch.load.__code__.co_varnames else torch.load(saved))
                copies = [copy.deepcopy(model), loaded]

                vecdet.torch.restore(model)
                self.assertEqual(dict(vars(model.layers[0])), attributes)
                self.assertEqual([type(module) for module in model.modules()], kinds)
                results, own = self.step(model)
                self.assertEqual(own, 2)
                self.assertTrue(all(map(torch.equal, results, expected)))

                for parameter in model.parameters():  # the copies have their own
                    parameter.data.zero_()
                for each in copies:
                    results, own = self.step(each)
                    self.assertEqual(own, 0)
                    self.assert_near(results, expected)
                    self.assertIs(vecdet.torch.restore(each), each)
                    results, own = self.step(each)
                    self.assertEqual(own, 2)
                    self.assertTrue(all(map(torch.equal, results, expected)))

    def test_other_models_of_the_class_do_not_change(self):
        for name, form in FORMS.items():
            with self.subTest(name):
                other = self.model(form)
                vecdet.torch.accelerate(self.model(form))
                self.assertEqual(self.step(other)[1], 2)

    def test_replicas_have_their_own_parts_and_models_are_freed_at_once(self):
        for name, form in FORMS.items():
            with self.subTest(name):
                model = self.model(form)
                vecdet.torch.accelerate(model, convolutions=False)
                layer = model.layers[0]
                replica = layer._replicate_for_data_parallel()
                forward = replica.forward
                self.assertIs(getattr(forward, "__self__", None), replica)
                freed = weakref.ref(model)
                del layer, replica, forward
                gc.disable()
                try:
                    parts = [weakref.ref(module) for module in model.modules()]
                    del model
                    self.assertIsNone(freed())
                    self.assertEqual([part() for part in parts], [None] * len(parts))
                finally:
                    gc.enable()

    def test_traced_parts(self):
        model = self.model(FORMS["Deformable DETR"])
        expected, _ = self.step(model)
        model.traced = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
        vecdet.torch.accelerate(model, convolutions=False)
        results, own = self.step(model)
        self.assertEqual(own, 0)
        self.assert_near(results[:1], expected[:1])

    def test_unknown_is_left_alone(self):
        for name, form in UNKNOWN.items():
            with self.subTest(name):
                model = Decoder(form)
                before = [dict(vars(module)) for module in model.modules()]
                with self.assertRaisesRegex(TypeError, "accelerate: a Decoder, expected one of .*"
                                                       "deformable attention in a known form"):
                    vecdet.torch.accelerate(model)
                self.assertEqual([dict(vars(module)) for module in model.modules()], before)
                self.assertIs(type(model.backbone), nn.Conv2d)

    def test_a_model_of_both(self):
        model = self.model(FORMS["RT-DETRv2"])
        model.layers[1] = UNKNOWN["RT-DETRv2, discrete"]()
        expected, own = self.step(model)
        self.assertEqual(own, 2)
        vecdet.torch.accelerate(model, convolutions=False)
        results, own = self.step(model)
        self.assertEqual(own, 1)
        self.assert_near(results, expected)

    def test_calls_that_only_the_model_takes(self):
        """A value in another order, which the function of some models has."""
        model = self.model(lambda: detr_forms.MSDeformAttn(EQUAL, heads_first=True))
        expected, _ = self.step(model)
        vecdet.torch.accelerate(model, convolutions=False)
        results, own = self.step(model)
        self.assertEqual(own, 2)
        self.assertTrue(all(map(torch.equal, results, expected)))

    def test_convolutions(self):
        model = self.model(FORMS["RT-DETR"])
        expected, _ = self.step(model)
        vecdet.torch.accelerate(model)
        self.assertIsNot(type(model.backbone), nn.Conv2d)
        results, own = self.step(model)
        self.assertEqual(own, 0)
        for ours, theirs in zip(results, expected):
            torch.testing.assert_close(ours, theirs, rtol=1e-3,
                                       atol=1e-4 * theirs.abs().max().item())

    def test_hooks_and_own_forward(self):
        for name in ("RT-DETRv2", "Hugging Face's RT-DETRv2"):
            model = vecdet.torch.accelerate(self.model(FORMS[name]))
            seen = []
            model.layers[0].register_forward_hook(lambda *args: seen.append(args[0]))
            self.step(model)
            self.assertEqual(len(seen), 1)
        module = FORMS["Hugging Face's RT-DETRv2"]()
        module.forward = own = lambda *args: None
        with self.assertRaises(TypeError):
            vecdet.torch.accelerate(module)
        self.assertIs(module.forward, own)

    def test_autocast(self):
        for name, form in FORMS.items():
            with self.subTest(name):
                model = self.model(form)
                with torch.autocast("cpu", torch.bfloat16):
                    expected, _ = self.step(model)
                    results, own = self.step(vecdet.torch.accelerate(model, convolutions=False))
                self.assertEqual(own, 0)
                self.assertEqual(results[0].dtype, expected[0].dtype)
                torch.testing.assert_close(results[0], expected[0], rtol=0.05, atol=0.05)


if __name__ == "__main__":
    unittest.main()
