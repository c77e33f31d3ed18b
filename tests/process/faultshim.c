/* Makes chosen system calls of one process fail, or write short: loaded with LD_PRELOAD, told by the environment.
 *
 *   FAULT_CALL   pwritev, fdatasync, fsync, rename, open, unlink, ftruncate or statvfs
 *   FAULT_PATH   what the path must contain (for a rename: the new name); a '$' at its end means: must end so
 *   FAULT_NTH    the first matching call that fails, from 1       FAULT_COUNT  how many fail, 0 = all from there on
 *   FAULT_ERRNO  with what                                        FAULT_SHORT  instead: pwritev takes so many bytes
 *   FAULT_LOG    a file that gets one line for each fault, the proof that it happened
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long matches;

static long number(const char *name) { const char *text = getenv(name); return text ? atol(text) : 0; }

static int hits(const char *call, const char *path) {
    const char *wanted = getenv("FAULT_CALL"), *part = getenv("FAULT_PATH");
    if (!wanted || !part || strcmp(wanted, call)) return 0;
    size_t length = strlen(part), size = strlen(path);
    if (length && part[length - 1] == '$') {
        if (size < --length || memcmp(path + size - length, part, length)) return 0;
    } else if (!strstr(path, part)) return 0;
    long match = atomic_fetch_add(&matches, 1) + 1, nth = number("FAULT_NTH"), count = number("FAULT_COUNT");
    if (match < nth || (count && match >= nth + count)) return 0;
    char line[4200];
    int width = snprintf(line, sizeof line, "%s %s %ld\n", call, path, match);
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    int log = real(getenv("FAULT_LOG"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (log < 0 || write(log, line, width) != width) abort();
    close(log);
    errno = (int)number("FAULT_ERRNO");
    return 1;
}

static int hits_descriptor(const char *call, int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    return hits(call, path);
}

#define REAL(name, result, ...) result (*real)(__VA_ARGS__) = dlsym(RTLD_NEXT, #name)

ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off64_t position, int flags) {
    REAL(pwritev64v2, ssize_t, int, const struct iovec *, int, off64_t, int);
    if (!hits_descriptor("pwritev", descriptor)) return real(descriptor, parts, count, position, flags);
    long few = number("FAULT_SHORT");
    if (!few) return -1;
    struct iovec first = {parts[0].iov_base, parts[0].iov_len < (size_t)few ? parts[0].iov_len : (size_t)few};
    return real(descriptor, &first, 1, position, flags);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t position) {
    return pwritev64v2(descriptor, parts, count, position, 0);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0;
    va_end(rest);
    REAL(open64, int, const char *, int, ...);
    return hits("open", path) ? -1 : real(path, flags, mode);
}

int fdatasync(int descriptor) { REAL(fdatasync, int, int); return hits_descriptor("fdatasync", descriptor) ? -1 : real(descriptor); }
int fsync(int descriptor) { REAL(fsync, int, int); return hits_descriptor("fsync", descriptor) ? -1 : real(descriptor); }
int unlink(const char *path) { REAL(unlink, int, const char *); return hits("unlink", path) ? -1 : real(path); }
int rename(const char *old, const char *new) {
    REAL(rename, int, const char *, const char *);
    return hits("rename", new) ? -1 : real(old, new);
}
int ftruncate64(int descriptor, off64_t size) {
    REAL(ftruncate64, int, int, off64_t);
    return hits_descriptor("ftruncate", descriptor) ? -1 : real(descriptor, size);
}
int statvfs64(const char *path, struct statvfs64 *result) {
    REAL(statvfs64, int, const char *, struct statvfs64 *);
    return hits("statvfs", path) ? -1 : real(path, result);
}
