"""`GraphModule`: a module whose forward is the code of a graph.

Every instance has a class of its own, because `forward` is looked up on the class. Invariant: after
`recompile()`, which assigning `graph` calls, the class's forward is what `code` shows; it is
compiled on first use.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.graph.graph import Graph, rebuild
from rushlight.graph.printing import (
    CODE_KEY,
    PythonCode,
    _BoxedCodeGen,
    _PyTreeCodeGen,
    compile_code,
)
from rushlight.nn import module as modules
from rushlight.nn.module import Module

__all__ = ["GraphModule"]

MODULES_FOLDER = os.path.dirname(modules.__file__)
PACKAGE_FOLDER = os.path.dirname(MODULES_FOLDER)
REMINDER = "# To see more debug info, please use `graph_module.print_readable()`"
KEPT_HOOKS = (
    "_state_dict_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
    "_replace_hooks",
    "_create_node_hooks",
    "_erase_node_hooks",
    "_deepcopy_hooks",
)


# Where `meta` keeps attributes that copies have too.
PRESERVED = "_user_preserved_attributes"


def attach(owner: Module, name: str, value: Any) -> None:
    """Set an attribute; a plain tensor becomes a buffer."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        owner.register_buffer(name, value)
    else:
        setattr(owner, name, value)


def assign_attr(value: Any, module: Module, target: str) -> None:
    """Put `value` at a dotted path below `module`, with empty modules on the way."""
    *path, name = target.split(".")
    for part in path:
        child = getattr(module, part, None)
        if child is None:
            child = Module()
            setattr(module, part, child)
        module = child
    attach(module, name, value)


def copy_attr(source: Any, module: Module, target: str) -> None:
    """Put what `source` has at a dotted path at the same path below `module`."""
    *path, name = target.split(".")
    for part in path:
        found = getattr(source, part)
        child = getattr(module, part, None)
        if found is child:
            # A module above is shared already, and everything in it.
            return
        if child is None:
            child = Module()
            setattr(module, part, child)
        source, module = found, child
    attach(module, name, getattr(source, name))


def get_attr(module: Any, target: str) -> Any:
    """What is at a dotted path below `module`."""
    for part in target.split("."):
        module = getattr(module, part)
    return module


def indented(text: str) -> str:
    """All lines but the first, four columns to the right."""
    return text.replace("\n", "\n    ")


def readable(module: Any, name: str, **options: Any) -> str:
    """The verbose code of a module and of the graph modules in it. These are shown by their names
    there, unless their `meta["shown_as"]` says otherwise."""
    code = module.graph.python_code("self", verbose=True, **options).src.lstrip("\n")
    text = indented(f"class {name}(torch.nn.Module):\n{code}")
    inner = [
        readable(child, child.meta.get("shown_as", child_name), **options)
        for child_name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    return text + indented("\n".join(["", *inner]))


def is_engine(filename: str) -> bool:
    """Whether a file is Rushlight's, and not that of a module class."""
    if filename.startswith("<rushlight "):
        return True
    return filename.startswith(PACKAGE_FOLDER) and not filename.startswith(MODULES_FOLDER)


def report_error(error: BaseException) -> bool:
    """Show on stderr which line of generated code raised, when it did so itself."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    # The engine's own frames are to generated code what built-in functions are to a program.
    while frames and is_engine(frames[-1].filename):
        frames.pop()
    if not frames or CODE_KEY not in frames[-1].filename:
        return False
    frame = frames[-1]
    number = frame.lineno or 0
    lines = linecache.getlines(frame.filename)
    shown = [
        "".join(traceback.format_exception(error)),
        f"Call using an FX-traced Module, line {number} of the traced Module's generated forward "
        "function:",
        "".join(lines[max(number - 2, 0) : number]),
        "~" * len(frame.line or "") + "~~~ <--- HERE",
        "\n".join(lines[number : number + 2]),
    ]
    print("\n".join(shown), file=sys.stderr)
    return True


class LateForward:
    """The forward of a graph module's class until it is asked for: many graphs are only read."""

    def __init__(self, cls: Any, code: PythonCode, name: str) -> None:
        self.cls = cls
        self.source = code.src
        self.globals = dict(code.globals)
        self.name = name

    def compile(self) -> Any:
        """The function, which takes this object's place."""
        function = compile_code(self.source, self.globals, self.name)
        if vars(self.cls).get("forward") is self:
            self.cls.forward = function
        return function

    def __get__(self, instance: GraphModule | None, owner: type) -> Any:
        return self.compile().__get__(instance, owner)


SIGNATURE = re.compile(r"^def forward\(self((?:, \w+)+)\):$", re.MULTILINE)


def boxed_forward(module: GraphModule) -> tuple[Any, Any]:
    """The forward of a module's class, and the same code as a function of the module and one list,
    which it empties; None for code that takes anything but plain arguments."""
    forward: Any = vars(type(module)).get("forward")
    found = SIGNATURE.search(module.code)
    own = type(module).__call__ is GraphModule.__call__ and "forward" not in vars(module)
    if found is None or not own:
        return forward, None
    head = f"def forward(self, given):\n    {found[1][2:]}, = given\n    given.clear()"
    source = module.code[: found.start()] + head + module.code[found.end() :]
    is_late = isinstance(forward, LateForward)
    return forward, compile_code(source, forward.globals if is_late else forward.__globals__)


def has_hooks(module: Module) -> bool:
    """Whether a call of a module is more than its forward."""
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
        or modules.GLOBAL_FORWARD_HOOKS
        or modules.GLOBAL_FORWARD_PRE_HOOKS
        or modules.GLOBAL_BACKWARD_HOOKS
        or modules.GLOBAL_BACKWARD_PRE_HOOKS
    )


class GraphModule(Module):
    """A module that runs a graph.

    `root` gives the attributes that the graph's nodes name: a module, or a dict from dotted paths.
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        base = next(c for c in cls.__mro__ if "is_graph_module_instance_class" not in vars(c))
        own = type("GraphModuleImpl", (base,), {"is_graph_module_instance_class": True})
        own.__module__ = base.__module__
        return object.__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            if hasattr(root, "training"):
                self.training = root.training
            for target in targets:
                copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            # Outer modules first: they would wipe out what was put inside them.
            for target in sorted(targets, key=lambda path: path.count(".")):
                assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.prepare()
        self.graph = graph

    def prepare(self) -> None:
        """The attributes of a graph module beside those of its graph."""
        self.meta: dict[str, Any] = {}
        self._replace_hooks: list[Callable[..., Any]] = []
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []
        self._deepcopy_hooks: list[Callable[..., Any]] = []
        self.shape_env: Any = None
        self._tracer_cls: type | None = None
        self._tracer_extras: dict[str, Any] = {}

    # -- graph and code ---------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph; after changing it, call `recompile()`."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        tracer = g._tracer_cls
        if tracer is not None and "<locals>" not in tracer.__qualname__:
            self._tracer_cls = tracer
        self._tracer_extras = g._tracer_extras or {}
        self.recompile()

    @property
    def code(self) -> str:
        """The source of forward."""
        return self._code

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    def recompile(self) -> PythonCode:
        """Make forward what the graph says now."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        code = self._graph.python_code("self")
        self._code = code.src
        self._lineno_map = code._lineno_map
        self._prologue_start = code._prologue_start
        cls: Any = type(self)
        former = vars(cls).get("forward")
        if isinstance(former, FunctionType):
            linecache.cache.pop(former.__code__.co_filename, None)
        late = cls.forward = LateForward(cls, code, codegen._func_name)
        if any(node.meta.get("is_wrapped") for node in self._graph.nodes):
            # Code that names functions to trace as wholes does so before anyone traces.
            late.compile()
        self.recompile_children()
        return code

    def recompile_children(self) -> None:
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            report_error(error)
            raise

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code with the types of values and where each line comes from."""
        text = readable(
            self,
            self._get_name(),
            include_stride=include_stride,
            include_device=include_device,
            colored=colored,
            expanded_def=expanded_def,
            additional_meta=additional_meta,
        )
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return "\n".join([Module.__repr__(self), self._code, REMINDER])

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module as a package: `from folder import FxModule` gives it back.

        Modules whose repr is their constructor are written as that; others lie beside the code, as
        pickles.
        """
        from rushlight.fx.folders import write_package

        write_package(self, folder, module_name)

    # -- submodules -------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted path; False where something else is in the way."""
        *path, name = target.split(".")
        owner: Any = self
        for part in path:
            child = getattr(owner, part, None)
            if child is None:
                child = Module()
                setattr(owner, part, child)
            if not isinstance(child, Module):
                return False
            owner = child
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a dotted path; False where there is none."""
        *path, name = target.split(".")
        owner: Any = self
        for part in path:
            owner = getattr(owner, part, None)
            if not isinstance(owner, Module):
                return False
        if not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that no node names."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
            if node.op == "call_module":
                try:
                    called = self.get_submodule(node.target)
                except AttributeError:
                    continue
                used.update(f"{node.target}.{name}" for name, _ in called.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    # -- copies -----------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        state = self.__dict__.copy()
        graph = state.pop("_graph")
        for name in ("_code", "_lineno_map", "_prologue_start", "shape_env", "meta"):
            state.pop(name, None)
        records = graph.records(lambda key: key == "stack_trace")
        base = next(
            c for c in type(self).__mro__ if "is_graph_module_instance_class" not in vars(c)
        )
        return reduce_graph_module, (
            base,
            type(self).__name__,
            state,
            (records, graph._codegen, self._tracer_cls, graph._tracer_extras),
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made: GraphModule = type(self).__new__(type(self))
        memo[id(self)] = made
        state = copy.deepcopy(
            {key: value for key, value in self.__dict__.items() if key not in ("_graph", "meta")},
            memo,
        )
        holder = StateHolder(state)
        graph = copy.deepcopy(self._graph, memo)
        self._deepcopy_init()(made, holder, graph)
        for table in ("_modules", "_buffers", "_parameters"):
            for name, value in state[table].items():
                vars(made)[table].setdefault(name, value)
        made._non_persistent_buffers_set = state["_non_persistent_buffers_set"]
        for name in KEPT_HOOKS:
            if name in state:
                setattr(made, name, state[name])
        made.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in made.meta.get(PRESERVED, {}).items():
            setattr(made, name, value)
        for hook in self._deepcopy_hooks:
            hook(made)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph)
        made.meta = getattr(self, "meta", {})
        return made

    # -- hooks on changes of the graph ------------------------------------------------------------

    @contextmanager
    def _set_replace_hook(self, f: Callable[..., Any]) -> Iterator[None]:
        """Within it, `f(old=, new=, user=)` is called for every use that changes."""
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., Any]) -> None:
        add_hook(self._replace_hooks, f, "replace")

    def _unregister_replace_node_hook(self, f: Callable[..., Any]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[..., Any]) -> None:
        add_hook(self._create_node_hooks, f, "create_node")

    def _unregister_create_node_hook(self, f: Callable[..., Any]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[..., Any]) -> None:
        add_hook(self._erase_node_hooks, f, "erase_node")

    def _unregister_erase_node_hook(self, f: Callable[..., Any]) -> None:
        self._erase_node_hooks.remove(f)


def add_hook(hooks: list[Callable[..., Any]], hook: Callable[..., Any], name: str) -> None:
    if not callable(hook):
        raise AssertionError(f"{name} hook must be a callable.")
    hooks.append(hook)


class StateHolder(Module):
    """A module made of another's attributes, to take them from."""

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)


def reduce_graph_module(
    cls: type, class_name: str, state: dict[str, Any], graph_parts: tuple[Any, ...]
) -> Any:
    """A graph module from what pickling kept of it."""
    made: Any = GraphModule.__new__(cls)
    Module.__init__(made)
    made.prepare()
    type(made).__name__ = class_name
    made.__dict__.update(state)
    made.graph = rebuild(*graph_parts)
    return made
