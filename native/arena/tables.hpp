// The fixed words of the world, as in apps/arena/tables.py; a test holds the two together (see `tables` in module.cpp).
#pragma once

#include <cstdint>

namespace arena {

enum Item { ORE, BATTERY, HEART, ARMOUR, CHARGE, ITEM_COUNT };
enum Station { MINE, GENERATOR, ALTAR, ARMOURY, CHARGER, STATION_KINDS };
enum Action { REST, NORTH, EAST, SOUTH, WEST, ATTACK, ACTION_COUNT };

inline constexpr int NOTHING = -1;
inline constexpr int PRODUCT[STATION_KINDS] = {ORE, BATTERY, HEART, ARMOUR, CHARGE};
inline constexpr int INGREDIENT[STATION_KINDS] = {NOTHING, ORE, BATTERY, ORE, BATTERY};

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

// What an agent knows of itself, in the order of the byte vector "self". The items come first.
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

inline constexpr int ENDLESS = -1;  // stock of a station that can be used for ever

// The limits of apps/arena/settings.py, checked again at this door: beyond them memory would be touched that is not ours.
inline constexpr int SMALLEST_SIDE = 5;
inline constexpr int LARGEST_SIDE = 128;
inline constexpr int MOST_AGENTS = 1024;
inline constexpr int MOST_TEAMS = 4;
inline constexpr int MOST_STATIONS_OF_A_KIND = 256;
inline constexpr int LARGEST_VIEW = 15;
inline constexpr int FEWEST_TOKENS = 16, MOST_TOKENS = 255;

}  // namespace arena
