"""Calls of torchvision's operators; `torch` is given by whoever runs this."""
# ruff: noqa: F821

ALIGNED = [(0.5, 3, 2, 2, False), (0.5, 2, 2, -1, True), (1.0, 2, 2, 0, False)]


def linear(*shape):
    """Numbers without a random stream."""
    count = 1
    for size in shape:
        count *= size
    return (torch.arange(count, dtype=torch.float32) * 0.37).sin().reshape(shape)


def answers(ops):
    tensor = torch.tensor
    boxes = linear(20, 2).abs() * 30
    boxes = torch.cat([boxes, boxes + linear(2, 20).abs().T * 20 + 1], 1)
    found = {"nms": [ops.nms(boxes, linear(20), limit).tolist() for limit in (0.1, 0.5, 0.9)]}
    rois = tensor(
        [[0, 1.0, 2, 20, 25], [1, 4, 0.5, 30, 12], [0, 9, 9, 10, 9.5], [1, -3, -2, 5, 40]]
    )

    def gradients(name, result, *inputs):
        loss = (result * linear(*result.shape)).sum()
        grads = torch.autograd.grad(loss, inputs)
        found[name] = [part.tolist() for part in (result, *grads)]

    for number, (scale, high, wide, ratio, aligned) in enumerate(ALIGNED):
        x = linear(2, 4, 11, 13).requires_grad_()
        gradients(
            f"roi_align{number}", ops.roi_align(x, rois, scale, high, wide, ratio, aligned), x
        )
    for number, scale in enumerate((0.5, 0.3)):
        x = linear(2, 8, 11, 13).requires_grad_()
        gradients(f"roi_pool{number}", ops.roi_pool(x, rois, scale, 3, 2)[0], x)
        gradients(f"ps_roi_align{number}", ops.ps_roi_align(x, rois, scale, 2, 2, 2)[0], x)
        gradients(f"ps_roi_pool{number}", ops.ps_roi_pool(x, rois, scale, 2, 2)[0], x)
    for number, (groups, offset_groups, masked) in enumerate([(1, 1, True), (2, 2, False)]):
        x, weight = (
            linear(2, 4, 7, 8).requires_grad_(),
            linear(6, 4 // groups, 3, 2).requires_grad_(),
        )
        offset = (linear(2, offset_groups * 12, 4, 4) * 2.3).requires_grad_()
        mask = linear(2, offset_groups * 6, 4, 4) if masked else torch.zeros(2, 1)
        bias = linear(6).requires_grad_()
        out = ops.deform_conv2d(
            x, weight, offset, mask.requires_grad_(), bias, 2, 2, 1, 0, 1, 1, groups, offset_groups,
            masked,
        )  # fmt: skip
        inputs = (x, weight, offset, bias, mask) if masked else (x, weight, offset, bias)
        gradients(f"deform{number}", out, *inputs)
    return found
