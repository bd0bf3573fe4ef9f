"""Random programs, written as source text while they are traced.

Each line is tried on traced arrays and on NumPy arrays at once. The tracer says whether it is well formed, NumPy whether
its values stay moderate; a line that fails either is dropped. What is left reads as a person would write it, so that a
shrunk failure can be pasted into `regressions.py`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tang_verified.errors import TangError
from tang_verified.spec import spec
from tang_verified.tracing.tracer import trace

from .dual import FUNCTIONS, NUMPY

SIZES = (1, 2, 3, 5, 7, 13, 17, 31)
FLOATS = ("float32", "float64", "float16")
TYPES = {
    "float32": np.float64,
    "float64": np.float64,
    "float16": np.float64,
    "int32": np.int64,
    "int64": np.int64,
    "bool": np.bool_,
}
LIMIT = 2.0**10  # values beyond are not drawn on


@dataclass(frozen=True)
class Source:
    """A program: `specs` by parameter, lines, results; and the range of the values in its int arrays."""

    specs: tuple[tuple[str, str, str], ...]  # name, shape, dtype
    lines: tuple[str, ...]
    results: tuple[str, ...]
    kinds: tuple[tuple[str, bool], ...]  # of each line: its dtype, and whether rounding leaves its values alone

    @property
    def text(self) -> str:
        names = ", ".join(name for name, _, _ in self.specs)
        body = "".join(f"    {line}\n" for line in self.lines)
        return f"def program({names}):\n{body}    return {', '.join(self.results)}\n"

    def arguments(self) -> dict[str, Any]:
        return {name: spec(shape, dtype) for name, shape, dtype in self.specs}

    def function(self, xp: Any = None) -> Callable[..., Any]:
        """The program; on traced arrays where no namespace is given."""
        first = self.specs[0][0]
        begin = f"    xp = {first}.__array_namespace__()\n" if xp is None else ""
        head, rest = self.text.split("\n", 1)
        scope: dict[str, Any] = {**FUNCTIONS, "xp": xp}
        exec(f"{head}\n{begin}{rest}", scope)
        return scope["program"]  # type: ignore[no-any-return]

    def inputs(self, sizes: dict[str, int], seed: int) -> list[Any]:
        rng = np.random.default_rng(seed)
        return [
            values(rng, tuple(int(part) if part.isdigit() else sizes[bare(part)] for part in shape.split()), dtype)
            for _, shape, dtype in self.specs
        ]


def bare(token: str) -> str:
    return token.split(">")[0].split("<")[0]


def values(rng: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Multiples of 1/8 within ±4, none the same as all others; ints within ±9; bools."""
    if dtype == "bool":
        return rng.random(shape) < 0.6
    if dtype.startswith("int"):
        return rng.integers(-9, 10, shape).astype(dtype)
    return (rng.integers(-32, 33, shape) / 8).astype(dtype)


@dataclass
class Variable:
    """A value on both sides; `exact` says that every rounding to its dtype leaves it alone."""

    name: str
    traced: Any
    known: Any
    exact: bool

    @property
    def dtype(self) -> str:
        return str(self.traced.dtype_name)

    @property
    def kind(self) -> str:
        return {"f": "real", "i": "int", "b": "bool"}[np.dtype(self.dtype).kind]

    @property
    def ndim(self) -> int:
        return int(self.traced.ndim)


@dataclass
class Writer:
    """Draws lines."""

    draw: Callable[[Any], Any]
    menu: tuple[str, ...]
    xp: Any
    variables: list[Variable]
    lines: list[str] = field(default_factory=list)

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def some(self, kind: str = "real", ndim: tuple[int, int] = (0, 4), exact: bool = False) -> Variable | None:
        found = [
            v for v in self.variables if kind in ("any", v.kind) and ndim[0] <= v.ndim <= ndim[1] and (v.exact or not exact)
        ]
        if not found:
            return None
        return found[-1] if self.number(0, 2) else self.pick(list(reversed(found)))  # lines mostly go on from the last

    def step(self) -> None:
        """One more line, if what is drawn fits."""
        made = getattr(self, self.pick(self.menu))()
        if made is None:
            return
        text, exact = made if isinstance(made, tuple) else (made, None)
        name = f"v{len(self.lines)}"
        try:
            traced = eval(text, {**FUNCTIONS, "xp": self.xp, **{v.name: v.traced for v in self.variables}})
        except TangError:
            return
        if not hasattr(traced, "dtype_name"):
            return
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                known = np.asarray(eval(text, {**FUNCTIONS, "xp": NUMPY, **{v.name: v.known for v in self.variables}}))
            except (ValueError, IndexError):  # the sizes at hand are too small for it
                return
        if known.size > 20000 or (known.dtype.kind != "b" and known.size and not np.nanmax(np.abs(known)) < LIMIT):
            return
        known = known.astype(TYPES[str(traced.dtype_name)])
        used = [v for v in self.variables if re.search(rf"\b{v.name}\b", text)]
        sure = on_grid(known) and all(v.exact for v in used) if exact is None else exact
        self.variables.append(Variable(name, traced, known, sure))
        self.lines.append(f"{name} = {text}")

    # -- elementwise -----------------------------------------------------------------------------------------------------

    def unary(self) -> Any:
        x = self.some()
        return x and self.pick(UNARY).format(x=x.name)

    def stepwise(self) -> Any:
        x = self.some(exact=True)
        return x and f"xp.{self.pick(('floor', 'ceil', 'round', 'trunc', 'sign'))}({x.name})"

    def binary(self) -> Any:
        x, y = self.some(), self.some()
        return x and y and self.pick(BINARY).format(x=self.fit(x, y), y=y.name)

    def fit(self, x: Variable, y: Variable) -> str:
        """x, perhaps stretched beside y."""
        if x.ndim == y.ndim == 1 and x is not y:
            return f"{x.name}[:, None]"
        if x.ndim == 1 and y.ndim == 2:
            return self.pick((x.name, f"{x.name}[:, None]"))
        return x.name

    def integers(self) -> Any:
        x, y = self.some("int"), self.some("int")
        choices = [text for text in INTEGERS if x and (x.ndim or "shape" not in text)]
        return x and y and self.pick(choices).format(x=x.name, y=y.name, k=self.pick((1, 2, 3, 5, -2, -3)))

    def compare(self) -> Any:
        kind = self.pick(("real", "int"))
        x, y = self.some(kind, exact=True), self.some(kind, exact=True)
        other = y and self.pick((y.name, "0", "1"))
        return x and y and f"{x.name} {self.pick(('<', '<=', '>', '>=', '==', '!='))} {other}"

    def logic(self) -> Any:
        x, y = self.some("bool"), self.some("bool")
        return x and y and self.pick(("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}")).format(x=x.name, y=y.name)

    def where(self) -> Any:
        c, x, y = self.some("bool"), self.some(), self.some()
        return c and x and y and f"xp.where({c.name}, {x.name}, {self.pick((y.name, '0.0', '1.5'))})"

    def cast(self) -> Any:
        x = self.some("any", exact=True)
        if x is None:
            return None
        kinds = ("int32", "int64", "bool", *FLOATS) if x.kind != "real" else FLOATS
        if x.kind == "real" and np.array_equal(x.known, np.trunc(x.known)):
            kinds = (*kinds, "int32", "int64")
        return f"{x.name}.astype(xp.{self.pick(kinds)})"

    # -- views -------------------------------------------------------------------------------------------------------------

    def slices(self) -> Any:
        x = self.some("any", (1, 4))
        if x is None:
            return None
        keys = [self.pick(SLICES if self.number(0, 1) else (":",)) for _ in range(x.ndim)]
        if self.number(0, 5) == 0:
            keys.insert(self.number(0, len(keys)), "None")
        return f"{x.name}[{', '.join(keys)}]"

    def axes(self) -> Any:
        x = self.some("any", (1, 4))
        if x is None:
            return None
        a = self.number(0, x.ndim - 1)
        order = self.draw(st.permutations(range(x.ndim)))
        return self.pick((
            f"xp.permute_dims({x.name}, {tuple(order)})", f"xp.flip({x.name}, axis={a})", f"xp.expand_dims({x.name}, axis={a})",
            f"xp.repeat({x.name}, {self.number(1, 3)}, axis={a})", f"xp.roll({x.name}, {self.number(-1, 2)}, axis={a})",
            f"xp.tile({x.name}, {(self.number(1, 3),) + (1,) * (x.ndim - 1)})",
            f"xp.pad({x.name}, {tuple((self.number(0, 2), self.number(0, 2)) for _ in range(x.ndim))})",
            f"xp.broadcast_to({x.name}, ({self.number(1, 3)}, *{x.name}.shape))",
        ))  # fmt: skip

    def join(self) -> Any:
        x = self.some("any", (1, 3))
        if x is None:
            return None
        mates = [v for v in self.variables if v.kind == x.kind and v.ndim == x.ndim]
        y, a = self.pick(mates), self.number(0, x.ndim - 1)
        return self.pick((f"xp.concat([{x.name}, {y.name}], axis={a})", f"xp.stack([{x.name}, {y.name}], axis={a})"))

    def reshape(self) -> Any:
        x = self.some("any", (1, 4))
        if x is None:
            return None
        places = [a for a in range(x.ndim) if isinstance(x.traced.shape[a], int)]
        shape = [str(e) if isinstance(e, int) else f"{x.name}.shape[{a}]" for a, e in enumerate(x.traced.shape)]
        for a in places:
            extent = x.traced.shape[a]
            if a + 1 in places and self.number(0, 1):
                shape[a : a + 2] = [str(extent * x.traced.shape[a + 1])]
                break
            if extent > 1 and self.number(0, 1):
                part = self.pick([k for k in range(1, extent + 1) if extent % k == 0])
                shape[a : a + 1] = [str(part), str(extent // part)]
                break
        return f"{x.name}.reshape(({', '.join(shape)},))"

    def take(self) -> Any:
        x = self.some("any", (1, 3))
        if x is None:
            return None
        a = self.number(0, x.ndim - 1)
        extent = x.traced.shape[a]
        ids = self.some("int", (1, 2))
        if ids is not None and isinstance(extent, int) and self.number(0, 1):
            return f"xp.take({x.name}, {ids.name} % {extent}, axis={a})"
        if isinstance(extent, int):
            chosen = [self.number(0, extent - 1) for _ in range(self.number(1, 5))]
            return f"xp.take({x.name}, xp.asarray({chosen}), axis={a})"
        return f"xp.take({x.name}, xp.arange({x.name}.shape[{a}] // 2) * 2, axis={a})"

    # -- reductions and products -------------------------------------------------------------------------------------------

    def reduce(self) -> Any:
        x = self.some("any", (1, 4))
        if x is None:
            return None
        names = {"real": REALS, "int": ("sum", "max", "min", "prod", "mean"), "bool": ("any", "all", "sum", "count_nonzero")}
        name = self.pick(names[x.kind])
        a = self.pick(("None", *range(-x.ndim, x.ndim), *((f"({0}, {x.ndim - 1})",) if x.ndim > 1 else ())))
        keep = self.pick(("", ", keepdims=True"))
        wide = np.abs(x.known).sum() < LIMIT if x.kind != "bool" else True
        exact = (x.exact and bool(wide)) if name in ("sum", "max", "min", "any", "all", "count_nonzero") else False
        return f"xp.{name}({x.name}, axis={a}{keep})", exact

    def running(self) -> Any:
        x = self.some(self.pick(("real", "int")), (1, 3))
        return x and (f"xp.cumulative_sum({x.name}, axis={self.number(-x.ndim, x.ndim - 1)})", False)

    def product(self) -> Any:
        kind = self.pick(("real", "real", "int"))
        x, y = self.some(kind, (1, 3)), self.some(kind, (1, 3))
        if x is None or y is None:
            return None
        patterns = [p for p in EINSUMS if [len(part) for part in p.split("->")[0].split(",")] == [x.ndim, y.ndim]]
        texts = [f"{x.name} @ {y.name}"] * 2 + [f"xp.einsum('{p}', {x.name}, {y.name})" for p in patterns]
        if y.ndim > 1:
            texts += [f"{x.name} @ {y.name}.mT"] * 2
        wide = bool(x.exact and y.exact and np.abs(x.known).sum() * np.abs(y.known).max(initial=0) < LIMIT)
        return self.pick(texts), wide

    def dependent(self) -> Any:
        x = self.some("real", (1, 3))
        if x is None:
            return None
        a = self.number(-x.ndim, x.ndim - 1)
        return self.pick(DEPENDENT).format(x=x.name, a=a), False

    def attention(self) -> Any:
        q, k, v = self.some("real", (2, 3)), self.some("real", (2, 3)), self.some("real", (2, 3))
        if q is None or k is None or v is None:
            return None
        s = f"({q.name} @ {k.name}.mT * 0.25)"
        mask = self.pick(
            ("{s}", "xp.where(xp.arange({k}.shape[-2])[None, :] <= xp.arange({q}.shape[-2])[:, None], {s}, -xp.inf)")
        )
        s = mask.format(s=s, q=q.name, k=k.name)
        p = f"(lambda s: (lambda p: p / p.sum(axis=-1, keepdims=True))(xp.exp(s - s.max(axis=-1, keepdims=True))))({s})"
        return f"{p} @ {v.name}", False

    def comprehension(self) -> Any:
        name = self.pick(FUNCTIONS)
        two = {"affine": 1, "window": 1}
        x = self.some("real", (1, 1) if name in two else (2, 2), exact=name in ("argmax", "last", "positive"))
        y = self.some("real", (1, 1)) if name in two else x
        if x is None or y is None:
            return None
        inside = f"{x.name}, {y.name}" if name in two else x.name
        return f"{name}({inside})", (True if name in ("argmax", "last", "upper_max") and x.exact else False)


UNARY = (
    "xp.exp(-xp.abs({x}))", "xp.exp({x} * 0.125)", "xp.log(xp.abs({x}) + 0.5)", "xp.log1p(xp.abs({x}))", "xp.expm1({x} * 0.125)",
    "xp.sqrt(xp.abs({x}))", "xp.rsqrt(xp.abs({x}) + 0.5)", "xp.sin({x})", "xp.cos({x})", "xp.tan(xp.sin({x}))",
    "xp.tanh({x})", "xp.sinh(xp.sin({x}))", "xp.cosh(xp.cos({x}))", "xp.asin(xp.sin({x}) * 0.75)", "xp.acos(xp.sin({x}) * 0.75)",
    "xp.atan({x})", "xp.erf({x})", "-{x}", "xp.abs({x})", "{x} * {x}", "{x} ** 3", "xp.clip({x}, -1.5, 2.0)", "{x} * 0.5 + 1.0",
    "2.0 - {x}", "(xp.abs({x}) + 0.5) ** 0.75", "1.0 / (1.0 + xp.exp(-{x}))",
)  # fmt: skip
BINARY = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "xp.maximum({x}, {y})", "xp.minimum({x}, {y})", "{x} / (xp.abs({y}) + 0.5)",
    "xp.logaddexp({x}, {y})", "(xp.abs({x}) + 0.5) ** xp.sin({y})",
)  # fmt: skip
INTEGERS = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} // {k}", "{x} % {k}", "{x} // ({y} * {y} + 1)", "{x} % ({y} * {y} + 1)", "-{x}",
    "xp.abs({x})", "xp.maximum({x}, {y})", "xp.minimum({x}, {y})", "xp.where({x} < {y}, {x}, {k})", "xp.sign({x})", "{x} ** 2",
    "xp.arange({x}.shape[-1]) * {k} + {x}",
)  # fmt: skip
SLICES = (":", "::2", "::-1", "::-2", "1:", ":-1", "1:-1", "::3", "2::2", "-2::-1", ":1", "0", "-1", "-3:", "1::-1")
REALS = ("sum", "max", "min", "mean", "sum", "max", "prod", "var")
EINSUMS = ("ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "i,i->", "i,j->ij", "ij,j->i", "ij,ij->j", "bij,bkj->bik", "bij,jk->bik",
           "ij,ij->", "bij,bij->b", "ij,i->ij")  # fmt: skip
DEPENDENT = (
    "(lambda e: e / xp.sum(e, axis={a}, keepdims=True))(xp.exp({x} - xp.max({x}, axis={a}, keepdims=True)))",
    "(lambda m: m + xp.log(xp.sum(xp.exp({x} - m), axis={a}, keepdims=True)))(xp.max({x}, axis={a}, keepdims=True))",
    "(lambda c: c / xp.sqrt(xp.mean(c * c, axis={a}, keepdims=True) + 0.01))({x} - xp.mean({x}, axis={a}, keepdims=True))",
    "{x} / xp.sqrt(xp.mean({x} * {x}, axis={a}, keepdims=True) + 0.01)",
    "{x} - xp.max({x}, axis={a}, keepdims=True)",
    "{x} / xp.max(xp.abs({x}) + 0.125, axis={a}, keepdims=True)",
)

MENUS: dict[str, tuple[str, ...]] = {
    "views": ("slices", "slices", "axes", "axes", "join", "reshape", "take", "binary", "where", "reduce"),
    "elementwise": ("unary", "unary", "binary", "stepwise", "integers", "integers", "compare", "logic", "where", "cast"),
    "reductions": ("reduce", "reduce", "reduce", "running", "unary", "binary", "slices", "where", "integers", "compare"),
    "products": ("product", "product", "product", "axes", "unary", "binary", "reduce", "slices"),
    "dependents": ("dependent", "dependent", "attention", "binary", "where", "compare", "product", "slices", "axes"),
    "comprehensions": ("comprehension", "comprehension", "binary", "axes", "slices", "reduce", "unary"),
    "all": (
        "unary", "binary", "integers", "compare", "logic", "where", "cast", "slices", "axes", "join", "reshape", "take", "reduce",
        "running", "product", "dependent", "attention", "comprehension", "stepwise",
    ),
}  # fmt: skip


def on_grid(known: Any) -> bool:
    """Whether all are multiples of 1/64 that float16 holds too, or no reals."""
    return known.dtype.kind != "f" or bool(np.all(known * 64 == np.round(known * 64)) and np.all(np.abs(known) <= 16))


def live(lines: list[str], results: list[str]) -> list[int]:
    """The lines that the results need."""
    wanted, out = set(results), []
    for number in range(len(lines) - 1, -1, -1):
        name, text = lines[number].split(" = ", 1)
        if name in wanted:
            wanted |= set(re.findall(r"\bv\d+\b", text))
            out.append(number)
    return out[::-1]


@st.composite
def programs(draw: Any, menu: str) -> tuple[Source, dict[str, int]]:
    """A program, and the sizes at which its values were seen to stay moderate."""
    float_type = draw(st.sampled_from(("float32", "float32", "float32", "float64", "float16")))
    sizes = {name: draw(st.sampled_from(SIZES)) for name in ("n", "m", "k")}
    fixed = str(draw(st.sampled_from((1, 3, 4, 6, 12, 17))))
    shapes = {
        "views": ("n m", "n 12", "3 4", "n", "2 3 n"), "products": ("n m", "m k", "n k", "k", f"{fixed} m", "3 n m"),
        "comprehensions": ("n m", "n", "n", "3", "m n"), "dependents": ("n m", "m k", "n k", f"n {fixed}", "2 n m"),
    }.get(menu, ("n m", "n m", "m", f"n {fixed}", "2 n m", ""))  # fmt: skip
    specs = [(f"a{i}", draw(st.sampled_from(shapes)), float_type) for i in range(draw(st.integers(1, 3)))]
    if menu not in ("comprehensions", "dependents", "products"):
        specs += [
            ("c", draw(st.sampled_from(shapes)), "bool"),
            ("p", draw(st.sampled_from(shapes)), draw(st.sampled_from(("int32", "int64")))),
        ]
    count = draw(st.sampled_from((4, 2, 3) if menu == "dependents" else (8, 4, 6)))
    seed = draw(st.integers(0, 9))
    blank = Source(tuple(specs), (), (), ())
    known = [a.astype(TYPES[str(a.dtype)]) for a in blank.inputs(sizes, seed)]
    found: list[Source] = []

    def body(*arrays: Any) -> Any:
        variables = [Variable(s[0], t, a, True) for s, t, a in zip(specs, arrays, known, strict=True)]
        writer = Writer(draw, MENUS[menu], arrays[0].__array_namespace__(), variables)
        for _ in range(count):
            writer.step()
        if not writer.lines:
            writer.variables.append(Variable("v0", arrays[0] + arrays[0], known[0] * 2, True))
            writer.lines.append(f"v0 = {specs[0][0]} + {specs[0][0]}")
        made = writer.variables[len(specs) :]
        names = [v.name for v in made]
        results = [made[names.index(max(reversed(names), key=lambda name: len(live(writer.lines, [name]))))]]
        extra = writer.pick(made) if len(made) > 1 and writer.number(0, 2) == 0 else None
        if extra is not None and extra not in results:
            results = [*results, extra]
        kinds = [(v.dtype, v.exact) for v in made]
        needed = live(writer.lines, [v.name for v in results])
        lines, kinds = [writer.lines[i] for i in needed], [kinds[i] for i in needed]
        found.append(Source(tuple(specs), tuple(lines), tuple(v.name for v in results), tuple(kinds)))
        return tuple(v.traced for v in results)

    names = [s[0] for s in specs]
    exec(f"def shell({', '.join(names)}):\n    return body({', '.join(names)})", scope := {"body": body})
    trace(scope["shell"], blank.arguments())
    return found[0], sizes
