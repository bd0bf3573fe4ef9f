"""What bad input gets, at compile time and at call time: the problem with its shapes, the user's line, and what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.errors import (
    BoundsError,
    CompileError,
    ControlFlowError,
    ShapeError,
    SpecError,
    TangError,
    TraceError,
    UnsupportedError,
)


@cache
def product() -> Any:
    return tv.compile(lambda x, y: x @ y, x="n 4", y="4 m", name="product")


@cache
def total() -> Any:
    return tv.compile(lambda x, y: x + y, x="n>=2<=5", y="n", name="total")


def ones(*shape: int, dtype: str = "float32") -> Any:
    return np.ones(shape, dtype)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


X = ones(3)
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "masked": (lambda: total()(np.ma.array(X, mask=[0, 1, 0]), X), r"x gives no view of its memory: it is a masked array.*filled"),
    "no folder": (lambda: total().save(__file__), r"test_errors\.py' is no folder.*name a folder"),
    "nowhere": (lambda: total().save(None), r"None is no folder"),
    "rank": (lambda: product()(ones(3), ones(4, 5)), r"product: x has shape \(3,\), the spec says \(n, 4\).*Do: pass an array with 2"),
    "fixed size": (lambda: product()(ones(3, 5), ones(4, 5)), r"x has shape \(3, 5\), the spec says \(n, 4\).*axis 1 must have size 4"),
    "too few": (lambda: product()(ones(3, 4)), r"takes 2 arrays \(x, y\), got 1"),
    "too many": (lambda: product()(ones(3, 4), ones(4, 5), ones(1)), r"takes 2 arrays \(x, y\), got 3"),
    "dtype": (lambda: product()(ones(3, 4, dtype="float64"), ones(4, 5)),
              r"x has dtype float64, the spec says float32.*x\.astype\('float32'\).*dtype 'float64'"),
    "no dtype of ours": (lambda: product()(ones(3, 4) * 1j, ones(4, 5)), r"x has dtype complex64.*astype\('float32'\) makes one$"),
    "byte order": (lambda: product()(ones(3, 4, dtype=">f4"), ones(4, 5)), r"x has dtype >f4"),
    "None": (lambda: product()(None, ones(4, 5)), r"x has dtype object"),
    "two sizes": (lambda: total()(ones(3), ones(4)), r"size n is 3 in x \(3,\) and 4 in y \(4,\).*Do: one name is one size"),
    "below the range": (lambda: total()(ones(1), ones(1)), r"size n is 1, the certificate covers 2 to 5.*'n>=1'"),
    "above the range": (lambda: total()(ones(9), ones(9)), r"size n is 9, the certificate covers 2 to 5.*'n<=9'"),
    "finite": (lambda: product()(ones(3, 4), np.array([[1, 2], [3, np.nan], [np.inf, 1], [1, 1]], np.float32), check_finite=True),
               r"y\[1, 1\] is nan, the first of 2 such elements; the certificate speaks of finite inputs.*Do: .*nan_to_num"),
    "finite scalar": (lambda: tv.compile(lambda x: x * 2 + 1, x="")(np.float32(-np.inf), check_finite=True), r": x is -inf; the cert"),
    "narrowed by an index": (lambda: tv.compile(lambda x: x[5] + 1, x="n m", name="p")(ones(4, 2)),
                             r"size n is 4, and the code needs n >= 6: below that, index 5 is out of bounds for axis 0"
                             r".*\(.*test_errors\.py:\d+:  .*x\[5\].*\).*Do: call it with n >= 6"),
    "narrowed by a maximum": (lambda: tv.compile(lambda x: x.max(axis=0), x="n m", name="p")(ones(0, 2)),
                              r"size n is 0, and the code needs n >= 1: below that, max over axis 0.*may be empty"),
    "narrowed, but too large": (lambda: tv.compile(lambda x: x[1] + 1, x="n<=5", name="p")(ones(9)), r"covers 2 to 5.*'n<=9'"),
    "declared, not narrowed": (lambda: tv.compile(lambda x: x[1] + 1, x="n>=3", name="p")(ones(2)), r"covers 3 to \d+.*'n>=2'"),
    "out shape": (lambda: total()(X, X, out=ones(4)), r"out has shape \(4,\).*needed is a contiguous array of shape \(3,\)"),
    "out dtype": (lambda: total()(X, X, out=ones(3, dtype="float64")), r"out has .*float64; needed .*float32"),
    "out strides": (lambda: total()(X, X, out=ones(6)[::2]), r"contiguous"),
    "out count": (lambda: total()(X, X, out=(ones(3), ones(3))), r"1 outputs, out= has 2"),
    "out type": (lambda: total()(X, X, out=[3.0]), r"out is a float, not a NumPy array"),
    "out read-only": (lambda: total()(X, X, out=read_only(ones(3))), r"out is read-only"),
    "out overlaps": (lambda: total()(X, ones(3), out=X), r"out overlaps x.*np\.empty_like"),
    "out not aligned": (lambda: total()(ones(3), ones(3), out=np.zeros(13, np.uint8)[1:].view(np.float32)), r"out is not aligned"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    call, pattern = CALLS[name]
    with pytest.raises(CompileError) as caught:
        call()
    message = str(caught.value)
    assert re.search(pattern, message, re.DOTALL), message
    assert "test_errors.py" in message  # the user's own line


def test_what_is_converted() -> None:
    """Layout and alignment are no error: an input is copied where it must be; a scalar array stays one."""
    x = np.arange(12, dtype=np.float32).reshape(4, 3).T
    np.testing.assert_array_equal(product()(x, np.eye(4, dtype=np.float32)), x)
    odd = np.zeros(13, np.uint8)[1:].view(np.float32)
    np.testing.assert_array_equal(total()(odd, X), [1, 1, 1])
    assert tv.compile(lambda x: x * 2 + 1, x="")(np.array(3.0, np.float32)) == 7.0
    out = ones(3)
    assert total()(X, X, out=out) is out


def test_other_values_pass_where_nobody_asks() -> None:
    x = np.array([[1, np.nan, np.inf, -np.inf]], np.float32)
    with np.errstate(invalid="ignore"):
        want = x @ np.eye(4, dtype=np.float32)
    np.testing.assert_array_equal(product()(x, np.eye(4, dtype=np.float32)), want)
    ids = tv.compile(lambda i: i + 1, i=tv.spec("n", "int64"))
    np.testing.assert_array_equal(ids(np.arange(3), check_finite=True), [1, 2, 3])
    np.testing.assert_array_equal(product()(ones(0, 4), ones(4, 2), check_finite=True), ones(0, 2))
    np.testing.assert_array_equal(total()(X, X, check_finite=True), X + X)


# -- compiling ----------------------------------------------------------------------------------------------------------------


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


def endless(x: Any) -> Any:
    return endless(x) + 1


COMPILES: dict[str, tuple[Callable[..., Any], dict[str, Any], type[TangError], str]] = {
    "if": (branches, {"x": "n"}, ControlFlowError, r"no truth value.*test_errors\.py:\d+:  if x\.sum\(\) > 0:.*xp\.where"),
    "while": (lambda x: [x := x / 2 for _ in range(9) if x.max() > 1][-1], {"x": "n"}, ControlFlowError, r"no truth value"),
    "float": (lambda x: x * float(x[0]), {"x": "n"}, ControlFlowError, r"float\(\) of a traced"),
    "sort": (lambda x: np.sort(x), {"x": "n"}, UnsupportedError, r"sort is not supported.*tv\.comprehension"),
    "solve": (lambda x: np.linalg.solve(x, x), {"x": "4 4"}, TangError, r"solve"),
    "mask": (lambda x: x[x > 0], {"x": "n"}, UnsupportedError, r"boolean mask"),
    "index": (lambda x: x[9], {"x": "8"}, BoundsError, r"index 9 is out of bounds for axis 0 .*\(8,\)"),
    "symbolic slice": (lambda x: x[: x.shape[1]], {"x": "n m"}, BoundsError, r"slice :m leaves axis 0 of extent n"),
    "comprehension": (
        lambda x: tv.comprehension(out="i", body=lambda i: x[i + 1] - x[i], extents={"i": x.shape[0]}), {"x": "n"},
        BoundsError, r"index i\+1 leaves an axis of extent n"),
    "shapes": (lambda x, y: x @ y, {"x": "n d", "y": "m d"}, ShapeError, r"matmul.*\(n, d\) and \(m, d\) do not fit.*return|lambda"),
    "dtype": (lambda x: x, {"x": "n m !"}, SpecError, r"spec:"),
    "empty": (lambda x: x, {"x": "n", "empty": "none"}, TangError, r"empty='none' is not a convention"),
    "backend": (lambda x: x + 1, {"x": "n", "backend": "fpga"}, CompileError, r"no backend 'fpga'.*there are: .*\bc\b"),
    "schedule": (lambda x: x + 1, {"x": "n", "schedule": {"y": {"tile": 8}}}, CompileError, r"no definition 'y'.*there are: t"),
    "option": (lambda x: x + 1, {"x": "n", "schedule": {"t0_add": {"size": 8}}}, CompileError, r"no option 'size'.*tile"),
    "value": (lambda x: x + 1, {"x": "n", "schedule": {"t0_add": {"tile": 0}}}, CompileError, r"tile=0 is not a positive"),
    "options": (lambda x: x + 1, {"x": "n", "schedule": {"t0_add": 3}}, CompileError, r"t0_add=3.*give a dict of options"),
    "no schedule": (lambda x: x + 1, {"x": "n", "schedule": 5}, CompileError, r"schedule is a int.*give a dict"),
    "name": (lambda x: x + 1, {"x": "n", "name": "a/b"}, TraceError, r"'a/b' is no name.*letters, digits"),
    "long name": (lambda x: x + 1, {"x": "n", "name": "a" * 65}, TraceError, r"is no name"),
    "no string": (lambda x: x + 1, {"x": "n", "name": 3}, TraceError, r"3 is no name"),
    "parameter": (lambda größe: größe + 1, {"größe": "n"}, TraceError, r"'größe' is no name in C.*ASCII"),
    "no function": (3, {}, TraceError, r"a function is expected, not a int"),  # type: ignore[dict-item]
    "recursion": (endless, {"x": "n"}, TraceError, r"endless calls itself too deep.*must end"),
    "depth": (lambda x: [x := x + 1 for _ in range(1500)][-1], {"x": "n"}, CompileError, r"nested too deep"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPILES)
def test_compile(name: str) -> None:
    fn, arguments, kind, pattern = COMPILES[name]
    with pytest.raises(kind) as caught:
        tv.compile(fn, **arguments)
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)


# -- monoids whose laws fail ----------------------------------------------------------------------------------------------

ADVICE = {"associative": "correct combine", "identity": "choose the identity", "commutative": "say commutative=False: ", "closed": "keep"}
NUMBER = r"-?\d+(/\d+)?"
MONOIDS: dict[str, tuple[Any, str]] = {
    "difference": (tv.monoid("difference", identity=0.0, combine=lambda a, b: a - b),
                   rf"difference/associative\S* is disproved.*u0={NUMBER}, v0={NUMBER}, w0={NUMBER} for u0 − v0 − w0 = u0 − \(v0 − w0\)"),
    "average": (tv.monoid("average", identity=0.0, combine=lambda a, b: (a + b) / 2), rf"average/associative\S* is disproved.*u0={NUMBER}"),
    "identity": (tv.monoid("one", identity=1.0, combine=lambda a, b: a + b), rf"identity-left\S* is disproved.*u0={NUMBER}.* for 1 \+ u0 = u0"),
    "order": (tv.monoid("last", identity=0.0, combine=lambda a, b: np.where(b == 0.0, a, b)), rf"/commutative\S* is disproved.*u0={NUMBER}, v0={NUMBER}"),
    "not closed": (  # the laws hold for finite states, but two of them make an infinite one, for which they do not
        tv.monoid("escapes", identity=0.0, combine=lambda a, b: np.where(
            a == 0, b, np.where(b == 0, a, np.where(a == -np.inf, 5.0, np.inf)))), rf"escapes/closed\S* is disproved.*u0={NUMBER}, v0={NUMBER}"),
    "max from 0": (tv.monoid("positive", identity=0.0, combine=lambda a, b: np.maximum(a, b)), rf"identity-left\S* is disproved.*u0=-{NUMBER}"),
}  # fmt: skip


@pytest.mark.parametrize("name", MONOIDS)
def test_monoid_whose_law_fails(name: str) -> None:
    """Refused with concrete values, whatever the schedule: a plain loop could compute it, but its meaning is an accident."""
    monoid, pattern = MONOIDS[name]
    with pytest.raises(CompileError) as caught:
        tv.compile(lambda x: tv.comprehension(out="i", reduce="j", monoid=monoid, body=lambda i, j: x[i, j]), x="n m")
    assert re.search(pattern, str(caught.value), re.DOTALL), str(caught.value)
    advice = str(caught.value).rsplit("Do: ", 1)[1]
    law = re.search(r"monoid/\w+/(\w+)", str(caught.value))
    assert law is not None and advice.startswith(ADVICE[law[1]])
    assert ("commutative=False" in advice) == (law[1] == "commutative")


def test_monoid_of_integers_whose_identity_is_none() -> None:
    last = tv.monoid("last", identity=0, combine=lambda a, b: b, commutative=False)
    with pytest.raises(CompileError, match=r"identity-right\S* is disproved.*counterexample u0=-?[1-9]\d* for 0 = u0"):
        tv.compile(lambda x: tv.comprehension(out="", reduce="j", monoid=last, body=lambda j: x[j]), x=tv.spec("n", "int64"))


def test_monoid_that_holds_for_finite_states_is_taken() -> None:
    """s := s·x + y loses associativity at infinity only; nothing is reordered, and it may be computed."""
    affine = tv.monoid("affine", identity=(1.0, 0.0), combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), commutative=False)
    kernel = tv.compile(
        lambda x, y: tv.comprehension(out="", reduce="k", monoid=affine, body=lambda k: (x[k], y[k]))[1], x="n", y="n"
    )  # fmt: skip
    assert kernel(np.array([2, 3, 5], np.float32), np.array([1, 1, 1], np.float32)) == (1 * 3 + 1) * 5 + 1


# -- the C compiler -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_no_c_compiler(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(TangError, match=r"no usable C compiler \(cc is not on the path.*apt-get install gcc"):
        tv.compile(lambda x: x * 3.25 - 17, x="n m", name="nobody_compiles_this")


def test_c_compiler_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    with pytest.raises(TangError, match=r"(?s)no usable C compiler \(false: .*apt-get install gcc"):
        tv.compile(lambda x: x * 3.25 - 18, x="n m", name="nobody_compiles_this_either")


@pytest.mark.parametrize("path", [None, 3])
def test_audit_of_no_path(path: Any) -> None:
    assert tv.audit(path).exit_code == 2
