/* Status codes of every samebits call. */
#ifndef SAMEBITS_STATUS_H
#define SAMEBITS_STATUS_H

#include <samebits/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum samebits_status {
    SAMEBITS_OK = 0,
    SAMEBITS_ERR_NULL,       /* a required pointer is NULL */
    SAMEBITS_ERR_RANK,       /* wrong number of dimensions */
    SAMEBITS_ERR_SHAPE,      /* shapes do not fit each other */
    SAMEBITS_ERR_DTYPE,      /* dtype unknown or not taken by this op */
    SAMEBITS_ERR_DEVICE,     /* tensor is not in CPU memory */
    SAMEBITS_ERR_STRIDE,     /* negative or overflowing stride, or misaligned data */
    SAMEBITS_ERR_OVERLAP,    /* the output overlaps an input or itself */
    SAMEBITS_ERR_OVERFLOW,   /* a product of sizes overflows */
    SAMEBITS_ERR_FORMAT,     /* unknown weight format, or K is no multiple of its block */
    SAMEBITS_ERR_ORDER,      /* unknown order, or one this op does not have */
    SAMEBITS_ERR_PARAM,      /* a parameter is out of range */
    SAMEBITS_ERR_CPU,        /* the forced CPU level is not on this machine */
    SAMEBITS_ERR_MEMORY,     /* the allocator returned NULL */
    SAMEBITS_ERR_UNSUPPORTED /* valid, but this version has no kernel for it */
} samebits_status;

/* The enumerator's name without its prefix ("OK", "ERR_SHAPE", ...); never NULL. Threads: any. */
SAMEBITS_API const char *samebits_status_name(samebits_status status);

/* What was wrong in this thread's last failed call, and what would be right.
 * Ownership: the library's, valid until this thread's next failed call. Never NULL. */
SAMEBITS_API const char *samebits_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
