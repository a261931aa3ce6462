// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>

namespace nntile::test {

// How often test::run() has run this kernel on the device of a program that links on_device.cc.
int64_t calls_on_device(const std::string& name);

}  // namespace nntile::test
