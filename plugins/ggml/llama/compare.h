#ifndef SAMEBITS_LLAMA_COMPARE_H
#define SAMEBITS_LLAMA_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

struct difference {
    long long compared, moved; /* values; a value moved if its bit pattern did */
    double max_change;         /* infinite if a NaN or an infinity came or went */
    bool argmax_moved;         /* the most likely token is another one */
};

/* Adds the difference of two rows to `sum`. */
void compare_rows(const float *base, const float *other, int count, struct difference *sum);

/* FNV-1a, 64 bits, over the bytes: the same on two machines when the logits have the same bits. */
uint64_t hash_row(const float *row, int count);

int row_argmax(const float *row, int count);

/* Two broken runs agree too: a base of NaNs or of one repeated value is an error, -1 after fail(). */
int check_row(const float *row, int count);

#endif
