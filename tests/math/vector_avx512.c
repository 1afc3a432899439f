#include "math/vector_simd.h"
