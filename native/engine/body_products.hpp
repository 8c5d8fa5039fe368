// Products of small matrices, for kernels_body.hpp: a tile of the result is held in registers while depth goes by.

typedef float Vector __attribute__((vector_size(PALAESTRA_WIDTH * 4), aligned(4), may_alias));
constexpr int WIDTH = PALAESTRA_WIDTH;

#define INLINE inline __attribute__((always_inline))

INLINE Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
INLINE void store(float* to, Vector vector) { *reinterpret_cast<Vector*>(to) = vector; }

enum class Start { ZERO, ADD, BIAS };

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
};

template <int HEIGHT, int PANEL, Start START>
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
#pragma GCC unroll 8
    for (int i = 0; i < HEIGHT; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < PANEL; ++j) store(at.out + i * at.out_row + j * WIDTH, sum[i][j]);
    }
}

template <int PANEL, Start START>
INLINE void panel(int height, int depth, Operands at) {
    for (; height >= 6; height -= 6) {
        tile<6, PANEL, START>(depth, at);
        at.left += 6 * at.left_row;
        at.out += 6 * at.out_row;
    }
    switch (height) {
        case 5: tile<5, PANEL, START>(depth, at); break;
        case 4: tile<4, PANEL, START>(depth, at); break;
        case 3: tile<3, PANEL, START>(depth, at); break;
        case 2: tile<2, PANEL, START>(depth, at); break;
        case 1: tile<1, PANEL, START>(depth, at); break;
        default: break;
    }
}

// out [height, columns] = start + left [height, depth] right [depth, columns]; columns are whole registers.
template <Start START>
void product(int height, int columns, int depth, Operands at) {
    int column = 0;
    for (; column + 2 * WIDTH <= columns; column += 2 * WIDTH) {
        panel<2, START>(height, depth, at);
        at.right += 2 * WIDTH;
        at.out += 2 * WIDTH;
        if (START == Start::BIAS) at.bias += 2 * WIDTH;
    }
    if (column < columns) panel<1, START>(height, depth, at);
}
