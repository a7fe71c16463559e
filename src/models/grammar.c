/* The page that explains the text of models: prose, and tables generated from those of layers, operators,
 * losses and initializers. */
#include <math.h>
#include <string.h>

#include "models/models_private.h"

static const char opening[] =
    "# The text of models\n"
    "\n"
    "A model is a text, one layer a line. Without an `@`, each line works on what the line before it made.\n"
    "\n"
    "```\n"
    "koine 1                  # the version of this format, always first\n"
    "model tiny\n"
    "input x 1x28x28          # one channel of 28 rows and 28 columns; the batch comes by itself\n"
    "conv 16 3 padding=same   # 16 channels, filters of 3x3\n"
    "relu\n"
    "maxpool 2\n"
    "flatten\n"
    "logits = linear 10       # a layer with a name\n"
    "```\n"
    "\n"
    "## Lines\n"
    "\n"
    "`[NAME =] KIND [@VALUE ...] [ARGUMENT ...] [KEY=VALUE ...]`\n"
    "\n"
    "- `KIND` is a layer, an operator (both are listed below) or a block of your own.\n"
    "- `@VALUE` says what the line works on: an input or an earlier line, by its name; `@` alone is the line "
    "before.\n"
    "  Result 1 of something with several is `@NAME:1`; what is inside a block is `@BLOCK.NAME`.\n"
    "- `NAME` is how other lines, files and programs call what the line makes. Lines without one are called "
    "by kind and\n"
    "  number: `conv1`, `conv2`, `relu1`. Parameters are called after their layer: `conv1.weight`, "
    "`logits.bias`.\n"
    "- Words are separated by blanks; `#` begins a comment. A yes-or-no argument may stand by its name "
    "alone: `freeze`.\n"
    "\n"
    "| line | meaning |\n"
    "|---|---|\n"
    "| `koine 1` | the version of the format, before all others |\n"
    "| `model NAME` | what the model is called |\n"
    "| `task classification` | what comes out: logits of classes, or numbers (`task regression`) |\n"
    "| `loss NAME [SETTING=NUMBER]` | what it is trained with; cross-entropy for classes, mse for numbers |\n"
    "| `augment WORD ...` | how samples are changed at random in training, such as `augment flip crop=4`; "
    "`--augment` takes its "
    "place |\n"
    "| `set NAME NUMBER` | an integer that all lines may use by its name; `--set NAME=NUMBER` changes it "
    "|\n"
    "| `input NAME SHAPE [TYPE] [batch=no]` | something that is fed, float32 unless told otherwise |\n"
    "| `output NAME ...` | what comes out; without such a line, what the last line makes |\n"
    "| `block NAME [@INPUT ...] [PARAMETER ...] [PARAMETER=DEFAULT ...]` ... `end` | a kind of your own |\n"
    "| `repeat TIMES [COUNTER]` ... `end` | the lines between, so many times |\n"
    "\n"
    "## Shapes and numbers\n"
    "\n"
    "A shape is sizes with `x` or commas between: `3x32x32`, `length,64`, `scalar`. The batch in front is "
    "not written. A\n"
    "word is a size that becomes known when the model is used; put parentheses around one with an x in its "
    "name.\n"
    "Integers may be arithmetic without blanks, `+ - * / %` and parentheses, rounded down, with the "
    "parameters of\n"
    "the block and the counters around: `channels/4`, `2*n+1`.\n"
    "\n"
    "## Blocks and repeats\n"
    "\n"
    "```\n"
    "block residual channels stride=1\n"
    "    conv channels 3 stride=stride padding=1 bias=no\n"
    "    batchnorm\n"
    "    relu\n"
    "    conv channels 3 padding=1 bias=no\n"
    "    batchnorm\n"
    "    add @ @in            # the line before, and what came into the block\n"
    "    relu\n"
    "end\n"
    "\n"
    "stage = repeat 3 i       # stage1, stage2 and stage3\n"
    "    residual 64\n"
    "end\n"
    "```\n"
    "\n"
    "A block that is used opens a scope by its name, so that parameters are called "
    "`stage2.residual1.conv1.weight`; so does\n"
    "each round of a repeat with a name. In a repeat without one, names need the counter: `conv{i} = conv 64 "
    "3`. Names are\n"
    "looked for in the scope of a line, then in the scopes around it. A block's input is called `in` unless "
    "the block names\n"
    "its inputs; its result is what its last line makes, or its `output` lines. A value given to a block is "
    "an integer\n"
    "or a word, put where the parameter stands. `repeat 0` leaves its lines out.\n"
    "\n"
    "`share=NAME` uses the parameters of an earlier layer, or of all layers in an earlier block; sizes may "
    "then be left\n"
    "out. `freeze` keeps parameters as they begin, in a block all of them.\n"
    "\n"
    "`device=NAME`, which every layer, operator and block takes, has it computed on that device, forwards "
    "and backwards, "
    "and keeps\n"
    "its parameters there; `koine` takes what `--device` takes, or `main` for the device that computes the "
    "rest.\n"
    "\n";

/* Writes part of a table's cell. */
static void add_cell(kn_text *text, const char *piece) {
    for (; piece && *piece; piece++) {
        if (*piece == '|') kn_text_add(text, "\\");
        kn_text_add_bytes(text, piece, 1);
    }
}

/* "channels size [stride=1]": the syntax of a line of this kind. */
static void add_usage(const kn_kind *kind, kn_text *text) {
    int least, most;
    kn_kind_inputs(kind, &least, &most);
    kn_text_format(text, "`%s", kn_kind_name(kind));
    if (most > 1) {
        for (int i = 0; i < least && i < 3; i++)
            kn_text_format(text, " @%c", "xyz"[i]);
        if (least > 3) kn_text_add(text, " ...");
        if (most > least) kn_text_add(text, " [@...]");
    }
    for (int i = 0; i < kn_kind_argument_count(kind); i++) {
        kn_option argument = kn_kind_argument(kind, i);
        if (argument.by_position) kn_text_format(text, argument.required ? " %s" : " [%s]", argument.name);
    }
    kn_text_add(text, "`");
}

static void add_argument(const kn_option *argument, kn_text *text) {
    kn_text_format(text, "| | `%s` | ", argument->name);
    add_cell(text, argument->help);
    if (argument->kind == KN_OPTION_WORD) {
        kn_text_add(text, ": ");
        for (const char *at = argument->words; *at;) {
            size_t item = strcspn(at, " ");
            kn_text_add(text, "`");
            kn_text_add_bytes(text, at, item);
            kn_text_add(text, "`");
            at += item;
            at += strspn(at, " ");
            if (*at) kn_text_add(text, ", ");
        }
    }
    kn_text_add(text, " | ");
    add_cell(text, argument->usual ? argument->usual : argument->required ? "" : "-");
    kn_text_add(text, " |\n");
}

static void add_layers(kn_text *text) {
    kn_kind plain = {.layer = kn_layer_find("conv")};
    kn_text_add(text, "## Layers\n\n| layer | argument | meaning | unless given |\n|---|---|---|---|\n");
    for (int i = 0; i < kn_layer_table_count; i++) {
        kn_kind kind = {.layer = &kn_layer_table[i]};
        kn_text_add(text, "| ");
        add_usage(&kind, text);
        kn_text_add(text, " | | ");
        add_cell(text, kind.layer->help);
        kn_text_add(text, " | |\n");
        for (int k = 0; k < kind.layer->argument_count; k++) {
            kn_option argument = kn_kind_argument(&kind, k);
            add_argument(&argument, text);
        }
    }
    kn_text_add(text, "\nLayers with parameters take these as well, as far as they make sense:\n\n"
                      "| | argument | meaning | unless given |\n|---|---|---|---|\n");
    for (int i = plain.layer ? plain.layer->argument_count : 0; i < kn_kind_argument_count(&plain); i++) {
        kn_option argument = kn_kind_argument(&plain, i);
        add_argument(&argument, text);
    }
    kn_text_add(text, "\nBeginnings, for `init` and `bias_init`:\n\n| word | meaning |\n|---|---|\n");
    for (int i = 0; i < kn_start_table_count; i++)
        kn_text_format(text, "| `%s%s` | %s |\n", kn_start_table[i].name,
                       kn_start_table[i].takes_value ? ":NUMBER" : "", kn_start_table[i].help);
}

/* The default of an attribute; *text is a cell of a table. */
static void add_default(const kn_attribute *attribute, kn_text *text) {
    const char *words = attribute->list ? attribute->list : "";
    switch (attribute->kind) {
    case KN_ATTRIBUTE_INT:
        if (fabs(attribute->number) >= 0x1p53) { /* a marker for "none", not a number */
            kn_text_add(text, "-");
            break;
        }
        /* fallthrough */
    case KN_ATTRIBUTE_FLOAT:
        kn_text_number(text, attribute->number);
        break;
    case KN_ATTRIBUTE_BOOL:
        kn_text_add(text, attribute->number != 0 ? "yes" : "no");
        break;
    case KN_ATTRIBUTE_INTS:
    case KN_ATTRIBUTE_DIMS:
        kn_text_add(text, *words ? words : "-");
        break;
    case KN_ATTRIBUTE_CHOICE:
        for (int i = 0; i < (int)attribute->number; i++) {
            words += strcspn(words, " ");
            words += strspn(words, " ");
        }
        kn_text_add_bytes(text, words, strcspn(words, " "));
        break;
    }
}

static void add_operators(kn_text *text) {
    kn_text_add(text,
                "\n## Operators\n\nArguments are given by their names. Shapes of two inputs broadcast, "
                "aligned at the "
                "last dimension.\n\n| operator | argument | meaning | unless given |\n|---|---|---|---|\n");
    for (int i = 0; i < kn_operator_table_count; i++) {
        const kn_operator *row = kn_operator_table[i];
        kn_kind kind = {.op = row};
        if (!kn_operator_is_kind(row) || kn_layer_find(row->name)) continue;
        kn_text_add(text, "| ");
        add_usage(&kind, text);
        kn_text_add(text, " | | ");
        add_cell(text, row->help);
        kn_text_add(text, " | |\n");
        for (int k = 0; k < row->attribute_count; k++) {
            kn_text usual;
            kn_option argument = kn_kind_argument(&kind, k);
            kn_text_init(&usual, text->host);
            add_default(&row->attributes[k], &usual);
            argument.usual = usual.data;
            add_argument(&argument, text);
            text->failed = text->failed || kn_text_failed(&usual);
            kn_text_finish(&usual);
        }
    }
}

static void add_losses(kn_text *text) {
    kn_text_add(text, "\n## Losses\n\n| loss | meaning |\n|---|---|\n");
    for (int i = 0; i < kn_loss_table_count; i++) {
        const kn_loss_row *row = &kn_loss_table[i];
        kn_text_format(text, "| `%s", row->name);
        for (int k = 0; k < KN_LOSS_SETTINGS && row->settings[k].name; k++) {
            kn_text_format(text, " [%s=", row->settings[k].name);
            if (isnan(row->settings[k].usual))
                kn_text_add(text, "NUMBER");
            else
                kn_text_number(text, row->settings[k].usual);
            kn_text_add(text, "]");
        }
        kn_text_format(text, "` | %s", row->help);
        for (int k = 0; k < KN_LOSS_SETTINGS && row->settings[k].name; k++)
            kn_text_format(text, "; %s: %s", row->settings[k].name, row->settings[k].help);
        kn_text_add(text, " |\n");
    }
}

size_t kn_model_grammar(char *text, size_t bytes) {
    kn_host host = kn_host_defaults();
    kn_text page;
    kn_text_init(&page, &host);
    kn_text_add(&page, opening);
    add_layers(&page);
    add_operators(&page);
    add_losses(&page);
    size_t length = kn_text_failed(&page) ? 0 : page.length;
    if (text && bytes > 0) {
        size_t kept = length < bytes - 1 ? length : bytes - 1;
        if (kept > 0) memcpy(text, page.data, kept);
        text[kept] = '\0';
    }
    kn_text_finish(&page);
    return length;
}
