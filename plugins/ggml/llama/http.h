#ifndef SAMEBITS_LLAMA_HTTP_H
#define SAMEBITS_LLAMA_HTTP_H

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdbool.h>

/* Several JSON requests at once, from one thread. */
struct http {
    CURLM *multi;
};

struct http_call {
    CURL *easy;
    struct curl_slist *headers;
    char *request, *response;
    size_t length;
    bool done;
    CURLcode result;
};

int http_open(struct http *http);
void http_close(struct http *http);

/* Starts a POST of `body`, or a GET if it is NULL. -1 after fail(). */
int http_start(struct http *http, struct http_call *call, const char *url, const cJSON *body);

/* Moves all started calls on until `call` is done or `seconds` are over (with NULL: only the time counts). */
int http_run(struct http *http, struct http_call *call, double seconds);

/* Ends the call, done or not; the parsed answer of a call that succeeded, else NULL after fail(). */
cJSON *http_finish(struct http *http, struct http_call *call);

#endif
