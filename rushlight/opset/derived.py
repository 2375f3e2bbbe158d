"""Derived overloads and their kinds: in-place forms write the functional result into their first
argument, out= forms into the given tensors.

Records are derived on first use, maybe by several threads: the one that is stored first counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rushlight.base.errors import error
from rushlight.base.schema import AliasInfo, Argument, Return, compose
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.promotion import can_cast
from rushlight.core.tensor import (
    Tensor,
    alias_array,
    sizes_of,
    storage_of,
    strides_of,
    values_of,
)
from rushlight.opset.elementwise import COMPLEX_TO_FLOAT, DEFAULT
from rushlight.opset.kinds import Kind, arrays_of, is_unusual, tensors_in
from rushlight.opset.results import make_view

__all__ = [
    "INPLACE", "INPLACE_VIEW", "MUTATION", "OUT", "derive_inplace", "derive_named_out",
    "derived_options", "inplace_record", "out_record", "resize_tensor", "write_into",
]  # fmt: skip


def write_into(target: Tensor, result: Tensor, casts: bool = False) -> None:
    """Store a computed result in existing memory, casting as in-place ops may, or to any dtype."""
    if not geometry.same_sizes(target.shape, result.shape):
        raise misfit(target, result)
    if not casts:
        check_cast(target, result)
    if target._array is None:
        return
    np.copyto(target._array, as_stored(target, result._array), casting="unsafe")


def misfit(target: Tensor, result: Tensor) -> RuntimeError:
    return RuntimeError(
        f"output with shape {list(target.shape)} doesn't match the broadcast shape "
        f"{list(result.shape)}"
    )


def check_cast(target: Tensor, result: Tensor) -> None:
    """Refuse to store a result in memory of a lesser kind of dtype."""
    if not can_cast(result._dtype, target._dtype):
        raise RuntimeError(
            f"result type {result._dtype.scalar_type_name} can't be cast to the desired output "
            f"type {target._dtype.scalar_type_name}"
        )


def as_stored(target: Tensor, values: Any) -> Any:
    """Values as the memory of a tensor with lazy bits holds them."""
    unusual = target._unusual
    if unusual is not None and unusual.conj:
        values = np.conjugate(values)
    if unusual is not None and unusual.neg:
        values = np.negative(values)
    return values


def check_no_internal_overlap(sizes: Any, strides: Any) -> None:
    """Refuse to write to a tensor whose elements share memory."""
    if geometry.is_overlapping(sizes, strides):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a"
            " single memory location. Please clone() the tensor before performing the operation."
        )


def check_writable(target: Tensor) -> None:
    if not target._is_contiguous:
        check_no_internal_overlap(target.shape, strides_of(target))


def check_operands(target: Tensor, operands: tuple[Any, ...]) -> None:
    """Refuse to write element by element to memory that an operand reads elsewhere."""
    for other in tensors_in(operands):
        if other is not target and may_share(target, other) and overlaps_partly(target, other):
            raise shared_memory()


def check_room(target: Tensor, operands: tuple[Any, ...], value: Tensor) -> None:
    """Refuse to resize, for a result, memory that an operand reads."""
    if any([operand is target for operand in operands]):
        raise misfit(target, value)
    check_operands(target, operands)


def check_apart(target: Tensor, operands: tuple[Any, ...]) -> None:
    """Refuse to write in any order to memory that an operand reads."""
    for other in tensors_in(operands):
        if other is target or (
            may_share(target, other)
            and (covers_same(target, other) or overlaps_partly(target, other))
        ):
            raise shared_memory()


def shared_memory() -> RuntimeError:
    return RuntimeError(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer "
        "to a single memory location. Please clone() the tensor before performing the operation."
    )


def may_share(first: Tensor, second: Tensor) -> bool:
    """A quick test for tensors with values: False where no view of one could be the other."""
    if first._array is None or second._array is None:
        return False
    if first._view is None and second._view is None:
        storage = first._storage
        return storage is not None and storage is second._storage
    return np.may_share_memory(first._array, second._array)


def dense_span(tensor: Tensor) -> tuple[int, int] | None:
    """Where a tensor's memory begins and ends, if it is all of the memory in between."""
    sizes = sizes_of(tensor)
    if 0 in sizes or not geometry.is_non_overlapping_and_dense(sizes, strides_of(tensor)):
        return None
    begin = tensor.data_ptr()
    return begin, begin + geometry.numel(sizes) * tensor._dtype.itemsize


def overlaps_partly(first: Tensor, second: Tensor) -> bool:
    """Whether two dense tensors share some memory, but not element by element."""
    one, other = dense_span(first), dense_span(second)
    if one is None or other is None:
        return False
    if one == other:
        return strides_of(first) != strides_of(second)
    return one[0] < other[1] and other[0] < one[1]


def covers_same(first: Tensor, second: Tensor) -> bool:
    """Whether two dense tensors share memory element by element."""
    span = dense_span(first)
    return (
        span is not None and span == dense_span(second) and strides_of(first) == strides_of(second)
    )


def is_structured(op: Any) -> bool:
    """Whether memory that a result is written to must fit it exactly."""
    return "product" in op.options


# Kinds of ops that write into a tensor of their result's dtype only.
EXACT = frozenset(
    (
        "CONTRACTION", "DUPLICATE", "GATHER", "LINALG", "REARRANGEMENT", "REDUCTION", "SCATTER",
        "SORT", "WINDOW",
    )
)  # fmt: skip
# Names of numbers that count as operands, beside which a result is promoted.
OPERANDS = frozenset(("self", "other", "exponent"))


def exact_out(op: Any) -> Any:
    """Whether `out=` must have the result's dtype; or the dtypes of which it must have one."""
    given = op.options.get("exact_out")
    if given is not None:
        return given
    if op.kind.name != "POINTWISE":
        return op.kind.name in EXACT and op.body is None
    # torch: a function of one tensor that promotes nothing casts nothing either.
    promotes = op.options.get("promote", DEFAULT) not in (DEFAULT, COMPLEX_TO_FLOAT)
    numbers = [a.name for a in op._schema.arguments if a.type.kind == "Scalar"]
    return not (promotes or len(op.tensor_positions) > 1 or not OPERANDS.isdisjoint(numbers))


def check_out_dtype(exact: Any, target: Tensor, value: Tensor) -> None:
    """Refuse an `out=` tensor of another dtype where the op casts nothing (`exact_out`)."""
    found, expected = target._dtype, value._dtype
    if found is expected or not exact or (type(exact) is tuple and found in exact):
        return
    raise RuntimeError(
        f"Expected out tensor to have dtype {expected.cpp_name}, but got {found.cpp_name} instead"
    )


class Inplace(Kind):
    """`x.add_(y)`: the functional backend, written back."""

    def derive(self, op: Any, rule: str) -> Any:
        return op.functional.rule(rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        base = op.functional
        if base.options.get("writes"):
            return writing_backend(op, base)
        check = base.options.get("inplace_check")
        by_element = base.kind.name == "POINTWISE"
        structured = is_structured(base)

        def backend(*args: Any) -> Any:
            target = args[0]
            if check is not None:
                check(*args)
            if holds_sparse(args):
                return sparse_in_place(op, args)
            check_writable(target)
            if by_element:
                check_operands(target, args[1:])
            result = base.backend(*args)
            if structured and not geometry.same_sizes(target.shape, result.shape):
                raise RuntimeError(
                    f"Bad in-place call: input tensor size {list(target.shape)} and output tensor "
                    f"size {list(result.shape)} should match"
                )
            write_into(target, result)
            return target

        return backend


def writing_backend(op: Any, base: Any) -> Callable[..., Any]:
    """The in-place form of an op whose kernel writes: into the tensor itself."""
    shape, kernel = base.rule("shape"), base.rules["kernel"]
    may_overlap = base.options.get("may_overlap", False)
    only_index = base.options.get("only_index_apart", False)
    masked = "mask" in base.argument_names
    name = op.base_name

    def backend(*args: Any) -> Any:
        target = args[0]
        if not target._is_contiguous:
            if may_overlap:
                warn_of_overlap(name, target)
            else:
                check_writable(target)
        if masked:
            check_operands(target, args[1:2])
        else:
            check_apart(target, args[1:3] if only_index else args[1:])
        if is_unusual(args):
            write_into(target, base.backend(*args))
            return target
        spec = shape(*args)
        if not geometry.same_sizes(spec.shape, tuple(target.shape)):
            raise RuntimeError(
                f"output with shape {geometry.show(target.shape)} doesn't match the broadcast "
                f"shape {geometry.show(spec.shape)}"
            )
        kernel(np, target._array, *arrays_of(args[1:]))
        return target

    return backend


def warn_of_overlap(name: str, target: Tensor) -> None:
    if geometry.is_overlapping(sizes_of(target), strides_of(target)):
        warnings.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            "performing this operation: several of its elements are one place in memory.",
            UserWarning,
            stacklevel=2,
        )


def holds_sparse(args: tuple[Any, ...]) -> bool:
    for value in args:
        if (
            isinstance(value, Tensor)
            and value._unusual is not None
            and value._unusual.parts is not None
        ):
            return True
    return False


def sparse_in_place(op: Any, args: tuple[Any, ...]) -> Any:
    """An in-place op with a sparse operand: its own rule, or the functional one written back."""
    from rushlight.opset.sparse.coo import is_sparse

    target = args[0]
    functional = op.functional
    own = op.rules.get("sparse")
    if own is None and functional is not None:
        own = functional.rules.get("sparse_inplace")
    if own is not None:
        done = own(*args)
        if done is not None:
            return done
    if functional is None or op.kind.name != "INPLACE":
        return op.kind.unusual(op, args)
    result = functional.backend(*args)
    if is_sparse(target):
        return write_sparse(op, target, result)
    if is_sparse(result):
        result = find_dense(result)
    write_into(target, result)
    return target


def write_sparse(op: Any, target: Tensor, result: Tensor) -> Tensor:
    """Make a sparse tensor hold a result of its layout."""
    from rushlight.opset.sparse.coo import is_sparse, replace_parts

    if not (is_sparse(target) and is_sparse(result)) or target.layout is not result.layout:
        raise error("RL0515", op=op.base_name, found=result.layout, target=target.layout)
    check_cast(target, result)
    replace_parts(target, result)
    return target


def find_dense(sparse: Tensor) -> Tensor:
    from rushlight.opset.registry import find

    return cast(Tensor, find("_to_dense").backend(sparse, None, None))


class Mutation(Kind):
    """An in-place op whose kernel writes into its first array itself."""

    def derive(self, op: Any, rule: str) -> Any:
        return None if op.functional is None else op.functional.rule(rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        if op.options.get("takes_tensors"):
            return super().make_backend(op)
        kernel = op.rules["kernel"]
        others = op.tensor_positions[1:]
        # One value for all elements may be written to overlapping ones.
        may_overlap = op.options.get("may_overlap", False)

        def backend(*args: Any) -> Any:
            target = args[0]
            if holds_sparse(args):
                return sparse_in_place(op, args)
            if not may_overlap:
                check_writable(target)
            arrays = list(args)
            for position in others:
                tensor = args[position]
                if isinstance(tensor, Tensor):
                    arrays[position] = None if tensor._array is None else values_of(tensor)
            if target._array is None:
                shape = op.rule("shape")
                if shape is not None:
                    shape(*args)
                return target
            unusual = target._unusual
            if unusual is None or not (unusual.conj or unusual.neg):
                arrays[0] = target._array
                kernel(np, *arrays)
                return target
            arrays[0] = fresh = values_of(target).copy()
            kernel(np, *arrays)
            np.copyto(target._array, as_stored(target, fresh))
            return target

        return backend


class Out(Kind):
    """`add(x, y, out=z)`: the functional backend, written into z, which is resized to fit."""

    def derive(self, op: Any, rule: str) -> Any:
        return op.functional.rule(rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        base = op.functional
        count = len(op.out_positions)
        exact = exact_out(base)
        decides = base.options.get("out_decides")
        folds = base.kind.name in ("REDUCTION", "SCAN") and "dtype" in base.argument_names
        dtype_at = base.argument_names.index("dtype") if decides or folds else None
        indexes = count > 1
        # torch: the iterator of elementwise ops looks for overlap before it resizes a tensor, and
        # gives it the result's strides.
        by_element = base.kind.name == "POINTWISE"
        looks_first = by_element or bool(base.options.get("out_seen_first"))
        keeps_strides = by_element or base.kind.name == "LINALG"
        reads_apart = base.options.get("out_apart")
        casts = bool(base.options.get("out_casts"))
        in_order = base.options.get("out_in_order", base.kind.name == "SCAN")
        checks_partly = by_element or in_order

        def backend(*args: Any) -> Any:
            outs = args[-count:]
            given = args[:-count]
            # torch: what is folded in a dtype that the call names, is not cast to another.
            named = dtype_at is not None and given[dtype_at] is not None
            if decides and not named:
                assert dtype_at is not None
                given = (*given[:dtype_at], outs[0]._dtype, *given[dtype_at + 1 :])
            result = base.backend(*given)
            results = result if isinstance(result, tuple) else (result,)
            for target, value in zip(outs, results, strict=True):
                if holds_sparse((target, value)):
                    write_sparse(op, target, value)
                    continue
                if target.device != value.device:
                    raise RuntimeError(
                        f"Expected out tensor to have device {value.device}, but got "
                        f"{target.device} instead"
                    )
                check_out_dtype(
                    exact or (named and folds) or (indexes and value._dtype is dtypes.int64),
                    target,
                    value,
                )
                if not casts:
                    check_cast(target, value)
                if not geometry.same_sizes(target.shape, value.shape):
                    if looks_first:
                        check_writable(target)
                    if by_element:
                        check_room(target, given, value)
                    value = fitted(base, target, value, keeps_strides)
                check_writable(target)
                if reads_apart is not None:
                    check_apart(target, args[:-count][reads_apart])
                if checks_partly:
                    check_operands(target, args[:-count])
                write_into(target, value, casts)
            return outs[0] if count == 1 else tuple(outs)

        return backend


# torch: these resize `out` without a word.
QUIET_KINDS = frozenset(("CREATION", "RANDOM"))


def fitted(base: Any, target: Tensor, value: Tensor, keeps_strides: bool = False) -> Tensor:
    """Resize `target` for a result of `base`, or give the result the shape of `target`."""
    if base.options.get("out_by_count"):
        if target.numel() == value.numel():
            sizes = sizes_of(target)
            return make_view(value, sizes, geometry.contiguous_strides(sizes), value._offset)
        if base.options["out_by_count"] == "warned" and target.numel() != 0:
            warnings.warn(
                f"The number of elements in the out tensor of shape {list(target.shape)} is "
                f"{target.numel()} which does not match the computed number of elements "
                f"{value.numel()}. Note that this may occur as a result of rounding error. The out "
                f"tensor will be resized to a tensor of shape ({value.numel()},).",
                UserWarning,
                stacklevel=2,
            )
    elif base.kind.name not in QUIET_KINDS and not base.options.get("out_quiet"):
        warn_of_resize(target, value.shape)
    strides = strides_of(value) if keeps_strides else None
    resize_tensor(target, value.shape, strides or geometry.contiguous_strides(sizes_of(value)))
    return value


def warn_of_resize(target: Tensor, shape: Any) -> None:
    if target.numel() != 0:
        warnings.warn(
            f"An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape "
            f"{list(shape)}. This behavior is deprecated, and in a future PyTorch release outputs "
            "will not be resized unless they have zero elements. You can explicitly reuse an out "
            "tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            UserWarning,
            stacklevel=2,
        )


def resize_tensor(target: Tensor, sizes: Any, strides: Any) -> None:
    """Give a tensor another geometry over its own storage, which grows as needed."""
    sizes = tuple(sizes)
    storage = storage_of(target)
    needed = geometry.storage_extent(sizes, strides, target._offset) * target._dtype.itemsize
    if storage.nbytes_ < needed:
        storage.resize_(needed)
    unusual = target._unusual
    if target._array is None:
        assert unusual is not None
        unusual = target._unusual = unusual.copy()
        unusual.sizes, unusual.strides = sizes, tuple(strides)
        return
    if unusual is not None and unusual.sizes is not None:
        target._unusual = (
            None if not (unusual.conj or unusual.neg or unusual.inference) else unusual.copy()
        )
        if target._unusual is not None:
            target._unusual.sizes = target._unusual.strides = None
    target._array = alias_array(storage, target._dtype, sizes, strides, target._offset)
    target._is_contiguous = tuple(strides) == geometry.contiguous_strides(sizes)


class InplaceView(Kind):
    """`x.transpose_(0, 1)`: the tensor takes over the geometry of a view of itself."""

    def derive(self, op: Any, rule: str) -> Any:
        return op.replayed_as.rule(rule)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        shape = op.rule("shape")

        def backend(*args: Any) -> Any:
            target = args[0]
            if holds_sparse(args):
                return write_sparse(op, target, op.replayed_as.backend(*args))
            take_geometry(target, make_view(target, *shape(*args)))
            return target

        return backend


def take_geometry(target: Tensor, source: Tensor) -> None:
    """Make `target` cover the memory that `source` covers."""
    target._storage = storage_of(source)
    target._array = source._array
    target._dtype = source._dtype
    target._is_contiguous = source._is_contiguous
    target._offset = source._offset
    target._unusual = source._unusual


INPLACE = Inplace("INPLACE")
INPLACE_VIEW = InplaceView("INPLACE_VIEW")
MUTATION = Mutation("MUTATION")
OUT = Out("OUT")


# -- records ---------------------------------------------------------------------------------------


def derived_options(base: OpOverload) -> dict[str, Any]:
    """The facts that a form shares with the op it is derived from."""
    kept = ("numbers", "tags", "varargs", "node", "former")
    return {k: v for k, v in base.options.items() if k in kept}


def derive_inplace(source: OpOverloadPacket) -> OpOverloadPacket | None:
    """The in-place forms of all overloads that have one; None when none has."""
    made = OpOverloadPacket(source.base_name + "_", source.namespace)
    made.varargs = source.varargs
    made.former = source.former
    for base in source.candidates:
        if base.options.get("inplace") and base._schema.arguments[0].type.kind == "Tensor":
            made.add(inplace_record(base))
    return made if made.table else None


def written(mark: str) -> AliasInfo:
    return AliasInfo((mark,), (mark,), True)


def inplace_record(base: OpOverload) -> OpOverload:
    """The form of a functional overload that writes into its first argument."""
    first, *rest = base._schema.arguments
    target = Argument(first.name, first.type, written("a"))
    schema = compose(
        base.namespace,
        base.base_name + "_",
        base.overload,
        (target, *rest),
        (Return("", first.type, written("a")),),
    )
    record = OpOverload(schema, INPLACE, **derived_options(base))
    record.functional = base
    if base.body is not None:
        body = base.body
        # What the body saves for its gradient must survive the write.
        record.body = lambda self, *rest: self.copy_(
            body(self.clone() if self.requires_grad else self, *rest)
        )
    own = base.options.get("inplace_vjp")
    if own is not None:
        record.rules["vjp"] = own
        record.options["node_index"] = base.options.get("inplace_node_index", 1)
    return record


def out_record(base: OpOverload) -> OpOverload | None:
    """The out= form of a functional overload; None for views and in-place ops."""
    if base._schema.is_mutable or base.is_view_op or not base.options.get("out", True):
        return None
    returns = base._schema.returns
    if any(entry.type.kind != "Tensor" for entry in returns) or not returns:
        return None
    name = base.options.get("out_name")
    table: dict[str, OpOverload] = base.packet.table
    if name is None:
        # The plain name is the first overload's, whichever is asked for first.
        is_first = not base.overload or (base.overload == "Tensor" and "default" not in table)
        name = "out" if is_first else f"{base.overload}_out"
    if name in table:
        return table[name]
    names = ["out"] if len(returns) == 1 else [e.name or f"out{i}" for i, e in enumerate(returns)]
    outs = tuple(
        Argument(each, entry.type, written(mark), kwarg_only=True)
        for each, entry, mark in zip(names, returns, "abcdefgh", strict=False)
    )
    schema = compose(
        base.namespace,
        base.base_name,
        name,
        (*base._schema.arguments, *outs),
        tuple(Return("", out.type, out.alias_info) for out in outs),
    )
    record = OpOverload(schema, OUT, **derived_options(base))
    record.functional = base
    if base.body is not None:
        count = len(outs)
        check = base.options.get("out_check")
        body = base.body

        def checked(*args: Any) -> Any:
            if check is not None:
                check(*args[-count:])
            return fill(base, args[-count:], body(*args[:-count]))

        record.body = checked
    record.packet = base.packet
    return table.setdefault(name, record)


def fill(base: OpOverload, outs: tuple[Tensor, ...], result: Any) -> Any:
    """Write a composite's results into the given tensors."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    for target, value in zip(outs, results, strict=True):
        check_out_dtype(base.options.get("exact_out"), target, value)
        check_cast(target, value)
        if not geometry.same_sizes(target.shape, value.shape):
            value = fitted(base, target, value)
        target.copy_(value)
    return outs[0] if len(outs) == 1 else outs


def derive_named_out(source: OpOverloadPacket, overload: str) -> OpOverload | None:
    """The out= form of that name, if an overload of the packet has one."""
    for base in list(source.candidates):
        record = out_record(base)
        if record is not None and record._overloadname == overload:
            return record
    return None
