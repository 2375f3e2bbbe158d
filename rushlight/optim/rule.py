"""`PerParameter`: optimisers that treat every parameter by itself.

The base finds gradients, makes state, counts steps, applies weight decay and shows complex
tensors as pairs of real ones; a subclass states what a parameter's state is and how it moves.
"""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar

from rushlight.autograd.grad_mode import set_grad_enabled
from rushlight.base.signatures import signed
from rushlight.core import construct
from rushlight.core.dtype import float32, float64, get_default_dtype
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN, Tensor
from rushlight.opset import functions
from rushlight.optim.grouping import get_fused_kernels_supported_devices
from rushlight.optim.optimizer import Optimizer, check_options

__all__ = [
    "PerParameter", "fused_step", "is_plain", "number", "plus", "set_maximum", "step_count",
    "zeros_after",
]  # fmt: skip


def number(value: Any) -> Any:
    """An option that may be given as a tensor of one element."""
    return value.item() if isinstance(value, Tensor) else value


def step_count(value: float = 0.0) -> Any:
    """A number kept as a tensor, so that it is saved like the rest of the state."""
    wide = get_default_dtype() is float64
    return construct.tensor(value, dtype=float64 if wide else float32)


def zeros_after(value: Any) -> Any:
    return functions.zeros_like(value)


def real_view(tensor: Any) -> Any:
    """A complex tensor as pairs of real numbers, each with state of its own."""
    is_complex = isinstance(tensor, Tensor) and tensor.is_complex()
    return functions.view_as_real(tensor) if is_complex else tensor


def constructor_of(cls: type[PerParameter]) -> Any:
    """`__init__(self, params, ...)` with the options of an optimiser."""
    in_order, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    signature = Signature(
        [Parameter("self", in_order), Parameter("params", in_order)]
        + [Parameter(name, in_order, default=value) for name, value in cls.options.items()]
        + [Parameter(name, by_name, default=value) for name, value in cls.keyword_options.items()]
    )

    def construct(self: Any, options: dict[str, Any]) -> None:
        params = options.pop("params")
        self.check(**options)
        options |= cls.fixed_options
        order = cls.group_order.split() or options
        Optimizer.__init__(self, params, {name: options[name] for name in order})
        self.begin()

    return signed(signature, cls.__name__, construct)


class PerParameter(Optimizer):
    """Optimisers whose update of a parameter depends on that parameter alone."""

    # Whether gradients may be sparse, and what the error advises where they may not.
    takes_sparse = False
    sparse_advice = ""
    # Whether the base applies the option `weight_decay`.
    decays_weights = True
    # State that is one number, kept as a tensor.
    counts: tuple[str, ...] = ("step",)
    # What the constructor takes beside `params`, with defaults: in order or by name, and by name
    # only; then what every group has besides. A class with `options` of its own has a constructor
    # of that signature.
    options: ClassVar[dict[str, Any]] = {}
    keyword_options: ClassVar[dict[str, Any]] = {}
    fixed_options: ClassVar[dict[str, Any]] = {}
    # torch: the order in which groups hold them, where it is not that of the signature.
    group_order: ClassVar[str] = ""

    if TYPE_CHECKING:

        def __init__(self, params: Any, lr: Any = ..., **options: Any) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "options" in cls.__dict__:
            cls.__init__ = constructor_of(cls)  # type: ignore[method-assign]

    def check(self, **options: Any) -> None:
        """Refuse values that options must not have."""
        check_options(**options)

    def begin(self) -> None:
        """Called once the groups of parameters are made."""

    def new_state(self, value: Any, group: dict[str, Any]) -> dict[str, Any]:
        """What is remembered of a parameter, before its first step."""
        raise NotImplementedError(type(self).__name__)

    def update(
        self, value: Any, grad: Any, state: dict[str, Any], group: dict[str, Any], lr: float
    ) -> None:
        """Move one parameter. State holds tensors, which are to be changed in place."""
        raise NotImplementedError(type(self).__name__)

    def update_together(self, values: list[Any], group: dict[str, Any]) -> bool:
        """Move all parameters of a group in one call; False where that cannot be."""
        return False

    def convert_old_state(self) -> None:
        for state in self.state.values():
            for name in self.counts:
                if name in state and not isinstance(state[name], Tensor):
                    state[name] = step_count(float(state[name]))

    def step(self, closure: Any = None) -> Any:
        with set_grad_enabled(bool(self.defaults.get("differentiable"))):
            return self.take_step(closure)

    def take_step(self, closure: Any) -> Any:
        loss = self.run_closure(closure)
        for group in self.param_groups:
            if group.get("capturable"):
                raise AssertionError(
                    "If capturable=True, params and state_steps must be on supported devices: "
                    "['cuda', 'xpu', 'hpu', 'privateuseone', 'xla']."
                )
            values = self.with_gradients(group)
            for value in values:
                self.prepare(value, group)
            if group.get("differentiable") or not self.update_together(values, group):
                for value in values:
                    self.update_one(value, group)
        return loss

    def prepare(self, value: Any, group: dict[str, Any]) -> None:
        """Check a parameter's gradient, make its state and count the step."""
        if group.get("fused") and not (
            value.is_floating_point() and value.device.type in get_fused_kernels_supported_devices()
        ):
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported "
                f"devices: {get_fused_kernels_supported_devices()} but {value.dtype} and "
                f"{value.device}"
            )
        if value.grad.is_sparse and not self.takes_sparse:
            raise RuntimeError(
                f"{type(self).__name__} does not support sparse gradients{self.sparse_advice}"
            )
        state = self.state.get(value)
        if not state:
            made = self.new_state(value, group)
            if state is None and not made:
                # torch: nothing stands in the table for a parameter of which nothing is kept.
                return
            state = self.state[value]
            state.update(made)
        if "step" in state:
            state["step"] += 1

    def update_one(self, value: Any, group: dict[str, Any]) -> None:
        lr = number(group["lr"])
        grad = -value.grad if group.get("maximize") else value.grad
        state = self.state.get(value, {})
        if group.get("differentiable"):
            # The graph keeps what this step reads: the next one must not write over it.
            state.update({name: entry.clone() for name, entry in state.items()})
        decay = group.get("weight_decay", 0) if self.decays_weights else 0
        if decay:
            if grad.is_sparse:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            if group.get("decoupled_weight_decay"):
                value.mul_(1 - lr * decay)
            else:
                grad = grad.add(value, alpha=decay)
        if value.is_complex():
            value, grad = real_view(value), real_view(grad)
            state = {name: real_view(entry) for name, entry in state.items()}
        self.update(value, grad, state, group, lr)


def plus(root: Any, eps: float, group: dict[str, Any]) -> Any:
    """A fresh root with `eps` added, in place unless a graph keeps the root."""
    return root.add(eps) if group["differentiable"] else root.add_(eps)


def set_maximum(target: Any, other: Any, group: dict[str, Any]) -> None:
    """The larger of both, in the place of the first."""
    if group["differentiable"]:
        target.copy_(functions.maximum(target.clone(), other))
    else:
        functions.maximum(target, other, out=target)


def fused_step(name: str) -> Any:
    """The op of that name, which moves all parameters."""
    return getattr(functions, name)


def is_plain(values: list[Any], group: dict[str, Any]) -> bool:
    """Whether one fused call may move these parameters: nothing watches single operators."""
    if not values or group.get("foreach") or group.get("fused") is False:
        return False
    if PROCESS.special and LOCAL.state.layers:
        return False
    for value in values:
        grad = value.grad
        for tensor in (value, grad):
            if type(tensor) not in PLAIN:
                return False
            if tensor._unusual is not None or not tensor._is_contiguous:
                return False
        if not value.dtype.is_floating_point or value.dtype is not grad.dtype:
            return False
    return True
