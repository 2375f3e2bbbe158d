"""Printing against tables of texts; stand-in tensors offer only what printing reads."""

from math import inf, nan
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rushlight.core import format as printing


class Named:
    """A dtype, layout or device known by its printed name."""

    def __init__(self, text: str) -> None:
        self.text = text
        name = text.removeprefix("torch.")
        self.name = name
        self.type = name.partition(":")[0]
        self.is_complex = name.startswith("complex")
        self.is_floating_point = name.startswith(("float", "bfloat"))

    def __repr__(self) -> str:
        return self.text


class Node:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class Tensor:
    def __init__(
        self,
        array: Any,
        dtype: str,
        *,
        device: str = "cpu",
        layout: str = "strided",
        requires_grad: bool = False,
        grad_fn: str | None = None,
        is_param: bool = False,
        tangent: Any = None,
        size: tuple[int, ...] | None = None,
        parts: dict[str, Any] | None = None,
        valueless: bool = False,
    ) -> None:
        self.array = array
        self.shape = array.shape if size is None else size
        self.dtype = Named(f"torch.{dtype}")
        self.device = Named(device)
        self.layout = Named(f"torch.{layout}")
        self.is_sparse = layout == "sparse_coo"
        self.requires_grad = requires_grad or grad_fn is not None
        self.history = grad_fn
        self._is_param = is_param
        self.tangent = tangent
        self.parts = parts or {}
        self.valueless = valueless

    @property
    def grad_fn(self) -> Node | None:
        if self.history == "invalid":
            raise RuntimeError("the history of this view cannot be rebuilt")
        return None if self.history is None else Node(self.history)

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return int(np.prod(self.shape))

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def detach(self) -> "Tensor":
        return self

    def _host_array(self) -> Any:
        assert self.device.type != "meta", "a meta tensor has no values to ask for"
        return None if self.valueless else self.array

    def _nnz(self) -> int:
        return int(self.parts["values"].shape[0])

    def _indices(self) -> Any:
        return self.parts["indices"]

    def _values(self) -> Any:
        return self.parts["values"]

    def __getattr__(self, name: str) -> Any:
        part = self.__dict__.get("parts", {}).get(name)
        if part is None:
            raise AttributeError(name)
        return lambda: part


class SubTensor(Tensor):
    pass


class Parameter(Tensor):
    pass


class ScaledParameter(Parameter):
    pass


class FakeTensor(Tensor):
    pass


KINDS = {cls.__name__: cls for cls in (Tensor, SubTensor, Parameter, ScaledParameter, FakeTensor)}


def numpy_dtype(name: str) -> Any:
    return getattr(ml_dtypes, name) if name.startswith(("bfloat", "float8")) else np.dtype(name)


def t(data: Any, dtype: str = "float32", kind: str = "Tensor", **flags: Any) -> Tensor:
    return KINDS[kind](np.asarray(data).astype(numpy_dtype(dtype)), dtype, **flags)


def meta(
    shape: tuple[int, ...], dtype: str = "float32", kind: str = "Tensor", **flags: Any
) -> Tensor:
    return KINDS[kind](None, dtype, device="meta", size=shape, **flags)


def fake(shape: tuple[int, ...], dtype: str = "float32", **flags: Any) -> Tensor:
    return FakeTensor(None, dtype, size=shape, valueless=True, **flags)


def coo(
    indices: Any,
    values: Any,
    size: tuple[int, ...],
    dtype: str = "float32",
    kind: str = "Tensor",
    **flags: Any,
) -> Tensor:
    parts = {"indices": t(indices, "int64"), "values": t(values, dtype)}
    return KINDS[kind](None, dtype, layout="sparse_coo", size=size, parts=parts, **flags)


def meta_coo(
    indices: tuple[int, ...], values: tuple[int, ...], size: tuple[int, ...], dtype: str = "float32"
) -> Tensor:
    parts = {"indices": meta(indices, "int64"), "values": meta(values, dtype)}
    return Tensor(None, dtype, device="meta", layout="sparse_coo", size=size, parts=parts)


def compressed(
    layout: str,
    offsets: Any,
    positions: Any,
    values: Any,
    size: tuple[int, ...],
    dtype: str = "float32",
    **flags: Any,
) -> Tensor:
    outer, inner = ("crow", "col") if layout in ("sparse_csr", "sparse_bsr") else ("ccol", "row")
    parts = {
        f"{outer}_indices": t(offsets, "int64"),
        f"{inner}_indices": t(positions, "int64"),
        "values": t(values, dtype),
    }
    return Tensor(None, dtype, layout=layout, size=size, parts=parts, **flags)


CASES: list[tuple[Tensor, str]] = [
    (t(0.0), "tensor(0.)"),
    (t(-0.0), "tensor(-0.)"),
    (t(1.0), "tensor(1.)"),
    (t(1.5), "tensor(1.5000)"),
    (t(-2.25), "tensor(-2.2500)"),
    (t(1e-9), "tensor(1.0000e-09)"),
    (t(9.99e-5), "tensor(9.9900e-05)"),
    (t(1e-4), "tensor(1.0000e-04)"),
    (t(1e8), "tensor(100000000.)"),
    (t(1.5e9), "tensor(1.5000e+09)"),
    (t(123456.789), "tensor(123456.7891)"),
    (t(inf), "tensor(inf)"),
    (t(-inf), "tensor(-inf)"),
    (t(nan), "tensor(nan)"),
    (t(True, "bool"), "tensor(True)"),
    (t(-7, "int64"), "tensor(-7)"),
    (t(7, "uint8"), "tensor(7, dtype=torch.uint8)"),
    (t(1 + 2j, "complex64"), "tensor(1.+2.j)"),
    (t(-1.5j, "complex128"), "tensor(-0.-1.5000j, dtype=torch.complex128)"),
    (t(0j, "complex64"), "tensor(0.+0.j)"),
    (t(3.25, "float16"), "tensor(3.2500, dtype=torch.float16)"),
    (t(0.1, "bfloat16"), "tensor(0.1001, dtype=torch.bfloat16)"),
    (t(0.1, "float64"), "tensor(0.1000, dtype=torch.float64)"),
    (t(2.0, requires_grad=True), "tensor(2., requires_grad=True)"),
    (t(2.5, grad_fn="MulBackward0"), "tensor(2.5000, grad_fn=<MulBackward0>)"),
    (t([True, False], "bool"), "tensor([ True, False])"),
    (t([True, True], "bool"), "tensor([True, True])"),
    (t([1, -10, 100], "int64"), "tensor([  1, -10, 100])"),
    (t([1, -10, 100], "int32"), "tensor([  1, -10, 100], dtype=torch.int32)"),
    (t([1, 200], "uint8"), "tensor([  1, 200], dtype=torch.uint8)"),
    (t([-128, 127], "int8"), "tensor([-128,  127], dtype=torch.int8)"),
    (t([1, 2], "int16"), "tensor([1, 2], dtype=torch.int16)"),
    (t([1, 2], "uint16"), "tensor([1, 2], dtype=torch.uint16)"),
    (t([-(2**63), 2**63 - 1], "int64"), "tensor([-9223372036854775808,  9223372036854775807])"),
    (t([1.0, 2.0, 3.0]), "tensor([1., 2., 3.])"),
    (t([1.0, -2.0, 30.0]), "tensor([ 1., -2., 30.])"),
    (t([1.5, -2.0, 30.0]), "tensor([ 1.5000, -2.0000, 30.0000])"),
    (t([0.0, -0.0, 5.0]), "tensor([0., -0., 5.])"),
    (t([0.0, 0.0]), "tensor([0., 0.])"),
    (t([1e3, 1.0]), "tensor([1000.,    1.])"),
    (t([1001.0, 1.0]), "tensor([1.0010e+03, 1.0000e+00])"),
    (t([1000.0, 0.5]), "tensor([1.0000e+03, 5.0000e-01])"),
    (t([500.0, 0.5]), "tensor([500.0000,   0.5000])"),
    (t([501.0, 0.5]), "tensor([5.0100e+02, 5.0000e-01])"),
    (t([1e8, 2e8]), "tensor([1.0000e+08, 2.0000e+08])"),
    (t([1e8]), "tensor([100000000.])"),
    (
        t([100000001.0, 99999999.0], "float64"),
        "tensor([1.0000e+08, 1.0000e+08], dtype=torch.float64)",
    ),
    (t([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (t([1e-4, 1e-3]), "tensor([1.0000e-04, 1.0000e-03])"),
    (t([1e-4, 1e-3], "float64"), "tensor([0.0001, 0.0010], dtype=torch.float64)"),
    (t([1e-38, 1e38]), "tensor([1.0000e-38, 1.0000e+38])"),
    (t([1e-300, 1e300], "float64"), "tensor([1.0000e-300, 1.0000e+300], dtype=torch.float64)"),
    (t([123456.0, 654321.0]), "tensor([123456., 654321.])"),
    (t([1234.5, 2345.5]), "tensor([1234.5000, 2345.5000])"),
    (t([nan, 0.0]), "tensor([nan, 0.])"),
    (t([inf, 1.0]), "tensor([inf, 1.])"),
    (t([-inf, 1.5, nan]), "tensor([  -inf, 1.5000,    nan])"),
    (t([nan, 1e-8, -inf]), "tensor([       nan, 1.0000e-08,       -inf])"),
    (t([nan, nan]), "tensor([nan, nan])"),
    (t([1.0, -inf, 2000.0]), "tensor([1.0000e+00,       -inf, 2.0000e+03])"),
    (t([1.0, 2.5], "float16"), "tensor([1.0000, 2.5000], dtype=torch.float16)"),
    (t([65504.0, 1.0], "float16"), "tensor([6.5504e+04, 1.0000e+00], dtype=torch.float16)"),
    (t([0.1, 0.2], "bfloat16"), "tensor([0.1001, 0.2002], dtype=torch.bfloat16)"),
    (t([1.0, 3.0], "bfloat16"), "tensor([1., 3.], dtype=torch.bfloat16)"),
    (t([1e-3, 300.0], "bfloat16"), "tensor([9.9945e-04, 3.0000e+02], dtype=torch.bfloat16)"),
    (t([0.1, 0.2], "float64"), "tensor([0.1000, 0.2000], dtype=torch.float64)"),
    (
        t([1.0, 2.5, -3.0], "float8_e4m3fn"),
        "tensor([ 1.0000,  2.5000, -3.0000], dtype=torch.float8_e4m3fn)",
    ),
    (
        t([1.0, 2.5, inf], "float8_e5m2"),
        "tensor([1.0000, 2.5000,    inf], dtype=torch.float8_e5m2)",
    ),
    (t([1 + 2j, 3 - 4j], "complex64"), "tensor([1.+2.j, 3.-4.j])"),
    (t([1.5 + 2j, -3 - 4j], "complex64"), "tensor([ 1.5000+2.j, -3.0000-4.j])"),
    (
        t([1e-6 + 1j, 1 + 1e6j], "complex64"),
        "tensor([1.0000e-06+1.0000e+00j, 1.0000e+00+1.0000e+06j])",
    ),
    (t([complex(nan, inf), 1j], "complex64"), "tensor([nan+infj, 0.+1.j])"),
    (t([complex(1, -inf), 1 - 1j], "complex64"), "tensor([1.-infj, 1.-1.j])"),
    (t([0j, 0j], "complex64"), "tensor([0.+0.j, 0.+0.j])"),
    (t([1 + 0.5j], "complex128"), "tensor([1.+0.5000j], dtype=torch.complex128)"),
    (t([complex(-0.0, -0.0)], "complex64"), "tensor([-0.-0.j])"),
    (
        t(np.arange(19.0)),
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "        14., 15., 16., 17., 18.])"
        ),
    ),
    (
        t(np.arange(20.0)),
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "        14., 15., 16., 17., 18., 19.])"
        ),
    ),
    (
        t(np.arange(30)),
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "        14., 15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27.,\n"
            "        28., 29.])"
        ),
    ),
    (
        t(np.arange(30) / 7),
        (
            "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,\n"
            "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000, 2.1429, 2.2857, 2.4286,\n"
            "        2.5714, 2.7143, 2.8571, 3.0000, 3.1429, 3.2857, 3.4286, 3.5714, 3.7143,\n"
            "        3.8571, 4.0000, 4.1429])"
        ),
    ),
    (
        t(np.arange(24) % 2 == 0, "bool"),
        (
            "tensor([ True, False,  True, False,  True, False,  True, False,  True, False,\n"
            "         True, False,  True, False,  True, False,  True, False,  True, False,\n"
            "         True, False,  True, False])"
        ),
    ),
    (
        t(np.arange(40), "int64"),
        (
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n"
            "        36, 37, 38, 39])"
        ),
    ),
    (
        t(np.arange(22), "int32"),
        (
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19, 20, 21], dtype=torch.int32)"
        ),
    ),
    (t([[1.0]]), "tensor([[1.]])"),
    (t([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    (t([[1, 2], [3, 4]], "int64"), "tensor([[1, 2],\n        [3, 4]])"),
    (t([[1, 2], [3, 4]], "int32"), "tensor([[1, 2],\n        [3, 4]], dtype=torch.int32)"),
    (
        t([[True, False], [False, True]], "bool"),
        "tensor([[ True, False],\n        [False,  True]])",
    ),
    (
        t([[0.5, 1000.0], [-1.0, nan]]),
        "tensor([[ 5.0000e-01,  1.0000e+03],\n        [-1.0000e+00,         nan]])",
    ),
    (
        t(np.arange(8.0).reshape(2, 2, 2)),
        ("tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]])"),
    ),
    (
        t(np.arange(8).reshape(2, 1, 2, 2), "int64"),
        ("tensor([[[[0, 1],\n          [2, 3]]],\n\n\n        [[[4, 5],\n          [6, 7]]]])"),
    ),
    (t(np.arange(4.0).reshape(1, 1, 1, 4)), "tensor([[[[0., 1., 2., 3.]]]])"),
    (
        t(np.arange(40).reshape(2, 20) / 3),
        (
            "tensor([[ 0.0000,  0.3333,  0.6667,  1.0000,  1.3333,  1.6667,  2.0000,  2.3333,\n"
            "          2.6667,  3.0000,  3.3333,  3.6667,  4.0000,  4.3333,  4.6667,  5.0000,\n"
            "          5.3333,  5.6667,  6.0000,  6.3333],\n"
            "        [ 6.6667,  7.0000,  7.3333,  7.6667,  8.0000,  8.3333,  8.6667,  9.0000,\n"
            "          9.3333,  9.6667, 10.0000, 10.3333, 10.6667, 11.0000, 11.3333, 11.6667,\n"
            "         12.0000, 12.3333, 12.6667, 13.0000]])"
        ),
    ),
    (t(np.ones((1, 2)) * (1 + 1j), "complex64"), "tensor([[1.+1.j, 1.+1.j]])"),
    (
        t([[1e-6], [1.0]], "float64"),
        "tensor([[1.0000e-06],\n        [1.0000e+00]], dtype=torch.float64)",
    ),
    (
        t(np.zeros((3, 1)), "float16"),
        "tensor([[0.],\n        [0.],\n        [0.]], dtype=torch.float16)",
    ),
    (t([]), "tensor([])"),
    (t(np.ones((0, 3))), "tensor([], size=(0, 3))"),
    (t(np.ones((2, 0, 4))), "tensor([], size=(2, 0, 4))"),
    (t([], "int64"), "tensor([], dtype=torch.int64)"),
    (t(np.ones((0, 3)), "bool"), "tensor([], size=(0, 3), dtype=torch.bool)"),
    (t([], "float16"), "tensor([], dtype=torch.float16)"),
    (t([], "complex64"), "tensor([], dtype=torch.complex64)"),
    (t(np.ones((0, 3)), requires_grad=True), "tensor([], size=(0, 3), requires_grad=True)"),
    (t(np.ones((0, 3)), grad_fn="MulBackward0"), "tensor([], size=(0, 3), grad_fn=<MulBackward0>)"),
    (t([], kind="SubTensor"), "SubTensor([])"),
    (t(np.arange(1001), "int64"), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (t(np.arange(1001.0)), "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.])"),
    (
        t(np.arange(2000) / 3),
        (
            "tensor([0.0000e+00, 3.3333e-01, 6.6667e-01,  ..., 6.6567e+02, 6.6600e+02,\n"
            "        6.6633e+02])"
        ),
    ),
    (
        t(np.arange(1200).reshape(30, 40), "int64"),
        (
            "tensor([[   0,    1,    2,  ...,   37,   38,   39],\n"
            "        [  40,   41,   42,  ...,   77,   78,   79],\n"
            "        [  80,   81,   82,  ...,  117,  118,  119],\n"
            "        ...,\n"
            "        [1080, 1081, 1082,  ..., 1117, 1118, 1119],\n"
            "        [1120, 1121, 1122,  ..., 1157, 1158, 1159],\n"
            "        [1160, 1161, 1162,  ..., 1197, 1198, 1199]])"
        ),
    ),
    (
        t(np.arange(1200).reshape(2, 600), "int64"),
        (
            "tensor([[   0,    1,    2,  ...,  597,  598,  599],\n"
            "        [ 600,  601,  602,  ..., 1197, 1198, 1199]])"
        ),
    ),
    (
        t(np.arange(2000).reshape(2, 10, 100), "int64"),
        (
            "tensor([[[   0,    1,    2,  ...,   97,   98,   99],\n"
            "         [ 100,  101,  102,  ...,  197,  198,  199],\n"
            "         [ 200,  201,  202,  ...,  297,  298,  299],\n"
            "         ...,\n"
            "         [ 700,  701,  702,  ...,  797,  798,  799],\n"
            "         [ 800,  801,  802,  ...,  897,  898,  899],\n"
            "         [ 900,  901,  902,  ...,  997,  998,  999]],\n"
            "\n"
            "        [[1000, 1001, 1002,  ..., 1097, 1098, 1099],\n"
            "         [1100, 1101, 1102,  ..., 1197, 1198, 1199],\n"
            "         [1200, 1201, 1202,  ..., 1297, 1298, 1299],\n"
            "         ...,\n"
            "         [1700, 1701, 1702,  ..., 1797, 1798, 1799],\n"
            "         [1800, 1801, 1802,  ..., 1897, 1898, 1899],\n"
            "         [1900, 1901, 1902,  ..., 1997, 1998, 1999]]])"
        ),
    ),
    (
        t(np.arange(1200) * 1j, "complex64"),
        (
            "tensor([0.+0.0000e+00j, 0.+1.0000e+00j, 0.+2.0000e+00j,  ..., 0.+1.1970e+03j,\n"
            "        0.+1.1980e+03j, 0.+1.1990e+03j])"
        ),
    ),
    (
        t(np.concatenate([np.ones(600), [1e9], np.ones(600)])),
        "tensor([1., 1., 1.,  ..., 1., 1., 1.])",
    ),
    (
        t(np.arange(1001.0), requires_grad=True),
        "tensor([   0.,    1.,    2.,  ...,  998.,  999., 1000.], requires_grad=True)",
    ),
    (
        meta_coo((1, 2), (2,), (3,)),
        (
            "tensor(indices=tensor(..., size=(1, 2)),\n"
            "       values=tensor(..., size=(2,)),\n"
            "       device='meta', size=(3,), layout=torch.sparse_coo)"
        ),
    ),
    (
        meta_coo((2, 0), (0,), (3, 2), "int32"),
        (
            "tensor(indices=tensor(..., size=(2, 0)),\n"
            "       values=tensor(..., size=(0,)),\n"
            "       device='meta', size=(3, 2), dtype=torch.int32, layout=torch.sparse_coo)"
        ),
    ),
    (t([1.0, 2.0], requires_grad=True), "tensor([1., 2.], requires_grad=True)"),
    (t([1.0, 2.0], grad_fn="AddBackward0"), "tensor([1., 2.], grad_fn=<AddBackward0>)"),
    (
        t([1.0, 2.0], "float64", requires_grad=True),
        "tensor([1., 2.], dtype=torch.float64, requires_grad=True)",
    ),
    (t([1.0, 2.0], grad_fn="ScaleBackward"), "tensor([1., 2.], grad_fn=<ScaleBackward>)"),
    (t([1.0, 2.0], grad_fn="invalid"), "tensor([1., 2.], grad_fn=<Invalid>)"),
    (
        t([[1.0], [2.0]], "float64", grad_fn="AddBackward0"),
        "tensor([[1.],\n        [2.]], dtype=torch.float64, grad_fn=<AddBackward0>)",
    ),
    (
        t(np.arange(18.0) % 10, grad_fn="AddBackward0"),
        (
            "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 0., 1., 2., 3., 4., 5., 6., 7.],\n"
            "       grad_fn=<AddBackward0>)"
        ),
    ),
    (
        t(np.arange(14.0) % 10, requires_grad=True),
        (
            "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 0., 1., 2., 3.],\n"
            "       requires_grad=True)"
        ),
    ),
    (
        t(np.arange(12.0) % 10, requires_grad=True),
        "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 0., 1.], requires_grad=True)",
    ),
    (
        t(np.arange(13.0) % 10, requires_grad=True),
        (
            "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 0., 1., 2.],\n"
            "       requires_grad=True)"
        ),
    ),
    (
        t(np.arange(10.0) % 10, "float64", grad_fn="AddBackward0"),
        (
            "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.], dtype=torch.float64,\n"
            "       grad_fn=<AddBackward0>)"
        ),
    ),
    (t([1.0, 1.0], tangent=t([3.0, 4.0])), "tensor([1., 1.], tangent=tensor([3., 4.]))"),
    (
        t([[1.0, 1.0], [1.0, 1.0]], "float64", tangent=t([[1.0, 1.0], [1.0, 1.0]], "float64")),
        (
            "tensor([[1., 1.],\n"
            "        [1., 1.]], dtype=torch.float64,\n"
            "       tangent=tensor([[1., 1.],\n"
            "        [1., 1.]], dtype=torch.float64))"
        ),
    ),
    (
        t([1.0, 1.0], tangent=t([1.0, 1.0], requires_grad=True)),
        "tensor([1., 1.], tangent=tensor([1., 1.], requires_grad=True))",
    ),
    (t([[1.0, 1.0], [1.0, 1.0]], kind="SubTensor"), "SubTensor([[1., 1.],\n           [1., 1.]])"),
    (t(1.0, kind="SubTensor"), "SubTensor(1.)"),
    (t([1, 2], "int32", kind="SubTensor"), "SubTensor([1, 2], dtype=torch.int32)"),
    (
        t(np.arange(22.0), kind="SubTensor", requires_grad=True),
        (
            "SubTensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13.,\n"
            "           14., 15., 16., 17., 18., 19., 20., 21.], requires_grad=True)"
        ),
    ),
    (
        t([[1.0, 1.0], [1.0, 1.0]], kind="Parameter", requires_grad=True),
        ("Parameter containing:\ntensor([[1., 1.],\n        [1., 1.]], requires_grad=True)"),
    ),
    (t([1.0, 1.0], kind="Parameter"), "Parameter containing:\ntensor([1., 1.])"),
    (
        t([0.5], "float64", kind="Parameter", requires_grad=True),
        ("Parameter containing:\ntensor([0.5000], dtype=torch.float64, requires_grad=True)"),
    ),
    (
        t([1.0, 1.0], kind="ScaledParameter", requires_grad=True),
        ("Parameter containing:\nParameter(ScaledParameter([1., 1.], requires_grad=True))"),
    ),
    (
        t([1.0, 1.0], kind="SubTensor", is_param=True, requires_grad=True),
        "Parameter(SubTensor([1., 1.], requires_grad=True))",
    ),
    (meta((2, 3)), "tensor(..., device='meta', size=(2, 3))"),
    (meta(()), "tensor(..., device='meta', size=())"),
    (meta((0, 3)), "tensor(..., device='meta', size=(0, 3))"),
    (meta((2,), "int64"), "tensor(..., device='meta', size=(2,), dtype=torch.int64)"),
    (meta((2,), "float16"), "tensor(..., device='meta', size=(2,), dtype=torch.float16)"),
    (meta((2,), requires_grad=True), "tensor(..., device='meta', size=(2,), requires_grad=True)"),
    (
        meta((2,), grad_fn="AddBackward0"),
        "tensor(..., device='meta', size=(2,), grad_fn=<AddBackward0>)",
    ),
    (
        meta((2,), kind="Parameter", requires_grad=True),
        ("Parameter containing:\ntensor(..., device='meta', size=(2,), requires_grad=True)"),
    ),
    (meta((2,), kind="SubTensor"), "SubTensor(..., device='meta', size=(2,))"),
    (
        meta((1000, 1000), "bfloat16", requires_grad=True),
        (
            "tensor(..., device='meta', size=(1000, 1000), dtype=torch.bfloat16,\n"
            "       requires_grad=True)"
        ),
    ),
    (fake((2, 3)), "FakeTensor(..., size=(2, 3))"),
    (fake((2,), "int64"), "FakeTensor(..., size=(2,), dtype=torch.int64)"),
    (fake((0,), requires_grad=True), "FakeTensor(..., size=(0,), requires_grad=True)"),
    (
        coo([[0, 1, 2], [0, 1, 2]], [1.0, 1.0, 1.0], (3, 3)),
        (
            "tensor(indices=tensor([[0, 1, 2],\n"
            "                       [0, 1, 2]]),\n"
            "       values=tensor([1., 1., 1.]),\n"
            "       size=(3, 3), nnz=3, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0, 0]], [1.0, 2.0], (3,)),
        (
            "tensor(indices=tensor([[0, 0]]),\n"
            "       values=tensor([1., 2.]),\n"
            "       size=(3,), nnz=2, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2)),
        (
            "tensor(indices=tensor([[0, 1]]),\n"
            "       values=tensor([[1., 2.],\n"
            "                      [3., 4.]]),\n"
            "       size=(3, 2), nnz=2, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0, 2]], [1, 2], (3,), "int32"),
        (
            "tensor(indices=tensor([[0, 2]]),\n"
            "       values=tensor([1, 2]),\n"
            "       size=(3,), nnz=2, dtype=torch.int32, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0, 2]], [1, 2], (3,), "int64"),
        (
            "tensor(indices=tensor([[0, 2]]),\n"
            "       values=tensor([1, 2]),\n"
            "       size=(3,), nnz=2, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0]], [0.5], (1,), "float64", requires_grad=True),
        (
            "tensor(indices=tensor([[0]]),\n"
            "       values=tensor([0.5000]),\n"
            "       size=(1,), nnz=1, dtype=torch.float64, layout=torch.sparse_coo,\n"
            "       requires_grad=True)"
        ),
    ),
    (
        coo([[], []], [], (3, 2)),
        (
            "tensor(indices=tensor([], size=(2, 0)),\n"
            "       values=tensor([], size=(0,)),\n"
            "       size=(3, 2), nnz=0, layout=torch.sparse_coo)"
        ),
    ),
    (
        coo([[0]], [0.5], (1,), kind="Parameter", requires_grad=True),
        (
            "Parameter containing:\n"
            "tensor(indices=tensor([[0]]),\n"
            "       values=tensor([0.5000]),\n"
            "       size=(1,), nnz=1, layout=torch.sparse_coo, requires_grad=True)"
        ),
    ),
    (
        compressed("sparse_csr", [0, 1, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0], (3, 3)),
        (
            "tensor(crow_indices=tensor([0, 1, 2, 3]),\n"
            "       col_indices=tensor([0, 1, 2]),\n"
            "       values=tensor([1., 1., 1.]), size=(3, 3), nnz=3,\n"
            "       layout=torch.sparse_csr)"
        ),
    ),
    (
        compressed("sparse_csc", [0, 1, 2, 3], [0, 1, 2], [1.0, 1.0, 1.0], (3, 3), "float64"),
        (
            "tensor(ccol_indices=tensor([0, 1, 2, 3]),\n"
            "       row_indices=tensor([0, 1, 2]),\n"
            "       values=tensor([1., 1., 1.]), size=(3, 3), nnz=3, dtype=torch.float64,\n"
            "       layout=torch.sparse_csc)"
        ),
    ),
    (
        compressed("sparse_csr", [0, 1], [0], [1.0], (1, 1)),
        (
            "tensor(crow_indices=tensor([0, 1]),\n"
            "       col_indices=tensor([0]),\n"
            "       values=tensor([1.]), size=(1, 1), nnz=1, layout=torch.sparse_csr)"
        ),
    ),
    (
        compressed("sparse_csr", [0, 0, 0], [], [], (2, 2)),
        (
            "tensor(crow_indices=tensor([0, 0, 0]),\n"
            "       col_indices=tensor([], size=(0,)),\n"
            "       values=tensor([], size=(0,)), size=(2, 2), nnz=0,\n"
            "       layout=torch.sparse_csr)"
        ),
    ),
    (
        compressed("sparse_csr", [0, 1], [0], [1.0], (1, 1), requires_grad=True),
        (
            "tensor(crow_indices=tensor([0, 1]),\n"
            "       col_indices=tensor([0]),\n"
            "       values=tensor([1.]), size=(1, 1), nnz=1, layout=torch.sparse_csr,\n"
            "       requires_grad=True)"
        ),
    ),
    (
        compressed("sparse_bsr", [0, 1], [0], [[[1.0, 0.0], [0.0, 1.0]]], (2, 2)),
        (
            "tensor(crow_indices=tensor([0, 1]),\n"
            "       col_indices=tensor([0]),\n"
            "       values=tensor([[[1., 0.],\n"
            "                       [0., 1.]]]), size=(2, 2), nnz=1,\n"
            "       layout=torch.sparse_bsr)"
        ),
    ),
    (
        compressed("sparse_bsc", [0, 1], [0], [[[1.0, 0.0], [0.0, 1.0]]], (2, 2)),
        (
            "tensor(ccol_indices=tensor([0, 1]),\n"
            "       row_indices=tensor([0]),\n"
            "       values=tensor([[[1., 0.],\n"
            "                       [0., 1.]]]), size=(2, 2), nnz=1,\n"
            "       layout=torch.sparse_bsc)"
        ),
    ),
]

OPTION_CASES: list[tuple[Tensor, str, dict[str, Any]]] = [
    (
        t(np.arange(1000) % 2 == 2, "bool"),
        "tensor([False, False, False,  ..., False, False, False])",
        {"threshold": 999},
    ),
    (t(np.arange(7), "int64"), "tensor([0, 1, 2,  ..., 4, 5, 6])", {"threshold": 5}),
    (t(np.arange(6), "int64"), "tensor([0, 1, 2, 3, 4, 5])", {"threshold": 5}),
    (
        t(np.arange(12).reshape(3, 4), "int64"),
        "tensor([[ 0,  ...,  3],\n        ...,\n        [ 8,  ..., 11]])",
        {"threshold": 5, "edgeitems": 1},
    ),
    (
        t(np.arange(6), "int32"),
        "tensor([...], size=(6,), dtype=torch.int32)",
        {"threshold": 2, "edgeitems": 0},
    ),
    (t(np.ones((2, 3))), "tensor([...], size=(2, 3))", {"threshold": 2, "edgeitems": 0}),
    (t(1.0), "tensor(1., size=())", {"threshold": 2, "edgeitems": 0}),
    (
        coo([[0, 1, 2]], [1.0, 2.0, 3.0], (4,)),
        (
            "tensor(indices=tensor([...]),\n"
            "       values=tensor([...]),\n"
            "       size=(4,), nnz=3, layout=torch.sparse_coo)"
        ),
        {"threshold": 2, "edgeitems": 0},
    ),
    (
        t(np.arange(1500)),
        "tensor([0.00e+00, 1.00e+00,  ..., 1.50e+03, 1.50e+03])",
        {"profile": "short"},
    ),
    (t(np.arange(6) / 7), "tensor([0.00, 0.14, 0.29, 0.43, 0.57, 0.71])", {"profile": "short"}),
    (t([1e-9, 1.0]), "tensor([1.00e-09, 1.00e+00])", {"profile": "short"}),
    (t(np.arange(3) / 3), "tensor([0.00000000, 0.33333334, 0.66666669])", {"precision": 8}),
    (t([1.0, 2.0]), "tensor([1., 2.])", {"precision": 8}),
    (t([1e-9, 1.0]), "tensor([9.99999972e-10, 1.00000000e+00])", {"precision": 8}),
    (t(np.arange(6) / 3), "tensor([0, 0, 1, 1, 1, 2])", {"precision": 0}),
    (t(1e-9), "tensor(1e-09)", {"precision": 0}),
    (t([1.0, 2.0]), "tensor([1.0000e+00, 2.0000e+00])", {"sci_mode": True}),
    (t([0.0, 0.0]), "tensor([0., 0.])", {"sci_mode": True}),
    (t([nan, 0.5]), "tensor([       nan, 5.0000e-01])", {"sci_mode": True}),
    (t([1, 2], "int64"), "tensor([1, 2])", {"sci_mode": True}),
    (t([1 + 1j], "complex64"), "tensor([1.0000e+00+1.0000e+00j])", {"sci_mode": True}),
    (t([1e-9, 1.0]), "tensor([0.0000, 1.0000])", {"sci_mode": False}),
    (t([1.0, 1e9]), "tensor([         1., 1000000000.])", {"sci_mode": False}),
    (
        t([[0.5, 1.0], [1.5, 2.0]]),
        "tensor([[0.5000,\n         1.0000],\n        [1.5000,\n         2.0000]])",
        {"linewidth": 10},
    ),
    (t([1, 10], "int64"), "tensor([ 1,\n        10])", {"linewidth": 10}),
    (
        t(np.arange(30.0)),
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,\n"
            "         6.,  7.,  8.,  9., 10., 11.,\n"
            "        12., 13., 14., 15., 16., 17.,\n"
            "        18., 19., 20., 21., 22., 23.,\n"
            "        24., 25., 26., 27., 28., 29.])"
        ),
        {"linewidth": 40},
    ),
    (
        t([1.0], "float64", requires_grad=True),
        "tensor([1.], dtype=torch.float64,\n       requires_grad=True)",
        {"linewidth": 40},
    ),
    (
        t(np.arange(30.0), "float64"),
        (
            "tensor([ 0.,  1.,  2.,  3.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11., 12., 13., 14.,\n"
            "        15., 16., 17., 18., 19., 20., 21., 22., 23., 24., 25., 26., 27., 28., 29.],\n"
            "       dtype=torch.float64)"
        ),
        {"linewidth": 84},
    ),
    (t([1.0, 2.0], requires_grad=True), "tensor([1., 2.], requires_grad=True)", {"linewidth": 37}),
    (
        t([1.0, 2.0], requires_grad=True),
        "tensor([1., 2.],\n       requires_grad=True)",
        {"linewidth": 36},
    ),
    (t(np.arange(7), "int64"), "tensor([0, 1, 2, 3, 4, 5, 6])", {"threshold": 7}),
    (t([1.0]), "tensor([1.], dtype=torch.float32)", {"default": "float64"}),
    (t([1.0], "float64"), "tensor([1.])", {"default": "float64"}),
    (t([1j], "complex64"), "tensor([0.+1.j], dtype=torch.complex64)", {"default": "float64"}),
    (t([1j], "complex128"), "tensor([0.+1.j])", {"default": "float64"}),
    (t([1], "int64"), "tensor([1])", {"default": "float64"}),
    (t([], "float32"), "tensor([], dtype=torch.float32)", {"default": "float64"}),
    (t([1.0]), "tensor([1.], dtype=torch.float32)", {"default": "float16"}),
    (t([1.0], "float64"), "tensor([1.], dtype=torch.float64)", {"default": "float16"}),
    (t([1j], "complex64"), "tensor([0.+1.j])", {"default": "float16"}),
    (t([1j], "complex128"), "tensor([0.+1.j], dtype=torch.complex128)", {"default": "float16"}),
    (t([1], "int64"), "tensor([1])", {"default": "float16"}),
    (t([], "float32"), "tensor([], dtype=torch.float32)", {"default": "float16"}),
]


def numbered(cases: list[Any]) -> list[str]:
    return [str(position) for position in range(len(cases))]


def text_of(tensor: Tensor, default_dtype: Any = None) -> str:
    if isinstance(tensor, Parameter):
        return printing.parameter_str(tensor, default_dtype=default_dtype)
    return printing.tensor_str(tensor, default_dtype=default_dtype, tangent=tensor.tangent)


@pytest.mark.parametrize(("tensor", "expected"), CASES, ids=numbered(CASES))
def test_text(tensor: Tensor, expected: str) -> None:
    assert text_of(tensor) == expected


@pytest.mark.parametrize(
    ("tensor", "expected", "options"), OPTION_CASES, ids=numbered(OPTION_CASES)
)
def test_text_under_options(tensor: Tensor, expected: str, options: dict[str, Any]) -> None:
    chosen = dict(options)
    default = chosen.pop("default", None)
    with printing.printoptions(**chosen):
        text = text_of(tensor, default and Named(f"torch.{default}"))
    assert text == expected


def test_device_other_than_cpu_is_named() -> None:
    tensor = t([1.0, 2.0], device="cuda:0", requires_grad=True)
    expected = "tensor([1., 2.], device='cuda:0', requires_grad=True)"
    assert printing.tensor_str(tensor) == expected


def test_values_of_supplies_the_numbers() -> None:
    tensor = t([0.0, 0.0])
    text = printing.tensor_str(tensor, values_of=lambda asked: asked.array + 1)
    assert text == "tensor([1., 1.])"


def test_contents_replace_numbers_but_keep_suffixes() -> None:
    show = printing.tensor_str
    assert show(t([1.0]), tensor_contents="hello") == "tensor(hello)"
    assert show(t([]), tensor_contents="hello") == "tensor(hello)"
    text = show(meta((2,)), tensor_contents="hello")
    assert text == "tensor(hello, device='meta', size=(2,))"
    text = show(coo([[0, 1]], [1.0, 1.0], (2,)), tensor_contents="hello")
    assert text == "tensor(hello,\n       size=(2,), nnz=2, layout=torch.sparse_coo)"


def test_node_names_lose_their_namespace() -> None:
    tensor = t([1.0], grad_fn="torch::autograd::CopySlices")
    assert printing.tensor_str(tensor) == "tensor([1.], grad_fn=<CopySlices>)"


DEFAULTS = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


@pytest.mark.parametrize(
    ("arguments", "changed"),
    [
        ({}, {}),
        ({"precision": 2}, {"precision": 2}),
        ({"sci_mode": True}, {"sci_mode": True}),
        ({"profile": "short"}, {"precision": 2, "edgeitems": 2}),
        ({"profile": "FULL", "precision": 1}, {"precision": 1, "threshold": inf}),
        ({"profile": "default", "linewidth": 120}, {"linewidth": 120}),
        ({"profile": "unheard-of"}, {}),
    ],
)
def test_options_hold_inside_the_block_only(
    arguments: dict[str, Any], changed: dict[str, Any]
) -> None:
    assert printing.get_printoptions() == DEFAULTS
    with printing.printoptions(**arguments):
        assert printing.get_printoptions() == {**DEFAULTS, **changed}
    assert printing.get_printoptions() == DEFAULTS


def test_options_return_after_an_error() -> None:
    with pytest.raises(KeyError), printing.printoptions(precision=1, sci_mode=True):
        raise KeyError
    assert printing.get_printoptions() == DEFAULTS


def test_sci_mode_goes_back_to_automatic_when_left_out() -> None:
    with printing.printoptions(sci_mode=True):
        printing.set_printoptions(precision=2)
        assert printing.get_printoptions() == {**DEFAULTS, "precision": 2}
