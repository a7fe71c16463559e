/* Custom operators: a small network of radial bumps learns which points lie inside a disc.
 *
 * `distances` is a kernel: how far each of n points is from each of m centres, squared. Its gradient is built
 * of operators that the library has. `bump` is an expression for each element, which the library fuses with
 * its neighbours. Both are checked on the device before they are trained. */
#include <koine/koine.h>
#include <stdio.h>

enum { SAMPLES = 512, BATCH = 32, EPOCHS = 40 };
static float points[SAMPLES][2];
static int32_t inside[SAMPLES];

/* points is (n,axes), centres (m,axes), the result (n,m). After the arrays come the sizes, as they appear in
 * the patterns. */
static const char source[] =
    "kernel void distances(global const KN_T *points, global const KN_T *centres, global KN_T *result,\n"
    "                      KN_INDEX n, KN_INDEX axes, KN_INDEX m) {\n"
    "    KN_INDEX j = get_global_id(0), i = get_global_id(1);\n"
    "    KN_T sum = 0;\n"
    "    for (KN_INDEX a = 0; a < axes; a++) {\n"
    "        KN_T way = points[i * axes + a] - centres[j * axes + a];\n"
    "        sum += way * way;\n"
    "    }\n"
    "    result[i * m + j] = sum;\n"
    "}\n";

/* result = |x|^2 - 2 x c' + |c|^2, so that its gradient g, (n,m), flows to x as 2 (sum of g along m * x - g
 * c), and to c alike. */
static kn_value *side(kn_value *g, bool transposed, kn_value *x, kn_value *other) {
    kn_value *sums = kn_sum(g, transposed ? "0" : "1", true); /* (1,m) or (n,1) */
    if (transposed) sums = kn_transpose(sums, "1,0");
    return kn_scale(kn_sub(kn_mul(sums, x), kn_matmul(g, other, transposed, false)), 2);
}

static void distances_gradient(void *user, const kn_custom_gradient *call) {
    kn_value *g = call->result_gradients[0];
    (void)user;
    if (call->needs_gradient[0]) call->input_gradients[0] = side(g, false, call->inputs[0], call->inputs[1]);
    if (call->needs_gradient[1]) call->input_gradients[1] = side(g, true, call->inputs[1], call->inputs[0]);
}

/* What the kernel has to compute, on the host: for the check. */
static void distances_reference(void *user, const kn_custom_reference *call) {
    int64_t n = call->node->sizes[0], axes = call->node->sizes[1], m = call->node->sizes[2];
    (void)user;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < m; j++)
            for (int64_t a = 0; a < axes; a++) {
                double way = call->inputs[0][i * axes + a] - call->inputs[1][j * axes + a];
                call->results[0][i * m + j] += way * way;
            }
}

static kn_operator *make_distances(void) {
    kn_kernel_params params;
    kn_kernel_params_init(&params);
    params.name = "distances";
    params.source = source;
    params.inputs = "n,axes; m,axes";
    params.results = "n,m";
    params.launch = "m,n";
    params.gradient = distances_gradient;
    params.reference = distances_reference;
    return kn_operator_create_kernel(&params);
}

static void tell(void *user, const kn_verify_result *result) {
    (void)user;
    printf("%s %s %s\n", result->status == KN_OK ? "right" : "WRONG", result->name, result->message);
}

int main(void) {
    for (int i = 0; i < SAMPLES; i++) {
        int place = i * 37 % SAMPLES;
        float x = points[i][0] = (float)(place % 32) / 16 - 1, y = points[i][1] = (float)(place / 32) / 8 - 1;
        inside[i] = x * x + y * y < 0.5f;
    }
    kn_context *context = kn_context_create(NULL);
    kn_operator *distances = make_distances();
    kn_pointwise_params params = KN_POINTWISE_DEFAULTS;
    params.name = "bump";
    params.value = "exp(-x / width)";
    params.gradients[0] = "-g * r / width"; /* g is the gradient of the result r */
    params.attributes = "width=0.5";        /* with its default */
    kn_operator *bump = kn_operator_create_pointwise(&params);

    const kn_verify_case of_distances[] = {{"5,3; 7,3", NULL, NULL, false}, {"0,3; 7,3", NULL, NULL, false}};
    const kn_verify_case of_bump[] = {{"31,33", "width=0.25", "0..4", false}, {"3,1,7", NULL, "0..4", false}};
    kn_verify_params verify;
    kn_verify_params_init(&verify);
    verify.report = tell;
    if (kn_verify_operator(context, distances, of_distances, 2, &verify, NULL, NULL) != KN_OK ||
        kn_verify_operator(context, bump, of_bump, 2, &verify, NULL, NULL) != KN_OK)
        fprintf(stderr, "%s%s%s\n", kn_context_error(context), kn_operator_error(distances),
                kn_operator_error(bump));

    kn_graph *graph = kn_graph_create(NULL);
    const kn_initializer anywhere = {KN_INITIALIZER_UNIFORM, 1};
    kn_value *in = kn_input(graph, "points", KN_FLOAT32, "batch,2");
    kn_value *target = kn_input(graph, "inside", KN_INT32, "batch");
    kn_value *both[2] = {in, kn_parameter(graph, "centres", KN_FLOAT32, "16,2", &anywhere)};
    kn_value *far = kn_apply_operator(distances, both, 2, NULL);
    kn_value *near = kn_apply_operator(bump, &far, 1, "width=0.2"); /* far is a value of a graph */
    kn_value *logits = kn_linear(near, 2, NULL);
    kn_value *accuracy = kn_name(kn_accuracy(logits, target), "accuracy");
    kn_trainer *trainer = kn_trainer_create(context, kn_cross_entropy(logits, target, NULL), NULL);
    kn_operator_destroy(&distances); /* the trainer keeps what it needs */
    kn_operator_destroy(&bump);
    kn_status status = kn_trainer_status(trainer);
    for (int step = 0; status == KN_OK && step < EPOCHS * SAMPLES / BATCH; step++) {
        int first = step * BATCH % SAMPLES;
        kn_feed feeds[] = {{"points", points[first], BATCH * sizeof points[0], 0}, /* 0: no scaled bytes */
                           {"inside", &inside[first], BATCH * sizeof inside[0], 0}};
        status = kn_trainer_step(trainer, BATCH, feeds, 2, NULL);
    }
    float share = 0;
    kn_feed all[] = {{"points", points, sizeof points, 0}, {"inside", inside, sizeof inside, 0}};
    kn_fetch result = {"accuracy", &share, sizeof share};
    if (status == KN_OK) status = kn_trainer_evaluate(trainer, SAMPLES, all, 2, &accuracy, &result, 1);
    if (status != KN_OK)
        fprintf(stderr, "%s\n", kn_trainer_error(trainer));
    else
        printf("accuracy %.3f\n", share);
    kn_trainer_destroy(&trainer);
    kn_graph_destroy(&graph);
    kn_context_destroy(&context);
    return status != KN_OK;
}
