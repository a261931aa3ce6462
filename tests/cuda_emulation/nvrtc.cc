// SPDX-License-Identifier: BSD-3-Clause
// libnvrtc.so.13 on the CPU: compiles the source for the emulated device, with the headers of the
// source tree instead of those that it is given. Its code is the path of a library.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>

namespace {

enum Result { success = 0, compilation = 6, internal = 11 };

struct Program {
    std::string source, name, path, log;
};

// Where sources and libraries are, until the process ends.
struct Folder {
    std::filesystem::path path;
    pid_t owner = getpid();
    Folder() {
        char name[] = "/tmp/emulated_nvrtc_XXXXXX";
        path = mkdtemp(name);
        // What all sources begin with, compiled once.
        std::ofstream(path / "begin.hh")
            << "#include \"on_cpu.hh\"\n#include \"kernels/cuda/map_code.hh\"\n";
        std::string ignored;
        run(text("-x c++-header ", (path / "begin.hh").string()), ignored);
    }
    ~Folder() {
        std::error_code ignored;
        if (owner == getpid()) std::filesystem::remove_all(path, ignored);
    }
    template <class... A>
    static std::string text(const A&... parts) {
        std::ostringstream out;
        (out << ... << parts);
        return out.str();
    }
    bool run(const std::string& what, std::string& log) const {
        const std::string errors = (path / "errors").string();
        const bool ok = std::system(text(EMULATION_COMPILE " ", what, " 2> ", errors).c_str()) == 0;
        std::ostringstream all;
        all << std::ifstream(errors).rdbuf();
        log = all.str();
        return ok;
    }
};
std::mutex mutex;
Folder& folder() {
    static Folder one;
    return one;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return success;
}
int nvrtcCreateProgram(Program** out, const char* source, const char* name, int, const char* const*,
                       const char* const*) {
    *out = new Program{source, name, "", ""};
    return success;
}
int nvrtcCompileProgram(Program* p, int, const char* const*) {
    std::lock_guard lock(mutex);
    const std::filesystem::path file = folder().path / p->name;
    const std::string kernel = file.stem().string();
    std::ofstream(file) << p->source
                        << "static const auto* const known = ::emulation::Registered<"
                           "nntile::kernels::cuda::"
                        << kernel << ">::kernel;\n";
    p->path = file.string() + ".so";
    if (!folder().run(
            Folder::text("-include ", (folder().path / "begin.hh").string(), " -x c++ ",
                         file.string(), " -shared -Wl,-z,now -x none " EMULATION_RUNTIME " -o ",
                         p->path),
            p->log))
        return compilation;
    return success;
}
int nvrtcGetCUBINSize(Program* p, size_t* bytes) {
    *bytes = p->path.size() + 1;
    return success;
}
int nvrtcGetCUBIN(Program* p, char* code) {
    std::memcpy(code, p->path.c_str(), p->path.size() + 1);
    return success;
}
int nvrtcGetProgramLogSize(Program* p, size_t* bytes) {
    *bytes = p->log.size() + 1;
    return success;
}
int nvrtcGetProgramLog(Program* p, char* log) {
    std::memcpy(log, p->log.c_str(), p->log.size() + 1);
    return success;
}
int nvrtcDestroyProgram(Program** p) {
    delete *p;
    *p = nullptr;
    return success;
}
}
