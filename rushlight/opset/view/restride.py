"""In-place ops that change a tensor's own geometry or memory: `transpose_`, `resize_`, `set_`.

An in-place view writes no element: history is the view op's node (see
`history.take_view_history`). `resize_` and `set_` see to checks and versions themselves.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error
from rushlight.core import geometry, history
from rushlight.core.determinism import unwritten
from rushlight.core.device import contiguous_format, preserve_format, strided
from rushlight.core.gradrule import GradRule
from rushlight.core.node import needs_grad, retire_accumulator
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.state import LOCAL
from rushlight.core.storage import Former, Storage
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.core.typedstorage import TypedStorage
from rushlight.opset.derived import INPLACE_VIEW, resize_tensor, take_geometry
from rushlight.opset.kinds import Native
from rushlight.opset.registry import composite, op
from rushlight.opset.results import check_bytes, make_view
from rushlight.opset.rules import late
from rushlight.opset.view import view as views

INPLACE = (Tag.inplace_view,)


def inplace_view(
    schema: str,
    source: OpOverload,
    node_index: int,
    function: bool = False,
    varargs: int | None = None,
) -> OpOverload:
    return op(
        schema,
        kind=INPLACE_VIEW,
        replayed_as=source,
        node_index=node_index,
        vjp=source.rules["vjp"],
        samples=source.rules["samples"],
        function=function,
        varargs=varargs,
        tags=INPLACE,
    )


inplace_view("transpose_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", views.transpose, 1)
t_ = inplace_view("t_(Tensor(a!) self) -> Tensor(a!)", views.t, 1)


@t_.shape
def _(self: Any) -> Any:
    if self.dim() > 2:
        raise RuntimeError(f"t_() expects a tensor with <= 2 dimensions, but self is {self.dim()}D")
    return views.t.rule("shape")(self)


inplace_view("squeeze_(Tensor(a!) self) -> Tensor(a!)", views.squeeze, 3)
inplace_view("squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)", views.squeeze_dim, 4)
inplace_view(
    "squeeze_.dims(Tensor(a!) self, int[] dim) -> Tensor(a!)", views.squeeze_dims, 5, varargs=1
)
inplace_view("unsqueeze_(Tensor(a!) self, int dim) -> Tensor(a!)", views.unsqueeze, 1)
inplace_view(
    "as_strided_(Tensor(a!) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) "
    "-> Tensor(a!)",
    views.as_strided,
    1,
    function=True,
)


@composite(
    "swapaxes_(Tensor(a!) self, int axis0, int axis1) -> Tensor(a!)", function=False, tags=INPLACE
)
def swapaxes_(self: Any, axis0: int, axis1: int) -> Any:
    return self.transpose_(axis0, axis1)


@composite(
    "swapdims_(Tensor(a!) self, int dim0, int dim1) -> Tensor(a!)", function=False, tags=INPLACE
)
def swapdims_(self: Any, dim0: int, dim1: int) -> Any:
    return self.transpose_(dim0, dim1)


# -- memory --------------------------------------------------------------------------------------


MANUAL = Native("MANUAL")

resize = op(
    "resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
    kind=MANUAL,
    batch=late("view.batched:resize"),
    unwritten=True,
    manual=True,
    function=False,
    varargs=1,
    tags=INPLACE,
)


def check_resize(self: Any, size: Any, memory_format: Any) -> None:
    if needs_grad(self) and not self.is_inference():
        raise RuntimeError("cannot resize variables that require grad")
    for extent in size:
        if extent < 0:
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {extent}: {geometry.show(size)}"
            )
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory format Preserve")


def check_resized_bytes(size: Any, itemsize: int) -> None:
    if geometry.numel([max(extent, 1) for extent in size[1:]]) >= 2**63:
        raise RuntimeError("Stride calculation overflowed")
    check_bytes(size, itemsize)


@resize.functionalized
def _(mode: Any, op: OpOverload, args: tuple[Any, ...]) -> Any:
    target, size, memory_format = args
    check_resize(target, size, memory_format)
    if memory_format not in (None, contiguous_format):
        raise error("RL0703", NotImplementedError, op=op.name())
    if not geometry.same_sizes(sizes_of(target), tuple(size)):
        mode.resize(target, tuple(size))
        history.bump_version(target)
    return target


@resize.kernel
def _(self: Any, size: Any, memory_format: Any) -> Any:
    if self.layout is not strided:
        raise error("RL0503", NotImplementedError, op="aten::resize_", layout=self.layout)
    check_resize(self, size, memory_format)
    if geometry.same_sizes(sizes_of(self), tuple(size)) and memory_format is None:
        return self
    changed = not geometry.same_sizes(sizes_of(self), tuple(size))
    if self._array is not None:
        check_resized_bytes(size, self._dtype.itemsize)
    strides = geometry.strides_for_memory_format(tuple(size), memory_format)
    before = storage_of(self).nbytes_
    resize_tensor(self, size, strides)
    grown = storage_of(self)
    if grown.buffer is not None and grown.nbytes_ > before:
        width = self._dtype.itemsize
        unwritten(grown.buffer[-(-before // width) * width :].view(self._dtype.np), self._dtype)
    if changed:
        history.bump_version(self)
    return self


@composite(
    "resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) "
    "-> Tensor(a!)",
    unwritten=True,
    tags=INPLACE,
)
def resize_as_(self: Any, the_template: Any, memory_format: Any) -> Any:
    if self.layout is not strided and the_template.layout is not strided:
        return self.resize_as_sparse_(the_template)
    self.resize_(the_template.shape)
    if memory_format is None:
        return self
    if memory_format is preserve_format:
        memory_format = geometry.suggest_memory_format(
            sizes_of(the_template), strides_of(the_template)
        )
    if memory_format is not contiguous_format:
        sizes = sizes_of(self)
        resize_tensor(self, sizes, geometry.strides_for_memory_format(sizes, memory_format))
    return self


def not_implemented(grad: Any) -> Any:
    raise error("RL0611", name="set_")


def set_memory(
    target: Any, storage: Storage, offset: Any, size: Any, stride: Any, source: Any = None
) -> Any:
    """Point `target` at other memory, which grows to fit."""
    state = LOCAL.state
    wants = source is not None and needs_grad(source)
    history.check_inplace(target, state.grad, wants)
    record = state.grad and (needs_grad(target) or wants)
    # Of whose gradient it does not know is all the same: it refuses.
    node = SET_RULE.make_node(target if needs_grad(target) else source) if record else None
    needed = geometry.storage_extent(size, stride, offset) * target._dtype.itemsize
    if storage.nbytes_ < needed:
        storage.resize_(needed)
    if target._requires_grad and target._node is None:
        retire_accumulator(target)
    if target._array is not None:
        Former.leave(storage_of(target))
    counter = target._counter
    carrier = target.detach()
    carrier._storage = storage
    take_geometry(target, make_view(carrier, tuple(size), tuple(stride), offset))
    target._counter = counter
    history.bump_version(target)
    if node is not None:
        history.replace_history(target, node)
    return target


SET_RULE = GradRule(
    "torch::autograd::NotImplemented",
    ["self"],
    frozenset(("self",)),
    frozenset(),
    ["result"],
    {"self": not_implemented},
    ["self"],
)


def manual(schema: str) -> OpOverload:
    return op(schema, kind=MANUAL, manual=True, unwritten=True, function=False, tags=INPLACE)


set_tensor = manual("set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)")
set_tensor_offset = manual(
    "set_.source_Tensor_storage_offset(Tensor(a!) self, Tensor source, SymInt storage_offset, "
    "SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)"
)
set_storage = manual("set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)")
set_storage_offset = manual(
    "set_.source_Storage_storage_offset(Tensor(a!) self, Storage source, SymInt storage_offset, "
    "SymInt[] size, SymInt[] stride=[]) -> Tensor(a!)"
)
set_nothing = manual("set_(Tensor(a!) self) -> Tensor(a!)")


def check_same_dtype(self: Any, source: Any) -> None:
    if self._dtype is not source._dtype:
        raise RuntimeError(
            f"Could not set tensor of type {source._dtype.scalar_type_name.lower()} to a tensor of "
            f"type {self._dtype.scalar_type_name.lower()}"
        )


@set_tensor.kernel
def _(self: Any, source: Any) -> Any:
    check_same_dtype(self, source)
    return set_memory(
        self, storage_of(source), source._offset, sizes_of(source), strides_of(source), source
    )


@set_tensor.functionalized
def _(mode: Any, op: OpOverload, args: tuple[Any, ...]) -> Any:
    target, source = args
    check_same_dtype(target, source)
    history.check_inplace(target, LOCAL.state.grad, needs_grad(source))
    return mode.take_storage(op, target, source)


@set_tensor_offset.kernel
def _(self: Any, source: Any, storage_offset: Any, size: Any, stride: Any) -> Any:
    check_same_dtype(self, source)
    if not source.is_contiguous():
        raise RuntimeError("passed in tensor to be used as storage must be contiguous")
    strides = stride or geometry.contiguous_strides(size)
    return set_memory(
        self, storage_of(source), storage_offset + source._offset, size, strides, source
    )


def untyped(self: Any, source: Any) -> Storage:
    """The bytes of a storage whose elements, if it names them, are of the tensor's dtype."""
    if not isinstance(source, TypedStorage):
        return source  # type: ignore[no-any-return]
    if source.dtype is not self._dtype:
        raise RuntimeError(
            f"Expected a Storage of type {self._dtype.scalar_type_name.lower()} or an "
            f"UntypedStorage, but got type {source.dtype.scalar_type_name} for argument 1 "
            "'storage'"
        )
    return source._untyped_storage


@set_storage.kernel
def _(self: Any, source: Any) -> Any:
    source = untyped(self, source)
    return set_memory(self, source, 0, (source.nbytes_ // self._dtype.itemsize,), (1,))


@set_storage_offset.kernel
def _(self: Any, source: Any, storage_offset: Any, size: Any, stride: Any) -> Any:
    strides = stride or geometry.contiguous_strides(size)
    return set_memory(self, untyped(self, source), storage_offset, size, strides)


@set_nothing.kernel
def _(self: Any) -> Any:
    import numpy as np

    empty = Storage(np.empty(0, np.uint8)) if self._array is not None else Storage.meta(0)
    return set_memory(self, empty, 0, (0,), (1,))


@composite("is_set_to(Tensor self, Tensor tensor) -> bool", function=False)
def is_set_to(self: Any, tensor: Any) -> bool:
    return bool(
        storage_of(self) is storage_of(tensor)
        and self._offset == tensor._offset
        and geometry.same_sizes(sizes_of(self), sizes_of(tensor))
        and strides_of(self) == strides_of(tensor)
    )


def typed_storage(self: Any) -> TypedStorage:
    return TypedStorage.over(storage_of(self), self._dtype)


def view_func(
    self: Any, new_base: Any, symint_visitor_fn: Any = None, tensor_visitor_fn: Any = None
) -> Any:
    return history.replay_with(self, new_base, symint_visitor_fn, tensor_visitor_fn)


Tensor._view_func = view_func  # type: ignore[attr-defined]
Tensor.storage = typed_storage  # type: ignore[attr-defined]
Tensor._typed_storage = typed_storage  # type: ignore[attr-defined]
Tensor.storage_type = lambda self: TypedStorage  # type: ignore[attr-defined]

resize.samples = lambda make: [(make(2, 3), (3, 2)), (make(2, 3), (2, 2)), (make(2, 3), (2, 3))]
set_tensor.samples = lambda make: [(make(2), make(2, 3)), (make(2), make.strided(2, 3))]
set_tensor_offset.samples = lambda make: [(make(2), make(6), 1, (2, 2), (2, 1))]
swapaxes_.samples = swapdims_.samples = lambda make: [(make(2, 3), 0, 1)]
resize_as_.samples = lambda make: [(make(2, 3), make(3, 2)), (make(2, 3), make(2))]
is_set_to.samples = lambda make: [(make(2), make(2))]
for record in (set_storage, set_storage_offset, set_nothing):
    record.samples = refuse("set_.source_Tensor stands for it: samples hold no storages")
for record in (resize, set_tensor, set_tensor_offset, set_storage, set_storage_offset, set_nothing):
    record.vjp = record.jvp = refuse("the memory of its result is no function of its input's")
    record.shape = refuse("it works on the tensor itself, with memory or without")


resize_storage_bytes_ = op(
    "resize_storage_bytes_(Tensor(a!) variable, SymInt new_size) -> ()",
    namespace="inductor",
    kind=MANUAL,
    manual=True,
    function=False,
    method=False,
    samples=lambda make: (),
    errors=lambda make: (),
)


@resize_storage_bytes_.kernel
def _(variable: Any, new_size: Any) -> None:
    storage_of(variable).resize_(new_size)


@resize_storage_bytes_.functionalized
def _(mode: Any, op: OpOverload, args: tuple[Any, ...]) -> None:
    mode.resize_storage(op, *args)
