/* The queue between connections and the thread of the model. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "serve.h"

enum { CLOSE_SECONDS = 5 };

/* ---- jobs ------------------------------------------------------------------------------------------- */

serve_job *serve_job_create(void) {
    serve_job *job = calloc(1, sizeof *job);
    if (!job) return NULL;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    job->users = 1;
    return job;
}

void serve_job_release(serve_job *job) {
    pthread_mutex_lock(&job->lock);
    const bool last = --job->users == 0;
    pthread_mutex_unlock(&job->lock);
    if (!last) return;
    pthread_mutex_destroy(&job->lock);
    pthread_cond_destroy(&job->changed);
    serve_request_release(&job->request);
    free(job->out);
    free(job);
}

bool serve_job_write(serve_job *job, int status, const char *text, size_t bytes) {
    pthread_mutex_lock(&job->lock);
    if (job->out_bytes + bytes > job->out_room && !job->gone) {
        const size_t room = 2 * (job->out_bytes + bytes);
        char *more = realloc(job->out, room);
        if (more) {
            job->out = more;
            job->out_room = room;
        }
        job->gone = !more;
    }
    const bool fine = !job->gone;
    if (fine) {
        memcpy(job->out + job->out_bytes, text, bytes);
        job->out_bytes += bytes;
        job->status = status;
    }
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return fine;
}

void serve_job_end(serve_job *job) {
    pthread_mutex_lock(&job->lock);
    job->ended = true;
    if (!job->status) job->status = 500;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
}

void serve_job_fail(serve_job *job, const serve_error *error) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    pthread_mutex_lock(&job->lock);
    const int status = job->status;
    pthread_mutex_unlock(&job->lock);
    if (stream) {
        if (status) fputs("data: ", stream);
        serve_error_write(stream, error);
        if (status) fputs("\n\n", stream);
        if (!fclose(stream)) serve_job_write(job, status ? status : error->status, text, bytes);
    }
    free(text);
    serve_job_end(job);
}

bool serve_job_is_gone(serve_job *job) {
    char byte;
    pthread_mutex_lock(&job->lock);
    /* The socket stays open while the job is not marked: the connection waits for the answer. */
    const ssize_t count = job->gone ? 0 : recv(job->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        job->gone = true;
    const bool gone = job->gone;
    pthread_mutex_unlock(&job->lock);
    return gone;
}

/* ---- the queue -------------------------------------------------------------------------------------- */

bool serve_queue_open(serve_queue *queue, size_t limit) {
    *queue = (serve_queue){.limit = limit};
    if (pipe(queue->wake)) return command_error("cannot create a pipe: %s", strerror(errno));
    fcntl(queue->wake[1], F_SETFL, O_NONBLOCK);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->emptied, NULL);
    return true;
}

static void end_unread(serve_job *job) {
    serve_job_end(job);
    serve_job_release(job);
}

/* Removes jobs whose clients have gone. */
static void remove_gone(serve_queue *queue) {
    for (serve_job **link = &queue->first; *link;) {
        serve_job *job = *link;
        if (!serve_job_is_gone(job)) {
            link = &job->next;
            continue;
        }
        *link = job->next;
        queue->count--;
        end_unread(job);
    }
}

bool serve_queue_add(serve_queue *queue, serve_job *job, serve_error *error) {
    bool fine = true;
    pthread_mutex_lock(&queue->lock);
    if (queue->count >= queue->limit) remove_gone(queue);
    if (queue->closed) {
        fine = serve_refuse_ending(error);
    } else if (queue->count >= queue->limit) {
        fine = serve_refuse(error, 429, "queue_full", "",
                            "%zu requests are waiting already, the limit of this server; try again later",
                            queue->count);
    } else {
        serve_job **link = &queue->first;
        while (*link)
            link = &(*link)->next;
        *link = job;
        job->number = ++queue->number;
        job->users++;
        queue->count++;
        queue->open++;
    }
    pthread_mutex_unlock(&queue->lock);
    if (fine && write(queue->wake[1], "", 1) < 0) return true; /* the pipe is full, which wakes, too */
    return fine;
}

void serve_queue_sent(serve_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->open--;
    pthread_cond_broadcast(&queue->emptied);
    pthread_mutex_unlock(&queue->lock);
}

serve_job *serve_queue_take(serve_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    serve_job *job = queue->first;
    if (job) {
        queue->first = job->next;
        queue->count--;
    }
    pthread_mutex_unlock(&queue->lock);
    return job;
}

void serve_queue_close(serve_queue *queue) {
    struct timespec until;
    serve_error error;
    serve_refuse_ending(&error);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_SECONDS;
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
    for (serve_job *job; (job = serve_queue_take(queue));) {
        serve_job_fail(job, &error);
        serve_job_release(job);
    }
    pthread_mutex_lock(&queue->lock);
    while (queue->open && pthread_cond_timedwait(&queue->emptied, &queue->lock, &until) != ETIMEDOUT)
        continue;
    pthread_mutex_unlock(&queue->lock);
}

void serve_queue_finish(serve_queue *queue) {
    close(queue->wake[0]);
    close(queue->wake[1]);
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->emptied);
}
