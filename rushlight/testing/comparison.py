"""`assert_close`: tensors, numbers, and nests of them, equal up to a tolerance.

Each kind of pair has one function; a mismatch is a `Mismatch` that collects the place on its way
up, so that the text names the item where the two differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.promotion import promote_types
from rushlight.core.tensor import Tensor, values_of
from rushlight.opset import functions

__all__ = ["assert_allclose", "assert_close"]

# dtype -> (rtol, atol); zero for all others.
TOLERANCES = {
    dtypes.float16: (1e-3, 1e-5),
    dtypes.bfloat16: (1.6e-2, 1e-5),
    dtypes.float32: (1.3e-6, 1e-5),
    dtypes.float64: (1e-7, 1e-7),
    dtypes.complex32: (1e-3, 1e-5),
    dtypes.complex64: (1.3e-6, 1e-5),
    dtypes.complex128: (1e-7, 1e-7),
}


class Mismatch(Exception):
    """A difference, or a pair that cannot be compared, and the path to it from the inside out."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.path: list[Any] = []

    def full_text(self) -> str:
        if not self.path:
            return self.text
        place = "".join(f"[{key!r}]" for key in reversed(self.path))
        return f"{self.text}\n\nThe failure occurred for item {place}"


class Options:
    """How strictly to compare."""

    __slots__ = ("atol", "check_device", "check_dtype", "check_layout", "check_stride", "equal_nan",
                 "rtol", "subclasses")  # fmt: skip

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            setattr(self, name, value)

    def tolerances(self, *kinds: Any) -> tuple[float, float]:
        if self.rtol is not None:
            return self.rtol, self.atol
        found = [TOLERANCES.get(kind, (0.0, 0.0)) for kind in kinds]
        return max(rtol for rtol, _ in found), max(atol for _, atol in found)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, array-likes, numbers, None, and sequences and mappings of these. `msg` is the
    error's text, or a function that makes it from the usual one.

    >>> import rushlight as torch
    >>> torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        missing = "rtol" if rtol is None else "atol"
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {missing}."
        )
    options = Options(
        rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
        check_dtype=check_dtype, check_layout=check_layout, check_stride=check_stride,
        subclasses=allow_subclasses,
    )  # fmt: skip
    try:
        compare(actual, expected, options)
        return
    except Mismatch as found:
        mismatch = found
    text = mismatch.full_text()
    if msg is not None and mismatch.kind is AssertionError:
        text = msg(text) if callable(msg) else msg
    raise mismatch.kind(text)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: `assert_close` without the checks of dtype, device and stride."""
    import warnings

    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a "
        "future release. Please use `torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual, expected = [
        v if isinstance(v, Tensor) else as_tensor_like(v) for v in (actual, expected)
    ]
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
        check_dtype=False, check_stride=False, msg=msg or None,
    )  # fmt: skip


def same(ref: Any, res: Any, *, tol: float = 1e-4, equal_nan: bool = False) -> bool:
    """Whether results are alike: their structure, and their tensors within a tolerance."""
    try:
        assert_close(res, ref, rtol=tol, atol=tol, equal_nan=equal_nan)
    except AssertionError:
        return False
    return True


def as_tensor_like(value: Any) -> Any:
    from rushlight.core.construct import as_tensor

    return as_tensor(value)


NUMBERS = (int, float, complex)


def compare(actual: Any, expected: Any, options: Options) -> None:
    if isinstance(actual, Tensor) and isinstance(expected, Tensor):
        related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
        if not related or (not options.subclasses and type(actual) is not type(expected)):
            raise cannot_compare(actual, expected)
        return compare_tensors(actual, expected, options)
    if actual is None or expected is None:
        if actual is not expected:
            raise Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}")
        return None
    if is_bool(actual) or is_bool(expected):
        if not (is_bool(actual) and is_bool(expected)):
            raise cannot_compare(actual, expected)
        if bool(actual) is not bool(expected):
            raise Mismatch(AssertionError, f"Booleans mismatch: {actual} is not {expected}")
        return None
    if is_number(actual) and is_number(expected):
        return compare_numbers(actual, expected, options)
    if isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray):
        return compare_tensors(as_tensor_like(actual), as_tensor_like(expected), options)
    if is_sequence(actual) and is_sequence(expected):
        if len(actual) != len(expected):
            text = f"The length of the sequences mismatch: {len(actual)} != {len(expected)}"
            raise Mismatch(AssertionError, text)
        return compare_items([(i, actual[i], expected[i]) for i in range(len(actual))], options)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        return compare_mappings(actual, expected, options)
    raise cannot_compare(actual, expected)


def cannot_compare(actual: Any, expected: Any) -> Mismatch:
    return Mismatch(
        TypeError,
        f"No comparison pair was able to handle inputs of type {type(actual)} and "
        f"{type(expected)}.",
    )


def is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_))


def is_number(value: Any) -> bool:
    return isinstance(value, (*NUMBERS, np.number)) and not is_bool(value)


def is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def compare_items(items: list[tuple[Any, Any, Any]], options: Options) -> None:
    for key, actual, expected in items:
        try:
            compare(actual, expected, options)
        except Mismatch as found:
            found.path.append(key)
            raise


def compare_mappings(actual: Any, expected: Any, options: Options) -> None:
    if set(actual) != set(expected):
        missing = [key for key in expected if key not in actual]
        extra = [key for key in actual if key not in expected]
        raise Mismatch(
            AssertionError,
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {missing}\n"
            f"Additional keys in the actual mapping: {extra}",
        )
    keys = list(actual)
    with suppress(TypeError):
        keys.sort()
    compare_items([(key, actual[key], expected[key]) for key in keys], options)


def compare_numbers(actual: Any, expected: Any, options: Options) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise Mismatch(
            AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}."
        )
    kinds = [number_dtype(value) for value in (actual, expected)]
    rtol, atol = options.tolerances(*kinds)
    if numbers_close(actual, expected, rtol, atol, options.equal_nan):
        return
    raise Mismatch(AssertionError, number_text(actual, expected, rtol, atol))


def number_dtype(value: Any) -> Any:
    if isinstance(value, (complex, np.complexfloating)):
        return dtypes.complex128
    return dtypes.float64 if isinstance(value, (float, np.floating)) else dtypes.int64


def numbers_close(actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if actual == expected:
        return True
    if actual != actual and expected != expected:
        return equal_nan
    if abs(expected) == float("inf"):
        return False
    return bool(abs(actual - expected) <= atol + rtol * abs(expected))


def number_text(actual: Any, expected: Any, rtol: float, atol: float) -> str:
    equal = rtol == 0 and atol == 0
    difference = abs(actual - expected)
    relative = float("inf") if expected == 0 else difference / abs(expected)
    lines = ["Scalars are not equal!" if equal else "Scalars are not close!", ""]
    lines.append(f"Expected {expected} but got {actual}.")
    for name, value, allowed in (("Absolute", difference, atol), ("Relative", relative, rtol)):
        lines.append(
            f"{name} difference: {value}" + ("" if equal else f" (up to {allowed} allowed)")
        )
    return "\n".join(lines)


def compare_tensors(actual: Any, expected: Any, options: Options) -> None:
    check("shape", actual.shape, expected.shape)
    if options.check_layout:
        check("layout", actual.layout, expected.layout)
    if options.check_device:
        check("device", actual.device, expected.device)
    if options.check_dtype:
        check("dtype", actual.dtype, expected.dtype)
    if actual.is_quantized or expected.is_quantized:
        check("is_quantized", actual.is_quantized, expected.is_quantized)
        check("qscheme()", actual.qscheme(), expected.qscheme())
        actual, expected = actual.dequantize(), expected.dequantize()
    strided = actual.layout.name == expected.layout.name == "strided"
    if options.check_stride and strided:
        check("stride()", actual.stride(), expected.stride())
    tolerances = options.tolerances(actual.dtype, expected.dtype)
    if not strided and actual.layout is expected.layout:
        compare_sparse(actual, expected, tolerances, options)
        return
    if not strided:
        actual, expected = [
            t.to_dense() if t.layout.name != "strided" else t for t in (actual, expected)
        ]
    compare_values(actual, expected, tolerances, options)


# Parts of a sparse tensor that say where its values are.
INDICES = {
    "sparse_coo": ("_indices",),
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def compare_sparse(
    actual: Any, expected: Any, tolerances: tuple[float, float], options: Options
) -> None:
    """Sparse tensors of one layout: equal indices, close values."""
    layout = actual.layout.name
    shown = "sparse " + layout.removeprefix("sparse_").upper()
    if layout == "sparse_coo" and actual.sparse_dim() != expected.sparse_dim():
        raise Mismatch(
            AssertionError,
            "The number of sparse dimensions in sparse COO tensors does not match: "
            f"{actual.sparse_dim()} != {expected.sparse_dim()}",
        )
    if actual._nnz() != expected._nnz():
        raise Mismatch(
            AssertionError,
            f"The number of specified values in {shown} tensors does not match: "
            f"{actual._nnz()} != {expected._nnz()}",
        )
    title = shown[0].upper() + shown[1:]
    for part in INDICES[layout]:
        pair = (getattr(actual, part)(), getattr(expected, part)())
        compare_values(*pair, (0.0, 0.0), options, f"{title} {part.lstrip('_')}")
    values = "_values" if layout == "sparse_coo" else "values"
    pair = (getattr(actual, values)(), getattr(expected, values)())
    compare_values(*pair, tolerances, options, f"{title} values")


def compare_values(
    actual: Any,
    expected: Any,
    tolerances: tuple[float, float],
    options: Options,
    title: str = "Tensor-likes",
) -> None:
    rtol, atol = tolerances
    if actual.device.type == "meta" or expected.device.type == "meta":
        # Nothing to compare but what was compared above.
        return
    actual, expected = actual.detach(), expected.detach()
    common = promote_types(actual.dtype, expected.dtype)
    left, right = actual.to(common), expected.to(common)
    matches = functions.isclose(left, right, rtol=rtol, atol=atol, equal_nan=options.equal_nan)
    agree = values_of(matches)
    if agree.all():
        return
    if left.dim() == 0:
        raise Mismatch(AssertionError, number_text(left.item(), right.item(), rtol, atol))
    raise Mismatch(AssertionError, tensor_text(left, right, agree.reshape(-1), tolerances, title))


def check(name: str, actual: Any, expected: Any) -> None:
    if actual != expected:
        raise Mismatch(
            AssertionError,
            f"The values for attribute '{name}' do not match: {actual} != {expected}.",
        )


def tensor_text(
    actual: Any, expected: Any, agree: Any, tolerances: tuple[float, float], title: str
) -> str:
    rtol, atol = tolerances
    shape = tuple(actual.shape)
    if actual.dtype is dtypes.bool_:
        actual, expected = actual.to(dtypes.int64), expected.to(dtypes.int64)
    difference = (actual - expected).abs()
    relative = difference / expected.abs()
    equal = rtol == 0 and atol == 0
    wrong = int((~agree).sum())
    share = f"{wrong / agree.size:.1%}"
    lines = [f"{title} are not {'equal' if equal else 'close'}!", ""]
    lines.append(f"Mismatched elements: {wrong} / {agree.size} ({share})")
    for name, tensor, allowed in (("absolute", difference, atol), ("relative", relative, rtol)):
        exact = tensor.reshape(-1).tolist()
        values = np.array(exact, dtype=np.float64)
        values[agree] = 0
        place = int(values.argmax())
        index = tuple(int(i) for i in np.unravel_index(place, shape))
        line = f"Greatest {name} difference: {exact[place]} at index {index}"
        lines.append(line + ("" if equal else f" (up to {allowed} allowed)"))
    return "\n".join(lines)
