"""The C of a program: its inputs checked, its segments called in order, products as loops.

Segments are functions of the object file beside it. Only programs whose every step is a loop, a
product of matrices, a choice of rows, a view or a write have such a text; other steps are refused
by name.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from rushlight.codegen.extents import Extent
from rushlight.codegen.inplace import Touch, copied
from rushlight.codegen.loops import Buffer
from rushlight.codegen.values import Call, Name, Product, Value
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.deploy.ckernels import NEEDS, kernel_text
from rushlight.deploy.csteps import refuse, write_step
from rushlight.deploy.ctext import RUNTIME, c_size, c_text, header_text
from rushlight.deploy.units import UnitWriter
from rushlight.export.leafchecks import shown_shape

__all__ = ["CSource"]

DTYPES = {
    name: code
    for code, name in enumerate(
        ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool",
         "bfloat16", "uint16", "uint32", "uint64")
    )
}  # fmt: skip


def numbers(values: Any) -> str:
    return "{" + ", ".join([*map(str, values), "0"]) + "}"


class CSource:
    """Writes the text of one program. `state` and `records` are those of its package."""

    def __init__(
        self, writer: UnitWriter, state: list[dict[str, Any]], records: list[dict[str, Any]]
    ) -> None:
        self.writer = writer
        self.program = writer.program
        self.state = state
        self.records = records
        self.lines: list[str] = []
        # Names of memory that has a pointer; those of buffers that this call makes.
        self.pointers: set[str] = set()
        self.made: set[str] = set()
        self.declared: list[str] = []
        self.blocks = 0
        # Kernels that the text calls: (name, dtype), and their texts.
        self.kernels: dict[tuple[str, str | None], str] = {}
        self.values = {name: value for value, name in self.program.tensors.items()}
        # Numbers of leaves, which are the inputs of the library, by their names in the program.
        self.leaves: dict[str, int] = {}

    # -- the whole ---------------------------------------------------------------------------------

    def text(self, name: str, attributes: str) -> tuple[str, str]:
        """The header and the source."""
        inputs = self.program.inputs
        users = inputs[len(self.state) :]
        for (variable, _), record in zip(users, self.records, strict=True):
            if record["kind"] in ("tensor", "size"):
                self.leaves[variable] = len(self.leaves)
        self.check_leaves(users)
        for line in self.program.sizes.first:
            variable, _, text = line.partition(" = ")
            self.put(f"int64_t {variable} = {self.size(text)}; (void){variable};")
        self.place_state(inputs[: len(self.state)])
        self.place_inputs(users)
        native = iter(self.writer.native)
        for item in self.writer.segments:
            if isinstance(item, list):
                self.segment(*next(native))
            elif isinstance(item, Product):
                self.product(item)
            elif not isinstance(item, Touch):
                self.call(item)
        results = self.results()
        header = header_text(name, len(self.leaves), results, DTYPES)
        externs = [f"void {entry}(void **given);" for entry, *_ in self.writer.native]
        body = "\n".join([f"    {line}" for line in self.lines])
        source = "\n".join(
            [
                f'#include "{name}.h"',
                "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>",
                f"#define BLOCKS {self.blocks}",
                f"#define WIDE {attributes}",
                f"#define VECTOR {32 if 'avx' in attributes else 16}",
                RUNTIME,
                *self.kernels.values(),
                *externs,
                f'__asm__(".section .data\\n.balign 64\\n{name}_weights:\\n'
                f'.incbin \\"{name}_weights.bin\\"\\n.byte 0\\n.previous\\n");',
                f'extern char weights[] __asm__("{name}_weights");',
                f"const char *{name}_error(void) {{ return message; }}",
                f"void {name}_free(rushlight_tensor *result) {{",
                "    free(result->memory);",
                "    free((void *)result->sizes);",
                "    memset(result, 0, sizeof *result);\n}",
                f"int {name}_run(rushlight_tensor *inputs, rushlight_tensor *results) {{",
                "    arena all = {.count = 0};",
                "    (void)inputs; (void)weights; (void)laid_out; (void)product_f32;",
                "    (void)product_f64; (void)mod_floor; (void)max_of; (void)min_of;",
                "    (void)pick_rows;",
                "    message[0] = 0;",
                f"    memset(results, 0, sizeof *results * {max(results, 1)});",
                "    {",
                body,
                "    }",
                "    give_back(&all);",
                "    return 0;",
                "fail:",
                f"    for (int at = 0; at < {results}; at++) {{",
                f"        release(&all, results[at].memory); {name}_free(&results[at]);",
                "    }",
                "    give_back(&all);",
                "    return 1;\n}\n",
            ]
        )
        return header, source

    def put(self, line: str) -> None:
        self.lines.append(line)

    def need(self, name: str, dtype: str | None = None) -> None:
        """Have a kernel in the text, after those that it calls."""
        for other in NEEDS.get(name, ("view",)):
            self.need(other, dtype if other == "order" else None)
        if (name, dtype) not in self.kernels:
            self.kernels[name, dtype] = kernel_text(name, dtype)

    # -- sizes -------------------------------------------------------------------------------------

    def size(self, value: object) -> str:
        """A size, or the text of one, as C."""
        return str(value) if type(value) is int else c_size(str(value), self.reading)

    def reading(self, node: ast.expr) -> str | None:
        """What the texts of sizes read: variables, sizes and strides of inputs."""
        text = ast.unparse(node)
        found = re.fullmatch(r"(\w+)\._array\.shape\[(\d+)\]", text)
        if found is not None and found[1] in self.leaves:
            return f"inputs[{self.leaves[found[1]]}].sizes[{found[2]}]"
        found = re.fullmatch(r"strides_of\((\w+)\)\[(\d+)\]", text)
        if found is not None and found[1] in self.leaves:
            return f"stride_of(&inputs[{self.leaves[found[1]]}], {found[2]})"
        if isinstance(node, ast.Name):
            if node.id in self.leaves:
                return f"*(const int64_t *)inputs[{self.leaves[node.id]}].data"
            return node.id
        return None

    def sizes(self, values: Any) -> str:
        return numbers([self.size(value) for value in values])

    # -- inputs ------------------------------------------------------------------------------------

    def check_leaves(self, users: list[Any]) -> None:
        known: set[str] = set()
        for (variable, _), record in zip(users, self.records, strict=True):
            if variable not in self.leaves:
                continue
            at = self.leaves[variable]
            given = f"inputs[{at}]"
            if record["kind"] == "size":
                self.check_kind(given, record, "int64", 0)
                value = f"*(const int64_t *){given}.data"
                self.check_form(value, record["form"], f"input {at}", known)
                continue
            shape = record["shape"]
            self.check_kind(given, record, record["dtype"], len(shape))
            for dim, size in enumerate(shape):
                value, where = f"{given}.sizes[{dim}]", f"size {dim} of input {at}"
                if type(size) is int:
                    self.expect(f"{value} != {size}", where, str(size), value)
                else:
                    self.check_form(value, size, where, known)

    def check_kind(self, given: str, record: dict[str, Any], kind: str, ndim: int) -> None:
        self.put(f"if ({given}.dtype != {DTYPES.get(kind, -1)} || {given}.ndim != {ndim})")
        shown = shown_shape(record["shape"]) if record["kind"] == "tensor" else "()"
        text = f"{given} has to be {kind} of sizes {shown.removeprefix('torch.Size')}"
        self.put(f'    FAIL("%s", {c_text(text)});')
        if kind not in DTYPES:
            raise refuse(f"an input of dtype {kind}")

    def check_form(self, value: str, form: dict[str, Any], where: str, known: set[str]) -> None:
        if "symbol" in form:
            symbol, slope, offset = form["symbol"], form["slope"], form["offset"]
            shown = f"of the form {form['shown']}"
            if symbol in known:
                self.expect(f"{value} != {slope} * {symbol} + {offset}", where, shown, value)
            else:
                known.add(symbol)
                self.expect(f"mod_floor({value} - {offset}, {slope}) != 0", where, shown, value)
                self.put(f"int64_t {symbol} = div_floor({value} - {offset}, {slope});")
                self.put(f"(void){symbol};")
        elif known.issuperset(form["symbols"]):
            wanted = c_size(form["text"], self.reading)
            self.expect(f"{value} != {wanted}", where, form["shown"], value)
        else:
            raise refuse(f"a size of the form {form['shown']}")
        if form["lower"] is not None and form["lower"] > 2:
            self.expect(f"{value} < {form['lower']}", where, f">= {form['lower']}", value)
        if form["upper"] is not None:
            self.expect(f"{value} > {form['upper']}", where, f"<= {form['upper']}", value)

    def expect(self, wrong: str, where: str, wanted: str, value: str) -> None:
        self.put(f"if ({wrong})")
        text = c_text(f"{where} has to be {wanted}")
        self.put(f'    FAIL("%s, and is %lld", {text}, (long long){value});')

    def place_state(self, inputs: list[Any]) -> None:
        for (variable, value), entry in zip(inputs, self.state, strict=True):
            if value is None or entry["name"] is None:
                continue
            start = entry["place"][0] + entry["offset"] * value.dtype.itemsize
            self.put(f"char *{variable} = weights + {start}; (void){variable};")
            self.pointers.add(variable)

    def place_inputs(self, users: list[Any]) -> None:
        written = {item.target.name for item in self.writer.schedule if isinstance(item, Touch)}
        for item in self.writer.schedule:
            pair = copied(self.program, item)
            if pair is not None:
                written.add(pair[0].name)
        for variable, value in users:
            if value is None or variable not in self.leaves:
                continue
            self.blocks += 1
            strides, is_written = self.sizes(value.strides), int(variable in written)
            self.put(
                f"char *{variable} = laid_out(&all, &inputs[{self.leaves[variable]}], "
                f"(const int64_t[]){strides}, {value.dtype.itemsize}, {is_written});"
            )
            self.put(f"if (!{variable})")
            what = "is written and must be dense rows" if is_written else "found no memory"
            self.put(f'    FAIL("input {self.leaves[variable]} {what}");')
            self.pointers.add(variable)

    # -- steps -------------------------------------------------------------------------------------

    def pointer(self, buffer: Buffer) -> str:
        """The variable of a buffer's memory, which is made where it is first named."""
        memory = buffer.memory
        if memory.name not in self.pointers:
            self.pointers.add(memory.name)
            self.made.add(memory.name)
            self.take(memory.name, self.size(memory.nbytes))
        return memory.name

    def take(self, name: str, nbytes: str) -> None:
        self.blocks += 1
        self.put(f"char *{name} = take(&all, {nbytes});")
        self.put(f'if (!{name}) FAIL("no memory is left");')

    def segment(self, entry: str, outside: list[Buffer], scratch: Any, atoms: list[Any]) -> None:
        given = [self.pointer(buffer) for buffer in outside]
        if not scratch.is_empty:
            self.take(f"{entry}_scratch", self.size(scratch.size_text()))
            given.append(f"{entry}_scratch")
        given += [f"(void *)(intptr_t){atom.name}" for atom in atoms]
        self.put(f"{entry}((void *[]){{{', '.join([*given, 'NULL'])}}});")

    def product(self, product: Product) -> None:
        target = product.target
        kind = {"float32": "f32", "float64": "f64"}[target.dtype.name]
        made = {"f32": "float", "f64": "double"}[kind]
        rows, columns = target.shape[-2:]
        sides, offsets = [], []
        for buffer, swapped, sizes in (product.left, product.right):
            shape, strides = buffer.shape, buffer.strides
            if sizes is not None:
                shape, strides = sizes, geometry.contiguous_strides(sizes)
            last = (strides[-1], strides[-2]) if swapped else (strides[-2], strides[-1])
            inner = shape[-2] if swapped else shape[-1]
            sides.append((self.pointer(buffer), last, inner))
            terms = []
            for back, size in enumerate(reversed(shape[:-2])):
                if size != 1:
                    at = len(target.shape) - 3 - back
                    terms.append(f"i{at} * {self.size(strides[len(shape) - 3 - back])}")
            offsets.append(" + ".join(terms) or "0")
        (left, left_steps, inner), (right, right_steps, _) = sides
        batch = target.shape[:-2]
        steps = [self.size(step) for step in (*left_steps, *right_steps)]
        place = " + ".join(
            [f"i{at} * {self.size(step)}" for at, step in enumerate(target.strides[:-2])]
        )
        to = self.pointer(target)
        for at, size in enumerate(batch):
            self.put(f"for (int64_t i{at} = 0; i{at} < {self.size(size)}; i{at}++)")
        extents = ", ".join([self.size(size) for size in (rows, columns, inner)])
        self.put(
            f"if (product_{kind}({extents}, (const {made} *){left} + {offsets[0]}, {steps[0]}, "
            f"{steps[1]}, (const {made} *){right} + {offsets[1]}, {steps[2]}, {steps[3]}, "
            f'({made} *){to} + {place or "0"})) FAIL("no memory is left");'
        )

    def call(self, call: Call) -> None:
        if call.views:
            # Its memory is that of its base.
            return
        if str(call.op) == "aten.embedding.default" and self.pick_rows(call):
            return
        pair = copied(self.program, call)
        if pair is None:
            write_step(self, call)
            return
        target, source = pair
        if target.dtype is not source.dtype:
            raise refuse(f"a step that is {call.op}")
        if target.shape != source.shape:
            raise refuse("a write that broadcasts")
        to, origin = self.pointer(target), self.pointer(source)
        self.copy(to, target.strides, origin, source.strides, target.shape, target.dtype)

    def pick_rows(self, call: Call) -> bool:
        """Rows of a table, where they and their numbers lie in order."""
        names = [*call.args[:2], *[Name(name) for name in call.results if name is not None]]
        found = [self.program.given.get(getattr(name, "name", "")) for name in names]
        table, picks, target = found
        if table is None or picks is None or target is None:
            return False
        for each in (picks, target):
            if self.sizes(each.strides) != self.sizes(geometry.contiguous_strides(each.shape)):
                return False
        count: Any = 1
        for size in picks.shape:
            count *= size
        parts = [self.size(part) for part in (*table.strides, *table.shape, count)]
        self.put(
            f"if (pick_rows({self.pointer(target)}, {self.pointer(table)}, "
            f"{table.dtype.itemsize}, {self.pointer(picks)}, {picks.dtype.itemsize}, "
            f"{', '.join(parts)}))"
        )
        self.put('    FAIL("a number of a row is outside of its table");')
        return True

    def copy(
        self, to: str, to_steps: Any, origin: str, steps: Any, shape: Any, dtype: dtype
    ) -> None:
        lists = [self.sizes(values) for values in (to_steps, steps, shape)]
        parts = [f"(const int64_t[]){entry}" for entry in lists]
        self.put(
            f"copy_strided({to}, {parts[0]}, {origin}, {parts[1]}, {parts[2]}, {len(shape)}, "
            f"{dtype.itemsize});"
        )

    # -- results -----------------------------------------------------------------------------------

    def results(self) -> int:
        outputs = self.program.outputs
        given_away: set[str] = set()
        for at, output in enumerate(outputs):
            if isinstance(output, Name) and output.name in self.values:
                self.result(at, self.values[output.name], given_away)
            elif isinstance(output, Extent) or type(output) is int:
                self.number(at, self.size(output))
            elif isinstance(output, Name) and output.name in self.leaves:
                self.number(at, self.size(output.name))
            else:
                raise refuse(f"a result that is {output!r}")
        return len(outputs)

    def number(self, at: int, value: str) -> None:
        self.take(f"r{at}", "8")
        self.put(f"*(int64_t *)r{at} = {value};")
        self.describe(at, f"r{at}", "int64", (), ())

    def result(self, at: int, value: Value, given_away: set[str]) -> None:
        """A tensor: memory of the call where it is all of that, else a dense copy."""
        assert value.expr is not None
        expr = self.program.through_memory(value) if value.base is not None else value.expr
        if expr.op != "load":
            raise refuse("a result that is no memory")
        buffer, strides, offset = expr.payload
        name = buffer.memory.name
        if name not in self.pointers:
            name = self.pointer(buffer)
        is_own = name in self.made and name not in given_away and offset == 0
        if is_own and buffer.shape == value.shape:
            given_away.add(name)
            self.describe(at, name, value.dtype.name, value.shape, strides)
            return
        count: Any = 1
        for size in value.shape:
            count *= size
        dense = geometry.contiguous_strides(value.shape)
        self.take(f"r{at}", self.size(count * value.dtype.itemsize))
        origin = f"{name} + {self.size(offset)} * {value.dtype.itemsize}"
        self.copy(f"r{at}", dense, origin, strides, value.shape, value.dtype)
        self.describe(at, f"r{at}", value.dtype.name, value.shape, dense)

    def describe(self, at: int, memory: str, kind: str, shape: Any, strides: Any) -> None:
        if kind not in DTYPES:
            raise refuse(f"a result of dtype {kind}")
        count = len(shape)
        self.put(f"int64_t *g{at} = malloc(sizeof(int64_t) * {2 * count + 1});")
        self.put(f'if (!g{at}) FAIL("no memory is left");')
        lists = (shape, strides)
        for part, values in enumerate(lists):
            self.put(
                f"memcpy(g{at} + {part * count}, (int64_t[]){self.sizes(values)}, "
                f"sizeof(int64_t) * {count});"
            )
        fields = f"{memory}, {DTYPES[kind]}, {count}, g{at}, g{at} + {count}, {memory}"
        self.put(f"results[{at}] = (rushlight_tensor){{{fields}}};")
        self.put(f"release(&all, {memory});")
