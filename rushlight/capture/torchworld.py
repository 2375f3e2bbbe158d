"""Rushlight as a world of capture: tensors and their guards, operators, sizes, grad modes.

A world lives for one attempt at capture. Examples are fake tensors; where some size or number is
not to be a constant they carry symbols of a ShapeEnv, whose guards become tests of the entry.
"""

from __future__ import annotations

import types
from typing import Any, NamedTuple

from rushlight.amp.autocasting import autocast, get_autocast_dtype, is_autocast_enabled
from rushlight.autograd import grad_mode
from rushlight.autograd.function import Function, once_differentiable
from rushlight.capture import marks, modules
from rushlight.capture.function import capture_function
from rushlight.capture.outcomes import Break, Specialize
from rushlight.capture.sources import Source
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import Bound, Const, Lazy, New, Number, Obj, Seq, Tensor, Var
from rushlight.capture.world import World
from rushlight.core import dtype as dtypes
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dispatch import disabled_torch_function
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.op import OpOverload, OpOverloadPacket, Tag
from rushlight.core.parameter import Parameter
from rushlight.core.size import Size
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.nn.module import Module
from rushlight.opset import functions, registry
from rushlight.symbolic.numbers import SymBool, SymFloat, SymInt, SymNumber
from rushlight.symbolic.sources import source_name

__all__ = ["TorchWorld"]

META = {
    "dtype", "device", "ndim", "requires_grad", "layout", "is_sparse", "is_quantized", "is_cuda",
    "itemsize", "is_meta", "is_mkldnn", "is_cpu", "is_nested",
}  # fmt: skip
META_CALLS = {
    "dim", "numel", "nelement", "stride", "is_contiguous", "element_size", "is_floating_point",
    "is_complex", "ndimension", "storage_offset", "get_device", "is_signed",
}  # fmt: skip
COMPUTED = {"T", "mT", "H", "mH", "real", "imag", "data"}
# Facts of layout that an invented gradient does not have.
STRICT = {"stride", "requires_grad", "storage_offset", "layout", "data"}
UNSAFE = {
    "item", "tolist", "numpy", "backward", "register_hook", "nonzero", "retain_grad", "data_ptr",
    "share_memory_", "requires_grad_", "storage", "untyped_storage", "set_", "resize_", "apply_",
    "map_", "__array__", "__bool__", "__float__", "__int__", "__index__", "__len__", "__format__",
    "__repr__", "__dlpack__", "register_post_accumulate_grad_hook", "pin_memory", "to_sparse",
}  # fmt: skip
# Functions that draw numbers and are no ops.
DRAWING = {
    "dropout1d", "dropout2d", "dropout3d", "gumbel_softmax", "multi_head_attention_forward",
    "fractional_max_pool2d", "fractional_max_pool3d",
}  # fmt: skip
# Where functions live that are nodes of a graph.
OPERATORS = (
    "rushlight.opset", "rushlight.core.construct", "rushlight.core.dispatch",
    "rushlight.nn.functional", "rushlight.functional", "rushlight.nn.init",
)  # fmt: skip
# Where functions of the library live that are captured like the user's.
INLINED = (
    "rushlight.nn", "rushlight.amp.custom", "rushlight.autograd.function", "rushlight.capture",
    "rushlight.autograd.grad_mode",
)  # fmt: skip
NO_OPERATORS = {
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "fork_rng",
}  # fmt: skip
MODES: dict[type, bool | None] = {
    grad_mode.no_grad: False,
    grad_mode.enable_grad: True,
    grad_mode.set_grad_enabled: None,
}
CONTEXTS = {*MODES, autocast}
EXITS: set[Any] = {cls.__exit__ for cls in MODES}  # type: ignore[attr-defined]
CONSTANT_FUNCTIONS: set[Any] = {
    is_autocast_enabled, get_autocast_dtype, dtypes.get_default_dtype,
    grad_mode.is_inference_mode_enabled,
}  # fmt: skip
PLAIN = (RealTensor, Parameter)
PLAIN_OVERRIDES = {disabled_torch_function, vars(RealTensor)["__torch_function__"].__func__}
APPLY = Function.apply.__func__  # type: ignore[attr-defined]
ONCE_DIFFERENTIABLE = once_differentiable(lambda: None).__code__
LIBRARY_CONSTANTS = (dtypes.dtype, device, layout, memory_format)


class TensorFacts(NamedTuple):
    """What a guard of a tensor tests; None for sizes and strides that symbols stand for."""

    kind: type
    dtype: Any
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    requires_grad: bool


def describe(value: Any) -> Any:
    """All that a guard of a tensor made of others tests."""
    if not is_traceable_wrapper_subclass(value):
        return type(value), value.dtype, value.shape, value.stride(), value.requires_grad
    names, context = value.__tensor_flatten__()
    parts = [describe(getattr(value, name)) for name in names]
    return type(value), value.shape, value.stride(), value.requires_grad, names, context, parts


class NamedText:
    """A source of ShapeEnv's whose expression is the text of a variable."""

    def __init__(self, name: str) -> None:
        self.name = name


def array_tests(text: str, facts: TensorFacts, names: Any) -> list[str]:
    """Tests of a tensor's dtype, sizes and strides; those that are None are not asked for."""
    tests = [f"{text}._dtype is not {names.constant(facts.dtype)}"]
    array = f"(__a := {text}._array)"
    for name, wanted in (("shape", facts.sizes), ("strides", facts.strides)):
        if None not in wanted:
            tests.append(f"{array}.{name} != {wanted!r}")
            array = "__a"
            continue
        if name == "shape":
            tests.append(f"{array}.ndim != {len(wanted)}")
            array = "__a"
        for dim, number in enumerate(wanted):
            if number is not None:
                tests.append(f"{array}.{name}[{dim}] != {number}")
    return tests


def is_fake(value: Any) -> bool:
    return isinstance(value, RealTensor)


def settled_sizes(text: str, example: Any) -> list[str]:
    """Tests that fail where sizes or strides are not those that the graph turned out to need."""
    if not is_fake(example):
        return []
    numbers = [(f"shape[{dim}]", 1, n) for dim, n in enumerate(example.shape)]
    width = example.dtype.itemsize
    numbers += [(f"strides[{dim}]", width, n) for dim, n in enumerate(example.stride())]
    return [
        f"{text}._array.{name} != {number.node.settled() * factor}"
        for name, factor, number in numbers
        if isinstance(number, SymInt) and number.node.is_constant()
    ]


class TorchWorld(World):
    library = ("rushlight", "torch")

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True, static_shapes=True)
        # Sources whose examples hold symbols.
        self.symbolic: dict[Source, Any] = {}
        self.bodies = 0

    @property
    def env(self) -> Any:
        """Where symbols come from; made when the first is needed."""
        if self.mode.shape_env is None:
            from rushlight.symbolic.shapeenv import ShapeEnv

            self.mode.shape_env = ShapeEnv()
        return self.mode.shape_env

    # -- kinds of values ---------------------------------------------------------------------------

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, RealTensor)

    def is_const(self, value: Any) -> bool:
        if type(value) is Size:
            return not any(isinstance(x, SymNumber) for x in value)
        return isinstance(value, LIBRARY_CONSTANTS)

    def is_op(self, function: Any) -> bool:
        if isinstance(function, OpOverload | OpOverloadPacket) or function in marks.ALLOWED:
            return True
        if type(function) is not types.FunctionType or function.__name__ in NO_OPERATORS:
            return False
        if function.__code__.co_filename.startswith("<rushlight"):
            return True
        origin = function.__globals__.get("__name__", "")
        return bool(origin.startswith(OPERATORS))

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Module)

    def is_context(self, cls: type) -> bool:
        return cls in CONTEXTS

    def has_effects(self, target: Any, name: str) -> bool:
        # A graph that draws numbers is never run twice.
        return name in DRAWING or draws_numbers(name)

    # -- tensors and numbers -----------------------------------------------------------------------

    def example(self, value: Any, source: Source, tracer: Any) -> Any:
        if type(value) not in PLAIN:
            return self.subclass_example(value)
        if value._array is None or value._unusual is not None:
            raise Break("tensor without plain memory")
        dims = self.dynamic_dims(value, source, tracer)
        if not any(dims):
            return self.mode.from_tensor(value, static_shapes=True)
        from rushlight.symbolic.shapeenv import DimDynamic, StatelessSymbolicContext

        assert self.env is not None
        kinds = [DimDynamic.DUCK if is_dynamic else DimDynamic.STATIC for is_dynamic in dims]
        example = self.mode.from_tensor(
            value,
            static_shapes=False,
            source=source,
            symbolic_context=StatelessSymbolicContext(kinds),
        )
        self.symbolic[source] = example
        return example

    def subclass_example(self, value: Any) -> Any:
        """A tensor that is made of others, and that no override of functions knows of."""
        override: Any = type(value).__torch_function__
        is_plain = getattr(override, "__func__", override) in PLAIN_OVERRIDES
        if not is_plain or not is_traceable_wrapper_subclass(value):
            raise Break(f"tensor subclass {type(value).__name__}")
        return self.mode.from_tensor(value, static_shapes=True)

    def dynamic_dims(self, value: Any, source: Source, tracer: Any) -> list[bool]:
        marked = value.__dict__.get("_dynamo_dynamic_indices", ())
        static = value.__dict__.get("_dynamo_static_indices", ())
        everything = tracer.assume_dynamic and type(value) is RealTensor
        return [
            (everything or dim in marked or source.size(dim) in tracer.dynamic)
            and dim not in static
            for dim in range(value.dim())
        ]

    def number(self, value: Any, source: Source) -> Any:
        from rushlight.symbolic.shapeenv import DimDynamic

        made = self.env.create_unspecified_symint_and_symbol(value, source, DimDynamic.DYNAMIC)
        self.symbolic[source] = made
        return made

    def may_be_dynamic(self, expected: Any, value: Any) -> bool:
        return type(value) is int and super().may_be_dynamic(expected, value)

    def may_raise_later(self, example: Any) -> bool:
        return not isinstance(example, SymNumber)

    def decide(self, example: Any) -> Any:
        if isinstance(example, SymInt):
            return int(example)
        if isinstance(example, SymBool):
            return bool(example)
        if isinstance(example, SymFloat):
            return float(example)
        raise Specialize

    def is_fixed(self, example: Any) -> bool:
        return type(example) in (int, float, bool)

    def tensor_type(self, tensor: Tensor) -> type:
        kind = type(tensor.example)
        if kind is not FakeTensor and kind not in PLAIN:
            return kind
        is_parameter = tensor.source is not None and isinstance(tensor.example, Parameter)
        return Parameter if is_parameter else RealTensor

    def tensor_facts(self, value: Any, example: Any) -> Any:
        if type(value) not in PLAIN:
            return describe(value)
        sizes = [None if isinstance(n, SymNumber) else n for n in example.shape]
        strides = [
            None if isinstance(n, SymNumber) else real
            for n, real in zip(example.stride(), value._array.strides)
        ]
        return TensorFacts(
            type(value), value._dtype, tuple(sizes), tuple(strides), value.requires_grad
        )

    def tensor_guard(self, text: str, facts: Any, names: Any) -> str:
        if not isinstance(facts, TensorFacts):
            return f"{names.constant(describe)}({text}) != {names.constant(facts)}"
        return " or ".join([*self.flag_tests(text, facts, names), *array_tests(text, facts, names)])

    def kept_guard(self, text: str, facts: Any, names: Any) -> tuple[str, str, str] | None:
        if not isinstance(facts, TensorFacts) or facts.kind is not Parameter:
            return None
        if None in facts.sizes or None in facts.strides:
            return None
        tests = " or ".join(array_tests(text, facts, names))
        return f"{text}._array", " or ".join(self.flag_tests(text, facts, names)), tests

    def flag_tests(self, text: str, facts: TensorFacts, names: Any) -> list[str]:
        """Tests of what a tensor may be told while it has the same array."""
        # Views learn late that they require gradients; whoever has the flag has it for good.
        slot = "_requires_grad" if facts.requires_grad else "requires_grad"
        return [
            f"type({text}) is not {names.constant(facts.kind)}",
            f"{text}._unusual is not None",
            f"{text}.{slot} is not {facts.requires_grad}",
        ]

    def changed_sizes(self, facts: Any, value: Any) -> list[int]:
        if not isinstance(facts, TensorFacts):
            return []
        is_tensor = isinstance(value, RealTensor) and type(value) is facts.kind
        if not is_tensor or value._array is None or value._dtype is not facts.dtype:
            return []
        sizes = value._array.shape
        if len(sizes) != len(facts.sizes) or facts.kind is Parameter:
            return []
        return [
            dim
            for dim, (old, new) in enumerate(zip(facts.sizes, sizes))
            if old is not None and old != new
        ]

    def shape_guards(self, read: Any) -> list[str]:
        if not self.symbolic:
            return []
        texts = {source: read(source) for source in self.symbolic}
        examples = list(self.symbolic.values())
        widths = {texts[s]: e.dtype.itemsize for s, e in self.symbolic.items() if is_fake(e)}

        def text_of(source: Any) -> str:
            """Sizes and strides as arrays tell them, which is quicker."""
            base = source_name(getattr(source, "base", ""))
            if base in widths and source.prop == "size":
                return f"{base}._array.shape[{source.idx}]"
            if base in widths and source.prop == "stride":
                return f"{base}._array.strides[{source.idx}] // {widths[base]}"
            return source_name(source)

        sources = [NamedText(text) for text in texts.values()]
        found = [f"not ({t})" for t in self.env.produce_guards(examples, sources, text_of)]
        for source, example in self.symbolic.items():
            found += settled_sizes(texts[source], example)
        return found

    def run(self, op: str, target: Any, args: Any, kwargs: Any, grad: bool) -> Any:
        state = LOCAL.state
        before = state.grad
        grad_mode.write_grad(grad)
        try:
            with self.mode:
                return super().run(op, target, args, kwargs, grad)
        except Exception as error:
            name = target if isinstance(target, str) else getattr(target, "__name__", target)
            raise Break(f"{name}: {error}") from error
        finally:
            grad_mode.write_grad(before)

    # -- attributes and methods of tensors ---------------------------------------------------------

    def tensor_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        if tensor.strict and (name in STRICT or name.startswith("is_")):
            raise Break(f"Illegal getattr invocation {name} in strict mode")
        if name == "shape":
            return self.shape_of(tracer, tensor)
        if name == "__class__":
            kind = self.tensor_type(tensor)
            return tracer.lift(kind)
        if name in META:
            return tracer.lift(getattr(tensor.example, name))
        found = getattr(RealTensor, name, None)
        if found is None and not hasattr(RealTensor, name):
            return self.own_attr(tracer, tensor, name)
        if isinstance(found, property):
            if name not in COMPUTED:
                return self.state_attr(tracer, tensor, name)
            return tracer.record("call_function", getattr, [tensor, Const(name)], {})
        return Bound(tensor, name)

    def own_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        """An attribute that the user may have put on the tensor."""
        value = self.value_of(tracer, tensor)
        if value is not None and name in value.__dict__:
            return Lazy(value.__dict__[name], tensor.source.attr(name))  # type: ignore[union-attr]
        if tensor.source is not None:
            tracer.guard("lacks", tensor.source, name)
        raise raise_user(AttributeError, f"'Tensor' object has no attribute '{name}'")

    def state_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        """What the outside sees of a tensor and a graph does not: its gradient, its history."""
        value = self.value_of(tracer, tensor)
        if value is None or name not in ("grad", "is_leaf"):
            raise Break(f"Tensor.{name}")
        assert tensor.source is not None
        return Lazy(getattr(value, name), tensor.source.attr(name))

    def value_of(self, tracer: Any, tensor: Tensor) -> Any:
        if tensor.source is None:
            return None
        return next((value for value, var in tracer.known.values() if var is tensor), None)

    def shape_of(self, tracer: Any, tensor: Tensor) -> Var:
        shape = tensor.example.shape
        if not any(isinstance(n, SymNumber) for n in shape):
            return Const(Size(shape))
        return Seq(Size, [self.size_of(tracer, tensor, dim) for dim in range(len(shape))])

    def size_of(self, tracer: Any, tensor: Tensor, dim: int) -> Var:
        size = tensor.example.shape[dim]
        if not isinstance(size, SymNumber):
            return Const(int(size))
        if tensor.source is None:
            found: Var = tracer.record("call_method", "size", [tensor, Const(dim)], {})
            return found
        source = tensor.source.size(dim % len(tensor.example.shape))
        if source not in tracer.memo:
            tracer.memo[source] = Number(size, None, source)
        known: Var = tracer.memo[source]
        return known

    def length(self, tracer: Any, tensor: Tensor) -> Var:
        if not tensor.example.dim():
            raise raise_user(TypeError, "len() of a 0-d tensor")
        return self.size_of(tracer, tensor, 0)

    def tensor_method(
        self, tracer: Any, tensor: Tensor, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if tensor.strict and (name in STRICT or name.startswith("is_")):
            raise Break(f"Illegal getattr invocation {name} in strict mode")
        if name in UNSAFE or not hasattr(RealTensor, name):
            raise Break(f"Tensor.{name}")
        if name == "__len__":
            return self.length(tracer, tensor)
        if name == "size":
            dims = [tracer.python(v) for v in [*args, *kwargs.values()]]
            if not dims or dims[0] is None:
                return self.shape_of(tracer, tensor)
            return self.size_of(tracer, tensor, dims[0])
        if name in META_CALLS:
            return self.meta_call(tracer, tensor, name, args, kwargs)
        return tracer.record("call_method", name, [tensor, *args], kwargs)

    def meta_call(
        self, tracer: Any, tensor: Tensor, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        given = [tracer.python(v) for v in args]
        named = {key: tracer.python(v) for key, v in kwargs.items()}
        found = getattr(tensor.example, name)(*given, **named)
        numbers = found if isinstance(found, tuple) else (found,)
        if any(isinstance(n, SymNumber) for n in numbers):
            return tracer.record("call_method", name, [tensor, *args], kwargs)
        return tracer.lift(found)

    def unbind(self, tracer: Any, tensor: Tensor) -> list[Any]:
        found: list[Any] = tracer.iterate(
            tracer.record("call_function", functions.unbind, [tensor], {})
        )
        return found

    # -- modes -------------------------------------------------------------------------------------

    def grad_enabled(self) -> bool:
        return LOCAL.state.grad

    set_grad = staticmethod(grad_mode.write_grad)

    def is_usable(self) -> bool:
        # Modes, transforms and autocast change what calls mean.
        return not LOCAL.state.layers

    def global_guard(self, names: Any) -> str:
        state = f"{names.constant(LOCAL)}.state"
        default = f"{names.constant(dtypes)}.default_dtype"
        modes = f"{state}.grad is not {LOCAL.state.grad} or {state}.layers"
        if LOCAL.state.grad:
            # Where no thread is in a mode, this one is not.
            modes = f"{names.constant(PROCESS)}.special and ({modes})"
        return f"{modes} or {default} is not {names.constant(dtypes.get_default_dtype())}"

    def context_fields(self, tracer: Any, cls: type, args: list[Any]) -> dict[str, Any]:
        if cls is autocast:
            raise Break("autocast")
        fields: dict[str, Any] = {"previous": Const(tracer.grad)}
        if cls is grad_mode.set_grad_enabled:
            mode = tracer.truth(args[0])
            fields["mode"] = Const(mode)
            tracer.set_grad(mode)
        elif args:
            raise Break(f"{cls.__name__} as a decorator")
        return fields

    def enter_or_exit(self, tracer: Any, manager: New, name: str) -> Any:
        if manager.cls is autocast:
            return Const(None)
        if name == "__enter__":
            mode = MODES[manager.cls]
            if mode is None:
                tracer.set_grad(manager.attrs["mode"].value)
            else:
                manager.attrs["previous"] = Const(tracer.set_grad(mode))
        elif name == "__exit__":
            tracer.set_grad(manager.attrs["previous"].value)
        else:
            raise Break(f"{manager.cls.__name__}.{name}")
        return Const(None)

    # -- modules -----------------------------------------------------------------------------------

    def module_attr(self, tracer: Any, module: Obj, name: str) -> Any:
        return modules.attribute(tracer, module, name) if self.is_module(module.value) else None

    def module_items(self, tracer: Any, module: Obj) -> list[Any] | None:
        return modules.items(tracer, module)

    def keeps_attributes(self, cls: Any) -> bool:
        # A module's __setattr__ sorts values into tables: replayed as it is.
        return cls.__setattr__ is Module.__setattr__

    def entry_target(self, f: Any) -> tuple[Any, tuple[Any, ...]] | None:
        if isinstance(f, Module) and modules.is_called_plainly(f) and modules.has_plain_forward(f):
            return type(f).forward, (f,)
        return None

    # -- calls with a meaning of their own ---------------------------------------------------------

    def special(self, tracer: Any, f: Obj, args: list[Any], kwargs: dict[str, Any]) -> Any:
        value = f.value
        if self.is_module(value) and type(value).__call__ is Module.__call__:
            return modules.call(tracer, f, args, kwargs)
        if isinstance(value, type):
            return self.construct(tracer, value, args, kwargs)
        if not isinstance(value, types.FunctionType) or self.is_disabled(value):
            return None
        original = value.__dict__.get("_torchdynamo_orig_callable")
        if original is not None:
            return tracer.call(
                Lazy(original, f.source.attr("_torchdynamo_orig_callable")), args, kwargs
            )
        if value is Module.__call__:
            return modules.call(tracer, tracer.real(args[0]), args[1:], kwargs)
        if value in EXITS:
            tracer.set_grad(tracer.python(tracer.getattr(args[0], "previous")))
            return Const(None)
        if value is grad_mode.is_grad_enabled:
            return Const(tracer.grad)
        if value in marks.COMPILING:
            return Const(True)
        if value is marks.graph_break:
            raise Break("call to graph_break")
        if value is APPLY:
            return capture_function(tracer, tracer.real(args[0]).value, args[1:], kwargs)
        if value.__code__ is ONCE_DIFFERENTIABLE:
            # Gradients of gradients are refused by nobody here: backward is a body without grad.
            return tracer.call(tracer.lift(value.__wrapped__), args, kwargs)  # type: ignore[attr-defined]
        if value in CONSTANT_FUNCTIONS:
            return tracer.lift(value(*map(tracer.python, args)))
        self.check_inlined(value)
        return None

    def check_inlined(self, value: types.FunctionType) -> None:
        """Library code is captured only where it is written like user code."""
        if not self.is_library(value) or self.is_op(value):
            return
        origin = value.__globals__.get("__name__", "")
        if not origin.startswith(INLINED) and origin != "rushlight":
            raise Break(f"library function {origin}.{value.__name__}")

    def construct(self, tracer: Any, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if issubclass(cls, Function):
            # An instance says nothing but a warning; `apply` is the class's.
            return New(cls)
        if cls is autocast:
            return self.idle_autocast(tracer, args, kwargs)
        if issubclass(cls, Module | RealTensor):
            raise Break(f"construct {cls.__name__}")
        if cls is Size and len(args) == 1:
            items = tracer.iterate(args[0])
            return Seq(Size, items)
        return None

    def idle_autocast(self, tracer: Any, args: list[Any], kwargs: dict[str, Any]) -> New:
        """A region that changes nothing: not enabled, and no other is active."""
        given = dict(zip(("device_type", "dtype", "enabled", "cache_enabled"), args)) | kwargs
        if "enabled" not in given or tracer.truth(given["enabled"]):
            raise Break("autocast")
        return New(autocast)


def draws_numbers(name: str) -> bool:
    """Whether the op of a function's name says that it draws numbers."""
    try:
        found = registry.packet(name)
    except KeyError:
        return False
    return any([Tag.nondeterministic_seeded in op.tags for op in found.table.values()])
