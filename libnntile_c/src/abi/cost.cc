// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/cost.h"

#include "abi/guard.hh"
#include "tile/cost.hh"

using namespace nntile;
using namespace nntile::abi;

nntile_status nntile_cost_set(const char* text, nntile_error** error) {
    return guard(error, [&] {
        const std::string_view constants = text ? text : "";
        if (constants.empty()) tile::reset_cost();
        else tile::set_cost(tile::parse_machine(constants));
    });
}

nntile_status nntile_cost_text(char** text, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_cost_text", "text");
        *text = copy_text(tile::print(tile::cost()->machine));
    });
}
