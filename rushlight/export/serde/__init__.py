"""Programs as files: torch's `.pt2` archives and the JSON in them."""

from __future__ import annotations

from rushlight.base.lazy import namespace

HOMES = {
    **dict.fromkeys(
        ("load", "save", "load_pt2", "package_pt2", "is_pt2_package", "PT2ArchiveContents"),
        ".archive",
    ),
    **dict.fromkeys(("SerializedArtifact", "deserialize", "serialize"), ".programs"),
    **dict.fromkeys(("SCHEMA_VERSION", "TREESPEC_VERSION", "SerializeError"), ".schema"),
}

__getattr__, __dir__ = namespace(__name__, HOMES)
