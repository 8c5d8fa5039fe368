// A world as plain arrays, for saving, restoring, drawing and comparing. They are those of WorldState in Python.
#pragma once

#include <cstdint>

#include "world.hpp"

namespace arena {

inline constexpr int STATION_COLUMNS = 5;  // y, x, kind, cooldown, stock left or UNLIMITED
inline constexpr int AGENT_COLUMNS = 6;    // y, x, facing, frozen, team, last action or -1

struct WorldState {
    int task = 0;
    std::int64_t clock = 0;
    std::uint64_t rng = 0;
    std::uint8_t* walls = nullptr;        // [height][width]
    std::int32_t* stations = nullptr;     // [stations][STATION_COLUMNS]
    std::int32_t* agents = nullptr;       // [agents][AGENT_COLUMNS]
    std::int32_t* inventories = nullptr;  // [agents][ITEM_COUNT]
    std::int64_t* accounts = nullptr;     // [agents][ITEM_COUNT]
    std::int64_t* counters = nullptr;     // [agents][COUNTER_COUNT]
    double* returns = nullptr;            // [agents]
};

// Fills those arrays that are not null.
void save_state(const World& world, WorldState& state);

// The arrays must have the plan's shapes; throws std::invalid_argument for invalid contents.
void load_state(const WorldState& state, const Plan& plan, World& world);

// Throws std::runtime_error if an invariant is violated: shared cells, inconsistent grids, items created or lost.
void check_world(const World& world);

}  // namespace arena
