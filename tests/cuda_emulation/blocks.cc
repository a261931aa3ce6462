// SPDX-License-Identifier: BSD-3-Clause
#include "blocks.hh"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "settings.hh"

#if !defined(__x86_64__)
#error "the switch from fiber to fiber is written for x86-64"
#endif

// Saves what a callee must keep, and goes on with another stack.
extern "C" void emulation_switch(void** save, void* to);
asm(R"(
.text
.globl emulation_switch
.hidden emulation_switch
.type emulation_switch,@function
emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace emulation {

namespace {

Control* current;
std::byte* all_stacks;

void fiber_main() {
    Control& c = *current;
    c.kernel->invoke(c.storage);
    Fiber& me = c.fibers[c.running];
    me.state = State::done;
    emulation_switch(&me.stack_pointer, c.main_stack_pointer);
    __builtin_trap();
}

void wait_as(State state, uint32_t mask) {
    Control& c = *current;
    Fiber& me = c.fibers[c.running];
    me.state = state;
    me.mask = mask;
    emulation_switch(&me.stack_pointer, c.main_stack_pointer);
}

// Lanes of a mask that all wait, or have ended, go on.
void release_warp(Control& c, uint32_t thread) {
    const uint32_t warp = thread / 32 * 32, mask = c.fibers[thread].mask;
    const uint32_t lanes = std::min(32u, c.threads - warp);
    const auto waits = [&](const Fiber& f) { return f.state == State::warp && f.mask == mask; };
    for (uint32_t lane = 0; lane < lanes; ++lane) {
        const Fiber& f = c.fibers[warp + lane];
        if ((mask >> lane & 1) && f.state != State::done && !waits(f)) return;
    }
    for (uint32_t lane = 0; lane < lanes; ++lane) {
        Fiber& f = c.fibers[warp + lane];
        if ((mask >> lane & 1) && f.state == State::warp) f.state = State::ready;
    }
}

void begin_block(Control& c, uint3 block) {
    c.threads = c.block.x * c.block.y * c.block.z;
    std::memset(c.shared_bytes, 0xff, c.shared);  // what nobody has written is no number
    for (uint32_t t = 0; t < c.threads; ++t) {
        Fiber& f = c.fibers[t];
        const uint3 at{t % c.block.x, t / c.block.x % c.block.y, t / c.block.x / c.block.y};
        f.view = {at, block, c.block, c.grid, c.shared_bytes, &c.exchange[t / 32 * 32], t % 32};
        auto* top = reinterpret_cast<void**>(all_stacks + (t + 1) * stack_bytes);
        top[-2] = reinterpret_cast<void*>(fiber_main);
        f.stack_pointer = top - 8;
        f.state = State::ready;
    }
}

// One after the other from `first`, each once: a step without a divisor in common with their
// number.
template <class Number>
Number step_among(Number count, uint64_t& seed) {
    if (!settings().shuffle || count <= 2) return 1;
    Number step = 0;
    do step = static_cast<Number>(draw(seed) % (count - 1)) + 1;
    while (std::gcd(step, count) != 1);
    return step;
}

// As far as its lanes can; how many have ended. -1: nobody could move.
int run_warp(Control& c, uint32_t begin) {
    const uint32_t lanes = std::min(32u, c.threads - begin);
    int ended = -1;
    for (bool again = true; again;) {
        again = false;
        const auto turn = static_cast<uint32_t>(settings().shuffle ? draw(c.seed) : 0);
        for (uint32_t i = 0; i < lanes; ++i) {
            const uint32_t t = begin + (lanes == 32 ? (i * (turn >> 8 | 1) + turn) % 32 : i);
            Fiber& f = c.fibers[t];
            if (f.state != State::ready) continue;
            again = true;
            ended = std::max(ended, 0);
            c.running = t;
            emulation_thread = &f.view;
            emulation_switch(&c.main_stack_pointer, f.stack_pointer);
            if (f.state == State::done) ++ended;
            if (f.state == State::warp) release_warp(c, t);
        }
    }
    return ended;
}

// Nobody can move: lanes wait for one that has ended, or all for the barrier. False: for nothing.
bool open_barrier(Control& c, uint3 block) {
    bool moved = false;
    for (uint32_t t = 0; t < c.threads; ++t) {
        if (c.fibers[t].state != State::warp) continue;
        release_warp(c, t);
        moved = moved || c.fibers[t].state == State::ready;
    }
    if (moved) return true;
    for (uint32_t t = 0; t < c.threads; ++t) {
        Fiber& f = c.fibers[t];
        if (f.state == State::warp) {
            c.status = cudaErrorLaunchFailure;
            set_text(c, "%s: thread %u of block %u waits for lanes of mask %#x that never come",
                     c.kernel->name, t, block.x, f.mask);
            return false;
        }
        if (f.state == State::barrier) f.state = State::ready;
    }
    return true;
}

bool run_block(Control& c, uint3 block) {
    begin_block(c, block);
    const uint32_t warps = (c.threads + 31) / 32;
    for (uint32_t left = c.threads; left > 0;) {
        bool moved = false;
        uint32_t warp = settings().shuffle ? static_cast<uint32_t>(draw(c.seed) % warps) : 0;
        const uint32_t step = step_among(warps, c.seed);
        for (uint32_t w = 0; w < warps; ++w, warp = (warp + step) % warps) {
            const int ended = run_warp(c, warp * 32);
            if (ended < 0) continue;
            moved = true;
            left -= static_cast<uint32_t>(ended);
        }
        if (!moved && left > 0 && !open_barrier(c, block)) return false;
    }
    return true;
}

}  // namespace

void make_stacks() {
    void* memory = mmap(nullptr, max_threads * stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    all_stacks = static_cast<std::byte*>(memory);
}
const std::byte* stacks() { return all_stacks; }
void set_engine(Control* control) { current = control; }
Control* engine() { return current; }

void set_text(Control& control, const char* format, ...) {
    va_list list;
    va_start(list, format);
    std::vsnprintf(control.text, sizeof control.text, format, list);
    va_end(list);
}

void run_kernel(Control& c) {
    current = &c;
    const uint64_t blocks = uint64_t{c.grid.x} * c.grid.y * c.grid.z;
    uint64_t at = settings().shuffle ? draw(c.seed) % blocks : 0;
    const uint64_t step = step_among(blocks, c.seed);
    for (uint64_t i = 0; i < blocks && c.status == 0; ++i, at = (at + step) % blocks) {
        const uint3 block{static_cast<uint32_t>(at % c.grid.x),
                          static_cast<uint32_t>(at / c.grid.x % c.grid.y),
                          static_cast<uint32_t>(at / c.grid.x / c.grid.y)};
        if (!run_block(c, block)) return;
    }
}

extern "C" {
Thread* emulation_thread;
void emulation_barrier() { wait_as(State::barrier, 0); }
void emulation_warp_barrier(uint32_t mask) { wait_as(State::warp, mask); }
}

}  // namespace emulation
