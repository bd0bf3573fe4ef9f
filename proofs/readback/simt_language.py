"""Five languages of GPU kernels as tables: their types, functions and the lines around an entry point's body.

    __kernel … void NAME(__global const float *restrict x, …, const long n) {        entry, array, size
      __local float tile[512] __attribute__((aligned(16)));                          shared
      const int block_1 = get_group_id(0) + …;  const int thread_1 = …;              block, thread: numbers below 2^31

Element types are called as in C (`text_values.ELEMENTS`), whatever a language calls them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tang_verified.proofs.readback.syntax import Kind

FUNCTIONS = "exp log log1p expm1 sqrt rsqrt sin cos tan tanh sinh cosh asin acos atan erf floor ceil pow".split()
SHORT = "exp log sqrt sin cos tan tanh sinh cosh asin acos atan floor ceil".split()
SAME = {name: name for name in FUNCTIONS}
FEW = {name: name for name in SHORT}
WORDS = {  # vectors that are moved: type, element -> lanes
    ("float2", "float"): 2, ("float4", "float"): 4, ("int2", "int32_t"): 2, ("int4", "int32_t"): 4, ("double2", "double"): 2,
    ("long2", "int64_t"): 2, ("uint", "uint16_t"): 2, ("unsigned", "uint16_t"): 2, ("uint2", "uint16_t"): 4,
    ("uint4", "uint16_t"): 8, ("float", "float"): 1, ("int", "int32_t"): 1, ("double", "double"): 1,
}  # fmt: skip
NAME = r"[A-Za-z][A-Za-z0-9_]*"
COUNT = r"[1-9][0-9]{0,9}"


@dataclass(frozen=True)
class Language:
    name: str
    bits: int  # of an index
    spelled: dict[str, str]  # kind of value -> type
    number: str  # the type of numbers of blocks and threads
    elements: dict[str, str]  # type of an array's elements -> C's
    functions: dict[str, str]  # float functions -> operation
    comment: str
    lines: tuple[str, ...]  # what stands at the head, in this order:
    required: int  # so many of them always, the others where they are needed
    entry: tuple[str, ...]  # lines in front of an entry point
    array: str  # a parameter, or a line of the head
    size: str
    shared: str
    block: str
    thread: str
    barrier: tuple[str, ...]
    infinity: str
    qualifier: str = ""
    exchange: str = ""
    constructors: bool = False  # T(x) for a conversion
    short: bool = True  # erf, log1p and expm1 are helpers
    double: str = ""  # a function on doubles is called as on floats (""), or without this ending
    spaces: tuple[str, str] = ("", "")  # of an array of the block, and of one that is read, in front of a vector's type
    vectors: bool = False
    own: tuple[str, ...] = ()  # in front of a thread's own array: what lets vectors move there
    end: tuple[str, ...] = ("}",)
    fixed: tuple[str, ...] = ()  # parameters after the arrays
    dynamic: tuple[str, str] = ("", "")  # a line before arrays of the block whose size the launch gives, and such an array


OPENCL = Language(
    name="opencl", bits=64, spelled={"f32": "float", "f64": "double", "i64": "long", "bool": "bool"}, number="int",
    elements={"half": "uint16_t", "float": "float", "double": "double", "int": "int32_t", "long": "int64_t",
              "uchar": "uint8_t"},
    functions={**SAME, "rint": "round", "fabs": "abs"},
    comment=r"/\* [^*/#]*\. \*/",
    required=1, lines=("#pragma OPENCL FP_CONTRACT OFF", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"),
    entry=(rf"__kernel __attribute__\(\(reqd_work_group_size\((?P<threads>{COUNT}), 1, 1\)\)\)",
           rf"void (?P<name>{NAME})\((?P<parameters>.*)\) \{{"),
    array=rf"__global (?P<const>const )?(?P<element>[a-z]+) \*restrict (?P<name>{NAME})", size=rf"const long ({NAME})",
    shared=rf"  __local (?P<element>[a-z]+) (?P<name>{NAME})\[(?P<count>{COUNT})\] __attribute__\(\(aligned\(16\)\)\);",
    block=rf"  const int ({NAME}) = get_group_id\(0\) \+ get_group_id\(1\) \* get_num_groups\(0\);",
    thread=rf"  const int ({NAME}) = get_local_id\(0\);", barrier=("barrier", "(", "CLK_LOCAL_MEM_FENCE", ")", ";"),
    infinity="(-INFINITY)", qualifier="static inline ", short=False, spaces=("__local", "__global const"), vectors=True,
)  # fmt: skip
CUDA = Language(
    name="cuda", bits=64, number="int",
    spelled={"f32": "float", "f64": "double", "i64": "long long", "bool": "bool", "half": "__half"},
    elements={"__half": "uint16_t", "float": "float", "double": "double", "int": "int32_t", "long long": "int64_t",
              "unsigned char": "uint8_t"},
    functions={**{f"{name}f": name for name in FUNCTIONS}, "rintf": "round", "fabsf": "abs"},
    comment=r"// [^\\#]*\.", required=0, lines=("#include <cuda_fp16.h>",),
    entry=(rf'extern "C" __global__ void __launch_bounds__\((?P<threads>{COUNT}), [1-9][0-9]?\)',
           rf"(?P<name>{NAME})\((?P<parameters>.*)\) \{{"),
    array=rf"(?P<const>const )?(?P<element>[a-z_]+(?: long| char)?) \*__restrict__ (?P<name>{NAME})",
    size=rf"const long long ({NAME})",
    shared=rf"  __shared__ __align__\(16\) (?P<element>[a-z_]+(?: long| char)?) (?P<name>{NAME})\[(?P<count>{COUNT})\];",
    block=rf"  const int ({NAME}) = blockIdx\.x \+ blockIdx\.y \* gridDim\.x;",
    thread=rf"  const int ({NAME}) = threadIdx\.x;", barrier=("__syncthreads", "(", ")", ";"),
    infinity="__int_as_float(0xff800000)", qualifier="static __device__ __forceinline__ ", exchange="__shfl_xor_sync",
    short=False, double="f", spaces=("", "const"), vectors=True, own=("__align__", "(", "16", ")"),
    dynamic=(r"  extern __shared__ __align__\(1024\) unsigned char tv_shared\[\];",
             rf"  (?P<element>[a-z_]+(?: long| char)?) \(&(?P<name>{NAME})\)\[(?P<count>{COUNT})\] = "
             r"\*\((?P=element) \(\*\)\[(?P=count)\]\)&tv_shared\[(?P<offset>0|[1-9][0-9]{0,9})\];"),
)  # fmt: skip
METAL = Language(
    name="metal", bits=64, spelled={"f32": "float", "i64": "long", "bool": "bool"}, number="int",
    elements={"half": "uint16_t", "float": "float", "int": "int32_t", "long": "int64_t", "uchar": "uint8_t"},
    functions={**{n: n for n in FUNCTIONS if n not in ("erf", "log1p", "expm1")}, "rint": "round", "fabs": "abs"},
    comment=r"// [^\\#]*\.", required=2, lines=("#include <metal_stdlib>", "using namespace metal;"),
    entry=(rf"kernel void (?P<name>{NAME})\((?P<parameters>.*)\) \{{",),
    array=rf"device (?P<const>const )?(?P<element>[a-z]+) \*(?P<name>{NAME}) \[\[buffer\((?P<binding>[0-9]+)\)\]\]",
    size=rf"  const long (?P<name>{NAME}) = size\[(?P<place>[0-9]+)\];",
    shared=rf"  alignas\(16\) threadgroup (?P<element>[a-z]+) (?P<name>{NAME})\[(?P<count>{COUNT})\];",
    block=rf"  const int ({NAME}) = group\.x \+ group\.y \* groups\.x;", thread=rf"  const int ({NAME}) = local\.x;",
    barrier=("threadgroup_barrier", "(", "mem_flags", ":", ":", "mem_threadgroup", ")", ";"),
    infinity="(-INFINITY)", qualifier="static inline ", exchange="simd_shuffle_xor", vectors=True,
    spaces=("threadgroup", "device const"),
    fixed=("constant long *size [[buffer(#)]]", "uint3 group [[threadgroup_position_in_grid]]",
           "uint3 groups [[threadgroups_per_grid]]", "uint3 local [[thread_position_in_threadgroup]]"),
)  # fmt: skip
GLSL = Language(
    name="glsl", bits=32, spelled={"f32": "float", "i64": "int", "bool": "bool"}, number="uint",
    elements={"float16_t": "uint16_t", "float": "float", "int": "int32_t", "uint": "uint8_t"},
    functions={**FEW, "roundEven": "round", "abs": "abs", "inversesqrt": "rsqrt"},
    comment=r"// [^\\#]*\.",
    required=0,
    lines=("#extension GL_EXT_shader_16bit_storage : require",
           "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require"),
    entry=(rf"#ifdef ENTRY_(?P<name>{NAME})",
           rf"layout\(local_size_x = (?P<threads>{COUNT}), local_size_y = 1, local_size_z = 1\) in;"),
    array=rf"layout\(set = 0, binding = (?P<binding>[0-9]+), std430\) (?P<const>readonly )?buffer Buffer(?P<again>[0-9]+) "
          rf"\{{ (?P<element>[a-z0-9_]+) (?P<name>{NAME})\[\]; \}};",
    size=rf"  const int (?P<name>{NAME}) = size\[(?P<place>[0-9]+)\];",
    shared=rf"shared (?P<element>[a-z0-9_]+) (?P<name>{NAME})\[(?P<count>{COUNT})\];",
    block=rf"  const uint ({NAME}) = gl_WorkGroupID\.x \+ gl_WorkGroupID\.y \* gl_NumWorkGroups\.x;",
    thread=rf"  const uint ({NAME}) = gl_LocalInvocationID\.x;", barrier=("barrier", "(", ")", ";"),
    infinity="uintBitsToFloat(0xff800000u)", constructors=True, end=("}", "#endif"),
    fixed=("layout(set = 0, binding = #, std430) readonly buffer Sizes { int size[]; };",),
)  # fmt: skip
WGSL = Language(
    name="wgsl", bits=32, spelled={"f32": "f32", "i64": "i32", "bool": "bool"}, number="i32",
    elements={"f16": "uint16_t", "f32": "float", "i32": "int32_t", "u32": "uint8_t"},
    functions={**FEW, "round": "round", "abs": "abs", "inverseSqrt": "rsqrt"},
    comment=r"// [^\\#]*\.", required=0, lines=(),
    entry=(rf"@compute @workgroup_size\((?P<threads>{COUNT}), 1, 1\)",
           rf"fn (?P<name>{NAME})\(@builtin\(workgroup_id\) group: vec3<u32>, @builtin\(num_workgroups\) groups: vec3<u32>, "
           r"@builtin\(local_invocation_index\) local: u32\) \{"),
    array=rf"@group\(0\) @binding\((?P<binding>[0-9]+)\) var<storage, (?P<access>read|read_write)> (?P<name>{NAME}): "
          r"array<(?P<element>[a-z0-9]+)>;",
    size=rf"  let (?P<name>{NAME}): i32 = size\[(?P<place>[0-9]+)\];",
    shared=rf"var<workgroup> (?P<name>{NAME}): array<(?P<element>[a-z0-9]+), (?P<count>{COUNT})>;",
    block=rf"  let ({NAME}): i32 = i32\(group\.x \+ group\.y \* groups\.x\);", thread=rf"  let ({NAME}): i32 = i32\(local\);",
    barrier=("workgroupBarrier", "(", ")", ";"), infinity="tv_from_bits(0xff800000u)", constructors=True,
    fixed=("@group(0) @binding(#) var<storage, read> size: array<i32>;",),
)  # fmt: skip
LANGUAGES = {"cl": OPENCL, "cu": CUDA, "metal": METAL, "comp": GLSL, "wgsl": WGSL}


def kinds(language: Language) -> dict[str, Kind]:
    """The types of variables. `i32`: numbers of blocks and threads, where they have a type of their own."""
    known = {spelled: Kind(kind) for kind, spelled in language.spelled.items()}
    if language.number not in known:
        known[language.number] = Kind("i32")
    return known
