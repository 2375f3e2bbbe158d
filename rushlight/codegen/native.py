"""LLVM IR text to functions that Python can call.

The text is compiled for the host's CPU, once for each content: the object file goes to the disk
cache and is linked from there the next time. An entry point becomes a builtin of CPython's
fastcall convention that reads the data pointers of NumPy arrays itself; where the layout of array
objects is not the expected one, a ctypes call with explicit pointers takes its place.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from rushlight.base.lazy import load
from rushlight.codegen import cache, config
from rushlight.codegen.llvm import DATA_OFFSET, ModuleText

__all__ = ["Library", "assembly", "compile_text", "new_module"]

METH_FASTCALL = 0x0080


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Host:
    """The machine to compile for; made once, when the first graph is compiled."""

    def __init__(self) -> None:
        binding: Any = load("llvmlite.binding", "compile")
        llvmlite: Any = load("llvmlite", "compile")
        self.binding = binding
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        self.version = str(llvmlite.__version__)
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
        self.fast = reads_arrays()


host: Host | None = None


def this_host() -> Host:
    global host
    if host is None:
        host = Host()
    return host


def reads_arrays() -> bool:
    """Whether array objects keep their data pointer where entry points look for it."""
    import sys

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    for probe in (np.zeros(3), np.zeros((4, 2), np.int8)[1:]):
        found = ctypes.c_void_p.from_address(id(probe) + DATA_OFFSET).value
        if found != probe.ctypes.data:
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
        self.tracker = builder.link(here.linker, f"rushlight{here.count}")
        self.fast = here.fast

    def function(self, name: str) -> Callable[..., Any]:
        """An entry point as a function of arrays and, behind them, integers."""
        if self.fast:
            return self.builtin(name)
        # The lock stays held, as in a builtin.
        call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.tracker[name])

        def plain(*given: Any) -> None:
            words = [a if type(a) is int else a.ctypes.data for a in given]
            pointers = (ctypes.c_size_t * len(given))(*words)
            call(ctypes.addressof(pointers))

        return plain

    def builtin(self, name: str) -> Callable[..., Any]:
        method = MethodDef(name.encode(), self.tracker[name], METH_FASTCALL, None)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        # The builtin's module slot keeps the record and the code alive as long as itself.
        keeper = (method, self.tracker)
        return cast(Callable[..., Any], make(ctypes.addressof(method), None, keeper))


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


def optimised(here: Host, text: str, thorough: bool) -> tuple[Any, Any]:
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


def object_of(here: Host, text: str, thorough: bool) -> bytes:
    module, machine = optimised(here, text, thorough)
    return cast(bytes, machine.emit_object(module))


def assembly(text: str) -> str:
    """The machine code of a module, to read."""
    module, machine = optimised(this_host(), text, True)
    return cast(str, machine.emit_assembly(module))
