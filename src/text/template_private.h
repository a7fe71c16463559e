/* Private to the template_*.c files: the subset of Jinja that chat templates use, parsed to a tree and
 * evaluated. */
#ifndef KN_TEXT_TEMPLATE_PRIVATE_H
#define KN_TEXT_TEMPLATE_PRIVATE_H

#include "text/text_private.h"

/* The size of a text that a template may make. */
enum { KN_TEMPLATE_TEXT_BYTES = 1 << 26 };

/* ---- values (template_value.c); everything lives in the arena of a run --------------------------- */

typedef enum kn_value_sort {
    KN_SORT_UNDEFINED,
    KN_SORT_NONE,
    KN_SORT_BOOL,
    KN_SORT_INTEGER,
    KN_SORT_REAL,
    KN_SORT_TEXT,
    KN_SORT_LIST,
    KN_SORT_MAP, /* also namespaces */
} kn_value_sort;

typedef struct kn_cell kn_cell;
typedef struct kn_cell_list kn_cell_list;
/* A value of the template language. */
struct kn_cell {
    kn_value_sort sort;
    int64_t integer; /* also bool */
    double real;
    const char *text; /* terminated */
    size_t length;
    kn_cell_list *list; /* of a list its items; of a map its keys and values in turn */
};
struct kn_cell_list {
    kn_cell *items;
    size_t count, capacity;
};

kn_cell kn_cell_bool(bool truth);
kn_cell kn_cell_integer(int64_t number);
kn_cell kn_cell_text(kn_arena *arena, const char *text, size_t length); /* undefined: out of memory */
bool kn_cell_truth(const kn_cell *cell);
/* Namespaces are maps that `set` may change, and which may contain themselves. */
bool kn_cell_is_namespace(const kn_cell *cell);
/* Sets *equal. A namespace is equal only to itself. False: nested too deeply or too large. */
bool kn_cell_equal(const kn_cell *one, const kn_cell *other, bool *equal);
/* Appends to a list; false: out of memory. */
bool kn_cell_push(kn_arena *arena, kn_cell_list *list, kn_cell item);
/* The value of a key in a map, or NULL. */
kn_cell *kn_cell_member(const kn_cell *map, const char *key, size_t length);
bool kn_cell_put(kn_arena *arena, kn_cell *map, kn_cell key, kn_cell value);
bool kn_cell_from_json(kn_arena *arena, const kn_json *json, kn_cell *cell);
/* Appends as Python prints it; false for lists and maps. */
bool kn_cell_print(const kn_cell *cell, kn_text *to);
/* Appends as JSON, as json.dumps does it without escaping other scripts. indent below 0: on one line. False:
 * a namespace, nested too deeply, or too large. */
bool kn_cell_json(const kn_cell *cell, int64_t indent, int depth, kn_text *to);
/* "a string", for messages. */
const char *kn_cell_sort_name(const kn_cell *cell);

/* Reports a mistake at a byte of the template. */
kn_status kn_template_fail(const char *name, const char *text, size_t at, kn_status status, kn_error *error,
                           const char *format, ...) KN_PRINTF(6, 7);

/* ---- the tree (template_parse.c) ----------------------------------------------------------------- */

typedef enum kn_branch_kind {
    /* statements */
    KN_BRANCH_TEXT,  /* text */
    KN_BRANCH_PRINT, /* first */
    KN_BRANCH_SET,   /* text (and member text2) = first */
    KN_BRANCH_IF,    /* first: condition, body, other */
    KN_BRANCH_FOR,   /* text, text2: names; first: of what; second: condition; body, other */
    KN_BRANCH_BREAK,
    KN_BRANCH_CONTINUE,
    /* expressions */
    KN_BRANCH_VALUE,  /* value */
    KN_BRANCH_NAME,   /* text */
    KN_BRANCH_LIST,   /* body: items */
    KN_BRANCH_MAP,    /* body: keys and values in turn */
    KN_BRANCH_MEMBER, /* first . text */
    KN_BRANCH_INDEX,  /* first [second] */
    KN_BRANCH_SLICE,  /* first [second : third : fourth], each may be NULL */
    KN_BRANCH_CALL,   /* text (arguments), or a method of first */
    KN_BRANCH_FILTER, /* first | text (arguments) */
    KN_BRANCH_TEST,   /* first is text (arguments) */
    KN_BRANCH_NOT,
    KN_BRANCH_MINUS,
    KN_BRANCH_BINARY, /* first text second */
    KN_BRANCH_CHOICE, /* first if second else third */
} kn_branch_kind;

typedef struct kn_branch kn_branch;
struct kn_branch {
    kn_branch_kind kind;
    const char *text, *text2; /* in the arena, terminated */
    size_t length;            /* of text */
    kn_cell value;
    kn_branch *first, *second, *third, *fourth;
    kn_branch *body, *other; /* the first of a list; arguments in body */
    kn_branch *next;
    const char *keyword; /* of an argument */
    size_t at;           /* byte in the template */
};

/* Parses a template; the tree lives in the arena. Messages have the form "name:line:column: …". */
kn_status kn_template_parse(kn_arena *arena, const char *name, const char *text, size_t length,
                            kn_branch **tree, kn_error *error);
/* ---- evaluation (template_run.c, template_calls.c) ----------------------------------------------- */

typedef struct kn_binding {
    const char *name;
    kn_cell value;
    struct kn_binding *before;
} kn_binding;

typedef struct kn_template_run {
    kn_arena *arena;
    const char *name, *text; /* of the template, for messages */
    kn_binding *bindings;
    kn_text *out;
    uint64_t steps;
    int depth; /* of the expression */
    kn_error *error;
} kn_template_run;

/* An argument's value, with the keyword, if any. */
typedef struct kn_argument {
    const char *keyword;
    kn_cell value;
} kn_argument;
enum { KN_ARGUMENTS = 8 };

/* Fills in *result; names are checked while parsing. */
kn_status kn_template_filter(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                             const kn_argument *arguments, size_t count, kn_cell *result);
kn_status kn_template_test(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                           const kn_argument *arguments, size_t count, bool *result);
/* A function, or (of not NULL) a method. */
kn_status kn_template_call(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                           const kn_argument *arguments, size_t count, kn_cell *result);
bool kn_template_has_filter(const char *name);
bool kn_template_has_test(const char *name);
bool kn_template_has_function(const char *name);
bool kn_template_has_method(const char *name);
/* Appends the text of a template for variables, a map. */
kn_status kn_template_write(kn_arena *arena, const char *name, const char *text, size_t length,
                            const kn_cell *variables, kn_text *out, kn_error *error);

#endif
