"""The names of torch.ao: nearly all work, or refuse with a code when they are used."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature
from rushlight.compat.quantization_aliases import QUANTIZATION_ALIASES
from rushlight.quantization import graphs
from rushlight.quantization.graphs.customs import PrepareCustomConfig

CODE = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
import rushlight.compat
rushlight.compat.install()
import torch
from rushlight.base.refusals import is_refused
found = {"works": 0, "refuses": 0, "missing": []}
for path, names in json.load(sys.stdin).items():
    module = importlib.import_module(path)
    for name in names:
        try:
            value = getattr(module, name)
        except AttributeError:
            found["missing"].append(f"{path}.{name}")
        else:
            found["refuses" if is_refused(value) else "works"] += 1
found["operators"] = len(dir(torch.ops.quantized))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found():
    named = {
        path: [name for name in names if name != "*"]
        for path, names in QUANTIZATION_ALIASES.items()
        if not isinstance(names, str)
    }
    named |= {
        root: ["prepare", "convert", "quantize", "fuse_modules", "QConfig", "FakeQuantize"]
        for root in ("torch.ao.quantization", "torch.quantization")
    }
    done = subprocess.run(
        [sys.executable, "-c", CODE], input=json.dumps(named), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_name_of_the_table_leads_somewhere(found):
    assert found["missing"] == []
    assert found["works"] > 480


def test_operators_are_found_by_namespace(found):
    assert found["operators"] > 110


def test_options_that_are_not_followed_are_refused():
    model, x = torch.nn.Linear(1, 1), ()
    with pytest.raises(MissingFeature, match="backend_config"):
        graphs.prepare_fx(model, None, x, backend_config=object())
    with pytest.raises(MissingFeature, match="keep_original_weights"):
        graphs.convert_fx(model, keep_original_weights=True)
    config = PrepareCustomConfig().set_input_quantized_indexes([0])
    with pytest.raises(MissingFeature, match="input_quantized_indexes"):
        graphs.prepare_fx(model, None, x, prepare_custom_config=config)
    assert PrepareCustomConfig.from_dict(config.to_dict()).input_quantized_indexes == [0]
