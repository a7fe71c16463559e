/* Compares the arguments of a step with the parameters of its kernel. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph_private.h"
#include "graph/signature.h"

/* The words that follow the current ones. */
typedef struct following {
    const char *words, *end;
    const struct following *next;
} following;

/* The attempt that matched most arguments, for the message. */
typedef struct matching {
    const kn_step *step;
    int furthest;
    const char *expected; /* the parameter there; NULL: the end of the list */
} matching;

static const char *kind_name(char kind) {
    switch (kind) {
    case 'p':
        return "memory";
    case 'l':
        return "local memory";
    case 'i':
        return "int";
    case 'x':
        return "KN_INDEX";
    case 'u':
        return "uint";
    case 'f':
        return "float";
    }
    return "number";
}

static char kind_of(const kn_argument *argument) {
    static const char kinds[] = {
        [KN_ARGUMENT_VALUE] = 'p', [KN_ARGUMENT_SCRATCH] = 'p', [KN_ARGUMENT_INT] = 'i',
        [KN_ARGUMENT_INDEX] = 'x', [KN_ARGUMENT_FLOAT] = 'f',   [KN_ARGUMENT_UINT] = 'u',
        [KN_ARGUMENT_LOCAL] = 'l', [KN_ARGUMENT_PRESENT] = 'u'};
    return kinds[argument->kind];
}

/* Skips a # or digits. */
static const char *skip_number(const char *at, const char *end) {
    if (at < end && *at == '#') return at + 1;
    while (at < end && isdigit((unsigned char)*at))
        at++;
    return at;
}

/* A # on either side matches any number on the other. */
static bool same_name(const char *parameter, size_t length, const char *name) {
    const char *end = parameter + length, *name_end = name + strlen(name);
    while (parameter < end && name < name_end) {
        if (*parameter != '#' && *name != '#') {
            if (*parameter++ != *name++) return false;
            continue;
        }
        const char *after = skip_number(parameter, end), *name_after = skip_number(name, name_end);
        if (after == parameter || name_after == name) return false;
        parameter = after;
        name = name_after;
    }
    return parameter == end && name == name_end;
}

static bool takes(const char *word, size_t length, const kn_argument *argument) {
    char kind = kind_of(argument);
    if (*word != kind && !(*word == 'n' && kind != 'p' && kind != 'l')) return false;
    return !argument->name || same_name(word + 2, length - 2, argument->name);
}

static bool match(matching *all, const char *words, const char *end, const following *next, int at);

static const char *closing(const char *at) {
    for (int depth = 0;; at++) {
        depth += *at == '{' ? 1 : *at == '}' ? -1 : 0;
        if (depth == 0) return at;
    }
}

/* Whether $NAME is the macro that the step generated for the argument. */
static bool is_generated(const kn_argument *argument, const char *words) {
    static const char ending[] = "_PARAMETERS{";
    size_t length = argument->macro ? strlen(argument->macro) : 0;
    return length && !strncmp(words + 1, argument->macro, length) &&
           !strncmp(words + 1 + length, ending, sizeof ending - 1);
}

/* $NAME{…|…}: matches the arguments generated for it, or one of the macro's definitions. */
static bool match_macro(matching *all, const char *words, const following *rest, int at) {
    const char *open = strchr(words, '{'), *close = closing(open);
    int made = at;
    while (made < all->step->argument_count && is_generated(&all->step->arguments[made], words))
        made++;
    if (made > at) return match(all, rest->words, rest->end, rest->next, made);
    for (const char *from = open + 1, *to = from;; to++) {
        if (*to == '{') to = closing(to);
        if (*to != '|' && to != close) continue;
        if (match(all, from, to, rest, at)) return true;
        if (to == close) return false;
        from = to + 1;
    }
}

/* Whether the words, and those that follow them, match all arguments from `at` on. */
static bool match(matching *all, const char *words, const char *end, const following *next, int at) {
    const kn_step *step = all->step;
    while (words < end && *words == ' ')
        words++;
    if (words == end) {
        if (next) return match(all, next->words, next->end, next->next, at);
        if (at >= all->furthest && at < step->argument_count) {
            all->furthest = at;
            all->expected = NULL;
        }
        return at == step->argument_count;
    }
    if (*words == '$' || *words == '*') {
        const char *close = closing(strchr(words, '{'));
        const following rest = {close + 1, end, next}, again = {words, end, next};
        if (*words == '$') return match_macro(all, words, &rest, at);
        /* Repeat while it matches; each repetition consumes an argument. */
        return (at < step->argument_count && !step->arguments[at].macro &&
                match(all, strchr(words, '{') + 1, close, &again, at)) ||
               match(all, rest.words, rest.end, rest.next, at);
    }
    size_t length = strcspn(words, " |}");
    if (at < step->argument_count && !step->arguments[at].macro && takes(words, length, &step->arguments[at]))
        return match(all, words + length, end, next, at + 1);
    if (at >= all->furthest) {
        all->furthest = at;
        all->expected = words;
    }
    return false;
}

static kn_status fail_argument(const matching *all, kn_error *error) {
    const kn_step *step = all->step;
    const char *word = all->expected;
    char wanted[96] = "no more arguments", given[96] = "nothing";
    if (word)
        snprintf(wanted, sizeof wanted, "%s '%.*s'", kind_name(*word), (int)strcspn(word + 2, " |}"),
                 word + 2);
    if (all->furthest < step->argument_count) {
        const kn_argument *argument = &step->arguments[all->furthest];
        snprintf(given, sizeof given, argument->name ? "%s '%.60s'" : "%s", kind_name(kind_of(argument)),
                 argument->name);
    }
    return kn_fail(error, KN_ERROR_INTERNAL, "%s: argument %d of the kernel %s of %s is %s; expected %s",
                   step->label, all->furthest + 1, step->kernel, step->file, given, wanted);
}

kn_status kn_step_check_arguments(const kn_step *step, kn_error *error) {
    matching all = {.step = step};
    bool known = false;
    for (const kn_signature *row = kn_signatures; row->file; row++) {
        if (strcmp(row->kernel, step->kernel) || strcmp(row->file, step->file)) continue;
        known = true;
        if (match(&all, row->parameters, row->parameters + strlen(row->parameters), NULL, 0)) return KN_OK;
    }
    if (known) return fail_argument(&all, error);
    return kn_fail(error, KN_ERROR_INTERNAL, "%s: there is no kernel %s in %s", step->label, step->kernel,
                   step->file);
}
