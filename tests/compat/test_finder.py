"""The alias finder, on a small package of its own, and `compat.install()` on rushlight."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rushlight import compat
from rushlight.base.errors import MissingFeature
from rushlight.base.reasons import REASONS
from rushlight.compat.aliases import ALIASES, ROOTS
from rushlight.compat.finder import ABSENT, REFUSES, AliasFinder

FILES = {
    "__init__.py": "value = 1\ndef __getattr__(name):\n"
    "    if name == 'lazy': return 'lazily'\n    raise AttributeError(f'own text for {name}')\n",
    "nn/__init__.py": "class Linear: pass\n",
    "nn/functional.py": "def relu(): return 'relu'\n",
    "core/__init__.py": "",
    "core/node.py": "class AccumulateGrad: pass\nclass Outer:\n    inner = 5\nflag = 0\n",
    "core/broken.py": "import a_module_that_is_not_installed\n",
    "runme.py": "print(__name__)\n",
}
TABLE: dict[str, Any] = {
    "alight": {"_private": ".core.node:AccumulateGrad"},
    "alight.nn": {"_extra": ".core.node:Outer.inner", "Linear": ".core.node:Outer"},
    "alight._C": {
        "AccumulateGrad": ".core.node:AccumulateGrad",
        "inner": ".core.node:Outer.inner",
        "node": ".core.node",
        "root_value": ".:value",
        "absent": ABSENT,
        "gone": ".core.node:Gone",
        "gone_module": ".core.nowhere:Gone",
        "broken": ".core.broken:x",
    },
    "alight._C._functions": {"*": ".core.node", "pi": "math:pi"},
    "alight._deep.er.still": {"Linear": ".nn:Linear"},
    "alight._node": ".core.node",
    "alight._nowhere": ".core.nowhere",
    "flight": {"relu": ".nn.functional:relu"},
}


@pytest.fixture
def finder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AliasFinder]:
    for name, text in FILES.items():
        file = tmp_path / "stublight" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    finder = AliasFinder("stublight", {"alight": "stublight", "flight": "stublight.f"}, TABLE)
    finder.install()
    yield finder
    finder.uninstall()
    for name in [n for n in sys.modules if n.partition(".")[0] == "stublight"]:
        del sys.modules[name]


def load(name: str) -> Any:
    return importlib.import_module(name)


def test_one_module_object_under_both_names(finder: AliasFinder) -> None:
    for path in ("", ".nn", ".nn.functional", ".core.node"):
        alias, real = load("alight" + path), load("stublight" + path)
        assert alias is real
        assert sys.modules["alight" + path] is sys.modules["stublight" + path]
        assert real.__name__ == "stublight" + path
        assert real.__spec__.name == "stublight" + path
    assert load("alight").nn is load("stublight").nn


def test_class_identity_is_kept_when_the_alias_is_imported_first(finder: AliasFinder) -> None:
    from_alias = load("alight.nn").Linear
    assert load("stublight.nn").Linear is from_alias
    assert from_alias.__module__ == "stublight.nn"


def test_built_module_resolves_each_attribute_on_access(finder: AliasFinder) -> None:
    c = load("alight._C")
    assert "stublight.core.node" not in sys.modules
    node = load("stublight.core.node")
    assert c.AccumulateGrad is node.AccumulateGrad
    assert (c.inner, c.node, c.root_value) == (5, node, 1)
    assert "AccumulateGrad" in vars(c)
    assert {"AccumulateGrad", "_functions", "gone"} <= set(dir(c))


def test_star_entry_follows_its_module(finder: AliasFinder) -> None:
    functions = load("alight._C._functions")
    node = load("stublight.core.node")
    assert functions.flag == 0
    node.flag = 3
    assert functions.flag == 3
    assert functions.pi > 3
    with pytest.raises(AttributeError, match=r"alight\._C\._functions.*nope"):
        _ = functions.nope


def test_missing_targets_are_named(finder: AliasFinder) -> None:
    c = load("alight._C")
    with pytest.raises(AttributeError, match=r"'gone': it stands for stublight\.core\.node\.Gone"):
        _ = c.gone
    with pytest.raises(AttributeError, match=r"stublight\.core\.nowhere\.Gone"):
        _ = c.gone_module
    with pytest.raises(AttributeError, match="'alight._C' has no attribute 'never'") as caught:
        _ = c.never
    assert caught.value.name == "never" and caught.value.obj is c


def test_absent_names_are_missing_features(finder: AliasFinder) -> None:
    c = load("alight._C")
    with pytest.raises(MissingFeature, match=r"does not support alight\._C\.absent \(RL1301\)"):
        _ = c.absent
    assert not hasattr(c, "absent") and "absent" not in dir(c)
    with pytest.raises(ImportError, match="absent"):
        exec("from alight._C import absent")


def test_every_alias_leads_somewhere() -> None:
    def module(target: str) -> ModuleType:
        own = target.startswith(".")
        return importlib.import_module(f"rushlight{target}".rstrip(".") if own else target)

    lost = []
    for path, entry in ALIASES.items():
        for name, target in ({"": entry} if isinstance(entry, str) else entry).items():
            where, _, attributes = target.partition(":")
            try:
                if target == ABSENT or target.startswith(REFUSES):
                    continue
                value: Any = module(where)
                for attribute in filter(None, attributes.split(".")):
                    value = getattr(value, attribute)
            except (ImportError, AttributeError):
                lost.append(f"{path}.{name} -> {target}")
    assert lost == []


def test_a_target_that_fails_to_import_shows_its_own_error(finder: AliasFinder) -> None:
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_not_installed"):
        _ = load("alight._C").broken


def test_parents_of_table_paths_exist(finder: AliasFinder) -> None:
    assert load("alight._deep.er.still").Linear is load("stublight.nn").Linear
    assert load("alight")._deep.er.still.Linear is load("stublight.nn").Linear


def test_string_entry_is_the_module_itself(finder: AliasFinder) -> None:
    assert load("alight._node") is load("stublight.core.node")
    with pytest.raises(ModuleNotFoundError, match=r"alight\._nowhere"):
        load("alight._nowhere")
    with pytest.raises(AttributeError, match="_nowhere"):
        _ = load("alight")._nowhere


def test_real_modules_gain_private_names_without_an_import(finder: AliasFinder) -> None:
    root = load("alight")
    assert root._private is load("stublight.core.node").AccumulateGrad
    assert root._C.inner == 5
    assert load("stublight.nn")._extra == 5  # imported after install, by its real name
    assert load("alight.nn").Linear.__name__ == "Linear"  # a module's own name wins


def test_a_modules_own_getattr_comes_first_and_keeps_its_text(finder: AliasFinder) -> None:
    root = load("alight")
    assert root.lazy == "lazily"
    with pytest.raises(AttributeError, match="own text for nothing"):
        _ = root.nothing


def test_extended_module_keeps_its_own_loader(finder: AliasFinder) -> None:
    nn = load("stublight.nn")
    assert nn.__spec__.loader is nn.__loader__
    assert nn.__loader__.get_source("stublight.nn") == FILES["nn/__init__.py"]


def test_missing_module_is_a_plain_module_not_found(finder: AliasFinder) -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        load("alight.nn.nope")
    assert caught.value.name == "alight.nn.nope"
    assert importlib.util.find_spec("alight.nope") is None
    assert load("flight").relu() == "relu"
    with pytest.raises(ModuleNotFoundError):
        load("flight.nope")


def test_module_offered_as_attribute_can_be_imported(finder: AliasFinder) -> None:
    ops = ModuleType("stublight.ops")
    load("stublight").ops = ops
    assert load("alight.ops") is ops


def test_other_finders_cannot_supply_submodules(finder: AliasFinder, tmp_path: Path) -> None:
    (tmp_path / "intruder.py").write_text("raise RuntimeError('must not run')")

    class Editable:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            if name == "alight.intruder":
                return importlib.util.spec_from_file_location(name, tmp_path / "intruder.py")
            return None

    sys.meta_path.append(Editable)
    try:
        with pytest.raises(ModuleNotFoundError, match=r"alight\.intruder"):
            load("alight.intruder")
    finally:
        sys.meta_path.remove(Editable)


def test_code_of_an_alias_can_be_run(
    finder: AliasFinder, capsys: pytest.CaptureFixture[str]
) -> None:
    import runpy

    runpy.run_module("alight.runme", run_name="__main__")
    assert capsys.readouterr().out == "__main__\n"


def test_uninstall_leaves_nothing_behind(finder: AliasFinder) -> None:
    root = load("alight")
    _ = root._C, root._node, load("alight.nn")._extra
    finder.uninstall()
    assert not [n for n in sys.modules if n.partition(".")[0] in ("alight", "flight")]
    assert not hasattr(root, "_C") and not hasattr(root, "_node")
    assert not hasattr(root.nn, "_extra")
    assert root.lazy == "lazily"
    with pytest.raises(ModuleNotFoundError):
        load("alight")


def test_install_refuses_when_another_module_has_the_name() -> None:
    other = ModuleType("takenlight")
    sys.modules["takenlight"] = other
    try:
        finder = AliasFinder("rushlight", {"takenlight": "rushlight"}, {})
        with pytest.raises(RuntimeError, match="'takenlight' is already imported"):
            finder.install()
        assert finder not in sys.meta_path
    finally:
        del sys.modules["takenlight"]


# -------------------------------------------------------------------- rushlight itself


@pytest.fixture
def installed() -> Iterator[None]:
    was = compat.is_installed()
    compat.install()
    yield
    if not was:
        compat.uninstall()


def test_torch_is_rushlight(installed: None) -> None:
    rushlight = load("rushlight")
    assert load("torch") is rushlight
    assert rushlight.__name__ == "torch"
    assert load("torch.compat") is compat
    compat.install()
    assert sum(isinstance(f, AliasFinder) for f in sys.meta_path) == 1


def test_private_paths_can_be_imported(installed: None) -> None:
    for path, entry in ALIASES.items():
        if not isinstance(entry, str):
            load(path)
    assert load("torch")._C._functions.__name__ == "torch._C._functions"


def test_table_is_well_formed() -> None:
    for path, entry in ALIASES.items():
        assert path.partition(".")[0] in ROOTS
        targets = [entry] if isinstance(entry, str) else list(entry.values())
        for target in targets:
            if target == ABSENT or target.startswith(REFUSES):
                assert target == ABSENT or target.removeprefix(REFUSES) in REASONS
                continue
            module, colon, attribute = target.partition(":")
            own = module.startswith(".") and not module.endswith("..")
            assert own or module.partition(".")[0] in sys.stdlib_module_names
            assert bool(colon) == bool(attribute)
        if not isinstance(entry, str):
            assert all(name == "*" or name.isidentifier() for name in entry)


def test_a_function_hides_the_module_of_its_name():
    """`torch.autograd.gradcheck` can be imported, and stays a function of `torch.autograd`; so for
    modules that exist under torch's name only."""
    script = """
import rushlight.compat
rushlight.compat.install()
import torch.autograd.gradcheck
from torch.autograd.gradcheck import GradcheckError, gradcheck
import sys
assert torch.autograd.gradcheck is gradcheck and torch.autograd.GradcheckError is GradcheckError
assert sys.modules["torch.autograd.gradcheck"].gradgradcheck is torch.autograd.gradgradcheck
from torch._higher_order_ops.map import map, map_impl
assert torch._higher_order_ops.map is map and torch.ops.higher_order.map_impl is map_impl
rushlight.compat.uninstall()
assert "torch.autograd.gradcheck" not in sys.modules
assert rushlight.autograd.gradcheck is gradcheck
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_operators_of_the_nn_namespace_under_their_own_names() -> None:
    script = """
import rushlight.compat
rushlight.compat.install()
import torch
x = torch.arange(4.0).view(1, 1, 2, 2)
assert torch._C._nn.upsample_nearest2d(x, (4, 4)).sum().item() == 24
assert torch._C._nn.upsample_bilinear2d(x, (1, 1), False).item() == 1.5
assert torch._C._nn.reflection_pad2d(x, (1, 1, 1, 1)).shape == (1, 1, 4, 4)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_operators_as_torch_functional_calls_them() -> None:
    script = """
import rushlight.compat
rushlight.compat.install()
import torch
from torch import _VF
import torch._VF as direct
assert _VF is direct and _VF.relu(torch.tensor([-1.0])).item() == 0
assert _VF.max(torch.tensor([1.0, 2.0]), 0).values.item() == 2
assert _VF.einsum("i,i->", [torch.ones(3), torch.ones(3)]).item() == 3
assert len(_VF.unique_consecutive(torch.ones(3))) == 3
assert torch._C._VariableFunctions.add(torch.ones(1), 1).item() == 2
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
