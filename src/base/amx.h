/* Whether this machine's AMX can be used. */
#ifndef SB_AMX_H
#define SB_AMX_H

/* Asks once a process: the CPU says that it has AMX, the system lets this process use it, and products on tiles give
 * what they should. On some virtual machines the first two hold and the instructions trap. 0 on other processors.
 * Threads: any. */
int sb_amx_works(void);

/* Whether try(), run where a trap hurts nobody, comes back with 1. Threads: one at a time. */
int sb_survives(int (*try)(void));

#endif
