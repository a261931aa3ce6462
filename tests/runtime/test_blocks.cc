// SPDX-License-Identifier: BSD-3-Clause
// Blocks of memory: free neighbours join, pages are counted, idle ones go back.
#include <cstring>
#include <random>

#include "check.hh"
#include "runtime/memory.hh"

using namespace nntile;
using namespace nntile::runtime::memory;

namespace {

constexpr int64_t mib = 1 << 20;

void one_size_serves_another() {
    Blocks blocks;
    std::vector<void*> many;
    for (int i = 0; i < 32; ++i) many.push_back(blocks.take(mib, Pages::any));
    CHECK(blocks.resident() == 32 * mib && blocks.idle() == 0);
    CHECK(!blocks.take(16 * mib, Pages::resident));
    for (int i = 0; i < 32; i += 2) blocks.give(many[static_cast<size_t>(i)], mib);
    CHECK(!blocks.take(2 * mib, Pages::resident));  // in pieces
    for (int i = 1; i < 32; i += 2) blocks.give(many[static_cast<size_t>(i)], mib);
    CHECK(blocks.idle() == 32 * mib);
    void* large = blocks.take(28 * mib, Pages::resident);
    CHECK(large && blocks.resident() == 32 * mib && blocks.idle() == 4 * mib);
    blocks.release(INT64_MAX);
    CHECK(blocks.resident() == 28 * mib && blocks.idle() == 0);
    blocks.give(large, 28 * mib);
    blocks.release(8 * mib);
    CHECK(blocks.idle() == 0 || blocks.resident() <= 20 * mib);
    blocks.release_regions();
    CHECK(blocks.resident() == 0);
}

// A place in a hole whose begin has no pages; no more goes back than is asked for.
void pages_inside_of_a_hole() {
    Blocks blocks;
    blocks.set_page(fine_page);
    void* first = blocks.take(2 * mib, Pages::any);
    void* second = blocks.take(4 * mib, Pages::any);
    blocks.give(first, 2 * mib);
    blocks.release(INT64_MAX);
    blocks.give(second, 4 * mib);
    blocks.release(mib);
    CHECK(blocks.resident() == 3 * mib && blocks.idle() == 3 * mib);
    CHECK(!blocks.take(4 * mib, Pages::resident));
    void* inside = blocks.take(3 * mib, Pages::resident);
    CHECK(inside && blocks.resident() == 3 * mib && blocks.idle() == 0);
    CHECK(blocks.take(2 * mib, Pages::any) != inside);
}

// Each block has bytes of its own; in the end nothing is left.
void random_sizes(int64_t page) {
    struct Held {
        unsigned char* block;
        int64_t bytes;
        unsigned char mark;
    };
    Blocks blocks;
    blocks.set_page(page);
    std::vector<Held> held;
    std::mt19937_64 random(3);
    int64_t taken = 0;
    for (int i = 0; i < 4000; ++i) {
        if (held.size() > 40 || (!held.empty() && random() % 3 == 0)) {
            std::swap(held[random() % held.size()], held.back());
            const Held h = held.back();
            held.pop_back();
            CHECK(h.block[0] == h.mark && h.block[h.bytes / 2] == h.mark &&
                  h.block[h.bytes - 1] == h.mark);
            blocks.give(h.block, h.bytes);
            taken -= h.bytes;
        } else {
            const int64_t bytes =
                class_bytes(class_of(static_cast<int64_t>(random() >> (41 + random() % 14))));
            auto* block = static_cast<unsigned char*>(blocks.take(bytes, Pages::any));
            const auto mark = static_cast<unsigned char>(i);
            block[0] = block[bytes / 2] = block[bytes - 1] = mark;
            held.push_back({block, bytes, mark});
            taken += bytes;
        }
        if (i % 500 == 0) blocks.release(4 * mib);
        CHECK(blocks.resident() >= taken && blocks.idle() <= blocks.resident());
    }
    for (const Held& h : held) blocks.give(h.block, h.bytes);
    CHECK(blocks.resident() == blocks.idle());
    blocks.release_regions();
    CHECK(blocks.resident() == 0 && blocks.idle() == 0);
}

}  // namespace

int main() {
    one_size_serves_another();
    pages_inside_of_a_hole();
    random_sizes(huge_page);
    random_sizes(fine_page);
    return test::result();
}
