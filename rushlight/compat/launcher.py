"""`rushlight run`: runs a script or module that imports torch, unmodified.

The script is `__main__` as under `python` itself: sys.argv, sys.path[0], exit status, traceback.
Processes it starts see `torch` too: `shim/` goes on PYTHONPATH and on sys.path (multiprocessing
hands the latter to its workers). A missing name ends the run with a short report and status 3.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError
from types import CodeType, ModuleType, TracebackType
from typing import Any, NamedTuple

from rushlight.compat import asked
from rushlight.compat.near import PUBLIC, ROOTS, nearest

MISSING_STATUS = 3

_HERE = os.path.abspath(__file__)
_PACKAGE = os.path.dirname(os.path.dirname(_HERE))
_SHIM = os.path.join(os.path.dirname(_HERE), "shim")
# what mpirun and its kin put into the environment
_MPIRUN = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_STEP_ID")


class Missing(NamedTuple):
    """A name that the script uses and rushlight does not have."""

    name: str  # as the script would write it: torch.nn.Foo
    text: str  # one line: what is wrong
    note: str  # why, or what to do instead; may be empty


class NotRunnable(Exception):
    """`-m` names what is no module, or a package without a `__main__`."""


# -------------------------------------------------------------------- running


def run(
    target: str,
    args: Sequence[str],
    *,
    module: bool = False,
    full: bool = False,
    missing: str | None = None,
) -> int:
    """Run `target` (a path, or a module's name) as `__main__`; returns the exit status.

    SystemExit passes through. `full` adds the traceback to the report of a missing name. What was
    asked for and not found is written to the file `missing`; where a run fails for another reason,
    for libraries hide such errors, it is told.
    """
    from rushlight import compat

    compat.install()
    asked.start()
    if any([name in os.environ for name in _MPIRUN]):
        from rushlight.distributed.mpi import tell_environment

        tell_environment()
    try:
        return _run(target, args, module, full)
    except SystemExit as end:
        if end.code not in (None, 0):
            _tell_asked()
        raise
    finally:
        if missing is not None:
            with open(missing, "w", encoding="utf-8") as file:
                file.write(asked.as_json() + "\n")


def _tell_asked() -> None:
    told = asked.summary()
    if told:
        print(told, file=sys.stderr, flush=True)


def _run(target: str, args: Sequence[str], module: bool, full: bool) -> int:
    _prepare_children()
    sys.argv = ["-m" if module else target, *args]
    try:
        load = _load_module if module else _load_script
        try:
            code, main = load(target)
        except NotRunnable as e:
            print(f"rushlight: {e}", file=sys.stderr)
            return 1
        except OSError as e:
            if module:
                raise
            print(f"rushlight: can't open file {target!r}: {e.strerror or e}", file=sys.stderr)
            return 2
        sys.modules["__main__"] = main
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        return _end_with(error, full)
    return 0


def _prepare_children() -> None:
    """Make Python processes started from here find rushlight when they import torch."""
    inherited = os.environ.get("PYTHONPATH", "")
    if _SHIM not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = _SHIM + (os.pathsep + inherited if inherited else "")
    if _SHIM not in sys.path:
        sys.path.insert(0 if sys.flags.safe_path else 1, _SHIM)
    root = os.path.dirname(_PACKAGE)
    if root not in (os.path.abspath(p) for p in sys.path[1:]):
        sys.path.append(root)


def _replace_first_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _load_script(path: str) -> tuple[CodeType, ModuleType]:
    import pkgutil

    main = ModuleType("__main__")
    importer = None if os.path.isfile(path) and path.endswith(".py") else pkgutil.get_importer(path)
    if importer is not None and (spec := importer.find_spec("__main__")) is not None:
        # a folder or zip archive with a __main__.py
        folder = os.path.abspath(path)
        sys.path.insert(0, folder) if sys.flags.safe_path else _replace_first_path(folder)
        return _code_of(spec, main)
    with io.open_code(os.path.abspath(path)) as file:
        source = file.read()
    _replace_first_path(os.path.dirname(os.path.realpath(path)))
    main.__dict__.update(__file__=os.path.abspath(path), __cached__=None, __spec__=None)
    main.__package__ = None
    return compile(source, main.__dict__["__file__"], "exec", dont_inherit=True), main


def _load_module(name: str) -> tuple[CodeType, ModuleType]:
    _replace_first_path(os.getcwd())
    spec = _spec_of(name)
    if spec is not None and spec.submodule_search_locations is not None:
        package, name = name, f"{name}.__main__"
        spec = _spec_of(name)
        if spec is None:
            raise NotRunnable(
                f"No module named {name}; {package!r} is a package and cannot be directly executed"
            )
    if spec is None:
        raise NotRunnable(f"No module named {name}")
    code, main = _code_of(spec, ModuleType("__main__"))
    sys.argv[0] = code.co_filename
    return code, main


def _spec_of(name: str) -> Any:
    """The module's spec, or None. What a parent package raises itself passes through."""
    parent = name.rpartition(".")[0]
    if parent:
        try:
            importlib.import_module(parent)
        except ImportError as e:
            # a parent that is absent is find_spec's to tell
            if e.name is None or not f"{parent}.".startswith(f"{e.name}."):
                raise
    try:
        return importlib.util.find_spec(name)
    except (ImportError, AttributeError, TypeError, ValueError) as e:
        text = f"Error while finding module specification for {name!r} ({type(e).__name__}: {e})"
        if name.endswith(".py"):
            text += f". Try using {name[:-3]!r} instead of {name!r} as the module name."
        raise NotRunnable(text) from e


def _code_of(spec: Any, main: ModuleType) -> tuple[CodeType, ModuleType]:
    code = spec.loader.get_code(spec.name) if hasattr(spec.loader, "get_code") else None
    if code is None:
        raise ImportError(f"No code object available for {spec.name}", name=spec.name)
    main.__dict__.update(__file__=code.co_filename, __cached__=spec.cached, __spec__=spec)
    main.__package__ = spec.parent
    main.__loader__ = spec.loader
    return code, main


# -------------------------------------------------------------------- errors


def _end_with(error: BaseException, full: bool) -> int:
    first = error.__traceback__
    launcher = _end_with.__code__.co_filename
    while first is not None and first.tb_frame.f_code.co_filename.startswith(
        (launcher, "<frozen ")
    ):
        first = first.tb_next
    error.__traceback__ = first
    missing = find_missing(error)
    if missing is None or full:
        sys.excepthook(type(error), error, first)
    if missing is not None:
        sys.stdout.flush()
        print(report(missing, first), file=sys.stderr, flush=True)
        return MISSING_STATUS
    _tell_asked()
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _frames(tb: TracebackType | None) -> Iterator[tuple[str, int, str]]:
    while tb is not None:
        code = tb.tb_frame.f_code
        yield code.co_filename, tb.tb_lineno, code.co_name
        tb = tb.tb_next


def _raised_inside(tb: TracebackType | None) -> bool:
    """Whether rushlight's own code, not the script's, asked for the name."""
    asking = [f for f, _, function in _frames(tb) if not asked.is_lookup(f, function)]
    return bool(asking) and asked.is_ours(asking[-1])


def find_missing(error: BaseException) -> Missing | None:
    """The missing torch name behind an exception; None for any other failure."""
    from rushlight.base.errors import MissingFeature

    if isinstance(error, MissingFeature):
        what = str(getattr(error, "what", "")) or str(error)
        note = "\n".join(getattr(error, "__notes__", ()))
        return Missing(what, str(error), note)
    if isinstance(error, PackageNotFoundError):
        return _missing_distribution(error)
    if _raised_inside(error.__traceback__):
        return None
    name = None
    if isinstance(error, ImportError):
        name = _missing_import(error)
    elif isinstance(error, AttributeError):
        name = _missing_attribute(error)
    if name is None:
        return None
    text = str(error)
    note = text[text.index("it stands for") :] if "it stands for" in text else ""
    return Missing(name, f"{name} is missing", note)


def _missing_distribution(error: PackageNotFoundError) -> Missing | None:
    """A library asked for the metadata of a distribution of torch's that is not there."""
    name = str(error.args[0]) if error.args else ""
    if name.partition("-")[0] not in ROOTS:
        return None
    text = f"no distribution named {name!r} is installed; the program asked for its metadata"
    return Missing("", text, "Its names may be there all the same: import them.")


def _torch_name(module: str) -> str:
    """`rushlight.nn` -> `torch.nn`; torch's own names stay."""
    root, dot, rest = module.partition(".")
    return f"torch{dot}{rest}" if root == "rushlight" else module


def _is_torch(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in ROOTS


def _missing_import(error: ImportError) -> str | None:
    if not _is_torch(error.name):
        return None
    if isinstance(error, ModuleNotFoundError):
        return _torch_name(str(error.name))
    imported = getattr(error, "name_from", None)  # Python 3.12
    if imported is None:
        text = str(error)
        if not text.startswith("cannot import name '"):
            return None
        imported = text.split("'")[1]
    return f"{_torch_name(str(error.name))}.{imported}"


def _missing_attribute(error: AttributeError) -> str | None:
    owner, name = error.obj, error.name
    if name is None:
        return None
    if isinstance(owner, ModuleType):
        module = owner.__name__
        return f"{_torch_name(module)}.{name}" if _is_torch(module) else None
    cls = owner if isinstance(owner, type) else type(owner)
    if not _is_torch(cls.__module__):
        return None
    return f"{_public_name(cls)}.{name}"


def _public_name(cls: type) -> str:
    for path in PUBLIC:
        module = sys.modules.get(path.replace("torch", "rushlight", 1))
        if module is not None and module.__dict__.get(cls.__name__) is cls:
            return f"{path}.{cls.__name__}"
    return f"{_torch_name(cls.__module__)}.{cls.__qualname__}"


# -------------------------------------------------------------------- the report


def report(missing: Missing, tb: TracebackType | None) -> str:
    """What is missing, where the script asks for it, and what comes close."""
    import linecache

    lines = [f"rushlight: {missing.text}"]
    users = [f for f in _frames(tb) if not asked.is_ours(f[0]) and not asked.is_lookup(f[0], f[2])]
    if users:
        filename, line, _ = users[-1]
        lines.append(f"  at {_shown(filename)}:{line}")
        source = linecache.getline(filename, line).strip()
        if source:
            lines.append(f"      {source}")
        if users[0][0] != filename:
            lines.append(f"  reached from {_shown(users[0][0])}:{users[0][1]}")
    lines += [f"  {line}" for line in missing.note.splitlines()]
    near = nearest(missing.name)
    if near:
        lines.append(f"  nearest: {', '.join(near)}")
    return "\n".join(lines)


def _shown(filename: str) -> str:
    try:
        relative = os.path.relpath(filename)
    except ValueError:  # another drive
        return filename
    return filename if relative.startswith("..") else relative
