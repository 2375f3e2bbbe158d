"""Switches of `torch.compile`; set them here, or for a while with `patch`."""

from __future__ import annotations

from typing import Any

from rushlight.base.switches import patcher

# How often one code object is compiled before it runs as it is.
recompile_limit = 8
# How often one code object is compiled by all that compile it, before it runs as it is.
accumulated_recompile_limit = 256
# Whether reaching a limit is an error.
fail_on_recompile_limit_hit = False
# Whether compiling again is an error.
error_on_recompile = False
# torch's older names of the limits: they win where they are set.
cache_size_limit: int | None = None
accumulated_cache_size_limit: int | None = None
fail_on_cache_limit_hit = False
# Whether what is compiled from here on runs as it is.
disable = False

# Whether sizes and integers that change become symbols at the second value.
automatic_dynamic_shapes = True

# Whether integers are constants, however often they change.
specialize_int = False
# The same of floats.
specialize_float = False

# Whether sizes are constants until they change.
assume_static_by_default = True

# Whether numbers of tensors (`item`, `tolist`, `int(x)`) are part of graphs; where graphs may not
# break they always are.
capture_scalar_outputs = False
# The same of results whose sizes only data tell (`nonzero`, masks).
capture_dynamic_output_shape_ops = False

# Whether a backend that fails is an error, or the graph then runs as it is.
suppress_errors = False
# Whether what a backend makes of a graph has to give what the graph itself gives, on the inputs
# that it is compiled for.
verify_correctness = False

# Whether exported programs leave out what they would assert of sizes and data.
do_not_emit_runtime_asserts = False

# torch's switches that have one value here.
allow_unspec_int_on_nn_module = False
automatic_dynamic_shapes_mark_as = "dynamic"
compiled_autograd = False
dynamic_shapes = True
enable_cpp_symbolic_shape_guards = False
error_on_nested_fx_trace = True
force_disable_caches = False
job_id: str | None = None
log_file_name: str | None = None
minimum_call_count = 1
reorderable_logging_functions: frozenset[object] = frozenset()
numpy_default_complex = "complex128"
numpy_default_float = "float64"
numpy_default_int = "int64"
replay_record_enabled = False
repro_after: str | None = None
skip_tensor_guards_with_matching_dict_tags = True
use_graph_deduplication = False
use_numpy_random_stream = False
verbose = False
wrap_top_frame = False

BREAKS = "The graph breaks there without it, and results are the same."
ARRAYS = "Give arrays a dtype."
LOGS = "Call torch._logging.set_logs(), or set RUSHLIGHT_LOGS=all."

patch = patcher(
    __name__,
    held={
        "allow_unspec_int_on_nn_module": "Set specialize_int = False, which holds for modules too.",
        "automatic_dynamic_shapes_mark_as": "Sizes that change are symbols with a value.",
        "compiled_autograd": "Backward passes of compiled functions are compiled with them.",
        "dynamic_shapes": "Set automatic_dynamic_shapes = False.",
        "enable_cpp_symbolic_shape_guards": "Guards are Python here.",
        "error_on_nested_fx_trace": "Trace before you compile.",
        "force_disable_caches": "Set torch._inductor.config.fx_graph_cache = False.",
        "job_id": "Point RUSHLIGHT_CACHE_DIR at a folder of the job.",
        "log_file_name": LOGS,
        "reorderable_logging_functions": "What is printed between two graphs keeps its place.",
        "minimum_call_count": "Call the function itself before you compile it.",
        "numpy_default_complex": ARRAYS,
        "numpy_default_float": ARRAYS,
        "numpy_default_int": ARRAYS,
        "replay_record_enabled": LOGS,
        "repro_after": LOGS,
        "skip_tensor_guards_with_matching_dict_tags": "Guards are checked whatever it says.",
        "use_graph_deduplication": "Mark what repeats with torch.compiler.nested_compile_region.",
        "use_numpy_random_stream": "NumPy's random functions break graphs and draw as ever.",
        "verbose": LOGS,
        "wrap_top_frame": BREAKS,
    },
    # torch: how its own compiler goes about its work, or what it tells of it.
    tuning={
        "allow_empty_graphs": False,
        "allow_ignore_mark_dynamic": False,
        "allow_rnn": False,
        "automatic_dynamic_local_pgo": True,
        "automatic_dynamic_remote_pgo": None,
        "base_dir": "",
        "capture_autograd_function": True,
        "capture_func_transforms": True,
        "capture_sparse_compute": True,
        "cprofile": False,
        "dead_code_elimination": True,
        "debug_dir_root": "",
        "enable_cpp_guard_manager": True,
        "enable_faithful_generator_behavior": True,
        "enable_trace_contextlib": True,
        "enable_trace_unittest": False,
        "fake_tensor_cache_crosscheck_enabled": False,
        "fake_tensor_cache_enabled": True,
        "force_nn_module_property_static_shapes": True,
        "force_parameter_static_shapes": True,
        "graph_break_on_nn_param_ctor": True,
        "guard_nn_modules": True,
        "guard_nn_modules_using_dict_tags": True,
        "inline_inbuilt_nn_modules": True,
        "log_compilation_metrics": True,
        "nontraceable_tensor_subclasses": set(),
        "only_allow_pt2_compliant_ops": False,
        "optimize_ddp": True,
        "prefer_deferred_runtime_asserts_over_guards": False,
        "prepare_freezing": False,
        "raise_on_ctx_manager_usage": True,
        "report_guard_failures": True,
        "rewrite_assert_with_torch_assert": True,
        "run_gc_after_compile": True,
        "same_two_models_use_fp64": True,
        "skip_fsdp_guards": True,
        "skip_nnmodule_hook_guards": True,
        "skip_no_tensor_aliasing_guards_on_parameters": True,
        "skip_torchrec": True,
        "trace_numpy": True,
        "traceable_tensor_subclasses": set(),
        "track_nodes_for_deduplication": False,
        "use_lazy_graph_module": True,
    },
)


def limit() -> int:
    return recompile_limit if cache_size_limit is None else cache_size_limit


def total() -> int:
    """How often a code object is compiled by all that compile it."""
    older = accumulated_cache_size_limit
    return accumulated_recompile_limit if older is None else older


def fails_at_limit() -> bool:
    return fail_on_recompile_limit_hit or fail_on_cache_limit_hit


def ifdynstaticdefault(count1: Any, count2: Any) -> Any:
    """torch: which of two counts to expect: with sizes that are constants at first, or not."""
    return count1 if assume_static_by_default else count2
