"""`flex_attention`: attention whose scores and mask are functions of positions.

The functions take scalars: a score, and the numbers of batch, head, query and key. They are run for
all of these at once, and graphs keep them as graphs. The gradient is that of the attention written
out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.dtype import float32, float64, int64
from rushlight.core.hop import asks_gradient
from rushlight.core.modes import TorchFunctionMode
from rushlight.core.op import find_overload
from rushlight.core.recording import Recorder
from rushlight.core.tensor import Tensor
from rushlight.func.derivatives import vjp
from rushlight.func.vmap import vmap
from rushlight.higher_order.structured import Call, ControlFlowOp, Operands, vectorized
from rushlight.higher_order.subgraphs import is_traced, trace_functions
from rushlight.opset import functions

__all__ = ["flex_attention", "over_positions"]

Body = Callable[..., Any]
LN2 = math.log(2.0)
index_op = find_overload("aten", "index", "Tensor")


class IndexByTensors(TorchFunctionMode):
    """`table[h, i]` with scalar tensors looks up values; elsewhere their numbers would be read."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if all([isinstance(value, Tensor) for value in index]):
                return index_op(args[0], list(index))
        return func(*args, **(kwargs or {}))


def over_positions(function: Body, has_score: bool, extra: int = 0) -> Body:
    """A function of scalars (score, batch, head, query, key, *extra) on whole tensors of scores and
    vectors of numbers."""
    first = (0,) if has_score else ()
    for place in (3, 2, 1, 0):
        numbers = tuple(0 if position == place else None for position in range(4))
        function = vmap(function, in_dims=first + numbers + (None,) * extra, out_dims=0)
    return vectorized(with_lookups(function))


def with_lookups(function: Body) -> Body:
    def run(*args: Any) -> Any:
        with IndexByTensors():
            return function(*args)

    return run


def written_out(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Body,
    mask_mod: Body,
    scale: float,
    score_extra: Operands,
    mask_extra: Operands,
) -> tuple[Any, Any, Any]:
    """The attention by plain ops: results; logarithms of sums and largest scores, to base 2."""
    groups = query.shape[1] // key.shape[1]
    if groups != 1:
        key, value = [functions.repeat_interleave(v, groups, dim=1) for v in (key, value)]
    if query.shape[0] != key.shape[0]:
        key, value = [v.expand(query.shape[0], *v.shape[1:]) for v in (key, value)]
    precision = float64 if query.dtype is float64 else float32
    scores = (query @ key.transpose(-2, -1)).to(precision) * scale
    numbers = [functions.arange(size, device=query.device) for size in scores.shape]
    modified = over_positions(score_mod, True, len(score_extra))(scores, *numbers, *score_extra)
    mask = over_positions(mask_mod, False, len(mask_extra))(*numbers, *mask_extra)
    nothing = -math.inf
    modified = functions.where(mask, modified.to(precision), nothing)
    largest = modified.amax(-1)
    # A row without keys gives zeros, and has no gradient.
    empty = largest == nothing
    safe = functions.where(empty.unsqueeze(-1), 0.0, modified)
    weights = functions.where(empty.unsqueeze(-1), 0.0, functions.softmax(safe, -1))
    sums = functions.where(empty, nothing, functions.logsumexp(safe, -1))
    return weights.to(query.dtype) @ value, sums / LN2, largest / LN2


class FlexAttention(ControlFlowOp):
    """`flex_attention(query, key, value, score_mod, block_mask, scale, kernel_options,
    score_mod_other_buffers, mask_mod_other_buffers)`; the last of `block_mask` is the mask's
    function. Further operands of the functions come in the last two groups."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = ("score_mod_other_buffers", "mask_mod_other_buffers")
        missing = names[len(args) - 7 :] if len(args) < 9 else ()
        return super().__call__(*args, *[kwargs.get(name, ()) for name in missing])

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        query, key, value, score_mod, block_mask, scale, options, scores, masks = args
        rest = [*block_mask[:-1], scale, options]
        groups = [[query, key, value], rest, list(scores), list(masks)]
        return [score_mod, block_mask[-1]], groups

    def join(self, functions: Sequence[Any], groups: Sequence[Any]) -> tuple[Any, ...]:
        operands, (*block_mask, scale, options), scores, masks = groups
        mask = (*block_mask, functions[1])
        return (*operands, functions[0], mask, scale, options, tuple(scores), tuple(masks))

    def compute(self, *args: Any) -> Any:
        (score_mod, mask_mod), (operands, rest, scores, masks) = self.split(args)
        return written_out(*operands, score_mod, mask_mod, rest[-2], scores, masks)

    def infer(self, mode: Any, *args: Any) -> Any:
        query, _, value = args[:3]
        with mode:
            precision = float64 if query.dtype is float64 else float32
            rows = query.shape[:-1]
            result = query.new_empty((*rows, value.shape[-1]))
            return result, *[query.new_empty(rows, dtype=precision) for _ in range(2)]

    def vectorize(self, level: Any, *args: Any) -> Any:
        return self.compute(*args)

    def differentiate(self, *args: Any) -> Any:
        functions, _ = self.split(args)
        if is_traced(args) and any([closes_over_gradient(function) for function in functions]):
            # Only what is an operand has a gradient as one op.
            return self.compute(*args)
        return super().differentiate(*args)

    def pullback(
        self, call: Call, operands: Operands, results: Operands, grads: Operands, needs: Operands
    ) -> Sequence[Any]:
        places = [place for place, need in enumerate(needs) if need]

        def attend(*values: Any) -> Any:
            full = list(operands)
            for place, value in zip(places, values, strict=True):
                full[place] = value
            found = self.compute(*call.on(full))
            return tuple(v for v, grad in zip(found, grads, strict=True) if grad is not None)

        _, pull = vjp(attend, *[operands[place] for place in places])
        found = iter(pull(tuple(grad for grad in grads if grad is not None)))
        return [next(found) if need else None for need in needs]

    def record(self, recorder: Recorder, *args: Any) -> Any:
        (score_mod, mask_mod), groups = self.split(args)
        query = groups[0][0]
        with recorder.below():
            score = query.new_zeros((), dtype=float64 if query.dtype is float64 else float32)
            numbers = [query.new_zeros((), dtype=int64) for _ in range(4)]
        score_mod, mask_mod = with_lookups(score_mod), with_lookups(mask_mod)
        scores = trace_functions(recorder, [score_mod], [score, *numbers, *groups[2]])
        masks = trace_functions(recorder, [mask_mod], [*numbers, *groups[3]])
        groups[2] += scores.lifted
        groups[3] += masks.lifted
        modules = [scores.modules[0], masks.modules[0]]
        names = zip(self.graphs, modules, strict=True)
        graphs = [recorder.submodule(name, module, "") for name, module in names]
        call = recorder.node_of(self.join(graphs, groups))
        node = recorder.call_node(self, call, name=self._name)
        with recorder.below():
            result = self.dispatch(*self.join(modules, groups))
        recorder.track(result, node)
        return result


def closes_over_gradient(function: Any) -> bool:
    """Whether a Python function closes over a tensor that requires a gradient."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    inner = [value for value in cells if callable(value) and not isinstance(value, Tensor)]
    return asks_gradient(cells) or any([closes_over_gradient(value) for value in inner])


flex_attention = FlexAttention("flex_attention", ("sdpa_score", "sdpa_mask"))
