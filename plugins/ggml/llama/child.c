#include "child.h"

#include "error.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *to_parent;

void child_send(cJSON *message)
{
    char *line = cJSON_PrintUnformatted(message);
    if (line) {
        fprintf(to_parent, "%s\n", line);
        fflush(to_parent);
    }
    free(line);
    cJSON_Delete(message);
}

static void child_main(int pipe_end, child_body body, void *argument)
{
    /* A parent that is interrupted or killed leaves no minutes of work behind. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    to_parent = fdopen(pipe_end, "w");
    /* Libraries that print must not end up inside the table or the JSON. */
    if (!to_parent || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) _exit(EXIT_TROUBLE);
    const int status = body(argument);
    if (status) {
        cJSON *message = cJSON_CreateObject();
        cJSON_AddStringToObject(message, "failure", failure());
        child_send(message);
    }
    /* Without exit handlers: those of a half-loaded backend are not ours to run. */
    _exit(status ? EXIT_TROUBLE : 0);
}

static bool listen_to_child(FILE *from_child, child_listener listener, void *user)
{
    char *line = NULL;
    size_t size = 0;
    bool failed = false;
    while (getline(&line, &size, from_child) > 0) {
        cJSON *message = cJSON_Parse(line);
        const char *reason = json_string(message, "failure", NULL);
        if (reason) {
            fail("%s", reason);
            failed = true;
        } else if (message) {
            listener(message, user);
        }
        cJSON_Delete(message);
    }
    free(line);
    return failed;
}

int child_run(const char *name, child_body body, void *argument, child_listener listener, void *user)
{
    int ends[2];
    if (pipe(ends)) return fail("no pipe to the %s process: %s", name, strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return fail("no process for %s: %s; free some memory and try again", name, strerror(errno));
    }
    if (pid == 0) {
        close(ends[0]);
        child_main(ends[1], body, argument);
    }
    close(ends[1]);
    FILE *from_child = fdopen(ends[0], "r");
    const bool failed = from_child && listen_to_child(from_child, listener, user);
    if (from_child) fclose(from_child);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (failed) return fail("%s: %s", name, failure());
    if (WIFSIGNALED(status))
        return fail(
            "the %s process died of signal %d (%s); SIGILL means that the libraries were built for another CPU, "
            "SIGKILL that memory ran out",
            name, WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        return fail("the %s process ended with status %d", name, WEXITSTATUS(status));
    return 0;
}
