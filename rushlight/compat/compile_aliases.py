"""The private paths of torch's compiler, and what they stand for. Data only; see `aliases`."""

from __future__ import annotations

from rushlight.compat.finder import Entry

_COMPILING = ".compiler.compiling"
_MARKS = ".capture.marks"
_BACKENDS = ".compiler.backends"
_SIZES = ".compiler.sizes"


def named(module: str, names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names.split()}


_REGISTRY = named(_BACKENDS, "list_backends lookup_backend register_backend")
_MARKING = named(_SIZES, "mark_dynamic mark_static mark_static_address maybe_mark_dynamic")

_MARKED = {
    **named(
        _MARKS,
        "allow_in_graph assume_constant_result disable disallow_in_graph graph_break "
        "nested_compile_region substitute_in_graph",
    ),
    "set_stance": ".capture.stances:set_stance",
}

COMPILE_ALIASES: dict[str, Entry] = {
    "torch._dynamo": {
        **named(
            _COMPILING,
            "OptimizedModule explain optimize optimize_assert reset is_dynamo_supported",
        ),
        "patch_dynamo_config": ".compiler.config:patch",
        **_MARKED,
        **_REGISTRY,
        **_MARKING,
        "config": ".compiler.config",
        "is_compiling": ".compiler:is_compiling",
        "export": ".compiler.exporting:export",
    },
    "torch._dynamo.config": ".compiler.config",
    "torch._logging": {
        **named(".base.logs", "set_logs warning_once"),
        "getArtifactLogger": ".base.logs:get_artifact_logger",
    },
    "torch._dynamo._trace_wrapped_higher_order_op": named(
        ".func.subscripts", "TransformGetItemToIndex"
    ),
    "torch._dynamo.backends.common": named(_BACKENDS, "aot_autograd"),
    "torch._dynamo.backends.debugging": named(
        _BACKENDS, "aot_eager aot_eager_decomp_partition eager"
    ),
    "torch._dynamo.backends.registry": dict(_REGISTRY),
    "torch._dynamo.decorators": {
        **_MARKED,
        **_MARKING,
        "_DimRange": ".io.nested:DimRange",
    },
    "torch._dynamo.eval_frame": named(
        _COMPILING, "OptimizedModule explain optimize optimize_assert reset is_dynamo_supported"
    )
    | named(".compiler.exporting", "export ExportResult"),
    "torch._dynamo.exc": named(
        ".capture.exc",
        "BackendCompilerFailed FailOnRecompileLimitHit InternalTorchDynamoError InvalidBackend "
        "RecompileError TorchDynamoException UncapturedHigherOrderOpError Unsupported UserError "
        "UserErrorType",
    ),
    "torch._dynamo.source": named(
        ".symbolic", "ConstantSource LocalSource AttrSource TensorPropertySource"
    ),
    "torch._dynamo.testing": named(
        ".compiler.counting",
        "CompileCounter CompileCounterWithBackend EagerAndRecordGraphs normalize_gm",
    ),
    "torch._dynamo.utils": {
        **named(_BACKENDS, "is_compile_supported"),
        **named(".base.counters", "counters"),
        **named(".compiler.config", "ifdynstaticdefault"),
        **named(".testing.comparison", "same"),
    },
}
