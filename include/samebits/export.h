/* Symbol visibility. */
#ifndef SAMEBITS_EXPORT_H
#define SAMEBITS_EXPORT_H

#if defined(__GNUC__)
#define SAMEBITS_API __attribute__((visibility("default")))
#else
#define SAMEBITS_API
#endif

#endif
