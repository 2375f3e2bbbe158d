"""What functions do to jagged tensors: a rule by name, or the values treated alike.

Rules are programs over ordinary tensors: the values, or the components padded to the longest. The
ragged dim of the values is the one before that of the whole, which has the batch in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.base.pytree import tree_map
from rushlight.core.dtype import iinfo
from rushlight.core.modes import DisableTorchFunctionSubclass
from rushlight.core.tensor import Tensor
from rushlight.opset import functions
from rushlight.subclasses.jagged import (
    JaggedTensor,
    NestedInt,
    as_values,
    from_components,
    wrapped,
)
from rushlight.subclasses.nested import is_elementwise

__all__ = ["apply", "to_padded"]

RULES: dict[str, Callable[..., Any]] = {}
# What acts on each value, or on the dims behind the ragged one, by the values alone.
_ON_VALUES = (
    "clone conj detach double float half bfloat16 int long bool to type_as cpu dropout "
    "alpha_dropout feature_dropout bernoulli embedding zeros_like ones_like empty_like "
    "full_like rand_like randn_like randint_like nan_to_num normalize glu resolve_conj "
    "resolve_neg view_as_real"
)
ON_VALUES = frozenset(_ON_VALUES.split())
# What treats every element alike and does not say so, being made of other ops.
_ELEMENTWISE = (
    "copy_ fill_ float_power float_power_ isclose isreal log_sigmoid relu6 rrelu selu "
    "softsign square square_ tanhshrink __and__ __floordiv__ __invert__ __mod__ __or__ "
    "__radd__ __rmul__ __rpow__ __rsub__ __rtruediv__ __xor__"
)
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
# What concerns the object: its place in the graph, and facts of its values.
_OBJECT = (
    "__format__ __get__ __set__ __delete__ backward register_hook retain_grad requires_grad_ "
    "element_size is_floating_point is_complex is_signed data_ptr storage_offset "
    "untyped_storage grad has_names is_inference is_pinned register_post_accumulate_grad_hook "
    "get_device _is_view is_same_size is_shared is_conj is_neg _is_zerotensor"
)
OBJECT = frozenset(_OBJECT.split())


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return keep


def apply(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    found = RULES.get(name)
    if found is not None:
        return found(func, *args, **kwargs)
    if name in ON_VALUES:
        return on_values(func, args, kwargs)
    if name in ELEMENTWISE or is_elementwise(name.rstrip("_")):
        return elementwise(name, func, args, kwargs)
    if name in OBJECT:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    raise MissingFeature(f"{name or func} on nested tensors of layout torch.jagged", code="RL0520")


# -- the values ------------------------------------------------------------------------------------


def first_jagged(*operands: Any) -> JaggedTensor:
    return next(each for each in operands if isinstance(each, JaggedTensor))


def values_of(operand: Any) -> Any:
    return as_values(operand) if isinstance(operand, JaggedTensor) else operand


def on_values(func: Any, args: Any, kwargs: Any) -> Any:
    like = first_jagged(*args, *kwargs.values())
    args, kwargs = tree_map(values_of, (args, kwargs))
    return wrapped(func(*args, **kwargs), like)


def as_operand(name: str, operand: Any, like: JaggedTensor) -> Any:
    """An operand beside `like` as it broadcasts with the values of that."""
    if isinstance(operand, JaggedTensor):
        ragged, other = like.shape[like._ragged_idx], operand.shape[operand._ragged_idx]
        if ragged != other or like._ragged_idx != operand._ragged_idx:
            sizes = [f"({', '.join(map(str, each.shape))})" for each in (like, operand)]
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes "
                f"{sizes[0]} and {sizes[1]}"
            )
        return as_values(operand)
    if not isinstance(operand, Tensor) or operand.dim() == 0:
        return operand
    ndim, place = like.dim(), like._ragged_idx
    # Where the ragged dim is, among the operand's own.
    own = place - (ndim - operand.dim())
    if operand.dim() < ndim:
        if own >= 0 and operand.shape[own] != 1:
            raise RuntimeError(
                f"{name}: an ordinary operand of size {operand.shape[own]} along the ragged dim"
            )
        return operand
    if operand.dim() > ndim:
        raise MissingFeature(f"{name} of a tensor of more dims than a nested one", code="RL0520")
    if operand.shape[own] != 1:
        if operand.shape[0] == 1:
            operand = operand.expand((len(like), *operand.shape[1:]))
        return gathered(operand, like)
    if operand.shape[0] == 1:
        return operand.squeeze(0)
    rows = operand.movedim(place, 1).squeeze(1)[segments(like)[0]]
    return rows.movedim(0, place - 1)


def elementwise(name: str, func: Any, args: Any, kwargs: Any) -> Any:
    found = [each for each in (*args, *kwargs.values()) if isinstance(each, JaggedTensor)]
    like = max(found, key=lambda each: each.dim())

    def taken(operand: Any) -> Any:
        return as_operand(name, operand, like)

    args, kwargs = tree_map(taken, (args, kwargs))
    result = func(*args, **kwargs)
    if name.endswith("_") and not name.endswith("__"):
        return like
    if isinstance(result, tuple):
        return type(result)([wrapped(each, like) for each in result])
    return wrapped(result, like)


# -- components, padded ----------------------------------------------------------------------------


def refuse_holes(name: str, tensor: JaggedTensor, what: str = "") -> None:
    if tensor._lengths is not None:
        raise RuntimeError(
            f"{name}(): {what or 'not supported for nested tensors'} "
            f"{'non-contiguous nested tensors ' if what else ''}with holes"
        )


def segments(tensor: JaggedTensor) -> tuple[Tensor, Tensor]:
    """Of each place along the ragged dim: which component it is in, and how far from its begin."""
    offsets = tensor._offsets
    total = as_values(tensor).shape[tensor._ragged_idx - 1]
    places = functions.arange(total, device=offsets.device)
    rows = functions.searchsorted(offsets[1:].contiguous(), places, right=True)
    return rows, places - offsets[rows]


def to_padded(tensor: JaggedTensor, padding: Any, longest: int | None = None) -> Tensor:
    """An ordinary tensor: the components with `padding` behind them along the ragged dim."""
    refuse_holes("to_padded_tensor", tensor)
    values, place = as_values(tensor), tensor._ragged_idx
    front = values.movedim(place - 1, 0)
    length = tensor._max_seqlen if longest is None else longest
    blank = functions.full(
        (len(tensor), length, *front.shape[1:]), padding, dtype=values.dtype, device=values.device
    )
    found: Tensor = blank.index_put(segments(tensor), front).movedim(1, place)
    return found


def gathered(padded: Tensor, like: JaggedTensor, place: int | None = None) -> Tensor:
    """The values that an ordinary tensor has where `like` has some."""
    ragged = like._ragged_idx if place is None else place
    found: Tensor = padded.movedim(ragged, 1)[segments(like)].movedim(0, ragged - 1)
    return found


@rule("to_padded_tensor")
def padded(func: Any, self: Any, padding: float, output_size: Any = None) -> Any:
    found = to_padded(self, padding)
    if output_size is None:
        return found
    if any([want < have for want, have in zip(output_size, found.shape, strict=True)]):
        raise RuntimeError(
            "Value in output_size is less than NestedTensor padded size. Truncation is not "
            "supported."
        )
    pad = [
        amount
        for want, have in zip(reversed(output_size), reversed(found.shape), strict=True)
        for amount in (0, want - have)
    ]
    return functions.constant_pad_nd(found, pad, padding)


@rule("unbind")
def unbind(func: Any, self: Any, dim: int = 0) -> Any:
    if self.place(dim) != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    begins, counts = self._offsets.tolist(), self.counts().tolist()
    values, axis = as_values(self), self._ragged_idx - 1
    return tuple([values.narrow(axis, *where) for where in zip(begins, counts)])


@rule("contiguous")
def contiguous(func: Any, self: Any, **kwargs: Any) -> Any:
    if self._lengths is None:
        return wrapped(as_values(self).contiguous(), self)
    return from_components(list(self.unbind()))


# -- reductions ------------------------------------------------------------------------------------


def least(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return -math.inf
    return False if dtype.name == "bool" else iinfo(dtype).min


def greatest(dtype: Any) -> Any:
    if dtype.is_floating_point:
        return math.inf
    return True if dtype.name == "bool" else iinfo(dtype).max


# Reductions, and what changes none of them.
NEUTRAL: dict[str, Callable[[Any], Any]] = {
    "sum": lambda dtype: 0, "mean": lambda dtype: 0, "prod": lambda dtype: 1,
    "any": lambda dtype: 0, "all": lambda dtype: 1,
    "amax": least, "max": least, "argmax": least,
    "amin": greatest, "min": greatest, "argmin": greatest,
}  # fmt: skip


def reduction(name: str) -> Callable[..., Any]:
    def reduce(func: Any, self: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        if isinstance(dim, Tensor):
            return elementwise(name, func, (self, dim), options)
        if dim is None:
            refuse_holes(name, self, "reducing across the ragged dimension is not supported for")
            return func(as_values(self), **options)
        several = isinstance(dim, (tuple, list))
        dims = {self.place(each) for each in (dim if several else (dim,))}
        ragged = self._ragged_idx
        if ragged not in dims:
            if 0 in dims:
                raise RuntimeError(
                    f"{name}(): reducing along the batch dimension but not the ragged dimension is "
                    "not supported for nested tensors"
                )
            inner = [each - 1 for each in sorted(dims)]
            result = func(as_values(self), inner if several else inner[0], keepdim, **options)
            gone = 0 if keepdim else sum([each < ragged for each in dims])
            return each_wrapped(result, self, ragged - gone)
        if 0 not in dims and len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
                "nested tensors"
            )
        refuse_holes(name, self, "reducing across the ragged dimension is not supported for")
        if 0 in dims:
            inner = [each - 1 for each in sorted(dims) if each]
            result = func(as_values(self), inner, keepdim, **options)
            return result.unsqueeze(0) if keepdim else result
        flat = to_padded(self, NEUTRAL[name](self.dtype))
        if name == "mean":
            sums = flat.sum(ragged, keepdim, **options)
            counts = self.counts().reshape((-1, *[1] * (sums.dim() - 1)))
            return sums / counts
        return func(flat, [ragged] if several else ragged, keepdim, **options)

    return reduce


def each_wrapped(result: Any, like: JaggedTensor, ragged_idx: int) -> Any:
    if isinstance(result, tuple):
        return type(result)([wrapped(each, like, ragged_idx) for each in result])  # type: ignore[arg-type]
    return wrapped(result, like, ragged_idx)


for reduced in NEUTRAL:
    RULES[reduced] = reduction(reduced)


def softmaxed(func: Any, self: Any, dim: Any = None, *args: Any, **kwargs: Any) -> Any:
    place = self.place(-1 if dim is None else dim)
    if place == 0:
        raise RuntimeError(
            f"{func.__name__}(): not supported when reducing across the batch dimension for "
            "NestedTensor"
        )
    if place != self._ragged_idx:
        return wrapped(func(as_values(self), place - 1, *args, **kwargs), self)
    refuse_holes(func.__name__, self)
    flat = func(to_padded(self, -math.inf), place, *args, **kwargs)
    return wrapped(gathered(flat, self), self)


RULES.update(dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), softmaxed))


# -- products --------------------------------------------------------------------------------------


@rule("linear")
def linear(func: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    if input._ragged_idx == input.dim() - 1:
        raise RuntimeError("linear(): not supported for NestedTensor where the last dim is ragged")
    return wrapped(func(as_values(input), weight, bias), input)


@rule("layer_norm", "rms_norm")
def normalized(func: Any, input: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    if len(normalized_shape) >= input.dim() - input._ragged_idx:
        raise MissingFeature(f"{func.__name__} over a ragged dim", code="RL0520")
    return wrapped(func(as_values(input), normalized_shape, *args, **kwargs), input)


@rule("matmul", "bmm", "__matmul__", "__rmatmul__")
def matmul(func: Any, self: Any, other: Any) -> Any:
    if func.__name__ == "__rmatmul__":
        self, other = other, self
    left, right = (
        each._ragged_idx - each.dim() if isinstance(each, JaggedTensor) else 0
        for each in (self, other)
    )
    if left and not right and other.dim() == 2 and left != -1:
        return wrapped(as_values(self).matmul(other), self)
    inner = left == -1, right == -2
    if (left == -2 and right == -1) or (inner[0] != inner[1] and left and right):
        raise RuntimeError(
            f"matmul(): not supported between inputs of shapes {tuple(self.shape)} and "
            f"{other.shape}"
        )
    if any(inner) and not all(inner):
        raise RuntimeError("matmul(): the ragged dim of one operand meets another's ordinary one")
    if all(inner) and self.shape[-1] != other.shape[-2]:
        raise RuntimeError("matmul(): the operands' ragged dims are not of one structure")
    product = functions.matmul(
        *[to_padded(each, 0) if isinstance(each, JaggedTensor) else each for each in (self, other)]
    )
    if all(inner):
        return product
    like = self if left else other
    place = product.dim() + (left or right)
    return wrapped(gathered(product, like, place), like, place)


@rule("scaled_dot_product_attention")
def attention(
    func: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    if attn_mask is not None:
        raise ValueError("Masks are not yet supported!")
    if not all([isinstance(each, JaggedTensor) for each in (query, key, value)]):
        raise MissingFeature("attention between nested and ordinary tensors", code="RL0520")
    if any([each.dim() != 4 or each._ragged_idx != 2 for each in (query, key, value)]):
        raise ValueError(
            "scaled_dot_product_attention(): nested operands are (batch, heads, ragged, features)"
        )
    q, k, v = (to_padded(each, 0) for each in (query, key, value))
    places = functions.arange(k.shape[2], device=k.device)
    seen = places < key.counts().reshape((-1, 1, 1, 1))
    if is_causal:
        seen = seen & (places <= functions.arange(q.shape[2], device=q.device).unsqueeze(1))
    found = func(q, k, v, seen, dropout_p, scale=scale, enable_gqa=enable_gqa)
    return wrapped(gathered(found, query), query)


# -- shapes ----------------------------------------------------------------------------------------


def inner_place(name: str, self: JaggedTensor, dim: int) -> int:
    """A dim among those of the values; refused are the batch and the ragged one."""
    place = self.place(dim)
    if place == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if place == self._ragged_idx:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return place - 1


@rule("transpose", "swapaxes", "swapdims")
def transpose(func: Any, self: Any, dim0: int, dim1: int) -> Any:
    a, b = self.place(dim0), self.place(dim1)
    if (a == 0) != (b == 0):
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    order = list(range(self.dim()))
    order[a], order[b] = b, a
    return permuted(self, order)


def permuted(self: JaggedTensor, order: list[int]) -> Any:
    values = as_values(self).permute([each - 1 for each in order[1:]])
    return wrapped(values, self, order.index(self._ragged_idx))


@rule("permute")
def permute(func: Any, self: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 else dims
    order = [self.place(dim) for dim in given]
    if order[0] != 0:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return permuted(self, order)


@rule("view", "reshape")
def view(func: Any, self: Any, *size: Any) -> Any:
    sizes = list(size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size)
    place, name = self._ragged_idx, func.__name__
    kept = len(sizes) > place and sizes[place] in (-1, self.shape[place])
    if not kept or sizes[0] not in (len(self), -1):
        shown = ", ".join(map(str, self.shape))
        raise RuntimeError(f"{name}(): cannot view shape ({shown}) as {sizes}")
    values = as_values(self)
    inner = [*sizes[1:place], values.shape[place - 1], *sizes[place + 1 :]]
    return wrapped(func(values, inner), self)


@rule("flatten")
def flatten(func: Any, self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    start, end = self.place(start_dim), self.place(end_dim)
    if start == 0:
        raise RuntimeError("flatten(): not supported for NestedTensor on dim=0")
    if start <= self._ragged_idx <= end and start != end:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    place = self._ragged_idx - (end - start if end < self._ragged_idx else 0)
    return wrapped(as_values(self).flatten(start - 1, end - 1), self, place)


@rule("unflatten")
def unflatten(func: Any, self: Any, dim: int, sizes: Any) -> Any:
    inner = inner_place("unflatten", self, dim)
    more = len(sizes) - 1 if inner + 1 < self._ragged_idx else 0
    return wrapped(as_values(self).unflatten(inner, sizes), self, self._ragged_idx + more)


@rule("unsqueeze")
def unsqueeze(func: Any, self: Any, dim: int) -> Any:
    place = dim % (self.dim() + 1)
    if place == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    ragged = self._ragged_idx + (place <= self._ragged_idx)
    return wrapped(as_values(self).unsqueeze(place - 1), self, ragged)


@rule("squeeze")
def squeeze(func: Any, self: Any, dim: Any = None) -> Any:
    if dim is None:
        raise MissingFeature("squeeze of a nested tensor without a dim", code="RL0520")
    inner = inner_place("squeeze", self, dim)
    gone = inner + 1 < self._ragged_idx and as_values(self).shape[inner] == 1
    return wrapped(as_values(self).squeeze(inner), self, self._ragged_idx - gone)


@rule("chunk", "split", "split_with_sizes", "tensor_split")
def pieces(func: Any, self: Any, sections: Any, dim: int = 0) -> Any:
    if func.__name__ == "chunk" and self.place(dim) == 0:
        parts = self.unbind()
        step = -(-len(parts) // sections)
        return tuple(
            [from_components(list(parts[i : i + step])) for i in range(0, len(parts), step)]
        )
    inner = inner_place(func.__name__, self, dim)
    found = func(as_values(self), sections, inner)
    return tuple([wrapped(each, self) for each in found])


@rule("cat", "concat", "concatenate", "stack")
def joined(func: Any, tensors: Any, dim: int = 0) -> Any:
    like, name = first_jagged(*tensors), func.__name__
    stacks = name == "stack"
    place = dim % (like.dim() + stacks)
    ragged = like._ragged_idx
    if place == 0 or (place == ragged and not stacks):
        where = "ragged dim" if place else "dim=0"
        raise RuntimeError(f"{name}(): not supported for NestedTensor on {where}")
    values = [as_operand(name, tensor, like) for tensor in tensors]
    return wrapped(func(values, place - 1), like, ragged + (stacks and place <= ragged))


@rule("expand")
def expand(func: Any, self: Any, *size: Any) -> Any:
    sizes = list(size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size)
    if len(sizes) != self.dim():
        raise MissingFeature("expanding a nested tensor to other dims", code="RL0520")
    inner = [-1 if isinstance(each, NestedInt) else each for each in sizes[1:]]
    return wrapped(as_values(self).expand(inner), self)


@rule("select")
def select(func: Any, self: Any, dim: int, index: int) -> Any:
    if self.place(dim) == 0:
        return self.unbind()[index]
    inner = inner_place("select", self, dim)
    ragged = self._ragged_idx - (inner + 1 < self._ragged_idx)
    return wrapped(as_values(self).select(inner, index), self, ragged)


@rule("narrow")
def narrow(func: Any, self: Any, dim: int, start: Any, length: int) -> Any:
    inner = inner_place("narrow", self, dim)
    return wrapped(as_values(self).narrow(inner, start, length), self)


@rule("__getitem__")
def subscript(func: Any, self: Any, index: Any) -> Any:
    entries = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [each for each in entries if not isinstance(each, Tensor)]:
        at = entries.index(Ellipsis)
        given = len(entries) - 1
        entries[at : at + 1] = [slice(None)] * (self.dim() - given)
    entries += [slice(None)] * (self.dim() - len(entries))
    if type(entries[0]) is int:
        return self.unbind()[entries[0]][tuple(entries[1:])]
    ragged = self._ragged_idx
    for place, name in ((0, "dim=0"), (ragged, "ragged dim")):
        if entries[place] != slice(None):
            raise RuntimeError(f"slice(): not supported for NestedTensor on {name}")
    if not all([type(each) in (int, slice) for each in entries]):
        raise MissingFeature("indexing a jagged tensor by tensors", code="RL0520")
    gone = sum([type(each) is int for each in entries[:ragged]])
    return wrapped(as_values(self)[tuple(entries[1:])], self, ragged - gone)


@rule("where", "masked_fill")
def chosen(func: Any, *operands: Any, **kwargs: Any) -> Any:
    return elementwise(func.__name__, func, operands, kwargs)


@rule("index_put")
def index_put(func: Any, self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Writes at (component, place along the ragged dim, ...)."""
    rows, *others = indices
    if not others or self._ragged_idx != 1:
        raise MissingFeature("index_put of whole components", code="RL0520")
    places = (self._offsets[rows] + others[0], *others[1:])
    return wrapped(as_values(self).index_put(places, values, accumulate), self)


# -- the rest --------------------------------------------------------------------------------------


@rule("grad")
def grad(func: Any, outputs: Any, inputs: Any, grad_outputs: Any = None, **options: Any) -> Any:
    """torch.autograd.grad: gradients of nested inputs are nested."""
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    with DisableTorchFunctionSubclass():
        found = func(
            tree_map(values_of, outputs), wanted, tree_map(values_of, grad_outputs), **options
        )
    return tuple(
        [
            wrapped(each, like) if isinstance(like, JaggedTensor) and each is not None else each
            for each, like in zip(found, wanted, strict=True)
        ]
    )


@rule("backward")
def backward(func: Any, self: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(self, JaggedTensor):
        return func(self, values_of(gradient), *args, **kwargs)
    return as_values(self).backward(values_of(gradient), *args, **kwargs)


@rule("equal")
def equal(func: Any, self: Any, other: Any) -> bool:
    same = isinstance(self, JaggedTensor) and isinstance(other, JaggedTensor)
    return (
        same
        and self._ragged_idx == other._ragged_idx
        and bool(functions.equal(self.counts(), other.counts()))
        and bool(functions.equal(as_values(self), as_values(other)))
    )


@rule("numpy", "tolist", "__array__")
def leave(func: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(f".{func.__name__}() is not supported for tensor subclasses.")


@rule("item", "__bool__", "is_nonzero")
def number(func: Any, self: Any) -> Any:
    return func(as_values(self))
