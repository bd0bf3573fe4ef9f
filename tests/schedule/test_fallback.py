"""A text that the reader refuses gives way to that of a simpler schedule, with a note; none that it refuses is handed out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tang_verified as tv
from tang_verified.errors import CompileError
from tang_verified.proofs import readback
from tang_verified.proofs.readback import Difference
from tang_verified.semantics.kernel import Kernel

READ = readback.read_back
PRODUCT = {"a": "n k", "b": "k m"}


def product(a: Any, b: Any) -> Any:
    return a @ b


def both(a: Any, b: Any) -> Any:
    return a @ b, a.sum(axis=0)


Refusing = Callable[[Callable[[Kernel, str], bool]], list[tuple[str, str]]]


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Refusing:
    """Have the reader refuse those texts of which `wrong` holds; the list is of those it was asked about."""

    def install(wrong: Callable[[Kernel, str], bool]) -> list[tuple[str, str]]:
        asked: list[tuple[str, str]] = []

        def read(kernel: Kernel, text: str, dialect: str = "c") -> Difference | None:
            asked.append((kernel.name, text))
            return Difference(7, "as the test wants it") if wrong(kernel, text) else READ(kernel, text, dialect)

        monkeypatch.setattr(readback, "read_back", read)
        return asked

    return install


def right(kernel: Any, fn: Callable[..., Any], *shapes: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    got = kernel(*(array.astype(np.float32) for array in arrays))
    np.testing.assert_allclose(got, fn(*arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("refused", "styles"), [(1, ["tiled"]), (2, ["tiled", "rows"])])
def test_the_next_style_is_tried(refusing: Refusing, refused: int, styles: list[str]) -> None:
    asked = refusing(lambda kernel, text: len({text for _, text in asked}) <= refused)
    kernel = tv.compile(product, name="product", **PRODUCT)
    notes = [note for note in kernel.notes if note.startswith("schedule")]
    assert notes == [f"schedule {style} of t0_matmul: kernel t0_matmul/text: text/read-back: error: "
                     "not what was certified: line 7: as the test wants it" for style in styles]  # fmt: skip
    assert asked[-1] == ("t0_matmul", kernel.source) and asked[0][1] != kernel.source
    right(kernel, product, (19, 7), (7, 33))


def test_only_the_refused_definition_becomes_simpler(refusing: Refusing) -> None:
    asked = refusing(lambda kernel, text: False)
    tv.compile(both, name="both", **PRODUCT)
    (product, first), (_, other) = asked
    refusing(lambda kernel, text: text == first)
    kernel = tv.compile(both, name="both", **PRODUCT)
    assert [note.split(":")[0] for note in kernel.notes if "text/read-back" in note] == [f"schedule tiled of {product}"]
    assert kernel.source.endswith(other) and kernel.sources[product] != first
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((19, 7), (7, 33)))
    for got, known in zip(kernel(a, b), both(a, b), strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-5, atol=1e-5)


def test_where_the_plain_text_is_refused_too(refusing: Refusing) -> None:
    asked = refusing(lambda kernel, text: True)
    with pytest.raises(CompileError, match=r"(?s)product is not compiled: text/read-back .* line 7: .*please report it"):
        tv.compile(product, name="product", **PRODUCT)
    assert len({text for _, text in asked}) > 1


def test_a_comparison_without_an_end_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "read_back", lambda *given: Difference(7, "too large", spent=True))
    with pytest.raises(CompileError, match="text/read-back is unproved"):
        tv.compile(lambda x: x + x, name="twice", x="n")


@pytest.mark.parametrize("backend", ["opencl", "wgsl"])
def test_on_a_gpu(refusing: Refusing, backend: str) -> None:
    asked = refusing(lambda kernel, text: len(asked) <= 1)
    kernel = tv.compile(product, name="product", backend=backend, **PRODUCT)
    assert [note.split(":")[0] for note in kernel.notes if "text/read-back" in note] == ["schedule tiled of t0_matmul"]
    assert READ(kernel.certified.kernels[0], kernel.source, "cl" if backend == "opencl" else "wgsl") is None
