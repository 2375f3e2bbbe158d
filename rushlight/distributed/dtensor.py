"""DTensor: one tensor over the processes of a mesh, used as if it were whole.

It wraps this process's part. An operator on DTensors brings its operands into the layouts that it
needs (`sharding`), runs on the parts, and wraps what comes out. Gradients are DTensors, too:
formulas are programs over operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.function import Function
from rushlight.base import pytree
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.errors import refuse
from rushlight.distributed.layout import local_shape, move
from rushlight.distributed.mesh import DeviceMesh
from rushlight.distributed.placements import Partial, Placement, Replicate, Shard
from rushlight.distributed.sharding import Operand, Plan, full_shape, plan
from rushlight.nn.module import Module
from rushlight.opset import functions

__all__ = [
    "DTensor", "distribute_module", "distribute_tensor", "empty", "full", "ones", "rand", "randn",
    "zeros",
]  # fmt: skip

Placements = tuple[Placement, ...]


def normal(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> Placements:
    """Placements for every dim of the mesh, with dims counted from the front."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements "
            f"length: {len(placements)}, and device_mesh.ndim: {mesh.ndim}."
        )
    found: list[Placement] = []
    for number, placement in enumerate(placements):
        if isinstance(placement, Shard):
            if not -ndim <= placement.dim < ndim:
                raise RuntimeError(
                    f"Sharding dim {placement.dim} greater than tensor ndim {ndim} for placement "
                    f"number {number}"
                )
            placement = Shard(placement.dim % ndim)
        found.append(placement)
    return tuple(found)


class DTensor(Tensor):
    """A tensor spread over a mesh."""

    _local: Tensor
    _mesh: DeviceMesh
    _placements: Placements

    @staticmethod
    def __new__(
        cls: type,
        local: Tensor,
        mesh: DeviceMesh,
        placements: Placements,
        shape: Sequence[int],
        requires_grad: bool = False,
    ) -> Any:
        made = Tensor._make_wrapper_subclass(
            cls, tuple(shape), dtype=local.dtype, requires_grad=requires_grad
        )
        made._local, made._mesh, made._placements = local, mesh, placements
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    @property
    def device_mesh(self) -> DeviceMesh:
        return self._mesh

    @property
    def placements(self) -> Placements:
        return self._placements

    @property
    def _local_tensor(self) -> Tensor:
        return self._local

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return (
            f"DTensor(local_tensor={self._local}, device_mesh={self._mesh}, "
            f"placements={self._placements})"
        )

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: Any = None,
        grad_placements: Any = None,
    ) -> DTensor:
        """Parts that the processes hold, as one tensor."""
        refuse("DTensor.from_local", grad_placements=grad_placements)
        chosen = normal(placements, device_mesh, local_tensor.dim())
        if shape is None:
            sizes = list(local_tensor.shape)
            for dim, placement in enumerate(chosen):
                # torch: parts are equally long where no shape is given.
                if isinstance(placement, Shard):
                    sizes[placement.dim] *= device_mesh.size(dim)
            shape = sizes
        made: DTensor = FromLocal.apply(local_tensor, device_mesh, chosen, tuple(shape))
        return made

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This process's part."""
        local: Tensor = ToLocal.apply(self, grad_placements)
        return local

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor in another layout."""
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        other = None if device_mesh == self._mesh else device_mesh
        refuse(
            "redistribute",
            device_mesh=other,
            forward_dtype=forward_dtype,
            backward_dtype=backward_dtype,
        )
        made: DTensor = Redistribute.apply(self, normal(placements, self._mesh, self.dim()))
        return made

    def full_tensor(self, *, grad_placements: Any = None) -> Tensor:
        """All of it, in every process."""
        whole = self.redistribute(placements=[Replicate()] * self._mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def __tensor_flatten__(self) -> Any:
        return ["_local"], (self._mesh, self._placements, tuple(self.shape))

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, stride: Any) -> DTensor:
        mesh, placements, shape = context
        made: DTensor = DTensor(inner["_local"], mesh, placements, shape)
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class FromLocal(Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor, mesh: Any, placements: Placements, shape: Any) -> Any:
        ctx.mesh, ctx.placements = mesh, placements
        return DTensor(local.view_as(local), mesh, placements, shape)

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> Any:
        wanted = settled(ctx.placements)
        return moved(grad, wanted)._local, None, None, None


class ToLocal(Function):
    @staticmethod
    def forward(ctx: Any, input: DTensor, grad_placements: Any) -> Any:
        ctx.mesh, ctx.shape = input._mesh, tuple(input.shape)
        ctx.placements = grad_placements or settled(input._placements)
        return input._local.view_as(input._local)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return DTensor(grad, ctx.mesh, tuple(ctx.placements), ctx.shape), None


class Redistribute(Function):
    @staticmethod
    def forward(ctx: Any, input: DTensor, placements: Placements) -> Any:
        ctx.placements = input._placements
        return moved(input, placements)

    @staticmethod
    def backward(ctx: Any, grad: DTensor) -> Any:
        return moved(grad, settled(ctx.placements)), None


def settled(placements: Placements) -> Placements:
    """The placements of a gradient: what is a part of a sum has the whole sum's gradient."""
    return tuple([Replicate() if isinstance(p, Partial) else p for p in placements])


def moved(tensor: DTensor, placements: Placements) -> DTensor:
    """Another layout, without history."""
    if tensor._placements == placements:
        return DTensor(tensor._local, tensor._mesh, placements, tensor.shape)
    local = move(tensor._local, tensor._mesh, tensor._placements, placements, tensor.shape)
    return DTensor(local, tensor._mesh, placements, tensor.shape)


# -- running operators -----------------------------------------------------------------------------

# Whose size arguments say the size of the whole.
SIZED = {"view", "_unsafe_view", "reshape", "_reshape_alias", "expand"}


# What looks at more than one element.
COMBINING = ("norm", "max", "mm", "powsum")


def lie_alike(args: Any) -> bool:
    """Whether lists of tensors are of parts that can be computed with by themselves."""
    lists = [each for each in args if isinstance(each, (list, tuple))]
    for row in zip(*[each for each in lists if isinstance(each[0], Tensor)]):
        first = row[0]
        for each in row:
            if (
                not isinstance(each, DTensor)
                or each._placements != first._placements
                or each._mesh is not first._mesh
                or each.shape != first.shape
            ):
                return False
        if any([isinstance(placement, Partial) for placement in first._placements]):
            return False
    return all([not isinstance(each, Tensor) for each in args])


def run_parts(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An elementwise operator on lists: on the lists of their parts, at once."""
    inner = [
        [own_of(one) if isinstance(one, Tensor) else one for one in each]
        if isinstance(each, (list, tuple))
        else each
        for each in args
    ]
    answer = func(*inner, **kwargs)
    if answer is None:
        return None
    return [
        DTensor(one, like._mesh, like._placements, like.shape) for one, like in zip(answer, args[0])
    ]


def run_each(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator on lists: its plain one on their members."""
    base = name.removeprefix("_foreach_")
    if base not in COMBINING and lie_alike(args):
        return run_parts(func, args, kwargs)
    found = []
    for index, first in enumerate(args[0]):
        rest = [each[index] if isinstance(each, (list, tuple)) else each for each in args[1:]]
        more = dict(kwargs)
        if base.startswith(("addcmul", "addcdiv")) and len(rest) == 3:
            more["value"] = rest.pop()
        method = functions.linalg_vector_norm if base == "norm" else getattr(type(first), base)
        found.append(method(first, *rest, **more))
    return None if base.endswith("_") else found


# Operators that may go another way than by their layouts; NotImplemented: not this time.
SPECIAL: dict[str, Callable[..., Any]] = {}


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """An operator on DTensors."""
    name = func._schema.name.partition("::")[2]
    if name.startswith("_foreach_"):
        return run_each(func, name, args, kwargs)
    rule = SPECIAL.get(name)
    if rule is not None:
        special = rule(*args, **kwargs)
        if special is not NotImplemented:
            return special
    bound, spec = pytree.tree_flatten((list(args), kwargs))
    spread = [each for each in bound if isinstance(each, DTensor)]
    mesh = spread[0]._mesh
    if any([each._mesh != mesh for each in spread]):
        raise RuntimeError(f"{func}: operands lie on different meshes")
    whole = (Replicate(),) * mesh.ndim
    tensors = [each for each in bound if isinstance(each, Tensor)]
    layouts = [each._placements if isinstance(each, DTensor) else whole for each in tensors]
    shapes = [tuple(each.shape) for each in tensors]
    plans = [
        plan(
            func,
            [Operand(shape, layout[dim]) for shape, layout in zip(shapes, layouts)],
            args,
            mesh.size(dim),
        )
        for dim in range(mesh.ndim)
    ]
    needs = [tuple([each.needs[i] for each in plans]) for i in range(len(tensors))]
    locals_ = iter([
        move(own_of(each), mesh, layout, need, each.shape)
        for each, layout, need in zip(tensors, layouts, needs)
    ])  # fmt: skip
    bound = [next(locals_) if isinstance(each, Tensor) else each for each in bound]
    own_args, own_kwargs = pytree.tree_unflatten(bound, spec)
    if name in SIZED:
        given: Any = tuple([each.gives for each in plans])
        sizes = list(own_args[1])
        if name == "expand":
            short = len(sizes) - len(shapes[0])
            sizes = [shapes[0][i - short] if size == -1 else size for i, size in enumerate(sizes)]
        else:
            sizes = full_shape(shapes[0], sizes)
        own_args[1] = local_shape(sizes, mesh, given)
        if name != "expand":
            # The whole says that it is contiguous; a part need not be.
            own_args[0] = own_args[0].contiguous()
    answer = func(*own_args, **own_kwargs)
    if func.mutated_positions:
        return args[func.mutated_positions[0]]
    sizes = whole_shapes(func, args, kwargs, answer, mesh, plans)
    return wrap_all(answer, name, mesh, plans, sizes)


def own_of(tensor: Tensor) -> Tensor:
    return tensor._local if isinstance(tensor, DTensor) else tensor


def wrap_all(answer: Any, name: str, mesh: DeviceMesh, plans: Any, sizes: list[list[int]]) -> Any:
    leaves, spec = pytree.tree_flatten(answer)
    found = []
    place = 0
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            found.append(leaf)
            continue
        gives = tuple([
            averaged(name, each) or (
                each.gives[place] if isinstance(each.gives, list) else each.gives
            )
            for each in plans
        ])  # fmt: skip
        found.append(DTensor(leaf, mesh, gives, sizes[place]))
        place += 1
    return pytree.tree_unflatten(found, spec)


def averaged(name: str, plan: Plan) -> Placement | None:
    """Means of parts are averaged where sums are added."""
    split = isinstance(plan.needs[0], Shard) if plan.needs else False
    return Partial("avg") if name == "mean" and split and plan.gives == Partial() else None


def whole_shapes(
    func: Any, args: Any, kwargs: dict[str, Any], answer: Any, mesh: DeviceMesh, plans: Any
) -> list[list[int]]:
    """The sizes of the whole results. Parts of equal length tell them; else shape rules do."""
    leaves = [leaf for leaf in pytree.tree_leaves(answer) if isinstance(leaf, Tensor)]
    tensors = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    uneven = any([
        isinstance(need, Shard) and tensor.shape[need.dim] % mesh.size(dim)
        for dim, each in enumerate(plans)
        for tensor, need in zip(tensors, each.needs)
    ])  # fmt: skip
    if uneven:

        def without_memory(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return functions.empty(list(value.shape), dtype=value.dtype, device="meta")

        whole = func(*pytree.tree_map(without_memory, list(args)), **kwargs)
        return [list(leaf.shape) for leaf in pytree.tree_leaves(whole) if isinstance(leaf, Tensor)]
    found = []
    for place, leaf in enumerate(leaves):
        sizes = list(leaf.shape)
        for dim, each in enumerate(plans):
            gives = each.gives[place] if isinstance(each.gives, list) else each.gives
            if isinstance(gives, Shard):
                sizes[gives.dim] *= mesh.size(dim)
        found.append(sizes)
    return found


# -- making them -----------------------------------------------------------------------------------


def distribute_tensor(
    tensor: Tensor,
    device_mesh: DeviceMesh,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Spread a tensor, that of the mesh's first process, over a mesh."""
    chosen = normal(placements, device_mesh, tensor.dim())
    plain = tensor.detach()
    if isinstance(plain, DTensor):
        made = moved(plain, chosen)
    else:
        if src_data_rank is not None and not plain.is_meta:
            plain = plain.clone()
            for dim in range(device_mesh.ndim):
                group = device_mesh.get_group(dim)
                collectives.broadcast(plain, group=group, group_src=src_data_rank)
        whole = (Replicate(),) * device_mesh.ndim
        local = move(plain, device_mesh, whole, chosen, plain.shape)
        made = DTensor(local, device_mesh, chosen, plain.shape)
    made.requires_grad_(tensor.requires_grad)
    return made


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Module:
    """Make a module's parameters DTensors, as `partition_fn` says; whole ones where it does not."""
    for name, inner in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, inner, device_mesh)
        spread_parameters(inner, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda owner, inputs: input_fn(owner, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(
            lambda owner, inputs, outputs: output_fn(owner, outputs, device_mesh)
        )
    return module


def spread_parameters(
    module: Module, mesh: DeviceMesh, placements: dict[str, Sequence[Placement]] | None = None
) -> None:
    """A module's own parameters as DTensors."""
    for name, parameter in list(module._parameters.items()):
        if parameter is None or isinstance(parameter, DTensor):
            continue
        where = (placements or {}).get(name)
        made = Parameter(distribute_tensor(parameter.detach(), mesh, where))
        made.requires_grad_(parameter.requires_grad)
        module._parameters[name] = made


def factory(name: str) -> Callable[..., DTensor]:
    def make(
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        **options: Any,
    ) -> DTensor:
        mesh = device_mesh
        if mesh is None:
            raise RuntimeError(f"{name} needs device_mesh")
        first = size[0] if size and isinstance(size[0], (list, tuple)) else None
        shape = list(first) if first is not None else list(size)
        rest = list(size[1:]) if first is not None else []
        chosen = normal(placements, mesh, len(shape))
        drawn = name in ("rand", "randn")
        sizes = shape if drawn else local_shape(shape, mesh, chosen)
        local = getattr(functions, name)(sizes, *rest, dtype=dtype, **options)
        if drawn:
            # The same numbers as one process would draw.
            made = distribute_tensor(local, mesh, chosen)
        else:
            made = DTensor(local, mesh, chosen, shape)
        made.requires_grad_(requires_grad)
        return made

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"`torch.{name}`, spread over a mesh."
    return make


zeros, ones, empty = factory("zeros"), factory("ones"), factory("empty")
full, rand, randn = factory("full"), factory("rand"), factory("randn")
