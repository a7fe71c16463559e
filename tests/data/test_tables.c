/* Tables: the detected kinds of columns, and the numbers of rows. */
#include "data_tests.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char weather[] = "station,day,pressure,note,speed\n"
                              "north,2024-01-01,1000,a1,3\n"
                              "south,2024-07-01,,b2,5\n"
                              "north,2023-07-02,1020,c3,\n"
                              "east,2023-01-01,1010,d4,10\n";

/* Writes a table with that text into the folder and opens it with options after the path. */
static kn_dataset *open_table(const kn_dataset_params *params, const char *folder, const char *text,
                              const char *how) {
    char path[400], spec[500];
    kn_error error = {0};
    test_path(path, sizeof path, folder, "t.csv");
    if (kn_file_write(NULL, path, text, strlen(text), &error) != KN_OK) fail_msg("%s", error.text);
    snprintf(spec, sizeof spec, "csv:%s%s", path, how);
    return kn_dataset_open(spec, params);
}

static void near(float found, double expected) {
    if (!(fabs((double)found - expected) < 1e-5)) fail_msg("%g, expected %g", (double)found, expected);
}

TEST_IN_FOLDER(columns_become_numbers) {
    kn_dataset *table = open_table(NULL, *state, weather, ",target=speed,without=note");
    assert_usable(table);
    assert_int_equal(kn_dataset_count(table), 3); /* one row has no target */
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_true(kn_dataset_field_at(table, 0, &field));
    /* three stations; days as sine and cosine; pressure, and whether it is missing; notes are ignored */
    assert_int_equal(field.info.shape[0], 3 + 3 + 2);
    float x[3][8], y[3];
    assert_int_equal(kn_dataset_read(table, NULL, 3, 0, x, sizeof x, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(table, NULL, 3, 1, y, sizeof y, NULL, 0), KN_OK);
    const double stations[3][3] = {{0, 1, 0}, {0, 0, 1}, {1, 0, 0}}; /* east, north, south */
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            near(x[i][j], stations[i][j]);
    const double days[4] = {19723, 19905, 19540, 19358}, pressure[3] = {1000, 1020, 1010};
    double mean = 0, square = 0, deviation = sqrt(200.0 / 3);
    for (int i = 0; i < 4; i++)
        mean += days[i] / 4;
    for (int i = 0; i < 4; i++)
        square += (days[i] - mean) * (days[i] - mean) / 4;
    near(x[0][3], (days[0] - mean) / sqrt(square));
    near(x[1][4], sin(6.28318530717958647692 * days[1] / 365.2425));
    near(x[1][5], cos(6.28318530717958647692 * days[1] / 365.2425));
    near(x[0][6], (pressure[0] - 1010) / deviation);
    near(x[0][7], 0);
    near(x[1][6], 0);
    near(x[1][7], 1);
    near(x[2][6], 0);
    kn_table_target target = {.size = sizeof target};
    assert_true(kn_dataset_target(table, &target));
    assert_string_equal(target.name, "speed");
    near(y[0], (3 - target.mean) / target.deviation);
    near((float)target.mean, 6);
    assert_non_null(strstr(kn_dataset_about(table), "4 columns become 8 inputs"));
    assert_non_null(strstr(kn_dataset_about(table), "note: skipped"));
    kn_dataset_destroy(&table);
}

/* Another table is read with the columns of the first: its own statistics are ignored, and unknown values
 * count as missing. */
TEST_IN_FOLDER(columns_apply_to_other_tables) {
    kn_dataset *first = open_table(NULL, *state, weather, ",target=speed,without=note");
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    char columns[2000];
    assert_usable(first);
    snprintf(columns, sizeof columns, "%s", kn_dataset_columns(first));
    params.columns = columns;
    kn_dataset *again = open_table(
        &params, *state, "pressure,day,station,more\n1000,2024-01-01,north,1\nNA,2024-01-01,west,2\n", "");
    assert_usable(again);
    assert_int_equal(kn_dataset_field_count(again), 1);
    assert_int_equal(kn_dataset_count(again), 2);
    float x[2][8], before[8];
    assert_int_equal(kn_dataset_read(again, NULL, 2, 0, x, sizeof x, NULL, 0), KN_OK);
    assert_int_equal(kn_dataset_read(first, NULL, 1, 0, before, sizeof before, NULL, 0), KN_OK);
    assert_memory_equal(x[0], before, sizeof before);
    near(x[1][0] + x[1][1] + x[1][2], 0);
    near(x[1][7], 1);
    assert_string_equal(kn_dataset_columns(again), columns);
    kn_dataset_destroy(&again);
    assert_failed(open_table(&params, *state, "pressure,day\n1,2024-01-01\n", ""), KN_ERROR_NOT_FOUND,
                  "lacks the column \"station\"");
    assert_failed(open_table(&params, *state, "pressure,day,station\nhigh,2024-01-01,north\n", ""),
                  KN_ERROR_FORMAT, "row 1, column \"pressure\": found \"high\", expected a number");
    assert_failed(open_table(&params, *state, "pressure,day,station\n1,2024-13-01,north\n", ""),
                  KN_ERROR_FORMAT, "expected a date");
    assert_failed(open_table(&params, *state, weather, ",target=pressure"), KN_ERROR_ARGUMENT,
                  "the target is \"pressure\", but the model was trained on the target \"speed\"");
    params.inputs_only = true;
    again = open_table(&params, *state, weather, "");
    assert_usable(again);
    assert_int_equal(kn_dataset_count(again), 4);
    assert_int_equal(kn_dataset_field_count(again), 1);
    kn_dataset_destroy(&again);
    params.columns = "{\"format\":2}";
    assert_failed(open_table(&params, *state, weather, ""), KN_ERROR_FORMAT, "format 2; expected 1");
    params.columns = "{\"format\":1,\"target\":{\"name\":\"a\",\"kind\":\"number\"},\"inputs\":[]}";
    assert_failed(open_table(&params, *state, weather, ""), KN_ERROR_FORMAT, "kn_dataset_columns");
    kn_dataset_destroy(&first);
}

TEST_IN_FOLDER(targets_are_classes_or_numbers) {
    static const struct {
        const char *values, *how;
        int classes;
        const char *last; /* name of the last class */
    } cases[] = {
        {"1,yes\n2,no\n3,yes\n", "", 2, "yes"},  {"1,0\n2,2\n3,1\n", "", 3, "2"},
        {"1,10\n2,9\n3,8\n", "", 0, NULL},       {"1,10\n2,9\n3,8\n", ",classes", 3, "10"},
        {"1,0\n2,1\n3,1\n", ",number", 0, NULL}, {"1,0\n2,2\n3,5\n", "", 0, NULL},
        {"1,0.5\n2,1.5\n3,2.5\n", "", 0, NULL},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        char text[100], how[40];
        snprintf(text, sizeof text, "a,b\n%s", cases[i].values);
        snprintf(how, sizeof how, ",target=b%s", cases[i].how);
        kn_dataset *table = open_table(NULL, *state, text, how);
        assert_usable(table);
        assert_int_equal(kn_dataset_classes(table), cases[i].classes);
        if (cases[i].classes)
            assert_string_equal(kn_dataset_class_name(table, cases[i].classes - 1), cases[i].last);
        kn_dataset_destroy(&table);
    }
}

/* A text column whose values are all different is ignored as a key; a column with many values keeps the most
 * frequent. */
TEST_IN_FOLDER(keys_and_rare_values) {
    char text[6000] = "key,kind,y\n";
    for (int i = 0; i < 300; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "k%d,v%d,%d\n", i, i < 150 ? i : i % 4,
                 i * i);
    kn_dataset *table = open_table(NULL, *state, text, ",target=y");
    assert_usable(table);
    kn_dataset_field field = KN_DATASET_FIELD_DEFAULTS;
    assert_true(kn_dataset_field_at(table, 0, &field));
    assert_int_equal(field.info.shape[0], 63 + 1);
    assert_non_null(strstr(kn_dataset_about(table), "key: skipped"));
    assert_non_null(strstr(kn_dataset_about(table), "kind: category of 63"));
    float x[300][64];
    assert_int_equal(kn_dataset_read(table, NULL, 300, 0, x, sizeof x, NULL, 0), KN_OK);
    for (int i = 0; i < 300; i++) {
        float sum = 0;
        for (int j = 0; j < 64; j++)
            sum += x[i][j];
        near(sum, 1);
    }
    near(x[99][63], 1);  /* v99 is rare, and last of its kind */
    near(x[150][63], 0); /* v2 is not */
    kn_dataset_destroy(&table);
}

/* Names with a comma or a quote are quoted as in the file. */
TEST_IN_FOLDER(names_with_commas) {
    const char text[] = "\"a, b\",\"5\"\" disk\",a,c\n1,2,3,4\n5,7,9,8\n";
    static const struct {
        const char *how, *inputs, *target;
    } cases[] = {{",target=\"a, b\"", "3 columns become 3 inputs", "a, b"},
                 {",target=c,without=\"a, b\",a", "3 columns become 1 inputs", "c"},
                 {",target=\"5\"\" disk\",without=c,number", "3 columns become 2 inputs", "5\" disk"},
                 {",target=5\" disk,without=a", "3 columns become 2 inputs", "5\" disk"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kn_dataset *table = open_table(NULL, *state, text, cases[i].how);
        assert_usable(table);
        if (!strstr(kn_dataset_about(table), cases[i].inputs))
            fail_msg("%s: %s", cases[i].how, kn_dataset_about(table));
        kn_table_target target = {.size = sizeof target};
        assert_true(kn_dataset_target(table, &target));
        assert_string_equal(target.name, cases[i].target);
        kn_dataset_destroy(&table);
    }
    assert_failed(open_table(NULL, *state, text, ",target=b"), KN_ERROR_NOT_FOUND,
                  "it has \"a, b\", 5\" disk, a, c");
}

TEST_IN_FOLDER(faults_are_named) {
    static const struct {
        const char *text, *how;
        kn_status status;
        const char *part;
    } cases[] = {
        {weather, "", KN_ERROR_ARGUMENT, "name the target column"},
        {weather, ",target=sped", KN_ERROR_NOT_FOUND, "did you mean \"speed\"?"},
        {weather, ",target=speed,clases", KN_ERROR_ARGUMENT, "did you mean \"classes\"?"},
        {weather, ",target=", KN_ERROR_ARGUMENT, "expected target=NAME"},
        {weather, ",target=speed,classes,number", KN_ERROR_ARGUMENT, "either classes or number"},
        {weather, ",target=station,number", KN_ERROR_FORMAT, "the value \"east\"; expected numbers"},
        {weather, ",target=speed,without=station,day,pressure,note", KN_ERROR_SHAPE,
         "no column besides the target"},
        {"a,a\n1,2\n", ",target=a", KN_ERROR_FORMAT, "two columns are named \"a\""},
        {"a,\n1,2\n", ",target=a", KN_ERROR_FORMAT, "column 2 has no name"},
        {"a,b\n1,\n2,NA\n", ",target=b", KN_ERROR_SHAPE, "is empty in all rows"},
        {"a,b\n", ",target=b", KN_ERROR_SHAPE, "is empty in all rows"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++)
        assert_failed(open_table(NULL, *state, cases[i].text, cases[i].how), cases[i].status, cases[i].part);
}

/* Rows that several threads fill in stay in order, and the first fault is reported. */
TEST_IN_FOLDER(many_rows_stay_in_order) {
    enum { ROWS = 50000 };
    kn_host host = kn_host_defaults();
    kn_dataset_params params = KN_DATASET_DEFAULTS;
    params.columns =
        "{\"format\":1,\"target\":{\"name\":\"y\",\"kind\":\"number\",\"mean\":0,\"deviation\":1},"
        "\"inputs\":[{\"name\":\"n\",\"kind\":\"number\",\"mean\":0,\"deviation\":1}]}";
    for (int faults = 0; faults < 2; faults++) {
        kn_text text;
        kn_text_init(&text, &host);
        kn_text_add(&text, "n,y\n");
        for (int i = 0; i < ROWS; i++) {
            kn_text_format(&text, faults && i >= 20000 && i % 10000 == 0 ? "x%d," : "%d,", i);
            kn_text_format(&text, i % 3 && i < 40000 ? "%d\n" : "\n",
                           i); /* the last chunks have no targets */
        }
        assert_false(kn_text_failed(&text));
        kn_dataset *table = open_table(&params, *state, text.data, "");
        kn_text_finish(&text);
        if (faults) {
            assert_failed(table, KN_ERROR_FORMAT,
                          "row 20001, column \"n\": found \"x20000\", expected a number");
            continue;
        }
        assert_usable(table);
        const uint64_t count = kn_dataset_count(table);
        assert_int_equal(count, 40000 - 13334);
        float *x = malloc(2 * count * sizeof *x), *y = x + count;
        assert_non_null(x);
        assert_int_equal(kn_dataset_read(table, NULL, count, 0, x, count * sizeof *x, NULL, 0), KN_OK);
        assert_int_equal(kn_dataset_read(table, NULL, count, 1, y, count * sizeof *y, NULL, 0), KN_OK);
        for (uint64_t i = 0; i < count; i++)
            if (x[i] != (float)(i / 2 * 3 + i % 2 + 1) || x[i] != y[i])
                fail_msg("sample %d: %g and %g", (int)i, (double)x[i], (double)y[i]);
        free(x);
        kn_dataset_destroy(&table);
    }
}

TEST_IN_FOLDER(memory_may_run_out) {
    for (size_t fail_at = 1;; fail_at++) {
        failing memory = {.fail_at = fail_at};
        kn_dataset_params params = watched(&memory);
        kn_dataset *table = open_table(&params, *state, weather, ",target=station");
        bool enough = kn_dataset_status(table) == KN_OK;
        if (!enough) assert_int_equal(kn_dataset_status(table), KN_ERROR_MEMORY);
        kn_dataset_destroy(&table);
        assert_int_equal(memory.live, 0);
        if (enough && memory.calls < fail_at) break; /* work continues without a thread */
        assert_true(fail_at < 300);
    }
}

TEST_FILE(test_tables, NULL, NULL)
