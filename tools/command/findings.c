/* Prints findings as text or JSON. */
#include <stdarg.h>
#include <stdio.h>

#include "findings.h"

static void print_json_text(const char *text) {
    putchar('"');
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    putchar('"');
}

void finding_add(findings *found, finding_kind kind, const char *check, const char *fix, const char *format,
                 ...) {
    static const char *const words[] = {"ok", "hint", "problem"};
    char what[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    found->hints += kind == FINDING_HINT;
    found->problems += kind == FINDING_PROBLEM;
    if (found->json) {
        printf("{\"kind\": \"%s\", \"check\": \"%s\", \"what\": ", words[kind], check);
        print_json_text(what);
        fputs(", \"fix\": ", stdout);
        if (fix[0])
            print_json_text(fix);
        else
            fputs("null", stdout);
        puts("}");
        fflush(stdout);
        return;
    }
    printf("%-8s %s: ", words[kind], check);
    for (const char *at = what; *at; at++) { /* a compiler's log has several lines */
        putchar(*at);
        if (*at == '\n' && at[1]) fputs("           ", stdout);
    }
    putchar('\n');
    if (fix[0]) printf("           fix: %s\n", fix);
    fflush(stdout); /* flush: the next check may crash the program */
}
