#include "kernels/attention/score_simd.h"
#include "kernels/attention/values_simd.h"

void SB_ISA(sb_attention_dots)(const sb_attention_part *part) { part_dots(part); }
void SB_ISA(sb_attention_score)(sb_attention_line *line) { any_line(line); }
void SB_ISA(sb_attention_values)(const sb_attention_part *part) { part_values(part); }
void SB_ISA(sb_attention_finish)(const sb_attention_sums *sums) { finish(sums); }
