"""What the text that records a node knows of an op's argument, and how it then reads.

An `Operand` is an argument of which nothing is known; its subclasses know more and read shorter.
Each answers where gradients go (`e<i>`, `n<i>`), what is saved of it, and facts about it.
"""

from __future__ import annotations

__all__ = ["Between", "Operand", "PlainTensor", "Value", "fact_of"]


def fact_of(fact: str, text: str) -> str:
    return f"{fact}_of({text})"


class Operand:
    """An argument that may be any tensor, or none."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def edge_lines(self, at: int, certain: bool) -> list[str]:
        """`edge(x)` written out for the common cases: a fresh result, a bare leaf."""
        x = self.text
        return [
            f"if isinstance({x}, Tensor):",
            f"    n{at} = {x}._output_nr",
            f"    if {x}._view is not None: e{at} = edge({x})",
            "    else:",
            f"        e{at} = {x}._node",
            f"        if e{at} is None and {x}._requires_grad:",
            f"            e{at} = {x} if {x}._autograd is None else edge({x})",
            "else:",
            f"    e{at} = None",
            f"    n{at} = 0",
        ]

    def saved_text(self, node: str) -> str:
        """`pack` written out for the common case: nothing was ever written to the tensor."""
        x = self.text
        return (
            f"({x} if type({x}) is Tensor and {x}._counter is None "
            f"and {x}._unusual is None and not PROCESS.special else pack({x}, {node}))"
        )

    def fact_text(self, fact: str) -> str:
        x = self.text
        if fact == "shape":
            ordinary = f"type({x}) is Tensor and {x}._unusual is None"
            return f"({x}._array.shape if {ordinary} else shape_of({x}))"
        return fact_of(fact, x)


class Value(Operand):
    """An argument that is no tensor."""

    __slots__ = ()

    def edge_lines(self, at: int, certain: bool) -> list[str]:
        return [f"e{at} = None", f"n{at} = 0"]

    def saved_text(self, node: str) -> str:
        return self.text

    def fact_text(self, fact: str) -> str:
        return fact_of(fact, self.text)


class PlainTensor(Operand):
    """A tensor of a plain class whose values are exactly its array's."""

    __slots__ = ()

    def edge_lines(self, at: int, certain: bool) -> list[str]:
        """`certain` where the tensor is known to require grad."""
        x = self.text
        wanted = "" if certain else f" and {x}._requires_grad"
        fresh = f"{x}._autograd is None or {x}._autograd.accumulator is None"
        return [
            f"n{at} = {x}._output_nr",
            f"e{at} = {x}._node",
            f"if {x}._view is not None: e{at} = edge({x})",
            f"elif e{at} is None{wanted}:",
            f"    e{at} = {x} if {fresh} else edge({x})",
        ]

    def saved_text(self, node: str) -> str:
        x = self.text
        return f"({x} if {x}._counter is None and not PROCESS.special else pack({x}, {node}))"

    def fact_text(self, fact: str) -> str:
        texts = {"shape": "._array.shape", "byte_strides": "._array.strides", "dtype": "._dtype"}
        return self.text + texts[fact] if fact in texts else fact_of(fact, self.text)


class Between(PlainTensor):
    """A view inside a composite: the graph knows its node and array, and the tensor itself is made
    only for a node that keeps it."""

    __slots__ = ("array", "node", "source")

    def __init__(self, source: str, array: str, node: str) -> None:
        super().__init__(f"view_between({source}, {array}, {node})")
        self.source, self.array, self.node = source, array, node

    def edge_lines(self, at: int, certain: bool) -> list[str]:
        return [f"e{at} = {self.node}", f"n{at} = 0"]

    def saved_text(self, node: str) -> str:
        return f"pack({self.text}, {node})"

    def fact_text(self, fact: str) -> str:
        texts = {
            "shape": f"{self.array}.shape",
            "byte_strides": f"{self.array}.strides",
            "dtype": f"{self.source}._dtype",
        }
        return texts[fact] if fact in texts else fact_of(fact, self.text)
