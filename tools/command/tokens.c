/* koine tokens: shows or counts the tokens of a text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

typedef struct tokens_run {
    const char *text; /* --text */
    bool count, ids, no_ends, plain, json, quiet;
    kn_vocabulary *words;
    char *bytes; /* the text */
    size_t byte_count;
    int32_t *tokens;
    size_t token_count;
} tokens_run;

/* Reads a whole file; "-": standard input. */
static bool read_file(tokens_run *run, const char *path) {
    FILE *file = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!file) return command_error("cannot read '%s': %s", path, strerror(errno));
    size_t room = 0, got;
    do {
        if (run->byte_count == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(run->bytes, room);
            if (!more) {
                fclose(file);
                return command_error("out of memory for the text of '%s'", path);
            }
            run->bytes = more;
        }
        got = fread(run->bytes + run->byte_count, 1, room - run->byte_count, file);
        run->byte_count += got;
    } while (got);
    bool fine = !ferror(file) || command_error("cannot read '%s'", path);
    if (file != stdin) fclose(file);
    return fine;
}

static bool encode(tokens_run *run) {
    unsigned flags = (run->no_ends ? 0u : KN_TEXT_ADD_ENDS) | (run->plain ? 0u : KN_TEXT_READ_SPECIAL);
    size_t room = run->byte_count + 64;
    for (;;) {
        int32_t *more = realloc(run->tokens, room * sizeof *more);
        if (!more) return command_error("out of memory for the tokens");
        run->tokens = more;
        kn_status status = kn_vocabulary_encode(run->words, run->bytes, run->byte_count, flags, run->tokens,
                                                room, &run->token_count);
        if (status == KN_ERROR_NOT_FOUND)
            return command_error(
                "the text has a character that is not in the vocabulary, which has no token for "
                "unknown text");
        if (status == KN_ERROR_ARGUMENT) return command_error("the text is longer than 1 GiB");
        if (status != KN_OK) return command_error("cannot split the text: %s", kn_status_message(status));
        if (run->token_count <= room) return true;
        room = run->token_count;
    }
}

/* The text of a token; what is not printable as escapes. */
static void print_piece(const tokens_run *run, int32_t token) {
    char text[512];
    size_t bytes = 0;
    kn_vocabulary_decode(run->words, &token, 1, 0, NULL, text, sizeof text - 1, &bytes);
    if (bytes > sizeof text - 1) bytes = sizeof text - 1;
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '\\')
            printf(text[i] == '\n'   ? "\\n"
                   : text[i] == '\t' ? "\\t"
                   : text[i] == '\\' ? "\\\\"
                                     : "\\x%02x",
                   (unsigned char)text[i]);
        else
            putchar(text[i]);
}

static void print_tokens(const tokens_run *run, const char *path) {
    if (run->json) {
        printf("{\"text\": ");
        json_text(stdout, path);
        printf(", \"bytes\": %zu, \"count\": %zu", run->byte_count, run->token_count);
        if (!run->count) printf(", \"tokens\": [");
        for (size_t i = 0; i < run->token_count && !run->count; i++)
            printf("%s%d", i ? ", " : "", (int)run->tokens[i]);
        printf(run->count ? "}\n" : "]}\n");
        return;
    }
    if (run->count) {
        printf("%zu\n", run->token_count);
        return;
    }
    for (size_t i = 0; i < run->token_count; i++) {
        if (run->ids) {
            printf("%d\n", (int)run->tokens[i]);
            continue;
        }
        printf("%7d  ", (int)run->tokens[i]);
        print_piece(run, run->tokens[i]);
        putchar('\n');
    }
}

static int run(int count, char **arguments) {
    tokens_run run = {0};
    const option options[] = {HEADING("text"),
                              {"text", OPTION_TEXT, "TEXT", "this text instead of a file", &run.text},
                              {"no-ends", OPTION_FLAG, NULL,
                               "without the tokens that models expect before and after a text", &run.no_ends},
                              {"plain", OPTION_FLAG, NULL,
                               "treat <|im_end|> and other special tokens in the text as ordinary text",
                               &run.plain},
                              HEADING("output"),
                              {"count", OPTION_FLAG, NULL, "print only the number of tokens", &run.count},
                              {"ids", OPTION_FLAG, NULL, "print only the ids, one per line", &run.ids},
                              HEADING("messages"),
                              JSON_OPTION(run.json),
                              QUIET_OPTION(run.quiet),
                              {.name = NULL}};
    const char *words[2];
    int word_count, status;
    if (!options_read(&command_tokens, options, count, arguments, words, &word_count, 2, &status))
        return status;
    if (!word_count)
        return command_misuse("tokens needs a vocabulary: a folder, a tokenizer.json or a GGUF file");
    if (run.text && word_count > 1)
        return command_misuse("--text and the file '%s' are both given; expected one of them", words[1]);
    if (run.count && run.ids) return command_misuse("--count and --ids exclude each other");
    common_options common = {.json = run.json, .quiet = run.quiet};
    messages_setup(&common);
    const char *path = run.text ? "" : word_count > 1 ? words[1] : "-";
    run.words = kn_vocabulary_open(words[0], NULL);
    bool fine = kn_vocabulary_status(run.words) == KN_OK ||
                command_error("%s", run.words ? kn_vocabulary_error(run.words) : "out of memory");
    if (fine && !run.json) command_info("%s: %s", words[0], kn_vocabulary_summary(run.words));
    if (fine && run.text) {
        run.byte_count = strlen(run.text);
        run.bytes = malloc(run.byte_count + 1);
        if (run.bytes)
            memcpy(run.bytes, run.text, run.byte_count);
        else
            fine = command_error("out of memory for the text");
    } else if (fine) {
        fine = read_file(&run, path);
    }
    fine = fine && encode(&run);
    if (fine) print_tokens(&run, path);
    kn_vocabulary_destroy(&run.words);
    free(run.bytes);
    free(run.tokens);
    return fine ? EXIT_DONE : EXIT_FAILED;
}

const command command_tokens = {
    "tokens",
    "show or count the tokens of a text",
    "FOLDER|FILE [TEXT FILE] [--OPTION …]",
    "text count ids no-ends plain json",
    "koine tokens tokenizer.json --text 'Hello, world'\n"
    "koine tokens tokenizer.json book.txt --count",
    "Shows how the vocabulary of a language model splits a text: a token per line, its id and its text.\n"
    "The vocabulary is a folder with a tokenizer.json, that file, or a GGUF file. Without a text file,\n"
    "reads standard input. Tokens that the model expects around a text, such as [CLS], are included.",
    run};
