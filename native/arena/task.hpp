// One task as it was asked for, and what follows from it once and for all.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tables.hpp"

namespace arena {

enum class Form { BYTES, TOKENS, BOX };

struct StationSettings {
    int count = 0;
    int cost = 0;
    int cooldown = 0;
    int stock = ENDLESS;
};

// The fields of ArenaSettings; `sight` is the radius of the view when nothing narrows it, a cap of -1 is none.
struct Task {
    int agents = 1, teams = 1;
    double team_share = 0.0;
    int width = 25, height = 25, room = 0, walls = 0;
    std::array<StationSettings, STATION_KINDS> stations{};
    std::array<int, ITEM_COUNT> inventory{};
    int limit = 50;
    std::array<double, ITEM_COUNT> rewards{};
    std::array<int, ITEM_COUNT> reward_caps{-1, -1, -1, -1, -1};
    bool combat = false;
    int reach = 3, freeze = 8, steal = 2;
    Form form = Form::BYTES;
    int view = 11, sight = 5;
    bool show_state = true;
    int tokens = 96;
    int max_steps = 256;

    // Throws std::invalid_argument with the name and the value of what cannot be.
    void check() const;
    int station_count() const;
};

// A cell of the grid holds one of these, 16 bits: floor, wall, then stations, then agents.
using Thing = std::uint16_t;
inline constexpr Thing FLOOR = 0, WALL = 1, FIRST_STATION = 2;

// A task with the geometry of its grid. The grid is the map with a margin of wall as wide as one can see, so that no view
// ever asks whether it leaves the map. Positions are indices into that grid.
struct Plan : Task {
    explicit Plan(const Task& task);

    int radius;
    int stride;                      // cells in a row of the grid
    int grid_size;                   // cells, with some behind the end for reads that are wider than a row
    int steps[4];                    // how far apart neighbours are, by facing
    int layers;                      // grids of codes: one per team when agents see bytes, else one
    int total_stations;
    Thing first_agent;               // FIRST_STATION + total_stations
    std::vector<std::uint8_t> kinds;  // [total_stations]
    std::vector<std::uint8_t> teams_of;  // [agents]

    int at(int y, int x) const { return (y + radius) * stride + x + radius; }
    int row_of(int position) const { return position / stride - radius; }
    int column_of(int position) const { return position % stride - radius; }
};

}  // namespace arena
