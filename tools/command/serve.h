/* koine serve: requests to a language model over HTTP, in the form of OpenAI's interface. */
#ifndef KOINE_COMMAND_SERVE_H
#define KOINE_COMMAND_SERVE_H

#include <pthread.h>

#include "embedder.h"
#include "generator.h"

typedef struct serve_settings {
    common_options common;
    const char *file, *adapter;
    const char *host, *key; /* key NULL: none is needed */
    uint64_t port, context, request_bytes, tokens, queue, parallel;
    double timeout; /* seconds */
} serve_settings;

/* ---- requests (serve_request.c) --------------------------------------------------------------------- */

typedef enum serve_kind { SERVE_CHAT, SERVE_COMPLETION, SERVE_EMBEDDING } serve_kind;

/* What an error answer says. */
typedef struct serve_error {
    int status; /* of HTTP */
    const char *code;
    char param[64]; /* "": none */
    char message[1700];
} serve_error;

typedef struct serve_text {
    const char *text; /* terminated */
    size_t bytes;
} serve_text;

typedef struct serve_request {
    serve_kind kind;
    char *messages;    /* of a chat: the items of an array in JSON */
    serve_text *texts; /* prompts, or texts to be embedded: (text_count) */
    size_t text_count;
    uint64_t tokens;  /* new tokens, at most */
    uint64_t samples; /* of each prompt */
    kn_draw_params drawing;
    bool seeded;        /* the request has a seed */
    const char **stops; /* (stop_count) */
    size_t stop_count;
    bool base64;         /* vectors are written so */
    uint64_t dimensions; /* of the vectors; 0: the model's */
    bool stream, usage;  /* usage: at the end of a stream */
    void *memory;        /* of all of this */
} serve_request;

/* Sets *error and returns false. */
bool serve_refuse(serve_error *error, int status, const char *code, const char *param, const char *format,
                  ...) COMMAND_PRINTF(5, 6);
/* The same for a failure; param: the parameter that caused it, if the request did. */
bool serve_refuse_failure(serve_error *error, const failure *failed, const char *param);
/* The same if memory for `what` runs out, if the server is shutting down, and if the request names another
 * model. */
bool serve_refuse_memory(serve_error *error, const char *what);
bool serve_refuse_ending(serve_error *error);
bool serve_refuse_model(serve_error *error, const char *asked, const char *model);
/* Reads a request of this kind for the model. On an error, returns false; release the request in any case. */
bool serve_request_read(serve_request *request, serve_kind kind, const char *model, const char *body,
                        size_t bytes, serve_error *error);
void serve_request_release(serve_request *request);
/* An error as OpenAI's interface writes it. */
void serve_error_write(FILE *stream, const serve_error *error);

/* ---- the queue (serve_queue.c) ---------------------------------------------------------------------- */

/* A request and its answer, which belong to the thread of the connection and to the thread of the model: the
 * last one releases it. */
typedef struct serve_job {
    serve_request request;
    int socket;      /* of the client */
    double deadline; /* by clock_now */
    uint64_t number;
    /* The rest is guarded by the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users;
    char *out; /* the answer, or what of a stream is not sent yet: (out_room) */
    size_t out_bytes, out_room, sent;
    int status;       /* of HTTP; 0: not known yet */
    bool ended, gone; /* gone: nobody reads the answer */
    struct serve_job *next;
} serve_job;

serve_job *serve_job_create(void);
void serve_job_release(serve_job *job);
/* Appends to the answer, whose status is then known. False: out of memory, and the client is gone. */
bool serve_job_write(serve_job *job, int status, const char *text, size_t bytes);
void serve_job_end(serve_job *job);
/* Ends it with an error: as the answer, or as the last event of a stream that has begun. */
void serve_job_fail(serve_job *job, const serve_error *error);
/* Whether the client has closed the connection. */
bool serve_job_is_gone(serve_job *job);

typedef struct serve_queue {
    pthread_mutex_t lock;
    pthread_cond_t emptied;
    serve_job *first;
    size_t count, limit;
    size_t open; /* answers that are not completely sent */
    bool closed;
    uint64_t number; /* of requests so far */
    int wake[2];     /* a pipe: a byte wakes the thread of the model */
} serve_queue;

bool serve_queue_open(serve_queue *queue, size_t limit);
/* Appends a job, which then also belongs to the thread of the model; false, with *error set: the queue is
 * full or closed. */
bool serve_queue_add(serve_queue *queue, serve_job *job, serve_error *error);
/* The answer of a job that was added is sent, or its client is gone. */
void serve_queue_sent(serve_queue *queue);
/* The next job; NULL: none. */
serve_job *serve_queue_take(serve_queue *queue);
/* Ends all waiting jobs with an error, and waits until the answers are sent, at most some seconds. */
void serve_queue_close(serve_queue *queue);
void serve_queue_finish(serve_queue *queue);

/* ---- answers (serve_answer.c) ----------------------------------------------------------------------- */

typedef struct serve_model {
    const serve_settings *settings;
    char name[256];
    long long created; /* seconds since 1970 */
    uint64_t seed;     /* of requests without one */
    bool embeds;       /* by the embedder; otherwise the generator has a model */
    generator generator;
    embedder embedder;
    /* By slot of the generator; NULL: it is free, and its text is that of the last answer. */
    struct serve_answering *answers[GENERATOR_SLOTS];
    generator_text texts[GENERATOR_SLOTS];
    int64_t answer_count;
} serve_model;

/* On the thread of the model: begins the answer to a job, which is taken over, in a free slot; continues all
 * answers by a token, and one prompt by a piece; ends all because the server is shutting down. */
void serve_answer_begin(serve_model *model, serve_job *job);
void serve_answers_step(serve_model *model);
void serve_answers_end(serve_model *model);
void serve_answer_embeddings(serve_model *model, serve_job *job); /* serve_embed.c; takes the job over, too */
/* Whether a job has to end now; writes why. */
bool serve_must_end(serve_job *job, serve_error *error);

/* ---- HTTP (serve_http.c) ---------------------------------------------------------------------------- */

typedef struct serve_http serve_http;
/* Listens; *url is (room). NULL after reporting an error. */
serve_http *serve_http_start(const serve_settings *settings, const serve_model *model, serve_queue *queue,
                             char *url, size_t room);
void serve_http_stop(serve_http *http);

/* Answers requests until a signal. */
int serve_run(serve_settings *settings);

#endif
