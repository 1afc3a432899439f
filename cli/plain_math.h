/* exp, tanh, erf, log and the activations of portable-1 in plain C (spec/order.md). */
#ifndef PLAIN_MATH_H
#define PLAIN_MATH_H

#include <samebits/samebits.h>

float plain_exp(float x);
float plain_tanh(float x);
float plain_erf(float x);
float plain_log(float x);
/* RNE(exp(x) * 2^30) for x <= 0. */
int64_t plain_exp_weight(float x);
float plain_activation(samebits_activation activation, float t);

#endif
