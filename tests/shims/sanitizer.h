// What g++ calls under -fsanitize=bounds,signed-integer-overflow,integer-divide-by-zero, in place of its own library:
// a fault ends the launch, not the process. Included by simt.h.
#pragma once

struct SimtPlace { const char *file; unsigned line, column; };
#define SIMT_HANDLER(name, ...) \
  extern "C" __attribute__((weak, used, visibility("hidden"))) void __ubsan_handle_##name(SimtPlace *place, ##__VA_ARGS__)
SIMT_HANDLER(out_of_bounds, void *index) {
  simt::fail("line %u: index %lld is out of its array", place->line, static_cast<long long>(reinterpret_cast<intptr_t>(index)));
}
SIMT_HANDLER(add_overflow, void *, void *) { simt::fail("line %u: an integer sum overflows", place->line); }
SIMT_HANDLER(sub_overflow, void *, void *) { simt::fail("line %u: an integer difference overflows", place->line); }
SIMT_HANDLER(mul_overflow, void *, void *) { simt::fail("line %u: an integer product overflows", place->line); }
SIMT_HANDLER(negate_overflow, void *) { simt::fail("line %u: an integer's negative overflows", place->line); }
SIMT_HANDLER(divrem_overflow, void *, void *) { simt::fail("line %u: an integer division by zero", place->line); }
