/* A wall clock that is wrong by WRONG_CLOCK_SECONDS, for one process tree (LD_PRELOAD).
 *
 * CLOCK_REALTIME has no namespace. libfaketime 0.9.10 breaks clock_nanosleep of Python 3.11 (EINVAL), so only the three
 * calls that read the wall clock are replaced; monotonic clocks and waiting stay as they are.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *text = getenv("WRONG_CLOCK_SECONDS");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *result) {
    int code = (int)syscall(SYS_clock_gettime, clock, result);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) result->tv_sec += offset();
    return code;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
    int code = (int)syscall(SYS_gettimeofday, result, zone);
    if (code == 0 && result) result->tv_sec += offset();
    return code;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
