#ifndef SAMEBITS_LLAMA_CLOCK_H
#define SAMEBITS_LLAMA_CLOCK_H

/* Seconds of a clock that never jumps. */
double seconds_now(void);

#endif
