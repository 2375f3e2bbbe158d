"""Backward programs: a graph that keeps coming back runs as one function of arrays.

A training loop builds the same graph again and again. When a graph of one signature has been run
a few times with nobody watching, the engine runs it once more under a witness that records the
kernels' calls, and `rushlight.autograd.writing` turns the record into straight-line code. A graph
that cannot be written so stays with the engine. `RUSHLIGHT_BACKWARD_PROGRAMS=0` switches this off;
gradients are the same bit for bit either way.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.engine import accumulate, run_root
from rushlight.autograd.signature import Found, Signature, describe, write_matcher
from rushlight.core.node import autograd_state
from rushlight.core.op import REPLACED
from rushlight.core.state import PROCESS, ThreadState
from rushlight.core.tensor import wrap

__all__ = ["GraphCall", "Program", "forget_graphs", "run_known"]

ndarray = np.ndarray
# How often a graph must come up before its program is written, and how many graphs are remembered
# before all are forgotten.
PATIENCE = 4
MOST_GRAPHS = 512
# Matchers tried before a walk, for each class of root: a few graphs take turns in most programs.
MOST_MATCHERS = 3
LARGEST_MATCHER = 120

# signature -> Program, False (cannot be written), or the number of visits so far
GRAPHS: dict[Signature, Any] = {}
MATCHERS: dict[type, tuple[tuple[Any, Program], ...]] = {}


class GraphCall:
    """A whole graph as one kernel: what it computes depends on the elements of its operands alone,
    and nothing else comes of it. `backend` takes and gives plain tensors."""

    __slots__ = ("backend",)
    base_name = "graph"

    def __init__(self, backend: Callable[..., Sequence[Any]]) -> None:
        self.backend = backend

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self.backend(*args)


class Program:
    """`run(grad, *saved)` answers one contiguous array per leaf (None where no gradient arrives),
    each in memory that nothing else uses."""

    __slots__ = ("dtypes", "matcher", "name", "run", "same", "source")

    def __init__(
        self,
        run: Any,
        dtypes: tuple[Any, ...],
        same: tuple[tuple[int, int], ...],
        source: str,
        name: str,
    ) -> None:
        self.run = run
        # of the answers
        self.dtypes = dtypes
        # Pairs of saved tensors that shared their array when the program was written: it may
        # have taken one for the other.
        self.same = same
        self.source = source
        self.name = name
        # Recognises the program's graph; written when it is first met again.
        self.matcher: Any = None

    def __del__(self, texts: dict[str, Any] = linecache.cache) -> None:
        # What tracebacks show goes with the program.
        for name in (self.name, f"matcher of {self.name}"):
            texts.pop(f"<rushlight {name}>", None)

    def fits(self, arrays: tuple[Any, ...]) -> bool:
        """Whether what was one array when the program was written is one array again."""
        return all([arrays[a] is arrays[b] for a, b in self.same])


def run_known(root: Any, number: int, grad: Any, keep_graph: bool, state: ThreadState) -> bool:
    """Run the graph below `root` by its program, or write that; False, having done nothing, when
    it is the engine's turn."""
    if REPLACED:  # a user's kernel may do anything
        return False
    for match, known in MATCHERS.get(type(root), ()):
        matched = match(root, number)
        if matched is not None and (not known.same or known.fits(matched[0])):
            arrays, leaves, nodes = matched
            run_program(known, arrays, leaves, nodes, grad, keep_graph, state)
            return True
    found = describe(root, number)
    if found is None:
        return False
    program = GRAPHS.get(found.signature, 0)
    if type(program) is Program:
        arrays = tuple([tensor._array for tensor in found.saved])
        if not program.same or program.fits(arrays):
            remember(root, found, program)
            run_program(program, arrays, found.leaves, found.nodes, grad, keep_graph, state)
            return True
        # Written anew from this graph, it will serve both.
        program = PATIENCE
    if program is False or any([tensor._array is grad._array for tensor in found.saved]):
        # Recorded now, the gradient would be taken for what is saved.
        return False
    if program >= PATIENCE:
        run_recorded(root, number, found, grad, keep_graph, state)
        return True
    if len(GRAPHS) >= MOST_GRAPHS:
        forget_graphs()
    GRAPHS[found.signature] = program + 1
    return False


def remember(root: Any, found: Found, program: Program) -> None:
    """Put the graph first among those tried for a root of this class."""
    if program.matcher is None:
        if len(found.nodes) > LARGEST_MATCHER:
            return
        program.matcher = write_matcher(found.signature, f"matcher of {program.name}")
    others = [entry for entry in MATCHERS.get(type(root), ()) if entry[1] is not program]
    MATCHERS[type(root)] = ((program.matcher, program), *others[: MOST_MATCHERS - 1])


def forget_graphs() -> None:
    """Drop all programs and counts."""
    GRAPHS.clear()
    MATCHERS.clear()


def run_recorded(
    root: Any, number: int, found: Found, grad: Any, keep_graph: bool, state: ThreadState
) -> None:
    """Let the engine run the graph, write its program, and only then hand out the gradients."""
    from rushlight.autograd.writing import ProgramRecorder

    recorder = ProgramRecorder([grad, *found.saved])
    collected: dict[Any, Any] = {}
    with recorder:
        # The saved tensors are the program's inputs: they must outlive the run.
        run_root(root, number, grad, True, collected)
    GRAPHS[found.signature] = recorder.write([collected.get(leaf) for leaf in found.leaves])
    store(collected.items(), False, state)
    if not keep_graph:
        for node in found.nodes:
            node.release()


def run_program(
    program: Program,
    arrays: tuple[Any, ...],
    leaves: Any,
    nodes: Any,
    grad: Any,
    keep_graph: bool,
    state: ThreadState,
) -> None:
    answers = program.run(grad._array, *arrays)
    if keep_graph:
        for node in nodes:
            node.note_run()
    else:
        for node in nodes:
            node.release()
    alone = PROCESS.threads == 1
    held = []
    for leaf, value, dtype in zip(leaves, answers, program.dtypes):
        if value is None:
            continue
        result = wrap(value, dtype)
        own = leaf._autograd
        if own is None:
            own = autograd_state(leaf)
        if alone and own.grad is None and leaf._is_contiguous and leaf._requires_grad:
            own.grad = result
        else:
            held.append((leaf, result))
    if held:
        store(held, True, state)


def store(gradients: Iterable[tuple[Any, Any]], sole: bool, state: ThreadState) -> None:
    """Accumulate into (leaf, gradient) pairs as the engine does it: without recording."""
    before = state.grad
    try:
        state.set_grad(False)
        for leaf, grad in gradients:
            accumulate(leaf, grad, sole, state)
    finally:
        # The store before the call: a signal may raise in it.
        state.grad = before
        state.set_grad(before)
