"""Device meshes: the processes as an array of any number of dims, with a group along each line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core.construct import tensor
from rushlight.core.dtype import int32
from rushlight.core.tensor import Tensor
from rushlight.distributed import setup
from rushlight.distributed.groups import ProcessGroup, the_world

__all__ = ["DeviceMesh", "init_device_mesh", "joint"]


class DeviceMesh:
    """An array of ranks. All processes make it, with the same array.

    >>> mesh = init_device_mesh("cpu", (2, 4), mesh_dim_names=("data", "model"))  # doctest: +SKIP
    >>> mesh["model"].get_group()  # doctest: +SKIP
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        _groups: list[Any] | None = None,
    ) -> None:
        values = mesh.numpy() if isinstance(mesh, Tensor) else mesh
        self.ranks = np.asarray(values, np.int64)
        if self.ranks.size != len(np.unique(self.ranks)):
            raise RuntimeError(f"a rank stands in the mesh more than once: {self.ranks.tolist()}")
        if mesh_dim_names is not None and len(mesh_dim_names) != self.ranks.ndim:
            raise RuntimeError(
                f"mesh_dim_names {mesh_dim_names} must name each of {self.ranks.ndim} dims"
            )
        self.device_type = device_type
        self.mesh_dim_names = mesh_dim_names
        if not setup.is_initialized():
            setup.init_process_group()
        self.groups = self.make_groups() if _groups is None else _groups
        # The mesh that this one is a part of, and of that the meshes of joined dims by name.
        self.root: DeviceMesh = self
        self.flat: dict[str, DeviceMesh] = {}

    def make_groups(self) -> list[Any]:
        """This process's group along each dim. Every process makes all of them."""
        own = []
        for dim in range(self.ranks.ndim):
            lines = np.moveaxis(self.ranks, dim, -1).reshape(-1, self.ranks.shape[dim])
            mine = None
            for line in lines.tolist():
                made = setup.new_group(line)
                if isinstance(made, ProcessGroup):
                    mine = made
            own.append(mine)
        return own

    @property
    def mesh(self) -> Tensor:
        made: Tensor = tensor(self.ranks.tolist(), dtype=int32)
        return made

    @property
    def ndim(self) -> int:
        return int(self.ranks.ndim)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.ranks.shape

    def size(self, mesh_dim: int | None = None) -> int:
        return int(self.ranks.size if mesh_dim is None else self.ranks.shape[mesh_dim])

    def place(self, dim: int | str | None) -> int:
        """The number of a dim that is named, or of the only one."""
        if dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"the mesh has {self.ndim} dims: name one of {self.mesh_dim_names or 'them'}"
                )
            return 0
        if isinstance(dim, str):
            if self.mesh_dim_names is None or dim not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_name {dim!r}: the mesh has {self.mesh_dim_names}")
            return self.mesh_dim_names.index(dim)
        return dim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        found = self.groups[self.place(mesh_dim)]
        if found is None:
            raise RuntimeError(f"rank {the_world().rank} is not in the mesh")
        result: ProcessGroup = found
        return result

    def get_all_groups(self) -> list[ProcessGroup]:
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self) -> int:
        return the_world().rank

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        return self.get_group(mesh_dim).rank()

    def get_coordinate(self) -> list[int] | None:
        """Where in the mesh this process is."""
        found = np.argwhere(self.ranks == the_world().rank)
        return None if not len(found) else [int(each) for each in found[0]]

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along the named dims that this process is in."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if len(wanted) == 1 and wanted[0] in self.root.flat and wanted != self.mesh_dim_names:
            return self.root.flat[wanted[0]]
        dims = [self.place(name) for name in wanted]
        coordinate = self.get_coordinate() or [0] * self.ndim
        index: Sequence[Any] = [
            slice(None) if dim in dims else coordinate[dim] for dim in range(self.ndim)
        ]
        part = self.ranks[tuple(index)]
        order = sorted(dims)
        part = np.transpose(part, [order.index(dim) for dim in dims])
        made = DeviceMesh(
            self.device_type,
            part,
            mesh_dim_names=wanted,
            _groups=[self.groups[dim] for dim in dims],
        )
        made.root = self.root
        return made

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The same processes along one dim, which the mesh that this is part of knows by name.

        Every process takes part: those of other parts make the groups of theirs.
        """
        root = self.root
        names = self.mesh_dim_names or ()
        if self.ndim == 1 and mesh_dim_name in (None, *names):
            return self
        name = mesh_dim_name or "_".join(names)
        if name in (root.mesh_dim_names or ()):
            raise ValueError(f"{name} already exists as a dim of {root}: choose another name")
        found = root.flat.get(name)
        if found is not None:
            if not np.array_equal(found.ranks, self.ranks.reshape(-1)):
                raise ValueError(f"{name} already is the name of other dims of {root}")
            return found
        dims = [root.place(each) for each in names] if root is not self else range(self.ndim)
        lines = np.moveaxis(root.ranks, list(dims), list(range(-len(dims), 0)))
        own: Any = None
        for line in lines.reshape(-1, self.ranks.size).tolist():
            made = setup.new_group(line)
            own = made if isinstance(made, ProcessGroup) else own
        flat = DeviceMesh(
            self.device_type, self.ranks.reshape(-1), mesh_dim_names=(name,), _groups=[own]
        )
        flat.root = root
        root.flat[name] = flat
        return flat

    @staticmethod
    def from_group(group: Any, device_type: str, mesh: Any = None, **options: Any) -> DeviceMesh:
        """A mesh of one dim from a process group, or of several from a group along each."""
        groups = [group] if isinstance(group, ProcessGroup) else list(group)
        ranks = groups[0].members if mesh is None else mesh
        names = options.get("mesh_dim_names")
        return DeviceMesh(device_type, ranks, mesh_dim_names=names, _groups=groups)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeviceMesh)
            and np.array_equal(self.ranks, other.ranks)
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self) -> int:
        return hash((self.ranks.tobytes(), self.shape, self.mesh_dim_names))

    def __repr__(self) -> str:
        names = self.mesh_dim_names or range(self.ndim)
        inner = ", ".join([f"{name}={count}" for name, count in zip(names, self.shape)])
        return f"DeviceMesh(({inner}), {self.device_type!r})"


def joint(first: DeviceMesh, second: DeviceMesh) -> DeviceMesh:
    """The mesh of the dims of two parts of one mesh."""
    names = (*(first.mesh_dim_names or ()), *(second.mesh_dim_names or ()))
    if first.root != second.root or len(names) != first.ndim + second.ndim:
        raise ValueError(
            "fully_shard on a tensor-parallel model needs both meshes to be named parts of one "
            f"mesh, as init_device_mesh(..., mesh_dim_names=...) makes; got {first} and {second}"
        )
    return first.root[names]


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of all processes, in the order of their ranks."""
    if ":" in device_type:
        raise RuntimeError(
            f"Device type with index is not supported but got {device_type}: a mesh takes the "
            "type alone, and a process its own device of it"
        )
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"Each mesh_dim_name must be unique, got {mesh_dim_names}")
    if not setup.is_initialized():
        setup.init_process_group()
    count = int(np.prod(mesh_shape))
    size = setup.get_world_size()
    if count > size:
        raise RuntimeError(f"a mesh of {mesh_shape} needs {count} processes, there are {size}")
    ranks = np.arange(count).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
