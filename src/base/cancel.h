/* A thread that is cancelled (pthread_cancel) between the two goes on, and ends afterwards. */
#ifndef SB_CANCEL_H
#define SB_CANCEL_H

#include <pthread.h>

static inline int sb_cancel_wait(void)
{
    int caller = 0;
#ifdef PTHREAD_CANCEL_DISABLE /* Android's threads cannot be cancelled */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &caller);
#endif
    return caller;
}

static inline void sb_cancel_resume(int caller)
{
    (void)caller;
#ifdef PTHREAD_CANCEL_DISABLE
    pthread_setcancelstate(caller, NULL);
#endif
}

#endif
