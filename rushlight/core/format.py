"""Tensors as text, character for character as torch prints them.

Everything a tensor must offer is torch's public surface; its numbers arrive as one NumPy
array through `values_of` (by default the tensor's own `_host_array()`), or as None for a tensor
that has no numbers, such as a meta or fake tensor. Dtypes, layouts and devices are told apart
by their printed names only, so this module needs nothing else of the package but the default
dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rushlight.core import dtype as dtypes

if TYPE_CHECKING:
    from rushlight.core.dtype import dtype
    from rushlight.core.protocols import Array
    from rushlight.core.tensor import Tensor

__all__ = ["get_printoptions", "parameter_str", "printoptions", "set_printoptions", "tensor_str"]

ValuesOf = Callable[[Any], Any]

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}

_COMPRESSED_PARTS = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


class _Options:
    """The process-wide printing options."""

    __slots__ = ("edgeitems", "linewidth", "precision", "sci_mode", "threshold")

    def __init__(self) -> None:
        self.precision: int = 4
        self.threshold: float = 1000
        self.edgeitems: int = 3
        self.linewidth: int = 80
        self.sci_mode: bool | None = None


_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print; a value left out keeps its setting, or the profile's."""
    chosen: dict[str, Any] = {}
    if profile is not None:
        # torch: a profile of another name is passed over without an error.
        chosen.update(_PROFILES.get(str(profile).lower(), {}))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    chosen.update((name, value) for name, value in given.items() if value is not None)
    for name, value in chosen.items():
        setattr(_options, name, value)
    # torch: leaving sci_mode out puts the choice back to automatic.
    _options.sci_mode = sci_mode


def get_printoptions() -> dict[str, Any]:
    """The options in force, as keyword arguments for `set_printoptions`."""
    return {
        "precision": _options.precision,
        "threshold": _options.threshold,
        "edgeitems": _options.edgeitems,
        "linewidth": _options.linewidth,
        "sci_mode": _options.sci_mode,
    }


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Options for the length of a with block."""
    before = get_printoptions()
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        set_printoptions(**before)


class _NumberStyle(Protocol):
    """How every number of one tensor is written; `width` is the room one of them takes."""

    width: int

    def text(self, number: Any) -> str: ...


class _PlainStyle:
    """Integers and booleans: right-aligned, nothing else."""

    def __init__(self, array: Array) -> None:
        self.width = max((len(str(number)) for number in array.ravel().tolist()), default=1)

    def text(self, number: object) -> str:
        return str(number).rjust(self.width)


class _RealStyle:
    """Floating-point numbers: whole ("1."), fixed ("1.2500") or scientific ("1.2500e+00").

    Only the finite numbers other than zero choose the style and the width.
    """

    def __init__(self, array: Array) -> None:
        numbers = np.asarray(array, dtype=np.float64).ravel()
        numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
        self.width = 1
        self.point = "."
        self.spec = ".0f"
        if numbers.size == 0:
            return
        magnitudes = np.abs(numbers)
        largest = float(magnitudes.max())
        smallest = float(magnitudes.min())
        whole = bool((numbers == np.ceil(numbers)).all())
        scientific = _options.sci_mode
        if scientific is None:
            mixed = largest / smallest > 1000.0
            scientific = mixed or largest > 1.0e8 or (not whole and smallest < 1.0e-4)
        if scientific:
            self.spec, self.point = f".{_options.precision}e", ""
        elif not whole:
            self.spec, self.point = f".{_options.precision}f", ""
        self.width = max(len(format(number, self.spec)) for number in numbers.tolist())
        self.width += len(self.point)

    def text(self, number: float) -> str:
        point = self.point if math.isfinite(number) else ""
        return (format(number, self.spec) + point).rjust(self.width)


class _ComplexStyle:
    """Complex numbers: each part styled over its own numbers, the sign between them."""

    def __init__(self, array: Array) -> None:
        self.real = _RealStyle(array.real)
        self.imag = _RealStyle(array.imag)
        self.width = self.real.width + self.imag.width + 1

    def text(self, number: complex) -> str:
        imag = self.imag.text(number.imag).lstrip()
        sign = "" if imag.startswith("-") else "+"
        return f"{self.real.text(number.real)}{sign}{imag}j"


def _style_for(dtype: dtype, array: Array) -> tuple[_NumberStyle, Any]:
    """The style for the numbers of `array`, and the array in the type it is styled in."""
    if dtype.is_complex:
        if array.dtype.kind != "c":
            # Pairs of halves are a record to NumPy.
            array = array["real"] + 1j * array["imag"].astype(np.float64)
        array = array.astype(np.complex128)
        return _ComplexStyle(array), array
    if dtype.is_floating_point:
        if array.dtype.kind != "f":
            # Types from outside NumPy all reach float32 exactly; not all reach float64 directly.
            array = array.astype(np.float32)
        array = array.astype(np.float64)
        return _RealStyle(array), array
    return _PlainStyle(array), array


def _edges(array: Array, count: int) -> tuple[Any, list[bool]]:
    """The first and last `count` entries along every axis, and which axes were cut."""
    cut = [length > 2 * count for length in array.shape]
    for axis, shortened in enumerate(cut):
        if shortened:
            length = array.shape[axis]
            kept = [*range(count), *range(length - count, length)]
            array = array.take(kept, axis=axis)
    return array, cut


class _Layout:
    """Brackets, commas and line breaks around the numbers of one array."""

    def __init__(self, style: _NumberStyle, cut: list[bool]) -> None:
        self.style = style
        self.cut = cut
        self.edge = _options.edgeitems

    def nested(self, items: list[Any], axis: int, indent: int) -> str:
        """Text of the nested list `items`, whose opening bracket stands at column `indent`."""
        if axis == len(self.cut) - 1:
            return self.row([self.style.text(item) for item in items], axis, indent)
        parts = [self.nested(item, axis + 1, indent + 1) for item in items]
        if self.cut[axis]:
            parts.insert(self.edge, "...")
        line_breaks = "\n" * (len(self.cut) - 1 - axis)
        return "[" + f",{line_breaks}{' ' * (indent + 1)}".join(parts) + "]"

    def row(self, texts: list[str], axis: int, indent: int) -> str:
        if self.cut[axis]:
            texts.insert(self.edge, " ...")
        per_line = max(1, math.floor((_options.linewidth - indent) / (self.style.width + 2)))
        lines = [
            ", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)
        ]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _array_text(dtype: dtype, array: Array, indent: int) -> str:
    cut = [False] * array.ndim
    if array.ndim and array.size > _options.threshold:
        if _options.edgeitems == 0:
            return "[...]"
        array, cut = _edges(array, _options.edgeitems)
    style, array = _style_for(dtype, array)
    if array.ndim == 0:
        return style.text(array.item())
    return _Layout(style, cut).nested(array.tolist(), 0, indent)


def body_str(tensor: Tensor, indent: int = 0) -> str:
    """The numbers of a dense tensor, as `repr` shows them."""
    return _array_text(tensor.dtype, _host_array(tensor.detach()), indent)


def _last_name(thing: object) -> str:
    """The name without its package: "float32" of torch.float32."""
    return repr(thing).rpartition(".")[2]


def _host_array(tensor: Tensor) -> Any:
    return tensor._host_array()


def _values(tensor: Tensor, values_of: ValuesOf) -> Any:
    """The tensor's array, or None where it has no numbers to show."""
    return None if tensor.device.type == "meta" else values_of(tensor)


def _size_suffix(tensor: Tensor) -> str:
    return f"size={tuple(tensor.shape)}"


def _part_text(name: str, part: Tensor, values_of: ValuesOf, indent: int) -> str:
    """One of the dense tensors a sparse one is made of, as `name=tensor(...)`."""
    opening = f"{name}=tensor("
    size = ""
    part = part.detach()
    array = _values(part, values_of)
    if array is None:
        content, size = "...", ", " + _size_suffix(part)
    elif part.numel() == 0:
        content, size = "[]", ", " + _size_suffix(part)
    else:
        content = _array_text(part.dtype, array, indent + len(opening))
    return f"{opening}{content}{size})"


def with_suffixes(body: str, suffixes: list[str], indent: int, break_first: bool) -> str:
    """`body` and its suffixes, each on a line of its own where the current one is full."""
    pieces = [body]
    # torch: the closing bracket and one more column are reserved on the line of the numbers.
    column = len(body) - (body.rfind("\n") + 1) + 2
    for suffix in suffixes:
        if break_first or column + len(suffix) + 2 > _options.linewidth:
            pieces.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
            break_first = False
        else:
            pieces.append(", " + suffix)
            column += len(suffix) + 2
    pieces.append(")")
    return "".join(pieces)


def _history_suffixes(tensor: Tensor) -> list[str]:
    try:
        node = tensor.grad_fn
    except Exception:  # An error in reading the history must not keep the numbers from showing.
        return ["grad_fn=<Invalid>"]
    if node is None:
        return ["requires_grad=True"] if tensor.requires_grad else []
    named = getattr(node, "name", None)
    name = named() if callable(named) else type(node).__name__
    return [f"grad_fn=<{name.rpartition('::')[2]}>"]


def _is_parameter(tensor: Tensor) -> bool:
    if getattr(tensor, "_is_param", False):
        return True
    return any(cls.__name__ == "Parameter" for cls in type(tensor).__mro__)


def _parts_text(tensor: Tensor, layout: str, values_of: ValuesOf, indent: int) -> str:
    """The indices and values of a sparse tensor."""
    if layout == "sparse_coo":
        parts = [("indices", tensor._indices()), ("values", tensor._values())]
    else:
        names = (*_COMPRESSED_PARTS[layout], "values")
        parts = [(name, getattr(tensor, name)()) for name in names]
    return (",\n" + " " * indent).join(
        _part_text(name, part, values_of, indent) for name, part in parts
    )


def tensor_str(
    tensor: Tensor,
    *,
    values_of: ValuesOf | None = None,
    default_dtype: dtype | None = None,
    tangent: Tensor | None = None,
    tensor_contents: str | None = None,
) -> str:
    """What `repr(tensor)` shows.

    `default_dtype` (when None, the one in force) is the one floating type left unsaid; `tangent`
    is the tensor's forward-mode tangent, if it has one; `tensor_contents` replaces the numbers.
    """
    if values_of is None:
        values_of = _host_array
    class_name = type(tensor).__name__
    plain = class_name in ("Tensor", "Parameter")
    opening = "tensor(" if plain else f"{class_name}("
    indent = len(opening)

    layout = _last_name(tensor.layout)
    dtype_name = _last_name(tensor.dtype)
    default_name = _last_name(default_dtype or dtypes.default_dtype)
    default_complex = "complex128" if default_name == "float64" else "complex64"
    on_meta = tensor.device.type == "meta"
    inferable_dtype = dtype_name in (default_name, default_complex, "int64", "bool")

    suffixes: list[str] = []
    if tensor.device.type != "cpu":
        suffixes.append(f"device='{tensor.device}'")

    content = ""
    if layout == "sparse_coo" or layout in _COMPRESSED_PARTS:
        suffixes.append(_size_suffix(tensor))
        if not on_meta:
            suffixes.append(f"nnz={tensor._nnz()}")
        dtype_said = not inferable_dtype
        if tensor_contents is None:
            content = _parts_text(tensor, layout, values_of, indent)
    else:
        array = _values(tensor, values_of)
        if array is None:
            suffixes.append(_size_suffix(tensor))
            dtype_said = dtype_name != default_name
            content = "..."
        elif tensor.numel() == 0:
            if tensor.dim() != 1:
                suffixes.append(_size_suffix(tensor))
            dtype_said = dtype_name != default_name
            content = "[]"
        else:
            if _options.edgeitems == 0:
                suffixes.append(_size_suffix(tensor))
            dtype_said = not inferable_dtype
            if tensor_contents is None:
                content = _array_text(tensor.dtype, array, indent)
    if tensor_contents is not None:
        content = tensor_contents
    if dtype_said:
        suffixes.append(f"dtype={tensor.dtype!r}")
    if layout != "strided":
        suffixes.append(f"layout={tensor.layout!r}")
    suffixes += _history_suffixes(tensor)
    if tangent is not None:
        tangent_text = tensor_str(tangent, values_of=values_of, default_dtype=default_dtype)
        suffixes.append(f"tangent={tangent_text}")

    text = with_suffixes(opening + content, suffixes, indent, layout == "sparse_coo")
    return f"Parameter({text})" if not plain and _is_parameter(tensor) else text


def parameter_str(
    parameter: Tensor, *, values_of: ValuesOf | None = None, default_dtype: dtype | None = None
) -> str:
    """What `repr()` shows of an `nn.Parameter`."""
    text = tensor_str(parameter, values_of=values_of, default_dtype=default_dtype)
    return "Parameter containing:\n" + text
