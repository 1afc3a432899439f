/* samebits bench: what is timed, beside whom, and how. */
#ifndef BENCH_H
#define BENCH_H

#include "ggml.h"
#include "onednn.h"
#include "stock.h"
#include "tensor.h"

enum { BENCH_PEERS = 12 };

/* Somebody who does the work of a line. */
typedef struct contestant {
    const char *name;
    void (*run)(void *arg);
    void *arg;
    double seconds; /* median */
} contestant;

/* One line of the table: the same work for all. The first contestant is ours. */
typedef struct bench_line {
    char *op, *form, *shape;
    const char *order;
    double flops, bytes; /* of the work, and of the weights or keys that it reads */
    double bandwidth;    /* measured in the same rounds: GB/s of plain reads of as many bytes */
    double one_row;      /* seconds of the same line with one row; 0: there is none */
    contestant all[BENCH_PEERS];
    int count;
} bench_line;

typedef struct bench {
    int quick, sweep, threads, json;
    const char *only, *form; /* an op's and a form's name, or NULL: all */
    stock *stocks;
    int stock_count;
    onednn **onednn;    /* of each stock library, or NULL */
    ggml_library *ggml; /* or NULL */
    double peak;        /* GFLOP/s of fma on as many threads */
    bench_line *lines;
    int count, room;
} bench;

/* Times all contestants in turn, round after round, and stores medians. */
void bench_time(const bench *b, bench_line *line);
/* Plain reads of a buffer: its size and how often a turn reads it follow from `bytes`. A turn gives GB/s. */
typedef struct reader reader;
reader *machine_reader(double bytes, int threads);
double machine_read(reader *r);
void machine_reader_free(reader *r);
/* Copies of `bytes` bytes by threads of its own, a contestant: what an op that writes as much as it reads could take.
 */
typedef struct copier copier;
copier *machine_copier(double bytes, int threads);
void machine_copy(void *arg);
void machine_copier_free(copier *c);
/* GFLOP/s of f32 fma on `threads` threads. */
double machine_peak(int threads);

/* Runs the lines of every op, or of b->only. */
void bench_products(bench *b);
void bench_quantized(bench *b);
void bench_attention(bench *b);
void bench_rows(bench *b);
void bench_modes(bench *b);
/* Whether lines of this form are wanted. */
int bench_wants(const bench *b, const char *form);
/* Adds a line; the caller fills in the rest and calls bench_time. */
bench_line *bench_add(bench *b, const char *op, const char *form, samebits_order order, char *shape);
void bench_join(bench_line *line, const char *name, void (*run)(void *), void *arg);

/* Writes our speed and the peers' as an SVG. */
void bench_plot(const bench *b, const char *path);

#endif
