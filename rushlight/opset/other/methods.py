"""Tensor methods and facts that few programs ask for: element-by-element callbacks, memory order,
devices that do not exist here, and names kept for old programs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.op import refuse
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset.creation.create import tensor_fact
from rushlight.opset.exposure import attribute, install_method
from rushlight.opset.pointwise.arithmetic import one_operand
from rushlight.opset.registry import composite

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("detach_", "get_device")

# -- callbacks ------------------------------------------------------------------------------------


def element_method(name: str, others: int) -> None:
    """`x.map_(y, f)`: every element becomes what a Python function makes of it."""

    def method(self: Any, *args: Any) -> Any:
        *tensors, function = args
        if not callable(function):
            raise TypeError(f"{type(function).__name__!r} object is not callable")
        if len(tensors) != others:
            raise TypeError(
                f"{name}() takes {others} tensors and a callable, but got "
                f"({', '.join([type(value).__name__ for value in args])})"
            )
        if any(tensor.requires_grad for tensor in (self, *tensors)):
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use "
                f"var.detach().{name}() instead."
            )
        columns = [self.reshape(-1).tolist()]
        for other in tensors:
            if other.dtype is not self.dtype:
                raise TypeError(f"{name}(): expected {self.dtype} but got {other.dtype}")
            columns.append(other.expand(self.shape).reshape(-1).tolist())
        found = [function(*values) for values in zip(*columns, strict=True)]
        return self.copy_(self.new_tensor(found).view(self.shape)) if found else self

    install_method(method, name)


element_method("apply_", 0)
element_method("map_", 1)
element_method("map2_", 2)


# -- memory ---------------------------------------------------------------------------------------


def fits_one_format(self: Any, formats: list[Any]) -> bool:
    found = [each for each in formats if self.is_contiguous(memory_format=each)]
    return len(found) == 1


def dim_order(self: Any, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Dims from the outermost in memory to the innermost."""
    listed = isinstance(ambiguity_check, list)
    if not isinstance(ambiguity_check, bool) and not (
        listed and all(type(each) is type(contiguous_format) for each in ambiguity_check)
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    sizes, strides = tuple(self.shape), strides_of(self)
    if ambiguity_check is not False:
        repeated = any(a == b for a, b in pairwise(strides))
        ambiguous = repeated or any(size == 1 for size in sizes)
        if ambiguous and not fits_one_format(self, ambiguity_check if listed else []):
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the "
                "given memory formats."
            )
    return tuple(reversed(geometry.memory_order(sizes, [strides])))


def resized_view(self: Any, sizes: Any, verb: str) -> Any:
    if geometry.numel(sizes) != self.numel():
        raise RuntimeError(
            f"requested {verb} to {'x'.join(map(str, sizes))} ({geometry.numel(sizes)} elements in "
            f"total), but the given tensor has a size of {'x'.join(map(str, self.shape))} "
            f"({self.numel()} elements). autograd's resize can only change the shape of a given "
            "tensor, while preserving the number of elements. "
        )
    return self.contiguous().view(tuple(sizes))


def resize(self: Any, *sizes: Any) -> Any:
    """Another shape for the same number of elements."""
    listed = len(sizes) == 1 and isinstance(sizes[0], (list, tuple))
    return resized_view(self, sizes[0] if listed else sizes, "resize")


def resize_as(self: Any, tensor: Any) -> Any:
    """The shape of another tensor with as many elements."""
    return resized_view(self, tensor.shape, "resize")


def reinforce(self: Any, reward: Any) -> Any:
    """Gone: sample from a distribution of torch.distributions and use its log_prob."""
    raise RuntimeError("reinforce() was removed.\nUse torch.distributions instead.")


def module_load(self: Any, other: Any, assign: bool = False) -> Any:
    """What a module keeps of a state dict's entry: the entry itself, or a copy into this one."""
    return other.detach() if assign else self.copy_(other).detach()


def const_data_ptr(self: Any) -> Any:
    return self.data_ptr()


def to_sparse_coo(self: Any) -> Any:
    """A sparse copy in coordinate format."""
    return self.to_sparse()


def is_zero_tensor(self: Any) -> bool:
    """Whether it stands for zeros without memory: none does."""
    return False


for name, function in (
    ("to_sparse_coo", to_sparse_coo),
    ("_is_zerotensor", is_zero_tensor),
    ("dim_order", dim_order),
    ("resize", resize),
    ("resize_as", resize_as),
    ("reinforce", reinforce),
    ("module_load", module_load),
    ("const_data_ptr", const_data_ptr),
):
    install_method(function, name)


# -- devices --------------------------------------------------------------------------------------


def on_device(kind: str) -> Any:
    return property(lambda self: self.device.type == kind)


for kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu"):
    attribute(f"is_{kind}", on_device(kind))


def absent_device(kind: str, error: type[Exception], text: str) -> None:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise error(text)

    install_method(method, kind)


absent_device("xpu", AssertionError, "Torch not compiled with XPU enabled")
absent_device("mtia", AssertionError, "Torch not compiled with MTIA enabled")
absent_device("ipu", RuntimeError, "PyTorch is not linked with support for ipu devices")


@composite(
    "is_distributed(Tensor self) -> bool",
    samples=one_operand,
    errors=refuse("every tensor has an answer"),
)
def is_distributed(self: Any) -> bool:
    return False


def of_the_whole_batch(level: Any, op: Any, self: Any) -> Any:
    """torch: asked before an `if`, which all samples take together."""
    return level.below(op, (level.front(self),))


@composite(
    "_is_all_true(Tensor self) -> Tensor",
    function=False,
    batch=of_the_whole_batch,
    samples=lambda make: [(make.mask(3, 4),), (make.mask(0),)],
)
def is_all_true(self: Any) -> Any:
    require_mask("_is_all_true", self)
    return self.all()


@composite(
    "_is_any_true(Tensor self) -> Tensor",
    function=False,
    batch=of_the_whole_batch,
    samples=lambda make: [(make.mask(3, 4),), (make.mask(0),)],
)
def is_any_true(self: Any) -> Any:
    require_mask("_is_any_true", self)
    return self.any()


def require_mask(name: str, self: Any) -> None:
    if self._dtype.name != "bool":
        raise RuntimeError(f"{name}: expected a bool tensor, but got {self.dtype}")


@composite(
    "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
    function=False,
    samples=lambda make: [
        (make(3, 4), 2),
        (make.strided(7, 3), 1, True),
        (make(7, 3), 2),
        (make(2, 2, 2), 3),
        (make(4, 3), 1, True),
    ],
    errors=lambda make: [(RuntimeError, (make(3), 1)), (RuntimeError, (make(2, 2, 3), 1))],
)
def fill_diagonal_(self: Any, fill_value: Any, wrap: bool) -> Any:
    ndim = self.dim()
    if ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if ndim > 2:
        if any(size != self.shape[0] for size in self.shape[1:]):
            raise RuntimeError("all dimensions of input must be of equal length")
        line = self
        while line.dim() > 1:
            line = line.diagonal(0, 0, 1)
        line.fill_(fill_value)
        return self
    height, width = self.shape
    self.diagonal().fill_(fill_value)
    if wrap:
        # One row stays empty between two diagonals.
        for start in range(width + 1, height, width + 1):
            self.narrow(0, start, min(width, height - start)).diagonal().fill_(fill_value)
    return self


@composite(
    "detach_(Tensor(a!) self) -> Tensor(a!)",
    method=False,
    function=False,
    samples=refuse("it changes the graph that a tensor is in, and no values"),
    errors=refuse("every tensor that is no view can be detached"),
)
def take_out(self: Any) -> Any:
    return Tensor.detach_(self)


# -- public functions -----------------------------------------------------------------------------

get_device = tensor_fact("get_device")
detach_ = tensor_fact("detach_")
