#include "kernels/epilogue/epilogue_simd.h"

void SB_ISA(sb_epilogue)(const sb_epilogue_args *a) { epilogue(a); }
