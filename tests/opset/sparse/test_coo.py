"""Sparse tensors: layouts, arithmetic, gradients, and bags of embeddings."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd.checking import gradcheck, gradgradcheck

LAYOUTS = ("to_sparse", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr", "to_sparse_bsc")


def dense() -> Any:
    return torch.tensor([[0.0, 0.0, 3.0], [4.0, 0.0, 5.0]])


def coo(**options: Any) -> Any:
    return torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3), **options)


def twice() -> Any:
    """One element given two times."""
    return torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 10.0], (3,))


def names(tensor: Any, count: int = 3) -> list[str]:
    found, node = [], tensor.grad_fn
    while node is not None and len(found) < count:
        found.append(type(node).__name__)
        following = node.next_functions
        node = following[0][0] if following else None
    return found


def block(name: str) -> tuple[Any, ...]:
    return ((2, 2),) if "bs" in name[-3:] else ()


# -- construction and parts ------------------------------------------------------------------------


def test_constructor_forms() -> None:
    assert torch.sparse_coo_tensor([[0, 2]], [1, 2]).shape == (3,)
    empty = torch.sparse_coo_tensor((2, 3))
    assert empty._nnz() == 0 and empty.is_coalesced() and empty.to_dense().tolist() == [[0] * 3] * 2
    hybrid = torch.sparse_coo_tensor([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (3, 2))
    assert (hybrid.sparse_dim(), hybrid.dense_dim()) == (1, 1)
    assert hybrid.to_dense().tolist() == [[1, 2], [3, 4], [0, 0]]
    given = coo(dtype=torch.float64, requires_grad=True)
    assert given.dtype is torch.float64 and given.requires_grad and given.is_leaf


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (([0, 1], [1.0, 2.0]), "indices must be sparse_dim x nnz"),
        (([[0, 1]], [1.0, 2.0, 3.0], (2,)), "must have same nnz"),
        (([[0, 1]], [1.0, 2.0], (2, 3)), r"len\(size\) == sparse_dim \+ dense_dim"),
        (([[0, 1]], [[1.0], [2.0]], (2, 3)), r"expected \[2, 3\], got \[2, 1\]"),
        (([[0, 5]], [1.0, 2.0], (2,)), "for dim 0, size is 2 but found index 5"),
        (([[0, -1]], [1.0, 2.0], (2,)), "found negative index -1 for dim 0"),
    ],
)
def test_constructor_refuses(args: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        torch.sparse_coo_tensor(*args)


def test_integers_cannot_require_grad() -> None:
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        torch.sparse_coo_tensor([[0]], [1], (2,), requires_grad=True)


def test_parts_of_uncoalesced() -> None:
    s = twice()
    assert not s.is_coalesced() and s._nnz() == 3
    with pytest.raises(RuntimeError, match="Cannot get values on an uncoalesced tensor"):
        s.values()
    c = s.coalesce()
    assert c.is_coalesced() and c.coalesce() is c
    assert c.indices().tolist() == [[0, 1]] and c.values().tolist() == [2.0, 11.0]
    assert s.to_dense().tolist() == [2.0, 11.0, 0.0]


def test_facts() -> None:
    s = coo()
    assert s.is_sparse and s.layout is torch.sparse_coo and not s.is_sparse_csr
    assert s.stride() == (0, 0) and not s.is_contiguous() and s.numel() == 6
    csr = dense().to_sparse_csr()
    assert csr.is_sparse_csr and not csr.is_sparse
    with pytest.raises(RuntimeError, match="Sparse CSR tensors do not have strides"):
        csr.stride()
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        s.data_ptr()
    with pytest.raises(RuntimeError, match="values expected sparse tensor layout but got Strided"):
        dense().values()
    with pytest.raises(RuntimeError, match="row compressed tensor layout but got SparseCsc"):
        dense().to_sparse_csc().crow_indices()


def test_repr() -> None:
    assert repr(coo()) == (
        "tensor(indices=tensor([[0, 1, 1],\n"
        "                       [2, 0, 2]]),\n"
        "       values=tensor([3., 4., 5.]),\n"
        "       size=(2, 3), nnz=3, layout=torch.sparse_coo)"
    )
    assert repr(dense().to_sparse_csr()) == (
        "tensor(crow_indices=tensor([0, 1, 3]),\n"
        "       col_indices=tensor([2, 0, 2]),\n"
        "       values=tensor([3., 4., 5.]), size=(2, 3), nnz=3,\n"
        "       layout=torch.sparse_csr)"
    )


def test_compressed_parts_are_checked() -> None:
    made = torch.sparse_bsr_tensor([0, 1, 2], [0, 1], [[[1.0, 2.0]], [[3.0, 4.0]]])
    assert made.shape == (2, 4) and made.to_dense().tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]
    with pytest.raises(RuntimeError, match=r"`crow_indices\[..., -1\] == nnz` is not satisfied"):
        torch.sparse_csr_tensor([0, 1, 3], [0, 1], [1.0, 2.0], (2, 3))
    with pytest.raises(RuntimeError, match="`0 <= col_indices < ncols` is not satisfied"):
        torch.sparse_csr_tensor([0, 1, 2], [0, 5], [1.0, 2.0], (2, 3))
    with pytest.raises(RuntimeError, match="expected sparse compressed tensor layout but got none"):
        torch.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2.0])


# -- conversions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_conversions_keep_values(first: str, second: str) -> None:
    x = torch.arange(24.0).reshape(4, 6) % 5
    made = getattr(getattr(x, first)(*block(first)), second)(*block(second))
    assert made.layout.name == second[3:].replace("sparse", "sparse_coo", second == "to_sparse")
    assert torch.equal(made.to_dense(), x)


def test_batches_and_dense_dims() -> None:
    x = torch.arange(1.0, 13.0).reshape(2, 2, 3)
    batched = x.to_sparse_csr()
    assert batched.crow_indices().tolist() == [[0, 3, 6]] * 2
    assert torch.equal(batched.to_dense(), x)
    hybrid = x.to_sparse_csr(dense_dim=1)
    assert hybrid.values().shape == (4, 3) and torch.equal(hybrid.to_dense(), x)
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        torch.tensor([[[1.0, 0], [0, 1]], [[1, 1], [0, 1]]]).to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"must be divisible by given blocksize \(2,2\)"):
        dense().to_sparse_bsr(2)


def test_scalar_and_empty() -> None:
    assert torch.tensor(5.0).to_sparse()._indices().shape == (0, 1)
    assert torch.tensor(5.0).to_sparse().to_dense().item() == 5.0
    assert torch.zeros(2, 0).to_sparse().to_dense().shape == (2, 0)


# -- arithmetic ------------------------------------------------------------------------------------


def test_sums() -> None:
    s, d = coo(), dense()
    assert torch.equal((s + s).to_dense(), 2 * d)
    assert torch.equal(d + s, 2 * d) and torch.equal(d - s, torch.zeros(2, 3))
    with pytest.raises(RuntimeError, match=r"Use add\(dense, sparse\) instead"):
        s + d
    with pytest.raises(RuntimeError, match="does not currently support broadcasting"):
        torch.ones(3, 3) + s
    added = (twice() + torch.sparse_coo_tensor([[2]], [1.0], (3,))).to_dense()
    assert added.tolist() == [2.0, 11.0, 1.0]


def test_products() -> None:
    s, d = coo(), dense()
    for product in (s * d, d * s, s * s):
        assert product.is_sparse and torch.equal(product.to_dense(), d * d)
    assert torch.equal((s * 2).to_dense(), d * 2) and torch.equal((s / 2).to_dense(), d / 2)
    assert (twice() * twice()).to_dense().tolist() == [4.0, 121.0, 0.0]
    with pytest.raises(RuntimeError, match="Sparse division requires a scalar"):
        s / s


def test_in_place_keeps_identity_and_aliases() -> None:
    s = coo().coalesce()
    alias = s.detach()
    before = s
    s.add_(coo()).mul_(2)
    assert s is before and torch.equal(s.to_dense(), 4 * dense())
    assert torch.equal(alias.to_dense(), dense())
    x = torch.ones(2, 3)
    x.add_(coo(), alpha=2)
    assert torch.equal(x, 1 + 2 * dense())
    assert s.zero_()._nnz() == 0


def test_copy_between_layouts_is_refused() -> None:
    with pytest.raises(RuntimeError, match="copy_\\(\\) between dense and sparse"):
        coo().copy_(dense())
    target = torch.sparse_coo_tensor((2, 3))
    assert torch.equal(target.copy_(coo().double()).to_dense(), dense())
    assert target.dtype is torch.float32


@pytest.mark.parametrize("first", ["to_sparse", "to_sparse_csr", "clone"])
@pytest.mark.parametrize("second", ["to_sparse", "to_sparse_csr", "clone"])
def test_matrix_products(first: str, second: str) -> None:
    a, b = dense(), dense().t().contiguous()
    made = getattr(a, first)() @ getattr(b, second)()
    assert (made.layout is torch.strided) == ("clone" in (first, second))
    assert torch.equal(made.to_dense(), a @ b)


def test_reductions() -> None:
    s = coo()
    assert s.sum().item() == 12.0 and s.norm().item() == pytest.approx(50**0.5)
    assert torch.sparse.sum(s, 0).to_dense().tolist() == [4.0, 0.0, 8.0]
    assert s.sum(1, keepdim=True).to_dense().tolist() == [[3.0], [9.0]]
    assert dense().to_sparse(1).sum(0).tolist() == [4.0, 0.0, 8.0]


def test_geometry() -> None:
    s, d = coo(), dense()
    assert torch.equal(s.t().to_dense(), d.t()) and not s.t().is_coalesced()
    assert torch.equal(s[1].to_dense(), d[1]) and s[0, 2].item() == 3.0
    index = torch.tensor([2, 0, 2])
    assert torch.equal(s.index_select(1, index).to_dense(), d.index_select(1, index))
    assert torch.equal(torch.cat([s, s], 1).to_dense(), torch.cat([d, d], 1))
    assert torch.equal(torch.stack([s, s]).to_dense(), torch.stack([d, d]))
    csr = d.to_sparse_csr()
    assert csr.t().layout is torch.sparse_csc and torch.equal(csr.t().to_dense(), d.t())


def test_unary_and_refusal() -> None:
    assert torch.equal(coo().sin().to_dense(), dense().sin())
    assert twice().square().to_dense().tolist() == [4.0, 121.0, 0.0]
    with pytest.raises(NotImplementedError, match=r"aten::exp.*to_dense"):
        coo().exp()
    with pytest.raises(NotImplementedError, match="aten::view"):
        coo().view(3, 2)


def test_complex_parts() -> None:
    s = torch.tensor([[1 + 2j, 0], [0, 3j]]).to_sparse()
    assert s.real.to_dense().tolist() == [[1, 0], [0, 0]]
    assert s.conj().to_dense().tolist() == [[1 - 2j, 0], [0, -3j]]


def test_copies() -> None:
    s = coo(requires_grad=True)
    for made in (copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert made.requires_grad and torch.equal(made.detach().to_dense(), dense())
    bsr = torch.eye(4).to_sparse_bsr((2, 2))
    made = pickle.loads(pickle.dumps(bsr))
    assert made.layout is torch.sparse_bsr and torch.equal(made.to_dense(), torch.eye(4))
    assert torch.zeros(2, 3, layout=torch.sparse_coo)._nnz() == 0
    assert torch.zeros_like(coo())._nnz() == 0


def test_meta_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="meta"):
        torch.empty(2, 3, device="meta").to_sparse()


# -- gradients -------------------------------------------------------------------------------------


def test_node_names() -> None:
    x = torch.eye(3, requires_grad=True)
    s = torch.eye(3).to_sparse().requires_grad_()
    assert names(x.to_sparse()) == ["ToSparseBackward1", "AccumulateGrad"]
    assert names(x.to_sparse(1)) == ["ToSparseBackward0", "AccumulateGrad"]
    assert names(x.to_sparse_csr()) == ["ToSparseCsrBackward0", "AccumulateGrad"]
    assert names(s.to_dense()) == ["ToDenseBackward0", "AccumulateGrad"]
    assert names(s.values()) == ["ValuesBackward0", "AccumulateGrad"]
    assert names(x.sparse_mask(s.detach())) == ["SparseMaskBackward0", "AccumulateGrad"]
    assert names(torch.sparse.mm(s, s)) == ["SparseSparseMatmulBackward0", "AccumulateGrad"]
    assert names(torch.sparse.mm(s, x)) == ["SparseAddmmBackward0"]
    made = torch.sparse_coo_tensor([[0, 0]], x[0, :2], (3,))
    assert names(made)[0] == "SparseCooTensorWithDimsAndTensorsBackward0"
    assert names(made.coalesce())[0] == "CoalesceBackward0"


def test_gradient_layout_is_the_sources() -> None:
    x = torch.rand(4, 4) + 1
    for first in ("clone", *LAYOUTS):
        source = getattr(x, first)(*block(first)).detach().requires_grad_()
        for second in LAYOUTS:
            made = getattr(source, second)(*block(second))
            grad = getattr(2 * x, second)(*block(second))
            found = torch.autograd.grad(made, source, grad)[0]
            assert found.layout is source.layout
            assert torch.equal(found.to_dense(), 2 * x)


def test_masked_gradients() -> None:
    s = coo(requires_grad=True)
    s.to_dense().sum().backward()
    assert s.grad.is_sparse and s.grad._nnz() == 3
    s.grad = None
    s.to_dense(masked_grad=False).sum().backward()
    assert s.grad._nnz() == 6


def test_values_without_history() -> None:
    s = coo().coalesce().requires_grad_()
    with pytest.raises(RuntimeError, match="does not have a grad_fn"):
        s._values().sum().backward()


@pytest.mark.parametrize(
    "size", [((4, 3), (2, 3), 0), ((4, 3), (4, 2), -1), ((), (), 0), ((4,), (), 0)]
)
def test_gather_sparse_grad(size: Any) -> None:
    shape, index_shape, dim = size
    x = torch.rand(shape, requires_grad=True)
    index = torch.zeros(index_shape, dtype=torch.int64)
    grads = []
    for sparse in (False, True):
        made = torch.gather(x, dim, index, sparse_grad=sparse)
        grads.append(torch.autograd.grad(made.sum(), x)[0])
    assert grads[1].is_sparse and torch.equal(grads[0], grads[1].to_dense())


def test_embedding_sparse_grad() -> None:
    weight = torch.rand(5, 2, requires_grad=True)
    torch.embedding(weight, torch.tensor([[1, 3], [3, 0]]), 0, False, True).sum().backward()
    assert weight.grad._indices().tolist() == [[1, 3, 3]]
    assert weight.grad.to_dense().tolist() == [[0, 0], [1, 1], [0, 0], [2, 2], [0, 0]]


def test_gradcheck_of_sparse_functions() -> None:
    a = torch.rand(3, 3, dtype=torch.float64).to_sparse().requires_grad_()
    b = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    functions = (
        lambda a, b: torch.sparse.mm(a, b),
        lambda a, b: torch.sparse.mm(a, a).to_dense() * b,
        lambda a, b: torch.sparse.sum(a, 0).to_dense() * b,
        lambda a, b: torch.sparse.softmax(a, 1).to_dense() * b,
        lambda a, b: torch.sparse.log_softmax(a, 0).to_dense() * b,
        lambda a, b: torch.sparse.addmm(b, a, b, beta=2, alpha=3),
        lambda a, b: a.to_sparse_csr().to_dense() * b,
        lambda a, b: a.t().to_dense() * b,
    )
    for function in functions:
        assert gradcheck(function, (a, b), masked=True)


def test_second_order_through_duplicates() -> None:
    values = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    index = torch.tensor([[0, 1, 0]])

    def cubes(v: Any) -> Any:
        return torch.sparse_coo_tensor(index, v, (3,)).to_dense() ** 3

    assert gradcheck(cubes, (values,)) and gradgradcheck(cubes, (values,))


# -- accumulation ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Using backward")
def test_accumulation_of_mixed_layouts() -> None:
    for first, second, kept in (
        (twice(), torch.ones(3), False),
        (torch.ones(3), twice(), True),
        (twice(), twice(), True),
    ):
        for create_graph in (False, True):
            leaf = torch.zeros(3, requires_grad=True)
            leaf.grad = first.clone()
            before = leaf.grad
            leaf.backward(second, create_graph=create_graph)
            assert (leaf.grad is before) == (kept and not create_graph)
            total = first.to_dense() + second.to_dense()
            assert torch.equal(leaf.grad.detach().to_dense(), total)


def test_sole_sparse_gradient_is_kept() -> None:
    seen = []

    class Watch(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            return a + b

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            seen.append(grad._values().data_ptr())
            return grad, grad

    a = torch.rand(10, 3, requires_grad=True)
    b = torch.rand(10, 3, requires_grad=True)
    index, starts = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4])
    bags = torch.nn.functional.embedding_bag(index, Watch.apply(a, b), starts, sparse=True)
    bags.sum().backward()
    gc.collect()
    pointers = {a.grad._values().data_ptr(), b.grad._values().data_ptr()}
    assert len(pointers) == 2 and seen[0] in pointers
    index.fill_(0)
    assert a.grad._indices().tolist() == [[1, 2, 4, 5, 4, 3, 2, 9]]


# -- bags ------------------------------------------------------------------------------------------

BAG_WEIGHT = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    ("mode", "padding", "expected"),
    [
        ("sum", None, [[6.0, 9.0], [0.0, 0.0], [26.0, 29.0]]),
        ("mean", None, [[2.0, 3.0], [0.0, 0.0], [26 / 3, 29 / 3]]),
        ("max", None, [[4.0, 5.0], [0.0, 0.0], [10.0, 11.0]]),
        ("sum", 5, [[6.0, 9.0], [0.0, 0.0], [6.0, 7.0]]),
        ("mean", -1, [[2.0, 3.0], [0.0, 0.0], [6.0, 7.0]]),
    ],
)
def test_bags(mode: str, padding: Any, expected: Any) -> None:
    weight = torch.tensor(BAG_WEIGHT.tolist())
    index, starts = torch.tensor([0, 1, 2, 3, 5, 5]), torch.tensor([0, 3, 3])
    made = torch.nn.functional.embedding_bag(index, weight, starts, mode=mode, padding_idx=padding)
    assert np.allclose(made.numpy(), expected)
    closed = torch.nn.functional.embedding_bag(
        index, weight, torch.tensor([0, 3, 3, 6]), mode=mode, padding_idx=padding,
        include_last_offset=True,
    )  # fmt: skip
    assert torch.equal(made, closed)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bag_gradients(mode: str) -> None:
    weight = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    scale = torch.rand(5, dtype=torch.float64, requires_grad=True)
    index, starts = torch.tensor([0, 1, 3, 3, 5]), torch.tensor([0, 2, 2])
    bag = torch.nn.functional.embedding_bag

    def table(w: Any) -> Any:
        return bag(index, w, starts, mode=mode, padding_idx=1) ** 2

    assert gradcheck(table, (weight,)) and gradgradcheck(table, (weight,))
    if mode == "sum":

        def weighted(w: Any, s: Any) -> Any:
            return bag(index, w, starts, mode=mode, per_sample_weights=s) ** 2

        assert gradcheck(weighted, (weight, scale))
    if mode != "max":
        grads = []
        for sparse in (False, True):
            out = bag(index, weight, starts, mode=mode, sparse=sparse)
            assert names(out)[0] == "EmbeddingBagBackward0"
            grads.append(torch.autograd.grad(out.sum(), weight)[0])
        assert grads[1].is_sparse and torch.equal(grads[0], grads[1].to_dense())


def test_bag_refusals() -> None:
    weight, bag = torch.rand(4, 2), torch.nn.functional.embedding_bag
    with pytest.raises(RuntimeError, match="takes value 9 which is not in the valid range"):
        bag(torch.tensor([9]), weight, torch.tensor([0]))
    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        bag(torch.tensor([1]), weight, torch.tensor([1]))
    with pytest.raises(ValueError, match="offsets has to be a 1D Tensor but got None"):
        bag(torch.tensor([1]), weight)
    with pytest.raises(ValueError, match="max mode does not support sparse weights"):
        bag(torch.tensor([1]), weight, torch.tensor([0]), mode="max", sparse=True)
    module = torch.nn.EmbeddingBag(4, 2, mode="sum", padding_idx=-1)
    assert repr(module) == "EmbeddingBag(4, 2, mode='sum', padding_idx=3)"
    assert module(torch.tensor([[0, 1], [3, 3]]))[1].tolist() == [0.0, 0.0]


def test_refusals_name_what_is_wrong() -> None:
    x = torch.ones(3, 4).to_sparse()
    with pytest.raises(RuntimeError, match="does not support keepdim=True"):
        x.norm(keepdim=True)
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.norm(dim=(0, 5))
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times"):
        x.sum((0, 0))
    with pytest.raises(RuntimeError, match="duplicate dims are not allowed"):
        x.permute(0, 0)
    with pytest.raises(IndexError, match=r"index contains 9 that is out of range .*\[3, 4\]"):
        x.index_select(0, torch.tensor([9]))
    with pytest.raises(IndexError, match="must be 1-D strided"):
        x.index_select(0, torch.tensor([0.0]))
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        x.mm(torch.ones(4, 2).double())


def test_complex_factor_of_a_sparse_product() -> None:
    kind = torch.complex128
    sparse, dense = torch.ones(3, 4, dtype=kind).to_sparse(), torch.ones(4, 2, dtype=kind)
    start = torch.ones(3, 2, dtype=kind)

    def product(start: Any, dense: Any) -> Any:
        return torch.sparse.addmm(start, sparse, dense, beta=1j, alpha=2j)

    assert gradcheck(product, (start.requires_grad_(), dense.requires_grad_()))


def test_conversions_refuse_what_they_would_ignore() -> None:
    rows = torch.eye(4).to_sparse_csr()
    with pytest.raises(RuntimeError, match="from SparseCsr to SparseCsr with dense_dim argument"):
        rows.to_sparse_csr(dense_dim=1)
    with pytest.raises(RuntimeError, match=r"sparse_dim\(\)!=2 is not supported"):
        torch.eye(4).to_sparse(1).to_sparse_csr()
    with pytest.raises(RuntimeError, match=r"blocksize needs to be positive, but got \[0, 2\]"):
        torch.eye(4).to_sparse_bsr((0, 2))


def test_fewer_than_two_elements_are_coalesced():
    def coo(places, values, **options):
        return torch.sparse_coo_tensor(
            torch.tensor([places]), torch.tensor(values), (3,), **options
        )

    one, two = coo([1], [2.0]), coo([0, 0], [1.0, 1.0])
    assert one.is_coalesced() and not two.is_coalesced()
    assert one.indices().tolist() == [[1]] and one.values().tolist() == [2]
    assert torch.sparse_coo_tensor((3,)).is_coalesced()
    for made in (one * 2, one + one, one.clone(), one.double(), one.unsqueeze(0)):
        assert made.is_coalesced()
    assert not coo([1], [2.0], is_coalesced=False).is_coalesced()
    assert not one.unsqueeze(0).t().is_coalesced()


def test_results_are_written_into_sparse_tensors():
    one, out = torch.eye(2).to_sparse(), torch.zeros(2, 2).to_sparse()
    assert torch.add(one, one, out=out) is out
    assert out.to_dense().tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert torch.neg(one, out=out).to_dense().tolist() == [[-1.0, 0.0], [0.0, -1.0]]
    with pytest.raises(RuntimeError, match="cannot be written"):
        torch.neg(one, out=torch.zeros(2, 2))


def test_batches_of_sparse_matrices_multiply():
    dense = torch.arange(24.0).view(2, 3, 4) % 5 - 2
    other = torch.randn(2, 4, 2, requires_grad=True)
    result = torch.bmm(dense.to_sparse(), other)
    assert torch.allclose(result, torch.bmm(dense, other))
    (slope,) = torch.autograd.grad(result.sum(), other)
    assert torch.allclose(slope, dense.sum(1)[:, :, None].expand(2, 4, 2))
    with pytest.raises(RuntimeError, match="'mat2' must be dense"):
        torch.bmm(dense, other.detach().to_sparse())


def test_diagonals_make_a_matrix():
    rows = torch.arange(9.0).view(3, 3).requires_grad_()
    made = torch.sparse.spdiags(rows, torch.tensor([0, -1, 2]), (3, 3))
    assert made.to_dense().tolist() == [[0.0, 0.0, 8.0], [3.0, 1.0, 0.0], [0.0, 4.0, 2.0]]
    made.to_dense().sum().backward()
    assert rows.grad.tolist() == [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    csr = torch.sparse.spdiags(torch.ones(3), torch.tensor(1), (3, 4), torch.sparse_csr)
    assert csr.layout is torch.sparse_csr and csr.values().tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="duplicate"):
        torch.sparse.spdiags(torch.ones(2, 3), torch.tensor([0, 0]), (3, 3))


def test_products_at_specified_elements():
    pattern = torch.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]).to_sparse_csr()
    a = torch.randn(2, 4, dtype=torch.float32, requires_grad=True)
    b = torch.randn(4, 3, requires_grad=True)
    found = torch.sparse.sampled_addmm(pattern, a, b, beta=2, alpha=3)
    mask = pattern.to_dense() != 0
    expected = (2 * pattern.to_dense() + 3 * (a @ b)) * mask
    assert torch.allclose(found.to_dense(), expected)
    slopes = torch.autograd.grad(found.to_dense().square().sum(), (a, b))
    others = torch.autograd.grad(expected.square().sum(), (a, b))
    assert all(torch.allclose(s, o, rtol=1e-4) for s, o in zip(slopes, others, strict=True))
    with pytest.raises(NotImplementedError, match="sparse_csr"):
        torch.sparse.sampled_addmm(pattern.to_dense(), a, b)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="meta"),
        lambda: torch.empty(2, 2, layout=torch.sparse_coo, device="meta"),
        lambda: torch.eye(2).to_sparse().to("meta"),
        lambda: torch.zeros_like(torch.eye(2).to_sparse(), device="meta"),
    ],
)
def test_sparse_tensors_without_values_are_refused(make):
    with pytest.raises(NotImplementedError, match="RL0506"):
        make()


DENSE = torch.tensor([[3, 0], [0, 5]], dtype=torch.uint8)


def test_differences_of_bytes_and_booleans() -> None:
    sparse, ones = DENSE.to_sparse(), torch.eye(2, dtype=torch.uint8).to_sparse()
    assert (sparse - ones).to_dense().tolist() == [[2, 0], [0, 4]]
    assert (DENSE - ones).tolist() == [[2, 0], [0, 4]]
    with pytest.raises(RuntimeError, match="two bool tensors is not supported"):
        sparse.bool() - ones.bool()


def test_floor_division_by_a_number() -> None:
    sparse = DENSE.float().to_sparse()
    assert (sparse // 2).to_dense().tolist() == [[1.0, 0.0], [0.0, 2.0]]
    with pytest.raises(RuntimeError, match="requires a scalar or zero-dim dense tensor divisor"):
        sparse // sparse


def test_the_legacy_constructor_of_sparse_tensors() -> None:
    sparse = DENSE.to_sparse()
    made = sparse.new(
        torch.tensor([[0], [1]]), torch.tensor([7], dtype=torch.uint8), torch.Size([2, 2])
    )
    assert made.layout is torch.sparse_coo and made.to_dense().tolist() == [[0, 7], [0, 0]]
    assert sparse.new(2, 3).shape == (2, 3) and sparse.new(2, 3)._nnz() == 0
    assert sparse.new(device="cpu").layout is torch.sparse_coo


def test_other_values_in_a_compressed_pattern() -> None:
    source = DENSE.float().to_sparse_csr()
    assert torch.ones_like(source).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert torch.full_like(source, 4, dtype=torch.int64).values().tolist() == [4, 4]
    for make in (torch.empty_like, torch.randn_like, torch.rand_like):
        made = make(source)
        assert made.layout is torch.sparse_csr and made._nnz() == 2
    assert torch.ones_like(source, layout=torch.strided).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(NotImplementedError, match="sparse_coo"):
        torch.ones_like(DENSE.to_sparse())


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_bsc])
def test_gradients_of_functions_of_sparse_tensors_are_checked(layout: Any, masked: bool) -> None:
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    block = {"blocksize": (1, 1)} if layout is torch.sparse_bsc else {}
    source = DENSE.double().to_sparse(layout=layout, **block)
    for function in (torch.Tensor.to_dense, torch.Tensor.sum, torch.Tensor.values, lambda x: x * 2):
        assert check(function, source.detach().requires_grad_(), masked=masked)
    assert check(lambda x: (x * x).to_dense(), source.detach().requires_grad_(), masked=masked)


def test_geometry_changes_in_place() -> None:
    source = torch.tensor([[1.0, 0], [0, 2], [0, 3]]).to_sparse()
    turned = source.clone()
    assert turned.transpose_(0, 1) is turned and turned.layout is torch.sparse_coo
    assert turned.to_dense().tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]
    assert source.clone().t_().shape == source.clone().swapaxes_(0, 1).shape == (2, 3)
    with pytest.raises(NotImplementedError, match="resize_"):
        source.clone().resize_(4, 4)


def test_resizing_to_the_sizes_of_another() -> None:
    source = torch.sparse_coo_tensor([[0]], [[[1.0, 2, 3], [4, 5, 6]]], (2, 2, 3))
    grown = source.clone().resize_as_(torch.ones(4, 2, 3).to_sparse(1))
    assert grown.shape == (4, 2, 3) and grown.to_dense()[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    wider = source.clone().resize_as_(torch.ones(2, 2, 4).to_sparse(1))
    assert wider._values().shape == (1, 2, 4)
    assert wider._values().reshape(-1)[:6].tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(RuntimeError, match="shrinking"):
        source.clone().resize_as_(torch.ones(1, 2, 3).to_sparse(1))


def test_sums_with_nothing_and_products_with_a_number() -> None:
    source, nothing = torch.eye(2).to_sparse(), torch.zeros(2, 2).to_sparse(1)
    assert (source + nothing).to_dense().tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert nothing.sub(source, alpha=2).to_dense().tolist() == [[-2.0, 0.0], [0.0, -2.0]]
    number = torch.tensor(3.0).to_sparse()
    for product in (source * number, number * source):
        assert product.to_dense().tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert torch.ones(2, 3, 4).to_sparse().bmm(torch.ones(2, 4, 0)).shape == (2, 3, 0)


def test_parts_are_copied() -> None:
    source = torch.tensor([[1.0, 0], [0, 2], [0, 3]]).to_sparse()
    assert source.narrow_copy(0, 1, 2).to_dense().tolist() == [[0.0, 2.0], [0.0, 3.0]]


def test_more_elements_than_integers_count() -> None:
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.sparse_coo_tensor(torch.zeros(4, 1), torch.ones(1), (100001,) * 4)


@pytest.mark.parametrize(
    ("function", "wanted"), [(torch.log1p, [0.5, 0.25]), (torch.relu, [1.0, 1.0])]
)
def test_gradients_of_functions_that_keep_zero(function: Any, wanted: Any) -> None:
    source = torch.tensor([[1.0, 0], [0, 3]]).to_sparse().requires_grad_()
    function(source).to_dense().sum().backward()
    assert source.grad.layout is torch.sparse_coo
    assert source.grad.coalesce().values().tolist() == wanted


def test_indices_of_32_bits_stay() -> None:
    ends, plain = torch.tensor([0, 1, 2]).int(), torch.tensor([0, 1]).int()
    source = torch.sparse_csr_tensor(ends, plain, torch.tensor([1.0, 2]), (2, 2))
    assert source.to_sparse_csc().row_indices().dtype is torch.int32
    assert source.to_sparse_bsr((1, 1)).col_indices().dtype is torch.int32
    assert (source + source).col_indices().dtype is torch.int32
    assert torch.zeros_like(source).crow_indices().dtype is torch.int32
    assert source.to_sparse().indices().dtype is torch.int64


def test_zeros_in_another_sparse_layout() -> None:
    source = torch.eye(4).to_sparse_csr()
    for layout in (torch.sparse_csc, torch.sparse_coo):
        assert torch.zeros_like(source, layout=layout).layout is layout
    made = torch.zeros_like(torch.eye(4).to_sparse_bsr((2, 2)), layout=torch.sparse_bsc)
    assert made.layout is torch.sparse_bsc and made.values().shape == (0, 2, 2)


def test_gradients_are_checked_at_uncoalesced_tensors() -> None:
    indices, values = [[0, 0, 1], [1, 1, 0]], torch.tensor([1.0, 2, 3], dtype=torch.float64)
    source = torch.sparse_coo_tensor(indices, values, (2, 2)).requires_grad_()
    assert gradcheck(lambda x: x.to_dense(masked_grad=True), source, masked=True)


def test_legacy_constructors_take_parts_or_sizes():
    indices, values = torch.tensor([[0, 1], [1, 2]]), torch.tensor([1.0, 2.0], requires_grad=True)
    made = torch.sparse.FloatTensor(indices, values, torch.Size([2, 3]))
    assert made.to_dense().tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]] and made.requires_grad
    assert torch.sparse.FloatTensor(indices, values.double()).dtype is torch.float64
    assert [torch.sparse.LongTensor(*sizes).shape for sizes in ((), (2, 3), ([4],))] == [
        (0,), (2, 3), (4,)
    ]  # fmt: skip


def test_legacy_types_tell_sparse_tensors_from_dense_ones():
    made = torch.sparse.FloatTensor(2, 3)
    assert isinstance(made, torch.sparse.FloatTensor)
    assert not isinstance(made, (torch.FloatTensor, torch.sparse.DoubleTensor))
    assert not isinstance(made.to_dense(), torch.sparse.FloatTensor)
    assert torch.sparse.FloatTensor.layout is torch.sparse_coo


@pytest.mark.parametrize(
    ("reduce", "product", "row_grad", "dense_grad"),
    [
        ("sum", [11.0, 0.0, 4.0], [1.0, 5.0, 3.0, 5.0], [1.0, 3.0, 1.0]),
        ("mean", [5.5, 0.0, 2.0], [0.5, 2.5, 1.5, 2.5], [0.5, 1.5, 0.5]),
        ("amax", [10.0, 0.0, 9.0], [0.0, 5.0, 3.0, 0.0], [0.0, 3.0, 2.0]),
        ("amin", [1.0, 0.0, -5.0], [1.0, 0.0, 0.0, 5.0], [1.0, 0.0, -1.0]),
    ],
)
def test_products_fold_their_terms(
    reduce: str, product: Any, row_grad: Any, dense_grad: Any
) -> None:
    matrix = torch.tensor([[1.0, 0, 2], [0, 0, 0], [0, 3, -1]]).to_sparse_csr().requires_grad_()
    vector = torch.tensor([[1.0], [3], [5]], requires_grad=True)
    found = torch.sparse.mm(matrix, vector, reduce)
    assert found.flatten().tolist() == product
    found.sum().backward()
    assert matrix.grad.values().tolist() == row_grad
    assert vector.grad.flatten().tolist() == dense_grad


def test_products_that_cannot_fold() -> None:
    matrix, nan = torch.eye(2).to_sparse_csr(), torch.tensor([[float("nan")], [1.0]])
    assert torch.sparse.mm(matrix, nan, "amax").isnan().tolist() == [[True], [False]]
    for wrong, reduce, text in (
        (matrix, "prod", "prod has not been enabled"),
        (matrix.to_dense().to_sparse(), "sum", "expect self to be SparseCsr"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch.sparse.mm(wrong, nan, reduce)
    with pytest.raises(RuntimeError, match="to have scalar type Float"):
        torch.sparse.mm(matrix, nan.double(), "sum")
