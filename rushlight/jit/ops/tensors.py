"""What graphs ask tensors: sizes, dtype, device; and tensors made of numbers and lists.

dtypes, layouts and memory formats are numbers in graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import device as devices
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.constants import enumerated
from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.runtime.arguments import as_dtype, as_memory_format

# -- facts -----------------------------------------------------------------------------------------

graph_text("[*{0}.shape]", "aten::size(Tensor self) -> int[]")


@graph_op("aten::size.int(Tensor self, int dim) -> int")
def size_of(self: Tensor, dim: int) -> Any:
    try:
        return self.shape[dim]
    except IndexError:
        return self.size(dim)


graph_text("[*{0}.stride()]", "aten::stride(Tensor self) -> int[]")
graph_text("{0}.stride({1})", "aten::stride.int(Tensor self, int dim) -> int")
graph_text("len({0})", "aten::len.Tensor(Tensor t) -> int")

for _name, _result in {
    "dim": "int",
    "numel": "int",
    "storage_offset": "int",
    "element_size": "int",
    "get_device": "int",
    "is_contiguous": "bool",
    "is_floating_point": "bool",
    "is_complex": "bool",
    "is_signed": "bool",
    "is_inference": "bool",
}.items():
    graph_text(f"{{0}}.{_name}()", f"aten::{_name}(Tensor self) -> {_result}")
graph_text("{0}.is_pinned()", "aten::is_pinned(Tensor self, Device? device=None) -> bool")
graph_text("{0}._version", "aten::_version(Tensor self) -> int")
graph_text("{0}.output_nr", "aten::output_nr(Tensor self) -> int")
graph_text("{0}.is_leaf", "aten::is_leaf(Tensor self) -> bool")
graph_text("{0}.retains_grad", "aten::retains_grad(Tensor self) -> bool")

graph_text("{0}.device", "prim::device(Tensor a) -> Device")
graph_text("{0}.dtype.code", "prim::dtype(Tensor a) -> int")
graph_text("{0}.requires_grad", "prim::requires_grad(Tensor a) -> bool")
graph_text("{0}.grad", "prim::grad(Tensor a) -> Tensor(*)")
graph_text("{0}.data", "prim::data(Tensor(a) a) -> Tensor(a)", "aten::data(Tensor self) -> Tensor")
graph_text("{0}.name", "prim::name(Tensor a) -> str?")
graph_text("{0}.itemsize", "prim::itemsize(Tensor a) -> int")
graph_text("{0}.nbytes", "prim::nbytes(Tensor a) -> int")
for _name in (
    *("cpu", "cuda", "ipu", "maia", "meta", "mkldnn", "mps", "mtia", "nested", "quantized"),
    *("sparse", "sparse_csr", "vulkan", "xla", "xpu"),
):
    graph_op(f"prim::is_{_name}(Tensor a) -> bool")(
        lambda a, name=f"is_{_name}": bool(getattr(a, name, False))
    )


@graph_op("prim::layout(Tensor a) -> Layout")
def layout_code(a: Tensor) -> Any:
    return enumerated(a.layout)


@graph_op("aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool")
def is_laid_out(self: Tensor, memory_format: int) -> bool:
    return bool(self.is_contiguous(memory_format=as_memory_format(memory_format)))


# -- devices and dtypes ----------------------------------------------------------------------------

graph_op("aten::device(str a) -> Device")(devices.device)
graph_op("aten::device.with_index(str type, int index) -> Device")(devices.device)
graph_text("{0}.index", "prim::index(Device self) -> int?")
graph_text("{0}.type", "prim::type(Device self) -> str")


def torch() -> Any:
    """The package's face, for what is a public function and no op."""
    import rushlight

    return rushlight


@graph_op("aten::promote_types(ScalarType type1, ScalarType type2) -> ScalarType")
def promote_types(type1: int, type2: int) -> Any:
    return enumerated(torch().promote_types(as_dtype(type1), as_dtype(type2)))


@graph_op("aten::can_cast(ScalarType from_, ScalarType to) -> bool")
def can_cast(from_: int, to: int) -> bool:
    return bool(torch().can_cast(as_dtype(from_), as_dtype(to)))


@graph_op(
    "aten::result_type.Tensor(Tensor tensor, Tensor other) -> ScalarType",
    "aten::result_type.Scalar(Tensor tensor, Scalar other) -> ScalarType",
    "aten::result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> ScalarType",
    "aten::result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> ScalarType",
)
def result_type(a: Any, b: Any) -> Any:
    return enumerated(torch().result_type(a, b))


# -- tensors of numbers ----------------------------------------------------------------------------

MADE_OF = ("float", "int", "bool", "complex")
MAKING = "ScalarType? dtype=None, Device? device=None"


@graph_op(
    *[f"aten::tensor.{x}({x} t, *, {MAKING}, bool requires_grad=False) -> Tensor" for x in MADE_OF],
    f"aten::tensor(t[] data, *, {MAKING}, bool requires_grad=False) -> Tensor",
)
def make_tensor(data: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    return torch().tensor(
        data, dtype=as_dtype(dtype), device=device, requires_grad=bool(requires_grad)
    )


@graph_op(
    *[f"aten::as_tensor.{x}({x} t, *, {MAKING}) -> Tensor" for x in MADE_OF],
    f"aten::as_tensor(Tensor(a) data, *, {MAKING}) -> Tensor(b|a)",
    f"aten::as_tensor.list(t[] data, *, {MAKING}) -> Tensor",
)
def as_tensor(data: Any, dtype: Any, device: Any) -> Any:
    return torch().as_tensor(data, dtype=as_dtype(dtype), device=device)


@graph_op("aten::_list_to_tensor(int[] self) -> Tensor")
def tensor_of_ints(self: list[int]) -> Any:
    return torch().tensor(self, dtype=torch().int64)


@graph_op("aten::_tensor_to_list(Tensor self) -> int[]")
def ints_of_tensor(self: Tensor) -> Any:
    return self.flatten().tolist()


# -- calls that are methods, not ops ---------------------------------------------------------------

ALIAS = "Tensor(a) self"


@graph_op(f"aten::cpu({ALIAS}) -> Tensor(b|a)")
def cpu(self: Tensor) -> Any:
    return self.cpu()


@graph_op(f"aten::cuda({ALIAS}) -> Tensor(b|a)")
def cuda(self: Tensor) -> Any:
    return self.cuda()


@graph_op(f"aten::to.prim_Device({ALIAS}, Device? device, int? dtype=None, "
          "bool non_blocking=False, bool copy=False) -> Tensor(b|a)")  # fmt: skip
def to_device(self: Tensor, device: Any, dtype: Any, non_blocking: bool, copy: bool) -> Any:
    kwargs = {} if dtype is None else {"dtype": as_dtype(dtype)}
    return self.to(device=device or self.device, non_blocking=non_blocking, copy=copy, **kwargs)


@graph_op(f"aten::to.prim_dtype({ALIAS}, int? dtype=None, "
          "bool non_blocking=False, bool copy=False) -> Tensor(b|a)")  # fmt: skip
def to_dtype(self: Tensor, dtype: Any, non_blocking: bool, copy: bool) -> Any:
    return self.to(
        self.dtype if dtype is None else as_dtype(dtype), non_blocking=non_blocking, copy=copy
    )


@graph_op(f"aten::to.prim_other({ALIAS}, bool non_blocking=False, bool copy=False) "
          "-> Tensor(b|a)")  # fmt: skip
def to_same(self: Tensor, non_blocking: bool, copy: bool) -> Any:
    return self.clone() if copy else self


graph_text(
    "{0}.requires_grad_({1})",
    "aten::requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)",
)
graph_text("{0}.retain_grad()", "aten::retain_grad(Tensor(a!) self) -> ()")


@graph_op("aten::set_data(Tensor(a!) self, Tensor new_data) -> ()")
def set_data(self: Tensor, new_data: Tensor) -> None:
    self.data = new_data


@graph_op(
    "aten::copy_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
    "aten::copy_.int(Tensor(a!) self, int other) -> Tensor(a!)",
    "aten::copy_.float(Tensor(a!) self, float other) -> Tensor(a!)",
)
def copy_into(self: Tensor, other: Any) -> Any:
    return self.copy_(other) if isinstance(other, Tensor) else self.fill_(other)


@graph_op("aten::split(Tensor(a -> *) self, int[] split_sizes, int dim=0) -> Tensor(a)[]")
def split_by_sizes(self: Tensor, split_sizes: list[int], dim: int) -> list[Any]:
    return list(self.split(split_sizes, dim))


# Indices that are all there: their list has another type than one with gaps.
graph_text(
    "{0}[tuple({1})]", "aten::index.Tensor_hacked_twin(Tensor self, Tensor[] indices) -> Tensor"
)


def put(name: str) -> Callable[..., Any]:
    return lambda self, indices, values, accumulate: getattr(self, name)(
        tuple(indices), values, accumulate
    )


graph_op("aten::index_put.hacked_twin(Tensor self, Tensor[] indices, Tensor values, "
         "bool accumulate=False) -> Tensor")(put("index_put"))  # fmt: skip
graph_op("aten::index_put_.hacked_twin(Tensor(a!) self, Tensor[] indices, Tensor values, "
         "bool accumulate=False) -> Tensor(a!)")(put("index_put_"))  # fmt: skip


@graph_op("aten::backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, "
          "bool create_graph=False) -> ()")  # fmt: skip
def backward(self: Tensor, gradient: Any, retain_graph: Any, create_graph: bool) -> None:
    self.backward(gradient, retain_graph, create_graph)


@graph_op("aten::backward.TensorList(Tensor[] tensors, Tensor?[]? grad_tensors=None, "
          "bool? retain_graph=None, bool create_graph=False) -> ()")  # fmt: skip
def backward_all(tensors: Any, grad_tensors: Any, retain_graph: Any, create_graph: bool) -> None:
    torch().autograd.backward(tensors, grad_tensors, retain_graph, create_graph)


@graph_op("aten::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, "
          "bool? retain_graph=None, bool create_graph=False, bool allow_unused=False) "
          "-> Tensor?[]")  # fmt: skip
def grad(
    outputs: Any, inputs: Any, grad_outputs: Any, retain: Any, create: bool, unused: bool
) -> Any:
    return list(
        torch().autograd.grad(
            outputs, inputs, grad_outputs, retain, create_graph=create, allow_unused=unused
        )
    )


# -- sizes -----------------------------------------------------------------------------------------


@graph_op("aten::_infer_size(int[] a, int[] b) -> int[]",
          "aten::broadcast_shapes(int[] a, int[] b) -> int[]")  # fmt: skip
def broadcast_sizes(a: list[int], b: list[int]) -> list[int]:
    return [*torch().broadcast_shapes(tuple(a), tuple(b))]


@graph_op("aten::_size_if_not_equal(int[] self_size, int[] other_size) -> int[]?")
def size_if_not_equal(self_size: list[int], other_size: list[int]) -> list[int] | None:
    return None if self_size == other_size else self_size


graph_text("[*{0}]", "aten::Size(int[] sizes) -> int[]")

# -- state -----------------------------------------------------------------------------------------


@graph_op("aten::is_grad_enabled() -> bool")
def is_grad_enabled() -> bool:
    return bool(torch().is_grad_enabled())


@graph_op("aten::set_grad_enabled(bool val) -> ()")
def set_grad_enabled(val: bool) -> None:
    from rushlight.autograd.grad_mode import write_grad

    write_grad(val)


@graph_op("aten::manual_seed(int seed) -> ()")
def manual_seed(seed: int) -> None:
    torch().manual_seed(seed)


@graph_op("aten::is_autocast_enabled() -> bool")
def is_autocast_enabled() -> bool:
    return bool(torch().is_autocast_enabled())


@graph_op("aten::is_autocast_cpu_enabled() -> bool")
def is_autocast_cpu_enabled() -> bool:
    return bool(torch().is_autocast_enabled("cpu"))


graph_text("True", "aten::is_scripting() -> bool")
graph_text("False", "aten::_get_tracing_state() -> bool", "aten::has_torch_function(...) -> bool")
