// Switching stacks: the callee-saved registers are pushed, the stack pointers exchanged, the registers popped.
//
//   simt_switch(&mine, other)     goes on where `other` was left, and leaves `mine` to be gone on with
//   first_frame(top, start)       a stack that begins with start(), which must not return
#pragma once

namespace simt {
extern "C" void simt_switch(void **save, void *load);
#if defined(__x86_64__)
asm(R"(
.text
.weak simt_switch
simt_switch:
  pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
  movq %rsp, (%rdi); movq %rsi, %rsp
  popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
  ret
)");
inline void *first_frame(char *top, void (*start)()) {
  void **frame = reinterpret_cast<void **>(top);
  *--frame = nullptr, *--frame = reinterpret_cast<void *>(start);
  for (int k = 0; k < 6; k++) *--frame = nullptr;
  return frame;
}
#elif defined(__aarch64__)
asm(R"(
.text
.weak simt_switch
simt_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]
  mov x9, sp; str x9, [x0]; mov sp, x1
  ldp x19, x20, [sp, #0]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]; ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
  add sp, sp, #160; ret
)");
inline void *first_frame(char *top, void (*start)()) {
  void **frame = reinterpret_cast<void **>(top) - 20;
  for (int k = 0; k < 20; k++) frame[k] = nullptr;
  frame[11] = reinterpret_cast<void *>(start);
  return frame;
}
#else
#error "the host shim knows x86-64 and aarch64"
#endif
}  // namespace simt
