// SPDX-License-Identifier: BSD-3-Clause
// What the code of a program is made of, which map_source.cc writes and a GPU's driver gets from
// NVRTC: a register is a value of Values, a step a call of Here. Formulas and conversions are those
// of the interpreter (map.cu), and no product is joined with a sum in either, so both give the same
// bits.
#pragma once

#include "kernels/cuda/loops.hh"
#include "kernels/cuda/map_call.hh"
#include "kernels/map_formulas_isa.hh"

namespace nntile::kernels::cuda {

// A register, of all elements of a thread.
template <class T, int n>
struct Values {
    T x[n];
};
template <class T, int n, size_t outputs>
struct Results {
    Values<T, n> of[outputs];
};

template <class To, class T, int n>
__device__ Values<To, n> converted(const Values<T, n>& from) {
    Values<To, n> to;
#pragma unroll
    for (int v = 0; v < n; ++v) to.x[v] = static_cast<To>(from.x[v]);
    return to;
}
// As the dtype has it.
template <DType D, class T, int n>
__device__ Values<T, n> narrowed(const Values<T, n>& from) {
    Values<T, n> to;
#pragma unroll
    for (int v = 0; v < n; ++v) to.x[v] = Element<D>::template get<T>(Element<D>::put(from.x[v]));
    return to;
}

// The elements of a thread: `pieces` places a block's width apart, each with `lanes` elements that
// lie side by side. All are read before any is written.
template <int dims, int lanes, int pieces>
struct Here {
    static constexpr int n = lanes * pieces, width = code_threads * pieces;
    const MapCall& call;
    int64_t first;
    int64_t outer[pieces];
    int32_t inner[pieces][dims > 0 ? dims : 1];

    __device__ Here(const MapCall& c, int64_t place) : call(c), first(place) {
#pragma unroll
        for (int p = 0; p < pieces; ++p) {
            // What is past the end is the first place again, and is not written: a result may lie
            // where an operand does, and so another thread's may be there already.
            int64_t rest = is_there(p) ? first + p * code_threads : first;
#pragma unroll
            for (int d = dims; d-- > 1;)
                inner[p][d] = static_cast<int32_t>(take_place(rest, c.sizes[d]));
            outer[p] = rest;
        }
    }
    __device__ bool is_there(int p) const {
        return p == 0 || first + p * code_threads < call.count;
    }
    __device__ int64_t offset(int p, const int64_t* strides) const {
        if constexpr (dims == 0) return 0;
        int64_t at = outer[p] * strides[0];
#pragma unroll
        for (int d = 1; d < dims; ++d) at += inner[p][d] * strides[d];
        return at;
    }
    __device__ int64_t index(int v) const {
        return call.index_offset + offset(v / lanes, call.index_strides) +
               v % lanes * call.index_step;
    }

    // An operand; repeated: one element for all lanes.
    template <class T, DType D, bool repeated>
    __device__ Values<T, n> read(int k) const {
        const auto* data = static_cast<const Storage<D>*>(call.operands[k].data);
        constexpr int own = repeated ? 1 : lanes;
        Several<Storage<D>, own> stored[pieces];
#pragma unroll
        for (int p = 0; p < pieces; ++p)
            stored[p] = *reinterpret_cast<const Several<Storage<D>, own>*>(
                data + offset(p, call.operands[k].strides));
        Values<T, n> all;
#pragma unroll
        for (int v = 0; v < n; ++v)
            all.x[v] = Element<D>::template get<T>(stored[v / lanes].v[v % lanes % own]);
        return all;
    }
    // A scalar of the run.
    template <class T, bool real>
    __device__ Values<T, n> number(int k) const {
        const Param p = call.operands[k].number;
        Values<T, n> all;
#pragma unroll
        for (int v = 0; v < n; ++v) all.x[v] = real ? static_cast<T>(p.f) : static_cast<T>(p.i);
        return all;
    }
    template <DType D, class T>
    __device__ void write(int k, const Values<T, n>& all) const {
        auto* data = static_cast<Storage<D>*>(call.operands[k].data);
#pragma unroll
        for (int p = 0; p < pieces; ++p) {
            Several<Storage<D>, lanes> stored;
#pragma unroll
            for (int v = 0; v < lanes; ++v) stored.v[v] = Element<D>::put(all.x[p * lanes + v]);
            if (is_there(p))
                *reinterpret_cast<Several<Storage<D>, lanes>*>(
                    data + offset(p, call.operands[k].strides)) = stored;
        }
    }

    // True: an element is not what the row takes; the host says so.
    template <MapCheck check, class T>
    __device__ bool refuses(const Values<T, n>& x) const {
        for (int v = 0; v < n; ++v) {
            const Refusal refusal = refusal_of(check, x.x[v]);
            if (refusal == Refusal::none) continue;
            refuse_at(call.refused, {refusal});
            return true;
        }
        return false;
    }

    template <class Row, bool choice, class T, class... More>
    __device__ auto apply(int first_param, const Values<T, n>& x, const More&... more) const {
        return apply<Row, choice>(std::make_index_sequence<Row::kinds.count>(),
                                  call.params + first_param, x, more...);
    }
    template <class Row, bool choice, size_t... k, class T, class... More>
    __device__ auto apply(std::index_sequence<k...>, const Param* p, const Values<T, n>& x,
                          const More&... more) const {
        Results<T, n, Row::outputs> results;
        const auto all = [&](auto... params) {
#pragma unroll
            for (int v = 0; v < n; ++v) {
                const auto y = Row::apply(x.x[v], more.x[v]..., params...);
#pragma unroll
                for (size_t o = 0; o < Row::outputs; ++o) results.of[o].x[v] = value_of(y, o);
            }
        };
        all(param<Row::kinds.kind[k], choice>(static_cast<T>(p[k].f), p[k].i)...);
        return results;
    }
    // A row with a loop of its own: body(Element1).
    template <class Row, class Body, class T, class... More>
    __device__ auto loop(Body&& body, int first_param, DType result, const Values<T, n>& x,
                         const More&... more) const {
        Results<T, n, Row::outputs> results;
#pragma unroll
        for (int v = 0; v < n; ++v) {
            const T in[] = {x.x[v], more.x[v]...};
            T out[Row::outputs] = {};
            body(Element1<T>{in, call.params + first_param, index(v), result, out});
#pragma unroll
            for (size_t o = 0; o < Row::outputs; ++o) results.of[o].x[v] = out[o];
        }
        return results;
    }
};

template <class At, class Code>
__device__ void each(const MapCall& call, Code&& code) {
    for (int64_t begin = blockIdx.x * int64_t{At::width}; begin < call.count;
         begin += gridDim.x * int64_t{At::width}) {
        const int64_t first = begin + threadIdx.x;
        if (first < call.count) code(At(call, first));
    }
}

}  // namespace nntile::kernels::cuda
