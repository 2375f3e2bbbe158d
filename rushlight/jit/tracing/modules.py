"""Modules that a trace is made for: a class and an object for each, with the original's tensors."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.relations import optional
from rushlight.jit.ir.types import BOOL, TENSOR, ClassType, FunctionType
from rushlight.jit.naming import qualified_name
from rushlight.jit.objects.functions import ScriptFunction
from rushlight.jit.objects.modules import (
    RecursiveScriptModule,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
)
from rushlight.jit.unit import CompilationUnit, Instance
from rushlight.nn.module import Module


def make_module(module: Module, module_class: Any, unit: CompilationUnit) -> Any:
    """The compiled module that takes the place of a module, without methods as yet."""
    if isinstance(module, ScriptModule):
        return module
    if has_exports(module):
        from rushlight.jit.scripting.recursive import compile_exports

        return compile_exports(module, unit)
    return make_traced(module, module_class or TopLevelTracedModule, unit)


def has_exports(module: Module) -> bool:
    """Whether a method is marked with `jit.export`; properties are not asked."""
    for cls in type(module).__mro__:
        for value in vars(cls).values():
            modifier = getattr(value, "_torchscript_modifier", None) if callable(value) else None
            if modifier is not None and "export" in str(modifier).lower():
                return True
    return False


def make_traced(module: Module, module_class: Any, unit: CompilationUnit) -> Any:
    if module._backward_hooks:
        raise ValueError(f"Modules that have backward hooks assigned can't be compiled: {module}")
    values: dict[str, Any] = {}
    type_ = ClassType("", is_module=True)
    take_tensors(module, type_, values)
    values["training"] = module.training
    type_.attributes["training"] = BOOL
    # torch: an attribute of every module.
    values["_is_full_backward_hook"] = None
    type_.attributes["_is_full_backward_hook"] = optional(BOOL)
    children: dict[str, Any] = {}
    for name, child in module._modules.items():
        if child is not None:
            children[name] = make_module(child, TracedModule, unit)
            instance = children[name]._c.instance
            values[name] = instance
            type_.attributes[name] = instance.type
    for name, value in vars(module).items():
        if isinstance(value, ScriptFunction):
            type_.attributes[name] = FunctionType(value.function)
            values[name] = value.function
    type_.dotted = unit.claim(qualified_name(type(module)))
    unit.add_type(type_)
    script = RecursiveScriptModule(Instance(type_, values), children)
    return module_class(script, type(module).__name__)


def take_tensors(module: Module, type_: ClassType, values: dict[str, Any]) -> None:
    """Parameters and buffers, the same objects."""
    seen: set[int] = set()
    for table, kind in ((module._parameters, type_.parameters), (module._buffers, type_.buffers)):
        for name, tensor in table.items():
            if tensor is None:
                continue
            assert isinstance(tensor, Tensor)
            if id(tensor) in seen:
                raise ValueError("TracedModules don't support parameter sharing between modules")
            seen.add(id(tensor))
            values[name] = tensor
            type_.attributes[name] = TENSOR
            kind.add(name)


def submodule_paths(module: Module, prefix: str = "__module") -> dict[Any, str]:
    """Where each submodule lies, by its dotted path."""
    found: dict[Any, str] = {}
    for name, child in module.named_children():
        path = f"{prefix}.{name}"
        found[child] = path
        found.update(submodule_paths(child, path))
    return found


def instance_of(module: Any) -> Instance:
    instance: Instance = module._c.instance
    return instance
