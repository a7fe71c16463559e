/* Assembles the compiler's input from a file of cl/ and its prelude.
 *
 * A line `#include "common/x.cl"` names a file by its path below cl/, as with `-I cl`; each file is included
 * once. `#line` directives keep the compiler's messages correct.
 *
 * Kernels are compiled as OpenCL C 1.2 without fast-math: the compiler may fuse a * b + c, which rounds once
 * instead of twice and gives the same bits in every run; nothing else is relaxed. A prelude (or a text that
 * is not a file) whose first line is `// language: CL3.0` is compiled as that language if the device supports
 * it. */
#include <stdio.h>
#include <string.h>

#include "device/device_private.h"
#include "device/embedded.h"

enum { INCLUDE_DEPTH = 16 };
static const uint64_t file_limit = 16u << 20;

typedef struct reader {
    const kn_context *context;
    kn_text *text;
    kn_map taken; /* files included so far */
    int depth;
} reader;

static const kn_embedded_file *embedded_find(const char *name) {
    unsigned long first = 0, end = kn_embedded_file_count;
    while (first < end) {
        unsigned long middle = first + (end - first) / 2;
        int order = strcmp(kn_embedded_files[middle].name, name);
        if (order == 0) return &kn_embedded_files[middle];
        if (order < 0)
            first = middle + 1;
        else
            end = middle;
    }
    return NULL;
}

static kn_status missing(const kn_context *context, const char *name, kn_error *error) {
    const char *names[512];
    size_t count = 0;
    for (unsigned long i = 0; i < kn_embedded_file_count && count < KN_COUNT_OF(names); i++)
        names[count++] = kn_embedded_files[i].name;
    const char *near = kn_nearest_word(name, names, count);
    return kn_fail(error, KN_ERROR_NOT_FOUND, "no kernel file is called \"%s\"%s%s%s", name,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static kn_status add_file(reader *state, const char *name, kn_error *error);

/* The text after `#word` if the line begins with it; NULL otherwise. The word may continue: `el` matches
 * `else` and `elif`. */
static const char *after_directive(const char *line, size_t length, const char *word) {
    const char *end = line + length, *at = line;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at++ != '#') return NULL;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    size_t bytes = strlen(word);
    return (size_t)(end - at) >= bytes && memcmp(at, word, bytes) == 0 ? at + bytes : NULL;
}

/* Gets the file name of `#include "name"`; false for other lines. Does not look for comments. */
static bool include_name(const char *line, size_t length, char *name, size_t bytes) {
    const char *end = line + length, *at = after_directive(line, length, "include");
    if (!at) return false;
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at == end || *at++ != '"') return false;
    const char *close = memchr(at, '"', (size_t)(end - at));
    if (!close || (size_t)(close - at) >= bytes) return false;
    memcpy(name, at, (size_t)(close - at));
    name[close - at] = '\0';
    return true;
}

static kn_status add_lines(reader *state, const char *name, const char *bytes, size_t count,
                           kn_error *error) {
    size_t number = 0;
    bool moved = false; /* after an included file */
    kn_text_format(state->text, "#line 1 \"%s\"\n", name);
    for (size_t start = 0; start < count;) {
        const char *newline = memchr(bytes + start, '\n', count - start);
        size_t length = newline ? (size_t)(newline - bytes) - start : count - start;
        char included[256];
        number++;
        if (include_name(bytes + start, length, included, sizeof included)) {
            kn_status status = add_file(state, included, error);
            if (status) {
                kn_fail_in(error, "%s line %zu", name, number);
                return status;
            }
            kn_text_format(state->text, "#line %zu \"%s\"\n", number + 1, name);
            moved = true;
        } else {
            kn_text_add_bytes(state->text, bytes + start, length);
            kn_text_add(state->text, "\n");
            /* A compiler skips #line directives in a skipped group but still counts its lines. */
            if (moved && (after_directive(bytes + start, length, "el") ||
                          after_directive(bytes + start, length, "endif")))
                kn_text_format(state->text, "#line %zu \"%s\"\n", number + 1, name);
        }
        start += length + 1;
    }
    return KN_OK;
}

static kn_status add_file(reader *state, const char *name, kn_error *error) {
    /* Names come from this library or from kernel files: relative paths that stay below the folder. */
    if (!name[0] || name[0] == '/' || strstr(name, "..") || strpbrk(name, "\\:\"\n"))
        return kn_fail(error, KN_ERROR_ARGUMENT, "\"%s\" is not a path below the kernel folder", name);
    if (kn_map_has(&state->taken, name, strlen(name))) return KN_OK;
    if (!kn_map_put_text(&state->taken, name, state)) return kn_fail_memory(error, strlen(name));
    if (state->depth >= INCLUDE_DEPTH)
        return kn_fail(error, KN_ERROR_FORMAT, "\"%s\" is included %d files deep; at most %d are allowed",
                       name, state->depth, (int)INCLUDE_DEPTH);
    const kn_host *host = &state->context->host;
    kn_status status;
    state->depth++;
    if (state->context->kernel_folder) {
        kn_text path;
        kn_text_init(&path, host);
        kn_text_format(&path, "%s/%s", state->context->kernel_folder, name);
        uint8_t *bytes = NULL;
        uint64_t count = 0;
        status = kn_text_failed(&path) ? kn_fail_memory(error, strlen(name))
                                       : kn_file_read(host, path.data, file_limit, &bytes, &count, error);
        if (!status) status = add_lines(state, name, (const char *)bytes, (size_t)count, error);
        kn_release(host, bytes);
        kn_text_finish(&path);
    } else {
        const kn_embedded_file *file = embedded_find(name);
        status = file ? add_lines(state, name, (const char *)file->bytes, file->size, error)
                      : missing(state->context, name, error);
    }
    state->depth--;
    return status;
}

uint64_t kn_kernels_hash(const kn_context *context) {
    const kn_host *host = &context->host;
    uint64_t hash = KN_HASH_START;
    for (unsigned long i = 0; i < kn_embedded_file_count; i++) {
        unsigned long long part = kn_embedded_files[i].hash;
        hash = kn_hash_text(hash, kn_embedded_files[i].name);
        if (context->kernel_folder) {
            kn_text path;
            kn_text_init(&path, host);
            kn_text_format(&path, "%s/%s", context->kernel_folder, kn_embedded_files[i].name);
            uint8_t *bytes = NULL;
            uint64_t count = 0;
            /* Unreadable files fail when they are needed. */
            if (!kn_text_failed(&path)) kn_file_read(host, path.data, file_limit, &bytes, &count, NULL);
            part = bytes ? kn_hash_bytes(KN_HASH_START, bytes, (size_t)count) : 0;
            kn_release(host, bytes);
            kn_text_finish(&path);
        }
        hash = kn_hash_bytes(hash, &part, sizeof part);
    }
    return hash;
}

/* The language that the first line of the text requests, as 120, 200 or 300; 0 if none. */
static int asked_language(const char *text) {
    static const char mark[] = "// language: CL";
    if (strncmp(text, mark, sizeof mark - 1) != 0) return 0;
    const char *number = text + sizeof mark - 1;
    if (!kn_is_digit(number[0]) || number[1] != '.' || !kn_is_digit(number[2])) return 0;
    return (number[0] - '0') * 100 + (number[2] - '0') * 10;
}

/* Sets options and language; `first` is the text whose first line may request a language, and `prelude` may
 * define KN_REGISTERS, for kernels whose work-items need many registers. */
static kn_status source_begin(const kn_context *context, const char *name, const char *first,
                              const char *prelude, kn_source *source, kn_error *error) {
    int language = asked_language(first);
    memset(source, 0, sizeof *source);
    if (language == 0) language = 120;
    if (language > 120 && !kn_device_speaks(&context->host, &context->found, language))
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "\"%s\" needs OpenCL C %d.%d, which %s does not support (%s)", name, language / 100,
                       language / 10 % 10, context->found.info.name, context->found.language);
    snprintf(source->options, sizeof source->options, "-cl-std=CL%d.%d", language / 100, language / 10 % 10);
    if (context->register_option && prelude && strstr(prelude, "#define KN_REGISTERS "))
        snprintf(source->options + strlen(source->options), sizeof source->options - strlen(source->options),
                 " %s", context->register_option);
    kn_text_init(&source->text, &context->host);
    return KN_OK;
}

static void add_prelude(kn_source *source, const char *prelude) {
    kn_text_add(&source->text, prelude);
    size_t length = strlen(prelude);
    if (length > 0 && prelude[length - 1] != '\n') kn_text_add(&source->text, "\n");
}

void kn_source_finish(kn_source *source) {
    kn_text_finish(&source->text);
}

kn_status kn_source_file(const kn_context *context, const char *file, const char *prelude, bool short_header,
                         kn_source *source, kn_error *error) {
    if (!prelude) prelude = "";
    kn_status status = source_begin(context, file, prelude, prelude, source, error);
    if (status) return status;
    reader state = {.context = context, .text = &source->text};
    kn_map_init(&state.taken, &context->host);
    if (short_header && asked_language(prelude) == 0) {
        strcat(source->options, " -D_OPENCL_H_"); /* Marks Clang's header as included */
        status = add_file(&state, "common/builtins.cl", error);
    }
    /* Generated code may call this function before the file begins. */
    if (!status && strstr(prelude, "kn_erf_")) status = add_file(&state, "common/erf.cl", error);
    if (!status) {
        add_prelude(source, prelude);
        status = add_file(&state, file, error);
    }
    kn_map_finish(&state.taken);
    if (!status && kn_text_failed(&source->text)) status = kn_fail_memory(error, source->text.capacity);
    if (status) kn_source_finish(source);
    return status;
}

kn_status kn_source_text(const kn_context *context, const char *name, const char *prelude, const char *text,
                         kn_source *source, kn_error *error) {
    kn_status status = source_begin(context, name, text, prelude, source, error);
    if (status) return status;
    add_prelude(source, prelude);
    char plain[128];
    size_t count = 0;
    for (; name[count] && count + 1 < sizeof plain; count++)
        plain[count] = strchr("\"\\\n", name[count]) ? '_' : name[count];
    plain[count] = '\0';
    kn_text_format(&source->text, "#line 1 \"%s\"\n", plain);
    kn_text_add(&source->text, text);
    kn_text_add(&source->text, "\n");
    if (!kn_text_failed(&source->text)) return KN_OK;
    kn_source_finish(source);
    return kn_fail_memory(error, strlen(text));
}
