// SPDX-License-Identifier: BSD-3-Clause
#include "observe/frames.h"

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

// How frames lie in memory, 64 bits, with the lock of the interpreter.
struct Frames {
    const char* version;
    size_t thread;  // in PyThreadState: the innermost frame, or what points to it
    int chain;      // where that does; -1: it is the frame
    size_t code, previous;
    size_t instruction;
    bool numbered;  // the instruction is a number, else an address in the code object
    int owner;      // says whose a frame is; -1: always Python's
};
constexpr Frames known_frames[] = {
    {"3.10.", 24, -1, 32, 24, 96, true, -1},
    {"3.11.", 56, 8, 32, 48, 56, false, -1},
    {"3.12.", 56, 0, 0, 8, 56, false, 70},
    {"3.13.", 72, -1, 0, 8, 56, false, 70},
};
constexpr char owned_by_c = 3;  // an entry into the interpreter

const Frames* frames_of(const char* version) {
    if (sizeof(void*) != 8 || std::strstr(version, "free-threading")) return nullptr;
    for (const Frames& f : known_frames)
        if (std::strncmp(version, f.version, std::strlen(f.version)) == 0) return &f;
    return nullptr;
}
const Frames* const frames = Py_GetVersion ? frames_of(Py_GetVersion()) : nullptr;

const char* pointer_at(const char* base, size_t offset) {
    const char* value;
    std::memcpy(&value, base + offset, sizeof value);
    return value;
}

_object* object_of(void* p) { return static_cast<_object*>(p); }

// Addresses have 47 bits.
uintptr_t numbered(uintptr_t code, int at) {
    return at >= 0 && at < 0xffff ? code | (static_cast<uintptr_t>(at) + 1) << 48 : 0;
}

}  // namespace

bool FrameWalk::known() { return frames; }

FrameWalk::FrameWalk() {
    const auto* thread = reinterpret_cast<const char*>(PyGILState_GetThisThreadState());
    if (!thread) return;
    frame_ = pointer_at(thread, frames->thread);
    if (frames->chain >= 0) frame_ = pointer_at(frame_, static_cast<size_t>(frames->chain));
}

bool FrameWalk::next() {
    const Frames& f = *frames;
    while (f.owner >= 0 && frame_ && frame_[f.owner] == owned_by_c)
        frame_ = pointer_at(frame_, f.previous);
    if (!frame_) return false;
    code = reinterpret_cast<uintptr_t>(pointer_at(frame_, f.code));
    if (f.numbered) {
        int at = 0;
        std::memcpy(&at, frame_ + f.instruction, sizeof at);
        instruction = numbered(code, at);
    } else {
        instruction = reinterpret_cast<uintptr_t>(pointer_at(frame_, f.instruction));
    }
    frame_ = pointer_at(frame_, f.previous);
    return true;
}

bool PythonWalk::possible() {
    return PyGILState_GetThisThreadState && PyGILState_GetThisThreadState();
}

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

uintptr_t PythonWalk::instruction() const {
    return sizeof(void*) == 8 ? numbered(code, PyFrame_GetLasti ? PyFrame_GetLasti(frame_) : line())
                              : 0;
}

int PythonWalk::line() const { return PyFrame_GetLineNumber(frame_); }

void PythonWalk::keep() { Py_IncRef(object_of(object_)); }

}  // namespace torch_nntile
