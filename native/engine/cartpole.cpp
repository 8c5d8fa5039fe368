#include <cmath>

#include "rules.hpp"

namespace engine {

namespace {

class CartPole : public Rules {
   public:
    explicit CartPole(const Constants& constants)
        : gravity_(constants["gravity"]),
          pole_mass_(constants["masspole"]),
          total_mass_(constants["total_mass"]),
          length_(constants["length"]),
          pole_mass_length_(constants["polemass_length"]),
          force_(constants["force_mag"]),
          tau_(constants["tau"]),
          angle_limit_(constants["theta_threshold_radians"]),
          place_limit_(constants["x_threshold"]),
          pays_for_falling_only_(constants["sutton_barto_reward"] != 0) {}

    int state_size() const override { return 4; }
    int observation_size() const override { return 4; }

    void begin(double* state, Pcg64& dice) const override {
        for (int k = 0; k < 4; ++k) state[k] = dice.uniform(-0.05, 0.05);
    }

    Outcome step(double* state, const Action& action) const override {
        const double x = state[0], speed = state[1], angle = state[2], turning = state[3];
        const double force = action.choice == 1 ? force_ : -force_;
        const double cosine = std::cos(angle), sine = std::sin(angle);
        const double push = (force + pole_mass_length_ * (turning * turning) * sine) / total_mass_;
        const double turned = (gravity_ * sine - cosine * push) /
                              (length_ * (4.0 / 3.0 - pole_mass_ * (cosine * cosine) / total_mass_));
        const double moved = push - pole_mass_length_ * turned * cosine / total_mass_;
        state[0] = x + tau_ * speed;
        state[1] = speed + tau_ * moved;
        state[2] = angle + tau_ * turning;
        state[3] = turning + tau_ * turned;
        const bool fell = state[0] < -place_limit_ || state[0] > place_limit_ || state[2] < -angle_limit_ ||
                          state[2] > angle_limit_;
        if (pays_for_falling_only_) return {fell ? -1.0 : 0.0, fell};
        return {1.0, fell};
    }

    void observe(const double* state, float* out) const override {
        for (int k = 0; k < 4; ++k) out[k] = static_cast<float>(state[k]);
    }

   private:
    const double gravity_, pole_mass_, total_mass_, length_, pole_mass_length_, force_, tau_;
    const double angle_limit_, place_limit_;
    const bool pays_for_falling_only_;
};

}  // namespace

std::unique_ptr<Rules> cartpole(const Constants& constants) { return std::make_unique<CartPole>(constants); }

}  // namespace engine
