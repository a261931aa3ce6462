// SPDX-License-Identifier: BSD-3-Clause
// A vector whose first N elements live inside the object: shapes, strides, cuts and operand lists
// are short, and recording or lowering an op must hardly allocate. Elements beyond the size stay
// constructed, so they are for types that are cheap to have: numbers, and small structs of them.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>

namespace nntile {

template <class T, size_t N>
class SmallVector {
    static_assert(std::is_nothrow_default_constructible_v<T> &&
                  std::is_nothrow_move_assignable_v<T>);

public:
    using value_type = T;
    using iterator = T*;
    using const_iterator = const T*;

    SmallVector() = default;
    explicit SmallVector(size_t n, const T& value = T{}) { assign(n, value); }
    SmallVector(std::initializer_list<T> list) { append(list.begin(), list.end()); }
    SmallVector(std::span<const T> list) { append(list.begin(), list.end()); }
    template <class It>
    SmallVector(It first, It last) {
        append(first, last);
    }
    SmallVector(const SmallVector& other) { append(other.begin(), other.end()); }
    SmallVector(SmallVector&& other) noexcept { take(other); }
    ~SmallVector() { drop(); }
    SmallVector& operator=(const SmallVector& other) {
        if (this != &other) {
            size_ = 0;
            append(other.begin(), other.end());
        }
        return *this;
    }
    SmallVector& operator=(SmallVector&& other) noexcept {
        if (this != &other) {
            drop();
            take(other);
        }
        return *this;
    }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    T* begin() { return data_; }
    T* end() { return data_ + size_; }
    const T* begin() const { return data_; }
    const T* end() const { return data_ + size_; }
    std::reverse_iterator<const T*> rbegin() const {
        return std::reverse_iterator<const T*>(end());
    }
    std::reverse_iterator<const T*> rend() const {
        return std::reverse_iterator<const T*>(begin());
    }
    T& operator[](size_t i) {
        assert(i < size_);
        return data_[i];
    }
    const T& operator[](size_t i) const {
        assert(i < size_);
        return data_[i];
    }
    T& front() { return (*this)[0]; }
    const T& front() const { return (*this)[0]; }
    T& back() { return (*this)[size_ - 1]; }
    const T& back() const { return (*this)[size_ - 1]; }

    void clear() { size_ = 0; }
    void reserve(size_t n) {
        if (n > capacity_) grow(n);
    }
    void push_back(T value) {
        if (size_ == capacity_) grow(size_ + 1);
        data_[size_++] = std::move(value);
    }
    T& emplace_back() {
        push_back(T{});
        return back();
    }
    void pop_back() {
        assert(size_ > 0);
        --size_;
    }
    void resize(size_t n, T value = T{}) {
        reserve(n);
        for (size_t i = size_; i < n; ++i) data_[i] = value;
        size_ = static_cast<uint32_t>(n);
    }
    void assign(size_t n, T value) {
        size_ = 0;
        resize(n, value);
    }
    template <class It>
    void append(It first, It last) {
        reserve(size_ + static_cast<size_t>(std::distance(first, last)));
        for (; first != last; ++first) data_[size_++] = static_cast<T>(*first);
    }
    void insert(size_t at, T value) {
        push_back(std::move(value));
        std::rotate(begin() + at, end() - 1, end());
    }
    void erase(size_t at) {
        assert(at < size_);
        std::move(begin() + at + 1, end(), begin() + at);
        --size_;
    }

    operator std::span<const T>() const { return {data_, size_}; }
    friend bool operator==(const SmallVector& a, const SmallVector& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
    }

private:
    void grow(size_t n) {
        size_t capacity = std::max<size_t>(n, size_t{capacity_} * 2);
        T* fresh = new T[capacity];
        std::move(begin(), end(), fresh);
        drop();
        data_ = fresh;
        capacity_ = static_cast<uint32_t>(capacity);
    }
    void drop() {
        if (data_ != inline_) delete[] data_;
    }
    void take(SmallVector& other) {
        size_ = other.size_;
        if (other.data_ == other.inline_) {
            data_ = inline_;
            capacity_ = N;
            std::move(other.begin(), other.end(), data_);
        } else {
            data_ = other.data_;
            capacity_ = other.capacity_;
            other.data_ = other.inline_;
            other.capacity_ = N;
        }
        other.size_ = 0;
    }

    T* data_ = inline_;
    uint32_t size_ = 0;
    uint32_t capacity_ = N;
    T inline_[N];
};

using Dims = SmallVector<int64_t, 6>;

}  // namespace nntile
