// CUDA C++ for the CPU: what the emitted texts use of the language, given its meaning by simt.h.
//
// A function of a text whose body holds `asm` is left out by run.py, and the one of the same name below takes its place:
//   tv_max_float, tv_min_float, mma_m16n8k16, ldmatrix_x4, ldmatrix_x4_trans, ldmatrix_x2, ldmatrix_x2_trans, cp_async_4/8/16, cp_async_commit, cp_async_wait<N>
#pragma once
#include "../simt.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __constant__ static const
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static __attribute__((section("simt_shared")))
#define threadIdx (simt::current->place)
#define blockIdx (simt::block)
#define blockDim (simt::threads)
#define gridDim (simt::blocks)
#define warpSize 32
#define CUDART_INF_F HUGE_VALF
#define CUDART_NAN_F NAN

#define SIMT_VECTOR(type, name, size)                            \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };        \
  struct alignas(4 * sizeof(type)) name##4 { type x, y, z, w; };  \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
SIMT_VECTOR(float, float, 4)
SIMT_VECTOR(int, int, 4)
SIMT_VECTOR(unsigned, uint, 4)
struct alignas(16) double2 { double x, y; };
inline double2 make_double2(double x, double y) { return {x, y}; }

template <class T> void __stcg(T *to, T value) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(T)) simt::fail("a vector is stored to an address that is not aligned");
  *to = value;
}

// The caller's line tells one barrier from another.
inline void __syncthreads(unsigned line = __builtin_LINE()) { simt::block_barrier(line); }
inline void __syncwarp(unsigned = ~0u, unsigned line = __builtin_LINE()) { simt::warp_barrier(line); }
template <class T> T simt_shuffle(unsigned line, unsigned mask, T value, unsigned lane, unsigned width) {
  if (mask != ~0u || width != 32) simt::fail("line %u: a shuffle of a part of the warp is not modelled", line);
  return simt::shuffle(line, value, lane);
}
#define SIMT_SHUFFLE(name, which)                                                                              \
  template <class T> T name(unsigned mask, T value, unsigned by, unsigned width = 32, unsigned line = __builtin_LINE()) { \
    unsigned own = simt::current->lane;                                                                        \
    return simt_shuffle(line, mask, value, which, width);                                                      \
  }
SIMT_SHUFFLE(__shfl_sync, (own, by % 32))
SIMT_SHUFFLE(__shfl_xor_sync, own ^ by)
SIMT_SHUFFLE(__shfl_down_sync, own + by < 32 ? own + by : own)
SIMT_SHUFFLE(__shfl_up_sync, own >= by ? own - by : own)

inline float __int_as_float(int bits) { float v; memcpy(&v, &bits, 4); return v; }
inline int __float_as_int(float v) { int bits; memcpy(&bits, &v, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float v; memcpy(&v, &bits, 4); return v; }
inline unsigned __float_as_uint(float v) { unsigned bits; memcpy(&bits, &v, 4); return bits; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float rsqrtf(float v) { return 1 / sqrtf(v); }
inline double rsqrt(double v) { return 1 / sqrt(v); }
template <class T> inline T __ldg(const T *from) { return *from; }
#define SIMT_CHOICE(type)                                     \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
SIMT_CHOICE(int) SIMT_CHOICE(unsigned) SIMT_CHOICE(long) SIMT_CHOICE(long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline float __saturatef(float v) { return fminf(fmaxf(v, 0), 1); }

#include "cuda_fp16.h"

inline float tv_max_float(float a, float b) { return a > b || a != a ? a : b; }
inline float tv_min_float(float a, float b) { return a < b || a != a ? a : b; }

// -- asynchronous copies to shared memory, under the wrappers' names and under the toolkit's
inline void cp_async_4(void *to, const void *from) { simt::copy_async(to, from, 4); }
inline void cp_async_8(void *to, const void *from) { simt::copy_async(to, from, 8); }
inline void cp_async_16(void *to, const void *from) { simt::copy_async(to, from, 16); }
inline void cp_async_commit() { simt::copy_commit(); }
template <int N> inline void cp_async_wait() { simt::copy_wait(N); }
inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes) { simt::copy_async(to, from, bytes); }
inline void __pipeline_commit() { simt::copy_commit(); }
inline void __pipeline_wait_prior(size_t newest) { simt::copy_wait(newest); }

// -- d += a b of a warp: a is 16x16 and b 16x8 of half, d 16x8 of float. The fragments are those of the PTX manual,
// "Matrix Fragments for mma.m16n8k16 with floating point type": with g = lane / 4 and t = lane % 4,
//   a[i] is (g or g + 8 where i & 2, 2t + i % 2, + 8 where i & 4); b[i] is (2t + i % 2, + 8 where i & 2; g);
//   d[i] is (g or g + 8 where i & 2; 2t + i % 2).
inline void simt_mma(simt::Fiber *warp, unsigned) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; lane++) {
    int g = lane / 4, t = lane % 4;
    const __half *mine = static_cast<const __half *>(warp[lane].slot[1]);
    for (int i = 0; i < 8; i++) a[g + (i & 2 ? 8 : 0)][2 * t + i % 2 + (i & 4 ? 8 : 0)] = mine[i];
    mine = static_cast<const __half *>(warp[lane].slot[2]);
    for (int i = 0; i < 4; i++) b[2 * t + i % 2 + (i & 2 ? 8 : 0)][g] = mine[i];
  }
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++) {
      int row = lane / 4 + (i & 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;
      double sum = static_cast<float *>(warp[lane].slot[0])[i];
      for (int k = 0; k < 16; k++) sum += double(a[row][k]) * b[k][column];
      static_cast<float *>(warp[lane].slot[0])[i] = float(sum);
    }
}
template <class D, class A, class B> inline void mma_m16n8k16(D &&d, const A &a, const B &b) {
  simt::current->slot[0] = &d[0], simt::current->slot[1] = (void *)&a[0], simt::current->slot[2] = (void *)&b[0];
  simt::warp_operation(0, simt_mma);
}
inline void mma_m16n8k16(float &d0, float &d1, float &d2, float &d3, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                         unsigned b1) {
  float d[4] = {d0, d1, d2, d3};
  unsigned a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
  mma_m16n8k16(d, a, b);
  d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
}

// -- d += a b of four warps: rows of 64 halves in shared memory, whose address bits 4-6 are exclusive-or'ed with bits 7-9.
// a's row r begins 128 r bytes from `left` on; b's (ROWS) row k of a block of 64 columns 128 k from 8192 bytes a block on, or
// column n 128 n from `right` on. Cells of a thread: PTX manual, "Register Fragments for wgmma.mma_async.m64nNk16", D.
template <bool ROWS, class... C> inline void simt_wgmma(const __half *left, const __half *right, C &...c) {
  if (reinterpret_cast<uintptr_t>(left) % 1024 || reinterpret_cast<uintptr_t>(right) % 1024)
    simt::fail("rows for wgmma do not begin at a multiple of 1024 bytes");
  float *cells[] = {&c...};
  unsigned thread = simt::current->place.x % 128, warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  auto at = [](const __half *from, unsigned bytes) {
    uintptr_t place = reinterpret_cast<uintptr_t>(from) + bytes;
    return double(__half2float(*reinterpret_cast<const __half *>(place ^ (place >> 3 & 0x70))));
  };
  for (unsigned i = 0; i < sizeof...(C); i++) {
    unsigned row = 16 * warp + 8 * (i / 2 % 2) + g, column = 8 * (i / 4) + 2 * t + i % 2;
    double sum = *cells[i];
    for (unsigned k = 0; k < 64; k++)
      sum += at(left, 128 * row + 2 * k) *
             (ROWS ? at(right, column / 64 * 8192 + 128 * k + column % 64 * 2) : at(right, 128 * column + 2 * k));
    *cells[i] = float(sum);
  }
  simt::warp_barrier(__LINE__);
}
#define SIMT_WGMMA(N)                                                                                         \
  template <class... C> void wgmma_m64n##N##k64_rows(const __half *left, const __half *right, C &...c) {    \
    static_assert(sizeof...(C) == N / 2);                                                                     \
    simt_wgmma<true>(left, right, c...);                                                                      \
  }                                                                                                           \
  template <class... C> void wgmma_m64n##N##k64_columns(const __half *left, const __half *right, C &...c) { \
    static_assert(sizeof...(C) == N / 2);                                                                     \
    simt_wgmma<false>(left, right, c...);                                                                     \
  }
SIMT_WGMMA(128) SIMT_WGMMA(256)
inline size_t __cvta_generic_to_shared(const void *place) { return reinterpret_cast<uintptr_t>(place); }
inline void barrier_async() { simt::block_barrier(__LINE__); }

// -- ldmatrix: lane 8m + r gives the address of row r (8 halves) of matrix m; lane l gets from each matrix the halves
// (l / 4; 2(l % 4), 2(l % 4) + 1), or of its transpose.
template <int MATRICES, bool TRANSPOSED> inline void simt_ldmatrix(unsigned *to, const void *row) {
  if (reinterpret_cast<uintptr_t>(row) % 16 && simt::current->lane < 8 * MATRICES) simt::fail("an ldmatrix row is not aligned to 16 bytes");
  simt::current->slot[0] = to, simt::current->slot[1] = const_cast<void *>(row);
  simt::warp_operation(0, [](simt::Fiber *warp, unsigned) {
    for (int lane = 0; lane < 32; lane++)
      for (int m = 0; m < MATRICES; m++)
        for (int i = 0; i < 2; i++) {
          int r = lane / 4, c = lane % 4 * 2 + i;
          const __half *from = static_cast<const __half *>(warp[8 * m + (TRANSPOSED ? c : r)].slot[1]);
          static_cast<__half *>(warp[lane].slot[0])[2 * m + i] = from[TRANSPOSED ? r : c];
        }
  });
}
inline void ldmatrix_x4(unsigned *to, const void *row) { simt_ldmatrix<4, false>(to, row); }
inline void ldmatrix_x4_trans(unsigned *to, const void *row) { simt_ldmatrix<4, true>(to, row); }
inline void ldmatrix_x2(unsigned *to, const void *row) { simt_ldmatrix<2, false>(to, row); }
inline void ldmatrix_x2_trans(unsigned *to, const void *row) { simt_ldmatrix<2, true>(to, row); }
