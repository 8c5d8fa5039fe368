#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../dispatch.hpp"
#include "observe.hpp"

namespace arena {

namespace {

constexpr int TOKEN = 3;           // bytes
constexpr int MOST_OF_A_CELL = 5;  // tokens
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tokens are built as little-endian words");

// ---- what each thing looks like

// A token's bytes: location (added later), feature, value.
constexpr std::uint64_t token_of(std::uint64_t feature, std::uint64_t value) { return feature << 8 | value << 16; }

// Tokens one after the other, each shifted in behind the former; a value of 0 adds none.
struct Writer {
    unsigned __int128 tokens = 0;
    int bits = 0;

    PALAESTRA_INLINE void add(int feature, int value) {
        if (value == 0) return;
        tokens |= static_cast<unsigned __int128>(token_of(feature, value)) << bits;
        bits += 8 * TOKEN;
    }

    PALAESTRA_INLINE Looks::Look look() const {
        const unsigned __int128 padded = tokens | ~static_cast<unsigned __int128>(0) << bits;
        return {Sixteen{static_cast<std::uint64_t>(padded), static_cast<std::uint64_t>(padded >> 64)}, bits / 8};
    }
};

PALAESTRA_INLINE Looks::Look look_of_station(const World& world, int station) {
    const bool show = world.plan->show_state;
    Writer writer;
    writer.add(FIRST_STATION_FEATURE + world.plan->kinds[station], 1);
    writer.add(COOLDOWN_FEATURE, show ? world.cooldown[station] : 0);
    writer.add(EXHAUSTED_FEATURE, show && world.stock[station] == 0);
    return writer.look();
}

PALAESTRA_INLINE Looks::Look look_of_agent(const World& world, int agent, int side) {
    const std::uint8_t* self = world.selves[agent].values;
    Writer writer;
    writer.add(side, 1);
    writer.add(FACING_FEATURE, self[SELF_FACING]);
    writer.add(FROZEN_FEATURE, self[SELF_FROZEN]);
    writer.add(ARMOUR_FEATURE, self[ARMOUR]);
    writer.add(HEART_FEATURE, self[HEART]);
    return writer.look();
}

PALAESTRA_INLINE void describe_things(const World& world, Looks& looks) {
    const Plan& plan = *world.plan;
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    looks.looks.resize(things * plan.teams);
    Writer wall;
    wall.add(WALL_FEATURE, 1);
    for (int team = 0; team < plan.teams; ++team) {
        Looks::Look* seen = looks.looks.data() + team * things;
        seen[WALL] = wall.look();
        for (int station = 0; station < plan.total_stations; ++station) {
            seen[FIRST_STATION + station] = look_of_station(world, station);
        }
        for (int agent = 0; agent < plan.agents; ++agent) {
            const int side = plan.teams_of[agent] == team ? FRIEND_FEATURE : FOE_FEATURE;
            seen[plan.first_agent + agent] = look_of_agent(world, agent, side);
        }
    }
}

// ---- where they are

// A bit for each of the first 16 cells that is not floor.
PALAESTRA_INLINE unsigned taken_cells(const std::uint8_t* codes) {
#if defined(__SSE2__)
    const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    return ~static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(row, _mm_setzero_si128()))) & 0xFFFF;
#else
    unsigned taken = 0;
    for (int cell = 0; cell < 16; ++cell) taken |= static_cast<unsigned>(codes[cell] != FLOOR_CODE) << cell;
    return taken;
#endif
}

template <int View>
PALAESTRA_INLINE void find_ranks(const std::uint64_t* piece, const std::uint8_t* corner, int stride,
                                 std::uint64_t* found) {
    constexpr int WORDS = Eyes::words_of(View), PIECES = Eyes::pieces_of(View);
    for (int word = 0; word < WORDS; ++word) found[word] = 0;
    for (int row = 0; row < View; ++row) {
        unsigned taken = taken_cells(corner + row * stride) & ((1u << View) - 1);
        for (int number = 0; number < PIECES; ++number, taken >>= 4, piece += Eyes::PIECE_VALUES * WORDS) {
            for (int word = 0; word < WORDS; ++word) found[word] |= piece[(taken & 15) * WORDS + word];
        }
    }
}

// ---- one agent's list

// Gives the end of what it wrote. A value of 0 leaves its token to be overwritten, and so is the byte behind each: the
// agent's own cell always follows.
PALAESTRA_INLINE std::uint8_t* list_self(std::uint8_t* end, const std::uint8_t* self, int middle, std::uint8_t now) {
    for (int field = 0; field < SELF_COUNT; ++field) {
        const std::uint32_t value = field == SELF_PROGRESS ? now : self[field];
        const std::uint32_t token = static_cast<std::uint32_t>(token_of(FIRST_SELF_FEATURE + field, value) | middle);
        std::memcpy(end, &token, 4);
        end += value != 0 ? TOKEN : 0;
    }
    return end;
}

// Keeps the compiler from adding this address up again for every cell, which costs a twentieth of the whole.
template <typename T>
PALAESTRA_INLINE T* settled(T* address) {
    asm("" : "+r"(address));
    return address;
}

// Everything goes into a list that has room for all, each write covering 16 bytes, of which those behind the cell's own
// tokens are 255; as much of it as the observation has room for is copied.
template <int View>
PALAESTRA_INLINE void write_lists(World& world, const Eyes& eyes, const Looks& looks, std::uint8_t* out) {
    constexpr int RADIUS = View / 2, WORDS = Eyes::words_of(View);
    constexpr int ALL_TOKENS = SELF_COUNT + MOST_OF_A_CELL * View * View;
    const Plan& plan = *world.plan;
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    const std::int64_t room = TOKEN * plan.tokens;
    const std::uint8_t now = progress(world);
    alignas(64) std::uint8_t list[TOKEN * std::max(ALL_TOKENS, MOST_TOKENS) + 16];
    for (int agent = 0; agent < plan.agents; ++agent) {
        const int corner = world.agent_at[agent] - RADIUS * (plan.stride + 1);
        std::uint64_t found[WORDS];
        find_ranks<View>(eyes.ranks_of.data(), world.layer(0) + corner, plan.stride, found);
        const Thing* things_here = settled(world.things.data() + corner);
        const Looks::Look* looks_here = settled(looks.looks.data() + plan.teams_of[agent] * things);
        std::memset(list, 255, static_cast<std::size_t>(room));
        std::uint8_t* end = list_self(list, world.selves[agent].values, RADIUS << 4 | RADIUS, now);
        for (int word = 0; word < WORDS; ++word) {
            const Eyes::Place* places = settled(eyes.places.data() + 64 * word);
            for (std::uint64_t left = found[word]; left != 0; left &= left - 1) {
                const Eyes::Place& place = places[static_cast<unsigned>(__builtin_ctzll(left))];
                const Looks::Look& look = looks_here[things_here[place.offset]];
                const Sixteen tokens = look.tokens | place.locations;
                std::memcpy(end, &tokens, 16);
                end += look.length;
            }
        }
        std::memcpy(out + agent * room, list, static_cast<std::size_t>(room));
        const std::int64_t dropped = std::max<std::int64_t>(0, end - list - room) / TOKEN;
        world.counters[agent * COUNTER_COUNT + DROPPED_TOKENS] += static_cast<std::uint32_t>(dropped);
    }
}

}  // namespace

PALAESTRA_CLONES void write_tokens(World& world, const Eyes& eyes, Looks& looks, std::uint8_t* tokens) {
    describe_things(world, looks);
    switch (world.plan->view) {
        case 3: return write_lists<3>(world, eyes, looks, tokens);
        case 5: return write_lists<5>(world, eyes, looks, tokens);
        case 7: return write_lists<7>(world, eyes, looks, tokens);
        case 9: return write_lists<9>(world, eyes, looks, tokens);
        case 11: return write_lists<11>(world, eyes, looks, tokens);
        case 13: return write_lists<13>(world, eyes, looks, tokens);
        default: return write_lists<15>(world, eyes, looks, tokens);
    }
}

}  // namespace arena
