// Turning matrices, for kernels_body.hpp: torch has weights [outputs, inputs], a forward pass reads [inputs, outputs].

// to [4, 4] = from [4, 4], turned. Written as a choice of numbers, gcc loads them one by one.
#if defined(__x86_64__)
INLINE void turn_block(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_row);
    __m128 c = _mm_loadu_ps(from + 2 * from_row), d = _mm_loadu_ps(from + 3 * from_row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_row, b);
    _mm_storeu_ps(to + 2 * to_row, c);
    _mm_storeu_ps(to + 3 * to_row, d);
}
#else
INLINE void turn_block(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    for (int row = 0; row < 4; ++row) {
        for (int column = 0; column < 4; ++column) to[column * to_row + row] = from[row * from_row + column];
    }
}
#endif

// to [columns, rows] = from [rows, columns], turned.
void turn(int rows, int columns, const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    const int whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (int row = 0; row < whole_rows; row += 4) {
        for (int column = 0; column < whole_columns; column += 4) {
            turn_block(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
        }
    }
    for (int row = 0; row < rows; ++row) {
        for (int column = row < whole_rows ? whole_columns : 0; column < columns; ++column) {
            to[column * to_row + row] = from[row * from_row + column];
        }
    }
}
