"""Tensors without values: files say what they are like, and programs get fakes for them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

from rushlight.base.pytree import tree_map
from rushlight.core.fake import FakeTensor
from rushlight.core.parameter import Parameter
from rushlight.export.serde.schema import Record, checked, parse_json, refuse
from rushlight.export.serde.writing import written_tensor
from rushlight.io.checkpoint import Rebuilt, listed, named, save
from rushlight.io.opening import open_source
from rushlight.io.walker import Inert

__all__ = ["Absent", "pickled", "present", "unpickled"]

HOME, NAME = "torch._export.serde.serialize", "_reconstruct_fake_tensor"
MOST_DEPTH = 100


class Absent:
    """Stands for a tensor that a file has no values of."""

    def __init__(self, meta: Record, is_parameter: bool) -> None:
        self.meta = meta
        self.is_parameter = is_parameter


def described(value: Any) -> Any:
    """What is written for a value: torch's call that makes a fake, for fakes."""
    if not isinstance(value, FakeTensor):
        return value
    data = json.dumps(written_tensor(value)).encode()
    return Rebuilt(named(HOME, NAME), (data, isinstance(value, Parameter)))


def pickled(value: Any, protocol: int) -> bytes:
    """A checkpoint of tensors in containers."""
    file = io.BytesIO()
    save(tree_map(described, value), file, pickle_protocol=protocol)
    return file.getvalue()


def unpickled(data: bytes) -> tuple[Any, str]:
    """(what a checkpoint holds, the names in it that are not known)."""
    found, inert = open_source(io.BytesIO(data), None).load("utf-8")
    unknown = inert - {f"{HOME}.{NAME}"}
    if unknown:
        return None, listed(unknown)
    return (resolved(found, 0) if inert else found), ""


def resolved(value: Any, depth: int) -> Any:
    """A value with records of fakes in place of the calls that make them."""
    if depth > MOST_DEPTH:
        raise refuse("its values are nested too deeply")
    if isinstance(value, Inert):
        args = value.args
        if type(args) is not tuple or len(args) != 2 or type(args[0]) is not bytes:
            raise refuse("a tensor without values is described in an unknown way")
        return Absent(checked(parse_json(args[0], "description"), "TensorMeta"), bool(args[1]))
    if isinstance(value, dict):
        for key in value:
            value[key] = resolved(value[key], depth + 1)
    elif type(value) is list:
        value[:] = [resolved(each, depth + 1) for each in value]
    elif type(value) is tuple:
        return tuple([resolved(each, depth + 1) for each in value])
    return value


def present(value: Any, tensor: Callable[[Record], Any]) -> Any:
    """A value with fakes, which `tensor` makes, for those that are absent."""
    if not isinstance(value, Absent):
        return value
    made = tensor(value.meta)
    return Parameter(made, requires_grad=value.meta.requires_grad) if value.is_parameter else made
