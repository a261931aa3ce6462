// SPDX-License-Identifier: BSD-3-Clause
// Words of the printed forms of all stages: how they are written, and a scanner that reads them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hh"
#include "base/small_vector.hh"

namespace nntile {

std::string quoted(std::string_view text);  // "a \"b\""
std::string word_or_quoted(
    std::string_view text);              // bare if it is a word: letters, digits, '_' and '.'
std::string text_of_real(double value);  // shortest text that reads back the same
std::string one_line(
    std::string_view text);  // for comments: control characters become spaces, ends trimmed

// Blanks between tokens are skipped, line ends are not: a line is one statement. Comments start
// with '#'.
class Scanner {
public:
    Scanner(std::string_view what, std::string_view text) : what_(what), text_(text) {}

    bool accept(std::string_view token);  // a word token does not match the start of a longer word
    void expect(std::string_view token);
    bool at(char c);  // the next character, not taken
    bool at_word();
    std::string word();
    std::string string();  // quoted
    std::string word_or_string();
    int64_t integer();
    uint64_t hexadecimal();  // "0x1f"
    uint32_t number();       // of a value, task, node, slot
    double real();
    Dims dims();            // "(2, 3)", "(4,)", "()"
    std::string comment();  // the rest of the line after '#'; "" if there is none
    void end_line();        // then skip_lines()
    void skip_lines();      // blank ones and comments
    void skip_block();      // the rest of "name {..}"
    bool at_end();
    int line() const { return line_; }

    template <class... Parts>
    [[noreturn]] void fail(const Parts&... parts) const {
        nntile::fail(Status::invalid_argument, what_, ", line ", line_, ": ", parts...);
    }

private:
    void blanks();
    [[noreturn]] void fail_expected(std::string_view wanted);
    template <class T>
    T from_chars(std::string_view wanted);

    std::string what_;
    std::string_view text_;
    size_t at_ = 0;
    int line_ = 1;
};

}  // namespace nntile
