// SPDX-License-Identifier: Apache-2.0
// Embeds the shared object made of counter.cpp, so that the command is one file.
__asm__(
    ".section .rodata\n"
    ".balign 16\n"
    ".globl vecdet_gate_counter_begin\n"
    "vecdet_gate_counter_begin:\n"
    ".incbin \"" VECDET_GATE_COUNTER
    "\"\n"
    ".globl vecdet_gate_counter_end\n"
    "vecdet_gate_counter_end:\n"
    ".byte 0\n"
    ".previous\n"
    ".section .note.GNU-stack,\"\",@progbits\n"
    ".previous\n");
