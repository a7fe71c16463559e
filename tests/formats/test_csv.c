/* Tables as text. */
#include "formats_tests.h"

#include <stdlib.h>
#include <string.h>

#include "formats/formats_private.h"

/* Reads a text; the caller finishes `arena`. */
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
            const kn_csv_cell cell = row ? kn_csv_at(&table, row - 1, i) : table.names[i];
            strcat(found, i ? "|" : row ? "/" : "");
            strncat(found, cell.text, cell.length);
        }
    assert_string_equal(found, expected);
    kn_arena_finish(&arena);
}

TEST(cells_are_read) {
    has_cells("a,b\n1,2\n", "a|b/1|2");
    has_cells("a,b\r\n1,2\r\n\r\n3,4", "a|b/1|2/3|4");
    has_cells("\xef\xbb\xbf"
              "a;b\n1,5;2\n",
              "a|b/1,5|2");
    has_cells("a\tb\n 1 \t\n", "a|b/1|");
    has_cells("a\n1\n2\n", "a/1/2");
    has_cells("\n\na,b,c\n,,\n", "a|b|c/||");
    has_cells("\"a, or b\",c\n\"1\n2\",\" 3 \"\n", "a, or b|c/1\n2| 3 ");
    has_cells("a,b\n\"say \"\"yes\"\"\",\"\"\"\"\n", "a|b/say \"yes\"|\"");
    has_cells("a,b\n", "a|b");
}

TEST(faults_are_named) {
    static const char *const cases[][2] = {
        {"", "the file is empty; expected a first line"},
        {"\n\r\n", "the file is empty"},
        {"a,b\n1,2\n1\n", "t.csv: line 3: found 1 values, expected 2 as in the first line"},
        {"a,b\n\"x\ny\",2\n1,2,3\n", "line 4: found 3 values, expected 2"},
        {"a,b\n\"1,2\n", "line 2: a quote is never closed"},
        {"a,b\n\"1\"2,3\n", "line 2: text after the closing quote"},
        {"a,b\n1,2\n\xff,3\n", "line 3: found bytes that are not UTF-8"},
    };
    for (size_t i = 0; i < KN_COUNT_OF(cases); i++) {
        kn_host host = kn_host_defaults();
        kn_arena arena;
        kn_csv table;
        kn_error error = {0};
        kn_arena_init(&arena, &host);
        assert_refused(
            kn_csv_read(&arena, "t.csv", (const uint8_t *)cases[i][0], strlen(cases[i][0]), &table, &error),
            &error, KN_ERROR_FORMAT, cases[i][1]);
        assert_null(table.codes);
        kn_arena_finish(&arena);
    }
}

TEST(long_values_are_refused) {
    const size_t most = (1 << 24) - 1, count = 4 + most + 4;
    kn_host host = kn_host_defaults();
    char *text = kn_allocate(&host, count + 1, 1);
    assert_non_null(text);
    memset(text, 'x', count);
    memcpy(text, "a,b\n", 4);
    for (int more = 0; more < 2; more++) {
        kn_arena arena;
        kn_csv table;
        kn_error error = {0};
        memcpy(text + count - 4 + more, ",1\n", 3);
        kn_arena_init(&arena, &host);
        kn_status status =
            kn_csv_read(&arena, "t.csv", (const uint8_t *)text, count - 1 + (size_t)more, &table, &error);
        if (more)
            assert_refused(status, &error, KN_ERROR_UNSUPPORTED,
                           "t.csv: line 2: has a value of 16777216 bytes; at most 16777215");
        else
            assert_int_equal(kn_csv_at(&table, 0, 0).length, most);
        kn_arena_finish(&arena);
        memset(text + count - 4, 'x', 4);
    }
    kn_release(&host, text);
}

/* The result as one text: the error, or the cells with their lengths. */
static char *all_of(const char *text, size_t count, uint64_t bytes_each) {
    kn_host host = kn_host_defaults();
    kn_arena arena;
    kn_csv table;
    kn_error error = {0};
    kn_text found;
    kn_arena_init(&arena, &host);
    kn_text_init(&found, &host);
    if (kn_csv_read_pieces(&arena, "t.csv", (const uint8_t *)text, count, bytes_each, &table, &error) !=
        KN_OK)
        kn_text_add(&found, error.text);
    else
        kn_text_format(&found, "%zu columns, %zu rows, %c:", table.columns, table.rows, table.separator);
    for (size_t i = 0; i < (table.rows + 1) * table.columns; i++) {
        const kn_csv_cell cell =
            i < table.columns ? table.names[i] : kn_csv_at(&table, i / table.columns - 1, i % table.columns);
        kn_text_format(&found, "%zu ", cell.length);
        kn_text_add_bytes(&found, cell.text, cell.length);
    }
    char *all = kn_text_take(&found);
    assert_non_null(all);
    kn_arena_finish(&arena);
    return all;
}

static void same_in_pieces(const char *text, size_t count, uint64_t largest) {
    char *whole = all_of(text, count, count + 1);
    for (uint64_t each = 1; each <= largest; each++) {
        char *pieces = all_of(text, count, each);
        if (strcmp(pieces, whole) != 0)
            fail_msg("%s\nin pieces of %d: %s\nexpected %s", text, (int)each, pieces, whole);
        kn_release(NULL, pieces);
    }
    kn_release(NULL, whole);
}

/* A chunk may begin anywhere: within quotes, between \r and \n, in a character, in an empty line. */
TEST(chunk_boundaries_do_not_matter) {
    static const char *const texts[] = {
        "a,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n\r\n\r\n3,4",
        "\xef\xbb\xbf"
        "a;b\n1,5;2\n\n\n",
        "a\r1\r\r2\r",
        "\n\na,b,c\n,,\n",
        "\"a, or b\",c\n\"1\n2\",\" 3 \"\n\"\n\n\n\",x\n",
        "a,b\n\"say \"\"yes\"\"\",\"\"\"\"\n\"\"\"\",\"\"\n",
        "a,\"\"\"b\"\n",
        "a\n\"1,2\n3,4\n5,6\n7\"\n8\n",
        "a,b\n\"1\n2,3\n4,5\",6\n7,8\n\"\n9,10\n\",11\n",
        "a,b\n\xc3\xa4,\xe2\x82\xac\n\xf0\x9f\x98\x80,1\n",
        "a,b\n1,2\n1\n3,4\n",
        "a,b\n1,2\n\"x\ny\",2\n1,2,3\n4,5\n",
        "a,b\n1,2\n\"1,2\n3,4\n",
        "a,b\n1,2\n\"1\"2,3\n4,5\n",
        "a,b\n1,2\n\xff,3\n",
        "a,b\n1,2\n1\n\xff,3\n",
        "a,b\n1,2\n\xe2\n\x82,3\n",
        "a,b\n",
        "a,b",
        "",
        "\n\r\n",
        "a\n 5\"\n6\n",
    };
    for (size_t i = 0; i < KN_COUNT_OF(texts); i++)
        same_in_pieces(texts[i], strlen(texts[i]), strlen(texts[i]) + 2);
    uint64_t seed = 3;
    for (int i = 0; i < 3000; i++) {
        static const char *const parts[] = {"1",          "23",   ",",        ",",    ",",        "\n",
                                            "\n",         "\r\n", "\"",       "\"\"", "\"4\n5\"", "\"6,7\"",
                                            "\"8\"\"9\"", " ",    "\xc3\xa4", "\r"};
        char text[200] = "a,b\n";
        const bool rows = i % 2; /* mostly valid ones */
        for (int j = 0; j < 12; j++) {
            for (int cell = 0; cell < (rows ? 3 : 1); cell++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                strcat(text, !rows       ? parts[(seed >> 40) % KN_COUNT_OF(parts)]
                             : cell == 1 ? ","
                                         : ((const char *const[]){"1", "", "\"4\n5\"", "\"6,\n7\"",
                                                                  "\"8\"\"\n9\""})[(seed >> 40) % 5]);
            }
            if (rows) strcat(text, j % 3 ? "\n" : "\r\n");
        }
        same_in_pieces(text, strlen(text), 20);
    }
}

TEST_FILE(test_csv, NULL, NULL)
