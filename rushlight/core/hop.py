"""Higher-order ops: operators that take functions or graphs, as citizens of dispatch.

Such an op has a record without schema and one rule for each layer. A call passes the layers in
the order that `core.dispatch` has for other ops; an op without a rule for a layer that is active
refuses there, so that no layer is passed by in silence. Rules of an occupant's layer get the
occupant first, those of vmap the level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.base import pytree
from rushlight.base.errors import error
from rushlight.core import dispatch
from rushlight.core import state as bits
from rushlight.core.keys import DEVICES
from rushlight.core.node import needs_grad
from rushlight.core.state import LOCAL, PROCESS, ThreadState, as_python, changed
from rushlight.core.tensor import Tensor

__all__ = ["HOPS", "RULES", "HigherOrderOperator", "find_hop"]

# What an op may have a rule for. "eager" computes. "autograd" is called whenever grad mode is on,
# for a function may close over what requires a gradient; it also serves levels of grad and jvp.
# "batch" is vmap's.
RULES = ("eager", "autograd", "functional", "proxy", "fake", "batch")
# torch's names of dispatch keys, for rules that users give.
KEYS = {
    "CompositeExplicitAutograd": "eager",
    "CPU": "eager",
    "Autograd": "autograd",
    "AutogradCPU": "autograd",
    "Functionalize": "functional",
    "FuncTorchBatched": "batch",
}
# No tensor with values is on these devices, so that no rule of theirs is ever asked for.
ABSENT_DEVICES = {*DEVICES} - {"CPU", "Meta"}
HOPS: dict[str, HigherOrderOperator] = {}
Rule = Callable[..., Any]


class HigherOrderOperator:
    """An operator over functions; calling it passes all layers that are active."""

    namespace = "higher_order"
    records_always = False

    def __init__(self, name: str, *, cacheable: bool = False) -> None:
        self._name = self.__name__ = self.__qualname__ = name
        self.__module__ = "torch.ops.higher_order"
        self.cacheable = cacheable
        self.rules: dict[str, Rule] = {}
        # Class of a mode or of a tensor -> what stands in for its `__torch_dispatch__`.
        self.class_rules: dict[type, Rule] = {}
        # Name of a transform -> what its levels call instead of the rule for their layer.
        self.transform_rules: dict[str, Rule] = {}
        self.non_fallthrough_keys = None
        HOPS[name] = self

    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}>"

    def __str__(self) -> str:
        return self._name

    def __reduce__(self) -> Any:
        return find_hop, (self._name,)

    def __deepcopy__(self, memo: object) -> HigherOrderOperator:
        return self

    # -- rules -------------------------------------------------------------------------------------

    def rule(self, layer: str) -> Callable[[Rule], Rule]:
        """Decorator: the op's rule for a layer, one of `RULES`."""
        if layer not in RULES:
            raise LookupError(f"no layer {layer!r}; the layers are {', '.join(RULES)}")

        def keep(function: Rule) -> Rule:
            self.rules[layer] = function
            return function

        return keep

    def py_impl(self, key: Any) -> Callable[[Rule], Rule]:
        """Decorator: a rule under torch's name of a key, or for a class of modes or tensors, or for
        the levels of a transform."""
        if hasattr(key, "adapted"):

            def keep_for_levels(function: Rule) -> Rule:
                self.transform_rules[key.name] = key.adapted(function)
                return function

            return keep_for_levels
        if isinstance(key, type):
            layer = getattr(key, "slot", "").removeprefix("pre_")
            if layer in RULES:
                return self.rule(layer)

            def keep(function: Rule) -> Rule:
                self.class_rules[key] = function
                return function

            return keep
        name = str(getattr(key, "name", key)).rpartition(".")[2]
        if name not in KEYS and name.removeprefix("Autograd") in ABSENT_DEVICES:
            return lambda function: function
        if name not in KEYS:
            raise error("RL0309", LookupError, op=self._name, key=name)
        if KEYS[name] == "autograd":
            return self.py_autograd_impl
        return self.rule(KEYS[name])

    def py_functionalize_impl(self, function: Rule) -> Rule:
        return self.rule("functional")(function)

    def py_autograd_impl(self, function: Rule) -> Rule:
        """torch: such a rule is called with grad mode off too."""
        self.records_always = True
        return self.rule("autograd")(function)

    def fallthrough(self, key: Any) -> None:
        """torch: the layer of a key is passed by. Here only autograd's can be: calls that ask for
        gradients then run without."""
        name = str(getattr(key, "name", key)).rpartition(".")[2]
        if KEYS.get(name) == "autograd":
            self.rules["autograd"] = self.go_on

    def rule_for(self, layer: str, who: object) -> Rule:
        found = self.rules.get(layer)
        if found is None:
            raise error("RL0310", NotImplementedError, op=self._name, layer=layer, who=str(who))
        return found

    # -- the call ----------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if PROCESS.special:
            state = LOCAL.state
            if state.function_modes and not state.excluded & bits.LAYER_FUNCTION_MODES:
                return dispatch.call_function_mode(state, self, args, kwargs)
        handled, result = dispatch.try_function_override(self, args, kwargs)
        return result if handled else self.dispatch(*args, **kwargs)

    def dispatch(self, *args: Any, **kwargs: Any) -> Any:
        """Give the call to the first layer that is active and not switched off."""
        state = LOCAL.state
        open_to = ~state.excluded
        if state.transforms and open_to & bits.LAYER_TRANSFORMS:
            return self.at_level(state.transforms[-1], args, kwargs)
        if state.pre_modes and open_to & bits.LAYER_PRE:
            return self.by_mode(state, "pre_modes", args, kwargs)
        if state.pre_functional is not None and open_to & bits.LAYER_PRE_FUNCTIONAL:
            mode = state.pre_functional
            return self.rule_for("functional", mode)(mode, *args, **kwargs)
        if state.pre_proxy is not None and open_to & bits.LAYER_PRE_PROXY:
            return self.rule_for("proxy", state.pre_proxy)(state.pre_proxy, *args, **kwargs)
        if open_to & bits.LAYER_AUTOGRAD and (state.grad or self.records_always):
            return self.rule_for("autograd", "autograd")(*args, **kwargs)
        return self.below_autograd(state, args, kwargs)

    def below_autograd(
        self, state: ThreadState, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        open_to = ~state.excluded
        if state.dispatch_modes and open_to & bits.LAYER_MODES:
            return self.by_mode(state, "dispatch_modes", args, kwargs)
        asked = 0
        occupants: dict[int, Any] = {}
        for tensor in tensors_in(args, kwargs):
            layer = dispatch.layer_of(type(tensor))
            asked |= layer
            if layer & (bits.LAYER_FUNCTIONAL | bits.LAYER_FAKE):
                occupants.setdefault(layer, tensor.handling_mode)
        if asked & bits.LAYER_SUBCLASS and open_to & bits.LAYER_SUBCLASS:
            return self.by_class(args, kwargs)
        functional = state.functional or occupants.get(bits.LAYER_FUNCTIONAL)
        if functional is not None and open_to & bits.LAYER_FUNCTIONAL:
            return self.rule_for("functional", functional)(functional, *args, **kwargs)
        if state.proxy is not None and open_to & bits.LAYER_PROXY:
            return self.rule_for("proxy", state.proxy)(state.proxy, *args, **kwargs)
        fake = state.fake or occupants.get(bits.LAYER_FAKE)
        if fake is not None and open_to & bits.LAYER_FAKE:
            return self.rule_for("fake", fake)(fake, *args, **kwargs)
        return self.rule_for("eager", "kernels")(*args, **kwargs)

    def go_on(self, *args: Any, **kwargs: Any) -> Any:
        """The call below an autograd rule, which found nothing to record."""
        with changed(excluded=LOCAL.state.excluded | bits.LAYER_AUTOGRAD):
            return self.dispatch(*args, **kwargs)

    def at_level(self, level: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A function may close over tensors of a level, so that all levels see every call."""
        given = self.transform_rules.get(getattr(level, "transform", ""))
        if given is not None:
            return given(level, *args, **kwargs)
        rule = self.rule_for(level.hop_rule, level)
        if level.hop_rule == "autograd":
            return rule(*args, **kwargs)
        return rule(level, *args, **kwargs)

    def by_mode(
        self, state: ThreadState, stack: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Let the innermost mode handle the call, while it is off."""
        modes = getattr(state, stack)
        mode = modes[-1]
        rule = self.class_rules.get(type(mode))
        if rule is None and not getattr(mode, "supports_higher_order_operators", False):
            raise error("RL0310", NotImplementedError, op=self._name, layer="modes", who=mode)
        with changed(**{stack: modes[:-1], "excluded": as_python(state.excluded)}):
            if rule is not None:
                return rule(mode, *args, **kwargs)
            types = tuple(dict.fromkeys(type(value) for value in tensors_in(args, kwargs)))
            return mode.__torch_dispatch__(self, types, args, kwargs)

    def by_class(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        classes = dict.fromkeys(
            type(value)
            for value in tensors_in(args, kwargs)
            if dispatch.layer_of(type(value)) & bits.LAYER_SUBCLASS
        )
        for cls in classes:
            rule = self.class_rules.get(cls)
            if rule is not None:
                result = rule(*args, **kwargs)
                if result is not NotImplemented:
                    return result
        raise error(
            "RL0310", NotImplementedError, op=self._name, layer="subclasses", who=[*classes]
        )


def find_hop(name: str) -> HigherOrderOperator:
    """An op by its name."""
    return HOPS[name]


def tensors_in(args: Any, kwargs: dict[str, Any]) -> Iterator[Tensor]:
    for value in pytree.tree_leaves((args, kwargs)):
        if isinstance(value, Tensor):
            yield value


def asks_gradient(args: Any) -> bool:
    """Whether a tensor among the arguments requires a gradient."""
    return any([value._requires_grad or needs_grad(value) for value in tensors_in(args, {})])
