"""Where and how tensors lie: `device`, `layout` and `memory_format` objects.

Devices are interned: one object per (type, index), so equal devices are identical.
Used as a context, a device calls the hooks `push_default` and `pop_default`, which
the layer that owns creation ops installs on the class.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, Final, Self

DEVICE_TYPES: Final = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)

_interned: Final[dict[tuple[str, int | None], device]] = {}
_parsed: Final[dict[str, device]] = {}


def no_default_device(place: device) -> None:
    raise RuntimeError(f"{place!r} cannot be used as a context: no creation op is loaded yet")


def no_accelerator() -> str:
    raise RuntimeError("Cannot access accelerator device when none is available.")


class device:
    """A place for tensors: a type such as "cpu", "meta" or "cuda", and an index."""

    __slots__ = ("index", "type")

    type: str
    index: int | None

    push_default: ClassVar[Callable[[device], None]] = staticmethod(no_default_device)
    pop_default: ClassVar[Callable[[device], None]] = staticmethod(no_default_device)
    # Names the type of device that `device(0)` means.
    accelerator: ClassVar[Callable[[], str]] = staticmethod(no_accelerator)

    def __new__(
        cls,
        type: device | str | bytes | int | None = None,
        index: int | None = None,
        *,
        device: device | str | None = None,
    ) -> device:
        given = type if device is None else device
        if index is None:
            if given.__class__ is str:
                return _parsed.get(given) or parse(given)
            if isinstance(given, cls):
                return given
            if isinstance(given, bytes):
                return parse(given.decode())
            if isinstance(given, int) and not isinstance(given, bool):
                if given < 0:
                    raise RuntimeError("Device index must not be negative")
                return intern(cls.accelerator(), given)
            refuse_argument(given)
        if not isinstance(given, str):
            raise TypeError(
                f"device(): argument 'type' (position 1) must be str, not {type_name(given)}"
            )
        if not isinstance(index, int) or isinstance(index, bool):
            raise TypeError(
                f"device(): argument 'index' (position 2) must be int, not {type_name(index)}"
            )
        place = parse(given)
        if place.index is not None:
            raise RuntimeError(
                "type (string) must not include an index because index was passed"
                f" explicitly: {given}"
            )
        if index < 0:
            raise RuntimeError("Device index must not be negative")
        return parse(f"{given}:{index}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"attribute '{name}' of 'torch.device' objects is not writable")

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> Self:
        device.push_default(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        device.pop_default(self)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def on_device(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return on_device


def intern(type: str, index: int | None) -> device:
    """The one device object of this type and index, both valid."""
    place = _interned.get((type, index))
    if place is None:
        place = object.__new__(device)
        object.__setattr__(place, "type", type)
        object.__setattr__(place, "index", index)
        place = _interned.setdefault((type, index), place)
    return place


def parse(text: str) -> device:
    """The device of "cuda:1": letters and underscores, then perhaps a colon and an index."""
    if not text:
        raise RuntimeError("Device string must not be empty")
    type, colon, digits = text.partition(":")
    if not all(letter.isascii() and (letter.isalpha() or letter == "_") for letter in type) or (
        colon
        and not (
            digits.isascii() and digits.isdigit() and (digits == "0" or not digits.startswith("0"))
        )
    ):
        raise RuntimeError(f"Invalid device string: '{text}'")
    if type not in DEVICE_TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(DEVICE_TYPES)} device type at start of"
            f" device string: {text}"
        )
    # torch: an index is held in a byte; one that does not fit is refused rather than wrapped.
    if colon and int(digits) > 127:
        raise RuntimeError(f"Could not parse device index '{digits}' in device string '{text}'")
    place = _parsed[text] = intern(type, int(digits) if colon else None)
    return place


def type_name(value: object) -> str:
    return "torch.device" if isinstance(value, device) else type(value).__name__


def refuse_argument(given: object) -> None:
    name = "" if given is None else type_name(given)
    mismatch = f"      didn't match because some of the arguments have invalid types: (!{name}!)\n"
    raise TypeError(
        f"device() received an invalid combination of arguments - got ({name}), but expected"
        f" one of:\n * (torch.device device)\n{mismatch if name else ''}"
        " * (str type, int index = -1)\n"
    )


class layout:
    """How a tensor's elements are held: `strided`, or one of the sparse forms."""

    __refusal__ = None

    __slots__ = ("name",)

    name: str

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        raise TypeError("cannot create 'torch.layout' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class memory_format:
    """The order of a dense tensor's dimensions in memory."""

    __refusal__ = None

    __slots__ = ("name",)

    name: str

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        raise TypeError("cannot create 'torch.memory_format' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


def make_layout(name: str) -> layout:
    new: layout = object.__new__(layout)
    new.name = name
    return new


def make_memory_format(name: str) -> memory_format:
    new: memory_format = object.__new__(memory_format)
    new.name = name
    return new


strided: Final = make_layout("strided")
sparse_coo: Final = make_layout("sparse_coo")
sparse_csr: Final = make_layout("sparse_csr")
sparse_csc: Final = make_layout("sparse_csc")
sparse_bsr: Final = make_layout("sparse_bsr")
sparse_bsc: Final = make_layout("sparse_bsc")
jagged: Final = make_layout("jagged")

contiguous_format: Final = make_memory_format("contiguous_format")
preserve_format: Final = make_memory_format("preserve_format")
channels_last: Final = make_memory_format("channels_last")
channels_last_3d: Final = make_memory_format("channels_last_3d")

LAYOUTS: Final = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
MEMORY_FORMATS: Final = (contiguous_format, preserve_format, channels_last, channels_last_3d)

cpu: Final = intern("cpu", None)
meta: Final = intern("meta", None)
