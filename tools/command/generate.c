/* koine generate: generates text with a language model, or with a model trained on text. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"
#include "generator.h"
#include "training.h"

typedef struct generate_run {
    common_options common;
    const char *prompt;
    const char *system, *stop;  /* of a conversation; where the text ends */
    bool converse;              /* --chat */
    uint64_t length, positions; /* positions 0: the model's */
    chat chat;
    generator generator;
    generator_text text;
    size_t printed; /* bytes of the answer */
} generate_run;

/* Prints what cannot become part of the stop text; at the end, everything. */
static void print_answer(generate_run *run, bool end) {
    const generator_text *writer = &run->text;
    const size_t most = end ? writer->answer_bytes : generator_ready(writer);
    if (run->common.json || most <= run->printed) return;
    fwrite(writer->answer + run->printed, 1, most - run->printed, stdout);
    run->printed = most;
}

static const char *answer_text(const generate_run *run) {
    return run->text.answer_bytes ? run->text.answer : "";
}

static void print_json(const generate_run *run, const char *prompt) {
    printf("{\"prompt\": ");
    json_text(stdout, prompt);
    printf(", \"text\": ");
    json_text(stdout, answer_text(run));
    printf("}\n");
}

static bool next_token(generate_run *run, int32_t *token) {
    bool drawn = false;
    while (!drawn)
        if (!generator_step(&run->generator, &run->text, token, &drawn)) return false;
    return true;
}

/* Generates and prints up to `length` tokens. */
static bool continue_text(generate_run *run, const char *before) {
    generator *writer = &run->generator;
    const bool live = run->converse || isatty(STDOUT_FILENO);
    run->printed = 0;
    for (uint64_t i = 0; i < run->length && !run->text.stopped; i++) {
        int32_t token = 0;
        if (run->converse && !generator_has_room(writer, &run->text)) {
            command_warn("the conversation fills the context of %lld tokens", (long long)writer->window);
            break;
        }
        if (!next_token(run, &token)) return failure_print(&writer->failure);
        if (i == 0) {
            progress_clear();
            print_compile_time(writer->context);
            if (!run->common.json) fputs(before, stdout);
        }
        if (generator_ends(writer, token)) break;
        if (!generator_add(writer, &run->text, token)) return failure_print(&writer->failure);
        print_answer(run, false);
        if (live) fflush(stdout);
    }
    print_answer(run, true);
    return true;
}

/* ---- conversations ---------------------------------------------------------------------------------- */

static bool take_conversation(generate_run *run) {
    generator *writer = &run->generator;
    size_t count;
    int32_t *tokens = chat_tokens(run->chat.json, writer->words, &count, &writer->failure);
    if (!tokens || !generator_take(writer, &run->text, tokens, count, false))
        return failure_print(&writer->failure);
    return generator_has_room(writer, &run->text) ||
           command_error("the conversation has %zu tokens and the context %lld; expected fewer, or a larger "
                         "--context",
                         count, (long long)writer->window);
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
    return chat_add(&run->chat, "assistant", answer_text(run));
}

/* Answers the prompt, or each line of standard input. */
static bool converse(generate_run *run) {
    if (!run->generator.words)
        return command_error("--chat needs a language model in a folder or a GGUF file");
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
    generator *writer = &run->generator;
    int32_t *tokens;
    size_t count;
    if (!generator_open(writer, file, model_open_window(file, (int64_t)run->positions, &writer->failure)))
        return failure_print(&writer->failure), EXIT_FAILED;
    if (!run->converse && (!generator_encode(writer, run->prompt, strlen(run->prompt), &tokens, &count) ||
                           !generator_take(writer, &run->text, tokens, count, true)))
        return failure_print(&writer->failure), EXIT_FAILED;
    if (!generator_start(writer)) return failure_print(&writer->failure), EXIT_FAILED;
    if (run->converse) {
        const bool fine = converse(run);
        progress_clear();
        return fine ? EXIT_DONE : EXIT_FAILED;
    }
    progress_now("compiling");
    if (!continue_text(run, run->prompt)) return EXIT_FAILED;
    if (run->common.json)
        print_json(run, run->prompt);
    else
        putchar('\n');
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    generate_run run = {.prompt = "", .system = "", .length = 300};
    generator *writer = &run.generator;
    kn_draw_params *drawing = &run.text.drawing;
    kn_draw_params_init(drawing);
    drawing->top_k = UINT64_MAX;
    writer->common = &run.common;
    run.text.stops = &run.stop;
    const option options[] = {
        HEADING("text"),
        {"prompt", OPTION_TEXT, "TEXT", "beginning of the text; with --chat, a message", &run.prompt},
        {"chat", OPTION_FLAG, NULL,
         "answer the prompt, or each line of standard input, by the model's chat template", &run.converse},
        {"system", OPTION_TEXT, "TEXT", "with --chat: the message that says what the model should be",
         &run.system},
        {"stop", OPTION_TEXT, "TEXT", "end before this text", &run.stop},
        ADAPTER_OPTION(writer->adapter),
        {"length", OPTION_COUNT, "N", "tokens to generate (300); a language model may end its text before",
         &run.length},
        CONTEXT_OPTION(run.positions),
        {"temperature", OPTION_NUMBER, "T",
         "divides the logits before sampling; 0: always the most likely token (0.8)", &drawing->temperature},
        {"top-k", OPTION_COUNT, "N", "sample only from the N most likely tokens (all)", &drawing->top_k},
        {"top-p", OPTION_NUMBER, "P",
         "sample only from the most likely tokens with this total probability (1)", &drawing->top_p},
        {"min-p", OPTION_NUMBER, "P", "sample only from tokens with this part of the largest probability (0)",
         &drawing->min_p},
        {"repetition", OPTION_NUMBER, "N",
         "makes tokens that are in the text less likely: divides their positive logits (1)",
         &drawing->repetition},
        {"seed", OPTION_COUNT, "N", "random seed: the same seed gives the same text (1)", &drawing->seed},
        HEADING("device"),
        MATH_OPTIONS(run.common),
        ACTIVATIONS_OPTION(run.common),
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
    if ((status = context_option_check(run.positions)) != EXIT_DONE) return status;
    if (run.system[0] && !run.converse) return command_misuse("--system is only for --chat");
    if (drawing->temperature < 0)
        return command_misuse("--temperature is %g; expected a number of at least 0", drawing->temperature);
    if (!drawing->top_k) return command_misuse("--top-k is 0; expected at least 1");
    if (!(drawing->top_p > 0 && drawing->top_p <= 1))
        return command_misuse("--top-p is %g; expected a number above 0, up to 1", drawing->top_p);
    if (!(drawing->min_p >= 0 && drawing->min_p <= 1))
        return command_misuse("--min-p is %g; expected a number from 0 to 1", drawing->min_p);
    if (!(drawing->repetition > 0))
        return command_misuse("--repetition is %g; expected a number above 0", drawing->repetition);
    if ((status = math_options_check(&run.common)) != EXIT_DONE ||
        (status = pin_option_check(&run.common)) != EXIT_DONE)
        return status;
    status = EXIT_FAILED;
    progress_setup(&run.common);
    run.text.stop_count = run.stop != NULL;
    status = generate(&run, words[0]);
    generator_finish(writer);
    generator_text_finish(&run.text);
    chat_finish(&run.chat);
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
