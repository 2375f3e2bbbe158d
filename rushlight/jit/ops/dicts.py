"""Operators on dicts. Keys that are tensors are known by identity, as Python knows them."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ops.texts import value_text

KEYS = ("str", "int", "bool", "float", "complex", "Tensor")


def for_keys(schema: str) -> list[str]:
    """A schema once for every type of keys, `K`."""
    return [schema.replace("K", key) for key in KEYS]


graph_text("len({0})", *for_keys("aten::len.Dict_K(Dict(K, t) self) -> int"))
graph_text("[*{0}]", *for_keys("aten::keys.K(Dict(K, t) self) -> K[](*)"))
graph_text("[*{0}.values()]", *for_keys("aten::values.K(Dict(K, t) self) -> t[](*)"))
graph_text("[*{0}.items()]", *for_keys("aten::items.K(Dict(K, t) self) -> ((K, t)[])"))
graph_text("{1} in {0}", *for_keys("aten::__contains__.K(Dict(K, t) dict, K key) -> bool"))
graph_text("{0}.get({1})", *for_keys("aten::get.K(Dict(K, t) self, K key) -> t(*)?"))
graph_text(
    "{0}.get({1}, {2})",
    *for_keys("aten::get.default_K(Dict(K, t) self, K key, t default_value) -> t(*)"),
)
graph_text(
    "{0}.setdefault({1}, {2})",
    *for_keys(
        "aten::setdefault.K(Dict(K, t)(a!) self, K(b -> *) key, t(c -> *) default_value) -> t(*)"
    ),
)
graph_text("{0}.clear()", *for_keys("aten::clear.K(Dict(K, t)(a!) self) -> ()"))
graph_text(
    "{0}.update({1})",
    *for_keys("aten::update.K(Dict(K, t)(a!) self, Dict(K, t)(a!) to_add) -> ()"),
)
graph_text(
    "{{**{0}}}",
    *for_keys("aten::copy.Dict_K(Dict(K, t)(a) self) -> Dict(K, t)"),
    *for_keys("aten::dict.Dict_K(Dict(K, t)(a) self) -> Dict(K, t)"),
)
graph_text("dict({0})", *for_keys("aten::dict.K((K, tVal)[] inputs) -> Dict(K, tVal)"))
graph_text("{{}}", "aten::dict() -> Dict(str, Tensor)")


@graph_op(*for_keys("aten::_set_item.K(Dict(K, t)(a!) l, K(b -> *) idx, t(c -> *) v) -> ()"))
def set_item(l: dict[Any, Any], idx: Any, v: Any) -> None:
    l[idx] = v


def missing(key: Any) -> RuntimeError:
    return RuntimeError(f"KeyError: {value_text(key)}")


@graph_op(*for_keys("aten::__getitem__.Dict_K(Dict(K, t) self, K key) -> t(*)"))
def get_item(self: dict[Any, Any], key: Any) -> Any:
    try:
        return self[key]
    except KeyError:
        raise missing(key) from None


@graph_op(*for_keys("aten::Delete.Dict_K(Dict(K, t)(a!) self, K key) -> ()"))
def delete(self: dict[Any, Any], key: Any) -> None:
    pop(self, key)


@graph_op(*for_keys("aten::pop.Dict_K(Dict(K, t)(a!) self, K key) -> t(*)"))
def pop(self: dict[Any, Any], key: Any) -> Any:
    try:
        return self.pop(key)
    except KeyError:
        raise missing(key) from None


@graph_op(
    *for_keys("aten::pop.Dict_default_K(Dict(K, t)(a!) self, K key, t default_value) -> t(*)")
)
def pop_or(self: dict[Any, Any], key: Any, default_value: Any) -> Any:
    return self.pop(key, default_value)


@graph_op(*for_keys("aten::popitem.K(Dict(K, t)(a!) self) -> ((K, t))"))
def popitem(self: dict[Any, Any]) -> Any:
    if not self:
        raise RuntimeError("popitem(): dictionary is empty")
    return self.popitem()
