/* Preloaded into a process: STARVING=slow delays calls on files, STARVING=clock lets the time of day jump. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is(const char *what) {
  const char *value = getenv("STARVING");
  return value && strcmp(value, what) == 0;
}

static void wait_a_little(void) {
  struct timespec wait = {0, 3000000}; /* 3 ms, as a seek of a disk or a round trip to a server */
  if (is("slow")) nanosleep(&wait, NULL);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  static int calls;
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME && is("clock")) now->tv_sec += (calls++ % 3 - 1) * 86400L; /* a day to and fro */
  return result;
}

#define DELAYED(type, name, parameters, arguments) \
  type name parameters {                           \
    static type(*real) parameters;                 \
    if (!real) real = dlsym(RTLD_NEXT, #name);     \
    wait_a_little();                               \
    return real arguments;                         \
  }

DELAYED(int, fsync, (int file), (file))
DELAYED(ssize_t, write, (int file, const void *from, size_t size), (file, from, size))
DELAYED(int, rename, (const char *from, const char *to), (from, to))
DELAYED(int, unlink, (const char *path), (path))
DELAYED(int, rmdir, (const char *path), (path))
DELAYED(int, mkdir, (const char *path, mode_t mode), (path, mode))
DELAYED(ssize_t, pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at))
