// SPDX-License-Identifier: BSD-3-Clause
// The process that is a device: it has the device's memory at the same addresses as the host's
// process, where nobody may touch it, and of the host's memory it sees nothing.
#pragma once

#include <sys/types.h>

#include "blocks.hh"

namespace emulation {

inline constexpr uintptr_t first_address = 0x200000000000, address_step = uintptr_t{1} << 38;

pid_t make_process(Control* control);
// Gives it a request, and waits for the answer, or for its end.
void ask(Control& control, pid_t process);
// For the host's process: whoever touches memory of a device is named.
void watch_host();

}  // namespace emulation
