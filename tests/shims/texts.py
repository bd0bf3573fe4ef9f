"""A CUDA or Metal text, and its plan, as C++ for the headers beside this file.

extern "C" __global__ void f(const float *x, …, long long n) { … }     the text, rewritten where C++ has no such words
static void simt_call_0() { f(static_cast<const float *>(simt_arrays[0]), …, simt_sizes[0]); }     one a launch
const char *simt_run(entry, arrays, sizes, x, y, threads, dynamic, order)     null, or what went wrong
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tang_verified.backends.device import DeviceError
from tang_verified.backends.launch import Plan
from tang_verified.semantics.program import DType

Types = dict[DType, str]


class ShimError(DeviceError):
    """A text that g++ refuses, or a fault of a run: a divergent barrier, an index out of its array, …"""


@dataclass(frozen=True)
class Dialect:
    """How a text becomes C++, and the arguments that an entry is called with."""

    name: str
    types: Types
    size: str  # the type of a size
    before: str
    after: str
    rewrite: Callable[[str], str]
    arguments: Callable[[str, str, Plan, Types], list[str]]  # text, entry, plan, types


def _closing(text: str, opening: int) -> int:
    """The place after the bracket that closes the one at `opening`."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    for place in range(opening, len(text)):
        if text[place] == text[opening]:
            depth += 1
        elif text[place] == pairs[text[opening]]:
            depth -= 1
            if depth == 0:
                return place + 1
    raise ShimError("a bracket of the text is not closed")


def _cuda(text: str) -> str:
    """Device functions in assembly are left out (the shim has them), dynamic shared memory is the shim's."""
    for found in reversed(list(re.finditer(r"^(?:template\s*<[^>]*>\s*)?[^\n;{}#]*__device__[^;{}]*\{", text, re.M))):
        end = _closing(text, found.end() - 1)
        if re.search(r"\basm\b", text[found.start() : end]):
            text = text[: found.start()] + "\n" * text.count("\n", found.start(), end) + text[end:]
    dynamic = r"extern\s+__shared__\s+(?:(?:__align__|alignas)\(\d+\)\s*)?([\w ]+?)\s*(\w+)\s*\[\s*\]"
    return re.sub(dynamic, r"\1 *const \2 = reinterpret_cast<\1 *>(simt::dynamic_shared)", text)


def _cuda_arguments(text: str, entry: str, plan: Plan, types: Types) -> list[str]:
    return [*_pointers(plan, types), *(f"simt_sizes[{place}]" for place in range(len(plan.sizes)))]


def _pointers(plan: Plan, types: Types) -> list[str]:
    """The arrays, with the types that the plan says: g++ then compares them with the text's."""
    return [
        f"static_cast<{'' if binding.written or binding.scratch else 'const '}{types[binding.dtype]} *>(simt_arrays[{place}])"
        for place, binding in enumerate(plan.bindings)
    ]


BUILTINS = {  # attribute of a Metal parameter -> its three values
    "threadgroup_position_in_grid": ("simt::block.x", "simt::block.y", "0u"),
    "threadgroups_per_grid": ("simt::blocks.x", "simt::blocks.y", "1u"),
    "thread_position_in_threadgroup": ("simt::current->place.x", "0u", "0u"),
    "threads_per_threadgroup": ("simt::threads.x", "1u", "1u"),
    "thread_index_in_threadgroup": ("simt::current->place.x",),
    "thread_index_in_simdgroup": ("simt::current->lane",),
    "simdgroup_index_in_threadgroup": ("simt::current->place.x / 32",),
    "simdgroups_per_threadgroup": ("(simt::threads.x + 31) / 32",),
    "threads_per_simdgroup": ("32u",),
}


def _metal(text: str) -> str:
    """`threadgroup` is a storage class before a variable, and nothing before a pointer."""
    text = re.sub(r"\bthreadgroup\b(?=[^();,*&]*[\[;=])", '[[gnu::section("simt_shared")]] static', text)
    return re.sub(r"\bthreadgroup\b(?!\s*\()", "", text)


def _metal_arguments(text: str, entry: str, plan: Plan, types: Types) -> list[str]:
    found = re.search(rf"\bkernel\s+void\s+{entry}\s*\(", text)
    if found is None:
        raise ShimError(f"{plan.name}: the text has no kernel {entry}")
    pointers = [*_pointers(plan, types), "simt_sizes"]
    arguments, used = [], []
    for parameter in re.split(r",(?![^\[(]*[\])])", text[found.end() : _closing(text, found.end() - 1) - 1]):
        match = re.fullmatch(
            r"\s*(?P<type>[\w\s]+?[\s*&]+)\w+\s*\[\[\s*(?P<name>\w+)(?:\((?P<number>\d+)\))?\s*\]\]\s*", parameter
        )
        if match is None:
            raise ShimError(f"{entry}: parameter {parameter.strip()!r} has no attribute that the shim knows")
        if match["name"] == "buffer":
            used.append(int(match["number"]))
            arguments.append(pointers[used[-1]])
        elif match["name"] in BUILTINS:
            kind = match["type"].strip()
            width = int(kind[-1]) if kind[-1] in "23" else 1
            arguments.append(f"{kind}({', '.join(BUILTINS[match['name']][:width])})")
        else:
            raise ShimError(f"{entry}: the shim has no [[{match['name']}]]")
    if sorted(used) != list(range(len(pointers))):
        raise ShimError(f"{entry} binds the buffers {used}, its plan 0 to {len(pointers) - 1}")
    return arguments


DIALECTS = {
    "cuda": Dialect(
        "cuda",
        {
            "float16": "__half",
            "float32": "float",
            "float64": "double",
            "int32": "int",
            "int64": "long long",
            "bool": "unsigned char",
        },
        "long long",
        '#include "cuda/cuda_cpu.h"\n',
        "",
        _cuda,
        _cuda_arguments,
    ),
    "metal": Dialect(
        "metal",
        {"float16": "metal::half", "float32": "float", "int32": "int", "int64": "long", "bool": "metal::uchar"},
        "long",
        "#include <metal_stdlib>\n",
        "using namespace metal;\n",
        _metal,
        _metal_arguments,
    ),
}


def to_cpp(dialect: Dialect, text: str, plan: Plan) -> str:
    """The whole C++ file."""
    calls, cases = "", ""
    for number, launch in enumerate(plan.launches):
        arguments = ", ".join(dialect.arguments(text, launch.entry, plan, dialect.types))
        calls += f"static void simt_call_{number}() {{ {launch.entry}({arguments}); }}\n"
        cases += f"    case {number}: return simt::launch({{x, y, 1}}, threads, dynamic, order, simt_call_{number});\n"
    return f"""{dialect.before}#line 1 "{plan.name}.{dialect.name}"
{dialect.rewrite(text)}
#line 1 "calls"
{dialect.after}static void **simt_arrays;
static const {dialect.size} *simt_sizes;
{calls}extern "C" __attribute__((visibility("default")))
const char *simt_run(unsigned entry, void **arrays, const void *sizes, unsigned x, unsigned y, unsigned threads,
                     unsigned dynamic, unsigned order) {{
  simt_arrays = arrays, simt_sizes = static_cast<const {dialect.size} *>(sizes);
  switch (entry) {{
{cases}  }}
  return "no such entry";
}}
"""
