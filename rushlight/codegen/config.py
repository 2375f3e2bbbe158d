"""Switches of code generation; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# Whether compiled code is kept on disk and taken from there, see `cache`.
fx_graph_cache = True

# torch's switches that have one value here.
fx_graph_remote_cache = False
cpp_wrapper = False

patch = patcher(
    __name__,
    held={
        "cpp_wrapper": "A graph is one native function here, whatever it says.",
        "fx_graph_remote_cache": "Point RUSHLIGHT_CACHE_DIR at a folder that is shared.",
    },
    tuning={
        "aggressive_fusion": False,
        "allow_buffer_reuse": True,
        "batch_fusion": True,
        "benchmark_kernel": False,
        "combo_kernels": False,
        "compile_threads": 1,
        "conv_1x1_as_mm": False,
        "coordinate_descent_check_all_directions": False,
        "coordinate_descent_tuning": False,
        "cpp": {"enable_kernel_profile": False, "max_horizontal_fusion_size": 16, "simdlen": None,
                "threads": -1, "weight_prepack": True},
        "epilogue_fusion": True,
        # Compiled code draws eager's numbers in any case.
        "fallback_random": False,
        "force_fuse_int_mm_with_mul": False,
        "freezing": False,
        "group_fusion": False,
        "inplace_buffers": True,
        "layout_optimization": True,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_gemm_backends": "ATEN,TRITON,CPP",
        "max_autotune_pointwise": False,
        "memory_planning": False,
        "pattern_matcher": True,
        "permute_fusion": False,
        "profiler_mark_wrapper_call": False,
        "reorder_for_compute_comm_overlap": False,
        "reorder_for_locality": True,
        "shape_padding": True,
        "split_reductions": True,
        "triton": {"autotune_at_compile_time": None, "cudagraph_trees": True, "cudagraphs": False,
                   "persistent_reductions": True, "unique_kernel_names": True},
    },
)  # fmt: skip
