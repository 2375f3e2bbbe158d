"""Pictures of fx graphs in their three formats."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import rushlight as torch
from rushlight import fx
from rushlight.aot.api import aot_function
from rushlight.aot.tracing import make_fx
from rushlight.viz.programs import draw_graph, program, steps_of

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.lin(x)) + 1


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x):
        return self.second(self.first(x)).sin()


def joint() -> list[Any]:
    kept: list[Any] = []

    def keep(module: Any, _: Any) -> Any:
        kept.append(module)
        return module

    x = torch.randn(3, requires_grad=True)
    aot_function(lambda x: x.sin().sum(), keep, keep)(x).backward()
    return kept


def test_text() -> None:
    module = make_fx(lambda x: x.sin() * 2)(torch.ones(3))
    assert program(module).split("\n") == [
        "x_1  (3) float32  input",
        "sin  (3) float32  aten.sin.default(%x_1)",
        "mul  (3) float32  aten.mul.Tensor(%sin, 2)",
        "output  return %mul",
    ]


def test_text_has_modules_and_phases() -> None:
    text = program(fx.symbolic_trace(Model()))
    assert re.findall(r"-- (\S+)", text) == [
        "first.lin",
        "first",
        "second.lin",
        "second",
        "forward",
    ]
    assert "first_lin  self.first.lin(%x)" in text
    forward, backward = joint()
    assert "backward" not in program(forward)
    assert "-- backward" in program(backward)
    assert {step.phase for step in steps_of(backward.graph)} == {"forward", "backward"}


def test_dot() -> None:
    text = program(fx.symbolic_trace(Model()), "dot")
    assert text.startswith('digraph "Model" {') and text.endswith("}")
    assert 'label="second.lin";' in text and '"x" -> "first_lin";' in text
    assert "#ffe6cc" in program(joint()[1], "dot")


def page_data(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    return json.loads(found[1])


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "input"):
            self.open.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_page_needs_nothing_else() -> None:
    traced = make_fx(Model())(torch.randn(2, 4))
    text = program(traced, "html", title="a <b> & c")
    reader = Reader()
    reader.feed(text)
    assert reader.open == [] and reader.addresses == []
    assert "<title>a &lt;b&gt; &amp; c</title>" in text and "http" not in text.replace(
        "http://www.w3.org/2000/svg", ""
    )
    data = page_data(text)
    assert data["title"] == "a <b> & c"
    assert [step["name"] for step in data["steps"]] == [node.name for node in traced.graph.nodes]
    assert data["steps"][0]["shape"] == "(2, 4)" and data["steps"][0]["dtype"] == "float32"


def test_strings_of_programs_cannot_leave_their_script() -> None:
    def hostile(x):
        torch._assert(x, "</script><script>alert(1)</script>")
        return x

    text = program(fx.symbolic_trace(hostile), "html")
    assert text.count("</script>") == 2
    assert "</script><script>alert(1)</script>" in json.dumps(page_data(text))


def test_source_lines() -> None:
    module = make_fx(lambda x: x.sin())(torch.ones(2))
    node = next(n for n in module.graph.nodes if n.name == "sin")
    node.stack_trace = 'File "/a/b/model.py", line 7, in forward\n    x.sin()\n'
    assert "sin  (2) float32  aten.sin.default(%x_1)  model.py:7" in program(module)
    assert page_data(program(module, "html"))["steps"][1]["source"] == "model.py:7"


def test_files(tmp_path: Any) -> None:
    drawing = program(make_fx(lambda x: x.sin())(torch.ones(2)))
    for name, start in (("a.txt", "x_1"), ("a.dot", "digraph"), ("a.html", "<!DOCTYPE html>")):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(start)
    draw_graph(make_fx(lambda x: x.sin())(torch.ones(2)), str(tmp_path / "figure"))
    assert (tmp_path / "figure.html").exists()
    assert "srcdoc=" in drawing._repr_html_()


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match="format must be one of"):
        program(fx.Graph(), "png")
    with pytest.raises(TypeError, match="not Linear"):
        program(torch.nn.Linear(1, 1))


def browser() -> str:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(
            f"NO BROWSER: none of {', '.join(BROWSERS)} is installed, the page is not drawn"
        )
    return found


def run_browser(*arguments: str) -> str:
    command = [browser(), "--headless", "--disable-gpu", "--no-sandbox", "--window-size=1200,900"]
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_page_in_a_browser(tmp_path: Any) -> None:
    page = tmp_path / "graph.html"
    program(fx.symbolic_trace(Model()), "html").save(page)
    drawn = run_browser("--dump-dom", page.as_uri())
    assert drawn.count('class="box') == len(list(fx.symbolic_trace(Model()).graph.nodes))
    run_browser(f"--screenshot={tmp_path / 'graph.png'}", page.as_uri())
    image = (tmp_path / "graph.png").read_bytes()
    assert image.startswith(b"\x89PNG") and len(image) > 5000
    # Folded up, each module is one box.
    text = page.read_text().replace(
        "\n</script>\n</body>", '\ndocument.getElementById("fold").click();\n</script>\n</body>'
    )
    page.write_text(text)
    assert run_browser("--dump-dom", page.as_uri()).count('class="box forward module') == 2


def run_page(tmp_path: Any, module: Any, *actions: str) -> Any:
    """What the page's script draws in a small document of our own."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("NO NODE: the page's script is not run")
    page = tmp_path / "graph.html"
    program(module, "html").save(page)
    script = Path(__file__).with_name("dom.js")
    command = [node, str(script), str(page), *actions]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_script_draws_every_node(tmp_path: Any) -> None:
    module = fx.symbolic_trace(Model())
    drawn = run_page(tmp_path, module)
    assert [box["key"][2:] for box in drawn["boxes"]] == [n.name for n in module.graph.nodes]
    assert drawn["edges"] == sum(len(node.all_input_nodes) for node in module.graph.nodes)
    assert drawn["count"] == "9 nodes" and drawn["title"] == "Model"
    # No box lies on another.
    places = [tuple(float(box["rect"][k]) for k in ("x", "y", "width")) for box in drawn["boxes"]]
    assert len({y for _, y, _ in places}) == len(places)


def test_script_folds_modules(tmp_path: Any) -> None:
    module = fx.symbolic_trace(Model())
    folded = run_page(tmp_path, module, "click=fold")
    keys = [box["key"] for box in folded["boxes"]]
    assert keys == ["n:x", "m:forward:first", "m:forward:second", "n:sin", "n:output"]
    assert folded["boxes"][1]["texts"] == ["first", "3 nodes"] and folded["edges"] == 4
    opened = run_page(tmp_path, module, "click=fold", "click=m:forward:first")
    assert len(opened["boxes"]) == 7
    assert len(run_page(tmp_path, module, "click=fold", "click=unfold")["boxes"]) == 9


def test_script_searches_and_shows_details(tmp_path: Any) -> None:
    module = make_fx(lambda x: x.sin() + x.cos())(torch.ones(2))
    drawn = run_page(tmp_path, module, "search=aten.cos", "click=n:sin")
    found = [box["key"] for box in drawn["boxes"] if "found" in box["class"]]
    assert found == ["n:cos"] and drawn["count"] == "1 of 5"
    chosen = [box["key"] for box in drawn["boxes"] if "chosen" in box["class"]]
    assert chosen == ["n:sin"]
    assert {"sin", "aten.sin.default(%x_1)", "(2)", "float32", "x_1", "add"} <= set(
        drawn["details"]
    )


def training_step() -> Any:
    """Forward and backward of two blocks, more than a page shows unfolded."""

    class Deep(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([Model() for _ in range(3)])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x.sum()

    model = Deep()
    parameters = dict(model.named_parameters())

    def step(parameters, x):
        loss = torch.func.functional_call(model, parameters, (x,))
        return loss, torch.autograd.grad(loss, list(parameters.values()))

    traced = make_fx(step, record_module_stack=True, record_stack_traces=True)
    return traced(parameters, torch.ones(2, 4))


def test_long_programs_start_folded(tmp_path: Any) -> None:
    module = training_step()
    drawn = run_page(tmp_path, module)
    boxes = {box["key"]: box for box in drawn["boxes"]}
    assert len(module.graph.nodes) > 100 > 2 * len(boxes)
    blocks = [f"Deep.blocks.{number}" for number in range(3)]
    assert {f"m:{phase}:{block}" for phase in ("forward", "backward") for block in blocks} <= set(
        boxes
    )
    # Parameters are in the module that uses them, the data are not.
    assert boxes["m:forward:Deep.blocks.0"]["texts"][1].endswith("4 parameters")
    assert "n:x_1" in boxes and "n:parameters_1" not in boxes
    rows = {key: float(box["rect"]["y"]) for key, box in boxes.items()}
    forward, backward = (
        [rows[f"m:{phase}:{b}"] for b in blocks] for phase in ("forward", "backward")
    )
    assert forward == sorted(forward) and max(forward) < min(backward)
    assert backward == sorted(backward, reverse=True)
    # A module opens by one level.
    opened = run_page(tmp_path, module, "click=m:forward:Deep.blocks.0")
    keys = {box["key"] for box in opened["boxes"]}
    assert {"m:forward:Deep.blocks.0.first", "m:backward:Deep.blocks.0.second"} <= keys


def test_boxes_lie_apart(tmp_path: Any) -> None:
    drawn = run_page(tmp_path, training_step(), "click=unfold")
    places = [
        tuple(float(box["rect"][k]) for k in ("x", "y", "width", "height"))
        for box in drawn["boxes"]
    ]
    for at, (x, y, width, height) in enumerate(places):
        for left, top, wide, high in places[:at]:
            assert x >= left + wide or left >= x + width or y >= top + high or top >= y + height


def test_training_step_in_a_browser(tmp_path: Any) -> None:
    page = tmp_path / "step.html"
    program(training_step(), "html").save(page)
    drawn = run_browser("--dump-dom", page.as_uri())
    assert (
        drawn.count('class="box forward module') == drawn.count('class="box backward module') == 3
    )
    assert drawn.count('class="edge saved') >= 3


def test_script_colours_the_backward(tmp_path: Any) -> None:
    drawn = run_page(tmp_path, joint()[1])
    kinds = {box["key"]: box["class"].split()[1] for box in drawn["boxes"]}
    assert kinds["n:tangents_1"] == "backward" and kinds["n:primals_1"] == "forward"
