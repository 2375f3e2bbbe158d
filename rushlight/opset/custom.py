"""Operators registered by users: kernels on tensors, by dispatch key.

A custom op's record is like any other; its kind chooses the user's function for the device of the
operands. A kernel of the Autograd key (or a registered formula) takes the autograd layer's place
and re-enters below it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from rushlight.base.errors import MissingFeature, error
from rushlight.core import dispatch, history
from rushlight.core.node import needs_grad
from rushlight.core.op import REPLACED, OpOverload, is_replaced
from rushlight.core.state import LAYER_AUTOGRAD, LOCAL, PROCESS
from rushlight.core.stubs import generalize, specialize
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import Kind, common_device, tensors_in
from rushlight.opset.registry import PACKETS

__all__ = ["CUSTOM", "KEYS", "install", "kernel_for", "remove", "with_keywords"]

IMPLICIT = "CompositeImplicitAutograd"
EXPLICIT = "CompositeExplicitAutograd"
# Keys that mean the same layer here.
SYNONYMS = {
    "": IMPLICIT,
    "AutogradCPU": "Autograd",
    "AutogradCUDA": "Autograd",
    "CompositeExplicitAutogradNonFunctional": EXPLICIT,
    "BackendSelect": EXPLICIT,
}
KEYS = frozenset(
    (
        "ADInplaceOrView", "AutocastCPU", "AutocastCUDA", "Autograd", "CPU", "CUDA", IMPLICIT,
        EXPLICIT, "FuncTorchBatched", "Functionalize", "Meta", "Python",
    )
)  # fmt: skip
# Layers that look for no kernel of a user's, and what serves instead.
UNSERVED = {
    "ADInplaceOrView": "Register a kernel for the key 'Autograd' instead.",
    "AutocastCPU": "Use torch.library.register_autocast instead.",
    "AutocastCUDA": "Use torch.library.register_autocast instead.",
    "FuncTorchBatched": "Use torch.library.register_vmap instead.",
    "Functionalize": "The functional form follows from the operator's schema.",
    "Python": "Use torch.library.register_torch_dispatch instead.",
}
BACKENDS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


def with_keywords(op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """A user's function as one of bound arguments in schema order."""
    arguments = op._schema.arguments
    lists = [
        position
        for position, argument in enumerate(arguments)
        if argument.type.kind == "List" and not argument.type.is_tensor_like
    ]
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


def kernels_of(op: OpOverload) -> dict[str, Callable[..., Any]]:
    return cast("dict[str, Callable[..., Any]]", op.options.setdefault("kernels", {}))


def kernel_for(op: OpOverload, args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """The function that computes the op where its operands are, or None."""
    kernels = kernels_of(op)
    tensors = tensors_in(args)
    if any(tensor._array is None for tensor in tensors):
        backend = "Meta"
        if "definition" in op.options:
            # A decorated function reads values: it never stands in for a fake implementation.
            return kernels.get(backend)
    else:
        backend = BACKENDS.get(common_device(op, tensors).type, "CPU")
    return kernels.get(backend) or kernels.get(EXPLICIT)


def missing_kernel(op: OpOverload, args: tuple[Any, ...]) -> RuntimeError:
    tensors = tensors_in(args)
    place = common_device(op, tensors).type
    known = ", ".join(sorted(kernels_of(op))) or "none"
    if "definition" in op.options and any(tensor._array is None for tensor in tensors):
        return error("RL0305", definition=op.options["definition"], op=op.base_name)
    if place == "meta":
        return error("RL0306", NotImplementedError, op=op.name(), known=known)
    backend = BACKENDS.get(place, place)
    return error("RL0307", NotImplementedError, op=op.name(), backend=backend, known=known)


class Custom(Kind):
    """Ops whose kernels are users' functions on tensors."""

    options: ClassVar[dict[str, str]] = {
        "kernels": "dispatch key -> the user's function",
    }

    def run_shape(self, op: Any, args: tuple[Any, ...]) -> Any:
        raise missing_kernel(op, args)

    def make_backend(self, op: Any) -> Callable[..., Any]:
        def backend(*args: Any) -> Any:
            kernel = kernel_for(op, args)
            if kernel is None:
                raise missing_kernel(op, args)
            return kernel(*args)

        return backend


CUSTOM = Custom("CUSTOM")


def below_autograd(op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Run an op from its own autograd kernel."""
    return dispatch.redispatch(op, args, LAYER_AUTOGRAD)


def records_gradient(args: tuple[Any, ...]) -> bool:
    return LOCAL.state.grad and any([needs_grad(tensor) for tensor in tensors_in(args)])


def bump_written(op: OpOverload, args: tuple[Any, ...]) -> None:
    for position in op.mutated_positions:
        value = args[position]
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, Tensor):
                history.bump_version(tensor)


def refresh(op: OpOverload) -> None:
    """Derive the record's body anew from the kernels it has."""
    kernels = kernels_of(op)
    for name in ("backend", "grad_rule", "differentiable_positions"):
        op.__dict__.pop(name, None)
    autograd = kernels.get("Autograd") or op.options.get("formula")
    implicit = kernels.get(IMPLICIT)
    if autograd is not None:
        op.body, op.autograd_only = autograd, True
    elif implicit is not None and not (kernels.keys() & {"CPU", "CUDA", EXPLICIT}):
        op.body, op.autograd_only = implicit, False
    elif op.kind is CUSTOM:
        op.body, op.autograd_only = None, False
    if implicit is not None and op.body is not implicit:
        kernels.setdefault(EXPLICIT, implicit)


def install(op: OpOverload, key: str, function: Callable[..., Any]) -> None:
    """Add a kernel. On an op of the library itself it replaces what the key stands for."""
    if key in UNSERVED:
        raise MissingFeature(f"kernels of the dispatch key {key}", UNSERVED[key], code="RL0308")
    kernel = with_keywords(op, function)
    if op.kind is not CUSTOM:
        replace_builtin(op, key, kernel)
        return
    kernels_of(op)[key] = kernel
    refresh(op)


def replace_builtin(op: OpOverload, key: str, kernel: Callable[..., Any]) -> None:
    op.options.setdefault("original", (op.body, op.autograd_only, op.__dict__.get("backend")))
    op.options.setdefault("replaced", {})[key] = kernel
    note_replaced(op, True)
    rebuild(op)
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


def rebuild(op: OpOverload) -> None:
    """Derive what an op of the library runs from its own parts and those put in their place."""
    body, only, backend = op.options["original"]
    op.body, op.autograd_only = body, only
    for name in ("backend", "direct"):
        op.__dict__.pop(name, None)
    if op.options["replaced"]:
        op.__dict__["direct"] = lambda *args: dispatch.call(op, args)
    if backend is not None:
        op.__dict__["backend"] = backend
    for key, kernel in op.options["replaced"].items():
        if key in ("Autograd", IMPLICIT):
            continue
        if op.body is not None and not op.autograd_only:
            # A composite: the kernel stands in for its body where it is meant.
            op.body = chosen_by_place(key, kernel, op.body)
        else:
            op.__dict__["backend"] = chosen_by_place(key, kernel, op.backend)
    for key in (IMPLICIT, "Autograd"):
        if key in op.options["replaced"]:
            op.body, op.autograd_only = op.options["replaced"][key], key == "Autograd"


def chosen_by_place(
    key: str, kernel: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    """The kernel for operands in the place that the key names, else what was there before."""

    def choose(*args: Any) -> Any:
        tensors = tensors_in(args)
        place = "meta" if any([t._array is None for t in tensors]) else "cpu"
        chosen = key in (EXPLICIT, BACKENDS[place])
        return kernel(*args) if chosen else original(*args)

    return choose


def remove(op: OpOverload, key: str) -> None:
    """Take a kernel out again."""
    if op.kind is CUSTOM:
        kernels_of(op).pop(key, None)
        refresh(op)
        return
    if op.options.get("replaced", {}).pop(key, None) is None:
        return
    rebuild(op)
    if not op.options["replaced"]:
        note_replaced(op, False)
        del op.options["original"], op.options["replaced"]
        suit_stubs()
