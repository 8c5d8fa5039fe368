// One world: its state, a new episode, a step. docs/arena.md is what it does.
#pragma once

#include <cstdint>
#include <vector>

#include "map_generator.hpp"

namespace arena {

// What an agent observes of itself, in the layout of the observation; 16 bytes, so that it is one load.
struct Self {
    std::uint8_t values[16];
};

// The largest sizes over all tasks of a batch: memory is allocated once.
struct WorldCapacity {
    int agents = 0, stations = 0, grid_size = 0, layers = 0;
    void include(const Plan& plan);
};

class World {
   public:
    explicit World(const WorldCapacity& room);

    // Starts an episode; false if no map could be generated, and then the world is not running.
    bool reset(const Plan& plan, int task, std::uint64_t seed, MapGenerator& generator);

    // Actions [agents] must be valid; writes rewards [agents].
    void step(const std::int64_t* actions, float* rewards);

    bool is_running() const { return plan != nullptr && clock < plan->max_steps; }

    // Recomputes grids and codes from walls, positions, cooldowns and freezes, after those were set from outside.
    void rebuild_grids();

    std::uint8_t* layer(int team) { return codes.data() + static_cast<std::size_t>(team) * plan->grid_size; }
    const std::uint8_t* layer(int team) const {
        return codes.data() + static_cast<std::size_t>(team) * plan->grid_size;
    }
    std::uint8_t agent_code(int agent, int seen_by_team) const;
    std::uint8_t station_code(int station) const;

    const Plan* plan = nullptr;  // null before the first episode
    int task = 0;
    int clock = 0;
    SplitMix64 rng;

    std::vector<Thing> things;        // [grid]
    std::vector<std::uint8_t> codes;  // [layers][grid] what agents of a team see

    std::vector<std::int32_t> station_at;  // [stations] position
    // Cooldowns and freezes are set one higher during a step, and all decrease at its end; so the rule "except those
    // set in this step" needs no extra check. Between steps they have the values of the rules.
    std::vector<std::int16_t> cooldown;  // [stations]
    std::vector<std::int32_t> stock;     // [stations]

    std::vector<std::int32_t> agent_at;   // [agents] position
    std::vector<Self> selves;             // [agents] items, facing + 1, frozen, last action + 1
    std::vector<std::int16_t> frozen;     // [agents]
    std::vector<std::int32_t> accounts;   // [agents][ITEM_COUNT]
    std::vector<std::uint32_t> counters;  // [agents][COUNTER_COUNT]
    std::vector<double> returns;          // [agents]

   private:
    void shuffle_order();
    void act(int agent, int action);
    void walk(int agent, int facing);
    void use(int agent, int station);
    void attack(int agent);
    int first_agent_in_reach(int agent) const;
    void steal(int thief, int other);
    void gain(int agent, int item);
    void lose(int agent, int item);
    void advance_timers();
    void distribute_rewards(float* rewards);
    void update_station_code(int station);
    void update_agent_code(int agent);
    void count(int agent, int counter, std::uint32_t by = 1) { counters[agent * COUNTER_COUNT + counter] += by; }

    std::vector<std::uint16_t> order_;  // [agents]
    std::vector<double> own_rewards_;   // [agents] rewards of this step before sharing
    int cooling_ = 0, frozen_ = 0;      // counts, to skip the loops of a world without any
};

}  // namespace arena
