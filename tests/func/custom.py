"""Custom Functions of the random programs: with the rules that users write, or without them."""

from __future__ import annotations

import functools
from typing import Any


@functools.cache
def functions(T: Any) -> dict[str, Any]:  # noqa: C901
    """The classes by name, made over the package `T`."""

    class Keeping(T.autograd.Function):
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            kept = (*inputs, *(output if isinstance(output, tuple) else (output,)))
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)

    class Sine(Keeping):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x.sin()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0].cos()

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * ctx.saved_tensors[0].cos()

    class Product(Keeping):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y, _ = ctx.saved_tensors
            return grad * y, grad * x

        @staticmethod
        def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
            x, y, _ = ctx.saved_tensors
            return dx * y + x * dy

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any) -> Any:
            def placed(value: Any, dim: int | None) -> Any:
                if dim is None:
                    return value.expand(info.batch_size, *value.shape)
                return value.movedim(dim, 0)

            return Product.apply(placed(x, in_dims[0]), placed(y, in_dims[1])), 0

    class Exponential(Keeping):
        """Keeps its result; no rule for vmap or jvp."""

        @staticmethod
        def forward(x: Any) -> Any:
            return x.exp()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[1]

    class Doubled(Keeping):
        """The identity, with a derivative of two: only its own rules can give that."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2.0

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return tangent * 2.0

    class Pair(Keeping):
        """Two results."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, x.cos()

        @staticmethod
        def backward(ctx: Any, one: Any, two: Any) -> Any:
            x, y, *_ = ctx.saved_tensors
            return one * y - two * x.sin(), one * x

        @staticmethod
        def jvp(ctx: Any, dx: Any, dy: Any) -> Any:
            x, y, *_ = ctx.saved_tensors
            return dx * y + x * dy, -dx * x.sin()

    class Inner(Keeping):
        """Transforms inside of forward, backward and jvp: the cosine."""

        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return T.func.grad(lambda y: y.sin().sum())(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return T.func.vjp(T.cos, ctx.saved_tensors[0])[1](grad)[0]

        @staticmethod
        def jvp(ctx: Any, tangent: Any) -> Any:
            return T.func.jvp(T.cos, (ctx.saved_tensors[0],), (tangent,))[1]

    return {one.__name__: one for one in (Sine, Product, Exponential, Doubled, Pair, Inner)}
