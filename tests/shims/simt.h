// Runs a GPU kernel's blocks on one CPU thread, one after the other; the threads of a block are fibers.
//
//   barrier            a fiber yields; when all threads of the block wait at the same line, all go on; else it is an error
//   warp operation     a fiber yields with its operands; when all lanes of the warp wait with the same one, it is done once
//   order              0: blocks, warps and lanes in order; 1: in reverse; else shuffled anew at every step, from this seed
//   shared memory      lies in a linker section of its own, filled with 0xff (nan) before each block
//   asynchronous copy  fills its target with 0xff at once, and copies when it is waited for
//   errors             the first one ends the launch; arrays' bounds and integer overflow are the sanitizer's
#pragma once
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fiber.h"

#ifndef SIMT_WARP
#define SIMT_WARP 32
#endif

namespace simt {
struct Dim { unsigned x = 0, y = 0, z = 0; };
enum class State : uint8_t { ready, barrier, warp, done };
struct Fiber;
using Operation = void (*)(Fiber *warp, unsigned lanes);
struct Copy { char *to; const char *from; unsigned bytes, group; };

constexpr unsigned kMostThreads = 1024, kSlots = 12, kCopies = 512;
constexpr size_t kStack = 128 << 10, kDynamic = 256 << 10;
constexpr uint64_t kCanary = 0x7a6e6f6973697221;

struct Fiber {
  void *stack_pointer;
  State state;
  Dim place;  // threadIdx
  unsigned lane, line;
  Operation operation;
  void *slot[kSlots];  // operands of the warp operation
  unsigned number;     // and one more: a lane to read from
  Copy copies[kCopies];
  unsigned pending, group;
};

inline Fiber *fibers = nullptr, *current = nullptr;
inline char *stacks = nullptr;
inline void *scheduler_pointer = nullptr;
inline void (*body)(void) = nullptr;
inline Dim block, blocks, threads;
inline char message[400];
alignas(1024) inline char dynamic_shared[kDynamic];

inline uint64_t random_state = 0;
inline uint64_t random_number() {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state;
}

inline void yield(State state) {
  current->state = state;
  simt_switch(&current->stack_pointer, scheduler_pointer);
}
inline void start() {
  body();
  yield(State::done);
  abort();
}

// Ends the launch with a message; the fiber is never gone on with.
[[noreturn]] inline void fail(const char *format, ...) {
  if (!message[0]) {
    int used = snprintf(message, sizeof message, "block %u,%u thread %u: ", block.x, block.y, current->place.x);
    va_list rest;
    va_start(rest, format);
    vsnprintf(message + used, sizeof message - used, format, rest);
    va_end(rest);
  }
  yield(State::done);
  abort();
}

// -- what threads do together
inline void block_barrier(unsigned line) {
  current->line = line;
  yield(State::barrier);
}
inline void warp_operation(unsigned line, Operation operation) {
  current->line = line, current->operation = operation;
  yield(State::warp);
}
inline void warp_barrier(unsigned line) {
  warp_operation(line, [](Fiber *, unsigned) {});
}
template <class T> T shuffle(unsigned line, T value, unsigned lane) {
  T result;
  current->slot[0] = &value, current->slot[1] = &result, current->number = lane;
  warp_operation(line, [](Fiber *warp, unsigned lanes) {
    for (unsigned l = 0; l < lanes; l++) {
      if (warp[l].number >= lanes) {
        if (!message[0]) snprintf(message, sizeof message, "line %u: a shuffle reads lane %u of %u", warp[l].line, warp[l].number, lanes);
        return;
      }
      memcpy(warp[l].slot[1], warp[warp[l].number].slot[0], sizeof(T));
    }
  });
  return result;
}

// -- asynchronous copies, in groups, of one thread
inline void copy_async(void *to, const void *from, unsigned bytes) {
  if (bytes != 4 && bytes != 8 && bytes != 16) fail("an asynchronous copy of %u bytes", bytes);
  if (reinterpret_cast<uintptr_t>(to) % bytes || reinterpret_cast<uintptr_t>(from) % bytes)
    fail("an asynchronous copy of %u bytes is not aligned", bytes);
  if (current->pending == kCopies) fail("more than %u asynchronous copies wait", kCopies);
  memset(to, 0xff, bytes);
  current->copies[current->pending++] = {static_cast<char *>(to), static_cast<const char *>(from), bytes, current->group};
}
inline void copy_commit() { current->group++; }
inline void copy_wait(unsigned newest) {  // all but the newest groups
  unsigned kept = 0;
  for (unsigned k = 0; k < current->pending; k++) {
    Copy &copy = current->copies[k];
    if (copy.group + newest < current->group) memcpy(copy.to, copy.from, copy.bytes);
    else current->copies[kept++] = copy;
  }
  current->pending = kept;
}

// -- the scheduler
extern "C" char __start_simt_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_simt_shared[] __attribute__((weak, visibility("hidden")));

inline void arrange(unsigned *order, unsigned count, unsigned seed) {
  for (unsigned k = 0; k < count; k++) order[k] = seed == 1 ? count - 1 - k : k;
  if (seed > 1)
    for (unsigned k = count; k > 1; k--) {
      unsigned other = random_number() % k, kept = order[k - 1];
      order[k - 1] = order[other], order[other] = kept;
    }
}
inline bool complain(const char *what, const Fiber *some, unsigned count, State state) {
  unsigned waiting = 0, line = 0, lines = 0;
  for (unsigned k = 0; k < count; k++)
    if (some[k].state == state) {
      if (!waiting++) line = some[k].line;
      else lines += some[k].line != line;
    }
  if (waiting == count && !lines) return false;
  if (!message[0])
    snprintf(message, sizeof message, "block %u,%u: %s at line %u: reached by %u of %u threads%s", block.x, block.y, what, line,
             waiting, count, lines ? ", some at another line" : "");
  return true;
}
// Run one warp until its lanes are done or wait for the block; whether it got anywhere.
inline bool run_warp(Fiber *warp, unsigned lanes, unsigned seed) {
  unsigned order[SIMT_WARP];
  for (bool moved = false;; moved = true) {
    bool ran = false;
    arrange(order, lanes, seed);
    for (unsigned k = 0; k < lanes && !message[0]; k++) {
      Fiber &fiber = warp[order[k]];
      if (fiber.state != State::ready) continue;
      current = &fiber, ran = true;
      simt_switch(&scheduler_pointer, fiber.stack_pointer);
    }
    unsigned waiting = 0;
    for (unsigned k = 0; k < lanes; k++) waiting += warp[k].state == State::warp;
    if (message[0] || !waiting) return moved || ran;
    if (complain("warp operation", warp, lanes, State::warp)) return true;
    Operation operation = warp[0].operation;
    for (unsigned k = 0; k < lanes; k++) warp[k].state = State::ready;
    operation(warp, lanes);
  }
}
inline void run_block(unsigned count, unsigned dynamic, unsigned seed) {
  unsigned warps = (count + SIMT_WARP - 1) / SIMT_WARP, order[kMostThreads];
  if (__start_simt_shared) memset(__start_simt_shared, 0xff, __stop_simt_shared - __start_simt_shared);
  memset(dynamic_shared, 0xff, dynamic);
  for (unsigned k = 0; k < count; k++) {
    Fiber &fiber = fibers[k];
    char *low = stacks + k * kStack;
    memcpy(low, &kCanary, sizeof kCanary);
    fiber.stack_pointer = first_frame(low + kStack - 64, start);
    fiber.state = State::ready, fiber.place = {k, 0, 0}, fiber.lane = k % SIMT_WARP, fiber.pending = fiber.group = 0;
  }
  for (;;) {
    bool moved = false;
    unsigned waiting = 0, done = 0;
    arrange(order, warps, seed);
    for (unsigned k = 0; k < warps && !message[0]; k++) {
      unsigned low = order[k] * SIMT_WARP, lanes = count - low < SIMT_WARP ? count - low : SIMT_WARP;
      moved |= run_warp(fibers + low, lanes, seed);
    }
    if (message[0]) return;
    for (unsigned k = 0; k < count; k++) waiting += fibers[k].state == State::barrier, done += fibers[k].state == State::done;
    if (done == count) break;
    if (waiting && complain("barrier", fibers, count, State::barrier)) return;
    for (unsigned k = 0; k < count; k++) fibers[k].state = State::ready;
    if (!waiting && !moved) {
      snprintf(message, sizeof message, "block %u,%u: no thread can go on", block.x, block.y);
      return;
    }
  }
  for (unsigned k = 0; k < count; k++)
    if (memcmp(stacks + k * kStack, &kCanary, sizeof kCanary)) snprintf(message, sizeof message, "a thread's stack overflowed");
}
// All blocks; an error's text or null. `run` reads its operands from globals that its caller has set.
inline const char *launch(Dim grid, unsigned count, unsigned dynamic, unsigned seed, void (*run)(void)) {
  message[0] = 0, body = run, blocks = grid, threads = {count, 1, 1}, random_state = 0x9e3779b97f4a7c15ull * (seed + 1);
  if (!count || count > kMostThreads) return "a block has 1 to 1024 threads";
  if (dynamic > kDynamic) return "too much dynamic shared memory";
  if (!fibers) {
    fibers = static_cast<Fiber *>(calloc(kMostThreads, sizeof(Fiber)));
    stacks = static_cast<char *>(aligned_alloc(4096, kMostThreads * kStack));
    if (!fibers || !stacks) return "no memory for the fibers";
  }
  unsigned total = grid.x * grid.y, *order = static_cast<unsigned *>(malloc(total * sizeof(unsigned)));
  arrange(order, total, seed);
  for (unsigned k = 0; k < total && !message[0]; k++) {
    block = {order[k] % grid.x, order[k] / grid.x, 0};
    run_block(count, dynamic, seed);
  }
  free(order);
  return message[0] ? message : nullptr;
}
}  // namespace simt

#include "sanitizer.h"
