"""What a traced function is refused for, and what the message says: the problem, the user's line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified.tracing.comprehension as tv
from tang_verified.errors import (
    BoundsError,
    ControlFlowError,
    DTypeError,
    ShapeError,
    SpecError,
    TangError,
    TraceError,
    UnsupportedError,
)  # fmt: skip
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace

X = {"x": spec("n m")}
XY = {"x": spec("n d"), "y": spec("m d")}
INT = {"x": spec("n m"), "i": spec("n", "int64"), "c": spec("n m", "bool")}

CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], type[TangError], str]] = {
    "matmul": (lambda x, y: x @ y, XY, ShapeError, r"matmul: shapes \(n, d\) and \(m, d\) do not fit: d and m differ"),
    "broadcast": (lambda x, y: x + y, XY, ShapeError, r"add: shapes \(n, d\) and \(m, d\) do not broadcast: \w and \w differ"),
    "if": (lambda x: x if x[0, 0] > 0 else -x, X, ControlFlowError, r"no truth value.*xp\.where"),
    "while sum": (lambda x: x if x.sum() else -x, X, ControlFlowError, r"no truth value"),
    "float": (lambda x: float(x.sum()) * x, X, ControlFlowError, r"float\(\) of a traced float32 value"),
    "int": (lambda x, i, c: x[int(i[0])], INT, ControlFlowError, r"int\(\) of a traced int64 value"),
    "iterate": (lambda x: sum(row for row in x), X, ControlFlowError, r"iterating over an axis of unknown size.*\(n, m\)"),
    "len": (lambda x: x / len(x), X, ControlFlowError, r"len of an array of shape \(n, m\) is symbolic"),
    "range": (lambda x: sum(x[k] for k in range(x.shape[0])), X, ControlFlowError, r"int of the symbolic size n"),
    "np.arange": (lambda x: x + np.arange(x.shape[1]), X, ControlFlowError, r"symbolic size m.*__array_namespace__"),
    "size comparison": (lambda x: x if x.shape[0] > 3 else -x, X, ControlFlowError, r"3 < n|n > 3"),
    "item assignment": (lambda x: x.__setitem__(0, 1.0), X, ControlFlowError, r"cannot be assigned.*xp\.where"),
    "boolean mask": (lambda x: x[x > 0], X, UnsupportedError, r"boolean mask.*xp\.where"),
    "index bounds": (lambda f: f[9], {"f": spec("8 2")}, BoundsError, r"index 9 is out of bounds for axis 0.*\(8, 2\)"),
    "negative index": (lambda f: f[-9], {"f": spec("8 2")}, BoundsError, r"index -9 is out of bounds"),
    "symbolic bounds": (lambda x: x[x.shape[0]], X, BoundsError, r"index n is out of bounds"),
    "range bounds": (lambda x: x[5], {"x": spec("n<=5")}, BoundsError, r"index 5 is out of bounds.*0 <= n <= 5"),
    "slice": (lambda x: x[: x.shape[1]], X, BoundsError, r"slice :m leaves axis 0 of extent n"),
    "too many indices": (lambda x: x[0, 0, 0], X, BoundsError, r"3 indices for an array of shape \(n, m\)"),
    "float index": (lambda x: x[1.5], X, UnsupportedError, r"index of type float"),
    "axis": (lambda x: x.sum(axis=2), X, ShapeError, r"sum: no axis 2 in an array of shape \(n, m\).*-2\.\.1"),
    "argmax": (lambda x: np.argmax(x, axis=1), X, UnsupportedError, r"argmax"),
    "sort": (lambda x: np.sort(x), X, UnsupportedError, r"sort is not supported.*nearest|tv\.comprehension"),
    "unknown xp": (lambda x: x.__array_namespace__().logsumexp(x), X, UnsupportedError, r"logsumexp.*supported: logaddexp"),
    "unknown method": (lambda x: x.softmax(), X, UnsupportedError, r"method \.softmax is not supported"),
    "format": (lambda x: f"{x.sum():.2f}", X, ControlFlowError, r"formatting of a traced"),
    "out": (lambda x: np.exp(x, out=x), X, UnsupportedError, r"exp.*out"),
    "asarray": (lambda x: np.asarray(x), X, ControlFlowError, r"np\.asarray of a traced"),
    "bool arithmetic": (lambda x, i, c: c - c, INT, DTypeError, r"sub of bool arrays.*& \|"),
    "bitwise floats": (lambda x: x & x, X, DTypeError, r"bitwise_and of float32"),
    "where condition": (lambda x: np.where(x, x, 0), X, DTypeError, r"where: the condition has dtype float32"),
    "complex": (lambda x: x * 1j, X, DTypeError, r"type complex"),
    "big constant": (lambda x: x + np.sin(np.arange(100.0)), {"x": spec("100")}, BoundsError, r"\(100,\).*argument of the"),
    "merge": (lambda x: x.reshape(-1), X, ShapeError, r"reshape \(n, m\) -> \(n\*m,\) multiplies two symbolic.*spec\('n 64'\)"),
    "split": (lambda x: x.reshape(-1, 4), {"x": spec("n")}, ShapeError, r"\(n,\) does not divide into \(-1, 4\).*'n 4'"),
    "reshape count": (lambda x: x.reshape(3, 5), {"x": spec("4 4")}, ShapeError, r"\(4, 4\) has not as many elements as \(3"),
    "concat": (lambda x, y: np.concatenate([x, y], axis=1), XY, ShapeError, r"concat: shapes \(n, d\), \(m, d\) differ"),
    "not an array": (lambda x: 3.0, X, TraceError, r"the result is a float"),
    "nothing": (lambda x: (x, None), X, TraceError, r"result 1 is a NoneType"),
    "missing spec": (lambda x, y: x + y, X, TraceError, r"parameter 'y' has no spec.*y=tv\.spec"),
    "unknown parameter": (lambda x: x, {**X, "z": spec("n")}, TraceError, r"no parameter 'z'"),
    "size and parameter": (lambda m: m, {"m": spec("m")}, TraceError, r"'m' names both a parameter and a size"),
    "contradiction": (lambda x, y: x, {"x": spec("n<=3"), "y": spec("n>=4")}, SpecError, r"no n is in both"),
    "pad mode": (lambda x: np.pad(x, 1, mode="reflect"), X, UnsupportedError, r"pad with mode='reflect'"),
    "affine gather": (lambda x: x[x.__array_namespace__().arange(x.shape[1])], X, BoundsError, r"index i0 leaves its axis"),
    "comprehension bounds": (
        lambda x: tv.comprehension(out="i", body=lambda i: x[i + 1, 0], extents={"i": x.shape[0]}), X, BoundsError,
        r"index i\+1 leaves an axis of extent n of x"),
    "comprehension extent": (lambda x: tv.comprehension(out="i", body=lambda i: x[2 * i, 0]), X, ShapeError,
                             r"extent of i is not told.*extents="),
    "comprehension conflict": (lambda x: tv.comprehension(out="i", body=lambda i: x[i, i]), X, ShapeError, r"n and m differ"),
    "comprehension guard": (
        lambda x: tv.comprehension(out="i", reduce="j", body=lambda i, j: x[i, j], where=lambda i, j: x[i, j] > 0), X,
        UnsupportedError, r"not made of comparisons of affine indices"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str) -> None:
    fn, specs, kind, pattern = CASES[name]
    with pytest.raises(kind) as caught:
        trace(fn, specs)
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)


def test_message_names_the_users_line() -> None:
    def model(x: Any, y: Any) -> Any:
        scaled = x * 2
        return scaled @ y  # the offending line

    with pytest.raises(ShapeError) as caught:
        trace(model, XY)
    assert re.search(r"test_errors\.py:\d+:  return scaled @ y  # the offending line\n  Do: transpose", str(caught.value))
    assert caught.value.place is not None and caught.value.advice.startswith("transpose")


def test_arrays_do_not_outlive_their_trace() -> None:
    kept = []

    def leak(x: Any) -> Any:
        kept.append(x)
        return x + kept[0]

    trace(leak, X)
    with pytest.raises(TraceError, match="two different traces"):
        trace(leak, X)


@pytest.mark.parametrize(
    ("text", "caret"),
    [("n m+1 3", "    ^^^"), ("n 0", "    ^"), ("2n", "  ^^"), ("for", "  ^^^"), ("n<=2>=3", "  ^^^^^^^"), ("n, m", "  ^^")],
)
def test_spec_points_at_the_token(text: str, caret: str) -> None:
    with pytest.raises(SpecError, match="spec:") as caught:
        spec(text)
    assert str(caught.value).splitlines()[-1] == caret


def test_specs() -> None:
    assert spec("").shape == ()
    assert spec("b h n>=1<=9 64", "float16").ranges[0].high == 9
    assert spec("n", np.float64).dtype == "float64"  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="complex64"):
        spec("n", "complex64")
