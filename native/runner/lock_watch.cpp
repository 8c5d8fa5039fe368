// Ends the process when Python code has not run for too long.
//
// Compiled code that hangs while it holds Python's global interpreter lock keeps every Python thread from running, the
// watchdog's among them. This thread needs no lock. Whoever runs Python calls `feed` now and then.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kCheck{0.25};
constexpr Seconds kLongestCheck{1.0};  // a longer one means that the process was stopped, or the machine slept

class LockWatch {
   public:
    LockWatch(double limit_seconds, std::string message)
        : limit_(limit_seconds), message_(std::move(message)), thread_([this] { watch(); }) {}
    ~LockWatch() { close(); }

    void feed() { silent_ = 0.0; }

    void close() {
        {
            const std::lock_guard<std::mutex> held(mutex_);
            is_closed_ = true;
        }
        changed_.notify_all();
        if (thread_.joinable()) thread_.join();
    }

   private:
    void watch() {
        std::unique_lock<std::mutex> held(mutex_);
        Clock::time_point checked_at = Clock::now();
        while (!changed_.wait_for(held, kCheck, [this] { return is_closed_; })) {
            const Clock::time_point now = Clock::now();
            const Seconds passed = std::min(Seconds(now - checked_at), kLongestCheck);
            checked_at = now;
            const double silent = silent_ + passed.count();
            silent_ = silent;
            if (silent >= limit_) end_process();
        }
    }

    [[noreturn]] void end_process() const {
        const ssize_t written = ::write(STDERR_FILENO, message_.data(), message_.size());
        static_cast<void>(written);  // there is nobody left to tell
        std::abort();                // and faulthandler prints where each thread stands
    }

    const double limit_;
    const std::string message_;
    std::atomic<double> silent_{0.0};  // seconds since the last `feed`
    bool is_closed_ = false;           // guarded by mutex_
    std::mutex mutex_;
    std::condition_variable changed_;
    std::thread thread_;  // the last member: it uses the others
};

}  // namespace

NB_MODULE(lock_watch, module) {
    nb::class_<LockWatch>(module, "LockWatch")
        .def(nb::init<double, std::string>(), "limit_seconds"_a, "message"_a)
        .def("feed", &LockWatch::feed)
        .def("close", &LockWatch::close, nb::call_guard<nb::gil_scoped_release>());
}
