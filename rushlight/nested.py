"""torch.nested: tensors whose components differ in shape."""

from rushlight.subclasses.nested import (
    NestedTensor,
    as_nested_tensor,
    nested_tensor,
    to_padded_tensor,
)

__all__ = ["NestedTensor", "as_nested_tensor", "nested_tensor", "to_padded_tensor"]
