"""Pictures of autograd graphs in their three formats."""

from __future__ import annotations

import re
import xml.dom.minidom

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.viz import graph


def small():
    w = torch.ones(2, requires_grad=True)
    h = w.exp()
    return w, (h * h + w).sum()


def test_text_is_a_tree_with_shared_nodes_numbered():
    w, loss = small()
    assert str(graph(loss, params={"w": w})).split("\n") == [
        "output () float32",
        "SumBackward0 ()",
        "AddBackward0 (2)",
        "├─ MulBackward0 (2) saves other (2) 8 B, self (2) 8 B",
        "│  ├─ #1 ExpBackward0 (2) saves result (2) 8 B",
        "│  │  #2 w (2) float32",
        "│  └─ see #1 ExpBackward0",
        "└─ see #2 w",
        "4 nodes, 1 leaf, 8 B saved",
    ]


def test_several_outputs_and_names():
    w, loss = small()
    text = graph([loss, w.sum()])
    assert text.startswith("output 0 ()") and "\noutput 1 ()" in text
    assert "leaf (2) float32" in text
    assert graph({"loss": loss}, [("weight", w)]).startswith("loss ()")
    model = nn.Linear(2, 1)
    text = graph(model(torch.ones(1, 2)), params=model)
    assert "weight (1, 2) float32" in text and "bias (1) float32" in text


def test_tensors_without_a_graph():
    assert str(graph(torch.ones(2))) == "output (2) float32\n0 nodes, 0 leaves, 0 B saved"
    leaf = torch.ones(2, requires_grad=True)
    assert "1 leaf" in graph(leaf)


def test_custom_functions_views_and_freed_graphs():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    x = torch.ones(2, requires_grad=True)
    y = Cube.apply(x)
    assert "CubeBackward (2) saves [0] (2) 8 B" in graph(y)
    z = y.clone()
    z[0].mul_(2)
    assert "CopySlices of MulBackward0 (2)" in graph(z)
    y.sum().backward()
    assert "CubeBackward (2)\n" in graph(y)


def test_looking_runs_no_hooks():
    def refuse(_):
        raise AssertionError("unpacked")

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: "away", refuse):
        y = x.exp()
    assert "saves result packed by a hook" in graph(y)


def test_limit_says_what_it_leaves_out():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(5):
        y = y.exp()
    text = graph(y, limit=3)
    assert text.count("ExpBackward0") == 3 and "1 more not shown" in text and "\n...\n" in text


def test_deep_graphs_in_every_format():
    y = torch.ones(1, requires_grad=True)
    for _ in range(5000):
        y = y.exp()
    assert graph(y, limit=None).count("\n") == 5002
    for form in ("dot", "html"):
        assert graph(y, format=form, limit=None).count("ExpBackward0") >= 5000


def test_dot():
    w, loss = small()
    lines = graph(loss, {'a "quoted" name': w}, "dot").split("\n")
    assert lines[0] == "digraph autograd {" and lines[-1] == "}"
    assert any(r'label="a \"quoted\" name\n(2) float32"' in line for line in lines)
    names = dict(re.findall(r'v(\d+) \[label="(\w+)', "\n".join(lines)))
    arrows = {
        (names.get(a, "w"), names.get(b, "w"))
        for a, b in re.findall(r"v(\d+) -> v(\d+)", "\n".join(lines))
    }
    assert ("ExpBackward0", "MulBackward0") in arrows and ("SumBackward0", "output") in arrows


def test_html_is_one_file_that_needs_nothing_else(tmp_path):
    w, loss = small()
    drawing = graph(loss, {"<w>": w}, "html")
    assert drawing.startswith("<!DOCTYPE html>") and "<script" not in drawing
    assert not re.findall(r'(?:src|href)=|url\(|https?://(?!www\.w3\.org/2000/svg")', drawing)
    image = drawing[drawing.index("<svg") : drawing.index("</svg>") + 6]
    document = xml.dom.minidom.parseString(image)
    assert len(document.getElementsByTagName("rect")) == 6
    assert "&lt;w&gt;" in drawing
    assert drawing._repr_html_() == image


def test_save_follows_the_name_of_the_file(tmp_path):
    _, loss = small()
    drawing = graph(loss)
    for name, start in (
        ("g.html", "<!DOCTYPE html>"),
        ("g.dot", "digraph"),
        ("g.txt", "output"),
        ("g", "output"),
    ):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)


def test_wrong_calls():
    _, loss = small()
    with pytest.raises(ValueError, match="format must be one of"):
        graph(loss, format="png")
    with pytest.raises(TypeError, match="output 1 is int"):
        graph([loss, 3])
    with pytest.raises(TypeError, match="params must be"):
        graph(loss, params=3)
