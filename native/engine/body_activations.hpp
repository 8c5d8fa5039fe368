// Activations on whole registers, for kernels_body.hpp.

INLINE Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
INLINE Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// x P(x^2) / Q(x^2), fitted by us for the smallest relative error in single precision (benchmarks/fit_tanh.py).
INLINE Vector tanh_of(Vector x) {
    const Vector limit = Vector{} + TANH_LIMIT;
    x = larger(smaller(x, limit), -limit);
    const Vector square = x * x;
    Vector above = Vector{} + TANH_ABOVE[TANH_ABOVE_COUNT - 1];
#pragma GCC unroll 8
    for (int k = TANH_ABOVE_COUNT - 2; k >= 0; --k) above = above * square + TANH_ABOVE[k];
    Vector below = Vector{} + TANH_BELOW[TANH_BELOW_COUNT - 1];
#pragma GCC unroll 8
    for (int k = TANH_BELOW_COUNT - 2; k >= 0; --k) below = below * square + TANH_BELOW[k];
    return x * above / below;
}

// x times the share of a normal below x, as torch's exact gelu.
inline float gelu_of(float x) { return 0.5f * x * (1.0f + __builtin_erff(x * 0.70710678f)); }

inline float gelu_slope(float x) {
    const float share = 0.5f * (1.0f + __builtin_erff(x * 0.70710678f));
    return share + x * 0.39894228f * __builtin_expf(-0.5f * x * x);
}

void activate(Activation activation, float* values, float* before, std::size_t count) {
    switch (activation) {
        case Activation::NONE: break;
        case Activation::TANH:
            for (std::size_t k = 0; k < count; k += WIDTH) store(values + k, tanh_of(load(values + k)));
            break;
        case Activation::RELU:
            for (std::size_t k = 0; k < count; k += WIDTH) store(values + k, larger(load(values + k), Vector{}));
            break;
        case Activation::GELU:
            if (before) std::memcpy(before, values, count * sizeof(float));
            for (std::size_t k = 0; k < count; ++k) values[k] = gelu_of(values[k]);
            break;
    }
}

// slopes [rows, stride] of what came out become those of what went in; their sums over rows are added to `sums`.
template <typename Slope>
INLINE void through(float* slopes, int rows, int stride, float* sums, const Slope& slope) {
    for (int column = 0; column < stride; column += WIDTH) {
        Vector sum = Vector{};
        for (int row = 0; row < rows; ++row) {
            const std::size_t at = static_cast<std::size_t>(row) * stride + column;
            const Vector passed = load(slopes + at) * slope(at);
            store(slopes + at, passed);
            sum += passed;
        }
        store(sums + column, load(sums + column) + sum);
    }
}

void deactivate(Activation activation, const float* values, const float* before, float* slopes, int rows, int stride,
                float* sums) {
    const Vector one = Vector{} + 1.0f;
    switch (activation) {
        case Activation::NONE: through(slopes, rows, stride, sums, [&](std::size_t) { return one; }); break;
        case Activation::TANH:
            through(slopes, rows, stride, sums, [&](std::size_t at) {
                const Vector value = load(values + at);
                return one - value * value;
            });
            break;
        case Activation::RELU:
            through(slopes, rows, stride, sums,
                    [&](std::size_t at) { return load(values + at) > Vector{} ? one : Vector{}; });
            break;
        case Activation::GELU:
            through(slopes, rows, stride, sums, [&](std::size_t at) {
                Vector slope;
                for (int k = 0; k < WIDTH; ++k) slope[k] = gelu_slope(before[at + k]);
                return slope;
            });
            break;
    }
}
