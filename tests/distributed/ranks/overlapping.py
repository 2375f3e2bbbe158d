"""fully_shard: what is under way while modules compute, and that it changes no bit."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from rushlight import nn
from rushlight.distributed.checkpointed import CheckpointWrapper, apply_activation_checkpointing
from rushlight.distributed.dtensor import DTensor, distribute_tensor
from rushlight.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from rushlight.distributed.groups import ProcessGroup
from rushlight.distributed.mesh import init_device_mesh
from rushlight.distributed.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.distributed.placements import Shard
from rushlight.distributed.statedict import StateDictOptions, get_state_dict, set_model_state_dict
from rushlight.distributed.work import Work
from rushlight.utils.checkpoint import checkpoint
from tests.distributed.ranks.fullysharded import mean_losses, sharded
from tests.distributed.ranks.sharded import data, make, train


@contextlib.contextmanager
def recorded():
    """When collectives begin and are waited for, and when layers compute."""
    events = []
    names = {}
    begin, wait = ProcessGroup.begin, Work.wait

    def begun(group, task, result, async_op, timeout):
        short = "gather" if "all_gather" in task.label else task.label.partition("(")[0]
        names[id(task)] = f"{short} {task.label.partition('[')[2].partition(']')[0]}"
        events.append(f"begin {names[id(task)]}")
        work = begin(group, task, result, async_op, timeout)
        if work is None:
            events.append(f"end {names[id(task)]}")
        return work

    def waited(work, timeout=None):
        done = wait(work, timeout)
        events.append(f"end {names[id(work.task)]}")
        return done

    ProcessGroup.begin, Work.wait = begun, waited
    try:
        yield events
    finally:
        ProcessGroup.begin, Work.wait = begin, wait


@contextlib.contextmanager
def blocking():
    """Nothing is under way while a module computes."""
    begin = ProcessGroup.begin

    def begun(group, task, result, async_op, timeout):
        work = begin(group, task, result, async_op, timeout)
        if work is not None:
            work.wait()
        return work

    ProcessGroup.begin = begun
    try:
        yield
    finally:
        ProcessGroup.begin = begin


class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, events, name):
        ctx.events, ctx.name = events, name
        events.append(f"forward {name}")
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        ctx.events.append(f"backward {ctx.name}")
        return grad.clone(), None, None


class Step(nn.Module):
    """A layer that tells when it computes; layers differ in size, so that collectives do."""

    def __init__(self, name, width, events):
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, 8)
        self.name, self.events = name, events

    def forward(self, x):
        return self.second(Marked.apply(self.first(x), self.events, self.name).tanh()) + x


def stack(events, size, **options):
    torch.manual_seed(0)
    layers = [Step(name, 8 * (place + 1), events) for place, name in enumerate("abc")]
    # As many elements as each process sends.
    counts = {
        layer.name: sum([-(-p.shape[0] // size) * p[:1].numel() for p in layer.parameters()])
        for layer in layers
    }
    for layer in layers:
        fully_shard(layer, **options)
    return fully_shard(nn.Sequential(*layers), **options), counts


def before(events, *expected):
    places = [events.index(each) for each in expected]
    assert places == sorted(places), "\n".join([f"{expected}", *events])


def check_order(rank, size):
    with recorded() as events:
        model, counts = stack(events, size)
        x = torch.ones(2, 8)
        for turn in range(3):
            events.clear()
            model(x).sum().backward()
            a, b, c = (f"gather {counts[name]}" for name in "abc")
            order = (f"begin {a}", f"begin {b}", "forward a", f"end {b}", "forward b",
                     f"end {c}", "forward c")  # fmt: skip
            if turn:
                before(events, *order)
                before(events, f"begin {b}", f"begin {c}", "forward b", f"end {c}")
            # Their second gathering.
            late = events[events.index("forward c") :]
            before(late, f"begin {c}", "backward c", f"end {b}", "backward b", f"end {a}",
                   "backward a")  # fmt: skip
            before(late, f"begin {b}", "backward c")
            before(late, f"begin {a}", "backward b")
            a, b, c = (f"reduce_scatter_tensor {counts[name]}" for name in "abc")
            before(late, "backward c", f"begin {c}", "backward b", f"end {c}", f"begin {b}",
                   "backward a", f"end {b}", f"begin {a}", f"end {a}")  # fmt: skip
        # What the program wishes comes first.
        a, b, c = (f"gather {counts[name]}" for name in "abc")
        model[0].set_modules_to_forward_prefetch([model[1], model[2]])
        model[1].set_modules_to_forward_prefetch([])
        model[2].set_modules_to_backward_prefetch([])
        events.clear()
        model(x).sum().backward()
        before(events, f"begin {b}", f"begin {c}", "forward a", f"end {b}", "forward b")
        before(events[events.index("forward c") :], f"end {c}", "backward c", f"begin {b}")


def check_that_the_order_tells(rank, size):
    """Collectives that end before anything is computed do not pass for those under way."""
    with blocking(), recorded() as events:
        model, counts = stack(events, size)
        x = torch.ones(2, 8)
        for _ in range(2):
            events.clear()
            model(x).sum().backward()
        before(events, f"begin gather {counts['b']}", "forward a", "forward b")
        with pytest.raises(AssertionError):
            before(events, "forward a", f"end gather {counts['b']}")


def train_bits(model, x, y, rank, size, steps=3):
    count = len(x) // size
    part = slice(rank * count, (rank + 1) * count)
    losses = train(model, x[part], y[part], None, steps)
    return losses, [p.to_local().clone() for p in model.parameters()]


def check_bits(rank, size):
    x, y = data()
    cases = [{}, {"reshard_after_forward": False}]
    cases += [{"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}]
    if size == 4:
        cases = [{"mesh": init_device_mesh("cpu", (2, 2))}]
    for options in cases:
        with blocking():
            losses, parameters = train_bits(sharded(**options), x, y, rank, size)
        for _ in range(2):
            mine, own = train_bits(sharded(**options), x, y, rank, size)
            assert mine == losses
            assert all([torch.equal(a, b) for a, b in zip(own, parameters)])


def check_modules_that_are_skipped(rank, size):
    """Parameters that came for nothing are not used when they have changed."""

    class Skipping(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x, skips):
            for place, layer in enumerate(self.layers):
                if place != skips:
                    x = layer(x).tanh()
            return x

    def run(model):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        found = []
        for turn in range(9):
            optimiser.zero_grad()
            loss = model(torch.ones(2, 4), (None, 1, 2, 0)[turn % 4]).square().sum()
            loss.backward()
            optimiser.step()
            found.append(loss.item())
            if turn == 4:
                with torch.no_grad():
                    model(torch.ones(2, 4), None)
                    for parameter in model.parameters():
                        parameter.mul_(0.5)
        return found

    torch.manual_seed(0)
    plain = Skipping()
    torch.manual_seed(0)
    model = Skipping()
    for layer in model.layers:
        fully_shard(layer)
    assert run(fully_shard(model)) == pytest.approx(run(plain), rel=1e-5)


def check_checkpointed(rank, size):
    """A forward that is computed again has whole parameters, inside or outside of the sharding."""
    x, y = data()
    expected = train(make(), x, y)
    for inside in (True, False):
        model = make()
        for layer in model.layers:
            if not inside:
                fully_shard(layer)
            inner = layer.forward
            layer.forward = lambda h, inner=inner: checkpoint(inner, h, use_reentrant=False)
            if inside:
                fully_shard(layer)
        assert mean_losses(fully_shard(model), x, y, rank, size) == pytest.approx(expected, 1e-5)
        for layer in model.layers:
            assert not layer._fully_sharded.bundles[0].is_whole


def gradients_of(model):
    return [parameter.grad.full_tensor() for parameter in model.parameters()]


def check_gradients_that_wait(rank, size):
    x, y = data()
    count = len(x) // size
    part = slice(rank * count, (rank + 1) * count)

    def loss_of(model, half):
        return F.cross_entropy(model(x[part][half]).flatten(0, 1), y[part][half].flatten())

    halves = slice(0, count // 2), slice(count // 2, count)
    meshes = [None, init_device_mesh("cpu", (2, 2))] if size == 4 else [None]
    for mesh in meshes:
        plain = sharded(mesh)
        for half in halves:
            loss_of(plain, half).backward()
        for choice in ("set_requires_gradient_sync", "set_requires_all_reduce"):
            model = sharded(mesh)
            with recorded() as events:
                getattr(model, choice)(False)
                loss_of(model, halves[0]).backward()
                scattered = [e for e in events if "begin reduce_scatter" in e]
                summed = [e for e in events if "begin all_reduce" in e]
                assert bool(scattered) == (choice == "set_requires_all_reduce") and not summed
                assert (model.head.weight.grad is None) == (mesh is not None or not scattered)
                getattr(model, choice)(True)
                loss_of(model, halves[1]).backward()
            for mine, theirs in zip(gradients_of(model), gradients_of(plain)):
                assert torch.allclose(mine, theirs, rtol=1e-4, atol=1e-6)
    model = sharded()
    for module in (model, *model.layers):
        module.set_gradient_divide_factor(2.0 * size)
    loss_of(model, slice(None)).backward()
    plain = sharded()
    loss_of(plain, slice(None)).backward()
    for mine, theirs in zip(gradients_of(model), gradients_of(plain)):
        assert torch.allclose(2 * mine, theirs, rtol=1e-4, atol=1e-6)


def check_gradients_that_are_watched(rank, size):
    """Hooks see the parts of gradients; autograd.grad answers them."""
    model, _ = stack([], size)
    loss = model(torch.ones(2, 8)).sum()
    found = torch.autograd.grad(loss, list(model.parameters()))
    seen = []
    for parameter in model[1].parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.full_tensor()))
    model(torch.ones(2, 8)).sum().backward()
    for own, parameter in zip(found, model.parameters()):
        assert isinstance(own, DTensor) and torch.equal(own.to_local(), parameter.grad.to_local())
    expected = [p.grad.full_tensor() for p in model[1].parameters()]
    assert len(seen) == 4 and all([any([torch.equal(s, e) for e in expected]) for s in seen])


def check_other_dims_are_split(rank, size):
    x, y = data()
    expected = train(make(), x, y)

    def last(parameter):
        return Shard(parameter.dim() - 1) if parameter.shape[-1] % size == 0 else None

    model = sharded(shard_placement_fn=last)
    weight = model.layers[0].up.weight
    assert weight.placements == (Shard(1),) and weight.to_local().shape == (64, 16 // size)
    assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(NotImplementedError, match="does not support uneven sharding on dim 1"):
        fully_shard(nn.Linear(3 * size + 1, 2), shard_placement_fn=lambda p: Shard(p.dim() - 1))
    with pytest.raises(ValueError, match="doesn't support scalar parameters"):
        fully_shard(nn.ParameterList([torch.tensor(1.0)]))


def check_made_without_memory(rank, size):
    """Parameters that get their memory, or their place, after they were spread."""
    x, y = data()
    expected = train(make(), x, y)
    values = make().state_dict()
    whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    for assigns in (True, False):
        with torch.device("meta"):
            model = make()
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        assert model.head.weight.to_local().is_meta
        if assigns:
            parts = {
                name: nn.Parameter(
                    distribute_tensor(values[name], like.device_mesh, like.placements)
                )
                for name, like in model.state_dict().items()
            }
            model.load_state_dict(parts, assign=True)
        else:
            model.to_empty(device="cpu")
            set_model_state_dict(model, values if rank == 0 else {}, options=whole)
        assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-5)
    # Conversions reach the parts.
    model = sharded().double()
    assert model.head.weight.to_local().dtype == model.head.weight.dtype == torch.float64
    assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-4)


def check_lists_of_modules(rank, size):
    """Modules whose parameters travel together; one of them may be left out of a forward."""
    x, y = data()
    expected = train(make(), x, y)
    with recorded() as events:
        model = make()
        fully_shard([model.words, model.places])
        for layer in model.layers:
            fully_shard(layer)
        fully_shard([model.norm, model.head])
        fully_shard(model)
        assert mean_losses(model, x, y, rank, size, steps=1) == pytest.approx(expected[:1])
        gathered = [e for e in events if e.startswith("begin gather")]
        assert len(gathered) == 2 * 4
    assert mean_losses(model, x, y, rank, size, steps=1) != expected[:1]
    model = make()
    fully_shard([model.words, model.places])
    twin = make()
    for each in (model.words, twin.words):
        each(x).square().sum().backward()
    spread = model._modules["words"]._fully_sharded.bundles[0]
    assert torch.allclose(model.words.weight.grad.full_tensor(), twin.words.weight.grad)
    assert not spread.is_whole and isinstance(model.places.weight, DTensor)


def check_wrapped_for_checkpointing(rank, size):
    x, y = data()
    expected = train(make(), x, y)
    model = make()
    apply_activation_checkpointing(model, check_fn=lambda module: type(module).__name__ == "Layer")
    assert isinstance(model.layers[0], CheckpointWrapper)
    assert list(model.state_dict()) == list(make().state_dict())
    model.load_state_dict(make().state_dict())
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    assert mean_losses(model, x, y, rank, size) == pytest.approx(expected, rel=1e-5)
    optimiser = torch.optim.Adam(model.parameters())
    named, state = get_state_dict(model, optimiser)
    assert set(named) == set(make().state_dict()) and set(state["state"]) <= set(named)


def check_asked_for(rank, size):
    model, counts = stack([], size)
    with recorded() as events:
        handle = model[0].unshard(async_op=True)
        assert events == [f"begin gather {counts['a']}"]
        assert isinstance(model[0].first.weight, DTensor)
        handle.wait()
        assert not isinstance(model[0].first.weight, DTensor)
        model(torch.ones(2, 8))
        assert events.count(f"begin gather {counts['a']}") == 1
    model[1].unshard()
    assert model[1].first.weight.shape == (16, 8)
    model[1].reshard()
    assert isinstance(model[1].first.weight, DTensor)


def check_failures_leave_parts(rank, size):
    model, _ = stack([], size)
    model[1].forward = None
    with pytest.raises(TypeError):
        model(torch.ones(2, 8))
    del model[1].forward
    expected, _ = stack([], size)
    for each in (model, expected):
        each(torch.ones(2, 8)).sum().backward()
    for mine, theirs in zip(gradients_of(model), gradients_of(expected)):
        assert torch.equal(mine, theirs)


def check_tensor_parallel_parts_are_split(rank, size):
    """Two dims: tensor parallelism within rows, fully_shard along columns."""
    x, y = data()
    shape = (2, 2) if size == 4 else (1, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("data", "model"))
    plan = {
        "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(),
        "attention.v": ColwiseParallel(), "attention.out": RowwiseParallel(),
        "up": ColwiseParallel(), "down": RowwiseParallel(),
    }  # fmt: skip
    model = make()
    for layer in model.layers:
        parallelize_module(layer, mesh["model"], plan)
        fully_shard(layer, mesh=mesh["data"])
    fully_shard(model, mesh=mesh["data"])
    up = model.layers[0].up.weight
    assert up.to_local().shape == (64 // size if size == 4 else 32, 16)
    ways, place = mesh.size(0), mesh.get_coordinate()[0]
    count = len(x) // ways
    part = slice(place * count, (place + 1) * count)
    twin = make()
    # Adam would make large steps of gradients that are zero but for rounding.
    expected = train(twin, x, y, torch.optim.SGD(twin.parameters(), lr=0.1))
    own = torch.tensor(train(model, x[part], y[part], torch.optim.SGD(model.parameters(), lr=0.1)))
    dist.all_reduce(own, op=dist.ReduceOp.AVG)
    assert own.tolist() == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        assert torch.allclose(mine.full_tensor(), theirs, rtol=1e-4, atol=1e-5)
    other = make()
    parallelize_module(other.layers[0], mesh["model"], plan)
    with pytest.raises(ValueError, match="needs both meshes to be named parts of one mesh"):
        fully_shard(other, mesh=init_device_mesh("cpu", (size,)))
