// Draws the map of a new episode: docs/arena.md, "A new episode", 1 to 5.
#pragma once

#include <cstdint>
#include <vector>

#include "dice.hpp"
#include "task.hpp"

namespace arena {

// Cells are counted row by row here, as in the rules: cell = y * width + x.
class MapMaker {
   public:
    // False when no attempt succeeded; checked settings never came near that.
    bool draw(const Task& task, Dice& dice);

    const std::vector<std::uint8_t>& is_floor() const { return floor_; }  // [height * width]
    const std::vector<int>& station_cells() const { return stations_; }   // kind by kind
    std::vector<int>& floor_cells() { return list_; }                     // what is left, in order

   private:
    bool attempt(const Task& task, Dice& dice, int number);
    void build_rooms(const Task& task, Dice& dice);
    void build_doors(const Task& task, Dice& dice);
    void strew_walls(Dice& dice, int pieces);
    int keep_largest_area();
    int fill(int start, int label);
    bool place_stations(const Task& task, Dice& dice);
    bool can_be_built_on(int cell) const;
    bool buries_a_station(int cell) const;

    int width_ = 0, height_ = 0;
    std::vector<std::uint8_t> floor_;
    std::vector<std::uint8_t> is_station_;
    std::vector<std::uint16_t> labels_;
    std::vector<int> queue_, list_, stations_;
};

}  // namespace arena
