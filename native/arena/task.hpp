// Constants of Arena's rules (as in apps/arena/tables.py; a test compares them), and one task's settings.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace arena {

enum Item { ORE, BATTERY, HEART, ARMOUR, CHARGE, ITEM_COUNT };
enum Station { MINE, GENERATOR, ALTAR, ARMOURY, CHARGER, STATION_KINDS };
enum Action { REST, NORTH, EAST, SOUTH, WEST, ATTACK, ACTION_COUNT };

inline constexpr int NONE = -1;
inline constexpr int PRODUCT[STATION_KINDS] = {ORE, BATTERY, HEART, ARMOUR, CHARGE};
inline constexpr int INGREDIENT[STATION_KINDS] = {NONE, ORE, BATTERY, ORE, BATTERY};

enum Code : std::uint8_t {
    FLOOR_CODE = 0,
    WALL_CODE = 1,
    UNSEEN_CODE = 2,
    FIRST_STATION_CODE = 3,  // + 3 x kind + state
    FRIEND_CODE = 18,        // + 1 when frozen
    FOE_CODE = 20,           // + 1 when frozen
    CODE_COUNT = 22,
};
enum StationState { READY, COOLING, EXHAUSTED, STATION_STATES };

// What an agent observes of itself, in the order of the byte vector "self". The items come first.
enum SelfField { SELF_FACING = ITEM_COUNT, SELF_FROZEN, SELF_LAST_ACTION, SELF_PROGRESS, SELF_COUNT };

enum Feature : std::uint8_t {
    WALL_FEATURE = 0,
    FIRST_STATION_FEATURE = 1,  // + kind
    COOLDOWN_FEATURE = 6,
    EXHAUSTED_FEATURE = 7,
    FRIEND_FEATURE = 8,
    FOE_FEATURE = 9,
    FACING_FEATURE = 10,
    FROZEN_FEATURE = 11,
    ARMOUR_FEATURE = 12,
    HEART_FEATURE = 13,
    FIRST_SELF_FEATURE = 14,  // + self field
    FEATURE_COUNT = 23,
};
static_assert(FIRST_SELF_FEATURE + SELF_COUNT == FEATURE_COUNT);

enum Counter {
    FIRST_PRODUCT_COUNTER = 0,  // + item
    ATTACKS = ITEM_COUNT,
    HITS,
    BLOCKED,
    STOLEN,
    LOST,
    FROZEN_STEPS,
    MOVES,
    DROPPED_TOKENS,
    COUNTER_COUNT,
};

inline constexpr int UNLIMITED = -1;  // stock of a station that never runs out

// The limits of apps/arena/settings.py. They are checked here again, because larger values would overrun buffers.
inline constexpr int MIN_SIDE = 5;
inline constexpr int MAX_SIDE = 128;
inline constexpr int MAX_AGENTS = 1024;
inline constexpr int MAX_TEAMS = 4;
inline constexpr int MAX_STATIONS_OF_A_KIND = 256;
inline constexpr int MAX_VIEW = 15;
inline constexpr int MIN_TOKENS = 16, MAX_TOKENS = 255;

enum class ObservationForm { BYTES, TOKENS, BOX };

struct StationSettings {
    int count = 0;
    int cost = 0;
    int cooldown = 0;
    int stock = UNLIMITED;
};

// The fields of ArenaSettings. `sight` is the radius within which agents see; a reward cap of -1 means none.
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
    ObservationForm form = ObservationForm::BYTES;
    int view = 11, sight = 5;
    bool show_state = true;
    int tokens = 96;
    int max_steps = 256;

    // Throws std::invalid_argument with the name and the value of an invalid setting.
    void check() const;
    int station_count() const;
};

// The content of a grid cell: floor, wall, then the number of a station or an agent.
using Thing = std::uint16_t;
inline constexpr Thing FLOOR = 0, WALL = 1, FIRST_STATION = 2;

// A task with the geometry of its grid. The grid is the map with a margin of wall as wide as the view's radius, so that
// views need no bounds checks. Positions are indices into the grid.
struct Plan : Task {
    explicit Plan(const Task& task);

    int radius;
    int stride;     // cells in a row of the grid
    int grid_size;  // cells, with padding at the end for 16-byte reads
    int steps[4];   // offset of the neighbour, by facing
    int layers;     // grids of codes: one per team if observations are bytes, else one
    int total_stations;
    Thing first_agent;                   // FIRST_STATION + total_stations
    std::vector<std::uint8_t> kinds;     // [total_stations]
    std::vector<std::uint8_t> teams_of;  // [agents]

    int at(int y, int x) const { return (y + radius) * stride + x + radius; }
    int row_of(int position) const { return position / stride - radius; }
    int column_of(int position) const { return position % stride - radius; }
};

}  // namespace arena
