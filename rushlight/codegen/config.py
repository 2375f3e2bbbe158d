"""Switches of code generation; set them here, or for a while with `patch`."""

from __future__ import annotations

from rushlight.base.switches import patcher

# Whether compiled code is kept on disk and taken from there, see `cache`.
fx_graph_cache = True

# torch's switch that has one value here.
fx_graph_remote_cache = False

patch = patcher(
    __name__,
    held={"fx_graph_remote_cache": "Point RUSHLIGHT_CACHE_DIR at a folder that is shared."},
)
