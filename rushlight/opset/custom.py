"""Operators registered by users: kernels on tensors, by dispatch key.

A custom op's record is like any other; its kind chooses the user's function for the backend of the
operands. A kernel of an Autograd key (or a registered formula) takes the autograd layer's place
and re-enters below it; kernels of other layers are rules of the record that those layers read.
Ops of the library itself take kernels too: they stand in for the op's own parts until removed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, cast

from rushlight.base.errors import MissingFeature, error
from rushlight.core import dispatch, history, keys
from rushlight.core.keys import EXPLICIT, IMPLICIT, SYNONYMS
from rushlight.core.levels import Level
from rushlight.core.node import GraphNode, edge, needs_grad, output_meta
from rushlight.core.op import REPLACED, OpOverload, is_replaced
from rushlight.core.state import (
    LAYER_AUTOGRAD,
    LAYER_INPLACE_OR_VIEW,
    LAYER_TRANSFORMS,
    LOCAL,
    PROCESS,
    excluding,
)
from rushlight.core.stubs import generalize, specialize
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import Kind, common_device, tensors_in
from rushlight.opset.registry import PACKETS

__all__ = ["CUSTOM", "EXPLICIT", "IMPLICIT", "SYNONYMS"]
__all__ += ["install", "is_served", "kernel_for", "remove", "with_keywords"]

Kernel = Callable[..., Any]

# Layers that read a user's kernel, besides those of backends, Autograd and composites.
SERVED = frozenset(("ADInplaceOrView", "FuncTorchBatched", "Functionalize", "Python"))
# What serves in the place of keys that nothing looks at.
INSTEAD = {
    "Batched": "Use the key 'FuncTorchBatched' or torch.library.register_vmap instead.",
    "FuncTorchGradWrapper": "Register a kernel for the key 'Autograd' instead.",
    "PreDispatch": "Use OpOverload.py_impl with a mode instead.",
}


def is_served(key: str) -> bool:
    """Whether a kernel of this key is called by anything."""
    return (
        key in SERVED
        or key in (IMPLICIT, EXPLICIT)
        or key in keys.BACKEND_KEYS
        or key.startswith(("Autograd", "Autocast"))
    )


def with_keywords(op: OpOverload, function: Kernel, keys_up_to: str | None = None) -> Kernel:
    """A user's function as one of bound arguments in schema order. As with torch, it is not given
    arguments at the end that have their default. `keys_up_to`: it is given the keys of the call
    first, this one the highest."""
    arguments = op._schema.arguments
    lists = [
        position
        for position, argument in enumerate(arguments)
        if argument.type.kind == "List" and not argument.type.is_tensor_like
    ]
    if keys_up_to is not None or any([argument.has_default for argument in arguments]):

        def call_shortened(*bound: Any) -> Any:
            positional, keywords = dispatch.torch_arguments(op, bound)
            if keys_up_to is not None:
                present = keys.keys_of(tensors_in(bound)) | keys.included_keys()
                present = (present - keys.excluded_keys()) & keys.keys_below(keys_up_to)
                positional = (present, *positional)
            return function(*positional, **keywords)

        return call_shortened
    split = sum(not argument.kwarg_only for argument in arguments)
    names = [argument.name for argument in arguments[split:]]

    def call(*bound: Any) -> Any:
        values = list(bound)
        for position in lists:
            if values[position] is not None:
                values[position] = list(values[position])
        keywords = dict(zip(names, values[split:], strict=True))
        return function(*values[:split], **keywords)

    return call


def kernels_of(op: OpOverload) -> dict[str, Kernel]:
    return cast("dict[str, Kernel]", op.options.setdefault("kernels", {}))


def kernel_for(op: OpOverload, args: tuple[Any, ...]) -> Kernel | None:
    """The function that computes the op where its operands are, or None."""
    kernels = kernels_of(op)
    backend = backend_of(op, args)
    if backend == "Meta" and "definition" in op.options:
        # A decorated function reads values: it never stands in for a fake implementation.
        return kernels.get(backend)
    return kernels.get(backend) or kernels.get(EXPLICIT) or kernels.get(IMPLICIT)


def is_valueless(tensor: Tensor) -> bool:
    """Whether a tensor has sizes alone: a meta or a fake one."""
    unusual = tensor._unusual
    return tensor._array is None and (unusual is None or unusual.parts is None)


def backend_of(op: OpOverload, args: tuple[Any, ...]) -> str:
    tensors = tensors_in(args)
    for tensor in tensors:
        if tensor._unusual is not None:
            break
    else:
        return "CPU"
    if any(is_valueless(tensor) for tensor in tensors):
        return "Meta"
    common_device(op, tensors)
    return keys.backend_key(tensors)


def missing_kernel(op: OpOverload, args: tuple[Any, ...]) -> RuntimeError:
    backend = backend_of(op, args)
    known = ", ".join(sorted(kernels_of(op))) or "none"
    definition = op.options.get("definition")
    if definition is not None and backend == "Meta":
        return error("RL0305", definition=definition, op=definition._init_fn.__name__)
    if backend == "Meta":
        return error("RL0306", NotImplementedError, op=op.name(), known=known)
    return error("RL0307", NotImplementedError, op=op.name(), backend=backend, known=known)


class Custom(Kind):
    """Ops whose kernels are users' functions on tensors. A kind of its own, since the kernel that
    runs is chosen by where the operands are, and may change at any time."""

    options: ClassVar[dict[str, str]] = {}

    def may_raise(self, op: Any) -> bool:
        return True

    def run_shape(self, op: Any, args: tuple[Any, ...]) -> Any:
        raise missing_kernel(op, args)

    def shells(self, op: Any, args: tuple[Any, ...], specs: Any = None) -> Any:
        kernel = kernels_of(op).get("Meta")
        if kernel is None:
            raise error("RL0306", NotImplementedError, op=op.name(), known="none")
        return kernel(*args)

    def make_backend(self, op: Any) -> Kernel:
        def backend(*args: Any) -> Any:
            kernel = kernel_for(op, args)
            if kernel is None:
                raise missing_kernel(op, args)
            return kernel(*args)

        return at_views(op, backend)


CUSTOM = Custom("CUSTOM")


def below_autograd(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Run an op from its own autograd kernel."""
    state = LOCAL.state
    if state.transforms and not state.excluded & LAYER_TRANSFORMS:
        level = state.transforms[-1]
        if isinstance(level, Level):
            # That level's history is what the kernel stands for: it goes on with values.
            return level.backend(op, args)
    return dispatch.redispatch(op, args, LAYER_AUTOGRAD)


def records_gradient(args: tuple[Any, ...]) -> bool:
    return LOCAL.state.grad and any([needs_grad(tensor) for tensor in tensors_in(args)])


def bump_written(op: OpOverload, args: tuple[Any, ...]) -> None:
    for position in op.mutated_positions:
        value = args[position]
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor):
                history.bump_version(tensor)


# -- kernels of layers -----------------------------------------------------------------------------


def autograd_body(op: OpOverload, kernels: dict[str, Kernel]) -> Kernel | None:
    """What runs at the autograd layer, chosen by the device of the operands; None for nothing."""
    found = {key: kernel for key, kernel in kernels.items() if key.startswith("Autograd")}
    if "Autograd" not in found and "formula" in op.options:
        found["Autograd"] = op.options["formula"]
    if not found:
        return None
    general = found.pop("Autograd", None)
    if not found and general is not None:
        return general

    def choose(*args: Any) -> Any:
        device = keys.DEVICE_NAMES.get(common_device(op, tensors_in(args)).type, "CPU")
        kernel = found.get(f"Autograd{device}", general)
        return below_autograd(op, args) if kernel is None else kernel(*args)

    return choose


def at_views(op: OpOverload, backend: Kernel) -> Kernel:
    """A backend with the kernel of the key ADInplaceOrView before it."""
    kernel = kernels_of(op).get("ADInplaceOrView")
    if kernel is None:
        return backend

    def choose(*args: Any) -> Any:
        tensors = tensors_in(args)
        if keys.is_reached(LAYER_INPLACE_OR_VIEW) and not any([t.is_inference() for t in tensors]):
            return kernel(*args)
        return backend(*args)

    return choose


def set_layer_rules(op: OpOverload, kernels: dict[str, Kernel], own: dict[str, Any]) -> None:
    """Let the layers of batching, functionalization, autocast and `__torch_dispatch__` find their
    kernels, or again what the op had."""
    batched, functional = kernels.get("FuncTorchBatched"), kernels.get("Functionalize")
    rules = {"batch": own.get("batch"), "functionalized": own.get("functionalized")}
    if batched is not None:
        rules["batch"] = lambda level, op, *args: batched(*args)
    if functional is not None:
        rules["functionalized"] = lambda mode, op, args: functional(*args)
    for name, rule in rules.items():
        if rule is None:
            op.rules.pop(name, None)
        else:
            op.rules[name] = rule
    for option, key in (("autocast_kernel", "AutocastCPU"), ("python_kernel", "Python")):
        if key in kernels:
            op.options[option] = kernels[key]
        else:
            op.options.pop(option, None)


def original_of(op: OpOverload) -> dict[str, Any]:
    """The parts of a record that kernels stand in for, as they were before the first."""
    found = op.options.get("original")
    if found is None:
        found = op.options["original"] = {
            "body": op.body,
            "autograd_only": op.autograd_only,
            "backend": op.__dict__.get("backend"),
            "batch": op.rules.get("batch"),
            "functionalized": op.rules.get("functionalized"),
        }
    return cast("dict[str, Any]", found)


def fall_through(op: OpOverload, key: str) -> Kernel:
    """What stands for "this key does nothing"."""
    if key.startswith("Autograd"):
        return lambda *args: below_autograd(op, args)
    if key.startswith("Autocast"):
        return lambda *args: dispatch.after_autocast(op, args, LOCAL.state)
    if key == "Python":
        return lambda *args: dispatch.below_python(
            op, args, LOCAL.state, dispatch.layers_of(op, args)
        )
    if key == "ADInplaceOrView":
        return lambda *args: dispatch.redispatch(op, args, LAYER_INPLACE_OR_VIEW)
    raise MissingFeature(f"a fallthrough for the dispatch key {key}", code="RL0308")


# -- installing ------------------------------------------------------------------------------------


# What a record has worked out from its parts, to be found anew.
DERIVED = (
    "backend", "batch_rule", "differentiable_positions", "direct", "grad_rule", "maps_elements",
)  # fmt: skip


def refresh(op: OpOverload) -> None:
    """Derive what a record runs from its own parts and the kernels it has."""
    kernels = kernels_of(op)
    own = original_of(op)
    for name in DERIVED:
        op.__dict__.pop(name, None)
    set_layer_rules(op, kernels, own)
    if op.kind is CUSTOM:
        derive_custom(op, kernels)
    else:
        derive_builtin(op, kernels, own)


def derive_custom(op: OpOverload, kernels: dict[str, Kernel]) -> None:
    autograd = autograd_body(op, kernels)
    implicit = kernels.get(IMPLICIT)
    if autograd is not None:
        op.body, op.autograd_only = autograd, True
    elif implicit is not None and not (kernels.keys() & {EXPLICIT, *keys.BACKEND_KEYS} - {"Meta"}):
        op.body, op.autograd_only = implicit, False
    else:
        op.body, op.autograd_only = None, False
        if not op._schema.is_mutable and not op.is_view_op:
            op.body, op.autograd_only = unrecorded(op), True


def warn_unrecorded(op_name: str, gradient: object = None) -> None:
    warnings.warn(
        f"{op_name}: an autograd kernel was not registered to the Autograd key(s) but we are "
        "trying to backprop through it. This may lead to silently incorrect behavior. If your "
        "operator is differentiable, register an autograd kernel for it with "
        "torch.library.register_autograd; otherwise detach its results.",
        UserWarning,
        stacklevel=2,
    )


class Unrecorded(GraphNode):
    """The node behind results of an op without an autograd kernel: no gradient passes it."""

    __slots__ = ("op_name",)

    op_name: str

    def apply(self, grads: tuple[Any, ...], needs: tuple[bool, ...] | None) -> tuple[Any, ...]:
        warn_unrecorded(self.op_name)
        return (None,) * len(self.next_nodes)

    def name(self) -> str:
        return "WarnNotImplemented"


def unrecorded(op: OpOverload) -> Kernel:
    """What runs at the autograd layer where nothing was registered for it: results without a
    gradient of their own are marked, so that a backward through them warns; one through what the
    kernel recorded warns too."""

    def run(*args: Any) -> Any:
        if not PROCESS.special:
            result = op.backend(*args)
        else:
            state = LOCAL.state
            if state.transforms and not state.excluded & LAYER_TRANSFORMS:
                return below_autograd(op, args)
            result = dispatch.run_below(op, args, state)
            if not state.grad:
                return result
        inputs = [tensor for tensor in tensors_in(args) if needs_grad(tensor)]
        if not inputs:
            return result
        outputs = tensors_in(result if isinstance(result, tuple) else (result,))
        for tensor in outputs:
            if tensor.requires_grad:
                tensor.register_hook(partial(warn_unrecorded, op.name()))
        marked = [t for t in outputs if history.is_differentiable(t) and not t.requires_grad]
        if marked:
            node = Unrecorded(
                tuple([edge(tensor) for tensor in inputs]),
                tuple([tensor._output_nr for tensor in inputs]),
            )
            node.op_name = op.name()
            node.output_metas = tuple([output_meta(tensor) for tensor in marked])
            for number, tensor in enumerate(marked):
                tensor._node, tensor._output_nr, tensor._requires_grad = node, number, True
        return result

    return run


def derive_builtin(op: OpOverload, kernels: dict[str, Kernel], own: dict[str, Any]) -> None:
    op.body, op.autograd_only = own["body"], own["autograd_only"]
    if own["backend"] is not None:
        op.__dict__["backend"] = own["backend"]
    if not kernels:
        return
    op.__dict__["direct"] = lambda *args: dispatch.call(op, args)
    if op.body is not None and not op.autograd_only:
        # A composite: kernels stand in for its body where they are meant.
        op.body = at_views(op, by_backend(op, kernels.get(IMPLICIT, op.body), EXPLICIT))
    else:
        # torch: kernels for every backend yield to the op's own for one.
        creates = not (op.tensor_positions or op.list_positions)
        otherwise = EXPLICIT if creates else None
        op.__dict__["backend"] = at_views(op, by_backend(op, op.backend, otherwise))
    autograd = autograd_body(op, kernels)
    if autograd is not None:
        op.body, op.autograd_only = autograd, True


def by_backend(op: OpOverload, original: Kernel, otherwise: str | None) -> Kernel:
    """The kernel for operands of the backend that its key names, else `otherwise`'s or what the op
    has itself. A primitive records itself: what its kernel calls is not recorded."""
    kernels = kernels_of(op)
    below = op.body is None or op.autograd_only

    def choose(*args: Any) -> Any:
        kernel = kernels.get(keys.backend_key(tensors_in(args)))
        if kernel is None and otherwise is not None:
            kernel = kernels.get(otherwise)
        if kernel is None:
            return original(*args)
        if not below:
            return kernel(*args)
        with excluding(LAYER_AUTOGRAD):
            return kernel(*args)

    return choose


def install(op: OpOverload, key: str, kernel: Kernel) -> None:
    """Add a kernel of bound arguments. On an op of the library itself it replaces what the key
    stands for."""
    if not is_served(key):
        instead = INSTEAD.get(key, "")
        raise MissingFeature(f"kernels of the dispatch key {key}", instead, code="RL0308")
    original_of(op)
    kernels_of(op)[key] = kernel
    if op.kind is not CUSTOM:
        note_replaced(op, True)
    refresh(op)
    if op.kind is not CUSTOM:
        suit_stubs()


def suit_stubs() -> None:
    """Let the stubs of replaced ops, and no others, go the general way."""
    for packet in PACKETS["aten"].values():
        replaced = bool(packet.stubs) and is_replaced(packet)
        for stub in packet.stubs.values():
            if replaced:
                generalize(stub, packet)
            else:
                specialize(stub)


def note_replaced(op: OpOverload, present: bool) -> None:
    """Keep count. While there is any, calls take no shortcut past the dispatcher."""
    with PROCESS.lock:
        before = bool(REPLACED)
        (REPLACED.add if present else REPLACED.discard)(op)
        PROCESS.special += bool(REPLACED) - before


def remove(op: OpOverload, key: str) -> None:
    """Take a kernel out again."""
    kernels = kernels_of(op)
    if kernels.pop(key, None) is None:
        return
    refresh(op)
    if op.kind is not CUSTOM and not kernels:
        note_replaced(op, False)
        del op.options["original"], op.options["kernels"]
        suit_stubs()
