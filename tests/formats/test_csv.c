/* Tables as text. */
#include "formats_tests.h"

#include <string.h>

/* Reads a text; `arena` is the caller's. */
static kn_csv read_table(kn_arena *arena, const char *text) {
    kn_csv table;
    kn_error error = {0};
    assert_fine(kn_csv_read(arena, "t.csv", (const uint8_t *)text, strlen(text), &table, &error), &error);
    return table;
}

/* All names, then all rows, with '|' between cells and '/' between rows. */
static void has_cells(const char *text, const char *expected) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    char found[400] = "";
    kn_arena_init(&arena, &host);
    kn_csv table = read_table(&arena, text);
    for (size_t row = 0; row <= table.rows; row++)
        for (size_t i = 0; i < table.columns; i++) {
            const kn_csv_cell *cell = row ? &table.cells[(row - 1) * table.columns + i] : &table.names[i];
            strcat(found, i ? "|" : row ? "/" : "");
            strncat(found, cell->text, cell->length);
        }
    assert_string_equal(found, expected);
    kn_arena_finish(&arena);
}

static void cells_are_read(void **state) {
    (void)state;
    has_cells("a,b\n1,2\n", "a|b/1|2");
    has_cells("a,b\r\n1,2\r\n\r\n3,4", "a|b/1|2/3|4");
    has_cells("\xef\xbb\xbf""a;b\n1,5;2\n", "a|b/1,5|2");
    has_cells("a\tb\n 1 \t\n", "a|b/1|");
    has_cells("a\n1\n2\n", "a/1/2");
    has_cells("\n\na,b,c\n,,\n", "a|b|c/||");
    has_cells("\"a, or b\",c\n\"1\n2\",\" 3 \"\n", "a, or b|c/1\n2| 3 ");
    has_cells("a,b\n\"say \"\"yes\"\"\",\"\"\"\"\n", "a|b/say \"yes\"|\"");
    has_cells("a,b\n", "a|b");
}

static void faults_are_named(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"", "nothing in it; expected a first line"},
        {"\n\r\n", "nothing in it"},
        {"a,b\n1,2\n1\n", "t.csv: line 3: 1 values, expected 2 as in the first line"},
        {"a,b\n\"x\ny\",2\n1,2,3\n", "line 4: 3 values, expected 2"},
        {"a,b\n\"1,2\n", "line 2: a quote is opened and never closed"},
        {"a,b\n\"1\"2,3\n", "line 2: text behind the closing quote"},
        {"a,b\n1,2\n\xff,3\n", "line 3: bytes that are no UTF-8"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_host host = kn_host_defaults();
        kn_arena arena;
        kn_csv table;
        kn_error error = {0};
        kn_arena_init(&arena, &host);
        assert_refused(kn_csv_read(&arena, "t.csv", (const uint8_t *)cases[i][0], strlen(cases[i][0]), &table, &error),
                       &error, KN_ERROR_FORMAT, cases[i][1]);
        assert_null(table.cells);
        kn_arena_finish(&arena);
    }
}

int test_csv(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cells_are_read), cmocka_unit_test(faults_are_named)};
    return cmocka_run_group_tests_name("csv", tests, NULL, NULL);
}
