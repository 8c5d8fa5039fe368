#include "batch_play.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace engine {

namespace {

// What a door says of a failure.
class Message {
   public:
    char* text() { return text_; }
    static constexpr std::size_t ROOM = 512;

    [[noreturn]] void fail() {
        text_[ROOM - 1] = '\0';
        throw std::runtime_error(text_[0] ? text_ : "it gave no reason");
    }

   private:
    char text_[ROOM] = {};
};

class Turn {
   public:
    explicit Turn(const palaestra_batch_door& door) : door_(door) {
        Message message;
        if (door_.begin(door_.batch, message.text(), Message::ROOM) != 0) message.fail();
    }
    ~Turn() { door_.end(door_.batch); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const palaestra_batch_door& door_;
};

}  // namespace

BatchPlay::BatchPlay(const palaestra_batch_door& door, std::vector<SeenBlock> blocks, Learner& learner)
    : door_(door), blocks_(std::move(blocks)), learner_(learner), ended_(door.world_count) {
    const int count = std::min(learner.crew().size(), door.world_count);
    for (int number = 0; number < count; ++number) {
        const auto border = [&](std::int64_t k) { return static_cast<int>(k * door.world_count / count); };
        Share share;
        share.first = border(number);
        share.last = border(number + 1);
        shares_.push_back(std::move(share));
    }
}

void BatchPlay::begin() {
    for (Share& share : shares_) {
        share.reached = 0;
        share.ended.clear();
        share.failure = nullptr;
    }
}

void BatchPlay::step(const Share& share) {
    const Recording& tape = learner_.recording();
    const std::size_t sample = static_cast<std::size_t>(share.reached) * tape.env_count;
    std::vector<void*> seen;
    for (const SeenBlock& block : blocks_) seen.push_back(block.first + (sample + tape.env_count) * block.row_bytes);
    Message message;
    if (door_.step(door_.batch, share.first, share.last, tape.actions.choices + sample * learner_.action_parts(),
                   seen.data(), tape.rewards + sample, ended_.data(), message.text(), Message::ROOM) != 0) {
        message.fail();
    }
}

void BatchPlay::play_share(Share& share, int worker) {
    const int first = share.first * door_.agents, last = share.last * door_.agents;
    const int horizon = learner_.recording().horizon;
    while (share.ended.empty() && share.reached < horizon) {
        learner_.read(share.reached, first, last);
        learner_.act(share.reached, first, last, worker);
        step(share);
        share.reached += 1;
        for (int world = share.first; world < share.last; ++world) {
            if (ended_[world]) share.ended.push_back(world);
        }
    }
}

Stop BatchPlay::earliest_stop() {
    Stop stop{learner_.recording().horizon, {}};
    for (const Share& share : shares_) {
        if (!share.ended.empty()) stop.step = std::min(stop.step, share.reached - 1);
    }
    for (Share& share : shares_) {
        if (share.reached - 1 != stop.step) continue;
        stop.worlds.insert(stop.worlds.end(), share.ended.begin(), share.ended.end());
        share.ended.clear();
    }
    return stop;
}

Stop BatchPlay::go_on() {
    const std::size_t count = shares_.size();
    {
        const Turn turn(door_);
        const auto play = [&](int worker) {
            if (static_cast<std::size_t>(worker) >= count) return;
            Share& share = shares_[worker];
            try {
                play_share(share, worker);
            } catch (...) {  // out of a thread nothing may be thrown
                share.failure = std::current_exception();
            }
        };
        count == 1 ? play(0) : learner_.crew().run(play);
    }
    for (Share& share : shares_) {
        if (share.failure) std::rethrow_exception(std::exchange(share.failure, nullptr));
    }
    return earliest_stop();
}

}  // namespace engine
