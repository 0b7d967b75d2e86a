/* Sleeps as the kernel does, in a process whose clock libfaketime sets: with FAKETIME_DONT_FAKE_MONOTONIC its own
   clock_nanosleep (0.9.10) refuses the absolute times that Python gives it, as an invalid argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    return syscall(SYS_clock_nanosleep, clock, flags, time, left) == -1 ? errno : 0;
}
