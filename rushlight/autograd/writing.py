"""From the record of one backward to its program: a graph of kernel calls, then Python text.

Note [Answers]: a leaf keeps what a program answers, so no two answers may share memory, nor an
answer and anything that outlives the run. That is proved on the graph: each value has the roots it
may share memory with. A view op shares its operand's; a ufunc, or a kernel prepared for its
operands, gives memory of its own; any other kernel may have answered with one of its operands. An
answer that may share a root with an input, a constant or an earlier answer is copied where it does.
"""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import MATH
from rushlight.autograd.programs import GraphCall, Program
from rushlight.core import geometry, ports
from rushlight.core.op import Tag
from rushlight.core.quick import single_ufunc
from rushlight.core.recording import Recorder
from rushlight.core.source import compile_source
from rushlight.core.state import LOCAL
from rushlight.core.tensor import PLAIN, Tensor, sizes_of, strides_of, wrap

__all__ = ["ProgramRecorder"]

program_numbers = itertools.count(1)
# A dead value of at least this many bytes is let go in the middle of a program.
LARGE = 1 << 16
MANY = ports.large_size


class Unwritable(Exception):
    """The graph calls something that has no array text, or looks at elements."""


class ProgramRecorder(Recorder):
    """Records the kernels' calls without being a layer: formulas choose as if it were not there."""

    def __init__(self, inputs: list[Any]) -> None:
        super().__init__()
        self.inputs = inputs
        # Aliases (saved outputs) are known by the array they share.
        self.arrays: dict[int, Any] = {}
        # Every recorded node with the array it stands for.
        self.made: list[tuple[Any, Any]] = []
        self.is_writable = True
        for position, tensor in enumerate(inputs):
            node = self.graph.placeholder(f"a{position}")
            node = self.arrays.setdefault(id(tensor._array), node)
            self.track(tensor, node)

    def __enter__(self) -> ProgramRecorder:
        LOCAL.state.witness = self.process
        LOCAL.state.refresh()
        return self

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        LOCAL.state.witness = None
        LOCAL.state.refresh()
        if exc_type is not None:
            self.inputs, self.made = [], []

    def process(self, op: Any, args: tuple[Any, ...]) -> Any:
        """Run a kernel and record the call; what it calls itself is its own business."""
        state = LOCAL.state
        try:
            state.witness = None
            result = op.backend(*args)
            if self.is_writable and type(op) is GraphCall:
                self.record_graph(op, args, result)
            elif self.is_writable:
                self.record(op, args, result)
        finally:
            state.witness = self.process
        return result

    def record_graph(self, op: Any, args: tuple[Any, ...], results: Any) -> None:
        """Record the call of a whole graph; what is no tensor among the results is None."""
        found = [result for result in results if result is not None]
        if not all([is_plain(value) for value in args] + [is_own(value) for value in found]):
            self.is_writable = False
            return
        operands = tuple([self.node_of(value) for value in args])
        node = self.graph.create_node("call_function", op, operands, name=op.base_name)
        node.meta["val"] = list(results)
        for position, result in enumerate(results):
            # An operand that is given back stays what it was.
            if result is not None and self.known(result) is None:
                member = self.graph.call_function(operator.getitem, (node, position))
                self.track(result, member)
                self.made.append((member, result._array))

    def record(self, op: Any, args: tuple[Any, ...], result: Any) -> None:
        several = type(result) in (tuple, list)
        found = [item for item in result if item is not None] if several else [result]
        for item in found:
            if not isinstance(item, Tensor) or item._unusual is not None or item._array is None:
                self.is_writable = False
                return
        operands = tuple([self.node_of(value) for value in args])
        node = self.graph.create_node("call_function", op, operands, name=op.base_name)
        if not several:
            self.made.append((node, result._array))
        self.track(result, node)
        if several:
            members = [self.known(item) for item in found]
            pairs = zip(members, found, strict=True)
            self.made += [(member.node, item._array) for member, item in pairs if member]

    def constant(self, tensor: Any) -> Any:
        found = self.arrays.get(id(tensor._array))
        if found is None:
            # A tensor from elsewhere may have other elements next time.
            self.is_writable = False
        return found

    def write(self, results: list[Any]) -> Program | bool:
        """The program that takes the inputs' arrays to the results', or False."""
        inputs, made = self.inputs, self.made
        # A graph is full of cycles: it must not keep tensors until they are collected.
        self.inputs, self.made = [], []
        answers = [None if result is None else self.node_of(result) for result in results]
        if not self.is_writable:
            return False
        try:
            return Writer(self.graph).program(inputs, made, answers)
        except Unwritable:
            return False


class Writer:
    """Turns a recorded graph into lines of array code."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.scope: dict[str, Any] = {"np": np, "MATH": MATH, "own": own, "ndarray": np.ndarray}
        self.scope.update(asarray=np.asarray, wrap=wrap, arrays=arrays_of)
        self.scope["row_major"] = ports.row_major
        self.names: dict[Any, str] = {}
        self.lines: list[str] = []
        # Where the last line that uses a value is.
        self.last_use: dict[str, int] = {}
        # Note [Answers]: by name.
        self.roots: dict[str, frozenset[str]] = {}
        # For a view: the contiguous array it looks at, how far from its start, and its geometry.
        self.bases: dict[str, tuple[str, int, Any]] = {}

    def constant(self, value: Any) -> str:
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        if isinstance(value, np.ndarray):
            self.roots[name] = frozenset((name,))
        return name

    def program(self, inputs: list[Any], made: Any, answers: list[Any]) -> Program:
        parameters = []
        for node in self.graph.nodes:
            if node.op == "placeholder":
                self.names[node] = node.name
                self.roots[node.name] = frozenset((node.name,))
                parameters.append(node.name)
            elif node.op == "call_function":
                self.call(node)
        returned = f"    return ({', '.join(self.answers(answers))},)"
        head = f"def program({', '.join(parameters)}):"
        name = f"backward program {next(program_numbers)}"
        checked = [head, *self.lines, "    return locals()"]
        exec(compile("\n".join(checked), "<rushlight program on trial>", "exec"), self.scope)
        self.check(self.scope["program"], [tensor._array for tensor in inputs], made)
        dtypes = tuple([None if node is None else node.meta["val"]._dtype for node in answers])
        source = "\n".join([head, *self.with_deletions(answers), returned]) + "\n"
        compile_source(source, name, self.scope)
        return Program(self.scope["program"], dtypes, shared_pairs(inputs[1:]), source, name)

    # -- calls -------------------------------------------------------------------------------------

    def graph_call(self, node: Any) -> None:
        """A whole graph, whose results come as one tuple."""
        name = self.names[node] = f"v{len(self.lines)}"
        operands = self.values(node.args)
        for operand in operands:
            self.last_use[operand] = len(self.lines)
        call = arrays_call(node.target, [entry.meta["val"] for entry in node.args])
        self.lines.append(f"    {name} = {self.constant(call)}({', '.join(operands)})")

    def member(self, node: Any) -> None:
        whole, position = node.args
        name = self.names[node] = f"v{len(self.lines)}"
        self.roots[name] = frozenset((name,))
        self.last_use[self.names[whole]] = len(self.lines)
        self.lines.append(f"    {name} = {self.names[whole]}[{position}]")

    def call(self, node: Any) -> None:
        op = node.target
        if type(op) is GraphCall:
            return self.graph_call(node)
        if op is operator.getitem and type(node.args[0].target) is GraphCall:
            return self.member(node)
        operands = [self.names[entry] for entry in node.all_input_nodes]
        name = f"v{len(self.lines)}"
        # The member of several results is the view, or is taken out of the tuple.
        maker = node.args[0].target if op is operator.getitem else op
        if maker.is_view_op or maker.kind.name == "VIEW":
            source = node.args[0]
            if op is not maker:
                source = source.args[0]
            elif not isinstance(node.meta.get("val"), Tensor):
                self.names[node] = self.names[source]
                return
            text = self.view(node, source, name)
            if text in self.roots:
                self.names[node] = text
                return
            roots = self.roots[self.names[source]]
        elif op is not maker:
            # Members may share memory with operands of the call, and with one another.
            text = f"{operands[0]}[{node.args[1]}]"
            roots = self.roots[operands[0]] | {name}
            self.roots[operands[0]] = roots
        elif op.mutated_positions or op.out_positions:
            raise Unwritable
        else:
            text, shared = self.compute(node)
            roots = frozenset().union(*[self.roots[other] for other in shared])
            if isinstance(node.meta.get("val"), Tensor):
                roots |= {name}
            value = node.meta.get("val")
            if isinstance(value, Tensor) and not sizes_of(value):
                text = f"asarray({text})"
        self.names[node] = name
        self.roots[name] = roots
        for operand in operands:
            self.last_use[operand] = len(self.lines)
        self.lines.append(f"    {name} = {text}")

    def view(self, node: Any, origin: Any, name: str) -> str:
        """A view by its geometry; the name of its operand, or of what that is a view of, where it
        looks just like it."""
        source = self.names[origin]
        before, after = origin.meta["val"], node.meta["val"]
        sizes, strides = sizes_of(before), strides_of(before)
        wanted, steps = sizes_of(after), strides_of(after)
        shift = after._offset - before._offset
        if after._dtype is not before._dtype or 0 in wanted:
            raise Unwritable
        dense = is_contiguous(sizes, strides)
        if not shift:
            if geometry.same_sizes(sizes, wanted) and strides == steps:
                return source
            if dense and is_contiguous(wanted, steps) and numel(sizes) == numel(wanted):
                return f"{source}.reshape({self.constant(wanted)})"
        base, offset, looks = self.bases.get(source, ("", 0, None))
        if dense:
            base, offset, looks = source, 0, (sizes, strides)
        offset += shift
        if not offset and looks == (wanted, steps):
            return base
        self.bases[name] = (base, offset, looks)
        axes = None if shift else permutation(sizes, strides, wanted, steps)
        if axes is not None:
            return f"{source}.T" if axes == (1, 0) else f"{source}.transpose({axes})"
        if not base:
            raise Unwritable
        width = after._dtype.itemsize
        layout = self.constant(tuple([step * width for step in steps]))
        dtype = self.constant(after._dtype.np)
        self.last_use[base] = len(self.lines)
        return f"ndarray({self.constant(wanted)}, {dtype}, {base}, {offset * width}, {layout})"

    def compute(self, node: Any) -> tuple[str, list[str]]:
        """One op as an expression of arrays, and the arrays that its value may share memory with:
        none if it is fresh."""
        op, args = node.target, node.args
        if not isinstance(node.meta.get("val"), Tensor) or op.list_positions:
            return self.backend_call(node)
        if op.kind.name == "POINTWISE":
            return self.elementwise(op, args) or self.backend_call(node)
        operands = [entry.meta["val"] for entry in args if is_node(entry)]
        prepare = op.options.get("prepared")
        # What is prepared is NumPy's; kernels on large operands are not.
        if prepare is not None and not any([numel(sizes_of(x)) >= MANY for x in operands]):
            examples = [entry.meta["val"] if is_node(entry) else entry for entry in args]
            function = prepare(*examples)
            if function is not None:
                arrays = [self.names[entry] for entry in args if is_node(entry)]
                return f"{self.constant(function)}({', '.join(arrays)})", []
        if op.kind.is_direct(op) and op.body is None and op.rule("kernel") is not None:
            return self.kernel_call(op, "np", self.values(args))
        return self.backend_call(node)

    def backend_call(self, node: Any) -> tuple[str, list[str]]:
        """A call on tensors made for it, below every layer."""
        op = node.target
        if not op.tags.isdisjoint((Tag.nondeterministic_seeded, Tag.dynamic_output_shape)):
            raise Unwritable
        texts = [self.tensors(value) for value in node.args]
        call = f"{self.constant(op.backend)}({', '.join(texts)})"
        is_one = isinstance(node.meta.get("val"), Tensor)
        text = f"{call}._array" if is_one else f"arrays({call})"
        return text, [self.names[entry] for entry in node.all_input_nodes]

    def tensors(self, value: Any) -> str:
        """An argument with a tensor in the place of each array."""
        if is_node(value):
            tensor = value.meta["val"]
            if not is_dense(tensor):
                raise Unwritable
            return f"wrap({self.names[value]}, {self.constant(tensor._dtype)})"
        if isinstance(value, (list, tuple)) and any([is_node(item) for item in value]):
            items = ", ".join([self.tensors(item) for item in value])
            return f"[{items}]" if isinstance(value, list) else f"({items},)"
        return self.constant(value)

    def kernel_call(self, op: Any, module: str, values: list[str]) -> tuple[str, list[str]]:
        kernel = self.constant(op.array_kernel)
        shared = [value for value in values if value in self.roots]
        return f"{kernel}({', '.join([module, *values])})", shared

    def values(self, args: Any) -> list[str]:
        return [self.names[e] if is_node(e) else self.constant(e) for e in args]

    def elementwise(self, op: Any, args: Any) -> tuple[str, list[str]] | None:
        tensors = [args[position] for position in op.tensor_positions]
        if not is_node(tensors[0]):
            return None
        dtype = tensors[0].meta["val"]._dtype
        uniform = all([is_node(t) for t in tensors])
        promoted = op.options.get("promoted_scalars", ())
        if not dtype.scalar_fast:
            return None
        if not all([t.meta["val"]._dtype is dtype for t in tensors if is_node(t)]):
            return None
        if not uniform:
            numbers = all([is_node(t) or type(t) in (int, float) for t in tensors])
            if not numbers or len(tensors) != 2 or promoted:
                return None
        # No real number changes a float's dtype.
        promotes = promoted or op.options.get("promote") == "int_to_float"
        if promotes and not dtype.is_floating_point:
            return None
        # NumPy takes a 0-d array of the right dtype with less ado than a Python number.
        cast = {*op.tensor_positions, *op.options.get("cast_scalars", ()), *promoted}
        args = [
            np.array(value, dtype.np) if position in cast and type(value) in (int, float) else value
            for position, value in enumerate(args)
        ]
        values = self.values(args)
        count = len(tensors)
        rest = list(zip(op._schema.arguments[count:], args[count:], strict=True))
        ufunc = single_ufunc(op, count)
        if ufunc is not None and all([a.has_default and v == a.default for a, v in rest]):
            return f"{self.constant(ufunc)}({', '.join(values[:count])})", []
        return self.kernel_call(op, "MATH", values)

    # -- answers -----------------------------------------------------------------------------------

    def answers(self, answers: list[Any]) -> list[str]:
        """Note [Answers]: the values that leaves keep, contiguous all."""
        kept = {name for name in self.roots if not name.startswith("v")}
        texts = []
        for node in answers:
            if node is None:
                texts.append("None")
                continue
            name = self.names[node]
            roots = self.roots[name]
            shared = sorted(roots & kept)
            value = node.meta["val"]
            if not is_contiguous(sizes_of(value), strides_of(value)):
                texts.append(f"row_major({name})")
                continue
            # What has one root shares its memory for certain.
            text = f"own({', '.join([name, *shared])})" if shared else name
            texts.append(f"{name}.copy()" if shared and len(roots) == 1 else text)
            kept |= roots
        return texts

    def with_deletions(self, answers: list[Any]) -> list[str]:
        """The lines that are of use, with large values let go after their last use."""
        kept = {self.names[node] for node in answers if node is not None}
        kept.update(*[self.roots[name] for name in kept])
        used = kept | set(self.last_use)
        lines = [[line] if f"v{at}" in used else [] for at, line in enumerate(self.lines)]
        for node, name in self.names.items():
            is_done = node.op == "call_function" and name not in kept and name in self.last_use
            value = node.meta.get("val")
            # A tuple holds what its members name.
            if is_done and (not isinstance(value, Tensor) or value.nbytes >= LARGE):
                lines[self.last_use.pop(name)].append(f"    del {name}")
        return [line for group in lines for line in group]

    def check(self, run: Any, arrays: list[Any], made: Any) -> None:
        """Refuse a program unless every value is what the engine had: bits, shape, strides, dtype.
        Strides and dtypes follow from those of the operands, so they will be the same again."""
        try:
            found = run(*arrays)
        except Exception:
            raise Unwritable from None
        for node, expected in made:
            array = found[self.names[node]]
            if (
                type(array) is not np.ndarray
                or array.dtype != expected.dtype
                or array.shape != expected.shape
                or array.strides != expected.strides
                or array.tobytes() != expected.tobytes()
            ):
                raise Unwritable


def is_plain(value: Any) -> bool:
    return type(value) in PLAIN and value._unusual is None


def is_own(value: Any) -> bool:
    """Whether a tensor is nothing but a contiguous array that nothing else uses."""
    is_alone = is_plain(value) and value._view is None and value._storage is None
    return is_alone and bool(value._is_contiguous)


def arrays_call(call: GraphCall, examples: list[Any]) -> Any:
    """A graph as a function of arrays."""
    dtypes, backend = [value._dtype for value in examples], call.backend
    is_dense = all([value._is_contiguous for value in examples])

    def run(*arrays: Any) -> list[Any]:
        if not is_dense:
            arrays = tuple([np.asarray(array, order="C") for array in arrays])
        given = [wrap(array, kind) for array, kind in zip(arrays, dtypes)]
        return [None if result is None else result._array for result in backend(*given)]

    return run


def is_node(value: Any) -> bool:
    return hasattr(value, "meta")


def arrays_of(tensors: Any) -> tuple[Any, ...]:
    return tuple([None if tensor is None else tensor._array for tensor in tensors])


def own(array: Any, *others: Any) -> Any:
    """An array, or a copy if it may be in memory of the others."""
    for other in others:
        if np.may_share_memory(array, other):
            return array.copy()
    return array


def numel(sizes: Any) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def is_contiguous(sizes: Any, strides: Any) -> bool:
    return tuple(strides) == geometry.contiguous_strides(sizes)


def is_dense(tensor: Any) -> bool:
    return is_contiguous(sizes_of(tensor), strides_of(tensor))


def permutation(sizes: Any, strides: Any, wanted: Any, steps: Any) -> tuple[int, ...] | None:
    """The axes, in their new order, if a view only reorders them."""
    free = list(zip(sizes, strides, strict=True))
    axes: list[int] = []
    for entry in zip(wanted, steps, strict=True):
        axis = next((a for a, e in enumerate(free) if e == entry and a not in axes), None)
        if axis is None:
            return None
        axes.append(axis)
    return tuple(axes) if len(axes) == len(free) else None


def shared_pairs(tensors: list[Any]) -> tuple[tuple[int, int], ...]:
    first: dict[int, int] = {}
    pairs = []
    for position, tensor in enumerate(tensors):
        earlier = first.setdefault(id(tensor._array), position)
        if earlier != position:
            pairs.append((earlier, position))
    return tuple(pairs)
