/* --lora: adapters of linear layers. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lora.h"

static int misuse(const char *item, const char *expected) {
    return command_misuse("--lora has '%.80s'; expected %s", item, expected);
}

/* The number of "rank=16", above 0. */
static bool read_number(const char *text, double *number) {
    char *end = NULL;
    errno = 0;
    *number = strtod(text, &end);
    return end != text && !*end && !errno && isfinite(*number);
}

static int read_item(lora_options *lora, const char *item, bool *targets) {
    kn_adapter_params *params = &lora->params;
    const char *value = strchr(item, '=');
    const size_t length = value ? (size_t)(value++ - item) : strlen(item);
    double number = 0;
#define IS(word) (length == strlen(word) && !strncmp(item, word, length))
    if (!value && !IS("rslora") && *targets) { /* the next name of a list */
        snprintf(lora->targets + strlen(lora->targets), sizeof lora->targets - strlen(lora->targets), ",%s",
                 item);
        return EXIT_DONE;
    }
    *targets = IS("targets");
    if (IS("rslora") && !value) {
        params->rank_stabilized = true;
    } else if (*targets && value && *value) {
        snprintf(lora->targets, sizeof lora->targets, "%s", value);
    } else if (IS("rank")) {
        if (!value || !read_number(value, &number) || !(number >= 1 && number <= 65536) ||
            number != floor(number))
            return misuse(item, "rank=N with N from 1 to 65536");
        params->rank = (int64_t)number;
    } else if (IS("alpha")) {
        if (!value || !read_number(value, &params->alpha) || !(params->alpha > 0))
            return misuse(item, "alpha=A with a number above 0");
    } else if (IS("dropout")) {
        if (!value || !read_number(value, &params->dropout) || !(params->dropout >= 0 && params->dropout < 1))
            return misuse(item, "dropout=P with a number of at least 0 and below 1");
    } else {
        return misuse(item, "rank=N, alpha=A, targets=NAMES, dropout=P or rslora, separated by commas");
    }
#undef IS
    return EXIT_DONE;
}

int lora_check(const char *text, lora_options *lora) {
    bool targets = false;
    int status = EXIT_DONE;
    kn_adapter_params_init(&lora->params);
    if (!text) return EXIT_DONE;
    lora->given = true;
    if (strlen(text) >= sizeof lora->targets) return command_misuse("--lora is too long");
    for (const char *at = text; status == EXIT_DONE && *at;) {
        char item[sizeof lora->targets];
        const size_t length = strcspn(at, ",");
        snprintf(item, sizeof item, "%.*s", (int)length, at);
        status = read_item(lora, item, &targets);
        at += length + (at[length] == ',');
    }
    if (lora->targets[0]) lora->params.targets = lora->targets;
    return status;
}

/* Whether the path is a folder, which has its vocabulary in separate files. */
static bool is_folder(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

const char *model_tokenizer(const char *source) {
    return path_ends(source, ".gguf", true) || is_folder(source) ? source : NULL;
}
