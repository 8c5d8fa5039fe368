// Activations of whole rows, for kernels_body.hpp, where a product could not take them along.

// x times the share of a normal below x, as torch's exact gelu.
inline float gelu_of(float x) { return 0.5f * x * (1.0f + __builtin_erff(x * 0.70710678f)); }

inline float gelu_slope(float x) {
    const float share = 0.5f * (1.0f + __builtin_erff(x * 0.70710678f));
    return share + x * 0.39894228f * __builtin_expf(-0.5f * x * x);
}

void bend_gelu(float* values, float* before, std::size_t count) {
    if (before) std::memcpy(before, values, count * sizeof(float));
    for (std::size_t k = 0; k < count; ++k) values[k] = gelu_of(values[k]);
}

// slopes [rows, stride] of what came out become those of what went in; their sums over rows are added to `sums`.
template <typename Through>
INLINE void through(float* slopes, int rows, int stride, float* sums, const Through& passed_at) {
    for (int column = 0; column < stride; column += WIDTH) {
        Vector sum = Vector{};
        for (int row = 0; row < rows; ++row) {
            const std::size_t at = static_cast<std::size_t>(row) * stride + column;
            const Vector passed = passed_at(load(slopes + at), at);
            store(slopes + at, passed);
            sum += passed;
        }
        store(sums + column, load(sums + column) + sum);
    }
}

void deactivate(Activation activation, const float* values, const float* before, float* slopes, int rows, int stride,
                float* sums) {
    switch (activation) {
        case Activation::NONE:
            through(slopes, rows, stride, sums, [&](Vector slope, std::size_t) { return slope; });
            break;
        case Activation::TANH:
            through(slopes, rows, stride, sums,
                    [&](Vector slope, std::size_t at) { return through_tanh(slope, load(values + at)); });
            break;
        case Activation::RELU:
            through(slopes, rows, stride, sums,
                    [&](Vector slope, std::size_t at) { return load(values + at) > Vector{} ? slope : Vector{}; });
            break;
        case Activation::GELU:
            through(slopes, rows, stride, sums, [&](Vector slope, std::size_t at) {
                Vector bent;
                for (int k = 0; k < WIDTH; ++k) bent[k] = gelu_slope(before[at + k]);
                return slope * bent;
            });
            break;
    }
}
