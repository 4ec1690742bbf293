"""Makes C++ sources of the kernel texts of kernels/gpu/text, for OpenCL, Vulkan and CUDA.

A text `<name>.gpu` is one kernel. Its head has one declaration a line, and ends with a line `---`:

    // A comment, up to the end of the line, anywhere.
    group 64                     work-items of a work-group (along x)
    constant TYPE 0              a number that programs are compiled with, and its value where they do not say
    variable KIND                an int that the kernel sets before all else, for types that are known only then
    buffer x TYPE                an argument that is the address of elements; their type is a number of DType (F32, F16,
                                 I8...), a constant or a variable
    parameter int n              an argument that is a number: int, uint or float
    shared float part[64]        memory of the work-group
    define ROWS 4                a number by name, also for sizes of arrays
    like other                   first all that the text `other` has; then definitions take the place of its own, and
                                 nothing follows the line `---`
    int64                        it computes with 64-bit integers
    include math                 functions of math.inc, beside the text or in kernels/gpu/text

The texts of kernels/vulkan/text are for Vulkan alone, so that all of GLSL may be used there, and these declarations:

    buffer y F32 coherent        what a work-group writes, others can read after a barrier of memory
    vectors                      READ128(x, i) and WRITE128(x, i, v): 16 bytes of a buffer as uvec4
    subgroups                    the functions of GL_KHR_shader_subgroup_arithmetic
    matrices                     those of GL_NV_cooperative_matrix, which become those of VK_KHR_cooperative_matrix:
                                 see cooperative_matrices.py

Then come functions, which take numbers only, and know neither buffers nor constants:

    FN float twice(float x) { return x + x; }

and the kernel: a line `KERNEL` and its body, in what is common to C and GLSL: no pointers, no casts but the functions
below, `float` literals with `f`, local arrays of constant size, and:

    GROUP_X GROUP_Y GROUP_Z      numbers of the work-group, int
    LOCAL                        number of the work-item in it, int;  GLOBAL: over all groups along x
    GROUPS_X                     how many groups there are along x
    BARRIER;                     all work-items of the group meet here, and see what others wrote to shared memory
    LOAD(x, i)                   element i of buffer x, as float; of any type but F64
    STORE(x, i, v)               converts a float to the type of x: rounds to nearest even; float to integer truncates
    LOAD_INT(x, i)               as int, of integers and bool; of 64-bit integers their lower half
    STORE_INT(x, i, v)           an int to integers and bool
    LOAD_LONG, STORE_LONG        the same with 64-bit integers, LONG and ULONG (only with `int64`)
    READ8, READ16, READ32        the bits of element i of a buffer, as uint, as if its elements had that size
    WRITE8, WRITE16, WRITE32
    READ64, WRITE64              as UINT2 with .x (lower) and .y;  UINT2_OF(x, y) makes one
    GROUP_SUM(part, v);          the float v becomes the sum over the work-group, for all of its items; `part` is shared
                                 memory of a float for each. In Vulkan by subgroups where the device has their sums
    GROUP_MAX(part, v);          the same with the largest, where there is no NaN
    CLAIM(x, i, v)               writes v != 0 as 32 bits where there was 0, and is true for the one item that did so
    SIZE_OF(TYPE)                bytes of an element
    IS_FLOAT(TYPE)
    TO_INT TO_UINT TO_FLOAT      conversions between numbers;  AS_FLOAT AS_UINT: between a float and its bits
    a % b                        of numbers that are not negative: with others the remainder is undefined in Vulkan, so
                                 take a - a / b * b (the quotient is rounded towards zero everywhere)
    MULHI(a, b)                  the upper half of the product of two uint
    ABSF MINF MAXF FLOORF        of floats;  ABSI MINI MAXI of ints; MINF and MAXF may drop NaN
    FMA SQRT EXP LOG POW ...     fast ones of the API; accurate ones are in math.inc
    IS_NAN(f) INF NAN_
    UNROLL for (...)             a loop of few turns, as often as it says
    PRECISE float s = a + b;     a variable whose sums and products are computed as they are written, in their order

Types are known when a program is compiled for OpenCL and Vulkan, so that a choice between them costs nothing. CUDA has
one machine code for all: constants are arguments there, unless the program is compiled at run time.
"""

from __future__ import annotations

import argparse
import array
import re
from pathlib import Path

from gpu_spirv import KINDS, spirv
from gpu_text import DTYPES, Text, read

COMMON = (
    "\n".join(f"#define {name} {i}" for i, name in enumerate(DTYPES))
    + """
#define SIZE_OF(T) ((T) == F32 || (T) == I32 || (T) == U32 ? 4 : (T) == F16 || (T) == BF16 || (T) == I16 || \\
  (T) == U16 ? 2 : (T) == I8 || (T) == U8 || (T) >= BOOL ? 1 : 8)
#define IS_FLOAT(T) ((T) <= BF16)
"""
)

# What follows is the same in all languages, given the names of each above it.
ACCESS = """
FN float from_bf16(uint v) { return AS_FLOAT(v << 16u); }
FN uint to_bf16(float v) {
  uint u = AS_UINT(v);
  return (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16u) | 0x40u : (u + 0x7fffu + ((u >> 16u) & 1u)) >> 16u;
}
FN int sign8(uint v) { return TO_INT(v << 24u) >> 24; }
FN int sign16(uint v) { return TO_INT(v << 16u) >> 16; }
#define IS_NAN(v) ((AS_UINT(v) & 0x7fffffffu) > 0x7f800000u)
#define INF AS_FLOAT(0x7f800000u)
#define NAN_ AS_FLOAT(0x7fc00000u)
"""


def access(buffer: str, kind: str, int64: bool, small: bool) -> str:
    """How elements of a buffer are read and written, in terms of READ8 to WRITE64."""
    b = buffer
    loads = [("I32", f"TO_FLOAT(TO_INT(READ32({b}, i)))"), ("U32", f"TO_FLOAT(READ32({b}, i))")]
    ints = [("I32", f"TO_INT(READ32({b}, i))"), ("U32", f"TO_INT(READ32({b}, i))")]
    if small:
        loads += [("F16", f"READ_HALF({b}, i)"), ("BF16", f"from_bf16(READ16({b}, i))")]
        ints += [
            ("I8", f"sign8(READ8({b}, i))"), ("U8", f"TO_INT(READ8({b}, i))"), ("BOOL", f"TO_INT(READ8({b}, i))"),
            ("I16", f"sign16(READ16({b}, i))"), ("U16", f"TO_INT(READ16({b}, i))"),
        ]  # fmt: skip
        loads += [(t, f"TO_FLOAT({how})") for t, how in ints[2:]]
    wide = f"TO_FLOAT(LONG_OF(READ64({b}, i)))" if int64 else f"TO_FLOAT(TO_INT(READ64({b}, i).x))"
    loads += [("I64", wide)]

    def chosen(rows: list[tuple[str, str]], otherwise: str) -> str:
        return "(" + "".join(f"{kind} == {t} ? {how} : " for t, how in rows) + otherwise + ")"

    text = f"#define LOAD_{b}(i) " + chosen(loads, f"AS_FLOAT(READ32({b}, i))") + "\n"
    text += f"#define LOAD_INT_{b}(i) " + chosen(ints, f"TO_INT(READ64({b}, i).x)") + "\n"
    floats = [("F32", f"WRITE32({b}, i, AS_UINT(v))")]
    if small:
        floats += [("F16", f"WRITE_HALF({b}, i, v)"), ("BF16", f"WRITE16({b}, i, to_bf16(v))")]
    stores = [("I32", f"WRITE32({b}, i, TO_UINT(v))"), ("U32", f"WRITE32({b}, i, TO_UINT(v))")]
    if small:
        stores += [(t, f"WRITE8({b}, i, TO_UINT(v))") for t in ("I8", "U8", "BOOL")]
        stores += [(t, f"WRITE16({b}, i, TO_UINT(v))") for t in ("I16", "U16")]
    stores += [(t, f"WRITE64({b}, i, UINT2_OF(TO_UINT(v), (v) < 0 ? 0xffffffffu : 0u))") for t in ("I64", "U64")]

    def statement(rows: list[tuple[str, str]]) -> str:
        return " else ".join(f"if ({kind} == {t}) {{ {how}; }}" for t, how in rows)

    # A float goes to an integer type by way of int.
    text += f"#define STORE_INT_{b}(i, v) {{ {statement(stores)} }}\n"
    text += f"#define STORE_{b}(i, v) {{ {statement(floats)} else STORE_INT_{b}(i, TO_INT(v)) }}\n"
    if int64:
        longs = [
            ("I64", f"LONG_OF(READ64({b}, i))"),
            ("U64", f"LONG_OF(READ64({b}, i))"),
            ("U32", f"TO_LONG(READ32({b}, i))"),
        ]
        text += f"#define LOAD_LONG_{b}(i) " + chosen(longs, f"TO_LONG(LOAD_INT_{b}(i))") + "\n"
        text += (
            f"#define STORE_LONG_{b}(i, v) {{ if ({kind} == I64 || {kind} == U64) "
            f"{{ WRITE64({b}, i, UINT2_OF_LONG(v)); }} else STORE_INT_{b}(i, TO_INT(v)) }}\n"
        )
    return text


GROUPS = """
#define GROUP_REDUCE(part, v, NEXT) { part[LOCAL] = v; \\
  for (int s_ = GROUP / 2; s_ > 0; s_ /= 2) { \\
    BARRIER; \\
    if (LOCAL < s_) part[LOCAL] = NEXT(part[LOCAL], part[LOCAL + s_]); \\
  } \\
  BARRIER; v = part[0]; BARRIER; }
#define ADD_(a, b) (a) + (b)
#define LARGER_(a, b) MAXF(a, b)
#define GROUP_SUM(part, v) GROUP_REDUCE(part, v, ADD_)
#define GROUP_MAX(part, v) GROUP_REDUCE(part, v, LARGER_)
"""

SUBGROUPS = """
#define GROUP_REDUCE(part, v, WITHIN, FIRST, NEXT) { v = WITHIN(v); \\
  if (gl_SubgroupInvocationID == 0u) part[gl_SubgroupID] = v; \\
  BARRIER; v = FIRST; \\
  for (uint s_ = 0u; s_ < gl_NumSubgroups; ++s_) v = NEXT(v, part[s_]); \\
  BARRIER; }
#define ADD_(a, b) (a) + (b)
#define LARGER_(a, b) MAXF(a, b)
#define GROUP_SUM(part, v) GROUP_REDUCE(part, v, subgroupAdd, 0.0f, ADD_)
#define GROUP_MAX(part, v) GROUP_REDUCE(part, v, subgroupMax, -INF, LARGER_)
"""
"""What needs the sums of subgroups, which a variant of a text has."""

CALLS = """
#define LOAD(b, i) LOAD_##b(i)
#define LOAD_INT(b, i) LOAD_INT_##b(i)
#define LOAD_LONG(b, i) LOAD_LONG_##b(i)
#define STORE(b, i, v) STORE_##b(i, v)
#define STORE_INT(b, i, v) STORE_INT_##b(i, v)
#define STORE_LONG(b, i, v) STORE_LONG_##b(i, v)
"""

C_MATH = """
#define FLOORF(v) floor(v)
#define CEILF(v) ceil(v)
#define ABSF(v) fabs(v)
#define MINF(a, b) fmin(a, b)
#define MAXF(a, b) fmax(a, b)
#define MINI(a, b) min(a, b)
#define MAXI(a, b) max(a, b)
#define FMA(a, b, c) fma(a, b, c)
#define SQRT(v) sqrt(v)
#define EXP(v) exp(v)
#define LOG(v) log(v)
#define POW(a, b) pow(a, b)
#define TRUNCF(v) trunc(v)
"""

OPENCL_HEAD = """
#pragma OPENCL FP_CONTRACT OFF
#define FN static
#define PRECISE
#ifdef ARGUMENTS
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif
#define LONG long
#define ULONG ulong
#define UINT2 uint2
#define UINT2_OF(x, y) (uint2)(x, y)
#define LONG_OF(v) as_long(v)
#define UINT2_OF_LONG(v) as_uint2(v)
#define TO_INT(v) ((int)(v))
#define TO_UINT(v) ((uint)(v))
#define TO_FLOAT(v) ((float)(v))
#define TO_LONG(v) ((long)(v))
#define TO_ULONG(v) ((ulong)(v))
#define AS_FLOAT(v) as_float(v)
#define AS_UINT(v) as_uint(v)
#define ABSI(v) ((int)abs(v))
#define MULHI(a, b) mul_hi((uint)(a), (uint)(b))
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)
#define GROUP_X ((int)get_group_id(0))
#define GROUP_Y ((int)get_group_id(1))
#define GROUP_Z ((int)get_group_id(2))
#define GROUPS_X ((int)get_num_groups(0))
#define LOCAL ((int)get_local_id(0))
#define GLOBAL ((int)get_global_id(0))
#define READ8(b, i) ((uint)b[b##_at + (i)])
#define READ16(b, i) ((uint)((global const ushort*)b)[(b##_at >> 1) + (i)])
#define READ32(b, i) (((global const uint*)b)[(b##_at >> 2) + (i)])
#define READ64(b, i) (((global const uint2*)b)[(b##_at >> 3) + (i)])
#define READ_HALF(b, i) vload_half((b##_at >> 1) + (i), (global const half*)b)
#define WRITE8(b, i, v) b[b##_at + (i)] = (uchar)(v)
#define WRITE16(b, i, v) ((global ushort*)b)[(b##_at >> 1) + (i)] = (ushort)(v)
#define WRITE32(b, i, v) ((global uint*)b)[(b##_at >> 2) + (i)] = (v)
#define WRITE64(b, i, v) ((global uint2*)b)[(b##_at >> 3) + (i)] = (v)
#define CLAIM(b, i, v) (atomic_cmpxchg((volatile global uint*)b + (b##_at >> 2) + (i), 0u, v) == 0u)
#define WRITE_HALF(b, i, v) vstore_half_rte(v, (b##_at >> 1) + (i), (global half*)b)
"""


def opencl(text: Text) -> str:
    """OpenCL C 1.2. An address is a buffer and an offset in bytes. Constants come as -D, or with -DARGUMENTS as the
    last arguments: for processors, whose compilers take longer than what is computed."""
    arguments = [f"global uchar* {b}" for b, _ in text.buffers] + [f"uint {b}_at" for b, _ in text.buffers]
    arguments += [f"{kind} {name}" for kind, name in text.parameters]
    constants = "".join(f", int {name}_constant" for name, _ in text.constants)
    lines = ["#ifdef ARGUMENTS"] + [f"#define {name} {name}_constant" for name, _ in text.constants]
    lines += [f"#define CONSTANTS {constants}", "#else", "#define CONSTANTS", "#endif"]
    lines += [COMMON, OPENCL_HEAD, C_MATH, ACCESS, f"#define GROUP {text.group}", defines(text), GROUPS, CALLS]
    lines += [access(b, kind, text.int64, True) for b, kind in text.buffers]
    lines += [text.functions]
    lines += [f"kernel __attribute__((reqd_work_group_size({text.group}, 1, 1)))"]
    lines += [f"void {text.name}({', '.join(arguments)} CONSTANTS) {{"]
    lines += [f"  int {name};" for name in text.variables]
    lines += [f"  local {kind} {name}[{size}];" for kind, name, size in text.shared]
    lines += [text.body, "}", ""]
    return "\n".join(lines)


GLSL_HEAD = """
#define FN
#define PRECISE precise
#define UNROLL [[unroll]]
#define UINT2 uvec2
#define UINT2_OF(x, y) uvec2(x, y)
#define TO_INT(v) int(v)
#define TO_UINT(v) uint(v)
#define TO_FLOAT(v) float(v)
#define AS_FLOAT(v) uintBitsToFloat(v)
#define AS_UINT(v) floatBitsToUint(v)
#define ABSI(v) abs(v)
uint upper_product(uint a, uint b) {
  uint upper, lower;
  umulExtended(a, b, upper, lower);
  return upper;
}
#define MULHI(a, b) upper_product(a, b)
#define BARRIER barrier()
#define GROUP_X int(gl_WorkGroupID.x)
#define GROUP_Y int(gl_WorkGroupID.y)
#define GROUP_Z int(gl_WorkGroupID.z)
#define GROUPS_X int(gl_NumWorkGroups.x)
#define LOCAL int(gl_LocalInvocationID.x)
#define GLOBAL int(gl_GlobalInvocationID.x)
#define READ8(b, i) uint(b##_8[(b##_at) + uint(i)])
#define READ16(b, i) uint(b##_16[(b##_at >> 1) + uint(i)])
#define READ32(b, i) (b##_32[(b##_at >> 2) + uint(i)])
#define READ64(b, i) (b##_64[(b##_at >> 3) + uint(i)])
#define READ_HALF(b, i) float(b##_h[(b##_at >> 1) + uint(i)])
#define WRITE8(b, i, v) b##_8[(b##_at) + uint(i)] = uint8_t((v) & 0xffu)
#define WRITE16(b, i, v) b##_16[(b##_at >> 1) + uint(i)] = uint16_t((v) & 0xffffu)
#define WRITE32(b, i, v) b##_32[(b##_at >> 2) + uint(i)] = (v)
#define WRITE64(b, i, v) b##_64[(b##_at >> 3) + uint(i)] = (v)
#define READ128(b, i) (b##_128[(b##_at >> 4) + uint(i)])
#define WRITE128(b, i, v) b##_128[(b##_at >> 4) + uint(i)] = (v)
#define CLAIM(b, i, v) (atomicCompSwap(b##_32[(b##_at >> 2) + uint(i)], 0u, v) == 0u)
#define WRITE_HALF(b, i, v) b##_h[(b##_at >> 1) + uint(i)] = float16_t(v)
#define FLOORF(v) floor(v)
#define CEILF(v) ceil(v)
#define ABSF(v) abs(v)
#define MINF(a, b) min(a, b)
#define MAXF(a, b) max(a, b)
#define MINI(a, b) min(a, b)
#define MAXI(a, b) max(a, b)
#define FMA(a, b, c) fma(a, b, c)
// Some drivers have no root of subnormal numbers.
#define SQRT(v) ((v) < 1.18e-38f ? sqrt((v) * 16777216.0f) * 0.000244140625f : sqrt(v))
#define EXP(v) exp(v)
#define LOG(v) log(v)
#define POW(a, b) pow(a, b)
#define TRUNCF(v) trunc(v)
"""


GLSL_CALLS = """
#define LOAD(b, i) LOAD_##b(int(i))
#define LOAD_INT(b, i) LOAD_INT_##b(int(i))
#define LOAD_LONG(b, i) LOAD_LONG_##b(int(i))
#define STORE(b, i, v) STORE_##b(int(i), float(v))
#define STORE_INT(b, i, v) STORE_INT_##b(int(i), int(v))
#define STORE_LONG(b, i, v) STORE_LONG_##b(int(i), LONG(v))
"""


def functions(macros: str) -> str:
    """The macros of access() as functions: with all types in one place, SPIR-V is a fraction as long."""
    lines = []
    for line in macros.splitlines():
        name, kind, body = re.fullmatch(r"#define ((?:LOAD|STORE)(_INT|_LONG)?_\w+)\(.*?\) (.*)", line).groups()
        number = {"_INT": "int", "_LONG": "LONG", None: "float"}[kind]
        body = re.sub(r"(STORE_INT_\w+\(i, TO_INT\(v\)\)) }$", r"\1; }", body)
        lines += [
            f"{number} {name}(int i) {{ return {body}; }}"
            if name.startswith("LOAD")
            else f"void {name}(int i, {number} v) {body}"
        ]
    return "\n".join(lines)


def glsl(text: Text, small: bool, subgroups: bool = False) -> str:
    """GLSL for Vulkan 1.1. `small`: with buffers of 8- and 16-bit elements; `subgroups`: with their sums."""
    lines = ["#version 450"]
    lines += ["#extension GL_EXT_control_flow_attributes : require"]
    if small:
        lines += [f"#extension GL_EXT_shader_{n}bit_storage : require" for n in (8, 16)]
    if text.int64:
        lines += ["#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require"]
    if subgroups or "subgroups" in text.features:
        lines += [f"#extension GL_KHR_shader_subgroup_{part} : require" for part in ("basic", "arithmetic")]
    if "matrices" in text.features:
        lines += ["#extension GL_KHR_memory_scope_semantics : require", "#extension GL_NV_cooperative_matrix : require"]
        lines += ["#extension GL_KHR_shader_subgroup_basic : require"]
        lines += ["#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require"]
    lines += [f"layout(local_size_x = {text.group}) in;"]
    lines += [f"layout(constant_id = {i}) const int {n} = {v};" for i, (n, v) in enumerate(text.constants)]
    views = [("32", "uint"), ("64", "uvec2")] + (
        [("8", "uint8_t"), ("16", "uint16_t"), ("h", "float16_t")] if small else []
    )
    if "vectors" in text.features:
        views.append(("128", "uvec4"))
    for at, (b, _) in enumerate(text.buffers):
        how = "coherent buffer" if b in text.coherent else "buffer"
        lines += [f"layout(std430, binding = {at}) {how} {b}_b{v} {{ {t} {b}_{v}[]; }};" for v, t in views]
    lines += ["layout(push_constant) uniform Arguments {"]
    lines += (
        [f"  uint {b}_at;" for b, _ in text.buffers] + [f"  {kind} {name};" for kind, name in text.parameters] + ["};"]
    )
    lines += [f"int {name};" for name in text.variables]
    if text.int64:
        lines += ["#define LONG int64_t", "#define ULONG uint64_t", "#define TO_LONG(v) int64_t(v)"]
        lines += ["#define TO_ULONG(v) uint64_t(v)", "#define LONG_OF(v) int64_t(packUint2x32(v))"]
        lines += ["#define UINT2_OF_LONG(v) unpackUint2x32(uint64_t(v))"]
    lines += [defines(text)] + [f"shared {kind} {name}[{size}];" for kind, name, size in text.shared]
    lines += [COMMON, GLSL_HEAD, ACCESS, f"#define GROUP {text.group}", GLSL_CALLS]
    lines += [SUBGROUPS if subgroups else GROUPS]
    if not small:  # nobody compiles a program of such elements then
        lines += [f"#undef {verb}{n}" for verb in ("READ", "WRITE") for n in (8, 16)]
        lines += [f"#define READ{n}(b, i) 0u" for n in (8, 16)] + [f"#define WRITE{n}(b, i, v)" for n in (8, 16)]
    lines += [functions(access(b, kind, text.int64, small)) for b, kind in text.buffers]
    lines += [text.functions, "void main() {", text.body, "}", ""]
    return "\n".join(lines)


CUDA_HEAD = """
#define FN __device__ __forceinline__
#define PRECISE
#define UNROLL _Pragma("unroll")
#define LONG long long
#define ULONG unsigned long long
#define UINT2 uint2
#define UINT2_OF(x, y) make_uint2(x, y)
#define LONG_OF(v) ((long long)(((unsigned long long)(v).y << 32) | (v).x))
#define UINT2_OF_LONG(v) make_uint2((unsigned int)(v), (unsigned int)((unsigned long long)(v) >> 32))
#define TO_INT(v) ((int)(v))
#define TO_UINT(v) ((unsigned int)(v))
#define TO_FLOAT(v) ((float)(v))
#define TO_LONG(v) ((long long)(v))
#define TO_ULONG(v) ((unsigned long long)(v))
#define AS_FLOAT(v) __uint_as_float(v)
#define AS_UINT(v) __float_as_uint(v)
#define ABSI(v) abs(v)
#define MULHI(a, b) __umulhi(a, b)
#define BARRIER __syncthreads()
#define GROUP_X ((int)blockIdx.x)
#define GROUP_Y ((int)blockIdx.y)
#define GROUP_Z ((int)blockIdx.z)
#define GROUPS_X ((int)gridDim.x)
#define LOCAL ((int)threadIdx.x)
#define GLOBAL ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define READ8(b, i) ((uint)b[i])
#define READ16(b, i) ((uint)((const unsigned short*)b)[i])
#define READ32(b, i) (((const uint*)b)[i])
#define READ64(b, i) (((const uint2*)b)[i])
#define READ_HALF(b, i) half_to_float(((const unsigned short*)b)[i])
#define WRITE8(b, i, v) b[i] = (unsigned char)(v)
#define WRITE16(b, i, v) ((unsigned short*)b)[i] = (unsigned short)(v)
#define WRITE32(b, i, v) ((uint*)b)[i] = (v)
#define WRITE64(b, i, v) ((uint2*)b)[i] = (v)
#define CLAIM(b, i, v) (atomicCAS((unsigned int*)b + (i), 0u, v) == 0u)
#define WRITE_HALF(b, i, v) ((unsigned short*)b)[i] = float_to_half(v)
// As kernels/cuda/launch.h has it: the next kernel may begin, and this one goes on when the one before is done.
#if __CUDA_ARCH__ >= 900
#define FOLLOW_PREVIOUS \\
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); \\
  asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define FOLLOW_PREVIOUS
#endif
typedef unsigned int uint;
FN float half_to_float(unsigned short v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}
FN unsigned short float_to_half(float v) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
  return h;
}
"""


def cuda_head() -> str:
    return COMMON + CUDA_HEAD + C_MATH + ACCESS + GROUPS + CALLS


def cuda(text: Text, specialized: bool) -> str:
    """CUDA C without the head. Constants are macros if `specialized`, otherwise arguments, after the buffers."""
    arguments = [f"unsigned char* {b}" for b, _ in text.buffers]
    if not specialized:
        arguments += [f"int {name}_constant" for name, _ in text.constants]
    arguments += [f"{kind} {name}" for kind, name in text.parameters]
    lines = [f"#undef GROUP\n#define GROUP {text.group}", defines(text)]
    if not specialized:
        lines += [f"#undef {n}\n#define {n} {n}_constant" for n, _ in text.constants]
    for b, kind in text.buffers:
        macros = access(b, kind, text.int64, True)
        lines += [f"#undef {name}" for name in re.findall(r"#define (\w+)\(", macros)] + [macros]
    lines += [f"namespace text_{text.name} {{", text.functions] if not specialized else [text.functions]
    linkage = 'extern "C" ' if specialized else ""  # a text may be called as a function of the C library
    lines += [f"{linkage}__global__ void __launch_bounds__({text.group}) {text.name}({', '.join(arguments)}) {{"]
    lines += ["  FOLLOW_PREVIOUS;"]
    lines += [f"  int {name};" for name in text.variables]
    lines += [f"  __shared__ {kind} {name}[{size}];" for kind, name, size in text.shared]
    lines += [text.body, "}"] + (["}"] if not specialized else []) + [""]
    lines += [f"#undef {name}" for name in text.defines]
    return "\n".join([*lines, ""])


def defines(text: Text) -> str:
    return "".join(f"#undef {name}\n#define {name} {value}\n" for name, value in text.defines.items())


def info(text: Text) -> str:
    kinds = "".join(kind[0] for kind, _ in text.parameters)
    constants = " ".join(f"{name}={value}" for name, value in text.constants)
    needs = "true" if text.int64 else "false"
    return f'    {{"{text.name}", {text.group}, {len(text.buffers)}, "{kinds}", "{constants}", {needs}}},\n'


def literal(source: str) -> str:
    """A C++ string: in pieces, since compilers limit the length of one."""
    pieces = []
    while source:
        pieces.append(f'R"text({source[:8000]})text"')
        source = source[8000:]
    return "\n".join(pieces) or '""'


def write_if_changed(path: Path, content: str) -> None:
    if not path.exists() or path.read_text() != content:
        path.write_text(content)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("language", choices=("info", "opencl", "vulkan", "cuda"))
    parser.add_argument("output", type=Path, help="the C++ or CUDA file to write")
    parser.add_argument("texts", type=Path, nargs="+", help="the .gpu files")
    parser.add_argument("--glslc", default="glslc")
    given = parser.parse_args()
    texts = [read(path) for path in sorted(given.texts, key=lambda path: path.stem)]
    # All APIs have the texts by the same numbers: those that are not for one are empty there.
    names = "// Made by the build, see cmake/gpu_texts.py.\n"
    if given.language == "info":
        rows = "".join(map(info, texts))
        content = f'{names}#include "kernels/gpu/texts.h"\n\nnamespace minnow::gpu {{\n\n'
        content += f"const TextInfo kTexts[] = {{\n{rows}}};\nconst int kNumTexts = {len(texts)};\n\n}}\n"
    elif given.language == "opencl":
        content = f"{names}namespace minnow::opencl {{\n\nextern const char* const kSources[];\n"
        content += (
            "const char* const kSources[] = {\n"
            + ",\n".join(literal("" if t.only_vulkan else opencl(t)) for t in texts)
            + "};\n\n}\n"
        )
    elif given.language == "vulkan":
        content = f"{names}#include <cstdint>\n\nnamespace minnow::vulkan {{\n\n"
        codes = spirv(given.glslc, texts, given.output.parent / "gpu_spirv", glsl)
        for kind in KINDS:
            words = [array.array("I", codes[text.name, kind]) for text in texts]
            for i, code in enumerate(words):
                content += f"static const uint32_t k{kind}{i}[] = {{{','.join(map(str, code))}}};\n"
            content += f"extern const uint32_t* const k{kind}Code[];\nextern const uint32_t k{kind}Bytes[];\n"
            arrays = ", ".join(f"k{kind}{i}" for i in range(len(texts)))
            content += f"const uint32_t* const k{kind}Code[] = {{{arrays}}};\n"
            sizes = ", ".join(str(4 * len(code)) for code in words)
            content += f"const uint32_t k{kind}Bytes[] = {{{sizes}}};\n"
        content += "\n}  // namespace minnow::vulkan\n"
    else:
        content = names + cuda_head()
        content += "".join(cuda(text, False) for text in texts if not text.only_vulkan)
        content += "\nnamespace minnow::cuda {\n\nextern const void* const kTextKernels[];\n"
        content += "const void* const kTextKernels[] = {\n"
        content += "".join(
            "    nullptr,\n" if t.only_vulkan else f"    reinterpret_cast<const void*>(&text_{t.name}::{t.name}),\n"
            for t in texts
        )
        content += "};\n// For compilation at run time, after kTextHead.\nextern const char* const kTextSources[];\n"
        content += (
            "const char* const kTextSources[] = {\n"
            + ",\n".join(literal("" if t.only_vulkan else cuda(t, True)) for t in texts)
            + "};\n"
        )
        content += f"extern const char* const kTextHead;\nconst char* const kTextHead = {literal(cuda_head())};\n\n}}\n"
    write_if_changed(given.output, content)


if __name__ == "__main__":
    main()
