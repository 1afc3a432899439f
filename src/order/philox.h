/* Philox4x32-10, a counter-based generator: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel Random Numbers: As Easy
 * as 1, 2, 3", SC 2011. The same words for the same key and counter, whoever asks and when. */
#ifndef SB_PHILOX_H
#define SB_PHILOX_H

#include "base/base.h"

SB_INLINE void sb_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)a};
        for (int i = 0; i < 4; i++) c[i] = next[i];
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    for (int i = 0; i < 4; i++) out[i] = c[i];
}

#endif
