"""Batching: tensors with a hidden batch axis, and the transform level that understands them.

A `BatchedTensor` shows the shape of one sample and carries all samples in `_value`, along `_axis`.
While a level is active every call passes `VmapLevel.process` first: composites decompose, an op
without batched operands passes by, and for the others the op's batch rule runs on the values
below this level. An op without a rule is looped over the samples,
which is right for every op and quick for none; a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.base.errors import error, message
from rushlight.core import dispatch, geometry, history, ports
from rushlight.core.device import cpu, strided
from rushlight.core.duals import tangent_of
from rushlight.core.op import OpOverload, Refused
from rushlight.core.refusals import NO_REQUIRES_GRAD
from rushlight.core.rng import default_generator
from rushlight.core.state import LAYER_AUTOGRAD, LOCAL, warn_once
from rushlight.core.tensor import Tensor, Unusual, ViewInfo, sizes_of, strides_of

if TYPE_CHECKING:
    from rushlight.core.protocols import Args, Function, Kwargs

__all__ = ["BatchedTensor", "VmapLevel", "batched", "is_batched", "unbatched"]

NO_MEMORY = "Cannot access data pointer of Tensor that doesn't have storage"
NO_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling "
    ".item() on a Tensor, please try to rewrite what you're doing with other operations. If error "
    "is occurring somewhere inside PyTorch internals, please file a bug report."
)
NO_CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We "
    "don't support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
ESCAPED = (
    "Either your tensor may have escaped from inside a function being vmapped and this is a user "
    "error (see https://pytorch.org/functorch/stable/ux_limitations.html): it belongs to a vmap "
    "that has ended, or that is not active here."
)
NO_RANDOMNESS = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
NO_RANDOMNESS_AT_ALL = (
    "vmap: We do not yet support calling random operations inside of vmap. Please perform random "
    "operations outside of vmap as a workaround"
)
NO_RANDOM_OUT = (
    "vmap: We do not support calling out variants of random operations inside of vmap. Please use "
    "non-out variants as a workaround"
)
NO_DIFFERENCE = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear "
    "like same randomness. If this is necessary for your usage, please file an issue with "
    "functorch."
)
NO_FUNCTION = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class BatchedTensor(Tensor):
    """A tensor whose values vary along a batch axis that user code does not see."""

    __slots__ = ("_axis", "_level", "_value")

    _value: Any
    _axis: int
    _level: int

    __torch_function__ = dispatch.DISABLED  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(
        cls, func: OpOverload, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        # Active levels take their tensors out of every call; one that comes this far has no level.
        raise RuntimeError(ESCAPED)

    @property
    def requires_grad(self) -> bool:
        return bool(self._value.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        raise RuntimeError(NO_REQUIRES_GRAD)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        raise RuntimeError(NO_REQUIRES_GRAD)

    @property
    def is_leaf(self) -> bool:
        return bool(self._value.is_leaf)

    @property
    def grad_fn(self) -> Any:
        return self._value.grad_fn

    @property
    def data(self) -> Any:
        raise RuntimeError("accessing `data` under vmap transform is not allowed")

    @data.setter
    def data(self, value: object) -> None:
        raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")

    def data_ptr(self) -> int:
        raise RuntimeError(NO_MEMORY)

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(NO_MEMORY)

    def tolist(self) -> Any:
        raise RuntimeError(NO_MEMORY)

    def item(self) -> Any:
        raise RuntimeError(NO_ITEM)

    __float__ = __int__ = __complex__ = __index__ = item

    def __bool__(self) -> bool:
        raise RuntimeError(NO_CONTROL_FLOW)

    def _host_array(self) -> Any:
        raise RuntimeError(NO_MEMORY)

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        inner = "\n".join("    " + line for line in repr(self._value).splitlines())
        return f"BatchedTensor(lvl={self._level}, bdim={self._axis}, value=\n{inner}\n)"


dispatch.QUIET.add(BatchedTensor)


class Sample(Unusual):
    """The geometry of one sample of a plain tensor, its strides found when they are asked for."""

    __slots__ = ("array", "axis", "is_contiguous", "width")

    array: Any
    axis: int
    is_contiguous: bool
    width: int

    device = cpu
    layout = strided
    conj = neg = inference = zero = False
    parts = None

    @property
    def strides(self) -> tuple[Any, ...]:  # type: ignore[override]
        if self.is_contiguous:
            found = geometry.contiguous_strides(self.array.shape)
        else:
            found = tuple([step // self.width for step in self.array.strides])
        return found[: self.axis] + found[self.axis + 1 :]


new_batched = partial(object.__new__, BatchedTensor)
new_sample = partial(object.__new__, Sample)


# The positions of the tensors of most elementwise ops.
FIRST_TWO = (0, 1)


def batched(value: Tensor, axis: int, level: int) -> Any:
    """Hide `axis` of a tensor."""
    result: Any = new_batched()
    result._array = None
    result._dtype = value._dtype
    result._is_contiguous = False
    result._node = None
    result._output_nr = 0
    result._counter = None
    result._storage = None
    result._view = None
    result._autograd = None
    result._level = level
    if axis or value._unusual is not None:
        show(result, value, axis)
        return result
    # `show` of the commonest case, written out.
    array = value._array
    sample: Any = new_sample()
    sample.sizes = array.shape[1:]
    sample.axis = 0
    sample.array = array
    sample.is_contiguous = value._is_contiguous
    sample.width = value._dtype.itemsize
    result._unusual = sample
    result._offset = value._offset
    result._value = value
    result._axis = 0
    result._requires_grad = value._requires_grad
    return result


def show(tensor: BatchedTensor, value: Tensor, axis: int) -> None:
    """Let a batched tensor stand for `value`, from the outside one sample of it."""
    own = value._unusual
    if own is None:
        array = value._array
        sample: Any = new_sample()
        sizes = array.shape
        sample.sizes = sizes[1:] if axis == 0 else sizes[:axis] + sizes[axis + 1 :]
        sample.axis = axis
        sample.array = array
        sample.is_contiguous = value._is_contiguous
        sample.width = value._dtype.itemsize
        tensor._unusual = sample
    else:
        unusual = tensor._unusual = Unusual(own.device)
        sizes, strides = sizes_of(value), strides_of(value)
        unusual.sizes = sizes[:axis] + sizes[axis + 1 :]
        unusual.strides = strides[:axis] + strides[axis + 1 :]
        unusual.conj, unusual.neg = own.conj, own.neg
    tensor._offset = value._offset
    tensor._value = value
    tensor._axis = axis
    tensor._requires_grad = value._requires_grad


def is_batched(value: Any, level: int) -> bool:
    return isinstance(value, BatchedTensor) and value._level == level


def unbatched(value: Any, level: int, size: int, out_dim: int) -> Any:
    """The plain tensor behind a result, its batch axis at `out_dim`; the very value if it can."""
    if is_batched(value, level):
        found, axis = value._value, value._axis
        if axis == out_dim or axis == out_dim + found.dim():
            return found
        return found.movedim(axis, out_dim)
    expanded = value.unsqueeze(0).expand(size, *value.shape)
    return expanded.movedim(0, out_dim) if out_dim else expanded


class Loops:
    """What happens where an op without a rule would run once for every sample."""

    are_allowed = True
    are_told = True
    are_always_told = False


LOOPS = Loops()


class VmapLevel:
    """One active vmap. A `plain` one stands below autograd as far as users can see: it runs custom
    Functions as they are and knows no random ops."""

    __slots__ = ("level", "plain", "randomness", "size", "under")
    hop_rule = "batch"
    transform = "Vmap"

    def __init__(
        self, level: int, size: int, randomness: str = "error", plain: bool = False
    ) -> None:
        self.level = level
        self.size = size
        self.randomness = randomness
        self.plain = plain
        # The levels below, on the stack when this one was made.
        self.under = LOCAL.state.transforms

    # -- entry ------------------------------------------------------------------------------------

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        state = LOCAL.state
        if op.maps_elements and state.forward_level < 0:
            values = self.ready_values(op, args)
            if values is args:
                return self.below(op, args)
            if values is not None:
                return batched(self.below(op, values), 0, self.level)
        elif op.body is not None and self.is_taken_apart(op, args, state):
            return dispatch.run_body(op, args)
        if state.forward_level < 0 or not ports.has_tangents(op, args, state):
            return self.batch(op, args)
        if op.out_positions:
            raise error("RL0602", NotImplementedError, op=op.base_name)
        original = args
        if op.mutated_positions:
            original = (args[0].clone(), *args[1:])
        result = self.batch(op, args)
        if op.mutated_positions:
            ports.push_tangents(op, original, args[0], state)
        else:
            ports.push_tangents(op, args, result, state)
        return result

    def is_taken_apart(self, op: OpOverload, args: tuple[Any, ...], state: Any) -> bool:
        """Whether a composite's body runs here. One for autograd only has run when it calls its
        op; the tangents of a composite are those of what it does."""
        if op.batch_rule is None:
            has_run = "kernels" in op.options or state.excluded & LAYER_AUTOGRAD
            return not (op.autograd_only and has_run)
        return state.forward_level >= 0 and ports.has_tangents(op, args, state)

    def batch(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if "nondeterministic_seeded" in op.tags:
            return self.random(op, args)
        if not self.has_batched_operand(op, args):
            return self.below(op, args)
        target = args[op.mutated_positions[0]] if op.mutated_positions else None
        if target is not None and not is_batched(target, self.level):
            self.refuse_write(op)
        if op.replayed_as is not None:
            return self.view_in_place(op, args)
        result = self.by_rule(op, args)
        if target is not None:
            return self.written(op, target)
        if op.is_view_op:
            self.record_views(op, args, result)
        return result

    def written(self, op: OpOverload, target: Any) -> Any:
        """What a write in place leaves behind on its target, and answers."""
        target._requires_grad = target._value._requires_grad
        history.bump_version(target)
        return target if op._schema.returns else None

    def by_rule(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        rule = op.batch_rule
        if rule is None:
            return self.loop(op, args)
        if isinstance(rule, Refused):
            raise error("RL0604", op=op.name(), reason=rule.reason)
        return rule(self, op, *args)

    def refuse_write(self, op: OpOverload) -> None:
        raise RuntimeError(
            f"vmap: {op.name()}(self, *extra_args) is not possible because there exists a Tensor "
            "`other` in extra_args that has more elements than `self`. This happened due to "
            "`other` being vmapped over but `self` not being vmapped over at level "
            f"{self.level}. Please try to use out-of-place operators instead of {op.name()}. If "
            "said operator is being called inside the PyTorch framework, please file a bug report "
            "instead."
        )

    def has_batched_operand(self, op: OpOverload, args: tuple[Any, ...]) -> bool:
        level = self.level
        for position in op.tensor_positions:
            value = args[position]
            if type(value) is BatchedTensor and value._level == level:
                return True
        for position in op.list_positions:
            for value in args[position] or ():
                if type(value) is BatchedTensor and value._level == level:
                    return True
        return False

    def has_batched(self, args: tuple[Any, ...]) -> bool:
        for value in args:
            items = value if isinstance(value, (list, tuple)) else (value,)
            if any([is_batched(item, self.level) for item in items]):
                return True
        return False

    # -- below ------------------------------------------------------------------------------------

    def below(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Run an op under this level."""
        state = LOCAL.state
        before, under = state.transforms, self.under
        if before is under:
            return dispatch.call(op, args)
        try:
            state.transforms = under
            if under:
                return under[-1].process(op, args)
            state.layers = state.others
            return op.direct(*args)
        finally:
            # `ascend`, written out.
            state.transforms = before
            state.layers = True
            if not (before and state.counted):
                state.refresh()

    def run(self, function: Function, *args: Any) -> Any:
        """Run any function of tensors under this level."""
        state = LOCAL.state
        before = state.transforms
        if before is self.under:
            return function(*args)
        try:
            state.descend(self.under)
            return function(*args)
        finally:
            state.ascend(before)

    def front(self, value: Any, rank: int | None = None) -> Any:
        """A batched operand's values with the batch axis first, padded to a logical rank."""
        if not is_batched(value, self.level):
            return value
        moved, axis = value._value, value._axis
        missing = 0 if rank is None else rank - (moved.dim() - 1)
        if axis == 0 and missing <= 0:
            return moved

        def move() -> Any:
            found = moved.movedim(axis, 0) if axis else moved
            if missing <= 0:
                return found
            shape = tuple(found.shape)
            return found.reshape((shape[0],) + (1,) * missing + shape[1:])

        return self.run(move)

    def full(self, value: Any, rank: int = 0) -> Any:
        """An operand with a batch axis first, an unbatched one repeated along it."""
        if is_batched(value, self.level) or not isinstance(value, Tensor):
            return self.front(value, rank)
        sizes = (self.size,) + (1,) * (rank - value.dim()) + tuple(value.shape)
        return self.run(lambda: value.expand(sizes))

    def wrap(self, value: Any, axis: int = 0) -> Any:
        if isinstance(value, Tensor):
            return batched(value, axis, self.level)
        if isinstance(value, (list, tuple)):
            return type(value)([self.wrap(item, axis) for item in value])
        return value

    def finish(self, op: OpOverload, result: Any) -> Any:
        """What an op answers: a write leaves its result in the operand itself."""
        return result if op.mutated_positions else self.wrap(result)

    def holds(self, value: Any) -> bool:
        """Whether a value varies along this level's batch axis."""
        return is_batched(value, self.level)

    def shift(self, dim: int, rank: int) -> int:
        """A dim of one sample as a dim of values whose batch axis comes first."""
        found: int = geometry.wrap_dim(dim, rank)
        return found + 1

    def record_views(self, op: OpOverload, args: tuple[Any, ...], result: Any) -> None:
        source = args[0]
        if not is_batched(source, self.level):
            return
        single = isinstance(result, Tensor)
        for number, item in enumerate((result,) if single else result):
            if item is not source and item._view is None:
                kind = ViewInfo.NORMAL if single else ViewInfo.MULTI_OUTPUT
                history.view_of(source, item, op, args, True, None, kind, number)

    # -- rules ------------------------------------------------------------------------------------

    def elementwise(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        tensors = [value for value in args if isinstance(value, Tensor)]
        rank = max([value.dim() for value in tensors], default=0)
        if op.mutated_positions and args[0].dim() < rank:
            return self.loop(op, args)
        if any([value._dtype is not tensors[0]._dtype for value in tensors]):
            args = self.promoted(op, args)
        place = self.front if len(op._schema.returns) == 1 else self.full
        result = self.below(op, tuple([place(value, rank) for value in args]))
        return result if op.mutated_positions else self.wrap(result)

    def ready_values(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """The operands of an elementwise op with one result, where they broadcast below as they
        do here: one dtype, batch axes in front, and no sample of fewer dims than the result. None
        where they do not; the very arguments where none of them is batched."""
        level = self.level
        positions = op.tensor_positions
        if positions == FIRST_TWO:
            return self.ready_pair(args)
        values: Any = None
        dtype: Any = None
        ready = True
        rank = highest = -1
        for position in positions:
            value = args[position]
            if type(value) is BatchedTensor and value._level == level:
                own = len(value._unusual.sizes)  # type: ignore[union-attr, arg-type]
                if value._axis or (rank >= 0 and own != rank):
                    return None
                rank = own
                if values is None:
                    values = list(args)
                values[position] = value._value
            elif isinstance(value, Tensor):
                own = value.dim()
            else:
                continue
            highest = own if own > highest else highest
            if dtype is not value._dtype:
                ready = ready and dtype is None
                dtype = value._dtype
        if values is None:
            return args
        return tuple(values) if ready and rank == highest else None

    def ready_pair(self, args: tuple[Any, ...]) -> Any:
        """`ready_values` of two operands, or one and a number: most calls'."""
        level = self.level
        first, second = args[0], args[1]
        if type(first) is not BatchedTensor or first._level != level:
            if type(second) is not BatchedTensor or second._level != level:
                return args
            if (
                second._axis
                or first._dtype is not second._dtype
                or first.dim() > len(second._unusual.sizes)  # type: ignore[union-attr, arg-type]
            ):
                return None
            return (first, second._value, *args[2:])
        if first._axis:
            return None
        if isinstance(second, Tensor):
            if second._dtype is not first._dtype:
                return None
            own = len(first._unusual.sizes)  # type: ignore[union-attr, arg-type]
            if type(second) is not BatchedTensor or second._level != level:
                if second.dim() > own:
                    return None
            elif second._axis or len(second._unusual.sizes) != own:  # type: ignore[union-attr, arg-type]
                return None
            else:
                second = second._value
        return (first._value, second, *args[2:])

    def promoted(self, op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Operands in the dtype that one sample would be computed in: the hidden axis would turn
        0-dim operands, which count less, into ones with dims."""
        kind = (op if op.functional is None else op.functional).kind
        source = op if op.functional is None else op.functional
        if not hasattr(kind, "dtypes_of"):
            return args
        compute, _ = kind.dtypes_of(source, args)
        fixed = source.options.get("unpromoted", ())
        found = list(args)
        for position in op.tensor_positions:
            value = args[position]
            if position in fixed or (position == 0 and op.mutated_positions):
                continue
            if isinstance(value, Tensor) and value._dtype is not compute:
                found[position] = value.to(compute)
        return tuple(found)

    def view_in_place(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """`transpose_` and its kin: the tensor stands for the view from now on."""
        target = args[0]
        assert op.replayed_as is not None
        seen = self.by_rule(op.replayed_as, args)
        history.bump_version(target)
        history.take_view_history(target, None, op.replayed_as, args[1:])
        show(target, seen._value, seen._axis)
        return target

    def loop(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """What has no rule: said once for every op, then run sample by sample."""
        name = op.name()
        if not LOOPS.are_allowed:
            raise RuntimeError(f"{name} hit the vmap fallback which is currently disabled")
        if self.size > 1 and LOOPS.are_told:
            text = message("RL0612", op=name)
            if LOOPS.are_always_told:
                warnings.warn(text, stacklevel=2)
            else:
                warn_once(f"vmap loop {name}", text)
        return self.sample_by_sample(op, args)

    def sample_by_sample(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Every sample by itself, results stacked; in-place ops write through the samples."""
        if op.mutated_positions:
            self.each(lambda *sample: (dispatch.call(op, sample), None)[1], *args)
            return args[op.mutated_positions[0]]
        if not self.size:
            raise error("RL0605", op=op.name())
        return self.each(lambda *sample: dispatch.call(op, sample), *args)

    def each(self, function: Function, *trees: Any) -> Any:
        """`function` of every sample, under this level; its results stacked and batched."""

        def every() -> Any:
            return stack_results(
                [function(*[sample(tree, index) for tree in trees]) for index in range(self.size)]
            )

        def sample(value: Any, index: int) -> Any:
            if is_batched(value, self.level):
                return value._value.select(value._axis, index)
            if isinstance(value, dict):
                return {name: sample(item, index) for name, item in value.items()}
            if type(value) in (list, tuple):
                return type(value)([sample(item, index) for item in value])
            return value

        return self.wrap(self.run(every))

    def random(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.out_positions:
            raise RuntimeError(NO_RANDOM_OUT)
        if self.plain:
            raise RuntimeError(NO_RANDOMNESS_AT_ALL)
        if self.randomness == "error":
            raise RuntimeError(NO_RANDOMNESS)
        rule = ports.find_batch_rule(op)
        if rule is not None:
            result = rule(self, op, *args)
            is_write = op.mutated_positions and is_batched(args[0], self.level)
            return self.written(op, args[0]) if is_write else result
        written = bool(op.mutated_positions)
        if not self.has_batched(args):
            if self.randomness == "same":
                return self.below(op, args)
            if written:
                raise RuntimeError(NO_DIFFERENCE)
        if written and not is_batched(args[op.mutated_positions[0]], self.level):
            self.refuse_write(op)
        if self.randomness == "different":
            return self.sample_by_sample(op, args)
        # One sequence of random numbers, drawn anew for every sample.
        generators = [v for v in args if hasattr(v, "get_state") and not isinstance(v, Tensor)]
        generator: Any = generators[0] if generators else default_generator
        start = generator.get_state()

        def drawn(*sample: Any) -> Any:
            generator.set_state(start)
            found = dispatch.call(op, sample)
            return None if written else found

        result = self.each(drawn, *args)
        return args[op.mutated_positions[0]] if written else result

    # -- custom Functions -------------------------------------------------------------------------

    def apply_function(
        self,
        cls: type[Any],
        args: tuple[Any, ...],
        kwargs: Kwargs,
        direct: Callable[[], Any],
        has_rule: bool,
    ) -> Any:
        """A custom Function inside vmap: by its `vmap` rule, or sample by sample. `direct` runs it
        on batched tensors as they are; `has_rule` tells whether the class brings a rule."""
        state = LOCAL.state
        tensors = [value for value in args if isinstance(value, Tensor)]
        is_pushing = state.duals is not None and state.duals.depth == len(state.transforms)
        if is_pushing and any([tangent_of(value) is not None for value in tensors]):
            return direct()
        if any([isinstance(value, Tensor) for value in kwargs.values()]):
            raise NotImplementedError(  # torch: no rule is told how they are batched
                "Run vmap on autograd.Function with kwarg-only Tensor args. Please do not pass "
                f"kwarg-only Tensors to autograd.Function. Got: {kwargs}"
            )
        if not self.has_batched(args):
            return self.run(lambda: cls.apply(*args, **kwargs))
        if self.plain:
            if not (state.grad and any([value.requires_grad for value in tensors])):
                return direct()
        else:
            self.check_function(cls, has_rule)
            if has_rule:
                return self.user_rule(cls.vmap, args, kwargs)
        return self.each(lambda *sample: cls.apply(*sample, **kwargs), *args)

    def check_function(self, cls: type[Any], has_rule: bool) -> None:
        if cls.generate_vmap_rule and has_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True "
                "and an overridden vmap staticmethod. Please set generate_vmap_rule=False or "
                f"delete the overridden vmap staticmethod to avoid ambiguity. {NO_FUNCTION}"
            )
        if not cls.generate_vmap_rule and not has_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please "
                "override and implement the vmap staticmethod or set generate_vmap_rule=True. "
                f"{NO_FUNCTION}"
            )

    def user_rule(
        self, rule: Callable[..., Any], args: tuple[Any, ...], kwargs: Kwargs | None = None
    ) -> Any:
        """Call a `rule(info, in_dims, *args)` that users wrote on the values."""
        from rushlight.base.pytree import broadcast_to_and_flatten, tree_flatten, tree_unflatten

        flat, spec = tree_flatten(args)
        hidden = [is_batched(value, self.level) for value in flat]
        dims = tree_unflatten(
            [v._axis if is_in else None for v, is_in in zip(flat, hidden, strict=True)], spec
        )
        values = tree_unflatten(
            [v._value if is_in else v for v, is_in in zip(flat, hidden, strict=True)], spec
        )
        info = VmapInfo(self.size, self.randomness)
        returned = self.run(lambda: rule(info, dims, *values, **(kwargs or {})))
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with "
                f"pytree structure compatible with the output. Got a {type(returned)} instead"
            )
        outputs, out_dims = returned
        leaves, out_spec = tree_flatten(outputs)
        placed = broadcast_to_and_flatten(out_dims, out_spec)
        if placed is None:
            raise RuntimeError(
                "The autograd.Function's vmap staticmethod returned an incompatible (output, "
                "out_dims) tuple. "
                f"Expected out_dims={out_dims} to be compatible with the structure of `output`. "
                f"out_dims has structure {tree_flatten(out_dims)[1]} but output has structure "
                f"{out_spec}."
            )
        # An argument that is returned stays the object it was: whoever called may have marked it
        # as written.
        given = {id(v._value): v for v, is_in in zip(flat, hidden, strict=True) if is_in}
        wrapped: list[Any] = []
        for leaf, dim in zip(leaves, placed, strict=True):
            if dim is None or not isinstance(leaf, Tensor):
                wrapped.append(leaf)
                continue
            known, axis = given.get(id(leaf)), dim % leaf.dim()
            is_same = known is not None and known._axis == axis
            wrapped.append(known if is_same else batched(leaf, axis, self.level))
        return tree_unflatten(wrapped, out_spec)


class VmapInfo(NamedTuple):
    """What a Function's `vmap` rule is told."""

    batch_size: int
    randomness: str


def stack_results(results: list[Any]) -> Any:
    """Results of all samples with a new leading dim, container by container."""
    first = results[0] if results else None
    if isinstance(first, Tensor):
        return ports.find_packet("aten", "stack")(results)
    if isinstance(first, (list, tuple)):
        columns = [stack_results(list(column)) for column in zip(*results, strict=True)]
        return columns if isinstance(first, list) else tuple(columns)
    return first
