"""`flex_attention` and its block masks.

A `BlockMask` tells which blocks of queries and keys meet at all: for each row of blocks, how many
there are and their numbers, partly masked and full ones apart. The mask itself is `mask_mod`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any, NamedTuple

from rushlight.core.dtype import bool_ as boolean
from rushlight.core.dtype import int32
from rushlight.core.tensor import Tensor
from rushlight.higher_order.attention import flex_attention as flex_attention_op
from rushlight.higher_order.attention import over_positions
from rushlight.opset import functions

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

Mod = Callable[..., Any]
DEFAULT_BLOCK = 128
# One block that holds everything.
WHOLE = 1 << 30
TENSORS = (
    *("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"),
    *("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"),
)


class AuxRequest(NamedTuple):
    """What `flex_attention` is to return beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for by an `AuxRequest`."""

    lse: Any = None
    max_scores: Any = None


# -- masks -----------------------------------------------------------------------------------------


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Any:
    """Every query sees every key."""
    return batch.new_ones((), dtype=boolean)


def unchanged_score(score: Tensor, batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    return score + 0


def sliced_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")


def combined(mask_mods: Sequence[Mod], start: bool, join: Mod) -> Mod:
    if not all(callable(mod) for mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Any:
        result = b.new_full((), start, dtype=boolean)
        for mod in mask_mods:
            result = join(result, mod(b, h, q_idx, kv_idx))
        return result

    return mask


def or_masks(*mask_mods: Mod) -> Mod:
    """A mask that lets through what any of the given ones does."""
    return combined(mask_mods, False, lambda one, other: one | other)


def and_masks(*mask_mods: Mod) -> Mod:
    """A mask that lets through what all of the given ones do."""
    return combined(mask_mods, True, lambda one, other: one & other)


def takes_score(mod: Mod) -> bool:
    """Whether a function modifies scores, as opposed to saying what is masked."""
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = signature(mod).parameters.values()
    except (TypeError, ValueError):
        return False
    count = sum(p.kind in positional and p.default is Parameter.empty for p in parameters)
    return count == 5


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu"
) -> Any:
    """The mask of a `mask_mod`, or of what a `score_mod` sets to minus infinity, as a tensor.

    >>> from rushlight.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, kv: q >= kv, 1, 1, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    numbers = [functions.arange(size, device=device) for size in sizes]
    if takes_score(mod_fn):
        found = over_positions(mod_fn, True)(functions.zeros(sizes, device=device), *numbers)
        return ~functions.isneginf(found)
    return over_positions(mod_fn, False)(*numbers)


# -- block masks -----------------------------------------------------------------------------------


def to_ordered(dense: Any) -> tuple[Any, Any]:
    """(how many, which) blocks of each row there are; the others follow."""
    dense = dense.to(int32)
    which = functions.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1).to(int32), which.to(int32).contiguous()


def to_dense(count: Any, which: Any, columns: int | None = None) -> Any:
    """Which blocks there are, one number for each."""
    columns = which.shape[-1] if columns is None else columns
    places = functions.arange(which.shape[-1], device=which.device)
    valid = (places < count.unsqueeze(-1)).to(int32)
    # What is not valid goes to a column of its own.
    targets = functions.where(valid.to(boolean), which, columns).long()
    dense = functions.zeros((*which.shape[:-1], columns + 1), dtype=int32, device=which.device)
    return dense.scatter(-1, targets, valid)[..., :columns]


def transposed(count: Any, which: Any) -> tuple[Any, Any]:
    return to_ordered(to_dense(count, which).transpose(-2, -1))


class BlockMask:
    """Which blocks of queries and keys meet, and the mask inside of them."""

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        q_num_blocks: Any = None,
        q_indices: Any = None,
        full_q_num_blocks: Any = None,
        full_q_indices: Any = None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK, DEFAULT_BLOCK),
        mask_mod: Mod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "full_kv_num_blocks and full_kv_indices must be both provided or omitted"
            )
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Any,
        kv_indices: Any,
        full_kv_num_blocks: Any = None,
        full_kv_indices: Any = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """A mask from the blocks of each row; those of each column follow."""
        sizes = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None and kv_indices.dim() >= 2:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = (rows * sizes[0], columns * sizes[1])
        made = cls(
            seq_lengths or (0, 0),
            *(kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices),
            BLOCK_SIZE=sizes,
            mask_mod=noop_mask if mask_mod is None else mask_mod,
        )
        if compute_q_blocks:
            made.q_num_blocks, made.q_indices = transposed(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None:
                made.full_q_num_blocks, made.full_q_indices = transposed(
                    full_kv_num_blocks, full_kv_indices
                )
        return made

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Everything that the mask consists of; lengths and block sizes flat or as pairs."""
        lengths: tuple[Any, ...] = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes: tuple[Any, ...] = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        tensors = [getattr(self, name) for name in TENSORS]
        return (*lengths, *tensors, *sizes, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads or rows of blocks. Its `mask_mod` cannot be used, because
        it does not know of the choice."""
        index = index if isinstance(index, tuple) else (index,)
        index = (*index, slice(None), slice(None), slice(None))[:3]
        sizes = self.kv_num_blocks.shape[:3]
        index = tuple(
            slice(i % n, i % n + 1) if isinstance(i, int) and -n <= i < n else i
            for i, n in zip(index, sizes)
        )
        tensors = [getattr(self, name) for name in TENSORS[:4]]
        return BlockMask.from_kv_blocks(
            *[None if tensor is None else tensor[index] for tensor in tensors],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=sliced_mask,
            seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )

    def numel(self) -> int:
        """How many elements the mask has."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How many percent of the elements lie in blocks that do not meet."""
        count = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            count += self.full_kv_num_blocks.sum().item()
        rows, columns = self.BLOCK_SIZE
        return float(100 * (1 - count * rows * columns / self.numel()))

    def to_dense(self) -> Any:
        """Which blocks meet, one number for each."""
        dense = to_dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is None:
            return dense
        return dense | to_dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to(self, device: Any) -> BlockMask:
        """The mask on another device."""
        tensors = [getattr(self, name) for name in TENSORS]
        moved = [None if tensor is None else tensor.to(device) for tensor in tensors]
        return BlockMask(
            self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner of the mask."""
        rows, columns = [
            -(-length // size)
            for length, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True)
        ]
        pairs: list[Any] = []
        for count, which in (
            (self.kv_num_blocks, self.kv_indices),
            (self.full_kv_num_blocks, self.full_kv_indices),
        ):
            if count is None:
                pairs += [None, None]
            else:
                pairs += to_ordered(to_dense(count, which)[..., :rows, :columns])
        return BlockMask.from_kv_blocks(
            *pairs,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
            compute_q_blocks=self.q_indices is not None,
        )

    # -- text --------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        shapes = [(name, getattr(self, name)) for name in TENSORS]
        lines = [f"{name}={None if tensor is None else tensor.shape}" for name, tensor in shapes]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}"]
        lines += [f"sparsity={self.sparsity():.2f}%"]
        lines += [f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}"]
        return (
            "BlockMask(\n"
            + "".join([f"    {line},\n" for line in lines[:-1]])
            + (f"    {lines[-1]}\n)")
        )

    def __str__(self) -> str:
        drawn = self.to_string().strip()
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{drawn}\n)"

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """A drawing of the blocks: empty, some, all. A `grid_size` of -1 shows each block."""
        dense = self.to_dense()
        *batch, rows, columns = dense.shape
        across = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        if grid_size == -1:
            across = (rows, columns)
        steps = [max(1, -(-rows // across[0])), max(1, -(-columns // across[1]))]
        pictures = []
        for number, index in enumerate(itertools.product(*[range(size) for size in batch])):
            if number == limit:
                pictures += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or "
                    "head",
                ]
                break
            pictures.append(f"{index}\n" + drawing(dense[index], *steps))
        return "\n".join(pictures)


def drawing(dense: Any, row_step: int, column_step: int) -> str:
    lines = []
    for row in range(0, dense.shape[0], row_step):
        marks = []
        for column in range(0, dense.shape[1], column_step):
            part = dense[row : row + row_step, column : column + column_step]
            share = part.float().mean().item()
            marks.append(" " if share == 0 else "█" if share == 1 else "░")
        lines.append("".join([mark * 2 for mark in marks]) + "\n")
    return "".join(lines)


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = "cpu",
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
) -> BlockMask:
    """The blocks that a `mask_mod` leaves, and which of them it leaves whole.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, kv: q >= kv, 1, 1, 512, 512).sparsity()
    37.5
    """
    if takes_score(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = functions.pad(mask, (0, -KV_LEN % columns, 0, -Q_LEN % rows))
    shape = (*mask.shape[:2], padded.shape[2] // rows, rows, padded.shape[3] // columns, columns)
    counts = padded.reshape(shape).to(int32).sum((3, 5))
    full = counts == rows * columns if separate_full_blocks else counts < 0
    ordered = [*to_ordered((counts > 0) & ~full)]
    if separate_full_blocks:
        ordered += to_ordered(full)
    return BlockMask.from_kv_blocks(
        *ordered, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def whole_mask(query: Tensor, key: Tensor) -> BlockMask:
    """One block for everything."""
    ones = query.new_ones((1, 1, 1), dtype=int32)
    return BlockMask.from_kv_blocks(
        ones,
        query.new_zeros((1, 1, 1, 1), dtype=int32),
        BLOCK_SIZE=WHOLE,
        seq_lengths=(1, 1),
    )


# -- attention -------------------------------------------------------------------------------------


def check_operands(query: Any, key: Any, value: Any, mask: Any, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise ValueError("Expected query, key, and value to be 4D tensors")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            "Expect query and key/value to have the same embedding dimension but got "
            f"E={query.shape[-1]} and E={key.shape[-1]}."
        )
    heads, others = query.shape[1], key.shape[1]
    if heads != others and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
            f"Hkv={others}. Try setting enable_gqa=True for GQA."
        )
    if heads % others:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={others}."
        )
    if query.shape[0] != key.shape[0] and mask is None:
        raise ValueError(
            "Expect query and key/value to have the same batch size, or non-none block_mask, but "
            f"got block_mask=None, Bq={query.shape[0]}, and Bkv={key.shape[0]}."
        )


def check_mask(query: Any, key: Any, mask: BlockMask) -> None:
    if mask.mask_mod is sliced_mask:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    rows, columns = mask.shape[-2:]
    if (rows, columns) == (query.shape[-2], key.shape[-2]):
        return
    start = (
        f"block_mask was created for block_mask.shape={mask.shape} but got "
        f"q_len={query.shape[-2]} and kv_len={key.shape[-2]}. As the block mask was created for a "
    )
    if query.shape[-2] > rows or key.shape[-2] > columns:
        raise ValueError(
            start
            + "smaller length than you're using it for, you likely need to create a new block "
            "mask."
        )
    raise ValueError(
        start + "larger length than you're using it for, you can either 1. create a new block mask "
        "with the correct length, or 2. 'adjust' the existing block mask to the correct length by "
        "calling block_mask._adjust(q_len, kv_len). This essentially 'crops' the block mask to the "
        "upper left corner, which does not work for all mask_mods!"
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with scores modified by `score_mod(score, batch, head, query, key)` where
    `block_mask` lets them through.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention.flex_attention import flex_attention
    >>> q = torch.ones(1, 1, 2, 4)
    >>> flex_attention(q, q, q, lambda score, b, h, i, j: score - i).shape
    torch.Size([1, 1, 2, 4])
    """
    check_operands(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
            "return_aux=AuxRequest(lse=True) instead."
        )
    if block_mask is None:
        block_mask = whole_mask(query, key)
    else:
        check_mask(query, key, block_mask)
    result, sums, largest = flex_attention_op(
        query,
        key,
        value,
        unchanged_score if score_mod is None else score_mod,
        block_mask.as_tuple(),
        1.0 / math.sqrt(query.shape[-1]) if scale is None else scale,
        kernel_options or {},
    )
    ln2 = math.log(2.0)
    if return_lse:
        return result, sums * ln2
    if return_aux is not None:
        return result, AuxOutput(
            sums * ln2 if return_aux.lse else None,
            largest * ln2 if return_aux.max_scores else None,
        )
    return result
