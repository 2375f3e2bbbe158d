"""`functional_call`: a module's forward with other parameters and buffers in their place."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = ["functional_call", "stack_module_state"]

# What a module has under a name that only the given tensors have.
ABSENT = object()


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
    them. With `strict`, every parameter and buffer must be given.

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
    dicts = parameter_and_buffer_dicts
    sources = [dicts] if isinstance(dicts, dict) else list(dicts)
    with replaced(module, given, tie_weights, strict, sources):
        return module(*args, **(kwargs or {}))


def merged(dicts: Any) -> dict[str, Any]:
    if isinstance(dicts, dict):
        return dict(dicts)
    if not isinstance(dicts, (list, tuple)):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    if not all(isinstance(entry, dict) for entry in dicts):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    found: dict[str, Any] = {}
    for entry in dicts:
        repeated = [key for key in entry if key in found]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
                "ambiguous"
            )
        found.update(entry)
    return found


def places(module: Any) -> dict[str, tuple[dict[str, Any], str]]:
    """Full name -> the dict that holds the tensor, and its name there; shared ones repeatedly."""
    found = {}

    def walk(owner: Any, prefix: str, above: tuple[Any, ...]) -> None:
        for table in (owner._parameters, owner._buffers):
            for name, value in table.items():
                if value is not None:
                    found[prefix + name] = (table, name)
        for name, child in owner._modules.items():
            # Modules may hold each other: a name that goes in circles is found where it is given.
            if child is not None and not any([child is module for module in above]):
                walk(child, f"{prefix}{name}.", (*above, child))

    walk(module, "", (module,))
    return found


def other_place(module: Any, name: str) -> tuple[dict[str, Any], str]:
    """Where a tensor goes that is no parameter or buffer: a name without one, an attribute."""
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    *path, key = name.split(".")
    owner = module
    for part in path:
        if owner._modules.get(part) is None:
            raise AttributeError(f"{type(owner).__name__} has no attribute `{part}`")
        owner = owner._modules[part]
    for table in (owner._parameters, owner._buffers):
        if key in table:
            return table, key
    value = getattr(owner, key, ABSENT)
    if value is not ABSENT and not isinstance(value, Tensor):
        raise TypeError(f"attribute `{name}`: {value} is not an instance of torch.Tensor")
    return owner.__dict__, key


@contextmanager
def replaced(
    module: Any, given: dict[str, Any], tie_weights: bool, strict: bool, sources: Any = ()
) -> Any:
    """Inside, the module has the given tensors; they are taken back out at the end. What the module
    put in their place goes into the `sources` that they came from."""
    known = places(module)
    unexpected = [name for name in given if name not in known]
    missing = [name for name in known if name not in given]
    if tie_weights:
        given = tied(known, given)
        missing = [name for name in known if name not in given]
    if strict and (unexpected or missing):
        parts = []
        if unexpected:
            parts.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
        if missing:
            parts.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(parts)
        )
    for value in given.values():
        if not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor")
    known |= {name: other_place(module, name) for name in unexpected}
    before = {name: known[name][0].get(known[name][1], ABSENT) for name in given}
    try:
        for name, value in given.items():
            table, key = known[name]
            table[key] = value
        yield
    finally:
        for name, value in before.items():
            table, key = known[name]
            if table[key] is not given[name]:
                for source in sources:
                    if name in source:
                        source[name] = table[key]
            if value is ABSENT:
                del table[key]
            else:
                table[key] = value


def tied(known: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The given tensors under every name that the module has for what they replace."""
    names: dict[int, list[str]] = {}
    for name, (table, key) in known.items():
        names.setdefault(id(table[key]), []).append(name)
    found = dict(given)
    for group in names.values():
        values = [given[name] for name in group if name in given]
        if not values:
            continue
        if any(value is not values[0] for value in values[1:]):
            raise ValueError(
                "functional_call got multiple values for keys "
                f"{sorted(name for name in group if name in given)}, which are tied. Consider "
                "using tie_weights=False"
            )
        for name in group:
            found[name] = values[0]
    return found


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parameters and buffers of models of one kind, stacked for `vmap` over an ensemble."""
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to be of the same class, got "
            f"{[type(model).__name__ for model in models]}"
        )
    if any(model.training != models[0].training for model in models):
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    parameters = {
        name: stacked_leaf([dict(model.named_parameters())[name] for model in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: stacked_leaf([dict(model.named_buffers())[name] for model in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def stacked_leaf(tensors: list[Any]) -> Any:
    """A new leaf that holds all tensors along a new first dim."""
    made = functions.stack([tensor.detach() for tensor in tensors])
    return made.requires_grad_(tensors[0].requires_grad)
