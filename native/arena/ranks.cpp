#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "observe.hpp"

namespace arena {

namespace {

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

Eyes::Eyes(const Plan& plan)
    : ranks_of(static_cast<std::size_t>(plan.view) * pieces_of(plan.view) * PIECE_VALUES * words_of(plan.view)) {
    const std::vector<int> cells = cells_by_distance(plan.view);
    const int words = words_of(plan.view);
    for (int rank = 0; rank < static_cast<int>(cells.size()); ++rank) {
        const int row = cells[rank] / plan.view, column = cells[rank] % plan.view;
        places.push_back({at_every_token(row << 4 | column), row * plan.stride + column});
        if (std::max(std::abs(row - plan.radius), std::abs(column - plan.radius)) > plan.sight) continue;
        for (int value = 0; value < PIECE_VALUES; ++value) {
            const int entry = (row * pieces_of(plan.view) + column / 4) * PIECE_VALUES + value;
            if (value >> (column % 4) & 1) ranks_of[entry * words + rank / 64] |= 1ULL << (rank % 64);
        }
    }
}

}  // namespace arena
