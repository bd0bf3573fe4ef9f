"""Certificates that must be refused: each a change to a real one, the exit code, and what the finding must say.

A change gets the parsed file and edits it in place, or returns a text (or bytes) of its own. Digests of the body are made
again afterwards (`forge`), as a forger would, except where the mutant is about digests. `says` are parts of the one line
that must be among the findings: verdict, place, obligation, message.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tang_verified.proofs.certificate import program_digest, read, spell, text_digest
from tests.proofs.samples import certificate, sources

Data = dict[str, Any]
Change = Callable[[Data], "str | bytes | None"]


@dataclass(frozen=True)
class Mutant:
    name: str
    base: str  # "attention", "softmax" or "one tile"
    change: Change
    exit_code: int
    says: tuple[str, ...]
    forge: bool = True
    sources: Callable[[], dict[str, str]] | None = None

    def __str__(self) -> str:
        return self.name

    def text(self) -> str | bytes:
        data = json.loads(certificate(self.base))
        made = self.change(data)
        if made is not None:
            return made
        return spell(data["body"], data["provers"]) if self.forge else json.dumps(data)

    def beside(self) -> dict[str, str]:
        return sources(self.base) if self.sources is None else self.sources()


# -- ways to change -------------------------------------------------------------------------------------------------


def body(change: Callable[[Data], None]) -> Change:
    def edit(data: Data) -> None:
        change(data["body"])

    return edit


def raw(change: Callable[[str], str | bytes]) -> Change:
    """On the text: what JSON would not even let through."""
    return lambda data: change(spell(data["body"], data["provers"]))


def node(entry: list[Any], other: list[Any]) -> Change:
    """Every place where one term stands gets another in its stead."""

    def edit(part: Data) -> None:
        part["nodes"][part["nodes"].index(entry)] = other

    return body(edit)


def number(part: Data, entry: list[Any]) -> int:
    if entry not in part["nodes"]:
        part["nodes"].append(entry)
    return int(part["nodes"].index(entry))


def assign(part: Data, target: str, last: bool = True) -> list[Any]:
    """The statement that assigns a target, wherever it stands."""
    found: list[list[Any]] = []

    def walk(statements: list[Any]) -> None:
        for statement in statements:
            if statement[0] == "for":
                walk(statement[3])
            elif statement[0] == "assign" and statement[2] == target:
                found.append(statement)

    walk(part["kernels"][0]["body"])
    return found[-1 if last else 0]


def loop(part: Data, axis: str) -> list[Any]:
    found: list[list[Any]] = []

    def walk(statements: list[Any]) -> None:
        for statement in statements:
            if statement[0] == "for":
                if statement[1][0] == axis:
                    found.append(statement)
                walk(statement[3])

    walk(part["kernels"][0]["body"])
    return found[0]


def first_step(part: Data, rule: str) -> Data:
    found: Data = next(step for step in part["steps"] if step["rule"] == rule)
    return found


def unguard(part: Data) -> None:
    assign(part, "out")[5] = number(part, ["bool", True])


def no_rescale(part: Data) -> None:
    statement = assign(part, "sum")
    name, arguments = part["nodes"][statement[4]][1:]
    product = part["nodes"][arguments[0]]
    part["nodes"].append(["op", name, [product[2][0], arguments[1]]])
    statement[4] = len(part["nodes"]) - 1


def short_rows(part: Data) -> None:
    assign(part, "sum")[1][0][0][1] = number(part, ["int", 3])


def one_tile_less(part: Data) -> None:
    """for t < m // 16 in place of (m + 15) // 16: the last, ragged tile is left out."""
    extent = part["nodes"][loop(part, "t")[1][1]]
    inner = part["nodes"][extent[2][0]]
    part["nodes"].append(["op", "floordiv", [inner[2][0], extent[2][1]]])
    loop(part, "t")[1][1] = len(part["nodes"]) - 1


def wrong_start(part: Data) -> None:
    assign(part, "top", last=False)[4] = number(part, ["real", "-1000000000"])


def swapped_index(part: Data) -> None:
    assign(part, "acc")[3].reverse()


def parallel_carry(part: Data) -> None:
    loop(part, "t")[2] = "grid"


def no_invariant(part: Data) -> None:
    loop(part, "t")[4].pop(1)


def swap_steps(part: Data) -> None:
    part["steps"][0], part["steps"][1] = part["steps"][1], part["steps"][0]


def relabel(rule: str, other: str) -> Change:
    def edit(part: Data) -> None:
        first_step(part, rule)["rule"] = other

    return body(edit)


def altered_after(part: Data) -> None:
    """The step's result is another constant: 1 for max_j x_ij."""
    first_step(part, "substitute")["after"] = number(part, ["real", "1"])


def forged_rewrite(data: Data) -> None:
    """x_ij for the softmax, in the last step that touches the output; every digest is made again to fit."""
    part = data["body"]
    step = [s for s in part["steps"] if s["tensor"] in part["traced"]["outputs"]][-1]
    index = [number(part, ["var", name]) for name in part["traced"]["defs"][-1][1]]
    step["after"] = number(part, ["read", "x", index, "real"])
    programs = read(spell(part, data["provers"])).programs
    for k, entry in enumerate(part["steps"]):
        entry["from"], entry["to"] = program_digest(programs[k]), program_digest(programs[k + 1])
    part["result"] = program_digest(programs[-1])
    for kernel in part["kernels"]:
        kernel["program"] = part["result"]


def overlap(part: Data) -> None:
    """The rows of a tile start every 3 rows where the result is stored: out[3 it + r, e]."""
    three, it = number(part, ["int", 3]), number(part, ["var", "it"])
    part["nodes"].append(["op", "mul", [three, it]])
    part["nodes"].append(["op", "add", [len(part["nodes"]) - 1, number(part, ["var", "r"])]])
    assign(part, "out")[3][0] = len(part["nodes"]) - 1


def min_for_max(part: Data) -> None:
    """new[r] := min(top[r], …)."""
    _, _, (left, right) = part["nodes"][assign(part, "new")[4]]
    part["nodes"].append(["op", "min", [left, right]])
    assign(part, "new")[4] = len(part["nodes"]) - 1


def false_max(part: Data) -> None:
    """The monoid called max starts from 0."""
    entry = next(entry for entry in part["nodes"] if entry[:2] == ["monoid", "max"])
    entry[2] = [part["nodes"].index(["real", "0"])]


def wrong_path(part: Data) -> None:
    first_step(part, "substitute")["path"] = [0]


def obligation_is_true(part: Data) -> None:
    text = "(assert false)\n(check-sat)\n"
    part["statements"][text_digest(text)] = text
    replaced(part)["statement"] = text_digest(text)


def replaced(part: Data) -> Data:
    found: Data = next(o for o in part["obligations"] if o["prover"] == "z3")
    return found


def statement_altered(part: Data) -> None:
    name = replaced(part)["statement"]
    part["statements"][name] = part["statements"][name].replace("(check-sat)", "(assert false)\n(check-sat)")


def of_range(part: Data) -> str:
    """A model in which something lies within a range that the size n bounds."""
    found: str = next(o["model"] for o in part["obligations"] if "i.n" in part["models"].get(o["model"], {}))
    return found


def one_model(part: Data) -> None:
    for entry in part["obligations"]:
        entry["model"] = entry["model"] and of_range(part)


def renamed_model(part: Data) -> None:
    """Two good models of one statement's hypotheses, the second under the first's name."""
    name = of_range(part)
    part["models"][name] = {**part["models"][name], "i.m": part["models"][name]["i.m"] + 1}


def vacuous(part: Data) -> Data:
    found: Data = next(o for o in part["obligations"] if o["trust"] == "vacuous")
    return found


def contradiction(part: Data) -> Data:
    found: Data = next(o for o in part["obligations"] if o["name"].endswith("/contradictory"))
    return found


def model_of_nothing(part: Data) -> None:
    name = next(name for name, model in part["models"].items() if "i.n" in model)
    text = part["statements"][vacuous(part)["statement"]]
    values = {line.split()[1]: 0 for line in text.splitlines() if line.startswith("(declare-fun ")}
    part["models"][name] = values
    vacuous(part).update(model=name, trust="replayed")


def add_obligation(part: Data) -> None:
    part["obligations"].append({**part["obligations"][0], "name": "all/well"})


def deep_term(part: Data) -> None:
    last = number(part, ["real", "1"])
    for _ in range(200):
        part["nodes"].append(["op", "neg", [last]])
        last = len(part["nodes"]) - 1


def sharing_bomb(part: Data) -> None:
    last = number(part, ["real", "1"])
    for _ in range(60):
        part["nodes"].append(["op", "add", [last, last]])
        last = len(part["nodes"]) - 1


def set_in(*path: Any, to: Any) -> Change:
    def edit(part: Data) -> None:
        place: Any = part
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return body(edit)


def drop_from(*path: Any) -> Change:
    def edit(part: Data) -> None:
        place: Any = part
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return body(edit)


def header(key: str, value: Any) -> Change:
    def edit(data: Data) -> str:
        return json.dumps({**data, key: value})

    return edit


def changed_sources(change: Callable[[str], str]) -> Callable[[], dict[str, str]]:
    return lambda: {name: change(text) for name, text in sources("attention").items()}


A, S, T = "attention", "softmax", "one tile"
INJECTION = "n] -> { [] : 0 = 1 } #"
UNREADABLE = [
    Mutant("truncated", A, raw(lambda t: t[: len(t) // 2]), 4, ("not JSON",)),
    Mutant("empty", A, raw(lambda t: ""), 4, ("not JSON",)),
    Mutant("not JSON", A, raw(lambda t: "int main(void) { return 0; }"), 4, ("not JSON",)),
    Mutant("something after the end", A, raw(lambda t: t + "{}"), 4, ("not JSON", "Extra data")),
    Mutant("not UTF-8", A, raw(lambda t: t.encode()[:500] + b"\xff" + t.encode()[500:]), 4, ("not UTF-8 at byte 500",)),
    Mutant("half a surrogate pair", A, raw(lambda t: t.replace('"exact"', '"\\ud800"', 1).replace("range", "\\ud800", 1)), 4,
           ("surrogate",)),
    Mutant("enormous", A, raw(lambda t: t + " " * (64 << 20)), 4, ("the limit is 67108864",)),
    Mutant("deeply nested", A, raw(lambda t: "[" * 1_000_000), 4, ("nested deeper than 64",)),
    Mutant("deeply nested objects", A, raw(lambda t: '{"a":' * 100_000), 4, ("nested deeper than 64",)),
    Mutant("a string never closed", A, raw(lambda t: '["' + '\\"' * 1_000_000), 4, ("not JSON",)),
    Mutant("duplicate keys", A, raw(lambda t: t.replace('"result": ', '"result": "", "result": ')), 4,
           ("'result' stands twice",)),
    Mutant("float", A, raw(lambda t: t.replace('["int",16]', '["int",16.0]')), 4, ("16.0 is no integer",)),
    Mutant("exponent", A, raw(lambda t: t.replace('["int",16]', '["int",1e9]')), 4, ("1e9 is no integer",)),
    Mutant("NaN", A, raw(lambda t: t.replace('["int",16]', '["int",NaN]')), 4, ("NaN is no integer",)),
    Mutant("Infinity", A, raw(lambda t: t.replace('["int",16]', '["int",-Infinity]')), 4, ("-Infinity is no integer",)),
    Mutant("an integer of a million digits", A, raw(lambda t: t.replace('["int",16]', f'["int",{"9" * 1_000_000}]')), 4,
           ("an integer of 1000000 digits",)),
    Mutant("another format", A, header("format", "tang_verified certificate 3"), 4, ("format 'tang_verified certificate 3'",)),
    Mutant("format is a number", A, header("format", 1), 4, ("format '1'",)),
    Mutant("not an object", A, raw(lambda t: f"[{t}]"), 4, ("expected dict, found list",)),
    Mutant("unknown key", A, header("trust_me", True), 4, ("unknown key 'trust_me'",)),
    Mutant("missing key", S, drop_from("steps"), 4, ("missing key 'steps'",)),
    Mutant("a term too deep", A, body(deep_term), 4, ("deeper than",)),
    Mutant("sharing that doubles sixty times", A, body(sharing_bomb), 4, ("larger than",)),
    Mutant("a node twice", A, body(lambda p: p["nodes"].append(p["nodes"][0])), 4, ("twice",)),
    Mutant("a node that names a later one", A, set_in("nodes", 1, to=["op", "neg", [50]]), 4, ("no entry 50",)),
    Mutant("a negative number of a node", A, set_in("nodes", 1, to=["op", "neg", [-1]]), 4, ("no entry -1",)),
    Mutant("unknown operation", A, body(lambda p: p["nodes"].append(["op", "exec", [0]])), 4, ("unknown operation 'exec'",)),
    Mutant("wrong arity", A, body(lambda p: p["nodes"].append(["op", "add", [0]])), 4, ("add takes 2 arguments",)),
    Mutant("true for a component", A, body(lambda p: p["nodes"].append([*fold(p)[:5], True])), 4,
           ("expected int, found bool",)),
    Mutant("isl text for a name", A, node(["var", "n"], ["var", INJECTION]), 4, ("is no identifier",)),
    Mutant("SMT text for a tensor", A, body(lambda p: p["nodes"].append(["read", "x) (assert false", [0], "real"])), 4,
           ("is no identifier",)),
    Mutant("a name the checker makes", A, node(["var", "n"], ["var", "n!1"]), 4, ("is no identifier",)),
    Mutant("sizes never satisfied", A, set_in("traced", "sizes", 0, to=["n", 9, 5]), 4, ("range 9..5",)),
    Mutant("unknown dtype", A, set_in("traced", "inputs", 0, 1, to="float8"), 4, ("'float8' is not one of",)),
    Mutant("unknown scope", A, body(lambda p: p["kernels"][0]["body"][0][3][0].__setitem__(4, "cloud")), 4, ("'cloud'",)),
    Mutant("unknown rule", S, relabel("rename", "trust_me"), 4, ("'trust_me' is not one of",)),
    Mutant("a rational not in lowest terms", A, node(["real", "0"], ["real", "0/2"]), 4, ("lowest terms",)),
    Mutant("division by zero", A, node(["real", "0"], ["real", "1/0"]), 4, ("no rational",)),
    Mutant("a source in another folder", A, set_in("sources", to={"../attention.c": "0" * 64}), 4, ("is no identifier",)),
    Mutant("traffic of a kernel that is not there", A, set_in("traffic", to={"softmax": []}), 4, ("key",)),
    Mutant("a rounding bound of another shape", A, set_in("rounding", to={"bytes": 0}), 4, ("rounding",)),
    Mutant("a model of what + means", A, body(lambda p: p["models"][of_range(p)].update({"+": {"at": [], "else": 0}})), 4,
           ("gives values to names of statements",)),
    Mutant("a model with a float's spelling", A, body(lambda p: p["models"][of_range(p)].update({"r.x": "0.5"})), 4,
           ("'0.5' is no int, bool or rational",)),
    Mutant("a root of 8 beside that of 2", A,
           body(lambda p: p["models"][of_range(p)].update({"r.x": [[2, "-2"], [8, "1"]]})), 4, ("squarefree",)),
    Mutant("a root of an enormous number", A,
           body(lambda p: p["models"][of_range(p)].update({"r.x": [[10**30, "1"]]})), 4, ("squarefree",)),
    Mutant("a table without values", A, body(lambda p: p["models"][of_range(p)].update({"fn.exp": {"at": [[]], "else": "0"}})),
           4, ("without a value",)),
    Mutant("escape codes in a note", S, set_in("steps", 0, "note", to="\x1b[2Jproved"), 4, ("not a printable text",)),
    Mutant("a path that is text", S, set_in("steps", 0, "path", to="0"), 4, ("expected list, found str",)),
]  # fmt: skip


def fold(part: Data) -> list[Any]:
    found: list[Any] = next(entry for entry in part["nodes"] if entry[0] == "fold")
    return found


MISMATCH = [
    Mutant("digest of the body altered", A, header("digest", "0" * 64), 1, ("mismatch", "certificate / digest"), forge=False),
    Mutant("altered term, old digest", A, node(["int", 16], ["int", 17]), 1, ("mismatch", "certificate / digest"), forge=False),
    Mutant("step removed", S, drop_from("steps", 3), 1, ("mismatch", "chain/from")),
    Mutant("first step removed", S, drop_from("steps", 0), 1, ("step 1", "mismatch", "chain/from")),
    Mutant("last step removed", S, drop_from("steps", -1), 1, ("mismatch", "certificate / chain/result")),
    Mutant("steps swapped", S, body(swap_steps), 1, ("step 1", "mismatch", "chain/from")),
    Mutant("all steps removed", S, set_in("steps", to=[]), 1, ("mismatch", "chain/result")),
    Mutant("a step's link altered", S, set_in("steps", 2, "to", to="0" * 64), 1, ("step 3", "chain/to", "mismatch")),
    Mutant("the result's digest altered", S, set_in("result", to="0" * 64), 1, ("chain/result", "mismatch")),
    Mutant("a kernel's program altered", A, set_in("kernels", 0, "program", to="0" * 64), 1, ("kernel attn", "chain/program")),
    Mutant("substitution by another value", S, body(altered_after), 1, ("chain/before", "mismatch")),
    Mutant("last rewrite to another value, links forged", S, forged_rewrite, 1, ("rename/same", "disproved")),
    Mutant("a step at another place", S, body(wrong_path), 1, ("chain/before", "mismatch")),
    Mutant("a substitution called a renaming", S, relabel("substitute", "rename"), 1, ("rename/same", "disproved")),
    Mutant("an effect bettered", A, set_in("kernels", 0, "ieee", to="exact"), 1, ("kernels", "mismatch")),
    Mutant("a step's effect altered", S, set_in("steps", 0, "ieee", to="range"), 1, ("step 1", "chain/ieee", "mismatch")),
    Mutant("obligation replaced by true", A, body(obligation_is_true), 1, ("mismatch", "not the one that is to be proved")),
    Mutant("statement altered", A, body(statement_altered), 1, ("statement/digest", "mismatch")),
    Mutant("obligation added", A, body(add_obligation), 1, ("all/well", "mismatch", "nothing asks for it")),
    Mutant("trust raised", A, body(lambda p: replaced(p).update(trust="checked")), 1, ("mismatch", "trust checked")),
    Mutant("prover altered", A, body(lambda p: replaced(p).update(prover="structure")), 1, ("mismatch", "prover structure")),
    Mutant("a size outside its range", A, body(lambda p: p["models"][of_range(p)].update({"i.n": -1})), 1,
           ("/hypotheses", "disproved", "it falsifies (assert (<= 1 i.n))")),
    Mutant("half a size", A, body(lambda p: p["models"][of_range(p)].update({"i.n": "1/2"})), 1,
           ("/hypotheses", "disproved", "no value of sort Int")),
    Mutant("true for a size", A, body(lambda p: p["models"][of_range(p)].update({"i.n": True})), 1, ("no value of sort Int",)),
    Mutant("no value for a size", A, body(lambda p: p["models"][of_range(p)].pop("i.n")), 1, ("no value of sort Int",)),
    Mutant("exp is the constant 2", A, body(lambda p: [m.update({"fn.exp": {"at": [], "else": "2"}}) for m in p["models"].values()]),
           1, ("/hypotheses", "disproved", "it falsifies (assert ")),
    Mutant("every model the first", A, body(one_model), 1, ("/hypotheses", "disproved")),
    Mutant("a good model under another's name", A, body(renamed_model), 1, ("mismatch", "not what the file has under that name")),
    Mutant("a model that nothing names", A, body(lambda p: p["models"].update({"0" * 64: {}})), 1, ("models", "mismatch")),
    Mutant("more in a model than it needs", A, body(lambda p: p["models"][of_range(p)].update({"i.unused": 1})), 1,
           ("mismatch", "not what the file has under that name")),
    Mutant("a proof called vacuous", A, body(lambda p: replaced(p).update(trust="vacuous", model="")), 1,
           ("mismatch", "trust vacuous")),
    Mutant("a vacuous proof passed for another", T, body(lambda p: vacuous(p).update(trust="replayed")), 1,
           ("mismatch", "trust replayed is not how it is shown: isl, vacuous")),
    Mutant("a model of contradictory facts", T, body(model_of_nothing), 1, ("/hypotheses", "disproved", "it falsifies")),
    Mutant("an axiom altered", A, set_in("axioms", "exp/zero", to="exp(0) = 0"), 1, ("axiom exp/zero", "mismatch")),
    Mutant("an axiom too many", A, set_in("axioms", "log/inverse", to="log 1 = 0"), 1, ("axiom log/inverse", "mismatch")),
    Mutant("no word on the texts' arithmetic", A, set_in("arithmetic", to=[]), 3, ("arithmetic", "missing")),
    Mutant("arithmetic that is no text", A, set_in("arithmetic", to=[1]), 4, ("arithmetic",)),
    Mutant("arithmetic left out", A, body(lambda b: b.pop("arithmetic")), 4, ("arithmetic",)),
    Mutant("a convention removed", A, drop_from("conventions", 0), 1, ("conventions", "mismatch")),
    Mutant("a node that nothing names", A, body(lambda p: p["nodes"].append(["var", "unused"])), 1, ("nodes", "mismatch")),
    Mutant("store without its guard", A, body(unguard), 1, ("in-bounds/out", "disproved", "false at")),
    Mutant("tile off by one", A, body(short_rows), 1, ("cover/sum", "disproved")),
    Mutant("rows that overlap", A, body(overlap), 1, ("value/out", "disproved")),
    Mutant("one tile less", A, body(one_tile_less), 1, ("value/out", "disproved")),
    Mutant("dropped rescale", A, body(no_rescale), 1, ("carried/step/sum", "disproved")),
    Mutant("a finite number for minus infinity", A, body(wrong_start), 1, ("carried/entry/top", "disproved")),
    Mutant("swapped index", A, body(swapped_index), 1, ("stage/own-cell", "disproved")),
    Mutant("swapped index of the result", A, body(lambda p: assign(p, "out")[3].reverse()), 1, ("in-bounds/out", "false at")),
    Mutant("min for max", A, body(min_for_max), 1, ("value/new", "disproved")),
    Mutant("a monoid that only bears the name", A, body(false_max), 1, ("counterexample u0=", "max(0, u0) = u0")),
    Mutant("a loop that carries, run in parallel", A, body(parallel_carry), 1, ("no-race/carried", "disproved")),
    Mutant("an invariant left out", A, body(no_invariant), 1, ("no-race/shared", "disproved")),
    Mutant("a source with one character changed", A, body(lambda p: None), 1, ("source / attention.c", "mismatch"),
           sources=changed_sources(lambda t: t.replace("return failed;", "return  failed;"))),
    Mutant("another kernel's certificate", S, body(lambda p: None), 1, ("says nothing about attention.c", "mismatch"),
           sources=lambda: sources(A)),
    Mutant("a source that is not certified", A, body(lambda p: None), 1, ("says nothing about attention.cu", "mismatch"),
           sources=lambda: {**sources(A), "attention.cu": "__global__ void f() {}"}),
]  # fmt: skip
MISSING = [
    Mutant("obligation removed", A, drop_from("obligations", 5), 3, ("missing", "absent in the file")),
    Mutant("model removed", A, body(lambda p: p["models"].pop(of_range(p))), 3, ("missing", "is not recorded")),
    Mutant("all models removed", T, set_in("models", to={}), 3, ("missing", "is not recorded")),
    Mutant("an obligation without its model", A, body(lambda p: replaced(p).update(model="")), 3, ("missing", "is not recorded")),
    Mutant("that facts are contradictory, removed", T, body(lambda p: p["obligations"].remove(contradiction(p))), 3,
           ("/contradictory", "missing", "absent in the file")),
    Mutant("axiom removed", A, drop_from("axioms", "exp/sum"), 3, ("axiom exp/sum", "missing")),
    Mutant("source missing", A, body(lambda p: None), 3, ("attention.c", "missing"), sources=dict),
    Mutant("all obligations removed", S, set_in("obligations", to=[]), 3, ("missing", "absent in the file")),
]  # fmt: skip
MUTANTS = [*UNREADABLE, *MISMATCH, *MISSING]
