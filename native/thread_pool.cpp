#include "thread_pool.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace palaestra {

namespace {

constexpr int SPINS_PER_CLOCK_READ = 64;
constexpr std::size_t CACHE_LINE_PAIR = 128;  // bytes; prefetchers load pairs of cache lines

inline void cpu_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins until the condition holds or the time is up; returns whether it holds.
template <typename Condition>
bool spin_until(int microseconds, const Condition& is_true) {
    if (is_true()) return true;
    if (!microseconds) return false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);
    do {
        for (int k = 0; k < SPINS_PER_CLOCK_READ; ++k) {
            if (is_true()) return true;
            cpu_pause();
        }
    } while (std::chrono::steady_clock::now() < deadline);
    return false;
}

}  // namespace

// A thread that changes a condition then checks for sleeping threads; a thread that wants to sleep announces that and
// then checks the condition again. Both are sequentially consistent, so one of the two sees the other and no wake-up is
// lost.
struct ThreadPool::State {
    explicit State(int task_count) : size(task_count), claimed(task_count) {}

    const int size;
    std::atomic<int> spin_microseconds{0};
    const std::function<void(int)>* job = nullptr;  // of this round, for threads that claimed a task of it
    alignas(CACHE_LINE_PAIR) std::atomic<std::uint64_t> round{0};
    std::vector<std::atomic<std::uint64_t>> claimed;  // [size] the last round in which the task was claimed
    alignas(CACHE_LINE_PAIR) std::atomic<int> unfinished{0};
    alignas(CACHE_LINE_PAIR) std::atomic<int> sleeping{0};
    std::atomic<bool> is_awaited{false}, closing{false};
    std::mutex mutex;
    std::condition_variable work_ready, work_done;

    std::uint64_t publish(const std::function<void(int)>& work);
    void run_tasks(std::uint64_t this_round, int first_task);
    void wait_for_round(std::uint64_t last_round);
    void wait_until_done();
    void notify(std::condition_variable& condition);
};

std::uint64_t ThreadPool::State::publish(const std::function<void(int)>& work) {
    job = &work;
    unfinished.store(size);
    const std::uint64_t this_round = round.fetch_add(1) + 1;
    if (sleeping.load()) notify(work_ready);
    return this_round;
}

// Runs the thread's own task first, so that its data stays in one core's cache, then unclaimed ones. A round ends when
// all its tasks are done: a thread that claimed a task has a valid job, and a late thread finds none left to claim.
void ThreadPool::State::run_tasks(std::uint64_t this_round, int first_task) {
    for (int k = 0; k < size; ++k) {
        const int task = (first_task + k) % size;
        std::uint64_t before = this_round - 1;
        if (!claimed[task].compare_exchange_strong(before, this_round)) continue;
        (*job)(task);
        if (unfinished.fetch_sub(1) == 1 && is_awaited.load()) notify(work_done);
    }
}

void ThreadPool::State::wait_for_round(std::uint64_t last_round) {
    const auto is_new = [this, last_round] { return round.load() != last_round || closing.load(); };
    if (spin_until(spin_microseconds.load(), is_new)) return;
    std::unique_lock<std::mutex> lock(mutex);
    sleeping.fetch_add(1);
    work_ready.wait(lock, is_new);
    sleeping.fetch_sub(1);
}

void ThreadPool::State::wait_until_done() {
    const auto is_done = [this] { return unfinished.load() == 0; };
    if (spin_until(spin_microseconds.load(), is_done)) return;
    std::unique_lock<std::mutex> lock(mutex);
    is_awaited.store(true);
    work_done.wait(lock, is_done);
    is_awaited.store(false);
}

void ThreadPool::State::notify(std::condition_variable& condition) {
    {
        const std::lock_guard<std::mutex> lock(mutex);
    }  // a thread that is about to sleep now sleeps
    condition.notify_all();
}

ThreadPool::ThreadPool(int size) : size_(size), state_(std::make_unique<State>(size)) {}

ThreadPool::~ThreadPool() {
    if (threads_.empty()) return;
    if (owner_pid_ != getpid()) {
        // In a forked child the threads do not exist: joining them, or destroying what they wait on, would hang.
        for (std::thread& thread : threads_) thread.detach();
        static_cast<void>(state_.release());
        return;
    }
    state_->closing.store(true);
    state_->notify(state_->work_ready);
    for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::set_spin_time(int microseconds) { state_->spin_microseconds.store(microseconds); }

void ThreadPool::start_threads() {
    owner_pid_ = getpid();
    for (int task = 1; task < size_; ++task) {
        threads_.emplace_back([state = state_.get(), task] { work(*state, task); });
    }
}

void ThreadPool::run(const std::function<void(int)>& job) {
    if (threads_.empty() && size_ > 1) start_threads();
    if (size_ == 1 || owner_pid_ != getpid()) {
        for (int task = 0; task < size_; ++task) job(task);
        return;
    }
    state_->run_tasks(state_->publish(job), 0);
    state_->wait_until_done();
}

void ThreadPool::work(State& state, int task) {
    std::uint64_t last_round = 0;
    while (true) {
        state.wait_for_round(last_round);
        if (state.closing.load()) return;
        last_round = state.round.load();
        state.run_tasks(last_round, task);
    }
}

}  // namespace palaestra
