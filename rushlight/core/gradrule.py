"""From a vjp rule to a node class.

A rule is one function per differentiable input, or one joint function for all of them. Its
parameter names say what is saved: `grad` / `grads` (output gradients), `needs` (which inputs
want one), any schema argument, any return (`result`, or its name), and `<name>_shape`, `_dtype`,
`_strides`, `_meta` for facts about a tensor without keeping it. The node class is generated once,
on first use, as straight-line Python.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rushlight.base.config import config
from rushlight.base.schema import parameter_name
from rushlight.core import node as node_module
from rushlight.core.node import (
    FREED,
    OpNode,
    SavedTensor,
    edge,
    next_sequence,
    pack,
    pack_output,
    unpack,
)
from rushlight.core.state import LOCAL, PROCESS

__all__ = ["GradRule", "TensorMeta", "compile_source"]

SUFFIXES = ("_shape", "_dtype", "_meta", "_strides")


class TensorMeta:
    """Facts about a tensor that do not keep its memory alive."""

    __slots__ = ("blocksize", "device", "dtype", "layout", "offset", "shape", "strides")

    def __init__(self, tensor: Any) -> None:
        self.shape = tensor.shape
        self.dtype = tensor._dtype
        self.device = tensor.device
        self.layout = tensor.layout
        self.strides = strides_of(tensor)
        self.offset = tensor._offset
        self.blocksize = None
        if self.layout.name.startswith("sparse_bs"):
            # Values of a block layout are (batch..., nnz, block rows, block columns, dense...).
            parts = tensor._ext.parts
            start = parts.compressed.dim()
            self.blocksize = tuple(parts.values.shape[start : start + 2])

    def dim(self) -> int:
        return len(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> Any:
        count: Any = 1
        for size in self.shape:
            count = count * size
        return count

    def stride(self) -> Any:
        return self.strides

    def is_complex(self) -> bool:
        found: bool = self.dtype.is_complex
        return found


def shape_of(value: Any) -> Any:
    return value.shape if hasattr(value, "shape") else ()


def dtype_of(value: Any) -> Any:
    return getattr(value, "_dtype", None)


def strides_of(value: Any) -> Any:
    if not hasattr(value, "_dtype"):
        return ()
    ext = value._ext
    # A sparse tensor of a compressed layout refuses to say.
    return ext.strides if ext is not None and ext.parts is not None else value.stride()


def meta_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([TensorMeta(item) for item in value])
    return TensorMeta(value) if hasattr(value, "_dtype") else value


FACTS: dict[str, Callable[[Any], Any]] = {
    "shape": shape_of,
    "dtype": dtype_of,
    "meta": meta_of,
    "strides": strides_of,
}


def raise_freed() -> None:
    raise RuntimeError(FREED)


def compile_source(source: str, name: str, scope: dict[str, Any]) -> dict[str, Any]:
    """exec generated source so that tracebacks can show its lines."""
    # By this name `arrays.numpy_` tells NumPy's warnings in it from those of the user's code.
    scope.setdefault("__name__", "rushlight.generated")
    filename = f"<rushlight {name}>"
    if config.show_stubs:
        print(f"# {name}\n{source}", file=sys.stderr)
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), scope)
    return scope


def parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class GradRule:
    """The compiled vjp of one op overload: `make_node(*args)` and the node class."""

    __slots__ = (
        "argument_names",
        "filled",
        "formulas",
        "inputs",
        "joint",
        "list_inputs",
        "make_node",
        "node_class",
        "non_differentiable",
        "order",
        "output_slots",
        "saves_self",
        "scope",
        "slots",
        "source",
        "tensor_names",
    )

    make_node: Callable[..., Any]

    def __init__(
        self,
        name: str,
        argument_names: list[str],
        tensor_names: frozenset[str],
        tensor_lists: frozenset[str],
        return_names: list[str],
        vjp: dict[str, Callable[..., Any]] | Callable[..., Any],
        inputs: list[str],
        non_differentiable: frozenset[int] = frozenset(),
    ) -> None:
        self.inputs = inputs
        self.list_inputs = tensor_lists
        self.non_differentiable = non_differentiable
        self.joint = not isinstance(vjp, dict)
        if isinstance(vjp, dict):
            self.formulas: dict[str, Callable[..., Any]] = vjp
        else:
            self.formulas = {"": vjp} if len(inputs) > 1 else {inputs[0]: vjp}
            self.joint = len(inputs) > 1
        self.compile(name, argument_names, tensor_names, return_names)

    def compile(
        self,
        name: str,
        argument_names: list[str],
        tensor_names: frozenset[str],
        return_names: list[str],
    ) -> None:
        slots: dict[str, list[str]] = {}  # saved name -> inputs whose formula uses it
        for owner, formula in self.formulas.items():
            for parameter in parameters(formula):
                if parameter not in ("grad", "grads", "needs"):
                    slots.setdefault(parameter, []).append(owner)
        order = list(slots)
        index = {slot: position for position, slot in enumerate(order)}
        outputs = [slot for slot in order if base_name(slot, return_names) is not None]
        self.output_slots = [(index[slot], *output_source(slot, return_names)) for slot in outputs]
        # The inputs whose formulas use `self`; "" for a joint formula.
        self.saves_self = tuple(slots.get("self", ()))
        frees = any(slot in tensor_names or slot in outputs for slot in order)
        scope: dict[str, Any] = {
            "Tensor": node_module.TENSOR_TYPES[0],
            "PROCESS": PROCESS,
            "edge": edge,
            "pack": pack,
            "unpack": unpack,
            "unpack_output": unpack_output,
            "next_sequence": next_sequence,
            "raise_freed": raise_freed,
            "SavedTensor": SavedTensor,
            "shape_of": shape_of,
            "dtype_of": dtype_of,
            "meta_of": meta_of,
            "strides_of": strides_of,
            "FIRST": FIRST,
        }
        for owner, formula in self.formulas.items():
            scope[f"vjp_{owner}"] = formula
        kept = frozenset(slot for slot in order if slot in tensor_names) | {
            slot for slot in outputs if not output_source(slot, return_names)[1]
        }
        apply_source = self.apply_source(index, order, kept, kept & set(outputs))
        self.argument_names, self.tensor_names = argument_names, tensor_names
        self.order, self.slots, self.filled = order, slots, frozenset(outputs)
        make_source = self.make_source()
        self.source = apply_source + "\n" + make_source
        compile_source(self.source, f"vjp of {name}", scope)
        short = name.rsplit("::", 1)[-1]
        node_class = type(
            short,
            (OpNode,),
            {
                "__slots__": (),
                **({} if short == name else {"name": lambda self: name}),
                "apply": scope["apply"],
                "saved_names": tuple(order),
                "frees_saved": frees,
                "__module__": "builtins",
            },
        )
        # A partial is called with less ado than `object.__new__` with an argument.
        scope["new_node"] = partial(object.__new__, node_class)
        self.node_class = node_class
        self.make_node = scope["make_node"]
        self.scope = scope

    def inline_source(self, indent: str, plain: frozenset[str] = frozenset(("self",))) -> str:
        """The body of `make_node` for a stub that knows the named arguments to be plain tensors."""
        lines = self.make_lines(plain)
        return "\n".join(indent + line[4:] for line in lines)

    def pending_source(self, indent: str) -> str | None:
        """Lines that note, in a view's record `info`, what its node will be made of. None for a
        rule that keeps tensors, which must be saved at once."""
        if self.filled or self.tensor_names & set(self.order) or self.inputs != ["self"]:
            return None
        plain = frozenset(("self",))
        values = [
            save_expression(slot, self.argument_names, self.tensor_names, plain)
            for slot in self.order
        ]
        saved = f"({', '.join(values)}{',' if values else ''})"
        lines = plain_edge(0, "self", certain=True)
        lines.append(f"    info.pending = (new_node, next_sequence(), e0, n0, {saved})")
        return "\n".join(indent + line[4:] for line in lines)

    def plain_maker(self, plain: frozenset[str]) -> Callable[..., Any]:
        """`make_node` for a caller that knows the named arguments to be plain tensors."""
        head = f"def make_plain({', '.join(self.argument_names)}):\n"
        body = self.inline_source("    ", plain) + "\n    return node\n"
        compile_source(head + body, f"plain node of {self.node_class.__name__}", self.scope)
        made: Callable[..., Any] = self.scope["make_plain"]
        return made

    def apply_source(
        self, index: dict[str, int], order: list[str], kept: frozenset[str], filled: frozenset[str]
    ) -> str:
        """Source of `apply`; `kept` names the slots that hold tensors, `filled` those of them that
        hold the op's own results."""
        lines = ["def apply(self, grads, needs):"]
        uses_grads = any("grads" in parameters(f) for f in self.formulas.values())
        count = len(self.inputs)
        variadic = bool(self.list_inputs & set(self.inputs))
        nothing = "(None,) * len(self.next_nodes)" if variadic else repr((None,) * count)
        if uses_grads:
            lines.append("    if all([g is None for g in grads]): return " + nothing)
        lines.append("    grad = grads[0]")
        if not uses_grads:
            lines.append("    if grad is None: return " + nothing)
        if order:
            lines.append("    saved = self.saved_slots")
            lines.append("    if saved is None: raise_freed()")
        lines.append("    edges = self.next_nodes")

        def call(owner: str) -> str:
            arguments = []
            for parameter in parameters(self.formulas[owner]):
                if parameter in ("grad", "grads"):
                    arguments.append(parameter)
                elif parameter == "needs":
                    arguments.append("wanted")
                elif parameter in filled:
                    arguments.append(f"unpack_output(self, saved[{index[parameter]}])")
                elif parameter in kept:
                    arguments.append(UNPACK.format(slot=index[parameter]))
                else:
                    arguments.append(f"saved[{index[parameter]}]")
            return f"vjp_{owner}({', '.join(arguments)})"

        wants_mask = any("needs" in parameters(f) for f in self.formulas.values())
        if wants_mask or self.joint:
            lines.append(
                "    wanted = tuple([e is not None and (needs is None or needs[i]) "
                "for i, e in enumerate(edges)])"
            )
        if self.joint:
            lines.append(f"    return tuple({call('')})")
        elif variadic and count == 1:
            lines.append(f"    return tuple({call(self.inputs[0])})")
        else:
            for position, owner in enumerate(self.inputs):
                lines.append(
                    f"    r{position} = {call(owner)} if edges[{position}] is not None "
                    f"and (needs is None or needs[{position}]) else None"
                )
            results = ", ".join(f"r{position}" for position in range(count))
            lines.append(f"    return ({results},)")
        return "\n".join(lines) + "\n"

    def make_source(self) -> str:
        lines = [
            f"def make_node({', '.join([parameter_name(name) for name in self.argument_names])}):",
            *self.make_lines(frozenset()),
            "    node.output_metas = ()",
            "    return node",
        ]
        return "\n".join(lines) + "\n"

    def make_lines(self, plain: frozenset[str]) -> list[str]:
        """Lines that make and fill a node; `plain` names arguments known to be plain tensors."""
        lines = [
            "    node = new_node()",
            "    node.sequence_nr = next_sequence()",
            "    node.node_hooks = None",
            "    node.node_extra = None",
        ]
        variadic = bool(self.list_inputs & set(self.inputs))
        if variadic:
            parts = []
            numbers = []
            for owner in self.inputs:
                if owner in self.list_inputs:
                    parts.append(f"*[edge(t) if t is not None else None for t in {owner}]")
                    numbers.append(f"*[t._output_nr if t is not None else 0 for t in {owner}]")
                else:
                    parts.append(edge_expression(owner))
                    numbers.append(number_expression(owner))
            lines.append(f"    edges = node.next_nodes = ({', '.join(parts)},)")
            lines.append(f"    node.next_nrs = ({', '.join(numbers)},)")
        else:
            for position, owner in enumerate(self.inputs):
                if owner in plain:
                    lines += plain_edge(position, owner, certain=len(self.inputs) == 1)
                else:
                    lines += edge_lines(position, owner)
            every = ", ".join(f"e{position}" for position in range(len(self.inputs)))
            lines.append(f"    node.next_nodes = ({every},)")
            every = ", ".join(f"n{position}" for position in range(len(self.inputs)))
            if len(self.inputs) == 1:
                lines.append("    node.next_nrs = (n0,) if n0 else FIRST")
            else:
                lines.append(f"    node.next_nrs = ({every},)")
        values = []
        for slot in self.order:
            if slot in self.filled:
                values.append("None")
                continue
            expression = save_expression(slot, self.argument_names, self.tensor_names, plain)
            owners = self.slots[slot]
            if not self.joint and not variadic and 1 < len(self.inputs) > len(owners):
                test = " or ".join(f"e{self.inputs.index(owner)} is not None" for owner in owners)
                expression = f"({expression} if {test} else None)"
            values.append(expression)
        kept = ", ".join(values)
        if self.filled:  # filled in once the results exist
            lines.append(f"    node.saved_slots = [{kept}]")
        else:
            lines.append(f"    node.saved_slots = ({kept}{',' if values else ''})")
        return lines

    def evaluate(
        self, owner: str, grads: tuple[Any, ...], values: dict[str, Any], needs: tuple[bool, ...]
    ) -> Any:
        """Apply one formula to plain values: arguments and results by name."""
        formula = self.formulas[owner]
        chosen = []
        for parameter in parameters(formula):
            if parameter == "grad":
                chosen.append(grads[0])
            elif parameter == "grads":
                chosen.append(grads)
            elif parameter == "needs":
                chosen.append(needs)
            elif parameter in values:
                chosen.append(values[parameter])
            else:
                stem, _, fact = parameter.rpartition("_")
                chosen.append(FACTS[fact](values[stem]))
        return formula(*chosen)

    def save_outputs(self, node: Any, results: tuple[Any, ...]) -> None:
        """Fill the slots that keep (facts about) the op's results."""
        for slot, position, suffix in self.output_slots:
            result = results[position]
            if suffix == "_shape":
                node.saved_slots[slot] = result.shape
            elif suffix == "_dtype":
                node.saved_slots[slot] = result._dtype
            elif suffix == "_meta":
                node.saved_slots[slot] = TensorMeta(result)
            elif isinstance(result, (list, tuple)):
                node.saved_slots[slot] = tuple([pack_output(r, i) for i, r in enumerate(result)])
            elif position in self.non_differentiable:
                node.saved_slots[slot] = pack(result, node)
            else:
                node.saved_slots[slot] = pack_output(result, position)


def unpack_output(node: Any, entry: Any) -> Any:
    """`unpack` for a node's own output: its history matters only while a graph is recorded."""
    if (
        type(entry) is SavedTensor
        and entry.unpack_hook is None
        and entry.tensor is not None
        and not LOCAL.state.grad
        and entry.tensor._counter.value == entry.version
    ):
        return node_module.alive(entry.tensor)
    return unpack(node, entry)


# `unpack` written out for the common case: a tensor that was neither written to nor detached.
UNPACK = (
    "(s if type(s := saved[{slot}]) is Tensor and s._counter is None "
    "and (s._ag is None or not s._ag.detached_at) else unpack(self, s))"
)
# Shared by the many nodes whose one input is a first output.
FIRST = (0,)


def plain_edge(position: int, owner: str, certain: bool) -> list[str]:
    """`edge(owner)` for a plain tensor; `certain` where it is known to require grad."""
    wanted = "" if certain else f" and {owner}._requires_grad"
    return [
        f"    n{position} = {owner}._output_nr",
        f"    e{position} = {owner}._node",
        f"    if {owner}._view is not None: e{position} = edge({owner})",
        f"    elif e{position} is None{wanted}:",
        f"        e{position} = {owner} if {owner}._ag is None or {owner}._ag.accumulator is None "
        f"else edge({owner})",
    ]


def edge_lines(position: int, owner: str) -> list[str]:
    """`edge(owner)` written out for the common cases: a fresh result, a bare leaf."""
    return [
        f"    if isinstance({owner}, Tensor):",
        f"        n{position} = {owner}._output_nr",
        f"        if {owner}._view is not None: e{position} = edge({owner})",
        "        else:",
        f"            e{position} = {owner}._node",
        f"            if e{position} is None and {owner}._requires_grad:",
        f"                e{position} = {owner} if {owner}._ag is None else edge({owner})",
        "    else:",
        f"        e{position} = None",
        f"        n{position} = 0",
    ]


def edge_expression(owner: str) -> str:
    return f"edge({owner}) if hasattr({owner}, '_node') else None"


def number_expression(owner: str) -> str:
    return f"{owner}._output_nr if hasattr({owner}, '_node') else 0"


def base_name(slot: str, return_names: list[str]) -> str | None:
    """The return a slot refers to, or None when it is about an argument."""
    stem = slot
    for suffix in SUFFIXES:
        if slot.endswith(suffix):
            stem = slot[: -len(suffix)]
    return stem if stem in return_names or stem == "result" else None


def output_source(slot: str, return_names: list[str]) -> tuple[int, str]:
    for suffix in SUFFIXES:
        if slot.endswith(suffix) and slot not in return_names:
            stem = slot[: -len(suffix)]
            return (return_names.index(stem) if stem in return_names else 0), suffix
    return (return_names.index(slot) if slot in return_names else 0), ""


def save_expression(
    slot: str, argument_names: list[str], tensor_names: frozenset[str], plain: frozenset[str]
) -> str:
    if slot in plain:
        return (
            f"({slot} if {slot}._counter is None and not PROCESS.special else pack({slot}, node))"
        )
    if slot in tensor_names:
        # `pack` written out for the common case: nothing was ever written to the tensor.
        return (
            f"({slot} if type({slot}) is Tensor and {slot}._counter is None "
            f"and {slot}._ext is None and not PROCESS.special else pack({slot}, node))"
        )
    if slot in argument_names:
        return slot
    for suffix in SUFFIXES:
        if slot.endswith(suffix):
            stem = slot[: -len(suffix)]
            if stem in argument_names:
                general = f"{suffix[1:]}_of({stem})"
                if suffix in ("_shape", "_strides") and stem in plain:
                    return f"{stem}._array.{suffix[1:]}"
                if suffix in ("_shape", "_strides") and stem in tensor_names:
                    # torch: `_strides` are in elements; a rule that asks for them compares them
                    # with one another only, so an array's own (in bytes) serve as well.
                    return (
                        f"({stem}._array.{suffix[1:]} if type({stem}) is Tensor "
                        f"and {stem}._ext is None else {general})"
                    )
                return general
    raise TypeError(
        f"a vjp rule asks for '{slot}', which is neither an argument ({', '.join(argument_names)}) "
        "nor a result"
    )
