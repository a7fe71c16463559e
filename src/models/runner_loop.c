/* Loops that end on a computed condition: the body is a model, which runs again with its variables. */
#include "models/runner_private.h"
#include "ops/ops.h"

enum { MAX_ITERATIONS = 1 << 20 };

/* A loop that is running. */
typedef struct running {
    const kn_loop *loop;
    kn_runner_array *reads; /* the outputs of KN_PART_BEFORE_LOOP */
    size_t read_count;
    /* for the body: the number of the iteration, the variables, and other values that it reads */
    kn_runner_array *fed;
    size_t fed_count;
    kn_runner_array *made;     /* the outputs of the body: the condition, variables, scans */
    kn_runner_array *finished; /* the results of the loop: variables, stacked scans */
    size_t *room;              /* bytes allocated for each stacked scan */
    int64_t number;            /* of the iteration */
    bool draws;                /* there may be random numbers, which depend on the step counter `step` */
    uint32_t step;
} running;

static bool is_true(const kn_runner_array *condition) {
    return kn_element_get(condition->info.dtype, condition->data, 0) != 0;
}

/* Builds the body for arrays of these shapes, unless it is built for them. */
static kn_status bind_body(kn_runner *runner, kn_runner_part *own, const running *run,
                           const kn_model_given *given, size_t count) {
    bool same = own->body != NULL;
    for (size_t i = 0; same && i < run->fed_count; i++)
        same = kn_same_info(&own->body_infos[i], &run->fed[i].info);
    if (same) return KN_OK;
    kn_session_destroy(&own->body_session);
    kn_model_destroy(&own->body);
    if (!own->body_infos)
        own->body_infos = kn_allocate(&runner->host, run->fed_count, sizeof *own->body_infos);
    size_t array_count = 0;
    kn_model_given *arrays = kn_runner_arrays(runner, (size_t)(own - runner->parts), given, count, run->fed,
                                              run->fed_count, &array_count);
    if (!arrays || !own->body_infos) {
        kn_release(&runner->host, arrays);
        return kn_fail_memory(&runner->error, 0);
    }
    for (size_t i = 0; i < run->fed_count; i++)
        own->body_infos[i] = run->fed[i].info;
    own->body = kn_model_bind_part(runner->opened, KN_PART_ITERATION, own->model->only, arrays, array_count);
    kn_release(&runner->host, arrays);
    if (!own->body) return kn_fail_memory(&runner->error, 0);
    kn_status status = own->body->status;
    if (status == KN_OK && own->body->unbound) status = KN_ERROR_UNSUPPORTED;
    if (status == KN_OK)
        status = kn_runner_open(runner, own->body, &own->body_session);
    else
        kn_fail(&runner->error, status, "%s", own->body->error.text);
    if (status != KN_OK) {
        kn_session_destroy(&own->body_session);
        kn_model_destroy(&own->body);
    }
    return status;
}

/* Appends an iteration's array to the stack of a scan output. */
static kn_status stack(kn_runner *runner, running *run, int scan) {
    const kn_runner_array *made = &run->made[1 + run->loop->variables + scan];
    kn_runner_array *whole = &run->finished[run->loop->variables + scan];
    const size_t bytes = kn_runner_bytes(&made->info), used = bytes * (size_t)run->number;
    kn_tensor_info row = whole->info;
    if (!run->number) {
        whole->info = made->info;
        if (made->info.rank == KN_MAX_RANK)
            return kn_fail(&runner->error, KN_ERROR_UNSUPPORTED, "scan output %d of a loop has too many axes",
                           scan);
        whole->info.rank++;
        memmove(whole->info.shape + 1, made->info.shape, (size_t)made->info.rank * sizeof *made->info.shape);
    } else {
        row.rank--;
        memmove(row.shape, row.shape + 1, (size_t)row.rank * sizeof *row.shape);
        if (!kn_same_info(&row, &made->info))
            return kn_fail(&runner->error, KN_ERROR_SHAPE,
                           "scan output %d of a loop has a different shape in iteration %lld", scan,
                           (long long)run->number);
    }
    whole->info.shape[0] = run->number + 1;
    if (used + bytes + 1 > run->room[scan]) {
        const size_t room = 2 * (used + bytes) + 64;
        void *more = kn_resize(&runner->host, whole->data, room, 1);
        if (!more) return kn_fail_memory(&runner->error, room);
        whole->data = more;
        run->room[scan] = room;
    }
    if (bytes) memcpy((char *)whole->data + used, made->data, bytes);
    return KN_OK;
}

/* Sets the step counter, so that each iteration draws different random numbers. */
static kn_status set_step(kn_runner *runner, uint32_t step) {
    kn_states *states = runner->params.states;
    const kn_status status = kn_states_set(states, KN_STEP_COUNTER, NULL, &step, sizeof step);
    return status == KN_OK ? status : kn_fail(&runner->error, status, "%s", kn_states_error(states));
}

/* Before the second and later iterations: the first has added the counter to the states if it is needed. */
static kn_status count_iteration(kn_runner *runner, running *run) {
    kn_states *states = runner->params.states;
    if (!run->number) return KN_OK;
    if (run->number == 1) {
        const kn_status status = kn_states_get(states, KN_STEP_COUNTER, &run->step, sizeof run->step);
        if (status == KN_ERROR_NOT_FOUND) return KN_OK;
        if (status != KN_OK) return kn_fail(&runner->error, status, "%s", kn_states_error(states));
        run->draws = true;
    }
    return run->draws ? set_step(runner, run->step + (uint32_t)run->number * 0x9e3779b9U) : KN_OK;
}

/* Runs the body once. */
static kn_status iterate(kn_runner *runner, kn_runner_part *own, running *run, const kn_model_given *given,
                         size_t count) {
    const int variables = run->loop->variables, scans = run->loop->scans;
    memcpy(run->fed[0].data, &run->number, sizeof run->number);
    kn_status status = count_iteration(runner, run);
    if (status == KN_OK) status = bind_body(runner, own, run, given, count);
    if (status == KN_OK)
        status = kn_runner_compute(runner, own->body, own->body_session, given, count, run->fed,
                                   run->fed_count, run->made);
    for (int i = 0; status == KN_OK && i < scans; i++)
        status = stack(runner, run, i);
    for (int i = 0; status == KN_OK && i < variables; i++) {
        const kn_runner_array taken = run->fed[1 + i];
        run->fed[1 + i].data = run->made[1 + i].data;
        run->fed[1 + i].info = run->made[1 + i].info;
        run->made[1 + i].data = taken.data;
    }
    return status;
}

/* Makes room for the arrays of a loop, and takes the initial values of its variables. */
static kn_status start_loop(kn_runner *runner, running *run) {
    const kn_loop *loop = run->loop;
    const size_t first = (size_t)loop->has_count + (size_t)loop->has_condition;
    const size_t variables = (size_t)loop->variables, scans = (size_t)loop->scans;
    run->fed_count = 1 + run->read_count - first;
    run->fed = kn_allocate(&runner->host, run->fed_count, sizeof *run->fed);
    run->made = kn_allocate(&runner->host, 1 + variables + scans, sizeof *run->made);
    run->finished = kn_allocate(&runner->host, variables + scans + 1, sizeof *run->finished);
    run->room = kn_allocate(&runner->host, scans + 1, sizeof *run->room);
    if (!run->fed || !run->made || !run->finished || !run->room) return kn_fail_memory(&runner->error, 0);
    run->fed[0] = (kn_runner_array){.name = loop->names[0], .info = {.dtype = KN_INT64}};
    run->fed[0].data = kn_allocate(&runner->host, 1, sizeof run->number);
    if (!run->fed[0].data) return kn_fail_memory(&runner->error, sizeof run->number);
    for (size_t i = first; i < run->read_count; i++) {
        run->fed[1 + i - first] = run->reads[i];
        run->reads[i].data = NULL;
    }
    return KN_OK;
}

/* Moves the variables to the results. */
static kn_status finish_loop(kn_runner *runner, running *run) {
    const kn_loop *loop = run->loop;
    if (!run->number && loop->scans)
        return kn_fail(&runner->error, KN_ERROR_UNSUPPORTED, "a loop has scan outputs but runs no iteration");
    for (int i = 0; i < loop->variables; i++) {
        run->finished[i] = run->fed[1 + i];
        run->fed[1 + i].data = NULL;
    }
    for (int i = 0; i < loop->variables + loop->scans; i++)
        run->finished[i].name = loop->outputs[i];
    return KN_OK;
}

kn_status kn_runner_run_loop(kn_runner *runner, kn_runner_part *own, const kn_model_given *given,
                             size_t count, bool *changed) {
    running run = {.loop = own->model->loop, .read_count = (size_t)own->model->output_count};
    const kn_loop *loop = run.loop;
    int64_t most = INT64_MAX;
    bool going = true;
    run.reads = kn_allocate(&runner->host, run.read_count + 1, sizeof *run.reads);
    kn_status status =
        run.reads ? kn_runner_compute(runner, own->model, own->session, given, count, NULL, 0, run.reads)
                  : kn_fail_memory(&runner->error, 0);
    if (status == KN_OK && loop->has_count)
        most = (int64_t)kn_element_get(run.reads[0].info.dtype, run.reads[0].data, 0);
    if (status == KN_OK && loop->has_condition) going = is_true(&run.reads[loop->has_count]);
    if (status == KN_OK) status = start_loop(runner, &run);
    for (; status == KN_OK && going && run.number < most; run.number++) {
        if (run.number == MAX_ITERATIONS) {
            status = kn_fail(&runner->error, KN_ERROR_UNSUPPORTED, "a loop does not end after %d iterations",
                             MAX_ITERATIONS);
            break;
        }
        status = iterate(runner, own, &run, given, count);
        if (status == KN_OK) going = is_true(&run.made[0]);
        for (int i = 0; run.made && i < own->model->loop->variables + loop->scans + 1; i++) {
            kn_release(&runner->host, run.made[i].data);
            run.made[i].data = NULL;
        }
    }
    if (run.draws) { /* also after a failure */
        const kn_status restored = set_step(runner, run.step);
        if (status == KN_OK) status = restored;
    }
    if (status == KN_OK) status = finish_loop(runner, &run);
    const size_t results = (size_t)(loop->variables + loop->scans);
    if (status == KN_OK) {
        kn_runner_take(runner, own, run.finished, results, changed);
        run.finished = NULL;
    }
    kn_runner_release_arrays(runner, run.reads, run.read_count);
    kn_runner_release_arrays(runner, run.fed, run.fed_count);
    kn_runner_release_arrays(runner, run.finished, results);
    kn_release(&runner->host, run.made);
    kn_release(&runner->host, run.room);
    return status;
}
