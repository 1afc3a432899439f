/* Modes: up to how many rows a call has to follow its order, and what happens to a call that has none.
 *
 * A plain call follows its order always; without a limit or a mode nothing in this header takes part. They are for
 * hosts that also have another library: for their sake a call of many rows may be left to it, and what this library
 * cannot compute is refused or counted, never passed over in silence. */
#ifndef SAMEBITS_MODE_H
#define SAMEBITS_MODE_H

#include <stddef.h>
#include <stdint.h>

#include <samebits/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A limit that no call is above. */
#define SAMEBITS_UNLIMITED INT64_MAX

/* The process's limit, 0 at first. 0: off, every call follows its order. L > 0: calls of at most L rows do; a product
 * of more rows is left to the context's options.stock where there is one, and follows its order where there is none.
 * Rows are those of `a` or `x`, all leading dims together, or those of one matrix where `b` has batch dims too.
 * Only samebits_matmul, samebits_linear and samebits_addmm go to a stock product, above the limit and, in a mode that
 * is not strict, for dtypes that have no row; the latter only without an epilogue, so never samebits_addmm.
 * Errors: PARAM (limit < 0; the limit stays as it was).
 * Threads: any; read and written atomically. */
SAMEBITS_API samebits_status samebits_limit_set(int64_t rows);
SAMEBITS_API int64_t samebits_limit(void);

typedef struct samebits_mode_params {
    size_t struct_size; /* set by samebits_mode_params_default */
    int64_t limit;      /* as the process's, and instead of it; 0, the default: the process's */
    int strict;         /* refuse what has no row (ERR_UNSUPPORTED); 0, the default: leave it to stock, and count it */
} samebits_mode_params;

SAMEBITS_API void samebits_mode_params_default(samebits_mode_params *params);

/* Begins and ends a mode of the calling thread. Modes nest up to SAMEBITS_MODE_DEPTH deep; the innermost alone is in
 * force, and its end brings back the one around it. Other threads are not affected. params may be NULL (defaults).
 * Errors: PARAM (limit < 0, struct_size, too deep; an end without a begin). The mode is then as before. */
#define SAMEBITS_MODE_DEPTH 32
SAMEBITS_API samebits_status samebits_mode_begin(const samebits_mode_params *params);
SAMEBITS_API samebits_status samebits_mode_end(void);
/* How many modes this thread is in. */
SAMEBITS_API int samebits_mode_depth(void);

/* Who is to compute a call. */
typedef enum samebits_route {
    SAMEBITS_ROUTE_STOCK = 0, /* the host's own library */
    SAMEBITS_ROUTE_ORDER      /* samebits, in its order */
} samebits_route;

/* For a host that passes its calls on: where a call of `rows` rows belongs. Out of any mode and limit, and above the
 * limit: stock. Else: the order, or, without a row for it (has_row 0), stock, which is counted; strict modes refuse.
 * `op` is the name that messages use.
 * Errors: NULL, PARAM (rows < 0), UNSUPPORTED (strict, and there is no row); *route is then untouched.
 * Threads: any; this thread's mode counts. */
SAMEBITS_API samebits_status samebits_mode_route(const char *op, int64_t rows, int has_row, samebits_route *route);

/* What was not computed in order since the process began or the last reset, in all threads. */
typedef struct samebits_mode_report {
    int64_t above_limit; /* calls with more rows than the limit that went to stock */
    int64_t without_row; /* calls that went to stock because this library has no row for them */
    int64_t refused;     /* the same in a strict mode: refused */
} samebits_mode_report;

/* Reads the counts.
 * Errors: NULL.
 * Threads: any; each count is read atomically. */
SAMEBITS_API samebits_status samebits_mode_counts(samebits_mode_report *report);
SAMEBITS_API void samebits_mode_counts_reset(void);

#ifdef __cplusplus
}
#endif
#endif
