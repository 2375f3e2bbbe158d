"""Switches can be set for a while, by block, function or class."""

import pytest

from rushlight.aot import config


def test_a_block_sets_and_restores():
    assert config.debug_assert is False
    with config.patch(debug_assert=True):
        assert config.debug_assert is True
    assert config.debug_assert is False


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
