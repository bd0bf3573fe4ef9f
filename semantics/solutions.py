"""A solution of a part, in closed form:   { 0 <= t, 0 <= r < 48, x = 48 t + r }   ->   t = x // 48, r = x - 48 (x // 48).

isl's lexicographic minimum is piecewise quasi-affine in the parameters; each piece is spelled as terms. Nothing is believed
of it: put into the part's conditions it gives a statement without quantifiers, which implies the one with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import islpy as isl

from tang_verified.semantics.build import canonical, floordiv, from_linear
from tang_verified.semantics.sets import NotAffine, Unanswered, Writer, budget, parameter_set
from tang_verified.semantics.terms import Term, Var, free_vars

PIECES = 16


def solutions(names: tuple[str, ...], conditions: Sequence[Term]) -> list[dict[str, Term]]:
    """For each piece, a term for each name over the other variables of the conditions; no piece where isl finds none."""
    if not names:
        return [{}]
    writer = Writer(opaque=False)
    try:
        texts = [writer.condition(condition) for condition in conditions]
        dims = [writer.name(Var(name)) for name in names]
        with budget():
            pieces: list[Any] = []
            least = parameter_set(writer, dims, texts).lexmin_pw_multi_aff()
            least.foreach_piece(lambda _, values: pieces.append(values))
            if len(pieces) > PIECES:
                return []
            variables = {name: term for term, name in writer.names.items()}
            found = [
                {name: _term(values.get_aff(k), variables) for k, name in enumerate(names)} for values in pieces
            ]
    except (NotAffine, Unanswered):
        return []
    loose = frozenset(names)
    return [piece for piece in found if not any(free_vars(value) & loose for value in piece.values())]


def _term(affine: isl.Aff, variables: dict[str, Term]) -> Term:
    """floor of (Σ c·p + Σ e·floor(div) + k) / denominator."""
    if affine.is_nan():
        raise NotAffine("isl gives no value")
    scale = affine.get_denominator_val()
    parts: dict[Term, int] = {}

    def add(atom: Term, coefficient: isl.Val) -> None:
        value = int(coefficient.mul(scale).to_python())
        if value:
            parts[atom] = parts.get(atom, 0) + value

    for k in range(affine.dim(isl.dim_type.param)):
        name = affine.get_dim_name(isl.dim_type.param, k)
        add(variables[str(name)], affine.get_coefficient_val(isl.dim_type.param, k))
    for k in range(affine.dim(isl.dim_type.div)):
        coefficient = affine.get_coefficient_val(isl.dim_type.div, k)
        if not coefficient.is_zero():
            add(_term(affine.get_div(k), variables), coefficient)
    constant = int(affine.get_constant_val().mul(scale).to_python())
    return floordiv(canonical(from_linear(parts, constant)), int(scale.to_python()))
