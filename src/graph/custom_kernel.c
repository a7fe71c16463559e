/* Custom operators with a kernel: parsing and checking of parameters. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/custom_private.h"

static const kn_variant variants[] = {{.name = "custom", .lower = kn_custom_lower}};

int kn_custom_word(const struct kn_custom *custom, const char *name) {
    for (int i = 0; i < custom->word_count; i++)
        if (strcmp(custom->words[i], name) == 0) return i;
    return -1;
}

/* ---- splitting text ---------------------------------------------------------------------------------- */

/* Returns the piece before the next `separator` outside parentheses, without surrounding blanks, in the
 * arena. Moves *text past the separator, or sets it to NULL after the last piece. NULL if out of memory. */
static const char *next_piece(kn_arena *arena, const char **text, char separator) {
    const char *start = *text + strspn(*text, " \t\r\n"), *end = start;
    for (int depth = 0; *end && (*end != separator || depth > 0); end++)
        depth += *end == '(' ? 1 : *end == ')' ? -1 : 0;
    *text = *end ? end + 1 : NULL;
    size_t length = (size_t)(end - start);
    while (length > 0 && strchr(" \t\r\n", start[length - 1]))
        length--;
    char *piece = kn_arena_take(arena, length + 1, 1);
    if (piece) memcpy(piece, start, length);
    return piece;
}

/* Skips a leading element type; false if there is none. */
static bool take_type(const char **text, kn_dtype *dtype) {
    char word[16];
    size_t length = strcspn(*text, " ");
    if (length == 0 || length >= sizeof word) return false;
    memcpy(word, *text, length);
    word[length] = '\0';
    if (!kn_dtype_parse(word, dtype)) return false;
    *text += length + strspn(*text + length, " ");
    return true;
}

static bool ends_in_dots(const char *text) {
    size_t length = strlen(text);
    return length > 3 && strcmp(text + length - 3, "...") == 0;
}

/* ---- sizes ------------------------------------------------------------------------------------------ */

/* Accepts sums, differences, products and quotients of integers and known names. */
static bool check_term(struct kn_custom *custom, const char *what, const kn_expression *size,
                       const kn_term *term) {
    switch (term->kind) {
    case KN_TERM_NUMBER:
        if (term->number == floor(term->number) && term->number <= (double)INT32_MAX) return true;
        kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%.200s': sizes must be integers", what, size->text);
        return false;
    case KN_TERM_NAME: {
        const char *name = size->names[term->name];
        int attribute = kn_custom_attribute(custom, name);
        if (kn_custom_word(custom, name) >= 0 ||
            (attribute >= 0 && custom->attributes[attribute].kind == KN_ATTRIBUTE_INT))
            return true;
        kn_custom_fail(
            custom, KN_ERROR_NOT_FOUND,
            "%s: '%.200s': '%s' is neither a word of the inputs' patterns nor an integer attribute", what,
            size->text, name);
        return false;
    }
    case KN_TERM_NEGATE:
    case KN_TERM_ADD:
    case KN_TERM_SUBTRACT:
    case KN_TERM_MULTIPLY:
    case KN_TERM_DIVIDE:
        break;
    default:
        kn_custom_fail(custom, KN_ERROR_FORMAT,
                       "%s: '%.200s': sizes may contain only numbers, words, + - * / and parentheses", what,
                       size->text);
        return false;
    }
    for (int i = 0; i < 3 && term->parts[i]; i++)
        if (!check_term(custom, what, size, term->parts[i])) return false;
    return true;
}

static const kn_expression *read_size(struct kn_custom *custom, const char *what, const char *text) {
    kn_error error = {0};
    kn_expression *size = NULL;
    if (kn_expression_parse(&custom->arena, text, &size, &error) != KN_OK)
        kn_custom_fail(custom, error.status, "%s: %s", what, error.text);
    return size;
}

/* Looks up or adds a word of an input's pattern. -1 on failure. */
static int add_word(struct kn_custom *custom, const char *what, const char *name, bool many) {
    int word = kn_custom_word(custom, name);
    if (word >= 0 && custom->many[word] == many) return word;
    if (word >= 0)
        kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%s' is used for one dimension and for several", what,
                       name);
    else if (kn_custom_attribute(custom, name) >= 0)
        kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%s' is an attribute; rename the size", what, name);
    else if (custom->word_count == KN_CUSTOM_WORDS)
        kn_custom_fail(custom, KN_ERROR_UNSUPPORTED, "%s: more than %d words", what, KN_CUSTOM_WORDS);
    else {
        custom->words[custom->word_count] = name;
        custom->many[custom->word_count] = many;
        return custom->word_count++;
    }
    return -1;
}

/* ---- patterns ------------------------------------------------------------------------------------------ */

static void read_item(struct kn_custom *custom, const char *what, const char *text, bool input,
                      kn_custom_item *item) {
    *item = (kn_custom_item){.many = -1};
    bool many = ends_in_dots(text);
    if (many) {
        char *word = kn_arena_text(&custom->arena, text);
        if (word) word[strlen(word) - 3] = '\0';
        text = word ? word : "";
    }
    item->size = read_size(custom, what, text);
    if (!item->size) return;
    const kn_term *root = item->size->root;
    const char *name = root->kind == KN_TERM_NAME ? item->size->names[root->name] : NULL;
    if (many && !name)
        kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%.200s...': expected a word before the dots", what,
                       text);
    else if (input && !name && root->kind != KN_TERM_NUMBER)
        kn_custom_fail(custom, KN_ERROR_FORMAT,
                       "%s: '%.200s': a dimension of an input must be a word or a number", what, text);
    else if (input && name) {
        int word = add_word(custom, what, name, many);
        if (many) item->many = word;
    } else if (many) {
        item->many = kn_custom_word(custom, name);
        if (item->many < 0 || !custom->many[item->many])
            kn_custom_fail(custom, KN_ERROR_NOT_FOUND, "%s: '%s...' is in no input's pattern", what, name);
    } else
        check_term(custom, what, item->size, root);
}

static void read_pattern(struct kn_custom *custom, const char *what, const char *text, bool input,
                         kn_custom_pattern *pattern) {
    int several = 0;
    pattern->text = text;
    pattern->typed = take_type(&text, &pattern->dtype);
    for (const char *rest = *text ? text : NULL; rest && custom->error.status == KN_OK;) {
        const char *piece = next_piece(&custom->arena, &rest, ',');
        if (!piece)
            kn_custom_fail(custom, KN_ERROR_MEMORY, "out of host memory");
        else if (pattern->count == KN_MAX_RANK)
            kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%.200s' has more than %d dimensions", what, text,
                           KN_MAX_RANK);
        else {
            kn_custom_item *item = &pattern->items[pattern->count++];
            read_item(custom, what, piece, input, item);
            several += item->many >= 0;
        }
    }
    if (several > 1) kn_custom_fail(custom, KN_ERROR_FORMAT, "%s: '%.200s' has dots twice", what, text);
}

/* Returns the number of patterns. */
static int read_patterns(struct kn_custom *custom, const char *text, bool input, int most,
                         kn_custom_pattern *patterns) {
    int count = 0;
    const char *rest = text;
    if (!text)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT, "no %s; give a pattern for their shapes",
                       input ? "inputs" : "results");
    while (rest && custom->error.status == KN_OK) {
        char what[32];
        const char *piece = next_piece(&custom->arena, &rest, ';');
        snprintf(what, sizeof what, "%s %d", input ? "input" : "result", count + 1);
        if (!piece)
            kn_custom_fail(custom, KN_ERROR_MEMORY, "out of host memory");
        else if (count == most)
            kn_custom_fail(custom, KN_ERROR_UNSUPPORTED, "more than %d %s", most,
                           input ? "inputs" : "results");
        else
            read_pattern(custom, what, piece, input, &patterns[count++]);
    }
    return count;
}

static void read_launch(struct kn_custom *custom, const char *text, const char *group) {
    if (!text || !*text)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "no launch size; give the number of work-items, as in \"rows\"");
    while (text && custom->error.status == KN_OK) {
        const char *piece = next_piece(&custom->arena, &text, ',');
        const kn_expression *size = piece ? read_size(custom, "launch", piece) : NULL;
        if (!piece || custom->launch_count == 3)
            kn_custom_fail(custom, piece ? KN_ERROR_ARGUMENT : KN_ERROR_MEMORY, "launch: more than 3 axes");
        else if (size && check_term(custom, "launch", size, size->root))
            custom->launch[custom->launch_count++] = size;
    }
    while (group && custom->error.status == KN_OK) {
        const char *piece = next_piece(&custom->arena, &group, ','), *end = NULL;
        int64_t items = 0;
        if (!piece || custom->group_count == custom->launch_count || !kn_parse_int64(piece, &end, &items) ||
            *end || items < 1 || items > 1 << 20)
            kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                           "group: expected positive numbers, one per launch axis");
        else
            custom->group[custom->group_count++] = (size_t)items;
    }
    if (custom->group_count && custom->group_count != custom->launch_count)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT, "group: expected %d numbers, one per launch axis",
                       custom->launch_count);
}

/* ---- the gradient operator ----------------------------------------------------------------------------- */

static bool is_float_pattern(const kn_custom_pattern *pattern) {
    return !pattern->typed || kn_dtype_is_float(pattern->dtype);
}

static void take_gradient(struct kn_custom *custom, const kn_operator *row) {
    struct kn_custom *other = row->custom;
    int least = 0, inputs = 0, results = row->outputs ? row->outputs : 1, floats = 0;
    kn_operator_arity(row, &least, &inputs);
    for (int i = 0; i < custom->input_count; i++)
        floats += is_float_pattern(&custom->inputs[i]);
    atomic_fetch_add(&other->holders, 1);
    custom->gradient_operator = other;
    if (other->error.status != KN_OK)
        kn_custom_fail(custom, other->error.status, "gradient operator: %s", other->error.text);
    else if (inputs != custom->input_count + 2 * custom->result_count)
        kn_custom_fail(
            custom, KN_ERROR_ARGUMENT,
            "gradient operator '%s' takes %d inputs; expected %d: inputs, results, gradients of results",
            row->name, inputs, custom->input_count + 2 * custom->result_count);
    else if (results != floats)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "gradient operator '%s' has %d results; expected %d, one per floating-point input",
                       row->name, results, floats);
}

/* ---- creation ---------------------------------------------------------------------------------------- */

KN_DEFINE_INIT(kn_kernel_params, KN_KERNEL_DEFAULTS)

kn_operator *kn_operator_create_kernel(const kn_kernel_params *params) {
    kn_kernel_params given = KN_KERNEL_DEFAULTS;
    kn_error error = {0};
    KN_PARAMS_TAKE(kn_kernel_params, &given, params, &error);
    struct kn_custom *custom = kn_custom_make(&given.allocator, given.name, given.attributes);
    if (!custom) {
        if (given.release) given.release(given.user);
        return NULL;
    }
    if (error.status != KN_OK) kn_custom_fail(custom, error.status, "%s", error.text);
    custom->gradient = given.gradient;
    custom->reference = given.reference;
    custom->user = given.user;
    custom->release = given.release;
    kn_operator *row = &custom->row;
    row->class = KN_CLASS_KERNEL;
    row->shape = kn_custom_shape;
    row->variants = variants;
    row->variant_count = (int)KN_COUNT_OF(variants);
    if (given.reference) row->reference = kn_custom_compute;
    if (given.gradient || given.gradient_operator) row->gradient = kn_custom_build_gradient;
    custom->file = kn_arena_format(&custom->arena, "operator %s", row->name);
    custom->source = kn_arena_text(&custom->arena, given.source ? given.source : "");
    custom->kernel = given.kernel ? kn_arena_text(&custom->arena, given.kernel) : row->name;
    if (!custom->file || !custom->source || !custom->kernel)
        kn_custom_fail(custom, KN_ERROR_MEMORY, "out of host memory");
    if (!given.source) kn_custom_fail(custom, KN_ERROR_ARGUMENT, "no source");
    custom->input_count = read_patterns(custom, given.inputs, true, KN_CUSTOM_INPUTS, custom->inputs);
    custom->result_count = read_patterns(custom, given.results, false, KN_CUSTOM_RESULTS, custom->results);
    read_launch(custom, given.launch, given.group);
    row->min_inputs = row->max_inputs = custom->input_count;
    row->outputs = custom->result_count;
    if (given.gradient && given.gradient_operator)
        kn_custom_fail(custom, KN_ERROR_ARGUMENT,
                       "give a gradient operator or a gradient callback, not both");
    if (given.gradient_operator) take_gradient(custom, given.gradient_operator);
    return row;
}
