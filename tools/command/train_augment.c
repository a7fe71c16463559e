/* --augment: random changes of the training samples. */
#include "train.h"

int train_augment_check(const char *text, kn_augmentation *into) {
    char message[300];
    *into = (kn_augmentation)KN_AUGMENTATION_DEFAULTS;
    if (!text || kn_augmentation_read(text, into, message, sizeof message) == KN_OK) return EXIT_DONE;
    return command_misuse("--augment: %s", message);
}
