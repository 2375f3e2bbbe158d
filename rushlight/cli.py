"""The command `rushlight`: `run` and `launch` start torch scripts, `env` makes `torch` mean
rushlight in an environment, `doctor` describes this installation, `cache` looks after what is kept
on disk, `explain` tells what the code of an error means.

Output is plain text on stdout, or JSON; progress and complaints go to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# extra -> what it brings: (import name, distribution names)
EXTRAS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "compile": (
        ("llvmlite", ("llvmlite",)),
        ("sympy", ("sympy",)),
        ("networkx", ("networkx",)),
    ),
    "mkl": (("mkl", ("mkl",)),),
    "cuda": (
        ("cupy", ("cupy", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda11x")),
        ("triton", ("triton",)),
    ),
    "onnx": (("onnx", ("onnx",)), ("onnxruntime", ("onnxruntime",))),
    "mpi": (("mpi4py", ("mpi4py",)), ("mpich", ("mpich",))),
    "tensorboard": (("tensorboard", ("tensorboard",)), ("PIL", ("pillow",))),
}

COUNTS = ("entries", "names", "pairs", "samples", "errors", "blanks", "refused")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_IMPORT_RUNS = 3
_MARKS = {"given": "G", "derived": "d", "refused": "r", "": "?"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["launch"], ["torchrun"]):
        from rushlight.distributed.run import launch

        return launch(words[1:])
    words, rest = _split_run(words)
    options = _parser().parse_args(words)
    if options.command == "run":
        from rushlight.compat.launcher import run

        return run(
            options.target,
            rest,
            module=options.module,
            full=options.traceback,
            missing=options.missing,
        )
    if options.command == "package":
        return _package(options)
    if options.command == "doctor":
        return _doctor(options)
    if options.command == "explain":
        return _explain(options.code)
    if options.command == "env":
        return _env(options.python, options.remove)
    if options.command == "cache":
        return _cache(options)
    _parser().print_help()
    return 2


def _split_run(words: list[str]) -> tuple[list[str], list[str]]:
    """Everything after `run`'s target belongs to the script, whatever it looks like."""
    if words[:1] != ["run"]:
        return words, []
    for i, word in enumerate(words[1:], 1):
        if words[i - 1] == "--missing":  # what follows is its file
            continue
        if word.startswith("-m") and word != "-m":  # -mMODULE, as python takes it
            return [*words[:i], "-m", word[2:]], words[i + 1 :]
        if not word.startswith("-"):
            return words[: i + 1], words[i + 1 :]
    return words, []


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        print(f"rushlight {_rushlight_version()}")
        parser.exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rushlight", description="PyTorch's programming model on NumPy.", allow_abbrev=False
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    run = commands.add_parser(
        "run",
        help="run a script or module that imports torch",
        usage="rushlight run [--traceback] [--missing FILE] (SCRIPT | -m MODULE) [ARG ...]",
        description="Run a PyTorch script, unmodified, on rushlight. "
        "Exit status 3: the script uses a name that rushlight does not have.",
        allow_abbrev=False,
    )
    run.add_argument("-m", dest="module", action="store_true", help="TARGET is a module's name")
    run.add_argument(
        "--traceback", action="store_true", help="show the traceback of a missing name too"
    )
    run.add_argument(
        "--missing", metavar="FILE", help="write every name that was asked for and missing, as JSON"
    )
    run.add_argument("target", metavar="TARGET", help="script, folder or archive; with -m a module")

    # Its options are read by what starts the processes.
    commands.add_parser(
        "launch", add_help=False, help="run a script in several processes (also: torchrun)"
    )

    package = commands.add_parser(
        "package",
        help="compile an exported program ahead of time",
        description="Write an exported program as a package of machine code, which loads without "
        "a compiler: rushlight.deploy.load_package(PATH). A package is a program: load only "
        "what you would run.",
        allow_abbrev=False,
    )
    package.add_argument("program", metavar="MODEL.pt2", help="what torch.export.save wrote")
    package.add_argument(
        "-o", "--output", metavar="PATH", required=True, help="a folder, or a file *.pt2 or *.zip"
    )
    package.add_argument(
        "--target",
        metavar="NAME",
        action="append",
        help="instructions to make code for, the best first: host, x86-64, x86-64-v2 to -v4",
    )
    package.add_argument(
        "--c", metavar="NAME", dest="library", help="write a C library NAME into the folder instead"
    )

    doctor = commands.add_parser(
        "doctor",
        help="describe this installation",
        description="Describe this installation, or the operators.",
        allow_abbrev=False,
    )
    doctor.add_argument("--json", action="store_true", help="print JSON")
    doctor.add_argument("--ops", action="store_true", help="audit the rules of every operator")
    doctor.add_argument("--names", action="store_true", help="what became of torch's public names")
    doctor.add_argument("--op", metavar="NAME", help="show one operator's record")

    env = commands.add_parser(
        "env",
        help="make `torch` mean rushlight in a Python environment",
        description="Make `torch` mean rushlight for every program of a Python environment, "
        "notebooks and tests too. An environment that has PyTorch is left alone.",
        allow_abbrev=False,
    )
    env.add_argument(
        "--python", metavar="PATH", default=sys.executable, help="the environment's interpreter"
    )
    env.add_argument("--remove", action="store_true", help="undo it")

    cache = commands.add_parser(
        "cache",
        help="show, clear or warm what compiling keeps on disk",
        description="What compiling keeps on disk: traced graphs, and native code. `show` counts "
        "it, `clear` removes it, `warm` makes the native code of eager calls beforehand.",
        allow_abbrev=False,
    )
    cache.add_argument("action", choices=("show", "clear", "warm"), nargs="?", default="show")
    cache.add_argument(
        "--kind", choices=("graphs", "code"), action="append", help="only this (clear)"
    )
    cache.add_argument("--json", action="store_true", help="print JSON")

    explain = commands.add_parser(
        "explain",
        help="tell what the code of an error means",
        description="Tell what the code of an error means, and what to do.",
        allow_abbrev=False,
    )
    explain.add_argument("code", metavar="CODE", help="as the error shows it, such as RL0401")
    return parser


# -------------------------------------------------------------------- package


def _package(options: argparse.Namespace) -> int:
    from rushlight import deploy, export

    try:
        program = export.load(options.program)
        if options.library is not None:
            target = (options.target or ["x86-64"])[0]
            place = (options.output, options.library)
            path = deploy.write_c_library(program, *place, target=target)
        elif options.target:
            path = deploy.package(program, options.output, targets=options.target)
        else:
            path = deploy.package(program, options.output)
    except (OSError, RuntimeError, ValueError) as problem:
        print(f"rushlight package: {problem}", file=sys.stderr)
        return 1
    print(path)
    return 0


def _progress(text: str) -> None:
    """One line on a terminal, rewritten; silent otherwise. Empty text clears it."""
    if sys.stderr.isatty():
        end = f"{text} ..." if text else ""
        print(f"\r\x1b[K{end}", end="", file=sys.stderr, flush=True)


# -------------------------------------------------------------------- explain


def _explain(code: str) -> int:
    from rushlight.base import errors

    try:
        print(errors.explain(code.upper()))
    except KeyError:
        print(
            f"rushlight explain: there is no code {code!r}; docs/errors.md lists them",
            file=sys.stderr,
        )
        return 1
    return 0


# -------------------------------------------------------------------- env


def _env(python: str, remove: bool) -> int:
    from rushlight.compat import environment

    try:
        if remove:
            was_there = environment.remove(python)
            print(f"torch is {'no longer' if was_there else 'not'} rushlight for {python}")
            return 0 if was_there else 1
        site = environment.install(python)
    except (RuntimeError, OSError) as failure:
        print(f"rushlight env: {failure}", file=sys.stderr)
        for note in getattr(failure, "__notes__", ()):
            print(f"  {note}", file=sys.stderr)
        return 1
    print(f"torch is rushlight for {python} ({site / environment.PTH})")
    return 0


# -------------------------------------------------------------------- cache


def _cache(options: argparse.Namespace) -> int:
    from rushlight.compiler import upkeep

    if options.action == "warm":
        try:
            made = upkeep.warm(_progress)
        except ImportError as problem:  # the compiler is not installed
            print(f"rushlight cache: {problem}", file=sys.stderr)
            return 1
        _progress("")
        print(json.dumps({"made": made}) if options.json else f"made {made} pieces of native code")
        return 0
    is_clearing = options.action == "clear"
    facts = upkeep.clear(options.kind or list(upkeep.KINDS)) if is_clearing else upkeep.usage()
    if options.json:
        print(json.dumps(facts, indent=2))
        return 0
    for kind, fact in facts.items():
        size = f"{fact['bytes'] / 1e6:.1f} MB"
        done = "removed " if is_clearing else ""
        print(f"{kind:8s}{done}{fact['entries']} entries, {size}, {fact['folder']}")
    return 0


# -------------------------------------------------------------------- doctor


def _doctor(options: argparse.Namespace) -> int:
    if sum(map(bool, (options.ops, options.op, options.names))) > 1:
        print("rushlight doctor: give one of --ops, --op and --names", file=sys.stderr)
        return 2
    if options.names:
        return _doctor_names(options.json)
    if options.ops:
        return _doctor_ops(options.json)
    if options.op:
        return _doctor_op(options.op, options.json)
    facts = examine()
    if options.json:
        print(json.dumps(facts, indent=2))
    else:
        print(_facts_as_text(facts))
    return 0


def examine() -> dict[str, Any]:
    """What can be said about this installation; plain data."""
    _progress("reading versions")
    facts: dict[str, Any] = {
        "versions": _versions(),
        "extras": _extras(),
        "blas": _blas(),
        "cpu": _cpu(),
        "threads": _threads(),
        "mpi": _mpi(),
        "import": _import_cost(),
    }
    _progress("")
    return facts


def _distribution_version(*names: str) -> str | None:
    from importlib import metadata

    for name in names:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _rushlight_version() -> str:
    import rushlight

    own = getattr(rushlight, "__version__", None)
    return str(own or _distribution_version("rushlight") or "unknown")


def _versions() -> dict[str, str | None]:
    import platform

    return {
        "rushlight": _rushlight_version(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        "numpy": _distribution_version("numpy"),
        "ml_dtypes": _distribution_version("ml_dtypes"),
    }


def _extras() -> dict[str, dict[str, str | None]]:
    """Per extra, each package's version; "present" where it names none, None where absent."""
    import importlib.util

    out: dict[str, dict[str, str | None]] = {}
    for extra, packages in EXTRAS.items():
        out[extra] = {}
        for module, distributions in packages:
            version = _distribution_version(*distributions)
            if version is None and importlib.util.find_spec(module) is not None:
                version = "present"
            out[extra][module] = version
    return out


def _numpy_config() -> dict[str, Any]:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    return dict(config)


def _mpi() -> dict[str, str]:
    from rushlight.distributed import mpi

    return mpi.describe()


def _blas() -> dict[str, str]:
    found = _numpy_config().get("Build Dependencies", {}).get("blas", {})
    wanted = ("name", "version", "openblas configuration")
    return {key: str(found[key]) for key in wanted if found.get(key)}


def _cpu() -> dict[str, Any]:
    import platform

    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if "model name" in line]
            model = names[0] if names else model
    except OSError:
        pass
    simd = _numpy_config().get("SIMD Extensions", {})
    return {
        "model": model,
        "architecture": platform.machine(),
        "features": [*simd.get("baseline", ()), *simd.get("found", ())],
        "absent": list(simd.get("not found", ())),
    }


def _threads() -> dict[str, Any]:
    import rushlight

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    threads: dict[str, Any] = {"cpus": os.cpu_count(), "usable": usable}
    get = getattr(rushlight, "get_num_threads", None)
    if get is not None:
        threads["rushlight"] = get()
    threads["environment"] = {v: os.environ[v] for v in _THREAD_VARIABLES if v in os.environ}
    return threads


def _import_cost() -> dict[str, Any]:
    """CPU seconds of a first import, each in a fresh process; the least of a few runs."""
    import subprocess

    import rushlight

    root = os.path.dirname(os.path.abspath(next(iter(rushlight.__path__))))
    program = (
        "import sys, time; sys.path.append(sys.argv[2]); n = len(sys.modules); "
        "t = time.process_time(); __import__(sys.argv[1]); "
        "print(time.process_time() - t, len(sys.modules) - n)"
    )
    cost: dict[str, Any] = {}
    for name in ("numpy", "rushlight"):
        best: tuple[float, int] | None = None
        for i in range(_IMPORT_RUNS):
            _progress(f"measuring import {name} ({i + 1}/{_IMPORT_RUNS})")
            child = subprocess.run(
                [sys.executable, "-c", program, name, root],
                capture_output=True,
                text=True,
                check=False,
            )
            if child.returncode:
                lines = child.stderr.strip().splitlines()
                cost[name] = {"error": lines[-1] if lines else f"exit status {child.returncode}"}
                break
            seconds, modules = child.stdout.split()
            best = min(best or (float(seconds), int(modules)), (float(seconds), int(modules)))
        else:
            assert best is not None
            cost[name] = {"cpu_seconds": round(best[0], 4), "modules": best[1]}
    if all("cpu_seconds" in c for c in cost.values()):
        own = cost["rushlight"]["cpu_seconds"] - cost["numpy"]["cpu_seconds"]
        cost["rushlight_beyond_numpy"] = {"cpu_seconds": round(max(own, 0.0), 4)}
    return cost


# -------------------------------------------------------------------- doctor as text


def _section(title: str, pairs: Iterable[tuple[str, str]]) -> str:
    rows = list(pairs)
    width = max((len(key) for key, _ in rows), default=0)
    return "\n".join([title, *(f"  {key:<{width}}  {value}".rstrip() for key, value in rows)])


def _facts_as_text(facts: Mapping[str, Any]) -> str:
    extras = []
    for extra, packages in facts["extras"].items():
        parts = [f"{name} {version or '(absent)'}" for name, version in packages.items()]
        mark = "" if all(packages.values()) else f"    pip install 'rushlight[{extra}]'"
        extras.append((extra, ", ".join(parts) + mark))
    cpu, threads = facts["cpu"], facts["threads"]
    thread_rows = [(k, str(v)) for k, v in threads.items() if k != "environment"]
    thread_rows += list(threads["environment"].items())
    imports = []
    for name, cost in facts["import"].items():
        if "error" in cost:
            imports.append((name, f"failed: {cost['error']}"))
        else:
            modules = f", {cost['modules']} modules" if "modules" in cost else ""
            label = name.replace("_", " ")
            imports.append((label, f"{cost['cpu_seconds'] * 1e3:.0f} ms CPU{modules}"))
    return "\n\n".join(
        (
            _section("Versions", ((k, v or "(absent)") for k, v in facts["versions"].items())),
            _section("Extras", extras),
            _section("BLAS", facts["blas"].items() or [("name", "unknown")]),
            _section(
                "CPU",
                (
                    ("model", cpu["model"]),
                    ("features", " ".join(cpu["features"])),
                    ("absent", " ".join(cpu["absent"])),
                ),
            ),
            _section("Threads", thread_rows),
            _section("MPI", facts["mpi"].items()),
            _section(f"Import (least of {_IMPORT_RUNS})", imports),
        )
    )


# -------------------------------------------------------------------- operators


def _get(result: Any, key: str) -> Any:
    return result[key] if isinstance(result, Mapping) else getattr(result, key)


def _doctor_ops(as_json: bool) -> int:
    from rushlight.opset import audit

    _progress("reading the operators")
    result = audit.collect()
    _progress("")
    counts = {key: int(_get(result, key)) for key in COUNTS}
    if as_json:
        print(json.dumps(counts))
    else:
        print(audit_as_text(_get(result, "rows"), counts))
    return 0


def _doctor_names(as_json: bool) -> int:
    from rushlight.compat import publicnames

    _progress("looking torch's names up")
    found = publicnames.collect()
    _progress("")
    print(json.dumps(found) if as_json else publicnames.as_table(found))
    return 0


def audit_as_text(rows: Sequence[tuple[str, Mapping[str, str]]], counts: Mapping[str, int]) -> str:
    """Op by rule, one letter a cell; then the reasons of refusals, and the totals."""
    rules = list(dict.fromkeys(rule for _, cells in rows for rule in cells))
    width = max((len(name) for name, _ in rows), default=2)
    lines = [f"{'op':<{width}}  {'  '.join(rules)}".rstrip()]
    reasons: dict[str, list[str]] = {}
    blanks: list[str] = []
    for name, cells in rows:
        marks = []
        for rule in rules:
            state = cells.get(rule)
            if state is None:  # the rule does not apply
                marks.append(" " * len(rule))
                continue
            word, _, reason = state.partition(":")
            marks.append(_MARKS.get(word.strip(), word[:1] or "?").ljust(len(rule)))
            if word == "refused":
                reasons.setdefault(reason.strip() or "no reason", []).append(f"{name}.{rule}")
            elif not word:
                blanks.append(f"{name}.{rule}")
        lines.append(f"{name:<{width}}  {'  '.join(marks)}".rstrip())
    lines += ["", "G given   d derived   r refused   ? blank"]
    if reasons:
        lines += ["", "Refused"]
        for reason, places in sorted(reasons.items(), key=lambda item: -len(item[1])):
            more = f" and {len(places) - 4} more" if len(places) > 4 else ""
            lines.append(f"  {len(places):>4}  {reason}: {', '.join(places[:4])}{more}")
    if blanks:
        lines += ["", "Blank", *(f"  {place}" for place in blanks)]
    lines += ["", "  ".join(f"{key} {counts[key]}" for key in COUNTS)]
    return "\n".join(lines)


def _doctor_op(name: str, as_json: bool) -> int:
    from rushlight.opset import audit

    try:
        record = audit.describe(name)
    except (KeyError, AttributeError, ValueError) as e:
        print(f"rushlight doctor: no operator {name!r} ({e})", file=sys.stderr)
        return 1
    if as_json:
        print(
            json.dumps(record if isinstance(record, (str, Mapping)) else vars(record), default=str)
        )
    else:
        print(record_as_text(record))
    return 0


def record_as_text(record: Any) -> str:
    """An operator's record: a text as it is, a mapping as headings with their values."""
    if isinstance(record, str):
        return record
    parts = []
    for key, value in (record if isinstance(record, Mapping) else vars(record)).items():
        if isinstance(value, Mapping):
            parts.append(_section(f"{key}:", ((str(k), str(v) or "?") for k, v in value.items())))
        elif "\n" in str(value):
            body = "\n".join(f"  {line}".rstrip() for line in str(value).strip("\n").splitlines())
            parts.append(f"{key}:\n{body}")
        else:
            parts.append(f"{key}: {value}")
    return "\n".join(parts)
