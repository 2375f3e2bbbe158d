"""Dispatch keys: torch's names for layers and backends, and sets of them.

The dispatcher itself knows layers (`core.state`). A key is the name under which programs register
a kernel or ask for one; `LAYERS` says which layer it stands for. A key without a layer that names
a backend is reached by operands of that backend alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

from rushlight.base.errors import error
from rushlight.core import ports
from rushlight.core.dispatch import dispatches
from rushlight.core.op import OpOverload, Refused
from rushlight.core.state import (
    LAYER_AUTOCAST,
    LAYER_AUTOGRAD,
    LAYER_FUNCTIONAL,
    LAYER_INPLACE_OR_VIEW,
    LAYER_MODES,
    LAYER_PRE,
    LAYER_PRE_FUNCTIONAL,
    LAYER_PRE_PROXY,
    LAYER_SUBCLASS,
    LAYER_TRANSFORMS,
    LOCAL,
)
from rushlight.core.tensor import Tensor

__all__ = ["BACKEND_KEYS", "DispatchKey", "DispatchKeySet", "backend_key", "keys_of", "parse_key"]

DEVICES = [
    "CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA",
    "PrivateUse1", "PrivateUse2", "PrivateUse3", "Meta",
]  # fmt: skip
AUTOCASTS = ["CPU", "MTIA", "MAIA", "XPU", "IPU", "HPU", "XLA", "MPS", "CUDA", "PrivateUse1"]
# From the lowest to the highest priority.
KEYS = [
    "Undefined",
    *DEVICES,
    *["FPGA", "Vulkan", "Metal"],
    *[f"Quantized{device}" for device in DEVICES],
    *["CustomRNGKeyId", "MkldnnCPU"],
    *[f"Sparse{device}" for device in DEVICES],
    *[f"SparseCsr{device}" for device in DEVICES],
    *[f"NestedTensor{device}" for device in DEVICES],
    *["BackendSelect", "Fake", "Python", "FuncTorchDynamicLayerBackMode", "Functionalize"],
    *["Conjugate", "Negative", "ZeroTensor", "ADInplaceOrView", "AutogradOther"],
    *[f"Autograd{device}" for device in DEVICES],
    *["AutogradNestedTensor", "Tracer"],
    *[f"Autocast{device}" for device in AUTOCASTS],
    *["FuncTorchBatched", "BatchedNestedTensor", "FuncTorchVmapMode", "Batched", "VmapMode"],
    *["FuncTorchGradWrapper", "DeferredInit", "PythonTLSSnapshot"],
    *["FuncTorchDynamicLayerFrontMode", "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode"],
    *["PreDispatch", "PythonDispatcher"],
]
# Names for several keys at once; they are in no set.
ALIASES = [
    "Dense", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "AutogradFunctionality",
    "Autograd", "CompositeImplicitAutograd", "FuncTorchBatchedDecomposition",
    "CompositeImplicitAutogradNestedTensor", "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
]  # fmt: skip

IMPLICIT = "CompositeImplicitAutograd"
EXPLICIT = "CompositeExplicitAutograd"
# Keys that mean the same layer here.
SYNONYMS = {
    "": IMPLICIT,
    "CompositeExplicitAutogradNonFunctional": EXPLICIT,
    "BackendSelect": EXPLICIT,
    "AutogradFunctionality": "Autograd",
}

DispatchKey = enum.Enum("DispatchKey", [*KEYS, *ALIASES], start=0)  # type: ignore[misc]
DispatchKey.__module__ = "torch._C"

LAYERS = {
    "ADInplaceOrView": LAYER_INPLACE_OR_VIEW,
    "Functionalize": LAYER_FUNCTIONAL,
    "Python": LAYER_MODES | LAYER_SUBCLASS,
    "PreDispatch": LAYER_PRE | LAYER_PRE_FUNCTIONAL | LAYER_PRE_PROXY,
    **{key: LAYER_AUTOGRAD for key in KEYS if key.startswith("Autograd")},
    **{key: LAYER_AUTOCAST for key in KEYS if key.startswith("Autocast")},
    **{key: LAYER_TRANSFORMS for key in KEYS if key.startswith("FuncTorch")},
}
DEVICE_NAMES = {device.lower(): device for device in DEVICES}
# Keys of backends: which one a call has, its operands decide.
BACKEND_KEYS = frozenset(KEYS[1 : KEYS.index("BackendSelect")])


def parse_key(key: Any) -> str:
    """The name of a key that is given as one or by its name."""
    name = key.name if isinstance(key, DispatchKey) else key
    if name not in DispatchKey.__members__:
        raise error("RL0304", key=name)
    return str(name)


class DispatchKeySet:
    """A set of keys, from the lowest to the highest priority."""

    __module__ = "torch._C"

    def __init__(self, keys: Any = ()) -> None:
        given = (keys,) if isinstance(keys, (DispatchKey, str)) else keys
        self.names = frozenset(
            name for name in map(parse_key, given) if name not in ALIASES and name != "Undefined"
        )

    def __iter__(self) -> Any:
        return (DispatchKey[name] for name in KEYS if name in self.names)

    def has(self, key: Any) -> bool:
        return parse_key(key) in self.names

    def add(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(self.names | {parse_key(key)})

    def remove(self, key: Any) -> DispatchKeySet:
        return DispatchKeySet(self.names - {parse_key(key)})

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.names | other.names)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.names & other.names)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self.names - other.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def highestPriorityTypeId(self) -> Any:
        return max(self, key=lambda key: key.value, default=DispatchKey["Undefined"])

    def raw_repr(self) -> int:
        """The set as a number."""
        return sum(1 << KEYS.index(name) for name in self.names)

    @classmethod
    def from_raw_repr(cls, number: int) -> DispatchKeySet:
        return cls([name for place, name in enumerate(KEYS) if number >> place & 1])

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join([key.name for key in self])})"


FULL = DispatchKeySet(KEYS)


def keys_below(key: str) -> DispatchKeySet:
    """A key and all of lower priority."""
    name = "AutogradNestedTensor" if key.startswith("Autograd") else key
    return DispatchKeySet(KEYS[: KEYS.index(name) + 1]) if name in KEYS else FULL


AFTER_VIEWS = DispatchKeySet([*KEYS[: KEYS.index("ADInplaceOrView")], "PythonDispatcher"])
AFTER_AUTOGRAD = AFTER_VIEWS.add("ADInplaceOrView")


def backend_key(tensors: Iterable[Tensor]) -> str:
    """The backend of a call with these operands: "CPU", "Meta", "SparseCPU" ..."""
    layout, device = "", "CPU"
    for tensor in tensors:
        unusual = tensor._unusual
        if unusual is not None and unusual.parts is not None:
            layout = "Sparse" if str(tensor.layout) == "torch.sparse_coo" else "SparseCsr"
        elif tensor._array is None and not type(tensor).handling_layer:
            device = "Meta"
        elif tensor._array is None or unusual is not None:
            device = DEVICE_NAMES.get(tensor.device.type, "CPU")
    return layout + device


def keys_of(tensors: Iterable[Tensor]) -> DispatchKeySet:
    """The keys that tensors bring to a call."""
    found: set[str] = set()
    for tensor in tensors:
        backend = backend_key((tensor,))
        device = DEVICE_NAMES.get(tensor.device.type, "CPU")
        found.add(backend)
        if device in AUTOCASTS:
            found.add(f"Autocast{device}")
        if not tensor.is_inference():
            found |= {"ADInplaceOrView", f"Autograd{device}"}
        if tensor.is_conj():
            found.add("Conjugate")
        if tensor.is_neg():
            found.add("Negative")
        if dispatches(type(tensor)):
            found |= {"Python", "PythonTLSSnapshot"}
        if type(tensor).handling_layer == LAYER_FUNCTIONAL:
            found.add("Functionalize")
    return DispatchKeySet(found)


def excluded_layers(keys: DispatchKeySet) -> int:
    bits = 0
    for name in keys.names:
        bits |= LAYERS.get(name, 0)
    return bits


def is_reached(layer: int) -> bool:
    """Whether calls made by this thread pass a layer."""
    return not LOCAL.state.excluded & layer


class KeyGuard:
    """Keys that calls pass by, from now on until the guard is left or gone."""

    __module__ = "torch._C"

    def __init__(self, bits: int) -> None:
        state = LOCAL.state
        self.bits = bits & ~state.excluded
        state.excluded |= bits
        state.refresh()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        bits, self.bits = self.bits, 0
        if bits:
            state = LOCAL.state
            state.excluded &= ~bits
            state.refresh()

    def __del__(self) -> None:
        self.__exit__(None, None, None)


class ExcludeDispatchKeyGuard(KeyGuard):
    """Calls made under it pass the keys by."""

    def __init__(self, keys: Any) -> None:
        given = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)
        super().__init__(excluded_layers(given))


class AutoDispatchBelowAutograd(KeyGuard):
    """Calls made under it pass autograd by: for kernels of the Autograd key."""

    def __init__(self) -> None:
        super().__init__(LAYER_AUTOGRAD | LAYER_INPLACE_OR_VIEW)


class AutoDispatchBelowADInplaceOrView(AutoDispatchBelowAutograd):
    """The same: what writes and views leave behind is kept by autograd here."""


class IncludeDispatchKeyGuard(KeyGuard):
    """The keys are passed again under it, where a guard outside excluded them."""

    def __init__(self, keys: Any) -> None:
        state = LOCAL.state
        given = keys if isinstance(keys, DispatchKeySet) else DispatchKeySet(keys)
        self.lifted = excluded_layers(given) & state.excluded
        super().__init__(0)
        state.excluded &= ~self.lifted
        state.refresh()

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        lifted, self.lifted = self.lifted, 0
        state = LOCAL.state
        state.excluded |= lifted
        state.refresh()


class ForceDispatchKeyGuard(KeyGuard):
    """Exactly these keys are included and excluded under it."""

    def __init__(self, include: DispatchKeySet, exclude: DispatchKeySet) -> None:
        state = LOCAL.state
        self.before: int | None = state.excluded
        mapped = excluded_layers(FULL)
        super().__init__(0)
        state.excluded = state.excluded & ~mapped | excluded_layers(exclude)
        state.refresh()

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        before, self.before = self.before, None
        if before is not None:
            state = LOCAL.state
            state.excluded = before
            state.refresh()


def excluded_keys() -> DispatchKeySet:
    """The keys that calls made by this thread pass by."""
    state = LOCAL.state
    off = {name for name, layer in LAYERS.items() if layer & state.excluded == layer}
    if state.autocast is None:
        off |= {name for name in KEYS if name.startswith("Autocast")}
    return DispatchKeySet(off)


def included_keys() -> DispatchKeySet:
    """The keys that calls made by this thread have besides those of their operands."""
    state = LOCAL.state
    found = {"BackendSelect"}
    if not state.inference:
        found.add("ADInplaceOrView")
    if state.dispatch_modes:
        found |= {"Python", "PythonTLSSnapshot"}
    if state.functional is not None:
        found.add("Functionalize")
    if state.transforms:
        found |= {"FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"}
    return DispatchKeySet(found)


def redispatch(op: OpOverload, keys: DispatchKeySet, args: tuple[Any, ...]) -> Any:
    """Run an overload with the highest of the keys: the layers above it are passed by."""
    from rushlight.core import dispatch

    wanted = excluded_layers(keys)
    below = excluded_layers(FULL) & ~wanted
    return dispatch.redispatch(op, args, below)


# -- the kernels of an op ------------------------------------------------------------------------


def own_keys(op: OpOverload) -> set[str]:
    """Keys that the parts of an op of the library stand for."""
    if op.kind.name == "CUSTOM":
        return {"Autograd"} if "formula" in op.options else set()
    own = op.options.get("original", {"body": op.body, "autograd_only": op.autograd_only})
    found = {"AutocastCPU"} if op.options.get("autocast") else set()
    if own["body"] is not None and not own["autograd_only"]:
        return found | {IMPLICIT}
    found |= {"CPU"}
    if not isinstance(op.rule("shape"), Refused):
        found.add("Meta")
    if op.rule("sparse") is not None:
        found.add("SparseCPU")
    if op.grad_rule is not None or own["body"] is not None:
        found.add("Autograd")
    if ports.find_batch_rule(op) is not None:
        found.add("FuncTorchBatched")
    if op.is_view_op or op.mutated_positions:
        found |= {"ADInplaceOrView", "Functionalize"}
    return found


def registered_keys(op: OpOverload) -> set[str]:
    return own_keys(op) | set(op.options.get("kernels", ()))


def has_kernel(op: OpOverload, key: Any) -> bool:
    """Whether an op has a kernel for just this key."""
    wanted = parse_key(key)
    return SYNONYMS.get(wanted, wanted) in registered_keys(op)
