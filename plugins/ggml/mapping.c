/* Files mapped into memory. A model's pages count as this process's memory for as long as they are mapped and
 * touched, so a weight that was packed would count twice. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "plugin.h"

bool sbg_is_file(const void *data, size_t size)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps) return false;
    const uintptr_t begin = (uintptr_t)data, end = begin + size;
    char line[512];
    bool found = false;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long from, to, inode;
        char flags[5];
        if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &from, &to, flags, &inode) != 4) continue;
        /* Shared and not writable: nothing of it can be lost. */
        found = from <= begin && end <= to && inode != 0 && flags[1] == '-' && flags[3] == 's';
    }
    fclose(maps);
    return found;
}

void sbg_release_file(const void *data, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page, end = ((uintptr_t)data + size) / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED); /* a hint: locked pages stay */
}
