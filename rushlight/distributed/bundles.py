"""Parameters in parts, as `fully_shard` keeps them, and the bundles in which they travel.

A bundle is gathered by one collective and its gradients are scattered by one; both are begun and
ended apart, so that what is computed between takes their time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.dtype import dtype
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.dtensor import DTensor, distribute_tensor
from rushlight.distributed.fsdp import MixedPrecisionPolicy
from rushlight.distributed.layout import own_part
from rushlight.distributed.mesh import DeviceMesh, joint
from rushlight.distributed.placements import Placement, Replicate, Shard
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.work import Work
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = ["Bundle", "Place", "Returning", "Spread"]

Place = tuple[Module, str]
PlacementOf = Callable[[Parameter], Shard | None]


class Spread:
    """A parameter, its places in modules, and its whole while that is needed.

    The whole of a parameter that tensor parallelism has split is this process's part of it.
    """

    def __init__(
        self, places: list[Place], mesh: DeviceMesh, placement_of: PlacementOf | None
    ) -> None:
        self.places = places
        module, name = places[0]
        parameter: Any = module._parameters[name]
        chosen = None if placement_of is None else placement_of(parameter)
        if chosen is not None and not isinstance(chosen, Shard):
            raise TypeError(f"shard_placement_fn must answer Shard or None, got {chosen!r}")
        # The layout of the whole, where it is a part itself.
        self.outer = parameter.detach() if isinstance(parameter, DTensor) else None
        whole = parameter.detach() if self.outer is None else self.outer._local
        self.shape = tuple(whole.shape)
        if not self.shape:
            raise ValueError(
                f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor "
                "with numel equal to 1."
            )
        self.group = mesh.get_group(mesh.ndim - 1)
        size = self.group.size()
        self.dim = 0 if chosen is None else chosen.dim % len(self.shape)
        if self.dim and self.shape[self.dim] % size:
            # torch: its words.
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {self.dim}: {self.shape} "
                f"(world size: {size})"
            )
        where = [*[Replicate()] * (mesh.ndim - 1), Shard(self.dim)]
        self.own = Parameter(self.split(whole, mesh, where), requires_grad=parameter.requires_grad)
        self.sizes = list(self.shape)
        self.sizes[self.dim] = -(-self.shape[self.dim] // size)
        # The elements of a part, as all parts travel, and of the whole.
        self.count, self.total = math.prod(self.sizes), math.prod(self.shape)
        self.whole: Tensor | None = None
        # Whole gradients that were not to be scattered yet.
        self.kept: Tensor | None = None
        self.put(self.own)

    def split(self, whole: Tensor, mesh: DeviceMesh, where: list[Placement]) -> DTensor:
        if self.outer is None:
            return distribute_tensor(whole, mesh, where)
        whole = whole.clone()
        for dim in range(0 if whole.is_meta else mesh.ndim):
            collectives.broadcast(whole, group=mesh.get_group(dim), group_src=0)
        local = own_part(whole, self.dim, self.group.size(), self.group.rank())
        # Its first dims are those that split the tensor first.
        both = joint(self.outer._mesh, mesh)
        return DTensor(local, both, (*self.outer._placements, *where), self.outer.shape)

    def adopt(self) -> None:
        """The parameter that the program has put in its place, of the same layout."""
        module, name = self.places[0]
        found: Any = module._parameters[name]
        if found is self.own or not isinstance(found, DTensor) or not found.is_leaf:
            return
        if found._placements == self.own._placements and found.shape == self.own.shape:
            self.own = found
            self.put(found)

    def put(self, value: Any) -> None:
        for module, name in self.places:
            module._parameters[name] = value

    def show(self, whole: Tensor) -> None:
        """Let the modules have the whole."""
        if self.outer is None:
            self.put(whole)
        else:
            outer = self.outer
            self.put(DTensor.from_local(whole, outer._mesh, outer._placements, shape=outer.shape))

    def joined(self, parts: Any) -> Tensor:
        """The whole, in memory of its own: by that it is known where the graph saves it."""
        size = parts.shape[0]
        parts = parts.clone() if size == 1 else parts
        if self.dim == 0:
            rows = parts.reshape(-1)[: self.total]
            made: Tensor = rows.view(self.shape)
            return made
        moved = parts.reshape([size, *self.sizes]).movedim(0, self.dim)
        whole: Tensor = moved.reshape(self.shape)
        return whole

    def pieces(self, gradient: Tensor) -> list[Tensor]:
        """What of a whole gradient goes to each process, as flat tensors."""
        size = self.group.size()
        if self.dim == 0:
            rows = gradient.reshape(-1)
            return [rows[i * self.count : (i + 1) * self.count] for i in range(size)]
        return [
            gradient.narrow(self.dim, i * self.sizes[self.dim], self.sizes[self.dim]).reshape(-1)
            for i in range(size)
        ]


class Bundle:
    """Parameters of one module and dtype, which travel together."""

    def __init__(
        self, spread: list[Spread], mesh: DeviceMesh, policy: MixedPrecisionPolicy
    ) -> None:
        self.spread = spread
        self.mesh = mesh
        self.policy = policy
        self.group = spread[0].group
        self.count = sum([each.count for each in spread])
        self.coming: tuple[Work | None, Any] | None = None
        self.versions: list[int] = []
        # Scattered gradients that replicas have not added up yet.
        self.kept: Tensor | None = None

    @property
    def is_whole(self) -> bool:
        return self.spread[0].whole is not None

    def begin(self) -> None:
        """Let the parts come, unless they are here or under way."""
        if self.is_whole or self.coming is not None:
            return
        for each in self.spread:
            each.adopt()
        kept: dtype = self.policy.param_dtype or self.spread[0].own.dtype
        with no_grad():
            pieces = []
            for each in self.spread:
                local = each.own._local.detach().reshape(-1)
                pieces.append(local)
                if local.numel() < each.count:
                    pieces.append(local.new_zeros(each.count - local.numel()))
            sent = functions.cat(pieces).to(kept)
            self.versions = self.current()
            parts: Any = functions.empty([self.group.size(), self.count], dtype=kept)
            work = collectives.all_gather_into_tensor(parts, sent, self.group, async_op=True)
        self.coming = work, parts

    def current(self) -> list[int]:
        return [each.own._local._version for each in self.spread]

    def gather(self) -> None:
        """Make all parameters whole, by one collective."""
        self.begin()
        if self.coming is None:
            return
        (work, parts), self.coming = self.coming, None
        if work is not None:
            work.wait()
        with no_grad():
            begin = 0
            for each in self.spread:
                each.whole = each.joined(parts[:, begin : begin + each.count])
                begin += each.count

    def drop(self) -> None:
        """Keep the parts only. What is under way ends by itself."""
        self.coming = None
        for each in self.spread:
            each.whole = None

    def drop_changed(self) -> None:
        """What was gathered before the parts were written to is of no use."""
        if (self.is_whole or self.coming is not None) and self.versions != self.current():
            self.drop()


class Returning:
    """Gradients on their way: reduced among the processes with parts, then among replicas."""

    def __init__(
        self, bundle: Bundle, gradients: Sequence[Tensor], factor: float | None, copies: bool
    ) -> None:
        self.bundle = bundle
        size = bundle.group.size()
        kept = bundle.policy.reduce_dtype or gradients[0].dtype
        self.factor = factor
        self.op = ReduceOp.AVG if factor is None else ReduceOp.SUM
        # The groups of replicas, whose turn comes later.
        self.later = list(range(bundle.mesh.ndim - 1))
        self.copies = copies or not self.later
        with no_grad():
            # A row for each process.
            rows: list[list[Tensor]] = [[] for _ in range(size)]
            for each, gradient in zip(bundle.spread, gradients):
                for row, piece in zip(rows, each.pieces(gradient)):
                    row.append(piece)
                    if piece.numel() < each.count:
                        row.append(piece.new_zeros(each.count - piece.numel()))
            sent = functions.cat([piece for row in rows for piece in row]).to(kept)
            self.part = functions.empty(bundle.count, dtype=kept)
            self.work = collectives.reduce_scatter_tensor(
                self.part, sent, self.op, bundle.group, async_op=True
            )

    def advance(self) -> bool:
        """Wait for what is under way, and begin what is next; whether all is over."""
        if self.work is not None:
            self.work.wait()
        self.work = None
        if len(self.later) == self.bundle.mesh.ndim - 1:
            self.add_kept()
        if self.later and self.copies:
            group = self.bundle.mesh.get_group(self.later.pop(0))
            self.work = collectives.all_reduce(self.part, self.op, group, async_op=True)
        return self.work is None

    def add_kept(self) -> None:
        """Replicas sum once what was scattered several times."""
        bundle = self.bundle
        with no_grad():
            if bundle.kept is not None:
                self.part += bundle.kept
        bundle.kept = None if self.copies else self.part

    def finish(self) -> list[DTensor | None]:
        """This process's parts of the gradients; none while replicas have yet to add theirs."""
        while not self.advance():
            pass
        if not self.copies:
            return [None] * len(self.bundle.spread)
        found: list[DTensor | None] = []
        begin = 0
        with no_grad():
            if self.factor is not None:
                self.part /= self.factor
            for each in self.bundle.spread:
                kept = each.own._local
                part = self.part[begin : begin + kept.numel()].clone()
                local = part.view(kept.shape).to(kept.dtype)
                found.append(DTensor(local, each.own._mesh, each.own._placements, each.own.shape))
                begin += each.count
        return found
