#include "batch_rollout.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace engine {

namespace {

// Receives the API's error messages.
class ErrorMessage {
   public:
    char* text() { return text_; }
    static constexpr std::size_t SIZE = 512;

    [[noreturn]] void raise() {
        text_[SIZE - 1] = '\0';
        throw std::runtime_error(text_[0] ? text_ : "no error message");
    }

   private:
    char text_[SIZE] = {};
};

// Exclusive use of the batch.
class ApiLock {
   public:
    explicit ApiLock(const palaestra_batch_step_api& api) : api_(api) {
        ErrorMessage message;
        if (api_.begin(api_.batch, message.text(), ErrorMessage::SIZE) != 0) message.raise();
    }
    ~ApiLock() { api_.end(api_.batch); }
    ApiLock(const ApiLock&) = delete;
    ApiLock& operator=(const ApiLock&) = delete;

   private:
    const palaestra_batch_step_api& api_;
};

}  // namespace

BatchRollout::BatchRollout(const palaestra_batch_step_api& api, std::vector<ObservationBlock> blocks, Learner& learner)
    : api_(api), blocks_(std::move(blocks)), learner_(learner), ended_(api.world_count) {
    const int count = std::min(learner.pool().size(), api.world_count);
    for (int number = 0; number < count; ++number) {
        const auto boundary = [&](std::int64_t k) { return static_cast<int>(k * api.world_count / count); };
        Shard shard;
        shard.first = boundary(number);
        shard.last = boundary(number + 1);
        shards_.push_back(std::move(shard));
    }
}

void BatchRollout::start() {
    for (Shard& shard : shards_) {
        shard.step = 0;
        shard.ended.clear();
        shard.failure = nullptr;
    }
}

void BatchRollout::step(const Shard& shard) {
    const RolloutBuffer& buffer = learner_.buffer();
    const std::size_t sample = static_cast<std::size_t>(shard.step) * buffer.env_count;
    std::vector<void*> observations;
    for (const ObservationBlock& block : blocks_)
        observations.push_back(block.first + (sample + buffer.env_count) * block.row_bytes);
    ErrorMessage message;
    if (api_.step(api_.batch, shard.first, shard.last, buffer.actions.discrete + sample * learner_.action_parts(),
                  observations.data(), buffer.rewards + sample, ended_.data(), message.text(),
                  ErrorMessage::SIZE) != 0) {
        message.raise();
    }
}

void BatchRollout::collect_shard(Shard& shard, int worker) {
    const int first = shard.first * api_.agents, last = shard.last * api_.agents;
    const int horizon = learner_.buffer().horizon;
    while (shard.ended.empty() && shard.step < horizon) {
        learner_.read_observations(shard.step, first, last);
        learner_.act(shard.step, first, last, worker);
        step(shard);
        shard.step += 1;
        for (int world = shard.first; world < shard.last; ++world) {
            if (ended_[world]) shard.ended.push_back(world);
        }
    }
}

EndedWorlds BatchRollout::earliest_end() {
    EndedWorlds ended_worlds{learner_.buffer().horizon, {}};
    for (const Shard& shard : shards_) {
        if (!shard.ended.empty()) ended_worlds.step = std::min(ended_worlds.step, shard.step - 1);
    }
    for (Shard& shard : shards_) {
        if (shard.step - 1 != ended_worlds.step) continue;
        ended_worlds.worlds.insert(ended_worlds.worlds.end(), shard.ended.begin(), shard.ended.end());
        shard.ended.clear();
    }
    return ended_worlds;
}

EndedWorlds BatchRollout::run_until_end() {
    const std::size_t count = shards_.size();
    {
        const ApiLock lock(api_);
        const auto collect = [&](int worker) {
            if (static_cast<std::size_t>(worker) >= count) return;
            Shard& shard = shards_[worker];
            try {
                collect_shard(shard, worker);
            } catch (...) {  // a job of the thread pool must not throw
                shard.failure = std::current_exception();
            }
        };
        count == 1 ? collect(0) : learner_.pool().run(collect);
    }
    for (Shard& shard : shards_) {
        if (shard.failure) std::rethrow_exception(std::exchange(shard.failure, nullptr));
    }
    return earliest_end();
}

}  // namespace engine
