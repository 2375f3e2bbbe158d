"""`torch.compile`: functions and modules whose graphs a backend compiles.

Nothing happens before the first call. All compiled code is dropped by `reset`.
"""

from __future__ import annotations

import copy
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

from rushlight.base import logs
from rushlight.base.counters import counters
from rushlight.base.errors import error
from rushlight.base.pytree import tree_leaves
from rushlight.capture import marks, modules
from rushlight.capture.cache import Capture, GuardFail, Options, forget_counts
from rushlight.capture.exc import BackendCompilerFailed, TorchDynamoException
from rushlight.capture.function import graph_module
from rushlight.capture.recording import Recording
from rushlight.capture.sources import Id
from rushlight.capture.stances import CURRENT
from rushlight.capture.torchworld import TorchWorld
from rushlight.compiler import config, is_compiling, is_dynamo_compiling
from rushlight.compiler.backends import get_default_backend, lookup_backend
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module, call_plainly
from rushlight.opset import functions
from rushlight.opset.creation.random import get_rng_state, set_rng_state

__all__ = ["ExplainOutput", "OptimizedModule", "compile", "explain", "optimize", "reset"]

# In captured code these say yes.
marks.COMPILING.update((is_compiling, is_dynamo_compiling))
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# By what was asked for. What is compiled keeps its capture, and so do functions that were compiled
# by it; nothing else does, since code knows of the classes that it was made for.
SHARED: weakref.WeakValueDictionary[Any, Capture] = weakref.WeakValueDictionary()
KEPT: weakref.WeakKeyDictionary[Any, dict[Any, Capture]] = weakref.WeakKeyDictionary()
CAPTURES: weakref.WeakSet[Capture] = weakref.WeakSet()


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function or a module at its first call, once per kind of arguments.

    `fullgraph` makes a graph break an error. `dynamic`: None makes sizes symbols at the second
    value, True from the start, False never. `backend` is a name or a function of a GraphModule and
    example inputs, by default "inductor". A function gets `mode` and `options` as they are; ours
    knows torch's modes, which all mean the same to it, and no options.

    >>> import rushlight as torch
    >>> @torch.compile(backend="eager")
    ... def double(x):
    ...     return x * 2
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    tuning = {"mode": mode, "options": options}
    tuning = {name: value for name, value in tuning.items() if value and value != "default"}
    if tuning and callable(backend):
        backend = functools.partial(backend, **tuning)
    elif mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    elif options and backend in (None, "inductor"):
        raise RuntimeError(
            f"Unexpected optimization option {next(iter(options))}, known options are []"
        )
    make = functools.partial(
        compiled, fullgraph=fullgraph, dynamic=dynamic, backend=backend, is_disabled=disable
    )
    return make if model is None else make(model)


def optimize(
    backend: Any = "inductor",
    *,
    nopython: bool = False,
    guard_fail_fn: Callable[[GuardFail], Any] | None = None,
    dynamic: bool | None = None,
    disable: bool = False,
) -> Callable[[Any], Any]:
    """torch's older entry: what it returns is applied to a function or a module. `guard_fail_fn` is
    told why what was compiled does not fit, each time that a function is compiled again."""
    return functools.partial(
        compiled,
        fullgraph=nopython,
        dynamic=dynamic,
        backend=backend,
        is_disabled=disable,
        on_miss=guard_fail_fn,
    )


def optimize_assert(backend: Any, **options: Any) -> Callable[[Any], Any]:
    """As `optimize`, and a break is an error."""
    return optimize(backend, nopython=True, **options)


def compiled(
    model: Any,
    *,
    fullgraph: bool,
    dynamic: bool | None,
    backend: Any,
    is_disabled: bool,
    on_miss: Callable[[GuardFail], Any] | None = None,
) -> Any:
    if not callable(model):
        raise RuntimeError(f"torch.compile expects a callable, not {type(model).__name__}")
    if is_disabled or config.disable:
        return model
    if on_miss is None:
        capture = shared_capture(model, backend, fullgraph, dynamic)
    else:
        options = Options(fullgraph=fullgraph, dynamic=dynamic)
        options.on_miss = on_miss
        capture = make_capture(backend, options)
    if isinstance(model, Module):
        return OptimizedModule(model, capture, (backend, fullgraph, dynamic))
    return entry(model, capture)


def shared_capture(model: Any, backend: Any, fullgraph: bool, dynamic: bool | None) -> Capture:
    """One capture for all that is compiled alike: a function that is compiled twice has its code
    once, and so have the modules of one class."""
    run = lookup_backend(get_default_backend() if backend is None else backend)
    key = (Id(run), fullgraph, dynamic)
    capture = SHARED.get(key)
    if capture is None:
        capture = SHARED[key] = make_capture(run, Options(fullgraph=fullgraph, dynamic=dynamic))
    if isinstance(model, types.FunctionType):
        KEPT.setdefault(model, {})[key] = capture
    return capture


def make_capture(backend: Any, options: Options) -> Capture:
    run = lookup_backend(get_default_backend() if backend is None else backend)

    def compile_recording(recording: Recording, inputs: list[Any]) -> Callable[..., Any]:
        module = graph_module(recording)
        logs.write("graph_code", module.code.strip())
        backend_now = run if CURRENT.backend is None else lookup_backend(CURRENT.backend)
        # A backend may write to what it gets.
        checked = copy.deepcopy(module) if config.verify_correctness else None
        try:
            made = backend_now(module, inputs)
            if not callable(made):
                raise TypeError(f"a backend returns a callable, not {type(made).__name__}")
        except TorchDynamoException:
            raise
        except Exception as failure:
            if config.suppress_errors:
                counters["stats"]["graphs whose backend failed"] += 1
                forward: Callable[..., Any] = module.forward
                return forward
            raise BackendCompilerFailed(backend_now, failure) from failure
        if checked is not None:
            verify(backend_now, checked, made, inputs)
        counters["stats"]["calls_captured"] += len(recording.calls())
        return made

    options.limit = config.limit
    options.starts_dynamic = lambda: not config.assume_static_by_default
    options.learns = lambda: config.automatic_dynamic_shapes
    options.total = config.total
    options.fails_at_limit = config.fails_at_limit
    options.fails_again = lambda: config.error_on_recompile
    options.keeps_floats = lambda: config.specialize_float
    options.keeps_numbers = lambda: config.specialize_int
    options.captures_numbers = lambda: config.capture_scalar_outputs
    options.captures_sizes = lambda: config.capture_dynamic_output_shape_ops
    capture = Capture(TorchWorld, compile_recording, options)
    CAPTURES.add(capture)
    return capture


def verify(backend: Any, module: Any, made: Callable[..., Any], inputs: list[Any]) -> None:
    """Compare what a backend made with the graph itself, on copies of the inputs."""

    def copied(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    def alike(a: Any, b: Any) -> bool:
        if not isinstance(a, Tensor):
            return bool(a == b)
        is_known = (a.shape, a.dtype) == (b.shape, b.dtype)
        return is_known and bool(functions.allclose(a, b, 1e-4, 1e-4, equal_nan=True))

    before = get_rng_state()
    expected = tree_leaves(module.forward(*map(copied, inputs)))
    set_rng_state(before)
    found = tree_leaves(made(*map(copied, inputs)))
    set_rng_state(before)
    if len(found) != len(expected) or not all(map(alike, expected, found)):
        name = getattr(backend, "__name__", type(backend).__name__)
        raise error("RL0823", RuntimeError, backend=name)


def entry(fn: Any, capture: Capture) -> Any:
    """The compiled form of a callable that is no module."""
    if isinstance(fn, types.MethodType):
        return types.MethodType(entry(fn.__func__, capture), fn.__self__)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(entry(fn.__func__, capture))
    if marks.is_disabled(fn):
        return fn
    original = fn
    is_own = fn is call_module or fn is call_plainly
    if not isinstance(fn, types.FunctionType) or (capture.world.is_library(fn) and not is_own):

        def fn(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **kwargs)

    made = capture.function(fn)
    functools.update_wrapper(made, original, updated=())
    made._torchdynamo_orig_callable = original
    return made


class OptimizedModule(Module):
    """A module whose calls are compiled. It shares everything with `_orig_mod`."""

    _orig_mod: Any

    def __init__(self, module: Module, capture: Capture, asked: tuple[Any, ...] = ()) -> None:
        super().__init__()
        fields = self.__dict__
        # What `compiled` was asked for, for copies.
        fields["_asked"] = asked
        # What is not here is the module's.
        for name in [name for name in fields if not name.startswith("_")]:
            del fields[name]
        fields["_modules"]["_orig_mod"] = module
        fields["_call_whole"] = capture.function(call_module)
        # Without hooks the class's own forward is the frame, as where forward itself is called.
        fields["_plain_forward"] = fields["_call_plainly"] = None
        if modules.has_plain_forward(module):
            function: Any = type(module).forward
            fields["_plain_forward"] = function
            fields["_call_plainly"] = capture.function(function)
        fields["_is_made"] = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        fields = self.__dict__
        module = fields["_modules"]["_orig_mod"]
        if (
            type(module).forward is not fields["_plain_forward"]
            or "forward" in module.__dict__
            or not modules.is_called_plainly(module)
        ):
            return fields["_call_whole"](module, *args, **kwargs)
        if kwargs or len(args) != 1:
            return fields["_call_plainly"](module, *args, **kwargs)
        # Nothing to pack and unpack: the call that is made most.
        return fields["_call_plainly"](module, args[0])

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_is_made" not in self.__dict__:
            object.__setattr__(self, name, value)
            return
        setattr(self.__dict__["_modules"]["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_modules"]["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce_ex__(self, protocol: Any) -> Any:
        return compiled_again, (self._orig_mod, *self.__dict__["_asked"])


def compiled_again(
    module: Any, backend: Any = None, fullgraph: bool = False, dynamic: Any = None
) -> Any:
    """A copy of a compiled module: it shares no compiled code that is not there already."""
    return compiled(
        module, fullgraph=fullgraph, dynamic=dynamic, backend=backend, is_disabled=False
    )


def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
    return self(*args, **kwargs)


def reset() -> None:
    """Drop all compiled code."""
    forget_counts()
    SHARED.clear()
    KEPT.clear()
    for capture in list(CAPTURES):
        capture.reset()


def is_dynamo_supported() -> bool:
    """Whether functions can be compiled here."""
    return True


class ExplainOutput:
    """What compiling one call came to."""

    def __init__(self, capture: Capture, graphs: list[Any]) -> None:
        self.graphs = graphs
        self.graph_count = len(graphs)
        self.break_reasons = list(capture.breaks)
        # The file and line of each.
        self.break_places = list(capture.break_places)
        self.graph_break_count = len(capture.breaks)
        self.ops_per_graph = [
            [node.target for node in gm.graph.nodes if node.op.startswith("call")] for gm in graphs
        ]
        self.op_count = sum(map(len, self.ops_per_graph))

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
            *(f"  {n}: {reason}" for n, reason in enumerate(self.break_reasons, 1)),
        ]
        return "\n".join(lines)


def explain(f: Any) -> Callable[..., ExplainOutput]:
    """Call the result with arguments to see graphs and graph breaks."""

    def run(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[Any] = []

        def keep(gm: Any, example_inputs: Any) -> Any:
            graphs.append(gm)
            return gm.forward

        capture = make_capture(keep, Options())
        made = OptimizedModule(f, capture) if isinstance(f, Module) else entry(f, capture)
        made(*args, **kwargs)
        return ExplainOutput(capture, graphs)

    return run
