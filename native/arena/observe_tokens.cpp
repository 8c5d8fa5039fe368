#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../dispatch.hpp"
#include "observe.hpp"

namespace arena {

namespace {

constexpr int TOKEN = 3;                // bytes
constexpr int MAX_TOKENS_PER_CELL = 5;  // tokens
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tokens are built as little-endian words");

// ---- the tokens of each thing

// A token's bytes: location (added later), feature, value.
constexpr std::uint64_t token_of(std::uint64_t feature, std::uint64_t value) { return feature << 8 | value << 16; }

// Appends tokens; a value of 0 adds none.
struct Writer {
    unsigned __int128 tokens = 0;
    int bits = 0;

    PALAESTRA_INLINE void add(int feature, int value) {
        if (value == 0) return;
        tokens |= static_cast<unsigned __int128>(token_of(feature, value)) << bits;
        bits += 8 * TOKEN;
    }

    PALAESTRA_INLINE TokenTable::ThingTokens thing_tokens() const {
        const unsigned __int128 padded = tokens | ~static_cast<unsigned __int128>(0) << bits;
        return {Bytes16{static_cast<std::uint64_t>(padded), static_cast<std::uint64_t>(padded >> 64)}, bits / 8};
    }
};

PALAESTRA_INLINE TokenTable::ThingTokens tokens_of_station(const World& world, int station) {
    const bool show = world.plan->show_state;
    Writer writer;
    writer.add(FIRST_STATION_FEATURE + world.plan->kinds[station], 1);
    writer.add(COOLDOWN_FEATURE, show ? world.cooldown[station] : 0);
    writer.add(EXHAUSTED_FEATURE, show && world.stock[station] == 0);
    return writer.thing_tokens();
}

PALAESTRA_INLINE TokenTable::ThingTokens tokens_of_agent(const World& world, int agent, int side) {
    const std::uint8_t* self = world.selves[agent].values;
    Writer writer;
    writer.add(side, 1);
    writer.add(FACING_FEATURE, self[SELF_FACING]);
    writer.add(FROZEN_FEATURE, self[SELF_FROZEN]);
    writer.add(ARMOUR_FEATURE, self[ARMOUR]);
    writer.add(HEART_FEATURE, self[HEART]);
    return writer.thing_tokens();
}

PALAESTRA_INLINE void fill_token_table(const World& world, TokenTable& tokens_of_things) {
    const Plan& plan = *world.plan;
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    tokens_of_things.tokens_of_things.resize(things * plan.teams);
    Writer wall;
    wall.add(WALL_FEATURE, 1);
    for (int team = 0; team < plan.teams; ++team) {
        TokenTable::ThingTokens* seen = tokens_of_things.tokens_of_things.data() + team * things;
        seen[WALL] = wall.thing_tokens();
        for (int station = 0; station < plan.total_stations; ++station) {
            seen[FIRST_STATION + station] = tokens_of_station(world, station);
        }
        for (int agent = 0; agent < plan.agents; ++agent) {
            const int side = plan.teams_of[agent] == team ? FRIEND_FEATURE : FOE_FEATURE;
            seen[plan.first_agent + agent] = tokens_of_agent(world, agent, side);
        }
    }
}

// ---- occupied cells in the order of ranks

// A bit for each of the first 16 cells that is not floor.
PALAESTRA_INLINE unsigned occupied_cells(const std::uint8_t* codes) {
#if defined(__SSE2__)
    const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return ~static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(row, _mm_setzero_si128()))) & 0xFFFF;
#else
    unsigned occupied = 0;
    for (int cell = 0; cell < 16; ++cell) occupied |= static_cast<unsigned>(codes[cell] != FLOOR_CODE) << cell;
    return occupied;
#endif
}

template <int View>
PALAESTRA_INLINE void find_ranks(const std::uint64_t* piece, const std::uint8_t* corner, int stride,
                                 std::uint64_t* found) {
    constexpr int WORDS = ViewOrder::words_of(View), PIECES = ViewOrder::pieces_of(View);
    for (int info = 0; info < WORDS; ++info) found[info] = 0;
    for (int row = 0; row < View; ++row) {
        unsigned occupied = occupied_cells(corner + row * stride) & ((1u << View) - 1);
        for (int number = 0; number < PIECES; ++number, occupied >>= 4, piece += ViewOrder::PIECE_VALUES * WORDS) {
            for (int info = 0; info < WORDS; ++info) found[info] |= piece[(occupied & 15) * WORDS + info];
        }
    }
}

// ---- the token list of one agent

// Returns the new end. Tokens with value 0, and the fourth byte of each write, are overwritten by what follows: the
// agent's own cell always does.
PALAESTRA_INLINE std::uint8_t* append_self(std::uint8_t* end, const std::uint8_t* self, int middle, std::uint8_t now) {
    for (int field = 0; field < SELF_COUNT; ++field) {
        const std::uint32_t value = field == SELF_PROGRESS ? now : self[field];
        const std::uint32_t token = static_cast<std::uint32_t>(token_of(FIRST_SELF_FEATURE + field, value) | middle);
        std::memcpy(end, &token, 4);
        end += value != 0 ? TOKEN : 0;
    }
    return end;
}

// Keeps the compiler from recomputing this address for every cell, which takes 5 % of the time.
template <typename T>
PALAESTRA_INLINE T* hide_from_optimizer(T* address) {
    asm("" : "+r"(address));
    return address;
}

// All tokens are written to a list that has room for all, 16 bytes per cell, padded with 255. Then as many as fit are
// copied to the observation.
template <int View>
PALAESTRA_INLINE void write_lists(World& world, const ViewOrder& order, const TokenTable& tokens_of_things,
                                  std::uint8_t* out) {
    constexpr int RADIUS = View / 2, WORDS = ViewOrder::words_of(View);
    constexpr int ALL_TOKENS = SELF_COUNT + MAX_TOKENS_PER_CELL * View * View;
    const Plan& plan = *world.plan;
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    const std::int64_t room = TOKEN * plan.tokens;
    const std::uint8_t now = progress(world);
    alignas(64) std::uint8_t list[TOKEN * std::max(ALL_TOKENS, MAX_TOKENS) + 16];
    for (int agent = 0; agent < plan.agents; ++agent) {
        const int corner = world.agent_at[agent] - RADIUS * (plan.stride + 1);
        std::uint64_t found[WORDS];
        find_ranks<View>(order.rank_masks.data(), world.layer(0) + corner, plan.stride, found);
        const Thing* things_in_view = hide_from_optimizer(world.things.data() + corner);
        const TokenTable::ThingTokens* tokens_in_view =
            hide_from_optimizer(tokens_of_things.tokens_of_things.data() + plan.teams_of[agent] * things);
        std::memset(list, 255, static_cast<std::size_t>(room));
        std::uint8_t* end = append_self(list, world.selves[agent].values, RADIUS << 4 | RADIUS, now);
        for (int info = 0; info < WORDS; ++info) {
            const ViewOrder::Place* places = hide_from_optimizer(order.places.data() + 64 * info);
            for (std::uint64_t left = found[info]; left != 0; left &= left - 1) {
                const ViewOrder::Place& place = places[static_cast<unsigned>(__builtin_ctzll(left))];
                const TokenTable::ThingTokens& thing_tokens = tokens_in_view[things_in_view[place.offset]];
                const Bytes16 tokens = thing_tokens.tokens | place.locations;
                std::memcpy(end, &tokens, 16);
                end += thing_tokens.length;
            }
        }
        std::memcpy(out + agent * room, list, static_cast<std::size_t>(room));
        const std::int64_t dropped = std::max<std::int64_t>(0, end - list - room) / TOKEN;
        world.counters[agent * COUNTER_COUNT + DROPPED_TOKENS] += static_cast<std::uint32_t>(dropped);
    }
}

}  // namespace

PALAESTRA_CLONES void write_tokens(World& world, const ViewOrder& order, TokenTable& tokens_of_things,
                                   std::uint8_t* tokens) {
    fill_token_table(world, tokens_of_things);
    switch (world.plan->view) {
        case 3: return write_lists<3>(world, order, tokens_of_things, tokens);
        case 5: return write_lists<5>(world, order, tokens_of_things, tokens);
        case 7: return write_lists<7>(world, order, tokens_of_things, tokens);
        case 9: return write_lists<9>(world, order, tokens_of_things, tokens);
        case 11: return write_lists<11>(world, order, tokens_of_things, tokens);
        case 13: return write_lists<13>(world, order, tokens_of_things, tokens);
        default: return write_lists<15>(world, order, tokens_of_things, tokens);
    }
}

// ---- the order of cells

namespace {

std::vector<int> cells_by_distance(int view) {
    const int radius = view / 2;
    const auto distance = [view, radius](int cell) {
        const int dy = cell / view - radius, dx = cell % view - radius;
        return dy * dy + dx * dx;
    };
    std::vector<int> cells(static_cast<std::size_t>(view) * view);
    std::iota(cells.begin(), cells.end(), 0);
    std::stable_sort(cells.begin(), cells.end(), [&](int a, int b) { return distance(a) < distance(b); });
    return cells;
}

Bytes16 repeat_location(int location) {
    std::uint8_t bytes[16] = {};
    for (int token = 0; token < 5; ++token) bytes[3 * token] = static_cast<std::uint8_t>(location);
    Bytes16 vector;
    std::memcpy(&vector, bytes, 16);
    return vector;
}

}  // namespace

ViewOrder::ViewOrder(const Plan& plan)
    : rank_masks(static_cast<std::size_t>(plan.view) * pieces_of(plan.view) * PIECE_VALUES * words_of(plan.view)) {
    const std::vector<int> cells = cells_by_distance(plan.view);
    const int words = words_of(plan.view);
    for (int rank = 0; rank < static_cast<int>(cells.size()); ++rank) {
        const int row = cells[rank] / plan.view, column = cells[rank] % plan.view;
        places.push_back({repeat_location(row << 4 | column), row * plan.stride + column});
        if (std::max(std::abs(row - plan.radius), std::abs(column - plan.radius)) > plan.sight) continue;
        for (int value = 0; value < PIECE_VALUES; ++value) {
            const int entry = (row * pieces_of(plan.view) + column / 4) * PIECE_VALUES + value;
            if (value >> (column % 4) & 1) rank_masks[entry * words + rank / 64] |= 1ULL << (rank % 64);
        }
    }
}

}  // namespace arena
