/* koine generate: generates text with a language model, or with a model trained on text. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "batch.h"
#include "chat.h"
#include "training.h"

/* Rows of a prompt that are read at once, at least and at most. */
enum { MAX_TOKENS = 1 << 20, MIN_ROWS = 8, MAX_ROWS = 256 };

typedef struct generate_run {
    common_options common;
    const char *prompt;
    const char *system, *stop;  /* of a conversation; where the text ends */
    bool converse;              /* --chat */
    const char *adapter;        /* NULL: none */
    uint64_t length, positions; /* positions 0: the model's */
    kn_draw_params drawing;
    chat chat;
    char *answer; /* the generated text: (answer_length), of which `printed` bytes were printed */
    size_t answer_length, answer_room, printed;
    bool stopped;
    kn_model *model;
    kn_context *context;
    kn_states *states;
    kn_session *session;
    kn_value *input, *output;
    kn_vocabulary *words;    /* of a language model; NULL: `vocabulary` */
    kn_decoding decoding;    /* the state of its text so far */
    const char *vocabulary;  /* of a model trained on text; "": bytes */
    uint32_t *begins;        /* byte offset of each token in the vocabulary, and of its end */
    uint32_t between;        /* bytes of the separator: 1 if tokens may have several characters */
    int token_count;         /* 256 for bytes */
    int64_t window, answers; /* the input length, and the vocabulary size */
    int32_t *text;           /* the ids of all tokens so far */
    uint64_t used;
    /* Stateful sessions for pieces of `rows` tokens and for one token, or NULL; and the number of tokens
     * read. */
    kn_session *piece, *single;
    int64_t rows;
    uint64_t kept;
    bool on;       /* the state remains valid beyond the window */
    int32_t *x;    /* (1,window) */
    float *logits; /* (answers), or (1,window,answers) without a stateful session */
} generate_run;

/* ---- tokens ----------------------------------------------------------------------------------------- */

static bool open_words(generate_run *run, const char *file) {
    struct stat about;
    const bool own = path_ends(file, ".gguf", false) || (stat(file, &about) == 0 && S_ISDIR(about.st_mode));
    run->words = own ? kn_vocabulary_open(file, NULL) : NULL;
    if (own && kn_vocabulary_status(run->words) != KN_OK)
        return command_error("%s", run->words ? kn_vocabulary_error(run->words) : "out of memory");
    run->token_count = kn_vocabulary_size(run->words);
    return own || command_error(
                      "'%s' has no vocabulary: expected a folder, a GGUF file, or a model trained on text, "
                      "as by koine train char-rnn --data text:FILE",
                      file);
}

static bool read_vocabulary(generate_run *run, const char *file) {
    run->vocabulary = kn_model_metadata(run->model, "data.vocabulary");
    if (!run->vocabulary) return open_words(run, file);
    if (!run->vocabulary[0]) {
        run->token_count = 256;
        return true;
    }
    size_t bytes = strlen(run->vocabulary);
    run->begins = malloc((bytes + 1) * sizeof *run->begins);
    if (!run->begins || bytes > 4 * MAX_TOKENS) return command_error("out of memory");
    run->between = tokens_are_joined(run->vocabulary);
    for (size_t i = 0; i < bytes; i++)
        if (run->between ? i > 0 && run->vocabulary[i - 1] == 0x1e
                         : ((unsigned char)run->vocabulary[i] & 0xc0) != 0x80)
            run->begins[run->token_count++] = (uint32_t)i;
    run->begins[run->token_count] = (uint32_t)bytes + run->between;
    return true;
}

/* ---- the generated text ------------------------------------------------------------------------------- */

/* How many bytes at the end of the answer may be the beginning of the stop text. */
static size_t may_stop(const generate_run *run) {
    size_t most = run->stop ? strlen(run->stop) : 0;
    if (most > run->answer_length) most = run->answer_length;
    while (most > 0 && memcmp(run->answer + run->answer_length - most, run->stop, most) != 0)
        most--;
    return most;
}

/* Prints what cannot become part of the stop text; at the end, everything. */
static void print_answer(generate_run *run, bool end) {
    const size_t most = run->answer_length - (end ? 0 : may_stop(run));
    if (run->common.json || most <= run->printed) return;
    fwrite(run->answer + run->printed, 1, most - run->printed, stdout);
    run->printed = most;
}

static bool add_answer(generate_run *run, const char *text, size_t bytes) {
    if (run->answer_length + bytes + 1 > run->answer_room) {
        const size_t room = 2 * (run->answer_length + bytes + 1);
        char *more = realloc(run->answer, room);
        if (!more) return command_error("out of memory for the text");
        run->answer = more;
        run->answer_room = room;
    }
    memcpy(run->answer + run->answer_length, text, bytes);
    run->answer_length += bytes;
    run->answer[run->answer_length] = '\0';
    const size_t stop = run->stop ? strlen(run->stop) : 0;
    for (size_t at = 0; stop && at + stop <= run->answer_length; at++)
        if (memcmp(run->answer + at, run->stop, stop) == 0) {
            run->answer_length = at;
            run->answer[at] = '\0';
            run->stopped = true;
            break;
        }
    return true;
}

/* Half a character is kept back until the next token completes it. */
static bool write_token(generate_run *run, int32_t number) {
    char text[1024] = {(char)number};
    size_t bytes = 1;
    if (run->words) {
        kn_vocabulary_decode(run->words, &number, 1, KN_TEXT_SKIP_SPECIAL, &run->decoding, text, sizeof text,
                             &bytes);
        return add_answer(run, text, bytes < sizeof text ? bytes : sizeof text);
    }
    if (!run->begins) return add_answer(run, text, 1);
    return add_answer(run, run->vocabulary + run->begins[number],
                      run->begins[number + 1] - run->begins[number] - run->between);
}

/* ---- the prompt ---------------------------------------------------------------------------------------- */

/* The tokens of the prompt of a language model, after which its text continues. */
static bool read_words(generate_run *run) {
    const unsigned flags = KN_TEXT_ADD_ENDS | KN_TEXT_READ_SPECIAL;
    const size_t bytes = strlen(run->prompt);
    size_t count = 0, ignored;
    char text[1024];
    kn_status status = kn_vocabulary_encode(run->words, run->prompt, bytes, flags, NULL, 0, &count);
    run->text = malloc((count + 1 + (size_t)run->length) * sizeof *run->text);
    if (!run->text) return command_error("out of memory for the text");
    if (status == KN_OK)
        status = kn_vocabulary_encode(run->words, run->prompt, bytes, flags, run->text, count, &count);
    if (status != KN_OK) return command_error("the prompt: %s", kn_status_message(status));
    const int32_t begin = kn_vocabulary_role(run->words, KN_TEXT_ROLE_BEGIN);
    if (!count) run->text[count++] = begin < 0 ? kn_vocabulary_role(run->words, KN_TEXT_ROLE_END) : begin;
    for (size_t i = 0; i < count; i++)
        if (run->text[i] < 0 || run->text[i] >= run->answers)
            return command_error("the prompt has the token %d, but the model has only %lld",
                                 (int)run->text[i], (long long)run->answers);
    run->used = count;
    run->decoding.size = sizeof run->decoding;
    return kn_vocabulary_decode(run->words, run->text + count - 1, 1, 0, &run->decoding, text, sizeof text,
                                &ignored) == KN_OK ||
           command_error("the prompt cannot be decoded");
}

static bool read_prompt(generate_run *run) {
    if (run->words) return read_words(run);
    run->text = malloc((strlen(run->prompt) + (size_t)run->length + 1) * sizeof *run->text);
    if (!run->text) return command_error("out of memory for the text");
    size_t count, bytes;
    kn_status status = kn_text_encode(NULL, run->vocabulary, run->prompt, run->text, &count, &bytes);
    run->used = count;
    if (status == KN_OK) return true;
    const char *at = run->prompt + bytes;
    if (status != KN_ERROR_NOT_FOUND) return command_error("the prompt: %s", kn_status_message(status));
    return command_error(
        "the prompt has '%.*s…', which is not a token of the text that the model was trained on",
        (int)strcspn(at, "\n") < 12 ? (int)strcspn(at, "\n") : 12, at);
}

/* ---- generation ---------------------------------------------------------------------------------- */

/* A session for incremental decoding of `rows` tokens at once, which returns the logits of the last; NULL if
 * the model does not support it. */
static kn_session *open_step(const generate_run *run, int64_t rows, const kn_session_params *params) {
    kn_value *output;
    kn_graph *graph = kn_model_step_last(run->model, rows, &output);
    if (!graph) return NULL;
    kn_session *session = kn_session_create(run->context, &output, 1, params);
    kn_graph_destroy(&graph);
    if (kn_session_status(session) != KN_OK) kn_session_destroy(&session);
    return session;
}

static bool open_session(generate_run *run) {
    kn_session_params params;
    kn_session_params_init(&params);
    run->context = context_open(&run->common);
    if (!run->context || !devices_join(run->context, &run->common, run->model)) return false;
    params.states = run->states = kn_states_create(run->context, 1);
    arithmetic_apply(&run->common.arithmetic, &params);
    run->single = open_step(run, 1, &params);
    for (run->rows = MIN_ROWS; run->rows < MAX_ROWS && (uint64_t)run->rows < run->used;)
        run->rows *= 2;
    if (run->rows > run->window) run->rows = run->window;
    run->piece = run->single ? open_step(run, run->rows, &params) : NULL;
    run->on = kn_model_can_stream(run->model);
    if (!run->piece) {
        kn_session_destroy(&run->single);
        run->session = kn_session_create(run->context, &run->output, 1, &params);
        if (kn_session_status(run->session) != KN_OK)
            return session_fail(run->session, kn_session_status(run->session));
    }
    run->logits = malloc((size_t)(run->piece ? 1 : run->window) * (size_t)run->answers * sizeof *run->logits);
    if (!run->logits) return command_error("out of memory for the logits");
    if (kn_model_load(run->model, NULL, run->states, NULL, NULL) == KN_OK &&
        (!run->adapter || kn_model_load_adapter(run->model, run->adapter, run->states) == KN_OK))
        return true;
    return command_error("%s", kn_model_error(run->model));
}

/* x is (1,window) and the output (1,window,answers): the next token's logits at each position. */
static bool measure(generate_run *run, const char *file) {
    run->input = kn_model_input_at(run->model, 0);
    run->output = kn_model_output_at(run->model, 0);
    bool fits = kn_model_input_count(run->model) == 1 && kn_value_dtype(run->input) == KN_INT32 &&
                kn_value_rank(run->input) == 2 && kn_value_rank(run->output) == 3;
    if (fits) {
        run->window = kn_value_dimension(run->input, 1);
        run->answers = kn_value_dimension(run->output, 2);
        fits = run->window > 0 && run->answers >= run->token_count &&
               kn_value_dimension(run->output, 1) == run->window && run->window < INT32_MAX / run->answers;
    }
    if (!fits)
        return command_error("'%s' cannot generate text: expected one input of (batch,length) tokens and an "
                             "output of (batch,length,%d) for the next token",
                             file, run->token_count);
    run->x = calloc((size_t)run->window, sizeof *run->x);
    return run->x || command_error("out of memory for the text");
}

/* Reads `rows` tokens of x, of which `count` are valid, the first at position `start`; sets `results` rows of
 * logits. */
static bool read_tokens(generate_run *run, kn_session *session, const int32_t *x, int64_t rows, int32_t count,
                        int32_t start, int64_t results) {
    kn_feed feeds[3] = {{kn_value_name(run->input), x, (size_t)rows * sizeof *x},
                        {"step.start", &start, sizeof start},
                        {"step.count", &count, sizeof count}};
    kn_fetch fetch = {kn_value_name(run->output), run->logits,
                      (size_t)(results * run->answers) * sizeof *run->logits};
    kn_status status = kn_session_run(session, feeds, session == run->session ? 1 : 3, &fetch, 1);
    return status == KN_OK || session_fail(session, status);
}

/* Reads tokens from `begin` on, the first at position `start`: in pieces, and one by one where a piece with
 * its padding would not fit in the window. */
static bool read_pieces(generate_run *run, uint64_t begin, uint64_t start) {
    while (begin < run->used) {
        uint64_t left = run->used - begin, rows = (uint64_t)run->rows;
        const bool fits = left > 1 && (run->on || start + rows <= (uint64_t)run->window);
        const uint64_t count = !fits ? 1 : left < rows ? left : rows;
        memset(run->x, 0, (size_t)rows * sizeof *run->x);
        memcpy(run->x, run->text + begin, (size_t)count * sizeof *run->x);
        if (!read_tokens(run, fits ? run->piece : run->single, run->x, fits ? run->rows : 1, (int32_t)count,
                         (int32_t)start, 1))
            return false;
        begin += count;
        start += count;
    }
    run->kept = run->used;
    return true;
}

/* Gets the next token. The model is causal: later tokens in the window do not affect earlier ones. While the
 * window has room, or the state stays valid beyond it, a stateful model reads only new tokens. */
static bool next_token(generate_run *run, int32_t *number) {
    const uint64_t window = (uint64_t)run->window, seen = run->used < window ? run->used : window;
    const float *logits = run->logits;
    if (run->piece) {
        const bool more = run->kept > 0 && (run->on || run->used <= window);
        if (!read_pieces(run, more ? run->kept : run->used - seen, more ? run->kept : 0)) return false;
    } else {
        memcpy(run->x, run->text + run->used - seen, (size_t)seen * sizeof *run->x);
        if (!read_tokens(run, run->session, run->x, run->window, (int32_t)seen, 0, run->window)) return false;
        logits += (seen - 1) * (uint64_t)run->answers;
    }
    kn_status status = kn_draw_token(&run->drawing, logits, (size_t)run->token_count, run->text,
                                     (size_t)run->used, run->used, number);
    if (status == KN_OK) return true;
    return command_error("cannot draw a token: %s", status == KN_ERROR_NOT_FINITE
                                                        ? "the model's logits are not finite"
                                                        : kn_status_message(status));
}

static void print_json(const generate_run *run, const char *prompt) {
    printf("{\"prompt\": ");
    json_text(stdout, prompt);
    printf(", \"text\": ");
    json_text(stdout, run->answer ? run->answer : "");
    printf("}\n");
}

/* Generates and prints up to `length` tokens. */
static bool continue_text(generate_run *run, const char *before) {
    const bool live = run->converse || isatty(STDOUT_FILENO);
    run->answer_length = run->printed = 0;
    run->stopped = false;
    for (uint64_t i = 0; i < run->length && !run->stopped; i++) {
        int32_t number = 0;
        if (run->converse && run->used >= (uint64_t)run->window) {
            command_warn("the conversation fills the context of %lld tokens", (long long)run->window);
            break;
        }
        if (!next_token(run, &number)) return false;
        if (i == 0) {
            progress_clear();
            print_compile_time(run->context);
            if (!run->common.json) fputs(before, stdout);
        }
        if (run->words && kn_vocabulary_ends(run->words, number)) break;
        run->text[run->used++] = number;
        if (!write_token(run, number)) return false;
        print_answer(run, false);
        if (live) fflush(stdout);
    }
    print_answer(run, true);
    return true;
}

/* ---- conversations --------------------------------------------------------------------------------------
 */

/* Makes the conversation the text, keeping what was read of it. */
static bool take_conversation(generate_run *run) {
    size_t count, same = 0;
    int32_t *tokens = chat_tokens(&run->chat, run->words, &count);
    int32_t *more = tokens ? realloc(tokens, (count + (size_t)run->length + 1) * sizeof *tokens) : NULL;
    if (!more) {
        free(tokens);
        return tokens ? command_error("out of memory for the text") : false;
    }
    for (size_t i = 0; i < count; i++)
        if (more[i] < 0 || more[i] >= run->answers) {
            free(more);
            return command_error("the conversation has a token that the model does not have");
        }
    while (run->text && same < run->kept && same + 1 < count && run->text[same] == more[same])
        same++;
    free(run->text);
    run->text = more;
    run->used = count;
    run->kept = run->on ? 0 : same; /* a recurrent state cannot go back */
    run->decoding = (kn_decoding)KN_DECODING_DEFAULTS;
    if (count < (uint64_t)run->window) return true;
    return command_error("the conversation has %zu tokens and the context %lld; expected fewer, or a larger "
                         "--context",
                         count, (long long)run->window);
}

/* Answers one message. */
static bool answer(generate_run *run, const char *message) {
    if (!chat_add(&run->chat, "user", message) || !take_conversation(run)) return false;
    if (!continue_text(run, "")) return false;
    if (run->common.json)
        print_json(run, message);
    else
        putchar('\n');
    fflush(stdout);
    return chat_add(&run->chat, "assistant", run->answer_length ? run->answer : "");
}

/* Answers the prompt, or each line of standard input. */
static bool converse(generate_run *run) {
    if (!run->words) return command_error("--chat needs a language model in a folder or a GGUF file");
    if (run->system[0] && !chat_add(&run->chat, "system", run->system)) return false;
    if (run->prompt[0]) return answer(run, run->prompt);
    const bool asks = isatty(STDIN_FILENO) && !run->common.json;
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    bool fine = true;
    while (fine) {
        if (asks) fputs("> ", stderr);
        if ((length = getline(&line, &room, stdin)) < 0) break;
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = '\0';
        if (length) fine = answer(run, line);
    }
    if (asks) fputc('\n', stderr);
    free(line);
    return fine;
}

static int generate(generate_run *run, const char *file) {
    if (!read_vocabulary(run, file) || !measure(run, file)) return EXIT_FAILED;
    if (!run->converse && !read_prompt(run)) return EXIT_FAILED;
    if (!open_session(run)) return EXIT_FAILED;
    if (run->converse) {
        const bool fine = converse(run);
        progress_clear();
        return fine ? EXIT_DONE : EXIT_FAILED;
    }
    /* Without a prompt, start as after a newline; read_words has its own beginning. */
    int32_t begin = 0;
    size_t count, bytes;
    if (!run->words && kn_text_encode(NULL, run->vocabulary, "\n", &begin, &count, &bytes) != KN_OK)
        begin = 0;
    if (!run->used) run->text[run->used++] = begin;
    progress_now("compiling");
    if (!continue_text(run, run->prompt)) return EXIT_FAILED;
    if (run->common.json)
        print_json(run, run->prompt);
    else
        putchar('\n');
    return EXIT_DONE;
}

static void finish(generate_run *run) {
    kn_session_destroy(&run->session);
    kn_session_destroy(&run->piece);
    kn_session_destroy(&run->single);
    kn_states_destroy(&run->states);
    kn_model_destroy(&run->model);
    kn_vocabulary_destroy(&run->words);
    kn_context_destroy(&run->context);
    free(run->begins);
    free(run->text);
    free(run->x);
    free(run->logits);
    free(run->answer);
    chat_finish(&run->chat);
}

static int run(int count, char **arguments) {
    generate_run run = {.prompt = "", .system = "", .length = 300, .drawing = KN_DRAW_DEFAULTS};
    run.drawing.top_k = UINT64_MAX;
    const option options[] = {
        HEADING("text"),
        {"prompt", OPTION_TEXT, "TEXT", "beginning of the text; with --chat, a message", &run.prompt},
        {"chat", OPTION_FLAG, NULL,
         "answer the prompt, or each line of standard input, by the model's chat template", &run.converse},
        {"system", OPTION_TEXT, "TEXT", "with --chat: the message that says what the model should be",
         &run.system},
        {"stop", OPTION_TEXT, "TEXT", "end before this text", &run.stop},
        ADAPTER_OPTION(run.adapter),
        {"length", OPTION_COUNT, "N", "tokens to generate (300); a language model may end its text before",
         &run.length},
        {"context", OPTION_COUNT, "N",
         "tokens that a language model keeps in memory (its own number, at most 2048)", &run.positions},
        {"temperature", OPTION_NUMBER, "T",
         "divides the logits before sampling; 0: always the most likely token (0.8)",
         &run.drawing.temperature},
        {"top-k", OPTION_COUNT, "N", "sample only from the N most likely tokens (all)", &run.drawing.top_k},
        {"top-p", OPTION_NUMBER, "P",
         "sample only from the most likely tokens with this total probability (1)", &run.drawing.top_p},
        {"min-p", OPTION_NUMBER, "P", "sample only from tokens with this part of the largest probability (0)",
         &run.drawing.min_p},
        {"repetition", OPTION_NUMBER, "N",
         "makes tokens that are in the text less likely: divides their positive logits (1)",
         &run.drawing.repetition},
        {"seed", OPTION_COUNT, "N", "random seed: the same seed gives the same text (1)", &run.drawing.seed},
        HEADING("device"),
        MATH_OPTIONS(run.common),
        PIN_OPTION(run.common),
        COMMON_OPTIONS(run.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_generate, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if (!word_count)
        return command_misuse(
            "generate needs a saved model, such as char-rnn.safetensors, a GGUF file or a folder");
    if (run.length < 1 || run.length > 100000000)
        return command_misuse("--length is %llu; expected 1 to 100000000", (unsigned long long)run.length);
    if (run.positions > INT32_MAX)
        return command_misuse("--context is %llu; expected at most %d", (unsigned long long)run.positions,
                              INT32_MAX);
    if (run.system[0] && !run.converse) return command_misuse("--system is only for --chat");
    if (run.drawing.temperature < 0)
        return command_misuse("--temperature is %g; expected a number of at least 0",
                              run.drawing.temperature);
    if (!run.drawing.top_k) return command_misuse("--top-k is 0; expected at least 1");
    if (!(run.drawing.top_p > 0 && run.drawing.top_p <= 1))
        return command_misuse("--top-p is %g; expected a number above 0, up to 1", run.drawing.top_p);
    if (!(run.drawing.min_p >= 0 && run.drawing.min_p <= 1))
        return command_misuse("--min-p is %g; expected a number from 0 to 1", run.drawing.min_p);
    if (!(run.drawing.repetition > 0))
        return command_misuse("--repetition is %g; expected a number above 0", run.drawing.repetition);
    if ((status = math_options_check(&run.common)) != EXIT_DONE ||
        (status = pin_option_check(&run.common)) != EXIT_DONE)
        return status;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    const kn_model_setting context = {"window", (int64_t)run.positions};
    kn_model_params params;
    kn_model_params_init(&params);
    params.settings = &context;
    params.setting_count = run.positions > 0;
    run.model = model_open_with(words[0], &params);
    if (run.model && !kn_model_has_weights(run.model))
        command_fail("'%s' has no weights: expected a file that koine train saved", words[0]);
    else if (run.model && run.adapter && kn_model_open_adapter(run.model, run.adapter) != KN_OK)
        command_fail("--adapter: %s", kn_model_error(run.model));
    else if (run.model)
        status = generate(&run, words[0]);
    finish(&run);
    return status;
}

const command command_generate = {
    "generate",
    "generate text from a saved model",
    "FILE [--prompt TEXT] [--OPTION …]",
    "prompt chat length context temperature top-k seed json device",
    "koine train char-rnn --data text:book.txt --steps 2500 --batch 32\n"
    "koine generate char-rnn.safetensors --prompt 'The ' --length 500\n"
    "koine generate char-rnn.safetensors --temperature 0 --json\n"
    "koine generate smollm2.gguf --prompt 'The capital of France is' --length 40\n"
    "koine generate smollm2.gguf --chat --prompt 'Why is the sky blue?' --temperature 0\n"
    "koine generate smollm2.gguf --adapter poems --prompt 'The moon'",
    "FILE is a language model in a GGUF file or a Hugging Face folder, or a model that koine train saved "
    "after\n"
    "training on text. Predicts each token from the preceding ones, as far as the model's window reaches, "
    "and\n"
    "samples it. With --chat, the model answers a message, or a conversation line by line.",
    run};
