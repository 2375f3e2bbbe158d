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
# torch's older name of it: wins where it is set to a number.
cache_size_limit: int | None = None

# Whether sizes and integers that change become symbols at the second value.
automatic_dynamic_shapes = True

# Whether integers are constants, however often they change.
specialize_int = False

# Whether sizes are constants until they change.
assume_static_by_default = True

# Whether a backend that fails is an error, or the graph then runs as it is.
suppress_errors = False

# Whether exported programs leave out what they would assert of sizes and data.
do_not_emit_runtime_asserts = False

patch = patcher(__name__)


def limit() -> int:
    return recompile_limit if cache_size_limit is None else cache_size_limit
