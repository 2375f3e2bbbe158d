"""Switches can be set for a while, by block, function or class."""

from pathlib import Path

import pytest

from rushlight.aot import config
from rushlight.base.errors import MissingFeature
from rushlight.codegen import config as codegen_config


def test_a_block_sets_and_restores():
    assert config.cse is True
    with config.patch(cse=False):
        assert config.cse is False
    assert config.cse is True


def test_the_three_ways_of_naming_switches():
    for patch in (
        config.patch(cse=False),
        config.patch("cse", False),
        config.patch({"cse": False}),
    ):
        with patch:
            assert config.cse is False
    assert config.cse is True


def test_functions_and_test_classes():
    @config.patch(cse=False)
    def inside():
        return config.cse

    @config.patch({"cse": False})
    class Tests:
        def test_one(self):
            return config.cse

        def other(self):
            return config.cse

    assert inside() is False
    assert Tests().test_one() is False
    assert Tests().other() is True


def test_unknown_switches_are_refused():
    with pytest.raises(AttributeError, match="no switch named 'cze'"), config.patch(cze=True):
        pass


def test_an_exception_restores_too():
    with pytest.raises(ZeroDivisionError), config.patch(cse=False):
        raise ZeroDivisionError
    assert config.cse is True


MODULES = {"aot": config, "codegen": codegen_config}


def switches_of(module):
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and isinstance(value, (bool, int, float))
    }


@pytest.mark.parametrize("package", MODULES)
def test_every_switch_has_a_reader(package):
    module = MODULES[package]
    folder = Path(module.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "config.py")
    settable = switches_of(module) - set(module.held) - module.tuning
    assert settable
    assert {name for name in settable if f"config.{name}" not in text} == set()
    assert set(module.held) <= switches_of(module)


@pytest.mark.parametrize("package", MODULES)
def test_a_value_that_would_change_nothing_is_refused(package):
    module = MODULES[package]
    for name in module.held:
        before = getattr(module, name)
        setattr(module, name, before)
        with pytest.raises(MissingFeature, match=f"{name} = {not before}"):
            setattr(module, name, not before)
        with pytest.raises(MissingFeature), module.patch({name: not before}):
            pass
        assert getattr(module, name) is before


def test_assigning_an_unknown_switch_is_refused():
    with pytest.raises(AttributeError, match="no switch named 'cze'"):
        config.cze = True


def test_a_refused_patch_leaves_the_others_as_they_were():
    with (
        pytest.raises(MissingFeature),
        config.patch({"cse": False, "functionalize_rng_ops": True}),
    ):
        pass
    assert config.cse is True


def test_tuning_is_kept_by_name_and_group():
    tuned = MODULES["codegen"]
    before = tuned.coordinate_descent_tuning, tuned.triton.unique_kernel_names
    with tuned.patch(coordinate_descent_tuning=True):
        assert tuned.coordinate_descent_tuning is True
    tuned.triton.unique_kernel_names = before[1]
    assert (tuned.coordinate_descent_tuning, tuned.triton.unique_kernel_names) == before
    with pytest.raises(AttributeError, match="no switch named 'unique_names'"):
        tuned.triton.unique_names = True
