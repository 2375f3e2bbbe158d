"""Datasets as stages of a pipe: `source.shuffle().batch(4)` where such stages are registered.

A stage is a dataset that takes another one. Registering a class by a name makes the name a method
of all stages of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ClassVar, TypeVar

from rushlight.data.dataset import Dataset, IterableDataset

__all__ = [
    "DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation",
    "functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic",
    "runtime_validation", "runtime_validation_disabled",
]  # fmt: skip

T = TypeVar("T")


class Registered:
    """Methods that classes of stages become by `functional_datapipe`."""

    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __getattr__(self, name: str) -> Any:
        found = type(self).functions.get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return partial(found, self)

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Make a function of a stage a method of all stages."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Make a class of stages a method of all stages."""
        if function_name in cls.functions:
            raise Exception(
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )
        cls.functions[function_name] = cls_to_register


class IterDataPipe(Registered, IterableDataset[Any]):
    """A stage that is iterated over. A subclass defines `__iter__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}

    def reset(self) -> None:
        """Called before an iteration begins anew."""


class DFIterDataPipe(IterDataPipe):
    """A stage of data frames."""


class MapDataPipe(Registered, Dataset[Any]):
    """A stage that is asked by index. A subclass defines `__getitem__`."""

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class DataChunk(list[T]):
    """Samples that belong together."""

    def raw_iterator(self) -> Iterator[T]:
        return iter(self)

    def as_str(self, indent: str = "") -> str:
        return indent + "[" + ", ".join(map(str, self)) + "]"


class functional_datapipe:
    """Registers a class of stages by a name.

    >>> from rushlight.data.pipes import IterDataPipe, functional_datapipe
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> @functional_datapipe("doubled")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * each for each in self.source)
    >>> list(Numbers().doubled())
    [0, 2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name

    def __call__(self, cls: Any) -> Any:
        if isinstance(cls, type) and issubclass(cls, IterDataPipe):
            IterDataPipe.register_datapipe_as_function(self.name, cls)
        elif isinstance(cls, type) and issubclass(cls, MapDataPipe):
            MapDataPipe.register_datapipe_as_function(self.name, cls)
        else:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        return cls


# -------------------------------------------------------------------- order and types

_state = {"deterministic": False, "validated": True}


@contextmanager
def switched(name: str, value: bool) -> Iterator[None]:
    before = _state[name]
    _state[name] = value
    try:
        yield
    finally:
        _state[name] = before


def guaranteed_datapipes_determinism() -> Any:
    """Within it, stages whose order may differ from run to run cannot be made."""
    return switched("deterministic", True)


def runtime_validation_disabled() -> Any:
    """Within it, samples are not checked against what a stage says of them."""
    return switched("validated", False)


class non_deterministic:
    """Says of a class of stages that its order may differ, or a function of its arguments says."""

    def __init__(self, arg: Any) -> None:
        self.is_so = (lambda *args, **kwargs: True) if isinstance(arg, type) else arg
        self.cls = arg if isinstance(arg, type) else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.cls is None:
            (self.cls,) = args
            return self
        if _state["deterministic"] and self.is_so(*args, **kwargs):
            raise TypeError(
                f"{self.cls.__name__} is non-deterministic, but you set "
                "'guaranteed_datapipes_determinism'. You can turn off determinism for this "
                "DataPipe if that is acceptable for your application"
            )
        return self.cls(*args, **kwargs)


def argument_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check that stages given to a constructor are what its annotations say."""
    from typing import get_type_hints

    @wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        import inspect

        hints = get_type_hints(f)
        for name, value in inspect.signature(f).bind(*args, **kwargs).arguments.items():
            wanted = hints.get(name)
            is_stage = isinstance(wanted, type) and issubclass(wanted, Dataset)
            if isinstance(wanted, type) and is_stage and not isinstance(value, wanted):
                raise TypeError(
                    f"Expected argument '{name}' as a {wanted}, but found {type(value)}"
                )
        return f(*args, **kwargs)

    return checked


def runtime_validation(f: Callable[..., Any]) -> Callable[..., Any]:
    """Check each sample of a stage against the type that its `__iter__` is annotated with."""
    from typing import get_args, get_type_hints

    @wraps(f)
    def checked(self: Any) -> Iterator[Any]:
        wanted = get_args(get_type_hints(f).get("return"))
        for sample in f(self):
            is_checked = _state["validated"] and wanted and isinstance(wanted[0], type)
            if is_checked and not isinstance(sample, wanted[0]):
                raise RuntimeError(
                    f"Expected an instance as subtype of {wanted[0]}, but found "
                    f"{sample}({type(sample)})"
                )
            yield sample

    return checked
