"""CUDA's helpers for operands in swizzled shared memory: their texts, letter by letter. Believed: see TRUSTED.md.

    tv_swizzle(cell)          where the cell of that number lies (semantics/kernel.py, `swizzle`, for elements of two bytes)
    barrier_async()           a barrier that also orders what threads wrote before what units read: these go another way
    wgmma_m64n128k64_rows(&left[…], &right[…], c0, …, c63)
                              semantics/units.py, `shared_product`: rows of 64 from those elements on. _rows: each of B's is of
                              one k, and a block of 64 columns follows 64 rows later; _columns: each is of one column

The descriptor of an operand (PTX ISA, "Matrix Descriptor"): the address and two distances in units of 16 bytes. Groups of
eight rows follow each other every 1024 bytes; 1 << 62 says that they are swizzled over 128 bytes. Of the four steps of
.k16, each begins 32 bytes further on in a row of k's, or 16 rows further on.
"""

from __future__ import annotations

SWIZZLE = """\
static __device__ __forceinline__ int tv_swizzle(int cell) { return cell ^ (cell >> 3 & 56); }"""
BARRIER = """\
static __device__ __forceinline__ void barrier_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}"""
DESCRIPTOR = """\
static __device__ __forceinline__ unsigned long long tv_descriptor(const __half *at, unsigned blocks) {
  const unsigned address = (unsigned)__cvta_generic_to_shared(at);
  return (unsigned long long)(address >> 4 & 0x3fff) | (unsigned long long)blocks << 16 | 64ull << 32 | 1ull << 62;
}"""
BLOCK, STEP = 512, {"rows": 128, "columns": 2}  # in 16 bytes: 64 rows; the way to the next sixteen of k
COLUMNS = (128, 256)


def wgmma(columns: int, form: str) -> str:
    """The text of the helper for so many columns."""
    count = columns // 2
    cells = ", ".join(f"%{n}" for n in range(count))
    given = ", ".join(f"float &c{n}" for n in range(count))
    kept = ", ".join(f'"+f"(c{n})' for n in range(count))
    across = int(form == "rows")
    steps = [
        f'               "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{cells}}}, '
        f'%{count + 2 * step}, %{count + 2 * step + 1}, 1, 1, 1, 0, {across}; "'
        for step in range(4)
    ]
    operands = ", ".join(f'"l"(a + {2 * step}), "l"(b + {STEP[form] * step})' for step in range(4))
    return "\n".join(
        [
            f"static __device__ __forceinline__ void wgmma_m64n{columns}k64_{form}(const __half *left, const __half *right,",
            f"    {given}) {{",
            f"  const unsigned long long a = tv_descriptor(left, 1), b = tv_descriptor(right, {BLOCK if across else 1});",
            '  asm volatile("wgmma.fence.sync.aligned; "',
            *steps,
            '               "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"',
            f"               : {kept}",
            f'               : {operands} : "memory");',
            "}",
        ]
    )


def helper(unit: str, form: str) -> str:
    """The name of the helper that has a unit do its work: wgmma.m64n128k64.f16.f32 -> wgmma_m64n128k64_rows."""
    return f"{'_'.join(unit.split('.')[:2])}_{form}"


HELPERS = {
    "tv_swizzle": SWIZZLE, "barrier_async": BARRIER, "tv_descriptor": DESCRIPTOR,
    **{f"wgmma_m64n{n}k64_{form}": wgmma(n, form) for n in COLUMNS for form in STEP},
}  # fmt: skip
