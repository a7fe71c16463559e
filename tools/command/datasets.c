/* koine datasets: the sources of data, a word each. */
#include <string.h>

#include "command.h"

/* Each line indented. */
static void print_text(const char *text) {
    for (const char *line = text; line;) {
        const char *end = strchr(line, '\n');
        printf("      %.*s\n", end ? (int)(end - line) : (int)strlen(line), line);
        line = end ? end + 1 : NULL;
    }
}

static int run(int count, char **arguments) {
    bool json = false;
    const option options[] = {
        {"json", OPTION_FLAG, NULL, "results as JSON objects, one a line, for programs", &json},
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_datasets, options, count, arguments, words, &word_count, 0, &status))
        return status;
    for (int i = 0; i < kn_data_source_count(); i++) {
        if (json) {
            printf("{\"data\": ");
            json_text(stdout, kn_data_source_usage(i));
            printf(", \"text\": ");
            json_text(stdout, kn_data_source_about(i));
            printf("}\n");
        } else {
            printf("  %s\n", kn_data_source_usage(i));
            print_text(kn_data_source_about(i));
        }
    }
    return EXIT_DONE;
}

const command command_datasets = {"datasets", "list what can be trained on", "[--json]",
                                  "Lists the words that --data of koine train and koine eval understands. What Koine makes itself is the same\n"
    "on every machine, and WORD:train or WORD:test names one of its parts. Put a word with ? or & in quotes in a\n"
    "shell.\n"
    "\n"
    "  koine datasets\n"
    "  koine train char-rnn --data 'text:FILE?stride=32'",
    run};
