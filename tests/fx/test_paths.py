"""Where torch has the names of graphs: the modules of `fx` and what they show of themselves."""

import importlib
import pickle

import pytest

import rushlight.fx as fx

NAMES = {
    "graph": "Graph CodeGen PythonCode Node map_arg TransformCodeFunc immutable_dict _Namespace "
    "_PyTreeCodeGen _PyTreeInfo magic_methods",
    "node": "Node Argument map_arg map_aggregate has_side_effect",
    "immutable_collections": "immutable_dict immutable_list",
    "graph_module": "GraphModule",
    "interpreter": "Interpreter Transformer",
    "proxy": "Proxy TraceError TracerBase",
}


@pytest.mark.parametrize("module", NAMES)
def test_modules_have_torchs_names(module):
    found = importlib.import_module(f"rushlight.fx.{module}")
    assert getattr(fx, module) is found
    for name in NAMES[module].split():
        assert hasattr(found, name)


@pytest.mark.parametrize("name", ["Graph", "Node", "CodeGen", "GraphModule", "Interpreter"])
def test_classes_say_that_they_are_of_fx(name):
    cls = getattr(fx, name)
    assert cls.__module__.startswith("rushlight.fx.")
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_missing_names_are_refused():
    with pytest.raises(AttributeError, match="module 'rushlight.fx' has no attribute 'Grpah'"):
        fx.Grpah
    assert {"Graph", "symbolic_trace", "passes"} <= set(dir(fx))
