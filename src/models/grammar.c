/* The reference page of the model language: prose, and tables generated from those of layers, operators,
 * losses and initializers. */
#include <math.h>
#include <string.h>

#include "models/models_private.h"

static const char opening[] =
    "# The model language\n"
    "\n"
    "A model is a text with one layer per line. Without an `@`, each line reads the result of the line "
    "before it.\n"
    "\n"
    "```\n"
    "koine 1                  # version of the format, always first\n"
    "model tiny\n"
    "input x 1x28x28          # one channel of 28 rows and 28 columns; the batch dimension is implicit\n"
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
    "- `KIND` is a layer, an operator (both are listed below) or a block that the text defines.\n"
    "- `@VALUE` names an input of the line: an input of the model or an earlier line; a bare `@` is the "
    "line before.\n"
    "  `@NAME:1` is result 1 of a line with several results; `@BLOCK.NAME` is a value inside a block.\n"
    "- `NAME` is the name of the result in other lines, files and programs. Lines without a name get "
    "their kind and a\n"
    "  number: `conv1`, `conv2`, `relu1`. Parameters are named after their layer: `conv1.weight`, "
    "`logits.bias`.\n"
    "- Words are separated by spaces; `#` begins a comment. The bare name of a yes-or-no argument means "
    "yes: `freeze`.\n"
    "\n"
    "| line | meaning |\n"
    "|---|---|\n"
    "| `koine 1` | version of the format; always the first line |\n"
    "| `model NAME` | name of the model |\n"
    "| `task classification` | the outputs are class logits; numbers with `task regression` |\n"
    "| `loss NAME [SETTING=NUMBER]` | training loss; default: cross-entropy for classification, mse for "
    "regression |\n"
    "| `augment WORD ...` | random augmentation in training, such as `augment flip crop=4`; `--augment` "
    "overrides it |\n"
    "| `set NAME NUMBER` | an integer that all lines can use by name; `--set NAME=NUMBER` changes it |\n"
    "| `input NAME SHAPE [TYPE] [batch=no]` | an input of the model, by default float32 |\n"
    "| `output NAME ...` | outputs of the model; default: the result of the last line |\n"
    "| `block NAME [@INPUT ...] [PARAMETER ...] [PARAMETER=DEFAULT ...]` ... `end` | defines a kind |\n"
    "| `repeat TIMES [COUNTER]` ... `end` | repeats the lines in between |\n"
    "\n"
    "## Shapes and numbers\n"
    "\n"
    "A shape is a list of sizes separated by `x` or commas, without the batch: `3x32x32`, `length,64`, "
    "`scalar`. A word is\n"
    "a size that becomes known when the model is used; a word that contains an x needs parentheses. "
    "Integers can be\n"
    "expressions without spaces: `+ - * / %` (rounded down), parentheses, the parameters of the "
    "enclosing block and the\n"
    "counters of enclosing repeats: `channels/4`, `2*n+1`.\n"
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
    "    add @ @in            # the line before, and the input of the block\n"
    "    relu\n"
    "end\n"
    "\n"
    "stage = repeat 3 i       # stage1, stage2 and stage3\n"
    "    residual 64\n"
    "end\n"
    "```\n"
    "\n"
    "Using a block opens a scope with its name, so that parameters are called "
    "`stage2.residual1.conv1.weight`; so does each\n"
    "iteration of a named repeat. In an unnamed repeat, names need the counter: `conv{i} = conv 64 3`. "
    "Names are looked up\n"
    "in the scope of a line, then in the enclosing scopes. A block's input is called `in` unless the "
    "block names its inputs;\n"
    "its result is that of its last line, or its `output` lines. An argument of a block is an integer or "
    "a word that\n"
    "replaces the parameter. `repeat 0` skips its lines.\n"
    "\n"
    "`share=NAME` uses the parameters of an earlier layer, or of all layers in an earlier block; sizes "
    "can then be left out.\n"
    "`freeze` excludes the parameters of a layer or block from training.\n"
    "\n"
    "`device=NAME`, an argument of every layer, operator and block, selects the device that computes its "
    "forward and\n"
    "backward pass and stores its parameters; `koine` accepts the values of `--device`, or `main` for "
    "the main device.\n"
    "\n";

/* Writes text into a table cell, escaping |. */
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
    kn_text_add(text, "## Layers\n\n| layer | argument | meaning | default |\n|---|---|---|---|\n");
    for (int i = 0; kn_layer_at(i); i++) {
        kn_kind kind = {.layer = kn_layer_at(i)};
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
    kn_text_add(text, "\nLayers with parameters also take these arguments where applicable:\n\n"
                      "| | argument | meaning | default |\n|---|---|---|---|\n");
    for (int i = plain.layer ? plain.layer->argument_count : 0; i < kn_kind_argument_count(&plain); i++) {
        kn_option argument = kn_kind_argument(&plain, i);
        add_argument(&argument, text);
    }
    kn_text_add(text, "\nBeginnings, for `init` and `bias_init`:\n\n| word | meaning |\n|---|---|\n");
    for (int i = 0; i < kn_start_table_count; i++)
        kn_text_format(text, "| `%s%s` | %s |\n", kn_start_table[i].name,
                       kn_start_table[i].takes_value ? ":NUMBER" : "", kn_start_table[i].help);
}

/* The default of an attribute, as a table cell in *text. */
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
    kn_text_add(text, "\n## Operators\n\nArguments are given by name. The shapes of two inputs broadcast, "
                      "aligned at the "
                      "last dimension.\n\n| operator | argument | meaning | default |\n|---|---|---|---|\n");
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
