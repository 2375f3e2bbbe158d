"""Packages to functions: code made executable, state from bytes, inputs checked.

Loading runs what the file holds, as importing a module does. It needs NumPy and the foundation of
the package alone: no compiler, no symbols, no tracing; operators that are no loops are imported.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.base.treetexts import treespec_loads
from rushlight.codegen import entries
from rushlight.codegen.support import RUN_NAMES
from rushlight.core import dtype as dtypes
from rushlight.core.state import changed
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, wrap
from rushlight.core.typedstorage import TypedStorage
from rushlight.deploy.container import PackageFiles, refuse
from rushlight.deploy.kernels import kernels_of
from rushlight.deploy.memory import placed
from rushlight.deploy.targets import Target, best_target
from rushlight.deploy.values import Reader
from rushlight.export.leafchecks import LeafChecks, shown_path
from rushlight.io.rebuild import tensor_over
from rushlight.opset.heavy import packaged

__all__ = ["LoadedPackage", "load_package"]

WEIGHTS = "weights.bin"
FAST = "fast_"


def load_package(path: Any, *, target: str | None = None) -> LoadedPackage:
    """The function that a package holds, with its best code that runs here, or that of one target.
    Load only what you would run: a package is a program, and its checksums tell damage, not whom
    it comes from."""
    files = PackageFiles(path)
    try:
        described = files.manifest["targets"]
        targets = [Target(each["name"], each["features"]) for each in described]
    except (KeyError, TypeError) as problem:
        raise refuse("its manifest tells no targets") from problem
    chosen = best_target(targets, target)
    try:
        return LoadedPackage(files, chosen, kernels_of(files, described[chosen], targets[chosen]))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, SyntaxError) as problem:
        raise refuse(f"its manifest is damaged ({type(problem).__name__}: {problem})") from problem


class LoadedPackage:
    """A program that was compiled ahead of time; called as the module that it was made of."""

    def __init__(self, files: PackageFiles, target: int, kernels: Any) -> None:
        manifest = files.manifest
        self.manifest = manifest
        self.files = files
        self.kernels = kernels
        self.target = manifest["targets"][target]
        self.in_spec: TreeSpec = treespec_loads(manifest["in_spec"])
        self.out_spec: TreeSpec = treespec_loads(manifest["out_spec"])
        self.checks = LeafChecks(manifest["inputs"])
        names = [record.get("dtype") for record in manifest["inputs"]]
        self.dtypes = [None if name is None else dtypes.BY_NAME[name] for name in names]
        self.weights = files.content(WEIGHTS)
        self.state = read_state(manifest["state"], self.weights)
        self.run = self.function(0)
        if not buffers.REUSES:
            # Scratch memory belongs to one call at a time.
            self.run = one_by_one(self.run)

    # -- calling -----------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        names = self.in_spec.child(1).context
        if kwargs and names and set(names) == set(kwargs):
            kwargs = {name: kwargs[name] for name in names}
        leaves, received = pytree.tree_flatten((args, kwargs))
        if received != self.in_spec:
            raise ValueError(
                f"The package takes arguments of the structure\n{self.in_spec}\n"
                f"but got\n{received}.\nGive as many args and kwargs, of the same types, as the "
                "program was exported with."
            )

        def path_of(at: int) -> Any:
            return pytree.tree_flatten_with_path((args, kwargs))[0][at][0]

        self.checks(leaves, path_of)
        for at, (leaf, wanted) in enumerate(zip(leaves, self.dtypes)):
            if wanted is not None and leaf.dtype is not wanted:
                raise RuntimeError(
                    f"Expected input at {shown_path(path_of(at))} to have dtype {wanted}, "
                    f"but got {leaf.dtype}"
                )
        with changed(grad=False), packaged(self.kernels):
            found = self.run([*self.state, *leaves])
        return pytree.tree_unflatten(list(found), self.out_spec)

    # -- what it holds -----------------------------------------------------------------------------

    def named_state(self) -> dict[str, Tensor]:
        """The program's parameters, buffers and constants by their names; calls write to them."""
        names = [entry["name"] for entry in self.manifest["state"]]
        return {name: value for name, value in zip(names, self.state) if name is not None}

    def load_constants(
        self,
        constants_map: dict[str, Tensor],
        *,
        check_full_update: bool = False,
        user_managed: bool = False,
    ) -> None:
        """Give parameters and buffers new values; `user_managed` makes the given tensors theirs."""
        known = self.named_state()
        unknown = sorted(set(constants_map) - set(known))
        missing = sorted(set(known) - set(constants_map)) if check_full_update else []
        if unknown or missing:
            raise ValueError(
                f"load_constants() got names the package does not have: {unknown}; "
                f"and lacks: {missing}. get_constant_fqns() lists the names."
            )
        for name, value in constants_map.items():
            held = known[name]
            if value.shape != held.shape or value.dtype is not held.dtype:
                raise ValueError(
                    f"load_constants() got {value.dtype} of sizes {tuple(value.shape)} for {name!r}"
                    f", which is {held.dtype} of sizes {tuple(held.shape)}"
                )
            if user_managed:
                at = [entry["name"] for entry in self.manifest["state"]].index(name)
                self.state[at] = value.detach()
            else:
                held.copy_(value.detach())

    def get_constant_fqns(self) -> list[str]:
        return list(self.named_state())

    def get_metadata(self) -> dict[str, str]:
        """Which code was chosen."""
        return {
            "AOTI_DEVICE_KEY": "cpu",
            "target": self.target["name"],
            "features": ",".join(self.target["features"]),
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> LoadedPackage:
        made = copy.copy(self)
        made.state = [value.clone() for value in self.state]
        return made

    # -- code --------------------------------------------------------------------------------------

    def function(self, number: int) -> Callable[[list[Any]], Any]:
        """The function of one unit, of a list of inputs that it empties."""
        unit = self.manifest["units"][number]
        scope = dict(RUN_NAMES)
        reader = Reader(self.graph)
        scope.update({name: reader.value(data) for name, data in unit["scope"].items()})
        facts = self.target["images"][number]
        if facts is not None:
            scope.update(linked(self.files.content(facts["file"]), facts, unit["entries"]))
        exec(compile(unit["source"], "<rushlight package>", "exec"), scope)
        run: Callable[[list[Any]], Any] = scope["run_boxed"]
        return run

    def graph(self, number: int) -> Callable[..., Any]:
        """A graph within the graph, as the operator that takes it calls it."""
        run = self.function(number)
        return lambda *inputs: run(list(inputs))


def one_by_one(run: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    lock = threading.Lock()

    def locked(given: list[Any]) -> Any:
        with lock:
            return run(given)

    return locked


def linked(image: Any, facts: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """The entry points of an image, as functions of arrays and integers."""
    code = placed(image, facts)
    fast = entries.reads_arrays()
    found = {}
    for name in names:
        offset = facts["entries"][f"{FAST}{name}" if fast else name]
        if not 0 <= offset < code.size:
            raise refuse("an entry point of its code lies outside")
        address = code.address + offset
        made = entries.builtin(name, address, code) if fast else entries.plain(address, code)
        found[name] = made
    return found


def read_state(described: list[dict[str, Any]], weights: Any) -> list[Tensor]:
    """The tensors of a package, over memory of their own; those of one storage share it."""
    storages: dict[tuple[int, int], Storage] = {}
    found = []
    for entry in described:
        if entry["name"] is None:
            found.append(wrap(np.zeros(0, np.float32), dtypes.float32))
            continue
        start, size = entry["place"]
        if not 0 <= start <= start + size <= len(weights):
            raise refuse(f"the bytes of {entry['name']!r} lie outside of its weights")
        key = (start, size)
        if key not in storages:
            storages[key] = Storage(weights[start : start + size])
        stored = TypedStorage.over(storages[key], dtypes.BY_NAME[entry["dtype"]])
        geometry = entry["offset"], tuple(entry["shape"]), tuple(entry["strides"])
        found.append(tensor_over(stored, *geometry))
    return found
