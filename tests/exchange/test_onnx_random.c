/* Operators of random numbers: the distribution of their results, computed on the host. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../ops/ops_tests.h"
#include "exchange/onnx/import.h"
#include "onnx_model.h"

enum { COUNT = 20000 };

/* Output `position` at a step, COUNT elements. */
static void drawn(kn_model *model, int position, double step, double *numbers) {
    const kn_bind_request request = {.seed = 1};
    const host_input counter = {"koine.step", &step};
    kn_graph *bound = NULL;
    kn_value *output;
    kn_error error = {0};
    if (kn_graph_bind(model->graph, &model->outputs[position], 1, &request, &bound, &output, &error) != KN_OK)
        fail_msg("%s", error.text);
    host_values computed = host_compute(bound, &counter, 1);
    assert_int_equal(host_elements(output), COUNT);
    memcpy(numbers, computed.numbers[output->id], COUNT * sizeof *numbers);
    host_release(&computed);
    kn_graph_destroy(&bound);
}

typedef struct moments {
    double mean, deviation, least, most;
} moments;

static moments moments_of(const double *x, int count) {
    moments found = {.least = INFINITY, .most = -INFINITY};
    for (int i = 0; i < count; i++) {
        found.mean += x[i] / count;
        found.least = fmin(found.least, x[i]);
        found.most = fmax(found.most, x[i]);
    }
    for (int i = 0; i < count; i++)
        found.deviation += (x[i] - found.mean) * (x[i] - found.mean) / count;
    found.deviation = sqrt(found.deviation);
    return found;
}

/* Within five standard errors of a mean and of a deviation. */
static void has_moments(const double *x, double mean, double deviation) {
    const moments found = moments_of(x, COUNT);
    const double error = 5 * deviation / sqrt(COUNT);
    if (!(fabs(found.mean - mean) < error && fabs(found.deviation - deviation) < error))
        fail_msg("mean %g, deviation %g; expected %g, %g", found.mean, found.deviation, mean, deviation);
}

/* Neighbors, and elements of two lists, are independent. */
static void is_independent(const double *x, const double *y, int distance) {
    const moments of_x = moments_of(x, COUNT), of_y = moments_of(y, COUNT);
    double sum = 0;
    for (int i = 0; i + distance < COUNT; i++)
        sum += (x[i] - of_x.mean) * (y[i + distance] - of_y.mean) / COUNT;
    assert_true(fabs(sum) < 5 * of_x.deviation * of_y.deviation / sqrt(COUNT));
}

/* Values of two nodes of one operator, and of two steps. */
static void distribution(const char *type, const char *attributes, double mean, double deviation,
                         double least, double most) {
    static double x[3][COUNT];
    onnx_graph graph = {.bytes.count = 0};
    char words[128];
    const bool like = strstr(type, "Like") != NULL;
    onnx_node(&graph, "Constant", "", "size", "value_ints=20000");
    onnx_node(&graph, "ConstantOfShape", "size", "zeros", NULL);
    snprintf(words, sizeof words, "%s%s", attributes, like ? "" : " shape=100:200");
    onnx_node(&graph, type, like ? "zeros" : "", "y", words);
    onnx_node(&graph, type, like ? "zeros" : "", "z", words);
    onnx_output(&graph, "y");
    onnx_output(&graph, "z");
    kn_model *model = onnx_right(&graph, NULL);
    for (int i = 0; i < 3; i++) {
        drawn(model, i % 2, i / 2, x[i]);
        const moments found = moments_of(x[i], COUNT);
        has_moments(x[i], mean, deviation);
        assert_true(found.least >= least && found.most <= most);
        is_independent(x[i], x[i], 1);
    }
    is_independent(x[0], x[1], 0);
    is_independent(x[0], x[2], 0);
    kn_model_destroy(&model);
}

TEST(normal_numbers) {
    distribution("RandomNormal", "mean=2.0f scale=3.0f", 2, 3, -16, 20);
    distribution("RandomNormalLike", "", 0, 1, -6, 6);
}

TEST(uniform_numbers) {
    distribution("RandomUniform", "low=-1.0f high=3.0f", 1, 4 / sqrt(12), -1, 3);
    distribution("RandomUniformLike", "", 0.5, 1 / sqrt(12), 0, 1);
}

/* A frequency among `count` draws is within five standard errors of the probability. */
static void is_close(double frequency, double chance, double count) {
    const double error = sqrt(chance * (1 - chance) / count);
    if (!(fabs(frequency - chance) <= 5 * error + 1e-12)) fail_msg("%g, expected %g", frequency, chance);
}

/* 1 with the probability of an element. */
TEST(bernoulli_numbers) {
    static double x[COUNT];
    onnx_graph graph = {.bytes.count = 0};
    onnx_node(&graph, "Constant", "", "quarters", "value_ints=0:1:3:4");
    onnx_node(&graph, "Cast", "quarters", "numbers", "to=1");
    onnx_node(&graph, "Constant", "", "quarter", "value_float=0.25f");
    onnx_node(&graph, "Mul", "numbers,quarter", "chances", NULL);
    onnx_node(&graph, "Constant", "", "size", "value_ints=5000:4");
    onnx_node(&graph, "Expand", "chances,size", "all", NULL);
    onnx_node(&graph, "Bernoulli", "all", "y", "dtype=7");
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    assert_int_equal(kn_value_dtype(kn_model_output_at(model, 0)), KN_INT64);
    drawn(model, 0, 0, x);
    for (int k = 0; k < 4; k++) {
        const double chance = (const double[]){0, 0.25, 0.75, 1}[k];
        double ones = 0;
        for (int i = k; i < COUNT; i += 4) {
            assert_true(x[i] == 0 || x[i] == 1);
            ones += x[i];
        }
        is_close(ones / 5000, chance, 5000);
    }
    kn_model_destroy(&model);
}

/* Classes with the softmax of their numbers as probabilities, for each row. */
TEST(multinomial_numbers) {
    static double x[COUNT];
    onnx_graph graph = {.bytes.count = 0};
    const double powers[] = {1, exp(1), exp(-200), exp(2)};
    onnx_node(&graph, "Constant", "", "integers", "value_ints=0:1:-200:2");
    onnx_node(&graph, "Cast", "integers", "list", "to=1");
    onnx_node(&graph, "Constant", "", "size", "value_ints=2:4");
    onnx_node(&graph, "Expand", "list,size", "all", NULL);
    onnx_node(&graph, "Multinomial", "all", "y", "sample_size=10000");
    onnx_output(&graph, "y");
    kn_model *model = onnx_right(&graph, NULL);
    assert_int_equal(kn_value_dtype(kn_model_output_at(model, 0)), KN_INT32);
    drawn(model, 0, 0, x);
    for (int row = 0; row < 2; row++) {
        double counts[4] = {0};
        for (int i = 0; i < 10000; i++) {
            assert_true(x[row * 10000 + i] >= 0 && x[row * 10000 + i] < 4);
            counts[(int)x[row * 10000 + i]]++;
        }
        for (int k = 0; k < 4; k++) {
            const double chance = powers[k] / (powers[0] + powers[1] + powers[2] + powers[3]);
            is_close(counts[k] / 10000, chance, 10000);
        }
    }
    kn_model_destroy(&model);
}

TEST(refused_random_nodes) {
    onnx_graph graph = {.bytes.count = 0};
    onnx_node(&graph, "RandomNormal", "", "y", "dtype=7 shape=2");
    onnx_output(&graph, "y");
    onnx_refused(&graph, NULL, "node 'y' (RandomNormal): dtype is int64; expected a floating-point type");
}

TEST_FILE(test_onnx_random, NULL, NULL)
