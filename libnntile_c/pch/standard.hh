// SPDX-License-Identifier: BSD-3-Clause
// Compiled once and put before each source of the core. Sources include what they use all the same:
// builds with a sanitizer or for a debugger go without (-Db_pch=false).
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
