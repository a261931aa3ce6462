// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/sentinels.hh"

#include <algorithm>
#include <cstring>

#include "base/settings.hh"

namespace nntile::runtime {

bool Sentinels::wanted() { return settings().sentinels; }

Sentinels::Sentinels(const Run& run, uint32_t task, const Blocks& blocks) {
    const CompiledPlan& plan = *run.plan;
    const auto entries = plan.entries_of(task);
    for (uint32_t e = 0; e < entries.size(); ++e) {
        const Entry& entry = entries[e];
        const bool reads = entry.mode == STARPU_R;
        // Bytes from the start that the task may change.
        const int64_t written = reads ? 0 : plan.written_bytes[plan.tasks[task].first_entry + e];
        const std::byte* block = blocks[e];
        std::byte* end = const_cast<std::byte*>(block) + run.memory[entry.memory]->block_bytes();
        // The rest of the block is nobody's: give it known bytes.
        if (!reads)
            std::memset(const_cast<std::byte*>(block) + written, 0xa5,
                        static_cast<size_t>(end - block - written));
        kept_.push_back(
            {block + written, reads, {block + written, const_cast<const std::byte*>(end)}});
    }
}

const char* Sentinels::broken() const {
    for (const Kept& k : kept_)
        if (!std::equal(k.bytes.begin(), k.bytes.end(), k.from))
            return k.reads ? "a tile that the task only reads has changed"
                           : "the task wrote behind its tile";
    return nullptr;
}

}  // namespace nntile::runtime
