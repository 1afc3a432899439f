#include "kernels/rope/rope_simd.h"

void SB_ISA(sb_rope_angles)(const sb_rope_angles *a) { angles(a); }
void SB_ISA(sb_rope)(const sb_rope_args *a) { turn(a); }
