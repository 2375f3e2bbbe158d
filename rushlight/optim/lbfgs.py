"""LBFGS: quasi-Newton steps from a limited history, with a line search if wanted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.opset import functions
from rushlight.optim.optimizer import Optimizer, check_options
from rushlight.optim.rule import number, real_view

__all__ = ["LBFGS"]

CURVATURE_FLOOR = 1e-10
DECREASE, CURVATURE = 1e-4, 0.9


class Trial:
    """A point on the search line: how far, the loss there, its gradient and slope."""

    __slots__ = ("grad", "loss", "place", "slope")

    def __init__(self, place: Any, loss: float, grad: Any, slope: float) -> None:
        self.place = place
        self.loss = loss
        self.grad = grad
        self.slope = slope


def cubic_minimum(first: Trial, second: Trial, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two trials is least, within the bounds; their middle if nowhere."""
    left, right = (first, second) if first.place <= second.place else (second, first)
    low, high = (left.place, right.place) if bounds is None else bounds
    chord = (first.loss - second.loss) / (first.place - second.place)
    shift = first.slope + second.slope - 3 * chord
    square = shift**2 - first.slope * second.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = math.sqrt(square)
    numerator, denominator = right.slope + root - shift, right.slope - left.slope + 2 * root
    if denominator == 0:
        return math.nan if numerator == 0 else low
    found = right.place - (right.place - left.place) * (numerator / denominator)
    return min(max(found, low), high)


def strong_wolfe(
    evaluate: Callable[[Any], Trial], start: Trial, place: Any, reach: float,
    tolerance: float = 1e-9, limit: int = 25,
) -> tuple[Trial, int]:  # fmt: skip
    """A trial with sufficient decrease and a flat slope, and how many were evaluated.

    `reach` is the largest entry of the direction.
    """
    steepness = -CURVATURE * start.slope

    def is_too_high(trial: Trial) -> bool:
        return trial.loss > start.loss + DECREASE * trial.place * start.slope

    before, trial = start, evaluate(place)
    count, tries = 1, 0
    bracket: list[Trial] = []
    while tries < limit:
        if is_too_high(trial) or (tries > 1 and trial.loss >= before.loss):
            bracket = [before, trial]
            break
        if abs(trial.slope) <= steepness:
            return trial, count
        if trial.slope >= 0:
            bracket = [before, trial]
            break
        bounds = (trial.place + 0.01 * (trial.place - before.place), trial.place * 10)
        before, trial = trial, evaluate(cubic_minimum(before, trial, bounds))
        count += 1
        tries += 1
    if tries == limit:
        bracket = [start, trial]
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    slow = False
    while tries < limit:
        ends = sorted(float(end.place) for end in bracket)
        if (ends[1] - ends[0]) * reach < tolerance:
            break
        place = cubic_minimum(*bracket)
        # Trials that stay close to an end are moved a tenth of the bracket away from it.
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - place, place - ends[0]) < margin:
            if slow or place >= ends[1] or place <= ends[0]:
                at_right = abs(place - ends[1]) < abs(place - ends[0])
                place = ends[1] - margin if at_right else ends[0] + margin
                slow = False
            else:
                slow = True
        else:
            slow = False
        trial = evaluate(place)
        count += 1
        tries += 1
        if is_too_high(trial) or trial.loss >= bracket[low].loss:
            bracket[high] = trial
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = abs(trial.slope) <= steepness
        if not done and trial.slope * (bracket[high].place - bracket[low].place) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = trial
        if done:
            break
    return bracket[low], count


class LBFGS(Optimizer):
    """Limited-memory BFGS. `step` takes a closure and evaluates it several times."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options(lr=lr)
        options = dict(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        super().__init__(params, options)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def flat_gradient(self) -> Any:
        parts = []
        for value in self.param_groups[0]["params"]:
            grad = value.grad
            if grad is None:
                grad = functions.zeros_like(value)
            elif grad.is_sparse:
                grad = grad.to_dense()
            parts.append(real_view(grad).reshape(-1))
        return functions.cat(parts, 0)

    def move(self, distance: Any, direction: Any) -> None:
        begin = 0
        for value in self.param_groups[0]["params"]:
            value = real_view(value)
            end = begin + value.numel()
            value.add_(direction[begin:end].view_as(value), alpha=float(distance))
            begin = end

    def direction(self, grad: Any, state: dict[str, Any]) -> Any:
        """Where to go: the gradient times an approximation of the inverse Hessian."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        changes, moves, weights = state["old_dirs"], state["old_stps"], state["ro"]
        size = self.param_groups[0]["history_size"]
        change = grad.sub(state["prev_flat_grad"])
        moved = state["d"].mul(state["t"])
        product = change.dot(moved)
        if product > CURVATURE_FLOOR:
            if len(changes) == size:
                for history in (changes, moves, weights):
                    history.pop(0)
            changes.append(change)
            moves.append(moved)
            weights.append(1.0 / product)
            state["H_diag"] = product / change.dot(change)
        factors = state.setdefault("al", [None] * size)
        result = grad.neg()
        for place in reversed(range(len(changes))):
            factors[place] = moves[place].dot(result) * weights[place]
            result.add_(changes[place], alpha=-factors[place].item())
        result = result * state["H_diag"]
        for place in range(len(changes)):
            back = changes[place].dot(result) * weights[place]
            result.add_(moves[place], alpha=(factors[place] - back).item())
        return result

    def search(self, closure: Any, start: Trial, direction: Any, limit: int) -> tuple[Trial, int]:
        """A line search from where the parameters are, which they come back to."""
        values = self.param_groups[0]["params"]
        before = [value.clone() for value in values]

        def evaluate(distance: Any) -> Trial:
            self.move(distance, direction)
            loss, grad = float(closure()), self.flat_gradient()
            for value, kept in zip(values, before, strict=True):
                value.copy_(kept)
            return Trial(distance, loss, grad, grad.dot(direction).item())

        reach = direction.abs().max().item()
        first, start.place = start.place, 0
        return strong_wolfe(evaluate, start, first, reach, limit=limit)

    @no_grad()
    def step(self, closure: Any) -> Any:  # type: ignore[override]
        closure = enable_grad()(closure)
        group = self.param_groups[0]
        lr, search = number(group["lr"]), group["line_search_fn"]
        change, flat_enough = group["tolerance_change"], group["tolerance_grad"]
        # The state is that of all parameters together, kept with the first one.
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = closure()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        grad = self.flat_gradient()
        if grad.abs().max().item() <= flat_enough:
            return first_loss
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self.direction(grad, state)
            previous, state["prev_loss"] = loss, loss
            state["prev_flat_grad"] = grad.clone()
            distance: Any = lr
            if state["n_iter"] == 1:
                distance = min(1.0, (1.0 / grad.abs().sum()).item()) * lr
            state["d"], state["t"] = direction, distance
            slope = grad.dot(direction).item()
            if slope > -change:
                break
            count = 0
            if search is not None:
                if search != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = Trial(distance, loss, grad, slope)
                found, count = self.search(
                    closure, start, direction, group["max_eval"] - evaluations
                )
                loss, grad, distance = found.loss, found.grad, found.place
                state["t"] = distance
                self.move(distance, direction)
            else:
                self.move(distance, direction)
                if iteration != group["max_iter"]:
                    loss, grad, count = float(closure()), self.flat_gradient(), 1
            evaluations += count
            state["func_evals"] += count
            if (
                evaluations >= group["max_eval"]
                or grad.abs().max().item() <= flat_enough
                or direction.mul(distance).abs().max().item() <= change
                or abs(loss - previous) < change
            ):
                break
        return first_loss
