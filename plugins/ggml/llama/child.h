#ifndef SAMEBITS_LLAMA_CHILD_H
#define SAMEBITS_LLAMA_CHILD_H

#include "json.h"

/*
 * Stock and samebits run in processes of their own: ggml loads its backends once per process and never
 * unloads them, and a crash inside a foreign library must become a message here.
 */

/* Runs in the child. Reports through child_send(); returns 0, or -1 after fail(). */
typedef int (*child_body)(void *argument);

/* Runs in the parent, once for every object that the child sent. */
typedef void (*child_listener)(const cJSON *message, void *user);

/* Waits for the child to end. -1 after fail() if the body failed or the child died; `name` is for messages. */
int child_run(const char *name, child_body body, void *argument, child_listener listener, void *user);

/* In the child: sends one object to the parent and deletes it. */
void child_send(cJSON *message);

#endif
