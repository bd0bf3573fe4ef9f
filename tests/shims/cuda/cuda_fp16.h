// CUDA's half precision type for the host shim: each operation rounds to nearest even, as on the device.
#pragma once
#include "../simt.h"
using __half = _Float16;
using half = _Float16;
struct alignas(4) __half2 { __half x, y; };
using half2 = __half2;
inline __half __float2half(float v) { return static_cast<__half>(v); }
inline __half __float2half_rn(float v) { return static_cast<__half>(v); }
inline float __half2float(__half v) { return v; }
inline __half2 __floats2half2_rn(float x, float y) { return {static_cast<__half>(x), static_cast<__half>(y)}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline unsigned short __half_as_ushort(__half v) { unsigned short bits; memcpy(&bits, &v, 2); return bits; }
inline __half __ushort_as_half(unsigned short bits) { __half v; memcpy(&v, &bits, 2); return v; }
