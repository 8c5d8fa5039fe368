#include "heads.hpp"

#include <algorithm>
#include <cmath>

namespace engine {

HeadBench::HeadBench(const HeadPlan& plan)
    : plan_(plan),
      choices_(static_cast<std::size_t>(plan.parts()) * ROWS),
      inverse_std_(plan.size),
      taken_(static_cast<std::size_t>(plan.size) * ROWS),
      logs_(static_cast<std::size_t>(plan.size) * ROWS),
      shares_(static_cast<std::size_t>(plan.size) * ROWS),
      entropies_(static_cast<std::size_t>(plan.parts()) * ROWS),
      log_probs_(ROWS) {}

void HeadBench::take(const float* numbers, std::size_t stride, int rows, const float* log_std) {
    rows_ = {plan_.counts.data(), plan_.parts(),      plan_.size,     rows,
             numbers,             stride,             log_std,        inverse_std_.data(),
             choices_.data(),     taken_.data(),      log_probs_.data(),
             logs_.data(),        shares_.data(),     entropies_.data()};
    if (plan_.kind != Head::NORMAL) return;
    for (int k = 0; k < plan_.size; ++k) inverse_std_.data()[k] = std::exp(-log_std[k]);
}

void HeadBench::draw(const Kernels& kernels, const Dice& dice, std::size_t first, const Actions& actions,
                     float* log_probs) {
    if (plan_.kind == Head::CHOICES) {
        kernels.chances(rows_);
        draw_choices(dice, first, actions.choices, log_probs);
    } else {
        draw_normals(dice, first, actions.numbers);
        // From the rounded actions, as an update will find them: the ratio must begin at one.
        kernels.normal_log_probs(rows_, log_probs_.data());
        std::copy_n(log_probs_.data(), rows_.rows, log_probs);
    }
}

void HeadBench::draw_choices(const Dice& dice, std::size_t first, std::int64_t* actions, float* log_probs) const {
    const int parts = plan_.parts();
    for (int row = 0; row < rows_.rows; ++row) {
        const std::size_t place = (first + row) * parts;
        const float *share = shares_.data() + row, *log = logs_.data() + row;
        float log_prob = 0;
        for (int part = 0; part < parts; ++part) {
            const int count = plan_.counts[part];
            const float target = dice.uniform(place + part);
            int choice = 0;
            float reached = share[0];
            while (choice < count - 1 && reached <= target) reached += share[++choice * ROWS];
            actions[place + part] = choice;
            log_prob += log[choice * ROWS];
            share += count * ROWS;
            log += count * ROWS;
        }
        log_probs[row] = log_prob;
    }
}

void HeadBench::draw_normals(const Dice& dice, std::size_t first, float* actions) {
    for (int k = 0; k < plan_.size; ++k) {
        const float spread = std::exp(rows_.log_std[k]);
        for (int row = 0; row < rows_.rows; ++row) {
            const std::size_t place = (first + row) * plan_.size + k;
            const float action = rows_.numbers[row * rows_.stride + k] + dice.normal(place) * spread;
            actions[place] = action;
            taken_.data()[k * ROWS + row] = action;
        }
    }
}

void HeadBench::recall(const Actions& actions, const std::size_t* samples) {
    const int parts = plan_.parts();
    for (int row = 0; row < rows_.rows; ++row) {
        const std::size_t place = samples[row] * parts;
        for (int part = 0; part < parts; ++part) {
            if (plan_.kind == Head::CHOICES) {
                choices_[part * ROWS + row] = static_cast<int>(actions.choices[place + part]);
            } else {
                taken_.data()[part * ROWS + row] = actions.numbers[place + part];
            }
        }
    }
}

void HeadBench::judge(const Kernels& kernels, const OldRows& old, const LossWeights& weights, float* slopes,
                      float* log_std_slopes, LossSums& sums) {
    if (plan_.kind == Head::CHOICES) {
        kernels.chances(rows_);
        kernels.choice_loss(rows_, old, weights, slopes, sums);
    } else {
        kernels.normal_log_probs(rows_, log_probs_.data());
        kernels.normal_loss(rows_, old, weights, slopes, log_std_slopes, sums);
    }
}

}  // namespace engine
