"""Grad mode as context, decorator and function; inference mode."""

from __future__ import annotations

import pytest

import rushlight as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_forms_of_no_grad():
    @torch.no_grad()
    def with_parens():
        return torch.is_grad_enabled()

    @torch.no_grad
    def bare():
        return torch.is_grad_enabled()

    assert not with_parens() and not bare()
    assert not torch.no_grad(lambda: torch.is_grad_enabled())()
    with torch.no_grad():
        assert not (leaf(1.0) * 2).requires_grad
        assert torch.enable_grad(lambda: torch.is_grad_enabled())()
        assert torch.ones(1, requires_grad=True).requires_grad
    assert torch.is_grad_enabled()


def test_set_grad_enabled_takes_effect_at_once():
    torch.set_grad_enabled(False)
    try:
        assert not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)
    with torch.set_grad_enabled(False):
        torch.set_grad_enabled(True)
        assert torch.is_grad_enabled()
    assert torch.is_grad_enabled()

    @torch.set_grad_enabled(False)
    def inner():
        return torch.is_grad_enabled()

    assert torch.is_grad_enabled() and not inner()


def test_generators_have_the_mode_while_they_run():
    seen = []

    @torch.no_grad()
    def counter():
        try:
            for number in range(3):
                seen.append(torch.is_grad_enabled())
                try:
                    yield number
                except ValueError:
                    seen.append(torch.is_grad_enabled())
                    yield "recovered"
        finally:
            seen.append(torch.is_grad_enabled())

    running = counter()
    assert next(running) == 0 and torch.is_grad_enabled()
    assert running.send(None) == 1 and torch.is_grad_enabled()
    assert running.throw(ValueError) == "recovered" and torch.is_grad_enabled()
    running.close()
    assert torch.is_grad_enabled() and seen == [False] * 4


def test_recursion_through_decorators():
    @torch.no_grad()
    def down(n):
        assert not torch.is_grad_enabled()
        return n and up(n - 1)

    @torch.enable_grad()
    def up(n):
        assert torch.is_grad_enabled()
        return n and down(n - 1)

    down(9)
    assert torch.is_grad_enabled()


def test_decorating_classes_is_deprecated():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @torch.no_grad()
        class Thing:
            def __init__(self):
                self.mode = torch.is_grad_enabled()

            def ask(self):
                return torch.is_grad_enabled()

    assert not Thing().mode and Thing().ask()


# -- inference mode --------------------------------------------------------------------------------


def test_forms_of_inference_mode():
    @torch.inference_mode()
    def on():
        return torch.is_inference_mode_enabled()

    @torch.inference_mode(mode=False)
    def off():
        return torch.is_inference_mode_enabled()

    @torch.inference_mode
    def bare():
        return torch.is_inference_mode_enabled()

    assert on() and not off() and bare()
    with torch.inference_mode():
        assert not torch.is_grad_enabled()
        with torch.inference_mode(False):
            assert torch.is_grad_enabled() and not torch.ones(1).is_inference()
        made = torch.ones(1, requires_grad=True)
        assert made.is_inference() and made.requires_grad
    assert not torch.is_inference_mode_enabled()


def test_inference_tensors_outside():
    with torch.inference_mode():
        made = torch.ones(2)
    assert made.is_inference() and not (made + 1).is_inference()
    view = made.view(2, 1)
    assert view.is_inference() and not view._is_view()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        made.add_(1)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside"):
        torch.mul(torch.ones(2), 2, out=made)
    with pytest.raises(RuntimeError, match="do not track version counter"):
        made._version
    x = leaf(1.0, 2.0)
    (x + made).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * made


def test_normal_tensors_inside():
    x = leaf(1.0, 2.0) * 1
    saved = x.sin()
    with torch.inference_mode():
        assert (x * 2).is_inference()
        view = x[:1]
        assert not view.is_inference() and view._is_view() and view.requires_grad
        x.add_(1)
        assert x._version == 1 and not x.is_inference()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        saved.sum().backward()
    with pytest.raises(RuntimeError, match="A view was created in inference mode and is being"):
        view.mul_(2)
    plain = torch.ones(2)
    with torch.inference_mode():
        part = plain[:1]
    part.mul_(2)
    assert plain.tolist() == [2.0, 1.0]


def test_in_place_inside_changes_nothing_else():
    with torch.inference_mode():
        made = torch.ones(2, 3)
        made.add_(1)
        made.transpose_(0, 1)
        made.resize_(6)
        assert made.is_inference() and made.tolist()[0] == 2.0
