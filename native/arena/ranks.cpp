#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "observe.hpp"

namespace arena {

namespace {

constexpr int PIECE_VALUES = 16;

std::vector<int> cells_by_distance(int view) {
    const int radius = view / 2;
    const auto distance = [view, radius](int cell) {
        const int dy = cell / view - radius, dx = cell % view - radius;
        return dy * dy + dx * dx;
    };
    std::vector<int> cells(static_cast<std::size_t>(view) * view);
    std::iota(cells.begin(), cells.end(), 0);
    std::stable_sort(cells.begin(), cells.end(), [&](int a, int b) { return distance(a) < distance(b); });
    return cells;
}

Sixteen at_every_token(int location) {
    std::uint8_t bytes[16] = {};
    for (int token = 0; token < 5; ++token) bytes[3 * token] = static_cast<std::uint8_t>(location);
    Sixteen vector;
    std::memcpy(&vector, bytes, 16);
    return vector;
}

}  // namespace

Ranks::Ranks(int view_side, int sight)
    : view(view_side),
      cell_count(view_side * view_side),
      words(cell_count <= 128 ? 2 : 4),
      pieces((view_side + 3) / 4),
      of_piece(static_cast<std::size_t>(view_side) * pieces * PIECE_VALUES * words) {
    const std::vector<int> cells = cells_by_distance(view);
    const int radius = view / 2;
    for (int rank = 0; rank < cell_count; ++rank) {
        const int row = cells[rank] / view, column = cells[rank] % view;
        rows.push_back(static_cast<std::uint8_t>(row));
        columns.push_back(static_cast<std::uint8_t>(column));
        locations.push_back(at_every_token(row << 4 | column));
        if (std::max(std::abs(row - radius), std::abs(column - radius)) > sight) continue;
        for (int value = 0; value < PIECE_VALUES; ++value) {
            const int entry = (row * pieces + column / 4) * PIECE_VALUES + value;
            if (value >> (column % 4) & 1) of_piece[entry * words + rank / 64] |= 1ULL << (rank % 64);
        }
    }
}

Eyes::Eyes(const Plan& plan) : ranks(plan.view, plan.sight) {
    for (int rank = 0; rank < ranks.cell_count; ++rank) {
        offsets.push_back(ranks.rows[rank] * plan.stride + ranks.columns[rank]);
    }
}

}  // namespace arena
