/* Adapters of linear layers on the command line. */
#ifndef KOINE_COMMAND_LORA_H
#define KOINE_COMMAND_LORA_H

#include "command.h"

enum { LORA_BYTES = 1024 };
typedef struct lora_options {
    bool given;
    kn_adapter_params params; /* its targets are those below */
    char targets[LORA_BYTES];
} lora_options;

/* The row of an option table. */
#define LORA_OPTION(target)                                                                                  \
    {                                                                                                        \
        "lora", OPTION_TEXT, "rank=N,…",                                                                     \
            "train only adapters of linear layers: rank=16,alpha=32,targets=all,dropout=0,rslora", &(target) \
    }
#define ADAPTER_OPTION(target)                                                                               \
    {                                                                                                        \
        "adapter", OPTION_TEXT, "DIR",                                                                       \
            "adapter of the model: a PEFT folder, a GGUF file, or a file of koine train --lora", &(target)   \
    }
/* Reads --lora (NULL: not given), with defaults for what is missing. EXIT_DONE, or reports an error and
 * returns EXIT_USAGE. */
int lora_check(const char *text, lora_options *lora);
/* The file or folder with the vocabulary of a language model; NULL: the model has none. */
const char *model_tokenizer(const char *source);

#endif
