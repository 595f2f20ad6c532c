# SPDX-License-Identifier: Apache-2.0
"""Losses in the forms that are fastest with torch.compile, and what DETRs compute on a CPU. The focal loss has a
hand-written gradient and no one-hot targets; the IoU losses avoid masks, which torch.compile cannot compile."""

import torch
from torch.nn import functional as F


def focal_loss_and_grad(x, labels):
    """The focal loss (alpha 0.25, gamma 2) of labels, and its gradient."""
    is_positive = labels.unsqueeze(1) == torch.arange(x.shape[1])
    z = torch.where(is_positive, -x, x)  # both use the negative's formula, at -x for the positive
    p = torch.sigmoid(z)
    softplus = F.softplus(z)
    alpha = torch.where(is_positive, 0.25, 0.75)
    loss = alpha * p * p * softplus
    grad = alpha * p * p * (2 * (1 - p) * softplus + p)
    return loss.sum(), torch.where(is_positive, -grad, grad)


def iou_loss(a, b, kind):
    """GIoU, DIoU or CIoU loss, summed, without indexing by masks."""
    ax1, ay1, ax2, ay2 = a.unbind(-1)
    bx1, by1, bx2, by2 = b.unbind(-1)
    shared = ((torch.minimum(ax2, bx2) - torch.maximum(ax1, bx1)).clamp(min=0)
              * (torch.minimum(ay2, by2) - torch.maximum(ay1, by1)).clamp(min=0))
    joint = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - shared
    iou = shared / (joint + 1e-7)
    width = torch.maximum(ax2, bx2) - torch.minimum(ax1, bx1)
    height = torch.maximum(ay2, by2) - torch.minimum(ay1, by1)
    if kind == "generalized":
        hull = width * height
        return (1 - iou + (hull - joint) / (hull + 1e-7)).sum()
    distance = ((ax1 + ax2 - bx1 - bx2) ** 2 + (ay1 + ay2 - by1 - by2) ** 2) / 4
    loss = 1 - iou + distance / (width ** 2 + height ** 2 + 1e-7)
    if kind == "complete":
        v = 0.4052847345693511 * (torch.atan((bx2 - bx1) / (by2 - by1))
                                  - torch.atan((ax2 - ax1) / (ay2 - ay1))) ** 2  # 4 / pi^2
        loss = loss + (v / (1 - iou + v + 1e-7)).detach() * v
    return loss.sum()


def query_costs(logits, boxes, labels, truth):
    """RT-DETR's costs of all queries and all boxes: 2 focal + 5 L1 - 2 GIoU."""
    p = logits.sigmoid()[:, labels]
    by_class = (0.25 * (1 - p) ** 2 * -(p + 1e-8).log() - 0.75 * p ** 2 * -(1 - p + 1e-8).log())
    a, b = (torch.cat([x[:, :2] - x[:, 2:] / 2, x[:, :2] + x[:, 2:] / 2], 1) for x in (boxes, truth))
    area_a, area_b = ((x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1]) for x in (a, b))
    shared = (torch.min(a[:, None, 2:], b[:, 2:]) - torch.max(a[:, None, :2], b[:, :2])).clamp(min=0).prod(-1)
    joint = area_a[:, None] + area_b - shared
    hull = (torch.max(a[:, None, 2:], b[:, 2:]) - torch.min(a[:, None, :2], b[:, :2])).prod(-1)
    return 2 * by_class + 5 * torch.cdist(boxes, truth, p=1) - 2 * (shared / joint - (hull - joint) / hull)


def deformable_attention(value, sizes, points, weights):
    """Deformable attention as models compute it on a CPU: one grid_sample per level. The value is images x locations
    x heads x channels, points have levels before the points of a level."""
    images, _, heads, channels = value.shape
    queries = points.shape[1]
    samples = []
    for level, maps in enumerate(value.split([height * width for height, width in sizes], 1)):
        maps = maps.flatten(2).transpose(1, 2).reshape(images * heads, channels, *sizes[level])
        grid = (2 * points[:, :, :, level] - 1).transpose(1, 2).flatten(0, 1)
        samples.append(F.grid_sample(maps, grid, align_corners=False))
    factors = weights.transpose(1, 2).reshape(images * heads, 1, queries, -1)
    out = (torch.stack(samples, -2).flatten(-2) * factors).sum(-1)
    return out.view(images, heads * channels, queries).transpose(1, 2).contiguous()
