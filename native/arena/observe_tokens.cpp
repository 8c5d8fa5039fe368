#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../dispatch.hpp"
#include "observe.hpp"

namespace arena {

namespace {

constexpr int TOKEN = 3;         // bytes
constexpr int MOST_OF_A_CELL = 5;  // tokens

// ---- what each thing looks like

// 255 from the end of so many tokens on
const Sixteen* padding_behind() {
    static const auto table = [] {
        std::vector<Sixteen> paddings(MOST_OF_A_CELL + 1);
        for (int count = 0; count <= MOST_OF_A_CELL; ++count) {
            std::uint8_t bytes[16] = {};
            std::fill(bytes + TOKEN * count, bytes + 16, std::uint8_t{255});
            std::memcpy(&paddings[count], bytes, 16);
        }
        return paddings;
    }();
    return table.data();
}

// Tokens one after the other; a value of 0 is overwritten by the next.
struct Record {
    std::uint8_t bytes[16 + TOKEN] = {};
    int count = 0;

    PALAESTRA_INLINE void add(int feature, int value) {
        std::uint8_t* token = bytes + TOKEN * count;
        token[1] = static_cast<std::uint8_t>(feature);
        token[2] = static_cast<std::uint8_t>(value);
        count += value != 0;
    }

    PALAESTRA_INLINE Sixteen padded(const Sixteen* paddings) const {
        Sixteen vector;
        std::memcpy(&vector, bytes, 16);
        return vector | paddings[count];
    }
};

PALAESTRA_INLINE Record station_record(const World& world, int station) {
    const bool show = world.plan->show_state;
    Record record;
    record.add(FIRST_STATION_FEATURE + world.plan->kinds[station], 1);
    record.add(COOLDOWN_FEATURE, show ? world.cooldown[station] : 0);
    record.add(EXHAUSTED_FEATURE, show && world.stock[station] == 0);
    return record;
}

PALAESTRA_INLINE Record agent_record(const World& world, int agent) {
    const std::uint8_t* self = world.selves[agent].values;
    Record record;
    record.add(FOE_FEATURE, 1);
    record.add(FACING_FEATURE, self[SELF_FACING]);
    record.add(FROZEN_FEATURE, self[SELF_FROZEN]);
    record.add(ARMOUR_FEATURE, self[ARMOUR]);
    record.add(HEART_FEATURE, self[HEART]);
    return record;
}

PALAESTRA_INLINE void describe_things(const World& world, TokenScratch& scratch) {
    const Plan& plan = *world.plan;
    const Sixteen* paddings = padding_behind();
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    scratch.records.resize(things * plan.teams);
    scratch.counts.resize(things);
    const auto describe = [&](std::size_t thing, const Record& record) {
        scratch.counts[thing] = static_cast<std::uint8_t>(record.count);
        const Sixteen padded = record.padded(paddings);
        for (int team = 0; team < plan.teams; ++team) scratch.records[team * things + thing] = padded;
    };
    Record wall;
    wall.add(WALL_FEATURE, 1);
    describe(WALL, wall);
    for (int station = 0; station < plan.total_stations; ++station) {
        describe(FIRST_STATION + station, station_record(world, station));
    }
    for (int agent = 0; agent < plan.agents; ++agent) {
        const std::size_t thing = plan.first_agent + agent;
        Record record = agent_record(world, agent);
        describe(thing, record);
        record.bytes[1] = FRIEND_FEATURE;
        scratch.records[plan.teams_of[agent] * things + thing] = record.padded(paddings);
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

template <int Words>
PALAESTRA_INLINE void find_ranks(const Ranks& ranks, const std::uint8_t* corner, int stride, std::uint64_t* found) {
    for (int word = 0; word < Words; ++word) found[word] = 0;
    const unsigned in_view = (1u << ranks.view) - 1;
    const std::uint64_t* piece = ranks.of_piece.data();
    for (int row = 0; row < ranks.view; ++row) {
        unsigned taken = taken_cells(corner + row * stride) & in_view;
        for (int number = 0; number < ranks.pieces; ++number, taken >>= 4, piece += 16 * Words) {
            for (int word = 0; word < Words; ++word) found[word] |= piece[(taken & 15) * Words + word];
        }
    }
}

// ---- one agent's list

struct List {
    std::uint8_t* out;
    int room;       // tokens
    int count = 0;  // wanted so far; more than `room` when some were dropped
};

// Nine tokens always fit (room is 16 at least). Each write covers a byte more than its token, and a value of 0 leaves
// its token to be overwritten: the agent's own cell always follows.
PALAESTRA_INLINE void list_self(List& list, const std::uint8_t* self, int middle, std::uint8_t now) {
    for (int field = 0; field < SELF_COUNT; ++field) {
        const int value = field == SELF_PROGRESS ? now : self[field];
        std::uint8_t* token = list.out + TOKEN * list.count;
        token[0] = static_cast<std::uint8_t>(middle);
        token[1] = static_cast<std::uint8_t>(FIRST_SELF_FEATURE + field);
        token[2] = static_cast<std::uint8_t>(value);
        list.count += value != 0;
    }
}

PALAESTRA_INLINE void list_cell(List& list, Sixteen record, int count) {
    if (list.count + MOST_OF_A_CELL < list.room) {
        std::memcpy(list.out + TOKEN * list.count, &record, 16);
    } else {
        const int fitting = std::clamp(list.room - list.count, 0, count);
        std::memcpy(list.out + TOKEN * std::min(list.count, list.room), &record, static_cast<std::size_t>(TOKEN * fitting));
    }
    list.count += count;
}

template <int Words>
PALAESTRA_INLINE void write_lists(World& world, const Eyes& eyes, const TokenScratch& scratch, std::uint8_t* tokens) {
    const Plan& plan = *world.plan;
    const Ranks& ranks = eyes.ranks;
    const std::size_t things = static_cast<std::size_t>(plan.first_agent) + plan.agents;
    const std::size_t row_bytes = static_cast<std::size_t>(TOKEN) * plan.tokens;
    const int to_corner = plan.radius * (plan.stride + 1), middle = plan.radius << 4 | plan.radius;
    const std::uint8_t now = progress(world);
    std::memset(tokens, 255, row_bytes * plan.agents);
    for (int agent = 0; agent < plan.agents; ++agent) {
        List list{tokens + agent * row_bytes, plan.tokens};
        list_self(list, world.selves[agent].values, middle, now);
        const int corner = world.agent_at[agent] - to_corner;
        std::uint64_t found[Words];
        find_ranks<Words>(ranks, world.layer(0) + corner, plan.stride, found);
        const Thing* things_here = world.things.data() + corner;
        const Sixteen* records = scratch.records.data() + plan.teams_of[agent] * things;
        for (int word = 0; word < Words; ++word) {
            for (std::uint64_t left = found[word]; left != 0; left &= left - 1) {
                const int rank = 64 * word + __builtin_ctzll(left);
                const Thing thing = things_here[eyes.offsets[rank]];
                list_cell(list, records[thing] | ranks.locations[rank], scratch.counts[thing]);
            }
        }
        world.counters[agent * COUNTER_COUNT + DROPPED_TOKENS] += static_cast<std::uint32_t>(std::max(0, list.count - plan.tokens));
    }
}

PALAESTRA_CLONES void write_small(World& world, const Eyes& eyes, TokenScratch& scratch, std::uint8_t* tokens) {
    describe_things(world, scratch);
    write_lists<2>(world, eyes, scratch, tokens);
}

PALAESTRA_CLONES void write_large(World& world, const Eyes& eyes, TokenScratch& scratch, std::uint8_t* tokens) {
    describe_things(world, scratch);
    write_lists<4>(world, eyes, scratch, tokens);
}

}  // namespace

void write_tokens(World& world, const Eyes& eyes, TokenScratch& scratch, std::uint8_t* tokens) {
    if (eyes.ranks.words == 2) {
        write_small(world, eyes, scratch, tokens);
    } else {
        write_large(world, eyes, scratch, tokens);
    }
}

}  // namespace arena
