/* How products of few rows walk over panels. */
#ifndef SB_FEW_ROWS_SIMD_H
#define SB_FEW_ROWS_SIMD_H

#include "formats/product.h"

/* Defines few_rows_all, which returns 0 if these are not few rows, from the few_rows, FEW_CASES and FEW_PANELS of a
 * file. few_rows takes `panels` panels from `panel` on, `apart` panels from one to the next: several streams far apart
 * fill the memory bus, one cannot. */
#define FEW_CASE(rows)                                                                                                 \
    case rows:                                                                                                         \
        apart = a->panels / FEW_PANELS(rows);                                                                          \
        for (; p < apart; p++) few_rows(f, rows, FEW_PANELS(rows), apart, a, p);                                       \
        for (p = apart * FEW_PANELS(rows); FEW_PANELS(rows) > 1 && p < a->panels; p++) few_rows(f, rows, 1, 0, a, p);  \
        return 1;
#define DEFINE_FEW_ROWS_ALL                                                                                            \
    SB_INLINE int few_rows_all(samebits_format f, const sb_matmul_args *a)                                             \
    {                                                                                                                  \
        int64_t p = 0, apart;                                                                                          \
        switch (a->rows) {                                                                                             \
            FEW_CASES(FEW_CASE)                                                                                        \
        }                                                                                                              \
        return 0;                                                                                                      \
    }

#endif
