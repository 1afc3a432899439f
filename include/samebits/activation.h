/* Activation functions: of matrix products' epilogues (samebits/matmul.h) and alone (samebits/elementwise.h). */
#ifndef SAMEBITS_ACTIVATION_H
#define SAMEBITS_ACTIVATION_H

#ifdef __cplusplus
extern "C" {
#endif

/* Their steps are in spec/order.md, sections functions and activations. */
typedef enum samebits_activation {
    SAMEBITS_ACTIVATION_NONE = 0,
    SAMEBITS_ACTIVATION_RELU,
    SAMEBITS_ACTIVATION_SILU,
    SAMEBITS_ACTIVATION_GELU,       /* with erf */
    SAMEBITS_ACTIVATION_GELU_TANH,  /* the tanh approximation */
    SAMEBITS_ACTIVATION_GELU_QUICK, /* x * sigmoid(1.702 x) */
    SAMEBITS_ACTIVATION_SIGMOID,
    SAMEBITS_ACTIVATION_TANH,
    SAMEBITS_ACTIVATION_EXP,
    SAMEBITS_ACTIVATION_COUNT
} samebits_activation;

#ifdef __cplusplus
}
#endif
#endif
