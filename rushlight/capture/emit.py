"""From a finished capture to Python source: guards, graph call, rebuilt values, effects.

All reads of the outside stand in front of the graph call, so that no effect is seen by them.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Callable
from typing import Any

from rushlight.capture import iterators
from rushlight.capture.attributes import Iter
from rushlight.capture.guards import MISSES, Kept, Names, failing_test, wrong_type
from rushlight.capture.outcomes import Break, NeedBreak, SpecializeFloats
from rushlight.capture.recording import FLOAT
from rushlight.capture.sources import Id, Source
from rushlight.capture.tracer import Guard
from rushlight.capture.values import (
    NULL,
    Bound,
    Bounded,
    Cell,
    Const,
    Dict,
    Func,
    Lazy,
    Made,
    Method,
    New,
    Obj,
    Partial,
    Proxy,
    Seq,
    SetVar,
    Slice,
    Super,
    Table,
    Tensor,
    Transformed,
    View,
)

__all__ = ["CELLS", "Emitter"]

CELLS = "__cells"


class Emitter:
    """Writes one cache entry."""

    def __init__(self, tracer: Any, names: Names, cells: str) -> None:
        self.t = tracer
        self.names = names
        # The text that gives the cells of the function's free variables.
        self.cells = cells
        self.pre: list[str] = []  # guards and reads, inside `try`
        self.post: list[str] = []  # after the graph
        self.temps: dict[Source, str] = {}
        self.built: dict[int, str] = {}
        self.open: set[int] = set()
        self.outs: dict[Any, str] = {}
        self.checked: set[Any] = set()
        # Tests by the condition that they are looked at under, one for all of them.
        self.noted: dict[str, list[str]] = {}
        # Whether what the graph raises has the frame run natively.
        self.reruns = False
        # Tensors that have the same array at most calls: text, text of the array, two tests.
        self.kept: list[tuple[str, str, str, str]] = []
        self.count = 0
        # Functions that the graph is given, and cells of theirs that have no contents yet.
        self.given: dict[Any, str] = {}
        self.unfilled: list[tuple[str, Cell]] = []
        self.is_early = False

    def temp(self, lines: list[str], text: str) -> str:
        self.count += 1
        name = f"__t{self.count}"
        lines.append(f"{name} = {text}")
        return name

    def read(self, s: Source) -> str:
        """A name or an expression without effects that gives a source's value."""
        kind, base, key = s
        if kind == "free":
            return str(key)
        if kind == "const":
            return self.names.constant(key.value)
        if kind == "local" and key != CELLS:
            return str(key)
        if s not in self.temps:
            self.temps[s] = self.temp(self.pre, self.read_text(kind, base, key))
        return self.temps[s]

    def read_text(self, kind: str, base: Any, key: Any) -> str:
        if kind == "local":
            return self.cells
        if kind == "computed":
            function, parts = key
            return f"{self.names.constant(function)}({', '.join(map(self.read, parts))})"
        owner = self.read(base)
        if kind == "attr":
            return f"{owner}.{key}"
        if kind == "cell":
            return f"{owner}.cell_contents"
        if kind == "size":
            return f"{owner}.shape[{key}]"
        if kind == "referent":
            return f"{owner}()"
        if type(key) is Id:
            key = key.value
        is_plain = type(key) in (int, str, bool)
        return f"{owner}[{key!r}]" if is_plain else f"{owner}[{self.names.constant(key)}]"

    # -- guards ------------------------------------------------------------------------------------

    def guard(self, guard: Guard) -> None:
        kind, source, expected = guard
        has_key = kind in ("absent", "lacks", "unshadowed", "alias", "distinct", "text")
        key = (kind, source, expected if has_key else None)
        if key in self.checked:
            return
        self.checked.add(key)
        if kind == "present":
            self.read(source)
            return
        if kind == "noted":
            condition, test = expected(self.read(source), self.names)
            self.noted.setdefault(condition, []).append(test)
            return
        if kind == "tensor":
            text = self.read(source)
            tests = self.t.world.kept_guard(text, expected, self.names)
            if tests is not None:
                self.kept.append((text, *tests))
                return
        test = failing_test(guard, self.read, self.names, self.t.world)
        if kind in ("keys", "length") and ("type", source, None) in self.checked:
            test = test.removeprefix(
                wrong_type(self.read(source), expected[0], self.names) + " or "
            )
        self.pre.append(f"if {test}: break")

    def guard_identities(self) -> None:
        """Different inputs stay different objects: tensors always, since a graph has one input
        for each; other things where capture wrote to some."""
        # Those of different types are different; types are guarded.
        groups: dict[Any, list[Source]] = {}
        kept = {text for text, *_ in self.kept}
        for value, var in self.t.known.values():
            source = var.source
            if source is None or source.kind == "const":
                continue
            if isinstance(var, Tensor):
                groups.setdefault(type(value), []).append(source)
            elif self.t.effects and isinstance(var, Seq | Dict | SetVar | Obj | Cell):
                groups.setdefault(None, []).append(source)
        for sources in groups.values():
            texts = [self.read(source) for source in sources]
            if not kept.issuperset(texts):
                self.pre += distinct_tests(texts)

    def guard_kept(self) -> None:
        """Tensors whose arrays are those of the last call need no more than that."""
        if not self.kept:
            return
        kept = Kept(len(self.kept))
        numbers = self.names.constant(kept.numbers)
        known = [f"__n{place}" for place in range(len(self.kept))]
        self.pre += [f"{''.join([name + ', ' for name in known])}= {numbers}", "__same = True"]
        for place, (_, array, flags, rest) in enumerate(self.kept):
            self.pre += [
                f"if {flags}: break",
                f"if id({array}) != {known[place]}:",
                "    __same = False",
                f"    if {rest}: break",
            ]
        self.pre.append("if not __same:")
        self.pre += [f"    {line}" for line in distinct_tests([text for text, *_ in self.kept])]
        arrays = ", ".join(array for _, array, *_ in self.kept)
        self.pre.append(f"    {self.names.constant(kept.note)}({arrays})")

    def guard_memory(self) -> None:
        """Where the graph writes to tensors, its inputs share memory as they did."""
        root, world = self.t.root, self.t.world
        if not root.writes:
            return
        values = {var.source: value for value, var in self.t.known.values() if var.source}
        sources = [s for node in root.inputs if (s := root.sources.get(node)) in values]
        tensors = [values[source] for source in sources]
        found = world.sharing(*tensors) if len(tensors) > 1 else None
        if found is not None:
            texts = ", ".join(map(self.read, sources))
            test = f"{self.names.constant(world.sharing)}({texts}) != {found!r}"
            self.pre.append(f"if {test}: break")

    # -- values ------------------------------------------------------------------------------------

    def rebuild(self, v: Any) -> str:
        """The text of a value after the graph ran; the same variable is the same object."""
        if isinstance(v, Lazy):
            v = self.t.memo.get(v.source, v)
        if isinstance(v, Const):
            plain = v.value is None or type(v.value) in (int, str, bool)
            return repr(v.value) if plain else self.names.constant(v.value)
        if isinstance(v, Proxy) and v.source is None:
            return self.result(v)
        if v.source is not None:
            return self.read(v.source)
        if id(v) in self.built:
            return self.built[id(v)]
        if id(v) in self.open:
            raise Break("a container that holds itself")
        self.open.add(id(v))
        name = self.made(v)
        self.built[id(v)] = name
        return name

    def result(self, v: Proxy) -> str:
        """The text of what the graph gives, as the program has it."""
        text = self.out(v.node)
        wrapped = self.t.world.wrapped_result(v, text, self.names)
        attributes = v.attrs if isinstance(v, Tensor) else None
        if wrapped is None and not attributes:
            return text
        if id(v) not in self.built:
            name = self.built[id(v)] = self.temp(self.post, wrapped or text)
            for attr, value in (attributes or {}).items():
                self.post.append(f"{name}.{attr} = {self.rebuild(value)}")
        return self.built[id(v)]

    def made(self, v: Any) -> str:
        match v:
            case Cell():
                return self.make_cell(v)
            case Func():
                return self.make_function(v)
            case SetVar():
                return self.make_set(v)
            case New():
                return self.make_object(v)
            case Iter():
                return self.make_iterator(v)
        return self.temp(self.post, self.expression(v))

    def list_of(self, items: Any) -> str:
        return "".join(self.rebuild(item) + ", " for item in items)

    def expression(self, v: Any) -> str:
        constant = self.names.constant
        match v:
            case Seq():
                return self.sequence(v)
            case Dict():
                return self.mapping(v)
            case View():
                return f"{self.rebuild(v.owner)}.{v.name}()"
            case Method():
                return (
                    f"{constant(types.MethodType)}({self.rebuild(v.func)}, {self.rebuild(v.owner)})"
                )
            case Partial():
                named = "".join(f"{k}={self.rebuild(x)}, " for k, x in v.kwargs.items())
                func = f"{self.rebuild(v.func)}, {self.list_of(v.args)}{named}"
                return f"{constant(functools.partial)}({func})"
            case Made():
                named = "".join(f"{k}={self.rebuild(x)}, " for k, x in v.kwargs.items())
                return f"{constant(v.cls)}({self.list_of(v.args)}{named})"
            case Bound():
                return f"{self.rebuild(v.owner)}.{v.name}"
            case Slice():
                return f"slice({self.list_of(v.parts)})"
            case Super():
                return f"super({constant(v.cls)}, {self.rebuild(v.owner)})"
            case Transformed():
                raise NeedBreak(v.made_at, f"{v.transform.__name__} of a function that is kept")
        raise Break(f"cannot rebuild {type(v).__name__}")

    def sequence(self, v: Seq) -> str:
        inner = self.list_of(v.items)
        if v.kind is list:
            return f"[{inner}]"
        if v.kind is tuple:
            return f"({inner})"
        kind = self.names.constant(v.kind)
        if isinstance(v, Bounded):
            return f"{kind}([{inner}], {v.limit})"
        return f"{kind}._make([{inner}])" if hasattr(v.kind, "_make") else f"{kind}([{inner}])"

    def mapping(self, v: Dict) -> str:
        inner = ", ".join(f"{self.key(x)}: {self.rebuild(y)}" for x, y in v.items.items())
        if v.kind is dict:
            return f"{{{inner}}}"
        kind = self.names.constant(v.kind)
        factory = f"{self.rebuild(v.factory)}, " if v.kind is collections.defaultdict else ""
        return f"{kind}({factory}{{{inner}}})"

    def key(self, value: Any) -> str:
        if type(value) is Id:
            return self.names.constant(value.value)
        return repr(value) if type(value) in (int, str, bool) else self.names.constant(value)

    def make_cell(self, v: Cell) -> str:
        name = self.built[id(v)] = self.temp(self.post, f"{self.names.constant(types.CellType)}()")
        if v.contents is not None and self.is_early:
            self.unfilled.append((name, v))
        elif v.contents is not None:
            self.post.append(f"{name}.cell_contents = {self.rebuild(v.contents)}")
        return name

    def make_set(self, v: SetVar) -> str:
        """Made as the program made it, for the order to be the same."""
        constant = self.names.constant
        name = self.temp(self.post, f"{constant(v.kind)}({constant(tuple(v.first))})")
        self.post += self.set_calls(name, v)
        return name

    def set_calls(self, target: str, v: SetVar) -> list[str]:
        lines = []
        for name, values in v.log:
            args = "".join(self.names.constant(value) + ", " for value in values)
            lines.append(f"{target}.{name}({args})")
        return lines

    def make_function(self, v: Func) -> str:
        constant = self.names.constant
        cells = f"({self.list_of(v.closure)})" if v.closure else "None"
        defaults = f"({self.list_of(v.defaults)})" if v.defaults else "None"
        parts = f"{constant(v.code)}, {constant(v.namespace)}, {v.code.co_name!r}"
        name = self.temp(self.post, f"{constant(types.FunctionType)}({parts}, {defaults}, {cells})")
        self.built[id(v)] = name
        if v.kwdefaults:
            self.post.append(f"{name}.__kwdefaults__ = {self.rebuild(Dict(v.kwdefaults))}")
        if v.annotations is not None:
            self.post.append(f"{name}.__annotations__ = {self.rebuild(v.annotations)}")
        if v.is_annotated_lazily:
            raise Break("annotations of a function that is kept")
        for attr, value in v.attrs.items():
            self.post.append(f"{name}.{attr} = {self.rebuild(value)}")
        return name

    def make_object(self, v: New) -> str:
        constant = self.names.constant
        if not self.t.world.may_be_kept(v.cls):
            raise Break(f"a {v.cls.__name__} that is made and kept")
        if issubclass(v.cls, BaseException):
            text = f"{constant(v.cls.__new__)}({constant(v.cls)}, {self.list_of(v.args)})"
        else:
            make = object.__new__ if v.table is None else dict.__new__
            text = f"{constant(make)}({constant(v.cls)})"
        name = self.built[id(v)] = self.temp(self.post, text)
        if v.table is not None:
            kind: Any = v.table.kind
            store = constant(kind.__setitem__)
            for key, item in v.table.items.items():
                self.post.append(f"{store}({name}, {self.key(key)}, {self.rebuild(item)})")
        for attr, item in v.attrs.items():
            value = self.rebuild(item)
            self.post.append(f"{constant(object.__setattr__)}({name}, {attr!r}, {value})")
        return name

    def make_iterator(self, v: Any) -> str:
        constant = self.names.constant
        match v:
            case iterators.Over():
                name = self.temp(self.post, f"iter({self.rebuild(v.base)})")
                if v.position:
                    self.post.append(f"{name}.__setstate__({v.position})")
                return name
            case iterators.Items():
                text = f"iter([{self.list_of(v.rest())}])"
            case iterators.Stepped():
                return self.rebuild(v.owner)
            case iterators.OverRange():
                text = f"iter({constant(v.numbers)})"
            case iterators.Zip():
                text = f"zip({self.list_of(v.inner)}strict={v.strict})"
            case iterators.Enumerate():
                text = f"enumerate({self.rebuild(v.inner)}, {v.count})"
            case iterators.MapIter():
                text = f"map({self.rebuild(v.func)}, {self.list_of(v.inner)})"
            case iterators.Chain():
                text = f"{constant(itertools.chain)}({self.list_of(v.inner)})"
            case iterators.Count():
                text = f"{constant(itertools.count)}({v.number!r}, {v.step!r})"
            case iterators.Repeat():
                text = f"{constant(itertools.repeat)}({self.rebuild(v.item)})"
            case iterators.Cycle():
                rest, items = self.list_of(v.items[v.position :]), self.list_of(v.items)
                cycle, chain = constant(itertools.cycle), constant(itertools.chain)
                text = f"{chain}([{rest}], {cycle}([{items}]))"
            case iterators.Filter():
                text = f"filter({self.rebuild(v.func)}, {self.rebuild(v.inner)})"
            case iterators.Generator():
                # It cannot be made again half-way: end the graph before it is made.
                raise NeedBreak(v.made_at, f"generator {v.frame.code.co_name}")
            case _:
                raise Break(f"cannot rebuild {type(v).__name__}")
        return self.temp(self.post, text)

    def make_inputs(self) -> None:
        """Functions that the graph is given stand in front of its call. What their cells hold of
        its results is filled in behind it."""
        self.is_early = True
        for node, (v, made_at) in self.t.root.made.items():
            self.post = []
            try:
                self.given[node] = self.rebuild(v)
            except Break as error:
                raise NeedBreak(made_at, str(error)) from None
            self.pre += self.post
        self.is_early = False
        self.post = []
        for name, cell in self.unfilled:
            self.post.append(f"{name}.cell_contents = {self.rebuild(cell.contents)}")

    def out(self, node: Any) -> str:
        if self.is_early:
            raise Break("a hook that holds a result of the graph")
        if node.graph is not self.t.root.graph:
            step = self.t.begun[node.graph]
            raise NeedBreak(step, "a tensor that leaves the transformed function it was made in")
        if node not in self.outs:
            self.outs[node] = f"__o{len(self.outs)}"
        return self.outs[node]

    # -- effects -----------------------------------------------------------------------------------

    def effects(self) -> list[str]:
        lines: list[str] = []
        for what, *rest in self.t.effects.values():
            lines += EFFECTS[what](self, *rest)
        return lines

    def write_contents(self, v: Any) -> list[str]:
        target = self.read(v.source)
        if isinstance(v, Dict):
            text = self.mapping(Dict(v.items))
            return [f"{target}.clear()", f"{target}.update({text})"]
        items = f"[{self.list_of(v.items)}]"
        if v.kind is list:
            return [f"{target}[:] = {items}"]
        return [f"{target}.clear()", f"{target}.extend({items})"]

    def write_table(self, v: Table) -> list[str]:
        """As the dict itself does it, whatever its class says."""
        constant, target = self.names.constant, self.read(v.owner.source)
        kind: Any = v.kind
        put = constant(kind.__setitem__)
        lines = [f"{constant(kind.clear)}({target})"]
        for key, item in v.items.items():
            lines.append(f"{put}({target}, {self.key(key)}, {self.rebuild(item)})")
        return lines

    def write_set(self, v: SetVar) -> list[str]:
        assert v.source is not None
        return self.set_calls(self.read(v.source), v)

    def write_attribute(self, v: Any, name: str, key: Any) -> list[str]:
        owner, value, way = self.read(v.source), self.t.overlay[key], self.t.ways[key]
        if way == "object":
            put = self.names.constant(object.__setattr__)
            return [f"{put}({owner}, {name!r}, {self.rebuild(value)})"]
        target = f"{owner}.__dict__[{name!r}]" if way == "fields" else f"{owner}.{name}"
        lines = [] if value is NULL else [f"{target} = {self.rebuild(value)}"]
        is_gone = value is NULL or key in self.t.recreated
        return [f"del {target}", *lines] if is_gone else lines

    def write_global(self, namespace: dict[str, Any], name: str) -> list[str]:
        value = self.rebuild(self.t.overlay[id(namespace), name])
        return [f"{self.names.constant(namespace)}[{name!r}] = {value}"]

    def write_exit(self, v: Obj) -> list[str]:
        return [f"{self.read(v.source)}.__exit__(None, None, None)"]

    def write_cell(self, v: Cell) -> list[str]:
        assert v.source is not None
        return [f"{self.read(v.source)}.cell_contents = {self.rebuild(v.contents)}"]

    # -- the entry ---------------------------------------------------------------------------------

    def entry(self, finish: Callable[[Emitter], str], backend: Any, rerun: str) -> list[str]:
        """The lines of one cache entry. `finish` gives the text of the result, `backend` compiles
        the graph, `rerun` is the text that runs the frame natively."""
        t, world = self.t, self.t.world
        self.pre.append(f"if {world.global_guard(self.names)}: break")
        for guard in t.guards:
            self.guard(guard)
        for condition, tests in self.noted.items():
            self.pre.append(f"if {condition} and ({' or '.join(tests)}): break")
        world.refuse_open()
        for generator in t.generators:
            if generator.is_left_open():
                name = generator.frame.code.co_name
                raise NeedBreak(generator.made_at, f"generator {name} that is not run to its end")
        self.make_inputs()
        result = finish(self)
        effects = self.effects()
        self.guard_identities()
        self.guard_kept()
        self.guard_memory()
        call = self.graph_call(backend) if self.needs_graph() else []
        # Last: the backend may ask for more of the sizes.
        for test in world.shape_guards(self.read):
            self.pre.append(f"if {test}: break")
        effects += self.final_modes()
        body = [
            "while True:",
            "    try:",
            *(f"        {line}" for line in self.pre),
            f"    except {self.names.constant(MISSES)}: break",
        ]
        rest = [*self.post, *effects, f"return {result}"]
        if self.reruns:
            # Behind the handler, for what the program then raises to know of no other exception.
            rest = ["else:", *(f"    {line}" for line in rest), f"return {rerun}"]
        return body + [f"    {line}" for line in [*call, *rest]]

    def final_modes(self) -> list[str]:
        """Contexts that are open behind the graph, and the modes that hold there."""
        t, constant = self.t, self.names.constant
        lines = [
            f"{constant(t.world.reopen)}({self.rebuild(manager)}, {constant(before)})"
            for manager, before in t.entered
        ]
        if t.modes != t.entry_modes:
            lines.append(self.writing(t.modes))
        return lines

    def writing(self, modes: dict[str, Any]) -> str:
        """The text that brings the thread into a state."""
        constant, entry = self.names.constant, self.t.entry_modes
        if {**modes, "grad": None} == {**entry, "grad": None} and not self.has_other_switches():
            return f"{constant(self.t.world.set_grad)}({modes['grad']})"
        return f"{constant(self.t.world.write_modes)}({constant(modes)})"

    def has_other_switches(self) -> bool:
        others = self.t.world.switches - {self.t.world.set_grad}
        return any(
            node.op == "call_function" and node.target in others for node in self.t.root.graph.nodes
        )

    def needs_graph(self) -> bool:
        """Whether anybody would miss the graph: it has results that are used, or effects."""
        recording, switches = self.t.root, self.t.world.switches
        is_empty = all(
            node.op == "placeholder" or (node.op == "call_function" and node.target in switches)
            for node in recording.graph.nodes
        )
        has_effects = recording.writes or recording.draws or recording.may_raise
        return not is_empty and bool(self.outs or has_effects)

    def input(self, recording: Any, node: Any) -> str:
        if node in self.given:
            return self.given[node]
        text, reader = self.read(recording.sources[node]), recording.readers.get(node)
        return text if reader is None else f"{self.names.constant(reader)}({text})"

    def graph_call(self, backend: Any) -> list[str]:
        """The call of the compiled graph; it ends in an `except` where it has to."""
        t = self.t
        recording = t.root
        inputs = ", ".join(self.input(recording, node) for node in recording.inputs)
        t.world.balance(t)
        recording.graph.output(tuple(self.outs))
        recording.drop_unused_parts()
        # A backend looks at grad mode to see whether gradients are wanted: where the graph switches
        # it on, it starts on, and the graph itself switches it off first.
        starts_off = t.has_switches and not t.entry_modes["grad"]
        if starts_off:
            first = next(node for node in recording.graph.nodes if node.op != "placeholder")
            with recording.graph.inserting_before(first):
                recording.graph.call_function(t.world.set_grad, (False,))
            t.world.set_grad(True)
        try:
            run = self.names.constant(backend(recording))
        except Exception:
            if not any(node.meta.get(FLOAT) for node in recording.inputs):
                raise
            raise SpecializeFloats from None
        finally:
            if t.has_switches:
                t.world.write_modes(t.entry_modes)
        left = "".join(name + ", " for name in self.outs.values())
        call = f"{left}= {run}({inputs})" if left else f"{run}({inputs})"
        # Nothing was written yet: what the graph raises, the frame run natively raises where the
        # user's handlers are, with the effects that came before.
        self.reruns = bool(t.effects or t.has_handlers) and not recording.writes
        if not self.reruns and not t.has_switches:
            return [call]
        lines = ["try:", f"    {call}"]
        if starts_off:
            lines.insert(0, f"{self.names.constant(t.world.set_grad)}(True)")
            lines.append(f"    {self.writing(t.entry_modes)}")
        lines.append("except Exception:")
        if self.reruns and recording.draws:
            lines.insert(0, f"__random = {self.names.constant(t.world.random_state)}()")
            lines.append(f"    {self.names.constant(t.world.restore_random)}(__random)")
        if t.has_switches:
            lines.append(f"    {self.writing(t.entry_modes)}")
        return [*lines, "    pass" if self.reruns else "    raise"]


def distinct_tests(texts: list[str]) -> list[str]:
    """Lines that leave where two of these are one object."""
    if len(texts) < 2:
        return []
    if len(texts) == 2:
        return [f"if {texts[0]} is {texts[1]}: break"]
    ids = ", ".join(f"id({text})" for text in texts)
    return [f"if len({{{ids}}}) != {len(texts)}: break"]


EFFECTS: dict[str, Callable[..., list[str]]] = {
    "contents": Emitter.write_contents,
    "set": Emitter.write_set,
    "table": Emitter.write_table,
    "attr": Emitter.write_attribute,
    "global": Emitter.write_global,
    "cell": Emitter.write_cell,
    "exit": Emitter.write_exit,
}
