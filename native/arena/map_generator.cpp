#include "map_generator.hpp"

#include <algorithm>
#include <array>

namespace arena {

namespace {

constexpr int MAX_ATTEMPTS = 100000;  // bounds the loop, which would otherwise block its thread

// Indexed by the floor among the eight neighbours (bit 0 north, bit 1 north-east, …): whether exactly one run of floor
// contains a direct neighbour (even bits).
std::array<bool, 256> find_single_runs() {
    std::array<bool, 256> single{};
    for (int around = 0; around < 256; ++around) {
        int runs = 0;
        for (int start = 0; start < 8; ++start) {
            const bool begins = (around >> start & 1) && !(around >> ((start + 7) % 8) & 1);
            if (!begins) continue;
            bool is_direct = false;
            for (int k = start; around >> (k % 8) & 1; ++k) is_direct |= k % 2 == 0;
            runs += is_direct;
        }
        single[around] = around == 255 || runs == 1;
    }
    return single;
}

const std::array<bool, 256> IS_SINGLE_RUN = find_single_runs();

}  // namespace

bool MapGenerator::generate(const Task& task, SplitMix64& rng) {
    width_ = task.width;
    height_ = task.height;
    for (int number = 0; number < MAX_ATTEMPTS; ++number) {
        if (attempt(task, rng, number)) return true;
    }
    return false;
}

bool MapGenerator::attempt(const Task& task, SplitMix64& rng, int number) {
    floor_.assign(static_cast<std::size_t>(width_) * height_, 0);
    for (int y = 1; y < height_ - 1; ++y) std::fill_n(floor_.begin() + y * width_ + 1, width_ - 2, 1);
    if (task.room > 0 && number == 0) build_rooms(task, rng);
    scatter_walls(rng, number < 31 ? task.walls >> number : 0);
    if (keep_largest_region() < task.agents + 4 * task.station_count()) return false;
    return place_stations(task, rng);
}

void MapGenerator::build_rooms(const Task& task, SplitMix64& rng) {
    const int pitch = task.room + 1;
    for (int x = pitch; x < width_ - 1; x += pitch) {
        for (int y = 1; y < height_ - 1; ++y) floor_[y * width_ + x] = 0;
    }
    for (int y = pitch; y < height_ - 1; y += pitch) {
        for (int x = 1; x < width_ - 1; ++x) floor_[y * width_ + x] = 0;
    }
    build_doors(task, rng);
}

void MapGenerator::build_doors(const Task& task, SplitMix64& rng) {
    const int pitch = task.room + 1;
    for (int top = 1; top < height_ - 1; top += pitch) {
        const int rows = std::min(task.room, height_ - 1 - top);
        for (int left = 1; left < width_ - 1; left += pitch) {
            const int columns = std::min(task.room, width_ - 1 - left);
            if (left + pitch < width_ - 1) floor_[(top + rng.below(rows)) * width_ + left + task.room] = 1;
            if (top + pitch < height_ - 1) floor_[(top + task.room) * width_ + left + rng.below(columns)] = 1;
        }
    }
}

void MapGenerator::scatter_walls(SplitMix64& rng, int pieces) {
    for (int piece = 0; piece < pieces; ++piece) {
        int y = 1 + rng.below(height_ - 2);
        int x = 1 + rng.below(width_ - 2);
        const bool south = rng.below(2) == 1;
        const int length = 2 + rng.below(4);
        for (int k = 0; k < length && y < height_ - 1 && x < width_ - 1; ++k) {
            floor_[y * width_ + x] = 0;
            (south ? y : x) += 1;
        }
    }
}

int MapGenerator::keep_largest_region() {
    labels_.assign(floor_.size(), 0);
    int label = 0, largest = 0, largest_label = 0;
    for (int cell = 0; cell < static_cast<int>(floor_.size()); ++cell) {
        if (!floor_[cell] || labels_[cell]) continue;
        const int size = flood_fill(cell, ++label);
        if (size > largest) {
            largest = size;
            largest_label = label;
        }
    }
    for (std::size_t cell = 0; cell < floor_.size(); ++cell) floor_[cell] &= labels_[cell] == largest_label;
    return largest;
}

// Labels the region around `start`, and returns its number of cells.
int MapGenerator::flood_fill(int start, int label) {
    queue_.assign(1, start);
    labels_[start] = static_cast<std::uint16_t>(label);
    for (std::size_t next = 0; next < queue_.size(); ++next) {
        const int cell = queue_[next];
        for (const int neighbour : {cell - width_, cell + 1, cell + width_, cell - 1}) {
            if (floor_[neighbour] && !labels_[neighbour]) {
                labels_[neighbour] = static_cast<std::uint16_t>(label);
                queue_.push_back(neighbour);
            }
        }
    }
    return static_cast<int>(queue_.size());
}

bool MapGenerator::place_stations(const Task& task, SplitMix64& rng) {
    stations_.clear();
    is_station_.assign(floor_.size(), 0);
    list_.clear();
    for (std::size_t cell = 0; cell < floor_.size(); ++cell) {
        if (floor_[cell]) list_.push_back(static_cast<int>(cell));
    }
    const int wanted = task.station_count();
    for (int station = 0; station < wanted; ++station) {
        const int length = static_cast<int>(list_.size());
        const int entry = rng.below(length);
        int passed = 0;
        while (passed < length && !is_free_for_station(list_[(entry + passed) % length])) ++passed;
        if (passed == length) return false;
        const int place = (entry + passed) % length;
        stations_.push_back(list_[place]);
        floor_[list_[place]] = 0;
        is_station_[list_[place]] = 1;
        list_.erase(list_.begin() + place);
    }
    return true;
}

bool MapGenerator::is_free_for_station(int cell) const {
    const std::uint8_t* here = floor_.data() + cell;
    const int around = here[-width_] | here[-width_ + 1] << 1 | here[1] << 2 | here[width_ + 1] << 3 |
                       here[width_] << 4 | here[width_ - 1] << 5 | here[-1] << 6 | here[-width_ - 1] << 7;
    return IS_SINGLE_RUN[around] && !blocks_station(cell);
}

bool MapGenerator::blocks_station(int cell) const {
    for (const int station : {cell - width_, cell + 1, cell + width_, cell - 1}) {
        if (!is_station_[station]) continue;
        const std::uint8_t* here = floor_.data() + station;
        if (here[-width_] + here[1] + here[width_] + here[-1] == 1) return true;  // and that is `cell`
    }
    return false;
}

}  // namespace arena
