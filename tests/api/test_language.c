/* Language models in GGUF files compute what a decoder that is written here, in double precision, computes.
 */
#include "api_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../formats/gguf_bytes.h"

enum { LENGTH = 9, VOCABULARY = 21, WIDTH = 32, HIDDEN = 64, LAYERS = 7, F32 = 0, Q8_0 = 8 };

/* An architecture as the file describes it, and what it implies. */
typedef struct kind {
    const char *name;
    int heads, key_heads, head, window;
    bool divisors, biases, head_norms, post_norms, tied, interleaved, scaled, tanh_gate;
    bool factor;    /* positions are divided, without a type of scaling */
    int sliding_of; /* of this many layers, all but the last have the window */
    float softcap;  /* of scores; that of logits is twice as large */
} kind;

static const kind kinds[] = {
    {"llama", 4, 2, 8, .tied = true, .interleaved = true},
    {"llama", 2, 2, 16, .interleaved = true, .divisors = true, .factor = true},
    {"qwen2", 4, 1, 8, .biases = true},
    {"qwen3", 2, 1, 32, .head_norms = true, .tied = true},
    {"gemma2", 4, 2, 8, 3, .post_norms = true, .tied = true, .scaled = true, .tanh_gate = true,
     .sliding_of = 2, .softcap = 0.75f},
    {"gemma3", 4, 1, 32, 3, .head_norms = true, .post_norms = true, .tied = true, .scaled = true,
     .tanh_gate = true, .sliding_of = 6},
};

typedef struct weight {
    char name[64];
    float *numbers;
} weight;

/* The file under construction, and all weights as float32. */
typedef struct making {
    gguf_made file;
    weight weights[LAYERS * 16 + 4];
    int count;
    uint64_t bytes; /* of all tensors in the file */
    uint32_t random;
} making;

static int next_random(making *m, int below) {
    m->random = m->random * 1664525u + 1013904223u;
    return (int)(m->random >> 8) % below;
}

/* A random tensor (rows,columns), or (columns) for 0 rows, around `middle`: Q8_0 with scales of powers of
 * two, so that all weights are exact, or float32. */
static void add(making *m, const char *name, int type, int rows, int columns, float middle) {
    int count = (rows ? rows : 1) * columns;
    float *numbers = m->weights[m->count].numbers = malloc((size_t)count * sizeof *numbers);
    uint8_t *bytes = malloc((size_t)count * 4);
    assert_true(numbers && bytes);
    snprintf(m->weights[m->count++].name, sizeof m->weights->name, "%s", name);
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        int code = next_random(m, 255) - 127, shift = 9 + i / 32 % 2;
        if (type == Q8_0) {
            if (i % 32 == 0) {
                bytes[used++] = 0;
                bytes[used++] = (uint8_t)((15 - shift) << 2); /* 2^-shift as float16 */
            }
            bytes[used++] = (uint8_t)code;
        }
        numbers[i] = middle + (float)code * (1.0f / (float)(1 << shift));
    }
    const int64_t shape[2] = {rows ? rows : columns, columns};
    m->bytes += type == Q8_0 ? used : (size_t)count * sizeof *numbers;
    gguf_add_tensor(&m->file, name, type, rows ? 2 : 1, shape, type == Q8_0 ? (void *)bytes : numbers,
                    type == Q8_0 ? used : (size_t)count * sizeof *numbers);
    free(bytes);
}

static const float *get(const making *m, const char *name) {
    for (int i = 0; i < m->count; i++)
        if (!strcmp(m->weights[i].name, name)) return m->weights[i].numbers;
    return NULL;
}

static const char *in_layer(int layer, const char *part) {
    static char name[64];
    snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    return name;
}

static void add_layer(making *m, const kind *of, int layer) {
    int q = of->heads * of->head, k = of->key_heads * of->head;
    add(m, in_layer(layer, "attn_norm.weight"), F32, 0, WIDTH, 1);
    add(m, in_layer(layer, "attn_q.weight"), Q8_0, q, WIDTH, 0);
    add(m, in_layer(layer, "attn_k.weight"), Q8_0, k, WIDTH, 0);
    add(m, in_layer(layer, "attn_v.weight"), F32, k, WIDTH, 0);
    add(m, in_layer(layer, "attn_output.weight"), Q8_0, WIDTH, q, 0);
    add(m, in_layer(layer, "ffn_norm.weight"), F32, 0, WIDTH, 1);
    add(m, in_layer(layer, "ffn_gate.weight"), Q8_0, HIDDEN, WIDTH, 0);
    add(m, in_layer(layer, "ffn_up.weight"), Q8_0, HIDDEN, WIDTH, 0);
    add(m, in_layer(layer, "ffn_down.weight"), Q8_0, WIDTH, HIDDEN, 0);
    if (of->biases) {
        add(m, in_layer(layer, "attn_q.bias"), F32, 0, q, 0);
        add(m, in_layer(layer, "attn_k.bias"), F32, 0, k, 0);
        add(m, in_layer(layer, "attn_v.bias"), F32, 0, k, 0);
    }
    if (of->head_norms) {
        add(m, in_layer(layer, "attn_q_norm.weight"), F32, 0, of->head, 1);
        add(m, in_layer(layer, "attn_k_norm.weight"), F32, 0, of->head, 1);
    }
    if (of->post_norms) {
        add(m, in_layer(layer, "post_attention_norm.weight"), F32, 0, WIDTH, 1);
        add(m, in_layer(layer, "post_ffw_norm.weight"), F32, 0, WIDTH, 1);
    }
}

static const char *key_of(const kind *of, const char *part) {
    static char key[96];
    snprintf(key, sizeof key, "%s.%s", of->name, part);
    return key;
}

static void make(making *m, const kind *of) {
    gguf_made *file = &m->file;
    gguf_add_string(file, "general.architecture", of->name);
    gguf_add_integer(file, key_of(of, "block_count"), LAYERS);
    gguf_add_integer(file, key_of(of, "embedding_length"), WIDTH);
    gguf_add_integer(file, key_of(of, "feed_forward_length"), HIDDEN);
    gguf_add_integer(file, key_of(of, "context_length"), LENGTH);
    gguf_add_integer(file, key_of(of, "attention.head_count"), (uint32_t)of->heads);
    gguf_add_integer(file, key_of(of, "attention.head_count_kv"), (uint32_t)of->key_heads);
    if (of->head * of->heads != WIDTH) {
        gguf_add_integer(file, key_of(of, "attention.key_length"), (uint32_t)of->head);
        gguf_add_integer(file, key_of(of, "attention.value_length"), (uint32_t)of->head);
    }
    if (of->window) gguf_add_integer(file, key_of(of, "attention.sliding_window"), (uint32_t)of->window);
    if (of->softcap > 0) {
        gguf_add_real(file, key_of(of, "attn_logit_softcapping"), of->softcap);
        gguf_add_real(file, key_of(of, "final_logit_softcapping"), 2 * of->softcap);
    }
    gguf_add_real(file, key_of(of, "attention.layer_norm_rms_epsilon"), 0.001f);
    gguf_add_real(file, key_of(of, "rope.freq_base"), 500);
    if (of->scaled) gguf_add_string(file, key_of(of, "rope.scaling.type"), "linear");
    if (of->scaled || of->factor) gguf_add_real(file, key_of(of, "rope.scaling.factor"), 8);
    if (of->divisors) add(m, "rope_freqs.weight", F32, 0, of->head / 2, 2);
    add(m, "token_embd.weight", Q8_0, VOCABULARY, WIDTH, 0);
    for (int layer = 0; layer < LAYERS; layer++)
        add_layer(m, of, layer);
    add(m, "output_norm.weight", F32, 0, WIDTH, 1);
    if (!of->tied) add(m, "output.weight", Q8_0, VOCABULARY, WIDTH, 0);
}

/* ---- the decoder ------------------------------------------------------------------------------ */

/* y (rows) = w (rows,columns) x, plus a bias if there is one. */
static void multiply(const float *w, const float *bias, int rows, int columns, const double *x, double *y) {
    for (int i = 0; i < rows; i++) {
        y[i] = bias ? (double)bias[i] : 0;
        for (int j = 0; j < columns; j++)
            y[i] += (double)w[i * columns + j] * x[j];
    }
}

static void normalize(const float *w, int count, const double *x, double *y) {
    double squares = 0;
    for (int i = 0; i < count; i++)
        squares += x[i] * x[i];
    for (int i = 0; i < count; i++)
        y[i] = x[i] / sqrt(squares / count + (double)0.001f) * (double)w[i];
}

static void turn(const making *m, const kind *of, double *x, int heads, int position, double base) {
    const float *divisors = get(m, "rope_freqs.weight");
    int pairs = of->head / 2;
    for (int head = 0; head < heads; head++)
        for (int i = 0; i < pairs; i++) {
            double *a = x + head * of->head + (of->interleaved ? 2 * i : i);
            double *b = a + (of->interleaved ? 1 : pairs);
            double angle = position / pow(base, (double)i / pairs) / (divisors ? (double)divisors[i] : 1);
            if ((of->scaled || of->factor) && base == 500) angle /= 8;
            double c = cos(angle), s = sin(angle), was = *a;
            *a = was * c - *b * s;
            *b = *b * c + was * s;
        }
}

/* q, k or v of a layer at each position: (LENGTH,heads*head). */
static void project(const making *m, const kind *of, int layer, char part, int heads, double base,
                    double (*x)[WIDTH], double *to) {
    char name[32];
    int columns = heads * of->head;
    for (int t = 0; t < LENGTH; t++, to += columns) {
        snprintf(name, sizeof name, "attn_%c.weight", part);
        const float *w = get(m, in_layer(layer, name));
        snprintf(name, sizeof name, "attn_%c.bias", part);
        multiply(w, get(m, in_layer(layer, name)), columns, WIDTH, x[t], to);
        snprintf(name, sizeof name, "attn_%c_norm.weight", part);
        const float *norm = get(m, in_layer(layer, name));
        for (int head = 0; head < heads && norm; head++)
            normalize(norm, of->head, to + head * of->head, to + head * of->head);
        if (part != 'v') turn(m, of, to, heads, t, base);
    }
}

static double capped(double x, float cap) {
    return cap > 0 ? (double)cap * tanh(x / (double)cap) : x;
}

static void attend(const kind *of, int window, const double *q, const double *k, const double *v, double *y) {
    int columns = of->heads * of->head, key_columns = of->key_heads * of->head;
    memset(y, 0, (size_t)(LENGTH * columns) * sizeof *y);
    for (int t = 0; t < LENGTH; t++)
        for (int head = 0; head < of->heads; head++) {
            int first = window && t >= window ? t - window + 1 : 0;
            int at = t * columns + head * of->head, key = head / (of->heads / of->key_heads) * of->head;
            double weights[LENGTH], sum = 0;
            for (int s = first; s <= t; s++) {
                double score = 0;
                for (int d = 0; d < of->head; d++)
                    score += q[at + d] * k[s * key_columns + key + d];
                sum += weights[s] = exp(capped(score / sqrt(of->head), of->softcap));
            }
            for (int s = first; s <= t; s++)
                for (int d = 0; d < of->head; d++)
                    y[at + d] += weights[s] / sum * v[s * key_columns + key + d];
        }
}

static void add_to(const float *norm, const double *change, double *x) {
    double own[WIDTH];
    if (norm) normalize(norm, WIDTH, change, own);
    for (int i = 0; i < WIDTH; i++)
        x[i] += norm ? own[i] : change[i];
}

static void compute_layer(const making *m, const kind *of, int layer, double (*x)[WIDTH]) {
    static double normal[LENGTH][WIDTH], q[LENGTH * 128], k[LENGTH * 128], v[LENGTH * 128], y[LENGTH * 128];
    bool slides = of->window && (layer + 1) % of->sliding_of != 0;
    double base = slides && of->sliding_of == 6 ? 10000 : 500, gate[HIDDEN], up[HIDDEN], change[WIDTH];
    for (int t = 0; t < LENGTH; t++)
        normalize(get(m, in_layer(layer, "attn_norm.weight")), WIDTH, x[t], normal[t]);
    project(m, of, layer, 'q', of->heads, base, normal, q);
    project(m, of, layer, 'k', of->key_heads, base, normal, k);
    project(m, of, layer, 'v', of->key_heads, base, normal, v);
    attend(of, slides ? of->window : 0, q, k, v, y);
    for (int t = 0; t < LENGTH; t++) {
        int columns = of->heads * of->head;
        multiply(get(m, in_layer(layer, "attn_output.weight")), NULL, WIDTH, columns, y + t * columns,
                 change);
        add_to(get(m, in_layer(layer, "post_attention_norm.weight")), change, x[t]);
        normalize(get(m, in_layer(layer, "ffn_norm.weight")), WIDTH, x[t], normal[t]);
        multiply(get(m, in_layer(layer, "ffn_gate.weight")), NULL, HIDDEN, WIDTH, normal[t], gate);
        multiply(get(m, in_layer(layer, "ffn_up.weight")), NULL, HIDDEN, WIDTH, normal[t], up);
        for (int i = 0; i < HIDDEN; i++) {
            double g = gate[i];
            g = of->tanh_gate ? g / 2 * (1 + tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)))
                              : g / (1 + exp(-g));
            gate[i] = g * up[i];
        }
        multiply(get(m, in_layer(layer, "ffn_down.weight")), NULL, WIDTH, HIDDEN, gate, change);
        add_to(get(m, in_layer(layer, "post_ffw_norm.weight")), change, x[t]);
    }
}

/* logits is (LENGTH,VOCABULARY). */
static void compute(const making *m, const kind *of, const int32_t *tokens, double *logits) {
    double x[LENGTH][WIDTH], normal[WIDTH];
    const float *table = get(m, "token_embd.weight"), *output = get(m, "output.weight");
    for (int t = 0; t < LENGTH; t++)
        for (int i = 0; i < WIDTH; i++)
            x[t][i] = (double)table[tokens[t] * WIDTH + i] * (of->scaled ? sqrt(WIDTH) : 1);
    for (int layer = 0; layer < LAYERS; layer++)
        compute_layer(m, of, layer, x);
    for (int t = 0; t < LENGTH; t++) {
        normalize(get(m, "output_norm.weight"), WIDTH, x[t], normal);
        multiply(output ? output : table, NULL, VOCABULARY, WIDTH, normal, logits + t * VOCABULARY);
        for (int i = 0; i < VOCABULARY; i++)
            logits[t * VOCABULARY + i] = capped(logits[t * VOCABULARY + i], 2 * of->softcap);
    }
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void write_file(const char *path, gguf_made *made) {
    gguf_bytes bytes = gguf_finish(made);
    test_file_write(path, bytes.bytes, bytes.count);
    free(bytes.bytes);
}

static void good(const kn_session *session, kn_status status) {
    if (status != KN_OK) fail_msg("%s", session ? kn_session_error(session) : "no memory");
}

static void compare(const kind *of, const char *what, const float *got, const double *expected, int count) {
    for (int i = 0; i < count; i++)
        if (!(fabs((double)got[i] - expected[i]) <= 2e-5 * (1 + fabs(expected[i]))))
            fail_msg("%s, %s, logit %d: %.9g, expected %.9g", of->name, what, i, (double)got[i], expected[i]);
}

enum { WHOLE = 0, LAST = -1 }; /* instead of a number of rows; LAST: three, the output at the last */
static kn_session *open_session(kn_model *model, kn_context *context, kn_states *states, int64_t rows) {
    kn_session_params params;
    kn_session_params_init(&params);
    params.states = states;
    kn_value *output = kn_model_output_at(model, 0);
    kn_graph *graph = NULL;
    if (rows) {
        graph = rows == LAST ? kn_model_step_last(model, 3, &output) : kn_model_step(model, rows, &output);
        assert_non_null(graph);
    }
    kn_session *session = kn_session_create(context, &output, 1, &params);
    good(session, kn_session_status(session));
    kn_graph_destroy(&graph);
    return session;
}

/* Computes `rows` positions from `start` on; start < 0: all, without caches. */
static void run(const kind *of, kn_session *session, const int32_t *tokens, int32_t start, int32_t rows,
                float *logits) {
    kn_feed feeds[] = {{"x", tokens, (size_t)rows * sizeof *tokens}, {"step.start", &start, sizeof start}};
    kn_fetch fetch = {of->softcap > 0 ? "logits" : "output", logits,
                      (size_t)rows * VOCABULARY * sizeof *logits};
    good(session, kn_session_run(session, feeds, start < 0 ? 1 : 2, &fetch, 1));
}

static void try_kind(kn_context *context, const char *path, const kind *of, uint32_t seed) {
    making m = {.random = seed};
    int32_t tokens[LENGTH];
    double expected[LENGTH * VOCABULARY];
    float got[LENGTH * VOCABULARY];
    make(&m, of);
    write_file(path, &m.file);
    for (int t = 0; t < LENGTH; t++)
        tokens[t] = next_random(&m, VOCABULARY);
    compute(&m, of, tokens, expected);
    kn_model *model = kn_model_open(path, NULL);
    if (kn_model_status(model) != KN_OK) fail_msg("%s: %s", of->name, kn_model_error(model));
    kn_states *states = kn_states_create(context, 1);
    kn_session *whole = open_session(model, context, states, 0);
    if (kn_model_load(model, NULL, states, NULL, NULL) != KN_OK) fail_msg("%s", kn_model_error(model));
    run(of, whole, tokens, -1, LENGTH, got);
    compare(of, "all at once", got, expected, LENGTH * VOCABULARY);
    kn_plan_info info = {.size = sizeof info}; /* weights are stored in the file's blocks, each aligned */
    good(whole, kn_session_plan(whole, &info));
    assert_in_range(info.state_bytes, m.bytes, m.bytes + 256 * (uint64_t)m.count);
    kn_session *few = open_session(model, context, states, 3), *one = open_session(model, context, states, 1);
    run(of, few, tokens, 0, 3, got);
    run(of, few, tokens + 3, 3, 3, got + 3 * VOCABULARY);
    for (int32_t t = 6; t < LENGTH; t++)
        run(of, one, tokens + t, t, 1, got + t * VOCABULARY);
    compare(of, "in steps", got, expected, LENGTH * VOCABULARY);
    /* The same in pieces of three rows, the last with two and a padding. */
    kn_session *last = open_session(model, context, states, LAST);
    for (int32_t start = 0, count = 3; start < 8; start += count) {
        const int32_t rows[3] = {tokens[start], tokens[start + 1], start < 6 ? tokens[start + 2] : 0};
        if (start == 6) count = 2;
        kn_feed feeds[] = {{"x", rows, sizeof rows}, {"step.start", &start, 4}, {"step.count", &count, 4}};
        kn_fetch fetch = {of->softcap > 0 ? "logits" : "output", got, VOCABULARY * sizeof *got};
        good(last, kn_session_run(last, feeds, 3, &fetch, 1));
        compare(of, "the last of a piece", got, expected + (start + count - 1) * VOCABULARY, VOCABULARY);
    }
    kn_session_destroy(&last);
    kn_session_destroy(&whole);
    kn_session_destroy(&few);
    kn_session_destroy(&one);
    kn_states_destroy(&states);
    kn_model_destroy(&model);
    for (int i = 0; i < m.count; i++)
        free(m.weights[i].numbers);
}

static void files_compute_their_architectures(void **state) {
    char *folder = test_folder_make(), path[300];
    kn_context *context = kn_context_create(NULL);
    test_path(path, sizeof path, folder, "model.gguf");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        try_kind(context, path, &kinds[i], (uint32_t)i + 1);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

/* ---- adapters ---------------------------------------------------------------------------------------- */

enum { RANK = 2, ADAPTED = 4 };
static const char *const adapted[ADAPTED][2] = {{"attn_q", "self_attn.q_proj"},
                                                {"attn_k", "self_attn.k_proj"},
                                                {"attn_v", "self_attn.v_proj"},
                                                {"ffn_down", "mlp.down_proj"}};

/* A folder as PEFT writes it, and its matrices. */
typedef struct peft_folder {
    char path[300];
    kn_named_tensor tensors[2 * ADAPTED * LAYERS];
    char names[2 * ADAPTED * LAYERS][120];
    float *numbers[2 * ADAPTED * LAYERS];
    int count;
} peft_folder;

static void write_text(const char *folder, const char *name, const char *text) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_true(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The row of a GGUF file that is row `row` of q or k in Hugging Face's order. */
static int row_in_file(const kind *of, int row) {
    const int half = of->head / 2, within = row % of->head;
    if (!of->interleaved) return row;
    return row - within + 2 * (within % half) + within / half;
}

/* Adds random matrices of a layer, and twice their product to the weight. */
static void add_pair(making *m, const kind *of, peft_folder *to, int layer, int which, int rows,
                     int columns) {
    float *a = malloc((size_t)(RANK * columns) * sizeof *a), *b = malloc((size_t)(rows * RANK) * sizeof *b);
    char name[32];
    assert_true(a && b);
    for (int i = 0; i < RANK * columns; i++)
        a[i] = (float)(next_random(m, 255) - 127) / 2048;
    for (int i = 0; i < rows * RANK; i++)
        b[i] = (float)(next_random(m, 255) - 127) / 1024;
    snprintf(name, sizeof name, "%s.weight", adapted[which][0]);
    float *merged = (float *)(uintptr_t)get(m, in_layer(layer, name));
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            for (int k = 0; k < RANK; k++)
                merged[(which < 2 ? row_in_file(of, i) : i) * columns + j] +=
                    2 * b[i * RANK + k] * a[k * columns + j];
    for (int part = 0; part < 2; part++, to->count++) {
        snprintf(to->names[to->count], sizeof *to->names,
                 "base_model.model.model.layers.%d.%s.lora_%c.weight", layer, adapted[which][1],
                 part ? 'B' : 'A');
        to->numbers[to->count] = part ? b : a;
        to->tensors[to->count] =
            (kn_named_tensor){to->names[to->count],
                              {KN_FLOAT32, 2, {part ? rows : RANK, part ? RANK : columns}},
                              to->numbers[to->count]};
    }
}

#define CONFIG(more)                                                                                         \
    "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, \"bias\": \"none\", \"target_modules\": "        \
    "[\"q_proj\"], \"loftq_config\": {}, \"use_rslora\": false, \"layers_pattern\": null" more "}"

static void make_folder(making *m, const kind *of, peft_folder *to) {
    char file[400], message[200] = "";
    for (int layer = 0; layer < LAYERS; layer++)
        for (int which = 0; which < ADAPTED; which++)
            add_pair(m, of, to, layer, which,
                     which == 0   ? of->heads * of->head
                     : which == 3 ? WIDTH
                                  : of->key_heads * of->head,
                     which == 3 ? HIDDEN : WIDTH);
    snprintf(file, sizeof file, "%s/adapter_model.safetensors", to->path);
    if (kn_safetensors_file_save(file, to->tensors, (size_t)to->count, message, sizeof message) != KN_OK)
        fail_msg("%s", message);
    write_text(to->path, "adapter_config.json", CONFIG(""));
}

/* Opens the model with an adapter and computes all logits; saves the adapter to `to` unless that is NULL. */
static void run_adapted(kn_context *context, const kind *of, const char *path, const char *adapter,
                        const int32_t *tokens, float *logits, const char *to) {
    kn_model *model = kn_model_open(path, NULL);
    if (kn_model_open_adapter(model, adapter) != KN_OK) fail_msg("%s", kn_model_error(model));
    kn_states *states = kn_states_create(context, 1);
    kn_session *whole = open_session(model, context, states, 0),
               *few = open_session(model, context, states, 3);
    float pieces[LENGTH * VOCABULARY];
    if (kn_model_load(model, NULL, states, NULL, NULL) != KN_OK ||
        kn_model_load_adapter(model, adapter, states) != KN_OK)
        fail_msg("%s", kn_model_error(model));
    run(of, whole, tokens, -1, LENGTH, logits);
    for (int32_t t = 0; t < LENGTH; t += 3)
        run(of, few, tokens + t, t, 3, pieces + t * VOCABULARY);
    for (int i = 0; i < LENGTH * VOCABULARY; i++)
        if (!(fabsf(pieces[i] - logits[i]) <= 2e-5f * (1 + fabsf(logits[i]))))
            fail_msg("logit %d: %.9g in steps, %.9g at once", i, (double)pieces[i], (double)logits[i]);
    if (to && kn_model_save_adapter(model, to, states) != KN_OK) fail_msg("%s", kn_model_error(model));
    kn_session_destroy(&whole);
    kn_session_destroy(&few);
    kn_states_destroy(&states);
    kn_model_destroy(&model);
}

/* The matrices that were written are those that were read. */
static void same_matrices(const peft_folder *wanted, const char *folder) {
    char path[400];
    float numbers[64 * 64];
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
    kn_safetensors_file *file = kn_safetensors_file_open(path, NULL);
    assert_int_equal(kn_safetensors_file_count(file), wanted->count);
    for (int i = 0; i < wanted->count; i++) {
        const kn_tensor_info *info = &wanted->tensors[i].info;
        const size_t bytes = (size_t)(info->shape[0] * info->shape[1]) * sizeof(float);
        assert_true(bytes <= sizeof numbers);
        if (kn_safetensors_file_copy(file, wanted->names[i], KN_FLOAT32, numbers, bytes) != KN_OK)
            fail_msg("%s: %s", wanted->names[i], kn_safetensors_file_error(file));
        assert_memory_equal(numbers, wanted->numbers[i], bytes);
    }
    kn_safetensors_file_destroy(&file);
}

static void adapter_refused(const char *path, const char *adapter, const char *part) {
    kn_model *model = kn_model_open(path, NULL);
    if (kn_model_open_adapter(model, adapter) == KN_OK || !strstr(kn_model_error(model), part))
        fail_msg("\"%s\", expected \"%s\"", kn_model_error(model), part);
    kn_model_destroy(&model);
}

static void adapters_are_read_and_written(void **state) {
    char *folder = test_folder_make(), path[300], again[300], gguf[300];
    kn_context *context = kn_context_create(NULL);
    peft_folder adapter;
    test_path(path, sizeof path, folder, "model.gguf");
    test_path(again, sizeof again, folder, "again");
    test_path(gguf, sizeof gguf, folder, "adapter.gguf");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        making m = {.random = (uint32_t)i + 11};
        int32_t tokens[LENGTH];
        double expected[LENGTH * VOCABULARY];
        float got[LENGTH * VOCABULARY], other[LENGTH * VOCABULARY];
        memset(&adapter, 0, sizeof adapter);
        snprintf(adapter.path, sizeof adapter.path, "%s", folder);
        make(&m, &kinds[i]);
        write_file(path, &m.file);
        make_folder(&m, &kinds[i], &adapter);
        for (int t = 0; t < LENGTH; t++)
            tokens[t] = next_random(&m, VOCABULARY);
        compute(&m, &kinds[i], tokens, expected);
        run_adapted(context, &kinds[i], path, adapter.path, tokens, got, again);
        compare(&kinds[i], "with an adapter", got, expected, LENGTH * VOCABULARY);
        same_matrices(&adapter, again);
        run_adapted(context, &kinds[i], path, again, tokens, other, gguf);
        assert_memory_equal(got, other, sizeof got);
        run_adapted(context, &kinds[i], path, gguf, tokens, other, NULL);
        assert_memory_equal(got, other, sizeof got);
        for (int k = 0; k < m.count; k++)
            free(m.weights[k].numbers);
        for (int k = 0; k < adapter.count; k++)
            free(adapter.numbers[k]);
    }
    adapter_refused(path, path, "\"general.type\" is ''; expected adapter");
    static const char *const wrong[][2] = {
        {CONFIG(", \"use_dora\": true"), "use_dora is true"},
        {CONFIG(", \"modules_to_save\": [\"lm_head\"]"), "\"modules_to_save\" (an array) is not supported"},
        {CONFIG(", \"rank_pattern\": {\"q_proj\": 4}"), "\"rank_pattern\" is an object; expected {}"},
        {CONFIG(", \"init_lora_weights\": \"pissa\""), "\"init_lora_weights\" is 'pissa'"},
        {CONFIG(", \"new_setting\": 1"), "\"new_setting\" (1) is not supported"},
        {"{\"peft_type\": \"IA3\"}", "\"peft_type\" is 'IA3'; expected LORA"},
        {"{\"peft_type\": \"LORA\"}", "\"r\" is missing"},
        {"{\"peft_type\": \"LORA\", \"r\": 3}", "has the ranks 2 (A) and 2 (B); expected 3"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_text(folder, "adapter_config.json", wrong[i][0]);
        adapter_refused(path, folder, wrong[i][1]);
    }
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

/* ---- files that would compute something else ----------------------------------------------------- */

static void refused(const char *path, making *m, const char *part) {
    write_file(path, &m->file);
    kn_model *model = kn_model_open(path, NULL);
    if (kn_model_status(model) == KN_OK || !strstr(kn_model_error(model), part))
        fail_msg("\"%s\", expected \"%s\"", kn_model_error(model), part);
    kn_model_destroy(&model);
    for (int i = 0; i < m->count; i++)
        free(m->weights[i].numbers);
    *m = (making){.count = 0};
}

static void what_is_not_supported_is_named(void **state) {
    char *folder = test_folder_make(), path[300];
    test_path(path, sizeof path, folder, "model.gguf");
    making m = {.count = 0};
    make(&m, &kinds[0]);
    gguf_add_string(&m.file, "llama.rope.scaling.type", "yarn");
    refused(path, &m, "scaled as 'yarn' (rope.scaling.type)");
    make(&m, &kinds[0]);
    gguf_add_integer(&m.file, "llama.expert_count", 8);
    refused(path, &m, "\"llama.expert_count\" is 8; only 0 is supported");
    make(&m, &kinds[0]);
    gguf_add_real(&m.file, "llama.logit_scale", 2);
    refused(path, &m, "the setting \"llama.logit_scale\" is not supported");
    make(&m, &kinds[2]);
    gguf_add_integer(&m.file, "qwen2.attention.sliding_window", 4);
    refused(path, &m, "attention within a window (attention.sliding_window) is not supported");
    make(&m, &kinds[0]);
    add(&m, "blk.0.attn_sinks.weight", F32, 0, 4, 0);
    refused(path, &m, "tensor 'blk.0.attn_sinks.weight' is not used");
    gguf_add_string(&m.file, "general.architecture", "mamba");
    refused(path, &m, "the architecture is 'mamba'");
    gguf_add_string(&m.file, "general.architecture", "llama");
    refused(path, &m, "the file has no \"llama.block_count\"");
    test_folder_remove(folder);
}

/* Random changes of the header: the file is refused with a message, or opened and its weights loaded. */
static void damaged_files_are_refused_or_opened(void **state) {
    char *folder = test_folder_make(), path[300];
    kn_context *context = kn_context_create(NULL);
    test_path(path, sizeof path, folder, "model.gguf");
    making m = {.random = 3};
    make(&m, &kinds[0]);
    const size_t header = m.file.values.count + m.file.tensors.count;
    const gguf_bytes whole = gguf_finish(&m.file);
    int opened = 0, refusals = 0;
    for (int round = 0; round < 400; round++) {
        uint8_t *bytes = malloc(whole.count);
        assert_non_null(bytes);
        memcpy(bytes, whole.bytes, whole.count);
        for (int change = next_random(&m, 3); change >= 0; change--) {
            size_t at = 8 + (size_t)next_random(&m, (int)header);
            bytes[at] =
                (uint8_t)(next_random(&m, 2) ? next_random(&m, 256) : bytes[at] ^ 1 << next_random(&m, 8));
        }
        test_file_write(path, bytes, whole.count);
        free(bytes);
        kn_model *model = kn_model_open(path, NULL);
        const bool open = kn_model_status(model) == KN_OK;
        assert_true(open == (kn_model_error(model)[0] == '\0'));
        kn_states *states = kn_states_create(context, 1);
        if (open && kn_model_load(model, NULL, states, NULL, NULL) != KN_OK)
            assert_true(kn_model_error(model)[0] != '\0');
        *(open ? &opened : &refusals) += 1;
        kn_states_destroy(&states);
        kn_model_destroy(&model);
    }
    assert_true(opened > 0 && refusals > 100);
    free(whole.bytes);
    for (int i = 0; i < m.count; i++)
        free(m.weights[i].numbers);
    kn_context_destroy(&context);
    test_folder_remove(folder);
}

int main(void) {
    if (!device_is_there()) return 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_compute_their_architectures),
                                       cmocka_unit_test(adapters_are_read_and_written),
                                       cmocka_unit_test(what_is_not_supported_is_named),
                                       cmocka_unit_test(damaged_files_are_refused_or_opened)};
    return cmocka_run_group_tests_name("language", tests, NULL, NULL);
}
