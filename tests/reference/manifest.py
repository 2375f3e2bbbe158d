"""manifest.txt: what the recorded files hold, a line for each op, so that a change shows as text.

`family op dtype:records ... digest`; the digest covers calls and answers, by their contents.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.reference import store

PATH = Path(__file__).with_suffix(".txt")


def text_of(reader: store.Reader, value: Any) -> Any:
    """A record with digests of contents in the place of blobs' positions."""
    if isinstance(value, dict):
        made = {
            key: entry if key == "in" else text_of(reader, entry) for key, entry in value.items()
        }
        if "at" in made:
            made["at"] = [digest(reader.blob(at)) for at in value["at"]]
        return made
    if not isinstance(value, list):
        return value
    if len(value) == 5 and isinstance(value[0], str) and isinstance(value[1], list):
        # A recorded tensor: dtype, shape, strides, offset, blob.
        return [*value[:4], None if value[4] is None else digest(reader.blob(value[4]))]
    return [text_of(reader, item) for item in value]


def digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def lines_of(path: Path) -> list[str]:
    """The lines of one file."""
    family = ".".join(path.relative_to(store.FOLDER).with_suffix("").parts)
    reader = store.family(family)
    assert reader is not None
    lines = [f"{family} torch {reader.torch}"]
    for name, entry in sorted(reader.index["ops"].items()):
        counts = " ".join(f"{kind}:{len(records)}" for kind, records in entry.items())
        whole = digest(json.dumps(text_of(reader, entry), sort_keys=True).encode())
        lines.append(f"{family} {name} {counts} {whole}")
    return lines


def manifest() -> str:
    return "".join(
        f"{line}\n" for path in sorted(store.FOLDER.rglob("*.xz")) for line in lines_of(path)
    )


if __name__ == "__main__":
    PATH.write_text(manifest())
