// The random generator of a world, and the maps of new episodes: docs/arena.md, "A new episode", 1 to 5.
#pragma once

#include <cstdint>
#include <vector>

#include "task.hpp"

namespace arena {

// As in apps/arena/maps.py: both implementations draw the same numbers.
struct SplitMix64 {
    std::uint64_t state = 0;

    std::uint64_t next() {
        state += 0x9E3779B97F4A7C15ULL;
        std::uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
        return mixed ^ (mixed >> 31);
    }

    // Uniform in [0, count).
    int below(int count) { return static_cast<int>(((next() >> 32) * static_cast<std::uint64_t>(count)) >> 32); }
};

// Cells are numbered row by row, as in the rules: cell = y * width + x.
class MapGenerator {
   public:
    // False if no attempt succeeded, which does not happen with valid settings.
    bool generate(const Task& task, SplitMix64& rng);

    const std::vector<std::uint8_t>& is_floor() const { return floor_; }  // [height * width]
    const std::vector<int>& station_cells() const { return stations_; }   // in the order of kinds
    std::vector<int>& floor_cells() { return list_; }                     // free cells, in order

   private:
    bool attempt(const Task& task, SplitMix64& rng, int number);
    void build_rooms(const Task& task, SplitMix64& rng);
    void build_doors(const Task& task, SplitMix64& rng);
    void scatter_walls(SplitMix64& rng, int pieces);
    int keep_largest_region();
    int flood_fill(int start, int label);
    bool place_stations(const Task& task, SplitMix64& rng);
    bool is_free_for_station(int cell) const;
    bool blocks_station(int cell) const;

    int width_ = 0, height_ = 0;
    std::vector<std::uint8_t> floor_;
    std::vector<std::uint8_t> is_station_;
    std::vector<std::uint16_t> labels_;
    std::vector<int> queue_, list_, stations_;
};

}  // namespace arena
