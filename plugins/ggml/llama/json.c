#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double json_number(const cJSON *object, const char *name, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

bool json_bool(const cJSON *object, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, name));
}

const char *json_string(const cJSON *object, const char *name, const char *otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : otherwise;
}

void json_add_change(cJSON *object, const char *name, double change)
{
    if (isfinite(change))
        cJSON_AddNumberToObject(object, name, change);
    else
        cJSON_AddNullToObject(object, name);
}

cJSON *json_document(const char *kind)
{
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "schema", "samebits-llama");
    cJSON_AddNumberToObject(document, "schema_version", SCHEMA_VERSION);
    cJSON_AddStringToObject(document, "kind", kind);
    return document;
}

void json_print(cJSON *document)
{
    char *text = cJSON_Print(document);
    if (text) puts(text);
    free(text);
    cJSON_Delete(document);
}
