/* A conversation with a language model. */
#ifndef KOINE_COMMAND_CHAT_H
#define KOINE_COMMAND_CHAT_H

#include "command.h"

typedef struct chat {
    char *json; /* the messages: objects with commas between them */
    size_t length;
    int count;
} chat;

/* Adds a message; false, after reporting it, if out of memory. */
bool chat_add(chat *self, const char *role, const char *content);
/* The tokens of the conversation, which end with the beginning of an answer; released with free. NULL after
 * reporting an error. */
int32_t *chat_tokens(const chat *self, const kn_vocabulary *words, size_t *count);
void chat_finish(chat *self);

#endif
