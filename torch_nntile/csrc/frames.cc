// SPDX-License-Identifier: BSD-3-Clause
#include "frames.h"

#include <cstring>

struct _object;
struct _ts;

// As Python's headers have them. Weak: absent where no Python runs.
extern "C" {
#define OF_PYTHON __attribute__((weak, visibility("default")))
OF_PYTHON const char* Py_GetVersion();
OF_PYTHON int PyGILState_Ensure();
OF_PYTHON void PyGILState_Release(int state);
OF_PYTHON _ts* PyGILState_GetThisThreadState();
OF_PYTHON _frame* PyEval_GetFrame();
OF_PYTHON _frame* PyFrame_GetBack(_frame* frame);
OF_PYTHON PyCodeObject* PyFrame_GetCode(_frame* frame);
OF_PYTHON int PyFrame_GetLineNumber(_frame* frame);
OF_PYTHON int PyFrame_GetLasti(_frame* frame);  // from 3.11 on
OF_PYTHON _object* PyObject_GetAttrString(_object* object, const char* name);
OF_PYTHON const char* PyUnicode_AsUTF8AndSize(_object* text, intptr_t* size);
OF_PYTHON void PyErr_Clear();
OF_PYTHON void Py_IncRef(_object* object);
OF_PYTHON void Py_DecRef(_object* object);
#undef OF_PYTHON
}

namespace torch_nntile {

namespace {

// CPython 3.11, 64 bits: PyThreadState.cframe, _PyCFrame.current_frame, then _PyInterpreterFrame.
constexpr size_t chain_at = 56, current_at = 8, code_at = 32, previous_at = 48, instruction_at = 56;

const char* pointer_at(const char* base, size_t offset) {
    const char* value;
    std::memcpy(&value, base + offset, sizeof value);
    return value;
}

_object* object_of(void* p) { return static_cast<_object*>(p); }

}  // namespace

bool FrameWalk::known() {
    return sizeof(void*) == 8 && Py_GetVersion && std::strncmp(Py_GetVersion(), "3.11.", 5) == 0;
}

FrameWalk::FrameWalk() {
    const auto* thread = reinterpret_cast<const char*>(PyGILState_GetThisThreadState());
    if (thread) frame_ = pointer_at(pointer_at(thread, chain_at), current_at);
}

bool FrameWalk::next() {
    if (!frame_) return false;
    code = reinterpret_cast<uintptr_t>(pointer_at(frame_, code_at));
    instruction = reinterpret_cast<uintptr_t>(pointer_at(frame_, instruction_at));
    frame_ = pointer_at(frame_, previous_at);
    return true;
}

bool PythonWalk::possible() { return PyGILState_GetThisThreadState && PyGILState_GetThisThreadState(); }

PythonWalk::PythonWalk() : lock_(PyGILState_Ensure()) {}

PythonWalk::~PythonWalk() {
    if (object_) Py_DecRef(object_of(object_));
    if (frame_) Py_DecRef(object_of(frame_));
    PyGILState_Release(lock_);
}

bool PythonWalk::next() {
    _frame* next = nullptr;
    if (begun_) {
        next = PyFrame_GetBack(frame_);
        Py_DecRef(object_of(frame_));
        Py_DecRef(object_of(object_));
    } else if ((next = PyEval_GetFrame())) {
        Py_IncRef(object_of(next));
    }
    begun_ = next != nullptr;
    frame_ = next;
    object_ = next ? PyFrame_GetCode(next) : nullptr;
    code = reinterpret_cast<uintptr_t>(object_);
    return begun_;
}

std::string PythonWalk::file() const {
    std::string file;
    if (_object* name = PyObject_GetAttrString(object_of(object_), "co_filename")) {
        if (const char* text = PyUnicode_AsUTF8AndSize(name, nullptr)) file = text;
        Py_DecRef(name);
    }
    PyErr_Clear();  // a name that is no UTF-8
    return file;
}

// Addresses have 47 bits.
uintptr_t PythonWalk::instruction() const {
    const int at = PyFrame_GetLasti ? PyFrame_GetLasti(frame_) : line();
    return sizeof(void*) == 8 && at >= 0 && at < 0xffff ? code | (static_cast<uintptr_t>(at) + 1) << 48 : 0;
}

int PythonWalk::line() const { return PyFrame_GetLineNumber(frame_); }

void PythonWalk::keep() { Py_IncRef(object_of(object_)); }

}  // namespace torch_nntile
