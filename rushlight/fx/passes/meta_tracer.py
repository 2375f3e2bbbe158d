"""A tracer that knows sizes and dtypes: beside each proxy it keeps a tensor on the meta device, so
that programs may ask for shapes while they are traced."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.proxy import Proxy
from rushlight.fx.tracing import Tracer
from rushlight.graph.node import map_aggregate
from rushlight.nn import functional as F
from rushlight.nn.activation import ReLU
from rushlight.nn.embedding import Embedding
from rushlight.nn.module import Module
from rushlight.nn.norm import LayerNorm
from rushlight.opset import functions

__all__ = [
    "MetaAttribute", "MetaDeviceAttribute", "MetaProxy", "MetaTracer", "embedding_override",
    "functional_relu_override", "gen_constructor_wrapper", "manual_meta_overrides",
    "nn_layernorm_override", "proxys_to_metas", "symbolic_trace", "torch_abs_override",
    "torch_nn_relu_override", "torch_relu_override", "torch_where_override",
]  # fmt: skip

# Constructors that take a proxy's size, and their module.
CONSTRUCTORS = ("arange", "zeros", "ones", "full_like", "eye")
ROOT = sys.modules["rushlight"]


# -- what ops give of meta tensors, without running them -------------------------------------------


def embedding_override(self: Any, input: Any) -> Any:
    return functions.empty((*input.shape, self.weight.shape[-1]), device="meta")


def nn_layernorm_override(self: Any, input: Any) -> Any:
    return input


def torch_relu_override(x: Any) -> Any:
    return x


def torch_nn_relu_override(self: Any, x: Any) -> Any:
    return x


def functional_relu_override(x: Any, inplace: bool = False) -> Any:
    if inplace:
        raise AssertionError("don't support inplace functional.relu for metatensor analysis")
    return x


def torch_where_override(condition: Any, x: Any, y: Any) -> Any:
    # torch: the sum has the sizes and the dtype that all three have together.
    return condition.to(device="meta") + x.to(device="meta") + y.to(device="meta")


def torch_abs_override(input: Any, *, out: Any = None) -> Any:
    if out is not None:
        raise AssertionError("Don't support in-place abs for MetaTensor analysis")
    return input


manual_meta_overrides: dict[Any, Callable[..., Any]] = {
    Embedding: embedding_override,
    LayerNorm: nn_layernorm_override,
    functions.relu: torch_relu_override,
    F.relu: functional_relu_override,
    ReLU: torch_nn_relu_override,
    functions.where: torch_where_override,
    functions.abs: torch_abs_override,
}


def gen_constructor_wrapper(target: Any) -> tuple[Callable[..., Any], Any]:
    """A form of a function that is recorded where it is given a proxy; and the function."""

    @functools.wraps(target)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        found: list[Any] = []

        def look(value: Any) -> Any:
            if isinstance(value, Proxy):
                found.append(value)
            return value

        map_aggregate((args, kwargs), look)
        if not found:
            return target(*args, **kwargs)
        return found[-1].tracer.create_proxy("call_function", target, args, kwargs)

    return wrapper, target


# -- proxies ---------------------------------------------------------------------------------------


class MetaProxy(Proxy):
    """A proxy that may know a meta tensor, and then answers what that knows."""

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        self.__dict__["_tensor_meta"] = tensor_meta

    def _known(self) -> Any:
        return self.__dict__.get("_tensor_meta")

    def size(self, dim: int | None = None) -> Any:
        known, given = self._known(), () if dim is None else (dim,)
        if known is not None:
            return known.size(*given)
        return self.tracer.create_proxy("call_method", "size", (self, *given), {})

    def dim(self) -> Any:
        known = self._known()
        if known is not None:
            return known.dim()
        return self.tracer.create_proxy("call_method", "dim", (self,), {})

    def _asked(self, name: str) -> Any:
        known = self._known()
        if known is not None:
            return getattr(known, name)
        return self.tracer.create_proxy("call_function", getattr, (self, name), {})

    @property
    def shape(self) -> Any:
        return self._asked("shape")

    @property
    def dtype(self) -> Any:
        return self._asked("dtype")

    @property
    def device(self) -> Any:
        """Stays a question: where the program runs it is another device than "meta"."""
        return MetaDeviceAttribute(self, "device")

    def __getattr__(self, k: str) -> Any:
        if k == "_tensor_meta":
            raise AttributeError(k)
        return MetaAttribute(self, k)


class MetaAttribute(MetaProxy):
    """An attribute of a proxy: recorded when it is used, as a method where it is called."""

    def __init__(self, root: Any, attr: str) -> None:
        self.__dict__.update(root=root, attr=attr, tracer=root.tracer, _node=None)

    @property
    def node(self) -> Any:  # type: ignore[override]
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self.__dict__["_node"] = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class MetaDeviceAttribute(MetaAttribute):
    """The device of a proxy: "meta" wherever results are foreseen."""


def proxys_to_metas(v: Any) -> Any:
    """What stands for a proxy where results are foreseen."""
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if not isinstance(v, Proxy):
        return v
    if not isinstance(v, MetaProxy):
        raise AssertionError(f"Expected MetaProxy but got {type(v)}")
    if v._known() is None:
        raise AssertionError("MetaProxy does not have an associated meta")
    return v._known()


class MetaTracer(Tracer):
    """Traces with `meta_args`, the meta tensors of inputs by name."""

    allow_insert_stateless_mods = True
    _TORCH_METHODS_TO_PATCH = list(CONSTRUCTORS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.meta_args: dict[str, Any] = {}
        self.orig_fns: set[Any] = set()
        self.foreseeing = 0

    def proxy(self, node: Any) -> Any:
        return MetaProxy(node, self)

    @contextmanager
    def foresight(self) -> Iterator[None]:
        """Within it, attributes of modules are themselves and nothing is recorded."""
        self.foreseeing += 1
        try:
            yield
        finally:
            self.foreseeing -= 1

    def create_proxy(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: Any = None,
        type_expr: Any = None, proxy_factory_fn: Any = None,
    ) -> Any:  # fmt: skip
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder":
            if target in self.meta_args:
                made.install_tensor_meta(self.meta_args[target])
            return made
        try:
            found = self.foreseen(kind, target, args, dict(kwargs))
        except Exception as failure:
            warnings.warn(
                f"Could not compute metadata for {kind} target {target}: {failure}", stacklevel=2
            )
            return made
        if kind != "output":
            made.install_tensor_meta(found)
        return made

    def foreseen(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "output":
            return None
        if target in self.orig_fns and "device" in kwargs:
            kwargs["device"] = "meta"
        args, kwargs = map_aggregate((args, kwargs), proxys_to_metas)
        if kind == "call_function":
            return manual_meta_overrides.get(target, target)(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        with self.foresight():
            if kind == "get_attr":
                value = functools.reduce(getattr, target.split("."), self.root)
                return value.to(device="meta")
            module = self.root.get_submodule(target)
            known = manual_meta_overrides.get(type(module))
            if known is not None:
                return known(module, *args, **kwargs)
            return self.orig_forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: Any) -> Any:
        if self.foreseeing:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(self, m: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        self.orig_forward = forward
        return super().call_module(m, forward, args, kwargs)

    def path_of_module(self, mod: Any) -> str:
        """The module's path; one without state that no module holds is added to the root."""
        try:
            return super().path_of_module(mod)
        except NameError:
            if not self.allow_insert_stateless_mods or mod.state_dict():
                raise
        stem, number = type(mod).__name__.lower(), 0
        while hasattr(self.root, f"{stem}_{number}"):
            number += 1
        self.root.add_module(f"{stem}_{number}", mod)
        return f"{stem}_{number}"

    def trace(self, root: Any, meta_args: Any, concrete_args: Any = None) -> Any:  # type: ignore[override]
        if not isinstance(meta_args, dict):
            raise AssertionError(f"Expected dict for meta_args, got {type(meta_args)}")
        self.meta_args = meta_args
        originals = {name: getattr(ROOT, name) for name in self._TORCH_METHODS_TO_PATCH}
        self.orig_fns = set(originals.values())
        for name, original in originals.items():
            setattr(ROOT, name, gen_constructor_wrapper(original)[0])
        try:
            graph = super().trace(root, concrete_args)
        finally:
            for name, original in originals.items():
                setattr(ROOT, name, original)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def symbolic_trace(root: Any, meta_args: Any = None, concrete_args: Any = None) -> GraphModule:
    """A graph module of `root`, traced with meta tensors for its inputs."""
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
