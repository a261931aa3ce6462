// SPDX-License-Identifier: BSD-3-Clause
#include "base/text.hh"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace nntile {
namespace {

// Not <cctype>: the form must not depend on the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_word(char c) { return starts_word(c) || is_digit(c) || c == '.'; }

}  // namespace

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n') out += "\\n";
        else out += c;
    }
    return out + '"';
}

std::string word_or_quoted(std::string_view text) {
    bool word = !text.empty() && starts_word(text[0]);
    for (char c : text) word = word && in_word(c);
    return word ? std::string(text) : quoted(text);
}

std::string text_of_real(double value) {
    if (std::isnan(value)) return "nan";
    char buffer[40];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    return {buffer, end};
}

std::string one_line(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (static_cast<unsigned char>(c) < ' ') c = ' ';
    const size_t first = out.find_first_not_of(' ');
    if (first == std::string::npos) return {};
    return out.substr(first, out.find_last_not_of(' ') - first + 1);
}

void Scanner::blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r'))
        ++at_;
}

void Scanner::fail_expected(std::string_view wanted) {
    blanks();
    const size_t length = text_.substr(at_, 20).find('\n');
    const std::string_view got = text_.substr(at_, std::min<size_t>(length, 20));
    fail("expected ", wanted, ", got ",
         got.empty() ? "the end of the line" : "'" + std::string(got) + "'");
}

bool Scanner::accept(std::string_view token) {
    blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    const size_t next = at_ + token.size();
    if (in_word(token.back()) && next < text_.size() && in_word(text_[next])) return false;
    at_ = next;
    return true;
}

void Scanner::expect(std::string_view token) {
    if (!accept(token)) fail_expected("'" + std::string(token) + "'");
}

bool Scanner::at(char c) {
    blanks();
    return at_ < text_.size() && text_[at_] == c;
}

bool Scanner::at_word() {
    blanks();
    return at_ < text_.size() && starts_word(text_[at_]);
}

std::string Scanner::word() {
    if (!at_word()) fail_expected("a word");
    const size_t first = at_;
    while (at_ < text_.size() && in_word(text_[at_])) ++at_;
    return std::string(text_.substr(first, at_ - first));
}

std::string Scanner::string() {
    if (!at('"')) fail_expected("a text in quotes");
    std::string out;
    for (++at_; at_ < text_.size() && text_[at_] != '\n'; ++at_) {
        if (text_[at_] == '"') {
            ++at_;
            return out;
        }
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
            const char c = text_[++at_];
            out += c == 'n' ? '\n' : c;
        } else {
            out += text_[at_];
        }
    }
    fail("a quote is not closed");
}

std::string Scanner::word_or_string() { return at('"') ? string() : word(); }

template <class T>
T Scanner::from_chars(std::string_view wanted) {
    blanks();
    T value{};
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) fail("a number is too large");
    if (error != std::errc()) fail_expected(wanted);
    at_ += end - first;
    return value;
}

int64_t Scanner::integer() { return from_chars<int64_t>("an integer"); }
uint32_t Scanner::number() { return from_chars<uint32_t>("a number"); }
double Scanner::real() { return from_chars<double>("a real number"); }

uint64_t Scanner::hexadecimal() {
    blanks();
    if (text_.substr(at_, 2) != "0x") fail_expected("a number as 0x1f");
    at_ += 2;
    uint64_t value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value, 16);
    if (error != std::errc()) fail("expected a number as 0x1f of at most 64 bits");
    at_ += end - first;
    return value;
}

Dims Scanner::dims() {
    Dims out;
    expect("(");
    while (!accept(")")) {
        out.push_back(integer());
        if (!at(')')) expect(",");
    }
    return out;
}

std::string Scanner::comment() {
    if (!at('#')) return {};
    const size_t first = at_ + 1;
    at_ = std::min(text_.find('\n', at_), text_.size());
    return one_line(text_.substr(first, at_ - first));
}

void Scanner::end_line() {
    comment();
    if (!at_end() && text_[at_] != '\n') fail_expected("the end of the line");
    skip_lines();
}

void Scanner::skip_lines() {
    while (!at_end()) {
        if (text_[at_] == '\n') ++at_, ++line_;
        else if (text_[at_] == '#') comment();
        else break;
    }
}

void Scanner::skip_block() {
    const size_t end = text_.find('}', at_);
    if (end == std::string_view::npos) fail("a '}' is missing");
    line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + end, '\n'));
    at_ = end + 1;
    end_line();
}

bool Scanner::at_end() {
    blanks();
    return at_ == text_.size();
}

}  // namespace nntile
