"""What decides the graphs of a module: the text that a cache's key is the hash of.

The graph with its constants by content, example inputs by everything but their values, what was
asked for, the state of the thread and the process, and the versions of all that takes part.
What cannot be named is refused (`Unencodable`): an incomplete key is a wrong result.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from enum import Enum
from importlib import import_module
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from rushlight.aot.encoding import Unencodable, Writer, attribute
from rushlight.aot.subclasses import flatten
from rushlight.aot.symbols import Symbols
from rushlight.base.switches import changed_switches
from rushlight.core import process
from rushlight.core.dtype import get_default_dtype
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.parameter import Parameter
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor, sizes_of, storage_of, strides_of
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.graph.printing import CodeGen
from rushlight.higher_order.effects import EFFECTS
from rushlight.nn import module
from rushlight.nn.module import Buffer, Module

__all__ = ["Fingerprint"]

# Switches that say whether to look, not what to find.
OWN_SWITCHES = ("enable_autograd_cache", "strict_autograd_cache")
# Modules whose functions do the same in every process.
STANDARD = ("builtins", "math", "operator", "_operator")
# Those of this package whose functions are made of operators, and read no state that is not told.
FUNCTIONAL = (
    "rushlight", "rushlight.opset.functions", "rushlight.opset.product.einsum",
    "rushlight.core.construct", "rushlight.functional", "rushlight.nn.functional",
    "torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special",
    "torch.functional", "torch.nn.functional",
)  # fmt: skip
# What nodes say of themselves and passes heed; the rest only tells where they come from.
HEEDED = (
    "recompute", "ac_graph_id", "has_backward_hook", "quantization_tag", "custom",
    "partitioner_tag",
)  # fmt: skip
# What graphs read of a tensor that the description of an input tells.
READABLE = (
    "shape", "dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "itemsize", "nbytes",
    "T", "mT", "H", "mH", "real", "imag", "is_cuda", "is_cpu", "is_meta", "is_sparse",
)  # fmt: skip
# Tables that are filled and emptied.
GLOBAL_HOOKS = (
    module.GLOBAL_FORWARD_HOOKS,
    module.GLOBAL_FORWARD_PRE_HOOKS,
    module.GLOBAL_BACKWARD_HOOKS,
    module.GLOBAL_BACKWARD_PRE_HOOKS,
)
# Classes of tensors that do nothing of their own.
PLAIN = (Tensor, Parameter, Buffer, FakeTensor)


class Fingerprint(Writer):
    """Describes a compilation. `constants` maps tensors that the module holds, other than
    parameters and buffers, to where they are."""

    def __init__(
        self, module: GraphModule, state: Sequence[Any], args: Sequence[Any], mode: FakeTensorMode
    ) -> None:
        env = mode.shape_env
        super().__init__(symbols=None if env is None else Symbols(env))
        self.module = module
        self.mode = mode
        self.constants: dict[int, str] = {}
        # Arguments by identity: parameters and buffers are the first ones.
        self.places: dict[int, int] = {}
        for place, value in enumerate((*state, *args)):
            self.places.setdefault(id(value), place)
        self.args = [*state, *args]

    def text(self, options: Any) -> str:
        arguments = [self.argument(value) for value in self.args]
        parts = {
            "arguments": arguments,
            "sizes": self.sizes(options.parameters),
            "graph": self.module_graph(self.module, ""),
            "options": self.options(options),
            "state": self.state(),
            "versions": versions(),
        }
        return json.dumps(parts)

    def sizes(self, parameters: int) -> Any:
        """What is known of symbolic sizes."""
        symbols = self.symbols
        if symbols is None:
            return None
        tensors: list[Tensor] = []
        for place, value in enumerate(self.args):
            parts = [part for part in flatten(value) if isinstance(part, Tensor)]
            tensors += parts
            is_static = place < parameters and all([part._base is None for part in parts])
            if not is_static and not all([isinstance(part, FakeTensor) for part in parts]):
                raise Unencodable("a tensor with values beside symbolic sizes")
        # Whether arguments overlap is found on the example.
        shares = len({id(storage_of(value)) for value in tensors}) < len(tensors)
        return [symbols.known(), symbols.hints() if shares else None]

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return self.value(value)
        return [self.places[id(value)], self.description(value)]

    def description(self, value: Tensor) -> Any:
        """All that tracing can see of a tensor, but for its elements."""
        if is_traceable_wrapper_subclass(value):
            names, context = value.__tensor_flatten__()
            inner = [self.description(getattr(value, name)) for name in names]
            return [*self.outside(value), list(names), self.value(context), inner]
        unusual = value._unusual
        if unusual is not None and unusual.parts is not None:
            raise Unencodable("a sparse tensor")
        if isinstance(value, FakeTensor):
            if value.constant is not None:
                raise Unencodable("a fake with known values")
            if value.fake_mode.shape_env is not None and value.fake_mode is not self.mode:
                raise Unencodable("fakes of several modes")
        base = value._base
        lazy = [unusual is not None and getattr(unusual, bit) for bit in ("conj", "neg", "zero")]
        return [
            *self.outside(value),
            self.value(value._offset),
            self.storage_number(value),
            self.value(storage_of(value).nbytes_),
            lazy,
            value.is_inference(),
            None if base is None else self.description(base),
        ]

    def outside(self, value: Tensor) -> Any:
        cls = type(value)
        facts = (sizes_of(value), strides_of(value), value._dtype, value.device, value.layout)
        return [
            cls.__name__ if cls in PLAIN else identity(cls),
            *[self.value(fact) for fact in facts],
            bool(value.requires_grad),
            bool(value.is_leaf),
        ]

    # -- the graph ---------------------------------------------------------------------------------

    def module_graph(self, module: GraphModule, prefix: str) -> Any:
        graph = module.graph
        if type(graph._codegen) is not CodeGen:
            raise Unencodable("a graph with a calling convention of its own")
        if hooks_of(module):
            raise Unencodable("a module with hooks")
        nodes = []
        for node in graph.nodes:
            check_call(node)
            held = None
            if node.op in ("get_attr", "call_module"):
                path = f"{prefix}{node.target}"
                held = self.held(attribute(module, str(node.target)), path)
            meta = {name: node.meta[name] for name in HEEDED if name in node.meta}
            parts = (node.name, node.op, node.target, node.args, dict(node.kwargs), meta)
            nodes.append([*[self.value(part) for part in parts], held])
        return [nodes, module.training]

    def held(self, value: Any, path: str) -> Any:
        """Something that the module has, by what it is."""
        if isinstance(value, GraphModule):
            return self.module_graph(value, f"{path}.")
        if isinstance(value, Module):
            return self.submodule(value, path)
        if isinstance(value, Tensor):
            place = self.places.get(id(value))
            return {"argument": place} if place is not None else self.constant(value, path)
        return self.value(value)

    def constant(self, value: Tensor, path: str) -> Any:
        if isinstance(value, FakeTensor) or is_traceable_wrapper_subclass(value):
            raise Unencodable("a constant without values of its own")
        self.constants[id(value)] = path
        described = self.description(value)
        if value.device.type == "meta":
            return described
        contents = hashlib.sha256(value.detach().contiguous()._array.tobytes()).hexdigest()
        return [described, contents]

    def submodule(self, module: Module, path: str) -> Any:
        cls = type(module)
        name = identity(cls)
        if not is_own(cls.__module__):
            raise Unencodable(f"a module of the class {cls.__qualname__}")
        if hooks_of(module):
            raise Unencodable("a module with hooks")
        contents = []
        for key, value in module.__dict__.items():
            if key in ("_parameters", "_buffers", "_modules"):
                held = [[n, self.held(v, f"{path}.{n}")] for n, v in value.items()]
                contents.append([key, held])
            elif key == "_non_persistent_buffers_set" or key.endswith("_hooks"):
                continue
            elif isinstance(value, (Tensor, Module)):
                contents.append([key, self.held(value, f"{path}.{key}")])
            elif not (isinstance(value, dict) and not value):
                contents.append([key, self.value(value)])
        return [name, contents]

    def other(self, value: Any) -> Any:
        if isinstance(value, OpOverloadPacket):
            return {"packet": str(value)}
        if isinstance(value, (FunctionType, BuiltinFunctionType)):
            return {"function": identity(value)}
        if isinstance(value, functools.partial):
            return {"partial": [self.value(v) for v in (value.func, value.args, value.keywords)]}
        if isinstance(value, Enum):
            return {"enum": [identity(type(value)), value.name]}
        return super().other(value)

    def named_class(self, cls: type) -> Any:
        return {"class": identity(cls)}

    def tensor(self, value: Tensor) -> Any:
        raise Unencodable("a tensor inside of another value")

    # -- what was asked for ------------------------------------------------------------------------

    def options(self, options: Any) -> Any:
        if options.dynamic:
            raise Unencodable("symbolic sizes")
        compilers = (options.fw_compiler, options.bw_compiler, options.inference_compiler)
        rules = [[self.value(op), self.function(r)] for op, r in options.decompositions.items()]
        return {
            "compilers": [compiler_name(compiler) for compiler in compilers],
            "partition": self.function(options.partition_fn),
            "decompositions": sorted(rules, key=str),
            "parameters": options.parameters,
            "keep_writes": options.keep_writes,
        }

    def function(self, value: Any) -> Any:
        return self.value(value) if isinstance(value, functools.partial) else identity(value)

    def state(self) -> Any:
        state = LOCAL.state
        refuse_modes(state, self.mode)
        caster = state.autocast
        switches = {
            module: {name: value for name, value in found.items() if name not in OWN_SWITCHES}
            for module, found in changed_switches().items()
        }
        return {
            "grad": state.grad,
            "inference": state.inference,
            "autocast": None if caster is None else [caster.dtype.name, caster.caches],
            "default_device": self.value(state.default_device),
            "excluded": state.excluded,
            "view_replay": state.view_replay,
            "default_dtype": get_default_dtype().name,
            "deterministic": process.get_deterministic_debug_mode(),
            "precision": process.get_float32_matmul_precision(),
            "threads": process.get_num_threads(),
            "effects": sorted([[op.name(), effect.name] for op, effect in EFFECTS.items()]),
            "switches": {module: found for module, found in switches.items() if found},
        }


def refuse_modes(state: Any, mode: FakeTensorMode) -> None:
    """Whoever looks at calls, or answers them, would have to see the tracing."""
    occupied = [
        name
        for name in (
            "function_modes", "dispatch_modes", "pre_modes", "pre_functional", "pre_proxy",
            "functional", "proxy", "transforms", "owner", "saved_hooks", "duals", "anomaly",
            "witness",
        )
        if getattr(state, name)
    ]  # fmt: skip
    if occupied:
        raise Unencodable(f"an active mode ({occupied[0]})")
    if any([name in HEEDED for name in state.node_meta or ()]):
        raise Unencodable("marks for the nodes that are recorded")
    active = state.fake
    if active is not None and active.shape_env is not None and active is not mode:
        raise Unencodable("fakes of several modes")
    if any(GLOBAL_HOOKS):
        raise Unencodable("hooks of all modules")
    registration = sys.modules.get("rushlight.library.registration")
    for op, _ in () if registration is None else registration.INSTALLED:
        if not is_users(op):
            raise Unencodable(f"kernels for {op.name()} that the library does not have")


def is_users(op: OpOverload) -> bool:
    return op.kind.name == "CUSTOM"


def hooks_of(module: Module) -> bool:
    return any([value for name, value in module.__dict__.items() if name.endswith("_hooks")])


def check_call(node: Node) -> None:
    """Refuse calls of what the key cannot tell."""
    target: Any = node.target
    if node.op == "call_method":
        if not hasattr(Tensor, target):
            raise Unencodable(f"a call of the method {target}, which no tensor has")
        return
    if node.op != "call_function":
        return
    if isinstance(target, OpOverload):
        refuse_users(target)
    elif isinstance(target, OpOverloadPacket):
        for name in target.overloads():
            refuse_users(getattr(target, name))
    elif isinstance(target, HigherOrderOperator):
        if not target.cacheable:
            raise Unencodable(f"a call of {target}")
    elif target is getattr:
        if node.args[1] not in READABLE:
            raise Unencodable(f"a read of {node.args[1]}")
    else:
        if getattr(target, "__module__", None) not in (*FUNCTIONAL, *STANDARD):
            raise Unencodable(f"a call of {name_of(target)}, which is no operator")


def refuse_users(op: OpOverload) -> None:
    if is_users(op):
        raise Unencodable(f"a call of {op.name()}, whose rules the library does not have")


# -- names -----------------------------------------------------------------------------------------


def name_of(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__name__))


def is_own(module: str) -> bool:
    return module.partition(".")[0] in ("rushlight", "torch")


def identity(value: Any) -> list[str]:
    """The name of a function or class, and what its file says. Only what its name finds has one."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        raise Unencodable(f"{name_of(value)}, which has no name")
    found: Any = sys.modules.get(module)
    if found is None and is_own(module):
        # Where torch means Rushlight, classes say a module that nobody need have imported.
        found = import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        raise Unencodable(f"{name}, which its name does not find")
    if is_own(module) or module in STANDARD:
        return [module, name]
    path = getattr(sys.modules[module], "__file__", None)
    if not path or not os.path.isfile(path):
        raise Unencodable(f"{name}, which is in no file")
    status = os.stat(path)
    return [module, name, contents_of(path, status.st_mtime_ns, status.st_size)]


@functools.cache
def contents_of(path: str, changed: int, size: int) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def compiler_name(compiler: Any) -> list[str]:
    """A compiler is run on what is found, so that one without a name is any."""
    try:
        return identity(compiler)
    except Unencodable:
        return []


@functools.cache
def versions() -> dict[str, Any]:
    """What traces: interpreter, arrays, and every file of this package."""
    import rushlight

    root = os.path.dirname(str(rushlight.__file__))
    digest = hashlib.sha256()
    for folder, names, files in os.walk(root):
        names[:] = sorted([name for name in names if name != "__pycache__"])
        own = folder[len(root) :]
        for name in sorted(files):
            if name.endswith(".py"):
                status = os.stat(f"{folder}{os.sep}{name}")
                text = f"{own}{os.sep}{name} {status.st_size} {status.st_mtime_ns}\n"
                digest.update(text.encode())
    return {
        "rushlight": rushlight.__version__,
        "files": digest.hexdigest(),
        "python": sys.version,
        "numpy": np.__version__,
        "machine": [platform.machine(), sys.byteorder],
    }
