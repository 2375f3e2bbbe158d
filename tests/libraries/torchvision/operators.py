"""The operators that torchvision compiles: values and gradients."""

import torch
import torchvision.ops as ops
from showing import show

torch.manual_seed(0)
boxes = torch.rand(30, 2) * 40
boxes = torch.cat([boxes, boxes + torch.rand(30, 2) * 30], 1)
scores = torch.rand(30)
show(nms=ops.nms(boxes, scores, 0.3).tolist())
show(batched=ops.batched_nms(boxes, scores, torch.randint(0, 3, (30,)), 0.3).tolist())
show(iou=ops.box_iou(boxes[:5], boxes[5:9]), generalized=ops.generalized_box_iou(boxes, boxes))
show(area=ops.box_area(boxes), clipped=ops.clip_boxes_to_image(boxes, (30, 40)))

features = torch.randn(2, 8, 16, 16, requires_grad=True)
rois = torch.tensor(
    [[0, 1.0, 2.0, 20.0, 25.0], [1, 4.0, 0.5, 30.0, 12.0], [0, 9.0, 9.0, 10.0, 9.5]]
)


def both(name, result):
    (grad,) = torch.autograd.grad(
        (result * torch.linspace(-1, 1, result.numel()).view_as(result)).sum(), features
    )
    show(**{name: result, f"{name}_grad": grad})


both("roi_align", ops.roi_align(features, rois, (3, 2), 0.5, 2))
both("roi_align_adaptive", ops.roi_align(features, rois, (2, 2), 0.5, -1, aligned=True))
both("roi_pool", ops.roi_pool(features, rois, (3, 3), 0.5))
both("ps_roi_align", ops.ps_roi_align(features, rois, (2, 2), 0.5, 2))
both("ps_roi_pool", ops.ps_roi_pool(features, rois, (2, 2), 0.5))

weight = torch.randn(6, 4, 3, 3, requires_grad=True)
offset = torch.randn(2, 2 * 18, 8, 8, requires_grad=True)
mask = torch.rand(2, 2 * 9, 8, 8, requires_grad=True)
bias = torch.randn(6, requires_grad=True)
out = ops.deform_conv2d(features, offset, weight, bias, stride=2, padding=1, mask=mask)
out.square().sum().backward()
show(deform=out, x=features.grad, weight=weight.grad, offset=offset.grad, mask=mask.grad)
show(bias=bias.grad)
plain = ops.DeformConv2d(8, 4, 3, padding=2, dilation=2)
show(layer=plain(features, torch.randn(2, 18, 16, 16)))
