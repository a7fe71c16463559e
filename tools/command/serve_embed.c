/* The answers to requests for vectors of texts. */
#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* Floats, little-endian, in base64. */
static void write_base64(FILE *stream, const float *numbers, size_t count) {
    enum { TOGETHER = 3 }; /* whose bytes are whole letters */
    for (size_t first = 0; first < count; first += TOGETHER) {
        const size_t some = count - first < TOGETHER ? count - first : TOGETHER;
        uint8_t bytes[4 * TOGETHER];
        for (size_t i = 0; i < 4 * some; i++) {
            uint32_t bits;
            memcpy(&bits, &numbers[first + i / 4], sizeof bits);
            bytes[i] = (uint8_t)(bits >> 8 * (i % 4));
        }
        base64_write(stream, bytes, 4 * some);
    }
}

static void write_vector(FILE *stream, const serve_request *request, size_t index, const float *vector,
                         size_t width) {
    fprintf(stream, "%s{\"object\": \"embedding\", \"index\": %zu, \"embedding\": ", index ? ", " : "",
            index);
    if (request->base64) {
        putc('"', stream);
        write_base64(stream, vector, width);
        putc('"', stream);
    } else {
        for (size_t i = 0; i < width; i++) {
            fputs(i ? ", " : "[", stream);
            json_float(stream, vector[i]);
        }
        putc(']', stream);
    }
    putc('}', stream);
}

/* Computes and writes the vectors, some texts at a time. */
static bool write_vectors(serve_model *model, serve_job *job, FILE *stream, float *vectors, uint64_t *tokens,
                          serve_error *error) {
    const serve_request *request = &job->request;
    embedder *encoder = &model->embedder;
    const size_t width = (size_t)encoder->width;
    for (size_t first = 0, count; first < request->text_count; first += count) {
        const char *texts[EMBEDDER_ROWS];
        size_t bytes[EMBEDDER_ROWS];
        count = request->text_count - first < EMBEDDER_ROWS ? request->text_count - first : EMBEDDER_ROWS;
        for (size_t i = 0; i < count; i++) {
            texts[i] = request->texts[first + i].text;
            bytes[i] = request->texts[first + i].bytes;
        }
        if (serve_must_end(job, error)) return false;
        if (!embedder_run(encoder, texts, bytes, count, vectors, tokens))
            return serve_refuse_failure(error, &encoder->failure, "input");
        for (size_t i = 0; i < count; i++)
            write_vector(stream, request, first + i, vectors + i * width, width);
    }
    return true;
}

void serve_answer_embeddings(serve_model *model, serve_job *job) {
    const unsigned long long width = (unsigned long long)model->embedder.width;
    serve_error error = {0};
    uint64_t tokens = 0;
    char *text = NULL;
    size_t bytes = 0;
    bool fine = !job->request.dimensions || job->request.dimensions == width ||
                serve_refuse(&error, 400, "invalid_value", "dimensions",
                             "'dimensions' is %llu, but the vectors of the model have %llu elements",
                             (unsigned long long)job->request.dimensions, width);
    float *vectors = malloc(EMBEDDER_ROWS * (size_t)width * sizeof *vectors);
    FILE *stream = vectors ? open_memstream(&text, &bytes) : NULL;
    if (stream) {
        fputs("{\"object\": \"list\", \"data\": [", stream);
        fine = fine && write_vectors(model, job, stream, vectors, &tokens, &error);
        fputs("], \"model\": ", stream);
        json_text(stream, model->name);
        fprintf(stream, ", \"usage\": {\"prompt_tokens\": %llu, \"total_tokens\": %llu}}\n",
                (unsigned long long)tokens, (unsigned long long)tokens);
    }
    if (!stream || fclose(stream) || (fine && !serve_job_write(job, 200, text, bytes)))
        fine = serve_refuse_memory(&error, "the answer");
    free(text);
    free(vectors);
    if (fine)
        serve_job_end(job);
    else
        serve_job_fail(job, &error);
    serve_job_release(job);
}
