/* A conversation with a language model. */
#ifndef KOINE_COMMAND_CHAT_H
#define KOINE_COMMAND_CHAT_H

#include "failure.h"

typedef struct chat {
    char *json; /* the messages: objects with commas between them */
    int count;
} chat;

/* Writes a message as an item of an array in JSON. */
void chat_write(FILE *stream, const char *role, const char *content, bool first);
/* Adds a message; false, after reporting it, if out of memory. */
bool chat_add(chat *self, const char *role, const char *content);
/* The tokens of a conversation, the items of an array of messages in JSON, which end with the beginning of an
 * answer; released with free. NULL after setting the failure. */
int32_t *chat_tokens(const char *json, const kn_vocabulary *words, size_t *count, failure *failed);
void chat_finish(chat *self);

#endif
