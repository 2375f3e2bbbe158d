"""torch.utils.weak: references and dictionaries that tell keys apart by identity.

Tensors compare element by element, so `weakref.WeakKeyDictionary` cannot hold them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

from rushlight.autograd.graph import WeakTensorRef as TensorWeakRef

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that is equal to another if both are to the same object."""

    __slots__ = ("identity",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)
        self.identity = id(key)

    def __hash__(self) -> int:
        return self.identity

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, weakref.ref):
            return False
        mine, theirs = self(), other()
        # Where one is gone, only the same reference is equal.
        return self is other if mine is None or theirs is None else mine is theirs

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary with weak keys, told apart by identity."""

    def __init__(self, dict: Any = None, ref_type: type = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: Any = {}
        data = self.data
        self.forget = lambda reference: data.pop(reference, None)
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self.forget)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: Any) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:
            # What cannot be referred to weakly is not a key.
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum([reference() is not None for reference in list(self.data)])

    def keyrefs(self) -> list[Any]:
        return list(self.data)

    def copy(self) -> WeakIdKeyDictionary:
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        made = type(self)(None, self.ref_type)
        for key, value in self.items():
            made[key] = deepcopy(value, memo)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {
            id(key): value for key, value in other.items()
        }

    def __or__(self, other: Any) -> WeakIdKeyDictionary:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> WeakIdKeyDictionary:
        if not isinstance(other, (dict, MutableMapping)):
            return NotImplemented
        made = type(self)(other, self.ref_type)
        made.update(self)
        return made

    def __ior__(self, other: Any) -> WeakIdKeyDictionary:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary
