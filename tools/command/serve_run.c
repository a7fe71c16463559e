/* The server: opens the model, listens, and answers requests until a signal. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "infer_texts.h"
#include "serve.h"

/* An encoder computes vectors, any other model generates text. */
static bool open_model(serve_model *model) {
    const serve_settings *settings = model->settings;
    generator *writer = &model->generator;
    embedder *encoder = &model->embedder;
    failure failed;
    int64_t window;
    kn_model *opened = model_open_window(settings->file, (int64_t)settings->context, &failed);
    if (!opened) return failure_print(&failed);
    snprintf(model->name, sizeof model->name, "%s", kn_model_name(opened));
    model->created = (long long)time(NULL);
    model->seed = (uint64_t)(1e9 * clock_now()) ^ (uint64_t)getpid() << 40;
    writer->common = encoder->common = &settings->common;
    writer->adapter = settings->adapter;
    writer->slots = (int64_t)settings->parallel;
    encoder->file = settings->file;
    if (!(model->embeds = texts_fit(opened, &window)))
        return (generator_open(writer, settings->file, opened) && generator_start(writer)) ||
               failure_print(&writer->failure);
    if (!settings->adapter) return embedder_start(encoder, opened) || failure_print(&encoder->failure);
    kn_model_destroy(&opened);
    return command_error("--adapter is not for models that compute vectors of texts");
}

static void print_start(const serve_settings *settings, const char *name, const char *url) {
    if (settings->common.json) {
        printf("{\"url\": ");
        json_text(stdout, url);
        json_text_member(stdout, "model", name);
        puts("}");
    } else {
        printf("%s is at %s/v1\n", name, url);
    }
    fflush(stdout);
}

/* Begins answers while there are requests and free slots. */
static void begin_all(serve_model *model, serve_queue *queue) {
    while (!interrupted() && model->answer_count < (model->embeds ? 1 : model->generator.slots)) {
        serve_job *job = serve_queue_take(queue);
        if (!job) return;
        (model->embeds ? serve_answer_embeddings : serve_answer_begin)(model, job);
    }
}

static void answer_all(serve_model *model, serve_queue *queue) {
    while (!interrupted()) {
        char byte;
        if (read(queue->wake[0], &byte, 1) < 0 && errno != EINTR) return;
        begin_all(model, queue);
        while (model->answer_count && !interrupted()) {
            serve_answers_step(model);
            print_compile_time(model->generator.context);
            begin_all(model, queue);
        }
        if (model->embeds) print_compile_time(model->embedder.context);
    }
}

int serve_run(serve_settings *settings) {
    serve_model model = {.settings = settings};
    serve_queue queue;
    char url[300];
    int status = EXIT_FAILED;
    if (open_model(&model) && serve_queue_open(&queue, (size_t)settings->queue)) {
        signal(SIGPIPE, SIG_IGN);
        interrupts_watch_waking("\nkoine: ending the server; press Ctrl-C again to stop at once\n",
                                queue.wake[1]);
        serve_http *http = serve_http_start(settings, &model, &queue, url, sizeof url);
        if (http) {
            progress_clear();
            print_start(settings, model.name, url);
            answer_all(&model, &queue);
            serve_answers_end(&model);
            serve_queue_close(&queue);
            serve_http_stop(http);
            status = EXIT_DONE;
        }
        interrupts_default();
        serve_queue_finish(&queue);
    }
    generator_finish(&model.generator);
    embedder_finish(&model.embedder);
    return status;
}
