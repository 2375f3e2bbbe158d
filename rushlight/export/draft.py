"""`draft_export`: a program although something is in its way, and a report of what that was.

The module runs once as it is. What it read from values answers the questions that tracing cannot
decide, and what custom ops without a fake kernel returned stands for the kernel; dims that do not
hold are let go. The program asserts the answers that it relies on.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from rushlight.base import pytree
from rushlight.capture.exc import UserError
from rushlight.core.fake import FakeTensorMode
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.op import OpOverload, Tag
from rushlight.core.rng import default_generator
from rushlight.core.tensor import Tensor
from rushlight.export.dimensions import Dim, DimHint
from rushlight.export.driver import ExportRun, check_paths
from rushlight.export.inputs import collect_inputs
from rushlight.export.program import ExportedProgram
from rushlight.export.shapes import unwrapped
from rushlight.nn.module import Module
from rushlight.opset.custom import kernels_of
from rushlight.symbolic import expressions as ex
from rushlight.symbolic.errors import GuardOnDataDependentSymNode
from rushlight.symbolic.guards import user_stack
from rushlight.symbolic.shapeenv import ShapeEnv

__all__ = ["DraftExportReport", "FailureReport", "FailureType", "draft_export"]


class FailureType(IntEnum):
    """What was in the way."""

    MISSING_FAKE_KERNEL = 1
    DATA_DEPENDENT_ERROR = 2
    GUARD_ADDED = 3
    MISMATCHED_FAKE_KERNEL = 4


@dataclass
class FailureReport:
    """One thing that was in the way, and its particulars."""

    failure_type: FailureType
    data: dict[str, Any]
    xfail: bool = False

    def __str__(self) -> str:
        text = ", ".join([f"{name}: {value}" for name, value in self.data.items()])
        return f"{self.failure_type.name}: {text}"


@dataclass
class DraftExportReport:
    """What was in the way of a program."""

    failures: list[FailureReport] = field(default_factory=list)

    def successful(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.successful():
            return "Nothing was in the way: torch.export.export() makes the same program."
        lines = [f"{number}. {entry}" for number, entry in enumerate(self.failures, 1)]
        return "\n".join(["What was in the way of the program:", *lines])

    def add(self, failure_type: FailureType, **data: Any) -> None:
        """Note a failure, once for each place: modules are traced twice."""
        entry = FailureReport(failure_type, data)
        place = data.get("stack", data)
        known = [e.data.get("stack", e.data) for e in self.failures]
        if place not in known:
            self.failures.append(entry)


class Watching(TorchDispatchMode):
    """Notes what a run reads from values, in order, and what custom ops return."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[Any] = []
        # Results of custom ops, call by call.
        self.results: dict[OpOverload, list[Any]] = defaultdict(list)
        # Those of them whose fake kernel is wrong, and in what; or that have none.
        self.wrong: dict[OpOverload, str] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(func, OpOverload):
            return result
        if func.base_name == "_local_scalar_dense":
            self.numbers.append(result)
        elif func.base_name == "index":
            masks = [m for m in args[1] if isinstance(m, Tensor) and m.dtype.name == "bool"]
            self.numbers += [int(mask.sum()) for mask in masks]
        elif Tag.dynamic_output_shape in func.tags:
            first = result[0] if isinstance(result, (tuple, list)) else result
            self.numbers.append(int(first.shape[0]))
        elif func.namespace not in ("aten", "prims") and func.composite_body() is None:
            self.results[func].append(result)
            if not self.wrong.get(func):
                has_one = has_fake(func)
                reason = difference(func, args, kwargs or {}, result) if has_one else ""
                if reason or not has_one:
                    self.wrong[func] = reason
        return result


def has_fake(op: OpOverload) -> bool:
    return op.rules.get("shape") is not None or "Meta" in kernels_of(op)


def difference(op: OpOverload, args: Any, kwargs: Any, result: Any) -> str:
    """What the fake kernel of an op says otherwise than its kernel; nothing where they agree, or
    where the fake one makes symbols, or refuses."""
    with FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()) as mode:

        def fake_of(tensor: Tensor) -> Any:
            return mode.from_tensor(tensor, static_shapes=True)

        given = pytree.tree_map_only(Tensor, fake_of, (args, kwargs))
        try:
            found = op(*given[0], **given[1])
        except (RuntimeError, NotImplementedError):
            return ""
    for fake, real in zip(tensors_in(found), tensors_in(result)):
        for what in ("shape", "dtype", "stride()"):
            one, other = [facts_of(tensor, what) for tensor in (fake, real)]
            is_known = what == "dtype" or all([type(size) is int for size in one])
            if is_known and one != other:
                return f"{what}: the fake kernel gives {one}, the real one {other}"
    return ""


def facts_of(tensor: Tensor, what: str) -> Any:
    if what == "dtype":
        return tensor.dtype
    return tuple(tensor.shape if what == "shape" else tensor.stride())


def tensors_in(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


class DraftEnv(ShapeEnv):
    """Answers questions about data by what a run of the module read."""

    def __init__(self, numbers: list[Any], report: DraftExportReport) -> None:
        super().__init__(duck_shape=False, assume_static_by_default=True)
        self.numbers = numbers
        self.report = report
        self.read: dict[Any, Any] = {}
        self.next = 0

    def create_unbacked(self, *args: Any, **options: Any) -> Any:
        symbol = super().create_unbacked(*args, **options)
        if self.numbers:
            # The module is traced twice: each time in the same order.
            self.read[symbol] = self.numbers[self.next % len(self.numbers)]
            self.next += 1
        return symbol

    def evaluate_expr(self, expr: Any, *args: Any, **options: Any) -> Any:
        try:
            return super().evaluate_expr(expr, *args, **options)
        except GuardOnDataDependentSymNode:
            replaced = self.replace(expr)
            known = {**self.var_to_val, **self.read}
            if not replaced.free_symbols <= known.keys():
                raise
            value = ex.evaluate(replaced, known)
            place = user_stack()
            self.report.add(
                FailureType.DATA_DEPENDENT_ERROR,
                expr=str(expr),
                result=str(value),
                stack=place[0] if place else None,
            )
            self.assume(replaced, value)
            return value

    def assume(self, expr: Any, value: Any) -> None:
        """The program holds for this answer alone, and says so when it runs."""
        if ex.is_boolean(expr):
            condition = expr if value else ex.negate(expr)
        else:
            condition = ex.relation(ex.Eq, expr, ex.constant(value))
        self.guard_or_defer_runtime_assert(condition)


def draft_export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """As `export`, of a module that `export` refuses. The program's `_report` says what was in the
    way; the program holds for arguments that give the same answers.

    >>> import rushlight as torch
    >>> class Branching(torch.nn.Module):
    ...     def forward(self, x, n):
    ...         return x + 1 if n.item() > 3 else x
    >>> program = torch.export.draft_export(Branching(), (torch.ones(2), torch.tensor(4)))
    >>> program._report.failures[0].data["expr"], program._report.successful()
    ('u0 > 3', False)
    >>> program.module()(torch.ones(2), torch.tensor(5))
    tensor([2., 2.])
    """
    args, kwargs, dynamic_shapes = unwrapped(mod, args, kwargs, dynamic_shapes)
    inputs = collect_inputs(mod, args, kwargs)
    check_paths(mod, preserve_module_call_signature)
    report = DraftExportReport()
    watching = watch(mod, inputs.args, inputs.kwargs)
    with standing_in(watching, report):
        try:
            program = attempt(mod, inputs, strict, dynamic_shapes, watching, report)
        except UserError as error:
            report.add(FailureType.GUARD_ADDED, reason=str(error))
            loose = pytree.tree_map(let_go, dynamic_shapes, is_leaf=is_dim)
            program = attempt(mod, inputs, strict, loose, watching, report)
    program._report = report  # type: ignore[attr-defined]
    return program


def attempt(
    mod: Module,
    inputs: Any,
    strict: bool,
    dynamic_shapes: Any,
    watching: Watching,
    report: DraftExportReport,
) -> ExportedProgram:
    run = ExportRun(mod, inputs, strict, pre_dispatch=True, functional=True)
    run.mode.shape_env = DraftEnv(watching.numbers, report)
    return run.program(dynamic_shapes, (), defer_guards=True, allow_constants=True)


def is_dim(value: Any) -> bool:
    return isinstance(value, (Dim, DimHint))


def let_go(value: Any) -> Any:
    return Dim.AUTO if isinstance(value, Dim) else value


def watch(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Watching:
    """What a run of a copy of the module reads; nothing else changes."""
    random_state = default_generator.snapshot()
    given, named, twin = copy.deepcopy((args, kwargs, mod))
    watching = Watching()
    try:
        with watching:
            twin(*given, **named)
    finally:
        default_generator.restore(random_state)
    return watching


class standing_in:
    """Inside, custom ops without a fake kernel, or with a wrong one, have one that gives what they
    gave."""

    def __init__(self, watching: Watching, report: DraftExportReport) -> None:
        self.watching = watching
        self.report = report
        self.libraries: list[Any] = []

    def __enter__(self) -> None:
        from rushlight.library import Library, register_fake

        for op, reason in self.watching.wrong.items():
            if reason:
                self.report.add(FailureType.MISMATCHED_FAKE_KERNEL, op=str(op), reason=reason)
            else:
                self.report.add(FailureType.MISSING_FAKE_KERNEL, op=str(op))
            library = Library(op.namespace, "FRAGMENT")
            self.libraries.append(library)
            fake = replay(self.watching.results[op])
            register_fake(op.name(), fake, lib=library)

    def __exit__(self, *details: object) -> None:
        for library in self.libraries:
            library._destroy()


def replay(results: list[Any]) -> Any:
    """A fake kernel: tensors of the sizes that calls gave, one call after another."""
    place = [0]

    def fake(*args: Any, **kwargs: Any) -> Any:
        found = results[place[0] % len(results)]
        place[0] += 1
        return pytree.tree_map_only(Tensor, like, found)

    return fake


def like(tensor: Any) -> Any:
    from rushlight.opset.functions import empty_strided

    return empty_strided(
        tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
