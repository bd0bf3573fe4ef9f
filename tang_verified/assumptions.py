"""Everything that a kernel's results rest on and its certificate does not prove: from axioms to the C compiler."""

from __future__ import annotations

from tang_verified.believed import believed
from tang_verified.proofs.certificate import CertificateData

SOURCES = {  # axiom's family -> where it comes from
    "exp": "real analysis: exp is the order isomorphism of (R, +) onto (R>0, *) with exp(0) = 1",
    "log": "real analysis: log is the inverse of exp on the positive reals",
    "sqrt": "the definition of the non-negative square root",
    "rsqrt": "the definition of 1 / sqrt on the positive reals",
    "inverse": "the reals are a field; division is multiplication by the inverse",
    "tanh": "real analysis: tanh is odd and lies strictly between -1 and 1",
    "erf": "real analysis: erf is odd and lies strictly between -1 and 1",
    "slope": "what a derivative is, stated in semantics/derivative.py",
}
LEMMAS = {  # what an obligation's name ends in -> the lemma whose condition it is (proofs/TRUSTED.md has the proofs)
    "/same": "same: terms that differ in the names of bound axes alone are equal",
    "/pointwise": "pointwise: an equality for all values of the reads and folds in it holds for theirs",
    "/onto": "reindex: a fold over a renamed domain, with the identity wherever the map leaves it",
    "/part": "extend: a fold over a domain is the fold over a part combined with the fold over the rest",
    "/combine": "homomorphism: H(x + y) = H(x) + H(y) carries H through a fold",
    "/dual": "chain rule: a slope is the sum of those of what is read, each times its partial; a gradient that of its readers",
    "/associative": "a fold by an associative (commutative) monoid does not depend on brackets (order)",
}
BOUNDS = "max (min) of a fold is at least (most) each of its elements, and that of a part at most (least) that of the whole"
TRAFFIC = (
    "traffic: |E| <= the product of |f(E)|^s wherever weights s satisfy the rank conditions (Bennett, Carbery, Christ, Tao "
    "2010; Christ, Demmel, Knight, Scanlon, Yelick 2013); the lattice of the kernels is enough (Valdimarsson 2010)"
)


def assumptions(data: CertificateData) -> str:
    """One line for each thing that is believed."""
    out = ["axioms"]
    out += [f"  {name}: {text}   [{_source(name)}]" for name, text in sorted(data.axioms.items())]
    if not data.axioms:
        out.append("  none")
    out.append("outside theorems")
    names = [record.name for record in data.obligations]
    out += [f"  {text}" for ending, text in LEMMAS.items() if any(name.endswith(ending) for name in names)]
    out.append(f"  {BOUNDS}")
    if any(data.claims.values()):
        out.append(f"  {TRAFFIC}")
    if data.kernels:
        out.append("  execution: statement by statement, a buffer's content is the value last assigned; loops by induction")
    out.append("arithmetic of the printed texts (stated by their language, not proved; the equalities are over the reals)")
    out += [f"  {text}" for text in data.arithmetic] or ["  none: no text is named"]
    out.append("conventions")
    out += [f"  {text}" for text in data.conventions]
    for size in data.traced.sizes:
        out.append(f"  {size.low} <= {size.name} <= {size.high}")
    out.append("provers (those that wrote the certificate; an audit names its own)")
    used = sorted({part for record in data.obligations for part in record.prover.split("+")})
    packages = {"isl": "islpy", "z3": "z3-solver", "cvc5": "cvc5"}
    out += [f"  {name} ({packages[name]} {data.provers.get(packages[name], '?')})" for name in used if name in packages]
    out.append("  structure: terms compared by the checker itself; model: hypotheses evaluated by it")
    out.append("outside the proofs")
    out += [f"  {text}" for text in believed()]
    return "\n".join(out)


def _source(axiom: str) -> str:
    return SOURCES.get(axiom.split("/")[0], "listed by the certificate alone")
