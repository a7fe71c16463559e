/* Runs a case on a device and compares results and gradients with the reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <koine/operators.h>

#include "ops/ops.h"
#include "verify/verify_private.h"

/* The allowed error: relative to the element for pointwise results, and to the largest element of the tensor
 * for operators that sum many products; gradients also allow for the error of the reference's finite
 * differences. */
static double tolerance(const kn_trial *trial, double expected, double largest, bool gradient) {
    double factor = trial->row->tolerance > 0 ? trial->row->tolerance : 1;
    /* float64 has 29 more bits; some are left for the rounding of the reference. */
    if (trial->outputs[0]->shape.dtype == KN_FLOAT64 && trial->infos[0].dtype == KN_FLOAT64 && !gradient)
        factor *= 1e-7;
    if (gradient) return factor * (2e-5 * largest + 1e-5);
    if (trial->row->class == KN_CLASS_POINTWISE) return factor * (2e-6 * fabs(expected) + 1e-6);
    return factor * (1e-5 * largest + 1e-6);
}

/* The error that 16-bit storage may add: the rounding of the result, and of the summands if the variant
 * rounds them; for gradients, which sum products of rounded numbers, a few roundings of the largest, as with
 * TF32. */
static double stored_tolerance(const kn_trial *trial, double expected, double largest, bool gradient,
                               bool rounds) {
    if (trial->types.tf32) return gradient ? 0x1p-11 * 8 * largest : 0;
    if (!kn_is_half(trial->types.stored)) return 0;
    const double step = trial->types.stored == KN_FLOAT16 ? 0x1p-11 : 0x1p-8;
    const double rounded = fabs(expected) + (rounds ? largest : 0);
    return step * (gradient ? 8 * largest : rounded) + (trial->types.stored == KN_FLOAT16 ? 0x1p-24 : 0);
}

/* The difference of two numbers divided by the tolerance. NaN matches only NaN, an infinity only the same
 * infinity. */
static double ratio_of(double actual, double expected, double allowed) {
    if (isnan(expected)) return isnan(actual) ? 0 : INFINITY;
    if (isinf(expected) || actual == expected) return actual == expected ? 0 : INFINITY;
    double ratio = fabs(actual - expected) / allowed;
    return ratio >= 0 ? ratio : INFINITY;
}

static double largest_of(const double *numbers, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(numbers[i]) && fabs(numbers[i]) > largest) largest = fabs(numbers[i]);
    return largest;
}

typedef struct device_run {
    kn_trial *trial;
    kn_context *context;
    kn_trial_options options;
    bool fast;   /* the variant may have a larger error */
    bool rounds; /* kn_promise.rounds of the variant */
    double ratio;
    kn_error *error;
} device_run;

/* The error that a fast variant may add. */
static double fast_tolerance(const device_run *run, double square_sum, int64_t elements) {
    return run->fast && elements > 0 ? KN_FAST_ERROR * sqrt(square_sum / (double)elements) : 0;
}

/* Keeps the largest ratio, and describes it in the error. */
static void compare(device_run *run, double actual, double expected, double allowed, const char *what,
                    int64_t element) {
    double ratio = ratio_of(actual, expected, allowed);
    if (ratio <= run->ratio) return;
    run->ratio = ratio;
    if (!(ratio <= 1))
        kn_fail(run->error, KN_ERROR_MISMATCH,
                "%s, element %lld: the device computed %.9g, the reference %.9g (allowed difference: %.2g)",
                what, (long long)element, actual, expected, allowed);
}

/* ---- gradients, stored in states --------------------------------------------------------------- */

static kn_value *numbers_like(kn_graph *graph, const kn_trial *trial, const kn_value *value,
                              const char *stream) {
    int64_t count = kn_shape_elements(&value->shape);
    float *numbers = kn_allocate(trial->host, (size_t)count + 1, sizeof *numbers);
    if (!numbers) return kn_graph_fail(graph, KN_ERROR_MEMORY, "out of host memory");
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)kn_trial_number(trial, stream, i);
    kn_value *constant = kn_constant_add(graph, &value->shape, numbers, (size_t)count * sizeof *numbers);
    kn_release(trial->host, numbers);
    return constant;
}

static kn_value *weighted(kn_graph *graph, const kn_trial *trial, kn_value *value, const char *stream) {
    return kn_sum(kn_mul(value, numbers_like(graph, trial, value, stream)), NULL, false);
}

static kn_value *bound_input(const kn_trial *trial, const kn_graph *bound, int input) {
    return kn_graph_find(bound, trial->inputs[input]->name);
}

static void store_gradient(kn_graph *bound, kn_value *gradient, const char *kind, int input) {
    char name[32];
    snprintf(name, sizeof name, "%s%d", kind, input);
    const kn_initializer zero = {KN_INITIALIZER_FILL, 0};
    kn_value *state = kn_state_add(bound, name, &gradient->shape, KN_STATE_OPTIMIZER, &zero);
    kn_assign(bound, state, gradient);
}

/* Two losses: the weighted results; and the same plus a second use of each input, to test that gradients add
 * up. */
static kn_status add_gradients(void *user, kn_graph *bound, kn_value **values, size_t count,
                               kn_error *error) {
    const kn_trial *trial = user;
    kn_value *by[KN_TRIAL_INPUTS], *loss = NULL, *twice, *gradients[KN_TRIAL_INPUTS];
    int inputs[KN_TRIAL_INPUTS], wanted = 0;
    for (size_t k = 0; k < count; k++) {
        char name[24];
        snprintf(name, sizeof name, "weight%d", (int)k);
        if (values[k]->shape.dtype != KN_FLOAT32) continue;
        kn_value *part = weighted(bound, trial, values[k], name);
        loss = loss ? kn_add(loss, part) : part;
    }
    if (!loss) return KN_OK;
    twice = loss;
    for (int i = 0; i < trial->input_count; i++) {
        if (!kn_trial_differentiates(trial, i)) continue;
        kn_value *input = bound_input(trial, bound, i);
        if (!input || input->shape.dtype != KN_FLOAT32) continue;
        char name[24];
        snprintf(name, sizeof name, "use%d", i);
        twice = kn_add(twice, weighted(bound, trial, input, name));
        inputs[wanted] = i;
        by[wanted++] = input;
    }
    for (int pass = 0; pass < 2 && wanted; pass++) {
        kn_status status =
            kn_graph_gradient(bound, pass ? twice : loss, by, (size_t)wanted, gradients, error);
        if (status != KN_OK) return status;
        /* The gradient of an input on which the loss does not depend must be zero. */
        for (int w = 0; w < wanted; w++)
            store_gradient(bound, gradients[w] ? gradients[w] : kn_scale(by[w], 0),
                           pass ? "added" : "gradient", inputs[w]);
    }
    if (bound->error.status != KN_OK) return kn_error_copy(error, &bound->error);
    return KN_OK;
}

/* The stride between the elements whose gradient is checked: all of a small input, some of a large one. */
static int64_t probe_stride(const kn_trial *trial, int64_t elements) {
    int64_t work = 0;
    for (int k = 0; k < trial->output_count; k++)
        work += kn_trial_result_elements(trial, k);
    int64_t probes = work > 20000 ? 4 : work > 2000 ? 12 : 40;
    return elements <= probes ? 1 : elements / probes;
}

static kn_status check_gradient(device_run *run, kn_session *session, int input) {
    kn_trial *trial = run->trial;
    uint64_t elements = 0;
    if (!kn_tensor_elements(&trial->infos[input], &elements) || !elements) return KN_OK;
    float *actual[2] = {NULL, NULL};
    kn_status status = KN_OK;
    for (int pass = 0; pass < 2 && status == KN_OK; pass++) {
        char name[32];
        snprintf(name, sizeof name, "%s%d", pass ? "added" : "gradient", input);
        actual[pass] = kn_allocate(trial->host, (size_t)elements + 1, sizeof **actual);
        if (!actual[pass])
            status = kn_fail_memory(run->error, (size_t)elements * 4);
        else
            status = kn_states_read(kn_session_states(session), name, actual[pass], (size_t)elements * 4,
                                    run->error);
    }
    double largest = 0, squares = 0;
    for (int64_t i = 0; status == KN_OK && i < (int64_t)elements; i++) {
        if (!isfinite(actual[0][i])) continue;
        squares += (double)actual[0][i] * (double)actual[0][i];
        if (fabs(actual[0][i]) > largest) largest = fabs(actual[0][i]);
    }
    double more = fast_tolerance(run, squares, (int64_t)elements);
    int64_t stride = probe_stride(trial, (int64_t)elements);
    for (int64_t i = 0; status == KN_OK && i < (int64_t)elements; i += stride) {
        double slope = 0;
        char use[24], what[48];
        status = kn_trial_slope(trial, input, i, &slope, run->error);
        if (status != KN_OK) break;
        if (kn_is_half(trial->types.stored) && isnan(slope)) continue;
        const double most = fmax(largest, fabs(slope));
        double allowed =
            tolerance(trial, slope, most, true) + stored_tolerance(trial, slope, most, true, false) + more;
        snprintf(what, sizeof what, "gradient of input %d", input);
        compare(run, actual[0][i], slope, allowed, what, i);
        snprintf(use, sizeof use, "use%d", input);
        snprintf(what, sizeof what, "gradient of input %d, used twice", input);
        compare(run, actual[1][i], slope + kn_trial_number(trial, use, i), allowed, what, i);
    }
    kn_release(trial->host, actual[0]);
    kn_release(trial->host, actual[1]);
    return status;
}

/* ---- the trial --------------------------------------------------------------------------------- */

static size_t feeds_of(const kn_trial *trial, kn_feed feeds[KN_TRIAL_INPUTS]) {
    size_t count = 0;
    for (int i = 0; i < trial->input_count; i++)
        if (trial->inputs[i])
            feeds[count++] = (kn_feed){trial->inputs[i]->name, trial->bytes[i], trial->byte_counts[i]};
    return count;
}

static kn_status check_results(device_run *run, kn_session *session) {
    kn_trial *trial = run->trial;
    kn_feed feeds[KN_TRIAL_INPUTS];
    kn_fetch fetches[KN_MAX_OUTPUTS];
    double *expected[KN_MAX_OUTPUTS] = {NULL};
    const size_t feed_count = feeds_of(trial, feeds);
    kn_status status = kn_trial_reference(trial, expected, run->error);
    if (status != KN_OK) return status;
    for (int k = 0; k < trial->output_count; k++) {
        size_t bytes =
            (size_t)kn_trial_result_elements(trial, k) * kn_dtype_bytes(trial->bound_outputs[k]->shape.dtype);
        void *data = kn_allocate(trial->host, bytes + 16, 1);
        if (!data)
            status = kn_fail_memory(run->error, bytes);
        else
            memset(data, 0xCB, bytes);
        fetches[k] = (kn_fetch){trial->outputs[k]->name, data, bytes};
    }
    if (status == KN_OK) {
        status = kn_session_run(session, feeds, feed_count, fetches, (size_t)trial->output_count);
        if (status != KN_OK) kn_fail(run->error, status, "%s", kn_session_error(session));
    }
    for (int k = 0; k < trial->output_count; k++) {
        int64_t elements = kn_trial_result_elements(trial, k);
        kn_dtype dtype = trial->bound_outputs[k]->shape.dtype;
        double largest = largest_of(expected[k], elements), squares = 0;
        for (int64_t i = 0; run->fast && i < elements; i++)
            if (isfinite(expected[k][i])) squares += expected[k][i] * expected[k][i];
        double fast = fast_tolerance(run, squares, elements);
        char what[24];
        snprintf(what, sizeof what, "result %d", k);
        for (int64_t i = 0; status == KN_OK && i < elements; i++)
            compare(run, kn_element_get(dtype, fetches[k].data, i), expected[k][i],
                    (run->fast ? fast : tolerance(trial, expected[k][i], largest, false)) +
                        stored_tolerance(trial, expected[k][i], largest, false, run->rounds),
                    what, i);
        kn_release(trial->host, fetches[k].data);
    }
    kn_trial_release(trial, expected);
    return status;
}

void kn_switches_of(int tile, kn_trial_types types, char text[KN_MORE_SWITCHES]) {
    char name[KN_TILE_NAME];
    size_t used = 0;
    text[0] = '\0';
    if (tile && kn_product_tile_name(tile, name))
        used = (size_t)snprintf(text, KN_MORE_SWITCHES, ",tile=%s", name);
    if (kn_is_half(types.stored))
        used += (size_t)snprintf(text + used, KN_MORE_SWITCHES - used, ",stored=%s/%u/%u",
                                 kn_dtype_name(types.stored), types.halves.inputs, types.halves.results);
    if (types.tf32) snprintf(text + used, KN_MORE_SWITCHES - used, ",products=tf32");
}

static kn_status compile_only(device_run *run, kn_session *session) {
    kn_feed feeds[KN_TRIAL_INPUTS];
    const kn_status status = kn_session_compile(session, feeds, feeds_of(run->trial, feeds));
    return status == KN_OK ? KN_OK : kn_fail(run->error, status, "%s", kn_session_error(session));
}

static kn_status check_all(device_run *run, kn_session *session) {
    kn_status status = check_results(run, session);
    for (int i = 0; i < run->trial->input_count && status == KN_OK; i++)
        if (kn_trial_differentiates(run->trial, i)) status = check_gradient(run, session, i);
    return status;
}

static kn_status run_trial(device_run *run) {
    kn_trial *trial = run->trial;
    const kn_trial_options *options = &run->options;
    char switches[288] = "", more[KN_MORE_SWITCHES];
    kn_text text;
    kn_text_init(&text, trial->host);
    /* In 16 bits a variant may support the node but not its gradients, which have other types. */
    if (options->variant && !kn_is_half(options->types.stored) && !options->types.tf32)
        kn_text_format(&text, ",%s=%s", trial->row->name, options->variant);
    if (options->variant)
        kn_text_format(&text, ",*=%s%s", options->variant, options->blocked ? ",images=blocked" : "");
    kn_switches_of(options->tile, options->types, more);
    kn_text_add(&text, more);
    if (options->programs) kn_text_format(&text, ",programs=%s", options->programs);
    if (text.length) snprintf(switches, sizeof switches, "%s", text.data + 1);
    kn_text_finish(&text);
    bool gradients = false;
    for (int i = 0; i < trial->input_count; i++)
        gradients = gradients || kn_trial_differentiates(trial, i);
    kn_session_params params;
    kn_session_params_init(&params);
    params.seed = trial->seed;
    params.training = trial->test_case->training;
    params.switches = switches[0] ? switches : NULL;
    kn_session_request request = {.context = run->context,
                                  .values = trial->outputs,
                                  .count = (size_t)trial->output_count,
                                  .params = &params,
                                  .extend = gradients ? add_gradients : NULL,
                                  .user = trial,
                                  .any_indices = true,
                                  .guard = 2048};
    kn_session *session = kn_session_open(&request);
    kn_status status = kn_session_status(session);
    if (status != KN_OK)
        kn_fail(run->error, status, "%s", session ? kn_session_error(session) : "out of host memory");
    else if (kn_context_precompiles(run->context))
        status = compile_only(run, session);
    else
        status = check_all(run, session);
    kn_session_destroy(&session);
    return status;
}

kn_status kn_trial_run(kn_context *context, const kn_operator *row, const kn_case *test_case,
                       const kn_trial_options *options, double *ratio, kn_error *error) {
    kn_trial trial;
    device_run run = {.trial = &trial, .context = context, .options = *options, .error = error};
    kn_status status = kn_trial_make(&trial, kn_context_host(context), row, test_case, NULL, options->types,
                                     options->seed, error);
    for (int i = 0; i < row->variant_count; i++)
        if (options->variant && !strcmp(row->variants[i].name, options->variant)) {
            run.fast = row->variants[i].choice.fast;
            run.rounds = row->variants[i].promise.rounds;
        }
    if (status == KN_OK) status = run_trial(&run);
    *ratio = run.ratio;
    if (status == KN_OK && !(run.ratio <= 1)) status = KN_ERROR_MISMATCH;
    kn_trial_finish(&trial);
    return status;
}

/* The largest integer for a case when its first input has other sizes: class indices stay below the number of
 * classes, lengths within the size. `sizes` are the case's, "2,5,4". */
static long long most_of(const char *sizes, const kn_shape *shape, long long high) {
    long long most = high;
    sizes += strcspn(sizes, "0123456789");
    if (strchr(sizes, ' ')) sizes = strchr(sizes, ' ');
    for (int d = 0; *sizes && d < shape->rank; d++) {
        long long size = strtoll(sizes, NULL, 10), limit = (long long)shape->dims[d] - (size > high);
        if (size >= high && limit < most) most = limit;
        sizes += strcspn(sizes, ",");
        sizes += *sizes == ',';
    }
    return most;
}

/* Ranges of the inputs: those of the first case in the table with the same kinds of inputs. For fed-back
 * inputs, (columns,units), at most 1 / sqrt(units). */
static void take_ranges(const kn_node_spec *spec, kn_case *test_case, char ranges[][32]) {
    for (int c = 0; c < spec->row->case_count; c++) {
        const kn_case *known = &spec->row->cases[c];
        bool fits = true;
        for (int i = 0; i < KN_TRIAL_INPUTS && fits; i++) {
            bool there = known->inputs[i] && strcmp(known->inputs[i], "-") != 0;
            fits = there == (i < spec->input_count && spec->given[i]);
            if (fits && there) {
                kn_dtype dtype;
                fits = kn_trial_input_type(known->inputs[i], &dtype) && dtype == spec->shapes[i].dtype;
            }
            fits = fits && !(known->ranges[i] && !strcmp(known->ranges[i], "special"));
        }
        for (int i = 0; i < KN_TRIAL_INPUTS && fits; i++) {
            test_case->ranges[i] = known->ranges[i];
            const char *dots = known->ranges[i] ? strstr(known->ranges[i], "..") : NULL;
            if (!dots || spec->shapes[i].dtype != KN_INT32) continue;
            long long low = strtoll(known->ranges[i], NULL, 10);
            long long most = most_of(known->inputs[0], &spec->shapes[0], strtoll(dots + 2, NULL, 10));
            snprintf(ranges[i], sizeof ranges[i], "%lld..%lld", low < most ? low : most, most);
            test_case->ranges[i] = ranges[i];
        }
        if (fits) break;
    }
    const int fed_back = spec->row->fed_back - 1;
    if (fed_back < 0) return;
    const int64_t units = spec->shapes[fed_back].dims[1];
    const int thousandths = units > 1 ? (int)(999 / sqrt((double)units)) : 999;
    snprintf(ranges[fed_back], sizeof ranges[fed_back], "-0.%03d..0.%03d", thousandths, thousandths);
    test_case->ranges[fed_back] = ranges[fed_back];
}

/* A trial of a node specification; `test_case` and `ranges` must outlive it. */
static kn_status make_from_spec(kn_trial *trial, const kn_host *host, const kn_node_spec *spec,
                                kn_case *test_case, char ranges[][32], kn_error *error) {
    *test_case = (kn_case){.no_gradient = true, .training = true};
    take_ranges(spec, test_case, ranges);
    return kn_trial_make(trial, host, spec->row, test_case, spec, spec->types, 1, error);
}

kn_status kn_trial_draw(kn_trial *trial, const kn_host *host, const kn_node_spec *spec, kn_error *error) {
    char ranges[KN_TRIAL_INPUTS][32];
    kn_case test_case;
    kn_status status = make_from_spec(trial, host, spec, &test_case, ranges, error);
    trial->test_case = NULL; /* its lifetime ends here */
    return status;
}

kn_status kn_trial_run_spec(kn_context *context, const kn_node_spec *spec, const kn_variant *variant,
                            int tile, kn_error *error) {
    kn_trial trial;
    char ranges[KN_TRIAL_INPUTS][32];
    kn_case test_case;
    device_run run = {.trial = &trial,
                      .context = context,
                      .options = {.variant = variant->name, .tile = tile, .types = spec->types},
                      .fast = variant->choice.fast,
                      .rounds = variant->promise.rounds,
                      .error = error};
    kn_status status = make_from_spec(&trial, kn_context_host(context), spec, &test_case, ranges, error);
    if (status == KN_OK) status = run_trial(&run);
    if (status == KN_OK && !(run.ratio <= 1)) status = KN_ERROR_MISMATCH;
    kn_trial_finish(&trial);
    return status;
}

/* Whether all images of a node can be blocked: channels are a multiple of a block, and elements have 4 bytes
 * or, on many-thread devices, 16 bits. */
static bool can_block(const kn_target *target, const kn_node *node) {
    bool any = false;
    for (int i = 0; i < node->input_count; i++) {
        const kn_shape *shape = node->inputs[i] ? &node->inputs[i]->shape : NULL;
        if (!shape || shape->rank != 4) continue;
        const int width = kn_block_width(target);
        const bool half = !target->wide_vector && kn_is_half(shape->dtype);
        if (width < 4 || shape->dims[1] < 1 || shape->dims[1] % width ||
            (kn_dtype_bytes(shape->dtype) != 4 && !half))
            return false;
        any = true;
    }
    return any;
}

/* Changes the values that the variant supports in 16 bits to the stored type. */
static void store(kn_value *const *values, int count, unsigned halves, kn_dtype stored) {
    for (int i = 0; i < count && kn_is_half(stored); i++)
        if (values[i] && halves >> i & 1 && values[i]->shape.dtype == KN_FLOAT32)
            values[i]->shape.dtype = stored;
}

bool kn_trial_accepts(kn_context *context, const kn_operator *row, const kn_case *test_case,
                      const kn_variant *variant, bool blocked, kn_trial_types types) {
    kn_trial trial;
    kn_target target;
    bool accepts = false;
    kn_target_of(context, &target);
    if (kn_trial_make(&trial, kn_context_host(context), row, test_case, NULL, (kn_trial_types){0}, 1, NULL) ==
        KN_OK)
        for (size_t i = 0; i < trial.bound->node_count; i++) {
            kn_node *node = trial.bound->nodes[i];
            if (node->op != row) continue;
            node->tf32 = types.tf32;
            store(node->inputs, node->input_count, variant->promise.halves.inputs, types.stored);
            store(node->outputs, node->output_count, variant->promise.halves.results, types.stored);
            accepts = !variant->choice.accepts || variant->choice.accepts(&target, node);
            if (blocked) accepts = accepts && variant->promise.any && can_block(&target, node);
        }
    kn_trial_finish(&trial);
    return accepts;
}
