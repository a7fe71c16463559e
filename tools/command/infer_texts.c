/* Texts as inputs of koine infer: read, split into tokens, and padded to a common length. */
#include "infer_texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

/* The least window, and the limit of texts. */
enum { MIN_WINDOW = 16, MAX_TEXTS = 1 << 24 };

typedef struct texts {
    char **items; /* (count) */
    size_t count, room;
    int32_t *tokens;  /* (count,window) */
    int32_t *lengths; /* (count) */
    int64_t window;   /* of the model, then of the longest text */
} texts;

static bool add_text(texts *all, const char *text, size_t bytes) {
    if (all->count == MAX_TEXTS) return command_error("more than %d texts", MAX_TEXTS);
    if (all->count == all->room) {
        const size_t room = all->room ? 2 * all->room : 64;
        char **more = realloc(all->items, room * sizeof *more);
        if (!more) return command_error("out of memory for %zu texts", room);
        all->items = more;
        all->room = room;
    }
    char *own = malloc(bytes + 1);
    if (!own) return command_error("out of memory for a text");
    memcpy(own, text, bytes);
    own[bytes] = '\0';
    all->items[all->count++] = own;
    return true;
}

static bool add_lines(texts *all, const char *path) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool fine = true;
    FILE *file = fopen(path, "r");
    if (!file) return command_error("cannot open \"%s\": %s", path, strerror(errno));
    while (fine && (length = getline(&line, &room, file)) >= 0) {
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            length--;
        fine = add_text(all, line, (size_t)length);
    }
    if (fine && ferror(file)) fine = command_error("cannot read \"%s\"", path);
    free(line);
    fclose(file);
    return fine;
}

bool texts_fit(const kn_model *model, int64_t *window) {
    const kn_value *x = kn_model_input_at(model, 0), *length = kn_model_input_at(model, 1);
    if (kn_model_input_count(model) != 2 || strcmp(kn_value_name(x), "x") != 0 || kn_value_rank(x) != 2 ||
        strcmp(kn_value_name(length), "length") != 0 || kn_value_rank(kn_model_output_at(model, 0)) != 2)
        return false;
    *window = kn_value_dimension(x, 1);
    return *window > 0;
}

kn_status texts_encode(const kn_vocabulary *words, const char *text, size_t bytes, int32_t *tokens,
                       int64_t window, size_t *length) {
    return kn_vocabulary_encode(words, text, bytes, KN_TEXT_ADD_ENDS | KN_TEXT_READ_SPECIAL | KN_TEXT_CUT,
                                tokens, (size_t)window, length);
}

int64_t texts_window(int64_t longest, int64_t window) {
    int64_t rounded = MIN_WINDOW;
    while (rounded < longest)
        rounded *= 2;
    return rounded < window ? rounded : window;
}

void texts_shorten(int32_t *tokens, size_t count, int64_t window, int64_t shorter) {
    for (size_t i = 1; i < count; i++)
        memmove(tokens + i * (size_t)shorter, tokens + i * (size_t)window, (size_t)shorter * sizeof *tokens);
}

/* The same, reporting an error. */
static bool check_model(const kn_model *model, const char *path, int64_t *window) {
    return texts_fit(model, window) ||
           command_error(
               "'%s' does not compute vectors of texts; expected an encoder in a folder with modules.json, "
               "as sentence-transformers saves it",
               path);
}

/* Splits all texts; a row has room for the model's window. */
static bool encode(texts *all, const kn_vocabulary *words) {
    all->tokens = calloc(all->count * (size_t)all->window + 1, sizeof *all->tokens);
    all->lengths = calloc(all->count + 1, sizeof *all->lengths);
    if (!all->tokens || !all->lengths) return command_error("out of memory for %zu texts", all->count);
    for (size_t i = 0; i < all->count; i++) {
        size_t length = 0;
        kn_status status = texts_encode(words, all->items[i], strlen(all->items[i]),
                                        all->tokens + i * (size_t)all->window, all->window, &length);
        if (status != KN_OK) return command_error("text %zu: %s", i + 1, kn_status_message(status));
        if (!length) return command_error("text %zu has no tokens", i + 1);
        all->lengths[i] = (int32_t)length;
    }
    return true;
}

/* Makes rows as short as the longest text allows. */
static void shorten(texts *all) {
    int32_t longest = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->lengths[i] > longest) longest = all->lengths[i];
    const int64_t window = texts_window(longest, all->window);
    texts_shorten(all->tokens, all->count, all->window, window);
    all->window = window;
}

/* Opens the model for the window of the texts. */
static bool reopen(const char *path, kn_model **model, int64_t window) {
    failure failed;
    if (kn_value_dimension(kn_model_input_at(*model, 0), 1) == window) return true;
    kn_model *made = model_open_window(path, window, &failed);
    if (!made) return failure_print(&failed);
    kn_model_destroy(model);
    *model = made;
    return true;
}

/* Moves the arrays to the inputs. */
static bool give(texts *all, const kn_model *model, infer_input inputs[2]) {
    const int64_t count = (int64_t)all->count;
    for (int i = 0; i < 2; i++)
        inputs[i] = (infer_input){.model = model, .value = kn_model_input_at(model, (size_t)i)};
    inputs[0].info = (kn_tensor_info){KN_INT32, 2, {count, all->window}};
    inputs[1].info = (kn_tensor_info){KN_INT32, 1, {count}};
    inputs[0].data = (char *)all->tokens;
    inputs[1].data = (char *)all->lengths;
    all->tokens = all->lengths = NULL;
    for (int i = 0; i < 2; i++)
        inputs[i].names = calloc(all->count + 1, sizeof *inputs[i].names);
    return (inputs[0].names && inputs[1].names) || command_error("out of memory for %zu texts", all->count);
}

bool texts_read(const char *path, kn_model **model, const char *text, const char *const *files, int count,
                infer_input inputs[2]) {
    texts all = {.items = NULL};
    kn_vocabulary *words = NULL;
    bool fine = check_model(*model, path, &all.window) && (!text || add_text(&all, text, strlen(text)));
    for (int i = 0; i < count && fine; i++)
        fine = add_lines(&all, files[i]);
    if (fine && !all.count) fine = command_error("the files have no lines");
    if (fine) {
        words = kn_vocabulary_open(path, NULL);
        if (kn_vocabulary_status(words) != KN_OK)
            fine = command_error("%s", words ? kn_vocabulary_error(words) : "out of memory");
    }
    fine = fine && encode(&all, words);
    if (fine) shorten(&all);
    fine = fine && reopen(path, model, all.window) && give(&all, *model, inputs);
    kn_vocabulary_destroy(&words);
    for (size_t i = 0; i < all.count; i++)
        free(all.items[i]);
    free(all.items);
    free(all.tokens);
    free(all.lengths);
    return fine;
}
