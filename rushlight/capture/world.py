"""What capture asks of a tensor library. This one has no tensors: every answer is "no"."""

from __future__ import annotations

import types
from contextlib import nullcontext
from typing import Any

from rushlight.capture.outcomes import Break, Specialize
from rushlight.capture.sources import Source
from rushlight.capture.values import Bound, Obj, Opaque, Tensor, Var

__all__ = ["World"]


class World:
    # Whether what only data tell may be part of a graph: a number of a tensor; the size of a mask's
    # result. A break is cheaper, where one is allowed.
    captures_numbers = False
    captures_sizes = False
    # Modules whose names begin so are the library: what they hold is taken as fixed.
    library: tuple[str, ...] = ()

    # -- kinds of values ---------------------------------------------------------------------------

    def is_tensor(self, value: Any) -> bool:
        return False

    def is_const(self, value: Any) -> bool:
        """Whether a value of the library is compared like a number."""
        return False

    def const_arg(self, value: Any) -> Any:
        """A constant as an argument in a graph."""
        return value

    def is_op(self, function: Any) -> bool:
        """Whether a call of it is a node of the graph."""
        return False

    def is_operator(self, value: Any) -> bool:
        """Whether an object is one of the library's operators: others are of the same class."""
        return False

    def is_module(self, value: Any) -> bool:
        return False

    def is_disabled(self, function: Any) -> bool:
        return getattr(function, "_capture_disable", False) is True

    def is_library(self, value: Any) -> bool:
        if not self.library:
            return False
        if isinstance(value, types.FunctionType):
            # Not `__module__`, which wrappers copy from what they wrap.
            return self.is_library_namespace(value.__globals__)
        module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        return isinstance(module, str) and module.startswith(self.library)

    def is_entered(self, function: types.FunctionType) -> bool:
        """Whether a function that is called behind a break is compiled by itself."""
        return not self.is_library(function)

    def is_library_namespace(self, namespace: dict[str, Any]) -> bool:
        return bool(self.library) and namespace.get("__name__", "").startswith(self.library)

    def writes(self, target: Any, name: str) -> bool:
        """Whether a call writes to its arguments, though its name does not say so."""
        return False

    def draws(self, target: Any, name: str) -> bool:
        """Whether a call draws random numbers."""
        return False

    def may_raise(self, target: Any, name: str, given: list[Any]) -> bool:
        """Whether a call may raise for some values, whatever guards say of their kinds."""
        return False

    def versions(self, examples: Any) -> Any:
        """Something that changes when one of the examples is written to."""
        return None

    def random_state(self) -> Any:
        return None

    def restore_random(self, new_state: Any) -> None:
        """Go back to a state of the random numbers."""

    def sharing(self, *tensors: Any) -> Any:
        """Which tensors lie in the memory of which."""
        return None

    # -- tensors and numbers -----------------------------------------------------------------------

    def example(self, value: Any, source: Source, tracer: Any) -> Any:
        return value

    def obstacle(self) -> str | None:
        """Why nothing can be captured now."""
        return None

    def unwatched(self) -> Any:
        """A context for capture's own work, which nobody who watches calls is told of."""
        return nullcontext()

    def number(self, value: Any, source: Source) -> Any:
        """The example of a number that is not to be a constant."""
        return value

    def float(self, value: float) -> Any:
        """The example of a float that is not to be a constant."""
        return value

    def may_be_dynamic(self, expected: Any, value: Any) -> bool:
        """Whether a number that changed from one to the other is a constant no more."""
        return type(value) in (int, float) and value != expected

    def decide(self, example: Any) -> Any:
        """The value of a number, with whatever guard makes that right."""
        raise Specialize

    def hint(self, example: Any) -> Any:
        """What a known number is now."""
        return example

    def may_raise_later(self, example: Any) -> bool:
        """Whether arithmetic on a number must happen now, for the user's handlers to see it."""
        return True

    def is_known(self, example: Any) -> bool:
        """Whether the value of a number can be decided."""
        return True

    def tensor_type(self, tensor: Tensor) -> type:
        return type(tensor.example)

    def is_instance(self, tensor: Tensor, kinds: Any) -> bool:
        return issubclass(self.tensor_type(tensor), kinds)

    def tensor_facts(self, value: Any, example: Any) -> Any:
        """What a guard of a tensor tests; it does not keep the tensor."""
        return type(value)

    def tensor_guard(self, text: str, facts: Any, names: Any) -> str:
        """The test that fails for a tensor of other facts."""
        return f"type({text}) is not {names.constant(facts)}"

    def kept_guard(self, text: str, facts: Any, names: Any) -> tuple[str, str, str] | None:
        """Of a tensor that has the same array at most calls: the text that reads the array, the
        test of what may change while it has it, and the test of the rest. None for others."""
        return None

    def changed_sizes(self, facts: Any, value: Any) -> list[int]:
        """The dims in which a tensor differs, where it differs in sizes only."""
        return []

    def run(self, op: str, target: Any, args: Any, kwargs: Any, modes: dict[str, Any]) -> Any:
        """The example of a call's result, from examples of its arguments."""
        if op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)

    def tensor_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        return Bound(tensor, name)

    def write_tensor(self, tracer: Any, tensor: Tensor, name: str, value: Any) -> None:
        """Give a tensor an attribute."""
        raise Break("set attribute of a tensor")

    def tensor_method(
        self, tracer: Any, tensor: Tensor, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        return tracer.record("call_method", name, [tensor, *args], kwargs)

    def opaque_method(
        self, tracer: Any, v: Opaque, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        raise Break(f"{v.kind.__name__}.{name}")

    def opaque_attr(self, tracer: Any, v: Opaque, name: str) -> Any:
        return Bound(v, name)

    def opaque_binary(self, tracer: Any, f: Any, a: Any, b: Any) -> Any:
        raise Break(f"{f.__name__} of an object that the graph gives")

    def opaque_unary(self, tracer: Any, f: Any, v: Opaque) -> Any:
        raise Break(f"{f.__name__} of a {v.kind.__name__}")

    def opaque_store(self, tracer: Any, v: Opaque, key: Any, value: Any) -> None:
        raise Break(f"store into a {v.kind.__name__}")

    def opaque_items(self, tracer: Any, v: Opaque) -> list[Any]:
        raise Break(f"iterate over a {v.kind.__name__}")

    def wrap_opaque(self, tracer: Any, value: Any, source: Source) -> Any:
        """The variable of an object that stands in graphs as it is, or None."""
        return None

    def number_of(self, tracer: Any, tensor: Tensor, kind: type) -> Any:
        """`int`, `float` or `bool` of a tensor."""
        raise Break(f"{kind.__name__} of a tensor")

    def asserted(self, tracer: Any, tensor: Tensor, message: str) -> bool:
        """Whether a node was added that raises where a tensor is not true."""
        return False

    def unbind(self, tracer: Any, tensor: Tensor) -> list[Any]:
        raise Break("iterate over a tensor")

    def length(self, tracer: Any, tensor: Tensor) -> Var:
        raise Break("length of a tensor")

    def overridden(
        self, tracer: Any, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """The result of a call that a handler of the user's answers, or None."""
        return None

    def input_reader(self, v: Any) -> Any:
        """What makes an input of the graph of a value; None where it is the value itself."""
        return None

    def wrapped_result(self, v: Any, text: str, names: Any) -> str | None:
        """The text that makes a value of the program of a graph's result, where that is not it."""
        return None

    def refuse_open(self) -> None:
        """Raise NeedBreak where generated code cannot end in the state that capture is in."""

    # -- modes -------------------------------------------------------------------------------------

    # Calls of these in a graph only switch modes.
    switches: frozenset[Any] = frozenset()

    def modes(self) -> dict[str, Any]:
        """States that graphs may switch; "grad" says whether gradients are recorded."""
        return {"grad": True}

    def write_modes(self, modes: dict[str, Any]) -> None:
        """Bring the thread into a state."""

    def set_grad(self, value: bool) -> None:
        """Switch recording of gradients, when a graph runs."""

    def balance(self, t: Any) -> None:
        """Let a graph end in the modes it began in."""

    def reopen(self, manager: Any, before: Any) -> None:
        """Note a context as entered."""

    def global_guard(self, name: Any) -> str:
        """The test that fails when the library's global state differs from now's."""
        return "False"

    def shape_guards(self, read: Any) -> list[str]:
        """Tests that fail for other sizes, beyond those of each tensor; `read` gives texts."""
        return []

    # -- calls and attributes with a meaning of their own ------------------------------------------

    def special(self, tracer: Any, f: Obj, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a call that the world knows, or None."""
        return None

    def call_transformed(self, tracer: Any, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def module_attr(self, tracer: Any, module: Obj, name: str) -> Any:
        return None

    def module_items(self, tracer: Any, module: Obj) -> list[Any] | None:
        return None

    def module_slice(self, tracer: Any, module: Obj, part: slice) -> Any:
        """Some of the items of a module, or None."""
        return None

    def fields_of(self, kind: type) -> tuple[str, ...]:
        """The names of the items of a tuple that a call of the library gives."""
        return ()

    def kind_of_sum(self, a: type, b: type) -> type:
        """The class of the sum of two tuples."""
        return tuple

    def may_be_kept(self, cls: Any) -> bool:
        """Whether instances that the program makes can be made from their attributes alone."""
        return True

    def keeps_attributes(self, cls: Any) -> bool:
        """Whether a `__setattr__` of its own still makes `x.a` give what was written to it."""
        return False

    def entry_target(self, f: Any) -> tuple[Any, tuple[Any, ...]] | None:
        """The Python function that a call of a library object comes to, and its first arguments."""
        return None

    def is_fixed(self, example: Any) -> bool:
        """Whether a number that the graph gives is the same for all inputs that guards allow."""
        return False
