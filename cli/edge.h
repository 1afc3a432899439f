/* Memory beside pages that may not be touched, for the random calls of verify --fuzz: a read or a write outside of it
 * ends the process. */
#ifndef EDGE_H
#define EDGE_H

#include <stddef.h>

/* What is made from now on ends and begins at such pages in turn (on), or anywhere (off, as at first). */
void edge_set(int on);
int edge_is_on(void);
/* All bits set. `alignment` is a power of two; the end of a size that is no multiple of it lies up to alignment - 1
 * bytes before the page. Ends the program if there is no memory. */
void *edge_alloc(size_t size, size_t alignment);
/* Of either kind; NULL does nothing. */
void edge_free(void *block);

#endif
