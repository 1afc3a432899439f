/* samebits loaded at run time: for a host that works without it too. Usage: dlopen [libsamebits.so.0] */
#include <samebits/samebits.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "libsamebits.so.0";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    const char *(*version)(void);
    samebits_status (*create)(samebits_context **, const samebits_options *);
    void (*destroy)(samebits_context **);
    samebits_cpu (*level)(const samebits_context *);
    const char *(*name)(samebits_cpu);
    void *symbols[] = {dlsym(library, "samebits_version"), dlsym(library, "samebits_create"),
                       dlsym(library, "samebits_destroy"), dlsym(library, "samebits_context_cpu"),
                       dlsym(library, "samebits_cpu_name")};
    for (int i = 0; i < 5; i++)
        if (!symbols[i]) return fprintf(stderr, "%s is no samebits library\n", path), 2;
    /* ISO C has no conversion from object to function pointers; POSIX defines this one. */
    memcpy(&version, &symbols[0], sizeof version);
    memcpy(&create, &symbols[1], sizeof create);
    memcpy(&destroy, &symbols[2], sizeof destroy);
    memcpy(&level, &symbols[3], sizeof level);
    memcpy(&name, &symbols[4], sizeof name);

    samebits_context *context;
    if (create(&context, NULL)) return 2;
    printf("samebits %s, CPU level %s\n", version(), name(level(context)));
    destroy(&context);
    return dlclose(library);
}
