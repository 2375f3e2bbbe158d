"""Stages of data and what feeds them: finding all of a pipeline, and setting it up.

A graph is a dict: the id of a stage -> the stage and the graph of those that it reads from.
"""

from __future__ import annotations

import inspect
import io
import pickle
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from rushlight.core.dtype import int64
from rushlight.data.pipes import IterDataPipe, MapDataPipe
from rushlight.opset import functions

__all__ = [
    "apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
    "get_all_graph_pipes", "traverse", "traverse_dps", "worker_init_fn",
]  # fmt: skip

PIPES = (IterDataPipe, MapDataPipe)


class Finder(pickle.Pickler):
    """Collects the stages that an object reaches, without going into them."""

    def __init__(self, root: Any) -> None:
        super().__init__(io.BytesIO())
        self.root = root
        self.found: list[Any] = []

    def persistent_id(self, obj: Any) -> Any:
        if obj is self.root or not isinstance(obj, PIPES):
            return None
        if all(obj is not each for each in self.found):
            self.found.append(obj)
        return id(obj)


def within(value: Any, seen: set[int]) -> Iterator[Any]:
    """The stages in an attribute: itself, or whatever collections in it hold."""
    if isinstance(value, PIPES):
        yield value
    elif isinstance(value, Collection) and not isinstance(value, (str, bytes)):
        if id(value) in seen:
            return
        seen.add(id(value))
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)
        for part in parts:
            yield from within(part, seen)


def feeding(pipe: Any, only_datapipe: bool) -> list[Any]:
    """The stages that a stage reads from."""
    if not only_datapipe:
        finder = Finder(pipe)
        finder.dump(pipe)
        return finder.found
    found: list[Any] = []
    for value in vars(pipe).values():
        found += [each for each in within(value, set()) if all(each is not one for one in found)]
    return found


def graph_of(pipe: Any, only_datapipe: bool, path: frozenset[int]) -> dict[int, Any]:
    if not isinstance(pipe, PIPES):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in path:
        return {}
    path = path | {id(pipe)}
    below: dict[int, Any] = {}
    for each in feeding(pipe, only_datapipe):
        below.update(graph_of(each, only_datapipe, path))
    return {id(pipe): (pipe, below)}


def traverse_dps(datapipe: Any) -> dict[int, Any]:
    """The graph that ends in a stage, by its attributes and the collections in them."""
    return graph_of(datapipe, True, frozenset())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> dict[int, Any]:
    """torch's older form of `traverse_dps`, which looks into every object a stage holds."""
    text = (
        "`traverse` function is deprecated and will be removed after 1.13. "
        "Please use `traverse_dps` instead."
    )
    if not only_datapipe:
        text += " And, the behavior will be changed to the equivalent of `only_datapipe=True`."
    warnings.warn(text, FutureWarning, stacklevel=2)
    return graph_of(datapipe, bool(only_datapipe), frozenset())


def get_all_graph_pipes(graph: dict[int, Any]) -> list[Any]:
    """Every stage of a graph, once."""
    found: dict[int, Any] = {}

    def collect(part: dict[int, Any]) -> None:
        for name, (pipe, below) in part.items():
            if name not in found:
                found[name] = pipe
                collect(below)

    collect(graph)
    return list(found.values())


def has_methods(pipe: Any, *names: str) -> bool:
    return all([inspect.ismethod(getattr(pipe, name, None)) for name in names])


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: Any = None
) -> Any:
    """Tells the stages that can which share of the data is theirs: at most one on each path."""

    def apply(graph: dict[int, Any], above: Any) -> None:
        for pipe, below in graph.values():
            shares = has_methods(pipe, "apply_sharding")
            if shares:
                if above is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause "
                        f"data loss. Sharding already applied to {above} while trying to apply to "
                        f"{pipe}"
                    )
                given = [num_of_instances, instance_id]
                takes_group = len(inspect.signature(pipe.apply_sharding).parameters) >= 3
                if takes_group and sharding_group is not None:
                    pipe.apply_sharding(*given, sharding_group=sharding_group)
                else:
                    pipe.apply_sharding(*given)
            apply(below, pipe if shares else above)

    apply(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Switches the shuffling of every stage that shuffles; None leaves it as it is."""
    if shuffle is None:
        return datapipe
    stages = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in stages if has_methods(pipe, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for each in shufflers:
        each.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Gives every stage that draws a seed of its own, drawn from `rng`."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if has_methods(pipe, "set_seed"):
            drawn = functions.empty((), dtype=int64).random_(generator=rng)
            pipe.set_seed(int(drawn.item()))
    return datapipe


def apply_shuffle_seed(datapipe: Any, rng: Any) -> Any:
    """torch's older name of `apply_random_seed`."""
    warnings.warn(
        "`apply_shuffle_seed` is deprecated since 1.12 and will be removed in the future releases. "
        "Please use `apply_random_seed` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return apply_random_seed(datapipe, rng)


def worker_init_fn(worker_id: int) -> None:
    """Nothing is left for it to do: loaders share data among their workers themselves."""
    warnings.warn(
        "Usage of `backward_compatibility.worker_init_fn` is deprecated as `DataLoader` "
        "automatically applies sharding in every worker",
        FutureWarning,
        stacklevel=2,
    )
