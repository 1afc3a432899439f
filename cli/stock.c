#include "stock.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

const char stock_hint[] = "no stock library was found: install one (apt install libopenblas0, or pip download "
                          "scipy-openblas32 and unpack it) or name its file with --stock PATH";

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

typedef void cblas_sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a,
                            int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void cblas_dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double *a,
                            int lda, const double *b, int ldb, double beta, double *c, int ldc);
typedef void cblas_cgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a,
                            int lda, const void *b, int ldb, const void *beta, void *c, int ldc);
typedef void cblas_bgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const uint16_t *a,
                            int lda, const uint16_t *b, int ldb, float beta, float *c, int ldc);
typedef int dnnl_sgemm_fn(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                          int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static void linear_cblas(const stock *s, int64_t m, int64_t n, int64_t k, const float *x, const float *w, float *out)
{
    ((cblas_sgemm_fn *)s->sgemm)(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_TRANS, (int)m, (int)n, (int)k, 1.0f, x, (int)k,
                                 w, (int)k, 0.0f, out, (int)n);
}

static void linear_wide_cblas(const stock *s, dtype type, int64_t m, int64_t n, int64_t k, const void *x, const void *w,
                              void *out)
{
    static const float one[2] = {1.0f, 0.0f}, zero[2] = {0.0f, 0.0f};
    if (type == T_F64)
        ((cblas_dgemm_fn *)s->dgemm)(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_TRANS, (int)m, (int)n, (int)k, 1.0, x,
                                     (int)k, w, (int)k, 0.0, out, (int)n);
    else
        ((cblas_cgemm_fn *)s->cgemm)(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_TRANS, (int)m, (int)n, (int)k, one, x,
                                     (int)k, w, (int)k, zero, out, (int)n);
}

static void linear_bf16_cblas(const stock *s, int64_t m, int64_t n, int64_t k, const uint16_t *x, const uint16_t *w,
                              float *out)
{
    ((cblas_bgemm_fn *)s->bgemm)(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_TRANS, (int)m, (int)n, (int)k, 1.0f, x, (int)k,
                                 w, (int)k, 0.0f, out, (int)n);
}

static void linear_dnnl(const stock *s, int64_t m, int64_t n, int64_t k, const float *x, const float *w, float *out)
{
    ((dnnl_sgemm_fn *)s->sgemm)('N', 'T', m, n, k, 1.0f, x, k, w, k, 0.0f, out, n);
}

static void threads_by_value(const stock *s, int threads) { ((void (*)(int))s->threads)(threads); }

/* One row: eight running sums. More rows: one running sum. */
static void linear_naive(const stock *s, int64_t m, int64_t n, int64_t k, const float *x, const float *w, float *out)
{
    (void)s;
    for (int64_t row = 0; row < m; row++)
        for (int64_t col = 0; col < n; col++) {
            const float *a = x + row * k, *b = w + col * k;
            float lanes[8] = {0}, sum = 0.0f;
            if (m == 1) {
                for (int64_t i = 0; i < k; i++) lanes[i % 8] += a[i] * b[i];
                for (int i = 0; i < 8; i++) sum += lanes[i];
            } else {
                for (int64_t i = 0; i < k; i++) sum += a[i] * b[i];
            }
            out[row * n + col] = sum;
        }
}

const stock stock_naive = {.name = (char *)"built-in naive", .linear = linear_naive};

static void *symbol(void *library, const char *const *names)
{
    for (; *names; names++) {
        void *found = dlsym(library, *names);
        if (found) return found;
    }
    return NULL;
}

/* The name of a CBLAS: what the library says of itself, else its file. */
static char *cblas_name(void *library, const char *path)
{
    static const char *const config[] = {"openblas_get_config", "scipy_openblas_get_config", NULL};
    const char *(*openblas)(void) = (const char *(*)(void))symbol(library, config);
    void (*mkl)(char *, int) = (void (*)(char *, int))dlsym(library, "MKL_Get_Version_String");
    if (openblas) {
        const char *text = openblas(), *end = text + strcspn(text, " ");
        end += *end ? 1 + strcspn(end + 1, " ") : 0;
        return cli_text("%.*s", (int)(end - text), text);
    }
    if (mkl) {
        char text[200] = {0};
        mkl(text, sizeof text - 1);
        const char *version = strstr(text, "Version ");
        return cli_text("MKL %.*s", version ? (int)strcspn(version + 8, " ") : 0, version ? version + 8 : "");
    }
    const char *slash = strrchr(path, '/');
    return cli_text("%s", slash ? slash + 1 : path);
}

/* Describes the library in `path`; 0 if it cannot be opened or has no product. */
static int open_one(const char *path, stock *s)
{
    static const char *const sgemm[] = {"cblas_sgemm", "scipy_cblas_sgemm", NULL},
                             *const dgemm[] = {"cblas_dgemm", "scipy_cblas_dgemm", NULL},
                             *const cgemm[] = {"cblas_cgemm", "scipy_cblas_cgemm", NULL},
                             *const bgemm[] = {"cblas_gemm_bf16bf16f32", "cblas_sbgemm", "scipy_cblas_sbgemm", NULL};
    static const char *const threads[] = {"openblas_set_num_threads", "scipy_openblas_set_num_threads",
                                          "MKL_Set_Num_Threads",      "bli_thread_set_num_threads",
                                          "omp_set_num_threads",      NULL};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return 0;
    *s = (stock){.linear = linear_cblas, .library = library, .threads = symbol(library, threads)};
    s->set_threads = s->threads ? threads_by_value : NULL;
    s->sgemm = symbol(library, sgemm);
    s->dgemm = symbol(library, dgemm);
    s->cgemm = symbol(library, cgemm);
    s->bgemm = symbol(library, bgemm);
    s->linear_bf16 = s->bgemm ? linear_bf16_cblas : NULL;
    s->linear_wide = s->dgemm && s->cgemm ? linear_wide_cblas : NULL;
    if (s->sgemm) {
        s->name = cblas_name(library, path);
        return 1;
    }
    s->sgemm = dlsym(library, "dnnl_sgemm");
    if (!s->sgemm) {
        dlclose(library);
        return 0;
    }
    s->linear = linear_dnnl;
    const int *(*version)(void) = (const int *(*)(void))dlsym(library, "dnnl_version");
    s->name = version ? cli_text("oneDNN %d.%d.%d", version()[0], version()[1], version()[2]) : cli_text("oneDNN");
    return 1;
}

int stock_open(const char *path, stock **list)
{
    static const char *const usual[] = {"libopenblas.so.0", "libopenblas.so", "libdnnl.so.3", "libdnnl.so.2",
                                        "libmkl_rt.so.3",   "libmkl_rt.so.2", "libblis.so.4"};
    int count = 0;
    *list = cli_alloc(64 * sizeof **list);
    /* These two choose OpenBLAS's kernels for it; a control and a time should be the library's own choice. */
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    char *given = cli_text("%s", path ? path : ""), *rest = given;
    for (char *one; (one = strtok_r(rest, ":", &rest)) && count < 32; count++)
        if (!open_one(one, &(*list)[count])) {
            const char *why = dlerror();
            cli_die("--stock %s: %s", one,
                    why ? why
                        : "it has neither cblas_sgemm nor dnnl_sgemm: name an OpenBLAS, BLIS, MKL or oneDNN library");
        }
    free(given);
    for (size_t i = 0; i < CLI_COUNT(usual); i++) {
        stock s;
        int known = 0;
        if (!open_one(usual[i], &s)) continue;
        for (int j = 0; j < count; j++) known |= (*list)[j].sgemm == s.sgemm || !strcmp((*list)[j].name, s.name);
        if (known) continue;
        (*list)[count++] = s;
    }
    return count;
}
