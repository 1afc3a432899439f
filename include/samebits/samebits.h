/* samebits: same row, same bits. Includes the whole public API. */
#ifndef SAMEBITS_SAMEBITS_H
#define SAMEBITS_SAMEBITS_H

#include <samebits/activation.h>
#include <samebits/attention.h>
#include <samebits/context.h>
#include <samebits/elementwise.h>
#include <samebits/embedding.h>
#include <samebits/gather.h>
#include <samebits/matmul.h>
#include <samebits/mode.h>
#include <samebits/norm.h>
#include <samebits/reduce.h>
#include <samebits/rope.h>
#include <samebits/sampling.h>
#include <samebits/softmax.h>
#include <samebits/status.h>
#include <samebits/version.h>
#include <samebits/weights.h>

#endif
