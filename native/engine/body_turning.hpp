// Turning matrices, for kernels_body.hpp: torch has weights [outputs, inputs], a forward pass reads [inputs, outputs].

typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));

// to [4, 4] = from [4, 4], turned.
INLINE void turn_block(const float* from, std::size_t from_row, float* to, std::size_t to_row) {
    const Four a = *reinterpret_cast<const Four*>(from), b = *reinterpret_cast<const Four*>(from + from_row);
    const Four c = *reinterpret_cast<const Four*>(from + 2 * from_row);
    const Four d = *reinterpret_cast<const Four*>(from + 3 * from_row);
    const Four ab_low = {a[0], b[0], a[1], b[1]}, ab_high = {a[2], b[2], a[3], b[3]};
    const Four cd_low = {c[0], d[0], c[1], d[1]}, cd_high = {c[2], d[2], c[3], d[3]};
    *reinterpret_cast<Four*>(to) = Four{ab_low[0], ab_low[1], cd_low[0], cd_low[1]};
    *reinterpret_cast<Four*>(to + to_row) = Four{ab_low[2], ab_low[3], cd_low[2], cd_low[3]};
    *reinterpret_cast<Four*>(to + 2 * to_row) = Four{ab_high[0], ab_high[1], cd_high[0], cd_high[1]};
    *reinterpret_cast<Four*>(to + 3 * to_row) = Four{ab_high[2], ab_high[3], cd_high[2], cd_high[3]};
}

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
