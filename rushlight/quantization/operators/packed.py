"""Packed parameters as objects: what programs see of them, and how files name them.

Files hold `torch.ScriptObject`s, whose state is (contents, the name of torch's class). Reading one
gives an object of the class that has registered this name here.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error

__all__ = ["CLASSES", "PackedParams", "ScriptObject"]

# What schemas call parameters that are packed.
CLASSES = "__torch__.torch.classes."
BY_NAME: dict[str, Any] = {}


class ScriptObject:
    """An object of a class that compiled code of torch's defines; `name` says which."""

    name = ""
    # Under which name files write objects of every such class.
    written_as = ("torch", "ScriptObject")

    def __init_subclass__(cls, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        if name:
            cls.name = CLASSES + name
            BY_NAME.setdefault(cls.name, cls)

    def contents(self) -> Any:
        """What files hold of it."""
        raise NotImplementedError

    @classmethod
    def from_contents(cls, contents: Any) -> ScriptObject:
        raise NotImplementedError

    def __getstate__(self) -> Any:
        return self.contents(), self.name

    def __setstate__(self, state: Any) -> None:
        contents, name = state
        cls = BY_NAME.get(name)
        if cls is None:
            raise error("RL1590", RuntimeError, name=name.removeprefix(CLASSES))
        made = cls.from_contents(contents)
        self.__class__ = made.__class__
        vars(self).update(vars(made))

    def __repr__(self) -> str:
        return f"<torch.ScriptObject object of type {self.name}>"

    def __deepcopy__(self, memo: Any) -> Any:
        # Nothing changes it.
        return memo.setdefault(id(self), self)


class PackedParams(ScriptObject):
    """A weight and a bias, ready for products. Both stay as they were given."""

    def __init__(self, weight: Any, bias: Any) -> None:
        self.kept_weight = weight
        self.kept_bias = None if bias is None else bias.detach()

    def unpack(self) -> tuple[Any, Any]:
        return self.kept_weight, self.kept_bias

    def weight(self) -> Any:
        return self.kept_weight

    def bias(self) -> Any:
        return self.kept_bias

    def contents(self) -> Any:
        return self.unpack()
