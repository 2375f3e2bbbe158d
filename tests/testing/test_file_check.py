"""FileCheck: matches in order, and what is said where there is none."""

import pytest

from rushlight.testing import FileCheck

TEXT = """graph(%x : Tensor):
  %1 : int = prim::Constant[value=1]()
  %2 : Tensor = aten::add(%x, %x, %1)
  %3 : Tensor = aten::add(%2, %x, %1)
  %4 : Tensor = aten::mul(%3, %x)
  return (%4)
"""
MET = [
    FileCheck().check("aten::add").check("aten::mul"),
    FileCheck().check_not("aten::div"),
    FileCheck().check("add").check_next("aten::add").check_next("mul"),
    FileCheck().check("add").check_same("%1"),
    FileCheck().check_count("aten::add", 2, exactly=True),
    FileCheck().check_dag("aten::mul").check_dag("aten::add"),
    FileCheck().check_regex(r"aten::\w+\(%3"),
    FileCheck().check("Constant").check_not("mul").check("add"),
]
MISSED = [
    (FileCheck().check("mul").check("add"), 'Expected to find "add" but did not find it'),
    (FileCheck().check_not("mul"), 'Expected to not find "mul" but found it'),
    (FileCheck().check("add").check_not("add").check("mul"), "~~~ <--- HERE"),
    (FileCheck().check("Constant").check_next("mul"), r'Expected to not find "\\n" but found it'),
    (FileCheck().check("add").check_same("mul"), "From CHECK-SAME: mul"),
    (FileCheck().check_count("add", 1, exactly=True), 'Expected to not find "add"'),
    (FileCheck().check_count("add", 3), "From CHECK-COUNT-3: add"),
    (FileCheck().check_dag("mul").check_dag("foo"), "From CHECK-DAG: foo"),
    (FileCheck().check_regex("aten::zz"), 'Expected to find regex "aten::zz"'),
    (FileCheck(), "No checks have been added"),
]


@pytest.mark.parametrize("checks", MET)
def test_what_is_met(checks):
    checks.run(TEXT)


@pytest.mark.parametrize(("checks", "reason"), MISSED)
def test_what_is_missed(checks, reason):
    with pytest.raises(RuntimeError, match=reason):
        checks.run(TEXT)


def test_highlighted_source():
    checks = FileCheck().check_source_highlighted("x + y")
    checks.run("a\n  z = x + y\n      ~~~~~ <--- HERE\n")
    with pytest.raises(RuntimeError, match="highlighted"):
        checks.run("a\n  z = x + y\n      ~~~~~~~\n")


def test_checks_from_a_text():
    FileCheck().run("# CHECK: aten::add\n# CHECK-NEXT: aten::add\n# CHECK-COUNT-1: mul", TEXT)
    with pytest.raises(RuntimeError, match="From CHECK-NOT: mul"):
        FileCheck().run("# CHECK-NOT: mul", TEXT)


def test_one_that_was_not_run_says_so(capsys):
    checks = FileCheck().check("a")
    del checks
    assert "You have not run this instance of FileCheck!" in capsys.readouterr().err
