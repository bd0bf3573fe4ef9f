/* What this CPU can do at most: bandwidth of memory patterns, rates of arithmetic, the cost of entering a parallel region.

   Each function is called as a kernel is: int NAME(const int64_t *size, void *const *array), and returns 0. The best time of
   several trials goes to the second array, in seconds. Threads work on parts of their own and meet at barriers. */
#include <stdint.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
#define KEEP __asm__ volatile("" ::: "memory")

typedef int64_t vec __attribute__((vector_size(WIDTH), may_alias));
typedef int64_t half_vec __attribute__((vector_size(WIDTH / 2), may_alias));

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#if defined(__AVX512F__)
static inline void stream(void *p, vec x) { _mm512_stream_si512((__m512i *)p, (__m512i)x); }
#elif defined(__AVX__)
static inline void stream(void *p, vec x) { _mm256_stream_si256((__m256i *)p, (__m256i)x); }
#elif defined(__x86_64__)
static inline void stream(void *p, vec x) { _mm_stream_si128((__m128i *)p, (__m128i)x); }
#else
static inline void stream(void *p, vec x) { *(vec *)p = x; }
#endif

/* One pass over `bytes` of each array that a pattern uses; bytes is a multiple of 1024. */
typedef void pass(char *restrict a, char *restrict b, char *restrict c, char *restrict d, int64_t bytes);

#define READ(NAME, V, AHEAD)                                                                    \
  static __attribute__((noinline)) void NAME(char *restrict a, char *restrict b, char *restrict c, char *restrict d, \
                                             int64_t bytes) {                                   \
    V s[8] = {{0}};                                                                             \
    for (int64_t i = 0; i < bytes; i += 8 * (int64_t)sizeof(V)) {                               \
      if (AHEAD)                                                                                \
        for (int64_t l = 0; l < 8 * (int64_t)sizeof(V); l += 64) __builtin_prefetch(a + i + AHEAD + l); \
      _Pragma("GCC unroll 8") for (int k = 0; k < 8; ++k) s[k] ^= *(V *)(a + i + k * (int64_t)sizeof(V)); \
    }                                                                                           \
    *(V *)b = s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];                            \
  }
READ(read_wide, vec, 0)
READ(read_narrow, half_vec, 0)
READ(read_ahead, vec, 2048)

static __attribute__((noinline)) void read_four(char *restrict a, char *restrict b, char *restrict c, char *restrict d,
                                                int64_t bytes) {
  vec s[4] = {{0}};
  for (int64_t i = 0; i < bytes / 4; i += 2 * (int64_t)sizeof(vec))
    for (int k = 0; k < 4; ++k) s[k] ^= *(vec *)(a + k * (bytes / 4) + i) ^ *(vec *)(a + k * (bytes / 4) + i + sizeof(vec));
  *(vec *)b = s[0] ^ s[1] ^ s[2] ^ s[3];
}

#define EACH(NAME, STEP)                                                                        \
  static __attribute__((noinline)) void NAME(char *restrict a, char *restrict b, char *restrict c, char *restrict d, \
                                             int64_t bytes) {                                   \
    const vec one = *(vec *)d;                                                                  \
    for (int64_t i = 0; i < bytes; i += 8 * (int64_t)sizeof(vec)) {                             \
      _Pragma("GCC unroll 8") for (int k = 0; k < 8; ++k) {                                     \
        const int64_t at = i + k * (int64_t)sizeof(vec);                                        \
        STEP;                                                                                   \
      }                                                                                         \
      KEEP;                                                                                     \
    }                                                                                           \
  }
#define AT(p) (*(vec *)((p) + at))
EACH(write_plain, AT(a) = one)
EACH(write_stream, stream(a + at, one))
EACH(copy_plain, AT(a) = AT(b))
EACH(copy_stream, stream(a + at, AT(b)))
EACH(triad_plain, AT(a) = AT(b) ^ (one & AT(c)))
EACH(triad_stream, stream(a + at, AT(b) ^ (one & AT(c))))
EACH(three_plain, AT(a) = AT(b) ^ AT(c) ^ AT(d))
EACH(three_stream, stream(a + at, AT(b) ^ AT(c) ^ AT(d)))
EACH(update_plain, AT(a) ^= one)

static void set_library(char *restrict a, char *restrict b, char *restrict c, char *restrict d, int64_t bytes) {
  memset(a, 1, (size_t)bytes);
}
static void copy_library(char *restrict a, char *restrict b, char *restrict c, char *restrict d, int64_t bytes) {
  memcpy(a, b, (size_t)bytes);
}

static pass *const PASSES[] = {
  read_wide,   read_narrow,  read_ahead,  read_four,    write_plain, write_stream, set_library, copy_plain,
  copy_stream, copy_library, triad_plain, triad_stream, three_plain, three_stream, update_plain,
};

/* size: threads, bytes of one array of one thread, passes, pattern, trials.  array: memory of all threads, the best time. */
int bandwidth(const int64_t *size, void *const *array) {
  const int64_t threads = size[0], bytes = size[1], passes = size[2], trials = size[4];
  pass *const run = PASSES[size[3]];
  double best = 1e30;
#pragma omp parallel num_threads(threads)
  {
    int64_t me = 0;
#pragma omp for schedule(static, 1)
    for (int64_t k = 0; k < threads; ++k) me = k;
    /* the arrays of a thread begin at different places of a page */
    char *const a = (char *)array[0] + me * (4 * bytes + 8192), *const b = a + bytes + 1088, *const c = b + bytes + 1088,
                *const d = c + bytes + 1088;
    run(a, b, c, d, bytes);
    for (int64_t trial = 0; trial < trials; ++trial) {
#pragma omp barrier
      const double start = now();
      for (int64_t k = 0; k < passes; ++k) {
        run(a, b, c, d, bytes);
        KEEP;
      }
#pragma omp barrier
      if (me == 0) {
        const double spent = now() - start;
        if (spent < best) best = spent;
      }
    }
  }
  *(double *)array[1] = best;
  return 0;
}

/* Sixteen independent chains in registers, so that no result is waited for. */
#define CHAINS 16
#define ARITHMETIC(NAME, T, W, STEP)                                                            \
  static __attribute__((noinline)) void NAME(T *memory, int64_t steps) {                        \
    typedef T v __attribute__((vector_size(W), may_alias));                                     \
    v *const m = (v *)memory;                                                                   \
    const v a = m[0], b = m[1];                                                                 \
    v x[CHAINS];                                                                                \
    _Pragma("GCC unroll 16") for (int k = 0; k < CHAINS; ++k) x[k] = m[2 + k];                  \
    for (int64_t i = 0; i < steps; ++i) {                                                       \
      _Pragma("GCC unroll 16") for (int k = 0; k < CHAINS; ++k) { STEP; }                       \
      __asm__ volatile("");                                                                     \
    }                                                                                           \
    _Pragma("GCC unroll 16") for (int k = 0; k < CHAINS; ++k) m[2 + k] = x[k];                  \
  }
#if defined(__AVX512F__)
#define MAX_float(x, y) ((v)_mm512_max_ps((__m512)(x), (__m512)(y)))
#define MAX_double(x, y) ((v)_mm512_max_pd((__m512d)(x), (__m512d)(y)))
#elif defined(__AVX__)
#define MAX_float(x, y) ((v)_mm256_max_ps((__m256)(x), (__m256)(y)))
#define MAX_double(x, y) ((v)_mm256_max_pd((__m256d)(x), (__m256d)(y)))
#else
#define MAX_float(x, y) ((x) + (y))
#define MAX_double(x, y) ((x) + (y))
#endif
#define MIXES(T)                                                                                \
  ARITHMETIC(fma_##T, T, WIDTH, x[k] = x[k] * a + b)                                            \
  ARITHMETIC(fma_narrow_##T, T, WIDTH / 2, x[k] = x[k] * a + b)                                 \
  ARITHMETIC(mul_##T, T, WIDTH, x[k] = x[k] * a)                                                \
  ARITHMETIC(add_##T, T, WIDTH, x[k] = x[k] + b)                                                \
  ARITHMETIC(fma_add_##T, T, WIDTH, if (k & 1) x[k] = x[k] * a + b; else x[k] = x[k] + b)       \
  ARITHMETIC(fma_add_narrow_##T, T, WIDTH / 2, if (k & 1) x[k] = x[k] * a + b; else x[k] = x[k] + b) \
  ARITHMETIC(fma2_add_##T, T, WIDTH, if (k & 3) x[k] = x[k] * a + b; else x[k] = x[k] + b)      \
  ARITHMETIC(fma_max_##T, T, WIDTH, if (k & 1) x[k] = x[k] * a + b; else x[k] = MAX_##T(x[k], b)) \
  ARITHMETIC(fma_add_max_##T, T, WIDTH,                                                         \
             if (k & 1) x[k] = x[k] * a + b; else if (k & 2) x[k] = x[k] + b; else x[k] = MAX_##T(x[k], b))
MIXES(float)
MIXES(double)

/* The least that an exp costs: x = (n + r) log 2, a parabola for 2^r, and n added to the exponent's bits. */
#define BARE(NAME, T, I, MAGIC, SHIFT)                                                          \
  static __attribute__((noinline)) void NAME(T *memory, int64_t steps) {                        \
    typedef T v __attribute__((vector_size(WIDTH), may_alias));                                 \
    typedef I m __attribute__((vector_size(WIDTH), may_alias));                                 \
    v *const x = (v *)memory, *const y = x + CHAINS;                                            \
    const v scale = y[CHAINS], c0 = y[CHAINS + 1], c1 = y[CHAINS + 2], c2 = y[CHAINS + 3];      \
    for (int64_t i = 0; i < steps; ++i) {                                                       \
      _Pragma("GCC unroll 16") for (int k = 0; k < CHAINS; ++k) {                               \
        const v t = x[k] * scale + MAGIC, r = x[k] * scale - (t - MAGIC);                       \
        y[k] = (v)((m)((r * c2 + c1) * r + c0) + ((m)t << SHIFT));                              \
      }                                                                                         \
      KEEP;                                                                                     \
    }                                                                                           \
  }
BARE(bare_float, float, int32_t, 0x1.8p23f, 23)
BARE(bare_double, double, int64_t, 0x1.8p52, 52)

/* Functions as this backend computes them (their text comes before this one). */
#define FUNCTION(NAME, T, V, CALL)                                                              \
  static __attribute__((noinline)) void NAME(T *memory, int64_t steps) {                        \
    V *const x = (V *)memory, *const y = x + CHAINS;                                            \
    for (int64_t i = 0; i < steps; ++i) {                                                       \
      for (int k = 0; k < CHAINS; k += 4) {                                                     \
        y[k] = CALL(x[k]), y[k + 1] = CALL(x[k + 1]), y[k + 2] = CALL(x[k + 2]), y[k + 3] = CALL(x[k + 3]); \
      }                                                                                         \
      KEEP;                                                                                     \
    }                                                                                           \
  }
FUNCTIONS

typedef void work(void *memory, int64_t steps);
static work *const WORK[] = {
#define TABLE(T)                                                                                \
  (work *)fma_##T, (work *)fma_narrow_##T, (work *)mul_##T, (work *)add_##T, (work *)fma_add_##T, \
  (work *)fma_add_narrow_##T, (work *)fma2_add_##T, (work *)fma_max_##T, (work *)fma_add_max_##T, (work *)bare_##T
  TABLE(float), TABLE(double), FUNCTION_TABLE
};

/* size: threads, steps, which, trials.  array: 8 KiB of numbers a thread, the best time. */
int arithmetic(const int64_t *size, void *const *array) {
  const int64_t threads = size[0], steps = size[1], trials = size[3];
  work *const run = WORK[size[2]];
  double best = 1e30;
#pragma omp parallel num_threads(threads)
  {
    int64_t me = 0;
#pragma omp for schedule(static, 1)
    for (int64_t k = 0; k < threads; ++k) me = k;
    void *const memory = (char *)array[0] + me * 8192;
    for (int64_t trial = 0; trial < trials; ++trial) {
#pragma omp barrier
      const double start = now();
      run(memory, steps);
#pragma omp barrier
      if (me == 0) {
        const double spent = now() - start;
        if (spent < best) best = spent;
      }
    }
  }
  *(double *)array[1] = best;
  return 0;
}

/* A kernel that does nothing. */
int empty(const int64_t *size, void *const *array) { return 0; }

/* size: threads, trials.  array: the best time of entering and leaving a parallel region. */
int region(const int64_t *size, void *const *array) {
  double best = 1e30;
  const double begun = now();
  for (int64_t trial = 0; trial < size[1] && now() < begun + 0.3; ++trial) {
    const double start = now();
#pragma omp parallel num_threads(size[0])
    { KEEP; }
    const double spent = now() - start;
    if (spent < best) best = spent;
  }
  *(double *)array[0] = best;
  return 0;
}
