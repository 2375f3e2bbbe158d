"""Operations as modules: what of a model is no layer is watched and converted through these."""

from __future__ import annotations

from typing import Any

from rushlight.core.construct import tensor
from rushlight.nn import functional
from rushlight.nn.linear import Identity
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.quantization.static import operator
from rushlight.quantization.weighted import qparams_of

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


class FXFloatFunctional(Module):
    """Operations of floats, as graphs record them."""

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "FloatFunctional is not intended to use the 'forward'. Please use the underlying "
            "operation"
        )

    def watched(self, result: Any) -> Any:
        return result

    def add(self, x: Any, y: Any) -> Any:
        return self.watched(functions.add(x, y))

    def add_scalar(self, x: Any, y: float) -> Any:
        return functions.add(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.watched(functions.mul(x, y))

    def mul_scalar(self, x: Any, y: float) -> Any:
        return functions.mul(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        return self.watched(functions.cat(x, dim=dim))

    def add_relu(self, x: Any, y: Any) -> Any:
        return self.watched(functional.relu(functions.add(x, y)))

    def matmul(self, x: Any, y: Any) -> Any:
        return self.watched(functions.matmul(x, y))


class FloatFunctional(FXFloatFunctional):
    """Operations of floats, whose results are watched."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Any = Identity()

    def watched(self, result: Any) -> Any:
        return self.activation_post_process(result)


class QFunctional(Module):
    """Operations of quantised numbers, whose results have a scale that was chosen before."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process: Any = Identity()

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("scale", "zero_point"):
            destination[prefix + name] = tensor(getattr(self, name))

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)

    def _get_name(self) -> str:
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x: Any) -> Any:
        raise RuntimeError(
            "Functional is not intended to use the 'forward'. Please use the underlying operation"
        )

    def scaled(self, name: str, *operands: Any) -> Any:
        made = operator(name)(*operands, scale=self.scale, zero_point=self.zero_point)
        return self.activation_post_process(made)

    def add(self, x: Any, y: Any) -> Any:
        return self.scaled("add", x, y)

    def add_scalar(self, x: Any, y: float) -> Any:
        return operator("add_scalar")(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return self.scaled("mul", x, y)

    def mul_scalar(self, x: Any, y: float) -> Any:
        return operator("mul_scalar")(x, y)

    def cat(self, x: Any, dim: int = 0) -> Any:
        return self.scaled("cat", x, dim)

    def add_relu(self, x: Any, y: Any) -> Any:
        return self.scaled("add_relu", x, y)

    def matmul(self, x: Any, y: Any) -> Any:
        return self.scaled("matmul", x, y)

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> QFunctional:
        if type(mod) is not FloatFunctional:
            raise AssertionError(
                "QFunctional.from_float expects an instance of FloatFunctional, got "
                f"{type(mod).__name__}"
            )
        made = QFunctional()
        made.scale, made.zero_point = qparams_of(mod)
        return made
