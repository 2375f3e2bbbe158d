"""Fake tensors: the layer that runs shape rules instead of kernels.

A `FakeTensor` has geometry, dtype, device and autograd state but no memory, and belongs to one
`FakeTensorMode`. Sizes are plain ints, or symbols when the mode has a `ShapeEnv`. What only
memory could tell is refused by name (`DynamicOutputShapeException`, ...) or, with a shape
environment, becomes an unbacked symbol. Small constants keep their values.
"""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import error
from rushlight.core import dispatch, geometry
from rushlight.core.binding import is_symbolic
from rushlight.core.device import device
from rushlight.core.op import OpOverload, Refused, Tag, find_overload
from rushlight.core.refusals import DataDependentOutputException, DynamicOutputShapeException
from rushlight.core.state import (
    BELOW_FAKE,
    LAYER_FAKE,
    LOCAL,
    Change,
    Occupant,
    ThreadState,
    changed,
    excluding,
)
from rushlight.core.storage import Storage, VersionCounter
from rushlight.core.tensor import Tensor, shell, sizes_of, storage_of, strides_of

if TYPE_CHECKING:
    from rushlight.symbolic.numbers import IntLike
    from rushlight.symbolic.shapeenv import ShapeEnv, StatelessSymbolicContext
    from rushlight.symbolic.sources import SourceLike

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "UnsupportedFakeTensorException",
    "active_fake_mode",
    "is_fake",
    "snapshot",
]

# Ops that bring a tensor made of Python numbers into the program.
LIFTS = ("lift_fresh", "lift_fresh_copy")
# torch: constants larger than this are not followed.
CONSTANT_LIMIT = 1


# Ops on fake COO tensors that do the same to their values, beside those that preserve zeros.
OF_PARTS = ("alias", "clone", "detach", "mul")


class UnsupportedFakeTensorException(RuntimeError):
    """A kind of tensor that has no fake form."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class FakeTensor(Tensor):
    """A tensor without memory that behaves like one on its device."""

    # No slots of its own: instances are made by giving a shell this class.
    __slots__ = ()

    handling_layer = LAYER_FAKE
    handling_mode: FakeTensorMode
    __torch_function__ = dispatch.DISABLED  # type: ignore[assignment]
    # The values, where they are known although the tensor is fake.
    constant: Any = None

    @staticmethod
    def __new__(
        cls, fake_mode: FakeTensorMode, elem: Tensor, device: device, constant: Tensor | None = None
    ) -> Any:
        made = fake_of(
            shell(sizes_of(elem), strides_of(elem), elem._dtype, numbered(device)), fake_mode
        )
        made.constant = constant
        return made

    @property
    def fake_mode(self) -> FakeTensorMode:
        return self.handling_mode

    @property
    def fake_device(self) -> device:
        return self.device

    @fake_device.setter
    def fake_device(self, place: device | str) -> None:
        """Let the tensor say that it is on another device."""
        made = self._unusual
        assert made is not None
        self._unusual = made.copy()
        self._unusual.device = numbered(device(place))

    def tolist(self) -> Any:
        return listed_items(self) if self.constant is None else self.constant.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise error("RL0707", kind="FakeTensor")

    def data_ptr(self) -> int:
        raise error("RL0706")

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copy = fake_of(
            shell(sizes_of(self), strides_of(self), self._dtype, self.device, self._offset),
            self.handling_mode,
        )
        copy._requires_grad = self.requires_grad
        return copy

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        shape = ", ".join(str(size) for size in self.shape)
        parts = [f"..., size=({shape}{',' if self.dim() == 1 else ''})"]
        if self._dtype.name != "float32":
            parts.append(f"dtype={self._dtype}")
        if self.layout.name != "strided":
            parts.append(f"layout={self.layout}")
        if self.device.type != "cpu":
            parts.insert(0, f"..., device='{self.device}'")
            parts[1] = parts[1][5:]
        node = self.grad_fn
        if node is not None:
            parts.append(f"grad_fn=<{node.name()}>")
        elif self.requires_grad:
            parts.append("requires_grad=True")
        return f"FakeTensor({', '.join(parts)})"


def listed_items(tensor: Any) -> Any:
    """The elements of a tensor whose values are not known yet, as nested lists of symbols."""
    if tensor.dim() == 0:
        return tensor.item()
    return [listed_items(part) for part in tensor.unbind(0)]


def fake_of(tensor: Tensor, mode: FakeTensorMode) -> Any:
    """A shell, from now on a fake tensor of this mode."""
    tensor.__class__ = FakeTensor
    tensor.handling_mode = mode
    return tensor


def is_fake(value: object) -> bool:
    """Whether a tensor has no memory because it is fake, or wraps one that is."""
    if isinstance(value, FakeTensor):
        return True
    inner = getattr(value, "functional_value", None)
    return inner is not None and is_fake(inner)


def snapshot(value: Any) -> Any:
    """What a graph keeps of a tensor: its geometry now, as a fake without history."""
    if not isinstance(value, Tensor):
        return value
    mode = value.handling_mode if isinstance(value, FakeTensor) else SNAPSHOTS
    copy = shell(sizes_of(value), strides_of(value), value._dtype, value.device, value._offset)
    assert copy._unusual is not None
    if value._unusual is not None:
        copy._unusual.conj, copy._unusual.neg = value._unusual.conj, value._unusual.neg
        copy._unusual.layout, copy._unusual.parts = value._unusual.layout, value._unusual.parts
    made = fake_of(copy, mode)
    made._requires_grad = value.requires_grad
    if isinstance(value, FakeTensor):
        made._storage = (
            storage_of(value) if value._unusual is None or not value._unusual.parts else None
        )
    return made


def attribute_of(source: SourceLike | None, name: str) -> SourceLike | None:
    """The source of an attribute of what a source reads."""
    if source is None:
        return None
    from rushlight.symbolic import AttrSource

    made: SourceLike = AttrSource(source, name)
    return made


def refuse_sparse(op: OpOverload, args: tuple[Any, ...]) -> None:
    """Refuse ops on sparse fakes whose result depends on which elements are specified."""
    for position in op.tensor_positions:
        value = args[position]
        if isinstance(value, FakeTensor) and value._unusual and value._unusual.parts is not None:
            reason = f"{op} on tensors of layout {value.layout}"
            raise UnsupportedFakeTensorException(reason)


def active_fake_mode() -> Any:
    return LOCAL.state.fake


def numbered(place: device) -> device:
    """A device as tensors are on it: of several of a kind, the first where none is named."""
    return device(place.type, 0) if place.type == "cuda" and place.index is None else place


def with_numbered_device(op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if "device" not in op.argument_names:
        return args
    place = op.argument_names.index("device")
    if not isinstance(args[place], device):
        return args
    return (*args[:place], numbered(args[place]), *args[place + 1 :])


class FakeTensorMode(Occupant):
    """While active, ops run by their shape rules and make fake tensors.

    >>> import rushlight as torch
    >>> with FakeTensorMode() as mode:
    ...     x = torch.empty(3, 4)
    ...     print((x @ x.t()).shape)
    torch.Size([3, 3])
    """

    slot = "fake"

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: ShapeEnv | None = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        super().__init__()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        # Real tensor or storage (by identity, alive as long as it is) -> its fake form.
        self.tensors: dict[int, tuple[Any, Any]] = {}
        self.storages: dict[int, tuple[weakref.ref[Storage], Storage]] = {}
        # Fakes whose values are known, to be forgotten when their memory is written to.
        self.known: dict[int, list[Any]] = {}
        self.fake_tensor_converter = Converter(self)

    # -- from real tensors -------------------------------------------------------------------------

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: SourceLike | None = None,
        symbolic_context: StatelessSymbolicContext | None = None,
    ) -> Any:
        """The fake form of a real tensor; the same object for the same tensor. Tensors that share
        memory get fakes that share a storage, views get views of their base's fake."""
        if isinstance(tensor, FakeTensor):
            if tensor.handling_mode is not self:
                raise AssertionError("Mixing fake modes: the tensor belongs to another one")
            return tensor
        known = self.tensors.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        made = self.faked(tensor, static_shapes, source, symbolic_context)
        key = id(tensor)
        self.tensors[key] = (weakref.ref(tensor, lambda _: self.tensors.pop(key, None)), made)
        return made

    def faked(
        self,
        tensor: Tensor,
        static_shapes: bool | None,
        source: SourceLike | None,
        context: StatelessSymbolicContext | None,
    ) -> Any:
        if tensor._unusual is not None and tensor._unusual.parts is not None:
            return self.faked_sparse(tensor, static_shapes, source, context)
        from rushlight.core.modes import is_traceable_wrapper_subclass, transform_subclass

        offset: IntLike
        sizes, strides, offset = sizes_of(tensor), strides_of(tensor), tensor._offset
        static = self.static_shapes if static_shapes is None else static_shapes
        if self.shape_env is not None and not static:
            found = self.shape_env.create_symbolic_sizes_strides_storage_offset(
                tensor, source, symbolic_context=context
            )
            sizes, strides, offset = tuple(found[0]), tuple(found[1]), found[2]
        if is_traceable_wrapper_subclass(tensor):
            made = transform_subclass(
                tensor,
                lambda name, inner: self.from_tensor(
                    inner,
                    static_shapes=static_shapes,
                    source=attribute_of(source, name),
                ),
                sizes,
                strides,
            )
            made._requires_grad = tensor.requires_grad
            return made
        view = tensor._view
        if view is not None:
            return self.faked_view(tensor, sizes, strides, offset, source, context)
        made = self.shell_over(tensor, sizes, strides, offset)
        if tensor.requires_grad:
            made._requires_grad = True
            if not tensor.is_leaf:
                made = self.with_history(made)
        if tensor._autograd is not None and tensor._autograd.grad is not None:
            made.grad = self.from_tensor(
                tensor._autograd.grad,
                static_shapes=static_shapes,
                source=attribute_of(source, "grad"),
            )
        return made

    def faked_sparse(
        self,
        tensor: Tensor,
        static_shapes: bool | None,
        source: SourceLike | None,
        context: StatelessSymbolicContext | None,
    ) -> Any:
        """The fake of a COO tensor: over fakes of its parts."""
        from rushlight.core.parts import Coo, parts_of, sparse_tensor

        parts = parts_of(tensor)
        if not isinstance(parts, Coo):
            raise error("RL0708", UnsupportedFakeTensorException, layout=tensor.layout)
        sizes = sizes_of(tensor)
        static = self.static_shapes if static_shapes is None else static_shapes
        if self.shape_env is not None and not static:
            found = self.shape_env.create_symbolic_sizes_strides_storage_offset(
                sizes, source, symbolic_context=context
            )
            sizes = tuple(found[0])
        indices, values = [
            self.from_tensor(
                part, static_shapes=static_shapes, source=attribute_of(source, f"{name}()")
            )
            for name, part in (("_indices", parts.indices), ("_values", parts.values))
        ]
        made = sparse_tensor(tensor.layout, sizes, Coo(indices, values, parts.coalesced))
        made = fake_of(made, self)
        made._requires_grad = tensor.requires_grad
        return made

    def shell_over(
        self,
        tensor: Tensor,
        sizes: tuple[IntLike, ...],
        strides: tuple[IntLike, ...],
        offset: IntLike,
    ) -> Any:
        """A fake over the fake form of a real tensor's storage."""
        made = shell(sizes, strides, tensor._dtype, tensor.device, offset)
        unusual = tensor._unusual
        assert made._unusual is not None
        if unusual is not None:
            made._unusual.conj, made._unusual.neg = unusual.conj, unusual.neg
            made._unusual.layout, made._unusual.inference = unusual.layout, unusual.inference
        made._storage = self.storage_for(tensor, made)
        made._counter = VersionCounter()
        return fake_of(made, self)

    def storage_for(self, tensor: Tensor, made: Tensor) -> Storage:
        real = storage_of(tensor)
        known = self.storages.get(id(real))
        if known is not None and known[0]() is real:
            return known[1]
        fresh = storage_of(made)
        if real.nbytes_ == 0:
            # Its memory was given up; the sizes do not tell.
            fresh.nbytes_ = 0
        key = id(real)
        self.storages[key] = (weakref.ref(real, lambda _: self.storages.pop(key, None)), fresh)
        return fresh

    def faked_view(
        self,
        tensor: Tensor,
        sizes: tuple[IntLike, ...],
        strides: tuple[IntLike, ...],
        offset: IntLike,
        source: SourceLike | None,
        context: StatelessSymbolicContext | None,
    ) -> Any:
        """The fake of a view: a view of the fake of its base. That it fits there is no condition
        on the view."""
        base = self.from_tensor(
            tensor._base,
            source=attribute_of(source, "_base"),
            symbolic_context=getattr(context, "view_base_context", None),
        )
        # A view made without grad mode keeps its base's need for a gradient.
        with (
            only_fake(grad=tensor._requires_grad or not base.requires_grad),
            nullcontext() if self.shape_env is None else self.shape_env.suppress_guards(),
        ):
            if base._dtype is tensor._dtype:
                made = base.as_strided(sizes, strides, offset)
                made = made if made.is_conj() is tensor.is_conj() else made.conj()
                made = made if made.is_neg() is tensor.is_neg() else made._neg_view()
            else:
                made = tensor._view_func(base)
        if tensor._requires_grad and not base.requires_grad and tensor.is_leaf:
            made._requires_grad = True
        return made

    def with_history(self, leaf: FakeTensor) -> Any:
        """A fake that is not a leaf, with the same storage identity as `leaf`."""
        with only_fake(grad=True):
            made = leaf.clone()
        made._unusual = leaf._unusual
        made._storage, made._offset = leaf._storage, leaf._offset
        return made

    # -- the layer ---------------------------------------------------------------------------------

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Run one op by its shape rule."""
        if op.base_name in LIFTS and not isinstance(args[0], FakeTensor):
            return self.constant_of(args[0])
        if op.base_name == "_local_scalar_dense":
            return self.number_of(op, args[0])
        args = with_numbered_device(op, self.all_fake(op, args))
        with changed(excluded=LOCAL.state.excluded | BELOW_FAKE, fake=self):
            result = self.run_shapes(op, args)
        constant = self.constant_result(op, args)
        if constant is None:
            self.forget_written(op, args)
        result = self.marked(result)
        if constant is not None and isinstance(result, FakeTensor):
            self.remember(result, constant)
        elif constant is not None:
            for fake, known in zip(result, constant, strict=True):
                self.remember(fake, known)
        return result

    def run_shapes(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.options.get("structural"):
            return op.rule("kernel")(*args)
        if not (op.options.get("zero_preserving") or op.base_name in OF_PARTS):
            refuse_sparse(op, args)
        rule = op.rule("shape")
        if isinstance(rule, Refused) and not op.mutated_positions:
            tensors = any(entry.type.is_tensor_like for entry in op._schema.returns)
            raise (DynamicOutputShapeException if tensors else DataDependentOutputException)(op)
        if dispatch.layers_of(op, args) & LAYER_FAKE:
            return op.backend(*args)
        return op.kind.shells(op, args)

    def all_fake(self, op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with real tensors faked, where the mode allows that."""

        def one(value: Any) -> Any:
            if not isinstance(value, Tensor) or isinstance(value, FakeTensor):
                return value
            if Tag.inplace_view in op.tags and value is args[0]:
                raise AssertionError(
                    f"Can't call metadata mutating ops on non-Fake Tensor inputs. Found in {op}"
                )
            if value._array is not None and not self.allow_non_fake_inputs:
                raise AssertionError(
                    "Please convert all Tensors to FakeTensors first or instantiate "
                    f"FakeTensorMode with 'allow_non_fake_inputs'. Found in {op}: a tensor of "
                    f"shape {list(value.shape)} and type {value.type()}"
                )
            # What a program holds has the sizes that it has.
            return self.from_tensor(value, static_shapes=True if self.export else None)

        converted = list(args)
        for position in op.tensor_positions:
            converted[position] = one(args[position])
        for position in op.list_positions:
            if args[position] is not None:
                converted[position] = [one(value) for value in args[position]]
        return tuple(converted)

    def marked(self, result: Any) -> Any:
        """Results as fake tensors of this mode."""
        if isinstance(result, Tensor):
            if type(result) is Tensor and result._array is None:
                return fake_of(result, self)
            return result
        if isinstance(result, (list, tuple)):
            items = [self.marked(item) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        return result

    # -- constants ---------------------------------------------------------------------------------

    def constant_of(self, value: Tensor) -> Any:
        made = self.shell_over(value, sizes_of(value), strides_of(value), value._offset)
        with excluding(BELOW_FAKE):
            # What the program writes must not reach the constant that the graph keeps.
            self.remember(made, find_overload("aten", "clone", "default").backend(value, None))
        return made

    def remember(self, fake: FakeTensor, constant: Tensor) -> None:
        fake.constant = constant
        self.known.setdefault(id(storage_of(fake)), []).append(weakref.ref(fake))

    def forget_written(self, op: OpOverload, args: tuple[Any, ...]) -> None:
        for position in op.mutated_positions:
            value = args[position]
            if isinstance(value, FakeTensor):
                for reference in self.known.pop(id(storage_of(value)), ()):
                    written = reference()
                    if written is not None:
                        written.constant = None

    def constant_result(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """The real result, where all operands are known and small."""
        operands = [args[position] for position in op.tensor_positions]
        for position in op.list_positions:
            operands += args[position] or ()
        operands = [value for value in operands if value is not None]
        if not operands or "nondeterministic_seeded" in op.tags or holds_symbol(args):
            return None
        for value in operands:
            if isinstance(value, Tensor) and getattr(value, "constant", None) is None:
                return None
        for position in op.mutated_positions:
            if position in op.list_positions or args[position].constant.numel() > CONSTANT_LIMIT:
                return None
        real = list(args)
        for position in op.tensor_positions:
            if isinstance(args[position], FakeTensor):
                real[position] = args[position].constant
        for position in op.list_positions:
            if args[position] is not None:
                real[position] = [v.constant if v is not None else None for v in args[position]]
        with excluding(BELOW_FAKE):
            result = op.backend(*real)
        parts = result if isinstance(result, (list, tuple)) else [result]
        is_known = all(isinstance(v, Tensor) and v.numel() <= CONSTANT_LIMIT for v in parts)
        return result if is_known else None

    def number_of(self, op: OpOverload, tensor: Tensor) -> Any:
        """`item()`: a known constant, or an unbacked symbol."""
        constant = tensor if not isinstance(tensor, FakeTensor) else tensor.constant
        if constant is not None and constant._array is not None:
            return op.backend(constant)
        if self.shape_env is None:
            raise DataDependentOutputException(op)
        if geometry.numel(sizes_of(tensor)) != 1:
            raise RuntimeError("a Tensor with more than one element cannot be converted to Scalar")
        dtype = tensor._dtype
        if dtype.is_floating_point:
            return self.shape_env.create_unbacked_symfloat()
        if dtype.name == "bool":
            return self.shape_env.create_unbacked_symbool()
        if dtype.is_complex:
            raise DataDependentOutputException(op)
        return self.shape_env.create_unbacked_symint()


class Converter:
    """torch's name for what makes fakes of real tensors."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self.mode = mode

    def from_real_tensor(self, fake_mode: FakeTensorMode, tensor: Tensor, **options: Any) -> Any:
        options.pop("make_constant", None)
        options.pop("shape_env", None)
        return fake_mode.from_tensor(tensor, **options)


def holds_symbol(args: tuple[Any, ...]) -> bool:
    """Whether a number or a size among an op's arguments is a symbol."""
    for value in args:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(item, Tensor) and is_symbolic(item):
                return True
    return False


# Keeps the geometry of real tensors that a graph has recorded.
SNAPSHOTS = FakeTensorMode(allow_non_fake_inputs=True)


def only_fake(grad: bool) -> changed:
    """Calls made inside pass autograd and the fake mode, no other layer."""
    return changed(grad=grad, proxy=None, functional=None, dispatch_modes=(), excluded=0)


def unset_fake_temporarily() -> Any:
    return FakeOff()


class FakeOff(Change):
    """No fake mode is active inside; gives the one that was."""

    def fields(self, state: ThreadState) -> dict[str, Any]:
        return {"fake": None}

    def __enter__(self) -> Any:
        mode = LOCAL.state.fake
        super().__enter__()
        return mode
