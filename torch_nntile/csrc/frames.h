// SPDX-License-Identifier: BSD-3-Clause
// Python's frames of this thread. The stub is not linked with Python: its functions are found where it runs in one.
#pragma once

#include <cstdint>
#include <string>

struct _frame;
struct PyCodeObject;

namespace torch_nntile {

// The innermost first, without Python's lock and without a reference: frames stay as they are as long as their
// thread is here. It knows the layout of frames in one version of Python; a thread beside which another one computes in
// Python would wait for the lock at each call.
class FrameWalk {
public:
    static bool known();  // is it this version
    FrameWalk();
    bool next();
    uintptr_t code = 0;         // address of the code object
    uintptr_t instruction = 0;  // address of the current instruction, which lies in the code object

private:
    const char* frame_ = nullptr;
};

// The same by functions that every version from 3.10 on has, with its lock as long as this object lives.
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
    uintptr_t instruction() const;  // stands for the current one as long as the code lives; 0: it has no number
    void keep();  // the code object for ever, so that its address stays its own
    uintptr_t code = 0;

private:
    int lock_;
    _frame* frame_ = nullptr;
    PyCodeObject* object_ = nullptr;
    bool begun_ = false;
};

}  // namespace torch_nntile
