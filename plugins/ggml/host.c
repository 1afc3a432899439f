/* Functions of the host. Nothing is linked: a host that opened ggml with RTLD_LOCAL (as Python does) would
 * not let a plugin see its symbols, so they are looked up in the library that called us. */
#include <dlfcn.h>
#include <stdio.h>

#include "plugin.h"

sbg_host sbg_ggml;

/* The library that holds an address; NULL (everything global) for the program itself. */
static void *library_of(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info) || !info.dli_fname) return NULL;
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

bool sbg_host_find(const void *caller)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"ggml_backend_cpu_buffer_type", &sbg_ggml.cpu_buffer_type},
        {"ggml_backend_buffer_init", &sbg_ggml.buffer_init},
        {"ggml_nbytes", &sbg_ggml.nbytes},
        {"ggml_is_contiguous", &sbg_ggml.is_contiguous},
        {"ggml_graph_n_nodes", &sbg_ggml.graph_n_nodes},
        {"ggml_graph_node", &sbg_ggml.graph_node},
        {"ggml_op_name", &sbg_ggml.op_name},
        {"ggml_type_name", &sbg_ggml.type_name},
        {"ggml_log_internal", &sbg_ggml.log},
    };
    void *library = library_of(caller);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = library ? dlsym(library, wanted[i].name) : NULL;
        if (!symbol) symbol = dlsym(RTLD_DEFAULT, wanted[i].name);
        if (!symbol) {
            fprintf(stderr,
                    "samebits: not loaded: this program does not export %s; "
                    "it needs ggml as shared libraries (BUILD_SHARED_LIBS=ON)\n",
                    wanted[i].name);
            return false;
        }
        *(void **)wanted[i].function = symbol;
    }
    /* The host compares the versions itself and refuses; this says what to do about it. The function came
     * with version 3. */
    const bool host_3 = dlsym(library ? library : RTLD_DEFAULT, "ggml_backend_buft_alloc_buffer_n") != NULL;
    if (host_3 != (GGML_BACKEND_API_VERSION >= 3)) {
        sbg_error("not loaded: built for backend API version %d, this program has version %s; use the plugin "
                  "built from its own headers\n",
                  GGML_BACKEND_API_VERSION, host_3 ? "3 or later" : "2");
        return false;
    }
    return true;
}
