"""Messages between two processes: send, recv and their kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.algorithms import raw
from rushlight.distributed.buffers import Flat, check_tensor, describe
from rushlight.distributed.engine import Steps
from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.groups import ProcessGroup, the_group, the_world

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def peer_of(
    found: ProcessGroup, peer: int | None, in_group: int | None, name: str, kind: str
) -> int:
    """The rank in the world of the process at the other end."""
    if in_group is not None:
        if peer is not None:
            raise ValueError(f"Can't specify both group_{name} and {name}")
        if not 0 <= in_group < found.size():
            raise ValueError(f"Group rank {in_group} is not part of group {found}")
        peer = found.members[in_group]
    if peer is None:
        raise ValueError(f"Must specify {name} or group_{name}")
    if peer == found.world.rank:
        raise ValueError(
            f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current "
            "process."
        )
    if peer not in found.members:
        raise ValueError(f"Global rank {peer} is not part of group {found}")
    return peer


def begin_send(
    tensor: Tensor,
    dst: int | None,
    group: Any,
    tag: int,
    group_dst: int | None,
    async_op: bool,
) -> Any:
    name = "isend" if async_op else "send"
    check_tensor(tensor, "tensor")
    found = the_group(group, name)
    if found is None:
        return None
    peer = peer_of(found, dst, group_dst, "dst", "destination")
    flat, engine, wire = Flat(tensor), found.world.engine, found.user_tag(tag)

    def steps() -> Steps:
        yield [engine.send(raw(flat.values), peer, wire)]

    label = f"{name}({describe(tensor)}) from rank {found.world.rank} to rank {peer}"
    return found.message(label, peer, steps(), [tensor], async_op)


def begin_receive(
    tensor: Tensor,
    src: int | None,
    group: Any,
    tag: int,
    group_src: int | None,
    async_op: bool,
) -> Any:
    name = "irecv" if async_op else "recv"
    check_tensor(tensor, "tensor")
    found = the_group(group, name)
    if found is None:
        return None
    anyone = src is None and group_src is None
    peer = -1 if anyone else peer_of(found, src, group_src, "src", "source")
    flat, engine, wire = Flat(tensor), found.world.engine, found.user_tag(tag)
    runtime = engine.runtime
    if runtime is None:
        raise ValueError("there is no other process to receive from")
    label = (
        f"{name}({describe(tensor)}) of rank {found.world.rank} from "
        f"{'any rank' if anyone else f'rank {peer}'}"
    )

    def steps() -> Steps:
        status = runtime.mpi.Status()
        source = peer
        if anyone:
            yield lambda: runtime.comm.Iprobe(runtime.mpi.ANY_SOURCE, wire, status)
            source = status.Get_source()
        request = engine.receive(raw(flat.values), source, wire)
        yield lambda: request.Test(status)
        length = status.Get_count(runtime.mpi.BYTE)
        if length != flat.values.nbytes:
            raise DistBackendError(
                f"{label}: the message has {length} bytes, the tensor {flat.values.nbytes}"
            )
        flat.restore()
        return source

    work = found.message(label, peer, steps(), [tensor], True)
    if async_op:
        return work
    assert work is not None
    work.wait()
    return work.source_rank()


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor; it may be written to again afterwards."""
    begin_send(tensor, dst, group, tag, group_dst, False)


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Any:
    """Begin to send a tensor; `wait` before writing to it."""
    return begin_send(tensor, dst, group, tag, group_dst, True)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive into a tensor, from any process where none is named; answers from which."""
    answer = begin_receive(tensor, src, group, tag, group_src, False)
    return -1 if answer is None else int(answer)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Any:
    """Begin to receive into a tensor; its values are there after `wait`."""
    return begin_receive(tensor, src, group, tag, group_src, True)


class P2POp:
    """One message of `batch_isend_irecv`."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor, "tensor")
        the_world()
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer

    def begin(self) -> Any:
        return self.op(self.tensor, self.peer, self.group, self.tag, self.group_peer)


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Begin several messages; answers their works."""
    if not isinstance(p2p_op_list, list) or not all(
        [isinstance(each, P2POp) for each in p2p_op_list]
    ):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    return [each.begin() for each in p2p_op_list]
