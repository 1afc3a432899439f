/* Hashes over fixed inputs. */
#ifndef FINGERPRINT_H
#define FINGERPRINT_H

#include "tensor.h"

#define FINGERPRINT_START 0xCBF29CE484222325u

/* The committed tests/golden/fingerprint.txt, compiled in. */
extern const char fingerprint_golden[];

/* How many fingerprints at a level differ from the golden ones, with a line on stderr for each; *count gets how many
 * there are. */
int fingerprint_moved(samebits_cpu cpu, int *count);

/* Adds the bits of all elements, in row-major order. */
void fingerprint_add(uint64_t *hash, const tensor *t);

#endif
