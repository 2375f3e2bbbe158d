"""Switches of `torch.compile`; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# How often one code object is compiled before it runs as it is.
recompile_limit = 8
# How often one code object is compiled by all that compile it, before it runs as it is.
accumulated_recompile_limit = 256
# Whether reaching a limit is an error.
fail_on_recompile_limit_hit = False
# Whether compiling again is an error.
error_on_recompile = False
# torch's older names of both limits: each wins where it is set to a number.
cache_size_limit: int | None = None
accumulated_cache_size_limit: int | None = None

# Whether sizes and integers that change become symbols at the second value.
automatic_dynamic_shapes = True

# Whether integers are constants, however often they change.
specialize_int = False
# The same of floats.
specialize_float = False

# Whether sizes are constants until they change.
assume_static_by_default = True

# Whether a backend that fails is an error, or the graph then runs as it is.
suppress_errors = False

# Whether exported programs leave out what they would assert of sizes and data.
do_not_emit_runtime_asserts = False

# torch's switches that have one value here.
allow_unspec_int_on_nn_module = False
compiled_autograd = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
trace_numpy = True
capture_dynamic_output_shape_ops = False
capture_scalar_outputs = False
dynamic_shapes = True
enable_cpp_symbolic_shape_guards = False
force_disable_caches = False
job_id: str | None = None
log_file_name: str | None = None
reorderable_logging_functions: frozenset[object] = frozenset()
skip_tensor_guards_with_matching_dict_tags = True
verbose = False
wrap_top_frame = False

BREAKS = "The graph breaks there without it, and results are the same."
LOGS = "Call torch._logging.set_logs(), or set RUSHLIGHT_LOGS=all."

patch = patcher(
    __name__,
    held={
        "allow_unspec_int_on_nn_module": "Set specialize_int = False, which holds for modules too.",
        "compiled_autograd": "The backward of each graph is compiled with it; no other is.",
        "guard_nn_modules": "Modules are guarded, whatever it says.",
        "inline_inbuilt_nn_modules": "Modules are read as other code is, whatever it says.",
        "trace_numpy": "Put what NumPy computes into a function of torch.compiler.disable().",
        "capture_dynamic_output_shape_ops": BREAKS,
        "capture_scalar_outputs": BREAKS,
        "dynamic_shapes": "Set automatic_dynamic_shapes = False.",
        "enable_cpp_symbolic_shape_guards": "Guards are Python here.",
        "force_disable_caches": "Set torch._inductor.config.fx_graph_cache = False.",
        "job_id": "Point RUSHLIGHT_CACHE_DIR at a folder of the job.",
        "log_file_name": LOGS,
        "reorderable_logging_functions": "What is printed between two graphs keeps its place.",
        "skip_tensor_guards_with_matching_dict_tags": "Guards are checked whatever it says.",
        "verbose": LOGS,
        "wrap_top_frame": BREAKS,
    },
    tuning={"log_compilation_metrics": True, "optimize_ddp": True, "skip_fsdp_guards": True},
)


def limit() -> int:
    return recompile_limit if cache_size_limit is None else cache_size_limit


def accumulated_limit() -> int:
    older = accumulated_cache_size_limit
    return accumulated_recompile_limit if older is None else older
