#include "table_codes.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

namespace {

std::uint8_t largest_code(const std::uint8_t* codes, int count) {
    std::uint8_t largest = 0;
    for (int k = 0; k < count; ++k) largest = std::max(largest, codes[k]);
    return largest;
}

}  // namespace

TableCodes::TableCodes(const Network& network, const RolloutBuffer& buffer)
    : network_(network),
      buffer_(buffer),
      width_(network.layout().code_count),
      codes_((buffer.samples() + buffer.env_count) * width_),
      gradients_(network.layout().table_count) {
    if (buffer.codes.size() != gradients_.size()) {
        throw std::invalid_argument(std::to_string(gradients_.size()) + " tables need as many arrays of codes, not " +
                                    std::to_string(buffer.codes.size()));
    }
}

void TableCodes::copy(const std::vector<const std::uint8_t*>& arrays, std::size_t row, std::uint8_t* to) const {
    const NetworkLayout& layout = network_.layout();
    for (int number = 0; number < layout.table_count; ++number) {
        const Table& table = layout.tables[number];
        const std::uint8_t* codes = arrays[number] + row * table.cells;
        std::uint8_t* own = to + table.first_cell;
        const std::uint8_t max_code = static_cast<std::uint8_t>(table.rows_per_cell);
        if (table.clips_codes) {
            for (int cell = 0; cell < table.cells; ++cell) own[cell] = std::min(codes[cell], max_code);
            continue;
        }
        std::memcpy(own, codes, table.cells);
        const int largest = largest_code(own, table.cells);
        if (largest <= table.rows_per_cell) continue;
        std::memset(own, 0, table.cells);
        throw std::out_of_range("code " + std::to_string(largest) + " has no entry in a table of " +
                                std::to_string(table.rows_per_cell));
    }
}

std::vector<std::uint8_t> TableCodes::read_final(const std::vector<const std::uint8_t*>& arrays,
                                                 std::size_t row) const {
    std::vector<std::uint8_t> codes(width_);
    copy(arrays, row, codes.data());
    return codes;
}

int TableCodes::first_table_of_target(int table) const {
    const Table* tables = network_.layout().tables;
    int first = 0;
    while (tables[first].target != tables[table].target) ++first;
    return first;
}

void TableCodes::reserve(std::size_t rows) {
    if (is_empty() || rows <= capacity_) return;
    const NetworkLayout& layout = network_.layout();
    batch_codes_.resize(rows * width_);
    for (int number = 0; number < layout.table_count; ++number) {
        if (first_table_of_target(number) == number) {
            gradients_[number] = FloatArray(rows * layout.strides[layout.tables[number].target]);
        }
    }
    capacity_ = rows;
}

const std::uint8_t* TableCodes::gather(const std::vector<std::size_t>& samples, int rows, std::size_t first) {
    std::uint8_t* to = batch_codes_.data() + first * width_;
    for (int row = 0; row < rows; ++row) std::memcpy(to + row * width_, this->row(samples[row]), width_);
    return to;
}

void TableCodes::store_gradients(const float* grads, int rows, std::size_t first) {
    const NetworkLayout& layout = network_.layout();
    for (int number = 0; number < layout.table_count; ++number) {
        if (first_table_of_target(number) != number) continue;
        const int target = layout.tables[number].target;
        const std::size_t stride = layout.strides[target];
        std::memcpy(gradients_[number].data() + first * stride, grads + layout.offsets[target],
                    rows * stride * sizeof(float));
    }
}

void TableCodes::write_gradients(int rows, palaestra::ThreadPool& pool, float* flat) const {
    const int cells = static_cast<int>(width_), workers = pool.size();
    const std::function<void(int)> write_share = [&](int worker) {
        write_cell_gradients(rows, cells * worker / workers, cells * (worker + 1) / workers, flat);
    };
    workers == 1 ? write_share(0) : pool.run(write_share);
}

// [first, last) of the cells of all tables.
void TableCodes::write_cell_gradients(int rows, int first, int last, float* flat) const {
    const NetworkLayout& layout = network_.layout();
    for (int number = 0; number < layout.table_count; ++number) {
        const Table& table = layout.tables[number];
        const int from = std::max(first - table.first_cell, 0), to = std::min(last - table.first_cell, table.cells);
        if (from >= to) continue;
        const CodeRows at = {rows, batch_codes_.data(), width_, gradients_[first_table_of_target(number)].data(),
                             static_cast<std::size_t>(layout.strides[table.target])};
        network_.kernels().table_gradients(table, at, from, to, flat);
    }
}

}  // namespace engine
