// SIMD vectors of floats: loads, stores, elementary functions, and the transpose of a matrix.
// Internal linkage: every kernels_*.cpp compiles its own copy for one CPU family.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstddef>

#include "../tanh_fit.hpp"

#define INLINE inline __attribute__((always_inline))

namespace engine {
namespace {

typedef float Vector __attribute__((vector_size(PALAESTRA_WIDTH * 4), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(PALAESTRA_WIDTH * 4), aligned(4), may_alias));
typedef unsigned Words __attribute__((vector_size(PALAESTRA_WIDTH * 4)));
constexpr int WIDTH = PALAESTRA_WIDTH;

INLINE Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
INLINE void store(float* to, Vector vector) { *reinterpret_cast<Vector*>(to) = vector; }
INLINE Ints load(const int* from) { return *reinterpret_cast<const Ints*>(from); }

// The first `count` floats, at most one vector; zeros beyond. For gates and table rows, which are not padded.
INLINE Vector load_partial(const float* from, int count) {
    if (count >= WIDTH) return load(from);
    Vector part = Vector{};
    for (int k = 0; k < count; ++k) part[k] = from[k];
    return part;
}

INLINE void store_partial(float* to, Vector vector, int count) {
    if (count >= WIDTH) return store(to, vector);
    for (int k = 0; k < count; ++k) to[k] = vector[k];
}

// A NaN in the second operand is kept. Intrinsics, because gcc compiles the ternary to a comparison and a blend.
INLINE Vector min_of(Vector a, Vector b) {
#if defined(__x86_64__) && PALAESTRA_WIDTH == 16
    return (Vector)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__x86_64__) && PALAESTRA_WIDTH == 8
    return (Vector)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Vector)_mm_min_ps((__m128)a, (__m128)b);
#else
    return a < b ? a : b;
#endif
}

INLINE Vector max_of(Vector a, Vector b) {
#if defined(__x86_64__) && PALAESTRA_WIDTH == 16
    return (Vector)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__x86_64__) && PALAESTRA_WIDTH == 8
    return (Vector)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
    return (Vector)_mm_max_ps((__m128)a, (__m128)b);
#else
    return a > b ? a : b;
#endif
}

// Adds halves until one number is left, always in this order.
#if defined(__x86_64__)
INLINE float horizontal_sum(Vector vector) {
#if PALAESTRA_WIDTH == 16
    const __m512 all = (__m512)vector;
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
#elif PALAESTRA_WIDTH == 8
    const __m256 eight = (__m256)vector;
#endif
#if PALAESTRA_WIDTH >= 8
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
    const __m128 four = (__m128)vector;
#endif
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#else
INLINE float horizontal_sum(Vector vector) {
    float part[WIDTH];
    store(part, vector);
#pragma GCC unroll 4
    for (int half = WIDTH / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
        for (int k = 0; k < half; ++k) part[k] += part[k + half];
    }
    return part[0];
}
#endif

// The coefficients of tanh, each broadcast to a vector.
struct TanhTable {
    float limit[WIDTH] = {}, below_limit[WIDTH] = {};
    float above[TANH_ABOVE_COUNT][WIDTH] = {}, below[TANH_BELOW_COUNT][WIDTH] = {};

    constexpr TanhTable() {
        for (int lane = 0; lane < WIDTH; ++lane) {
            limit[lane] = TANH_LIMIT;
            below_limit[lane] = -TANH_LIMIT;
            for (int k = 0; k < TANH_ABOVE_COUNT; ++k) above[k][lane] = TANH_ABOVE[k];
            for (int k = 0; k < TANH_BELOW_COUNT; ++k) below[k][lane] = TANH_BELOW[k];
        }
    }
};

alignas(64) constexpr TanhTable TANH_TABLE;

// Hides the table's address from the optimizer, which otherwise loads its rows before a product and spills the tile.
INLINE const TanhTable& tanh_table_from_here() {
    const TanhTable* table = &TANH_TABLE;
    asm volatile("" : "+r"(table));
    return *table;
}

// x P(x^2) / Q(x^2), fitted for the smallest relative error in single precision (benchmarks/fit_tanh.py).
INLINE Vector tanh_of(Vector x, const TanhTable& table = TANH_TABLE) {
    x = max_of(load(table.below_limit), min_of(load(table.limit), x));
    const Vector square = x * x;
    Vector above = load(table.above[TANH_ABOVE_COUNT - 1]);
#pragma GCC unroll 8
    for (int k = TANH_ABOVE_COUNT - 2; k >= 0; --k) above = above * square + load(table.above[k]);
    Vector below = load(table.below[TANH_BELOW_COUNT - 1]);
#pragma GCC unroll 8
    for (int k = TANH_BELOW_COUNT - 2; k >= 0; --k) below = below * square + load(table.below[k]);
    return x * above / below;
}

// grad * (1 - value^2), without a register for the 1.
INLINE Vector tanh_backward(Vector grad, Vector value) { return grad - grad * value * value; }

// 2^n times the Taylor polynomial on [-log(2) / 2, log(2) / 2], whose next term is below rounding.
INLINE Vector exp_of(Vector x) {
    x = max_of(Vector{} - 87.0f, min_of(Vector{} + 88.0f, x));
    const Vector magic = Vector{} + 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    const Vector shifted = x * 1.44269504f + magic;
    const Vector whole = shifted - magic;
    const Vector rest = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
    Vector sum = Vector{} + 1.98412698e-4f;
    constexpr float SERIES[] = {1.0f, 1.0f, 0.5f, 1.66666667e-1f, 4.16666667e-2f, 8.33333333e-3f, 1.38888889e-3f};
#pragma GCC unroll 8
    for (int k = 6; k >= 0; --k) sum = sum * rest + SERIES[k];
    return (Vector)((Words)sum + (((Words)shifted - (Words)magic) << 23));
}

// n log(2) + 2 artanh((m - 1) / (m + 1)) for x = m 2^n with m around 1, by the series of artanh. For x >= 2^-126.
INLINE Vector log_of(Vector x) {
    const Ints root = Ints{} + 0x3F3504F3;  // bits of sqrt(0.5)
    const Ints power = ((Ints)x - root) >> 23;
    const Vector middle = (Vector)((Words)x - ((Words)power << 23));
    const Vector ratio = (middle - 1.0f) / (middle + 1.0f), square = ratio * ratio;
    constexpr float SERIES[] = {6.66666667e-1f, 4.00000000e-1f, 2.85714286e-1f, 2.22222222e-1f};
    Vector sum = Vector{} + 1.81818182e-1f;
#pragma GCC unroll 4
    for (int k = 3; k >= 0; --k) sum = sum * square + SERIES[k];
    const Vector whole = __builtin_convertvector(power, Vector);
    const Vector small = whole * 1.42860677e-6f + ratio * square * sum;
    return whole * 0.693145752f + (2.0f * ratio + small);
}

// to [4, 4] = transpose of from [4, 4]. Intrinsics, because gcc compiles a shuffle to scalar loads.
#if defined(__x86_64__)
INLINE void transpose_4x4(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_row);
    __m128 c = _mm_loadu_ps(from + 2 * from_row), d = _mm_loadu_ps(from + 3 * from_row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_row, b);
    _mm_storeu_ps(to + 2 * to_row, c);
    _mm_storeu_ps(to + 3 * to_row, d);
}
#else
INLINE void transpose_4x4(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    for (int row = 0; row < 4; ++row) {
        for (int column = 0; column < 4; ++column) to[column * to_row + row] = from[row * from_row + column];
    }
}
#endif

// to [columns, rows] = transpose of from [rows, columns]: torch stores weights as [outputs, inputs], a forward pass
// reads [inputs, outputs].
void transpose(int rows, int columns, const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    // Of a large matrix 16 columns at a time: the cache lines of many rows, one large stride apart, evict each other.
    const int whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4, strip = columns > 64 ? 16 : columns;
    for (int first = 0; first < whole_columns; first += strip) {
        const int last = whole_columns - first < strip ? whole_columns : first + strip;
        for (int row = 0; row < whole_rows; row += 4) {
            for (int column = first; column < last; column += 4) {
                transpose_4x4(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
            }
        }
    }
    for (int row = 0; row < rows; ++row) {
        for (int column = row < whole_rows ? whole_columns : 0; column < columns; ++column) {
            to[column * to_row + row] = from[row * from_row + column];
        }
    }
}

}  // namespace
}  // namespace engine
