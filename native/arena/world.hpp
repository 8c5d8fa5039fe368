// One world: its state, a new episode, a step. docs/arena.md is what it does.
#pragma once

#include <cstdint>
#include <vector>

#include "dice.hpp"
#include "map_maker.hpp"
#include "task.hpp"

namespace arena {

// What an agent knows of itself, in the layout of the observation; 16 bytes, so that a record is one load.
struct Self {
    std::uint8_t values[16];
};

// The largest sizes over all tasks of a batch: memory is taken once.
struct Room {
    int agents = 0, stations = 0, grid_size = 0, layers = 0;
    void make_room_for(const Plan& plan);
};

class World {
   public:
    explicit World(const Room& room);

    // Begins an episode; false when no map could be drawn, and then the world does not run.
    bool begin(const Plan& plan, int task, std::uint64_t seed, MapMaker& maker);

    // One action per agent, checked before; writes rewards [agents].
    void step(const std::int64_t* actions, float* rewards);

    bool is_running() const { return plan != nullptr && clock < plan->max_steps; }

    // Grids and codes from walls, positions, cooldowns and freezes: after these have been set from outside.
    void place_everything();

    std::uint8_t* layer(int team) { return codes.data() + static_cast<std::size_t>(team) * plan->grid_size; }
    const std::uint8_t* layer(int team) const {
        return codes.data() + static_cast<std::size_t>(team) * plan->grid_size;
    }
    std::uint8_t agent_code(int agent, int seen_by_team) const;
    std::uint8_t station_code(int station) const;

    const Plan* plan = nullptr;  // null before the first episode
    int task = 0;
    int clock = 0;
    Dice dice;

    std::vector<Thing> things;        // [grid]
    std::vector<std::uint8_t> codes;  // [layers][grid] what an agent of a team sees there

    std::vector<std::int32_t> station_at;  // [stations] position
    // Cooldowns and freezes that are set in a step are set one higher, and all fall at its end: that is how "except those
    // set in this step" costs nothing. Between steps they are what the rules say.
    std::vector<std::int16_t> cooldown;  // [stations]
    std::vector<std::int32_t> stock;     // [stations]

    std::vector<std::int32_t> agent_at;    // [agents] position
    std::vector<Self> selves;              // [agents] items, facing + 1, frozen, last action + 1
    std::vector<std::int16_t> frozen;      // [agents]
    std::vector<std::int32_t> accounts;    // [agents][ITEM_COUNT]
    std::vector<std::uint32_t> counters;   // [agents][COUNTER_COUNT]
    std::vector<double> returns;           // [agents]

   private:
    void draw_order();
    void act(int agent, int action);
    void walk(int agent, int facing);
    void use(int agent, int station);
    void attack(int agent);
    int first_agent_ahead(int agent) const;
    void steal(int thief, int other);
    void gain(int agent, int item);
    void lose(int agent, int item);
    void pass_time();
    void share(float* rewards);
    void show_station(int station);
    void show_agent(int agent);
    void count(int agent, int counter, std::uint32_t by = 1) { counters[agent * COUNTER_COUNT + counter] += by; }

    std::vector<std::uint16_t> order_;  // [agents]
    std::vector<double> own_;           // [agents] rewards of this step before sharing
    int cooling_ = 0, frozen_ = 0;      // how many, so that a quiet world need not look
};

}  // namespace arena
