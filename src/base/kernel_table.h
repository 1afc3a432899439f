/* Tables of kernels that are chosen by the CPU alone: <op>.inc lists a row an instruction set, the reference first.
 * Rows of one order give the same bits. */
#ifndef SB_KERNEL_TABLE_H
#define SB_KERNEL_TABLE_H

#include "base/cpu.h"

/* Declares sb_<op>_row, a row of one kernel of type sb_<op>_fn. */
#define SB_KERNEL_ROW(op)                                                                                              \
    typedef struct sb_##op##_row {                                                                                     \
        const char *name;                                                                                              \
        sb_##op##_fn *fn;                                                                                              \
        samebits_order order;                                                                                          \
        unsigned cpu; /* SB_CPU_* flags it needs */                                                                    \
    } sb_##op##_row

/* Declares sb_<op>_rows: all rows, *count gets their number; and sb_<op>_select: the best row on a CPU with these
 * flags. */
#define SB_KERNEL_TABLE(op)                                                                                            \
    const sb_##op##_row *sb_##op##_rows(int *count);                                                                   \
    const sb_##op##_row *sb_##op##_select(unsigned cpu)

/* Defines the two, over the rows in `table`. */
#define SB_KERNEL_SELECT(op)                                                                                           \
    const sb_##op##_row *sb_##op##_rows(int *count)                                                                    \
    {                                                                                                                  \
        *count = (int)(sizeof table / sizeof *table);                                                                  \
        return table;                                                                                                  \
    }                                                                                                                  \
    const sb_##op##_row *sb_##op##_select(unsigned cpu)                                                                \
    {                                                                                                                  \
        const sb_##op##_row *best = table;                                                                             \
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)                                                      \
            if ((table[i].cpu & ~cpu) == 0) best = &table[i];                                                          \
        return best;                                                                                                   \
    }

#endif
