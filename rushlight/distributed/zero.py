"""ZeroRedundancyOptimizer: each process keeps the optimiser's state of some of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.base.errors import MissingFeature
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import ProcessGroup, the_group
from rushlight.distributed.join import Join, Joinable, JoinHook
from rushlight.distributed.objects import gather_object
from rushlight.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimiser whose state is spread. After a step, owners tell their parameters to all."""

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise MissingFeature("ZeroRedundancyOptimizer(overlap_with_ddp=True)", code="RL0013")
        group = the_group(process_group, "ZeroRedundancyOptimizer")
        if group is None:
            raise RuntimeError("ZeroRedundancyOptimizer: this rank is not in the process group")
        self.process_group = group
        self.optimizer_class = optimizer_class
        self.given_defaults = defaults
        self.optim: Any = None
        self.owners: dict[int, int] = {}
        self.loads = [0] * group.size()
        self.gathered: list[Any] = []
        super().__init__(params, defaults)
        self.make_local()

    def make_local(self) -> None:
        """The optimiser of this process's share."""
        self.assign()
        me = self.process_group.me
        groups = []
        for group in self.param_groups:
            own = [p for p in group["params"] if self.owners[id(p)] == me]
            groups.append({**group, "params": own})
        self.optim = self.optimizer_class(groups, **self.given_defaults)
        # Options that the optimiser has defaults for are shown, and can be set, here.
        for shown, kept in zip(self.param_groups, self.optim.param_groups):
            for name, value in kept.items():
                shown.setdefault(name, value)

    def assign(self) -> None:
        """Each parameter to the process with the least so far, the largest ones first."""
        new = [p for g in self.param_groups for p in g["params"] if id(p) not in self.owners]
        for parameter in sorted(new, key=lambda each: -each.numel()):
            least = self.loads.index(min(self.loads))
            self.owners[id(parameter)] = least
            self.loads[least] += parameter.numel()

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        if self.optim is None:
            return
        self.assign()
        group = self.param_groups[-1]
        me = self.process_group.me
        own = [p for p in group["params"] if self.owners[id(p)] == me]
        self.optim.add_param_group({**group, "params": own})

    def step(self, closure: Callable[[], Any] | None = None, **options: Any) -> Any:
        Join.notify_join_context(self)
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for shown, kept in zip(self.param_groups, self.optim.param_groups):
            kept.update({name: value for name, value in shown.items() if name != "params"})
        self.optim.step(**options)
        self.share()
        return loss

    def share(self) -> None:
        with no_grad():
            works = [
                collectives.broadcast(
                    parameter.detach(),
                    group=self.process_group,
                    group_src=self.owners[id(parameter)],
                    async_op=True,
                )
                for parameter in self.parameters()
            ]
            for work in works:
                work.wait()

    def parameters(self) -> Iterable[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    # -- state ------------------------------------------------------------------------------------

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring all state to one process, for `state_dict` there."""
        group = self.process_group
        into: list[Any] | None = [None] * group.size() if group.me == to else None
        gather_object(self.optim.state_dict()["state"], into, group=group, group_dst=to)
        self.gathered = into or []

    def order_of(self, rank: int) -> list[int]:
        """The numbers, in this optimiser, of the parameters that a process has."""
        parameters = list(self.parameters())
        return [i for i, p in enumerate(parameters) if self.owners[id(p)] == rank]

    def state_dict(self) -> dict[str, Any]:
        """As the wrapped optimiser's, of all parameters."""
        if not self.gathered:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.process_group.me})` on all ranks beforehand if "
                "you meant to save the global state."
            )
        state = {}
        for rank, own in enumerate(self.gathered):
            order = self.order_of(rank)
            state.update({order[place]: values for place, values in own.items()})
        found: dict[str, Any] = super().state_dict()
        return {**found, "state": dict(sorted(state.items()))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Each process takes what is its own."""
        order = self.order_of(self.process_group.me)
        local = self.optim.state_dict()
        taken = {
            place: state_dict["state"][number]
            for place, number in enumerate(order)
            if number in state_dict["state"]
        }
        for kept, shown, given in zip(
            local["param_groups"], self.param_groups, state_dict["param_groups"]
        ):
            options = {name: value for name, value in given.items() if name != "params"}
            kept.update(options)
            shown.update(options)
        self.optim.load_state_dict({**local, "state": taken})

    # -- uneven inputs ----------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        return ShadowStep(self)

    @property
    def join_device(self) -> Any:
        return next(iter(self.parameters())).device

    @property
    def join_process_group(self) -> ProcessGroup:
        return self.process_group


class ShadowStep(JoinHook):
    """What a process without inputs does while others train: it still has its share of steps."""

    def __init__(self, optimiser: ZeroRedundancyOptimizer) -> None:
        self.optimiser = optimiser

    def main_hook(self) -> None:
        self.optimiser.step()
