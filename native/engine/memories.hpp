// What the cells of a network remember while a recording is played. Rows of states are laid out by Network.
#pragma once

#include <vector>

#include "floats.hpp"
#include "network.hpp"
#include "recording.hpp"

namespace engine {

class Memories {
   public:
    // An update learns through `stretch` steps at once.
    Memories(const Plan& plan, const Recording& recording, int stretch);

    // Parts [env_count, size of the cell], which belong to Python: cell by cell, the hidden state and then the inner one.
    void take(const std::vector<const float*>& parts);
    void give(const std::vector<float*>& parts) const;
    std::size_t part_count() const;
    int part_size(std::size_t part) const;

    // Before `step` is taken by environments from `first` to before `last`: remembers what must be known of it later.
    void keep(int step, int first, int last);
    float* now(int env) { return now_.data() + env * size_; }
    // Before column `stretch number * env_count + env` of the recording.
    const float* before(std::size_t column) const { return before_.data() + column * size_; }
    // After a step that cut an episode.
    const float* after_cut(int step, int env) const;
    std::size_t size() const { return size_; }  // of a row of states

   private:
    struct CutState {
        int step;
        std::vector<float> state;
    };
    struct Part {
        std::size_t place;  // in a row of states
        int size;
    };

    const Recording& recording_;
    const int stretch_;
    const std::size_t size_;
    std::vector<Part> parts_;
    Floats now_, before_;
    std::vector<std::vector<CutState>> cuts_;  // of each environment: threads play different ones
};

}  // namespace engine
