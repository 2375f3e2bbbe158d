"""Operators of graphs that are public functions here, and ops of their own in torch."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.constants import enumerated
from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ops.tensors import torch
from rushlight.jit.runtime.arguments import as_device, as_memory_format

# -- networks --------------------------------------------------------------------------------------


SIZES = (("", "int", "float"), ("size_list", "int[]", "float"), ("scale_list", "int", "float[]"),
         ("size_list_scale_list", "int[]", "float[]"))  # fmt: skip


def resizing(name: str, scale: str, rest: str = "") -> list[str]:
    """The schemas of a function that is told a size or a scale, each as one number or a list."""
    found = []
    for overload, size, factor in SIZES:
        form = f"aten::{name}{'.' if overload else ''}{overload}"
        factor = factor.replace("float", scale)
        found.append(f"{form}(Tensor input, {size}? size=None, {factor}? scale_factor=None{rest})")
    return [f"{text} -> Tensor" for text in found]


@graph_op(
    *resizing(
        "__interpolate",
        "float",
        ', str mode="nearest", bool? align_corners=None, bool? recompute_scale_factor=None, '
        "bool antialias=False",
    )
)
def interpolate(*args: Any) -> Any:
    return torch().nn.functional.interpolate(*args)


@graph_op(*resizing("__upsample", "int", ', str mode="nearest", bool? align_corners=None')[:2])
def upsample(input: Tensor, size: Any, scale: Any, mode: str, align_corners: Any) -> Any:
    return interpolate(input, size, scale, mode, align_corners)


@graph_op(*resizing("__upsample_nearest", "int")[:2])
def upsample_nearest(input: Tensor, size: Any, scale: Any) -> Any:
    return interpolate(input, size, scale, "nearest")


@graph_op(*resizing("__upsample_bilinear", "int"))
def upsample_bilinear(input: Tensor, size: Any, scale: Any) -> Any:
    return interpolate(input, size, scale, "bilinear", True)


graph_text(
    "({0}, {1}, {2}, {3})",
    "aten::_pack_sequence(Tensor output, Tensor batch_sizes, Tensor? sorted_indices, "
    "Tensor? unsorted_indices) -> (Tensor, Tensor, Tensor?, Tensor?)",
)

# -- initial values --------------------------------------------------------------------------------


@graph_op("aten::_no_grad_uniform_(Tensor(a!) tensor, float a, float b, "
          "Generator? generator=None) -> Tensor(a!)")  # fmt: skip
def fill_uniform(tensor: Tensor, a: float, b: float, generator: Any) -> Any:
    with torch().no_grad():
        return tensor.uniform_(a, b, generator=generator)


@graph_op("aten::_no_grad_normal_(Tensor(a!) tensor, float mean, float std, "
          "Generator? generator=None) -> Tensor(a!)")  # fmt: skip
def fill_normal(tensor: Tensor, mean: float, std: float, generator: Any) -> Any:
    with torch().no_grad():
        return tensor.normal_(mean, std, generator=generator)


@graph_op("aten::_no_grad_fill_(Tensor(a!) tensor, float val) -> Tensor(a!)")
def fill_value(tensor: Tensor, val: float) -> Any:
    with torch().no_grad():
        return tensor.fill_(val)


@graph_op("aten::_no_grad_zero_(Tensor(a!) tensor) -> Tensor(a!)")
def fill_zero(tensor: Tensor) -> Any:
    return fill_value(tensor, 0.0)


@graph_op("aten::_no_grad_embedding_renorm_(Tensor weight, Tensor input, float max_norm, "
          "float norm_type) -> Tensor")  # fmt: skip
def renormalize(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> Any:
    with torch().no_grad():
        return torch().embedding_renorm_(weight, input, max_norm, norm_type)


# -- generators ------------------------------------------------------------------------------------


@graph_op("aten::Generator(*, Device? device=None, int? seed=None) -> Generator")
def make_generator(device: Any, seed: int | None) -> Any:
    generator = torch().Generator(as_device(device or "cpu"))
    if seed is not None:
        generator.manual_seed(seed)
    return generator


graph_text("{0}.initial_seed()", "aten::initial_seed(Generator self) -> int")
graph_text("{0}.seed()", "aten::seed(Generator(a!) self) -> int")
graph_text(
    "{0}.manual_seed({1})",
    "aten::manual_seed.generator(Generator(a!) self, int seed) -> Generator(a!)",
)

# -- tensors ---------------------------------------------------------------------------------------

for _word, _method in {
    "Byte": "byte",
    "Char": "char",
    "Double": "double",
    "Float": "float",
    "Half": "half",
    "Int": "int",
    "Long": "long",
    "Short": "short",
}.items():
    graph_text(
        f"{{0}}.{_method}()", f"aten::_cast_{_word}(Tensor self, bool non_blocking=False) -> Tensor"
    )


@graph_op("aten::chalf(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor")
def chalf(self: Tensor, memory_format: Any) -> Any:
    layout = torch().preserve_format if memory_format is None else as_memory_format(memory_format)
    return self.to(torch().complex32, memory_format=layout)


@graph_op("aten::_shape_as_tensor(Tensor self) -> Tensor")
def shape_as_tensor(self: Tensor) -> Any:
    return torch().tensor([*self.shape], dtype=torch().int64)


graph_text("{0}.reshape({1}.tolist())",
           "aten::_reshape_from_tensor(Tensor self, Tensor shape) -> Tensor")  # fmt: skip


@graph_op("aten::_dim_arange(Tensor like, int dim) -> Tensor")
def dim_arange(like: Tensor, dim: int) -> Any:
    return torch().arange(like.size(dim), device=like.device)


@graph_op("aten::_grad_sum_to_size(Tensor(a) self, int[]? size) -> Tensor(a)")
def sum_gradient(self: Tensor, size: list[int] | None) -> Any:
    return self if size is None else self.sum_to_size(size)


@graph_op("aten::pin_memory(Tensor(a) self, Device? device=None) -> Tensor(a)")
def pin_memory(self: Tensor, device: Any) -> Any:
    return self.pin_memory()


@graph_op("aten::save(t item, str filename) -> ()")
def save(item: Any, filename: str) -> None:
    torch().save(item, filename)


@graph_op("aten::get_autocast_dtype(str device_type) -> ScalarType")
def autocast_dtype(device_type: str) -> Any:
    return enumerated(torch().get_autocast_dtype(device_type))


graph_text(
    "False", "aten::is_vulkan_available() -> bool", "aten::_is_zerotensor(Tensor self) -> bool"
)
