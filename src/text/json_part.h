/* Parts of a tokenizer.json (json_part.c): its tables are in json_tokenizer.c and json_model.c. */
#ifndef KN_JSON_PART_H
#define KN_JSON_PART_H

#include "text/text_private.h"

typedef struct kn_part_reader {
    kn_vocabulary *vocabulary;
    kn_arena *arena;
    kn_error *error;
    const char *where; /* "normalizer", for messages */
} kn_part_reader;

/* ---- members of a part: KN_OK, or a failure that names the part and the member ---- */

/* Fails: the member has the wrong type or is missing. */
kn_status kn_part_wrong(kn_part_reader *in, const char *key, const kn_json *found, const char *expected);
/* Whether it is missing or null. */
bool kn_part_is_null(const kn_json *value);
kn_status kn_part_text(kn_part_reader *in, const kn_json *part, const char *key, const char **text,
                       size_t *length);
/* The following leave the result as it is if the member is missing or null. */
kn_status kn_part_text_or(kn_part_reader *in, const kn_json *part, const char *key, const char **text,
                          size_t *length);
kn_status kn_part_bool(kn_part_reader *in, const kn_json *part, const char *key, bool *truth);
kn_status kn_part_count(kn_part_reader *in, const kn_json *part, const char *key, int64_t *number);
/* One of the names, by its position. */
kn_status kn_part_choice(kn_part_reader *in, const kn_json *part, const char *key, const char *const *names,
                         int count, int *choice);
/* The member "pattern": {"String": …} or {"Regex": …}, or only the string. */
kn_status kn_part_pattern(kn_part_reader *in, const kn_json *part, kn_pattern *pattern);

/* ---- components ---- */

typedef kn_status kn_read_part(kn_part_reader *in, const kn_json *part);

typedef struct kn_component {
    const char *type;
    kn_read_part *read;
    bool characters; /* needs Unicode tables */
} kn_component;

/* Reads a component by its type; a type that is not in the table is an error that names it. */
kn_status kn_component_read(kn_part_reader *in, const kn_json *part, const kn_component *table, size_t count);
/* The members of a sequence in turn. */
kn_status kn_components_read(kn_part_reader *in, const kn_json *part, const char *key,
                             const kn_component *table, size_t count);
/* Room for one more part of an array in the arena; NULL with an error if there are too many. */
void *kn_part_room(kn_part_reader *in, void **parts, size_t *count, size_t size);

/* ---- the model (json_model.c) ---- */

/* Reads the member `model` into the vocabulary. */
kn_status kn_model_part_read(kn_part_reader *in, const kn_json *model);

#endif
