"""Private torch paths of `jit`: see `aliases`. Data only."""

from __future__ import annotations

from rushlight.compat.finder import Entry

_GRAPH = "Graph Node Value Block"
_TYPES = (
    "Type AnyType AwaitType BoolType ClassType ComplexType DeviceObjType DictType EnumType "
    "FloatType FutureType IntType InterfaceType ListType NoneType NumberType OptionalType "
    "PyObjectType RRefType StreamObjType StringType SymBoolType SymIntType TensorType TupleType "
    "UnionType _GeneratorType"
)
_PASSES = {
    "canonicalize": "simple:canonicalize",
    "constant_loop_unrolling": "unrolling:unroll_constant_loops",
    "constant_pooling": "simple:pool_constants",
    "constant_propagation": "folding:propagate_constants",
    "cse": "simple:eliminate_common",
    "dce": "dce:eliminate_dead_code",
    "dce_graph": "dce:eliminate_dead_code",
    "erase_number_types": "simple:erase_number_types",
    "erase_shape_information": "simple:erase_shapes",
    "inline": "inlining:inline_calls",
    "loop_unrolling": "unrolling:unroll_loops",
    "lower_all_tuples": "simple:lower_tuples",
    "peephole": "peephole:optimize_peepholes",
    "propagate_shapes_on_graph": "shapes:propagate_shapes",
    "remove_dropout": "freezing:remove_dropout",
    "fold_frozen_conv_bn": "freezing:fold_batch_norms",
    "remove_inplace_ops": "mutation:remove_inplace_ops",
    "remove_mutation": "mutation:remove_mutation",
}


_EXECUTOR = {
    "bailout_depth": "bailout_depth",
    "nvfuser_enabled": "nvfuser",
    "profiling_executor": "profiling_executor",
    "profiling_mode": "profiling_mode",
    "texpr_fuser_enabled": "texpr_fuser",
    "texpr_reductions_enabled": "texpr_reductions",
}


def named(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


# What "torch._C" has for `jit`.
NATIVE: dict[str, str] = {
    **named(".jit.ir.graph", _GRAPH),
    **named(".jit.ir.types", _TYPES),
    **named(".jit.ir.parsing", "parse_ir"),
    "Use": ".jit.ir.graph:Use",
    "_jit_pass_lint": ".jit.ir.checks:check_graph",
    **{f"_jit_pass_{name}": f".jit.passes.{target}" for name, target in _PASSES.items()},
    "_jit_get_inline_everything_mode": ".jit.settings:get_inline_everything",
    "_jit_set_inline_everything_mode": ".jit.settings:set_inline_everything",
    **{f"_jit_set_{name}": f".jit.settings:{target}.write" for name, target in _EXECUTOR.items()},
    "_jit_override_can_fuse_on_cpu": ".jit.settings:fuses_on_cpu.write",
    "_jit_override_can_fuse_on_gpu": ".jit.settings:fuses_on_gpu.write",
    "_jit_can_fuse_on_cpu": ".jit.settings:fuses_on_cpu.read",
    "_jit_can_fuse_on_gpu": ".jit.settings:fuses_on_gpu.read",
    "_jit_texpr_fuser_enabled": ".jit.settings:texpr_fuser.read",
    "_jit_nvfuser_enabled": ".jit.settings:nvfuser.read",
    "_get_graph_executor_optimize": ".jit.settings:optimises.read",
    "_set_graph_executor_optimize": ".jit.settings:optimises.write",
    "_debug_set_autodiff_subgraph_inlining": ".jit.settings:subgraph_inlining.write",
    "_create_function_from_graph": ".jit.settings:create_function",
    "_get_tracing_state": ".jit.tracing.state:get_tracing_state",
    "ScriptFunction": ".jit.objects.functions:ScriptFunction",
    "ScriptMethod": ".jit.objects.functions:ScriptMethod",
    "CompilationUnit": ".jit.unit:CompilationUnit",
    **named(".jit.objects.containers", "ScriptDict ScriptList"),
    "_Await": ".jit.awaits:_Await",
    **named(".jit.awaits", "_awaitable _awaitable_nowait _awaitable_wait"),
    "FileCheck": ".testing.file_check:FileCheck",
}

MODULES: dict[str, Entry] = {}
