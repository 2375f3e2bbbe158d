"""`FlopCounterMode`: floating point operations of matrix products and convolutions, counted.

A multiplication and its addition are two operations. Formulas are by operator, in `flop_registry`;
they take the shapes of the operator's arguments and result.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from math import prod
from typing import Any

from rushlight.base import pytree
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.opset.registry import packet
from rushlight.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

Shape = Sequence[int]
Formula = Callable[..., int]
flop_registry: dict[Any, Formula] = {}
SUFFIXES = ("", "K", "M", "B", "T")


def shape_of(value: Any) -> Any:
    return value.shape if isinstance(value, Tensor) else value


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Say how many operations an operator, or each of a list, takes.

    The formula is given the arguments with shapes for tensors, and `out_shape`; with `get_raw` it
    is given them as they are, and `out_val`.
    """

    def register(formula: Formula) -> Formula:
        if get_raw:
            stored = formula
        else:

            @wraps(formula)
            def stored(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
                shapes = pytree.tree_map(shape_of, (args, kwargs, out_val))
                return formula(*shapes[0], out_shape=shapes[2], **shapes[1])

        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if isinstance(target, OpOverload):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket "
                    f"(i.e. torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = stored
        return formula

    return register


# -------------------------------------------------------------------- formulas


def inner(names: str, a: int, k: int, b: int) -> int:
    if a != b:
        raise AssertionError(f"{names}: inner sizes {a} and {b} differ")
    return 2 * k * a


@register_flop_formula(packet("mm"))
def mm_flop(
    a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Of [m, k] times [k, n]."""
    return inner("mm", a_shape[1], a_shape[0] * b_shape[1], b_shape[0])


@register_flop_formula(packet("addmm"))
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    return mm_flop(a_shape, b_shape)


@register_flop_formula(packet("bmm"))
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Of [b, m, k] times [b, k, n]."""
    return inner("bmm", a_shape[2], prod(a_shape[:2]) * b_shape[2], b_shape[1])


@register_flop_formula(packet("baddbmm"))
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(
    x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False
) -> int:
    """Of a convolution: every place of the kernel, for each channel of both sides."""
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * prod(places) * x_shape[0] * prod(w_shape)


@register_flop_formula(packet("convolution"))
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


def swapped(shape: Shape) -> list[int]:
    return [shape[1], shape[0], *shape[2:]]


@register_flop_formula(packet("convolution_backward"))
def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Sequence[bool],
    out_shape: Any,
) -> int:
    """Both gradients are convolutions too: of the output's gradient, and over the batch."""
    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        over = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        places = swapped(out_shape[1])
        count += conv_flop_count(swapped(over[0]), swapped(over[1]), places, transposed=False)
    return count


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Of attention: scores, and their product with the values."""
    b, h, s_q, d_q = query_shape
    return 2 * b * h * s_q * key_shape[-2] * (d_q + value_shape[-1])


# -------------------------------------------------------------------- the mode


def suffix_of(number: int) -> str:
    places = max(0, min(len(SUFFIXES) - 1, (len(str(number)) - 2) // 3))
    return SUFFIXES[places]


def with_suffix(number: int, suffix: str) -> str:
    return f"{number / 1000 ** SUFFIXES.index(suffix):.3f}{suffix}"


class FlopCounterMode:
    """Counts the operations of what runs within it, by module and operator.

    >>> import rushlight as torch
    >>> from rushlight.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth = depth
        self.display = display
        self.mode: CountingMode | None = None
        given = custom_mapping or {}
        self.flop_registry = {**flop_registry, **{op: raw(rule) for op, rule in given.items()}}
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Module's name -> operator -> operations."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def rows(self, depth: int) -> list[tuple[str, str, str]]:
        total = self.get_total_flops()
        suffix = suffix_of(total)
        found: list[tuple[str, str, str]] = []
        for name in sorted(self.flop_counts):
            level = name.count(".") + 1
            if name == "Global" or level > depth:
                continue
            found += self.rows_of(name, "  " * level, total, suffix)
        if found or total:
            found = self.rows_of("Global", "", total, suffix) + found
        return found or [("Global", "0", "0%")]

    def rows_of(
        self, name: str, indent: str, total: int, suffix: str
    ) -> list[tuple[str, str, str]]:
        def row(text: str, count: int) -> tuple[str, str, str]:
            share = f"{count / total:.2%}" if total else "0%"
            return indent + text, with_suffix(count, suffix), share

        counts = self.flop_counts[name]
        lines = [row(name, sum(counts.values()))]
        return lines + [row(f" - {op}", count) for op, count in counts.items()]

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, modules down to `depth`."""
        rows = [("Module", "FLOP", "% Total"), *self.rows(self.depth if depth is None else depth)]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]

        def line(row: tuple[str, str, str]) -> str:
            name, count, share = row
            return f"{name:<{widths[0]}}  {count:>{widths[1]}}  {share:>{widths[2]}}".rstrip()

        rule = "  ".join("-" * width for width in widths)
        return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])

    def count(self, func: Any, out: Any, args: Any, kwargs: Any) -> None:
        formula = self.flop_registry.get(func.overloadpacket)
        if formula is None:
            return
        flops = formula(*args, **kwargs, out_val=out)
        for parent in set(self.mod_tracker.parents):
            self.flop_counts[parent][func.overloadpacket] += flops

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = CountingMode(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        assert self.mode is not None
        self.mode.__exit__(*details)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))


def raw(rule: Any) -> Formula:
    """A formula that the user gave: of shapes, unless it says that it takes values."""
    if getattr(rule, "_get_raw", False):
        return rule  # type: ignore[no-any-return]

    def formula(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes = pytree.tree_map(shape_of, (args, kwargs, out_val))
        return int(rule(*shapes[0], out_shape=shapes[2], **shapes[1]))

    return formula


class CountingMode(TorchDispatchMode):
    """Sees every operator below autograd; one without a formula is counted by its parts."""

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket not in self.counter.flop_registry:
            with self:
                parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **kwargs)
        self.counter.count(func, out, args, kwargs)
        return out
