"""What is told to users, chosen by torch's function."""

from __future__ import annotations

import logging

import pytest

from rushlight.base import logs
from rushlight.base.config import config


@pytest.fixture(autouse=True)
def kept():
    with config.patch(logs=config.logs):
        yield
    logging.getLogger("torch").setLevel(logging.NOTSET)


def test_topics_are_chosen_by_torchs_names(capsys):
    logs.set_logs(graph_breaks=True, output_code=True, recompiles=False)
    assert [name for name in logs.TOPICS if logs.is_on(name)] == ["graph_breaks", "kernel"]
    logs.write("kernel", "a\nb")
    assert capsys.readouterr().err == "[kernel] a\n[kernel] b\n"
    logs.set_logs()
    assert not any(map(logs.is_on, logs.TOPICS))


def test_everything_is_told_at_debug_level():
    logs.set_logs(dynamo=logging.INFO)
    assert not any(map(logs.is_on, logs.TOPICS))
    logs.set_logs(all=logging.DEBUG)
    assert all(map(logs.is_on, logs.TOPICS))


def test_what_is_not_told_is_said():
    with pytest.warns(UserWarning, match="tells nothing of aot_graphs"):
        logs.set_logs(aot_graphs=True, guards=True)
    assert logs.is_on("guards")


def test_wrong_topics():
    with pytest.raises(TypeError, match="unexpected keyword argument 'grapes'"):
        logs.set_logs(grapes=True)
    with pytest.raises(ValueError, match="Expected bool to enable artifact guards"):
        logs.set_logs(guards=3)
