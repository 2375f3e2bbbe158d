"""Graphs as units of a package: the text of a function, its names, and machine code per target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from rushlight.base.errors import error
from rushlight.codegen import cache, native
from rushlight.codegen.driver import TINY, scheduled
from rushlight.codegen.entries import DATA_OFFSET
from rushlight.codegen.extents import Atom, hint_of, is_static
from rushlight.codegen.kernels import library, link
from rushlight.codegen.kernels.emit import Target as Lanes
from rushlight.codegen.kernels.pooltext import NAMES, pool_text
from rushlight.codegen.llvm import ModuleText, attributes_for
from rushlight.codegen.loops import Buffer, Kernel
from rushlight.codegen.plan import Plan
from rushlight.codegen.steps import Native
from rushlight.codegen.values import Call
from rushlight.codegen.writer import RunWriter
from rushlight.core import ports
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.deploy.image import Image, image_of
from rushlight.deploy.targets import Target, find_target
from rushlight.deploy.values import written_buffer, written_callee, written_value
from rushlight.fx.graph_module import GraphModule

__all__ = ["FAST", "Units"]

# Objects are ELF for x86-64 with the System V way of calling, whatever system compiles them.
TRIPLE = "x86_64-unknown-linux-gnu"
CPU = "x86-64"
# Modules of the opset whose kernels ask for heavy ones.
HEAVY_FAMILIES = ("window.conv", "network.norm", "product.attention")
# Before the names of entry points that read array objects themselves.
FAST = "fast_"


class Machine:
    """LLVM for one target: what `native.optimised` asks of a host."""

    def __init__(self, target: Target) -> None:
        here = native.this_host()
        self.binding = here.binding
        self.features = ",".join([f"+{name}" for name in target.features])
        made = self.binding.Target.from_triple(TRIPLE)
        self.machine, self.plain_machine = [
            made.create_target_machine(
                cpu=CPU, features=self.features, opt=level, reloc="pic", codemodel="small"
            )
            for level in (3, 0)
        ]
        self.layout = str(self.machine.target_data)
        self.version = here.version

    def object_of(self, module: ModuleText, thorough: bool) -> bytes:
        module.attributes = attributes_for(CPU, self.features)
        return native.object_of(self, module.text(), thorough)

    def kernels_object(self, texts: Callable[[Lanes], list[str]]) -> bytes:
        """The object of a module of heavy kernels, of what `texts` writes."""
        lanes = Lanes(self.features)
        text = link.module_text(texts(lanes), lanes, CPU, self.features, TRIPLE, self.layout)
        key = cache.key_of(text, TRIPLE, CPU, self.features, self.version, "packaged kernels")
        found = cache.OBJECTS.read(key)
        if found is None:
            found = link.emitted(self.binding, self.machine, text)
            cache.OBJECTS.write(key, found)
        return found


class UnitWriter(RunWriter):
    """As for a compiled graph, with the names as plain data and entry points for every Python."""

    def __init__(self, units: Units, module: GraphModule) -> None:
        self.units = units
        self.program, self.schedule = scheduled(module, None, units.converts_half, False)
        super().__init__(self.program, self.schedule)
        self.written_scope: dict[str, Any] = {}
        # Entry points with what they take, in the order of the segments.
        self.native: list[tuple[str, list[Buffer], Plan, list[Atom]]] = []

    def new_module(self) -> ModuleText:
        return ModuleText(TRIPLE, self.units.machines[0].layout, CPU, "", False)

    def const(self, value: object) -> str:
        if isinstance(value, Buffer):
            return self.named(written_buffer(value))
        return self.named(written_value(value))

    def named(self, data: Any) -> str:
        name = f"k{len(self.written_scope)}"
        self.written_scope[name] = data
        return name

    def callee(self, call: Call) -> str:
        if isinstance(call.op, OpOverload) and ports.family_of(call.op) in HEAVY_FAMILIES:
            self.units.calls_heavy = True
        is_below = not call.through_dispatch and isinstance(call.op, OpOverload)
        return self.named(written_callee(call.op, is_below))

    def compiled(
        self, kernels: Sequence[Kernel | Native]
    ) -> tuple[str, list[Buffer], Plan, list[Atom]]:
        found = super().compiled(kernels)
        name, outside, scratch, atoms = found
        self.native.append(found)
        if self.units.fast:
            self.add_fast_entry(name, len(outside) + (not scratch.is_empty), len(atoms))
        return found

    def add_fast_entry(self, name: str, arrays: int, numbers: int) -> None:
        """An entry point that CPython calls with objects; it unpacks them for the other."""
        count = arrays + numbers
        lines = [f"  %words = alloca [{count} x i64], align 16"]
        for at in range(count):
            lines += [
                f"  %o{at} = getelementptr ptr, ptr %args, i64 {at}",
                f"  %a{at} = load ptr, ptr %o{at}, align 8",
            ]
            if at < arrays:
                place = f"  %d{at} = getelementptr i8, ptr %a{at}, i64 {DATA_OFFSET}"
                lines += [place, f"  %w{at} = load i64, ptr %d{at}, align 8"]
            else:
                lines.append(f"  %w{at} = call i64 @PyLong_AsSsize_t(ptr %a{at})")
            lines += [
                f"  %s{at} = getelementptr i64, ptr %words, i64 {at}",
                f"  store i64 %w{at}, ptr %s{at}, align 8",
            ]
        lines.append(f"  call void @{name}(ptr %words)")
        lines += ["  call void @Py_IncRef(ptr %self)", "  ret ptr %self"]
        head = f"define ptr @{FAST}{name}(ptr %self, ptr %args, i64 %count) #0 {{"
        self.module.functions.append("\n".join([head, *lines, "}"]))
        self.module.declared.add("declare void @Py_IncRef(ptr)")
        self.module.declared.add("declare i64 @PyLong_AsSsize_t(ptr)")

    def constants(self) -> dict[str, Any]:
        """The graph's attributes, as plain data: they are graphs, for state is input."""
        found = {}
        for name, value in self.program.constants.items():
            if isinstance(value, GraphModule):
                found[name] = {"unit": self.units.add(value)}
            elif isinstance(value, Tensor):
                raise error("RL1586", NotImplementedError, what="a tensor that is no input")
            else:
                found[name] = written_value(value)
        return found


class Units:
    """The units of one package; the first is the program's graph, the others graphs within it."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.machines = [Machine(target) for target in targets]
        # Whether there are entry points for objects of Python, too.
        self.fast = True
        self.converts_half = all(["f16c" in target.features for target in targets])
        self.writers: list[UnitWriter] = []
        self.facts: list[dict[str, Any]] = []
        # For each unit: its object file per target, or none.
        self.objects: list[list[bytes]] = []
        self.images: list[list[Image]] = []
        # Whether an op is called that has heavy kernels.
        self.calls_heavy = False

    def add(self, module: GraphModule) -> int:
        number = len(self.facts)
        facts: dict[str, Any] = {}
        self.facts.append(facts)
        self.objects.append([])
        self.images.append([])
        writer = UnitWriter(self, module)
        self.writers.append(writer)
        source = writer.source()
        scope = {**writer.written_scope, **writer.constants()}
        facts.update(source=source, scope=scope, entries=writer.entries)
        if writer.entries:
            names = list(writer.entries)
            names += [f"{FAST}{name}" for name in writer.entries if self.fast]
            thorough = is_worth_it(writer.schedule)
            for machine in self.machines:
                made = machine.object_of(writer.module, thorough)
                self.objects[number].append(made)
                self.images[number].append(image_of(made, names))
        return number

    def kernel_images(self) -> tuple[Image, list[Image]]:
        """The pool of threads, and the heavy kernels for each target."""
        plain = Machine(find_target("x86-64"))
        shared = image_of(plain.kernels_object(lambda lanes: [pool_text()]), list(NAMES))
        made = [machine.kernels_object(library.texts) for machine in self.machines]
        return shared, [image_of(each, list(library.DRIVERS)) for each in made]


def is_worth_it(schedule: list[Any]) -> bool:
    sizes = [item.sizes for item in schedule if isinstance(item, Kernel)]
    points = [prod([hint_of(size) for size in each]) for each in sizes]
    return max(points) > TINY or not all(map(is_static, sizes))
