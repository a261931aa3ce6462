// SPDX-License-Identifier: BSD-3-Clause
#include "observe/places.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nntile/nntile.h"
#include "nntile/trace.h"
#include "observe/frames.h"

namespace torch_nntile {
namespace {

enum : uint32_t { unknown = 0, library = 1, user = 2, first_line = 3 };
constexpr size_t most_codes = 1 << 16;  // a notebook makes one for each cell that runs

// Of code objects (library or user) and of instructions (lines). What is in a table stays as it is.
struct Tables {
    std::mutex mutex;  // a leaf: taken with Python's lock, and never the other way round
    std::unordered_map<uintptr_t, uint32_t> known;
    std::unordered_map<std::string, uint32_t> numbers;
    std::vector<std::string> lines = std::vector<std::string>(first_line);
    std::map<std::string, uint32_t> module_numbers;
    std::vector<std::string> modules = std::vector<std::string>(1);
    std::vector<std::string> folders, exceptions;
    std::string here;  // left out of lines
    size_t codes = 0;
};
Tables& tables() {
    static auto* const t = new Tables;
    return *t;
}

enum class Way { none, fast, slow };
std::atomic<Way> way{Way::none};
std::atomic<bool> full{false};
thread_local uint32_t module_now = 0;

// What this thread has seen lately, so that a call needs no lock.
struct Seen {
    static constexpr size_t size = 2048;
    std::array<uintptr_t, size> key;
    std::array<uint32_t, size> value;
    static size_t index_of(uintptr_t key) { return (key >> 1 ^ key >> 12) % size; }
};
thread_local constinit Seen seen{};

uint32_t look_up(uintptr_t key) {
    const size_t k = Seen::index_of(key);
    if (seen.key[k] == key) [[likely]]
        return seen.value[k];
    Tables& t = tables();
    std::lock_guard lock(t.mutex);
    const auto at = t.known.find(key);
    if (at == t.known.end()) return unknown;
    seen.key[k] = key;
    return seen.value[k] = at->second;
}

bool is_users(const Tables& t, const std::string& file) {
    const auto is_in = [&file](const std::string& folder) { return file.starts_with(folder); };
    if (std::any_of(t.exceptions.begin(), t.exceptions.end(), is_in)) return true;
    return !std::any_of(t.folders.begin(), t.folders.end(), is_in);
}

// The first line of the user's, by Python's functions; learns what it meets on the way.
uint32_t learn(uintptr_t& code) {
    if (!PythonWalk::possible()) return unknown;
    PythonWalk walk;
    Tables& t = tables();
    while (walk.next()) {
        uint32_t kind = look_up(walk.code);
        if (kind == unknown) {
            if (full.load(std::memory_order_relaxed)) return unknown;
            const std::string file = walk.file();
            std::lock_guard lock(t.mutex);
            kind = is_users(t, file) ? user : library;
            if (t.known.emplace(walk.code, kind).second) {
                walk.keep();
                full = ++t.codes == most_codes;
            }
        }
        if (kind == library) continue;
        code = walk.code;
        const uintptr_t instruction = walk.instruction();
        if (const uint32_t line = instruction ? look_up(instruction) : unknown) return line;
        std::string text = walk.file() + ":" + std::to_string(walk.line());
        std::lock_guard lock(t.mutex);
        if (!t.here.empty() && text.starts_with(t.here)) text.erase(0, t.here.size());
        const auto [at, fresh] = t.numbers.try_emplace(text, static_cast<uint32_t>(t.lines.size()));
        if (fresh) t.lines.push_back(text);
        if (instruction) t.known.emplace(instruction, at->second);
        return at->second;
    }
    return unknown;
}

uint32_t line_now() {
    const Way how = way.load(std::memory_order_relaxed);
    if (how == Way::none) return unknown;
    uintptr_t code = 0;
    if (how == Way::slow) return learn(code);
    FrameWalk walk;
    while (walk.next()) {
        const uint32_t kind = look_up(walk.code);
        if (kind == library) continue;
        uint32_t line = kind == user && walk.instruction ? look_up(walk.instruction) : unknown;
        if (line != unknown) return line;
        line = learn(code);
        if (line == unknown) return line;
        while (walk.code != code && walk.next()) {
        }
        Tables& t = tables();
        std::lock_guard lock(t.mutex);
        if (walk.code == code && walk.instruction) t.known.emplace(walk.instruction, line);
        return line;
    }
    return unknown;
}

// Forward ops, by what autograd calls their node. An old one is lost to a new one in its place.
struct Forward {
    std::atomic<uint64_t> node{0};
    std::atomic<PlaceNumber> place{0};
};
constexpr size_t forwards = 1 << 16;
Forward forward[forwards];
thread_local uint64_t last_number = UINT64_MAX;

uint64_t node_of(uint64_t number, uint64_t thread) { return (number + 1) << 16 ^ thread; }

// Autograd makes the node right before it calls the kernel, so the first call after that is the
// node's. Functions of the user's run without gradients, so whether those are on says nothing.
void remember(PlaceNumber place) {
    const uint64_t number = at::sequence_number::peek();
    if (number == last_number || number == 0) return;
    last_number = number;
    Forward& f = forward[(number - 1) % forwards];
    f.node.store(0, std::memory_order_relaxed);
    f.place.store(place, std::memory_order_release);
    f.node.store(node_of(number - 1, at::RecordFunction::currentThreadId()),
                 std::memory_order_release);
}

PlaceNumber place_of_backward(const torch::autograd::Node& node) {
    const uint64_t number = node.sequence_nr();
    const Forward& f = forward[number % forwards];
    if (f.node.load(std::memory_order_acquire) != node_of(number, node.thread_id())) return 0;
    return f.place.load(std::memory_order_acquire) | backward_bit;
}

size_t text_for_library(uint64_t place, char* out, size_t size) {
    const std::string text = text_of(place);
    if (size) {
        const size_t n = std::min(size - 1, text.size());
        text.copy(out, n);
        out[n] = 0;
    }
    return text.size();
}

// Whether both walks find the same here.
bool walks_agree() {
    if (!FrameWalk::known() || !PythonWalk::possible()) return false;
    FrameWalk fast;
    std::vector<uintptr_t> codes;
    {
        PythonWalk slow;
        while (slow.next()) codes.push_back(slow.code);
    }
    return !codes.empty() && std::all_of(codes.begin(), codes.end(), [&fast](uintptr_t code) {
        return fast.next() && fast.code == code;
    }) && !fast.next();
}

}  // namespace

PlaceNumber place_now() {
    const PlaceNumber module = PlaceNumber{module_now} << module_shift;
    if (const auto node = torch::autograd::get_current_node()) [[unlikely]]
        if (const PlaceNumber place = place_of_backward(*node)) return place;
    const PlaceNumber place = module | line_now();
    remember(place);
    return place;
}

bool start_places(const char* folders, int fast) {
    Tables& t = tables();
    {
        std::lock_guard lock(t.mutex);
        t.folders.clear();
        t.exceptions.clear();
        std::string rest = folders;
        while (!rest.empty()) {
            const std::string line = rest.substr(0, rest.find('\n'));
            rest.erase(0, line.size() + 1);
            if (line.starts_with('=')) t.here = line.substr(1);
            else if (line.starts_with('+')) t.exceptions.push_back(line.substr(1));
            else if (!line.empty()) t.folders.push_back(line);
        }
    }
    const bool agree = fast > 0 && walks_agree();
    way = agree ? Way::fast : PythonWalk::possible() ? Way::slow : Way::none;
    nntile_trace_places(&text_for_library);
    return agree;
}

std::string line_of(PlaceNumber place) {
    Tables& t = tables();
    std::lock_guard lock(t.mutex);
    const size_t line = place & line_mask;
    return line < t.lines.size() ? t.lines[line] : "";
}

std::string module_of(PlaceNumber place) {
    Tables& t = tables();
    std::lock_guard lock(t.mutex);
    const size_t module = place >> module_shift;
    return module < t.modules.size() ? t.modules[module] : "";
}

std::string text_of(PlaceNumber place) {
    std::string text = line_of(place);
    if (!text.empty() && place & backward_bit) text = "backward of " + text;
    const std::string module = module_of(place);
    return text + (text.empty() || module.empty() ? "" : ", in ") + module;
}

uint32_t module_number(const char* name) {
    if (!*name) return 0;
    Tables& t = tables();
    std::lock_guard lock(t.mutex);
    const auto [at, fresh] =
        t.module_numbers.try_emplace(name, static_cast<uint32_t>(t.modules.size()));
    if (fresh) t.modules.push_back(name);
    return at->second;
}

void enter_module(uint32_t module) { module_now = module; }

}  // namespace torch_nntile
