"""A tracer that sees `assert` statements: they become calls before the function is traced."""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from typing import Any

from rushlight.fx.tracing import Tracer
from rushlight.graph.graph import Graph
from rushlight.nn.module import Module

__all__ = ["AST_Rewriter", "RewritingTracer"]


class AST_Rewriter(ast.NodeTransformer):
    """Rewrites the source of a function: `assert x, "text"` is `torch._assert(x, "text")`."""

    def rewrite(self, fn: Any) -> Any:
        lines, start = inspect.getsourcelines(fn)
        tree = self.visit(ast.parse(textwrap.dedent("".join(lines))))
        ast.increment_lineno(tree, start - 1)
        for definition in tree.body:
            definition.decorator_list = []
        code = compile(ast.fix_missing_locations(tree), fn.__code__.co_filename, "exec")
        from rushlight.opset.other.asserts import _assert

        namespace = {**fn.__globals__, "_rewritten_assert": _assert}
        made: dict[str, Any] = {}
        exec(code, namespace, made)
        # Variables of the function around it are globals of the new one.
        namespace.update(inspect.getclosurevars(fn).nonlocals)
        return made[fn.__name__]

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = node.msg if node.msg is not None else ast.Constant("")
        call = ast.Call(ast.Name("_rewritten_assert", ast.Load()), [node.test, message], [])
        return ast.copy_location(ast.Expr(call), node)


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
