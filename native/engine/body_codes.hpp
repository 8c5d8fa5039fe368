// Tables whose rows are chosen by codes, for kernels_body.hpp: what a product with one-hot cells would give, without most
// of its multiplications. Codes that are something are listed first, without a branch that would have to be guessed.

constexpr int CODES_AT_ONCE = 256;
constexpr int SUMS = 8;  // registers of sums that stay there while the chosen rows go by

// out [columns] += the chosen rows of the table, from a column on; all columns are there.
template <int WIDE>
INLINE void add_chosen(const float* const* chosen, int count, std::size_t column, float* out) {
    Vector sum[WIDE];
#pragma GCC unroll 8
    for (int j = 0; j < WIDE; ++j) sum[j] = load(out + column + j * WIDTH);
    for (int k = 0; k < count; ++k) {
        const float* row = chosen[k] + column;
#pragma GCC unroll 8
        for (int j = 0; j < WIDE; ++j) sum[j] += load(row + j * WIDTH);
    }
#pragma GCC unroll 8
    for (int j = 0; j < WIDE; ++j) store(out + column + j * WIDTH, sum[j]);
}

void add_chosen_rows(const float* const* chosen, int count, int size, float* out) {
    int column = 0;
    for (; column + SUMS * WIDTH <= size; column += SUMS * WIDTH) add_chosen<SUMS>(chosen, count, column, out);
    for (; column + WIDTH <= size; column += WIDTH) add_chosen<1>(chosen, count, column, out);
    if (column == size) return;
    Vector sum = load(out + column);
    for (int k = 0; k < count; ++k) sum += load_some(chosen[k] + column, size - column);
    store(out + column, sum);
}

// Of a target that no product ends.
void activate(Activation activation, float* values, float* before, std::size_t count) {
    if (activation == Activation::GELU) return bend_gelu(values, before, count);
    for (std::size_t k = 0; k < count; k += WIDTH) {
        const Vector value = load(values + k);
        if (activation == Activation::TANH) store(values + k, tanh_of(value));
        if (activation == Activation::RELU) store(values + k, larger(Vector{}, value));
    }
}

void forward_codes(const Plan& plan, const Layer& layer, const float* parameters, const float* packed,
                   const Block& block) {
    const Table& table = plan.tables[layer.table];
    const std::size_t stride = plan.strides[layer.target], entries = static_cast<std::size_t>(table.most) * table.size;
    const int rows = block.steps * block.columns;
    float* out = block.values + plan.places[layer.target];
    const float* chosen[CODES_AT_ONCE];
    for (int row = 0; row < rows; ++row) {
        const unsigned char* codes = block.codes + static_cast<std::size_t>(row) * plan.code_count + table.first;
        float* sums = out + row * stride;
        if (layer.begins) std::memcpy(sums, packed + layer.packed_bias, stride * sizeof(float));
        for (int first = 0; first < table.cells; first += CODES_AT_ONCE) {
            const int last = table.cells - first < CODES_AT_ONCE ? table.cells : first + CODES_AT_ONCE;
            const float* entry = parameters + table.place + first * entries;
            int count = 0;
            for (int cell = first; cell < last; ++cell, entry += entries) {
                const int is_something = codes[cell] != 0;
                chosen[count] = entry + static_cast<std::size_t>(codes[cell] - is_something) * table.size;
                count += is_something;
            }
            add_chosen_rows(chosen, count, table.size, sums);
        }
    }
    if (!layer.ends || layer.activation == Activation::NONE) return;
    activate(layer.activation, out, block.before ? block.before + plan.places[layer.target] : nullptr, rows * stride);
}

INLINE void add_to_entry(const float* slope, float* entry, int size) {
    int column = 0;
    for (; column + WIDTH <= size; column += WIDTH) store(entry + column, load(entry + column) + load(slope + column));
    for (; column < size; ++column) entry[column] += slope[column];
}

// Cell by cell: a cell's entries stay in the nearest cache while the rows go by, and every entry gets its slopes in the
// rows' order, whoever has which cells.
void table_slopes(const Table& table, const CodeRows& at, int first, int last, float* flat) {
    const std::size_t entries = static_cast<std::size_t>(table.most) * table.size;
    int chosen[CODES_AT_ONCE];
    for (int cell = first; cell < last; ++cell) {
        const unsigned char* codes = at.codes + table.first + cell;
        float* out = flat + table.place + cell * entries;
        std::memset(out, 0, entries * sizeof(float));
        for (int begin = 0; begin < at.rows; begin += CODES_AT_ONCE) {
            const int end = at.rows - begin < CODES_AT_ONCE ? at.rows : begin + CODES_AT_ONCE;
            int count = 0;
            for (int row = begin; row < end; ++row) {
                chosen[count] = row;
                count += codes[row * at.code_row] != 0;
            }
            for (int k = 0; k < count; ++k) {
                const std::size_t row = chosen[k];
                add_to_entry(at.slopes + row * at.slope_row, out + (codes[row * at.code_row] - 1) * table.size, table.size);
            }
        }
    }
}
