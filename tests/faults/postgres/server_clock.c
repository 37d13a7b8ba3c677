/* Preloaded into a PostgreSQL server: the clock of all its processes is wrong by the number of nanoseconds that a file holds.

   PostgreSQL reads the clock in its handler of SIGALRM too, which may interrupt malloc. So nothing here allocates, locks or calls anything
   but the kernel: the file is mapped once, before main, and whoever writes to it changes the clock of running processes at once.
   (libfaketime opens the file with fopen, which allocates, whenever the clock is read. Sessions whose timer expired inside malloc then
   died of a corrupted heap, and the server ended all others.) Timers and the monotonic clock are left alone, as by a real step. */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t SECOND = 1000000000;
static const volatile int64_t *wrong_by;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("HOLDKIT_SERVER_CLOCK");
    int file = path ? open(path, O_RDONLY) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *wrong_by, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort(); /* a test must not take the right time for a wrong one */
    close(file);
    wrong_by = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shown = now->tv_sec * SECOND + now->tv_nsec + *wrong_by;
        now->tv_sec = shown / SECOND;
        now->tv_nsec = shown % SECOND;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    if (result == 0) {
        now->tv_sec = precise.tv_sec;
        now->tv_usec = precise.tv_nsec / 1000;
    }
    return result;
}

time_t time(time_t *stored)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (stored)
        *stored = now.tv_sec;
    return now.tv_sec;
}
