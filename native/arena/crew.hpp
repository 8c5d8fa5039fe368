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

    // Calls job(0) … job(size - 1), each once, together; the job must not throw.
    void run(const std::function<void(int)>& job);
    int size() const { return size_; }

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
