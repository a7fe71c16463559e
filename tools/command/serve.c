/* koine serve: the options of the server. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "serve.h"
#include "training.h"

static int check(const serve_settings *settings, int words) {
    int status;
    if (!words)
        return command_misuse("serve needs a language model in a GGUF file or a folder, or a saved model");
    if (settings->port > 65535)
        return command_misuse("--port is %llu; expected 0 to 65535", (unsigned long long)settings->port);
    if ((status = context_option_check(settings->context)) != EXIT_DONE) return status;
    if (!(settings->timeout > 0))
        return command_misuse("--timeout is %g; expected a number above 0", settings->timeout);
    if (!settings->request_bytes || settings->request_bytes > 1 << 30)
        return command_misuse("--max-request is %llu bytes; expected 1 byte to 1 GiB",
                              (unsigned long long)settings->request_bytes);
    if (!settings->tokens) return command_misuse("--max-tokens is 0; expected at least 1");
    if (!settings->queue || settings->queue > 10000)
        return command_misuse("--queue is %llu; expected 1 to 10000", (unsigned long long)settings->queue);
    if (!settings->parallel || settings->parallel > GENERATOR_SLOTS)
        return command_misuse("--parallel is %llu; expected 1 to %d", (unsigned long long)settings->parallel,
                              GENERATOR_SLOTS);
    if (settings->key && !settings->key[0])
        return command_misuse("KOINE_API_KEY is empty; expected a key, or no such variable");
    if ((status = math_options_check((common_options *)&settings->common)) != EXIT_DONE) return status;
    return pin_option_check(&settings->common);
}

static int run(int count, char **arguments) {
    serve_settings settings = {.host = "127.0.0.1",
                               .port = 8080,
                               .key = getenv("KOINE_API_KEY"),
                               .request_bytes = 4 << 20,
                               .tokens = UINT64_MAX,
                               .queue = 64,
                               .parallel = 4,
                               .timeout = 600};
    const option options[] = {
        HEADING("server"),
        {"host", OPTION_TEXT, "ADDRESS", "address to listen on (127.0.0.1: only this machine)",
         &settings.host},
        {"port", OPTION_COUNT, "N", "port to listen on; 0 chooses a free port and prints it (8080)",
         &settings.port},
        {"api-key", OPTION_TEXT, "KEY", "key that clients must send (default: KOINE_API_KEY, or no key)",
         &settings.key},
        HEADING("limits"),
        {"max-request", OPTION_BYTES, "SIZE", "maximum size of a request (4MiB)", &settings.request_bytes},
        {"max-tokens", OPTION_COUNT, "N", "maximum tokens per answer (as many as fit in the context)",
         &settings.tokens},
        {"timeout", OPTION_NUMBER, "SECONDS",
         "time from the beginning of a request to the end of its answer (600)", &settings.timeout},
        {"parallel", OPTION_COUNT, "N",
         "answers written at once, each with memory for the keys and values of a context (4)",
         &settings.parallel},
        {"queue", OPTION_COUNT, "N", "requests that may wait (64)", &settings.queue},
        HEADING("model"),
        ADAPTER_OPTION(settings.adapter),
        CONTEXT_OPTION(settings.context),
        HEADING("device"),
        MATH_OPTIONS(settings.common),
        ACTIVATIONS_OPTION(settings.common),
        PIN_OPTION(settings.common),
        COMMON_OPTIONS(settings.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_serve, options, count, arguments, words, &word_count, 1, &status))
        return status;
    if ((status = check(&settings, word_count)) != EXIT_DONE) return status;
    settings.file = words[0];
    progress_setup(&settings.common);
#ifdef KOINE_HAVE_MICROHTTPD
    return serve_run(&settings);
#else
    return command_fail("koine serve needs libmicrohttpd, and this Koine was built without it; install "
                        "libmicrohttpd-dev and build Koine again");
#endif
}

const command command_serve = {
    "serve",
    "answer requests for text or vectors of texts over HTTP",
    "FILE [--OPTION …]",
    "host port api-key context max-tokens parallel queue json device",
    "koine serve smollm2.gguf\n"
    "koine serve smollm2.gguf --port 0 --api-key secret --queue 8\n"
    "koine serve smollm2.gguf --adapter poems --context 1024",
    "FILE is a language model or an encoder in a GGUF file or a Hugging Face folder,\n"
    "or a model that koine train saved after training on text. Clients of OpenAI's\n"
    "interface use the base URL http://127.0.0.1:8080/v1: POST /v1/chat/completions,\n"
    "/v1/completions or /v1/embeddings, GET /v1/models; GET /health needs no key.\n"
    "A few requests are answered at once, by the same steps of the model; others wait.",
    run};
