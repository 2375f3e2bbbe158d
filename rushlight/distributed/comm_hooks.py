"""Communication hooks of DistributedDataParallel: how a bucket of gradients becomes its mean.

A hook takes a state, usually a process group, and a bucket, and answers a future of the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.ddp import GradBucket
from rushlight.distributed.groups import the_group
from rushlight.distributed.powersgd import PowerSGDState, batched_powerSGD_hook, powerSGD_hook
from rushlight.futures import Future

__all__ = [
    "DDPCommHookType", "PowerSGDState", "allreduce_hook", "batched_powerSGD_hook",
    "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper",
    "noop_hook", "powerSGD_hook", "register_ddp_comm_hook",
]  # fmt: skip

Hook = Callable[[Any, GradBucket], Any]


def mean_of(values: Tensor, process_group: Any) -> Future:
    """The mean of a vector over all processes, in its dtype."""
    group = the_group(process_group, "allreduce_hook")
    assert group is not None
    with no_grad():
        values.div_(group.size())
    work = collectives.all_reduce(values, group=group, async_op=True)
    future: Future = work.get_future().then(lambda done: done.value()[0])
    return future


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future:
    """The mean, as without a hook."""
    return mean_of(bucket.buffer(), process_group)


def compressed(dtype: Any, process_group: Any, bucket: GradBucket) -> Future:
    """The mean, computed and sent in a smaller dtype."""
    own = bucket.buffer()
    small = mean_of(own.to(dtype), process_group)

    def widen(done: Future) -> Tensor:
        with no_grad():
            widened: Tensor = own.copy_(done.value())
            return widened

    return small.then(widen)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Gradients travel as float16."""
    return compressed(dtypes.float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future:
    """Gradients travel as bfloat16."""
    return compressed(dtypes.bfloat16, process_group, bucket)


def wrapped(dtype: Any, hook: Hook) -> Hook:
    def compress(state: Any, bucket: GradBucket) -> Future:
        own = bucket.values
        bucket.values = own.to(dtype)
        try:
            future = hook(state, bucket)
        finally:
            bucket.values = own

        def widen(done: Future) -> Tensor:
            with no_grad():
                widened: Tensor = own.copy_(done.value())
                return widened

        widened: Future = future.then(widen)
        return widened

    return compress


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is given float16 in place of its bucket's dtype."""
    return wrapped(dtypes.float16, hook)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is given bfloat16 in place of its bucket's dtype."""
    return wrapped(dtypes.bfloat16, hook)


def noop_hook(state: Any, bucket: GradBucket) -> Future:
    """No communication: each process keeps its own gradients."""
    future = Future()
    future.set_result(bucket.buffer())
    return future


class DDPCommHookType(Enum):
    """The hooks by name, as `register_ddp_comm_hook` takes them."""

    ALLREDUCE = partial(allreduce_hook)
    FP16_COMPRESS = partial(fp16_compress_hook)
    BF16_COMPRESS = partial(bf16_compress_hook)
    POWER_SGD = partial(powerSGD_hook)
    BATCHED_POWER_SGD = partial(batched_powerSGD_hook)
    NOOP = partial(noop_hook)


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Give a DistributedDataParallel one of the hooks here."""
    model.register_comm_hook(state, comm_hook_type.value)
