"""Batching: tensors with a hidden batch axis, and the transform level that understands them.

A `BatchedTensor` shows the shape of one sample and carries all samples in `value`, along `axis`.
While a level is active every call passes `VmapLevel.process` first: composites decompose, an op
without batched operands passes by, and for the others the op's batch rule runs on the values
below this level. Rules: "elementwise" (align ranks), a function given by the op, or a loop over
the samples, which is right for every op and quick for none.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dispatch
from rushlight.core.op import OpOverload, Refused
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Ext, Tensor, wrap

__all__ = ["BatchedTensor", "VmapLevel", "batched", "unbatched"]


class BatchedTensor(Tensor):
    """A tensor whose values vary along a batch axis that user code does not see."""

    # No slots of its own: instances are made by giving a shell this class.
    __slots__ = ()

    _value: Any
    _axis: int
    _level: int

    __torch_function__ = dispatch.DISABLED  # type: ignore[assignment]

    @property
    def requires_grad(self) -> bool:
        return bool(self._value.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        raise RuntimeError(
            "You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed by a "
            "functorch transform. This is unsupported, please attempt to use the functorch "
            "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
            "of a function being transformed instead."
        )

    @property
    def is_leaf(self) -> bool:
        return bool(self._value.is_leaf)

    @property
    def grad_fn(self) -> Any:
        return self._value.grad_fn

    def item(self) -> Any:
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over "
            "calling .item() on a Tensor, please try to rewrite what you're doing with other "
            "operations. If error is occurring somewhere inside PyTorch internals, please file a "
            "bug report."
        )

    def __bool__(self) -> bool:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
            "flow. We don't support that yet, please shout over at "
            "https://github.com/pytorch/functorch/issues/257 ."
        )

    def __repr__(self, **options: Any) -> str:
        inner = "\n".join("    " + line for line in repr(self._value).splitlines())
        return f"BatchedTensor(lvl={self._level}, bdim={self._axis}, value=\n{inner}\n)"


def batched(value: Any, axis: int, level: int) -> Any:
    """Hide `axis` of a tensor."""
    result: Any = wrap(None, value._dtype)
    result.__class__ = BatchedTensor
    ext = result._ext = Ext(value.device)
    sizes, strides = tuple(value.shape), tuple(value.stride())
    ext.sizes = sizes[:axis] + sizes[axis + 1 :]
    ext.strides = strides[:axis] + strides[axis + 1 :]
    result._contig = False
    result._value = value
    result._axis = axis
    result._level = level
    result._requires_grad = value._requires_grad
    return result


def is_batched(value: Any, level: int) -> bool:
    return isinstance(value, BatchedTensor) and value._level == level


def unbatched(value: Any, level: int, size: int, out_dim: int) -> Any:
    """The plain tensor behind a result, its batch axis at `out_dim`."""
    if is_batched(value, level):
        return value._value.movedim(value._axis, out_dim)
    expanded = value.unsqueeze(0).expand(size, *value.shape)
    return expanded.movedim(0, out_dim) if out_dim else expanded


class VmapLevel:
    """One active vmap."""

    __slots__ = ("level", "randomness", "size")

    def __init__(self, level: int, size: int, randomness: str = "error") -> None:
        self.level = level
        self.size = size
        self.randomness = randomness

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        if op.body is not None and op.rules.get("batch") is None:
            return dispatch.run_body(op, args)
        operands = self.operands(args)
        if "nondeterministic_seeded" in op.tags and self.randomness != "same":
            return self.random(op, args, operands)
        if not operands:
            return self.below(op, args)
        rule = op.rule("batch")
        if isinstance(rule, Refused):
            raise RuntimeError(f"vmap: {op.name()} cannot be batched: {rule.reason}")
        if callable(rule):
            return rule(self, *args)
        if rule == "elementwise" and not op.mutated_positions:
            return self.elementwise(op, args)
        return self.loop(op, args)

    def operands(self, args: tuple[Any, ...]) -> list[Any]:
        found = []
        for value in args:
            if isinstance(value, (list, tuple)):
                found += [item for item in value if is_batched(item, self.level)]
            elif is_batched(value, self.level):
                found.append(value)
        return found

    def below(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Run an op under this level."""
        state = LOCAL.state
        before = state.transforms
        state.transforms = before[: before.index(self)]
        state.refresh()
        try:
            return dispatch.call(op, args)
        finally:
            state.transforms = before
            state.refresh()

    def run(self, function: Any, *args: Any) -> Any:
        """Run any function of tensors under this level."""
        state = LOCAL.state
        before = state.transforms
        state.transforms = before[: before.index(self)]
        state.refresh()
        try:
            return function(*args)
        finally:
            state.transforms = before
            state.refresh()

    def front(self, value: Any, rank: int | None = None) -> Any:
        """A batched operand's values with the batch axis first, padded to a logical rank."""
        if not is_batched(value, self.level):
            return value

        def move() -> Any:
            moved = value._value.movedim(value._axis, 0) if value._axis else value._value
            missing = 0 if rank is None else rank - (moved.dim() - 1)
            if missing > 0:
                shape = tuple(moved.shape)
                moved = moved.reshape((shape[0],) + (1,) * missing + shape[1:])
            return moved

        return self.run(move)

    def wrap(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return batched(value, 0, self.level)
        if isinstance(value, (list, tuple)):
            return type(value)([self.wrap(item) for item in value])
        return value

    def elementwise(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        ranks = [value.dim() for value in args if isinstance(value, Tensor)]
        rank = max(ranks, default=0)
        moved = tuple([self.front(value, rank) for value in args])
        return self.wrap(self.below(op, moved))

    def loop(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Every sample by itself, results stacked; in-place ops write through the samples."""

        def sample(value: Any, index: int) -> Any:
            if is_batched(value, self.level):
                return value._value.select(value._axis, index)
            if isinstance(value, list):
                return [sample(item, index) for item in value]
            return value

        def every() -> Any:
            results = [
                dispatch.call(op, tuple([sample(value, index) for value in args]))
                for index in range(self.size)
            ]
            if op.mutated_positions:
                return args[op.mutated_positions[0]]
            return stack_results(results)

        if op.mutated_positions and not is_batched(args[op.mutated_positions[0]], self.level):
            raise RuntimeError(
                f"vmap: {op.name()}(self, *extra_args) is not possible because there exists a "
                "Tensor `other` in extra_args that has more elements than `self`. This happened "
                "due to `other` being vmapped over but `self` not being vmapped over in a vmap."
            )
        results = self.run(every)
        return results if op.mutated_positions else self.wrap(results)

    def random(self, op: OpOverload, args: tuple[Any, ...], operands: list[Any]) -> Any:
        if self.randomness == "error":
            raise RuntimeError(
                f"vmap: called random operation {op.base_name} while in randomness error mode. "
                "Please either use the 'same' or 'different' randomness flags on vmap or perform "
                "the randomness operation out of vmap"
            )
        return self.loop(op, args)


def stack_results(results: list[Any]) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        from rushlight.core.op import find_packet

        return find_packet("aten", "stack")(results)
    if isinstance(first, (list, tuple)):
        columns = [stack_results(list(column)) for column in zip(*results, strict=True)]
        return columns if isinstance(first, list) else tuple(columns)
    return first
