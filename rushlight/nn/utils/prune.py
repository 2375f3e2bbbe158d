"""Pruning: parameters of which some elements are masked out.

A pruned parameter `name` is stored as `name_orig` (a parameter) and `name_mask` (a buffer); the
attribute `name` is their product, computed by a hook before every `forward`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from rushlight.nn.utils.convert_parameters import parameters_to_vector
from rushlight.opset import functions

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod:
    """A way to choose what is masked; subclasses define `compute_mask(t, default_mask)`."""

    _tensor_name: Any
    PRUNING_TYPE: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls.compute_mask is BasePruningMethod.compute_mask:
            raise TypeError(
                f"Can't instantiate abstract class {cls.__name__} with abstract method compute_mask"
            )
        return super().__new__(cls)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The mask of a tensor: what it was, with more zeros."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask")

    def apply_mask(self, module: Any) -> Any:
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, f"{self._tensor_name}_mask")
        original = getattr(module, f"{self._tensor_name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> Any:
        """Prune a parameter of a module, further if it is pruned already."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        method = after_former(method, module, name)
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {original.shape}"
            )
        again = isinstance(method, PruningContainer)
        if again:
            default_mask = getattr(module, f"{name}_mask").detach().clone()
        else:
            module.register_parameter(f"{name}_orig", original)
            del module._parameters[name]
            default_mask = functions.ones_like(original)
        try:
            mask = method.compute_mask(importance_scores, default_mask=default_mask)
            module.register_buffer(f"{name}_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if not again:
                module.register_parameter(name, getattr(module, f"{name}_orig"))
                del module._parameters[f"{name}_orig"]
            raise
        return method

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor, pruned; nothing is stored."""
        if importance_scores is None:
            importance_scores = t
        elif importance_scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{importance_scores.shape} vs {t.shape}"
            )
        default_mask = functions.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned values the parameter's own."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(f"{name}_orig")
        original.data = weight.data
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


def hooks_on(module: Any, name: str) -> list[Any]:
    """Keys of the pruning hooks on a parameter."""
    return [
        key
        for key, hook in module._forward_pre_hooks.items()
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
    ]


def after_former(method: Any, module: Any, name: str) -> Any:
    """The method, or a container of it and those that pruned the parameter before."""
    keys = hooks_on(module, name)
    if len(keys) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
            "Use a PruningContainer."
        )
    if not keys:
        return method
    former = module._forward_pre_hooks.pop(keys[0])
    if not isinstance(former, PruningContainer):
        former = PruningContainer(former)
    former.add_pruning_method(method)
    return former


class PruningContainer(BasePruningMethod):
    """Methods that pruned a parameter one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """The last method's mask of what the others left."""
        method = self._pruning_methods[-1]
        chosen = left_by(default_mask, method, t)
        result = default_mask.to(dtype=t.dtype).clone()
        part = method.compute_mask(t[chosen], default_mask=default_mask[chosen])
        result[chosen] = part.to(dtype=result.dtype)
        return result


def left_by(mask: Any, method: Any, t: Any) -> Any:
    """The index of what a method may still prune."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.dim()
    if method.PRUNING_TYPE != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    dims = t.dim()
    dim = method.dim + dims if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {dims}")
    index: list[Any] = [slice(None)] * dims
    index[dim] = mask.sum(dim=[other for other in range(dims) if other != dim]) != 0
    return tuple(index)


class Identity(BasePruningMethod):
    """Prunes nothing; gives a parameter a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        return super().apply(module, name)


def check_amount(amount: Any) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
            "integer"
        )


def count_to_prune(amount: Any, tensor_size: int) -> Any:
    """How many of so many elements an amount, a number of them or a fraction, stands for."""
    return amount if isinstance(amount, Integral) else round(amount * tensor_size)


def check_count(amount: Any, tensor_size: int) -> None:
    if isinstance(amount, Integral) and amount > tensor_size:  # type: ignore[operator]
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune="
            f"{tensor_size}"
        )


def check_structured(t: Any) -> None:
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor "
            f"of shape {t.shape} with {t.dim()} dims"
        )


def check_dim(t: Any, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def norms_along(t: Any, n: Any, dim: int) -> Any:
    """The n-norm of each channel along a dim."""
    others = list(range(t.dim()))
    del others[dim]
    return t.norm(p=n, dim=others)


class ByAmount(BasePruningMethod):
    """A method that prunes a number, or a fraction, of elements or channels."""

    def __init__(self, amount: Any) -> None:
        check_amount(amount)
        self.amount = amount

    def count_of(self, size: int) -> int:
        count = count_to_prune(self.amount, size)
        check_count(count, size)
        return int(count)


class Unstructured(ByAmount):
    """Prunes the elements with the lowest scores."""

    PRUNING_TYPE = "unstructured"

    def scores(self, t: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no scores")

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        count = self.count_of(t.numel())
        mask = default_mask.clone()
        if count:
            found = self.scores(t).reshape(-1).topk(count, largest=False)
            flat = mask.reshape(-1).index_fill(0, found.indices, 0)
            mask = flat.reshape(mask.shape)
        return mask


class RandomUnstructured(Unstructured):
    """Prunes elements at random."""

    def scores(self, t: Any) -> Any:
        return -functions.rand_like(t)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount)


class L1Unstructured(Unstructured):
    """Prunes the elements that are smallest in magnitude."""

    def scores(self, t: Any) -> Any:
        return t.abs()

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, importance_scores: Any = None
    ) -> Any:
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class Structured(ByAmount):
    """Prunes whole channels along a dim."""

    PRUNING_TYPE = "structured"
    dim: int

    def kept(self, t: Any, size: int, count: int) -> Any:
        """The index of the channels that stay."""
        raise NotImplementedError(f"{type(self).__name__} has no kept")

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        check_structured(t)
        check_dim(t, self.dim)
        size = t.shape[self.dim]
        count = self.count_of(size)
        if count == 0:
            return default_mask
        mask = functions.zeros_like(t)
        index: list[Any] = [slice(None)] * t.dim()
        index[self.dim] = self.kept(t, size, count)
        mask[tuple(index)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(Structured):
    """Prunes channels at random."""

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def kept(self, t: Any, size: int, count: int) -> Any:
        drawn = functions.rand((size,))
        return drawn > drawn.kthvalue(count).values

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(Structured):
    """Prunes the channels with the smallest n-norms."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount)
        self.n = n
        self.dim = dim

    def kept(self, t: Any, size: int, count: int) -> Any:
        return norms_along(t, self.n, self.dim).topk(size - count).indices

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Any) -> Any:  # type: ignore[override]
        return super().apply(module, name, mask=mask)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the elements that are smallest in magnitude.

    >>> import rushlight as torch
    >>> layer = l1_unstructured(torch.nn.Linear(4, 1), "weight", 3)
    >>> int(layer.weight_mask.sum())
    1
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels with the smallest n-norms."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    values = [scores.get((module, name), getattr(module, name)) for module, name in parameters]
    masks = [
        getattr(module, f"{name}_mask", functions.ones_like(getattr(module, name)))
        for module, name in parameters
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    joined = PruningContainer(method).compute_mask(
        parameters_to_vector(values), parameters_to_vector(masks)
    )
    start = 0
    for module, name in parameters:
        own = getattr(module, name)
        mask = joined[start : start + own.numel()].view_as(own)
        custom_from_mask(module, name, mask=mask)
        start += own.numel()


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune what a given mask says."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make the pruned values the parameter's own."""
    for key in hooks_on(module, name):
        module._forward_pre_hooks.pop(key).remove(module)
        return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Any) -> bool:
    """Whether a module, or one in it, has pruned parameters."""
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
