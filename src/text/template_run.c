/* Evaluation of templates. */
#include "text/template_private.h"

#include <string.h>

enum { ARENA_BYTES = 1 << 28, DEPTH = 500 };
#define STEPS 20000000u

typedef enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static kn_status evaluate(kn_template_run *run, const kn_branch *branch, kn_cell *result);
static kn_status run_body(kn_template_run *run, const kn_branch *body, flow *way);

#define WRONG(run, branch, status, ...)                                                                      \
    kn_template_fail((run)->name, (run)->text, (branch)->at, status, (run)->error, __VA_ARGS__)

static kn_status no_memory(kn_template_run *run) {
    return kn_fail_memory(run->error, 0);
}

static kn_status too_large(kn_template_run *run, const kn_branch *branch) {
    return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "a value is nested too deeply or too large to compare");
}

static kn_status count_step(kn_template_run *run, const kn_branch *branch) {
    if (++run->steps > STEPS || run->arena->bytes > ARENA_BYTES || run->out->length > KN_TEMPLATE_TEXT_BYTES)
        return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "the template needs too much time or memory");
    return KN_OK;
}

static bool bind(kn_template_run *run, const char *name, kn_cell value) {
    kn_binding *made = kn_arena_take(run->arena, 1, sizeof *made);
    if (!made) return false;
    *made = (kn_binding){name, value, run->bindings};
    run->bindings = made;
    return true;
}

static kn_cell *find(const kn_template_run *run, const char *name) {
    for (kn_binding *one = run->bindings; one; one = one->before)
        if (strcmp(one->name, name) == 0) return &one->value;
    return NULL;
}

/* ---- expressions --------------------------------------------------------------------------------- */

static kn_status index_of(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                          const kn_cell *index, kn_cell *result) {
    *result = (kn_cell){0};
    if (of->sort == KN_SORT_UNDEFINED)
        return WRONG(run, branch, KN_ERROR_FORMAT, "a member of something that is undefined");
    if (of->sort == KN_SORT_MAP && index->sort == KN_SORT_TEXT) {
        const kn_cell *found = kn_cell_member(of, index->text, index->length);
        if (found) *result = *found;
    } else if (index->sort == KN_SORT_INTEGER && (of->sort == KN_SORT_LIST || of->sort == KN_SORT_TEXT)) {
        /* Characters of texts are whole ones in Python; only ASCII can be indexed here. */
        int64_t count = of->sort == KN_SORT_LIST ? (int64_t)of->list->count : (int64_t)of->length;
        int64_t at = index->integer < 0 ? index->integer + count : index->integer;
        if (of->sort == KN_SORT_TEXT)
            for (size_t i = 0; i < of->length; i++)
                if ((uint8_t)of->text[i] >= 0x80)
                    return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "an index into a text that is not ASCII");
        if (at < 0 || at >= count) return KN_OK;
        if (of->sort == KN_SORT_LIST) {
            *result = of->list->items[at];
        } else {
            *result = kn_cell_text(run->arena, of->text + at, 1);
            if (!result->text) return no_memory(run);
        }
    }
    return KN_OK;
}

/* Evaluates a bound of a slice, if there is one. */
static kn_status bound(kn_template_run *run, const kn_branch *branch, int64_t *value, bool *given) {
    kn_cell cell;
    *given = branch != NULL;
    if (!branch) return KN_OK;
    kn_status status = evaluate(run, branch, &cell);
    if (status != KN_OK) return status;
    *given = cell.sort != KN_SORT_NONE;
    if (*given && cell.sort != KN_SORT_INTEGER)
        return WRONG(run, branch, KN_ERROR_FORMAT, "a bound of a slice is %s", kn_cell_sort_name(&cell));
    *value = cell.integer;
    return KN_OK;
}

static int64_t clamp(int64_t value, int64_t count, int64_t least, int64_t most) {
    if (value < 0) value += count;
    return value < least ? least : value > most ? most : value;
}

static kn_status slice(kn_template_run *run, const kn_branch *branch, const kn_cell *of, kn_cell *result) {
    int64_t from = 0, to = 0, step = 1;
    bool has_from, has_to, has_step;
    kn_status status = bound(run, branch->second, &from, &has_from);
    if (status == KN_OK) status = bound(run, branch->third, &to, &has_to);
    if (status == KN_OK) status = bound(run, branch->fourth, &step, &has_step);
    if (status != KN_OK) return status;
    if (!has_step) step = 1;
    if (of->sort != KN_SORT_LIST && of->sort != KN_SORT_TEXT)
        return WRONG(run, branch, KN_ERROR_FORMAT, "a slice of %s", kn_cell_sort_name(of));
    if (step == 0 || step < -1000000 || step > 1000000)
        return WRONG(run, branch, KN_ERROR_FORMAT, "a slice with step 0");
    /* Texts by their characters. */
    size_t *begins = NULL;
    int64_t count = of->sort == KN_SORT_LIST ? (int64_t)of->list->count : 0;
    if (of->sort == KN_SORT_TEXT) {
        uint32_t code;
        if (!(begins = kn_arena_take(run->arena, of->length + 1, sizeof *begins))) return no_memory(run);
        for (size_t at = 0; at < of->length; at += kn_character_read(of->text + at, of->length - at, &code))
            begins[count++] = at;
        begins[count] = of->length;
    }
    int64_t least = step > 0 ? 0 : -1, most = step > 0 ? count : count - 1;
    from = has_from ? clamp(from, count, least, most) : step > 0 ? 0 : count - 1;
    to = has_to ? clamp(to, count, least, most) : step > 0 ? count : -1;
    *result = (kn_cell){.sort = of->sort, .list = kn_arena_take(run->arena, 1, sizeof *result->list)};
    char *text = begins ? kn_arena_take(run->arena, of->length + 1, 1) : NULL;
    if (!result->list || (begins && !text)) return no_memory(run);
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) {
        if (begins) {
            memcpy(text + result->length, of->text + begins[i], begins[i + 1] - begins[i]);
            result->length += begins[i + 1] - begins[i];
        } else if (!kn_cell_push(run->arena, result->list, of->list->items[i])) {
            return no_memory(run);
        }
    }
    result->text = text;
    return KN_OK;
}

/* Joins two texts; in ~, after printing both. */
static kn_status join(kn_template_run *run, const kn_branch *branch, const kn_cell *left,
                      const kn_cell *right, kn_cell *result) {
    kn_text made;
    kn_text_init(&made, run->arena->host);
    bool fine = kn_cell_print(left, &made) && kn_cell_print(right, &made);
    if (fine && made.length > KN_TEMPLATE_TEXT_BYTES) made.failed = true;
    *result = made.failed ? (kn_cell){0} : kn_cell_text(run->arena, made.data, made.length);
    kn_text_finish(&made);
    if (!fine) return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "printing a list or a mapping; use tojson");
    return result->text ? KN_OK : no_memory(run);
}

static kn_status contains(kn_template_run *run, const kn_branch *branch, const kn_cell *item,
                          const kn_cell *in, bool *found) {
    *found = false;
    if (in->sort == KN_SORT_UNDEFINED) return KN_OK;
    if (in->sort == KN_SORT_LIST) {
        for (size_t i = 0; i < in->list->count && !*found; i++)
            if (!kn_cell_equal(item, in->list->items + i, found)) return too_large(run, branch);
    } else if (in->sort == KN_SORT_MAP && item->sort == KN_SORT_TEXT) {
        *found = kn_cell_member(in, item->text, item->length) != NULL;
    } else if (in->sort == KN_SORT_TEXT && item->sort == KN_SORT_TEXT) {
        for (size_t at = 0; at + item->length <= in->length && !*found; at++)
            *found = memcmp(in->text + at, item->text, item->length) == 0;
    } else {
        return WRONG(run, branch, KN_ERROR_FORMAT, "%s in %s", kn_cell_sort_name(item),
                     kn_cell_sort_name(in));
    }
    return KN_OK;
}

static kn_status compare(kn_template_run *run, const kn_branch *branch, const char *sign, const kn_cell *left,
                         const kn_cell *right, bool *result) {
    int order;
    bool texts = left->sort == KN_SORT_TEXT && right->sort == KN_SORT_TEXT;
    bool integers = (left->sort == KN_SORT_INTEGER || left->sort == KN_SORT_BOOL) &&
                    (right->sort == KN_SORT_INTEGER || right->sort == KN_SORT_BOOL);
    if (texts) {
        size_t length = left->length < right->length ? left->length : right->length;
        order = memcmp(left->text, right->text, length);
        if (!order) order = (left->length > right->length) - (left->length < right->length);
    } else if (integers) {
        order = (left->integer > right->integer) - (left->integer < right->integer);
    } else {
        return WRONG(run, branch, KN_ERROR_FORMAT, "%s %s %s", kn_cell_sort_name(left), sign,
                     kn_cell_sort_name(right));
    }
    *result = sign[0] == '<' ? order < 0 || (sign[1] && order == 0) : order > 0 || (sign[1] && order == 0);
    return KN_OK;
}

static kn_status arithmetic(kn_template_run *run, const kn_branch *branch, const kn_cell *left,
                            const kn_cell *right, kn_cell *result) {
    const char *sign = branch->text;
    if (sign[0] == '+' && left->sort == KN_SORT_TEXT && right->sort == KN_SORT_TEXT)
        return join(run, branch, left, right, result);
    if (sign[0] == '+' && left->sort == KN_SORT_LIST && right->sort == KN_SORT_LIST) {
        *result = (kn_cell){.sort = KN_SORT_LIST, .list = kn_arena_take(run->arena, 1, sizeof *result->list)};
        if (!result->list) return no_memory(run);
        for (int side = 0; side < 2; side++) {
            const kn_cell_list *from = side ? right->list : left->list;
            for (size_t i = 0; i < from->count; i++)
                if (!kn_cell_push(run->arena, result->list, from->items[i])) return no_memory(run);
        }
        return KN_OK;
    }
    bool integers = left->sort == KN_SORT_INTEGER && right->sort == KN_SORT_INTEGER;
    int64_t a = left->integer, b = right->integer, most = (int64_t)1 << 31;
    if (!integers)
        return WRONG(run, branch, KN_ERROR_FORMAT, "%s %s %s", kn_cell_sort_name(left), sign,
                     kn_cell_sort_name(right));
    if (a > most || a < -most || b > most || b < -most)
        return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "arithmetic beyond 2^31");
    if ((sign[0] == '%' || sign[0] == '/') && b == 0)
        return WRONG(run, branch, KN_ERROR_FORMAT, "division by 0");
    int64_t quotient = b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0; /* rounded down */
    switch (sign[0]) {
    case '+':
        *result = kn_cell_integer(a + b);
        break;
    case '-':
        *result = kn_cell_integer(a - b);
        break;
    case '*':
        *result = kn_cell_integer(a * b);
        break;
    case '%':
        *result = kn_cell_integer(a - quotient * b);
        break;
    default:
        *result = sign[1] ? kn_cell_integer(quotient)
                          : (kn_cell){.sort = KN_SORT_REAL, .real = (double)a / (double)b};
    }
    return KN_OK;
}

static kn_status binary(kn_template_run *run, const kn_branch *branch, kn_cell *result) {
    const char *sign = branch->text;
    kn_cell left, right;
    bool truth = false;
    kn_status status = evaluate(run, branch->first, &left);
    if (status != KN_OK) return status;
    if (strcmp(sign, "or") == 0 || strcmp(sign, "and") == 0) {
        *result = left;
        return kn_cell_truth(&left) == (sign[0] == 'o') ? KN_OK : evaluate(run, branch->second, result);
    }
    status = evaluate(run, branch->second, &right);
    if (status != KN_OK) return status;
    if (sign[0] == '~') return join(run, branch, &left, &right, result);
    if (strcmp(sign, "==") == 0 || strcmp(sign, "!=") == 0) {
        if (!kn_cell_equal(&left, &right, &truth)) return too_large(run, branch);
        truth ^= sign[0] == '!';
    } else if (strcmp(sign, "in") == 0 || strcmp(sign, "not in") == 0) {
        status = contains(run, branch, &left, &right, &truth);
        truth ^= sign[0] == 'n';
    } else if (sign[0] == '<' || sign[0] == '>')
        status = compare(run, branch, sign, &left, &right, &truth);
    else
        return arithmetic(run, branch, &left, &right, result);
    *result = kn_cell_bool(truth);
    return status;
}

static kn_status read_arguments(kn_template_run *run, const kn_branch *branch, kn_argument *arguments,
                                size_t *count) {
    *count = 0;
    for (const kn_branch *one = branch->body; one; one = one->next) {
        if (*count == KN_ARGUMENTS)
            return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "more than %d arguments", KN_ARGUMENTS);
        arguments[*count].keyword = one->keyword;
        kn_status status = evaluate(run, one, &arguments[(*count)++].value);
        if (status != KN_OK) return status;
    }
    return KN_OK;
}

static kn_status make_container(kn_template_run *run, const kn_branch *branch, kn_cell *result) {
    bool map = branch->kind == KN_BRANCH_MAP;
    *result = (kn_cell){.sort = map ? KN_SORT_MAP : KN_SORT_LIST,
                        .list = kn_arena_take(run->arena, 1, sizeof *result->list)};
    if (!result->list) return no_memory(run);
    for (const kn_branch *one = branch->body; one; one = one->next) {
        kn_cell key = {0}, value;
        kn_status status = evaluate(run, one, map ? &key : &value);
        if (status == KN_OK && map) {
            if (key.sort != KN_SORT_TEXT)
                return WRONG(run, one, KN_ERROR_UNSUPPORTED, "a key that is %s", kn_cell_sort_name(&key));
            one = one->next;
            status = evaluate(run, one, &value);
        }
        if (status != KN_OK) return status;
        if (!(map ? kn_cell_put(run->arena, result, key, value)
                  : kn_cell_push(run->arena, result->list, value)))
            return no_memory(run);
    }
    return KN_OK;
}

static kn_status evaluate_branch(kn_template_run *run, const kn_branch *branch, kn_cell *result) {
    kn_cell first = {0}, second = {0};
    kn_argument arguments[KN_ARGUMENTS];
    size_t count = 0;
    bool truth = false;
    kn_status status = KN_OK;
    bool direct = branch->kind == KN_BRANCH_BINARY || branch->kind == KN_BRANCH_CHOICE;
    if (branch->first && !direct) status = evaluate(run, branch->first, &first);
    if (status != KN_OK) return status;
    switch (branch->kind) {
    case KN_BRANCH_VALUE:
        *result = branch->value;
        return KN_OK;
    case KN_BRANCH_NAME: {
        const kn_cell *found = find(run, branch->text);
        if (found) *result = *found;
        return KN_OK;
    }
    case KN_BRANCH_LIST:
    case KN_BRANCH_MAP:
        return make_container(run, branch, result);
    case KN_BRANCH_MEMBER:
        second = (kn_cell){.sort = KN_SORT_TEXT, .text = branch->text, .length = strlen(branch->text)};
        return index_of(run, branch, &first, &second, result);
    case KN_BRANCH_INDEX:
        status = evaluate(run, branch->second, &second);
        return status == KN_OK ? index_of(run, branch, &first, &second, result) : status;
    case KN_BRANCH_SLICE:
        return slice(run, branch, &first, result);
    case KN_BRANCH_CALL:
        status = read_arguments(run, branch, arguments, &count);
        if (status != KN_OK) return status;
        return kn_template_call(run, branch, branch->first ? &first : NULL, arguments, count, result);
    case KN_BRANCH_FILTER:
        status = read_arguments(run, branch, arguments, &count);
        return status == KN_OK ? kn_template_filter(run, branch, &first, arguments, count, result) : status;
    case KN_BRANCH_TEST:
        status = read_arguments(run, branch, arguments, &count);
        if (status == KN_OK) status = kn_template_test(run, branch, &first, arguments, count, &truth);
        *result = kn_cell_bool(truth);
        return status;
    case KN_BRANCH_NOT:
        *result = kn_cell_bool(!kn_cell_truth(&first));
        return KN_OK;
    case KN_BRANCH_MINUS:
        if (first.sort != KN_SORT_INTEGER && first.sort != KN_SORT_REAL)
            return WRONG(run, branch, KN_ERROR_FORMAT, "- of %s", kn_cell_sort_name(&first));
        if (first.sort == KN_SORT_INTEGER && first.integer == INT64_MIN)
            return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "- of an integer beyond 64 bits");
        *result = first;
        result->integer = -first.integer;
        result->real = -first.real;
        return KN_OK;
    case KN_BRANCH_BINARY:
        return binary(run, branch, result);
    case KN_BRANCH_CHOICE:
        status = evaluate(run, branch->second, &second);
        if (status != KN_OK) return status;
        if (kn_cell_truth(&second)) return evaluate(run, branch->first, result);
        return branch->third ? evaluate(run, branch->third, result) : KN_OK;
    default:
        return WRONG(run, branch, KN_ERROR_INTERNAL, "a statement in an expression");
    }
}

/* The parser limits the depth of brackets; a chain such as a + b + c is a deep tree, too. */
static kn_status evaluate(kn_template_run *run, const kn_branch *branch, kn_cell *result) {
    *result = (kn_cell){0};
    kn_status status = count_step(run, branch);
    if (status != KN_OK) return status;
    if (run->depth >= DEPTH)
        return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "an expression is nested more than %d deep", DEPTH);
    run->depth++;
    status = evaluate_branch(run, branch, result);
    run->depth--;
    return status;
}

/* ---- statements ---------------------------------------------------------------------------------- */

static kn_status run_set(kn_template_run *run, const kn_branch *branch) {
    kn_cell value;
    kn_status status = evaluate(run, branch->first, &value);
    if (status != KN_OK) return status;
    if (!branch->text2) return bind(run, branch->text, value) ? KN_OK : no_memory(run);
    kn_cell *of = find(run, branch->text);
    if (!of || !kn_cell_is_namespace(of))
        return WRONG(run, branch, KN_ERROR_FORMAT, "%s is not a namespace", branch->text);
    kn_cell key = kn_cell_text(run->arena, branch->text2, strlen(branch->text2));
    return key.text && kn_cell_put(run->arena, of, key, value) ? KN_OK : no_memory(run);
}

/* The names of a loop for one item. */
static kn_status bind_item(kn_template_run *run, const kn_branch *branch, const kn_cell *item) {
    if (!branch->text2) return bind(run, branch->text, *item) ? KN_OK : no_memory(run);
    if (item->sort != KN_SORT_LIST || item->list->count != 2)
        return WRONG(run, branch, KN_ERROR_FORMAT, "cannot unpack %s to two names", kn_cell_sort_name(item));
    return bind(run, branch->text, item->list->items[0]) && bind(run, branch->text2, item->list->items[1])
               ? KN_OK
               : no_memory(run);
}

/* loop.index and so on, for item `at` of a list. */
static kn_status bind_loop(kn_template_run *run, const kn_cell_list *items, size_t at) {
    kn_cell loop = {.sort = KN_SORT_MAP, .list = kn_arena_take(run->arena, 1, sizeof *loop.list)};
    if (!loop.list) return no_memory(run);
    const struct {
        const char *name;
        kn_cell value;
    } members[] = {
        {"index", kn_cell_integer((int64_t)at + 1)},
        {"index0", kn_cell_integer((int64_t)at)},
        {"first", kn_cell_bool(at == 0)},
        {"last", kn_cell_bool(at + 1 == items->count)},
        {"length", kn_cell_integer((int64_t)items->count)},
        {"revindex", kn_cell_integer((int64_t)(items->count - at))},
        {"revindex0", kn_cell_integer((int64_t)(items->count - at) - 1)},
        {"previtem", at ? items->items[at - 1] : (kn_cell){0}},
        {"nextitem", at + 1 < items->count ? items->items[at + 1] : (kn_cell){0}},
    };
    for (size_t i = 0; i < KN_COUNT_OF(members); i++) {
        kn_cell key = {.sort = KN_SORT_TEXT, .text = members[i].name, .length = strlen(members[i].name)};
        if (!kn_cell_push(run->arena, loop.list, key) ||
            !kn_cell_push(run->arena, loop.list, members[i].value))
            return no_memory(run);
    }
    return bind(run, "loop", loop) ? KN_OK : no_memory(run);
}

/* The items that pass the condition of the loop. */
static kn_status choose_items(kn_template_run *run, const kn_branch *branch, const kn_cell *from,
                              kn_cell_list *chosen) {
    kn_binding *before = run->bindings;
    if (from->sort == KN_SORT_UNDEFINED) return KN_OK;
    if (from->sort != KN_SORT_LIST && from->sort != KN_SORT_MAP)
        return WRONG(run, branch, KN_ERROR_FORMAT, "a loop over %s", kn_cell_sort_name(from));
    for (size_t i = 0; i < from->list->count; i += from->sort == KN_SORT_MAP ? 2 : 1) {
        bool keep = true;
        if (branch->second) {
            kn_cell truth;
            kn_status status = bind_item(run, branch, from->list->items + i);
            if (status == KN_OK) status = evaluate(run, branch->second, &truth);
            run->bindings = before;
            if (status != KN_OK) return status;
            keep = kn_cell_truth(&truth);
        }
        if (keep && !kn_cell_push(run->arena, chosen, from->list->items[i])) return no_memory(run);
    }
    return KN_OK;
}

static kn_status run_for(kn_template_run *run, const kn_branch *branch) {
    kn_cell from;
    kn_cell_list items = {0};
    kn_binding *before = run->bindings;
    flow way = FLOW_ON;
    kn_status status = evaluate(run, branch->first, &from);
    if (status == KN_OK) status = choose_items(run, branch, &from, &items);
    for (size_t i = 0; i < items.count && status == KN_OK && way != FLOW_BREAK; i++) {
        way = FLOW_ON;
        status = bind_loop(run, &items, i);
        if (status == KN_OK) status = bind_item(run, branch, items.items + i);
        if (status == KN_OK) status = run_body(run, branch->body, &way);
        run->bindings = before;
    }
    way = FLOW_ON;
    if (status == KN_OK && !items.count) status = run_body(run, branch->other, &way);
    run->bindings = before;
    return status;
}

static kn_status run_statement(kn_template_run *run, const kn_branch *branch, flow *way) {
    kn_cell value;
    kn_status status = count_step(run, branch);
    if (status != KN_OK) return status;
    switch (branch->kind) {
    case KN_BRANCH_TEXT:
        kn_text_add_bytes(run->out, branch->text, branch->length);
        break;
    case KN_BRANCH_PRINT:
        status = evaluate(run, branch->first, &value);
        if (status == KN_OK && !kn_cell_print(&value, run->out))
            return WRONG(run, branch, KN_ERROR_UNSUPPORTED, "printing %s; use tojson",
                         kn_cell_sort_name(&value));
        break;
    case KN_BRANCH_SET:
        return run_set(run, branch);
    case KN_BRANCH_IF:
        status = evaluate(run, branch->first, &value);
        return status == KN_OK ? run_body(run, kn_cell_truth(&value) ? branch->body : branch->other, way)
                               : status;
    case KN_BRANCH_FOR:
        return run_for(run, branch);
    case KN_BRANCH_BREAK:
        *way = FLOW_BREAK;
        break;
    case KN_BRANCH_CONTINUE:
        *way = FLOW_CONTINUE;
        break;
    default:
        return WRONG(run, branch, KN_ERROR_INTERNAL, "an expression as a statement");
    }
    return status;
}

static kn_status run_body(kn_template_run *run, const kn_branch *body, flow *way) {
    kn_status status = KN_OK;
    for (; body && status == KN_OK && *way == FLOW_ON; body = body->next)
        status = run_statement(run, body, way);
    return status;
}

kn_status kn_template_write(kn_arena *arena, const char *name, const char *text, size_t length,
                            const kn_cell *variables, kn_text *out, kn_error *error) {
    kn_branch *tree;
    kn_template_run run = {.arena = arena, .name = name, .text = text, .out = out, .error = error};
    flow way = FLOW_ON;
    kn_status status = kn_template_parse(arena, name, text, length, &tree, error);
    for (size_t i = 0; i < variables->list->count && status == KN_OK; i += 2)
        if (!bind(&run, variables->list->items[i].text, variables->list->items[i + 1]))
            status = no_memory(&run);
    if (status == KN_OK) status = run_body(&run, tree, &way);
    return status == KN_OK && kn_text_failed(out) ? no_memory(&run) : status;
}
