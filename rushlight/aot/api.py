"""`aot_function` and its kin: compile ahead of time, with any compiler of graphs.

The first call compiles; later calls reuse that result without guards, whatever their shapes.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.aot import config
from rushlight.aot.binding import ModuleState
from rushlight.aot.compilation import (
    FlatFunction,
    Options,
    Traced,
    compile_flat,
    compile_traced,
    get_aot_compilation_context,
    trace_flat,
)
from rushlight.aot.export import GraphSignature, aot_export_joint_simple, aot_export_module
from rushlight.aot.joint import Decompositions
from rushlight.aot.partition import default_partition
from rushlight.aot.quick import quick_call
from rushlight.base import pytree
from rushlight.base.pytree import TreeSpec
from rushlight.func.stateless import functional_call
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.graph.node import Args, Kwargs
from rushlight.nn.module import Module
from rushlight.symbolic.numbers import SymNumber

__all__ = [
    "AOT_COUNTER",
    "GraphSignature",
    "aot_export_joint_simple",
    "aot_export_module",
    "aot_function",
    "aot_module",
    "aot_module_simplified",
    "compiled_function",
    "compiled_module",
    "get_aot_compilation_context",
]

# The number of each set of graphs, in the names that compilers are told.
AOT_COUNTER = itertools.count()


def aot_function(
    fn: Callable[..., Any],
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Decompositions | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
) -> Callable[..., Any]:
    """`fn`, compiled at its first call: forward and backward graphs go to the given compilers.

    >>> import rushlight as torch
    >>> from rushlight.aot.compilers import nop
    >>> def show(graph, inputs):
    ...     print(graph.code.strip())
    ...     return graph
    >>> f = aot_function(lambda x: x.sin() * 2, fw_compiler=show, bw_compiler=nop)
    >>> x = torch.zeros(2, requires_grad=True)
    >>> f(x).sum().backward()
    def forward(self, primals_1):
        sin = torch.ops.aten.sin.default(primals_1)
        mul = torch.ops.aten.mul.Tensor(sin, 2);  sin = None
        return [mul, primals_1]
    >>> x.grad
    tensor([2., 2.])
    """
    compiled = CompiledOnce(
        make_options(
            fw_compiler,
            bw_compiler,
            partition_fn,
            decompositions,
            num_params_buffers,
            keep_inference_input_mutations,
            inference_compiler,
            dynamic=dynamic,
        )
    )

    @functools.wraps(fn)
    def returned_function(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        return compiled(leaves, lambda: FlatFunction(fn, structure))

    return returned_function


def make_options(
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Decompositions | None = None,
    num_params_buffers: int = 0,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    *,
    dynamic: bool = False,
    enable_log: bool = True,
) -> Options:
    """The arguments of `aot_function` after the first."""
    return Options(
        fw_compiler=fw_compiler,
        bw_compiler=bw_compiler or fw_compiler,
        inference_compiler=inference_compiler or fw_compiler,
        partition_fn=partition_fn,
        decompositions=decompositions or {},
        parameters=num_params_buffers,
        keep_writes=keep_inference_input_mutations,
        dynamic=dynamic,
    )


class CompiledOnce:
    """A function of flat arguments that the first call compiles; other threads wait for it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.lock = threading.RLock()
        # (the compiled function, the structure of its results)
        self.found: tuple[Callable[[list[Any]], list[Any]], FlatFunction] | None = None

    def __call__(self, leaves: list[Any], make: Callable[[], FlatFunction]) -> Any:
        """Call it with a list that it may empty; `make` gives what is to be compiled."""
        found = self.found
        if found is None:
            with self.lock:
                found = self.found
                if found is None:
                    flat = make()
                    run = compile_flat(flat, leaves, self.options, next(AOT_COUNTER))
                    found = self.found = (run, flat)
        run, flat = found
        return flat.unflatten(run(leaves))


class ModuleFunction(FlatFunction):
    """A module as a function of its parameters, its buffers and the leaves of its arguments."""

    def __init__(self, module: Module, names: list[str], structure: TreeSpec) -> None:
        super().__init__(module, structure)
        self.names = names

    def __call__(self, *leaves: Any) -> list[Any]:
        count = len(self.names)
        state = dict(zip(self.names, leaves))
        args, kwargs = pytree.tree_unflatten(list(leaves[count:]), self.structure)
        return self.flattened(functional_call(self.function, state, args, kwargs))


class AOTModule(Module):
    """A module whose calls are compiled; the original is its submodule `orig_module`."""

    def __init__(self, mod: Module, options: Kwargs, positional: Args) -> None:
        super().__init__()
        self.orig_module = mod
        # Found at the first call: modules may get their parameters late.
        self.state: ModuleState | None = None
        wanted = make_options(*positional, **options)
        self.counts_parameters = not wanted.parameters
        self.compiled = CompiledOnce(wanted)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        state = self.state
        if state is None:
            state = self.state = ModuleState(self.orig_module)
            if self.counts_parameters:
                self.compiled.options.parameters = len(state.names)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        return self.compiled(
            state.values() + leaves,
            lambda: ModuleFunction(self.orig_module, state.names, structure),
        )


def aot_module(mod: Module, *args: Any, **kwargs: Any) -> Module:
    """A module whose forward and backward are compiled at the first call."""
    return AOTModule(mod, kwargs, args)


def with_symbols(mod: Module, args: Sequence[Any]) -> Sequence[Any]:
    """What a graph is traced with: the examples of a captured one, if there are symbols in them.
    Real inputs would make their sizes constants."""
    if not isinstance(mod, GraphModule):
        return args
    inputs = [node for node in mod.graph.nodes if node.op == "placeholder"]
    examples = [node.meta.get("example_value") for node in inputs]
    if len(examples) != len(args) or not any(map(has_symbols, examples)):
        return args
    return examples


def has_symbols(value: Any) -> bool:
    sizes = getattr(value, "shape", ())
    return isinstance(value, SymNumber) or any(isinstance(n, SymNumber) for n in sizes)


def aot_module_simplified(
    mod: Module,
    args: Sequence[Any],
    fw_compiler: Callable[..., Any],
    bw_compiler: Callable[..., Any] | None = None,
    partition_fn: Callable[..., Any] = default_partition,
    decompositions: Decompositions | None = None,
    keep_inference_input_mutations: bool = False,
    inference_compiler: Callable[..., Any] | None = None,
    is_guarded: bool = False,
    keeps_graphs: bool = False,
    **ignored: Any,
) -> Callable[..., Any]:
    """Compile a module of flat inputs and outputs for these inputs, now. `is_guarded`: all calls
    have inputs that are like these. `keeps_graphs`: graphs are kept on disk and taken from there,
    whatever the switch says."""
    bound = ModuleState(mod)
    names = bound.names
    # A graph is run node by node, so that what its nodes say of themselves is inherited.
    body = Interpreted(mod) if isinstance(mod, GraphModule) else mod

    def functional(*flat: Any) -> Any:
        state = dict(zip(names, flat))
        result = functional_call(body, state, flat[len(names) :], {})
        if not isinstance(result, (tuple, list)):
            raise RuntimeError(
                "Graph output must be a (). This is so that we can avoid pytree processing of the "
                "outputs. Please change the module to have tuple outputs or use aot_module instead."
            )
        return result

    options = make_options(
        fw_compiler,
        bw_compiler,
        partition_fn,
        decompositions,
        len(names),
        keep_inference_input_mutations,
        inference_compiler,
    )
    state, number = bound.values(), next(AOT_COUNTER)
    args = with_symbols(mod, args)

    def trace() -> Traced:
        return trace_flat(functional, [*state, *args], options, number)

    keeps_graphs = keeps_graphs or config.enable_autograd_cache
    if keeps_graphs and isinstance(mod, GraphModule):
        from rushlight.aot.cache import AOTAutogradCache

        traced = AOTAutogradCache.load(mod, state, args, options, number, trace)
    else:
        traced = trace()
    run = compile_traced(traced, options, number)
    if is_guarded and not names:
        quick = quick_call(run, traced.forward)
        if quick is not None:
            return quick

    def forward(*given: Any) -> Any:
        return run([*bound.values(), *given])

    forward.zero_grad = mod.zero_grad  # type: ignore[attr-defined]
    forward.named_parameters = mod.named_parameters  # type: ignore[attr-defined]
    forward.named_buffers = mod.named_buffers  # type: ignore[attr-defined]
    return forward


class Interpreted(Module):
    """A graph module that runs by an interpreter; it shares the module's state."""

    def __init__(self, graph_module: GraphModule) -> None:
        super().__init__()
        self.__dict__.update(
            {name: graph_module.__dict__[name] for name in ("_parameters", "_buffers", "_modules")}
        )
        object.__setattr__(self, "graph_module", graph_module)

    def forward(self, *args: Any) -> Any:
        return Interpreter(self.graph_module).run(*args)


compiled_function = aot_function
compiled_module = aot_module
