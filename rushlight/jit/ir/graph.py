"""Graphs of `jit`: blocks of nodes that use and make values.

A graph has one block; a node may have blocks of its own (the arms of an `if`, the body of a loop).
Nodes of a block form a ring that starts and ends at its return node. The names of the methods are
those that torch gives to the same objects.
Invariants: every use of a value is listed once in its `uses`; a value's name is its own in the
graph; a node is in one block or, before it is inserted, in none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rushlight.base.errors import fail
from rushlight.jit.ir.parts import NOWHERE, Attribute, PythonCall, Row, SourceRange
from rushlight.jit.ir.types import BOOL, NONE, TENSOR, TensorType, TupleType, Type, complete_type

# The builtin, where a class below has a method of that name.
Text = str

# The letters by which attributes are read, and what torch says they are.
ATTRIBUTES = (
    *("i", "is", "f", "fs", "c", "cs", "s", "ss", "t", "ts", "g", "gs", "ty", "tys", "ival"),
)


@dataclass(frozen=True, slots=True)
class Use:
    """One place where a value is used: the input `offset` of the node `user`."""

    user: Node
    offset: int


class Value:
    """What a node makes, or a block takes."""

    __slots__ = ("_name", "_node", "_offset", "_type", "_unique", "_uses")

    def __init__(self, node: Node, offset: int) -> None:
        graph = node.graph
        self._node = node
        self._offset = offset
        self._unique = graph.next_unique
        graph.next_unique += 1
        self._type: Type = TENSOR
        self._name = ""
        self._uses: list[Use] = []

    def node(self) -> Node:
        return self._node

    def offset(self) -> int:
        return self._offset

    def unique(self) -> int:
        return self._unique

    def type(self) -> Type:
        return self._type

    def setType(self, type_: Type) -> Value:
        self._type = type_
        return self

    def setTypeAs(self, other: Value) -> Value:
        return self.setType(other._type)

    def inferTypeFrom(self, tensor: Any) -> Value:
        return self.setType(complete_type(tensor))

    def uses(self) -> list[Use]:
        return list(self._uses)

    def hasUses(self) -> bool:
        return bool(self._uses)

    def has_name(self) -> bool:
        return bool(self._name)

    def debugName(self) -> str:
        return self._name or str(self._unique)

    def name_base(self) -> str:
        """The name without the number that keeps it apart from others; "" where there is none."""
        base, dot, number = self._name.rpartition(".")
        return base if dot and number.isdigit() else self._name

    def setDebugName(self, name: str) -> Value:
        """Takes `name`; a value that had it gets a number after it."""
        if name and not is_name(name):
            fail("RL1401", name=name)
        names = self._node.graph.names
        if self._name:
            del names[self._name]
            self._name = ""
        if not name:
            return self
        holder = names.get(name)
        if holder is not None:
            holder.step_aside(name)
        names[name] = self
        self._name = name
        return self

    def step_aside(self, name: str) -> None:
        graph = self._node.graph
        base, dot, number = name.rpartition(".")
        suffix = 1
        if dot and number.isdigit():
            suffix = int(number)
        else:
            base = name
        suffix = max(suffix, graph.suffixes.get(base, 0) + 1)
        while f"{base}.{suffix}" in graph.names:
            suffix += 1
        graph.suffixes[base] = suffix + 1
        self.setDebugName(f"{base}.{suffix}")

    def copyMetadata(self, other: Value) -> Value:
        """Takes the type of another value, and its name where it has one."""
        self._type = other._type
        if other._name:
            self.setDebugName(other._name)
        return self

    def replaceAllUsesWith(self, other: Value) -> None:
        for use in list(self._uses):
            use.user.replaceInput(use.offset, other)

    def replaceAllUsesAfterNodeWith(self, node: Node, other: Value) -> None:
        for use in list(self._uses):
            if use.user.isAfter(node):
                use.user.replaceInput(use.offset, other)

    def isCompleteTensor(self) -> bool:
        return isinstance(self._type, TensorType) and self._type.is_complete

    def requires_grad(self) -> bool:
        return isinstance(self._type, TensorType) and self._type.requires_grad()

    requiresGrad = requires_grad

    def mustBeNone(self) -> bool:
        return self._type is NONE or self._node.mustBeNone()

    def toIValue(self) -> Any:
        """The value of a constant; None where it is not one."""
        return self._node.constant_value() if self._node._kind == "prim::Constant" else None

    def __repr__(self) -> str:
        return f"{self.debugName()} defined in ({str(self._node).rstrip()})"


def is_name(name: str) -> bool:
    """Whether a value may be called so: numbers are for those without a name."""
    return not name.isdigit()


class Node:
    """One operation: `outputs = kind[attributes](inputs)`, with blocks where it has any."""

    __slots__ = (
        "_attributes",
        "_blocks",
        "_inputs",
        "_kind",
        "_outputs",
        "_position",
        "block",
        "graph",
        "next",
        "previous",
        "python",
        "scope",
        "source",
    )

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph = graph
        self._kind = kind
        self._inputs: list[Value] = []
        self._outputs: list[Value] = []
        self._attributes: dict[str, Attribute] = {}
        self._blocks: tuple[Block, ...] = ()
        self.block: Block | None = None
        self.next: Node | None = None
        self.previous: Node | None = None
        self._position = 0
        self.scope: str = graph.scope
        self.source: SourceRange = NOWHERE
        # What a node that calls Python holds: see `PythonCall`.
        self.python: PythonCall | None = None

    # -- reading

    def kind(self) -> str:
        return self._kind

    def inputs(self) -> Row[Value]:
        return Row(self._inputs)

    def input(self, name: str | None = None) -> Value:
        if name is not None:
            return self.namedInput(name)
        (only,) = self._inputs
        return only

    def inputsAt(self, index: int) -> Value:
        return self._inputs[index]

    def inputsSize(self) -> int:
        return len(self._inputs)

    def outputs(self) -> Row[Value]:
        return Row(self._outputs)

    def output(self) -> Value:
        (only,) = self._outputs
        return only

    def outputsAt(self, index: int) -> Value:
        return self._outputs[index]

    def outputsSize(self) -> int:
        return len(self._outputs)

    def hasMultipleOutputs(self) -> bool:
        return len(self._outputs) > 1

    def hasUses(self) -> bool:
        return any([value._uses for value in self._outputs])

    def blocks(self) -> Row[Block]:
        return Row(self._blocks)

    def owningBlock(self) -> Block | None:
        return self.block

    def owningGraph(self) -> Graph:
        return self.graph

    def prev(self) -> Node | None:
        return self.previous

    def scopeName(self) -> str:
        return self.scope

    def sourceRange(self) -> str:
        return str(self.source)

    def schema(self) -> str:
        """The schema of the operator, "(no schema)" for other nodes."""
        found = self.matched()
        return "(no schema)" if found is None else str(found.schema)

    def matched(self) -> Any:
        """The operator that the inputs fit, or None."""
        from rushlight.jit.ir.operators import match_node

        return match_node(self)

    def namedInput(self, name: str) -> Value:
        found = self.matched()
        if found is not None:
            for argument, value in zip(found.schema.arguments, self._inputs):
                if argument.name == name:
                    return value
        fail("RL1402", name=name, schema=self.schema())

    def mustBeNone(self) -> bool:
        """Whether the output can only be None."""
        return (
            self._kind == "prim::AutogradZero"
            or (len(self._outputs) == 1 and self._outputs[0]._type is NONE)
            or (self._kind == "prim::Constant" and not self._attributes)
        )

    def isNondeterministic(self) -> bool:
        from rushlight.jit.ir.operators import is_random

        return bool(is_random(self))

    def hasSideEffects(self) -> bool:
        from rushlight.jit.ir.operators import has_side_effects

        return bool(has_side_effects(self))

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        return next((n for block in self._blocks for n in block.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        return [n for block in self._blocks for n in block.findAllNodes(kind, recurse)]

    def pyname(self) -> str:
        return self.python.name if self.python is not None else ""

    def pyobj(self) -> Any:
        return None if self.python is None else self.python.target

    def cconv(self) -> str:
        """One letter an argument of a Python call: `d` a tensor, `c` anything else."""
        return "" if self.python is None else self.python.convention

    def scalar_args(self) -> list[Any]:
        return [] if self.python is None else list(self.python.constants)

    # -- attributes

    def hasAttributes(self) -> bool:
        return bool(self._attributes)

    def hasAttribute(self, name: str) -> bool:
        return name in self._attributes

    def attributeNames(self) -> list[str]:
        return list(self._attributes)

    def kindOf(self, name: str) -> str:
        return self.attribute(name).letter

    def attribute(self, name: str) -> Attribute:
        found = self._attributes.get(name)
        if found is None:
            fail("RL1403", name=name, kind=self._kind)
        return found

    def removeAttribute(self, name: str) -> Node:
        self.attribute(name)
        del self._attributes[name]
        return self

    def copyAttributes(self, other: Node) -> Node:
        self._attributes = {
            name: Attribute(entry.letter, entry.value) for name, entry in other._attributes.items()
        }
        self.python = other.python
        return self

    def copyMetadata(self, other: Node) -> Node:
        self.scope = other.scope
        self.source = other.source
        return self

    def read(self, letter: str, name: str) -> Any:
        entry = self.attribute(name)
        if entry.letter != letter:
            fail("RL1404", name=name, kind=self._kind, actual=entry.letter, expected=letter)
        return entry.value

    def write(self, letter: str, name: str, value: Any) -> Node:
        self._attributes[name] = Attribute(letter, value)
        return self

    def constant_value(self) -> Any:
        """What a `prim::Constant` stands for."""
        entry = self._attributes.get("value")
        if entry is None:
            if "name" in self._attributes and self._outputs[0].type().kind() == "FunctionType":
                return self._outputs[0].type().function  # type: ignore[attr-defined]
            return None
        if self._outputs[0].type() is BOOL:
            return bool(entry.value)
        return entry.value

    # -- changing

    def addInput(self, value: Value) -> Value:
        self.check_same_graph(value)
        value._uses.append(Use(self, len(self._inputs)))
        self._inputs.append(value)
        return value

    def addInputs(self, values: Iterable[Value]) -> Node:
        for value in values:
            self.addInput(value)
        return self

    def insertInput(self, index: int, value: Value) -> Value:
        self.check_same_graph(value)
        later = self._inputs[index:]
        for place in range(len(self._inputs) - 1, index - 1, -1):
            self.dropInput(place)
        self.addInput(value)
        self.addInputs(later)
        return value

    def check_same_graph(self, value: Value) -> None:
        if value._node.graph is not self.graph:
            fail("RL1405", value=value.debugName(), kind=self._kind)

    def dropInput(self, index: int) -> None:
        """Takes the last input away, or the one at `index` where those after it go as well."""
        value = self._inputs.pop(index)
        value._uses.remove(Use(self, index))

    def replaceInput(self, index: int, value: Value) -> Value:
        self.check_same_graph(value)
        old = self._inputs[index]
        place = old._uses.index(Use(self, index))
        if old is not value:
            del old._uses[place]
            self._inputs[index] = value
            value._uses.append(Use(self, index))
        return old

    def replaceInputWith(self, old: Value, value: Value) -> None:
        for index, current in enumerate(self._inputs):
            if current is old:
                self.replaceInput(index, value)

    def removeInput(self, index: int) -> None:
        later = self._inputs[index + 1 :]
        for place in range(len(self._inputs) - 1, index - 1, -1):
            self.dropInput(place)
        self.addInputs(later)

    def removeAllInputs(self) -> None:
        for place in range(len(self._inputs) - 1, -1, -1):
            self.dropInput(place)

    def permuteInputs(self, order: list[int]) -> None:
        values = [self._inputs[place] for place in order]
        self.removeAllInputs()
        self.addInputs(values)

    def addOutput(self, type_: Type | None = None) -> Value:
        value = Value(self, len(self._outputs))
        if type_ is not None:
            value._type = type_
        self._outputs.append(value)
        return value

    def insertOutput(self, index: int) -> Value:
        value = Value(self, index)
        self._outputs.insert(index, value)
        self.number_outputs(index)
        return value

    def eraseOutput(self, index: int) -> None:
        value = self._outputs[index]
        if value._uses:
            fail("RL1406", value=value.debugName(), kind=self._kind)
        value.setDebugName("")
        del self._outputs[index]
        self.number_outputs(index)

    def number_outputs(self, first: int) -> None:
        for offset in range(first, len(self._outputs)):
            self._outputs[offset]._offset = offset

    def addBlock(self) -> Block:
        block = Block(self.graph, self)
        self._blocks = (*self._blocks, block)
        return block

    def eraseBlock(self, index: int) -> None:
        self.give_block(index).destroy()

    def give_block(self, index: int) -> Block:
        """Takes a block off the node."""
        block = self._blocks[index]
        self._blocks = (*self._blocks[:index], *self._blocks[index + 1 :])
        return block

    def replaceAllUsesWith(self, other: Node) -> None:
        for value, new in zip(self._outputs, other._outputs, strict=True):
            value.replaceAllUsesWith(new)

    # -- the place in a block

    def insertBefore(self, other: Node) -> Node:
        assert other.previous is not None
        return self.link_after(other.previous)

    def insertAfter(self, other: Node) -> Node:
        return self.link_after(other)

    def link_after(self, before: Node) -> Node:
        if self.block is not None:
            fail("RL1407", kind=self._kind)
        after = before.next
        assert after is not None
        self.block = before.block
        self.previous, self.next = before, after
        before.next = after.previous = self
        if self.block is not None:
            self.block.is_numbered = False
        return self

    def unlink(self) -> None:
        assert self.previous is not None and self.next is not None
        self.previous.next, self.next.previous = self.next, self.previous
        self.previous = self.next = self.block = None

    def moveBefore(self, other: Node) -> None:
        if other is not self:
            self.unlink()
            self.insertBefore(other)

    def moveAfter(self, other: Node) -> None:
        if other is not self:
            self.unlink()
            self.insertAfter(other)

    def isBefore(self, other: Node) -> bool:
        return self is not other and not self.isAfter(other)

    def isAfter(self, other: Node) -> bool:
        """Whether this runs later than `other`; inner nodes stand where the outer one does."""
        mine, theirs = self.path(), other.path()
        for (block, node), (their_block, their_node) in zip(mine, theirs):
            if block is not their_block:
                # Two blocks of one node: the first one runs first.
                assert block.owner is not None
                places = block.owner._blocks
                return places.index(block) > places.index(their_block)
            if node is not their_node:
                return block.position(node) > block.position(their_node)
        return len(mine) > len(theirs)

    def path(self) -> list[tuple[Block, Node]]:
        """The block and node at each depth that lead here, outermost first."""
        steps: list[tuple[Block, Node]] = []
        node: Node | None = self
        while node is not None:
            assert node.block is not None
            steps.append((node.block, node))
            node = node.block.owner
        return steps[::-1]

    def destroy(self) -> None:
        """Takes the node, its blocks and its outputs out of the graph."""
        for index in range(len(self._outputs) - 1, -1, -1):
            self.eraseOutput(index)
        for index in range(len(self._blocks) - 1, -1, -1):
            self.eraseBlock(index)
        self.removeAllInputs()
        if self.block is not None:
            if self.graph.insert_before is self:
                self.graph.insert_before = self.next
            self.unlink()

    def __str__(self) -> str:
        from rushlight.jit.ir.printing import print_node

        return print_node(self)

    __repr__ = __str__


def attribute_access(letter: str) -> tuple[Any, Any]:
    def read(self: Node, name: str) -> Any:
        return self.read(letter, name)

    def write(self: Node, name: str, value: Any) -> Node:
        return self.write(letter, name, value)

    return read, write


for _letter in ATTRIBUTES:
    _read, _write = attribute_access(_letter)
    setattr(Node, _letter, _read)
    setattr(Node, _letter + "_", _write)
# torch: the tensors of ONNX graphs.
Node.z, Node.z_, Node.zs, Node.zs_ = Node.t, Node.t_, Node.ts, Node.ts_  # type: ignore[attr-defined]


class Block:
    """Nodes in order, between what comes in (`paramNode`) and what goes out (`returnNode`)."""

    __slots__ = ("entry", "exit", "graph", "is_numbered", "owner")

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph = graph
        self.owner = owner
        self.entry = Node(graph, "prim::Param")
        self.exit = Node(graph, "prim::Return")
        self.is_numbered = False
        for node in (self.entry, self.exit):
            node.block = self
        # The ring holds the return node; the parameters stand outside of it.
        self.exit.next = self.exit.previous = self.exit

    def inputs(self) -> Row[Value]:
        return self.entry.outputs()

    def outputs(self) -> Row[Value]:
        return self.exit.inputs()

    def nodes(self) -> Iterator[Node]:
        """The nodes in order; the one that was given may be taken out or moved meanwhile."""
        node = self.exit.next
        while node is not None and node is not self.exit:
            following = node.next
            yield node
            node = following

    def reversed_nodes(self) -> Iterator[Node]:
        node = self.exit.previous
        while node is not None and node is not self.exit:
            before = node.previous
            yield node
            node = before

    def paramNode(self) -> Node:
        return self.entry

    def returnNode(self) -> Node:
        return self.exit

    param_node = paramNode
    return_node = returnNode

    def owningNode(self) -> Node | None:
        return self.owner

    def owningGraph(self) -> Graph:
        return self.graph

    def addInput(self, name: str = "") -> Value:
        value = self.entry.addOutput()
        return value.setDebugName(name) if name else value

    addInputToBlock = addInput

    def eraseInput(self, index: int) -> None:
        self.entry.eraseOutput(index)

    def registerOutput(self, value: Value) -> int:
        self.exit.addInput(value)
        return self.exit.inputsSize() - 1

    def eraseOutput(self, index: int) -> None:
        self.exit.removeInput(index)

    def replaceOutput(self, index: int, value: Value) -> None:
        self.exit.replaceInput(index, value)

    def appendNode(self, node: Node) -> Node:
        return node.insertBefore(self.exit)

    def prependNode(self, node: Node) -> Node:
        return node.insertAfter(self.exit)

    def addNode(self, kind: str, inputs: Iterable[Value]) -> Node:
        return self.appendNode(self.graph.create(kind, inputs))

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        return next(iter(self.findAllNodes(kind, recurse)), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        found: list[Node] = []
        for node in self.nodes():
            if node._kind == kind:
                found.append(node)
            if recurse:
                found += node.findAllNodes(kind)
        return found

    def position(self, node: Node) -> int:
        if node is self.entry:
            return -1
        if not self.is_numbered:
            place = 0
            for place, each in enumerate(self.nodes()):
                each._position = place
            self.exit._position = place + 1
            self.is_numbered = True
        return node._position

    def cloneFrom(self, source: Block, outside: Mapping[Value, Value]) -> dict[Value, Value]:
        """Takes copies of the parameters, nodes and outputs of `source`.

        `outside` maps what is used there and made elsewhere; values not in it are used as they are.
        """
        mapping = dict(outside)
        for value in source.inputs():
            mapping[value] = self.addInput().copyMetadata(value)
        for node in source.nodes():
            self.appendNode(self.graph.createClone(node, mapping))
        for value in source.outputs():
            self.registerOutput(mapping.get(value, value))
        return mapping

    def destroy(self) -> None:
        """Takes everything out: what the block made is used nowhere else."""
        self.exit.removeAllInputs()
        for node in self.reversed_nodes():
            node.destroy()
        for index in range(self.entry.outputsSize() - 1, -1, -1):
            self.entry.eraseOutput(index)

    def __str__(self) -> str:
        from rushlight.jit.ir.printing import print_block

        return print_block(self)


@dataclass(eq=False)
class Graph:
    """A program: one block, and where the next node goes."""

    names: dict[Text, Value] = field(default_factory=dict)
    suffixes: dict[Text, int] = field(default_factory=dict)
    next_unique: int = 0
    scope: Text = ""

    def __post_init__(self) -> None:
        self.top = Block(self, None)
        self.insert_before: Node | None = self.top.exit

    # -- reading

    def block(self) -> Block:
        return self.top

    def inputs(self) -> Row[Value]:
        return self.top.inputs()

    def outputs(self) -> Row[Value]:
        return self.top.outputs()

    def nodes(self) -> Iterator[Node]:
        return self.top.nodes()

    def param_node(self) -> Node:
        return self.top.entry

    def return_node(self) -> Node:
        return self.top.exit

    def all_nodes(self) -> Iterator[Node]:
        """Every node in every block, each before those inside it."""
        waiting = [self.top.nodes()]
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
                continue
            yield node
            waiting += [block.nodes() for block in reversed(node._blocks)]

    def findNode(self, kind: Text, recurse: bool = True) -> Node | None:
        return self.top.findNode(kind, recurse)

    def findAllNodes(self, kind: Text, recurse: bool = True) -> list[Node]:
        return self.top.findAllNodes(kind, recurse)

    # -- changing

    def addInput(self, name: Text = "") -> Value:
        return self.top.addInput(name)

    def eraseInput(self, index: int) -> None:
        self.top.eraseInput(index)

    def registerOutput(self, value: Value) -> int:
        return self.top.registerOutput(value)

    def eraseOutput(self, index: int) -> None:
        self.top.eraseOutput(index)

    def create(self, kind: Text, inputs: Iterable[Value] | int = (), outputs: int = 1) -> Node:
        """A node that stands nowhere yet. `create(kind, 2)` gives one with two outputs."""
        node = Node(self, kind)
        if isinstance(inputs, int):
            outputs = inputs
        else:
            node.addInputs(inputs)
        for _ in range(outputs):
            node.addOutput()
        return node

    def createClone(self, node: Node, mapping: Mapping[Value, Value]) -> Node:
        """A copy of a node, of this graph or another, with its blocks."""
        copy = Node(self, node._kind)
        copy.copyAttributes(node).copyMetadata(node)
        copy.addInputs([mapping.get(value, value) for value in node._inputs])
        known = dict(mapping)
        for value in node._outputs:
            known[value] = copy.addOutput().copyMetadata(value)
        for block in node._blocks:
            copy.addBlock().cloneFrom(block, known)
        if isinstance(mapping, dict):
            mapping.update({value: known[value] for value in node._outputs})
        return copy

    def appendNode(self, node: Node) -> Node:
        return self.top.appendNode(node)

    def prependNode(self, node: Node) -> Node:
        return self.top.prependNode(node)

    def insertNode(self, node: Node) -> Node:
        assert self.insert_before is not None
        return node.insertBefore(self.insert_before)

    def insertPoint(self) -> Node:
        assert self.insert_before is not None
        return self.insert_before

    def setInsertPoint(self, place: Node | Block) -> None:
        """The next node goes before `place`, or to the end of it."""
        self.insert_before = place.exit if isinstance(place, Block) else place

    @contextmanager
    def insert_point_guard(self, place: Node | Block) -> Iterator[None]:
        before = self.insert_before
        self.setInsertPoint(place)
        try:
            yield
        finally:
            self.insert_before = before

    def insert(self, kind: Text, *inputs: Any, type: Type | None = None) -> Value:
        """A new node at the insert point; numbers and the like become constants. Its output."""
        values = [x if isinstance(x, Value) else self.insertConstant(x) for x in inputs]
        node = self.insertNode(self.create(kind, values))
        if type is not None:
            node._outputs[0]._type = type
        else:
            found = node.matched()
            if found is not None:
                node._outputs[0]._type = found.result_type(node)
        return node._outputs[0]

    def insertConstant(self, value: Any, source: SourceRange | None = None) -> Value:
        node = self.insertNode(create_constant(self, value))
        if source is not None:
            node.source = source
        return node.output()

    def insertGraph(self, graph: Graph, inputs: Iterable[Value]) -> list[Value]:
        """The nodes of another graph at the insert point; what its outputs have become."""
        mapping = dict(zip(graph.inputs(), inputs, strict=True))
        for node in graph.nodes():
            self.insertNode(self.createClone(node, mapping))
        return [mapping[value] for value in graph.outputs()]

    def permuteInputs(self, order: list[int]) -> None:
        outputs = self.top.entry._outputs
        outputs[:] = [outputs[place] for place in order]
        self.top.entry.number_outputs(0)

    def makeMultiOutputIntoTuple(self) -> None:
        """Several outputs become one tuple; none becomes None."""
        values = self.outputs()
        if len(values) == 1:
            return
        with self.insert_point_guard(self.top):
            if values:
                node = self.insertNode(self.create("prim::TupleConstruct", values))
                node.output().setType(TupleType([value._type for value in values]))
                result = node.output()
            else:
                result = self.insertConstant(None)
        self.top.exit.removeAllInputs()
        self.registerOutput(result)

    def copy(self) -> Graph:
        graph = Graph()
        graph.top.cloneFrom(self.top, {})
        graph.suffixes = dict(self.suffixes)
        return graph

    def lint(self) -> None:
        from rushlight.jit.ir.checks import check_graph

        check_graph(self)

    def str(self, print_source_ranges: bool = True) -> Text:
        from rushlight.jit.ir.printing import print_graph

        return print_graph(self, print_source_ranges)

    def __str__(self) -> Text:
        return self.str()

    __repr__ = __str__


def create_constant(graph: Graph, value: Any) -> Node:
    """A `prim::Constant` that stands nowhere yet."""
    from rushlight.jit.ir.constants import constant_form

    node = graph.create("prim::Constant")
    letter, held, type_ = constant_form(value)
    node.output().setType(type_)
    return node.write(letter, "value", held) if letter else node
