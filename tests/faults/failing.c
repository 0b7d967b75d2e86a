/* System calls that fail on command, for tests.faults.failed_calls; loaded before the C library (LD_PRELOAD).
 *
 * fail_call(part, number, error, log): from now on, the calls that name a path with `part` in it are counted, and call
 * `number` (from 1; 0: none) fails once with `error`, without being made. Each is written to the file `log`, if that is
 * not -1. fail_made() returns whether the failure has happened. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char part[PATH_MAX];
static volatile long seen, target;
static volatile int error_number, log_file = -1, made;
static __thread int inside;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void fail_call(const char *path, long number, int error, int log) {
  part[0] = 0;
  seen = 0, target = number, error_number = error, log_file = log, made = 0;
  strncpy(part, path, sizeof part - 1);
}

int fail_made(void) { return made; }

static int fails(const char *call, const char *path) {
  if (!part[0] || !path || inside || !strstr(path, part)) return 0;
  inside = 1;
  long number = __sync_add_and_fetch(&seen, 1);
  if (log_file >= 0) {
    char line[PATH_MAX + 64];
    int size = snprintf(line, sizeof line, "%s\t%s\n", call, path);
    if (REAL(write)(log_file, line, size) != size) part[0] = 0;
  }
  inside = 0;
  if (number != target) return 0;
  made = 1;
  errno = error_number;
  return 1;
}

static int fails_open(const char *call, int file) {
  char link[64], path[PATH_MAX];
  if (!part[0] || inside) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return fails(call, path);
}

static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

#define OPEN(name, ...)                                             \
  int name(__VA_ARGS__, int flags, ...) {                           \
    va_list rest;                                                   \
    va_start(rest, flags);                                          \
    mode_t mode = va_arg(rest, int);                                \
    va_end(rest);                                                   \
    if (fails(writes(flags) ? "open to write" : "open to read", path)) return -1;
OPEN(open, const char *path) return REAL(open)(path, flags, mode); }
OPEN(open64, const char *path) return REAL(open64)(path, flags, mode); }
OPEN(openat, int folder, const char *path) return REAL(openat)(folder, path, flags, mode); }
OPEN(openat64, int folder, const char *path) return REAL(openat64)(folder, path, flags, mode); }

#define FOPEN(name)                                                                            \
  FILE *name(const char *path, const char *mode) {                                             \
    if (fails(mode[0] == 'r' && !strchr(mode, '+') ? "open to read" : "open to write", path)) \
      return NULL;                                                                             \
    return REAL(name)(path, mode);                                                             \
  }
FOPEN(fopen)
FOPEN(fopen64)

#define OF_FILE(result, name, call, types, names) \
  result name types {                             \
    if (fails_open(call, file)) return -1;        \
    return REAL(name) names;                      \
  }
OF_FILE(ssize_t, write, "write", (int file, const void *data, size_t size), (file, data, size))
OF_FILE(ssize_t, pwrite64, "write", (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
OF_FILE(ssize_t, read, "read", (int file, void *data, size_t size), (file, data, size))
OF_FILE(ssize_t, pread, "read", (int file, void *data, size_t size, off_t at), (file, data, size, at))
OF_FILE(ssize_t, pread64, "read", (int file, void *data, size_t size, off64_t at), (file, data, size, at))
OF_FILE(int, fsync, "fsync", (int file), (file))
OF_FILE(int, fdatasync, "fsync", (int file), (file))
OF_FILE(int, ftruncate, "truncate", (int file, off_t size), (file, size))
OF_FILE(int, ftruncate64, "truncate", (int file, off64_t size), (file, size))
OF_FILE(int, flock, "flock", (int file, int how), (file, how))

int close(int file) {
  int flags = fcntl(file, F_GETFL);
  int failed = flags >= 0 && writes(flags) && fails_open("close", file), number = errno;
  int result = REAL(close)(file);
  if (failed) errno = number;
  return failed ? -1 : result;
}

size_t fwrite(const void *data, size_t size, size_t number, FILE *file) {
  if (fails_open("write", fileno(file))) return 0;
  return REAL(fwrite)(data, size, number, file);
}

int fflush(FILE *file) {
  if (file && fails_open("write", fileno(file))) return EOF;
  return REAL(fflush)(file);
}

int fclose(FILE *file) {
  int failed = fails_open("close", fileno(file)), number = errno;
  int result = REAL(fclose)(file);
  if (failed) errno = number;
  return failed ? EOF : result;
}

#define OF_PATH(name, call, types, names) \
  int name types {                        \
    if (fails(call, path)) return -1;     \
    return REAL(name) names;              \
  }
OF_PATH(rename, "rename", (const char *from, const char *path), (from, path))
OF_PATH(renameat, "rename", (int a, const char *from, int b, const char *path), (a, from, b, path))
OF_PATH(unlink, "unlink", (const char *path), (path))
OF_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode))
OF_PATH(rmdir, "rmdir", (const char *path), (path))

int unlinkat(int folder, const char *path, int flags) {
  if (folder == AT_FDCWD ? fails(flags & AT_REMOVEDIR ? "rmdir" : "unlink", path)
                         : fails_open(flags & AT_REMOVEDIR ? "rmdir" : "unlink", folder))
    return -1;
  return REAL(unlinkat)(folder, path, flags);
}
