/* HTTP, by libmicrohttpd: a thread for each connection reads the request, and waits for the answer. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "serve.h"

/* Besides the requests that wait. */
enum { CONNECTIONS = 32, IDLE_SECONDS = 60 };

struct serve_http {
    const serve_settings *settings;
    const serve_model *model;
    serve_queue *queue;
    struct MHD_Daemon *daemon;
};

typedef struct exchange exchange;
typedef struct route {
    const char *path, *method;
    bool open; /* needs no key */
    bool rest; /* "/…" may follow */
    enum MHD_Result (*send)(struct MHD_Connection *connection, exchange *now, const char *rest);
    serve_kind kind; /* of send_answer */
} route;

/* A request that is being received, then answered. */
struct exchange {
    serve_http *http;
    const route *route; /* NULL: none */
    serve_error error;  /* status 0: none */
    char *body;
    size_t bytes, room;
    double deadline;
    serve_job *job;
    bool queued;
};

/* ---- answers ---------------------------------------------------------------------------------------- */

/* Takes over the text. */
static enum MHD_Result send_text(struct MHD_Connection *connection, int status, char *text, size_t bytes) {
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(bytes, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (status == 401) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    const enum MHD_Result result = MHD_queue_response(connection, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_error(struct MHD_Connection *connection, const serve_error *error) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) return MHD_NO;
    serve_error_write(stream, error);
    fputc('\n', stream);
    if (fclose(stream)) bytes = 0;
    return send_text(connection, error->status, text, bytes);
}

static void write_model(FILE *stream, const serve_model *model) {
    fputs("{\"id\": ", stream);
    json_text(stream, model->name);
    fprintf(stream, ", \"object\": \"model\", \"created\": %lld, \"owned_by\": \"koine\"}", model->created);
}

static enum MHD_Result send_health(struct MHD_Connection *connection, exchange *now, const char *rest) {
    static const char text[] = "{\"status\": \"ok\"}\n";
    (void)now, (void)rest;
    return send_text(connection, 200, strdup(text), sizeof text - 1);
}

static enum MHD_Result send_models(struct MHD_Connection *connection, exchange *now, const char *rest) {
    const serve_model *model = now->http->model;
    char *text = NULL;
    size_t bytes = 0;
    if (rest[0] == '/' && strcmp(rest + 1, model->name) != 0) {
        serve_refuse_model(&now->error, rest + 1, model->name);
        return send_error(connection, &now->error);
    }
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) return MHD_NO;
    if (!rest[0]) fputs("{\"object\": \"list\", \"data\": [", stream);
    write_model(stream, model);
    fputs(rest[0] ? "\n" : "]}\n", stream);
    if (fclose(stream)) bytes = 0;
    return send_text(connection, 200, text, bytes);
}

/* ---- answers of the model --------------------------------------------------------------------------- */

/* While a thread waits for the model, its connection is not idle. */
static void set_idle_seconds(struct MHD_Connection *connection, unsigned seconds) {
    MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, seconds);
}

typedef struct streaming {
    serve_job *job;
    struct MHD_Connection *connection;
} streaming;

/* The next bytes of a stream, when there are any. */
static ssize_t read_stream(void *user, uint64_t position, char *text, size_t room) {
    streaming *stream = user;
    serve_job *job = stream->job;
    (void)position;
    set_idle_seconds(stream->connection, 0);
    pthread_mutex_lock(&job->lock);
    while (job->sent == job->out_bytes && !job->ended)
        pthread_cond_wait(&job->changed, &job->lock);
    size_t count = job->out_bytes - job->sent;
    if (count > room) count = room;
    if (count) memcpy(text, job->out + job->sent, count);
    job->sent += count;
    if (job->sent == job->out_bytes) job->sent = job->out_bytes = 0; /* its memory is used again */
    pthread_mutex_unlock(&job->lock);
    set_idle_seconds(stream->connection, IDLE_SECONDS);
    return count ? (ssize_t)count : MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result send_stream(struct MHD_Connection *connection, serve_job *job) {
    streaming *stream = malloc(sizeof *stream);
    if (!stream) return MHD_NO;
    *stream = (streaming){job, connection};
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, stream, free);
    if (!response) {
        free(stream);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream; charset=utf-8");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    const enum MHD_Result result = MHD_queue_response(connection, 200, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, exchange *now, const char *rest) {
    const serve_http *http = now->http;
    const serve_kind kind = now->route->kind;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    (void)rest;
    serve_job *job = now->job = serve_job_create();
    if (!job || !info) return MHD_NO;
    job->socket = info->connect_fd;
    job->deadline = now->deadline;
    if ((http->model->embeds != (kind == SERVE_EMBEDDING) &&
         !serve_refuse(&now->error, 400, "unsupported_model", "model", "the model '%s' %s", http->model->name,
                       http->model->embeds ? "computes vectors of texts; use /v1/embeddings"
                                           : "generates text, and does not compute vectors of texts")) ||
        !serve_request_read(&job->request, kind, http->model->name, now->body ? now->body : "", now->bytes,
                            &now->error) ||
        !(now->queued = serve_queue_add(http->queue, job, &now->error)))
        return send_error(connection, &now->error);
    free(now->body);
    now->body = NULL;
    set_idle_seconds(connection, 0);
    pthread_mutex_lock(&job->lock);
    while (!job->ended && !(job->request.stream && job->status))
        pthread_cond_wait(&job->changed, &job->lock);
    const int status = job->status;
    char *text = NULL;
    if ((status != 200 || !job->request.stream) && (text = malloc(job->out_bytes + 1)) && job->out_bytes)
        memcpy(text, job->out, job->out_bytes);
    const size_t bytes = job->out_bytes;
    pthread_mutex_unlock(&job->lock);
    set_idle_seconds(connection, IDLE_SECONDS);
    return status == 200 && job->request.stream ? send_stream(connection, job)
                                                : send_text(connection, status, text, bytes);
}

/* ---- requests --------------------------------------------------------------------------------------- */

static const route routes[] = {
    {"/v1/chat/completions", "POST", false, false, send_answer, SERVE_CHAT},
    {"/v1/completions", "POST", false, false, send_answer, SERVE_COMPLETION},
    {"/v1/embeddings", "POST", false, false, send_answer, SERVE_EMBEDDING},
    {"/v1/models", "GET", false, true, send_models, 0},
    {"/health", "GET", true, false, send_health, 0},
};

static const route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const size_t length = strlen(routes[i].path);
        if (!strncmp(path, routes[i].path, length) &&
            (!path[length] || (routes[i].rest && path[length] == '/' && path[length + 1])))
            return &routes[i];
    }
    return NULL;
}

/* Compares in a time that does not depend on the contents of what was given. */
static bool is_key(const char *given, const char *key) {
    const size_t length = strlen(given), own = strlen(key);
    unsigned char different = length != own;
    for (size_t i = 0; i < length; i++)
        different |= (unsigned char)(given[i] ^ key[own ? i % own : 0]);
    return !different;
}

static bool has_key(struct MHD_Connection *connection, const char *key) {
    static const char scheme[] = "Bearer ";
    const char *given =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    return given && !strncasecmp(given, scheme, sizeof scheme - 1) && is_key(given + sizeof scheme - 1, key);
}

/* Browsers let web pages send other types without a preflight request. */
static bool has_json(struct MHD_Connection *connection) {
    static const char json[] = "application/json";
    const char *type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    return type && !strncasecmp(type, json, sizeof json - 1) && strchr("; \t", type[sizeof json - 1]);
}

/* Whether the request names this machine, if no key protects a server that only this machine reaches. Against
 * DNS rebinding: the host name of a web page may resolve to this machine. */
static bool names_this_machine(struct MHD_Connection *connection, const serve_settings *settings) {
    const char *own[] = {settings->host, "localhost", "127.0.0.1", "::1"};
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const bool local = !strncmp(settings->host, "127.", 4) || !strcmp(settings->host, "::1") ||
                       !strcmp(settings->host, "localhost");
    if (settings->key || !local || !given) return true;
    const bool brackets = given[0] == '[';
    const size_t length = strcspn(given += brackets, brackets ? "]" : ":");
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strlen(own[i]) == length && !strncasecmp(given, own[i], length)) return true;
    return false;
}

static bool refuse_size(exchange *now) {
    return serve_refuse(&now->error, 413, "request_too_large", "",
                        "the request has more than %llu bytes, the limit of this server",
                        (unsigned long long)now->http->settings->request_bytes);
}

static bool check_head(struct MHD_Connection *connection, exchange *now, const char *path,
                       const char *method) {
    const serve_settings *settings = now->http->settings;
    const route *found = now->route = find_route(path);
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Content-Length");
    if (length && strtoull(length, NULL, 10) > settings->request_bytes) return refuse_size(now);
    if (!names_this_machine(connection, settings))
        return serve_refuse(&now->error, 403, "unknown_host", "",
                            "the header 'Host' does not name this machine; expected localhost or %.100s, or "
                            "a server with --api-key",
                            settings->host);
    if (settings->key && !(found && found->open) && !has_key(connection, settings->key))
        return serve_refuse(&now->error, 401, "invalid_api_key", "",
                            "expected the header 'Authorization: Bearer KEY' with the key of this server");
    if (!found)
        return serve_refuse(&now->error, 404, "not_found", "", "there is no '%.200s' on this server", path);
    const bool head = !strcmp(method, "HEAD") && !strcmp(found->method, "GET");
    if (strcmp(method, found->method) != 0 && !head)
        return serve_refuse(&now->error, 405, "method_not_allowed", "", "expected %s for '%s', not %.20s",
                            found->method, found->path, method);
    return strcmp(method, "POST") != 0 || has_json(connection) ||
           serve_refuse(&now->error, 415, "unsupported_media_type", "",
                        "expected the header 'Content-Type: application/json'");
}

/* Keeps the next part of the body, unless the request is refused already. */
static enum MHD_Result add_body(exchange *now, const char *data, size_t bytes) {
    if (!now->error.status && now->bytes + bytes > now->http->settings->request_bytes) refuse_size(now);
    /* A refused body is read, so that the client reads the answer, but not forever. */
    if (!(clock_now() < now->deadline + IDLE_SECONDS)) return MHD_NO;
    if (now->error.status) return MHD_YES;
    if (now->bytes + bytes > now->room) {
        const size_t room = 2 * (now->bytes + bytes);
        char *more = realloc(now->body, room);
        if (!more) return MHD_NO;
        now->body = more;
        now->room = room;
    }
    memcpy(now->body + now->bytes, data, bytes);
    now->bytes += bytes;
    return MHD_YES;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *data, size_t *data_bytes,
                              void **state) {
    serve_http *http = user;
    exchange *now = *state;
    (void)version;
    if (!now) {
        if (!(now = calloc(1, sizeof *now))) return MHD_NO;
        *state = now;
        now->http = http;
        now->deadline = clock_now() + http->settings->timeout;
        check_head(connection, now, path, method);
        /* A body that is too large is not read. */
        return now->error.status == 413 ? send_error(connection, &now->error) : MHD_YES;
    }
    if (*data_bytes) {
        const enum MHD_Result result = add_body(now, data, *data_bytes);
        *data_bytes = 0;
        return result;
    }
    if (now->error.status) return send_error(connection, &now->error);
    return now->route->send(connection, now, path + strlen(now->route->path));
}

static void finish_exchange(void *user, struct MHD_Connection *connection, void **state,
                            enum MHD_RequestTerminationCode code) {
    serve_http *http = user;
    exchange *now = *state;
    (void)connection, (void)code;
    if (!now) return;
    if (now->job) {
        pthread_mutex_lock(&now->job->lock);
        now->job->gone = true;
        pthread_mutex_unlock(&now->job->lock);
        serve_job_release(now->job);
    }
    if (now->queued) serve_queue_sent(http->queue);
    free(now->body);
    free(now);
    *state = NULL;
}

/* ---- listening -------------------------------------------------------------------------------------- */

static struct MHD_Daemon *listen_at(serve_http *http, const struct addrinfo *address) {
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO;
    if (address->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, handle, http, MHD_OPTION_SOCK_ADDR, address->ai_addr,
                            MHD_OPTION_NOTIFY_COMPLETED, finish_exchange, http, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)(http->settings->queue + CONNECTIONS), MHD_OPTION_CONNECTION_TIMEOUT,
                            (unsigned)IDLE_SECONDS, MHD_OPTION_END);
}

serve_http *serve_http_start(const serve_settings *settings, const serve_model *model, serve_queue *queue,
                             char *url, size_t room) {
    const struct addrinfo wish = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    char port[16];
    snprintf(port, sizeof port, "%u", (unsigned)settings->port);
    const int status = getaddrinfo(settings->host, port, &wish, &address);
    if (status) {
        command_fail("--host '%s': %s", settings->host, gai_strerror(status));
        return NULL;
    }
    serve_http *http = calloc(1, sizeof *http);
    if (http) {
        *http = (serve_http){settings, model, queue, NULL};
        errno = 0;
        http->daemon = listen_at(http, address);
    }
    const bool brackets = address->ai_family == AF_INET6;
    freeaddrinfo(address);
    if (!http || !http->daemon) {
        command_fail("cannot listen on %s, port %s: %s", settings->host, port,
                     errno ? strerror(errno) : "libmicrohttpd does not start");
        free(http);
        return NULL;
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
    snprintf(url, room, "http://%s%s%s:%u", brackets ? "[" : "", settings->host, brackets ? "]" : "",
             info ? (unsigned)info->port : (unsigned)settings->port);
    return http;
}

void serve_http_stop(serve_http *http) {
    MHD_stop_daemon(http->daemon);
    free(http);
}
