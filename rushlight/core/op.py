"""The op record: `OpOverload` (one schema with its rules) and `OpOverloadPacket` (one name).

A rule is attached with `@op.kernel`, or assigned: `op.jvp = linear_in("self")`. The record only
stores; what follows from a record (binder, backend, node class) is derived on first use by
`core.binding`, the op's kind and `core.gradrule`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rushlight.base.schema import Schema
from rushlight.core import ports
from rushlight.core.gradrule import GradRule

if TYPE_CHECKING:
    from rushlight.core.protocols import OpKind

__all__ = ["KernelTable", "OpOverload", "OpOverloadPacket", "Refused", "Rule", "Tag", "refuse"]

RULES = (
    "requires", "shape", "kernel", "vjp", "jvp", "batch", "lower", "sparse", "sparse_inplace",
    "inverse", "functionalized", "samples", "errors",
)  # fmt: skip

# Facts that any op may state: name -> what it says. An op states no others, but for those that its
# kind declares (`Kind.options`).
OPTIONS: dict[str, str] = {
    # Names and forms
    "method": "whether it is a Tensor method (on)",
    "function": "whether it is a public function (on); None: one of that name is written in Python",
    "inplace": "derive `name_`",
    "out": "derive the out= form (on, except for views and in-place ops)",
    "out_name": "the overload name of the out= form",
    "former": "orders of positional arguments that calls had of old, as argument names",
    "varargs": "position of an int list that may be given as separate arguments",
    "unavailable": "what it is for is never here: it has its name, and refuses every call",
    "numbers": "tensor arguments after the first accept Python numbers",
    "tags": "torch's tags",
    "ends_gradients": "a result of whole numbers is one without a gradient, not a mistake",
    # Checks of derived forms
    "inplace_check": "refuses arguments of `name_` that the op itself takes",
    "exact_out": "whether out= must have the result's dtype (as the kind says), or one of which",
    "out_decides": "the dtype of out= is the `dtype` argument where none is given",
    "out_seen_first": "out= is checked as it is given, before it is resized",
    "out_apart": "slice of the arguments whose memory out= may not share",
    "out_in_order": "out= may be an operand itself, but not share a part of it (on for scans)",
    "out_quiet": "out= is resized without a warning",
    "out_casts": "its results, zeros and ones, are cast to whatever dtype out= has",
    "out_check": "refuses tensors that a composite's results could be written into",
    "out_by_count": "`out` of another shape is filled if it has as many elements; 'warned' where "
    "one of another number is resized with a warning",
    "may_overlap": "an in-place form may write to overlapping elements: all get the same value",
    "only_index_apart": "an in-place form may read its value from the memory it writes",
    # Gradients and history
    "node": "the backward node's name",
    "node_index": "the digit at the end of the backward node's name",
    "inplace_vjp": "the gradient of `name_` where it differs",
    "inplace_node_index": "node_index of `name_` where it has a gradient of its own",
    "differentiable": "names of the arguments that have a gradient, where vjp is a function",
    "non_differentiable": "positions of results without a gradient",
    "untracked": "a view that is no view for autograd: it shares memory and version, not history",
    "seen_again": "functionalization runs it twice more, on its result",
    "replayed_as": "the view op whose geometry an in-place view op takes over",
    "manual": "what it writes is checked and counted by what its kernel calls",
    # Results and samples
    "may_raise": "whether it may raise for some values, whatever sizes and dtypes are, or a "
    "function of the arguments that says so (as the kind says)",
    "reads_values": "what it reads of operands' values, so that it may refuse tensors without",
    "structural": "its kernel takes sparse tensors without values: it runs on fakes too",
    "unwritten": "what its result holds is whatever was in memory",
    "takes_tensors": "the kernel takes tensors as they are, and answers what the op returns",
    "layout": "strides of results, see `opset.kinds`",
    "domain": "(low, high) of the values in generated samples",
    "invariants": "function of the results: what does not depend on signs, phases or an order that "
    "the algorithm may choose; comparisons look at that alone",
    # Other layers
    "autocast": "what operands are cast to while autocast is on: lower, float32 or widest",
    "recompute": "whether its result is computed again rather than kept (as the kind says)",
    "trailing": "how many last dims it acts on, or a function of the arguments that says it",
    "zero_preserving": "whether zero maps to zero, so that of a sparse tensor only values change; "
    '"linear" where duplicates need not be summed first',
    "each": "function (op, arguments) -> pairs of the same: the calls on single tensors that one "
    "on lists stands for",
    "traced": "the op as a composite, for factors whose values are not known",
    "functional_body": "what a composite is under functionalization, if not its body",
    "functional": "whether nn.functional has it under its name",
    "on_lists": "whether `_foreach_name` is derived from it",
    "out_dtype": "whether `out_dtype` takes it",
    "traced_parts": "whether TorchScript's traces show what it is made of",
    "functional_inplace": "whether nn.functional has `name_`; others only take `inplace` there",
    # Stubs
    "quick": "Quick: the common case as an expression over arrays",
    "prepared": "function of example operands: the op as one call of their arrays whose result is "
    "fresh, or None",
    # What users register for an op
    "kernels": "dispatch key -> a user's function",
    "original": "the parts of the record that such kernels stand in for",
    "autocast_kernel": "a user's function in the place of casts by autocast",
    "py_kernels": "dispatch key -> what runs while the Python dispatcher is on",
    "python_table": "mode or subclass -> what it does with the op, given the arguments",
    "python_kernel": "a user's function in the place of modes and __torch_dispatch__",
    "formula": "a user's autograd kernel",
    "definition": "the decorated function that the op was made from",
    "autocast_dtypes": "device type -> dtype that autocast casts operands to",
    "torch_dispatch": "class -> what it does with the op instead of its __torch_dispatch__",
}


# Ops of the library that have kernels of a user's in the place of their own.
REPLACED: set[Any] = set()


def is_replaced(packet: OpOverloadPacket) -> bool:
    """Whether a stub of this packet would run by itself what a user's kernel stands in for."""
    if not REPLACED:
        return False
    for op in packet.candidates:
        quick = op.options.get("quick")
        if not REPLACED.isdisjoint((op, op.functional)) or (
            quick is not None and (quick.graph or quick.as_op in REPLACED)
        ):
            return True
    return False


class Refused:
    """A rule that does not exist, with the reason why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return f"refused: {self.reason}"


def refuse(reason: str) -> Refused:
    """State that an op has no such rule, and why."""
    return Refused(reason)


F = TypeVar("F")


class Rule:
    """A rule slot: `op.vjp` reads as a decorator, `op.vjp = f` stores."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, op: Any, owner: type | None = None) -> Callable[[Any], Any]:
        name = self.name

        def attach(function: F) -> F:
            op.set_rule(name, function)
            return function

        return attach

    def __set__(self, op: OpOverload, value: Any) -> None:
        op.set_rule(self.name, value)


class Tag:
    """torch's names for facts about an op."""

    core = "core"
    pointwise = "pointwise"
    view_copy = "view_copy"
    inplace_view = "inplace_view"
    nondeterministic_seeded = "nondeterministic_seeded"
    nondeterministic_bitwise = "nondeterministic_bitwise"
    dynamic_output_shape = "dynamic_output_shape"
    data_dependent_output = "data_dependent_output"
    generated = "generated"
    pt2_compliant_tag = "pt2_compliant_tag"
    needs_fixed_stride_order = "needs_fixed_stride_order"
    needs_exact_strides = "needs_exact_strides"
    needs_contiguous_strides = "needs_contiguous_strides"
    flexible_layout = "flexible_layout"
    maybe_aliasing_or_mutating = "maybe_aliasing_or_mutating"
    cudagraph_unsafe = "cudagraph_unsafe"
    reduction = "reduction"
    inplace = "inplace"
    out = "out"


class OpOverload:
    """One operator overload, such as aten::add.Tensor."""

    requires = Rule("requires")
    shape = Rule("shape")
    kernel = Rule("kernel")
    vjp = Rule("vjp")
    jvp = Rule("jvp")
    batch = Rule("batch")
    lower = Rule("lower")
    sparse = Rule("sparse")
    inverse = Rule("inverse")
    functionalized = Rule("functionalized")
    samples = Rule("samples")
    errors = Rule("errors")

    tags: frozenset[str]

    def __init__(
        self, schema: str | Schema, kind: OpKind, namespace: str = "aten", **options: Any
    ) -> None:
        self._schema = Schema(schema, namespace) if isinstance(schema, str) else schema
        self.kind = kind
        self.rules: dict[str, Any] = {}
        self.options: dict[str, Any] = {}
        self.state(options)
        self.body: Callable[..., Any] | None = None
        # True where `body` stands for autograd only: below that layer the op is a primitive.
        self.autograd_only = False
        self.packet: Any = None
        # Filled for derived in-place and out= overloads: the functional record behind them.
        self.functional: OpOverload | None = None
        self.__module__ = f"torch._ops.{self._schema.default_namespace}"

    def __getattr__(self, attribute: str) -> Any:
        # Derived facts are computed once and kept in the instance.
        derive = DERIVED.get(attribute)
        if derive is None:
            raise AttributeError(f"'OpOverload' object has no attribute '{attribute}'")
        # One value for all threads: node classes and binders are known by identity.
        return self.__dict__.setdefault(attribute, derive(self))

    # -- torch's face ---------------------------------------------------------------------------

    @property
    def namespace(self) -> str:
        return self._schema.namespace

    @property
    def base_name(self) -> str:
        return self._schema.base_name

    @property
    def _overloadname(self) -> str:
        return self._schema.overload_name or "default"

    @property
    def overload(self) -> str:
        return self._schema.overload_name

    @property
    def __name__(self) -> str:
        return f"{self._schema.base_name}.{self._overloadname}"

    @property
    def _opname(self) -> str:
        return self._schema.base_name

    @property
    def overloadpacket(self) -> Any:
        return self.packet

    _overloadpacket = overloadpacket

    def name(self) -> str:
        """`aten::add.Tensor`; without a dot for the default overload."""
        overload = self._schema.overload_name
        return self._schema.name + (f".{overload}" if overload else "")

    @property
    def is_view(self) -> bool:
        return bool(self.is_view_op)

    @property
    def _namespace(self) -> str:
        return self._schema.namespace

    @property
    def _name(self) -> str:
        return self.name()

    @property
    def _tags(self) -> list[str]:
        return list(self.tags)

    @property
    def _nondeterministic_seeded(self) -> bool:
        return Tag.nondeterministic_seeded in self.tags

    def has_kernel_for_dispatch_key(self, key: object) -> bool:
        from rushlight.core.keys import has_kernel

        return key in self.py_kernels or has_kernel(self, key)

    def has_kernel_for_any_dispatch_key(self, keys: Any) -> bool:
        return any([self.has_kernel_for_dispatch_key(key) for key in keys])

    @property
    def py_kernels(self) -> dict[Any, Callable[..., Any]]:
        """Dispatch key -> what the Python dispatcher runs."""
        return cast("dict[Any, Callable[..., Any]]", self.options.setdefault("py_kernels", {}))

    @property
    def python_key_table(self) -> dict[Any, Callable[..., Any]]:
        """Mode or subclass -> what stands for its `__torch_dispatch__`."""
        return cast("dict[Any, Callable[..., Any]]", self.options.setdefault("python_table", {}))

    def py_impl(self, key: Any) -> Callable[[F], F]:
        """Register a function for a dispatch key, in force while the Python dispatcher is on, or
        for a mode or subclass, called with it and the arguments."""

        def register(function: F) -> F:
            table = self.python_key_table if isinstance(key, type) else self.py_kernels
            if key in table:
                raise RuntimeError(
                    f"Trying to override a python impl for {key} on operator {self.name()}"
                )
            table[key] = run = cast("Callable[..., Any]", function)
            if isinstance(key, type):
                self.options.setdefault("torch_dispatch", {})[key] = (
                    lambda receiver, op, types, args, kwargs: run(receiver, *args, **kwargs)
                )
            return function

        return register

    def _can_decompose(self) -> bool:
        return self.composite_body() is not None

    def composite_body(self) -> Callable[..., Any] | None:
        """The op in terms of others; None where it is a primitive."""
        for key, function in self.py_kernels.items():
            if getattr(key, "name", key) == "CompositeImplicitAutograd":
                return function
        return None if self.autograd_only else self.body

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op as its parts; NotImplemented for a primitive."""
        body = self.composite_body()
        if body is None:
            return NotImplemented
        return body(*self.bind(*args, **kwargs))

    def redispatch(self, keys: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the op with the highest of the keys: layers above it are passed by."""
        from rushlight.core.keys import redispatch

        return redispatch(self, keys, self.bind(*args, **kwargs))

    def __repr__(self) -> str:
        name = self._schema.name.replace("::", ".")
        return f"<OpOverload(op='{name}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"{self._schema.name.replace('::', '.')}.{self._overloadname}"

    def __hash__(self) -> int:
        return id(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> OpOverload:
        return self

    def __reduce__(self) -> Any:
        return find_overload, (self.namespace, self.base_name, self._overloadname)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from rushlight.core import dispatch

        return dispatch.overload_call(self, args, kwargs)

    # -- rules and facts --------------------------------------------------------------------------

    def state(self, facts: dict[str, Any]) -> None:
        """Set rules and options by name."""
        for name, value in facts.items():
            if name in RULES:
                self.set_rule(name, value)
            elif name in OPTIONS or name in self.kind.options:
                self.options[name] = value
            else:
                raise undeclared(self, name)

    def set_rule(self, name: str, value: Any) -> None:
        self.rules[name] = value
        for derived in ("batch_rule", "maps_elements"):
            self.__dict__.pop(derived, None)

    def rule(self, name: str) -> Any:
        """A stored rule, or what the op's kind derives for it; None when there is neither."""
        found = self.rules.get(name)
        if found is None:
            kept = self.derived_rules
            if name not in kept:
                kept[name] = self.kind.derive(self, name)
            found = kept[name]
        return found

    def differentiable_inputs(self) -> list[str]:
        vjp = self.rules.get("vjp")
        if isinstance(vjp, dict):
            return [a.name for a in self._schema.arguments if a.name in vjp]
        named = self.options.get("differentiable")
        if named is not None:
            return list(named)
        return [a.name for a in self._schema.arguments if a.type.is_tensor_like and not a.is_out]


def undeclared(op: OpOverload, name: str) -> TypeError:
    from difflib import get_close_matches

    declared = (*OPTIONS, *op.kind.options, *RULES)
    near = get_close_matches(name, declared, 1, 0.0)[0]
    return TypeError(
        f"{op.name()}: an op of kind {op.kind} has no option '{name}'; the nearest is '{near}'. "
        "Options are declared in core.op.OPTIONS and in the kind's `options`."
    )


def argument_names(op: OpOverload) -> list[str]:
    return [argument.name for argument in op._schema.arguments]


def argument_facts(op: OpOverload) -> list[tuple[str | None, bool, bool, Any]]:
    """Of each argument: the name where it goes by keyword only, whether it is a list, whether it
    has a default, and which."""
    from rushlight.core.binding import default_value

    return [
        (
            argument.name if argument.kwarg_only else None,
            argument.type.kind == "List",
            argument.has_default,
            default_value(argument) if argument.has_default else None,
        )
        for argument in op._schema.arguments
    ]


def return_names(op: OpOverload) -> list[str]:
    returns = op._schema.returns
    if len(returns) == 1:
        return [returns[0].name or "result"]
    return [entry.name or f"result{i}" for i, entry in enumerate(returns)]


def tensor_positions(op: OpOverload) -> tuple[int, ...]:
    """Positions of arguments that are single tensors, optional ones included."""
    return tuple(i for i, a in enumerate(op._schema.arguments) if a.type.kind == "Tensor")


def list_positions(op: OpOverload) -> tuple[int, ...]:
    """Positions of arguments that are lists of tensors."""
    return tuple(
        i
        for i, a in enumerate(op._schema.arguments)
        if a.type.kind != "Tensor" and a.type.is_tensor_like
    )


def mutated_positions(op: OpOverload) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(op._schema.arguments) if a.is_write)


def out_positions(op: OpOverload) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(op._schema.arguments) if a.is_out)


def is_view_op(op: OpOverload) -> bool:
    """Returns an alias of an argument without writing to it."""
    if op._schema.is_mutable:
        return False
    return any(entry.alias_info is not None for entry in op._schema.returns)


def differentiable_positions(op: OpOverload) -> tuple[int, ...]:
    names = argument_names(op)
    rule = op.grad_rule
    return () if rule is None else tuple(names.index(name) for name in rule.inputs)


def grad_rule(op: OpOverload) -> GradRule | None:
    """The compiled vjp; None for an op without a gradient."""
    source = op if op.functional is None else op.functional
    own = op.rules.get("vjp")
    vjp = source.rule("vjp") if own is None else own
    if vjp is None or isinstance(vjp, Refused):
        return None
    if source is not op and own is None and op.options.get("node") == source.options.get("node"):
        return cast("GradRule | None", source.grad_rule)
    arguments = op._schema.arguments
    inputs = (source if own is None else op).differentiable_inputs()
    if not inputs:
        return None
    return GradRule(
        op.node_name,
        argument_names(op),
        frozenset(a.name for a in arguments if a.type.is_tensor_like),
        frozenset(a.name for a in arguments if a.type.is_tensor_like and a.type.kind != "Tensor"),
        return_names(op),
        vjp,
        inputs,
        frozenset(op.options.get("non_differentiable", ())),
    )


def replayed_as(op: OpOverload) -> OpOverload | None:
    """The view op whose geometry an in-place view op (`transpose_`) takes over."""
    return cast("OpOverload | None", op.options.get("replayed_as"))


def node_name(op: OpOverload) -> str:
    """`AddBackward0`: the op's name in camel case and its place among the overloads."""
    given = op.options.get("node")
    if given is not None:
        return str(given)
    camel = "".join(part.title() for part in op._schema.base_name.split("_"))
    return f"{camel}Backward{op.options.get('node_index', 0)}"


def backend(op: OpOverload) -> Callable[..., Any]:
    """The function that computes the op on tensors, below every layer."""
    if op.body is not None and not op.autograd_only:
        # Reached through a derived out= or in-place form only. A composite runs as its body.
        return op.body
    return op.kind.make_backend(op)


def make_binder(op: OpOverload) -> Callable[..., Any]:
    from rushlight.core.binding import compile_binder

    return compile_binder(op)


def recompute(op: OpOverload) -> bool:
    """Whether a result is cheaper computed again than kept: stated, or as its kind says. Sizes
    that values decide are found once."""
    given = op.options.get("recompute")
    if given is None:
        return bool(op.kind.recompute) and Tag.dynamic_output_shape not in op.tags
    return bool(given)


def may_raise(op: OpOverload) -> bool | Callable[..., bool]:
    """Whether a call may raise for some values: stated, or as the kind says. Forms that write are
    like what they compute."""
    pure = op if op.functional is None else op.functional
    given: bool | Callable[..., bool] | None = pure.options.get("may_raise")
    return pure.kind.may_raise(pure) if given is None else given


def tags(op: OpOverload) -> frozenset[str]:
    """The tags that the op states and, for one of the library, those that torch has for it."""
    stated = frozenset(op.options.get("tags", ()))
    return stated | ports.torch_tags(op) if op.namespace == "aten" else stated


def derived_rules(op: OpOverload) -> dict[str, Any]:
    """Rule name -> what the kind derived for it."""
    return {}


def direct(op: OpOverload) -> Callable[..., Any]:
    """The op as a function of bound arguments, below the API level."""
    from rushlight.core.stubs import overload_function

    return overload_function(op)


def maps_elements(op: OpOverload) -> bool:
    """Whether a batch of calls is one call on the batch, where the operands broadcast alike."""
    return (
        op.body is None
        and op.rule("batch") == "elementwise"
        and len(op._schema.returns) == 1
        and not op.list_positions
        and not op.mutated_positions
        and Tag.nondeterministic_seeded not in op.tags
    )


def makes_one_tensor(op: OpOverload) -> bool:
    """Whether a call is one kernel's that makes one tensor of tensors, writes to none and shares
    no memory with any: nothing but its node has to be recorded."""
    returns = op._schema.returns
    return (
        op.body is None
        and len(returns) == 1
        and returns[0].type.kind == "Tensor"
        and not (op.list_positions or op.mutated_positions or op.is_view_op)
    )


class KernelTable(dict[Any, Any]):
    """Native kernels by what they are for, and as `doors` those of the last calls, which say
    themselves whether a call is for them; `casting_doors` take what an elementwise op converts."""

    __slots__ = ("casting_doors", "doors")

    def __init__(self) -> None:
        super().__init__()
        self.doors: list[Callable[..., Any]] = []
        self.casting_doors: list[Callable[..., Any]] = []

    def clear(self) -> None:
        super().clear()
        self.doors.clear()
        self.casting_doors.clear()


DERIVED: dict[str, Callable[[OpOverload], Any]] = {
    "derived_rules": derived_rules,
    "tags": tags,
    "recompute": recompute,
    "may_raise": may_raise,
    "argument_names": argument_names,
    "argument_facts": argument_facts,
    "return_names": return_names,
    "tensor_positions": tensor_positions,
    "list_positions": list_positions,
    "mutated_positions": mutated_positions,
    "out_positions": out_positions,
    "is_view_op": is_view_op,
    "differentiable_positions": differentiable_positions,
    "grad_rule": grad_rule,
    "node_name": node_name,
    "replayed_as": replayed_as,
    "backend": backend,
    "bind": make_binder,
    "direct": direct,
    "makes_one_tensor": makes_one_tensor,
    "maps_elements": maps_elements,
    "native_kernels": lambda op: KernelTable(),
    "array_kernel": lambda op: op.kind.array_kernel(op),
    "batch_rule": lambda op: ports.find_batch_rule(op),
    "family": lambda op: ports.family_of(op),
    "__qualname__": lambda op: op.name(),
}


# The key among a packet's stubs of the one that calls of the packet itself run.
OWN_STUB = "()"


class OpOverloadPacket:
    """All overloads of one name, such as aten::add."""

    def __init__(self, name: str, namespace: str = "aten") -> None:
        self.base_name = name
        self.namespace = namespace
        self.table: dict[str, OpOverload] = {}
        # Overloads in the order in which a call tries them.
        self.candidates: list[OpOverload] = []
        self.stubs: dict[str, Any] = {}
        self.varargs: int | None = None
        # Orders of positional arguments that calls had of old, as argument names.
        self.former: tuple[tuple[str, ...], ...] = ()
        self.__module__ = f"torch._ops.{namespace}"
        self.__qualname__ = name

    @property
    def __name__(self) -> str:
        return self.base_name

    @property
    def _qualified_op_name(self) -> str:
        return f"{self.namespace}::{self.base_name}"

    def add(self, op: OpOverload) -> None:
        op.packet = self
        self.table[op._overloadname] = op
        self.stubs.pop(OWN_STUB, None)
        # Read off the text: parsing every schema would cost more than all the rest of import.
        writes_out = "!) out" in op._schema.text or op.kind.name == "OUT"
        # The one form of an op that always writes is called by the op's name.
        if not writes_out or op._overloadname == "default":
            self.candidates.append(op)
            self.__dict__.pop("tensors_first", None)

    @functools.cached_property
    def takes_one(self) -> bool:
        """Whether an overload takes one int where another takes the list that may be spread."""
        kinds = [
            op._schema.arguments[self.varargs].type.kind
            for op in self.candidates
            if self.varargs is not None and len(op._schema.arguments) > self.varargs
        ]
        return "int" in kinds

    @functools.cached_property
    def tensors_first(self) -> list[OpOverload] | None:
        """The order in which a call with a tensor among its operands tries the overloads, where
        it differs: a 0-dim tensor would also do as a number, but it brings its dtype."""
        numbers = [
            sum([argument.type.kind == "Scalar" for argument in op._schema.arguments])
            for op in self.candidates
        ]
        named = {
            tuple([argument.name for argument in op._schema.arguments]) for op in self.candidates
        }
        if len(named) == len(self.candidates) or numbers == sorted(numbers):
            return None
        ranked = sorted(zip(numbers, self.candidates, strict=True), key=lambda pair: pair[0])
        return [op for _, op in ranked]

    def overloads(self) -> list[str]:
        return list(self.table)

    def __iter__(self) -> Any:
        return iter(self.overloads())

    @property
    def _overload_names(self) -> list[str]:
        return [op.overload for op in self.table.values()]

    @property
    def _schemas(self) -> dict[str, Schema]:
        return {op.overload: op._schema for op in self.table.values()}

    def __getattr__(self, attribute: str) -> OpOverload:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        found: OpOverload | None = self.__dict__.get("table", {}).get(attribute)
        if found is None:
            found = ports.derive_overload(self, attribute)
        if found is None:
            raise AttributeError(
                f"The underlying op of '{self.namespace}.{self.base_name}' has no overload name "
                f"'{attribute}'. The overloads are: {', '.join(self.__dict__.get('table', {}))}."
            )
        return found

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        stub = self.stubs.get(OWN_STUB)
        if stub is None:
            from rushlight.core.stubs import packet_stub

            stub = packet_stub(self)
        return stub(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self.namespace}.{self.base_name}')>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.base_name}"

    def __reduce__(self) -> Any:
        return ports.find_packet, (self.namespace, self.base_name)


def find_overload(namespace: str, name: str, overload: str) -> OpOverload:
    """The record behind a pickled overload."""
    return cast(OpOverload, getattr(ports.find_packet(namespace, name), overload))
