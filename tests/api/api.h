/* The groups of API tests, and what they share. */
#ifndef API_H
#define API_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <samebits/samebits.h>

#include "op_case.h"
#include "support/memory.h"
#include "support/tensor.h"

/* One context for each group, made and destroyed by cmocka's group fixtures. */
extern samebits_context *api_context;
int api_setup(void **state);
int api_teardown(void **state);

#define API_TEST(function) cmocka_unit_test_teardown(function, test_free_all)
#define API_RUN(tests)     cmocka_run_group_tests(tests, api_setup, api_teardown)

/* The status a call must give, and a word its message must hold. */
#define assert_fails(call, status, word)                                                                               \
    do {                                                                                                               \
        const samebits_status have_ = (call);                                                                          \
        if (have_ != (status) || !op_names(samebits_last_error(), word))                                               \
            print_error("%s: want %s naming %s, have %s: %s\n", #call, samebits_status_name(status), word,             \
                        samebits_status_name(have_), samebits_last_error());                                           \
        assert_int_equal(have_, status);                                                                               \
        assert_true(op_names(samebits_last_error(), word));                                                            \
    } while (0)

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        const samebits_status have_ = (call);                                                                          \
        if (have_) print_error("%s: %s: %s\n", #call, samebits_status_name(have_), samebits_last_error());             \
        assert_int_equal(have_, SAMEBITS_OK);                                                                          \
    } while (0)

/* Calls of op_case, for products of all dtypes: out is pointer[2], user the epilogue or NULL; api_call_epilogue makes
 * one with c pointer[3] and bias pointer[4]. */
samebits_status api_call_matmul(op_case *c);
samebits_status api_call_linear(op_case *c);
samebits_status api_call_epilogue(op_case *c);

/* Each returns the number of failed tests. */
int api_context_tests(void);
int api_matmul_tests(void);
int api_rows_tests(void);
int api_reduce_tests(void);
int api_elementwise_tests(void);
int api_rope_tests(void);
int api_gather_tests(void);
int api_sampling_tests(void);
int api_embedding_tests(void);
int api_attention_tests(void);
int api_weights_tests(void);
int api_quantized_tests(void);
int api_dequantised_tests(void);
int api_affine_tests(void);
int api_scaled_tests(void);
int api_mode_tests(void);
int api_wide_tests(void);

#endif
