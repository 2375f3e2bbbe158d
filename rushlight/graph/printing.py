"""Graphs as Python source that runs.

A `CodeGen` decides the frame (signature, inputs, return); a `GraphWriter` writes one statement per
node and collects the globals they need. A value is set to None behind the statement that last uses
it; a result that nothing uses is left alone.
"""

from __future__ import annotations

import enum
import itertools
import keyword
import linecache
import math
import types
import typing
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from rushlight.base import pytree
from rushlight.base.config import config
from rushlight.graph import host, specs
from rushlight.graph.annotations import parse_stack_trace, value_annotation
from rushlight.graph.names import (
    Namespace,
    is_torch_name,
    names_function,
    qualified_name,
    torch_names,
    type_name,
)
from rushlight.graph.node import PLAIN_ARGUMENTS, Argument, Node, last_uses

__all__ = ["CodeGen", "PythonCode", "inplace_methods", "magic_methods", "reflectable_magic_methods"]

reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
TYPING_ALIASES: dict[Any, Any] = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}
WRAP = "torch.fx._symbolic_trace.wrap"
NO_TRACE = "No stacktrace found for following nodes"
COLORS = {"dim": "\033[2m", "red": "\033[31m", "blue": "\033[34m"}

TransformCodeFunc = Callable[[list[str]], list[str]]


class PythonCode:
    """Source of a graph's function and the globals it runs with."""

    __module__ = "rushlight.fx.graph"

    def __init__(
        self,
        src: str,
        globals: dict[str, Any],
        _lineno_map: dict[int, int | None] | None = None,
        _prologue_start: int = 0,
    ) -> None:
        self.src = src
        self.globals = globals
        # Line of the function -> index of the node it belongs to; None for the signature.
        self._lineno_map = _lineno_map
        self._prologue_start = _prologue_start


class _PyTreeInfo(NamedTuple):
    """The parameters of the original function, and how its inputs and outputs nest."""

    orig_args: list[str]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None


def format_target(base: str, target: str) -> str:
    """`base.a.b`; parts that are no identifiers are reached by getattr."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f"getattr({base}, {quoted(part)})"
    return base


def quoted(text: str) -> str:
    """A string in double quotes, whatever it holds."""
    import json

    return json.dumps(text)


class CodeGen:
    """The frame of a graph's function. Subclasses change how it takes inputs and returns."""

    __module__ = "rushlight.fx.graph"

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self,
        free_vars: list[str],
        maybe_return_annotation: str,
        *,
        expanded_def: bool = False,
    ) -> str:
        """The `def` line for these parameters; `self` is put first where it is missing."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            lines = "".join(f"    {name},\n" for name in free_vars)
            return f"def {self._func_name}(\n{lines}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        """The return statement."""
        return f"return {(repr_fn or repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The graph's inputs, from the function's."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The function's result, from the graph's."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names and values that the frame needs."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: Namespace, **options: Any
    ) -> PythonCode:
        return GraphWriter(self, nodes, root_module, namespace, **options).write()


class _PyTreeCodeGen(CodeGen):
    """Takes nested inputs by flattening them, and nests what it returns."""

    __module__ = "rushlight.fx.graph"

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return pytree.arg_tree_leaves(*args)

    def process_outputs(self, outputs: Any) -> Any:
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return outputs
        if not isinstance(outputs, (list, tuple)):
            outputs = [outputs]
        return pytree.tree_unflatten(outputs, self.pytree_info.out_spec)

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The lines that flatten the parameters into the graph's inputs."""
        spec = self.pytree_info.in_spec
        signature = f"[{', '.join(fn_args)}]"
        if (
            spec.type is tuple
            and spec.num_children == 2
            and spec.child(0).type is tuple
            and spec.child(1).type is dict
        ):
            count = spec.child(0).num_children
            names = self.pytree_info.orig_args
            pairs = zip(spec.child(1).context, names[count:])
            keywords = ", ".join(f"{key!r}:{name}" for key, name in pairs)
            signature = f"([{', '.join(names[:count])}], {{{keywords}}})"
        text = ""
        annotated = [name for name in free_vars if ":" in name]
        if annotated:
            # An unpacking cannot carry annotations: they go before it.
            if expanded_def:
                text = "\n    " + "\n    ".join(annotated)
            else:
                text = "\n    " + "".join(f"{name}; " for name in annotated) + "\n"
        plain = ", ".join(name.split(":")[0].split("#")[0] for name in free_vars)
        return f"{text}\n    {plain}, = fx_pytree.tree_flatten_spec({signature}, self._in_spec)"

    def gen_fn_def(
        self,
        free_vars: list[str],
        maybe_return_annotation: str,
        *,
        expanded_def: bool = False,
    ) -> str:
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        text = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        if free_vars:
            text += self.gen_var_bindings(names, free_vars, expanded_def)
        return text

    def generate_output(
        self, output_args: Argument, *, repr_fn: Callable[[Any], str] | None = None
    ) -> str:
        if self.pytree_info and self.pytree_info.out_spec:
            shown = (repr_fn or repr)(output_args)
            return f"return pytree.tree_unflatten({shown}, self._out_spec)"
        return super().generate_output(output_args, repr_fn=repr_fn)


class _BoxedCodeGen(CodeGen):
    """Takes its inputs in one list and empties it, so that the caller holds none of them."""

    __module__ = "rushlight.fx.graph"

    def gen_fn_def(
        self,
        free_vars: list[str],
        maybe_return_annotation: str,
        *,
        expanded_def: bool = False,
    ) -> str:
        text = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars if name != "self"]
        if names:
            text += "\n    args_iter = iter(args_list)"
            text += "".join(f"\n    {name} = next(args_iter)" for name in names)
            text += "\n    args_list.clear()"
        return text


class GraphWriter:
    """Writes the source of one graph."""

    def __init__(
        self,
        codegen: CodeGen,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> None:
        self.codegen = codegen
        self.nodes = list(nodes)
        self.root_module = root_module
        self.namespace = namespace
        self.verbose = verbose
        self.include_stride = include_stride or config.show_stride
        self.include_device = include_device or config.show_device
        self.colored = colored
        self.expanded_def = expanded_def
        self.additional_meta = additional_meta or []
        self.parameters: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.return_annotation = ""
        self.torch_paths: dict[str, None] = {}
        self.global_names: dict[int, str] = {}
        self.freed = last_uses(self.nodes)
        self.summary = ""
        self.tensor_class = host.library.Tensor
        self.globals: dict[str, Any] = {
            "inf": math.inf,
            "nan": math.nan,
            "NoneType": type(None),
            "torch": host.library,
            "device": host.library.device,
            "fx_pytree": specs,
            "pytree": pytree,
        }
        for name, value in self.globals.items():
            namespace.reserve(name, value)

    # -- names ------------------------------------------------------------------------------------

    def add_global(self, hint: str, obj: Hashable) -> str:
        """The name under which the code reaches `obj`."""
        known = self.global_names.get(id(obj))
        if known is None:
            known = self.global_names[id(obj)] = self.name_global(hint, obj)
        return known

    def add_constant(self, hint: str, value: object) -> str:
        """The name of an object; others that are equal to it have their own."""
        known = self.global_names.get(id(value))
        if known is None:
            known = self.global_names[id(value)] = self.namespace.create_name(hint)
            self.globals[known] = value
        return known

    def name_global(self, hint: str, obj: Hashable) -> str:
        if obj is self.globals["device"]:
            return "device"
        if is_torch_name(getattr(obj, "__module__", None)) and hasattr(obj, "__name__"):
            path = qualified_name(obj)
            is_code = not any(map(keyword.iskeyword, path.split(".")))
            if is_code and (path.startswith("torch.ops.") or names_function(path, obj)):
                self.torch_paths[path] = None
                return path
        name = self.namespace.create_name(hint, obj)
        self.globals[name] = obj
        return name

    def type_text(self, annotation: object) -> str:
        if annotation == ():
            return "()"
        text = type_name(annotation)
        if isinstance(annotation, types.UnionType) and "|" in text:
            return "|".join(self.type_text(part) for part in typing.get_args(annotation))
        origin = getattr(annotation, "__origin__", None)
        if not origin:
            return self.add_global(text, annotation)
        if type(annotation).__module__ == "typing":
            origin = TYPING_ALIASES.get(origin, origin)
        name = self.add_global(type_name(origin), origin)
        parts = [self.type_text(part) for part in typing.get_args(annotation)]
        return f"{name}[{','.join(parts)}]" if parts else name

    # -- expressions ------------------------------------------------------------------------------

    def text(self, arg: Any) -> str:
        """An argument as source."""
        if isinstance(arg, Node):
            return repr(arg)
        if arg.__class__ in PLAIN_ARGUMENTS:
            return self.paint("blue", repr(arg))
        if isinstance(arg, tuple):
            return self.tuple_text(arg)
        if isinstance(arg, list):
            return "[" + ", ".join(map(self.text, arg)) + "]"
        if isinstance(arg, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(arg[key])}" for key in arg) + "}"
        if isinstance(arg, slice):
            return f"slice({self.text(arg.start)}, {self.text(arg.stop)}, {self.text(arg.step)})"
        if isinstance(arg, enum.Enum):
            cls = type(arg)
            return f"{self.add_global(cls.__name__, cls)}.{arg.name}"
        if isinstance(arg, self.tensor_class):
            dtype = str(arg.dtype).rpartition(".")[2]
            return f"torch.Tensor(size={list(arg.size())}, dtype={dtype})"
        if str(getattr(arg, "__module__", "")).startswith("torch._ops"):
            return self.add_global(qualified_name(arg), arg)
        is_array_type = type(arg).__module__.partition(".")[0] == "numpy"
        if is_array_type or isinstance(arg, type | types.FunctionType):
            # No text means them.
            return self.add_constant(getattr(arg, "__name__", type(arg).__name__), arg)
        return self.paint("blue", repr(arg))

    def tuple_text(self, arg: tuple[Any, ...]) -> str:
        inner = ", ".join(map(self.text, arg))
        if hasattr(arg, "_fields"):
            cls = type(arg)
            name = self.add_global(qualified_name(cls), cls)
            return f"{name}({inner},)" if len(arg) == 1 else f"{name}({inner})"
        return f"({inner},)" if len(arg) == 1 else f"({inner})"

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        shown = [self.text(arg) for arg in args]
        shown += [f"{name} = {self.text(value)}" for name, value in kwargs.items()]
        return ", ".join(shown)

    def paint(self, color: str, text: str) -> str:
        return f"{COLORS[color]}{text}\033[0m" if self.colored else text

    # -- statements -------------------------------------------------------------------------------

    def annotation(self, node: Node) -> str:
        if self.verbose:
            shown = value_annotation(node.meta, self.include_stride, self.include_device)
            if shown is not None:
                return f': "{self.paint("red", shown)}"'
        return "" if node.type is None else f" : {self.type_text(node.type)}"

    def statement(self, node: Node) -> str:
        annotation = self.annotation(node)
        if node.op == "placeholder":
            default = f" = {self.text(node.args[0])}" if node.args else ""
            self.parameters.append(f"{node.target}{annotation}{default}")
            plain = node.target.replace("*", "")
            return "" if plain == repr(node) else f"{node!r} = {plain}"
        if node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {self.type_text(node.type)}"
            return self.return_statement(node.args[0])
        if node.op == "call_function":
            return self.function_statement(node, f"{node!r}{annotation}")
        left = f"{node!r}{annotation} = "
        if node.op == "get_attr":
            return left + format_target(self.root_module, node.target)
        if node.op == "call_module":
            called = format_target(self.root_module, node.target)
            return f"{left}{called}({self.arguments(node.args, node.kwargs)})"
        called = format_target(self.text(node.args[0]), node.target)
        return f"{left}{called}({self.arguments(node.args[1:], node.kwargs)})"

    def return_statement(self, value: Argument) -> str:
        try:
            return self.codegen.generate_output(value, repr_fn=self.text)
        except TypeError as error:
            # torch: a subclass may have been written before `repr_fn` existed.
            if "repr_fn" not in str(error):
                raise
            return self.codegen.generate_output(value)

    def function_statement(self, node: Node, left: str) -> str:
        target, args = node.target, node.args
        if getattr(target, "__module__", "") == "_operator":
            name = target.__name__
            if name in magic_methods:
                return f"{left} = {magic_methods[name].format(*map(self.text, args))}"
            if name in inplace_methods:
                changed = inplace_methods[name].format(*map(self.text, args))
                return f"{changed};  {left} = {self.text(args[0])}"
        name = self.global_names.get(id(target))
        if name is None:
            name = self.add_global(qualified_name(target), target)
        if name == "getattr" and len(args) == 2 and str(args[1]).isidentifier():
            return f"{left} = {format_target(self.text(args[0]), args[1])}"
        if node.meta.get("is_wrapped", False):
            self.wrapped[name] = None
        return f"{left} = {name}({self.arguments(args, node.kwargs)})"

    def origin_comment(self, node: Node) -> str:
        """A comment on where the node comes from, when that differs from the node before."""
        if not self.verbose or node.op in ("placeholder", "output"):
            return ""
        frame = parse_stack_trace(node.stack_trace)
        extra = [f"{key}: {node.meta[key]}" for key in self.additional_meta if key in node.meta]
        summary = f"# {', '.join(extra)} " if extra else ""
        summary += f"# {NO_TRACE if frame is None else frame.get_summary_str()}"
        if summary == self.summary:
            return ""
        self.summary = summary
        return f"\n{self.paint('dim', summary)}\n"

    def write(self) -> PythonCode:
        body: list[str] = []
        for index, node in enumerate(self.nodes):
            body.append(self.origin_comment(node))
            body.append(f"# COUNTER: {index}\n")
            statement = self.statement(node)
            if node.op not in ("placeholder", "output"):
                freed = self.freed.get(node)
                if freed:
                    names = " = ".join([*map(repr, freed), "None"])
                    statement += f";  {self.paint('dim', names)}"
            if statement or node.op != "placeholder":
                body.append(statement + "\n")
        body = [piece for piece in body if piece] or ["pass\n"]
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.add_global(name, value)
        if self.expanded_def:
            head = self.codegen.gen_fn_def(
                self.parameters, self.return_annotation, expanded_def=True
            )
        else:
            head = self.codegen.gen_fn_def(self.parameters, self.return_annotation)
        return self.assemble(head, body)

    def assemble(self, head: str, body: list[str]) -> PythonCode:
        head_lines = head.count("\n") + 1
        lines: list[str] = []
        line_nodes: dict[int, int | None] = {}
        current: int | None = None
        for line in "".join(body).split("\n"):
            if line.startswith("# COUNTER: "):
                current = int(line.removeprefix("# COUNTER: "))
            else:
                line_nodes[len(lines) + head_lines] = current
                lines.append(line)
        code = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        wraps = ""
        if self.wrapped:
            wrap = self.add_global("wrap", host.private_function(WRAP))
            wraps = "\n".join(f'{wrap}("{name}")' for name in self.wrapped)
        if self.torch_paths:
            self.globals["torch"] = torch_names(self.torch_paths)
        source = f"\n{wraps}\n\n{head}\n{code}"
        return PythonCode(source, self.globals, line_nodes, wraps.count("\n") + 4)


# torch: tools recognise generated code by this file name.
CODE_KEY = "<eval_with_key>"
CODE_COUNT = itertools.count()


def compile_code(source: str, variables: dict[str, Any], name: str = "forward") -> Any:
    """The function `name` that `source` defines; tracebacks show its lines."""
    key = f"{CODE_KEY}.{next(CODE_COUNT)}"
    variables = dict(variables)
    exec(compile(source, key, "exec", dont_inherit=True), variables)
    # An entry without a time stamp stays until it is removed.
    linecache.cache[key] = (len(source), None, source.splitlines(keepends=True), key)
    return variables.pop(name)
