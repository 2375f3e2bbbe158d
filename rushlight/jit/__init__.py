"""TorchScript: programs as graphs that run without their Python.

`trace` records what a function does with example inputs; `script` compiles its source.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace

HOMES = {
    **dict.fromkeys(
        (*("trace", "trace_module", "is_tracing", "_get_trace_graph", "_unique_state_dict"),),
        ".tracing.api",
    ),
    "TracerWarning": ".tracing.warnings",
    "TracingCheckError": ".tracing.checker",
    **dict.fromkeys(("ScriptFunction", "ScriptMethod"), ".objects.functions"),
    **dict.fromkeys(
        ("ScriptModule", "RecursiveScriptModule", "TracedModule", "TopLevelTracedModule"),
        ".objects.modules",
    ),
    "optimized_execution": ".switches",
    "save": ".archive.writing",
    "load": ".archive.reading",
    **dict.fromkeys(("fork", "wait"), ".futures"),
    **dict.fromkeys(("_Await", "_awaitable", "_awaitable_nowait", "_awaitable_wait"), ".awaits"),
    "CompilationUnit": ".scripting.units",
    **dict.fromkeys(
        (
            *("Attribute", "Final", "annotate", "export", "ignore", "interface", "is_scripting"),
            *("isinstance", "script", "script_if_tracing", "unused", "_overload"),
            *("_overload_method", "_unwrap_optional", "_isinstance"),
        ),
        ".scripting.public",
    ),
    "script_method": ".scripting.methods",
    "Error": ".runtime.errors",
    **dict.fromkeys(
        ("freeze", "optimize_for_inference", "run_frozen_optimizations"), ".passes.freezing"
    ),
    **dict.fromkeys(
        (
            *("enable_onednn_fusion", "onednn_fusion_enabled", "set_fusion_strategy"),
            *("strict_fusion", "export_opnames"),
        ),
        ".settings",
    ),
    "Future": "rushlight.futures",
}

__getattr__, __dir__ = namespace(__name__, HOMES, {"frontend": ".scripting.frontend"})
