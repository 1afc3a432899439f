#ifndef SAMEBITS_LLAMA_JSON_H
#define SAMEBITS_LLAMA_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#define SCHEMA_VERSION 1

/* Reading with a default, so that a missing member is not a crash. */
double json_number(const cJSON *object, const char *name, double otherwise);
bool json_bool(const cJSON *object, const char *name);
const char *json_string(const cJSON *object, const char *name, const char *otherwise);

/* JSON has no infinity: a change that is not finite is written as null. */
void json_add_change(cJSON *object, const char *name, double change);

/* The document of one kind of run: {"schema":"samebits-llama","schema_version":1,"kind":kind}. */
cJSON *json_document(const char *kind);

/* Prints to stdout and deletes the document. */
void json_print(cJSON *document);

#endif
