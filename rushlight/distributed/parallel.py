"""torch.distributed.tensor.parallel: the layers of a model over the processes of a mesh.

A style says how a module's parameters are split, and the layouts of what goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.dtensor import DTensor, distribute_module, spread_parameters
from rushlight.distributed.mesh import DeviceMesh
from rushlight.distributed.placements import Placement, Replicate, Shard
from rushlight.nn import Embedding, Linear
from rushlight.nn.module import Module

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "parallelize_module",
]  # fmt: skip

Layouts = Placement | Sequence[Placement] | None


def as_placements(layout: Layouts, default: Placement) -> tuple[Placement, ...]:
    if layout is None:
        return (default,)
    return (layout,) if isinstance(layout, Placement) else tuple(layout)


def placed(value: Any, mesh: DeviceMesh, given: Any, wanted: Any) -> Any:
    """A tensor as a DTensor in the wanted layout; what is none is taken to lie as `given`."""
    if not isinstance(value, Tensor):
        return value
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, given)
    if wanted is not None and value.placements != tuple(wanted):
        value = value.redistribute(placements=wanted)
    return value


def returned(value: Any, wanted: Any, as_local: bool) -> Any:
    """A result in the wanted layout."""
    if not isinstance(value, DTensor):
        return value
    if value.placements != tuple(wanted):
        value = value.redistribute(placements=wanted)
    return value.to_local() if as_local else value


class ParallelStyle:
    """How a module is spread."""

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        raise NotImplementedError


class LayerStyle(ParallelStyle):
    """What the styles of layers share."""

    # How inputs lie unless said otherwise, how the layer wants them, how results lie.
    inputs: Placement = Replicate()
    outputs: Placement = Replicate()

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        output_layouts: Layouts = None,
        use_local_output: bool = True,
    ) -> None:
        self.input_layouts = as_placements(input_layouts, self.inputs)
        self.output_layouts = as_placements(output_layouts, self.outputs)
        self.use_local_output = use_local_output

    def wanted(self, module: Module) -> tuple[Placement, ...]:
        return (Replicate(),)

    def split(self, module: Module) -> dict[str, Sequence[Placement]]:
        """How the module's parameters lie."""
        raise NotImplementedError(f"{type(self).__name__} does not support {type(module).__name__}")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        split, wanted = self.split(module), self.wanted(module)

        def partition(name: str, inner: Module, mesh: DeviceMesh) -> None:
            spread_parameters(inner, mesh, split)

        def enter(owner: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            first = placed(inputs[0], mesh, self.input_layouts, wanted)
            return (first, *inputs[1:])

        def leave(owner: Module, output: Any, mesh: DeviceMesh) -> Any:
            return returned(output, self.output_layouts, self.use_local_output)

        return distribute_module(module, device_mesh, partition, enter, leave)


class ColwiseParallel(LayerStyle):
    """Every process has some of the output features."""

    outputs = Shard(-1)

    def split(self, module: Module) -> dict[str, Sequence[Placement]]:
        if isinstance(module, Linear):
            return {"weight": [Shard(0)], "bias": [Shard(0)]}
        if isinstance(module, Embedding):
            return {"weight": [Shard(1)]}
        return super().split(module)

    def __init__(self, **layouts: Any) -> None:
        super().__init__(**layouts)
        self.output_layouts = tuple(self.output_layouts)


class RowwiseParallel(LayerStyle):
    """Every process has some of the input features; the results are summed."""

    inputs = Shard(-1)

    def split(self, module: Module) -> dict[str, Sequence[Placement]]:
        if isinstance(module, Linear):
            return {"weight": [Shard(1)], "bias": [Replicate()]}
        if isinstance(module, Embedding):
            return {"weight": [Shard(0)]}
        return super().split(module)

    def wanted(self, module: Module) -> tuple[Placement, ...]:
        return (Replicate(),) if isinstance(module, Embedding) else (Shard(-1),)


class SequenceParallel(ParallelStyle):
    """A layer that works on each place of a sequence by itself, such as a norm or dropout."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.sequence = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(owner: Module, inputs: Any, mesh: DeviceMesh) -> Any:
            return (placed(inputs[0], mesh, self.sequence, self.sequence), *inputs[1:])

        def leave(owner: Module, output: Any, mesh: DeviceMesh) -> Any:
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, None, enter, leave)


class PrepareModuleInput(ParallelStyle):
    """Brings a module's inputs into layouts."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.given = in_tuple(input_layouts)
        self.wanted = in_tuple(desired_input_layouts)
        self.named = input_kwarg_layouts or {}
        self.wanted_named = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if len(self.given) != len(self.wanted):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def one(self, value: Any, given: Any, wanted: Any, mesh: DeviceMesh) -> Any:
        if given is None or not isinstance(value, Tensor):
            return value
        found = placed(value, mesh, (given,), None if wanted is None else (wanted,))
        return found.to_local() if self.use_local_output else found

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def enter(owner: Module, inputs: Any, named: Any) -> Any:
            if len(inputs) != len(self.given) and self.given:
                raise ValueError("module inputs and input_layouts should have same length!")
            pairs = zip(inputs, self.given or [None] * len(inputs), self.wanted or inputs)
            found = [self.one(value, given, wanted, device_mesh) for value, given, wanted in pairs]
            more = {
                name: self.one(
                    value, self.named.get(name), self.wanted_named.get(name), device_mesh
                )
                for name, value in named.items()
            }
            return tuple(found), more

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Brings a module's results into layouts."""

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        self.given = in_tuple(output_layouts)
        self.wanted = in_tuple(desired_output_layouts)
        self.use_local_output = use_local_output

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def leave(owner: Module, inputs: Any, outputs: Any) -> Any:
            values = outputs if isinstance(outputs, tuple) else (outputs,)
            if len(values) != len(self.given):
                raise ValueError("module outputs and output_layouts should have same length!")
            found = []
            for value, given, wanted in zip(values, self.given, self.wanted):
                if given is not None and isinstance(value, Tensor):
                    value = placed(value, device_mesh, (given,), (wanted,))
                    value = value.to_local() if self.use_local_output else value
                found.append(value)
            return tuple(found) if isinstance(outputs, tuple) else found[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both of these."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.before = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )  # fmt: skip
        self.after = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )  # fmt: skip

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return self.after._apply(self.before._apply(module, device_mesh), device_mesh)


def in_tuple(layouts: Any) -> tuple[Any, ...]:
    if layouts is None:
        return ()
    return (layouts,) if isinstance(layouts, Placement) else tuple(layouts)


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Spread a module, or parts of it by their names, over a mesh of one dim."""
    from rushlight.distributed.mesh import init_device_mesh
    from rushlight.distributed.setup import get_world_size

    mesh = device_mesh or init_device_mesh("cpu", (get_world_size(),))
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module takes a mesh of one dim, got {mesh}")
    if isinstance(parallelize_plan, ParallelStyle):
        return parallelize_plan._apply(module, mesh)
    for path, style in (parallelize_plan or {}).items():
        found = [
            inner
            for name, inner in module.named_modules()
            if name.count(".") == path.count(".") and fnmatch(name, path)
        ]
        if not found:
            raise ValueError(f"no module of the model is named {path!r}")
        for inner in found:
            style._apply(inner, mesh)
    return module
