"""Backward programs: a graph that keeps coming back, as one function of arrays.

A training loop builds the same graph again and again. When a graph of the same ops, shapes,
strides, dtypes and plain values has been run a few times with nobody watching, it is run once more
under a mode that lists the ops its formulas call, and the list becomes a straight-line function
of arrays: the ops' own kernel texts without the tensors and the engine in between. A program is
kept only if its gradients equal the engine's bit for bit and stride for stride; a graph that
cannot be written so stays with the engine. Formulas may look at shapes, dtypes and plain values
(all part of the key), never at elements.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import MATH
from rushlight.core.gradrule import compile_source
from rushlight.core.modes import TorchDispatchMode
from rushlight.core.op import REPLACED
from rushlight.core.stubs import refuse, single_ufunc
from rushlight.core.tensor import Tensor

__all__ = ["Program", "Recorder", "write_program"]


class Program:
    """`run(grad, *saved)` answers one array per leaf (None where no gradient arrives)."""

    __slots__ = ("kinds", "matcher", "run", "same", "source")

    def __init__(
        self, run: Any, kinds: tuple[Any, ...], same: tuple[tuple[int, int], ...], source: str
    ) -> None:
        self.run = run
        # Pairs of saved tensors that shared their array when the program was written: it may
        # have taken one for the other.
        self.same = same
        # (dtype, contiguous) of each answer
        self.kinds = kinds
        self.source = source
        # Recognises the program's graph; written when it is first met again.
        self.matcher: Any = None

    def fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether what was one array when the program was written is one array again."""
        return all([arrays[a] is arrays[b] for a, b in self.same])


class Recorder(TorchDispatchMode):
    """Lists the ops that formulas call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bound = func.bind(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        self.calls.append((func, bound, result))
        return result


class Unwritable(Exception):
    """The graph calls something that has no array text."""


def write_program(
    calls: list[tuple[Any, Any, Any]], inputs: list[Any], results: list[Any]
) -> Program | None:
    """The program that takes the inputs' arrays to the results', or None."""
    try:
        program = compile_program(calls, inputs, results)
    except Unwritable:
        return None
    return program if agrees(program, [t._array for t in inputs], results) else None


def compile_program(calls: Any, inputs: list[Any], results: list[Any]) -> Program:
    writer = Writer(inputs)
    for op, args, result in calls:
        writer.add(op, args, result)
    answers = []
    kinds: list[Any] = []
    for result in results:
        if result is None:
            answers.append("None")
            kinds.append(None)
            continue
        if result._ext is not None:
            raise Unwritable
        name = writer.name_of(result)
        # A leaf keeps its answer: it must be memory of its own, once.
        copied = name in answers or name.startswith("a")
        answers.append(f"{name}.copy()" if copied else name)
        kinds.append((result._dtype, result._contig))
    lines = [f"def program({', '.join(f'a{i}' for i in range(len(inputs)))}):", *writer.lines]
    lines.append(f"    return ({', '.join(answers)},)")
    source = "\n".join(lines) + "\n"
    compile_source(source, "backward program", writer.scope)
    return Program(writer.scope["program"], tuple(kinds), shared_pairs(inputs[1:]), source)


def shared_pairs(tensors: list[Any]) -> tuple[tuple[int, int], ...]:
    first: dict[int, int] = {}
    pairs = []
    for position, tensor in enumerate(tensors):
        earlier = first.setdefault(id(tensor._array), position)
        if earlier != position:
            pairs.append((earlier, position))
    return tuple(pairs)


class Writer:
    """Turns op calls into lines of array code."""

    def __init__(self, inputs: list[Any]) -> None:
        self.names: dict[int, str] = {}
        self.alive: list[Any] = list(inputs)
        self.scope: dict[str, Any] = {"np": np, "MATH": MATH, "refuse": refuse}
        self.lines: list[str] = []
        # Names of transposed arrays and what they were transposed from.
        self.turned: dict[str, str] = {}
        self.count = 0
        for position, tensor in enumerate(inputs):
            self.give_name(tensor, f"a{position}")

    def give_name(self, tensor: Any, name: str) -> None:
        # Aliases (saved outputs, detached tensors) are known by the array they share.
        self.alive.append((tensor, tensor._array))
        self.names.setdefault(id(tensor), name)
        self.names.setdefault(id(tensor._array), name)

    def name_of(self, tensor: Any) -> str:
        found = self.names.get(id(tensor)) or self.names.get(id(tensor._array))
        if found is None:
            raise Unwritable
        return found

    def add(self, op: Any, args: Any, result: Any) -> None:
        if not isinstance(result, Tensor) or result._ext is not None:
            raise Unwritable
        if op.base_name in ("detach", "alias"):
            self.give_name(result, self.name_of(args[0]))
            return
        text = self.text(op, args)
        if text.endswith(".T"):
            source = self.turned.get(text[:-2])
            if source is not None:  # turned twice
                self.give_name(result, source)
                return
            self.turned[f"v{self.count}"] = text[:-2]
        name = f"v{self.count}"
        self.count += 1
        self.lines.append(f"    {name} = {text}")
        self.give_name(result, name)

    def number(self, value: Any, like: Any) -> Any:
        """NumPy takes a 0-d array of the right dtype with less ado than a Python number."""
        return np.array(value, like._dtype.np) if type(value) in (int, float) else value

    def constant(self, value: Any, argument: str) -> str:
        name = f"c{self.count}_{argument}"
        self.scope[name] = value
        return name

    def text(self, op: Any, args: Any) -> str:
        """One op as an expression of arrays."""
        if op.mutated_positions or op.list_positions or op.out_positions or op in REPLACED:
            raise Unwritable
        values = [
            self.name_of(value) if isinstance(value, Tensor) else self.constant(value, name)
            for name, value in zip(op.argument_names, args, strict=True)
        ]
        tensors = [args[position] for position in op.tensor_positions]
        if any(isinstance(t, Tensor) and t._ext is not None for t in tensors):
            raise Unwritable
        if op.kind.name == "POINTWISE":
            return self.elementwise(op, args, tensors, values)
        if op.base_name in ("t", "transpose") and tensors[0].dim() == 2:
            return f"{values[0]}.T"
        quick = op.options.get("quick")
        if quick is not None:
            self.scope.update(op.options.get("quick_scope", {}))
            return quick_text(quick, op.argument_names, values)
        if op.kind.direct and op.body is None and op.rule("kernel") is not None:
            kernel = self.constant(op.rule("kernel"), "kernel")
            return f"{kernel}(np, {', '.join(values)})"
        raise Unwritable

    def elementwise(self, op: Any, args: Any, tensors: list[Any], values: list[str]) -> str:
        first = tensors[0]
        uniform = all(isinstance(t, Tensor) and t._dtype is first._dtype for t in tensors)
        if not uniform or not first._dtype.scalar_fast or op.options.get("promoted_scalars"):
            numbers = all(isinstance(t, (Tensor, int, float)) for t in tensors)
            if not (numbers and first._dtype.scalar_fast and len(tensors) == 2):
                raise Unwritable
        cast = {*op.tensor_positions, *op.options.get("cast_scalars", ())}
        values = [
            self.constant(self.number(args[position], first), name)
            if position in cast and not isinstance(args[position], Tensor)
            else values[position]
            for position, name in enumerate(op.argument_names)
        ]
        count = len(tensors)
        rest = list(zip(op._schema.arguments[count:], args[count:], strict=True))
        ufunc = single_ufunc(op, count)
        if ufunc is not None and all(a.has_default and v == a.default for a, v in rest):
            return f"{self.constant(ufunc, 'ufunc')}({', '.join(values[:count])})"
        return f"{self.constant(op.rule('kernel'), 'kernel')}(MATH, {', '.join(values)})"


def quick_text(quick: str, names: list[str], values: list[str]) -> str:
    """A stub's quick expression with arrays in the place of tensors."""
    text = quick
    for name, value in zip(names, values, strict=True):
        text = re.sub(rf"\b{name}\._array\b", value, text)
        text = re.sub(rf"(?<![\w.]){name}\b(?![\w.(])", value, text)
    return text.replace("product", f"product_{values[0]}")


def agrees(program: Program, arrays: list[Any], results: list[Any]) -> bool:
    """Whether a program gives what the engine gave: bits, shapes, strides, dtypes."""
    try:
        found = program.run(*arrays)
    except Exception:
        return False
    for value, expected in zip(found, results, strict=True):
        if expected is None:
            continue
        array = np.asarray(value)
        wanted = expected._array
        if (
            array.dtype != wanted.dtype
            or array.shape != wanted.shape
            or array.strides != wanted.strides
            or array.tobytes() != wanted.tobytes()
            or any(np.may_share_memory(array, given) for given in arrays)
        ):
            return False
    return True
