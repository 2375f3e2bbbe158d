"""A scheduled program as one Python function that calls native code.

Consecutive kernels form a segment: one native call over all its arrays. What crosses segments or
leaves the graph gets memory of its own. The function is generated as text (`compiled.source`), so
that a call does no work that is known beforehand: it checks its inputs' geometry, makes results,
calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen import native
from rushlight.codegen.extents import Atom, Extent, is_static
from rushlight.codegen.inplace import Touch
from rushlight.codegen.llvm import ModuleText
from rushlight.codegen.loops import Buffer, Kernel
from rushlight.codegen.plan import Plan, plan
from rushlight.codegen.program import LoopProgram
from rushlight.codegen.steps import Native
from rushlight.codegen.support import RUN_NAMES, Scratch, team
from rushlight.codegen.values import Call, Name, Product, number_tensor
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.op import OpOverload
from rushlight.core.process import available_cores, get_num_threads

__all__ = ["RunWriter"]


# Names of arrays and tensors in the lines that a writer writes.
WORD = re.compile(r"\b[A-Za-z_]\w*\b")
ASSIGNED = re.compile(r"([\w, ]+?),? = ")


# A function of so few lines has nothing to let go of before it ends.
SHORT = 6


def freeing(lines: list[str], inputs: list[str]) -> list[str]:
    """The lines of a function, with values let go after their last use. What the last two lines
    use goes with the function."""
    made = set(inputs)
    last: dict[str, int] = {}
    for at, line in enumerate(lines):
        assigned = ASSIGNED.match(line)
        if assigned is not None:
            made.update(assigned[1].split(", "))
        for word in WORD.findall(line):
            last[word] = at
    gone: dict[int, list[str]] = {}
    for word, at in last.items():
        if word in made and at < len(lines) - 2:
            gone.setdefault(at, []).append(word)
    return [
        part
        for at, line in enumerate(lines)
        for part in ([line, f"{' = '.join(gone[at])} = None"] if at in gone else [line])
    ]


def used_lines(lines: list[str], rest: list[str]) -> list[str]:
    """The lines that give a variable a value which something behind them uses."""
    words = set(WORD.findall("\n".join(rest)))
    kept: list[str] = []
    for line in reversed(lines):
        name, text = line.split(" = ", 1)
        if name in words:
            kept.append(line)
            words.update(WORD.findall(text))
    return kept[::-1]


class RunWriter:
    """Writes the functions that run a schedule: `run` of the inputs, `run_boxed` of a list of them,
    which it empties so that they go after their last use."""

    def __init__(self, program: LoopProgram, schedule: list[Any]) -> None:
        self.program = program
        self.scope: dict[str, Any] = dict(RUN_NAMES)
        self.entries: list[str] = []
        # Names of kernels of ops that are called as they are, and the ops' names.
        self.backends: dict[str, str] = {}
        self.native_segments: dict[str, tuple[Sequence[Kernel | Native], Plan]] = {}
        # What each entry point calls, and the memory that it takes.
        self.entry_calls: dict[str, tuple[list[Any], list[Buffer], Plan]] = {}
        # The number of threads that a call may use.
        self.threads = Buffer("threads", dtypes.int64, (1,), (1,), "constant")
        self.lines: list[str] = []
        self.arrays: set[str] = set()
        self.wrapped: set[str] = set()
        self.results = {
            value.buffer.name: value.buffer
            for value in program.tensors
            if value.buffer is not None and value.buffer.role == "result"
        }
        # Inputs that loops write: what is no memory of theirs will not do.
        self.written = {item.target for item in schedule if isinstance(item, Touch)}
        self.schedule = schedule
        self.segments = self.split(schedule)
        # What runs ops does so without recording and in the dtypes that the graph has.
        calls = [item for item in schedule if isinstance(item, Call)]
        self.runs_ops = any([not (call.views or call.op is number_tensor) for call in calls])

    @property
    def module(self) -> Any:
        if not hasattr(self, "made_module"):
            self.made_module = self.new_module()
        return self.made_module

    def new_module(self) -> ModuleText:
        return native.new_module()

    def split(self, schedule: list[Any]) -> list[Any]:
        """Runs of kernels as lists, calls between them."""
        found: list[Any] = []
        for item in schedule:
            if isinstance(item, Kernel) or (isinstance(item, Native) and self.is_chained(item)):
                if not found or not isinstance(found[-1], list):
                    found.append([])
                found[-1].append(item)
            else:
                found.append(item)
        return found

    def is_chained(self, step: Native) -> bool:
        """Whether a segment runs a step, which is prepared for that."""
        return step.prepare(self.program.fresh, max(get_num_threads(), available_cores()))

    def const(self, value: object) -> str:
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    # -- the function ------------------------------------------------------------------------------

    def source(self) -> str:
        program = self.program
        self.settle_roles()
        for name, value in program.constants.items():
            self.scope[name] = value
        for name in [*[name for name, _ in program.inputs], *program.constants]:
            buffer = program.given.get(name)
            if buffer is not None and self.is_read(buffer):
                self.check_given(buffer)
        for item in self.segments:
            if isinstance(item, list):
                self.segment(item)
            elif isinstance(item, Product):
                self.product(item)
            elif isinstance(item, Native):
                self.native_step(item)
            elif isinstance(item, Touch):
                self.lines.append(f"touched({item.target.name})")
            else:
                self.call(item)
        self.lines.append(f"return {self.expression(program.outputs)}")
        inputs = [name for name, _ in program.inputs]
        body = freeing([*used_lines(program.sizes.first, self.lines), *self.lines], inputs)
        if self.runs_ops:
            body = ["with plain_calls():", *[f"    {line}" for line in body]]
        parameters = ", ".join(inputs)
        if len(self.lines) > SHORT and inputs:
            boxed = [f"{parameters}, = given", "given.clear()", *body]
            plain = [f"return run_boxed([{parameters}])"]
        else:
            boxed, plain = ["return run(*given)"], body
        parts = [(f"run({parameters})", plain), ("run_boxed(given)", boxed)]
        return "".join(
            [
                f"def {head}:\n" + "".join([f"    {line}\n" for line in lines])
                for head, lines in parts
            ]
        )

    def settle_roles(self) -> None:
        """Temporaries that outlive their segment get memory of their own."""
        homes: dict[Buffer, set[int]] = {}
        for at, item in enumerate(self.segments):
            for part in item if isinstance(item, list) else [item]:
                for buffer in part.reads() | part.writes():
                    homes.setdefault(buffer.memory, set()).add(at)
        for buffer, places in homes.items():
            if buffer.role == "temporary" and len(places) > 1:
                buffer.role = "shared"
        self.homes = homes

    def is_read(self, buffer: Buffer | None) -> bool:
        """Whether a kernel reads it."""
        return buffer is not None and any(
            [isinstance(self.segments[at], list) for at in self.homes.get(buffer, ())]
        )

    def check_given(self, buffer: Buffer) -> None:
        """Write the lines that take a tensor's array, of exactly the geometry that is read."""
        name = buffer.name
        if name in self.arrays:
            return
        self.arrays.add(name)
        shape, strides = self.ints(buffer.shape), self.ints(buffer.strides)
        steps = self.ints(tuple([step * buffer.dtype.itemsize for step in buffer.strides]))
        dtype = self.const(buffer.dtype.np)
        place = self.const(buffer)
        self.lines.append(f"{name}_ = {name}._array")
        reader, unfit = "array_of", ""
        if buffer in self.written:
            reader, unfit = "own_array_of", f" or not {name}_.flags.writeable"
        self.lines.append(
            f"if {name}._unusual is not None or {name}_.strides != {steps} or "
            f"{name}_.shape != {shape} or {name}_.dtype is not {dtype}{unfit}: "
            f"{name}_ = {reader}({name}, {place}, {shape}, {strides})"
        )

    def ints(self, numbers: tuple[Any, ...]) -> str:
        """A tuple of sizes or strides."""
        if is_static(numbers):
            return self.const(numbers)
        return f"({''.join([f'{number}, ' for number in numbers])})"

    def make(self, buffer: Buffer) -> None:
        """Write the line that makes memory for a buffer."""
        if buffer.name in self.arrays:
            return
        self.arrays.add(buffer.name)
        dense = buffer.strides == geometry.contiguous_strides(buffer.shape)
        if dense:
            parts = f"{self.ints(buffer.shape)}, {self.const(buffer.dtype.np)}"
            is_small = is_static((buffer.nbytes,)) and buffer.nbytes < buffers.LARGE
            made = f"fresh({parts})" if is_small else f"empty({parts}, {buffer.nbytes})"
            self.lines.append(f"{buffer.name}_ = {made}")
            return
        turned = self.turned(buffer)
        if turned is not None:
            order, back = turned
            shape = self.ints(tuple([buffer.shape[dim] for dim in order]))
            parts = f"{shape}, {self.const(buffer.dtype.np)}, {buffer.nbytes}"
            self.lines.append(f"{buffer.name}_ = empty({parts}).transpose({self.const(back)})")
            return
        self.lines.append(
            f"{buffer.name} = strided({self.ints(buffer.shape)}, {self.ints(buffer.strides)}, "
            f"{self.const(buffer.dtype)}, {buffer.nbytes})"
        )
        self.lines.append(f"{buffer.name}_ = {buffer.name}._array")
        self.wrapped.add(buffer.name)

    def turned(self, buffer: Buffer) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The order of dims in which memory of known sizes is dense, and the way back from it."""
        shape, strides = buffer.shape, buffer.strides
        if not is_static((*shape, *strides)) or 0 in shape:
            return None
        order = tuple(sorted(range(len(shape)), key=lambda dim: -strides[dim]))
        dense = geometry.contiguous_strides(tuple([shape[dim] for dim in order]))
        if tuple([strides[dim] for dim in order]) != dense:
            return None
        return order, tuple([order.index(dim) for dim in range(len(shape))])

    def chained(self, step: Native) -> list[tuple[str, list[Buffer], list[Atom]]]:
        """Calls of a segment that run a step."""
        found: list[tuple[str, list[Buffer], list[Atom]]] = []
        for template, given in step.parts or ():
            name = f"k{len(self.scope)}"
            self.scope[f"{name}_"] = template
            place = Buffer(name, dtypes.int64, template.shape, (1,), "constant")
            chain = self.module.add_chain(len(given) - 1)
            found.append((chain, [*given, place, self.threads], []))
        return found

    def compiled(
        self, kernels: Sequence[Kernel | Native]
    ) -> tuple[str, list[Buffer], Plan, list[Atom]]:
        """Add an entry point that runs kernels; its name and arguments."""
        scratch = plan(kernels)
        entry = f"segment{len(self.entries)}"
        calls = []
        for kernel in kernels:
            if isinstance(kernel, Native):
                calls += self.chained(kernel)
            else:
                calls.append(self.module.add_kernel(kernel))
        outside = dict.fromkeys([b for _, given, _ in calls for b in given if b not in scratch])
        used = {atom for _, _, atoms in calls for atom in atoms}
        used.update([atom for slot in scratch.slots for atom in slot.atoms()])
        atoms = sorted(used, key=lambda atom: atom.number)
        self.module.add_entry(entry, calls, list(outside), scratch, atoms)
        self.entries.append(entry)
        self.native_segments[entry] = kernels, scratch
        self.entry_calls[entry] = calls, list(outside), scratch
        return entry, list(outside), scratch, atoms

    def segment(self, kernels: Sequence[Kernel | Native]) -> None:
        entry, outside, scratch, atoms = self.compiled(kernels)
        for buffer in outside:
            if buffer.role == "given":
                self.check_given(buffer)
            elif buffer is self.threads:
                self.lines.append(f"{buffer.name}_ = {self.const(team)}()")
            elif buffer.role != "constant":
                self.make(buffer)
        names = [f"{buffer.name}_" for buffer in outside]
        if scratch.slots:
            names.append(f"{self.const(Scratch())}({scratch.size_text()})")
        elif scratch.fixed and any([isinstance(kernel, Native) for kernel in kernels]):
            # Long kernels let go of the lock.
            shape, kind = self.const((scratch.fixed,)), self.const(np.uint8)
            self.lines.append(f"{entry}_ = empty({shape}, {kind}, {scratch.fixed})")
            names.append(f"{entry}_")
        elif scratch.fixed and buffers.REUSES:
            # Under the interpreter's lock no two calls use it at once.
            names.append(self.const(buffers.aligned_bytes(scratch.fixed)))
        elif scratch.fixed:
            names.append(f"scratch({scratch.fixed})")
        names += [atom.name for atom in atoms]
        self.lines.append(f"{entry}({', '.join(names)})")

    def product(self, product: Product) -> None:
        sides = []
        for operand, swapped, shape in (product.left, product.right):
            buffer = operand.memory
            if buffer.role == "given":
                self.check_given(buffer)
            plain = f"{buffer.name}_"
            if shape is not None:
                plain = f"{plain}.reshape({self.ints(shape)})"
            sides.append(f"{plain}.mT" if swapped else plain)
        self.make(product.target)
        function = "dot" if len(product.target.shape) == 2 else "matmul"
        self.lines.append(f"{function}({sides[0]}, {sides[1]}, {product.target.name}_)")

    def native_step(self, step: Native) -> None:
        names = []
        for buffer in (*step.given, *step.made):
            if buffer is None:
                names.append("None")
                continue
            memory = buffer.memory
            if memory.role == "given":
                self.check_given(memory)
            else:
                self.make(memory)
            names.append(f"{memory.name}_")
        function = self.const(step.function)
        self.backends[function] = f"aten::{step.name}"
        self.lines.append(f"{function}({', '.join(names)})")

    def call(self, call: Call) -> None:
        args = list(call.args)
        parts = [self.expression(value) for value in args]
        parts += [f"{name}={self.expression(value)}" for name, value in call.kwargs.items()]
        text = f"{self.callee(call)}({', '.join(parts)})"
        if call.picks is not None:
            text = f"{text}[{call.picks}]"
        if call.views:
            text = f"linked({text}, {parts[0]})"
        target = ", ".join([name or "_" for name in call.results])
        comma = "," if call.many and call.results else ""
        self.lines.append(f"{target or '_'}{comma} = {text}")
        self.lines += call.binds

    def callee(self, call: Call) -> str:
        """What a step calls: its op, or what the op is below all layers."""
        op = call.op
        if isinstance(op, OpOverload) and not call.through_dispatch:
            name = self.const(op.backend)
            self.backends[name] = op._schema.name
            return name
        return self.const(op)

    # -- values ------------------------------------------------------------------------------------

    def expression(self, value: object) -> str:
        """Python text for an argument or a result."""
        if isinstance(value, Name):
            return self.tensor(value.name)
        if type(value) in (int, bool, str, Extent) or value is None:
            return repr(value)
        if isinstance(value, tuple):
            inside = ", ".join([self.expression(item) for item in value])
            return f"({inside},)" if value else "()"
        if isinstance(value, list):
            return f"[{', '.join([self.expression(item) for item in value])}]"
        return self.const(value)

    def tensor(self, name: str) -> str:
        """The variable of a tensor, wrapped on first use where native code made its array."""
        buffer = self.results.get(name)
        if buffer is not None and name not in self.wrapped:
            self.make(buffer)
        if buffer is not None and name not in self.wrapped:
            self.wrapped.add(name)
            parts = f"{name}_, {self.const(buffer.dtype)}"
            turned = self.turned(buffer)
            if turned is None or buffer.strides == geometry.contiguous_strides(buffer.shape):
                self.lines.append(f"{name} = wrap({parts})")
            else:
                self.lines.append(f"{name} = wrap_turned({parts}, {self.const(turned[0])})")
        return name
