/* Names and versions. */
#include <samebits/samebits.h>

const char *samebits_version(void) { return SAMEBITS_VERSION_STRING; }

const char *samebits_order_name(samebits_order order)
{
    switch (order) {
    case SAMEBITS_ORDER_PORTABLE_1: return "portable-1";
    case SAMEBITS_ORDER_INT8_1: return "int8-1";
    case SAMEBITS_ORDER_AMX_1: return "amx-1";
    }
    return "unknown";
}
