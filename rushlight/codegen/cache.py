"""Compiled code on disk: object files, by the hash of everything that decided them."""

from __future__ import annotations

from rushlight.base.diskcache import DiskCache, key_of

__all__ = ["OBJECTS", "key_of"]

OBJECTS = DiskCache("objects", b"rushlight-object-1\n")
