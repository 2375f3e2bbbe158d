"""Switches of code generation; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# torch: compiled graphs are kept on disk. Here objects always are, see `cache`.
fx_graph_cache = True
fx_graph_remote_cache = False

patch = patcher(__name__)
