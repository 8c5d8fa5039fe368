#include "saved.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace arena {

namespace {

void expect(const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most) {
        throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + ", which is not from " +
                                    std::to_string(least) + " to " + std::to_string(most));
    }
}

void load_walls(const SavedWorld& saved, World& world) {
    const Plan& plan = *world.plan;
    std::fill(world.things.begin(), world.things.end(), WALL);
    for (int y = 0; y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) {
            const int wall = saved.walls[y * plan.width + x];
            const bool is_ring = y == 0 || x == 0 || y == plan.height - 1 || x == plan.width - 1;
            expect("a cell of the walls", wall, is_ring ? 1 : 0, 1);
            if (!wall) world.things[plan.at(y, x)] = FLOOR;
        }
    }
}

// The position of a free cell, which is taken then, so that nothing else can be there.
int take_cell(World& world, const std::int32_t* place, Thing thing) {
    expect("a row", place[0], 0, world.plan->height - 1);
    expect("a column", place[1], 0, world.plan->width - 1);
    const int position = world.plan->at(place[0], place[1]);
    if (world.things[position] != FLOOR) {
        throw std::invalid_argument("two things are in row " + std::to_string(place[0]) + ", column " +
                                    std::to_string(place[1]));
    }
    world.things[position] = thing;
    return position;
}

void load_station(const SavedWorld& saved, int station, World& world) {
    const std::int32_t* row = saved.stations + station * STATION_COLUMNS;
    const int kind = world.plan->kinds[station];
    world.station_at[station] = take_cell(world, row, static_cast<Thing>(FIRST_STATION + station));
    expect("the kind of a station", row[2], kind, kind);
    expect("a cooldown", row[3], 0, 255);
    expect("a stock", row[4], ENDLESS, 65535);
    world.cooldown[station] = static_cast<std::int16_t>(row[3]);
    world.stock[station] = row[4];
}

void load_agent(const SavedWorld& saved, int agent, World& world) {
    const Plan& plan = *world.plan;
    const std::int32_t* row = saved.agents + agent * AGENT_COLUMNS;
    Self& self = world.selves[agent] = Self{};
    world.agent_at[agent] = take_cell(world, row, static_cast<Thing>(plan.first_agent + agent));
    expect("a facing", row[2], 0, 3);
    expect("a freeze", row[3], 0, 255);
    expect("a team", row[4], plan.teams_of[agent], plan.teams_of[agent]);
    expect("a last action", row[5], -1, ACTION_COUNT - 1);
    self.values[SELF_FACING] = static_cast<std::uint8_t>(1 + row[2]);
    self.values[SELF_FROZEN] = static_cast<std::uint8_t>(row[3]);
    self.values[SELF_LAST_ACTION] = static_cast<std::uint8_t>(1 + row[5]);
    world.frozen[agent] = static_cast<std::int16_t>(row[3]);
    for (int item = 0; item < ITEM_COUNT; ++item) {
        const std::int32_t carried = saved.inventories[agent * ITEM_COUNT + item];
        const std::int64_t account = saved.accounts[agent * ITEM_COUNT + item];
        expect("an item", carried, 0, plan.limit);
        expect("an account", account, 0, std::numeric_limits<std::int32_t>::max());
        self.values[item] = static_cast<std::uint8_t>(carried);
        world.accounts[agent * ITEM_COUNT + item] = static_cast<std::int32_t>(account);
    }
    for (int counter = 0; counter < COUNTER_COUNT; ++counter) {
        const std::int64_t counted = saved.counters[agent * COUNTER_COUNT + counter];
        expect("a counter", counted, 0, std::numeric_limits<std::uint32_t>::max());
        world.counters[agent * COUNTER_COUNT + counter] = static_cast<std::uint32_t>(counted);
    }
    world.returns[agent] = saved.returns[agent];
}

void save_agent(const World& world, int agent, SavedWorld& saved) {
    const Plan& plan = *world.plan;
    const std::uint8_t* self = world.selves[agent].values;
    if (saved.agents) {
        const int position = world.agent_at[agent];
        const std::int32_t row[AGENT_COLUMNS] = {plan.row_of(position),  plan.column_of(position),
                                                 self[SELF_FACING] - 1,  world.frozen[agent],
                                                 plan.teams_of[agent],   self[SELF_LAST_ACTION] - 1};
        std::copy_n(row, AGENT_COLUMNS, saved.agents + agent * AGENT_COLUMNS);
    }
    if (saved.inventories) std::copy_n(self, ITEM_COUNT, saved.inventories + agent * ITEM_COUNT);
    if (saved.accounts) {
        std::copy_n(&world.accounts[agent * ITEM_COUNT], ITEM_COUNT, saved.accounts + agent * ITEM_COUNT);
    }
    if (saved.counters) {
        std::copy_n(&world.counters[agent * COUNTER_COUNT], COUNTER_COUNT, saved.counters + agent * COUNTER_COUNT);
    }
    if (saved.returns) saved.returns[agent] = world.returns[agent];
}

}  // namespace

void load_world(const SavedWorld& saved, const Plan& plan, World& world) {
    expect("the step", saved.clock, 0, plan.max_steps);
    world.plan = &plan;
    world.task = saved.task;
    world.clock = static_cast<int>(saved.clock);
    world.dice.state = saved.dice;
    load_walls(saved, world);
    for (int station = 0; station < plan.total_stations; ++station) load_station(saved, station, world);
    for (int agent = 0; agent < plan.agents; ++agent) load_agent(saved, agent, world);
    world.place_everything();
}

void save_world(const World& world, SavedWorld& saved) {
    const Plan& plan = *world.plan;
    saved.task = world.task;
    saved.clock = world.clock;
    saved.dice = world.dice.state;
    for (int y = 0; saved.walls && y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) saved.walls[y * plan.width + x] = world.things[plan.at(y, x)] == WALL;
    }
    for (int station = 0; saved.stations && station < plan.total_stations; ++station) {
        const int position = world.station_at[station];
        const std::int32_t row[STATION_COLUMNS] = {plan.row_of(position), plan.column_of(position),
                                                   plan.kinds[station], world.cooldown[station], world.stock[station]};
        std::copy_n(row, STATION_COLUMNS, saved.stations + station * STATION_COLUMNS);
    }
    for (int agent = 0; agent < plan.agents; ++agent) save_agent(world, agent, saved);
}

}  // namespace arena
