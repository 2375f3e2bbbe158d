"""LLVM IR text to functions that Python can call.

The text is compiled for the host's CPU, once for each content: the object file goes to the disk
cache and is linked from there the next time.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Protocol, cast

from rushlight.base.errors import MissingExtra, OldExtra
from rushlight.base.lazy import load
from rushlight.codegen import cache, config, entries
from rushlight.codegen.llvm import ModuleText

__all__ = ["Library", "assembly", "can_compile", "compile_text", "new_module"]


# The first llvmlite whose LLVM has pointers without types, in which all text is written.
OLDEST = [0, 45]


class Host:
    """The machine to compile for; made once, when the first graph is compiled."""

    def __init__(self) -> None:
        binding: Any = load("llvmlite.binding", "compile")
        llvmlite: Any = load("llvmlite", "compile")
        self.version = str(llvmlite.__version__)
        if [int(part) for part in self.version.split(".")[:2]] < OLDEST:
            needed = ".".join(map(str, OLDEST))
            raise OldExtra("llvmlite", "compile", self.version, needed)
        self.binding = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.triple = binding.get_process_triple()
        self.cpu = str(binding.get_host_cpu_name())
        self.features = str(binding.get_host_cpu_features().flatten())
        self.target = binding.Target.from_triple(self.triple)
        self.machine = self.target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=3, reloc="pic", codemodel="jitdefault"
        )
        self.plain_machine = self.target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=0, reloc="pic", codemodel="jitdefault"
        )
        self.layout = str(self.machine.target_data)
        self.linker = binding.create_lljit_compiler(
            self.target.create_target_machine(cpu=self.cpu, features=self.features, opt=3, jit=True)
        )
        self.count = 0
        self.converts_half = "x86" not in self.triple or "+f16c" in self.features
        self.fast = entries.reads_arrays()
        self.array_maker = entries.array_maker()


host: Host | None = None


def this_host() -> Host:
    global host
    if host is None:
        host = Host()
    return host


@functools.cache
def can_compile() -> bool:
    """Whether what compiles is installed; a warning where that is too old."""
    try:
        this_host()
    except OldExtra as old:
        warnings.warn(f"{old} Until then NumPy computes everything.", stacklevel=2)
        return False
    except MissingExtra:
        return False
    return True


def new_module() -> ModuleText:
    here = this_host()
    return ModuleText(here.triple, here.layout, here.cpu, here.features, here.fast)


class Library:
    """Linked code; its functions live as long as it does."""

    def __init__(self, here: Host, image: bytes, names: list[str]) -> None:
        here.count += 1
        builder = here.binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in names:
            builder.export_symbol(name)
        if here.array_maker is not None:
            builder.import_symbol(entries.NEW_ARRAY, here.array_maker)
        self.tracker = builder.link(here.linker, f"rushlight{here.count}")
        self.fast = here.fast

    def function(self, name: str) -> Callable[..., Any]:
        """An entry point as a function of arrays and, behind them, integers."""
        address = self.tracker[name]
        if self.fast:
            return entries.builtin(name, address, self.tracker)
        return entries.plain(address, self.tracker)

    def door(self, name: str, objects: tuple[Any, ...]) -> Callable[..., Any]:
        """An entry point that takes a call's arguments as they are, and refers to some objects."""
        return entries.builtin(name, self.tracker[name], self.tracker, objects)


def compile_text(text: str, names: list[str], thorough: bool = True) -> Library:
    """Compile a module, or link what the cache has of it. Code that is not `thorough` compiles
    in a third of the time and runs slower."""
    here = this_host()
    level = "thorough" if thorough else "plain"
    key = cache.key_of(text, here.triple, here.cpu, here.features, here.version, level)
    image = cache.OBJECTS.read(key) if config.fx_graph_cache else None
    if image is not None:
        try:
            return Library(here, image, names)
        except RuntimeError:
            image = None
    image = object_of(here, text, thorough)
    if config.fx_graph_cache:
        cache.OBJECTS.write(key, image)
    return Library(here, image, names)


class Emitting(Protocol):
    """What code is made with: LLVM, and its machines for code that is thorough or not."""

    binding: Any
    machine: Any
    plain_machine: Any


def optimised(here: Emitting, text: str, thorough: bool) -> tuple[Any, Any]:
    """The module after LLVM's passes, and the machine to emit it with."""
    binding = here.binding
    module = binding.parse_assembly(text)
    options = binding.create_pipeline_tuning_options(speed_level=3 if thorough else 1)
    options.loop_vectorization = thorough
    options.slp_vectorization = False
    options.loop_unrolling = thorough
    machine = here.machine if thorough else here.plain_machine
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def object_of(here: Emitting, text: str, thorough: bool) -> bytes:
    module, machine = optimised(here, text, thorough)
    return cast(bytes, machine.emit_object(module))


def assembly(text: str) -> str:
    """The machine code of a module, to read."""
    module, machine = optimised(this_host(), text, True)
    return cast(str, machine.emit_assembly(module))
