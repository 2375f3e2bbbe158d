"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.onnx.building import Builder, Value, translates
from rushlight.onnx.refusals import refuse
from rushlight.onnx.translations.pointwise import scaled


@translates("mm.default", "bmm.default", "matmul.default", "mv.default", "dot.default")
def matmul(b: Builder, x: Value, y: Value) -> Value:
    return b.op("MatMul", x, y)


@translates("addmm.default")
def addmm(b: Builder, x: Value, y: Value, z: Value, beta: Any, alpha: Any) -> Value:
    if x.dtype.is_floating_point:
        return b.op("Gemm", y, z, x, alpha=float(alpha), beta=float(beta))
    return b.op("Add", scaled(b, x, beta), scaled(b, b.op("MatMul", y, z), alpha))


@translates("baddbmm.default")
def baddbmm(b: Builder, x: Value, y: Value, z: Value, beta: Any, alpha: Any) -> Value:
    return b.op("Add", scaled(b, x, beta), scaled(b, b.op("MatMul", y, z), alpha))


@translates("addmv.default")
def addmv(b: Builder, x: Value, y: Value, z: Value, beta: Any, alpha: Any) -> Value:
    return baddbmm(b, x, y, z, beta, alpha)


@translates("linear.default")
def linear(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    if x.rank == 2 and weight.rank == 2 and x.dtype.is_floating_point:
        return b.op("Gemm", x, weight, bias, transB=1)
    flipped = b.op("Transpose", weight, perm=[1, 0]) if weight.rank == 2 else weight
    product = b.op("MatMul", x, flipped)
    return product if bias is None else b.op("Add", product, bias)


@translates("einsum.default")
def einsum(b: Builder, equation: str, operands: Sequence[Value], path: Any = None) -> Value:
    return b.op("Einsum", *operands, equation=equation)


@translates("_trilinear.default")
def trilinear(
    b: Builder, x: Value, y: Value, z: Value, expand1: Sequence[int], expand2: Sequence[int],
    expand3: Sequence[int], sumdim: Sequence[int], unroll: int = 1,
) -> Value:  # fmt: skip
    """The sum of a product of three tensors that get dims of size one first."""
    wide = []
    for each, dims in ((x, expand1), (y, expand2), (z, expand3)):
        # One after the other: each dim is counted with those before it.
        found = each
        for dim in sorted(dims):
            found = b.unsqueeze(found, dim)
        wide.append(found)
    product = b.op("Mul", b.op("Mul", wide[0], wide[1]), wide[2])
    return b.reduce("ReduceSum", product, list(sumdim), False) if sumdim else product


@translates("_linalg_det.default")
def det(b: Builder, x: Value) -> list[Value | None]:
    return [b.op("Det", x), None, None]


@translates("_cdist_forward.default")
def cdist(b: Builder, x: Value, y: Value, order: float, mode: Any = None) -> Value:
    distance = b.op("Sub", b.unsqueeze(x, -2), b.unsqueeze(y, -3))
    words = {1.0: "ReduceL1", 2.0: "ReduceL2"}
    if order not in words:
        raise refuse(f"distances of order {order}")
    return b.reduce(words[order], distance, [-1], False)
