#include "base/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/tiles.h"

enum { CHILD_STACK = 1 << 16, REQUEST_STATE = 0x1023 /* arch_prctl's ARCH_REQ_XCOMP_PERM */, TILE_DATA = 18 };

static void trapped(int number)
{
    (void)number;
    syscall(SYS_exit_group, 1);
}

static int child(void *arg)
{
    const struct sigaction leave = {.sa_handler = trapped};
    sigset_t traps;
    sigemptyset(&traps);
    sigaddset(&traps, SIGILL);
    if (sigaction(SIGILL, &leave, NULL) || sigprocmask(SIG_UNBLOCK, &traps, NULL)) return 1;
    return !(*(int (**)(void))arg)();
}

/* In a child with this process's memory and its own signal handlers, so that nothing of the host's is touched: no page
 * is copied, no handler of fork runs, the host's own handlers stay, and, as the child ends without a signal to its
 * parent, the host's waiting never meets it. The parent stands still meanwhile. */
int sb_survives(int (*try)(void))
{
    static char stack[CHILD_STACK] __attribute__((aligned(64)));
    const int pid = clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK, (void *)&try);
    int status = -1;
    if (pid < 0) return 0;
    const int caller = sb_cancel_wait();
    while (waitpid(pid, &status, __WCLONE) < 0 && errno == EINTR) continue;
    sb_cancel_resume(caller);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* CPUID leaf 7, EDX: AMX-BF16, AMX-TILE, AMX-INT8; XCR0: tile configuration and tile data. */
static int is_reported(void)
{
    const unsigned wanted = 1u << 22 | 1u << 24 | 1u << 25, state = 3u << 17;
    unsigned a, b, c, d = 0, low, high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & state) == state;
}

/* One column of 4 bytes, and one of 2 bf16. */
static int multiply(void)
{
    static const int8_t a[4] = {1, -2, 3, -128}, b[4] = {5, 6, -7, 127};
    static const uint16_t x[2] = {0x3FC0, 0xC000}, w[2] = {0x4000, 0x3F00}; /* 1.5, -2 and 2, 0.5 */
    sb_tile_config config = {0};
    int32_t sum = 0;
    float product = 0.0f;
    for (int t = 0; t < 3; t++) sb_tile_shape(&config, t, 1, 4);
    SB_TILE_CONFIGURE(&config);
    SB_TILE_ZERO(0);
    SB_TILE_LOAD(1, a, 4);
    SB_TILE_LOAD(2, b, 4);
    SB_TILE_DOT_SIGNED(0, 1, 2);
    SB_TILE_STORE(0, &sum, 4);
    SB_TILE_ZERO(0);
    SB_TILE_LOAD(1, x, 4);
    SB_TILE_LOAD(2, w, 4);
    SB_TILE_DOT_BF16(0, 1, 2);
    SB_TILE_STORE(0, &product, 4);
    SB_TILE_RELEASE();
    return sum == 5 - 12 - 21 - 128 * 127 && product == 2.0f;
}

static int works;
static void probe(void)
{
    works = is_reported() && syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0 && sb_survives(multiply);
}

int sb_amx_works(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe);
    return works;
}
#else
int sb_survives(int (*try)(void)) { return try(); }
int sb_amx_works(void) { return 0; }
#endif
