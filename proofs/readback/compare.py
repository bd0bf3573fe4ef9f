"""Whether a text's value is a kernel's, where certain facts hold; and whether the text may load what it loads.

    text    select(m, exp(select(m, read x o, 0)), 0)     kernel   select(g, exp(read x o), 0)

Both are cut along their conditions until each is decided by what is known; then operations, reads and literals must be the
same, part by part. Nothing is reordered: sums of reals are equal only as they stand. A load of the text is *justified* when
the kernel reads the same element whenever the load runs: what the kernel asks for on the way to its read (guards, branches,
loops that are not empty) must follow from what is known where the load stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tang_verified.proofs.readback.facts import Facts, has_lane, open_atom
from tang_verified.proofs.readback.machine import Machine
from tang_verified.proofs.readback.nodes import BOOLS, Node, Nodes, Part, children, parts_of
from tang_verified.proofs.readback.text_values import Here

if TYPE_CHECKING:
    from tang_verified.proofs.readback.kernel_values import KernelValues

CLOSED = ("recurrence", "at", "shuffle", "exchange", "fold", "any")  # what is looked into only by those who know it
LEAVES = ("lit", "state", "var", "lane", "undefined", *CLOSED)
COMPARED = (*BOOLS, "lt", "le", "eq", "ne", "flag")
STEPS = 300_000  # comparisons of two nodes, for one text


class Mismatch(ValueError):
    """The text is not the kernel: where, and what differs."""

    def __init__(self, line: int, why: str, node: Node | None = None) -> None:
        super().__init__(f"line {line}: {why}")
        self.line, self.why, self.node = line, why, node


class Spent(Mismatch):
    """The comparison grew beyond its budget."""


@dataclass(frozen=True)
class Where:
    """What is known; what the kernel's reads rest on: conditions with their truth, and loops that must not be empty."""

    facts: Facts
    line: int
    path: tuple[tuple[Node, bool], ...] = ()
    loops: tuple[tuple[Node, Node], ...] = ()  # variable, condition that it has a value
    quiet: bool = False  # the "kernel's" value is made of the text's own: no load is justified by it

    def under(self, condition: Node, truth: bool) -> Where:
        return replace(self, path=(*self.path, (condition, truth)))


@dataclass
class Compare:
    machine: Machine
    kernel: KernelValues
    steps: int = 0
    _equal: set[tuple[Node, Node, Where]] = field(default_factory=set)
    _plain: dict[tuple[Node, Facts], Node] = field(default_factory=dict)
    _case: dict[tuple[Facts, Node, bool], Facts | None] = field(default_factory=dict)
    _settled: dict[Facts, Facts | None] = field(default_factory=dict)
    _told: set[frozenset[tuple[Node, Node]]] = field(default_factory=set)
    _reads: dict[Node, set[tuple[Part, ...]]] = field(default_factory=dict)  # arrays and versions that a value reads

    @property
    def nodes(self) -> Nodes:
        return self.machine.nodes

    def alone(self, t: Node) -> Node:
        """An integer that is one atom, as that atom."""
        if t.tag == "int":
            parts = self.nodes.polynomial(t)
            atoms = [m[0] for m, c in parts.items() if len(m) == 1 and c == 1]
            return atoms[0] if len(parts) == 1 and atoms else t
        return t

    def fold(self, t: Node, k: Node, w: Where) -> None:
        """`equal` for a fold of the kernel."""
        raise NotImplementedError

    def if_empty(self, k: Node, w: Where) -> Node | None:
        """The value of a fold that is known to have no elements."""
        raise NotImplementedError

    def differ(self, t: Node, w: Where, why: str) -> Mismatch:
        """Blame the line that computed t; a literal may stand on many."""
        return Mismatch(w.line if t.tag == "lit" else self.machine.lines.get(t, w.line), why, t)

    def part(self, whole: Node, t: Node, k: Node, w: Where) -> None:
        """`equal` for a part of a value; where the part itself is another one, the line of the whole is to blame."""
        try:
            self.equal(t, k, w)
        except Mismatch as problem:
            if problem.node is not t or isinstance(problem, Spent):
                raise
            raise self.differ(whole, w, problem.why) from None

    def equal(self, t: Node, k: Node, w: Where) -> None:
        """Raise `Mismatch` unless the text's t is the kernel's k wherever w holds."""
        key = (t, k, w)
        if t is k:
            self.visit(k, w)
        if t is k or key in self._equal:
            return
        self.steps += 1
        if self.steps > STEPS:
            raise Spent(w.line, "the comparison is too large")
        self._compare(t, k, w)
        self._equal.add(key)

    def _compare(self, t: Node, k: Node, w: Where) -> None:
        if k.tag in COMPARED or (t.tag in COMPARED and k.tag != "fold"):
            return self.conditions(t, k, w)
        if "int" in (t.tag, k.tag):
            return self.integers(t, k, w)
        if t.tag == "select":
            return self.cases(t, k, w, t)
        if k.tag == "select":
            condition = children(k)[0]
            if self.chosen_first(t, k, condition, w):
                return None
            resolved = self.resolve(condition, t, w)
            if self.truth(resolved, w.facts) is None:
                return self.split(t, k, w, resolved)
            _, a, b = children(k)
            truth = self.truth(resolved, w.facts) is True
            self.visit(condition, w)
            return self.equal(t, a if truth else b, w.under(resolved, truth))
        if k.tag == "fold":
            return self.fold(t, k, w)
        if t.tag != k.tag or len(t.args) != len(k.args):
            raise self.differ(t, w, f"{show(t)} where the kernel has {show(k)}")
        if t.tag in LEAVES:
            if t is not k:
                raise self.differ(t, w, f"{show(t)} where the kernel has {show(k)}")
            return None
        for mine, its in zip(t.args, k.args, strict=True):
            if isinstance(mine, Node) and isinstance(its, Node):
                self.part(t, mine, its, w)
            elif mine != its:
                raise self.differ(t, w, f"{show(t)} where the kernel has {show(k)}")
        if t.tag == "read":
            self.justify(t, w)
        return None

    def cases(self, t: Node, k: Node, w: Where, on: Node) -> None:
        """The text's select: the branch that is taken, or both cases."""
        condition, a, b = children(on)
        truth = self.truth(condition, w.facts)
        if truth is None:
            return self.split(t, k, w, condition)
        return self.part(on, a if truth else b, k, w)

    def split(self, t: Node, k: Node, w: Where, condition: Node) -> None:
        atom = self.undecided(w.facts, condition)
        if atom is None:
            raise self.differ(t, w, f"condition {show(condition)} is not decided")
        for truth in (True, False):
            facts = self.case(w.facts, atom, truth)
            if facts is not None:
                self.equal(t, k, replace(w, facts=facts))

    def undecided(self, facts: Facts, *conditions: Node) -> Node | None:
        """A part of the conditions to distinguish cases by: what chooses the values that they compare comes first."""
        plain = [self.plain(condition, facts) for condition in conditions]
        inner = [children(select)[0] for condition in plain for select in inside(condition, "select")]
        atoms = (open_atom(self.plain(condition, facts), facts) for condition in (*inner, *plain))
        return next((atom for atom in atoms if atom is not None), None)

    def impossible(self, facts: Facts, depth: int = 6) -> bool:
        """Whether what is known contradicts itself, case by case."""
        known = self.settled(facts)
        if known is None:
            return True
        joined = [condition for condition in known.known if condition.tag in ("and", "or", "not", "select")]
        parts = [part for condition in joined for part in children(condition)]
        atom = self.undecided(known, *parts) if depth else None
        if atom is None:
            return False
        cases = [self.case(known, atom, truth) for truth in (True, False)]
        return all(case is None or self.impossible(case, depth - 1) for case in cases)

    def truth(self, condition: Node, facts: Facts) -> bool | None:
        return facts.decide(self.plain(condition, facts))

    def chosen_first(self, t: Node, k: Node, condition: Node, w: Where) -> bool:
        """Compare case by case what chooses whether a fold of the kernel's counts in a condition; False if nothing does."""
        condition = self.plain(condition, w.facts)
        if not inside(condition, "fold"):
            return False
        choices = [children(select)[0] for select in inside(condition, "select")]
        atom = self.undecided(w.facts, *(choice for choice in choices if not inside(choice, "fold")))
        if atom is None:
            return False
        for truth in (True, False):
            facts = self.case(w.facts, atom, truth)
            if facts is not None:
                self.equal(t, k, replace(w, facts=facts))
        return True

    def conditions(self, t: Node, k: Node, w: Where) -> None:
        """Equal truth in every case."""
        if self.chosen_first(t, k, k, w):
            return
        resolved = self.resolve(k, t, w)
        self._cases(t, resolved, w, 12)
        self.visit(k, w)

    def _cases(self, t: Node, k: Node, w: Where, depth: int) -> None:
        a, b = self.plain(t, w.facts), self.plain(k, w.facts)
        left, right = w.facts.decide(a), w.facts.decide(b)
        if a is b or (left is right and left is not None):
            return
        atom = self.undecided(w.facts, b, a)
        if atom is None or depth == 0:
            why = f"condition {show(t)} where the kernel has {show(k)}"
            raise Mismatch(w.line, why) if t is self.nodes.true else self.differ(t, w, why)
        for truth in (True, False):
            facts = self.case(w.facts, atom, truth)
            if facts is not None:
                self._cases(t, k, replace(w, facts=facts), depth - 1)

    def integers(self, t: Node, k: Node, w: Where) -> None:
        if t.tag != "int" or k.tag != "int":
            raise self.differ(t, w, f"{show(t)} where the kernel has {show(k)}")
        a, b = self.plain(t, w.facts), self.plain(k, w.facts)
        if a is not b:
            for chosen in (node for tag in ("select", "truth") for whole in (a, b) for node in inside(whole, tag)):
                condition = self.resolve(children(chosen)[0], t, w)
                if self.truth(condition, w.facts) is None:
                    return self.split(t, k, w, condition)
            if a is not self.plain(self.resolve(k, t, w), w.facts):
                raise self.differ(t, w, f"{show(t)} where the kernel has {show(k)}")
        self.visit(k, w)
        return None

    def resolve(self, k: Node, t: Node, w: Where) -> Node:
        """The kernel's integer or condition with each fold in it replaced by the text's value that it equals."""
        found: dict[Node, Node] = {}
        k = self.plain(k, w.facts) if inside(k, "fold") else k
        folds = inside(k, "fold")
        sources = (t, *w.facts.known) if folds else ()
        candidates = dict.fromkeys(node for source in sources for tag in ("recurrence", "at") for node in inside(source, tag))
        for fold in folds:
            if (nothing := self.if_empty(fold, w)) is not None:
                found[fold] = nothing
                continue
            for candidate in candidates:
                try:
                    self.fold(candidate, fold, w)
                except Spent:
                    raise
                except Mismatch:
                    continue
                found[fold] = candidate
                break
            else:
                raise self.differ(t, w, f"nothing in {show(t)} is the kernel's {show(fold)}")
        if found:
            self.told(found)
        return self.rebuild(k, found.get) if found else k

    def told(self, found: dict[Node, Node]) -> None:
        """What the kernel compares and divides, with the text's values in place of its folds."""
        key = frozenset(found.items())
        if key not in self._told:
            self._told.add(key)
            pairs = [pair for pair in self.kernel.own if any(inside(side, "fold") for side in pair[1:])]
            self.kernel.own |= {(what, self.rebuild(a, found.get), self.rebuild(b, found.get)) for what, a, b in pairs}

    # Values where something is known

    def plain(self, node: Node, facts: Facts) -> Node:
        """The value without the branches that are not taken."""
        key = (node, facts)
        if key not in self._plain:
            self._plain[key] = self._made_plain(node, facts)
        return self._plain[key]

    def _made_plain(self, node: Node, facts: Facts) -> Node:
        if node.tag == "any" and facts.decide(self.plain(children(node)[0], facts)) is True:
            return self.nodes.true  # it holds on the lane at hand
        if node.tag in COMPARED:
            decided = facts.decide(node)
            if decided is not None:
                return self.nodes.bool(decided)
        if node.tag == "select":
            condition, a, b = children(node)
            truth = self.truth(condition, facts)
            if truth is not None:
                return self.plain(a if truth else b, facts)
            condition = self.plain(condition, facts)
            yes, no = (self.case(facts, condition, truth) for truth in (True, False))
            if yes is None or no is None:
                return self.plain(a if no is None else b, facts)
            chosen = self.nodes.make("select", condition, self.plain(a, yes), self.plain(b, no))
            return self.alone(chosen) if node.tag == "select" and a.tag == "int" else chosen
        return self.rebuild_parts(node, lambda part: self.plain(part, facts))

    def rebuild(self, node: Node, new: object) -> Node:
        """With parts replaced where `new` gives something."""
        if not callable(new):
            raise TypeError("new must be callable")
        found = new(node)
        return found if found is not None else self.rebuild_parts(node, lambda part: self.rebuild(part, new))

    def rebuild_parts(self, node: Node, of: object) -> Node:
        if not callable(of):
            raise TypeError("of must be callable")
        n = self.nodes
        if node.tag == "int":
            parts = n.polynomial(node)
            if all(atom.tag in ("var", "lane") for monomial in parts for atom in monomial):
                return node
            total = n.number(0)
            for monomial, c in parts.items():
                product = n.number(c)
                for atom in monomial:
                    product = n.mul(product, self.as_integer(of(atom)))
                total = n.add(total, product)
            return total
        if node.tag in LEAVES or not children(node):
            return node
        args: list[Part] = [of(arg) if isinstance(arg, Node) else arg for arg in node.args]
        if all(a is b for a, b in zip(args, node.args, strict=True)):
            return node
        match node.tag:
            case "le0":
                return n.at_most_zero(parts_of(tuple(args))[0])
            case "eq0":
                return n.is_zero(parts_of(tuple(args))[0])
            case "not":
                return n.negation(parts_of(tuple(args))[0])
            case "floordiv" | "mod":
                return n.divide(node.tag, *parts_of(tuple(args)))
            case "truth":
                return n.atom("truth", *args)
            case _:
                return n.make(node.tag, *args)

    def as_integer(self, node: Node) -> Node:
        return node if node.tag == "int" else self.nodes.integer({(node,): 1})

    # Loads

    def visit(self, k: Node, w: Where) -> None:
        """Justify the loads of what the kernel reads in a value."""
        if w.quiet or k.tag in LEAVES or not self.waits(k):
            return
        self.steps += 1
        if self.steps > STEPS:
            raise Spent(w.line, "the comparison is too large")
        if k.tag in ("and", "or", "select"):
            first, *rest = children(k)
            self.visit(first, w)
            ways = (True, False) if k.tag == "select" else (k.tag == "and",)
            for part, truth in zip(rest, ways, strict=True):
                if self.truth(first, w.facts) in (None, truth):
                    self.visit(part, w.under(first, truth))
            return
        if k.tag in ("read", "flag"):
            self.justify(k, w)
        for part in children(k):
            self.visit(part, w)

    def waits(self, k: Node) -> bool:
        """Whether a load of something that k reads is not justified yet."""
        if k not in self._reads:
            own = {k.args[:2]} if k.tag in ("read", "flag") else set()
            parts = () if k.tag in LEAVES else children(k)
            for part in parts:
                self.waits(part)
            self._reads[k] = own.union(*(self._reads[part] for part in parts))
        return any(node.args[:2] in self._reads[k] for node in self.machine.loads)

    def justify(self, read: Node, w: Where) -> None:
        """The text's loads of this element that run only where the kernel reads it."""
        if w.quiet:
            return
        here = self.plain(read, w.facts)
        for node in [node for node in self.machine.loads if node.args[:2] == read.args[:2]]:
            if node is read or self.plain(node, w.facts) is here:
                left = [load for load in self.machine.loads[node] if not self.allowed(load.here, read, w)]
                if left:
                    self.machine.loads[node] = left
                else:
                    del self.machine.loads[node]

    def case(self, facts: Facts, condition: Node, truth: bool) -> Facts | None:
        """With the condition true (or false); None if that cannot be."""
        key = (facts, condition, truth)
        if key not in self._case:
            more = facts.assume(condition, truth)
            self._case[key] = None if more is None else self.settled(more)
        return self._case[key]

    def settled(self, facts: Facts) -> Facts | None:
        """With each known condition also as it is where the others hold; None if they contradict each other."""
        if facts not in self._settled:
            out: Facts | None = facts
            for condition, truth in facts.known.items():
                if out is not None:
                    here = out
                    out = here.assume(self.rebuild_parts(condition, lambda part, here=here: self.plain(part, here)), truth)
            self._settled[facts] = out
            if out is not None:
                self._settled[out] = out
        return self._settled[facts]

    def allowed(self, here: Here, read: Node, w: Where) -> bool:
        """Whether the kernel reads it wherever a load that stands here runs."""
        facts = self.settled(here.facts)
        if facts is None:
            return True  # it never runs
        for variable, has_value in w.loops:
            if variable not in here.loops and self.truth(has_value, facts) is not True:
                return False
        wide = has_lane(read)
        lanes, asked = self.nodes.true, []
        for condition, truth in w.path:
            if not wide and has_lane(condition):  # some lane reads it
                lanes = self.nodes.make("and", lanes, condition if truth else self.nodes.negation(condition))
                asked.append((condition, truth))
            elif self.truth(condition, facts) is not truth:
                return False
        if not asked or facts.decide(self.nodes.make("any", lanes)) is True:
            return True
        return any(c.tag == "any" and known and self.follow(facts, c, asked) for c, known in facts.known.items())

    def follow(self, facts: Facts, some: Node, asked: list[tuple[Node, bool]]) -> bool:
        """Whether on a lane where what some lane has holds, so do those conditions. Of lanes nothing else is known."""
        (mask,) = parts_of(some.args)
        here = facts.without_lanes().assume(mask)
        for part in children(mask) if mask.tag == "and" else ():
            here = here.assume(self.nodes.make("any", part)) if here is not None else None
        here = None if here is None else self.settled(here)
        return here is not None and all(self.truth(condition, here) is truth for condition, truth in asked)


def inside(node: Node, tag: str) -> list[Node]:
    """The parts with that tag, the node itself included, in order; nothing within what is closed."""
    return list(dict.fromkeys(_inside(node, tag, set())))


def _inside(node: Node, tag: str, seen: set[Node]) -> Iterator[Node]:
    if node in seen:
        return
    seen.add(node)
    if node.tag == tag:
        yield node
    if node.tag not in CLOSED:
        for part in children(node):
            yield from _inside(part, tag, seen)


def show(node: Node, depth: int = 3) -> str:
    """A value, shortly."""
    if node.tag == "int":
        listed: Any = node.args[0]
        parts = [f"{c}·{'·'.join(show(a, depth - 1) for a in m)}" if m else str(c) for m, c in listed]
        return " + ".join(part.removeprefix("1·") for part in parts) or "0"
    if node.tag in ("var", "lit", "lane"):
        return "lane" if node.tag == "lane" else str(node.args[0])
    if depth <= 0:
        return "…"
    if node.tag in ("read", "flag"):
        return f"{str(node.args[0]).partition('#')[0]}[{show(parts_of(node.args)[0], depth)}]"
    if node.tag == "le0":
        return f"{show(children(node)[0], depth)} <= 0"
    if node.tag in ("fold", "recurrence", "state"):
        return f"a {node.tag}"
    return f"{node.tag}({', '.join(show(part, depth - 1) for part in children(node))})"
