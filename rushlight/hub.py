"""torch.hub: models that a `hubconf.py` makes, from a folder or a repository, and stored weights.

What is fetched is kept in `get_dir()`; what is there is not fetched again. A download that cannot
be made says where to put the file by hand.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlparse

from rushlight.base.errors import error
from rushlight.base.lazy import load as load_package

__all__ = [
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir",
]  # fmt: skip

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
BRANCHES = ("main", "master")
_chosen: builtins.list[str] = []


def tqdm(*args: Any, **kwargs: Any) -> Any:
    """The progress bar of the package tqdm, where that is installed."""
    return load_package("tqdm.auto").tqdm(*args, **kwargs)


def get_dir() -> str:
    """The folder for what is fetched: `set_dir`'s, $TORCH_HOME/hub, or ~/.cache/torch/hub."""
    return _chosen[-1] if _chosen else os.path.join(get_home(), "hub")


def get_home() -> str:
    """$TORCH_HOME, or ~/.cache/torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep what is fetched in another folder."""
    _chosen[:] = [os.path.expanduser(d)]


def unreachable(url: str, place: str, cause: Exception) -> NoReturn:
    raise error("RL1310", ConnectionError, url=url, place=place, cause=cause) from cause


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file; the first digits of its SHA-256 must be `hash_prefix`, where that is given."""
    import tempfile
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", delete=False) as part:
        try:
            try:
                with urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
                    while block := source.read(READ_DATA_CHUNK):
                        part.write(block)
                        digest.update(block)
            except (URLError, OSError) as cause:
                unreachable(url, dst, cause)
            found = digest.hexdigest()
            if hash_prefix is not None and not found.startswith(hash_prefix):
                found = found[: len(hash_prefix)]
                raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
            part.close()
            os.replace(part.name, dst)
        except BaseException:
            part.close()
            Path(part.name).unlink(missing_ok=True)
            raise
    if progress:
        print(f"{url} is in {dst}", file=sys.stderr)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """`torch.load` of a file that is fetched on first use. Files are read without trust."""
    from rushlight.io.checkpoint import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    place = os.path.join(folder, name)
    if not os.path.exists(place):
        named = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, place, named[1] if named else None, progress)
    loaded: dict[str, Any] = load_file(place, map_location=map_location, weights_only=weights_only)
    return loaded


# -------------------------------------------------------------------- repositories


def folder_of(github: str, force_reload: bool, trust_repo: Any) -> str:
    """The folder of a repository `owner/name[:ref]`, which is fetched as an archive if need be."""
    import shutil
    import zipfile

    match = re.fullmatch(r"([^/:]+)/([^/:]+)(?::(.+))?", github)
    if match is None:
        raise ValueError(f"expected a repository as 'owner/name[:ref]', got {github!r}")
    owner, name, ref = match.groups()
    places = [(each, place_of(owner, name, each)) for each in ([ref] if ref else BRANCHES)]
    if not force_reload:
        for _, place in places:
            if os.path.isdir(place):
                return place
    check_trust(f"{owner}/{name}", trust_repo)
    os.makedirs(get_dir(), exist_ok=True)
    for number, (branch, place) in enumerate(places):
        archive = f"{place}.zip"
        url = f"https://github.com/{owner}/{name}/zipball/{branch}"
        try:
            download_url_to_file(url, archive, progress=False)
        except ConnectionError:
            if number + 1 < len(places):
                continue
            raise
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(f"{place}.part")
        (inner,) = Path(f"{place}.part").iterdir()
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(inner, place)
        shutil.rmtree(f"{place}.part")
        os.remove(archive)
        break
    return place


def place_of(owner: str, name: str, ref: str) -> str:
    return os.path.join(get_dir(), "_".join([owner, name, ref.replace("/", "_")]))


def check_trust(repository: str, trust_repo: Any) -> None:
    """Fetched code runs with the rights of the user, who has to have said so."""
    if trust_repo in (True, "check", None):
        if trust_repo is True:
            return
        known = Path(get_dir()) / "trusted_list"
        listed = known.read_text().split() if known.exists() else []
        if repository.replace("/", "_") in listed:
            return
    raise error("RL1311", PermissionError, repository=repository)


def read_config(folder: str) -> ModuleType:
    """The module that `hubconf.py` of a folder is; what it imports may lie beside it."""
    place = os.path.join(folder, "hubconf.py")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf.py", place)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        name
        for name in getattr(module, "dependencies", ())
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def entry_of(folder: str, model: str) -> Any:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    entry = getattr(read_config(folder), model, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return entry


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a folder's or a repository's `hubconf.py` makes."""
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        repo_or_dir = folder_of(repo_or_dir, force_reload, trust_repo)
    return entry_of(repo_or_dir, model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
    verbose: bool = True,
) -> builtins.list[str]:
    """The names of the functions that a repository's `hubconf.py` offers."""
    config = read_config(folder_of(github, force_reload, trust_repo))
    return [name for name in dir(config) if callable(getattr(config, name)) and name[0] != "_"]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = "check",
) -> str | None:
    """The documentation of a function that a repository's `hubconf.py` offers."""
    doc: str | None = entry_of(folder_of(github, force_reload, trust_repo), model).__doc__
    return doc
