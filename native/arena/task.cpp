#include "task.hpp"

#include <stdexcept>
#include <string>

namespace arena {

namespace {

constexpr int READ_BEYOND = 16;  // rows are read 16 bytes at a time

void check_range(const std::string& name, long long value, long long least, long long most) {
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
    check_range("agents", agents, 1, MAX_AGENTS);
    check_range("teams", teams, 1, MAX_TEAMS);
    check_range("width", width, MIN_SIDE, MAX_SIDE);
    check_range("height", height, MIN_SIDE, MAX_SIDE);
    check_range("room", room, 0, MAX_SIDE);
    check_range("walls", walls, 0, 1024);
    for (const StationSettings& station : stations) {
        check_range("station count", station.count, 0, MAX_STATIONS_OF_A_KIND);
        check_range("station cost", station.cost, 0, 255);
        check_range("station cooldown", station.cooldown, 0, 255);
        check_range("station stock", station.stock, UNLIMITED, 65535);
    }
    check_range("limit", limit, 1, 255);
    for (int item = 0; item < ITEM_COUNT; ++item) {
        check_range("inventory", inventory[item], 0, limit);
        check_range("reward cap", reward_caps[item], -1, 65535);
    }
    check_range("reach", reach, 1, 15);
    check_range("freeze", freeze, 1, 255);
    check_range("steal", steal, 0, 255);
    check_range("view", view, 3, MAX_VIEW);
    if (view % 2 == 0) throw std::invalid_argument("view=" + std::to_string(view) + " must be odd");
    check_range("sight", sight, 1, view / 2);
    check_range("tokens", tokens, MIN_TOKENS, MAX_TOKENS);
    check_range("max_steps", max_steps, 1, 1000000);
    check_range("agents + 4 * stations", agents + 4 * station_count(), 1, (width - 2) * (height - 2));
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
    layers = form == ObservationForm::BYTES ? teams : 1;
    total_stations = station_count();
    first_agent = static_cast<Thing>(FIRST_STATION + total_stations);
    for (int kind = 0; kind < STATION_KINDS; ++kind) {
        kinds.insert(kinds.end(), stations[kind].count, static_cast<std::uint8_t>(kind));
    }
    for (int agent = 0; agent < agents; ++agent) teams_of.push_back(static_cast<std::uint8_t>(agent % teams));
}

}  // namespace arena
