/* Whether a variable that needs 64 bytes of alignment has it in the frames of AddressSanitizer, where vectors of
 * AVX-512 are stored by instructions that demand it (CMakeLists.txt says when they had not). */
#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>

/* The compiler knows what alignas promises, and would not look. */
static uintptr_t hidden(const void *p)
{
    const void *volatile copy = p;
    return (uintptr_t)copy;
}

static __attribute__((noinline)) unsigned misaligned(float value)
{
    alignas(64) float lanes[16];
    for (int i = 0; i < 16; i++) lanes[i] = value;
    const volatile float *first = lanes;
    return first[0] == value ? (unsigned)(hidden(lanes) % 64) : 64;
}

int main(void)
{
    const unsigned off = misaligned(1.0f);
    if (off) printf("a variable of 64 bytes of alignment lies %u bytes off\n", off);
    return off != 0;
}
