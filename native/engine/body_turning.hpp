// Turning matrices, for kernels_body.hpp: torch has weights [outputs, inputs], a forward pass reads [inputs, outputs].

constexpr int TURNED = 4;

// to [TURNED, TURNED] = from [TURNED, TURNED], turned. Written as a choice of numbers, gcc loads them one by one.
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
    for (int row = 0; row < TURNED; ++row) {
        for (int column = 0; column < TURNED; ++column) to[column * to_row + row] = from[row * from_row + column];
    }
}
#endif

// The same of twice as many rows: to [TURNED, TALL] = from [TALL, TURNED].
#if defined(__x86_64__) && PALAESTRA_WIDTH >= 8
constexpr int TALL = 2 * TURNED;

// Rows k and k + TURNED side by side in a register: every further step stays within halves.
INLINE __m256 two_rows(const float* from, std::size_t from_row, int k) {
    const __m256 first = _mm256_castps128_ps256(_mm_loadu_ps(from + k * from_row));
    return _mm256_insertf128_ps(first, _mm_loadu_ps(from + (k + TURNED) * from_row), 1);
}

INLINE void turn_tall_block(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    const __m256 a = two_rows(from, from_row, 0), b = two_rows(from, from_row, 1);
    const __m256 c = two_rows(from, from_row, 2), d = two_rows(from, from_row, 3);
    const __m256 ab = _mm256_unpacklo_ps(a, b), cd = _mm256_unpacklo_ps(c, d);
    const __m256 further_ab = _mm256_unpackhi_ps(a, b), further_cd = _mm256_unpackhi_ps(c, d);
    _mm256_storeu_ps(to, _mm256_shuffle_ps(ab, cd, 0x44));
    _mm256_storeu_ps(to + to_row, _mm256_shuffle_ps(ab, cd, 0xEE));
    _mm256_storeu_ps(to + 2 * to_row, _mm256_shuffle_ps(further_ab, further_cd, 0x44));
    _mm256_storeu_ps(to + 3 * to_row, _mm256_shuffle_ps(further_ab, further_cd, 0xEE));
}
#else
constexpr int TALL = TURNED;

INLINE void turn_tall_block(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    turn_block(from, from_row, to, to_row);
}
#endif

// to [columns, rows] = from [rows, columns], turned.
void turn(int rows, int columns, const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    const int whole_columns = columns / TURNED * TURNED;
    int row = 0;
    for (; row + TALL <= rows; row += TALL) {
        for (int column = 0; column < whole_columns; column += TURNED) {
            turn_tall_block(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
        }
    }
    for (; row + TURNED <= rows; row += TURNED) {
        for (int column = 0; column < whole_columns; column += TURNED) {
            turn_block(from + row * from_row + column, from_row, to + column * to_row + row, to_row);
        }
    }
    const int whole_rows = row;
    for (row = 0; row < rows; ++row) {
        for (int column = row < whole_rows ? whole_columns : 0; column < columns; ++column) {
            to[column * to_row + row] = from[row * from_row + column];
        }
    }
}
