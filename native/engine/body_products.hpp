// Products of small matrices, for kernels_body.hpp: a tile of the result is held in registers while depth goes by, and
// what follows (an activation, or its slope) is done before it leaves them.

enum class Start { ZERO, ADD, BIAS };
enum class Finish { NONE, TANH, RELU, LINEAR_SLOPE, TANH_SLOPE, RELU_SLOPE };

// A value as a type, so that it can choose a template.
template <typename T, T VALUE>
struct Choice {
    static constexpr T value = VALUE;
};

constexpr bool is_slope(Finish finish) { return finish >= Finish::LINEAR_SLOPE; }

// Where the left factor, the right factor and the result lie. Of the left one both steps are free, so that it can be
// read turned; rows of the right one and of the result are contiguous.
struct Operands {
    const float* left;
    std::size_t left_row, left_step;
    const float* right;
    std::size_t right_row;
    float* out;
    std::size_t out_row;
    const float* bias;
    const float* values;  // of slopes only: what the activation gave, laid out as the result
    float* sums;          // of slopes only: the result's rows are added to it
};

template <Finish FINISH>
INLINE Vector finished(Vector sum, const float* value) {
    if constexpr (FINISH == Finish::RELU) return larger(Vector{}, sum);
    if constexpr (FINISH == Finish::TANH_SLOPE) return through_tanh(sum, load(value));
    if constexpr (FINISH == Finish::RELU_SLOPE) return load(value) > Vector{} ? sum : Vector{};
    return sum;
}

template <int HEIGHT, int PANEL, Finish FINISH>
INLINE void store_tile(const Vector (&sum)[HEIGHT][PANEL], const Operands& at) {
    const TanhTable& table = tanh_table_from_here();
    Vector total[PANEL] = {};
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) {
            const std::size_t place = i * at.out_row + j * WIDTH;
            const Vector done = FINISH == Finish::TANH
                                    ? tanh_of(sum[i][j], table)
                                    : finished<FINISH>(sum[i][j], is_slope(FINISH) ? at.values + place : nullptr);
            if constexpr (is_slope(FINISH)) total[j] += done;
            store(at.out + place, done);
        }
    }
    if constexpr (is_slope(FINISH)) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) store(at.sums + j * WIDTH, load(at.sums + j * WIDTH) + total[j]);
    }
}

template <int HEIGHT, int PANEL, Start START, Finish FINISH>
INLINE void tile(int depth, const Operands& at) {
    Vector sum[HEIGHT][PANEL];
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) {
            if constexpr (START == Start::ZERO) sum[i][j] = Vector{};
            if constexpr (START == Start::ADD) sum[i][j] = load(at.out + i * at.out_row + j * WIDTH);
            if constexpr (START == Start::BIAS) sum[i][j] = load(at.bias + j * WIDTH);
        }
    }
    const float* left = at.left;
    const float* right = at.right;
    for (int k = 0; k < depth; ++k) {
        Vector factor[PANEL];
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) factor[j] = load(right + j * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < HEIGHT; ++i) {
            const float number = left[i * at.left_row];
#pragma GCC unroll 2
            for (int j = 0; j < PANEL; ++j) sum[i][j] += number * factor[j];
        }
        left += at.left_step;
        right += at.right_row;
    }
    store_tile<HEIGHT, PANEL, FINISH>(sum, at);
}

template <int PANEL, Start START, Finish FINISH>
INLINE void panel(int height, int depth, Operands at) {
    for (; height >= 6; height -= 6) {
        tile<6, PANEL, START, FINISH>(depth, at);
        at.left += 6 * at.left_row;
        at.out += 6 * at.out_row;
        if constexpr (is_slope(FINISH)) at.values += 6 * at.out_row;
    }
    switch (height) {
        case 5: tile<5, PANEL, START, FINISH>(depth, at); break;
        case 4: tile<4, PANEL, START, FINISH>(depth, at); break;
        case 3: tile<3, PANEL, START, FINISH>(depth, at); break;
        case 2: tile<2, PANEL, START, FINISH>(depth, at); break;
        case 1: tile<1, PANEL, START, FINISH>(depth, at); break;
        default: break;
    }
}

// out [height, columns] = finish(start + left [height, depth] right [depth, columns]); columns are whole registers.
template <Start START, Finish FINISH = Finish::NONE>
void product(int height, int columns, int depth, Operands at) {
    int column = 0;
    for (; column + 2 * WIDTH <= columns; column += 2 * WIDTH) {
        panel<2, START, FINISH>(height, depth, at);
        at.right += 2 * WIDTH;
        at.out += 2 * WIDTH;
        if constexpr (START == Start::BIAS) at.bias += 2 * WIDTH;
        if constexpr (is_slope(FINISH)) {
            at.values += 2 * WIDTH;
            at.sums += 2 * WIDTH;
        }
    }
    if (column < columns) panel<1, START, FINISH>(height, depth, at);
}
