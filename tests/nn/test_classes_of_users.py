"""Classes that build on those of `nn`, by the methods that torch's own call or offer for it."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import conv, norm
from rushlight.nn import functional as F
from rushlight.optim.schedule import LRScheduler, within_step


def test_convolutions_from_the_base() -> None:
    class Own(conv.Convolution):
        def __init__(self) -> None:
            super().__init__(4, 6, (3, 3), (2, 2), (1, 1), (1, 1), False, (0, 0), 2, True, "zeros")

        def forward(self, x: Any) -> Any:
            return F.conv2d(
                x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
            )

    class Spreading(conv.Convolution):
        def __init__(self) -> None:
            super().__init__(4, 2, (3, 3), (2, 2), (0, 0), (1, 1), True, (1, 1), 1, False, "zeros")

    torch.manual_seed(0)
    own = Own()
    torch.manual_seed(0)
    plain = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2)
    x = torch.randn(1, 4, 7, 7)
    assert torch.equal(own(x), plain(x)) and not own.transposed
    assert "kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2" in repr(own)
    spreading = Spreading()
    assert spreading.weight.shape == (4, 2, 3, 3) and spreading.transposed
    assert spreading.output_padding == (1, 1) and spreading.bias is None


def test_padding_on_both_sides() -> None:
    layer = nn.Conv2d(1, 1, 3, padding=(1, 2), padding_mode="circular")
    assert layer._reversed_padding_repeated_twice == (2, 2, 1, 1)
    same = nn.Conv2d(1, 1, 4, padding="same", padding_mode="reflect")
    assert same._reversed_padding_repeated_twice == [1, 2, 1, 2]
    assert nn.Conv1d(1, 1, 3, padding="valid")._reversed_padding_repeated_twice == [0, 0]


def test_transposed_convolutions_ask_for_their_output_padding() -> None:
    class Own(nn.ConvTranspose2d):
        def _output_padding(self, input: Any, output_size: Any, *facts: Any) -> Any:
            return super()._output_padding(input, output_size or [10, 10], *facts)

    assert Own(2, 2, 3, 2)(torch.ones(1, 2, 4, 4)).shape == (1, 2, 10, 10)
    layer = nn.ConvTranspose2d(2, 2, 3, 2)
    facts = ((2, 2), (0, 0), (3, 3), 2)
    x = torch.ones(1, 2, 4, 4)
    assert layer._output_padding(x, [10, 10], *facts, (1, 1)) == [1, 1]
    assert layer._output_padding(x, [9, 9], *facts) == [0, 0]
    with pytest.raises(ValueError, match="valid sizes range"):
        layer._output_padding(x, [20, 20], *facts)


@pytest.mark.parametrize("base", [norm.BatchNorm, norm.InstanceNorm])
def test_norms_take_what_their_class_says(base: Any) -> None:
    class Any_(base):  # type: ignore[misc]
        def _check_input_dim(self, input: Any) -> None:
            pass

        def _get_no_batch_dim(self) -> int:
            return 2

    for sizes in ((4, 3, 6), (4, 3, 2, 2, 2, 2)):
        assert Any_(3)(torch.randn(sizes)).shape == sizes
    with pytest.raises(NotImplementedError):
        base(3)(torch.randn(4, 3, 6))


def test_a_norm_of_one_rank_can_take_another() -> None:
    class Own(nn.BatchNorm2d):
        def _check_input_dim(self, input: Any) -> None:
            if input.dim() != 3:
                raise ValueError("three")

    assert Own(3)(torch.randn(4, 3, 2)).shape == (4, 3, 2)
    with pytest.raises(ValueError, match="three"):
        Own(3)(torch.randn(4, 3, 2, 2))


def test_recurrent_layers_check_their_arguments_by_a_method() -> None:
    class Own(nn.LSTM):
        def check_forward_args(self, input: Any, hidden: Any, batch_sizes: Any) -> None:
            self.seen = (input.shape, [part.shape for part in hidden], batch_sizes)
            super().check_forward_args(input, hidden, batch_sizes)

    layer = Own(3, 4)
    layer(torch.randn(5, 2, 3))
    assert layer.seen == ((5, 2, 3), [(1, 2, 4), (1, 2, 4)], None)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 3), [5, 3])
    layer(packed)
    assert layer.seen[2].tolist() == [2, 2, 2, 1, 1]
    x, state = torch.randn(5, 2, 3), torch.zeros(1, 2, 4)
    assert layer.get_expected_hidden_size(x, None) == (1, 2, 4)
    assert nn.LSTM(3, 4, proj_size=2).get_expected_cell_size(x, None) == (1, 2, 4)
    assert nn.LSTM(3, 4, proj_size=2).get_expected_hidden_size(x, None) == (1, 2, 2)
    with pytest.raises(
        RuntimeError, match=r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 3, 4\]"
    ):
        layer(x, (state, torch.zeros(1, 3, 4)))
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 1, 4\]"):
        nn.GRU(3, 4)(x, torch.zeros(1, 1, 4))
    with pytest.raises(RuntimeError, match="mine"):
        layer.check_hidden_size(state, (1, 1, 1), "mine {} {}")


def test_embeddings_fill_their_padding() -> None:
    class Own(nn.Embedding):
        def reset_parameters(self) -> None:
            nn.init.ones_(self.weight)
            self._fill_padding_idx_with_zero()

    assert Own(3, 2, padding_idx=1).weight.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_containers_tell_places() -> None:
    layers = [nn.ReLU(), nn.Tanh()]
    assert nn.ModuleList(layers)._get_abs_string_index(-1) == "1"
    row = nn.Sequential(*layers)
    assert row._get_item_by_idx(row._modules.values(), -1) is layers[1]
    with pytest.raises(IndexError):
        row._get_item_by_idx(row._modules.values(), 2)


def test_a_call_of_ones_own_is_called_with_and_without_hooks() -> None:
    class Doubling(nn.Linear):
        def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
            return super()._call_impl(*args, **kwargs) * 0 + 7

    class Further(Doubling):
        pass

    for cls in (Doubling, Further):
        layer = cls(1, 1)
        assert layer(torch.ones(1)).item() == 7
        layer.register_forward_hook(lambda module, args, out: out + 1)
        assert layer(torch.ones(1)).item() == 7


def test_steps_of_users() -> None:
    class Schedule(LRScheduler):
        def get_lr(self) -> list[Any]:
            assert self._get_lr_called_within_step
            return [0.5]

        def step(self, epoch: Any = None) -> None:
            with within_step(self):
                self._put_rates(self.get_lr())
            assert not self._get_lr_called_within_step

    class Own(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            self._cuda_graph_capture_health_check()
            return super().step(closure)

    parameter = nn.Parameter(torch.ones(1))
    parameter.grad = torch.ones(1)
    optimizer = Own([parameter], lr=1.0)
    Schedule(optimizer)
    optimizer.step()
    assert parameter.item() == 0.5
