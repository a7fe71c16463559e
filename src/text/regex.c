/* The regular expressions of tokenizers, by PCRE2. They are written for other engines: what those define
 * differently is rewritten, and what cannot be is refused. */
#include "text/text_private.h"

#include <string.h>

#if defined(KN_HAVE_PCRE2)
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { STEP_LIMIT = 10000000, STACK_BYTES = 1 << 20, PATTERN_BYTES = 1 << 16 };

struct kn_regex {
    pcre2_code *code;
    pcre2_general_context *memory;
    kn_host host; /* of the memory */
};

struct kn_regex_search {
    const kn_host *host;
    const kn_regex *regex;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    size_t valid; /* [from the last call's position, valid) is known to be UTF-8 */
};

static void *take(PCRE2_SIZE size, void *user) {
    return kn_allocate(user, 1, size);
}

static void give(void *pointer, void *user) {
    kn_release(user, pointer);
}

/* \s as Unicode's White_Space and \w as Oniguruma's: letters, marks, decimal and letter numbers, connectors,
 * the numbers of Latin-1, and circled and squared letters; for use inside brackets. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
#define WORDS                                                                                                \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}"               \
    "\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

static kn_status rewrite(const char *pattern, size_t length, kn_text *to, kn_error *error) {
    bool brackets = false;
    for (size_t i = 0; i < length; i++) {
        char c = pattern[i];
        if (c == '[' && !brackets)
            brackets = true;
        else if (c == '[' && i + 1 < length && pattern[i + 1] != ':')
            return kn_fail(
                error, KN_ERROR_UNSUPPORTED,
                "the regular expression '%.*s' has a set in a set, '[…[', at byte %zu, which Koine does "
                "not have",
                (int)(length < 200 ? length : 200), pattern, i);
        else if (c == ']' && brackets && pattern[i - 1] != '[' &&
                 !(pattern[i - 1] == '^' && i > 1 && pattern[i - 2] == '['))
            brackets = false;
        if (c != '\\' || i + 1 == length) {
            kn_text_add_bytes(to, &c, 1);
            continue;
        }
        char next = pattern[++i];
        if (next == 's' || next == 'w')
            kn_text_format(to, brackets ? "%s" : "[%s]", next == 's' ? SPACES : WORDS);
        else if ((next == 'S' || next == 'W') && !brackets)
            kn_text_format(to, "[^%s]", next == 'S' ? SPACES : WORDS);
        else if (strchr("bBhHRXyYGKSWgk", next))
            return kn_fail(
                error, KN_ERROR_UNSUPPORTED,
                "the regular expression '%.*s' has '\\%c'%s at byte %zu, which Koine does not support",
                (int)(length < 200 ? length : 200), pattern, next, brackets ? " in brackets" : "", i - 1);
        else {
            kn_text_add_bytes(to, &c, 1);
            kn_text_add_bytes(to, &next, 1);
        }
    }
    return kn_text_failed(to) ? kn_fail_memory(error, length) : KN_OK;
}

static kn_status compile(kn_regex *regex, const kn_text *pattern, kn_error *error) {
    int code;
    PCRE2_SIZE at;
    pcre2_compile_context *context = pcre2_compile_context_create(regex->memory);
    if (!context) return kn_fail_memory(error, 0);
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    regex->code =
        pcre2_compile((PCRE2_SPTR)pattern->data, pattern->length,
                      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &at, context);
    pcre2_compile_context_free(context);
    if (regex->code) {
        /* Faster where the system allows it; the interpreter gives the same matches. */
        pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
        return KN_OK;
    }
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return kn_fail(error, KN_ERROR_FORMAT, "the regular expression '%.*s' is not valid: %s",
                   (int)(pattern->length < 300 ? pattern->length : 300), pattern->data, (const char *)reason);
}

kn_status kn_regex_create(const kn_host *host, const char *pattern, size_t length, kn_regex **regex,
                          kn_error *error) {
    if (length > PATTERN_BYTES)
        return kn_fail(error, KN_ERROR_UNSUPPORTED, "a regular expression of %zu bytes; expected at most %d",
                       length, PATTERN_BYTES);
    *regex = kn_allocate(host, 1, sizeof **regex);
    if (!*regex) return kn_fail_memory(error, sizeof **regex);
    (*regex)->host = *host;
    (*regex)->memory = pcre2_general_context_create(take, give, &(*regex)->host);
    kn_text rewritten;
    kn_text_init(&rewritten, host);
    kn_status status =
        (*regex)->memory ? rewrite(pattern, length, &rewritten, error) : kn_fail_memory(error, 0);
    if (status == KN_OK) status = compile(*regex, &rewritten, error);
    kn_text_finish(&rewritten);
    if (status != KN_OK) kn_regex_destroy(host, regex);
    return status;
}

void kn_regex_destroy(const kn_host *host, kn_regex **regex) {
    if (!*regex) return;
    pcre2_code_free((*regex)->code);
    pcre2_general_context_free((*regex)->memory);
    kn_release(host, *regex);
    *regex = NULL;
}

kn_regex_search *kn_regex_search_create(const kn_host *host, const kn_regex *regex) {
    kn_regex_search *search = kn_allocate(host, 1, sizeof *search);
    if (!search) return NULL;
    *search = (kn_regex_search){.host = host,
                                .regex = regex,
                                .data = pcre2_match_data_create_from_pattern(regex->code, regex->memory),
                                .context = pcre2_match_context_create(regex->memory)};
    if (!search->data || !search->context) {
        kn_regex_search_destroy(host, &search);
        return NULL;
    }
    pcre2_set_match_limit(search->context, STEP_LIMIT);
    /* Without it, the machine's stack is used, of which little is taken. */
    search->stack = pcre2_jit_stack_create(1 << 15, STACK_BYTES, regex->memory);
    if (search->stack) pcre2_jit_stack_assign(search->context, NULL, search->stack);
    return search;
}

void kn_regex_search_destroy(const kn_host *host, kn_regex_search **search) {
    if (!*search) return;
    pcre2_match_data_free((*search)->data);
    pcre2_match_context_free((*search)->context);
    pcre2_jit_stack_free((*search)->stack);
    kn_release(host, *search);
    *search = NULL;
}

kn_status kn_regex_find(kn_regex_search *search, const char *text, size_t count, size_t from, size_t *begin,
                        size_t *end, bool *found) {
    *found = false;
    while (from < count) {
        uint32_t code;
        /* A match is within valid UTF-8. */
        if (from >= search->valid) {
            size_t length = kn_character_read(text + from, count - from, &code);
            if (code == KN_CHARACTER_INVALID) {
                from += length;
                continue;
            }
            search->valid = from;
            while (search->valid < count) {
                length = kn_character_read(text + search->valid, count - search->valid, &code);
                if (code == KN_CHARACTER_INVALID) break;
                search->valid += length;
            }
        }
        int result = pcre2_match(search->regex->code, (PCRE2_SPTR)text, search->valid, from,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, search->data, search->context);
        if (result == PCRE2_ERROR_JIT_STACKLIMIT)
            result = pcre2_match(search->regex->code, (PCRE2_SPTR)text, search->valid, from,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | PCRE2_NO_JIT, search->data,
                                 search->context);
        if (result == PCRE2_ERROR_NOMATCH) {
            from = search->valid;
            continue;
        }
        if (result < 0) return result == PCRE2_ERROR_NOMEMORY ? KN_ERROR_MEMORY : KN_ERROR_UNSUPPORTED;
        const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(search->data);
        *begin = bounds[0];
        *end = bounds[1];
        if (*end <= *begin || *begin < from) return KN_ERROR_UNSUPPORTED; /* by \K, which is refused */
        *found = true;
        return KN_OK;
    }
    return KN_OK;
}

#else

kn_status kn_regex_create(const kn_host *host, const char *pattern, size_t length, kn_regex **regex,
                          kn_error *error) {
    *regex = NULL;
    return kn_fail(error, KN_ERROR_UNSUPPORTED,
                   "a regular expression is needed, and this Koine was built without PCRE2; install "
                   "libpcre2-dev and build Koine again");
}

void kn_regex_destroy(const kn_host *host, kn_regex **regex) {}

kn_regex_search *kn_regex_search_create(const kn_host *host, const kn_regex *regex) {
    return NULL;
}

void kn_regex_search_destroy(const kn_host *host, kn_regex_search **search) {}

kn_status kn_regex_find(kn_regex_search *search, const char *text, size_t count, size_t from, size_t *begin,
                        size_t *end, bool *found) {
    return KN_ERROR_UNSUPPORTED;
}

#endif

/* ---- texts or expressions ------------------------------------------------------------------------ */

/* The first place of a text, or `count`. */
static size_t place_of(const kn_pattern *pattern, const char *text, size_t count, size_t from) {
    while (from + pattern->length <= count) {
        const char *at = memchr(text + from, pattern->text[0], count - from - pattern->length + 1);
        if (!at) break;
        from = (size_t)(at - text);
        if (memcmp(at, pattern->text, pattern->length) == 0) return from;
        from++;
    }
    return count;
}

kn_status kn_pattern_search(const kn_host *host, const kn_pattern *pattern, const char *text, size_t count,
                            kn_pattern_part *part, void *user) {
    kn_regex_search *search = NULL;
    kn_status status = KN_OK;
    if (!pattern->text && !(search = kn_regex_search_create(host, pattern->regex))) return KN_ERROR_MEMORY;
    for (size_t at = 0; at < count;) {
        size_t begin = count, end = count;
        bool found = false;
        if (pattern->text) {
            if (pattern->length) begin = place_of(pattern, text, count, at);
            found = begin < count;
            if (found) end = begin + pattern->length;
        } else {
            status = kn_regex_find(search, text, count, at, &begin, &end, &found);
            if (status != KN_OK) break;
            if (!found) begin = count;
        }
        if (begin > at) part(user, at, begin, false);
        if (!found) break;
        part(user, begin, end, true);
        at = end;
    }
    kn_regex_search_destroy(host, &search);
    return status;
}
