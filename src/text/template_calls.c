/* The filters, tests, functions and methods of templates. */
#include "text/template_private.h"

#include <string.h>
#include <time.h>

typedef struct call {
    kn_template_run *run;
    const kn_branch *branch;
    const kn_cell *of; /* what it is applied to */
    const kn_argument *arguments;
    size_t count;
    kn_cell *result;
} call;

static kn_status wrong(const call *by, const char *what) {
    return kn_template_fail(by->run->name, by->run->text, by->branch->at, KN_ERROR_FORMAT, by->run->error,
                            "%s: %s", by->branch->text, what);
}

static kn_status no_memory(const call *by) {
    return kn_fail_memory(by->run->error, 0);
}

/* An argument by position, or by keyword; NULL if it is not given. */
static const kn_cell *argument(const call *by, size_t position, const char *keyword) {
    size_t unnamed = 0;
    for (size_t i = 0; i < by->count; i++) {
        if (by->arguments[i].keyword ? keyword && strcmp(by->arguments[i].keyword, keyword) == 0
                                     : unnamed++ == position)
            return &by->arguments[i].value;
    }
    return NULL;
}

static kn_status give_text(const call *by, const char *text, size_t length) {
    *by->result = kn_cell_text(by->run->arena, text, length);
    return by->result->text ? KN_OK : no_memory(by);
}

/* Gives a text that was made and releases it. refusal: why it could not be made, or NULL. */
static kn_status give_made(const call *by, kn_text *made, const char *refusal) {
    kn_status status = refusal                                 ? wrong(by, refusal)
                       : made->failed                          ? no_memory(by)
                       : made->length > KN_TEMPLATE_TEXT_BYTES ? wrong(by, "the text is larger than 64 MiB")
                                                               : give_text(by, made->data, made->length);
    kn_text_finish(made);
    return status;
}

static kn_status give_list(const call *by) {
    *by->result =
        (kn_cell){.sort = KN_SORT_LIST, .list = kn_arena_take(by->run->arena, 1, sizeof *by->result->list)};
    return by->result->list ? KN_OK : no_memory(by);
}

static bool push(const call *by, kn_cell item) {
    return kn_cell_push(by->run->arena, by->result->list, item);
}

/* ---- texts --------------------------------------------------------------------------------------- */

static bool is_in(const kn_cell *set, const char *text, size_t length) {
    uint32_t code, other;
    kn_character_read(text, length, &code);
    if (!set) return kn_character_is_space(code) || (code >= 0x1c && code <= 0x1f);
    for (size_t at = 0; at < set->length;) {
        at += kn_character_read(set->text + at, set->length - at, &other);
        if (other == code) return true;
    }
    return false;
}

/* Removes characters of a set, or blanks, at the ends. */
static kn_status strip(const call *by, bool left, bool right) {
    const kn_cell *set = argument(by, 0, "chars");
    const char *text = by->of->text;
    size_t begin = 0, end = by->of->length;
    uint32_t code;
    if (by->of->sort != KN_SORT_TEXT || (set && set->sort != KN_SORT_TEXT))
        return wrong(by, "expected strings");
    while (left && begin < end && is_in(set, text + begin, end - begin))
        begin += kn_character_read(text + begin, end - begin, &code);
    while (right && begin < end) {
        size_t last = end - 1;
        while (last > begin && ((uint8_t)text[last] & 0xc0) == 0x80)
            last--;
        if (!is_in(set, text + last, end - last)) break;
        end = last;
    }
    return give_text(by, text + begin, end - begin);
}

static kn_status strip_both(const call *by) {
    return strip(by, true, true);
}
static kn_status strip_left(const call *by) {
    return strip(by, true, false);
}
static kn_status strip_right(const call *by) {
    return strip(by, false, true);
}

static kn_status starts_or_ends(const call *by, bool ends) {
    const kn_cell *part = argument(by, 0, NULL);
    if (by->of->sort != KN_SORT_TEXT || !part || part->sort != KN_SORT_TEXT)
        return wrong(by, "expected strings");
    if (by->count > 1) return wrong(by, "only one argument is in the subset");
    size_t length = by->of->length;
    bool fits = part->length <= length &&
                memcmp(by->of->text + (ends ? length - part->length : 0), part->text, part->length) == 0;
    *by->result = kn_cell_bool(fits);
    return KN_OK;
}
static kn_status starts_with(const call *by) {
    return starts_or_ends(by, false);
}
static kn_status ends_with(const call *by) {
    return starts_or_ends(by, true);
}

static kn_status change_case(const call *by, bool upper) {
    kn_text made;
    if (by->of->sort != KN_SORT_TEXT) return wrong(by, "expected a string");
    kn_text_init(&made, by->run->arena->host);
    bool plain = true;
    for (size_t i = 0; i < by->of->length; i++) {
        char c = by->of->text[i];
        plain &= !((uint8_t)c & 0x80);
        if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = (char)(c ^ 32);
        kn_text_add_bytes(&made, &c, 1);
    }
    return give_made(by, &made, plain ? NULL : "only ASCII text");
}
static kn_status lower(const call *by) {
    return change_case(by, false);
}
static kn_status upper(const call *by) {
    return change_case(by, true);
}

static const char *find_text(const char *text, size_t length, const kn_cell *part) {
    for (size_t at = 0; at + part->length <= length; at++)
        if (memcmp(text + at, part->text, part->length) == 0) return text + at;
    return NULL;
}

static kn_status split(const call *by) {
    const kn_cell *between = argument(by, 0, "sep"), *most = argument(by, 1, "maxsplit");
    if (by->of->sort != KN_SORT_TEXT || !between || between->sort != KN_SORT_TEXT || !between->length)
        return wrong(by, "expected a string and a separator");
    if (most && most->sort != KN_SORT_INTEGER) return wrong(by, "maxsplit is not an integer");
    kn_status status = give_list(by);
    const char *text = by->of->text, *end = text + by->of->length;
    int64_t left = most && most->integer >= 0 ? most->integer : INT64_MAX;
    for (; status == KN_OK;) {
        const char *found = left-- > 0 ? find_text(text, (size_t)(end - text), between) : NULL;
        kn_cell item = kn_cell_text(by->run->arena, text, (size_t)((found ? found : end) - text));
        if (!item.text || !push(by, item)) status = no_memory(by);
        if (!found) break;
        text = found + between->length;
    }
    return status;
}

static kn_status replace(const call *by) {
    const kn_cell *from = argument(by, 0, "old"), *to = argument(by, 1, "new");
    if (by->of->sort != KN_SORT_TEXT || !from || from->sort != KN_SORT_TEXT || !to ||
        to->sort != KN_SORT_TEXT || !from->length || by->count > 2)
        return wrong(by, "expected two strings, the first not empty");
    kn_text made;
    kn_text_init(&made, by->run->arena->host);
    const char *text = by->of->text, *end = text + by->of->length, *found;
    while (made.length <= KN_TEMPLATE_TEXT_BYTES && (found = find_text(text, (size_t)(end - text), from))) {
        kn_text_add_bytes(&made, text, (size_t)(found - text));
        kn_text_add_bytes(&made, to->text, to->length);
        text = found + from->length;
    }
    kn_text_add_bytes(&made, text, (size_t)(end - text));
    return give_made(by, &made, NULL);
}

static kn_status to_string(const call *by) {
    kn_text made;
    kn_text_init(&made, by->run->arena->host);
    bool fine = kn_cell_print(by->of, &made);
    return give_made(by, &made, fine ? NULL : "the text of a list or a mapping; use tojson");
}

static kn_status trim(const call *by) {
    /* Of undefined, an empty text. */
    if (by->of->sort == KN_SORT_UNDEFINED) return give_text(by, "", 0);
    if (by->of->sort == KN_SORT_TEXT) return strip(by, true, true);
    return to_string(by);
}

static kn_status to_json(const call *by) {
    const kn_cell *indent = argument(by, 0, "indent"), *ascii = argument(by, KN_ARGUMENTS, "ensure_ascii");
    for (size_t i = 0; i < by->count; i++)
        if (by->arguments[i].keyword && strcmp(by->arguments[i].keyword, "indent") != 0 &&
            strcmp(by->arguments[i].keyword, "ensure_ascii") != 0)
            return wrong(by, "only the argument indent is in the subset");
    if (ascii && kn_cell_truth(ascii)) return wrong(by, "ensure_ascii is true; expected false");
    if (indent && indent->sort != KN_SORT_NONE &&
        (indent->sort != KN_SORT_INTEGER || indent->integer < 0 || indent->integer > 16))
        return wrong(by, "indent is not an integer from 0 to 16");
    if (by->of->sort == KN_SORT_UNDEFINED) return wrong(by, "the value is undefined");
    kn_text made;
    kn_text_init(&made, by->run->arena->host);
    const bool lines = indent && indent->sort == KN_SORT_INTEGER;
    bool fine = kn_cell_json(by->of, lines ? indent->integer : -1, 0, &made);
    return give_made(by, &made,
                     fine ? NULL : "the value has a namespace, is nested too deeply, or is too large");
}

/* ---- lists and mappings -------------------------------------------------------------------------- */

static kn_status length(const call *by) {
    int64_t count = 0;
    uint32_t code;
    switch (by->of->sort) {
    case KN_SORT_UNDEFINED:
        break;
    case KN_SORT_TEXT:
        for (size_t at = 0; at < by->of->length; count++)
            at += kn_character_read(by->of->text + at, by->of->length - at, &code);
        break;
    case KN_SORT_LIST:
        count = (int64_t)by->of->list->count;
        break;
    case KN_SORT_MAP:
        count = (int64_t)by->of->list->count / 2;
        break;
    default:
        return wrong(by, "expected a string, a list or a mapping");
    }
    *by->result = kn_cell_integer(count);
    return KN_OK;
}

/* Keys, values or pairs. */
static kn_status parts_of_map(const call *by, bool keys, bool values) {
    if (by->of->sort == KN_SORT_UNDEFINED) return give_list(by);
    if (by->of->sort != KN_SORT_MAP) return wrong(by, "expected a mapping");
    kn_status status = give_list(by);
    for (size_t i = 0; status == KN_OK && i < by->of->list->count; i += 2) {
        kn_cell pair = {.sort = KN_SORT_LIST, .list = kn_arena_take(by->run->arena, 1, sizeof *pair.list)};
        if (!pair.list || !kn_cell_push(by->run->arena, pair.list, by->of->list->items[i]) ||
            !kn_cell_push(by->run->arena, pair.list, by->of->list->items[i + 1]) ||
            !push(by, keys && values ? pair : by->of->list->items[i + values]))
            status = no_memory(by);
    }
    return status;
}
static kn_status items(const call *by) {
    return parts_of_map(by, true, true);
}
static kn_status keys(const call *by) {
    return parts_of_map(by, true, false);
}
static kn_status values(const call *by) {
    return parts_of_map(by, false, true);
}

static kn_status get(const call *by) {
    const kn_cell *key = argument(by, 0, NULL), *otherwise = argument(by, 1, NULL);
    if (by->of->sort != KN_SORT_MAP || !key || key->sort != KN_SORT_TEXT)
        return wrong(by, "expected a mapping and a string");
    const kn_cell *found = kn_cell_member(by->of, key->text, key->length);
    *by->result = found ? *found : otherwise ? *otherwise : (kn_cell){.sort = KN_SORT_NONE};
    return KN_OK;
}

static kn_status list(const call *by) {
    if (by->of->sort == KN_SORT_MAP) return keys(by);
    kn_status status = give_list(by);
    if (status != KN_OK || by->of->sort == KN_SORT_UNDEFINED) return status;
    if (by->of->sort != KN_SORT_LIST && by->of->sort != KN_SORT_TEXT) return wrong(by, "expected a list");
    if (by->of->sort == KN_SORT_LIST) {
        for (size_t i = 0; i < by->of->list->count; i++)
            if (!push(by, by->of->list->items[i])) return no_memory(by);
        return KN_OK;
    }
    for (size_t at = 0, size; at < by->of->length; at += size) {
        uint32_t code;
        size = kn_character_read(by->of->text + at, by->of->length - at, &code);
        kn_cell letter = kn_cell_text(by->run->arena, by->of->text + at, size);
        if (!letter.text || !push(by, letter)) return no_memory(by);
    }
    return KN_OK;
}

static kn_status join(const call *by) {
    const kn_cell *between = argument(by, 0, "d");
    if (by->of->sort == KN_SORT_UNDEFINED) return give_text(by, "", 0);
    if (by->of->sort != KN_SORT_LIST || (between && between->sort != KN_SORT_TEXT))
        return wrong(by, "expected a list");
    if (argument(by, 1, "attribute")) return wrong(by, "only the argument d is in the subset");
    kn_text made;
    kn_text_init(&made, by->run->arena->host);
    bool fine = true;
    for (size_t i = 0; i < by->of->list->count && made.length <= KN_TEMPLATE_TEXT_BYTES; i++) {
        if (i && between) kn_text_add_bytes(&made, between->text, between->length);
        fine &= kn_cell_print(by->of->list->items + i, &made);
    }
    return give_made(by, &made, fine ? NULL : "a list or a mapping in the list");
}

static kn_status first_or_last(const call *by, bool last) {
    *by->result = (kn_cell){0};
    if (by->of->sort != KN_SORT_LIST) return wrong(by, "expected a list");
    if (by->of->list->count) *by->result = by->of->list->items[last ? by->of->list->count - 1 : 0];
    return KN_OK;
}
static kn_status first(const call *by) {
    return first_or_last(by, false);
}
static kn_status last(const call *by) {
    return first_or_last(by, true);
}

static kn_status otherwise(const call *by) {
    const kn_cell *value = argument(by, 0, "default_value"), *if_false = argument(by, 1, "boolean");
    bool keep =
        if_false && kn_cell_truth(if_false) ? kn_cell_truth(by->of) : by->of->sort != KN_SORT_UNDEFINED;
    *by->result = keep ? *by->of : value ? *value : kn_cell_text(by->run->arena, "", 0);
    return KN_OK;
}

/* The value of a member of an item, undefined if there is none. */
static kn_cell member_of(const kn_cell *item, const kn_cell *name) {
    const kn_cell *found = item->sort == KN_SORT_MAP ? kn_cell_member(item, name->text, name->length) : NULL;
    return found ? *found : (kn_cell){0};
}

/* Jinja splits names at points and reads numbers as indices. */
static bool is_plain_name(const kn_cell *name) {
    return name && name->sort == KN_SORT_TEXT && name->length && !strchr(name->text, '.') &&
           !(name->text[0] >= '0' && name->text[0] <= '9');
}

/* Items for which a test is true (or false); `member`: the test is of a member, whose name is the first
 * argument. */
static kn_status choose(const call *by, bool member, bool wanted) {
    const kn_cell *name = argument(by, 0, NULL), *test = argument(by, member, NULL);
    kn_branch named = *by->branch;
    if (by->of->sort != KN_SORT_LIST && by->of->sort != KN_SORT_UNDEFINED)
        return wrong(by, "expected a list");
    if ((member && !is_plain_name(name)) || (test && test->sort != KN_SORT_TEXT))
        return wrong(by, "expected names without points and numbers");
    if (test && !kn_template_has_test(test->text)) return wrong(by, "the test is not in the subset");
    named.text = test ? test->text : "";
    kn_status status = give_list(by);
    for (size_t i = 0; status == KN_OK && by->of->sort == KN_SORT_LIST && i < by->of->list->count; i++) {
        const kn_cell *item = by->of->list->items + i;
        const kn_cell value = member ? member_of(item, name) : *item;
        bool truth = kn_cell_truth(&value);
        size_t skipped = (size_t)member + 1;
        if (test)
            status = kn_template_test(by->run, &named, &value, by->arguments + skipped,
                                      by->count > skipped ? by->count - skipped : 0, &truth);
        if (status == KN_OK && truth == wanted && !push(by, *item)) status = no_memory(by);
    }
    return status;
}
static kn_status select(const call *by) {
    return choose(by, false, true);
}
static kn_status reject(const call *by) {
    return choose(by, false, false);
}
static kn_status select_member(const call *by) {
    return choose(by, true, true);
}
static kn_status reject_member(const call *by) {
    return choose(by, true, false);
}

/* map(attribute="name") */
static kn_status map(const call *by) {
    const kn_cell *name = argument(by, KN_ARGUMENTS, "attribute");
    if (!is_plain_name(name) || by->count != 1 || by->of->sort != KN_SORT_LIST)
        return wrong(by,
                     "only map(attribute='name') of a list, without points and numbers, is in the subset");
    kn_status status = give_list(by);
    for (size_t i = 0; status == KN_OK && i < by->of->list->count; i++)
        if (!push(by, member_of(by->of->list->items + i, name))) status = no_memory(by);
    return status;
}

/* ---- functions ----------------------------------------------------------------------------------- */

/* A mapping that `set` may change, which is marked by its number. */
static kn_status make_namespace(const call *by) {
    *by->result = (kn_cell){
        .sort = KN_SORT_MAP, .real = 1, .list = kn_arena_take(by->run->arena, 1, sizeof *by->result->list)};
    if (!by->result->list) return no_memory(by);
    for (size_t i = 0; i < by->count; i++) {
        const char *name = by->arguments[i].keyword;
        if (!name) return wrong(by, "expected only keywords");
        kn_cell key = {.sort = KN_SORT_TEXT, .text = name, .length = strlen(name)};
        if (!kn_cell_put(by->run->arena, by->result, key, by->arguments[i].value)) return no_memory(by);
    }
    return KN_OK;
}

static kn_status raise_exception(const call *by) {
    const kn_cell *message = argument(by, 0, "message");
    return kn_template_fail(by->run->name, by->run->text, by->branch->at, KN_ERROR_ARGUMENT, by->run->error,
                            "the chat template refuses this conversation: %s",
                            message && message->sort == KN_SORT_TEXT ? message->text : "");
}

static kn_status range(const call *by) {
    const kn_cell *one = argument(by, 0, NULL), *two = argument(by, 1, NULL);
    if (!one || one->sort != KN_SORT_INTEGER || (two && two->sort != KN_SORT_INTEGER) || by->count > 2)
        return wrong(by, "expected one or two integers");
    int64_t begin = two ? one->integer : 0, end = two ? two->integer : one->integer;
    if (begin < -100000000 || end > 100000000 || (end > begin && end - begin > 100000))
        return wrong(by, "more than 100000 numbers");
    kn_status status = give_list(by);
    for (int64_t i = begin; status == KN_OK && i < end; i++)
        if (!push(by, kn_cell_integer(i))) status = no_memory(by);
    return status;
}

/* The date, in English. */
static kn_status strftime_now(const call *by) {
    static const char *const months[] = {"January",   "February", "March",    "April",
                                         "May",       "June",     "July",     "August",
                                         "September", "October",  "November", "December"};
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    const kn_cell *format = argument(by, 0, NULL);
    if (!format || format->sort != KN_SORT_TEXT) return wrong(by, "expected a format");
    time_t now = time(NULL);
    struct tm date;
    if (!localtime_r(&now, &date)) return wrong(by, "the time is unknown");
    kn_text made;
    kn_text_init(&made, by->run->arena->host);
    bool fine = true;
    for (size_t i = 0; i < format->length; i++) {
        if (format->text[i] != '%') {
            kn_text_add_bytes(&made, format->text + i, 1);
            continue;
        }
        switch (format->text[++i]) {
        case 'd':
            kn_text_format(&made, "%02d", date.tm_mday);
            break;
        case 'm':
            kn_text_format(&made, "%02d", date.tm_mon + 1);
            break;
        case 'b':
            kn_text_format(&made, "%.3s", months[date.tm_mon % 12]);
            break;
        case 'B':
            kn_text_add(&made, months[date.tm_mon % 12]);
            break;
        case 'a':
            kn_text_format(&made, "%.3s", days[date.tm_wday % 7]);
            break;
        case 'A':
            kn_text_add(&made, days[date.tm_wday % 7]);
            break;
        case 'Y':
            kn_text_format(&made, "%d", date.tm_year + 1900);
            break;
        case 'y':
            kn_text_format(&made, "%02d", date.tm_year % 100);
            break;
        case 'H':
            kn_text_format(&made, "%02d", date.tm_hour);
            break;
        case 'M':
            kn_text_format(&made, "%02d", date.tm_min);
            break;
        case 'S':
            kn_text_format(&made, "%02d", date.tm_sec);
            break;
        default:
            fine = false;
        }
        if (!fine) break;
    }
    return give_made(by, &made, fine ? NULL : "only %d %m %b %B %a %A %Y %y %H %M %S are in the subset");
}

/* ---- tables -------------------------------------------------------------------------------------- */

typedef struct named {
    const char *name;
    kn_status (*run)(const call *by);
} named;

static const named filters[] = {
    {"length", length},     {"count", length},
    {"trim", trim},         {"tojson", to_json},
    {"join", join},         {"items", items},
    {"list", list},         {"string", to_string},
    {"first", first},       {"last", last},
    {"default", otherwise}, {"d", otherwise},
    {"select", select},     {"reject", reject},
    {"map", map},           {"selectattr", select_member},
    {"lower", lower},       {"rejectattr", reject_member},
    {"upper", upper},       {"replace", replace},
};
static const named methods[] = {
    {"split", split},        {"strip", strip_both},
    {"lstrip", strip_left},  {"rstrip", strip_right},
    {"items", items},        {"startswith", starts_with},
    {"endswith", ends_with}, {"keys", keys},
    {"values", values},      {"get", get},
    {"lower", lower},        {"upper", upper},
    {"replace", replace},
};
static const named functions[] = {
    {"namespace", make_namespace},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
};
static const char *const tests[] = {"defined",  "undefined", "none",    "string",  "mapping",
                                    "iterable", "sequence",  "number",  "boolean", "true",
                                    "false",    "integer",   "equalto", "eq"};

static const named *find_named(const named *table, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(table[i].name, name) == 0) return table + i;
    return NULL;
}

bool kn_template_has_filter(const char *name) {
    return find_named(filters, KN_COUNT_OF(filters), name) != NULL;
}
bool kn_template_has_method(const char *name) {
    return find_named(methods, KN_COUNT_OF(methods), name) != NULL;
}
bool kn_template_has_function(const char *name) {
    return find_named(functions, KN_COUNT_OF(functions), name) != NULL;
}
bool kn_template_has_test(const char *name) {
    for (size_t i = 0; i < KN_COUNT_OF(tests); i++)
        if (strcmp(tests[i], name) == 0) return true;
    return false;
}

kn_status kn_template_filter(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                             const kn_argument *arguments, size_t count, kn_cell *result) {
    const call by = {run, branch, of, arguments, count, result};
    return find_named(filters, KN_COUNT_OF(filters), branch->text)->run(&by);
}

kn_status kn_template_call(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                           const kn_argument *arguments, size_t count, kn_cell *result) {
    const call by = {run, branch, of, arguments, count, result};
    return (of ? find_named(methods, KN_COUNT_OF(methods), branch->text)
               : find_named(functions, KN_COUNT_OF(functions), branch->text))
        ->run(&by);
}

kn_status kn_template_test(kn_template_run *run, const kn_branch *branch, const kn_cell *of,
                           const kn_argument *arguments, size_t count, bool *result) {
    const call by = {run, branch, of, arguments, count, NULL};
    const char *name = branch->text;
    const kn_cell *other = argument(&by, 0, NULL);
    kn_value_sort sort = of->sort;
    bool number = sort == KN_SORT_INTEGER || sort == KN_SORT_REAL || sort == KN_SORT_BOOL;
    bool several = sort == KN_SORT_TEXT || sort == KN_SORT_LIST || sort == KN_SORT_MAP;
    if (strcmp(name, "equalto") == 0 || strcmp(name, "eq") == 0) {
        if (!other) return wrong(&by, "expected a value to compare with");
        return kn_cell_equal(of, other, result)
                   ? KN_OK
                   : wrong(&by, "a value is nested too deeply or too large to compare");
    }
    *result = strcmp(name, "defined") == 0     ? sort != KN_SORT_UNDEFINED
              : strcmp(name, "undefined") == 0 ? sort == KN_SORT_UNDEFINED
              : strcmp(name, "none") == 0      ? sort == KN_SORT_NONE
              : strcmp(name, "string") == 0    ? sort == KN_SORT_TEXT
              : strcmp(name, "mapping") == 0   ? sort == KN_SORT_MAP
              : strcmp(name, "iterable") == 0  ? several || sort == KN_SORT_UNDEFINED
              : strcmp(name, "sequence") == 0  ? several || sort == KN_SORT_UNDEFINED
              : strcmp(name, "number") == 0    ? number
              : strcmp(name, "boolean") == 0   ? sort == KN_SORT_BOOL
              : strcmp(name, "integer") == 0   ? sort == KN_SORT_INTEGER
              : strcmp(name, "true") == 0      ? sort == KN_SORT_BOOL && of->integer
                                               : sort == KN_SORT_BOOL && !of->integer;
    return KN_OK;
}
