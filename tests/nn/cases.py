"""Modules with inputs; `told(torch, case)` gives what one does, for either library.

PyTorch's answers lie in recorded_cases.json, in the order of CASES. Arrays of more than 24 values
are told by their number and a weighted sum.
"""

from __future__ import annotations

import math

X = (3, 4)
LOSSES = [
    ("CosineEmbeddingLoss(0.1, reduction={r!r})", X, X, "signs of rows"),
    ("HingeEmbeddingLoss(reduction={r!r})", X, "signs"),
    ("MarginRankingLoss(0.2, reduction={r!r})", X, X, "signs"),
    ("MultiLabelMarginLoss(reduction={r!r})", X, "labels"),
    ("MultiLabelSoftMarginLoss(reduction={r!r})", X, "ones"),
    ("MultiMarginLoss(2, 0.7, reduction={r!r})", X, "classes"),
    ("PoissonNLLLoss(reduction={r!r})", X, "positive"),
    ("PoissonNLLLoss(log_input=False, full=True, reduction={r!r})", "positive", "positive"),
    ("SoftMarginLoss(reduction={r!r})", X, "signs"),
    ("TripletMarginLoss(swap=True, reduction={r!r})", X, X, X),
    ("TripletMarginWithDistanceLoss(margin=0.5, reduction={r!r})", X, X, X),
    ("GaussianNLLLoss(full=True, reduction={r!r})", X, X, "positive"),
    ("GaussianNLLLoss(reduction={r!r})", X, X, "variances of rows"),
]
CASES = [
    ("CELU()", X), ("CELU(0.7, inplace=True)", X), ("Hardsigmoid()", X), ("Hardswish()", X),
    ("Hardswish(inplace=True)", X), ("LogSigmoid()", X), ("Mish()", X), ("Softsign()", X),
    ("Tanhshrink()", X), ("GLU()", X), ("GLU(1)", X), ("Hardshrink()", X), ("Hardshrink(0.2)", X),
    ("Softshrink()", X), ("Softshrink(lambd=0.3)", X), ("PReLU()", X), ("PReLU(3)", (2, 3, 4)),
    ("Softmin(1)", X), ("RReLU()", X), ("RReLU(0.1, 0.3, inplace=True)", X),
    ("Softmax2d()", (2, 3, 2, 2)), ("Softmax2d()", (3, 2, 2)), ("CosineSimilarity()", X, X),
    ("CosineSimilarity(2, 1e-3)", (2, 3, 4), (2, 3, 4)), ("PairwiseDistance()", X, X),
    ("PairwiseDistance(1, 1e-2, True)", X, X),
    *[(f"{kind}Pad1d(2)", (2, 3, 4)) for kind in ("Circular", "Reflection", "Replication", "Zero")],
    *[(f"{kind}Pad1d((0, 3))", (3, 4)) for kind in ("Circular", "Reflection", "Replication")],
    *[(f"{kind}Pad2d((1, 0, 2, 1))", (3, 4, 4))
      for kind in ("Circular", "Reflection", "Replication", "Zero")],
    *[(f"{kind}Pad3d((1, 0, 2, 1, 0, 2))", (1, 3, 4, 4, 4))
      for kind in ("Circular", "Reflection", "Replication", "Zero")],
    *[(f"ConstantPad{count}d(1, 3.5)", (2, 3) + (2,) * count) for count in (1, 2, 3)],
    *[(f"Dropout{count}d(0.3)", (2, 3) + (2,) * count) for count in (1, 2, 3)],
    ("AlphaDropout(0.2)", X), ("FeatureAlphaDropout(0.2, inplace=True)", X),
    ("LocalResponseNorm(3)", (2, 6, 4)), ("LocalResponseNorm(2, 0.1, 0.5, 2.0)", (2, 6, 4, 3)),
    ("LocalResponseNorm(4, 0.3)", (2, 6, 2, 2, 3)), ("SyncBatchNorm(3)", (2, 3, 4)),
    ("Bilinear(3, 4, 2)", (5, 3), (5, 4)), ("Bilinear(3, 4, 2, bias=False)", (5, 3), (5, 4)),
    *[(text.format(r=reduction), *inputs)
      for reduction in ("mean", "sum", "none") for text, *inputs in LOSSES],
    ("MultiMarginLoss(weight=torch.tensor([1.0, 2, 0.5, 1]))", X, "classes"),
    ("MultiLabelSoftMarginLoss(torch.tensor([1.0, 2, 0.5, 1]))", X, "ones"),
    ("AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0)", (6, 8), "many classes"),
    ("AdaptiveLogSoftmaxWithLoss(16, 10, [3, 6], head_bias=True)", (16,), "one class"),
    ("LinearCrossEntropyLoss(4, 3)", X, "classes below 3"),
    ("LinearCrossEntropyLoss(4, 3, bias=True, label_smoothing=0.1)", X, "classes below 3"),
]  # fmt: skip


def numbers(torch, shape, start):
    count = math.prod(shape)
    values = [((i * 37 + start * 11) % 23 - 11) / 7 + 0.013 * i for i in range(count)]
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def target(torch, kind, place):
    signs = [[1, -1, 1, 1], [-1, -1, 1, 1], [1, 1, -1, 1]]
    if kind == "signs of rows":
        return torch.tensor([1, -1, 1])
    if kind == "signs":
        return torch.tensor(signs, dtype=torch.float64)
    if kind == "ones":
        return torch.tensor(signs, dtype=torch.float64).clamp(min=0)
    if kind == "positive":
        return (numbers(torch, X, place + 2).abs() + 0.1).requires_grad_()
    if kind == "variances of rows":
        return (numbers(torch, (3, 1), place + 2).abs() + 0.1).requires_grad_()
    return torch.tensor({
        "labels": [[1, 0, -1, 2], [3, -1, 0, 1], [2, 1, 0, -1]],
        "classes": [1, 0, 3],
        "classes below 3": [1, 0, 2],
        "many classes": [0, 5, 9, 2, 7, 4],
        "one class": 7,
    }[kind])  # fmt: skip


def shown(tensor):
    if tensor is None:
        return None
    values = [float(value) for value in tensor.detach().flatten().tolist()]
    if len(values) > 24:
        return [len(values), sum(value * math.cos(i) for i, value in enumerate(values))]
    return values


def told(torch, case):
    """[repr, names of state, shapes, outputs, gradients of inputs, gradients of parameters]"""
    text, *inputs = case
    module = eval(f"nn.{text}", {"nn": torch.nn, "torch": torch}).double()
    for place, parameter in enumerate(module.parameters()):
        parameter.data.copy_(numbers(torch, tuple(parameter.shape), place + 5) * 0.3)
    if "Dropout" in text or "RReLU" in text:
        module.eval()
    args = [
        target(torch, value, place)
        if isinstance(value, str)
        else numbers(torch, value, place * 3 + 1).requires_grad_()
        for place, value in enumerate(inputs)
    ]
    results = module(*[arg.clone() if "inplace" in text else arg for arg in args])
    results = results if isinstance(results, tuple) else (results,)
    total = sum((result * numbers(torch, tuple(result.shape), 9)).sum() for result in results)
    total.backward()
    return [
        repr(module),
        list(module.state_dict()),
        [list(result.shape) for result in results],
        [shown(result) for result in results],
        [shown(arg.grad) for arg in args],
        [shown(parameter.grad) for parameter in module.parameters()],
    ]
