"""From a vjp rule to a node class.

A rule is one function per differentiable input, or one joint function for all of them. Its
parameter names say what is saved: `grad` / `grads` (output gradients), `needs` (which inputs
want one), any schema argument, any return (`result`, or its name), and `<name>_shape`, `_dtype`,
`_byte_strides`, `_meta` for facts about a tensor without keeping it. The node class is generated
once, on first use, as straight-line Python; `node_lines` is the text that makes a node, here and
in the stubs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

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
    pack_result,
    unpack,
)
from rushlight.core.operands import Operand, Value, fact_of
from rushlight.core.source import block, compile_source, join
from rushlight.core.state import LOCAL, PROCESS

__all__ = ["GradRule", "TensorMeta"]

SUFFIXES = ("_shape", "_dtype", "_meta", "_byte_strides")


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
            parts = tensor._unusual.parts
            start = parts.compressed.dim()
            self.blocksize = tuple(parts.values.shape[start : start + 2])

    def facts(self) -> tuple[Any, ...]:
        """All that formulas can learn here."""
        return tuple([getattr(self, name) for name in self.__slots__])

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
    unusual = value._unusual
    # A sparse tensor of a compressed layout refuses to say.
    return unusual.strides if unusual is not None and unusual.parts is not None else value.stride()


def byte_strides_of(value: Any) -> Any:
    """Strides as arrays count them, which costs nothing where there is an array."""
    if not hasattr(value, "_dtype"):
        return ()
    if value._array is not None:
        return value._array.strides
    width = value._dtype.itemsize
    return tuple([step * width for step in strides_of(value)])


def meta_of(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple([TensorMeta(item) for item in value])
    return TensorMeta(value) if hasattr(value, "_dtype") else value


FACTS: dict[str, Callable[[Any], Any]] = {
    "shape": shape_of,
    "dtype": dtype_of,
    "meta": meta_of,
    "byte_strides": byte_strides_of,
}


def raise_freed() -> None:
    raise RuntimeError(FREED)


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
        "maker_name",
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
            **node_scope(),
            "unpack": unpack,
            "unpack_output": unpack_output,
            "raise_freed": raise_freed,
        }
        for owner, formula in self.formulas.items():
            scope[f"vjp_{owner}"] = formula
        kept = frozenset(slot for slot in order if slot in tensor_names) | {
            slot for slot in outputs if not output_source(slot, return_names)[1]
        }
        apply_source = self.apply_source(index, order, kept, kept & set(outputs))
        self.argument_names, self.tensor_names = argument_names, tensor_names
        self.order, self.slots, self.filled = order, slots, frozenset(outputs)
        short = name.rsplit("::", 1)[-1]
        self.maker_name = f"new_{short}"
        self.source = apply_source + "\n" + self.make_source()
        compile_source(self.source, f"vjp of {name}", scope)
        node_class = type(
            short,
            (OpNode,),
            {
                "__slots__": (),
                **({} if short == name else {"name": lambda self: name}),
                "apply": scope["apply"],
                "saved_names": tuple(order),
                "frees_saved": frees,
                "non_differentiable": self.non_differentiable,
                "__module__": "builtins",
            },
        )
        # A partial is called with less ado than `object.__new__` with an argument.
        scope[self.maker_name] = partial(object.__new__, node_class)
        self.node_class = node_class
        self.make_node = scope["make_node"]
        self.scope = scope

    @property
    def node_scope(self) -> dict[str, Any]:
        """What `node_lines` and `pending_lines` mention."""
        return {**node_scope(), self.maker_name: self.scope[self.maker_name]}

    def pending_lines(self, operands: dict[str, Operand]) -> list[str] | None:
        """Lines that note, in a view's record `info_`, what its node will be made of. None for a
        rule that keeps tensors, which must be saved at once."""
        if self.filled or self.tensor_names & set(self.order) or self.inputs != ["self"]:
            return None
        values = [saved_text(slot, operands, "") for slot in self.order]
        saved = f"({', '.join(values)}{',' if values else ''})"
        return [
            *operands["self"].edge_lines(0, certain=True),
            f"info_.pending = ({self.maker_name}, next_sequence(), e0, n0, {saved})",
        ]

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

        def unpacked(slot: str) -> str:
            if slot in filled:
                return f"unpack_output(self, saved[{index[slot]}])"
            return UNPACK.format(slot=index[slot]) if slot in kept else f"saved[{index[slot]}]"

        # What several formulas read is unpacked once: a hook is asked once for each backward.
        read = [name for formula in self.formulas.values() for name in parameters(formula)]
        shared = {slot for slot in kept if read.count(slot) > 1}
        lines += [f"    v{index[slot]} = {unpacked(slot)}" for slot in order if slot in shared]

        def call(owner: str) -> str:
            arguments = []
            for parameter in parameters(self.formulas[owner]):
                if parameter in ("grad", "grads"):
                    arguments.append(parameter)
                elif parameter == "needs":
                    arguments.append("wanted")
                elif parameter in shared:
                    arguments.append(f"v{index[parameter]}")
                else:
                    arguments.append(unpacked(parameter))
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
        """Source of `make_node`, which knows nothing about its arguments."""
        operands: dict[str, Operand] = {
            name: (Operand if name in self.tensor_names else Value)(parameter_name(name))
            for name in self.argument_names
        }
        lines = [*self.node_lines(operands), "node_.output_metas = ()", "return node_"]
        return join(
            block(f"def make_node({', '.join(map(parameter_name, self.argument_names))}):", lines)
        )

    def node_lines(self, operands: dict[str, Operand], node: str = "node_") -> list[str]:
        """Lines that make and fill the node `node` from what is known of the op's arguments."""
        lines = [
            f"{node} = {self.maker_name}()",
            f"{node}.sequence_nr = next_sequence()",
            f"{node}.node_hooks = None",
            f"{node}.node_extra = None",
        ]
        variadic = bool(self.list_inputs & set(self.inputs))
        absent = [owner for owner in self.inputs if type(operands[owner]) is Value]
        if variadic:
            edges, numbers = [], []
            for owner in self.inputs:
                text = operands[owner].text
                if owner in self.list_inputs:
                    edges.append(f"*[edge(t) if t is not None else None for t in {text}]")
                    numbers.append(f"*[t._output_nr if t is not None else 0 for t in {text}]")
                else:
                    edges.append(f"edge({text}) if hasattr({text}, '_node') else None")
                    numbers.append(f"{text}._output_nr if hasattr({text}, '_node') else 0")
        else:
            edges = [f"e{position}" for position in range(len(self.inputs))]
            numbers = [f"n{position}" for position in range(len(self.inputs))]
            certain = len(self.inputs) - len(absent) == 1
            for position, owner in enumerate(self.inputs):
                lines += operands[owner].edge_lines(position, certain)
        lines.append(f"{node}.next_nodes = ({', '.join(edges)},)")
        shared = "(n0,) if n0 else FIRST"
        lines.append(f"{node}.next_nrs = {shared if numbers == ['n0'] else tuple_text(numbers)}")
        values = []
        for slot in self.order:
            owners = [owner for owner in self.slots[slot] if owner not in absent]
            if slot in self.filled or not owners:
                values.append("None")
                continue
            expression = saved_text(slot, operands, node)
            if not self.joint and not variadic and len(owners) + len(absent) < len(self.inputs):
                test = " or ".join(f"e{self.inputs.index(owner)} is not None" for owner in owners)
                expression = f"({expression} if {test} else None)"
            values.append(expression)
        # A list where slots are filled in once the results exist.
        saved = f"[{', '.join(values)}]" if self.filled else tuple_text(values)
        lines.append(f"{node}.saved_slots = {saved}")
        return lines

    def output_lines(self, results: list[str], node: str = "node_") -> list[str]:
        """`save_outputs` written out for a stub, whose results are fresh and watched by nobody."""
        lines = []
        for slot, position, suffix in self.output_slots:
            if suffix:
                fact = fact_of(suffix[1:], results[position])
                lines.append(f"{node}.saved_slots[{slot}] = {fact}")
            elif position in self.non_differentiable:
                lines.append(f"{node}.saved_slots[{slot}] = {results[position]}")
            else:
                assert position == 0, "one result of several is packed by save_outputs"
                lines.append(f"{node}.saved_slots[{slot}] = pack_result({results[0]})")
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
                suffix = next(suffix for suffix in SUFFIXES if parameter.endswith(suffix))
                chosen.append(FACTS[suffix[1:]](values[parameter.removesuffix(suffix)]))
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
                node.saved_slots[slot] = tuple(
                    [pack_output(item, number, node) for number, item in enumerate(result)]
                )
            elif position in self.non_differentiable:
                node.saved_slots[slot] = pack(result, node)
            else:
                node.saved_slots[slot] = pack_output(result, position, node)


def dispatches(tensor: Any) -> bool:
    """Whether an alias of a tensor is for its class to make."""
    return type(tensor) is not node_module.LEVEL_TENSOR and node_module.is_watched(tensor)


def unpack_output(node: Any, entry: Any) -> Any:
    """`unpack` for a node's own output: its history matters only while a graph is recorded."""
    if (
        type(entry) is SavedTensor
        and entry.unpack_hook is None
        and entry.tensor is not None
        and not LOCAL.state.grad
        and entry.tensor._counter.value == entry.version
        and (type(entry.tensor) is node_module.TENSOR_TYPES[0] or not dispatches(entry.tensor))
    ):
        return node_module.alive(entry.tensor)
    return unpack(node, entry)


# `unpack` written out for the common case: a tensor that was neither written to nor detached.
UNPACK = (
    "(s if type(s := saved[{slot}]) is Tensor and s._counter is None "
    "and (s._autograd is None or not s._autograd.detached_at) else unpack(self, s))"
)
# Shared by the many nodes whose one input is a first output.
FIRST = (0,)


def tuple_text(values: list[str]) -> str:
    return f"({', '.join(values)}{',' if values else ''})"


def node_scope() -> dict[str, Any]:
    """The names that lines which make nodes mention, besides the node class."""
    return {
        "Tensor": node_module.TENSOR_TYPES[0],
        "PROCESS": PROCESS,
        "edge": edge,
        "pack": pack,
        "pack_result": pack_result,
        "next_sequence": next_sequence,
        "FIRST": FIRST,
        **{f"{fact}_of": function for fact, function in FACTS.items()},
    }


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


def saved_text(slot: str, operands: dict[str, Operand], node: str) -> str:
    """What goes into a slot that is about an argument."""
    if slot in operands:
        return operands[slot].saved_text(node)
    for suffix in SUFFIXES:
        stem = slot.removesuffix(suffix)
        if stem != slot and stem in operands:
            return operands[stem].fact_text(suffix[1:])
    raise TypeError(
        f"a vjp rule asks for '{slot}', which is neither an argument ({', '.join(operands)}) "
        "nor a result"
    )
