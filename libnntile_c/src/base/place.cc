// SPDX-License-Identifier: BSD-3-Clause
#include "base/place.hh"

#include <map>
#include <mutex>
#include <vector>

#include "base/text.hh"

namespace nntile {

namespace {

// A text of ours; the others are of whoever gave `place_text`
constexpr Place own = Place{1} << 63;

struct Texts {
    std::mutex mutex;
    std::map<std::string, Place, std::less<>> places;
    std::vector<const std::string*> texts;
};
Texts& texts() {
    static auto* const t = new Texts;
    return *t;
}

}  // namespace

Place place_of(std::string_view text) {
    if (text.empty()) return 0;
    Texts& t = texts();
    std::lock_guard lock(t.mutex);
    auto at = t.places.find(text);
    if (at == t.places.end()) {
        at = t.places.emplace(text, own | t.texts.size()).first;
        t.texts.push_back(&at->first);
    }
    return at->second;
}

std::string text_of_place(Place place) {
    if (place & own) {
        Texts& t = texts();
        std::lock_guard lock(t.mutex);
        return one_line(*t.texts[place & ~own]);
    }
    const PlaceText text = place_text.load(std::memory_order_acquire);
    if (!place || !text) return "";
    char out[256] = "";
    text(place, out, sizeof out);
    return one_line(out);
}

}  // namespace nntile
