/* Version of the library; the versions of the orders are in their ids (samebits_order in context.h). */
#ifndef SAMEBITS_VERSION_H
#define SAMEBITS_VERSION_H

#include <samebits/export.h>

#define SAMEBITS_VERSION_MAJOR  0
#define SAMEBITS_VERSION_MINOR  1
#define SAMEBITS_VERSION_PATCH  0
#define SAMEBITS_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version the library was built as, "MAJOR.MINOR.PATCH". */
SAMEBITS_API const char *samebits_version(void);

#ifdef __cplusplus
}
#endif
#endif
