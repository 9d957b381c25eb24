/* Sends a script to a running Ferrule: what sys.remote_exec() does, for
   debuggers and profilers that are not written in Python.

       if (ferrule_remote_exec(pid, "/tmp/script.py") < 0) {
           perror("ferrule_remote_exec");
       }

   It needs Linux and no library. In a strict mode of the compiler (-std=c11),
   define _GNU_SOURCE before the first header. The process has to be one that a
   debugger may attach to. docs/remote.md describes the protocol. */

#ifndef FERRULE_REMOTE_H
#define FERRULE_REMOTE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/types.h>
#include <unistd.h>

#define FERRULE_REMOTE_MAGIC "FERRULE-REMOTE\0\001"

/* The start of the section .ferrule_remote of the interpreter; the path of the
   script follows. Numbers have the machine's byte order. */
struct ferrule_remote_area {
    unsigned char magic[16];    /* FERRULE_REMOTE_MAGIC */
    uint32_t version;           /* sys.hexversion */
    uint16_t room;              /* for the path, with its NUL */
    uint16_t events;            /* the byte that announces a request */
    uint64_t here;              /* the area's address in the process */
    uint64_t breaker;           /* where the byte goes; 0: disabled */
    uint64_t checksum;          /* of the path: FNV-1a, 64 bits */
    uint32_t length;            /* of the path, without its NUL */
    uint32_t pending;           /* 1: there is a request */
};

#define FERRULE_REMOTE_LARGEST_DATA ((size_t)64 << 20)

static inline int
ferrule_remote_write(int memory, uint64_t at, const void *data, size_t size)
{
    if (pwrite(memory, data, size, (off_t)at) != (ssize_t)size) {
        errno = ESRCH;
        return -1;
    }
    return 0;
}

/* Looks for the area in one mapping of the process. 1: it is there. */
static inline int
ferrule_remote_look(int memory, uint64_t start, size_t size,
                    struct ferrule_remote_area *area)
{
    unsigned char *data = (unsigned char *)malloc(size);
    size_t at = 0;
    int found = 0;
    if (data != NULL
        && pread(memory, data, size, (off_t)start) == (ssize_t)size)
    {
        for (; !found && at + sizeof(*area) <= size; at += 8) {
            if (memcmp(data + at, FERRULE_REMOTE_MAGIC, 16) == 0) {
                memcpy(area, data + at, sizeof(*area));
                /* A copy of the binary's text may be in memory, too. */
                found = area->here == start + at;
            }
        }
    }
    free(data);
    return found;
}

/* Finds the area in the data of the program, or of a libpython. -1: errno is
   ENOEXEC where the process is no Ferrule, or has not started Python. */
static inline int
ferrule_remote_find(int pid, int memory, struct ferrule_remote_area *area)
{
    char name[64], program[4096], line[8192], path[4096], flags[8];
    unsigned long long start, end;
    ssize_t length;
    FILE *maps;
    int found = 0;
    snprintf(name, sizeof(name), "/proc/%d/exe", pid);
    length = readlink(name, program, sizeof(program) - 1);
    snprintf(name, sizeof(name), "/proc/%d/maps", pid);
    maps = length < 0 ? NULL : fopen(name, "re");
    if (maps == NULL) {
        errno = ESRCH;
        return -1;
    }
    program[length] = '\0';
    while (!found && fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%llx-%llx %7s %*s %*s %*s %4095[^\n]", &start, &end,
                   flags, path) == 4
            && strcmp(flags, "rw-p") == 0
            && (strcmp(path, program) == 0 || strstr(path, "python") != NULL)
            && end - start <= FERRULE_REMOTE_LARGEST_DATA)
        {
            found = ferrule_remote_look(memory, start, (size_t)(end - start),
                                        area);
        }
    }
    fclose(maps);
    errno = ENOEXEC;
    return found ? 0 : -1;
}

static inline int
ferrule_remote_request(int memory, struct ferrule_remote_area *area,
                       const char *script)
{
    size_t length = strlen(script);
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    unsigned char event = (unsigned char)area->events;
    size_t i;
    if (area->breaker == 0) {
        errno = ENOTSUP;
        return -1;
    }
    if (length == 0 || length >= area->room) {
        errno = length == 0 ? EINVAL : ENAMETOOLONG;
        return -1;
    }
    if (area->pending != 0) {
        /* Its sender may have ended before it announced the request. */
        ferrule_remote_write(memory, area->breaker, &event, 1);
        errno = EBUSY;
        return -1;
    }
    for (i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)script[i]) * UINT64_C(0x100000001b3);
    }
    area->checksum = hash;
    area->length = (uint32_t)length;
    area->pending = 1;
    return ferrule_remote_write(memory, area->here + sizeof(*area), script,
                                length)
        || ferrule_remote_write(memory, area->here + 40,
                                (const unsigned char *)area + 40, 12)
        || ferrule_remote_write(memory, area->here + 52, &area->pending, 4)
        || ferrule_remote_write(memory, area->breaker, &event, 1) ? -1 : 0;
}

/* Has the main thread of process `pid` execute the file `script`, an absolute
   path, where its eval loop next handles events. Returns 0 when the request
   has been left there, or -1, and errno is

   ESRCH         there is no such process, or it has ended
   EACCES, EPERM the system does not allow to debug it
   ENOEXEC       it is no Ferrule, or has not started Python
   ENOTSUP       remote debugging is disabled there
   EBUSY         it has not yet run the script before
   ENAMETOOLONG  the path is too long */
static inline int
ferrule_remote_exec(pid_t pid, const char *script)
{
    struct ferrule_remote_area area;
    char name[64];
    int memory, result, error;
    snprintf(name, sizeof(name), "/proc/%d/mem", (int)pid);
    memory = open(name, O_RDWR | O_CLOEXEC);
    if (memory < 0) {
        errno = errno == ENOENT ? ESRCH : errno;
        return -1;
    }
    /* Other senders wait for no more than a few writes. */
    result = flock(memory, LOCK_EX);
    if (result == 0) {
        result = ferrule_remote_find((int)pid, memory, &area);
    }
    if (result == 0) {
        result = ferrule_remote_request(memory, &area, script);
    }
    error = errno;
    flock(memory, LOCK_UN);     /* a forked child may have the file too */
    close(memory);
    errno = error;
    return result;
}

#endif /* !FERRULE_REMOTE_H */
