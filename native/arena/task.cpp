#include "task.hpp"

#include <stdexcept>
#include <string>

namespace arena {

namespace {

constexpr int READ_BEYOND = 16;  // a row is read 16 bytes at a time

void expect(const std::string& name, long long value, long long least, long long most) {
    if (value < least || value > most) {
        throw std::invalid_argument(name + "=" + std::to_string(value) + " must be from " + std::to_string(least) +
                                    " to " + std::to_string(most));
    }
}

}  // namespace

int Task::station_count() const {
    int total = 0;
    for (const StationSettings& station : stations) total += station.count;
    return total;
}

void Task::check() const {
    expect("agents", agents, 1, MOST_AGENTS);
    expect("teams", teams, 1, MOST_TEAMS);
    expect("width", width, SMALLEST_SIDE, LARGEST_SIDE);
    expect("height", height, SMALLEST_SIDE, LARGEST_SIDE);
    expect("room", room, 0, LARGEST_SIDE);
    expect("walls", walls, 0, 1024);
    for (const StationSettings& station : stations) {
        expect("station count", station.count, 0, MOST_STATIONS_OF_A_KIND);
        expect("station cost", station.cost, 0, 255);
        expect("station cooldown", station.cooldown, 0, 255);
        expect("station stock", station.stock, ENDLESS, 65535);
    }
    expect("limit", limit, 1, 255);
    for (int item = 0; item < ITEM_COUNT; ++item) {
        expect("inventory", inventory[item], 0, limit);
        expect("reward cap", reward_caps[item], -1, 65535);
    }
    expect("reach", reach, 1, 15);
    expect("freeze", freeze, 1, 255);
    expect("steal", steal, 0, 255);
    expect("view", view, 3, LARGEST_VIEW);
    if (view % 2 == 0) throw std::invalid_argument("view=" + std::to_string(view) + " has no middle");
    expect("sight", sight, 1, view / 2);
    expect("tokens", tokens, FEWEST_TOKENS, MOST_TOKENS);
    expect("max_steps", max_steps, 1, 1000000);
    expect("agents + 4 * stations", agents + 4 * station_count(), 1, (width - 2) * (height - 2));
}

Plan::Plan(const Task& task) : Task(task) {
    check();
    radius = view / 2;
    stride = width + 2 * radius;
    grid_size = stride * (height + 2 * radius) + READ_BEYOND;
    steps[0] = -stride;
    steps[1] = 1;
    steps[2] = stride;
    steps[3] = -1;
    layers = form == Form::BYTES ? teams : 1;
    total_stations = station_count();
    first_agent = static_cast<Thing>(FIRST_STATION + total_stations);
    for (int kind = 0; kind < STATION_KINDS; ++kind) {
        kinds.insert(kinds.end(), stations[kind].count, static_cast<std::uint8_t>(kind));
    }
    for (int agent = 0; agent < agents; ++agent) teams_of.push_back(static_cast<std::uint8_t>(agent % teams));
}

}  // namespace arena
