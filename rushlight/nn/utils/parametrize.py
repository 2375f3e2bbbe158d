"""Parameters that are functions of other tensors: `register_parametrization`.

A parametrized module has a class of its own, whose property of the tensor's name computes it from
`module.parametrizations.<name>`; that holds the functions in order, and the original tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.attributes import swap_tensors
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.nn.containers import ModuleDict, ModuleList
from rushlight.nn.conversion import Conversion
from rushlight.nn.module import Module

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip


class Cache:
    """Tensors computed inside `cached()`, by module and name."""

    depth = 0
    values: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, every parametrized tensor is computed once."""
    Cache.depth += 1
    try:
        yield
    finally:
        Cache.depth -= 1
        if not Cache.depth:
            Cache.values = {}


def register(module: Module, name: str, value: Any) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def check_unchanged(what: str, before: tuple[str, Any], after: tuple[str, Any]) -> None:
    """Complain if two tensors' dtypes or shapes differ."""
    for property in ("dtype", "shape"):
        old, new = getattr(before[1], property), getattr(after[1], property)
        if old != new:
            raise ValueError(
                f"{what.format(property)}\n{before[0].format(property)}: {old}\n"
                f"{after[0].format(property)}: {new}"
            )


class Before:
    """Dtype and shape that a tensor had."""

    def __init__(self, tensor: Any) -> None:
        self.dtype, self.shape = tensor.dtype, tensor.shape


def take_over(original: Any, value: Any) -> None:
    """Give a tensor the values of another. What wraps others is more than its memory: the two
    change places, as they do wherever `torch.__future__` asks for it."""
    if not Conversion.swaps and not hasattr(type(original), "__tensor_flatten__"):
        original.set_(value)
    elif value is not original:
        if isinstance(original, Parameter) and not isinstance(value, Parameter):
            value = Parameter(value, original.requires_grad)
        swap_tensors(original, value)


class ParametrizationList(ModuleList):
    """The functions of one tensor, in order, and what they start from: `original`, or `original0`,
    `original1` … where the first function takes several tensors."""

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = Before(original)
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        continue
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self.set_single(original, new)
        else:
            self.set_several(original, new)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(
                    f"A parametrization must return a tensor. Got {type(result).__name__}."
                )
            check_unchanged(
                "Registering a parametrization may not change the {} of the tensor, unless "
                "`unsafe` flag is enabled.",
                ("unparametrized {}", before),
                ("parametrized {}", result),
            )

    def set_single(self, original: Any, new: Any) -> None:
        for property in ("dtype", "device"):
            old, now = getattr(original, property), getattr(new, property)
            if old != now:
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {property}.\n"
                    f"original.{property}: {old}\nright_inverse(original).{property}: {now}"
                )
        with no_grad():
            take_over(original, new)
        register(self, "original", original)

    def set_several(self, original: Any, values: Any) -> None:
        for number, value in enumerate(values):
            if not isinstance(value, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {number} of the sequence with type "
                    f"{type(value).__name__}."
                )
            if isinstance(original, Parameter):
                value = Parameter(value, original.requires_grad)
            value.requires_grad_(original.requires_grad)
            register(self, f"original{number}", value)

    def originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{number}") for number in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor has the given value."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                    )
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                        f"`original` has dtype {self.original.dtype}"
                    )
                take_over(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors. Got "
                    f"{type(value).__name__}."
                )
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for number, (own, tensor) in enumerate(zip(self.originals(), value, strict=True)):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {number} "
                        f"of type {type(tensor).__name__}"
                    )
                if own.dtype != tensor.dtype:
                    raise ValueError(
                        f"Tensor {number} returned by `right_inverse` has dtype {tensor.dtype} "
                        f"while `original{number}` has dtype {own.dtype}"
                    )
                take_over(own, tensor)

    def forward(self) -> Any:
        first, *others = self
        result = first(*self.originals())
        for module in others:
            result = module(result)
        return result


def refuse_pickling(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def copy_deeply(self: Any, memo: dict[int, Any]) -> Any:
    from copy import deepcopy

    if id(self) not in memo:
        memo[id(self)] = replica = type(self).__new__(type(self))
        replica.__dict__.update(deepcopy(self.__dict__, memo))
    return memo[id(self)]


def give_own_class(module: Module) -> None:
    """Let a module be the only one of a subclass of its class."""
    cls = type(module)
    fields: dict[str, Any] = {"__getstate__": refuse_pickling, "__module__": cls.__module__}
    if not hasattr(cls, "__deepcopy__"):
        fields["__deepcopy__"] = copy_deeply
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), fields)


def add_property(module: Module, name: str) -> None:
    def computed(self: Any) -> Any:
        functions = self.parametrizations[name]
        if not Cache.depth:
            return functions()
        key = (id(self), name)
        if key not in Cache.values:
            Cache.values[key] = functions()
        return Cache.values[key]

    def assigned(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(computed, assigned))


def check_next(module: Module, name: str, parametrization: Any) -> None:
    """Complain about a further function that changes dtype or shape."""
    own = getattr(module, name)
    result = parametrization(own)
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    check_unchanged(
        "Registering a parametrization may not change the {} of the tensor, unless the `unsafe` "
        "flag is enabled.",
        (f"module.{name}.{{}}", own),
        (f"parametrization(module.{name}).{{}}", result),
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    check_unchanged(
        f"The tensor returned by parametrization.right_inverse must have the same {{}} as "
        f"module.{name}, unless the `unsafe` flag is enabled.",
        (f"module.{name}.{{}}", own),
        ("returned {}", back),
    )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let a tensor of a module be computed by `parametrization` from what it was.

    >>> import rushlight as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = register_parametrization(torch.nn.Linear(3, 3), "weight", Symmetric())
    >>> torch.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            check_next(module, tensor_name, parametrization)
        functions: Any = module.parametrizations[tensor_name]
        functions.append(parametrization)
        functions.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        functions = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            give_own_class(module)
            module.parametrizations = ModuleDict()
        add_property(module, tensor_name)
        module.parametrizations[tensor_name] = functions
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any of them, is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor a plain parameter or buffer again: of its present value, or the original's."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    functions: Any = module.parametrizations[tensor_name]
    if functions.is_tensor:
        original = functions.original
        if leave_parametrized:
            with no_grad():
                take_over(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the functions, and the originals, of another's tensors."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        source: Any = from_module.parametrizations[name]
        for function in source:
            register_parametrization(to_module, name, function)
        target: Any = to_module.parametrizations[name]
        for key, value in [*source._parameters.items(), *source._buffers.items()]:
            if hasattr(source, "original") and key != "original":
                continue
            setattr(target, key, value)
    return to_module
