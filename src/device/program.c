/* Programs: each source is compiled once per context or loaded from the disk cache. Compiled programs are
 * written to disk at once, so that other processes that compile the same plan, and a start after this process
 * was killed, find them. A note that the driver caches a program is written when the context is destroyed. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/device_private.h"

enum { MAX_COMPILE_THREADS = 16, MEASURE_FROM = 4 };
/* Parallel compilation pays if it keeps this many processors busy; some drivers serialise it with a lock. */
static const double worth_threads = 1.2, least_meaningful = 0.9;
/* How long to wait for a program that another process is compiling. */
static const double others_seconds = 120;

/* Copies the log's first line that contains "rror" (or the first line) and the line after it. */
static void first_error(const char *log, char *target, size_t bytes) {
    const char *found = strstr(log, "rror");
    if (!found) found = log;
    while (found > log && found[-1] != '\n')
        found--;
    while (*found == '\n')
        found++;
    const char *end = strchr(found, '\n');
    if (end) {
        const char *second = strchr(end + 1, '\n');
        end = second ? second : end + strlen(end);
    } else {
        end = found + strlen(found);
    }
    size_t length = (size_t)(end - found);
    if (length >= bytes) length = bytes - 1;
    memcpy(target, found, length);
    target[length] = '\0';
    for (char *entry = target; *entry; entry++)
        if (*entry == '\n') *entry = ' ';
}

/* Logs the build log line by line, since a message is one line. Modifies the log. */
static void log_lines(const kn_host *host, const char *name, char *log) {
    for (char *line = log, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        if (*line) kn_log_write(host, KN_LOG_DEBUG, "%s: %s", name, line);
    }
}

static kn_status fail_build(kn_context *context, const char *name, cl_program program, cl_int code,
                            kn_error *error) {
    char shown[600] = "the driver gave no message";
    size_t bytes = 0;
    char *log = NULL;
    if (clGetProgramBuildInfo(program, context->found.device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) ==
            CL_SUCCESS &&
        bytes > 1 && (log = kn_allocate(&context->host, bytes + 1, 1)) != NULL &&
        clGetProgramBuildInfo(program, context->found.device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL) ==
            CL_SUCCESS &&
        log[0]) {
        first_error(log, shown, sizeof shown);
        log_lines(&context->host, name, log);
    }
    kn_release(&context->host, log);
    return kn_fail(error, KN_ERROR_COMPILE, "kernels of \"%s\" did not compile on %s (%s): %s", name,
                   context->found.info.name, kn_cl_name(code), shown);
}

/* Whether the program is stored when it is built, so that other processes can use it. */
static bool is_shared(const kn_context *context, const kn_program_request *from) {
    return context->capabilities.shares_programs && !from->passing;
}

/* Compiles without warnings if the compiler accepts the option: PoCL prints "9 warnings generated." to the
 * user's terminal. */
static cl_int build_quietly(kn_context *context, cl_program program, const char *options) {
    char quiet[sizeof((kn_source *)NULL)->options + sizeof " -w"];
    snprintf(quiet, sizeof quiet, "%s -w", options);
    cl_int code = clBuildProgram(program, 1, &context->found.device, quiet, NULL, NULL);
    if (code == CL_INVALID_BUILD_OPTIONS)
        code = clBuildProgram(program, 1, &context->found.device, options, NULL, NULL);
    return code;
}

static kn_status build_source(kn_context *context, const char *name, const kn_source *source,
                              cl_program *result, kn_error *error) {
    const char *text = source->text.data;
    cl_int code;
    cl_program program = clCreateProgramWithSource(context->context, 1, &text, &source->text.length, &code);
    if (!program) return kn_fail_cl(error, code, "cannot create a program from the source of \"%s\"", name);
    double start = kn_clock();
    kn_attempt_phase(context, false);
    code = build_quietly(context, program, source->options);
    if (code != CL_SUCCESS) {
        kn_status status = fail_build(context, name, program, code, error);
        clReleaseProgram(program);
        return status;
    }
    kn_log_write(&context->host, KN_LOG_DEBUG, "compiled %s in %d ms", name,
                 (int)((kn_clock() - start) * 1000));
    *result = program;
    return KN_OK;
}

/* Calls back one at a time, whichever thread compiles. */
static void report(kn_context *context, const kn_progress *progress, const char *label, uint64_t done,
                   uint64_t total) {
    if (!progress->report) return;
    kn_mutex_lock(context->reporting);
    progress->report(progress->user, label, done, total);
    kn_mutex_unlock(context->reporting);
}

static kn_status read_source(const kn_context *context, const kn_program_request *from, bool short_header,
                             kn_source *source, kn_error *error) {
    return from->source ? kn_source_text(context, from->file, from->prelude, from->source, source, error)
                        : kn_source_file(context, from->file, from->prelude, short_header, source, error);
}

kn_status kn_program_write(kn_context *context, const kn_program_request *request, kn_text *text,
                           kn_text *options, kn_error *error) {
    kn_program_request from = *request;
    kn_source source;
    if (!from.prelude) from.prelude = "";
    kn_status status = read_source(context, &from, false, &source, error);
    if (status) return status;
    kn_text_add_bytes(text, source.text.data, source.text.length);
    kn_text_add(options, source.options);
    kn_source_finish(&source);
    return kn_text_failed(text) || kn_text_failed(options) ? kn_fail_memory(error, text->length) : KN_OK;
}

/* Compiles the program and, if the request allows it, stores it at once. */
static kn_status build_and_store(kn_context *context, const kn_program_request *from, const kn_source *source,
                                 cl_program *program, bool built, kn_error *error) {
    if (built) report(context, &context->progress, from->file, 0, 0);
    kn_status status = build_source(context, from->file, source, program, error);
    if (!status && built && is_shared(context, from)) kn_program_cache_store(context, source, *program);
    return status;
}

/* A spare request may give no program. */
static kn_status load_or_build(kn_context *context, const kn_program_request *from, const kn_source *source,
                               kn_program *made, bool *built, kn_error *error) {
    bool kept = false, held = false;
    kn_lock *lock = NULL;
    *built = false;
    if (from->spare && kn_program_cache_has(context, source)) return KN_OK;
    made->program = kn_program_cache_load(context, source, &kept);
    if (!made->program && !kept && is_shared(context, from)) {
        lock = kn_program_cache_lock(context, source, from->spare ? 0 : others_seconds, &held);
        if (held && from->spare) return KN_OK;
        /* It may have been compiled in the meantime. */
        made->program = kn_program_cache_load(context, source, &kept);
    }
    *built = !made->program && !kept;
    double start = kn_clock();
    kn_status status =
        made->program ? KN_OK : build_and_store(context, from, source, &made->program, *built, error);
    kn_lock_release(&lock);
    if (status) return status;
    kn_mutex_lock(context->mutex);
    if (*built) {
        context->counts.programs_built++;
        context->counts.compile_seconds += kn_clock() - start;
    } else {
        context->counts.programs_loaded++;
    }
    kn_mutex_unlock(context->mutex);
    return KN_OK;
}

/* Sets made->program, full_header and, if the program belongs in the disk cache and is not there, unsaved. */
static kn_status make(kn_context *context, const kn_program_request *from, kn_program *made,
                      kn_error *error) {
    kn_source source;
    bool built = false;
    kn_status status = read_source(context, from, context->short_header, &source, error);
    if (status) return status;
    status = load_or_build(context, from, &source, made, &built, error);
    if (status == KN_ERROR_COMPILE && context->short_header && !from->source) {
        /* The short header may lack a function. */
        kn_source_finish(&source);
        status = read_source(context, from, false, &source, error);
        if (status) return status;
        made->full_header = true;
        status = load_or_build(context, from, &source, made, &built, error);
    }
    if (!status && built && context->cache_folder && !is_shared(context, from))
        made->unsaved = kn_allocate(&context->host, 1, sizeof source);
    if (made->unsaved)
        *made->unsaved = source;
    else
        kn_source_finish(&source);
    return status;
}

/* Finds or adds the program's entry. The mutex is held. */
static kn_program *entry_of(kn_context *context, const kn_program_request *from, kn_error *error) {
    kn_text key;
    kn_text_init(&key, &context->host);
    kn_text_add(&key, from->source ? "text " : "file ");
    kn_text_add(&key, from->file);
    kn_text_format(&key, "\n%zu\n", strlen(from->prelude));
    kn_text_add(&key, from->prelude);
    if (from->source) kn_text_add(&key, from->source);
    kn_program *program = NULL;
    if (!kn_text_failed(&key)) {
        program = kn_map_get(&context->programs, key.data, key.length);
        if (!program && (program = kn_allocate(&context->host, 1, sizeof *program)) != NULL) {
            program->name = kn_copy_text(&context->host, from->file);
            if (!program->name || !kn_map_put(&context->programs, key.data, key.length, program)) {
                kn_release(&context->host, program->name);
                kn_release(&context->host, program);
                program = NULL;
            }
        }
    }
    if (!program) kn_fail_memory(error, key.length + sizeof *program);
    kn_text_finish(&key);
    return program;
}

/* Records the result of an attempt for the threads that wait. The mutex is held. */
static void finish_attempt(kn_context *context, kn_program *program, kn_status status,
                           const kn_error *error) {
    program->state = program->program ? KN_PROGRAM_READY : KN_PROGRAM_EMPTY;
    if (status && !program->failure)
        program->failure = kn_allocate(&context->host, 1, sizeof *program->failure);
    if (status && program->failure) *program->failure = *error;
    if (!status) {
        kn_release(&context->host, program->failure);
        program->failure = NULL;
    }
    kn_condition_broadcast(context->built);
}

kn_status kn_program_get(kn_context *context, const kn_program_request *request, kn_program **program,
                         kn_error *error) {
    kn_program_request from = *request;
    if (!from.prelude) from.prelude = "";
    *program = NULL;
    if (context->failure.status) return kn_error_copy(error, &context->failure);
    if (context->described) return kn_fail_described(context, error);
    kn_mutex_lock(context->mutex);
    kn_program *entry = entry_of(context, &from, error);
    if (!entry) {
        kn_mutex_unlock(context->mutex);
        return KN_ERROR_MEMORY;
    }
    if (!from.passing && !context->precompile) entry->kept = true;
    kn_status status = KN_OK;
    if (entry->state == KN_PROGRAM_BUILDING) {
        /* Another thread is compiling it: share its result. */
        while (entry->state == KN_PROGRAM_BUILDING)
            kn_condition_wait(context->built, context->mutex);
        if (entry->state == KN_PROGRAM_EMPTY)
            status = from.spare       ? KN_OK
                     : entry->failure ? kn_error_copy(error, entry->failure)
                                      : kn_fail_memory(error, sizeof(kn_error));
    } else if (entry->state == KN_PROGRAM_EMPTY) {
        entry->state = KN_PROGRAM_BUILDING;
        kn_mutex_unlock(context->mutex);
        kn_error own = {0};
        kn_program made = {0};
        status = make(context, &from, &made, &own);
        kn_mutex_lock(context->mutex);
        entry->program = made.program;
        entry->unsaved = made.unsaved;
        entry->full_header = made.full_header;
        finish_attempt(context, entry, status, &own);
        if (status) kn_error_copy(error, &own);
    }
    if (!status && entry->state == KN_PROGRAM_READY) *program = entry;
    kn_mutex_unlock(context->mutex);
    return status;
}

kn_status kn_program_get_source(kn_context *context, const char *name, const char *source,
                                kn_program **program, kn_error *error) {
    const kn_program_request request = {.file = name, .source = source};
    return kn_program_get(context, &request, program, error);
}

static void save(kn_context *context, kn_program *program) {
    if (!program->unsaved) return;
    if (program->kept) kn_program_cache_store(context, program->unsaved, program->program);
    kn_source_finish(program->unsaved);
    kn_release(&context->host, program->unsaved);
    program->unsaved = NULL;
}

void kn_programs_release(kn_context *context) {
    size_t position = 0;
    for (const kn_map_entry *entry; (entry = kn_map_next(&context->programs, &position)) != NULL;) {
        kn_program *program = entry->value;
        save(context, program);
        if (program->program) clReleaseProgram(program->program);
        kn_release(&context->host, program->failure);
        kn_release(&context->host, program->name);
        kn_release(&context->host, program);
    }
    if (context->programs.host) kn_map_finish(&context->programs);
    memset(&context->programs, 0, sizeof context->programs);
}

/* ---- several programs -------------------------------------------------------------- */

typedef struct batch {
    kn_context *context;
    const kn_program_request *requests;
    kn_program **programs;
    size_t next, end, total, done;
    size_t failed; /* index of the first failure */
    kn_status status;
    kn_error *error; /* of the first failure */
    const kn_progress *progress;
    kn_mutex *mutex; /* guards next, done, status and error, and the progress callback */
} batch;

static void work_through(void *argument) {
    batch *job = argument;
    kn_mutex_lock(job->mutex);
    while (!job->status && job->next < job->end) {
        size_t i = job->next++;
        kn_mutex_unlock(job->mutex);
        kn_error error = {0};
        kn_status status = kn_program_get(job->context, &job->requests[i], &job->programs[i], &error);
        kn_mutex_lock(job->mutex);
        job->done++;
        if (status && !job->status) {
            job->status = status;
            job->failed = i;
            if (job->error) *job->error = error;
        }
        report(job->context, job->progress, job->requests[i].file, job->done, job->total);
    }
    kn_mutex_unlock(job->mutex);
}

/* Processes requests[next, end) with this many threads, including the current one. */
static void run_threads(batch *job, size_t end, int threads) {
    kn_thread *helpers[MAX_COMPILE_THREADS] = {0};
    const kn_host *host = &job->context->host;
    job->end = end;
    int started = 0;
    while (started < threads - 1 && started < MAX_COMPILE_THREADS - 1) {
        helpers[started] = kn_thread_start(host, work_through, job);
        if (!helpers[started]) break; /* fewer threads do the same work */
        started++;
    }
    work_through(job);
    for (int i = 0; i < started; i++)
        kn_thread_join(host, &helpers[i]);
}

static uint64_t built_so_far(kn_context *context) {
    kn_context_counts counts = {.size = sizeof counts};
    kn_context_get_counts(context, &counts);
    return counts.programs_built;
}

kn_status kn_program_get_all(kn_context *context, const kn_program_request *requests, size_t count,
                             const kn_progress *progress, kn_program **programs, size_t *failed,
                             kn_error *error) {
    if (failed) *failed = count;
    for (size_t i = 0; i < count; i++)
        programs[i] = NULL;
    if (context->failure.status) return kn_error_copy(error, &context->failure);
    batch job = {.context = context,
                 .requests = requests,
                 .programs = programs,
                 .total = count,
                 .failed = count,
                 .error = error};
    job.progress = progress && progress->report ? progress : &context->progress;
    job.mutex = kn_mutex_create(&context->host);
    if (!job.mutex) return kn_fail_memory(error, sizeof job);

    static const char key[] = "compile_threads_gain";
    int threads = kn_processor_count();
    if (threads > MAX_COMPILE_THREADS) threads = MAX_COMPILE_THREADS;
    double gain = 0;
    if (threads < 2 || count < 2 || context->found.simulated) {
        run_threads(&job, count, 1);
    } else if (kn_verdict_get(context, key, &gain)) {
        run_threads(&job, count, gain >= worth_threads ? threads : 1);
    } else {
        /* Measures the speedup: compilers with one lock keep only one processor busy. */
        uint64_t built = built_so_far(context);
        double start = kn_clock();
        clock_t busy = clock();
        run_threads(&job, count, threads);
        double seconds = kn_clock() - start + 1e-9, work = (double)(clock() - busy) / CLOCKS_PER_SEC;
        /* Below that, the machine was otherwise busy and the measurement is void. */
        bool meaningful = work / seconds >= least_meaningful && built_so_far(context) - built >= MEASURE_FROM;
        if (!job.status && meaningful) kn_verdict_put(context, key, work / seconds);
    }
    kn_mutex_destroy(&context->host, &job.mutex);
    if (failed) *failed = job.failed;
    return job.status;
}
