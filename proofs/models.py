"""Models of hypotheses: no obligation is proved from facts that contradict each other without saying so.

    statement  ->  its hypotheses  ->  a model that makes each of them true, or: contradictory

A model is found by `propose_model.py` (untrusted) or comes with a certificate (not believed either); `semantics/exact.py`
evaluates the hypotheses at it. Equal hypotheses have one model, named by the digest of its contents.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tang_verified.proofs.ask import Asker
from tang_verified.proofs.propose_model import Proposer, Unknown
from tang_verified.proofs.strict_json import DIGIT_LIMIT, digest
from tang_verified.semantics.exact import ROOTS, Exact, Hypotheses, Model, Table, Value, hypotheses
from tang_verified.semantics.serial import RATIONAL, BadData, fields, items, whole
from tang_verified.semantics.surds import Surd, squarefree, total

SYMBOL = re.compile(r"(i|r|s|f|fn)\.[\w.!]{1,200}")
POINTS = 1000  # of a table
LATEST = 12  # models that are tried again before another is looked for


class Models:
    """The models of one ledger's hypotheses. `recorded`: a certificate's, by the digest of the statement they are for;
    what has none there is looked for, and the audit then finds that the file lacks it."""

    def __init__(self, recorded: Mapping[str, Model], asker: Asker) -> None:
        self.recorded = recorded
        self.exact, self.proposer = Exact(), Proposer(asker)
        self.known: dict[Hypotheses, str] = {}
        self.data: dict[str, Any] = {}  # digest -> model, spelled
        self.latest: dict[str, Model] = {}

    def of(self, statement: str) -> str:
        """The digest of a model of the statement's hypotheses; "" when they seem contradictory. Raises `NoModel`
        for a model that is none, `Unknown` where none is found."""
        given = hypotheses(statement)
        if given not in self.known:
            recorded = self.recorded.get(hashlib.sha256(statement.encode()).hexdigest())
            self.known[given] = (recorded is None and self._again(given)) or self._find(given, recorded)
        return self.known[given]

    def _again(self, given: Hypotheses) -> str:
        """One of the latest models, where it is one of these hypotheses too: those of one place have much in common."""
        return next((name for name, model in reversed(self.latest.items()) if self.exact.holds(given, model, name)), "")

    def _find(self, given: Hypotheses, recorded: Model | None) -> str:
        model = self.proposer.model(given) if recorded is None else recorded
        if model is None:
            return ""
        data = spell(model)
        name = digest(data)
        try:
            read_model(data, "model")  # one that a reader would not take is of no use
        except BadData as problem:
            raise Unknown(str(problem)) from None
        self.exact.check(given, model, name)
        self.data[name] = data
        self.latest[name] = model
        if len(self.latest) > LATEST:
            del self.latest[next(iter(self.latest))]
        return name


def spell(model: Model) -> dict[str, Any]:
    """As JSON data: rationals are "p/q", sums of roots pairs of number and coefficient, a table lists its points in order."""
    return {name: _table(found) if isinstance(found, Table) else _spell(found) for name, found in sorted(model.items())}


def _table(table: Table) -> dict[str, Any]:
    at = [[*map(_spell, point), _spell(value)] for point, value in table.at.items()]
    return {"at": sorted(at, key=repr), "else": _spell(table.otherwise)}


def _spell(value: Value) -> Any:
    if isinstance(value, Surd):
        return [[n, str(c)] for n, c in value.parts]
    return str(value) if isinstance(value, Fraction) else value


def read_model(data: Any, what: str) -> Model:
    """The model that JSON data spell, or `BadData`."""
    if type(data) is not dict or not all(SYMBOL.fullmatch(name) for name in data):
        raise BadData(f"{what}: expected an object that gives values to names of statements")
    return {name: _read_table(v, what) if type(v) is dict else _read(v, what) for name, v in data.items()}


def _read_table(data: Any, what: str) -> Table:
    d = fields(data, ("at", "else"), what)
    rows = [[_read(v, what) for v in items(row, what)] for row in items(d["at"], what)]
    if len(rows) > POINTS or not all(len(row) > 1 for row in rows):
        raise BadData(f"{what}: a table of {len(rows)} points, or one without a value")
    return Table({tuple(row[:-1]): row[-1] for row in rows}, _read(d["else"], what))


def _read(data: Any, what: str) -> Value:
    if type(data) is list and data:
        return _read_surd(data, what)
    if type(data) is bool or (type(data) is int and abs(data) < 10 ** (DIGIT_LIMIT - 1)):
        return data
    if type(data) is not str or not RATIONAL.fullmatch(data) or str(Fraction(data)) != data:
        raise BadData(f"{what}: {str(data)[:40]!r} is no int, bool or rational in lowest terms")
    return Fraction(data)


def _read_surd(data: list[Any], what: str) -> Value:
    parts = {whole(n, what): _read(c, what) for n, c in (items(pair, what, 2) for pair in data)}
    if len(parts) > ROOTS or not all(squarefree(n) and isinstance(c, Fraction) for n, c in parts.items()):
        raise BadData(f"{what}: expected rational multiples of roots of squarefree numbers")
    return total(parts)  # type: ignore[arg-type]
