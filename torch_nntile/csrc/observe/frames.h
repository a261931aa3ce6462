// SPDX-License-Identifier: BSD-3-Clause
// Python's frames of this thread. The stub is not linked with Python: its functions are found where
// it runs in one.
#pragma once

#include <cstdint>
#include <string>

struct _frame;
struct PyCodeObject;

namespace torch_nntile {

// The innermost first, without Python's lock and without a reference: frames stay as they are as
// long as their thread is here. It knows how they lie in memory in some versions of Python. In a
// module that is ten deep it takes 0.03 us, by functions 0.8, and a thread beside which others
// compute in Python waits for the lock.
class FrameWalk {
public:
    static bool known();  // is it one of these versions
    FrameWalk();
    bool next();
    uintptr_t code = 0;  // address of the code object
    // Stands for the current one as long as the code lives; 0: it has no number
    uintptr_t instruction = 0;

private:
    const char* frame_ = nullptr;
};

// The same by functions that every version from 3.10 on has, with its lock as long as this object
// lives.
class PythonWalk {
public:
    static bool possible();  // this thread has met Python
    PythonWalk();
    ~PythonWalk();
    PythonWalk(const PythonWalk&) = delete;
    PythonWalk& operator=(const PythonWalk&) = delete;

    bool next();
    std::string file() const;
    int line() const;
    // Stands for the current one as long as the code lives; 0: it has no number
    uintptr_t instruction() const;
    void keep();  // the code object for ever, so that its address stays its own
    uintptr_t code = 0;

private:
    int lock_;
    _frame* frame_ = nullptr;
    PyCodeObject* object_ = nullptr;
    bool begun_ = false;
};

}  // namespace torch_nntile
