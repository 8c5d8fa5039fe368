// Registers full of numbers, for kernels_body.hpp.

typedef float Vector __attribute__((vector_size(PALAESTRA_WIDTH * 4), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(PALAESTRA_WIDTH * 4), aligned(4), may_alias));
typedef unsigned Words __attribute__((vector_size(PALAESTRA_WIDTH * 4)));
constexpr int WIDTH = PALAESTRA_WIDTH;

#define INLINE inline __attribute__((always_inline))

INLINE Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
INLINE void store(float* to, Vector vector) { *reinterpret_cast<Vector*>(to) = vector; }
INLINE Ints load(const int* from) { return *reinterpret_cast<const Ints*>(from); }

// The first `count` numbers, at most a register full; zeros beyond. Gates and rows of tables of odd sizes lie
// side by side without a gap.
INLINE Vector load_some(const float* from, int count) {
    if (count >= WIDTH) return load(from);
    Vector part = Vector{};
    for (int k = 0; k < count; ++k) part[k] = from[k];
    return part;
}

INLINE void store_some(float* to, Vector vector, int count) {
    if (count >= WIDTH) return store(to, vector);
    for (int k = 0; k < count; ++k) to[k] = vector[k];
}

// What is not a number as the second one stays so. Written as a choice, gcc makes a comparison and a blend of it.
INLINE Vector smaller(Vector a, Vector b) {
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

INLINE Vector larger(Vector a, Vector b) {
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

// Halves are added until one number is left: always in this order.
#if defined(__x86_64__)
INLINE float total_of(Vector vector) {
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
INLINE float total_of(Vector vector) {
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

// Each of tanh's numbers as a register full.
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

// The table, as if found only now: else its rows are loaded before a product and push the product out of registers.
INLINE const TanhTable& tanh_table_from_here() {
    const TanhTable* table = &TANH_TABLE;
    asm volatile("" : "+r"(table));
    return *table;
}

// x P(x^2) / Q(x^2), fitted by us for the smallest relative error in single precision (benchmarks/fit_tanh.py).
INLINE Vector tanh_of(Vector x, const TanhTable& table = TANH_TABLE) {
    x = larger(load(table.below_limit), smaller(load(table.limit), x));
    const Vector square = x * x;
    Vector above = load(table.above[TANH_ABOVE_COUNT - 1]);
#pragma GCC unroll 8
    for (int k = TANH_ABOVE_COUNT - 2; k >= 0; --k) above = above * square + load(table.above[k]);
    Vector below = load(table.below[TANH_BELOW_COUNT - 1]);
#pragma GCC unroll 8
    for (int k = TANH_BELOW_COUNT - 2; k >= 0; --k) below = below * square + load(table.below[k]);
    return x * above / below;
}

// slope times 1 - value^2, without a register for the 1.
INLINE Vector through_tanh(Vector slope, Vector value) { return slope - slope * value * value; }

// 2^n times a polynomial on [-log(2) / 2, log(2) / 2]: the exponential's own series, whose next term is below rounding.
INLINE Vector exp_of(Vector x) {
    x = larger(Vector{} - 87.0f, smaller(Vector{} + 88.0f, x));
    const Vector magic = Vector{} + 12582912.0f;  // 1.5 * 2^23: adding it leaves no room for a fraction
    const Vector shifted = x * 1.44269504f + magic;
    const Vector whole = shifted - magic;
    const Vector rest = (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
    Vector sum = Vector{} + 1.98412698e-4f;
    constexpr float SERIES[] = {1.0f, 1.0f, 0.5f, 1.66666667e-1f, 4.16666667e-2f, 8.33333333e-3f, 1.38888889e-3f};
#pragma GCC unroll 8
    for (int k = 6; k >= 0; --k) sum = sum * rest + SERIES[k];
    return (Vector)((Words)sum + (((Words)shifted - (Words)magic) << 23));
}

// n log(2) + 2 artanh((m - 1) / (m + 1)) for x = m 2^n with m around 1, by artanh's own series. For x >= 2^-126.
INLINE Vector log_of(Vector x) {
    const Ints root = Ints{} + 0x3F3504F3;  // the square root of a half
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
