"""Switches of ahead-of-time compilation; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# Find the facts anew from every graph that is traced or cut, and compare them with those of the dry
# run; refuse inputs that require gradients where the compiled ones did not.
debug_assert = False
# Whether the min-cut partitioner makes common subexpressions one node first.
cse = True
# Whether the min-cut partitioner computes views again rather than save them.
recompute_views = False
# Whether outputs that alias something are rebuilt by their own view ops; by `as_strided` if not.
view_replay_for_aliased_outputs = True

# Whether graphs of graph modules are kept on disk and taken from there, see `cache`.
enable_autograd_cache = False
# Whether what cannot be kept is an error.
strict_autograd_cache = False

# torch's switch that has one value here.
functionalize_rng_ops = False

patch = patcher(
    __name__,
    held={"functionalize_rng_ops": "Random ops draw from the generator when the graph runs."},
    tuning={"donated_buffer": True},
)
