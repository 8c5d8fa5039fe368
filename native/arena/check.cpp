#include <stdexcept>
#include <string>

#include "saved.hpp"

namespace arena {

namespace {

void demand(bool holds, const std::string& otherwise) {
    if (!holds) throw std::runtime_error(otherwise);
}

void check_places(const World& world) {
    const Plan& plan = *world.plan;
    int agents_on_the_map = 0, stations_on_the_map = 0;
    for (int y = 0; y < plan.height; ++y) {
        for (int x = 0; x < plan.width; ++x) {
            const Thing thing = world.things[plan.at(y, x)];
            const bool is_ring = y == 0 || x == 0 || y == plan.height - 1 || x == plan.width - 1;
            demand(!is_ring || thing == WALL, "the outer ring has a hole");
            agents_on_the_map += thing >= plan.first_agent;
            stations_on_the_map += thing >= FIRST_STATION && thing < plan.first_agent;
        }
    }
    demand(agents_on_the_map == plan.agents, "an agent is nowhere, or two share a cell");
    demand(stations_on_the_map == plan.total_stations, "a station has gone");
    for (int agent = 0; agent < plan.agents; ++agent) {
        demand(world.things[world.agent_at[agent]] == plan.first_agent + agent, "an agent is not where it thinks");
    }
    for (int station = 0; station < plan.total_stations; ++station) {
        demand(world.things[world.station_at[station]] == FIRST_STATION + station, "a station has moved");
    }
}

void check_codes(const World& world) {
    const Plan& plan = *world.plan;
    for (int team = 0; team < plan.layers; ++team) {
        for (int position = 0; position < plan.grid_size; ++position) {
            const Thing thing = world.things[position];
            int expected = thing;  // floor and wall have the same number as a code
            if (thing >= plan.first_agent) {
                expected = world.agent_code(thing - plan.first_agent, team);
            } else if (thing >= FIRST_STATION) {
                expected = world.station_code(thing - FIRST_STATION);
            }
            demand(world.layer(team)[position] == expected, "a cell does not look like what is there");
        }
    }
}

// What was carried at first and what was made, less what was spent, is what is carried now.
void check_items(const World& world) {
    const Plan& plan = *world.plan;
    std::int64_t carried[ITEM_COUNT] = {}, counted[COUNTER_COUNT] = {};
    for (int agent = 0; agent < plan.agents; ++agent) {
        for (int item = 0; item < ITEM_COUNT; ++item) {
            demand(world.selves[agent].values[item] <= plan.limit, "an agent carries more than it can");
            carried[item] += world.selves[agent].values[item];
        }
        for (int counter = 0; counter < COUNTER_COUNT; ++counter) {
            counted[counter] += world.counters[agent * COUNTER_COUNT + counter];
        }
    }
    const auto spent_at = [&](Station kind) { return plan.stations[kind].cost * counted[PRODUCT[kind]]; };
    const std::int64_t spent[ITEM_COUNT] = {spent_at(GENERATOR) + spent_at(ARMOURY), spent_at(ALTAR) + spent_at(CHARGER),
                                            0, counted[BLOCKED], counted[ATTACKS]};
    for (int item = 0; item < ITEM_COUNT; ++item) {
        const std::int64_t expected =
            static_cast<std::int64_t>(plan.inventory[item]) * plan.agents + counted[item] - spent[item];
        demand(carried[item] == expected, "item " + std::to_string(item) + ": " + std::to_string(carried[item]) +
                                              " carried, " + std::to_string(expected) + " accounted for");
    }
    demand(counted[STOLEN] == counted[LOST], "more was stolen than lost, or less");
    demand(counted[HITS] + counted[BLOCKED] == counted[ATTACKS], "an attack neither hit nor was blocked");
}

void check_stocks(const World& world) {
    const Plan& plan = *world.plan;
    std::int64_t used[STATION_KINDS] = {}, made[STATION_KINDS] = {};
    for (int station = 0; station < plan.total_stations; ++station) {
        const int kind = plan.kinds[station];
        used[kind] += plan.stations[kind].stock - world.stock[station];
    }
    for (int kind = 0; kind < STATION_KINDS; ++kind) {
        if (plan.stations[kind].stock == ENDLESS) continue;
        for (int agent = 0; agent < plan.agents; ++agent) {
            made[kind] += world.counters[agent * COUNTER_COUNT + PRODUCT[kind]];
        }
        demand(used[kind] == made[kind], "a stock fell without a use, or the reverse");
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
