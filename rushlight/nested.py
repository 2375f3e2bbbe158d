"""torch.nested: tensors whose components differ in shape."""

from rushlight.subclasses.jagged import masked_select, narrow, nested_tensor_from_jagged
from rushlight.subclasses.nested import (
    NestedTensor,
    as_nested_tensor,
    nested_tensor,
    to_padded_tensor,
)

__all__ = [
    "NestedTensor", "as_nested_tensor", "masked_select", "narrow", "nested_tensor",
    "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip
