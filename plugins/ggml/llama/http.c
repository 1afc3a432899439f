#include "http.h"

#include "clock.h"
#include "error.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

int http_open(struct http *http)
{
    http->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_multi_init() : NULL;
    return http->multi ? 0 : fail("libcurl cannot start");
}

void http_close(struct http *http)
{
    curl_multi_cleanup(http->multi);
    curl_global_cleanup();
}

static size_t on_data(char *data, size_t size, size_t count, void *user)
{
    struct http_call *call = user;
    char *grown = realloc(call->response, call->length + size * count + 1);
    if (!grown) return 0;
    call->response = grown;
    memcpy(grown + call->length, data, size * count);
    call->length += size * count;
    grown[call->length] = 0;
    return size * count;
}

int http_start(struct http *http, struct http_call *call, const char *url, const cJSON *body)
{
    *call = (struct http_call){.easy = curl_easy_init()};
    if (!call->easy) return fail("libcurl has no memory for a request");
    curl_easy_setopt(call->easy, CURLOPT_URL, url);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_CONNECTTIMEOUT, 5L);
    curl_easy_setopt(call->easy, CURLOPT_TIMEOUT, 600L);
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    if (body) {
        call->request = cJSON_PrintUnformatted(body);
        call->headers = curl_slist_append(NULL, "Content-Type: application/json");
        curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->request);
        curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    }
    curl_multi_add_handle(http->multi, call->easy);
    return 0;
}

static void note_finished(struct http *http)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(http->multi, &left))) {
        struct http_call *call = NULL;
        if (message->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        call->done = true;
        call->result = message->data.result;
    }
}

int http_run(struct http *http, struct http_call *call, double seconds)
{
    const double end = seconds_now() + seconds;
    while (!(call && call->done) && seconds_now() < end) {
        int running;
        const CURLMcode code = curl_multi_perform(http->multi, &running);
        if (code != CURLM_OK) return fail("libcurl: %s", curl_multi_strerror(code));
        note_finished(http);
        if (!(call && call->done)) curl_multi_poll(http->multi, NULL, 0, 20, NULL);
    }
    return 0;
}

static cJSON *parse_answer(struct http_call *call)
{
    long status = 0;
    if (!call->done) {
        fail("the server did not answer in time");
        return NULL;
    }
    if (call->result != CURLE_OK) {
        fail("no answer from the server: %s; start llama-server and pass its address, as http://127.0.0.1:8080",
             curl_easy_strerror(call->result));
        return NULL;
    }
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    cJSON *answer = call->response ? cJSON_Parse(call->response) : NULL;
    if (status == 200 && answer) return answer;
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(answer, "error");
    fail("the server answered with HTTP status %ld: %s", status,
         json_string(error, "message", "no JSON; is this the address of a llama-server?"));
    cJSON_Delete(answer);
    return NULL;
}

cJSON *http_finish(struct http *http, struct http_call *call)
{
    cJSON *answer = parse_answer(call);
    curl_multi_remove_handle(http->multi, call->easy);
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    free(call->request);
    free(call->response);
    *call = (struct http_call){0};
    return answer;
}
