"""tensor(), as_tensor, from_numpy, frombuffer and the legacy constructors."""

from __future__ import annotations

import array
import copy
import pickle

import numpy as np
import pytest

import rushlight as rl


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (1, rl.int64),
        (1.0, rl.float32),
        (True, rl.bool),
        (1j, rl.complex64),
        ([1, 2.5, True], rl.float32),
        ([True, 2], rl.int64),
        ([1, 2j], rl.complex64),
        ([], rl.float32),
        (np.float64(1), rl.float64),
        ([np.float64(1)], rl.float64),
        ([np.float32(1), 1.0], rl.float32),
        ([np.float16(1), np.int64(2)], rl.float16),
        ([np.int32(1), True], rl.int32),
        (range(3), rl.int64),
    ],
)
def test_inferred_dtype(data: object, kind: object) -> None:
    assert rl.tensor(data).dtype is kind


def test_inference_follows_the_default_dtype() -> None:
    rl.set_default_dtype(rl.float64)
    try:
        assert rl.tensor(1.0).dtype is rl.float64
        assert rl.tensor([1j]).dtype is rl.complex128
        assert rl.zeros(1).dtype is rl.float64
    finally:
        rl.set_default_dtype(rl.float32)


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ([[1, 2], [3, 4]], (2, 2)),
        ([[], []], (2, 0)),
        ([[[]], []], (2, 1, 0)),
        ([[[1.0]]], (1, 1, 1)),
    ],
)
def test_nesting(data: object, shape: tuple) -> None:
    assert rl.tensor(data).shape == shape


@pytest.mark.parametrize(
    ("data", "kind", "error", "text"),
    [
        ([[1, 2], [3]], None, ValueError, r"length 2 at dim 1 \(got 1\)"),
        ([1, [2]], None, TypeError, "'list' object cannot be interpreted as an integer"),
        ([[1], 2], None, TypeError, "not a sequence"),
        ("a", None, TypeError, "new\\(\\): invalid data type 'str'"),
        (["a"], None, ValueError, "too many dimensions 'str'"),
        (None, None, RuntimeError, "Could not infer dtype of NoneType"),
        (2**63, None, ValueError, "Overflow when unpacking long long"),
        (256, rl.uint8, RuntimeError, "type uint8 without overflow"),
        (300.7, rl.int8, RuntimeError, "type int8 without overflow"),
        (1j, rl.float32, TypeError, "must be real number, not complex"),
    ],
)
def test_refused_data(data: object, kind: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        rl.tensor(data, dtype=kind)


def test_numbers_are_converted_as_torch_does() -> None:
    assert rl.tensor(-1, dtype=rl.uint8).item() == 255
    assert rl.tensor(1.7, dtype=rl.int64).item() == 1
    assert rl.tensor(2**63, dtype=rl.uint64).item() == 2**63
    assert rl.tensor([0.1], dtype=rl.float16).tolist() == [0.0999755859375]
    assert rl.tensor([rl.tensor([2.0]), 3]).tolist() == [2.0, 3.0]


def test_tensor_of_a_tensor_warns() -> None:
    x = rl.ones(2)
    with pytest.warns(UserWarning, match="To copy construct from a tensor"):
        y = rl.tensor(x)
    y.zero_()
    assert x.tolist() == [1.0, 1.0]


def test_from_numpy_shares_memory_and_strides() -> None:
    array = np.zeros((3, 4))
    x = rl.from_numpy(array[:, ::2])
    assert x.stride() == (4, 2)
    x.fill_(1.0)
    assert array.sum() == 6.0
    with pytest.raises(ValueError, match="strides in the given numpy array is negative|negative"):
        rl.from_numpy(array[::-1])
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        rl.from_numpy([1])
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.str_"):
        rl.from_numpy(np.array(["a"]))


def test_as_tensor_and_asarray_share_where_they_can() -> None:
    x = rl.ones(2)
    assert rl.as_tensor(x) is x
    assert rl.asarray(x) is x
    assert rl.asarray(x, copy=True) is not x
    array = np.ones(2)
    rl.as_tensor(array).zero_()
    assert array.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="can't alias arbitrary sequence"):
        rl.asarray([1.0], copy=False)


def test_frombuffer() -> None:
    memory = bytearray(b"\x01\x00\x02\x00")
    x = rl.frombuffer(memory, dtype=rl.int16)
    assert x.tolist() == [1, 2]
    x[0] = 5
    assert memory[0] == 5
    with pytest.raises(ValueError, match="must be a multiple of element size"):
        rl.frombuffer(bytearray(7), dtype=rl.float32)


def test_legacy_constructors() -> None:
    assert rl.Tensor(2, 3).shape == (2, 3)
    assert rl.Tensor([1, 2]).dtype is rl.float32
    assert rl.Tensor(rl.Size([2, 3])).shape == (2, 3)
    assert rl.LongTensor([1.5, 2]).tolist() == [1, 2]
    assert isinstance(rl.ones(1), rl.FloatTensor)
    assert not isinstance(rl.ones(1), rl.LongTensor)
    assert rl.ones(1).type() == "torch.FloatTensor"
    assert rl.ones(1).type(rl.DoubleTensor).dtype is rl.float64
    with pytest.raises(TypeError, match="data must be a sequence"):
        rl.Tensor(2.0)

    class Mine(rl.Tensor):
        pass

    assert type(Mine([1, 2])) is Mine


def test_values_of_a_subclass_are_copied_without_it() -> None:
    class Mine(rl.Tensor):
        pass

    mine = rl.ones(2).as_subclass(Mine)
    with pytest.warns(UserWarning, match="copy construct"):
        assert type(rl.tensor(mine)) is rl.Tensor
    assert type(mine.detach()) is Mine


def test_public_functions_pickle_by_name():
    functional = rl.nn.functional
    for function in (
        rl.add, rl.sum, rl.zeros, rl.meshgrid, functional.gelu, functional.conv2d,
        functional.logsigmoid, functional.relu, rl.linalg.inv, rl.fft.fft, rl.special.erf,
        rl.Tensor.add, rl.Tensor.relu_, rl.Tensor.new_zeros,
    ):  # fmt: skip
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function


def test_asarray_reads_the_bytes_of_buffers_as_the_default_dtype() -> None:
    numbers = array.array("f", [1.0, 2.0])
    found = rl.asarray(numbers, copy=False)
    found[0] = 5
    assert numbers[0] == 5 and rl.asarray(numbers, copy=True).data_ptr() != found.data_ptr()
    assert rl.asarray(array.array("d", [1.0])).tolist() == [0.0, 1.875]
    assert rl.asarray(array.array("i", [1, 2]), dtype=rl.int32).tolist() == [1, 2]
    with pytest.raises(ValueError, match="must not be 0"):
        rl.asarray(array.array("f"))
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        rl.asarray(np.float32(3), copy=False)
    assert rl.asarray(np.float32(3)).dtype is rl.float32


def test_asarray_takes_capsules():
    source = rl.arange(3.0)
    found = rl.asarray(source.__dlpack__())
    found[0] = 7
    assert source[0] == 7
    assert rl.asarray(source.__dlpack__(), copy=True).data_ptr() != source.data_ptr()


class Slotted(rl.Tensor):
    __slots__ = ("elem",)


class Doubly(Slotted):
    __slots__ = "other"


class Wrapper(rl.Tensor):
    __slots__ = ("elem",)

    @staticmethod
    def __new__(cls, elem):
        made = rl.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [a.elem if isinstance(a, cls) else a for a in args]
        return cls(func(*plain, **(kwargs or {})))


def test_subclasses_may_have_slots():
    for made in (
        rl.ones(3).as_subclass(Slotted),
        rl.Tensor._make_subclass(Slotted, rl.ones(3)),
        Slotted([1.0, 1.0, 1.0]),
    ):
        made.elem = 5
        assert (made.elem, made.tolist(), type(made + 1)) == (5, [1.0] * 3, Slotted)
    leaf = rl.ones(3, requires_grad=True)
    (leaf.as_subclass(Slotted) * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0] * 3
    assert rl.equal((Wrapper(rl.ones(3)) * 3).elem, rl.full((3,), 3.0))


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_copies_keep_attributes_and_slots(again):
    made = rl.ones(2).as_subclass(Doubly)
    made.elem, made.other, made.free = 1, 2, 3
    found = again(made)
    assert (type(found), found.elem, found.other, found.free) == (Doubly, 1, 2, 3)
    assert (found.data_ptr() == made.data_ptr()) is (again is copy.copy)
    parameter = again(rl.nn.Parameter(rl.ones(2)))
    assert isinstance(parameter, rl.nn.Parameter) and parameter.requires_grad


def test_swapped_tensors_swap_slots():
    a, b = rl.ones(3).as_subclass(Slotted), rl.zeros(2).as_subclass(Slotted)
    a.elem, b.elem = 1, 2
    rl.utils.swap_tensors(a, b)
    assert (a.tolist(), a.elem, b.elem) == ([0.0, 0.0], 2, 1)


def test_storages_are_made_of_a_length_or_of_values():
    assert rl.UntypedStorage(4).nbytes() == 4
    assert rl.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert rl.UntypedStorage(4, device="meta").device.type == "meta"
    numbers = rl.FloatStorage([1, 2.5])
    assert numbers.tolist() == [1.0, 2.5] and numbers.dtype is rl.float32
    assert isinstance(numbers, rl.FloatStorage) and not isinstance(numbers, rl.DoubleStorage)
    assert rl.is_storage(numbers) and numbers.type() == "torch.FloatStorage"
    assert isinstance(rl.ones(2).untyped_storage(), rl.UntypedStorage)
    assert isinstance(rl.ones(2).storage(), rl.storage.TypedStorage)
    assert rl.TypedStorage(3, dtype=rl.int64).nbytes() == 24
    assert rl.empty(0).set_(numbers).tolist() == [1.0, 2.5]
    bytes_ = rl.UntypedStorage([1, 2, 3])
    bytes_[1:][0] = 9
    assert bytes_.tolist() == [1, 9, 3]
    with pytest.raises(RuntimeError, match="-1 bytes"):
        rl.UntypedStorage(-1)


def test_tensors_over_files(tmp_path):
    path = tmp_path / "numbers"
    np.arange(4, dtype=np.float32).tofile(path)
    shared = rl.from_file(path, shared=True, size=4)
    shared[0] = 9
    private = rl.from_file(str(path), size=4)
    private[1] = 7
    assert private.tolist() == [9.0, 7.0, 2.0, 3.0]
    assert rl.from_file(path, size=2).tolist() == [9.0, 1.0]
    grown = rl.from_file(tmp_path / "new", shared=True, size=3, dtype=rl.int64)
    assert grown.tolist() == [0, 0, 0] and (tmp_path / "new").stat().st_size == 24
    with pytest.raises(RuntimeError, match="16 bytes where 20 are needed"):
        rl.from_file(path, size=5)


def test_results_written_into_out_have_a_class_of_their_own():
    out = (rl.empty(2), rl.empty(2, dtype=rl.int64))
    found = rl.max(rl.ones(2, 2), 0, out=out)
    assert type(found) is rl.return_types.max_out and found.values is out[0]
    assert type(rl.sort(rl.ones(2), out=out)) is rl.return_types.sort_out
    with pytest.raises(AttributeError):
        _ = rl.return_types.add_out


def test_geometry_of_wrappers_may_be_positional():
    made = rl.Tensor._make_wrapper_subclass(Wrapper, (2, 3), (1, 2), 4)
    assert (tuple(made.shape), made.stride(), made.storage_offset()) == ((2, 3), (1, 2), 4)
    made = rl.Tensor._make_wrapper_subclass(
        Wrapper, size=[2], strides=None, storage_offset=None, dtype=rl.float64, requires_grad=True
    )
    assert (tuple(made.shape), made.dtype, made.requires_grad) == ((2,), rl.float64, True)


@pytest.mark.parametrize(
    "cls, size, text",
    [
        (int, (2,), "from a class that does not inherit from Tensor"),
        (Slotted, (2,), "Slotted must define __torch_dispatch__"),
        (Wrapper, 2, r"'size' \(position 2\) must be tuple of ints, not int"),
        (Wrapper, "a", r"'size' \(position 2\) must be tuple of ints, not str"),
    ],
)
def test_refused_wrappers(cls, size, text):
    with pytest.raises(TypeError, match=text):
        rl.Tensor._make_wrapper_subclass(cls, size)


class Logged(rl.Tensor):
    seen: list[str] = []

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(f"{cls.__name__}: {func}")
        return super().__torch_dispatch__(func, types, args, kwargs)


class Inner(Logged):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append("first")
        return super().__torch_dispatch__(func, types, args, kwargs)


def test_a_subclass_may_leave_calls_to_its_base():
    Logged.seen.clear()
    found = rl.ones(2).as_subclass(Logged) + 1
    assert (type(found), found.tolist()) == (rl.Tensor, [2.0, 2.0])
    assert Logged.seen == ["Logged: aten.add.Tensor"]
    Logged.seen.clear()
    assert type(rl.ones(2).as_subclass(Inner).mul(3)) is rl.Tensor
    assert Logged.seen == ["first", "Inner: aten.mul.Tensor"]
    Logged.seen.clear()
    leaf = rl.ones(2).as_subclass(Logged).requires_grad_()
    (leaf * 2).sum().backward()
    assert leaf.grad.tolist() == [2.0, 2.0]
    assert Logged.seen == ["Logged: aten.mul.Tensor"]


def test_a_class_that_wants_no_dispatch_has_none():
    class Quiet(Logged):
        __torch_dispatch__ = rl.Tensor.__torch_dispatch__

    Logged.seen.clear()
    assert (rl.ones(2).as_subclass(Quiet) + 1).tolist() == [2.0, 2.0]
    assert Logged.seen == []


class Rows:
    """Has a length and elements, and no class that says so."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


class Closed(Rows):
    def __getitem__(self, index):
        raise TypeError


def test_whatever_has_a_length_and_elements_is_a_sequence():
    assert rl.tensor(Rows([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert rl.tensor(Rows([Rows([1, 2]), [3, 4]])).tolist() == [[1, 2], [3, 4]]
    assert rl.Tensor(Rows([1, 2])).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="could not determine the shape of object type 'Closed'"):
        rl.tensor(Closed([1.0]))
    with pytest.raises(RuntimeError, match="Could not infer dtype of dict"):
        rl.tensor({0: 1.0})


def test_lists_that_hold_themselves_have_no_end():
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too many dimensions 'list'"):
        rl.tensor(endless)


def test_writes_to_the_data_of_a_wrapper_are_not_counted():
    class Wrapper(rl.Tensor):
        @staticmethod
        def __new__(cls, inner):
            made = rl.Tensor._make_wrapper_subclass(cls, inner.size(), dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            inner = [value.inner if isinstance(value, cls) else value for value in args]
            return cls(func(*inner, **(kwargs or {})))

    x = Wrapper(rl.ones(2))
    x.detach().add_(1)
    assert x._version == 1
    x.data.add_(1)
    assert x._version == 1
    assert x.inner.tolist() == [3.0, 3.0]
    data = x.data
    assert (data.add_(1)._version, x._version) == (1, 1)


def test_constructors_of_classes_see_tensors_as_views():
    class Derived(rl.Tensor):
        pass

    x = rl.ones(2, requires_grad=True)
    for made in (Derived(x), rl.Tensor(x)):
        assert made._base is x and made.requires_grad
        (made * 3).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    plain = rl.ones(2)
    Derived(plain).add_(1)
    assert (plain._version, plain.tolist()) == (1, [2.0, 2.0])


class Exporter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


class Column(Rows):
    """A sequence by its methods that has an array, under other labels than numbers."""

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype)

    def __getitem__(self, index):
        raise KeyError(index)


def test_memory_that_objects_hand_out():
    source = rl.ones(3)
    for make in (rl.tensor, rl.as_tensor):
        assert make(Exporter(source)).tolist() == [1.0, 1.0, 1.0]
    assert rl.tensor(Column([1, 2])).tolist() == [1, 2]
    with pytest.raises(TypeError, match="stream must be"):
        source.__dlpack__(stream="0")


def test_new_tensors_are_no_views_under_autocast() -> None:
    with rl.autocast("cpu", dtype=rl.bfloat16):
        made = [rl.tensor([1, 2]), rl.tensor([1.0]), rl.as_tensor([1])]
    assert not any(tensor._is_view() for tensor in made)
