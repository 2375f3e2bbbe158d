"""First-class dims: names, subscripts, batched functions, reductions, joining, and refusals.

Values are those of torch 2.13 (`functorch.dim`) where it has an answer.
"""

import math

import pytest

import rushlight as torch
from rushlight.func import dim as firstclass
from rushlight.func.dim import (
    Dim,
    DimensionBindError,
    DimList,
    cat,
    dimlists,
    dims,
    index,
    order,
    split,
    stack,
)

A = torch.arange(6.0).view(2, 3)
B = torch.arange(12.0).view(3, 4)
C = torch.arange(24.0).view(2, 3, 4)


def test_a_tensor_takes_dims_at_positions() -> None:
    i, j = dims(2)
    assert torch.equal(A.index((0, 1), (i, j)).order(j, i), A.T)
    k = dims(1)
    assert torch.equal(A.index(-1, k).order(k), A.T)
    assert torch.equal(A.index(0, 1), A[1])
    with pytest.raises(TypeError, match="must have the same length"):
        A.index((0, 1), (i,))


def laid_out(tensor, *labels):
    return tensor.order(*(labels or tensor.dims)).tolist()


# -- dims ------------------------------------------------------------------------------------------


def test_names_follow_variables():
    i, j = dims()
    k = dims(1)
    a, b, c = dims(3)
    assert [repr(d) for d in (i, j, k, a, b, c)] == ["i", "j", "k", "a", "b", "c"]
    pair = [dims(2)][0]
    assert [str(d) for d in pair] == ["d0", "d1"]
    pair = dims(sizes=[3, None])
    assert [f"{d}" for d in pair] == ["d0", "d1"]
    assert (pair[0].size, pair[0].is_bound, pair[1].is_bound) == (3, True, False)
    global first, second
    first, second = dims()
    assert repr((first, second)) == "(first, second)"

    class Holder:
        pass

    Holder.x, Holder.y = dims(2)
    assert repr((Holder.x, Holder.y)) == "(d0, d1)"

    def inner():
        return i, far

    far, near = dims()
    assert repr((inner()[1], near)) == "(far, near)"


def test_refused_dims():
    with pytest.raises(SyntaxError, match="must be assigned to a sequence of variable names"):
        (dims(),)
    with pytest.raises(ValueError, match="expected 2 sizes but found 1"):
        dims(2, sizes=[1])
    i = dims(1)
    with pytest.raises(ValueError, match="dimension i is unbound"):
        _ = i.size
    i.size = 3
    with pytest.raises(DimensionBindError, match="'i' previously bound to a dimension of size 3"):
        i.size = 4
    with pytest.raises(DimensionBindError, match="cannot bind to a dimension of size 2"):
        A[i]


def test_a_dim_is_a_tensor_of_its_positions():
    i, j = dims(sizes=[2, 3])
    assert laid_out(i * 10 + j, j, i) == [[0, 10], [1, 11], [2, 12]]
    assert laid_out(i < j, i, j) == [[False, True, True], [False, False, True]]
    assert laid_out(i == j, i, j) == [[True, False, False], [False, True, False]]
    assert laid_out(2 - i, i) == [2, 1]
    assert i.order(i).tolist() == [0, 1]
    assert {i: 1, j: 2}[j] == 2
    assert isinstance(i, Dim) and not isinstance(i, torch.Tensor)


# -- tensors ---------------------------------------------------------------------------------------


def test_what_a_tensor_shows():
    i = dims(1)
    t = C[i]
    assert t.dims == (i,)
    assert (t.ndim, t.dim(), tuple(t.shape), t.size(0), t.numel()) == (2, 2, (3, 4), 3, 12)
    assert (t.dtype, t.device.type, t.requires_grad) == (torch.float32, "cpu", False)
    assert tuple(t.T.shape) == (4, 3)
    assert len(t) == 3
    assert [laid_out(row, i) for row in A[i]] == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    assert repr(A[i]) == (
        "tensor([[0., 1., 2.],\n        [3., 4., 5.]])\nwith dims=(i, 0) sizes=(2, 3)"
    )
    assert isinstance(t, firstclass.Tensor) and isinstance(t, firstclass._Tensor)
    with pytest.raises(AttributeError):
        t.no_such_method()


def test_plain_tensors_come_back_when_no_dim_is_left():
    i, j = dims()
    assert type(A[i, j].order(i, j)) is torch.Tensor
    assert A[i].sum((i, 0)).item() == 15.0
    assert bool(A[i].sum((i, 0)) > 0)


# -- subscripts ------------------------------------------------------------------------------------


def test_basic_subscripts():
    i, j, k = dims()
    assert laid_out(A[i, j], j, i) == A.t().tolist()
    assert laid_out(C[i, 1:], i) == C[:, 1:].tolist()
    assert laid_out(C[:, j, 0], j) == C[:, :, 0].t().tolist()
    assert laid_out(A[i, -1], i) == [2.0, 5.0]
    assert laid_out(A[i][1], i) == [1.0, 4.0]
    shapes = [C[None, i], C[i, None, j], C[..., k], C[i, ...], C[i, ..., k], C[i, j, :, None]]
    assert [tuple(t.shape) for t in shapes] == [(1, 3, 4), (1, 4), (2, 3), (3, 4), (3,), (4, 1)]


def test_packs_split_an_axis():
    a, b, c = dims(sizes=[None, 2, None])
    t = C[a, :, (b, c)]
    assert (tuple(t.shape), c.size) == ((3,), 2)
    assert laid_out(t, a, b, c) == C.view(2, 3, 2, 2).permute(0, 2, 3, 1).tolist()
    i, j = dims()
    with pytest.raises(DimensionBindError, match="the sizes of two dimensions at once i and j"):
        B[(i, j), :]
    i.size = 5
    with pytest.raises(DimensionBindError, match=r"not evenly fit into larger dimension: 4 vs \(5"):
        B[:, (i, j)]
    j.size = 3
    with pytest.raises(DimensionBindError, match=r"\(4 != 15\) when matching dimension pack"):
        B[:, (i, j)]


def test_index_tensors():
    i, k = dims()
    idx = torch.tensor([0, 2, 1])
    assert laid_out(B[idx[i]], i) == B[idx].tolist()
    assert laid_out(B[idx[i], k], k, i) == B[idx].t().tolist()
    assert laid_out(B[:, idx[i]], i) == B[:, idx].t().tolist()
    pairs = torch.tensor([[0, 1], [2, 0]])
    m, n = dims()
    assert laid_out(B[pairs[m, n]], m, n) == B[pairs].tolist()
    assert laid_out(B[pairs[m], k], m, k) == B[pairs].transpose(1, 2).tolist()
    assert tuple(B[pairs, k].shape) == (2, 2)
    assert laid_out(A[m, [0, 2]], m) == [[0.0, 2.0], [3.0, 5.0]]
    assert laid_out(A[m, torch.tensor([True, False, True])], m) == [[0.0, 2.0], [3.0, 5.0]]
    q, k = dims(sizes=[3, 3])
    table = torch.arange(10.0).view(5, 2)
    assert laid_out(table[q - k + 2], q, k)[0] == [[4.0, 5.0], [2.0, 3.0], [0.0, 1.0]]


def test_a_dim_that_is_used_twice_takes_the_diagonal():
    i, m = dims()
    assert laid_out(torch.arange(9.0).view(3, 3)[i, i], i) == [0.0, 4.0, 8.0]
    assert laid_out(A[m, torch.tensor([0, 2])[m]], m) == [0.0, 5.0]
    assert laid_out(A[m, (m + 1) % 3], m) == [1.0, 5.0]


def test_refused_subscripts():
    i, j = dims()
    with pytest.raises(ValueError, match="at least 3 indices were supplied but the tensor only"):
        A[i, j, 0]
    with pytest.raises(ValueError, match="at least 1 indices were supplied but the tensor only"):
        A[i, j][0]
    a, b = dimlists()
    with pytest.raises(DimensionBindError, match="found 2 at offsets 0 and 1"):
        C[a, b]
    with pytest.raises(DimensionBindError, match="a mask with first-class dims"):
        A[A[i, j] > 0]


def test_writes():
    i, j = dims()
    t, u, v = torch.zeros(2, 3), torch.zeros(3, 2), torch.zeros(2, 3)
    t[i, j] = A[i, j] * 2
    u[j, i] = A[i, j]
    v[i] = torch.arange(2.0)[i]
    assert t.tolist() == (2 * A).tolist()
    assert u.tolist() == A.t().tolist()
    assert v.tolist() == [[0.0] * 3, [1.0] * 3]
    t[i, 0] = 5.0
    assert t[:, 0].tolist() == [5.0, 5.0]
    row = v[i]
    row[0] = 7.0
    row[1] = torch.arange(2.0)[i]
    assert v.tolist() == [[7.0, 0.0, 0.0], [7.0, 1.0, 1.0]]
    k, m = dims()
    w = torch.zeros(4)
    w[torch.tensor([3, 1])[k]] = torch.tensor([1.0, 2.0])[k]
    assert w.tolist() == [0.0, 2.0, 0.0, 1.0]
    m.size = 3
    x = torch.zeros(3, 3)
    x[m, m] = m + 1.0
    assert x.tolist() == [[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0]]
    n = dims(1)
    with pytest.raises(
        DimensionBindError, match="rhs of setitem contains dimension n which is not"
    ):
        t[i] = torch.zeros(4)[n]


def test_index():
    i, j, k, m = dims()
    t = C[i, j]
    assert laid_out(t.index(j, 0), i) == C[:, 0].tolist()
    assert laid_out(t.index(j, slice(1, None)), i) == C[:, 1:].tolist()
    assert laid_out(t.index(i, torch.tensor([1, 0, 1])), j) == C[[1, 0, 1]].transpose(0, 1).tolist()
    assert t.index([i, j], [0, 1]).tolist() == C[0, 1].tolist()
    assert laid_out(t.index([(j, i)], [k]), k) == C.transpose(0, 1).reshape(6, 4).tolist()
    assert laid_out(t.index(0, m), m, i, j) == C.permute(2, 0, 1).tolist()
    p, q = dims(sizes=[2, None])
    assert laid_out(index(B, 1, (p, q)), p, q)[1][1] == [3.0, 7.0, 11.0]
    plain = dims(1)
    assert laid_out(index(A, 1, plain), plain) == A.t().tolist()
    with pytest.raises(TypeError, match="dimension m not in tensor"):
        t.index(m, 0)
    with pytest.raises(TypeError, match=r"dims \(2\) and indices \(1\) must have the same length"):
        t.index([i, j], [0])
    with pytest.raises(TypeError, match="dimension 1 not in tensor of 1 dimensions"):
        t.index(1, 0)


# -- order and expand ------------------------------------------------------------------------------


def test_order():
    i, j, k = dims()
    t = C[i, j, k]
    assert laid_out(t, (i, j), k) == C.view(6, 4).tolist()
    assert laid_out(t, k, (j, i)) == C.permute(2, 1, 0).reshape(4, 6).tolist()
    assert tuple(t.order(i, (), (j, k)).shape) == (2, 1, 12)
    assert laid_out(C[i, :, k].order(i), k) == C.permute(2, 0, 1).tolist()
    assert tuple(C[i].order(1, i).shape) == (4, 2, 3)
    assert tuple(C[i].order(-1).shape) == (4, 3)
    assert order(A[i], i).tolist() == A.tolist()
    n = dims(1)
    for wrong, text in (
        ((n,), "does not contain dim n or it was specified twice"),
        ((i, i), "does not contain dim i or it was specified twice"),
        ((2,), "tensor has 0 positional dimensions, but 2 specified"),
        (("a",), "expected a Dim, List"),
        ((("a",),), "expected a Dim or int"),
    ):
        with pytest.raises(ValueError, match=text):
            t.order(*wrong)
    with pytest.raises(ValueError, match="First argument must be a Tensor or Dim object"):
        order(A, i)


def test_expand():
    i, j = dims(sizes=[None, 4])
    t = A[i].expand(j)
    assert t.dims == (j, i)
    assert laid_out(t, i, j) == A[:, None].expand(2, 4, 3).tolist()
    assert tuple(A[i].expand(2, 3).shape) == (2, 3)
    assert laid_out(torch.ones(1).expand(j), j) == [[1.0]] * 4
    with pytest.raises(DimensionBindError, match="expanding dimension i already exists"):
        A[i].expand(i)


# -- functions -------------------------------------------------------------------------------------


def test_functions_are_batched():
    b, i = dims()
    x = C[b]
    assert laid_out(x @ x.t(), b) == (C @ C.transpose(1, 2)).tolist()
    assert tuple(x.view(4, 3).shape) == (4, 3)
    weight = torch.arange(8.0).view(2, 4)
    assert laid_out(torch.nn.functional.linear(x, weight), b) == (C @ weight.t()).tolist()
    image = torch.arange(32.0).view(2, 1, 1, 4, 4)[b]
    assert tuple(torch.nn.functional.conv2d(image, torch.ones(1, 1, 2, 2)).shape) == (1, 1, 3, 3)
    assert laid_out(A[0] - A[i], i) == (A[0] - A).tolist()
    assert laid_out(torch.sin(A[i]), i) == torch.sin(A).tolist()
    assert laid_out(abs(-A[i]) ** 2 // 2 + 2 * A[i], i) == (A**2 // 2 + 2 * A).tolist()
    assert tuple(torch.cat([A[i], A[i]]).shape) == (6,)
    assert tuple(torch.stack([A[i], A[i]]).shape) == (2, 3)
    assert tuple(torch.rand_like(A[i]).shape) == (3,)


def test_writes_of_functions_reach_the_tensor():
    i = dims(1)
    t = A.clone()
    row = t[i]
    row.add_(1)
    row *= 2
    assert t.tolist() == (2 * (A + 1)).tolist()


def test_where():
    i, j = dims(sizes=[3, 3])
    assert laid_out(torch.where(i <= j, torch.ones(3, 3)[i, j], 0), i, j) == [
        [1.0, 1.0, 1.0],
        [0.0, 1.0, 1.0],
        [0.0, 0.0, 1.0],
    ]


def test_reductions():
    i, j, k = dims()
    t = C[i, j, k]
    assert laid_out(t.sum(i), j, k) == C.sum(0).tolist()
    assert laid_out(t.sum((i, j)), k) == C.sum((0, 1)).tolist()
    assert laid_out(torch.mean(t, k), i, j) == C.mean(2).tolist()
    values, places = t.max(dim=j)
    assert laid_out(values, i, k) == C.amax(1).tolist()
    assert laid_out(places, i, k) == [[2] * 4] * 2
    assert laid_out(t.var((i, k)), j) == C.var((0, 2)).tolist()
    assert laid_out(A[i].kthvalue(2, dim=0)[0], i) == [1.0, 4.0]
    assert [laid_out(part, j, k) for part in t.unbind(i)] == C.tolist()
    rows = C[i]
    assert laid_out(rows.sum(), i) == [66.0, 210.0]
    assert laid_out(rows.sum(0), i) == C.sum(1).tolist()
    assert rows.sum((i, 0)).tolist() == C.sum((0, 1)).tolist()
    assert laid_out(rows.mean(dim=1, keepdim=True), i) == C.mean(2, True).tolist()
    assert laid_out(rows.max(torch.full((3, 4), 5.0)), i)[0] == C[0].clamp(min=5).tolist()
    with pytest.raises(ValueError, match="cannot preserve first-class dimensions"):
        rows.sum(i, keepdim=True)
    with pytest.raises(ValueError, match=r"\['i', '0', '1'\] does not contain j"):
        rows.sum(j)


def test_functions_along_dims_that_stay():
    i, j = dims()
    t = A[i, j]
    assert laid_out(t.softmax(i), i, j) == A.softmax(0).tolist()
    assert laid_out(torch.softmax(A[i], 0), i) == A.softmax(1).tolist()
    assert laid_out(firstclass.softmax(t, dim=j), i, j) == A.softmax(1).tolist()
    assert laid_out(t.cumsum(j), i, j) == A.cumsum(1).tolist()
    assert laid_out(t.sort(j, descending=True)[0], i, j) == A.flip(1).tolist()
    assert laid_out(t.argsort(dim=i), i, j) == [[0] * 3, [1] * 3]


# -- products --------------------------------------------------------------------------------------


def test_a_sum_of_a_product_is_a_contraction():
    i, j, k = dims()
    product = A[i, k] * B[k, j]
    assert product._product is not None
    assert laid_out(product.sum(k), i, j) == (A @ B).tolist()
    assert laid_out(product.sum(dim=(k, i)), j) == (A @ B).sum(0).tolist()
    assert product._product is not None
    assert product.sum((i, j, k)).item() == (A @ B).sum().item()
    assert laid_out((product + 1).sum(k), i, j) == (A @ B + 3).tolist()
    assert product._product is None
    big = torch.ones(512, 512)
    a, b, c = dims()
    # The product itself would take half a gigabyte.
    assert (big[a, c] * big[c, b]).sum(c).order(a, b)[0, 0].item() == 512.0


def test_a_product_whose_factor_changes_is_refused():
    i, j = dims()
    x, y = A.clone(), A.clone()
    product = x[i, j] * y[i, j]
    x.add_(1)
    for use in (lambda: product.sum(i), lambda: product + 1):
        with pytest.raises(RuntimeError, match="a factor of a product was modified in place"):
            use()


def test_gradients():
    i, j, k = dims()
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(3, 2, requires_grad=True)
    (a[i, k] * b[k, j]).sum(k).order(i, j).sum().backward()
    assert a.grad.tolist() == [[2.0] * 3] * 2
    assert b.grad.tolist() == [[2.0] * 2] * 3


def test_attention():
    b, q, k, h, c = dims(sizes=[None, None, None, 2, None])
    x = torch.linspace(0, 1, 24).view(2, 3, 4)
    scores = (x[b, q, (h, c)] * x[b, k, (h, c)]).sum(c) / math.sqrt(c.size)
    found = (scores.softmax(dim=k) * x[b, k, (h, c)]).sum(k).order(b, q, (h, c))
    heads = x.view(2, 3, 2, 2).transpose(1, 2)
    wanted = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    assert torch.allclose(found, wanted.transpose(1, 2).reshape(2, 3, 4))


def test_inside_of_transforms():
    def f(x):
        i, j = dims()
        return (x[i, j] * x[j, i]).sum(j).order(i)

    x = torch.arange(8.0).view(2, 2, 2)
    assert torch.equal(torch.func.vmap(f)(x), (x * x.transpose(1, 2)).sum(2))
    assert torch.equal(torch.func.grad(lambda y: f(y).sum())(x[0]), 2 * x[0].t())


# -- joining and splitting -------------------------------------------------------------------------


def test_stack_and_cat():
    i, j, k, m, n = dims()
    assert laid_out(stack([A[i], A[i] + 1], k), k, i) == [A.tolist(), (A + 1).tolist()]
    assert k.size == 2
    mixed = stack([torch.arange(2.0)[i], torch.arange(3.0)[j]], m)
    assert laid_out(mixed, i, j, m)[1] == [[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]
    assert laid_out(torch.stack([A, A], n), n) == [A.tolist()] * 2
    assert stack([A, A], 1).shape == (2, 2, 3)
    p, q = dims()
    assert laid_out(cat([A[i, j], A[i, j] * 2], j, p), i, p) == torch.cat([A, 2 * A], 1).tolist()
    assert laid_out(cat([A, A[:1]], 0, q), q) == torch.cat([A, A[:1]]).tolist()
    assert (p.size, q.size) == (6, 3)
    with pytest.raises(ValueError, match="stack expects a non-empty sequence of tensors"):
        stack([], k)


def test_split():
    i, j, k, m = dims(sizes=[1, None, None, None])
    assert [laid_out(part) for part in split(B, [i, j], dim=0)] == [
        B[:1].tolist(),
        B[1:].tolist(),
    ]
    assert j.size == 2
    r, c = dims()
    first, second = B[r, c].split([k, m], dim=c)
    assert laid_out(first, r, k) == B[:, :2].tolist()
    assert laid_out(second, r, m) == B[:, 2:].tolist()
    assert [tuple(part.shape) for part in B[r].split(3)] == [(3,), (1,)]
    bound = dims(2, sizes=[1, 1])
    with pytest.raises(TypeError, match=r"dimensions \(2\) do not match the source dim \(3\)"):
        split(B, list(bound), dim=0)
    with pytest.raises(TypeError, match="must be ints or dims but got a mix"):
        split(B, [bound[0], 2], dim=0)
    with pytest.raises(TypeError, match="split sizes must also be dimensions"):
        split(B[r], 2, dim=r)
    big, rest = dims(sizes=[7, None])
    with pytest.raises(TypeError, match=r"add up to more \(7\) than source dim \(3\)"):
        split(B, [big, rest])


# -- lists of dims ---------------------------------------------------------------------------------


def test_lists_of_dims():
    rest = dimlists()
    assert (repr(rest), rest.is_bound) == ("*rest", False)
    last = dims(1)
    assert laid_out(C[rest, last], last, rest) == C.permute(2, 0, 1).tolist()
    assert (repr(rest), len(rest), [d.size for d in rest]) == ("(rest0, rest1)", 2, [2, 3])
    assert rest[0:2] == (rest[0], rest[1])
    assert tuple(C[rest, 1:].order((rest[0], rest[1])).shape) == (6, 3)
    a, b = dimlists(sizes=[2, [3, None]])
    assert (len(a), b[0].size, b[1].is_bound) == (2, 3, False)
    named = DimList(name="x")
    named.bind([2, 3])
    assert repr(named) == "(x0, x1)"
    assert [repr(DimList()), repr(DimList(2)), repr(DimList([3, 4], name="q"))] == [
        "<unbound_dimlist>",
        "(dim0, dim1)",
        "(q0, q1)",
    ]
    with pytest.raises(DimensionBindError, match="has size 2 but it is being bound to size 3"):
        named.bind_len(3)
    with pytest.raises(DimensionBindError, match="DimList not bound"):
        len(DimList())
    with pytest.raises(IndexError, match="index out of bounds"):
        named[5]
    with pytest.raises(ValueError, match="expected a sequence"):
        DimList().bind(3)
