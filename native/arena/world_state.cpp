#include "world_state.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace arena {

namespace {

void check_range(const char* what, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most) {
        throw std::invalid_argument(std::string(what) + " is " + std::to_string(value) + ", which is not from " +
                                    std::to_string(least) + " to " + std::to_string(most));
    }
}

void load_walls(const WorldState& state, World& world) {
    const Plan& plan = *world.plan;
    std::fill(world.things.begin(), world.things.end(), WALL);
    for (int y = 0; y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) {
            const int wall = state.walls[y * plan.width + x];
            const bool is_ring = y == 0 || x == 0 || y == plan.height - 1 || x == plan.width - 1;
            check_range("a cell of the walls", wall, is_ring ? 1 : 0, 1);
            if (!wall) world.things[plan.at(y, x)] = FLOOR;
        }
    }
}

// Puts the thing on a free cell, and returns the cell's position.
int occupy_cell(World& world, const std::int32_t* place, Thing thing) {
    check_range("a row", place[0], 0, world.plan->height - 1);
    check_range("a column", place[1], 0, world.plan->width - 1);
    const int position = world.plan->at(place[0], place[1]);
    if (world.things[position] != FLOOR) {
        throw std::invalid_argument("two things are in row " + std::to_string(place[0]) + ", column " +
                                    std::to_string(place[1]));
    }
    world.things[position] = thing;
    return position;
}

void load_station(const WorldState& state, int station, World& world) {
    const std::int32_t* row = state.stations + station * STATION_COLUMNS;
    const int kind = world.plan->kinds[station];
    world.station_at[station] = occupy_cell(world, row, static_cast<Thing>(FIRST_STATION + station));
    check_range("the kind of a station", row[2], kind, kind);
    check_range("a cooldown", row[3], 0, 255);
    check_range("a stock", row[4], UNLIMITED, 65535);
    world.cooldown[station] = static_cast<std::int16_t>(row[3]);
    world.stock[station] = row[4];
}

void load_agent(const WorldState& state, int agent, World& world) {
    const Plan& plan = *world.plan;
    const std::int32_t* row = state.agents + agent * AGENT_COLUMNS;
    Self& self = world.selves[agent] = Self{};
    world.agent_at[agent] = occupy_cell(world, row, static_cast<Thing>(plan.first_agent + agent));
    check_range("a facing", row[2], 0, 3);
    check_range("a freeze", row[3], 0, 255);
    check_range("a team", row[4], plan.teams_of[agent], plan.teams_of[agent]);
    check_range("a last action", row[5], -1, ACTION_COUNT - 1);
    self.values[SELF_FACING] = static_cast<std::uint8_t>(1 + row[2]);
    self.values[SELF_FROZEN] = static_cast<std::uint8_t>(row[3]);
    self.values[SELF_LAST_ACTION] = static_cast<std::uint8_t>(1 + row[5]);
    world.frozen[agent] = static_cast<std::int16_t>(row[3]);
    for (int item = 0; item < ITEM_COUNT; ++item) {
        const std::int32_t carried = state.inventories[agent * ITEM_COUNT + item];
        const std::int64_t account = state.accounts[agent * ITEM_COUNT + item];
        check_range("an item", carried, 0, plan.limit);
        check_range("an account", account, 0, std::numeric_limits<std::int32_t>::max());
        self.values[item] = static_cast<std::uint8_t>(carried);
        world.accounts[agent * ITEM_COUNT + item] = static_cast<std::int32_t>(account);
    }
    for (int counter = 0; counter < COUNTER_COUNT; ++counter) {
        const std::int64_t counted = state.counters[agent * COUNTER_COUNT + counter];
        check_range("a counter", counted, 0, std::numeric_limits<std::uint32_t>::max());
        world.counters[agent * COUNTER_COUNT + counter] = static_cast<std::uint32_t>(counted);
    }
    world.returns[agent] = state.returns[agent];
}

void save_agent(const World& world, int agent, WorldState& state) {
    const Plan& plan = *world.plan;
    const std::uint8_t* self = world.selves[agent].values;
    if (state.agents) {
        const int position = world.agent_at[agent];
        const std::int32_t row[AGENT_COLUMNS] = {plan.row_of(position), plan.column_of(position),
                                                 self[SELF_FACING] - 1, world.frozen[agent],
                                                 plan.teams_of[agent],  self[SELF_LAST_ACTION] - 1};
        std::copy_n(row, AGENT_COLUMNS, state.agents + agent * AGENT_COLUMNS);
    }
    if (state.inventories) std::copy_n(self, ITEM_COUNT, state.inventories + agent * ITEM_COUNT);
    if (state.accounts) {
        std::copy_n(&world.accounts[agent * ITEM_COUNT], ITEM_COUNT, state.accounts + agent * ITEM_COUNT);
    }
    if (state.counters) {
        std::copy_n(&world.counters[agent * COUNTER_COUNT], COUNTER_COUNT, state.counters + agent * COUNTER_COUNT);
    }
    if (state.returns) state.returns[agent] = world.returns[agent];
}

}  // namespace

void load_state(const WorldState& state, const Plan& plan, World& world) {
    check_range("the step", state.clock, 0, plan.max_steps);
    world.plan = &plan;
    world.task = state.task;
    world.clock = static_cast<int>(state.clock);
    world.rng.state = state.rng;
    load_walls(state, world);
    for (int station = 0; station < plan.total_stations; ++station) load_station(state, station, world);
    for (int agent = 0; agent < plan.agents; ++agent) load_agent(state, agent, world);
    world.rebuild_grids();
}

void save_state(const World& world, WorldState& state) {
    const Plan& plan = *world.plan;
    state.task = world.task;
    state.clock = world.clock;
    state.rng = world.rng.state;
    for (int y = 0; state.walls && y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) state.walls[y * plan.width + x] = world.things[plan.at(y, x)] == WALL;
    }
    for (int station = 0; state.stations && station < plan.total_stations; ++station) {
        const int position = world.station_at[station];
        const std::int32_t row[STATION_COLUMNS] = {plan.row_of(position), plan.column_of(position), plan.kinds[station],
                                                   world.cooldown[station], world.stock[station]};
        std::copy_n(row, STATION_COLUMNS, state.stations + station * STATION_COLUMNS);
    }
    for (int agent = 0; agent < plan.agents; ++agent) save_agent(world, agent, state);
}

namespace {

void require(bool holds, const std::string& message) {
    if (!holds) throw std::runtime_error(message);
}

void check_places(const World& world) {
    const Plan& plan = *world.plan;
    int agents_on_the_map = 0, stations_on_the_map = 0;
    for (int y = 0; y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) {
            const Thing thing = world.things[plan.at(y, x)];
            const bool is_ring = y == 0 || x == 0 || y == plan.height - 1 || x == plan.width - 1;
            require(!is_ring || thing == WALL, "the outer ring has a hole");
            agents_on_the_map += thing >= plan.first_agent;
            stations_on_the_map += thing >= FIRST_STATION && thing < plan.first_agent;
        }
    }
    require(agents_on_the_map == plan.agents, "an agent is not on the map, or two share a cell");
    require(stations_on_the_map == plan.total_stations, "a station is missing");
    for (int agent = 0; agent < plan.agents; ++agent) {
        require(world.things[world.agent_at[agent]] == plan.first_agent + agent, "an agent is not at its position");
    }
    for (int station = 0; station < plan.total_stations; ++station) {
        require(world.things[world.station_at[station]] == FIRST_STATION + station, "a station is not at its position");
    }
}

void check_codes(const World& world) {
    const Plan& plan = *world.plan;
    for (int team = 0; team < plan.layers; ++team) {
        for (int position = 0; position < plan.grid_size; ++position) {
            const Thing thing = world.things[position];
            int expected = thing;  // floor and wall are their own codes
            if (thing >= plan.first_agent) {
                expected = world.agent_code(thing - plan.first_agent, team);
            } else if (thing >= FIRST_STATION) {
                expected = world.station_code(thing - FIRST_STATION);
            }
            require(world.layer(team)[position] == expected, "a cell's code does not match its content");
        }
    }
}

// Items carried now = initial inventory + produced - spent.
void check_items(const World& world) {
    const Plan& plan = *world.plan;
    std::int64_t carried[ITEM_COUNT] = {}, counted[COUNTER_COUNT] = {};
    for (int agent = 0; agent < plan.agents; ++agent) {
        for (int item = 0; item < ITEM_COUNT; ++item) {
            require(world.selves[agent].values[item] <= plan.limit, "an agent carries more than the limit");
            carried[item] += world.selves[agent].values[item];
        }
        for (int counter = 0; counter < COUNTER_COUNT; ++counter) {
            counted[counter] += world.counters[agent * COUNTER_COUNT + counter];
        }
    }
    const auto spent_at = [&](Station kind) { return plan.stations[kind].cost * counted[PRODUCT[kind]]; };
    const std::int64_t spent[ITEM_COUNT] = {spent_at(GENERATOR) + spent_at(ARMOURY),
                                            spent_at(ALTAR) + spent_at(CHARGER), 0, counted[BLOCKED], counted[ATTACKS]};
    for (int item = 0; item < ITEM_COUNT; ++item) {
        const std::int64_t expected =
            static_cast<std::int64_t>(plan.inventory[item]) * plan.agents + counted[item] - spent[item];
        require(carried[item] == expected, "item " + std::to_string(item) + ": " + std::to_string(carried[item]) +
                                               " carried, " + std::to_string(expected) + " accounted for");
    }
    require(counted[STOLEN] == counted[LOST], "the items stolen and lost differ");
    require(counted[HITS] + counted[BLOCKED] == counted[ATTACKS],
            "hits and blocked attacks do not add up to the attacks");
}

void check_stocks(const World& world) {
    const Plan& plan = *world.plan;
    std::int64_t used[STATION_KINDS] = {}, made[STATION_KINDS] = {};
    for (int station = 0; station < plan.total_stations; ++station) {
        const int kind = plan.kinds[station];
        used[kind] += plan.stations[kind].stock - world.stock[station];
    }
    for (int kind = 0; kind < STATION_KINDS; ++kind) {
        if (plan.stations[kind].stock == UNLIMITED) continue;
        for (int agent = 0; agent < plan.agents; ++agent) {
            made[kind] += world.counters[agent * COUNTER_COUNT + PRODUCT[kind]];
        }
        require(used[kind] == made[kind], "a stock does not match the number of uses");
    }
}

}  // namespace

void check_world(const World& world) {
    check_places(world);
    check_codes(world);
    check_items(world);
    check_stocks(world);
}

}  // namespace arena
