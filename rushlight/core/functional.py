"""Functionalization: writes and views become values, so that graphs below have no mutation.

A `FunctionalTensor` holds the current value (a tensor of the layers below) and shares a
`FunctionalStorage` with its views: the base value, a queue of pending writes and a generation
counter. A write computes a new value and queues it; a tensor whose generation is behind is
brought up to date (`sync`) when it is next read: queued writes go into the base through the
inverses of their views, then the tensor's own views are replayed from the base.

A functional tensor has the geometry that the tensor has eagerly, which no write changes. Its value
may have other strides: those of the op that computed it anew. What a program decides by strides
(`contiguous`, `reshape`) it decides by the former.

Note [View steps]: taking a view syncs its source, and a new view starts at generation 0.
Graphs show how often views are replayed, so this order is part of what users compare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import error
from rushlight.core import dispatch, geometry, history
from rushlight.core import dtype as dtypes
from rushlight.core.fake import FakeTensor, listed_items
from rushlight.core.op import OpOverload, Refused, Tag, find_overload
from rushlight.core.state import (
    BELOW_FUNCTIONAL,
    BELOW_PRE_FUNCTIONAL,
    LAYER_FUNCTIONAL,
    LOCAL,
    Occupant,
    changed,
    excluding,
)
from rushlight.core.storage import Storage, VersionCounter
from rushlight.core.tensor import Tensor, Unusual, sizes_of, storage_of, strides_of, wrap

if TYPE_CHECKING:
    from rushlight.core.protocols import Args, Kwargs

__all__ = [
    "FunctionalMode",
    "FunctionalStorage",
    "FunctionalTensor",
    "ViewStep",
    "from_functional",
    "is_functional",
    "sync",
    "to_functional",
]


class ViewStep:
    """One link of a view's chain: the op, its arguments after the source, which result, and whether
    it was taken without grad mode."""

    __slots__ = ("args", "inplace", "number", "op", "quiet", "source")

    def __init__(
        self,
        op: OpOverload,
        args: tuple[Any, ...],
        number: int | None,
        quiet: bool,
        source: Tensor | None = None,
    ) -> None:
        self.op = op
        self.args = args
        self.quiet = quiet
        # The op by which the source itself became the view.
        self.inplace: OpOverload | None = None
        # None where the op has one result.
        self.number = number
        # Of a view by strides: the geometry that they are the strides of.
        self.source: Any = None
        if source is not None and op.base_name == "as_strided":
            self.source = sizes_of(source), strides_of(source), source._offset

    def replay(self, source: Tensor) -> Any:
        result = dispatch.call(self.op, (source, *self.args))
        return result if self.number is None else result[self.number]

    def repeat(self, value: Tensor) -> Any:
        """The view of another value of its source."""
        self.check(value)
        if is_cut(self.op, value, self.args):
            return reshaped(value, self.args)
        return self.replay(value)

    def check(self, value: Tensor) -> None:
        """Refuse strides that are not those of a value: it was computed anew."""
        if self.source is not None:
            sizes, strides, offset = self.source
            if strides_of(value) != strides or value._offset != offset:
                raise error("RL0742", sizes=sizes, strides=strides)

    def is_inside(self) -> bool:
        """Whether a view by strides shows elements of its source only, not others of its memory."""
        sizes, strides, start = self.source
        size, stride, offset = (*self.args, None)[:3]
        offset = 0 if offset is None else offset - start
        needed = geometry.storage_extent(size, stride, offset)
        held = geometry.storage_extent(sizes, strides)
        return geometry.decided(offset >= 0) and geometry.decided(needed <= held)

    def inverse(self, source: Tensor, changed: Tensor) -> Any:
        """`source` with this view of it replaced by `changed`."""
        self.check(source)
        if self.source is not None and not self.is_inside():
            raise error("RL0762", sizes=self.args[0], source=self.source[0])
        rule = self.op.rule("inverse")
        if rule is None or isinstance(rule, Refused):
            raise error("RL0702", NotImplementedError, op=self.op.name())
        if self.number is None:
            return rule(source, changed, *self.args)
        return rule(source, changed, self.number, *self.args)


def is_cut(op: OpOverload, value: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether the strides of a value, which was computed anew, allow no view of these sizes."""
    if op.base_name != "view" or not isinstance(args[0], (list, tuple)):
        return False
    wanted = geometry.infer_size(args[0], value.numel())
    return geometry.view_strides(sizes_of(value), strides_of(value), wanted) is None


def reshaped(value: Tensor, args: tuple[Any, ...]) -> Any:
    """A value in other sizes, copied where need be: nobody writes to values."""
    return dispatch.run_body(find_overload("aten", "reshape", "default"), (value, *args))


class FunctionalStorage:
    """What a tensor and its views have in common while they are functional."""

    __slots__ = (
        "base",
        "frozen",
        "generation",
        "hidden_writes",
        "is_given",
        "memory",
        "mode",
        "quiet_writes",
        "resized_to",
        "tensors",
        "unversioned_writes",
        "updates",
        "write_meta",
        "writes",
    )

    def __init__(self, base: Tensor, mode: FunctionalMode) -> None:
        self.base = base
        # The mode that made the first tensor over it.
        self.mode = mode
        self.updates: list[tuple[Any, tuple[ViewStep, ...]]] = []
        self.generation = 0
        self.frozen = False
        # Stands for the memory: views of one functional tensor share it.
        self.memory: Storage = storage_like(base)
        # The size in bytes that the memory was given, if it was resized.
        self.resized_to: Any = None
        # How many writes there were; of these, without grad mode or on detached aliases, on
        # detached aliases, on `data`.
        self.writes = 0
        # What nodes inherited at the last write.
        self.write_meta: dict[str, Any] | None = None
        self.quiet_writes = 0
        self.hidden_writes = 0
        self.unversioned_writes = 0
        # Whether it is memory of the traced function's caller; how many tensors were made over it.
        self.is_given = False
        self.tensors = 0

    def apply_updates(self) -> None:
        """Bring queued writes into the base."""
        updates, self.updates = self.updates, []
        for value, chain in updates:
            sources = [self.base] if chain else []
            for step in chain[:-1]:
                sources.append(step.repeat(sources[-1]))
            if any(step.op.base_name == "expand" for step in chain[:-1]):
                written = chain[-1].repeat(sources[-1])
                if any(
                    n == 0 and size != 1 for n, size in zip(strides_of(written), sizes_of(written))
                ):
                    # Several copies of one element are written.
                    raise error("RL0702", NotImplementedError, op="aten::expand")
            for step, source in zip(reversed(chain), reversed(sources)):
                is_part = step.op.base_name == "expand" and step is not chain[-1]
                value = (written_once if is_part else step.inverse)(source, value)
            self.base = value


def written_once(source: Any, changed: Any) -> Any:
    """What an expanded tensor was made of, after a write to some copies of its elements: no two
    copies of one are written, which eager code refuses."""
    if source.dtype is dtypes.bool_:
        differs = (changed != source).to(dtypes.int64).sum_to_size(source.shape)
        return source.logical_xor(differs)
    return source + (changed - source).sum_to_size(source.shape)


def storage_like(value: Tensor) -> Storage:
    real = storage_of(value)
    return Storage(None, real.nbytes_, value.device)


class FunctionalTensor(Tensor):
    """A tensor that takes writes and views without changing any value below it."""

    # No slots of its own: instances are made by giving a shell this class.
    __slots__ = ()

    handling_layer = LAYER_FUNCTIONAL
    __torch_function__ = dispatch.DISABLED  # type: ignore[assignment]

    # The current value, the shared storage, how the value is seen from the base, and as of when.
    functional_value: Any
    functional_storage: FunctionalStorage
    chain: tuple[ViewStep, ...]
    generation: int
    # The geometry was changed by in-place view ops: of each, whether it ran without grad mode; or
    # it was changed by `set_`.
    moves: tuple[bool, ...]
    was_set: bool
    # An alias whose writes autograd does not see; one whose writes raise no version.
    hidden: bool
    unversioned: bool
    # It was taken out of its history in place.
    was_detached: bool

    @property
    def data(self) -> Any:
        made = functional_over(self.functional_value, self.functional_storage, self.handling_mode)
        take_geometry(made, self)
        made.chain, made.generation = self.chain, self.generation
        made.hidden = made.unversioned = True
        return made

    @data.setter
    def data(self, value: Any) -> None:
        raise error("RL0706")

    def detach_(self) -> Any:
        self.was_detached = True
        return super().detach_()

    def leads_to(self, view: FunctionalTensor) -> bool:
        """Whether a view's ops lead from this tensor, its base, to it. They do not where the base
        has become a view of itself since: then both are brought up to date, so that their strides
        belong together, which those of values from different times do not."""
        if self.functional_storage is not view.functional_storage:
            raise error("RL0743")
        start = view.chain[: len(self.chain)]
        if len(start) == len(self.chain) and all([a is b for a, b in zip(start, self.chain)]):
            return True
        for tensor in (self, view):
            sync(tensor)
            take_value(tensor, tensor.functional_value)
        return False

    def data_ptr(self) -> int:
        raise error("RL0706")

    def numpy(self, *, force: bool = False) -> Any:
        raise error("RL0707", kind="FunctionalTensor")

    def tolist(self) -> Any:
        sync(self)
        value = self.functional_value
        is_unknown = isinstance(value, FakeTensor) and value.constant is None
        return listed_items(self) if is_unknown else value.tolist()

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"FunctionalTensor({self.functional_value!r})"


def is_functional(value: object) -> bool:
    return isinstance(value, FunctionalTensor)


def functional_over(value: Tensor, storage: FunctionalStorage, mode: FunctionalMode) -> Any:
    """A functional tensor with the geometry of `value`."""
    made: Any = wrap(None, value._dtype)
    made.__class__ = FunctionalTensor
    made._counter = VersionCounter()
    made._storage = storage.memory
    made.handling_mode = mode
    made.functional_storage = storage
    storage.tensors += 1
    made.chain = ()
    made.generation = 0
    made.moves = ()
    made.was_set = made.was_detached = made.hidden = made.unversioned = False
    take_value(made, value)
    return made


def has_geometry_of(tensor: Tensor, value: Tensor) -> bool:
    return bool(
        strides_of(tensor) == strides_of(value)
        and geometry.same_sizes(sizes_of(tensor), sizes_of(value))
        and tensor._offset == value._offset
    )


def take_geometry(tensor: FunctionalTensor, other: Tensor) -> None:
    """Give a functional tensor the geometry of another, whatever its value's is."""
    unusual = tensor._unusual = Unusual() if tensor._unusual is None else tensor._unusual.copy()
    unusual.sizes, unusual.strides = sizes_of(other), strides_of(other)
    tensor._offset = other._offset


def take_value(tensor: FunctionalTensor, value: Tensor) -> None:
    """Make `value` a functional tensor's current value, and take over its geometry."""
    tensor.functional_value = value
    unusual = tensor._unusual = Unusual(value.device)
    unusual.sizes, unusual.strides = sizes_of(value), strides_of(value)
    tensor._is_contiguous = False
    tensor._offset = value._offset
    own = value._unusual
    if own is not None:
        unusual.conj, unusual.neg, unusual.layout = own.conj, own.neg, own.layout
        unusual.inference = own.inference


def to_functional(tensor: Any, mode: FunctionalMode | None = None) -> Any:
    """A functional tensor whose value is `tensor`; gradient requirements come along."""
    if not isinstance(tensor, Tensor):
        return tensor
    mode = mode or DEFAULT
    storage = FunctionalStorage(tensor, mode)
    storage.is_given = True
    made = functional_over(tensor, storage, mode)
    made._requires_grad = tensor.requires_grad
    return made


def from_functional(tensor: Any) -> Any:
    """The up-to-date value of a functional tensor."""
    if not isinstance(tensor, FunctionalTensor):
        return tensor
    sync(tensor)
    return tensor.functional_value


def sync(tensor: FunctionalTensor) -> None:
    """Bring a tensor's value up to date with writes to its storage. Note [View steps]."""
    storage = tensor.functional_storage
    if tensor.generation == storage.generation:
        return
    with tensor.handling_mode.below():
        if storage.updates:
            storage.apply_updates()
        value = storage.base
        for step in tensor.chain:
            value = step.repeat(value)
    tensor.generation = storage.generation
    tensor.functional_value = value
    if not geometry.same_sizes(sizes_of(tensor), sizes_of(value)):
        # It was given more memory, or is an out= tensor that was given its size.
        take_value(tensor, value)


def map_tensors(op: OpOverload, args: tuple[Any, ...], change: Callable[[Any], Any]) -> list[Any]:
    """The arguments with tensors passed through `change`, those in lists too."""
    changed = list(args)
    for position in op.tensor_positions:
        if isinstance(args[position], Tensor):
            changed[position] = change(args[position])
    for position in op.list_positions:
        if args[position] is not None:
            changed[position] = [change(v) if isinstance(v, Tensor) else v for v in args[position]]
    return changed


class FunctionalMode(Occupant):
    """While active, all tensors that ops make are functional.

    With `pre_dispatch` it sits above autograd, where composites are still whole: those that may
    alias or write are taken apart there, others stay one op.
    """

    slot = "functional"
    covered = BELOW_FUNCTIONAL
    hop_rule = "functional"
    # Whether memory of the caller can be given more than it has.
    may_grow = False

    def __init__(self, pre_dispatch: bool = False) -> None:
        self.pre_dispatch = pre_dispatch
        if pre_dispatch:
            self.slot, self.covered = "pre_functional", BELOW_PRE_FUNCTIONAL
        # Effect -> its current token, a value of the layers below: put in by who makes it a graph
        # input, or made by the first call that needs it where the mode `finds_tokens`.
        self.tokens: dict[Any, Tensor] = {}
        self.finds_tokens = True
        # Makes the token that a first call needs; a constant where there is nothing else.
        self.make_token: Callable[[Any], Tensor] | None = None

    def is_own(self, value: Any) -> bool:
        return isinstance(value, FunctionalTensor)

    def value_of(self, tensor: Any) -> Any:
        """The up-to-date value of a tensor of this mode; others are values."""
        return from_functional(tensor) if self.is_own(tensor) else tensor

    def call_below(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        return dispatch.go_on(op, args)

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """One op as a function of values."""
        if op.body is not None and not op.autograd_only:
            is_apart = may_alias(op) or self.takes_apart(op)
            return dispatch.run_body(op, args) if is_apart else self.run_whole(op, args)
        own = op.rules.get("effectful") or op.rules.get("functionalized")
        if own is not None:
            return own(self, op, args)
        if op.is_view_op and self.is_own(args[0]):
            return self.view(op, args)
        if op.mutated_positions:
            return self.write(op, args)
        return self.run(op, args)

    def takes_apart(self, op: OpOverload) -> bool:
        """Whether a composite that could stay whole is taken apart all the same."""
        return False

    def run(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """An op that writes nothing, on up-to-date values."""
        values = map_tensors(op, args, self.value_of)
        with self.below():
            result = self.call_below(op, tuple(values))
        return self.wrapped(result)

    def run_whole(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """A composite on up-to-date values. Whether it gave back an operand, or a view of one, its
        schema does not say: where it did, nobody may write to either."""
        result = self.run(op, args)
        given: dict[int, FunctionalStorage] = {}
        for operand in operands_of(op, args):
            if self.is_own(operand):
                given[id(storage_of(operand.functional_value))] = operand.functional_storage
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if self.is_own(tensor):
                source = given.get(id(storage_of(tensor.functional_value)))
                if source is not None:
                    source.frozen = tensor.functional_storage.frozen = True
        return result

    def wrapped(self, result: Any) -> Any:
        """What an op returned as functional tensors."""
        if self.is_own(result) or not isinstance(result, (Tensor, list, tuple)):
            return result
        if isinstance(result, Tensor):
            return functional_over(result, FunctionalStorage(result, self), self)
        items = [self.wrapped(item) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)

    # -- views -------------------------------------------------------------------------------------

    def view(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Note [View steps]."""
        source, rest = args[0], args[1:]
        sync(source)
        forms = eager_forms(op, args)
        quiet = not LOCAL.state.grad
        result = self.view_value(op, source, rest, is_checked=forms is not None)
        if isinstance(result, (list, tuple)):
            return [
                self.view_of(source, v, ViewStep(op, rest, n, quiet), forms and forms[n])
                for n, v in enumerate(result)
            ]
        step = ViewStep(op, rest, None, quiet, source)
        return self.view_of(source, result, step, forms and forms[0])

    def view_value(
        self, op: OpOverload, source: FunctionalTensor, rest: tuple[Any, ...], is_checked: bool
    ) -> Any:
        """The value of a view, which the tensor has eagerly where that `is_checked`."""
        value = source.functional_value
        with self.below():
            if is_checked and is_cut(op, value, rest):
                return reshaped(value, rest)
            return self.call_below(op, (value, *rest))

    def view_of(self, source: FunctionalTensor, value: Tensor, step: ViewStep, form: Any) -> Any:
        made = functional_over(value, source.functional_storage, self)
        if form is not None:
            take_geometry(made, form)
        made._counter = source._counter
        made.chain = (*source.chain, step)
        made.hidden = source.hidden or step.op.base_name == "detach"
        made.unversioned = source.unversioned
        return made

    # -- writes ------------------------------------------------------------------------------------

    def write(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        written: list[Any] = []
        for position in op.mutated_positions:
            target = args[position]
            targets = target if isinstance(target, (list, tuple)) else [target]
            written += [value for value in targets if isinstance(value, Tensor)]
        if not any(self.is_own(target) for target in written):
            if any(self.is_own(v) for v in operands_of(op, args)):
                raise RuntimeError(
                    f"{op.name()}: mutating a non-functional tensor with a functional tensor is "
                    "not allowed. Please ensure that all of your inputs are wrapped inside of a "
                    "functionalize() call."
                )
            with self.below():
                return self.call_below(op, args)
        if op.replayed_as is not None:
            return self.move(op, args)
        if op.functional is None and "kernels" in op.options:
            return self.write_copies(op, args)
        functional = functional_form(op)
        # The write's own rule looks at sizes and dtypes, and resizes out= tensors.
        before = [(sizes_of(target), strides_of(target)) for target in written]
        check_write(op, args)
        for target, (sizes, strides) in zip(written, before, strict=True):
            is_own = self.is_own(target)
            if is_own and not geometry.same_sizes(sizes_of(target), sizes):
                wanted = sizes_of(target)
                is_plain = strides == geometry.contiguous_strides(sizes)
                if (
                    not is_plain
                    or strides_of(target) != geometry.contiguous_strides(wanted)
                    # Its history would stay that of the old sizes.
                    or target.requires_grad
                ):
                    raise error("RL0741", sizes=sizes, wanted=wanted)
                take_value(target, target.functional_value)
                self.resize(target, wanted)
        values = map_tensors(op, args, self.value_of)
        count = len(op.out_positions)
        if count:
            values = values[:-count]
        with self.below():
            result = self.call_below(functional, tuple(values))
        results = list(result) if isinstance(result, (list, tuple)) else [result]
        extra = results[: len(results) - len(written)]
        for target, value in zip(written, results[len(extra) :], strict=True):
            self.replace(target, value)
        if extra:
            return self.wrapped(tuple(extra) if len(extra) > 1 else extra[0])
        return written[0] if len(written) == 1 else tuple(written)

    def write_copies(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """A user's op, which has no functional form: it writes to copies, which become the values
        of what it was given."""
        values = list(map_tensors(op, args, self.value_of))
        changes: list[tuple[Any, Any]] = []
        returned = {}
        with self.below():
            for position in op.mutated_positions:
                given, value = args[position], values[position]
                if isinstance(given, (list, tuple)):
                    values[position] = [item.clone() for item in value]
                    changes += zip(given, values[position], strict=True)
                elif given is not None:
                    values[position] = value.clone()
                    changes.append((given, values[position]))
                    returned[id(values[position])] = given
            result = self.call_below(op, tuple(values))
        for target, value in changes:
            if self.is_own(target):
                self.replace(target, value)
        if not op._schema.returns:
            return None
        if isinstance(result, tuple):
            return tuple([returned.get(id(r), self.wrapped(r)) for r in result])
        target = returned.get(id(result))
        return self.wrapped(result) if target is None else target

    def replace(self, target: FunctionalTensor, value: Tensor) -> None:
        """Give a functional tensor a new value, and queue the write for what shares its storage."""
        storage = target.functional_storage
        if storage.frozen:
            raise RuntimeError("cannot mutate tensors with frozen storage")
        with self.below():
            if value._dtype is not target._dtype:
                value = value.to(target._dtype)
        storage.updates.append((value, target.chain))
        storage.generation += 1
        storage.writes += 1
        storage.write_meta = LOCAL.state.node_meta
        storage.quiet_writes += target.hidden or not LOCAL.state.grad or LOCAL.state.inference
        storage.hidden_writes += target.hidden
        storage.unversioned_writes += target.unversioned
        sync(target)

    def move(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """`x.t_()`: the tensor becomes the view of itself."""
        assert op.replayed_as is not None
        target = self.become_view(args[0], op.replayed_as, args[1:])
        target.chain[-1].inplace = op
        return target

    def become_view(self, target: Any, op: OpOverload, rest: tuple[Any, ...]) -> Any:
        forms = eager_forms(op, (target, *rest))
        value = self.view_value(op, target, rest, is_checked=forms is not None)
        # Its history goes on, whatever the grad mode.
        target.chain = (*target.chain, ViewStep(op, rest, None, False, target))
        target.moves = (*target.moves, not LOCAL.state.grad)
        take_value(target, value)
        if forms:
            take_geometry(target, forms[0])
        return target

    def resize(self, target: FunctionalTensor, size: tuple[Any, ...]) -> None:
        """`target.resize_(size)`: its first elements, or more memory where nobody else has any."""
        count = geometry.numel(size)
        if target.is_contiguous() and count <= target.numel():
            sync(target)
            if strides_of(target) != geometry.contiguous_strides(sizes_of(target)):
                # Dims of one element have strides of their own, which it gives up.
                strides = geometry.contiguous_strides(size)
                steps: list[tuple[str, Any]] = [("as_strided", (size, strides, None))]
            else:
                steps = [("view", ([-1],)), ("slice", (0, 0, count, 1)), ("view", (size,))]
            for name, args in steps:
                op = find_overload("aten", name, "Tensor" if name == "slice" else "default")
                self.become_view(target, op, args)
                history.take_view_history(target, None, op, args)
            return
        storage = target.functional_storage
        is_fixed = storage.is_given and not self.may_grow
        if is_fixed or storage.tensors > 1 or target.chain or not target.is_contiguous():
            raise error("RL0741", sizes=tuple(target.shape), wanted=tuple(size))
        sync(target)
        value = target.functional_value
        with self.below():
            made = value.new_empty((count,))
            if value.numel():
                made = find_overload("aten", "slice_scatter", "default")(
                    made, value.view(-1), 0, 0, value.numel()
                )
            made = made.view(size)
        storage.base = made
        storage.memory.nbytes_ = storage_of(made).nbytes_
        take_value(target, made)

    def take_storage(self, op: OpOverload, target: Any, source: Any) -> Any:
        """`target.set_(source)`: the target is now what the source is. Nobody may write to what it
        was: other tensors over that are not the target's aliases any more."""
        if not self.is_own(target) or not self.is_own(source):
            raise error("RL0703", NotImplementedError, op=op.name())
        if LOCAL.state.grad and (source.requires_grad or target.requires_grad):
            # Its history would go on as that of the memory it had.
            raise error("RL0611", name="set_")
        if target.functional_storage is source.functional_storage and target is not source:
            raise error("RL0743")
        if target.functional_storage is not source.functional_storage:
            target.functional_storage.frozen = True
        target.functional_storage = source.functional_storage
        target._storage = source._storage
        target.chain, target.generation = source.chain, source.generation
        target.was_set = True
        take_value(target, source.functional_value)
        take_geometry(target, source)
        counter: Any = target._counter
        counter.value += 1
        return target

    def resize_storage(self, op: OpOverload, target: FunctionalTensor, size: Any) -> None:
        """Memory given up is given up at the end of a graph; memory asked for is there at once."""
        storage = target.functional_storage
        current = storage.memory.nbytes_ if storage.resized_to is None else storage.resized_to
        if size != 0 and current != 0:
            raise error("RL0735", size=size, current=current)
        storage.resized_to = size
        if size != 0:
            with self.below():
                self.call_below(op, (storage.base, size))


def operands_of(op: OpOverload, args: tuple[Any, ...]) -> list[Any]:
    found = [args[position] for position in op.tensor_positions]
    for position in op.list_positions:
        found += args[position] or ()
    return found


def may_alias(op: OpOverload) -> bool:
    """Whether a composite may write to an operand or give a view of one back."""
    if op.mutated_positions or Tag.maybe_aliasing_or_mutating in op.tags:
        return True
    marks = [entry.alias_info for entry in op._schema.arguments]
    marks += [entry.alias_info for entry in op._schema.returns]
    return any([mark is not None for mark in marks])


def eager_forms(op: OpOverload, args: tuple[Any, ...]) -> list[Any] | None:
    """Views as they are eagerly; None where a functional tensor's value has its geometry, so that
    the value's views have theirs."""
    source = args[0]
    if has_geometry_of(source, source.functional_value):
        return None
    if op.base_name == "as_strided":
        raise error("RL0742", sizes=sizes_of(source), strides=strides_of(source))
    with excluding(BELOW_FUNCTIONAL):
        found = op.backend(*args)
    return list(found) if isinstance(found, (list, tuple)) else [found]


def functional_form(op: OpOverload) -> OpOverload:
    """The op that computes what an in-place or out= op writes."""
    found: OpOverload | None = op.functional
    if found is None:
        raise error("RL0703", NotImplementedError, op=op.name())
    return found


def check_write(op: OpOverload, args: tuple[Any, ...]) -> None:
    """Run a write by its shape rule on the outer tensors, for its checks and for out= sizes."""
    with excluding(BELOW_FUNCTIONAL):
        op.backend(*args)


DEFAULT = FunctionalMode()


class FunctionalLevel(FunctionalMode):
    """`functionalize` as a transform: values are tensors of the levels below, which record what is
    computed with them. Views and writes are followed here alone."""

    transform = "Functionalize"
    plain = False
    may_grow = True

    def __init__(self) -> None:
        super().__init__()
        self.under = LOCAL.state.transforms

    def is_own(self, value: Any) -> bool:
        # Tensors of a level around this one are values here.
        return isinstance(value, FunctionalTensor) and value.handling_mode is self

    def below(self) -> changed:
        return changed(transforms=self.under)

    def call_below(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        return dispatch.call(op, args)

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None and not (op.autograd_only and "kernels" in op.options):
            return dispatch.run_body(op, args)
        if op.is_view_op and not self.is_own(args[0]):
            with self.below():
                result = self.call_below(op, args)
            # What is made from data inside may be written to.
            return self.wrapped(result) if op.base_name == "lift_fresh" else result
        if op.mutated_positions:
            for position in op.mutated_positions:
                if self.is_own(args[position]):
                    args[position]._counter.value += 1
        return super().process(op, args)

    def __enter__(self) -> Any:
        state = LOCAL.state
        state.transforms = (*self.under, self)
        state.refresh()
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        state = LOCAL.state
        state.transforms = self.under
        state.refresh()

    def apply_function(
        self, cls: type[Any], args: Args, kwargs: Kwargs, direct: Callable[[], Any], has_rule: bool
    ) -> Any:
        with self.below():
            result = cls.apply(*[self.value_of(value) for value in args], **kwargs)
        return self.wrapped(result)
