"""Every collective, in every process, compared with what arithmetic says."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
import rushlight.distributed as dist

Op = dist.ReduceOp
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def of_rank(rank, dtype, count=6):
    return (torch.arange(count) % 3 + 1 + rank).to(dtype)


def check_reductions(rank, size):
    for dtype in FLOATS + INTEGERS:
        every = [of_rank(r, dtype) for r in range(size)]
        whole = torch.stack([each.to(torch.float64) for each in every])
        expected = {
            Op.SUM: whole.sum(0), Op.PRODUCT: whole.prod(0), Op.MIN: whole.amin(0),
            Op.MAX: whole.amax(0),
        }  # fmt: skip
        if dtype in FLOATS:
            expected[Op.AVG] = whole.mean(0)
        for op, answer in expected.items():
            mine = every[rank].clone()
            assert dist.all_reduce(mine, op=op) is None
            assert mine.dtype == dtype and torch.equal(mine, answer.to(dtype)), (dtype, op, mine)
    for op, function in (
        (Op.BAND, torch.bitwise_and), (Op.BOR, torch.bitwise_or), (Op.BXOR, torch.bitwise_xor),
    ):  # fmt: skip
        for dtype in (torch.bool, *INTEGERS):
            answer = of_rank(0, dtype)
            for r in range(1, size):
                answer = function(answer, of_rank(r, dtype))
            mine = of_rank(rank, dtype)
            dist.all_reduce(mine, op=op)
            assert torch.equal(mine, answer), (dtype, op)
    flags = torch.tensor([True, rank == 0, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    waves = torch.tensor([1 + 2j, 3j]) * (rank + 1)
    dist.all_reduce(waves)
    total = size * (size + 1) // 2
    assert waves.tolist() == [total * (1 + 2j), total * 3j]


def check_refused_reductions(rank, size):
    with pytest.raises(RuntimeError, match="BAND with non-integral dtype"):
        dist.all_reduce(torch.ones(2), op=Op.BAND)
    with pytest.raises(RuntimeError, match="Float can't be cast to the desired output type Int"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32), op=Op.AVG)
    with pytest.raises(ValueError, match="does not support RedOpType.MAX on complex"):
        dist.all_reduce(torch.ones(2, dtype=torch.complex64), op=Op.MAX)
    with pytest.raises(TypeError, match="Expected parameter `tensor` of type torch.Tensor"):
        dist.all_reduce([1])
    with pytest.raises(RuntimeError, match="broadcast: invalid root rank: 99"):
        dist.broadcast(torch.ones(1), src=99)
    with pytest.raises(ValueError, match="must not be|should not be the same as the rank"):
        dist.send(torch.ones(1), dst=rank)
    with pytest.raises(RuntimeError, match="expected length"):
        dist.all_gather([torch.ones(1)], torch.ones(1))


def check_sizes_and_layouts(rank, size):
    # Small ones go to all at once, large ones in parts; counts that do not divide evenly.
    for count in (0, 1, 7, 8191, 8193, 100_003):
        mine = torch.full((count,), float(rank + 1))
        dist.all_reduce(mine)
        assert torch.equal(mine, torch.full((count,), size * (size + 1) / 2)), count
    wide = torch.arange(12.0).reshape(3, 4)
    turned = (wide * (rank + 1)).t()
    dist.all_reduce(turned)
    assert torch.equal(turned, (wide * (size * (size + 1) / 2)).t())
    every_other = torch.zeros(10)
    every_other[::2] = 1
    dist.all_reduce(every_other[::2])
    assert every_other.tolist() == [float(size), 0.0] * 5
    scalar = torch.tensor(2.0)
    dist.all_reduce(scalar)
    assert scalar.item() == 2.0 * size
    special = torch.tensor([math.nan, math.inf, -0.0])
    dist.all_reduce(special)
    assert special[0].isnan() and special[1] == math.inf and special[2].signbit()


def check_same_bits_everywhere(rank, size):
    torch.manual_seed(rank)
    for count in (100, 50_000):
        mine = torch.randn(count)
        dist.all_reduce(mine)
        every = [torch.empty(count) for _ in range(size)]
        dist.all_gather(every, mine)
        assert all([torch.equal(each, mine) for each in every])


def check_gathering(rank, size):
    own = torch.tensor([rank, rank * 10])
    every = [torch.zeros(2, dtype=torch.int64) for _ in range(size)]
    dist.all_gather(every, own)
    assert [each.tolist() for each in every] == [[r, 10 * r] for r in range(size)]
    whole = torch.zeros(2 * size, dtype=torch.int64)
    dist.all_gather_into_tensor(whole, own)
    assert whole.tolist() == [x for r in range(size) for x in (r, 10 * r)]
    stacked = torch.zeros(size, 2, dtype=torch.int64)
    dist.all_gather_into_tensor(stacked, own)
    assert stacked.tolist() == [[r, 10 * r] for r in range(size)]
    for root in range(size):
        into = [torch.zeros(2, dtype=torch.int64) for _ in range(size)] if rank == root else None
        dist.gather(own, into, dst=root)
        if rank == root:
            assert [each.tolist() for each in into] == [[r, 10 * r] for r in range(size)]
        given = [torch.tensor([root, r]) for r in range(size)] if rank == root else None
        taken = torch.zeros(2, dtype=torch.int64)
        dist.scatter(taken, given, src=root)
        assert taken.tolist() == [root, rank]
        told = torch.full((3,), rank)
        dist.broadcast(told, src=root)
        assert told.tolist() == [root] * 3
        summed = torch.full((3,), rank + 1)
        dist.reduce(summed, dst=root)
        expected = size * (size + 1) // 2 if rank == root else rank + 1
        assert summed.tolist() == [expected] * 3


def check_scattering(rank, size):
    whole = torch.arange(2.0 * size)
    out = torch.zeros(2)
    dist.reduce_scatter_tensor(out, whole * (rank + 1), op=Op.SUM)
    assert torch.equal(out, whole[2 * rank : 2 * rank + 2] * (size * (size + 1) / 2))
    dist.reduce_scatter(out, list(whole.reshape(size, 2)), op=Op.AVG)
    assert torch.equal(out, whole[2 * rank : 2 * rank + 2])
    taken = [torch.zeros(r + 1) for r in range(size)]
    dist.all_to_all(taken, [torch.full((rank + 1,), float(rank)) for _ in range(size)])
    assert [each.tolist() for each in taken] == [[float(r)] * (r + 1) for r in range(size)]
    out = torch.zeros(size, 2)
    dist.all_to_all_single(out, torch.arange(2.0 * size).reshape(size, 2) + 100 * rank)
    assert out.tolist() == [[2.0 * rank + 100 * r, 2.0 * rank + 1 + 100 * r] for r in range(size)]
    # Process r sends r + 1 rows to each.
    out = torch.zeros(sum(range(1, size + 1)))
    sent = torch.full(((rank + 1) * size,), float(rank))
    dist.all_to_all_single(out, sent, [r + 1 for r in range(size)], [rank + 1] * size)
    assert out.tolist() == [float(r) for r in range(size) for _ in range(r + 1)]


def check_works(rank, size):
    works = [dist.all_reduce(torch.full((40_000,), float(i)), async_op=True) for i in range(20)]
    for i, work in reversed(list(enumerate(works))):
        (found,) = work.get_future().wait()
        assert found[0] == size * i and work.is_completed() and work.is_success()
        assert work.wait() is True and work.exception() is None
    seen = []
    work = dist.all_reduce(torch.ones(3), async_op=True)
    later = work.get_future().then(lambda done: done.value()[0] / size)
    later.add_done_callback(lambda done: seen.append(done.value().tolist()))
    assert later.wait().tolist() == [1.0] * 3 and seen == [[1.0] * 3]


def check_messages(rank, size):
    after, before = (rank + 1) % size, (rank - 1) % size
    taken = torch.zeros(3)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), after),
        dist.P2POp(dist.irecv, taken, before),
    ])  # fmt: skip
    for work in works:
        work.wait()
    assert taken.tolist() == [float(before)] * 3 and works[1].source_rank() == before
    if rank == 0:
        found = []
        for _ in range(size - 1):
            into = torch.zeros(1, dtype=torch.int64)
            source = dist.recv(into, tag=7)
            assert into.item() == source
            found.append(source)
        assert sorted(found) == list(range(1, size))
    else:
        dist.send(torch.tensor([rank]), 0, tag=7)
    # Two messages under way, told apart by their tags.
    if rank == 0:
        for tag in (1, 2):
            dist.send(torch.tensor([tag]), 1, tag=tag)
    elif rank == 1:
        first, second = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
        dist.recv(second, 0, tag=2)
        dist.recv(first, 0, tag=1)
        assert (first.item(), second.item()) == (1, 2)


def check_objects(rank, size):
    every = [None] * size
    dist.all_gather_object(every, {"rank": rank, "more": "x" * rank})
    assert every == [{"rank": r, "more": "x" * r} for r in range(size)]
    told = ["a", torch.ones(2), 3] if rank == 1 else [None, None, None]
    dist.broadcast_object_list(told, src=1)
    assert told[0] == "a" and told[1].tolist() == [1.0, 1.0] and told[2] == 3
    into = [None] * size if rank == 0 else None
    dist.gather_object(rank**2, into)
    assert rank != 0 or into == [r**2 for r in range(size)]
    taken = [None]
    dist.scatter_object_list(taken, [f"to {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert taken == [f"to {rank}"]
    if rank == 0:
        dist.send_object_list(["hello", 1], 1)
    elif rank == 1:
        into = [None, None]
        assert dist.recv_object_list(into, 0) == 0 and into == ["hello", 1]


def check_groups(rank, size):
    world = dist.group.WORLD
    assert world.rank() == rank and world.size() == size and dist.get_backend() == "mpi"
    pairs = [dist.new_group([r, (r + 1) % size]) for r in range(size)]
    for r, pair in enumerate(pairs):
        inside = rank in (r, (r + 1) % size)
        assert (pair == dist.GroupMember.NON_GROUP_MEMBER) is not inside
        if inside:
            mine = torch.tensor([2.0**rank])
            dist.all_reduce(mine, group=pair)
            assert mine.item() == 2.0**r + 2.0 ** ((r + 1) % size)
            assert dist.get_process_group_ranks(pair) == sorted({r, (r + 1) % size})
            assert dist.get_global_rank(pair, dist.get_rank(pair)) == rank
            assert dist.get_group_rank(pair, rank) == dist.get_rank(pair)
        else:
            assert dist.get_rank(pair) == -1 and dist.get_world_size(pair) == -1
            with pytest.warns(UserWarning, match="does not belong to the given group"):
                dist.all_reduce(torch.ones(1), group=pair)
    own, every = dist.new_subgroups(1)
    assert dist.get_world_size(own) == 1 and len(every) == size
    if rank == 0:
        alone = dist.new_group([0], use_local_synchronization=True)
        dist.barrier(alone)
    for pair in pairs:
        dist.destroy_process_group(pair)
    with pytest.raises(ValueError, match="initialize the default process group twice"):
        dist.init_process_group("mpi")


def check_barriers(rank, size):
    for _ in range(3):
        dist.barrier()
        dist.monitored_barrier()


def check_store(rank, size):
    from rushlight.distributed.groups import the_world

    store = the_world().store
    if rank == 0:
        store.set("word", "hello")
    assert store.get("word") == b"hello"
    assert 1 <= store.add("count", 1) <= size
    dist.barrier()
    assert store.add("count", 0) == size


def check_again(rank, size):
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        dist.get_rank()
