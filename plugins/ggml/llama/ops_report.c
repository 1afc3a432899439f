#include "json.h"
#include "ops.h"

#include <stdio.h>

static void format_movement(char *text, size_t size, const struct ops_cell *cell)
{
    if (cell->nodes == 0)
        snprintf(text, size, "-");
    else if (cell->measured == 0)
        snprintf(text, size, "not measured");
    else if (cell->moved == 0)
        snprintf(text, size, "no");
    else
        snprintf(text, size, "%d of %d, max %.2g", cell->moved, cell->measured, cell->max_change);
}

void ops_print_table(const struct ops_table *table)
{
    printf("%s: one token alone, and as the first of %d, after %d others; each op given the same input bits.\n\n",
           table->description, OPS_BATCH, OPS_PREFIX);
    printf("%-18s %-6s", "op", "type");
    for (int which = STOCK; which < ENGINES; which++)
        if (table->ran[which]) printf("  %-5s %-14s %-22s", "nodes", engine_names[which], "moved");
    putchar('\n');
    for (int i = 0; i < table->count; i++) {
        const struct ops_row *row = &table->rows[i];
        printf("%-18s %-6s", row->op, row->type);
        for (int which = STOCK; which < ENGINES; which++) {
            char movement[48];
            if (!table->ran[which]) continue;
            format_movement(movement, sizeof movement, &row->cells[which]);
            printf("  %-5d %-14s %-22s", row->cells[which].nodes, row->cells[which].backends, movement);
        }
        putchar('\n');
    }
}

static cJSON *cell_json(const struct ops_cell *cell)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "nodes", cell->nodes);
    cJSON_AddStringToObject(object, "backends", cell->backends);
    cJSON_AddNumberToObject(object, "measured", cell->measured);
    cJSON_AddNumberToObject(object, "moved", cell->moved);
    json_add_change(object, "max_change", cell->max_change);
    return object;
}

void ops_print_json(const struct ops_table *table)
{
    cJSON *document = json_document("ops");
    cJSON_AddStringToObject(document, "model", table->description);
    cJSON *list = cJSON_AddArrayToObject(document, "ops");
    for (int i = 0; i < table->count; i++) {
        const struct ops_row *row = &table->rows[i];
        cJSON *object = cJSON_CreateObject();
        cJSON_AddStringToObject(object, "op", row->op);
        cJSON_AddStringToObject(object, "type", row->type);
        for (int which = STOCK; which < ENGINES; which++)
            if (table->ran[which]) cJSON_AddItemToObject(object, engine_names[which], cell_json(&row->cells[which]));
        cJSON_AddItemToArray(list, object);
    }
    json_print(document);
}
