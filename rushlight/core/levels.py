"""Levels of differentiation: `grad` and `jvp` as transforms beside `vmap`.

A level's tensors are `LevelTensor`s: thin objects over a tensor of the levels below (`_value`) that
carry history of their own: a node and a view record, or a tangent (`autograd.levels`). A call
enters at the innermost level: operands are lifted to it, the call is recorded on the lifted
tensors, runs on their values with this level off the stack, and its results are lifted again.
Once a level has ended its tensors stand for their values.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight.core import dispatch, ports
from rushlight.core.op import OpOverload
from rushlight.core.state import LAYER_AUTOGRAD, LOCAL
from rushlight.core.storage import VersionCounter
from rushlight.core.tensor import Tensor, strides_of

if TYPE_CHECKING:
    from rushlight.core.protocols import Function
    from rushlight.core.state import ThreadState

__all__ = ["Level", "LevelTensor", "alive"]

CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
    "in-place operation ({name}) that would mutate a captured Tensor. This is not supported; "
    "please rewrite the function being transformed to explicitly accept the mutated Tensor(s) as "
    "inputs."
)


class LevelTensor(Tensor):
    """A tensor of the levels below, with the history that one level gives it."""

    __slots__ = ("_owner", "_value")

    _value: Any
    _owner: Any

    __torch_function__ = dispatch.DISABLED  # type: ignore[assignment]

    @property
    def is_leaf(self) -> bool:
        return Tensor.is_leaf.fget(self)  # type: ignore[attr-defined, no-any-return]

    def _alias(self, share_counter: bool = True) -> Any:
        """The same value without history."""
        made = self._owner.lift(self._value)
        if share_counter:
            if self._counter is None:
                self._counter = VersionCounter()
            made._counter = self._counter
        return made

    def _shadow(self) -> Any:
        return self._alias()

    def data_ptr(self) -> int:
        return int(self._value.data_ptr())

    def _host_array(self) -> Any:
        return self._value._host_array()

    def item(self) -> Any:
        return self._value.item()

    def tolist(self) -> Any:
        return self._value.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        return self._value.numpy(force=force)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __index__(self) -> int:
        return int(self._value.__index__())

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        inner = "\n".join("    " + line for line in repr(self._value).splitlines())
        return f"GradTrackingTensor(lvl={self._owner.level}, value=\n{inner}\n)"


def alive(value: Any) -> Any:
    """A tensor without the wrappers of levels that have ended."""
    while type(value) is LevelTensor and not value._owner.is_open:
        value = value._value
    return value


def has_dead(op: OpOverload, args: tuple[Any, ...]) -> bool:
    for position in op.tensor_positions:
        value = args[position]
        if type(value) is LevelTensor and not value._owner.is_open:
            return True
    for position in op.list_positions:
        for value in args[position] or ():
            if type(value) is LevelTensor and not value._owner.is_open:
                return True
    return False


def revived(op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    found = list(args)
    for position in op.tensor_positions:
        found[position] = alive(args[position])
    for position in op.list_positions:
        if args[position]:
            found[position] = [alive(value) for value in args[position]]
    return tuple(found)


class Level:
    """What `grad` and `jvp` levels have in common."""

    plain = False
    hop_rule = "autograd"
    # Where tangents of this level's tensors are kept, if it pushes any.
    duals: Any = None

    def __init__(self) -> None:
        state = LOCAL.state
        self.under = state.transforms
        self.level = len(self.under) + 1
        # Grad mode below: off where it was when the level began, or is now.
        self.grad_below = state.grad
        self.is_open = False

    # -- the stack --------------------------------------------------------------------------------

    def __enter__(self) -> Any:
        state = LOCAL.state
        self.before = (state.transforms, state.grad, state.owner, state.forward_enabled)
        state.owner = None
        self.enter(state)
        self.is_open = True
        state.ascend((*state.transforms, self))
        return self

    def enter(self, state: ThreadState) -> None:
        """More of the thread's state to set while the level is on the stack."""

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        state = LOCAL.state
        before, state.grad, state.owner, state.forward_enabled = self.before
        state.ascend(before)
        self.is_open = False

    def run(self, function: Function, *args: Any) -> Any:
        """Call a function of tensors below this level."""
        state = LOCAL.state
        is_there = state.transforms is self.under and state.owner is None
        if is_there and (self.grad_below or not state.grad):
            return function(*args)
        before, grad, owner = state.transforms, state.grad, state.owner
        try:
            state.owner = None
            state.grad = grad and self.grad_below
            state.descend(self.under)
            return function(*args)
        finally:
            state.grad, state.owner = grad, owner
            state.ascend(before)

    def below(self, op: OpOverload, args: Any) -> Any:
        """`run` of one op."""
        state = LOCAL.state
        before, grad, owner = state.transforms, state.grad, state.owner
        under = self.under
        try:
            state.owner = None
            state.grad = grad and self.grad_below
            state.transforms = under
            if under:
                return under[-1].process(op, tuple(args))
            state.layers = state.others
            if not state.counted:
                state.refresh()
            return op.direct(*args)
        finally:
            # `ascend`, written out.
            state.transforms, state.grad, state.owner = before, grad, owner
            state.layers = True
            if not (before and state.counted):
                state.refresh()

    # -- lifting ----------------------------------------------------------------------------------

    def lift(self, value: Tensor) -> Any:
        made: Any = new_level_tensor()
        made._array = None
        made._dtype = value._dtype
        made._requires_grad = False
        made._node = None
        made._output_nr = 0
        made._counter = None
        made._storage = None
        made._view = None
        made._autograd = None
        made._owner = self
        made._value = value
        # `show` of the commonest cases, written out.
        unusual = value._unusual
        if unusual is None:
            made._array = value._array
        elif unusual.sizes is None or unusual.inference:
            show(made, value)
            return made
        made._unusual = unusual
        made._offset = value._offset
        made._is_contiguous = value._is_contiguous
        return made

    def is_own(self, value: object) -> bool:
        return type(value) is LevelTensor and value._owner is self

    def lower(self, value: Any) -> Any:
        return value._value if type(value) is LevelTensor and value._owner is self else value

    def captured(self, value: Tensor) -> Any:
        """A tensor of the levels below, as an operand of this one. Writes to it stay visible."""
        value = alive(value)
        if type(value) is LevelTensor and value._owner is self:
            return value
        made = self.lift(value)
        if value._counter is None:
            value._counter = VersionCounter()
        made._counter = value._counter
        return made

    def lifted(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """The arguments with all tensors at this level; None if none of them is."""
        own = others = False
        for position in op.tensor_positions:
            value = args[position]
            if type(value) is LevelTensor and value._owner is self:
                own = True
            elif value is not None:
                others = True
        for position in op.list_positions:
            others = True
            for value in args[position] or ():
                if type(value) is LevelTensor and value._owner is self:
                    own = True
        if not own:
            return None
        if not others:
            return args
        found = list(args)
        for position in op.tensor_positions:
            value = args[position]
            if isinstance(value, Tensor) and not (
                type(value) is LevelTensor and value._owner is self
            ):
                found[position] = self.captured(value)
        for position in op.list_positions:
            if args[position]:
                found[position] = [
                    self.captured(value) if isinstance(value, Tensor) else value
                    for value in args[position]
                ]
        if op.mutated_positions and not op.out_positions:
            self.check_written(op, args)
        return tuple(found)

    def check_written(self, op: OpOverload, args: tuple[Any, ...]) -> None:
        """Refuse writes to tensors of the levels below."""
        for position in op.mutated_positions:
            given = args[position]
            for value in given if isinstance(given, (list, tuple)) else (given,):
                if isinstance(value, Tensor) and not self.is_own(value):
                    raise RuntimeError(CAPTURED.format(name=op.name()))

    def lifted_result(self, result: Any, known: dict[int, Any]) -> Any:
        if isinstance(result, Tensor):
            found = known.get(id(result))
            return self.lift(result) if found is None else found
        if isinstance(result, (list, tuple)):
            items = [self.lifted_result(item, known) for item in result]
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        return result

    # -- calls ------------------------------------------------------------------------------------

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None and not (op.autograd_only and LOCAL.state.excluded & LAYER_AUTOGRAD):
            return dispatch.run_body(op, args)
        own = self.lifted(op, args)
        if own is None:
            if op.mutated_positions == (0,) and len(op._schema.returns) == 1:
                raise RuntimeError(CAPTURED.format(name=op.name()))
            result = self.below(op, revived(op, args))
            if op.mutated_positions or (op.is_view_op and op.base_name != "lift_fresh"):
                return result
            return self.lifted_result(result, operand_ids(op, args, args))
        return self.record(op, own)

    def record(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        raise NotImplementedError

    def backend(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """An op on tensors of this level, run on their values."""
        values = list(args)
        for position in op.tensor_positions:
            tensor = args[position]
            if type(tensor) is LevelTensor and tensor._owner is self:
                values[position] = tensor._value
        for position in op.list_positions:
            if args[position]:
                values[position] = [self.lower(item) for item in args[position]]
        result = self.below(op, values)
        for position in op.mutated_positions:
            given = args[position]
            for tensor in given if isinstance(given, (list, tuple)) else (given,):
                if type(tensor) is LevelTensor:
                    show(tensor, tensor._value)
        if isinstance(result, Tensor) and not op.list_positions:
            for position in op.tensor_positions:
                if values[position] is result:
                    return args[position]
            return self.lift(result)
        return self.lifted_result(result, operand_ids(op, args, values))


def operand_ids(op: OpOverload, args: tuple[Any, ...], values: Any) -> dict[int, Any]:
    """Operands by the identity of their values."""
    found = {id(values[position]): args[position] for position in op.tensor_positions}
    for position in op.list_positions:
        pairs = zip(values[position] or (), args[position] or (), strict=True)
        found.update({id(value): given for value, given in pairs})
    return found


def show(tensor: Tensor, value: Tensor) -> None:
    """Take over the geometry of a value."""
    own = value._unusual
    if own is None:
        tensor._unusual = None
        tensor._array = value._array
        tensor._offset = value._offset
        tensor._is_contiguous = value._is_contiguous
        return
    if own.sizes is not None and not own.inference:
        unusual = own
    else:
        unusual = own.copy()
        unusual.inference = False
        if unusual.sizes is None:
            unusual.sizes, unusual.strides = value._array.shape, strides_of(value)
    tensor._unusual = unusual
    tensor._offset = value._offset
    tensor._is_contiguous = value._is_contiguous


# A partial is called with less ado than `object.__new__` with an argument.
new_level_tensor = partial(object.__new__, LevelTensor)
dispatch.QUIET.add(LevelTensor)
ports.fill(alive=alive, level_tensor=LevelTensor, has_dead=has_dead, revived=revived)
