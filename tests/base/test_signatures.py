"""Functions whose signature is data act as functions that were written down."""

from __future__ import annotations

from inspect import Parameter, Signature, signature

import pytest

from rushlight.base.signatures import function_of

IN_ORDER, BY_NAME = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
FORM = Signature(
    [
        Parameter("params", IN_ORDER),
        Parameter("lr", IN_ORDER, default=0.1),
        Parameter("fused", BY_NAME),
        Parameter("foreach", BY_NAME, default=None),
    ]
)


@pytest.fixture
def made():
    return function_of(FORM, "Owner.make", lambda given: given)


def test_arguments_are_given_by_name_with_defaults(made):
    assert made(1, fused=2) == {"params": 1, "lr": 0.1, "fused": 2, "foreach": None}
    assert made(1, 3, fused=2, foreach=4) == {"params": 1, "lr": 3, "fused": 2, "foreach": 4}


def test_code_and_signature_name_the_arguments(made):
    assert made.__code__.co_varnames == ("params", "lr", "fused", "foreach")
    assert (made.__defaults__, made.__kwdefaults__) == ((0.1,), {"foreach": None})
    assert signature(made) == FORM


def test_errors_name_the_function(made):
    with pytest.raises(TypeError, match=r"^Owner.make\(\) missing 1 required .*: 'fused'"):
        made(1)
    with pytest.raises(TypeError, match=r"^Owner.make\(\) got an unexpected keyword argument 'x'"):
        made(1, fused=1, x=2)
