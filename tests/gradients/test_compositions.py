"""Derivatives of derivatives, of several results and arguments, and what is refused with the user's line and shapes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.errors import DTypeError, ShapeError, TangError, TraceError
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace
from tests.gradients.models import elementwise, fixed, named, softmax, unary, write


def at(fn: Callable[..., Any], *arrays: Any) -> tuple[Any, ...]:
    """A function that holds derivatives, by the interpreter."""
    import inspect

    names = list(inspect.signature(fn).parameters)
    return write(fn, dict(zip(names, fixed(*arrays), strict=True)))(*arrays)


def loss(x: Any) -> Any:
    """Rosenbrock's valley, in any dimension."""
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def hessian(x: Any) -> Any:
    n = len(x)
    out = np.zeros((n, n))
    for i in range(n - 1):
        out[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        out[i, i + 1] = out[i + 1, i] = -400 * x[i]
        out[i + 1, i + 1] += 200
    return out


X, V = np.array([0.3, -1.2, 0.7, 1.9]), np.array([1.0, -0.5, 2.0, 0.25])


def test_hessian_vector_product_forward_over_reverse() -> None:
    got = at(named(lambda x, v: tv.jvp(tv.grad(loss))(x, v), ("x", "v")), X, V)
    np.testing.assert_allclose(got[1], hessian(X) @ V, rtol=1e-12)


def test_hessian_vector_product_reverse_over_reverse() -> None:
    (got,) = at(named(lambda x, v: tv.grad(lambda x, v: (tv.grad(loss)(x) * v).sum())(x, v), ("x", "v")), X, V)
    np.testing.assert_allclose(got, hessian(X) @ V, rtol=1e-12)


def test_hessian_vector_product_reverse_over_forward() -> None:
    (got,) = at(named(lambda x, v: tv.grad(lambda x, v: tv.jvp(loss)(x, v)[1])(x, v), ("x", "v")), X, V)
    np.testing.assert_allclose(got, hessian(X) @ V, rtol=1e-12)


def test_third_derivative() -> None:
    cube = lambda x: tv.grad(lambda x: tv.grad(lambda x: tv.grad(lambda x: (x**4).sum())(x).sum())(x).sum())(x)  # noqa: E731
    np.testing.assert_allclose(at(cube, X)[0], 24 * X, rtol=1e-12)


def test_hessian_of_a_softmax_loss() -> None:
    """The Hessian of log Σ exp is diag(p) − p pᵀ: the maximum drops out of both derivatives."""

    def lse(x: Any) -> Any:
        xp = x.__array_namespace__()
        m = xp.max(x)
        return m + xp.log(xp.sum(xp.exp(x - m)))

    (got,) = at(named(lambda x, v: tv.grad(lambda x, v: (tv.grad(lse)(x) * v).sum())(x, v), ("x", "v")), X, V)
    p = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(got, p * V - p * (p @ V), rtol=1e-11)


def test_hessian_through_a_kink() -> None:
    """relu(x)²: the slope of 2·relu(x)·[x > 0], which is 2 on one side and 0 on the other."""
    square = lambda x: (x.__array_namespace__().maximum(x, 0.0) ** 2).sum()  # noqa: E731
    (got,) = at(lambda x: tv.grad(lambda x: tv.grad(square)(x).sum())(x), np.array([-1.0, 2.0]))
    np.testing.assert_array_equal(got, [0.0, 2.0])


def test_hessian_of_a_small_network() -> None:
    """relu and products: the Hessian times a vector, against differences of the gradient."""

    def net(w: Any) -> Any:
        xp = w.__array_namespace__()
        return (xp.maximum(w @ w.T, 0.5) ** 2).sum()

    def plain(w: Any) -> Any:
        return 4 * (np.maximum(w @ w.T, 0.5) * (w @ w.T > 0.5)) @ w

    rng = np.random.default_rng(2)
    w, v = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    (got,) = at(named(lambda w, v: tv.grad(lambda w, v: (tv.grad(net)(w) * v).sum())(w, v), ("w", "v")), w, v)
    np.testing.assert_allclose(got, (plain(w + 1e-6 * v) - plain(w - 1e-6 * v)) / 2e-6, rtol=1e-6, atol=1e-7)


def test_perturbations_are_not_confused() -> None:
    """d/dx x·(d/dy (x + y)) = 1: the inner derivative takes x as it is."""
    (got,) = at(lambda x: tv.grad(lambda x: (x * tv.grad(lambda y: (x + y).sum())(x)).sum())(x), X)
    np.testing.assert_array_equal(got, np.ones(4))
    (got,) = at(lambda x: tv.grad(lambda x: (x * tv.grad(lambda y: (x * y * y).sum())(x)).sum())(x), X)  # x·2xx
    np.testing.assert_allclose(got, 6 * X**2, rtol=1e-13)


def test_several_arguments() -> None:
    f = elementwise("(x * xp.sin(y)).sum()")
    y = np.array([0.1, 0.2, 0.3, 0.4])
    one = at(tv.grad(f, 1), X, y)
    both = at(tv.grad(f, (1, 0)), X, y)
    value, *same = at(tv.value_and_grad(f, (1, 0)), X, y)
    np.testing.assert_allclose(one[0], X * np.cos(y))
    np.testing.assert_allclose(both[1], np.sin(y))
    np.testing.assert_allclose(value, X @ np.sin(y))
    for a, b in zip(both, same, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(both[0], one[0])


def test_an_array_given_twice() -> None:
    (got,) = at(lambda x: tv.grad(elementwise("(x * y * y).sum()"))(x, x), X)
    np.testing.assert_allclose(got, X**2)  # by the first argument alone


def test_several_results() -> None:
    f = named(lambda x: (x.sum(), x * x), ("x",))
    value, square, slope = at(tv.value_and_grad(f), X)  # the first is differentiated
    np.testing.assert_allclose((value, *square), (X.sum(), *X**2))
    np.testing.assert_array_equal(slope, np.ones(4))
    got = at(tv.vjp(named(lambda x: (x * x, x.sum(), x), ("x",)), weights=("a", "b", "c")), X, V, np.float64(3.0), X)
    np.testing.assert_allclose(got[0], 2 * X * V + 3.0 + X)
    y, z, dy, dz = at(tv.jvp(named(lambda x: (x * x, x.sum()), ("x",))), X, V)
    np.testing.assert_allclose(dy, 2 * X * V)
    np.testing.assert_allclose((dz, z, *y), (V.sum(), X.sum(), *X**2))


def test_one_array_as_two_results() -> None:
    (got,) = at(tv.vjp(named(lambda x: (x, x), ("x",)), weights=("a", "b")), X, V, X)
    np.testing.assert_allclose(got, V + X)


@pytest.mark.parametrize(
    "fn",
    [unary("xp.tanh(x) * x"), unary("x[::-1] * x"), unary("xp.cumulative_sum(x * x)"), unary("xp.max(x) * x"), unary("xp.pad(x, ((2, 1),))"),
     unary("xp.prod(x)"), unary("(x[:, None] * x)[:, ::2]"), lambda x: softmax(x[None, :])],
    ids=range(8),
)  # fmt: skip
def test_tangents_and_gradients_are_adjoint(fn: Callable[..., Any]) -> None:
    """⟨Jv, w⟩ = ⟨v, Jᵀw⟩."""
    y, forward = at(tv.jvp(named(fn, ("x",))), X, V)
    w = np.random.default_rng(0).standard_normal(y.shape)
    (back,) = at(tv.vjp(named(fn, ("x",))), X, w)
    np.testing.assert_allclose((forward * w).sum(), (V * back).sum(), rtol=1e-12)


def test_a_call_on_arrays() -> None:
    np.testing.assert_allclose(tv.grad(lambda x, k=2.0: (k * x * x).sum())(X), 4 * X)
    np.testing.assert_allclose(tv.grad(lambda x, k=2.0: (k * x * x).sum())(X, k=3.0), 6 * X)
    value, slope = tv.jvp(lambda x, k=2.0: k * x * x)(X, V)
    np.testing.assert_allclose((value, slope), (2 * X * X, 4 * X * V))


def test_float32_stays_float32() -> None:
    for dtype in ("float16", "float32"):
        program = trace(tv.grad(unary("(x * x).sum()")), {"x": spec("n", dtype)})
        assert program.tensor(program.outputs[0]).dtype == dtype


# -- refused ----------------------------------------------------------------------------------------------------------

N, NM = {"x": spec("n")}, {"x": spec("n m")}
REFUSED: dict[str, tuple[Callable[..., Any], dict[str, Any], type[TangError], str]] = {
    "no scalar": (tv.grad(lambda x: x * x), N, ShapeError, r"no real scalar: shape \(n,?\).*sum it"),
    "no real": (tv.grad(lambda x: (x > 0).sum()), N, ShapeError, r"no real scalar.*int"),
    "no array": (tv.grad(lambda x: 3.0), N, ShapeError, r"no real scalar: float"),
    "integers": (tv.grad(lambda x: x.sum()), {"x": spec("n", "int32")}, DTypeError, r"argument 0 is int32.*only float"),
    "truths": (tv.grad(lambda x: x.any() * 1.0), {"x": spec("n", "bool")}, DTypeError, r"argument 0 is bool"),
    "no such argument": (tv.grad(lambda x: x.sum(), 3), N, TraceError, r"no argument number 3"),
    "weights of another shape": (tv.vjp(lambda x: x.sum(axis=1)), {**NM, "ct": spec("m")}, ShapeError, r"\(n,?\) and weights \(m,?\)"),
    "too few weights": (tv.vjp(lambda x: (x, x)), {**NM, "ct": spec("n m")}, TraceError, r"2 results and 1 weights"),
    "a direction of another shape": (tv.jvp(lambda x: x), {**NM, "d_x": spec("m n")}, ShapeError, r"direction of shape \(m, n\).*\(n, m\)"),
    "vjp of integers": (tv.vjp(lambda x: (x > 0) * 1), {**N, "ct": spec("n")}, DTypeError, r"result is not an array of floats"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    fn, specs, kind, pattern = REFUSED[name]
    with pytest.raises(kind) as caught:
        trace(fn, specs)
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)


def test_the_users_line_is_named() -> None:
    def model(x: Any) -> Any:
        slope = tv.grad(lambda z: z * z)(x)  # the offending line
        return slope

    with pytest.raises(ShapeError) as caught:
        trace(model, N)
    assert re.search(r"test_compositions\.py:\d+:  slope = tv\.grad", str(caught.value)), str(caught.value)
