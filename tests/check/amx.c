/* The probe of AMX: a trap ends nothing but its child, and the host sees nothing of it. */
#include "base/amx.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "check/check.h"

static volatile sig_atomic_t seen;
static void on_signal(int number) { seen = number; }

static int holds(void) { return 1; }
static int fails(void) { return 0; }

#if defined(__x86_64__) && defined(__linux__)
static int traps(void)
{
    __asm__ volatile("ud2");
    return 1;
}

static int release(void)
{
    __asm__ volatile("tilerelease" ::: "memory");
    return 1;
}
#else
#define traps   fails
#define release holds
#endif

void check_amx(void)
{
    const struct sigaction host = {.sa_handler = on_signal};
    struct sigaction before[2], after[2];
    const int numbers[] = {SIGILL, SIGCHLD};
    sigset_t blocked, mask;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGILL); /* an unhandled trap would then end the child with a core dump */
    sigprocmask(SIG_BLOCK, &blocked, &mask);
    for (int i = 0; i < 2; i++) sigaction(numbers[i], &host, &before[i]);
    check_true("a child that holds", sb_survives(holds) == 1);
    check_true("a child that fails", sb_survives(fails) == 0);
    check_true("a child that traps", sb_survives(traps) == 0);
    check_true("tiles, where the probe says that they work", sb_survives(release) || !sb_amx_works());
    check_true("no child is left", waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    for (int i = 0; i < 2; i++) {
        sigaction(numbers[i], &before[i], &after[i]);
        check_true("the host's handler stays", after[i].sa_handler == on_signal);
    }
    check_true("and was not called", seen == 0);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}
