// A world as plain tables: what is saved, restored, drawn and compared. The tables are those of WorldState in Python.
#pragma once

#include <cstdint>

#include "world.hpp"

namespace arena {

inline constexpr int STATION_COLUMNS = 5;  // y, x, kind, cooldown, stock left or ENDLESS
inline constexpr int AGENT_COLUMNS = 6;    // y, x, facing, frozen, team, last action or -1

struct SavedWorld {
    int task = 0;
    std::int64_t clock = 0;
    std::uint64_t dice = 0;
    std::uint8_t* walls = nullptr;         // [height][width]
    std::int32_t* stations = nullptr;      // [stations][STATION_COLUMNS]
    std::int32_t* agents = nullptr;        // [agents][AGENT_COLUMNS]
    std::int32_t* inventories = nullptr;   // [agents][ITEM_COUNT]
    std::int64_t* accounts = nullptr;      // [agents][ITEM_COUNT]
    std::int64_t* counters = nullptr;      // [agents][COUNTER_COUNT]
    double* returns = nullptr;             // [agents]
};

// Writes those tables that are given.
void save_world(const World& world, SavedWorld& saved);

// Tables of the plan's shapes; throws std::invalid_argument when what they say cannot be.
void load_world(const SavedWorld& saved, const Plan& plan, World& world);

// Throws std::runtime_error when two things share a cell, the grids disagree, or items came from or went nowhere.
void check_world(const World& world);

}  // namespace arena
