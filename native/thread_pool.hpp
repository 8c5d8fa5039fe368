// A fixed set of threads that wait for work. One call splits a job into tasks and returns when all of them are done.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace palaestra {

class ThreadPool {
   public:
    explicit ThreadPool(int size);  // including the calling thread
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    // Calls job(0) … job(size - 1), each once. An idle thread takes over tasks that their own thread has not started,
    // so a thread without a core delays nothing. The job must not throw.
    void run(const std::function<void(int)>& job);
    int size() const { return size_; }
    // How long an idle thread spins for more work before it sleeps; 0 at first. Waking a thread takes longer than a
    // small task, but a spinning thread occupies a core.
    void set_spin_time(int microseconds);

   private:
    struct State;
    static void work(State& state, int task);
    void start_threads();

    const int size_;
    int owner_pid_ = 0;  // process that started the threads: a fork does not have them
    std::unique_ptr<State> state_;
    std::vector<std::thread> threads_;
};

}  // namespace palaestra
