"""`trace`, `trace_module` and what belongs to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.base.garbage import Undisturbed
from rushlight.core.state import LOCAL, active_tracer
from rushlight.core.tensor import Tensor
from rushlight.jit.naming import qualified_name
from rushlight.jit.objects.functions import ScriptFunction
from rushlight.jit.objects.modules import ScriptModule, TopLevelTracedModule
from rushlight.jit.tracing.checker import check_trace as run_checks
from rushlight.jit.tracing.modules import instance_of, make_module, submodule_paths
from rushlight.jit.tracing.run import Example, argument_names, run_trace
from rushlight.jit.tracing.schemas import default_schema
from rushlight.jit.unit import PYTHON_UNIT, CompilationUnit, Function
from rushlight.nn.module import Module

ALREADY = (
    "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as "
    "is."
)
OPTIMIZE = (
    "`optimize` is deprecated and has no effect. Use `with torch.jit.optimized_execution()` instead"
)


def trace(
    func: Any,
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: CompilationUnit = PYTHON_UNIT,
    example_kwarg_inputs: Any = None,
    _store_inputs: bool = True,
) -> Any:
    """A compiled function or module: what `func` does with example inputs, as a graph.

    >>> import rushlight as torch
    >>> double = torch.jit.trace(lambda x: x * 2, torch.ones(3))
    >>> double(torch.ones(2, 2))
    tensor([[2., 2.],
            [2., 2.]])
    """
    from rushlight.jit.switches import is_enabled

    if not is_enabled():
        return func
    if optimize is not None:
        warnings.warn(OPTIMIZE, FutureWarning, stacklevel=2)
    if isinstance(func, ScriptModule):
        warnings.warn(ALREADY, stacklevel=2)
        return func
    owner = getattr(func, "__self__", None)
    target = func if isinstance(func, Module) else owner
    if isinstance(target, Module):
        if target is owner and func.__name__ != "forward":
            raise AttributeError(
                "trace doesn't support compiling individual module's functions.\n"
                "Please use trace_module"
            )
        if example_inputs is None:
            if not isinstance(example_kwarg_inputs, dict):
                raise RuntimeError("example_kwarg_inputs should be a dict")
            given: Any = example_kwarg_inputs
        else:
            given = example_inputs
        return trace_module(
            target,
            {"forward": given},
            None,
            check_trace,
            wrap_check_inputs(check_inputs),
            check_tolerance,
            strict,
            _force_outplace,
            _module_class,
            _compilation_unit,
            example_inputs_is_kwarg=example_inputs is None,
            _store_inputs=_store_inputs,
        )
    return trace_function(
        func,
        example_inputs,
        example_kwarg_inputs,
        check_inputs if check_trace else NO_CHECKS,
        check_tolerance,
        strict,
        _force_outplace,
        _compilation_unit,
    )


# Stands for "the trace is not to be checked".
NO_CHECKS = object()


def wrap_check_inputs(check_inputs: Any) -> Any:
    return None if check_inputs is None else [{"forward": entry} for entry in check_inputs]


def trace_function(
    func: Callable[..., Any],
    example_inputs: Any,
    keywords: Any,
    check_inputs: Any,
    tolerance: float,
    strict: bool,
    force_outplace: bool,
    unit: CompilationUnit,
) -> ScriptFunction:
    names = [] if isinstance(func, ScriptFunction) else argument_names(func)
    if keywords is not None:
        example = Example((), keywords, names)
    else:
        example = Example(as_arguments(example_inputs), None, names)
    name = qualified_name(func)
    graph, _ = run_trace(func, example, strict, force_outplace)
    name = unit.claim(name)
    short = name.rpartition(".")[2]
    function = Function(name, graph, default_schema(short, graph))
    unit.add_function(function)
    traced = ScriptFunction(function)
    if check_inputs is not NO_CHECKS:
        examples = [example]
        if check_inputs is not None:
            examples = [Example(as_arguments(each), None, names) for each in check_inputs]
        run_checks(examples, func, traced, tolerance, strict, force_outplace)
    wrapped = getattr(func, "__module__", None), getattr(func, "__doc__", None)
    traced.__dict__.update(_torchdynamo_inline=func, __module__=wrapped[0], __doc__=wrapped[1])
    traced.__dict__["__wrapped__"] = func
    return traced


def as_arguments(given: Any) -> tuple[Any, ...]:
    """The positional arguments that example inputs stand for."""
    if isinstance(given, Tensor | dict):
        return (given,)
    return given if isinstance(given, tuple) else tuple(given)


def trace_module(
    mod: Any,
    inputs: Any,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: CompilationUnit = PYTHON_UNIT,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """A compiled module whose methods do what those of `mod` do with example inputs."""
    from rushlight.jit.switches import is_enabled

    if not is_enabled():
        return mod
    if optimize is not None:
        warnings.warn(OPTIMIZE, FutureWarning, stacklevel=2)
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    if LOCAL.state.tracer is not None:
        raise RuntimeError("Tracing can't be nested")
    with Undisturbed():
        traced = make_module(mod, _module_class or TopLevelTracedModule, _compilation_unit)
    paths = submodule_paths(mod)
    for method, given in inputs.items():
        function, names = method_of(mod, method)
        example = method_example(mod, given, names, example_inputs_is_kwarg)
        add_method(
            traced, method, function, example, strict, _force_outplace, _compilation_unit, paths
        )
        if _store_inputs:
            store_inputs(traced, method, example)
        if check_trace:
            examples = [example]
            if check_inputs is not None:
                examples = [
                    method_example(mod, each[method], names, example_inputs_is_kwarg)
                    for each in check_inputs
                ]
            run_checks(
                examples, function, getattr(traced, method), check_tolerance, strict,
                _force_outplace, mod, method,
            )  # fmt: skip
    return traced


def method_of(module: Module, name: str) -> tuple[Callable[..., Any], list[str]]:
    """What is traced for a method's name, and the names of its arguments."""
    method = getattr(module, name)
    return (module if name == "forward" else method), argument_names(method)


def method_example(module: Module, given: Any, names: list[str], is_keywords: bool) -> Example:
    if not is_keywords:
        return Example(as_arguments(given), None, names)
    for key in given:
        if key not in names:
            raise NameError(
                f"'{key}' is not in forward() method's arguments,\n{' ' * 25}valid arguments name "
                f"are [{','.join(names)}]"
            )
    return Example((), given, names)


def add_method(
    traced: Any,
    name: str,
    function: Callable[..., Any],
    example: Example,
    strict: bool,
    force_outplace: bool,
    unit: CompilationUnit,
    paths: Mapping[Any, str],
) -> None:
    instance = instance_of(traced)
    graph, _ = run_trace(function, example, strict, force_outplace, instance, unit, paths)
    made = Function(f"{instance.type.dotted}.{name}", graph, default_schema(name, graph))
    unit.add_function(made)
    instance.type.methods[name] = made


def store_inputs(traced: Any, name: str, example: Example) -> None:
    """The example inputs of a method, which an archive keeps."""
    traced._c.traced_inputs[name] = example.values


def _get_trace_graph(
    f: Any,
    args: Any = (),
    kwargs: Any = None,
    strict: bool = True,
    _force_outplace: bool = False,
    return_inputs: bool = False,
    _return_inputs_states: bool = False,
) -> Any:
    """The bare graph of a call: inputs taken apart, then the module's tensors, all as inputs."""
    args = args if isinstance(args, tuple) else (args,)
    return LegacyTrace(f, strict, _force_outplace, return_inputs).run(args, kwargs or {})


class LegacyTrace:
    """One run of `_get_trace_graph`."""

    def __init__(
        self, target: Any, strict: bool, force_outplace: bool, return_inputs: bool
    ) -> None:
        self.target = target
        self.strict = strict
        self.force_outplace = force_outplace
        self.return_inputs = return_inputs

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        flat: list[Tensor] = []
        rebuild = flatten(args, flat)
        state = unique_tensors(self.target) if isinstance(self.target, Module) else []
        kept = [clone_of(tensor) for tensor in flat]
        outputs: list[Any] = []

        def call(*tensors: Tensor) -> Any:
            given = rebuild(iter(tensors[: len(flat)]))
            result = self.target(*given, **kwargs)
            outputs.append(result)
            found: list[Tensor] = []
            flatten(result if isinstance(result, tuple) else (result,), found)
            return found[0] if len(found) == 1 else tuple(found)

        example = Example((*flat, *state))
        graph, _ = run_trace(call, example, self.strict, self.force_outplace)
        if self.return_inputs:
            return graph, outputs[0], tuple([*kept, *state])
        return graph, outputs[0]


def flatten(value: Any, found: list[Tensor]) -> Callable[[Any], Any]:
    """Collects the tensors of nested tuples, lists and dicts; gives what puts them together."""
    if isinstance(value, Tensor):
        found.append(value)
        return next
    if isinstance(value, tuple | list):
        parts = [flatten(item, found) for item in value]
        kind = type(value)
        return lambda tensors: kind([part(tensors) for part in parts])
    if isinstance(value, dict):
        entries = {key: flatten(item, found) for key, item in value.items()}
        return lambda tensors: {key: part(tensors) for key, part in entries.items()}
    if value is None or isinstance(value, str):
        return lambda tensors: value
    raise RuntimeError(
        "Only tuples, lists and Variables are supported as JIT inputs/outputs. Dictionaries and "
        "strings are also accepted, but their usage is not recommended. Here, received an input "
        f"of unsupported type: {type(value).__name__}"
    )


def unique_tensors(module: Module) -> list[Tensor]:
    """Parameters and buffers of a module, each once."""
    seen: dict[int, Tensor] = {}
    for value in module.state_dict(keep_vars=True).values():
        if isinstance(value, Tensor):
            seen.setdefault(id(value), value)
    return list(seen.values())


def clone_of(tensor: Tensor) -> Tensor:
    from rushlight.jit.tracing.checker import clone_inputs

    (clone,) = clone_inputs((tensor,))
    return clone  # type: ignore[no-any-return]


def is_tracing() -> bool:
    """Whether the code that asks is being traced."""
    return active_tracer() is not None


def _unique_state_dict(module: Any, keep_vars: bool = False) -> dict[str, Any]:
    """The state of a module, each tensor under its first name."""
    seen: set[int] = set()
    found: dict[str, Any] = {}
    for name, value in module.state_dict(keep_vars=True).items():
        if id(value) not in seen:
            seen.add(id(value))
            found[name] = value if keep_vars else value.detach()
    return found
