// Layers with a handful of outputs, for kernels_body.hpp: heads. A product would fill registers with zeros there, so the
// weights stay [outputs, stride of source] and each output is a sum across registers.

constexpr int PANEL = 2;  // registers of columns that go through a backward pass together

template <int HEIGHT, int OUTPUTS, Start START>
INLINE void narrow_rows(std::size_t stride, const float* source, const float* weight, const float* bias, float* out,
                        std::size_t out_row) {
    Vector sum[HEIGHT][OUTPUTS] = {};
    for (std::size_t k = 0; k < stride; k += WIDTH) {
#pragma GCC unroll 8
        for (int i = 0; i < HEIGHT; ++i) {
            const Vector value = load(source + i * stride + k);
#pragma GCC unroll 4
            for (int o = 0; o < OUTPUTS; ++o) sum[i][o] += value * load(weight + o * stride + k);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 4
        for (int o = 0; o < OUTPUTS; ++o) {
            float& to = out[i * out_row + o];
            to = total_of(sum[i][o]) + (START == Start::ADD ? to : bias[o]);
        }
    }
}

template <int HEIGHT, int OUTPUTS, Start START>
void narrow_forward(int rows, std::size_t stride, const float* source, const float* weight, const float* bias,
                    float* out, std::size_t out_row) {
    int row = 0;
    for (; row + HEIGHT <= rows; row += HEIGHT) {
        narrow_rows<HEIGHT, OUTPUTS, START>(stride, source + row * stride, weight, bias, out + row * out_row, out_row);
    }
    for (; row < rows; ++row) {
        narrow_rows<1, OUTPUTS, START>(stride, source + row * stride, weight, bias, out + row * out_row, out_row);
    }
}

template <Start START>
void forward_narrow(const Plan& plan, const Layer& layer, const float* packed, const Block& block) {
    const std::size_t stride = plan.strides[layer.source], out_row = plan.strides[layer.target];
    const float* weight = packed + layer.packed;
    const float* bias = packed + layer.packed_bias;
    const float* source = layer.source ? block.values + plan.places[layer.source] : block.input;
    float* out = block.values + plan.places[layer.target];
    const int rows = block.steps * block.columns;
    switch (layer.outputs) {
        case 1: narrow_forward<8, 1, START>(rows, stride, source, weight, bias, out, out_row); break;
        case 2: narrow_forward<4, 2, START>(rows, stride, source, weight, bias, out, out_row); break;
        case 3: narrow_forward<3, 3, START>(rows, stride, source, weight, bias, out, out_row); break;
        case 4: narrow_forward<2, 4, START>(rows, stride, source, weight, bias, out, out_row); break;
        default: break;
    }
}

// What a narrow layer's backward pass reads and writes.
struct NarrowSlopes {
    int rows;
    const float* slopes;  // [rows, slope_row] of the outputs
    std::size_t slope_row;
    const float* values;  // [rows, stride] of the source
    const float* weight;  // [outputs, stride]
    float* out;           // [rows, stride]: slopes of the source
    float* sums;          // [stride], where the source's slopes are finished here
    float* gradient;      // [outputs, stride]
    std::size_t stride;
};

template <int OUTPUTS, int WIDE, Start START, Finish FINISH>
INLINE void narrow_panel(const NarrowSlopes& at, std::size_t column) {
    Vector weight[OUTPUTS][WIDE], gradient[OUTPUTS][WIDE], total[WIDE] = {};
#pragma GCC unroll 4
    for (int o = 0; o < OUTPUTS; ++o) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            weight[o][j] = load(at.weight + o * at.stride + column + j * WIDTH);
            gradient[o][j] = load(at.gradient + o * at.stride + column + j * WIDTH);
        }
    }
    for (int row = 0; row < at.rows; ++row) {
        const float* slope = at.slopes + row * at.slope_row;
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            const std::size_t place = row * at.stride + column + j * WIDTH;
            const Vector value = load(at.values + place);
            Vector sum = START == Start::ADD ? load(at.out + place) : Vector{};
#pragma GCC unroll 4
            for (int o = 0; o < OUTPUTS; ++o) {
                sum += slope[o] * weight[o][j];
                gradient[o][j] += slope[o] * value;
            }
            sum = finished<FINISH>(sum, at.values + place);
            if constexpr (is_slope(FINISH)) total[j] += sum;
            store(at.out + place, sum);
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < OUTPUTS; ++o) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) store(at.gradient + o * at.stride + column + j * WIDTH, gradient[o][j]);
    }
    if constexpr (is_slope(FINISH)) {
#pragma GCC unroll 2
        for (int j = 0; j < WIDE; ++j) {
            float* sums = at.sums + column + j * WIDTH;
            store(sums, load(sums) + total[j]);
        }
    }
}

template <int OUTPUTS, Start START, Finish FINISH>
void narrow_slopes(const NarrowSlopes& at) {
    std::size_t column = 0;
    for (; column + PANEL * WIDTH <= at.stride; column += PANEL * WIDTH) {
        narrow_panel<OUTPUTS, PANEL, START, FINISH>(at, column);
    }
    for (; column < at.stride; column += WIDTH) narrow_panel<OUTPUTS, 1, START, FINISH>(at, column);
}

template <Start START, Finish FINISH>
void backward_narrow(int outputs, const NarrowSlopes& at) {
    switch (outputs) {
        case 1: narrow_slopes<1, START, FINISH>(at); break;
        case 2: narrow_slopes<2, START, FINISH>(at); break;
        case 3: narrow_slopes<3, START, FINISH>(at); break;
        case 4: narrow_slopes<4, START, FINISH>(at); break;
        default: break;
    }
}
