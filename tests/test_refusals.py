"""Refusals carry codes of one table, which is the source of docs/errors.md."""

from __future__ import annotations

import ast
import io
import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.base.errors import CheckpointError, MissingFeature
from rushlight.base.reasons import AREAS, REASONS

ROOT = Path(__file__).parent.parent
# What TorchScript compiles raises torch's own errors, by their texts.
PROGRAMS = ROOT / "rushlight" / "jit" / "scripting" / "library"
SOURCES = sorted(set((ROOT / "rushlight").rglob("*.py")) - set(PROGRAMS.rglob("*.py")))
TABLE = ROOT / "rushlight" / "base" / "reasons.py"
UNCODED = ("NotImplementedError", "MissingFeature")
# The words of torch's kernels for a dtype they lack.
KERNEL_WORDS = "not implemented for '"


# -- the table -------------------------------------------------------------------------------------


def test_the_page_is_up_to_date() -> None:
    written = runpy.run_path(str(ROOT / "tools" / "write_errors_page.py"))
    assert (ROOT / "docs" / "errors.md").read_text() == written["page"](), "run make docs"


def test_codes_used_and_codes_known_are_the_same() -> None:
    used = {
        node.value
        for source in SOURCES
        if source != TABLE
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Constant) and re.fullmatch(r"RL\d{4}", str(node.value))
    }
    assert used == set(REASONS)


def test_every_code_belongs_to_an_area_and_explains_itself() -> None:
    for code, reason in REASONS.items():
        assert code[:4] in AREAS
        assert reason.why or reason.remedy, code
        assert not re.search(r"RL\d{4}", reason.what.replace(code, "")), code


# -- the package -----------------------------------------------------------------------------------


def is_torchs(lines: list[str], call: ast.Call) -> bool:
    """Whether the words are torch's: said in a comment there or above, or a kernel's."""
    near = lines[call.lineno - 1], lines[call.lineno - 2].strip()
    return "# torch:" in near[0] or near[1].startswith("# torch:") or KERNEL_WORDS in text_of(call)


def text_of(call: ast.Call) -> str:
    return "".join(n.value for n in ast.walk(call) if type(getattr(n, "value", None)) is str)


def abstract_raises(tree: ast.AST) -> Iterator[ast.AST]:
    """What methods raise that do nothing else: subclasses define them."""
    for owner in ast.walk(tree):
        for method in owner.body if isinstance(owner, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                rest = method.body[ast.get_docstring(method) is not None :]
                if len(rest) == 1 and isinstance(rest[0], ast.Raise) and rest[0].exc:
                    yield rest[0].exc


def uncoded(text: str) -> list[int]:
    """The lines of a source that refuse something without a code."""
    tree, lines = ast.parse(text), text.splitlines()
    abstract = set(abstract_raises(tree))
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        if name not in UNCODED or any(word.arg == "code" for word in call.keywords):
            continue
        if name == "NotImplementedError" and (call in abstract or is_torchs(lines, call)):
            continue
        found.append(call.lineno)
    return found


def test_the_search_finds_what_it_should() -> None:
    assert uncoded('raise NotImplementedError("no")') == [1]
    assert uncoded('# torch: the words.\nraise MissingFeature("no")') == [2]
    assert uncoded('def f():\n    return NotImplementedError("no")') == [2]
    assert not uncoded('# torch: the words.\nraise NotImplementedError("no")')
    assert not uncoded('raise MissingFeature("no", code="RL0001")')
    assert not uncoded("raise NotImplementedError(f\"'{k}' not implemented for '{t}'\")")
    assert not uncoded('class A:\n def f(self):\n  "Doc."\n  raise NotImplementedError("A.f")')


def test_no_refusal_lacks_a_code() -> None:
    found = [f"{p.relative_to(ROOT)}:{n}" for p in SOURCES for n in uncoded(p.read_text())]
    assert not found, "give these a code of rushlight/base/reasons.py"


# -- what users meet -------------------------------------------------------------------------------


def meta(*sizes: int) -> torch.Tensor:
    return torch.empty(*sizes, device="meta")


def backward_of_nextafter() -> None:
    x = torch.ones(2, requires_grad=True)
    torch.nextafter(x, x.detach() + 1).sum().backward()


def backward_of_a_plain_custom_op() -> None:
    @torch.library.custom_op("test_refusals::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice(torch.ones(2, requires_grad=True)).sum().backward()


def forward_mode_with_out() -> None:
    torch.func.jvp(lambda x: torch.sin(x, out=torch.empty(2)), (torch.ones(2),), (torch.ones(2),))


def trace_a_branch() -> None:
    def branch(x):
        return x if x.sum() > 0 else -x

    torch.fx.symbolic_trace(branch)


def read_a_value_while_tracing() -> None:
    from rushlight.aot.tracing import make_fx

    make_fx(lambda x: x * x.sum().item())(torch.ones(2))


def fake_nonzero() -> None:
    from rushlight.core.fake import FakeTensorMode

    with FakeTensorMode():
        torch.ones(3).nonzero()


def compile_a_module_call() -> None:
    from rushlight.compiler import compile_graph

    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    compile_graph(torch.fx.symbolic_trace(model), [torch.ones(1, 2)])


def step_with_learned_rate() -> None:
    rate = torch.tensor(0.1, requires_grad=True)
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=rate, differentiable=True)
    weight.sum().backward()
    optimizer.step()


def set_an_unknown_switch() -> None:
    from rushlight.aot import config

    config.no_such_switch = True


CASES: list[tuple[str, type[Exception], Callable[[], object]]] = [
    ("RL0301", MissingFeature, lambda: torch.ops.load_library(__file__)),
    ("RL1330", OSError, lambda: torch.ops.load_library("lib.so")),
    ("RL0302", RuntimeError, lambda: torch.library.register_vmap("test_refusals::none", print)),
    ("RL0304", RuntimeError, lambda: torch.library.Library("aten", "IMPL").impl("sin", abs, "No")),
    ("RL0402", NotImplementedError, lambda: meta(2).to("cpu")),
    ("RL0402", NotImplementedError, lambda: meta(2).tolist()),
    ("RL0403", NotImplementedError, lambda: meta(2).nonzero()),
    ("RL0403", NotImplementedError, lambda: torch.equal(meta(2), meta(2))),
    ("RL0408", BufferError, lambda: meta(2).__dlpack__()),
    ("RL0501", NotImplementedError, lambda: torch.eye(2).to_sparse().untyped_storage()),
    (
        "RL0502",
        NotImplementedError,
        lambda: torch.ops.aten._to_copy(torch.eye(2), layout=torch.sparse_coo),
    ),
    ("RL0503", NotImplementedError, lambda: torch.eye(2).to_sparse().cumsum(0)),
    ("RL0506", MissingFeature, lambda: torch.zeros_like(torch.eye(2).to_sparse(), device="meta")),
    ("RL0507", NotImplementedError, lambda: torch.eye(2)._nnz()),
    ("RL0509", NotImplementedError, lambda: torch.eye(2).to_sparse() ** 0),
    ("RL0512", NotImplementedError, lambda: torch.sparse.spsolve(torch.eye(2), torch.ones(2))),
    ("RL0520", MissingFeature, lambda: torch.nested.nested_tensor([torch.ones(2)]).unbind(1)),
    ("RL0602", NotImplementedError, forward_mode_with_out),
    ("RL0603", NotImplementedError, backward_of_nextafter),
    ("RL0608", RuntimeError, backward_of_a_plain_custom_op),
    ("RL0709", RuntimeError, fake_nonzero),
    ("RL0712", RuntimeError, read_a_value_while_tracing),
    ("RL0713", Exception, trace_a_branch),
    ("RL0802", NotImplementedError, compile_a_module_call),
    ("RL0901", CheckpointError, lambda: torch.load(io.BytesIO(b"PK\3\4 no archive"))),
    ("RL0909", CheckpointError, lambda: torch.load(io.BytesIO())),
    ("RL1002", RuntimeError, lambda: meta(2).share_memory_()),
    ("RL1102", MissingFeature, step_with_learned_rate),
    ("RL1201", MissingFeature, lambda: torch.nn.DataParallel(torch.nn.Linear(1, 1), [0])),
    ("RL1202", NotImplementedError, lambda: torch.ones(2, device="xpu")),
    ("RL1209", AssertionError, lambda: torch.ones(2, device="cuda")),
    ("RL1207", RuntimeError, lambda: torch.tensor([1.0], pin_memory=True)),
    ("RL1210", AttributeError, set_an_unknown_switch),
]


@pytest.mark.parametrize(("code", "kind", "call"), CASES, ids=[code for code, _, _ in CASES])
def test_refusals_carry_their_code(
    code: str, kind: type[Exception], call: Callable[[], object]
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code
    told = [str(caught.value), *getattr(caught.value, "__notes__", ())]
    assert any(code in part for part in told), "the code reaches whoever reads the traceback"
    assert not any("{" in part for part in told), "every template is filled"


def test_the_table_is_loaded_by_the_first_refusal() -> None:
    program = (
        "import sys, rushlight as torch\nname = 'rushlight.base.reasons'\n"
        "print(name in sys.modules)\n"
        "try: torch.ones(2, device='xpu')\n"
        "except NotImplementedError: print(name in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True"]
