"""Which parts of a module can be exported."""

from __future__ import annotations

from typing import Any

from rushlight.export.private import export_at
from rushlight.nn.module import Module

__all__ = ["report_exportability"]

Call = tuple[tuple[Any, ...], dict[str, Any]]


def report_exportability(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    strict: bool = True,
    pre_dispatch: bool = False,
) -> dict[str, Exception | None]:
    """For the module, what export says, or None; where it refuses, the same for the modules in it,
    by path, with the arguments of their first calls.

    >>> import rushlight as torch
    >>> report_exportability(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    {'': None}
    """
    calls = first_calls(mod, args, kwargs or {})
    report: dict[str, Exception | None] = {}

    def visit(path: str, member: Module) -> None:
        if path in calls:
            given, named = calls[path]
            report[path] = None
            try:
                export_at(member, given, named, strict=strict, pre_dispatch=pre_dispatch)
                return
            except Exception as refusal:
                report[path] = refusal
        for name, child in member.named_children():
            visit(f"{path}.{name}" if path else name, child)

    visit("", mod)
    return report


def first_calls(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Call]:
    """The arguments that each module has in one run."""
    calls: dict[str, Call] = {"": (args, kwargs)}
    handles = []
    for path, member in mod.named_modules():
        if not path:
            continue

        def note(
            module: Module, given: tuple[Any, ...], named: dict[str, Any], path: str = path
        ) -> None:
            calls.setdefault(path, (given, named))

        handles.append(member.register_forward_pre_hook(note, with_kwargs=True))
    try:
        mod(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return calls
