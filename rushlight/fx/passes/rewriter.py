"""A tracer that sees `assert` statements: they become calls before the function is traced."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from types import CellType, CodeType, FunctionType
from typing import Any

from rushlight.fx.annotate import annotate
from rushlight.fx.tracing import Tracer
from rushlight.graph.graph import Graph
from rushlight.nn.module import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites the source of a function: `assert x, "text"` is `torch._assert(x, "text")`, and
    `y: T = x` says that the value is a `T`."""

    def rewrite(self, fn: Any) -> Any:
        lines, start = inspect.getsourcelines(fn)
        tree = self.visit(ast.parse(textwrap.dedent("".join(lines))))
        ast.increment_lineno(tree, start - 1)
        for definition in tree.body:
            definition.decorator_list = []
        from rushlight.opset.other.asserts import _assert

        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
        cells["_rewritten_assert"] = CellType(_assert)
        cells["_rewritten_annotate"] = CellType(annotate)
        # In a function that has its variables, it is closed over them as the original is.
        surrounding = ast.parse(f"def surrounding({', '.join(cells)}): pass")
        outer: Any = surrounding.body[0]
        outer.body = tree.body
        code = compile(ast.fix_missing_locations(surrounding), fn.__code__.co_filename, "exec")
        body = inner_code(inner_code(code, "surrounding"), fn.__name__)
        closure = tuple([cells[name] for name in body.co_freevars])
        made = FunctionType(body, fn.__globals__, fn.__name__, fn.__defaults__, closure)
        made.__kwdefaults__ = fn.__kwdefaults__
        made.__annotations__ = fn.__annotations__
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return node
        name = ast.Name("_rewritten_annotate", ast.Load())
        call = ast.Call(name, [node.value, node.annotation], [])
        return ast.copy_location(ast.Assign([node.target], call), node)

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = node.msg if node.msg is not None else ast.Constant("")
        call = ast.Call(ast.Name("_rewritten_assert", ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(call), node)


def inner_code(code: CodeType, name: str) -> CodeType:
    """The code of a function that is defined in other code."""
    return next(
        part for part in code.co_consts if isinstance(part, CodeType) and part.co_name == name
    )


class RewritingTracer(Tracer):
    """Traces a module or function after rewriting it and the modules in it."""

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        return super().trace(_rewrite(root), concrete_args)


def _rewrite(fn: Any) -> Any:
    if not isinstance(fn, Module):
        return AST_Rewriter().rewrite(fn)

    def rewritten(module: Module) -> Module:
        made = copy.copy(module)
        own = type(made)
        if not own.__module__.startswith(("rushlight.nn", "torch.nn")):
            forward = AST_Rewriter().rewrite(own.forward)
            made.__class__ = type(own.__name__, (own,), {"forward": forward})
            made.__class__.__module__ = own.__module__
        for name, child in module.named_children():
            setattr(made, name, rewritten(child))
        return made

    return rewritten(fn)
