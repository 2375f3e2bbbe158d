"""Kernels' text to addresses: compiled once for a CPU, kept on disk, linked on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from rushlight.base.config import config
from rushlight.base.errors import fail
from rushlight.codegen import cache, native
from rushlight.codegen import config as switches
from rushlight.codegen.kernels.emit import Target
from rushlight.opset.heavy import SOURCE

__all__ = ["Linked", "Linking", "Machine", "emitted", "machine", "machine_of", "module_text"]

LOCK = threading.RLock()
# The names of levels of x86-64 that `cpu_level` may ask for, and what they can do.
LEVELS = {"avx2": ("x86-64-v3", "+avx2,+fma"), "baseline": ("x86-64", "")}


class Linking(Protocol):
    """Where kernels are linked from: a compiler, or a package."""

    target: Target

    def __hash__(self) -> int: ...

    def functions(
        self, name: str, make: Callable[[Target], list[str]], names: Sequence[str]
    ) -> Mapping[str, int]:
        """The addresses of functions of the module `name`, whose texts `make` writes."""


class Linked(Mapping[str, int]):
    """Addresses of functions; the code lives as long as the process."""

    def __init__(self, tracker: Any, names: Sequence[str]) -> None:
        self.tracker = tracker
        self.addresses = {name: int(tracker[name]) for name in names}

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.addresses)

    def __len__(self) -> int:
        return len(self.addresses)


class Machine:
    """What kernels are compiled for."""

    def __init__(self, level: str) -> None:
        here = native.this_host()
        self.host = here
        self.cpu, self.features, self.emitter = here.cpu, here.features, here.machine
        known = self.features
        if level and "x86_64" in here.triple:
            if level not in LEVELS:
                fail("RL0840", ValueError, level=level, known=", ".join(LEVELS))
            self.cpu, known = LEVELS[level]
            self.features = ""
            self.emitter = here.target.create_target_machine(
                cpu=self.cpu, features="", opt=3, reloc="pic", codemodel="jitdefault"
            )
        self.target = Target(known, here.triple)
        self.linked: dict[str, Linked] = {}

    def functions(
        self, name: str, make: Callable[[Target], list[str]], names: Sequence[str]
    ) -> Linked:
        """The functions `names` of the texts that `make` writes."""
        found = self.linked.get(name)
        if found is None:
            with LOCK:
                found = self.linked.get(name)
                if found is None:
                    found = self.linked[name] = self.build(name, make(self.target), names)
        return found

    def build(self, name: str, texts: list[str], names: Sequence[str]) -> Linked:
        here = self.host
        text = module_text(texts, self.target, self.cpu, self.features, here.triple, here.layout)
        key = cache.key_of(text, here.triple, self.cpu, self.features, here.version, "kernels")
        image = cache.OBJECTS.read(key) if switches.fx_graph_cache else None
        if image is not None:
            try:
                return self.link(image, name, names)
            except RuntimeError:
                image = None
        image = emitted(here.binding, self.emitter, text)
        if switches.fx_graph_cache:
            cache.OBJECTS.write(key, image)
        return self.link(image, name, names)

    def link(self, image: bytes, name: str, names: Sequence[str]) -> Linked:
        here = self.host
        builder = here.binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for exported in names:
            builder.export_symbol(exported)
        here.count += 1
        return Linked(builder.link(here.linker, f"rushlight_{name}{here.count}"), names)


def module_text(
    texts: list[str], target: Target, cpu: str, features: str, triple: str, layout: str
) -> str:
    head = f'target triple = "{triple}"\ntarget datalayout = "{layout}"\n'
    return head + "\n".join(texts) + declarations(target, cpu, features)


def declarations(target: Target, cpu: str, features: str) -> str:
    lanes = target.lanes
    vector, mask, kind = f"<{lanes} x float>", f"<{lanes} x i1>", f"v{lanes}f32"
    attributes = (
        f'"target-cpu"="{cpu}" "target-features"="{features}" "prefer-vector-width"="{lanes * 32}"'
    )
    return (
        f"declare {vector} @llvm.fma.{kind}({vector}, {vector}, {vector})\n"
        f"declare {vector} @llvm.masked.load.{kind}.p0(ptr, i32, {mask}, {vector})\n"
        f"declare void @llvm.masked.store.{kind}.p0({vector}, ptr, i32, {mask})\n"
        "declare double @llvm.sqrt.f64(double)\n"
        "declare i64 @llvm.smin.i64(i64, i64)\n"
        "declare i64 @llvm.smax.i64(i64, i64)\n"
        f"attributes #0 = {{ nounwind noinline {attributes} }}\n"
    )


def emitted(binding: Any, emitter: Any, text: str) -> bytes:
    """The object of a module. Allocas become registers, and no more: LLVM's larger pipelines move
    loads across the steps of tiles, which then spill."""
    module = binding.parse_assembly(text)
    options = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(emitter, options)
    passes = binding.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return cast(bytes, emitter.emit_object(module))


MACHINES: dict[str, Machine] = {}


def machine(level: str | None = None) -> Linking:
    """The machine of a package whose call this is; else that of the level that is asked for."""
    if SOURCE.machine is not None:
        return cast(Linking, SOURCE.machine)
    return machine_of(config.cpu_level if level is None else level)


def machine_of(level: str) -> Machine:
    found = MACHINES.get(level)
    if found is None:
        with LOCK:
            found = MACHINES.get(level)
            if found is None:
                found = MACHINES[level] = Machine(level)
    return found
