"""Switches of ahead-of-time compilation; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# Recompute facts after each rewriting of the arguments, and check them; guard on requires_grad.
debug_assert = False
enable_autograd_cache = False
strict_autograd_cache = False
functionalize_rng_ops = False
cse = True
recompute_views = False
view_replay_for_aliased_outputs = True
fake_tensor_allow_unsafe_data_ptr_access = True

patch = patcher(__name__)
