// SPDX-License-Identifier: BSD-3-Clause
// The functions of vectors.def for vectors, under the names by which the compiler asks for them:
// SLEEF's. Its own library of such names (libsleefgnuabi) has those of glibc's libmvec, and which
// of both is taken depends on who is loaded first. Of its variants we take those (finz: with FMA,
// cinz: without) in which a lane does not depend on its neighbours: the plain sin, cos and tan take
// one way for a whole vector, and a cut run would not have the bits of a whole one.
#ifdef NNTILE_HAVE_SLEEF
#include <immintrin.h>
#include <sleef.h>

#if defined(__AVX512F__)
#define NNTILE_VECTORS(name, accuracy, f32, f64)                         \
    f32(__m512, e, 16, name, Sleef_finz_##name##f16_##accuracy##avx512f) \
        f64(__m512d, e, 8, name, Sleef_finz_##name##d8_##accuracy##avx512f)
#elif defined(__AVX2__)
#define NNTILE_VECTORS(name, accuracy, f32, f64)                    \
    f32(__m256, d, 8, name, Sleef_finz_##name##f8_##accuracy##avx2) \
        f64(__m256d, d, 4, name, Sleef_finz_##name##d4_##accuracy##avx2)
#else
#define NNTILE_VECTORS(name, accuracy, f32, f64)                    \
    f32(__m128, b, 4, name, Sleef_cinz_##name##f4_##accuracy##sse2) \
        f64(__m128d, b, 2, name, Sleef_cinz_##name##d2_##accuracy##sse2)
#endif
#define NNTILE_F32(V, isa, lanes, name, call) \
    V _ZGV##isa##N##lanes##v_nntile_##name##f(V x) { return call(x); }
#define NNTILE_F64(V, isa, lanes, name, call) \
    V _ZGV##isa##N##lanes##v_nntile_##name(V x) { return call(x); }
#define NNTILE_F32_OF_TWO(V, isa, lanes, name, call) \
    V _ZGV##isa##N##lanes##vv_nntile_##name##f(V a, V b) { return call(a, b); }
#define NNTILE_F64_OF_TWO(V, isa, lanes, name, call) \
    V _ZGV##isa##N##lanes##vv_nntile_##name(V a, V b) { return call(a, b); }
#define NNTILE_FUNCTION(name, accuracy) NNTILE_VECTORS(name, accuracy, NNTILE_F32, NNTILE_F64)
#define NNTILE_FUNCTION_OF_TWO(name, accuracy) \
    NNTILE_VECTORS(name, accuracy, NNTILE_F32_OF_TWO, NNTILE_F64_OF_TWO)

extern "C" {
#include "kernels/vectors.def"
}
#endif
