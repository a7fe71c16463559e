/* text: sentences of a small grammar with long-range agreement: a verb with its subject, across whatever is
 * between them; a pronoun with the subject in number and gender; `if` with `then`, `either` with `or`, a
 * quotation mark with its closing mark. */
#include "data/made_private.h"

#include <string.h>

typedef struct noun {
    const char *one, *many, *pronoun;
} noun;
static const noun nouns[] = {
    {"man", "men", "himself"},        {"woman", "women", "herself"}, {"king", "kings", "himself"},
    {"queen", "queens", "herself"},   {"boy", "boys", "himself"},    {"girl", "girls", "herself"},
    {"uncle", "uncles", "himself"},   {"aunt", "aunts", "herself"},  {"brother", "brothers", "himself"},
    {"sister", "sisters", "herself"}, {"dog", "dogs", "itself"},     {"cat", "cats", "itself"},
    {"horse", "horses", "itself"},    {"fox", "foxes", "itself"},    {"bird", "birds", "itself"},
    {"mouse", "mice", "itself"},
};

typedef struct verb {
    const char *one, *many;
} verb;
static const verb with_object[] = {
    {"sees", "see"},   {"follows", "follow"}, {"hears", "hear"}, {"finds", "find"},
    {"loves", "love"}, {"knows", "know"},     {"calls", "call"}, {"helps", "help"},
};
static const verb alone[] = {
    {"sleeps", "sleep"}, {"runs", "run"},     {"sings", "sing"},
    {"waits", "wait"},   {"laughs", "laugh"}, {"dreams", "dream"},
};
static const verb saying[] = {{"says", "say"}, {"thinks", "think"}, {"shouts", "shout"}};
static const char *const adjectives[] = {"old",   "young", "small",  "tall", "quiet",
                                         "happy", "tired", "clever", "brave"};
static const char *const places[] = {"near", "behind", "beside", "with"};
static const char *const manners[] = {"slowly", "today", "again", "every night", "in the garden"};

typedef struct writer {
    kn_choices random;
    char *text;
    int length;
} writer;

/* Appends a word, preceded by a space unless it is the first. A word that does not fit is dropped; no
 * sentence is that long. */
static void put(writer *out, const char *word) {
    int length = (int)strlen(word);
    bool first = out->length == 0 || out->text[out->length - 1] == '"';
    if (out->length + length + 8 > KN_SENTENCE_MAX) return;
    if (!first) out->text[out->length++] = ' ';
    memcpy(out->text + out->length, word, (size_t)length);
    out->length += length;
}

static int pick(writer *out, size_t count) {
    return kn_choose(&out->random, 0, (int)count - 1);
}

/* The subject of a clause. */
typedef struct subject {
    bool many;
    const char *pronoun;
} subject;

static void put_verb(writer *out, const verb *table, size_t count, const subject *who) {
    int which = pick(out, count);
    put(out, who->many ? table[which].many : table[which].one);
}

static subject put_noun(writer *out) {
    subject who;
    who.many = kn_choose_chance(&out->random, 50);
    const noun *which = &nouns[pick(out, KN_COUNT_OF(nouns))];
    who.pronoun = who.many ? "themselves" : which->pronoun;
    put(out, "the");
    if (kn_choose_chance(&out->random, 35)) put(out, adjectives[pick(out, KN_COUNT_OF(adjectives))]);
    put(out, who.many ? which->many : which->one);
    return who;
}

/* "the old dogs near the king that the girl sees": the following verb agrees with the dogs. */
static subject put_subject(writer *out, int depth) {
    subject who = put_noun(out);
    if (kn_choose_chance(&out->random, 30)) {
        put(out, places[pick(out, KN_COUNT_OF(places))]);
        put_noun(out);
    }
    if (depth < 2 && kn_choose_chance(&out->random, 35)) {
        put(out, "that");
        if (kn_choose_chance(&out->random, 50)) {
            put_verb(out, with_object, KN_COUNT_OF(with_object), &who);
            put_subject(out, depth + 1);
        } else {
            subject other = put_subject(out, depth + 1);
            put_verb(out, with_object, KN_COUNT_OF(with_object), &other);
        }
    }
    return who;
}

static void put_clause(writer *out) {
    subject who = put_subject(out, 0);
    int kind = kn_choose(&out->random, 0, 99);
    if (kind < 40) {
        put_verb(out, alone, KN_COUNT_OF(alone), &who);
        if (kn_choose_chance(&out->random, 40)) put(out, manners[pick(out, KN_COUNT_OF(manners))]);
    } else {
        put_verb(out, with_object, KN_COUNT_OF(with_object), &who);
        if (kind < 70)
            put(out, who.pronoun);
        else
            put_subject(out, 1);
    }
}

int kn_made_sentence(bool test, uint64_t number, char text[KN_SENTENCE_MAX]) {
    writer out = {.random = kn_choices_of(kn_made_key(test, "text"), number), .text = text};
    int kind = kn_choose(&out.random, 0, 99);
    if (kind < 55) {
        put_clause(&out);
    } else if (kind < 75) {
        put(&out, "if");
        put_clause(&out);
        put(&out, "then");
        put_clause(&out);
    } else if (kind < 85) {
        put(&out, "either");
        put_clause(&out);
        put(&out, "or");
        put_clause(&out);
    } else {
        subject who = put_noun(&out);
        put_verb(&out, saying, KN_COUNT_OF(saying), &who);
        put(&out, "\"");
        put_clause(&out);
        out.text[out.length++] = '"';
    }
    out.text[out.length++] = '.';
    out.text[out.length++] = kn_choose_chance(&out.random, 25) ? '\n' : ' ';
    return out.length;
}
