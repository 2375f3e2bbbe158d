"""`functional_call`: a module's forward with other parameters and buffers in their place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]

# Stands for a name that a module does not have.
MISSING: Any = object()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: dict[str, Any] | Sequence[dict[str, Any]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with the given tensors instead of its parameters and buffers.

    With `tie_weights`, a tensor that the module has under several names is replaced under all of
    them. With `strict`, every parameter and buffer must be given and nothing else. What the module
    puts in place of a given tensor is found in the dict afterwards, if it was given in one dict.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(1, 1, bias=False)
    >>> functional_call(layer, {"weight": torch.tensor([[2.0]])}, torch.tensor([3.0]))
    tensor([6.])
    """
    given = merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with replaced(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dicts
    if not isinstance(dicts, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(entry, dict) for entry in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    found: dict[str, Any] = {}
    repeated: list[str] = []
    for entry in dicts:
        repeated += [key for key in entry if key in found and key not in repeated]
        found.update(entry)
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return found


def all_tensors(module: Any) -> dict[str, Any]:
    """Full name -> parameter or buffer; shared ones under all of their names. A module inside of
    itself is not entered again."""
    parameters: dict[str, Any] = {}
    buffers: dict[str, Any] = {}

    def visit(owner: Any, prefix: str, outer: tuple[Any, ...]) -> None:
        for found, table in ((parameters, owner._parameters), (buffers, owner._buffers)):
            found.update({prefix + name: t for name, t in table.items() if t is not None})
        outer = (*outer, owner)
        for name, child in owner._modules.items():
            if child is not None and not any(child is known for known in outer):
                visit(child, f"{prefix}{name}.", outer)

    visit(module, "", ())
    return {**parameters, **buffers}


@contextmanager
def replaced(
    module: Any, given: dict[str, Any], tie_weights: bool = False, strict: bool = False
) -> Iterator[None]:
    """Inside, the module has the given tensors; they are taken back out at the end. What the module
    put in their place goes into `given`."""
    known = all_tensors(module) if tie_weights or strict else {}
    placed = tied(known, given) if tie_weights else given
    if strict:
        check_names(module, known, placed)
    owners = Owners(module)
    before: dict[str, Any] = {}
    try:
        for name, value in placed.items():
            before[name] = owners.swap(name, value)
        yield
    finally:
        # The last first: names of one place were given their tensors one after another.
        after = {name: owners.swap(name, value) for name, value in reversed(before.items())}
        for name, value in after.items():
            if name in given and value is not MISSING:
                given[name] = value


def check_names(module: Any, known: dict[str, Any], given: dict[str, Any]) -> None:
    unexpected = sorted([name for name in given if name not in known])
    missing = sorted([name for name in known if name not in given])
    parts = []
    if unexpected:
        parts.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        parts.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if parts:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts)
        )


class Owners:
    """The submodules that hold the tensors of a module, by the names' prefixes."""

    def __init__(self, module: Any) -> None:
        self.modules = {"": module}

    def owner(self, path: str) -> Any:
        found = self.modules.get(path)
        if found is None:
            outer, _, name = path.rpartition(".")
            parent = self.owner(outer)
            found = getattr(parent, name, MISSING)
            if found is MISSING:
                raise AttributeError(f"{type(parent).__name__} has no attribute `{name}`")
            if not hasattr(found, "_parameters"):
                raise TypeError(f"submodule `{path}`: {found} is not an instance of nn.Module")
            self.modules[path] = found
        return found

    def swap(self, path: str, value: Any) -> Any:
        """Put `value` under a name and return what was there. A name that no parameter or buffer
        has is an attribute's; MISSING takes it away."""
        prefix, _, name = path.rpartition(".")
        module = self.owner(prefix)
        check_entry(value)
        if not name:
            raise KeyError('tensor name can\'t be empty string ""')
        for table in (module._parameters, module._buffers):
            if name in table:
                before = table[name]
                if value is MISSING:
                    del table[name]
                else:
                    table[name] = value
                return before
        before = getattr(module, name, MISSING)
        check_entry(before, f"attribute `{name}`: ")
        if value is not MISSING:
            setattr(module, name, value)
        elif before is not MISSING:
            delattr(module, name)
        return before


def check_entry(value: Any, where: str = "") -> None:
    if value is not MISSING and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{where}{value} is not an instance of torch.Tensor")


def tied(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors under every name that the module has for what they replace."""
    names: dict[int, list[str]] = {}
    for name, tensor in known.items():
        names.setdefault(id(tensor), []).append(name)
    found = dict(given)
    for group in names.values():
        named = [name for name in group if name in given]
        values = [given[name] for name in named]
        if not values:
            continue
        if any(value is not values[0] for value in values[1:]):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(named)}, which are tied. "
                "Consider using tie_weights=False"
            )
        for name in group:
            found[name] = values[0]
    return found


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one class, stacked for `vmap` over an ensemble.

    >>> import rushlight as torch
    >>> parameters, buffers = stack_module_state([torch.nn.Linear(2, 3) for _ in range(5)])
    >>> {name: tuple(value.shape) for name, value in parameters.items()}
    {'weight': (5, 3, 2), 'bias': (5, 3)}
    """
    models = checked_ensemble(models, "stack_module_state")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: stacked_leaf([state[name] for state in parameters], name) for name in parameters[0]},
        {name: stacked_leaf([state[name] for state in buffers], name) for name in buffers[0]},
    )


def checked_ensemble(given: Any, name: str) -> list[Any]:
    models: list[Any] = list(given)
    if not models:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")
    return models


def stacked_leaf(tensors: list[Any], name: str) -> Any:
    """A new leaf that holds all tensors along a new first dim."""
    if any(tensor.requires_grad != tensors[0].requires_grad for tensor in tensors):
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    made = functions.stack([tensor.detach() for tensor in tensors])
    return made.requires_grad_(tensors[0].requires_grad)


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make every batch norm of a module use the statistics of its batch, and keep none: running
    statistics are writes, which `vmap` over samples cannot do.

    >>> import rushlight as torch
    >>> layer = torch.nn.BatchNorm1d(2)
    >>> torch.func.replace_all_batch_norm_modules_(layer).running_mean is None
    True
    """
    for module in root.modules():
        forget = getattr(module, "_forget_running_stats", None)
        if forget is not None:
            forget()
    return root
