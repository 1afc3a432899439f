/* What programs that are linked with the library rely on.
 *
 * A defaults function writes a whole struct into the caller's memory, and a call reads all of it: a library whose
 * struct were larger than the program's would write past it before any check of struct_size. So a struct that callers
 * make has one size for as long as the SONAME is the same. To change one: the next SAMEBITS_SOVERSION in
 * src/CMakeLists.txt, and both here. */
#include <samebits/samebits.h>

_Static_assert(SB_SOVERSION == 0, "these are the sizes of SONAME 0");

#define FIXED(type, size) _Static_assert(sizeof(type) == (size), #type " has another size: that is another SONAME")

FIXED(samebits_options, 88);
FIXED(samebits_mode_params, 24);
FIXED(samebits_mode_report, 24);
FIXED(samebits_epilogue, 48);
FIXED(samebits_attention_params, 80);
FIXED(samebits_softmax_params, 40);
FIXED(samebits_rope_params, 128);
FIXED(samebits_sampling_params, 32);
FIXED(samebits_affine, 12);
