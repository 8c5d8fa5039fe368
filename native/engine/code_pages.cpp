#include "code_pages.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace engine {

namespace {

std::uint8_t largest(const std::uint8_t* codes, int count) {
    std::uint8_t most = 0;
    for (int k = 0; k < count; ++k) most = std::max(most, codes[k]);
    return most;
}

}  // namespace

CodePages::CodePages(const Network& network, const Recording& recording)
    : network_(network),
      recording_(recording),
      width_(network.plan().code_count),
      pages_((recording.samples() + recording.env_count) * width_),
      slopes_(network.plan().table_count) {
    if (recording.codes.size() != slopes_.size()) throw std::invalid_argument("every table needs its codes");
}

void CodePages::copy(const std::vector<const std::uint8_t*>& arrays, std::size_t row, std::uint8_t* to) const {
    const Plan& plan = network_.plan();
    for (int number = 0; number < plan.table_count; ++number) {
        const Table& table = plan.tables[number];
        const std::uint8_t* codes = arrays[number] + row * table.cells;
        std::uint8_t* own = to + table.first;
        const std::uint8_t most = static_cast<std::uint8_t>(table.most);
        if (table.clips) {
            for (int cell = 0; cell < table.cells; ++cell) own[cell] = std::min(codes[cell], most);
            continue;
        }
        std::memcpy(own, codes, table.cells);
        const int met = largest(own, table.cells);
        if (met <= table.most) continue;
        std::memset(own, 0, table.cells);
        throw std::out_of_range("code " + std::to_string(met) + " has no entry in a table of " +
                                std::to_string(table.most));
    }
}

std::vector<std::uint8_t> CodePages::read_other(const std::vector<const std::uint8_t*>& arrays, std::size_t row) const {
    std::vector<std::uint8_t> codes(width_);
    copy(arrays, row, codes.data());
    return codes;
}

int CodePages::first_of_target(int table) const {
    const Table* tables = network_.plan().tables;
    int first = 0;
    while (tables[first].target != tables[table].target) ++first;
    return first;
}

void CodePages::make_room(std::size_t rows) {
    if (is_empty() || rows <= room_) return;
    const Plan& plan = network_.plan();
    gathered_.resize(rows * width_);
    for (int number = 0; number < plan.table_count; ++number) {
        if (first_of_target(number) == number) {
            slopes_[number] = Floats(rows * plan.strides[plan.tables[number].target]);
        }
    }
    room_ = rows;
}

const std::uint8_t* CodePages::gather(const std::vector<std::size_t>& samples, int rows, std::size_t first) {
    std::uint8_t* to = gathered_.data() + first * width_;
    for (int row = 0; row < rows; ++row) std::memcpy(to + row * width_, this->row(samples[row]), width_);
    return to;
}

void CodePages::keep(const float* slopes, int rows, std::size_t first) {
    const Plan& plan = network_.plan();
    for (int number = 0; number < plan.table_count; ++number) {
        if (first_of_target(number) != number) continue;
        const int target = plan.tables[number].target;
        const std::size_t stride = plan.strides[target];
        std::memcpy(slopes_[number].data() + first * stride, slopes + plan.places[target],
                    rows * stride * sizeof(float));
    }
}

void CodePages::give_slopes(int rows, arena::Crew& crew, float* flat) const {
    const int cells = static_cast<int>(width_), helpers = crew.size();
    const std::function<void(int)> share = [&](int worker) {
        give_share(rows, cells * worker / helpers, cells * (worker + 1) / helpers, flat);
    };
    helpers == 1 ? share(0) : crew.run(share);
}

// Cells are counted through all tables.
void CodePages::give_share(int rows, int first, int last, float* flat) const {
    const Plan& plan = network_.plan();
    for (int number = 0; number < plan.table_count; ++number) {
        const Table& table = plan.tables[number];
        const int from = std::max(first - table.first, 0), to = std::min(last - table.first, table.cells);
        if (from >= to) continue;
        const CodeRows at = {rows, gathered_.data(), width_, slopes_[first_of_target(number)].data(),
                             static_cast<std::size_t>(plan.strides[table.target])};
        network_.kernels().table_slopes(table, at, from, to, flat);
    }
}

}  // namespace engine
