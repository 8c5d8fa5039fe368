// A few threads that wait for work: one call splits it, and returns when all of it is done.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace arena {

class Crew {
   public:
    explicit Crew(int size);  // the caller counts as one
    ~Crew();
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;

    // Calls job(0) … job(size - 1), each once: one's own is taken over by whoever is free before it was begun, so that a
    // thread that the machine has no core for just now holds nobody up. The job must not throw.
    void run(const std::function<void(int)>& job);
    int size() const { return size_; }
    // For so long after its last work a thread looks for more without sleeping; at first it does not. To be woken takes
    // longer than a small piece of work, but a core that looks is a core that is not free.
    void set_eager(int microseconds);

   private:
    struct Board;  // where work is announced
    static void work(Board& board, int number);
    void hire();

    const int size_;
    int owner_ = 0;  // process that hired the threads: after a fork they are not there
    std::unique_ptr<Board> board_;
    std::vector<std::thread> threads_;
};

}  // namespace arena
