#include "classic_control.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace engine {

namespace {

volatile double two = 2.0;  // volatile: a compiler would replace pow(x, 2) by x * x

}  // namespace

double squared(double number) { return std::pow(number, two); }
float squared(float number) { return std::pow(number, static_cast<float>(two)); }

double Constants::operator[](const char* name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) throw std::invalid_argument(std::string("missing constant '") + name + "'");
    return found->second;
}

namespace {

constexpr double PI = 3.141592653589793;

double wrapped(double angle) {
    while (angle > PI) angle -= PI - -PI;
    while (angle < -PI) angle += PI - -PI;
    return angle;
}

// Gymnasium's default dynamics ("book"), integrated by the fourth-order Runge-Kutta method.
class Acrobot : public EnvDynamics {
   public:
    explicit Acrobot(const Constants& constants)
        : dt_(constants["dt"]),
          length1_(constants["LINK_LENGTH_1"]),
          mass1_(constants["LINK_MASS_1"]),
          mass2_(constants["LINK_MASS_2"]),
          center1_(constants["LINK_COM_POS_1"]),
          center2_(constants["LINK_COM_POS_2"]),
          inertia_(constants["LINK_MOI"]),
          max_speed1_(constants["MAX_VEL_1"]),
          max_speed2_(constants["MAX_VEL_2"]) {}

    int state_size() const override { return 4; }
    int observation_size() const override { return 6; }

    void reset(double* state, Pcg64& rng) const override {
        // Gymnasium rounds the first state to single precision.
        for (int k = 0; k < 4; ++k) state[k] = static_cast<float>(rng.uniform(-0.1, 0.1));
    }

    StepResult step(double* state, const Action& action) const override {
        const double torque = static_cast<double>(action.discrete - 1), half = dt_ / 2.0;
        double first[4], second[4], third[4], fourth[4], point[4];
        derivatives(state, torque, first);
        for (int k = 0; k < 4; ++k) point[k] = state[k] + half * first[k];
        derivatives(point, torque, second);
        for (int k = 0; k < 4; ++k) point[k] = state[k] + half * second[k];
        derivatives(point, torque, third);
        for (int k = 0; k < 4; ++k) point[k] = state[k] + dt_ * third[k];
        derivatives(point, torque, fourth);
        for (int k = 0; k < 4; ++k) {
            state[k] = state[k] + dt_ / 6.0 * (first[k] + 2 * second[k] + 2 * third[k] + fourth[k]);
        }
        state[0] = wrapped(state[0]);
        state[1] = wrapped(state[1]);
        state[2] = std::min(std::max(state[2], -max_speed1_), max_speed1_);
        state[3] = std::min(std::max(state[3], -max_speed2_), max_speed2_);
        const bool is_up = -std::cos(state[0]) - std::cos(state[1] + state[0]) > 1.0;
        return {is_up ? 0.0 : -1.0, is_up};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(std::cos(state[0]));
        out[1] = static_cast<float>(std::sin(state[0]));
        out[2] = static_cast<float>(std::cos(state[1]));
        out[3] = static_cast<float>(std::sin(state[1]));
        out[4] = static_cast<float>(state[2]);
        out[5] = static_cast<float>(state[3]);
    }

   private:
    void derivatives(const double* state, double torque, double* out) const {
        const double angle1 = state[0], angle2 = state[1], speed1 = state[2], speed2 = state[3];
        const double m1 = mass1_, m2 = mass2_, l1 = length1_, lc1 = center1_, lc2 = center2_, g = 9.8;
        const double d1 = m1 * squared(lc1) + m2 * (squared(l1) + squared(lc2) + 2 * l1 * lc2 * std::cos(angle2)) +
                          inertia_ + inertia_;
        const double d2 = m2 * (squared(lc2) + l1 * lc2 * std::cos(angle2)) + inertia_;
        const double phi2 = m2 * lc2 * g * std::cos(angle1 + angle2 - PI / 2.0);
        const double phi1 = -m2 * l1 * lc2 * squared(speed2) * std::sin(angle2) -
                            2 * m2 * l1 * lc2 * speed2 * speed1 * std::sin(angle2) +
                            (m1 * lc1 + m2 * l1) * g * std::cos(angle1 - PI / 2) + phi2;
        const double acceleration2 =
            (torque + d2 / d1 * phi1 - m2 * l1 * lc2 * squared(speed1) * std::sin(angle2) - phi2) /
            (m2 * squared(lc2) + inertia_ - squared(d2) / d1);
        out[0] = speed1;
        out[1] = speed2;
        out[2] = -(d2 * acceleration2 + phi1) / d1;
        out[3] = acceleration2;
    }

    const double dt_, length1_, mass1_, mass2_, center1_, center2_, inertia_, max_speed1_, max_speed2_;
};

class CartPole : public EnvDynamics {
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
          position_limit_(constants["x_threshold"]),
          has_sutton_barto_reward_(constants["sutton_barto_reward"] != 0) {}

    int state_size() const override { return 4; }
    int observation_size() const override { return 4; }

    void reset(double* state, Pcg64& rng) const override {
        for (int k = 0; k < 4; ++k) state[k] = rng.uniform(-0.05, 0.05);
    }

    StepResult step(double* state, const Action& action) const override {
        const double x = state[0], velocity = state[1], angle = state[2], angular_velocity = state[3];
        const double force = action.discrete == 1 ? force_ : -force_;
        const double cosine = std::cos(angle), sine = std::sin(angle);
        const double push = (force + pole_mass_length_ * (angular_velocity * angular_velocity) * sine) / total_mass_;
        const double angular_acceleration =
            (gravity_ * sine - cosine * push) / (length_ * (4.0 / 3.0 - pole_mass_ * (cosine * cosine) / total_mass_));
        const double acceleration = push - pole_mass_length_ * angular_acceleration * cosine / total_mass_;
        state[0] = x + tau_ * velocity;
        state[1] = velocity + tau_ * acceleration;
        state[2] = angle + tau_ * angular_velocity;
        state[3] = angular_velocity + tau_ * angular_acceleration;
        const bool has_fallen = state[0] < -position_limit_ || state[0] > position_limit_ || state[2] < -angle_limit_ ||
                                state[2] > angle_limit_;
        if (has_sutton_barto_reward_) return {has_fallen ? -1.0 : 0.0, has_fallen};
        return {1.0, has_fallen};
    }

    void observe(const double* state, float* out) const override {
        for (int k = 0; k < 4; ++k) out[k] = static_cast<float>(state[k]);
    }

   private:
    const double gravity_, pole_mass_, total_mass_, length_, pole_mass_length_, force_, tau_;
    const double angle_limit_, position_limit_;
    const bool has_sutton_barto_reward_;
};

class MountainCar : public EnvDynamics {
   public:
    explicit MountainCar(const Constants& constants)
        : min_position_(constants["min_position"]),
          max_position_(constants["max_position"]),
          max_velocity_(constants["max_speed"]),
          goal_position_(constants["goal_position"]),
          goal_velocity_(constants["goal_velocity"]),
          force_(constants["force"]),
          gravity_(constants["gravity"]) {}

    int state_size() const override { return 2; }
    int observation_size() const override { return 2; }

    void reset(double* state, Pcg64& rng) const override {
        state[0] = rng.uniform(-0.6, -0.4);
        state[1] = 0.0;
    }

    StepResult step(double* state, const Action& action) const override {
        const double push = static_cast<double>(action.discrete - 1) * force_;
        double velocity = state[1] + (push + std::cos(3 * state[0]) * -gravity_);
        velocity = std::min(std::max(velocity, -max_velocity_), max_velocity_);
        const double position = std::min(std::max(state[0] + velocity, min_position_), max_position_);
        if (position == min_position_ && velocity < 0) velocity = 0;
        state[0] = position;
        state[1] = velocity;
        return {-1.0, position >= goal_position_ && velocity >= goal_velocity_};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(state[0]);
        out[1] = static_cast<float>(state[1]);
    }

   private:
    const double min_position_, max_position_, max_velocity_, goal_position_, goal_velocity_, force_, gravity_;
};

// Python's %, whose result has the sign of the divisor.
double python_modulo(double number, double divisor) {
    const double rest = std::fmod(number, divisor);
    return rest != 0 && (rest < 0) != (divisor < 0) ? rest + divisor : rest;
}

class Pendulum : public EnvDynamics {
   public:
    explicit Pendulum(const Constants& constants)
        : gravity_(constants["g"]),
          mass_(constants["m"]),
          length_(constants["l"]),
          dt_(constants["dt"]),
          max_speed_(constants["max_speed"]),
          max_torque_(static_cast<float>(constants["max_torque"])) {}

    int state_size() const override { return 2; }
    int observation_size() const override { return 3; }
    bool has_continuous_actions() const override { return true; }

    void reset(double* state, Pcg64& rng) const override {
        state[0] = rng.uniform(-PI, PI);
        state[1] = rng.uniform(-1.0, 1.0);
    }

    // In Gymnasium the torque is single precision, and so are products of it with constants.
    StepResult step(double* state, const Action& action) const override {
        const double angle = state[0], speed = state[1];
        const float torque = std::min(std::max(action.continuous[0], -max_torque_), max_torque_);
        const double angle_from_upright = python_modulo(angle + PI, 2 * PI) - PI;
        const double cost = squared(angle_from_upright) + 0.1 * squared(speed) + 0.001f * squared(torque);
        const float torque_acceleration = static_cast<float>(3.0 / (mass_ * squared(length_))) * torque;
        const double new_speed = speed + (3 * gravity_ / (2 * length_) * std::sin(angle) + torque_acceleration) * dt_;
        state[1] = std::min(std::max(new_speed, -max_speed_), max_speed_);
        state[0] = angle + state[1] * dt_;
        return {-cost, false};
    }

    void observe(const double* state, float* out) const override {
        out[0] = static_cast<float>(std::cos(state[0]));
        out[1] = static_cast<float>(std::sin(state[0]));
        out[2] = static_cast<float>(state[1]);
    }

   private:
    const double gravity_, mass_, length_, dt_, max_speed_;
    const float max_torque_;
};

}  // namespace

std::unique_ptr<EnvDynamics> make_dynamics(const std::string& name, const std::map<std::string, double>& constants) {
    const Constants values(constants);
    if (name == "acrobot") return std::make_unique<Acrobot>(values);
    if (name == "cartpole") return std::make_unique<CartPole>(values);
    if (name == "mountain_car") return std::make_unique<MountainCar>(values);
    if (name == "pendulum") return std::make_unique<Pendulum>(values);
    throw std::invalid_argument("unknown dynamics '" + name + "' (known: acrobot, cartpole, mountain_car, pendulum)");
}

}  // namespace engine
