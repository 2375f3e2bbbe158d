"""Rushlight as a world of capture: tensors and their guards, operators, sizes, grad modes.

A world lives for one attempt at capture. Examples are fake tensors; where some size or number is
not to be a constant they carry symbols of a ShapeEnv, whose guards become tests of the entry.
"""

from __future__ import annotations

import contextlib
import operator
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.autograd import grad_mode
from rushlight.autograd.checkpoint import checkpoint
from rushlight.autograd.function import Function, once_differentiable
from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.base.pytree import tree_leaves
from rushlight.capture import answers, data, hooks, marks, modules, ndarrays, overrides, states
from rushlight.capture.facts import TensorFacts, array_tests, describe, is_fake, settled_sizes
from rushlight.capture.function import capture_function
from rushlight.capture.outcomes import Break, Specialize
from rushlight.capture.sources import Source, const
from rushlight.capture.tracer import INPLACE, raise_user
from rushlight.capture.values import NULL, Bound, Const, Lazy, New, Number, Obj, Seq, Tensor, Var
from rushlight.capture.witness import Witness
from rushlight.capture.world import World
from rushlight.core import dtype as dtypes
from rushlight.core.construct import LegacyType, make_tensor
from rushlight.core.determinism import ASKED
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dispatch import disabled_torch_function
from rushlight.core.fake import FakeTensor
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.modes import is_traceable_wrapper_subclass
from rushlight.core.op import OpOverload, OpOverloadPacket
from rushlight.core.parameter import Parameter
from rushlight.core.refusals import DataDependentOutputException, DynamicOutputShapeException
from rushlight.core.return_types import ReturnType
from rushlight.core.size import Size
from rushlight.core.state import LOCAL, PROCESS, changed
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.core.tensor import storage_of
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.opset.creation.random import get_rng_state, set_rng_state
from rushlight.symbolic import checks
from rushlight.symbolic.errors import ConstraintViolationError, GuardOnDataDependentSymNode
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
META_FUNCTIONS = {
    "is_floating_point", "is_complex", "result_type", "numel", "is_signed", "can_cast",
    "promote_types", "is_tensor",
}  # fmt: skip
COMPUTED = {"T", "mT", "H", "mH", "real", "imag", "data"}
# Facts of layout that an invented gradient does not have.
STRICT = {"stride", "requires_grad", "storage_offset", "layout", "data"}
UNSAFE = {
    "item", "tolist", "nonzero", "data_ptr",
    "share_memory_", "requires_grad_", "storage", "untyped_storage", "set_", "resize_", "apply_",
    "map_", "__array__", "__bool__", "__float__", "__int__", "__index__", "__len__", "__format__",
    "__repr__", "__dlpack__", "pin_memory", "to_sparse",
}  # fmt: skip
# Where functions live that are nodes of a graph.
OPERATORS = (
    "rushlight.opset", "rushlight.core.construct", "rushlight.core.dispatch",
    "rushlight.nn.functional", "rushlight.functional", "rushlight.nn.init",
)  # fmt: skip
# Where functions of the library live that are captured like the user's.
INLINED = (
    "rushlight.nn", "rushlight.amp", "rushlight.autograd.function", "rushlight.capture",
    "rushlight.autograd.grad_mode", "rushlight.optim", "rushlight.base.pytree",
    "rushlight.core.parameter", "rushlight.core.geometry", "rushlight.higher_order",
    "rushlight.graph.specs",
)  # fmt: skip
NO_OPERATORS = {
    "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state", "fork_rng",
}  # fmt: skip
PLAIN = (RealTensor, Parameter)
PLAIN_OVERRIDES = {disabled_torch_function, vars(RealTensor)["__torch_function__"].__func__}
APPLY = Function.apply.__func__  # type: ignore[attr-defined]
ONCE_DIFFERENTIABLE = once_differentiable(lambda: None).__code__
# Statements about sizes: true, or an error of the program.
CHECKS = {
    checks.check, checks.check_index, checks.check_value, checks.check_type,
    checks.check_not_implemented,
}  # fmt: skip
LIBRARY_CONSTANTS = (dtypes.dtype, device, layout, memory_format)


def op_name(target: Any) -> Any:
    return target if isinstance(target, str) else getattr(target, "__name__", target)


def tensor_is_plain(value: Any) -> bool:
    return not any(isinstance(n, SymNumber) for n in value.shape)


class NamedText:
    """A source of ShapeEnv's whose expression is the text of a variable."""

    def __init__(self, name: str) -> None:
        self.name = name


def range_of(bounds: list[Any] | None) -> Any:
    """What is required of a size that is marked as dynamic between two bounds."""
    if bounds is None or bounds == [None, None]:
        return None
    from rushlight.symbolic.constraints import StrictMinMaxConstraint
    from rushlight.symbolic.ranges import ValueRanges, int_oo

    lower, upper = bounds
    return StrictMinMaxConstraint(
        ValueRanges(0 if lower is None else lower, int_oo if upper is None else upper)
    )


class TorchWorld(World):
    library = ("rushlight", "torch")

    def __init__(self) -> None:
        self.mode = Witness(allow_non_fake_inputs=True, static_shapes=True)
        self.overrides = overrides.Overrides()
        # Sources whose examples hold symbols.
        self.symbolic: dict[Source, Any] = {}
        # Sizes that the user marked as dynamic.
        self.wanted: list[tuple[Source, Any]] = []
        # How many graphs of functions there are, by their names.
        self.bodies: Counter[str] = Counter()
        # A mode that calls of the body that is captured now are made under.
        self.call_mode: Any = contextlib.nullcontext
        self.asks_trees = False
        # What a module reads in the place of its own, by the module's identity and the name.
        self.replaced: dict[tuple[int, str], Any] = {}

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
        return isinstance(value, LIBRARY_CONSTANTS) or ndarrays.is_const(value)

    def const_arg(self, value: Any) -> Any:
        # Operators take numbers of NumPy's for Python's.
        return value.item() if isinstance(value, np.generic) else value

    def is_op(self, function: Any) -> bool:
        if isinstance(function, OpOverload | OpOverloadPacket) or marks.is_allowed(function):
            return True
        if type(function) is not types.FunctionType or function.__name__ in NO_OPERATORS:
            return False
        if function.__code__.co_filename.startswith("<rushlight"):
            return True
        origin = function.__globals__.get("__name__", "")
        return bool(origin.startswith(OPERATORS))

    def is_operator(self, value: Any) -> bool:
        return isinstance(value, OpOverload | OpOverloadPacket | HigherOrderOperator)

    def is_entered(self, function: types.FunctionType) -> bool:
        # Grad modes and the like around a function of the user's.
        origin = function.__globals__.get("__name__", "")
        is_around = origin.startswith(INLINED) and "__wrapped__" in function.__dict__
        return is_around or super().is_entered(function)

    def is_module(self, value: Any) -> bool:
        return isinstance(value, Module)

    def writes(self, target: Any, name: str) -> bool:
        return self.mode.writes

    def draws(self, target: Any, name: str) -> bool:
        return self.mode.draws

    def may_raise(self, target: Any, name: str, given: list[Any]) -> bool:
        return self.mode.may_raise or marks.is_allowed(target) or overlaps(name, given)

    def versions(self, examples: Any) -> Any:
        return [leaf._version for leaf in tree_leaves(examples) if isinstance(leaf, RealTensor)]

    random_state = staticmethod(get_rng_state)
    restore_random = staticmethod(set_rng_state)

    @staticmethod
    def sharing(*tensors: Any) -> Any:
        """For each tensor the first that shares its storage, and where in it a shared one begins;
        None where none is shared."""
        storages = [id(storage_of(tensor)) for tensor in tensors if type(tensor) in PLAIN]
        firsts = [storages.index(storage) for storage in storages]
        is_shared = {first for number, first in enumerate(firsts) if first != number}
        plain = [tensor for tensor in tensors if type(tensor) in PLAIN]
        return [
            (first, plain[number].storage_offset() if first in is_shared else -1)
            for number, first in enumerate(firsts)
        ]

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
        wanted = {dim: rest for dim, *rest in value.__dict__.get(marks.DYNAMIC, ()) if dims[dim]}
        # Sizes 0 and 1 are constants whatever was asked for.
        wanted = {dim: range_ for dim, range_ in wanted.items() if value.shape[dim] > 1}
        example = self.mode.from_tensor(
            value,
            static_shapes=False,
            source=source,
            symbolic_context=StatelessSymbolicContext(
                kinds, constraint_sizes=[range_of(wanted.get(dim)) for dim in range(len(dims))]
            ),
        )
        self.symbolic[source] = example
        self.wanted += [(source.size(dim), example.shape[dim]) for dim in wanted]
        return example

    def subclass_example(self, value: Any) -> Any:
        """A tensor that is made of others, and that no override of functions knows of; or one of
        a class that says nothing but how functions are overridden."""
        cls: Any = type(value)
        override, dispatch = cls.__torch_function__, cls.__torch_dispatch__
        if overrides.is_recast(cls) and dispatch is RealTensor.__torch_dispatch__:
            return self.mode.from_tensor(overrides.as_plain(value), static_shapes=True)
        is_plain = getattr(override, "__func__", override) in PLAIN_OVERRIDES
        if not is_plain or not is_traceable_wrapper_subclass(value):
            raise Break(f"tensor subclass {cls.__name__}")
        example = self.mode.from_tensor(value, static_shapes=True)
        if isinstance(value, Parameter):
            # torch: a wrapper that is a parameter says so itself.
            example._is_param = True
        return example

    def overridden(
        self, tracer: Any, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        return overrides.overridden(tracer, op, target, args, kwargs)

    def input_reader(self, v: Any) -> Any:
        is_subclass = isinstance(v, Tensor) and overrides.is_recast(v.kind)
        return overrides.as_plain if is_subclass else None

    def wrapped_result(self, v: Any, text: str, names: Any) -> str | None:
        if not isinstance(v, Tensor) or not overrides.is_recast(v.kind):
            return None
        return f"{names.constant(RealTensor.as_subclass)}({text}, {names.constant(v.kind)})"

    def refuse_open(self) -> None:
        self.overrides.refuse_open()

    def dynamic_dims(self, value: Any, source: Source, tracer: Any) -> list[bool]:
        marked = {dim for dim, *_ in value.__dict__.get(marks.DYNAMIC, ())}
        marked |= value.__dict__.get(marks.MAYBE_DYNAMIC, set())
        static = value.__dict__.get(marks.STATIC, ())
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

    def float(self, value: float) -> Any:
        # No op may ask for its value.
        with self.env.ignore_fresh_unbacked_symbols():
            return self.env.create_unbacked_symfloat()

    def may_raise_later(self, example: Any) -> bool:
        return not isinstance(example, SymNumber)

    def is_known(self, example: Any) -> bool:
        return not isinstance(example, SymNumber) or example.node.has_hint()

    def hint(self, example: Any) -> Any:
        return example.node.hint if isinstance(example, SymNumber) else example

    def decide(self, example: Any) -> Any:
        plain: Any
        for kind, plain in ((SymInt, int), (SymBool, bool), (SymFloat, float)):
            if isinstance(example, kind):
                try:
                    return plain(example)
                except GuardOnDataDependentSymNode:
                    raise Break("value of a size that only data tell") from None
        raise Specialize

    def is_fixed(self, example: Any) -> bool:
        return type(example) in (int, float, bool)

    def tensor_type(self, tensor: Tensor) -> type:
        if tensor.kind is not None:
            return tensor.kind
        kind = type(tensor.example)
        return kind if kind is not FakeTensor and kind not in PLAIN else RealTensor

    def is_instance(self, tensor: Tensor, kinds: Any) -> bool:
        kinds = kinds if isinstance(kinds, tuple) else (kinds,)
        # Classes such as FloatTensor look at the dtype.
        by_dtype = tuple(kind for kind in kinds if isinstance(kind, LegacyType))
        if Parameter in kinds and getattr(tensor.example, "_is_param", False) is True:
            return True
        return issubclass(self.tensor_type(tensor), kinds) or isinstance(tensor.example, by_dtype)

    def tensor_facts(self, value: Any, example: Any) -> Any:
        if type(value) not in PLAIN:
            return describe(value)
        sizes = [None if isinstance(n, SymNumber) else n for n in example.shape]
        strides = [
            None if isinstance(n, SymNumber) else real
            for n, real in zip(example.stride(), value._array.strides)
        ]
        return TensorFacts(
            type(value),
            value._dtype,
            tuple(sizes),
            tuple(strides),
            value.requires_grad,
            value._array.shape,
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
        # Views learn late that they require gradients: their flag is only half of it.
        if facts.requires_grad:
            differs = f"not {text}._requires_grad and not {text}.requires_grad"
        else:
            differs = f"{text}._requires_grad or {text}._view is not None and {text}.requires_grad"
        return [
            f"type({text}) is not {names.constant(facts.kind)}",
            f"{text}._unusual is not None",
            differs,
        ]

    def changed_sizes(self, facts: Any, value: Any) -> list[int]:
        if not isinstance(facts, TensorFacts):
            return []
        is_tensor = isinstance(value, RealTensor) and type(value) is facts.kind
        if not is_tensor or value._array is None or value._dtype is not facts.dtype:
            return []
        sizes = value._array.shape
        if len(sizes) != len(facts.seen) or facts.kind is Parameter:
            return []
        return [dim for dim, (old, new) in enumerate(zip(facts.seen, sizes)) if old != new]

    def check_wanted(self) -> None:
        """Refuse a program that makes a size a constant which the user marked as dynamic."""
        for source, size in self.wanted:
            number = size.node.settled() if isinstance(size, SymInt) else size
            if not isinstance(size, SymInt) or size.node.is_constant():
                raise error("RL0821", ConstraintViolationError, name=source.name, number=number)

    def shape_guards(self, read: Any) -> list[str]:
        if not self.symbolic:
            return []
        self.check_wanted()
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

    def run(self, op: str, target: Any, args: Any, kwargs: Any, modes: dict[str, Any]) -> Any:
        if kwargs.get("requires_grad"):
            # A leaf of the program's, which no graph that is differentiated as a whole can give.
            raise Break("a tensor that is made to require gradients")
        self.mode.begin()
        try:
            with changed(**states.fields_of(modes)), self.mode, self.call_mode():
                return super().run(op, target, args, kwargs, modes)
        except (DynamicOutputShapeException, DataDependentOutputException) as error:
            is_size = isinstance(error, DynamicOutputShapeException)
            may_tell = self.captures_sizes if is_size else self.captures_numbers
            if may_tell and self.mode.shape_env is None and self.env is not None:
                return self.run(op, target, args, kwargs, modes)
            raise Break(f"{op_name(target)}: {error}") from error
        except Exception as error:
            raise Break(f"{op_name(target)}: {error}") from error

    @contextlib.contextmanager
    def calling_under(self, mode: Any) -> Iterator[None]:
        before, self.call_mode = self.call_mode, mode
        try:
            yield
        finally:
            self.call_mode = before

    # -- attributes and methods of tensors ---------------------------------------------------------

    def tensor_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        if tensor.strict and (name in STRICT or name.startswith("is_")):
            raise Break(f"Illegal getattr invocation {name} in strict mode")
        kind = self.tensor_type(tensor)
        if kind not in PLAIN and name not in ("__class__", "__dict__"):
            found = self.class_attr(tracer, tensor, kind, name)
            if found is not NULL:
                return found
        if name == "shape":
            return self.shape_of(tracer, tensor)
        if name == "__class__":
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

    def class_attr(self, tracer: Any, tensor: Tensor, kind: Any, name: str) -> Any:
        """What a subclass of tensors has of its own under a name, or NULL."""
        value = self.value_of(tracer, tensor)
        on_tensor = {**(tensor.attrs or {}), **({} if value is None else value.__dict__)}
        return overrides.own_attribute(tracer, tensor, kind, name, on_tensor)

    def write_tensor(self, tracer: Any, tensor: Tensor, name: str, value: Any) -> None:
        """A gradient, or what the user puts on a tensor."""
        is_gradient = name == "grad" and tensor.source is not None
        kind = self.tensor_type(tensor)
        setter: Any = kind.__setattr__
        is_plain = kind in PLAIN or (overrides.is_recast(kind) and setter is RealTensor.__setattr__)
        is_own = is_plain and not hasattr(kind, name)
        if tracer.recording is not tracer.root or not (is_own or is_gradient):
            raise Break("set attribute of Tensor")
        value = tracer.real(value)
        if is_gradient and not self.fits_as_gradient(tensor, value):
            raise Break("set attribute of Tensor")
        if tensor.source is None:
            tensor.attrs = {**(tensor.attrs or {}), name: value}
        else:
            tracer.write_outside(tensor, self.value_of(tracer, tensor), name, value)

    def fits_as_gradient(self, tensor: Tensor, value: Any) -> bool:
        if not isinstance(value, Tensor):
            return isinstance(value, Const) and value.value is None
        a, b = tensor.example, value.example
        return value.kind in (None, *PLAIN) and (a.shape, a.dtype) == (b.shape, b.dtype)

    def own_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        """An attribute that the user may have put on the tensor."""
        if tensor.attrs and name in tensor.attrs:
            return tensor.attrs[name]
        value = self.value_of(tracer, tensor)
        if value is not None and (id(value), name) in tracer.overlay:
            return tracer.overlay[id(value), name]
        if value is not None and name in value.__dict__:
            return Lazy(value.__dict__[name], tensor.source.attr(name))  # type: ignore[union-attr]
        if tensor.source is not None:
            tracer.guard("lacks", tensor.source, name)
        raise raise_user(AttributeError, f"'Tensor' object has no attribute '{name}'")

    def state_attr(self, tracer: Any, tensor: Tensor, name: str) -> Any:
        """What the outside sees of a tensor and a graph does not: its gradient, its history."""
        value = self.value_of(tracer, tensor)
        if name == "is_leaf" and tensor.source is None and not tensor.strict:
            return Const(bool(tensor.example.is_leaf))
        if value is None or name not in ("grad", "is_leaf"):
            raise Break(f"Tensor.{name}")
        assert tensor.source is not None
        if (id(value), name) in tracer.overlay:
            return tracer.overlay[id(value), name]
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
        if name == "as_subclass" and not kwargs:
            return overrides.recast(tracer, tensor, tracer.python(args[0]))
        if name == "backward":
            from rushlight.capture import backwards

            return backwards.call(tracer, tensor, args, kwargs)
        if name == "numpy":
            return ndarrays.of_tensor(tracer, tensor, args, kwargs)
        if name in hooks.METHODS:
            return hooks.call(tracer, tensor, name, args, kwargs)
        if name == "__len__":
            return self.length(tracer, tensor)
        if name == "is_inference":
            return self.is_inference(tracer, tensor)
        may_tell = self.captures_sizes if name == "nonzero" else self.captures_numbers
        if may_tell and name in data.METHODS:
            return data.method(tracer, tensor, name, args, kwargs)
        if name in UNSAFE or not hasattr(RealTensor, name):
            raise Break(f"Tensor.{name}")
        if name == "size":
            dims = [tracer.python(v) for v in [*args, *kwargs.values()]]
            if not dims or dims[0] is None:
                return self.shape_of(tracer, tensor)
            return self.size_of(tracer, tensor, dims[0])
        if name == "storage_offset":
            return self.offset_of(tracer, tensor)
        if name in META_CALLS:
            return self.meta_call(tracer, tensor, name, args, kwargs)
        return tracer.record("call_method", name, [tensor, *args], kwargs)

    def opaque_method(
        self, tracer: Any, v: Any, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        run = ndarrays.method if isinstance(v, ndarrays.Array) else hooks.call_handle
        return run(tracer, v, name, args, kwargs)

    def opaque_attr(self, tracer: Any, v: Any, name: str) -> Any:
        if isinstance(v, ndarrays.Array):
            return ndarrays.attribute(tracer, v, name)
        return super().opaque_attr(tracer, v, name)

    def opaque_binary(self, tracer: Any, f: Any, a: Any, b: Any) -> Any:
        return ndarrays.binary(tracer, f, a, b)

    def opaque_unary(self, tracer: Any, f: Any, v: Any) -> Any:
        return ndarrays.unary(tracer, f, v)

    def opaque_store(self, tracer: Any, v: Any, key: Any, value: Any) -> None:
        ndarrays.store(tracer, v, key, value)

    def opaque_items(self, tracer: Any, v: Any) -> list[Any]:
        return ndarrays.items(tracer, v)

    def wrap_opaque(self, tracer: Any, value: Any, source: Source) -> Any:
        return ndarrays.wrapped(tracer, value, source)

    @staticmethod
    def array_dtype(example: Any) -> Any:
        """The dtype of `example.numpy()`, or None."""
        try:
            return make_tensor([], dtype=example.dtype).numpy().dtype
        except (TypeError, RuntimeError):
            return None

    def is_inference(self, tracer: Any, tensor: Tensor) -> Var:
        """Whether a tensor was made in inference mode."""
        if tensor.source is None:
            raise Break("Tensor.is_inference")
        found = self.value_of(tracer, tensor).is_inference()
        tracer.guard("text", tensor.source, lambda e, k: f"{e}.is_inference() is not {found}")
        return Const(found)

    def offset_of(self, tracer: Any, tensor: Tensor) -> Var:
        """Where a tensor begins in its storage: a graph is the same for all, so ask the input."""
        if tensor.source is None:
            raise Break("Tensor.storage_offset")
        offset = self.value_of(tracer, tensor).storage_offset()
        tracer.guard("text", tensor.source, lambda e, k: f"{e}.storage_offset() != {offset}")
        return Const(offset)

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

    def number_of(self, tracer: Any, tensor: Tensor, kind: type) -> Any:
        return data.converted(tracer, tensor, kind)

    def asserted(self, tracer: Any, tensor: Tensor, message: str) -> bool:
        is_number = tensor.example.dim() == 0 and tracer.recording is tracer.root
        if is_number and not tracer.root.writes:
            tracer.has_handlers = True
            args = [tensor, *([Const(message)] if message else [])]
            tracer.record("call_function", functions._assert_async, args, {})
        return is_number and not tracer.root.writes

    def unbind(self, tracer: Any, tensor: Tensor) -> list[Any]:
        length = tracer.python(self.length(tracer, tensor))
        return [
            tracer.record("call_function", operator.getitem, [tensor, Const(i)], {})
            for i in range(length)
        ]

    def fields_of(self, kind: type) -> tuple[str, ...]:
        return kind.fields if issubclass(kind, ReturnType) else ()

    # -- modes -------------------------------------------------------------------------------------

    modes = staticmethod(states.current)
    write_modes = staticmethod(states.write)
    set_grad = staticmethod(grad_mode.write_grad)
    reopen = staticmethod(states.reopen)
    obstacle = staticmethod(states.obstacle)
    unwatched = staticmethod(states.unwatched)
    balance = staticmethod(states.balance)
    switches = frozenset(states.SWITCHES)

    def global_guard(self, names: Any) -> str:
        default = f"{names.constant(dtypes)}.default_dtype"
        other_dtype = f"{default} is not {names.constant(dtypes.get_default_dtype())}"
        # Deterministic mode refuses some ops, and fills memory for others.
        asked = f"{names.constant(ASKED)}.mode != {ASKED.mode}"
        token = f"{names.constant(states.token)}() != {names.constant(states.token())}"
        if LOCAL.state.layers:
            return f"{token} or {asked} or {other_dtype}"
        state = f"{names.constant(LOCAL)}.state"
        # A profiler is a layer too, but changes nothing.
        modes = f"{state}.grad is not {LOCAL.state.grad} or ({state}.layers and {token}) or {asked}"
        if LOCAL.state.grad and not ASKED.mode:
            # Where no thread is in a mode, this one is not.
            modes = f"{names.constant(PROCESS)}.special and ({modes})"
        return f"{modes} or {other_dtype}"

    # -- modules -----------------------------------------------------------------------------------

    def module_attr(self, tracer: Any, module: Obj, name: str) -> Any:
        return modules.attribute(tracer, module, name) if self.is_module(module.value) else None

    def module_items(self, tracer: Any, module: Obj) -> list[Any] | None:
        return modules.items(tracer, module)

    def module_slice(self, tracer: Any, module: Obj, part: slice) -> Any:
        return modules.list_slice(tracer, module, part)

    def kind_of_sum(self, a: type, b: type) -> type:
        return Size if a is Size or (a is tuple and b is Size) else tuple

    def may_be_kept(self, cls: Any) -> bool:
        return not issubclass(cls, Module)

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
        if self.is_module(value) and modules.is_module_call(type(value).__call__):
            return modules.call(tracer, f, args, kwargs)
        if (found := ndarrays.special(tracer, value, args, kwargs)) is not None:
            return found
        if isinstance(value, type):
            return self.construct(tracer, value, args, kwargs)
        if isinstance(value, HigherOrderOperator):
            from rushlight.capture import hops

            return hops.call(tracer, f, args, kwargs)
        if not isinstance(value, types.FunctionType) or self.is_disabled(value):
            return None
        return self.special_function(tracer, f, value, args, kwargs)

    def special_function(
        self, tracer: Any, f: Obj, value: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        original = value.__dict__.get("_torchdynamo_orig_callable")
        if original is not None:
            return tracer.call(
                Lazy(original, f.source.attr("_torchdynamo_orig_callable")), args, kwargs
            )
        if value is Module._call_impl or modules.is_module_call(value):
            return modules.call(tracer, tracer.real(args[0]), args[1:], kwargs)
        from rushlight.capture import bodies, optimisers

        found = bodies.special(tracer, f, args, kwargs)
        if found is not None:
            return found
        if value is checkpoint:
            from rushlight.capture import hops

            return hops.checkpoint_call(tracer, args, kwargs)
        for rule in (
            overrides.special,
            states.special,
            modules.walked,
            optimisers.special,
            answers.special,
        ):
            found = rule(tracer, value, args, kwargs)
            if found is not None:
                return found
        if value.__name__ in META_FUNCTIONS and not self.overrides.modes and self.is_op(value):
            return self.meta_function(tracer, value, args, kwargs)
        if value in marks.COMPILING:
            return Const(True)
        if value in CHECKS:
            if not tracer.truth(args[0]):
                raise Break(f"{value.__name__} that fails")
            return Const(None)
        if value is marks.graph_break:
            raise Break("call to graph_break")
        if value is APPLY:
            return capture_function(tracer, tracer.real(args[0]).value, args[1:], kwargs)
        if value.__code__ is ONCE_DIFFERENTIABLE:
            # Gradients of gradients are refused by nobody here: backward is a body without grad.
            return tracer.call(tracer.lift(value.__wrapped__), args, kwargs)
        self.check_inlined(tracer, value)
        return None

    def call_transformed(self, tracer: Any, f: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        from rushlight.capture import bodies

        return bodies.apply(tracer, f, args, kwargs)

    def meta_function(
        self, tracer: Any, value: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A function of what guards fix: kinds of tensors, not their elements."""
        given = [
            v.example if isinstance(v, Tensor) else tracer.python(v) for v in map(tracer.real, args)
        ]
        named = {key: tracer.python(v) for key, v in kwargs.items()}
        if not all(type(x) is not FakeTensor or tensor_is_plain(x) for x in given):
            return None
        return tracer.lift(value(*given, **named))

    def check_inlined(self, tracer: Any, value: types.FunctionType) -> None:
        """Library code is captured only where it is written like user code."""
        if not self.is_library(value) or self.is_op(value):
            return
        origin = value.__globals__.get("__name__", "")
        if origin == pytree.__name__ and not self.asks_trees:
            # Which containers there are may change.
            self.asks_trees = True
            count = len(pytree.SUPPORTED_NODES)
            test = "len({}) != {}".format
            nodes = const(pytree.SUPPORTED_NODES)
            tracer.guards.append(("text", nodes, lambda e, k: test(e, count)))
        is_entered = origin in self.library or answers.is_captured(value)
        if not is_entered and not origin.startswith(INLINED):
            raise Break(f"library function {origin}.{value.__name__}")

    def construct(self, tracer: Any, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if issubclass(cls, Function):
            # An instance says nothing but a warning; `apply` is the class's.
            return New(cls)
        if cls in overrides.SWITCHES:
            return New(cls)
        if cls in answers.VALUES:
            return answers.made(tracer, cls, args, kwargs)
        if cls in states.CONTEXTS:
            return states.construct(tracer, cls, args, kwargs)
        if "_captured_as" in vars(cls):
            # A context of the library that does nothing in compiled code.
            return tracer.call(tracer.lift(vars(cls)["_captured_as"]), [], {})
        if issubclass(cls, RealTensor):
            raise Break(f"construct {cls.__name__}")
        if (cls is Size or issubclass(cls, ReturnType)) and len(args) == 1:
            items = tracer.iterate(args[0])
            if cls is not Size and len(items) != getattr(cls, "n_fields", None):
                raise Break(f"{cls.__name__} of another length")
            return Seq(cls, items)
        return None


def overlaps(name: str, given: list[Any]) -> bool:
    """Whether a call that writes to its first argument reads other tensors of the same memory."""
    tensors = [leaf for leaf in tree_leaves(given) if isinstance(leaf, RealTensor)]
    if not (name in INPLACE or name.endswith("_")) or len(tensors) < 2:
        return False
    written = storage_of(tensors[0])
    return any(other is not tensors[0] and storage_of(other) is written for other in tensors[1:])
