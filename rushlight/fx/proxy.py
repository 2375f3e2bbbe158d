"""`Proxy`: a value that records what is done with it, as nodes of a graph.

A `TracerBase` owns the graph: it makes nodes, turns arguments into what nodes may hold, and
answers the questions about values that tracing cannot answer.
"""

from __future__ import annotations

import copy
import dis
import enum
import operator
import sys
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, NoReturn

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.recording import inherit_meta
from rushlight.core.tensor import Tensor
from rushlight.fx import traceback as fx_traceback
from rushlight.fx.operator_schemas import check_for_mutable_operation
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg
from rushlight.graph.printing import magic_methods, reflectable_magic_methods
from rushlight.overrides import is_tensor_method_or_property

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

# What a node inherits from the node whose running made it.


class TraceError(ValueError):
    """Something that symbolic tracing cannot follow."""


class Scope:
    """The module that is being traced: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Makes one scope the current one for a while."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self.scope = scope
        self.former = copy.copy(scope)
        scope.__dict__.update(current_scope.__dict__)

    def __enter__(self) -> Scope:
        return self.scope

    def __exit__(self, *exception: Any) -> None:
        self.scope.__dict__.update(self.former.__dict__)


# The types of values that nodes hold as they are.
BASE_TYPES = (
    str,
    int,
    float,
    bool,
    complex,
    range,
    dtype,
    Tensor,
    device,
    memory_format,
    layout,
    enum.Enum,
    type(None),
    type(...),
)


class TracerBase:
    """Makes nodes and proxies in one graph."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node. Arguments must be what `create_arg` returns."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            inherit_meta(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            node.stack_trace = user_stack()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy for a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a node whose arguments may hold proxies; returns its proxy."""
        node = self.create_node(
            kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr
        )
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """A value as a node may hold it: proxies become their nodes."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self.dict_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, BASE_TYPES) or is_operator(a):
            return a
        if is_dataclass(a) and not isinstance(a, type):
            named = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), named)
        raise error("RL0704", NotImplementedError, type=type(a))

    def dict_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key

        def refuse(node: Node) -> NoReturn:
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
            )

        key = self.create_arg(key)
        map_arg(key, refuse)
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """Called when the program asks whether a traced value is true."""
        raise error("RL0713", TraceError)

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called when the program loops over a traced value."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Called for `**obj`: must return an iterator for that to work."""
        return Attribute(obj, "keys")()


def is_operator(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith(("torch._ops", "torch.ops"))


def user_stack() -> str | None:
    """The frames of the traced program, from its first `forward`; of whoever traces it, outside."""
    import traceback

    frames = traceback.extract_stack()
    start = next((i for i, frame in enumerate(frames) if frame.name == "forward"), None)
    own = PACKAGE if start is None else TRACING
    theirs = [frame for frame in frames[start or 0 :] if not frame.filename.startswith(own)]
    return "".join(traceback.format_list(theirs)).strip() or None


TRACING = str(Path(__file__).parent)
PACKAGE = str(Path(__file__).parents[1])


class GraphAppendingTracer(TracerBase):
    """Appends to a graph that exists."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """What a traced `assert` becomes."""
    if not x:
        raise AssertionError("Assertion failed")


def current_instruction(frame: Any) -> tuple[list[Any], int]:
    instructions = list(dis.get_instructions(frame.f_code))
    return instructions, bisect_left(instructions, frame.f_lasti, key=lambda i: i.offset)


class Proxy:
    """Stands for a node's value; what is done with it becomes nodes."""

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # Not recorded until it is used: most attributes are methods about to be called.
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = Proxy.__new__(Proxy)
        for name, value in self.__dict__.items():
            made.__dict__[name] = copy.deepcopy(value, memo)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        instructions, index = current_instruction(sys._getframe(1))
        if instructions[index].opname == "UNPACK_SEQUENCE":
            # `a, b = proxy` says how many items there are.
            count = instructions[index].argval
            return (self[i] for i in range(count))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            instructions, index = current_instruction(sys._getframe(1))
            if "JUMP" in instructions[index].opname and "TRUE" in instructions[index].opname:
                following = instructions[index + 1]
                if following.opname == "LOAD_ASSERTION_ERROR" or (
                    following.argval is AssertionError
                ):
                    self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                    return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            "recorded, please call torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: Any = None, kwargs: Any = None
    ) -> Proxy:
        args, kwargs = args or (), kwargs or {}
        found: dict[TracerBase, None] = {}
        for value in pytree.tree_leaves((args, kwargs)):
            if isinstance(value, cls):
                found[value.tracer] = None
        if len(found) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(found)} while trying to trace operations "
                f"{orig_method}"
            )
        tracer = next(iter(found))
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        name = tracer.graph._target_to_str(orig_method.__name__)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a proxy: a method call if it is called, a getattr if it is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape the traced program may branch on."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self) -> Any:
        return self.param.size()

    def dim(self) -> int:
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        return int(self.param.numel())

    def nelement(self) -> int:
        return int(self.param.nelement())


def recording(name: str, reflected: bool) -> Callable[..., Proxy]:
    """The special method that records the operator `name`."""
    target = getattr(operator, name, None)

    def record(self: Proxy, *args: Any) -> Proxy:
        given = (*args, self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", target, given, {})

    record.__name__ = name
    return record


for _name in magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__{_name.strip('_')}__", recording(_name, reflected=False))
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        setattr(Proxy, f"__r{_name.strip('_')}__", recording(_name, reflected=True))
