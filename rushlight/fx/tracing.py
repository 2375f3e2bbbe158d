"""Symbolic tracing: a module's forward is run once on proxies, and what it does is the graph.

While it runs, calls of modules and reads of their parameters are intercepted on the class `Module`;
functions named with `wrap` are replaced in the namespaces where they are looked up.
"""

from __future__ import annotations

import builtins
import copy
import inspect
import math
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import FunctionType
from typing import Any

from rushlight.base import pytree
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from rushlight.graph.graph import Graph
from rushlight.graph.node import map_aggregate
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.nn.containers import Sequential
from rushlight.nn.module import Module
from rushlight.opset.other.asserts import _assert

__all__ = [
    "PH",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_is_fx_tracing_flag = False
PROXYABLE_CLASSES: dict[type, None] = {}
# (id of a namespace, name) -> the namespace where `wrap` found it.
WRAPPED_FUNCTIONS: dict[tuple[int, str], dict[str, Any]] = {}
# (class, name) of methods whose calls are recorded.
WRAPPED_METHODS: list[tuple[type, str]] = []


def is_fx_tracing() -> bool:
    """Whether a symbolic trace is running."""
    return _is_fx_tracing_flag


class ProxyableClassMeta(type):
    """A metaclass: instances made from proxies while tracing become nodes."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        PROXYABLE_CLASSES[cls] = None
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        found = find_proxy(args, kwargs) if is_fx_tracing() else None
        if found is not None:
            return found.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """An argument of `concrete_args` that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` whose attributes go to the placeholder's node."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def copy_attributes(source: Any, node: Any) -> None:
    """Give a node the data of a `PH`, under names that it has nothing under."""
    for name in dir(source):
        value = getattr(source, name)
        if not name.startswith("__") and not callable(value) and not hasattr(node, name):
            setattr(node, name, value)


def find_proxy(*values: Any) -> Proxy | None:
    found: list[Proxy] = []

    def note(value: Any) -> Any:
        if isinstance(value, Proxy):
            found.append(value)
        return value

    map_aggregate(values, note)
    return found[-1] if found else None


def assert_is_none(value: Any, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)


# -- replacing functions while tracing ------------------------------------------------------------


class Patcher:
    """Replaces entries of namespaces and classes, and puts them back."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.visited: set[int] = set()

    def patch(self, namespace: dict[str, Any], name: str, function: Any) -> None:
        """Replace a name; one that is only a built-in is added."""
        if name not in namespace:
            self.undo.append(lambda: namespace.pop(name, None) and None)
        elif getattr(namespace[name], "patched_for_tracing", False):
            return
        else:
            former = namespace[name]
            self.undo.append(lambda: namespace.__setitem__(name, former))
        function.patched_for_tracing = True
        namespace[name] = function

    def patch_method(self, cls: type, name: str, function: Any) -> None:
        former = getattr(cls, name)
        self.undo.append(lambda: setattr(cls, name, former))
        setattr(cls, name, function)

    def autowrap(self, namespace: dict[str, Any], function_ids: set[int]) -> None:
        """Replace the functions with these ids in a namespace, once."""
        if id(namespace) in self.visited:
            return
        self.visited.add(id(namespace))
        for name, value in list(namespace.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                self.patch(namespace, name, recorded(value))

    def revert(self) -> None:
        while self.undo:
            self.undo.pop()()


def recorded(function: Callable[..., Any]) -> Any:
    """A stand-in for `function` that becomes a node when it is given a proxy."""

    @wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        found = find_proxy(args, kwargs)
        if found is None:
            return function(*args, **kwargs)
        result = found.tracer.create_proxy("call_function", function, args, kwargs)
        result.node.meta["is_wrapped"] = True
        return result

    return record


def recorded_method(cls: type, name: str) -> Any:
    """A stand-in for a method of a class that becomes a node when it is given a proxy."""
    method = getattr(cls, name)

    @wraps(method)
    def record(*args: Any, **kwargs: Any) -> Any:
        found = find_proxy(args, kwargs)
        if found is None:
            return method(*args, **kwargs)
        return found.tracer.create_proxy("call_method", name, args, kwargs)

    return record


def wrap(fn_or_name: Any) -> Any:
    """Let calls of a global function be recorded instead of traced through.

    Call it at module level with the function or its name, or use it as a decorator.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        # torch: the words.
        raise NotImplementedError("wrap must be called at the top level of a module")
    WRAPPED_FUNCTIONS[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


# -- the tracer ----------------------------------------------------------------------------------


class Tracer(TracerBase):
    """Traces modules and functions; override its methods to change what becomes a node."""

    def __init__(
        self,
        autowrap_modules: Iterable[Any] = (math,),
        autowrap_functions: Iterable[Callable[..., Any]] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(value)
            for module in self._autowrap_search
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self.root_module_name = ""
        self.root: Any = None
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs: dict[Any, str] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        # torch: a plain Tracer, whatever the class. Modules to search in are not to be copied.
        made = Tracer.__new__(Tracer)
        memo[id(self)] = made
        for name, value in vars(self).items():
            copied = list(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
            setattr(made, name, copied)
        return made

    # -- what may be overridden -------------------------------------------------------------------

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Whether a module stays one call; by default those of `nn` do, containers do not."""
        module = type(m).__module__
        standard = module.startswith(("torch.nn", "rushlight.nn"))
        return standard and not isinstance(m, (Sequential, GraphModule))

    def path_of_module(self, mod: Any) -> str:
        """The dotted path of a module below the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self,
        m: Any,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What a call of a submodule becomes: a node for a leaf, what it does otherwise."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem(last=True)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What the traced program sees for an attribute of a module."""
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        for name, value in members:
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self.member_proxy(name, attr_val)
                return parameter_proxy_cache[name]
        return attr_val

    def member_proxy(self, name: str, value: Any) -> Proxy:
        if not self.param_shapes_constant:
            return self.create_proxy("get_attr", name, (), {})
        return self.create_proxy(
            "get_attr",
            name,
            (),
            {},
            proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value),
        )

    def create_arg(self, a: Any) -> Any:
        """A value as a node may hold it; tensors and modules become reads of the root."""
        if isinstance(a, (Tensor, Module)):
            name = self.member_name(a)
            if name is None and isinstance(a, Parameter):
                raise NameError("parameter is not a member of this module")
            if name is not None:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), items, {})
        if isinstance(a, Tensor):
            name = self.tensor_attrs.get(a)
            if name is None:
                name = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = name
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if type(a) in PROXYABLE_CLASSES:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def member_name(self, value: Any) -> str | None:
        """The path of a parameter, buffer or module of the root."""
        if isinstance(value, Parameter):
            members = self.root.named_parameters()
        elif isinstance(value, Tensor):
            members = self.root.named_buffers()
        else:
            members = self.root.named_modules()
        return next((name for name, member in members if member is value), None)

    def get_fresh_qualname(self, prefix: str) -> str:
        """An attribute name that the root does not have yet."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # -- inputs -----------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Placeholders for the parameters of the function; returns what to call, and with what."""
        function = inspect.unwrap(root_fn)
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        args: list[Any] = []
        if is_module:
            if count == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            args.append(self.root)
        inputs = names[len(args) : count]
        if isinstance(concrete_args, tuple):
            if not inputs and code.co_flags & inspect.CO_VARARGS:
                return root_fn, args + self.variable_inputs(concrete_args)
            if len(inputs) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(inputs)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(inputs, concrete_args))
        signature = inspect.signature(function)

        def placeholder(name: str) -> Any:
            return self._proxy_placeholder(name, concrete_args, signature, function)

        args += [placeholder(name) for name in inputs]
        if code.co_kwonlyargcount or code.co_flags & STARRED:
            starred = iter(names[count:])
            if code.co_flags & inspect.CO_VARARGS:
                args.append(placeholder(f"*{next(starred)}"))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(placeholder(f"**{next(starred)}"))
            root_fn = with_plain_parameters(root_fn, len(args))
        leaves, in_spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        self.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names[:count], in_spec, None)))

        def flattened(*values: Any) -> Any:
            result = root_fn(*pytree.tree_unflatten(list(values), in_spec))
            flat, out_spec = pytree.tree_flatten(result)
            codegen: Any = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return flat

        return flattened, leaves

    def variable_inputs(self, concrete: tuple[Any, ...]) -> list[Any]:
        """What is given for `*args` alone: an input for each entry."""
        found: list[Any] = []
        for place, value in enumerate(concrete):
            made = self.create_proxy("placeholder", f"input_{place}", (), {})
            if isinstance(value, PHBase):
                found.append(made)
            else:
                self.check_specialized(f"input_{place}", made, value)
                found.append(value)
        return found

    def _proxy_placeholder(
        self, name: str, concrete_args: Any, signature: Any, function: Any
    ) -> Any:
        default: tuple[Any, ...] = ()
        if name[0] != "*":
            given = signature.parameters[name].default
            default = () if given is inspect.Parameter.empty else (given,)
        if concrete_args is None or name not in concrete_args:
            kind = function.__annotations__.get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def specialize(value: Any) -> Any:
            nonlocal count
            count += 1
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                copy_attributes(value, made.node)
                return made
            self.check_specialized(name, made, value)
            return value

        return pytree.tree_map(specialize, concrete_args[name])

    def check_specialized(self, name: str, made: Proxy, value: Any) -> None:
        """Let the graph check that an input has the value it was specialized to."""
        if value is None:
            text = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", assert_is_none, (made, text), {})
        elif isinstance(value, (str, int, float, bool, complex)):
            text = f"{name} has been specialized to have value {value} but got another value"
            agrees: Any = made == value  # type: ignore[comparison-overlap]
            self.create_proxy("call_function", _assert, (agrees, text), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs you "
                "specialized the function with.",
                stacklevel=2,
            )

    # -- tracing ----------------------------------------------------------------------------------

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        is_module = isinstance(root, Module)
        if is_module:
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Tensor):
                    self.tensor_attrs[value] = f"{path}.{name}" if path else name
        namespace = function.__globals__
        called, args = self.create_args_for_root(function, is_module, concrete_args)
        kind = None
        if not isinstance(self.graph._codegen, _PyTreeCodeGen):
            kind = inspect.get_annotations(inspect.unwrap(called)).get("return")
        with self.intercepted(namespace):
            result = self.create_arg(called(*args))
            self.create_node("output", "output", (result,), {}, type_expr=kind)
        self.submodule_paths = None
        return self.graph

    @contextmanager
    def intercepted(self, namespace: dict[str, Any]) -> Iterator[None]:
        """Within it, module calls, parameter reads and wrapped functions come to this tracer."""
        global _is_fx_tracing_flag
        patcher = Patcher()
        read: Any = Module.__getattr__
        call: Any = Module.__call__
        proxies: dict[str, Proxy] = {}

        def traced_getattr(module: Any, name: str) -> Any:
            return self.getattr(name, read(module, name), proxies)

        def traced_call(module: Any, *args: Any, **kwargs: Any) -> Any:
            forward = getattr(module, "forward", module)
            patcher.autowrap(getattr(forward, "__globals__", {}), self._autowrap_function_ids)
            return self.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)

        former, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            patcher.patch_method(Module, "__getattr__", traced_getattr)
            patcher.patch_method(Module, "__call__", traced_call)
            for (_, name), place in list(WRAPPED_FUNCTIONS.items()):
                function: Any = place.get(name, getattr(builtins, name, None))
                patcher.patch(place, name, recorded(function))
            patcher.autowrap(namespace, self._autowrap_function_ids)
            for module in self._autowrap_search:
                patcher.autowrap(vars(module), self._autowrap_function_ids)
            for cls, name in WRAPPED_METHODS:
                patcher.patch_method(cls, name, recorded_method(cls, name))
            yield
        finally:
            patcher.revert()
            _is_fx_tracing_flag = former


def with_plain_parameters(function: Any, count: int) -> FunctionType:
    """The function with `*args`, `**kwargs` and keyword-only parameters as positional ones."""
    code = function.__code__
    code = code.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~STARRED,
    )
    return FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """Trace a module or function into a GraphModule."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
