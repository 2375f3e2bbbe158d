"""What capture raises to itself."""

from __future__ import annotations


class NoNativeForm(Exception):
    """An instruction or a frame that cannot be run in parts: all of it runs natively."""
