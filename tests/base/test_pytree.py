"""Trees of containers: flattening, specs, mapping, refusals."""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.base import pytree
from rushlight.base.pytree import LeafSpec, TreeSpec, tree_map, tree_structure

Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "a b")


class Box:
    def __init__(self, item: object, label: str = "c") -> None:
        self.item = item
        self.label = label


class Result(tuple):
    """A tuple with a registration of its own, as the results of operators are."""


@pytest.fixture(autouse=True)
def registrations() -> object:
    pytree.register_pytree_node(
        Box, lambda box: ([box.item], box.label), lambda items, label: Box(*items, label)
    )
    pytree.register_sequence_node(Result)
    yield
    del pytree.SUPPORTED_NODES[Box], pytree.SUPPORTED_NODES[Result]


def containers(children: st.SearchStrategy) -> st.SearchStrategy:
    keys = st.text(max_size=2)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(keys, children, max_size=3),
        st.dictionaries(keys, children, max_size=3).map(OrderedDict),
        st.dictionaries(keys, children, max_size=3).map(lambda d: defaultdict(list, d)),
        st.lists(children, max_size=3).map(lambda items: deque(items, maxlen=5)),
        st.builds(Pair, children, children),
    )


TREES = st.recursive(st.none() | st.integers(), containers, max_leaves=12)


@given(TREES)
def test_flatten_and_back(tree: object) -> None:
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert tree_structure(again) == spec and hash(tree_structure(again)) == hash(spec)
    assert len(leaves) == spec.num_leaves
    assert pytree.tree_leaves(tree) == list(pytree.tree_iter(tree)) == leaves
    assert spec.flatten_up_to(tree) == leaves
    assert pickle.loads(pickle.dumps(spec)) == spec


@pytest.mark.parametrize(
    ("tree", "leaves", "nodes", "text"),
    [
        (None, [None], 1, "*"),
        ({1}, [{1}], 1, "*"),
        (
            [1, (2, 3)],
            [1, 2, 3],
            5,
            "TreeSpec(list, None, [*,\n  TreeSpec(tuple, None, [*,\n    *])])",
        ),
        ({"b": 1, "a": 2}, [1, 2], 3, "TreeSpec(dict, ['b', 'a'], [*,\n  *])"),
        (OrderedDict(x=1), [1], 2, "TreeSpec(OrderedDict, ['x'], [*])"),
        (defaultdict(list, k=1), [1], 2, "TreeSpec(defaultdict, [<class 'list'>, ['k']], [*])"),
        (deque([1], maxlen=5), [1], 2, "TreeSpec(deque, 5, [*])"),
        (Result((1, 2)), [1, 2], 3, "TreeSpec(Result, None, [*,\n  *])"),
        (Box([3]), [3], 3, "TreeSpec(Box, c, [TreeSpec(list, None, [*])])"),
        ([], [], 1, "TreeSpec(list, None, [])"),
    ],
)
def test_specs(tree: object, leaves: list[object], nodes: int, text: str) -> None:
    found, spec = pytree.tree_flatten(tree)
    assert found == leaves
    assert (spec.num_leaves, spec.num_nodes) == (len(leaves), nodes)
    assert repr(spec) == text


def test_spec_of_named_tuple() -> None:
    spec = tree_structure(Pair(1, [2]))
    assert spec.type is namedtuple and spec.context is Pair
    assert repr(spec).startswith("TreeSpec(namedtuple, <class ")
    assert isinstance(spec.child(0), LeafSpec) and spec.child(0).is_leaf()
    assert spec.children() == [LeafSpec(), TreeSpec(list, None, [LeafSpec()])]


def test_equality_of_specs() -> None:
    assert tree_structure({"a": 1, "b": 2}) != tree_structure({"b": 1, "a": 2})
    assert tree_structure({"a": 1}) != tree_structure(OrderedDict(a=1))
    assert tree_structure((1, 2)) != tree_structure([1, 2])
    assert tree_structure(Pair(1, 2)) != tree_structure(Other(1, 2))


def test_subclasses_of_containers_are_leaves() -> None:
    class MyList(list):
        pass

    tree = MyList([1, 2])
    assert pytree.tree_leaves(tree) == [tree] and pytree.tree_is_leaf(tree)


def test_map() -> None:
    assert tree_map(lambda x: x + 1, {"a": [1], "b": (2,)}) == {"a": [2], "b": (3,)}
    assert tree_map(lambda x, y: (x, y), [1, 2], [[3], {"x": 4}]) == [(1, [3]), (2, {"x": 4})]
    assert tree_map(lambda x, y: x + y, {"a": 1, "b": 2}, {"b": 10, "a": 20}) == {"a": 21, "b": 12}
    mixed = tree_map(lambda x, y: (x, y), OrderedDict(a=2), defaultdict(list, a=1))
    assert mixed == {"a": (2, 1)} and type(mixed) is OrderedDict
    assert tree_map(len, [(1, 2), ()], is_leaf=lambda x: isinstance(x, tuple)) == [2, 0]


def test_map_in_place_returns_the_tree_itself() -> None:
    seen: list[object] = []
    tree = [1, 2]
    assert pytree.tree_map_(lambda *items: seen.append(items), tree, [3, 4]) is tree
    assert seen == [(1, 3), (2, 4)]
    assert pytree.tree_map_only_(int, seen.append, [5, "a"]) == [5, "a"]
    assert seen[2:] == [5]


@pytest.mark.parametrize(
    ("which", "result"),
    [
        (int, [2, "a", 2.0]),
        ((int, str), [2, "aa", 2.0]),
        (int | str, [2, "aa", 2.0]),
        (lambda x: x == 2.0, [1, "a", 4.0]),
    ],
)
def test_map_only(which: object, result: list[object]) -> None:
    assert pytree.tree_map_only(which, lambda x: x * 2, [1, "a", 2.0]) == result


def test_all_and_any() -> None:
    assert not pytree.tree_all(bool, [1, (0,)]) and pytree.tree_any(bool, [1, (0,)])
    assert pytree.tree_all_only(int, bool, [1, 0.0])
    assert not pytree.tree_any_only(float, bool, [1, 0.0])
    assert pytree.arg_tree_leaves(1, [2], k=3) == [1, 2, 3]


def test_broadcast_prefix() -> None:
    spec = tree_structure([(1, 2), 3])
    assert pytree.broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert pytree.broadcast_to_and_flatten([1, 2], spec) == [1, 1, 2]
    for prefix in ((1, 2), [1], [1, [2]]):
        assert pytree.broadcast_to_and_flatten(prefix, spec) is None


@pytest.mark.parametrize(
    ("tree", "rest", "words"),
    [
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1."),
        ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ([1], None, "Node type mismatch; expected <class 'list'>, but got <class 'NoneType'>."),
        ({"a": 1}, {"b": 2}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
        ({"a": 1}, {}, "Node arity mismatch; expected 1, but got 0."),
        (Pair(1, 2), Other(1, 2), "Node context mismatch for node type <function namedtuple"),
        (Box(1), Box(1, "d"), "Node context mismatch for custom node type <class"),
        (Box(1), [1], "Type mismatch; expected <class"),
    ],
)
def test_trees_that_do_not_match(tree: object, rest: object, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        tree_map(lambda x, y: x, tree, rest)
    assert str(caught.value).startswith(words)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="<class 'list'> is already registered as pytree node."):
        pytree.register_pytree_node(list, lambda x: (x, None), lambda x, _: x)
    with pytest.raises(ValueError, match="`leaves` has length 1 but the spec refers to a pytree"):
        pytree.tree_unflatten([1], tree_structure([1, 2]))
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        pytree.tree_unflatten([1], "x")
    with pytest.raises(TypeError, match="Argument must be a type"):
        pytree.tree_map_only("x", len, [1])


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


pytree.register_pytree_node(
    Point,
    lambda p: ([p.x, p.y], "plane"),
    lambda values, _: Point(*values),
    serialized_type_name="tests.Point",
    flatten_with_keys_fn=lambda p: (
        [(pytree.GetAttrKey("x"), p.x), (pytree.GetAttrKey("y"), p.y)],
        "plane",
    ),
)


def test_paths_lead_to_leaves():
    Pair = namedtuple("Pair", "left right")
    tree = {"z": Point(1, [2, 3]), "q": (4, Pair(5, 6)), "d": deque([7])}
    found, spec = pytree.tree_flatten_with_path(tree)
    assert {pytree.keystr(path): leaf for path, leaf in found} == {
        "['z'].x": 1, "['z'].y[0]": 2, "['z'].y[1]": 3, "['q'][0]": 4, "['q'][1].left": 5,
        "['q'][1].right": 6, "['d'][0]": 7,
    }  # fmt: skip
    assert all(pytree.key_get(tree, path) == leaf for path, leaf in found)
    assert spec == pytree.tree_structure(tree)
    assert repr(found[0][0]) == "(MappingKey(key='z'), GetAttrKey(name='x'))"
    named = pytree.tree_map_with_path(lambda p, a, b: (pytree.keystr(p), a + b), [1, 2], [10, 20])
    assert named == [("[0]", 11), ("[1]", 22)]


def test_a_node_without_keys_has_no_paths():
    class Blind:
        pass

    pytree.register_pytree_node(Blind, lambda b: ([1], None), lambda values, _: Blind())
    with pytest.raises(ValueError, match="flatten_with_keys_fn"):
        pytree.tree_leaves_with_path([Blind()])
    with pytest.raises(NotImplementedError, match="serialized_type_name"):
        pytree.treespec_dumps(pytree.tree_structure(Blind()))


@pytest.mark.parametrize(
    "tree",
    [1, (1, {"a": None}), OrderedDict(a=1), defaultdict(int, a=1), deque([1], 3), Point(1, (2,))],
)
def test_specs_are_written_and_read(tree):
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_the_text_of_a_spec():
    assert pytree.treespec_dumps(pytree.tree_structure({"a": [1]})) == (
        '[1, {"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": [{"type": '
        '"builtins.list", "context": "null", "children_spec": [{"type": null, "context": null, '
        '"children_spec": []}]}]}]'
    )
    assert pytree.treespec_pprint(pytree.tree_structure({"a": [1]})) == "{'a': [*]}"
    with pytest.raises(ValueError, match="Unknown protocol 99"):
        pytree.treespec_loads("[99, {}]")
    with pytest.raises(NotImplementedError, match="'tests.Nobody'"):
        pytree.treespec_loads('[1, {"type": "tests.Nobody", "context": "1", "children_spec": []}]')


def test_reading_a_spec_imports_nothing():
    spec = pytree.tree_structure(defaultdict(list, a=1))
    text = pytree.treespec_dumps(spec).replace('"builtins"', '"antigravity"')
    with pytest.raises(ImportError, match="antigravity is not imported") as caught:
        pytree.treespec_loads(text)
    assert caught.value.code == "RL0218"
    assert "antigravity" not in sys.modules
