# SPDX-License-Identifier: Apache-2.0
"""CTC, the loss of text and speech recognisers."""

from __future__ import annotations

from typing import Sequence, Union

import torch
from torch import Tensor

from ._library import ops as _ops
from ._names import REDUCTIONS, number

__all__ = ["ctc_loss"]

# The lengths of all samples.
Lengths = Union[Tensor, Sequence[int]]


def _integers(lengths: Lengths) -> Tensor:
    if isinstance(lengths, Tensor):
        return lengths
    tensor = torch.tensor(lengths)  # the operator rejects other types
    return tensor if tensor.numel() > 0 else tensor.long()  # no lengths are float32


# Keywords of ctc_params, without sample_weights
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    scale: float = 1.0,
    sample_weights: Tensor | None = None,
) -> Tensor:
    """Connectionist temporal classification, like torch.nn.functional.ctc_loss. The softmax is part
    of the loss, so ``log_probs`` may be the logits themselves.

    Args:
        log_probs: logits or log probabilities [steps, samples, classes], or [steps, classes] of one
            sample. Those of samples first, transposed, are not copied.
        targets: classes other than ``blank``, [samples, labels], or [labels of all samples];
            integers.
        input_lengths: the steps of each sample, integers.
        target_lengths: the number of labels of each sample, integers.
        blank: the class that stands for no label. Default 0.
        scale: factor on losses, sum and gradient. Default 1.
        zero_infinity: whether infinite losses become 0. Default False. Their gradient always is 0.
        reduction: ``"none"``, ``"mean"`` or ``"sum"``. For the mean, each loss is divided by its
            target's length, at least 1, and the sum by the number of samples. The divisors are
            float32.
        sample_weights: a further factor for each sample, [samples].

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: different shapes or types, a length or ``blank`` out of range, a scale that is
            not a finite float, or a target with the blank or something that is no class.
    """
    return _ops.ctc_loss(log_probs, targets, _integers(input_lengths), _integers(target_lengths),
                         blank, number(REDUCTIONS, "reduction", reduction), zero_infinity, scale,
                         sample_weights)
