"""Tables of vectors looked up by index."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.functional.embeddings import padding_row
from rushlight.nn.module import Module
from rushlight.opset.creation import create

__all__ = [
    "Embedding", "EmbeddingBag",
]  # fmt: skip


class Table(Module):
    """What `Embedding` and `EmbeddingBag` share: a weight of one row for each index."""

    # torch: spelt in two ways in messages.
    padding_name = "padding_idx"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_row(padding_idx, num_embeddings, self.padding_name)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def set_weight(self, weight: Any, freeze: bool, device: Any, dtype: Any) -> None:
        """Take a given table, or make one."""
        size = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            made = create.empty(size, device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(weight.shape) != size:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        """What resets of users call after theirs."""
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)  # type: ignore[index]

    def shown_options(self, *names: str) -> str:
        """The sizes, and those of the named options that are not at their defaults."""
        shown = [str(self.num_embeddings), str(self.embedding_dim)]
        for name in names:
            value = getattr(self, name)
            if value is not None and value is not False and (name, value) != ("norm_type", 2):
                shown.append(f"{name}={value}")
        return ", ".join(shown)


def size_of_table(embeddings: Any) -> tuple[int, int]:
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
    rows, columns = embeddings.shape
    return rows, columns


class Embedding(Table):
    """A table of vectors looked up by index."""

    padding_name = "Padding_idx"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse,
        )  # fmt: skip
        self.set_weight(_weight, _freeze, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A module over a given table, which is not trained unless `freeze=False`."""
        return cls(
            *size_of_table(embeddings), padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, embeddings, freeze,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        return self.shown_options(
            "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"
        )


class EmbeddingBag(Table):
    """Sums, means or maxima of bags of rows of a table."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse,
        )  # fmt: skip
        self.mode = mode
        self.include_last_offset = include_last_offset
        self.set_weight(_weight, False, device, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A module over a given table, which is not trained unless `freeze=False`."""
        made = cls(
            *size_of_table(embeddings), max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            embeddings, include_last_offset, padding_idx,
        )  # fmt: skip
        made.weight.requires_grad = not freeze
        return made

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = self.shown_options("max_norm", "norm_type", "scale_grad_by_freq")
        shown += f", mode={self.mode!r}"
        return shown if self.padding_idx is None else f"{shown}, padding_idx={self.padding_idx}"
