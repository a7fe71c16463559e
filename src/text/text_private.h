/* Private to src/text. A text is split at added tokens; what is between them is normalized, split into
 * pieces, and the model turns each piece into tokens. */
#ifndef KN_TEXT_PRIVATE_H
#define KN_TEXT_PRIVATE_H

#include "text/text.h"

#define KN_SPACE_LETTER "\xe2\x96\x81" /* U+2581, which stands for a space in SentencePiece's tokens */

/* ---- tables (words.c, pairs.c) --------------------------------------------------------------- */

enum { KN_WORD_NUMBERS = 1 << 22 };
#define KN_WORD_NONE UINT32_MAX

typedef struct kn_word {
    size_t begin;
    uint32_t length; /* KN_WORD_NONE: this number has no text */
} kn_word;

/* Texts with numbers below KN_WORD_NUMBERS, possibly with gaps. */
typedef struct kn_words {
    const kn_host *host;
    kn_text bytes;
    kn_word *items; /* (count), by number */
    size_t count, capacity;
    uint32_t *slots; /* (slot_count): number + 1, or 0 */
    size_t slot_count, used;
} kn_words;

void kn_words_init(kn_words *words, const kn_host *host);
void kn_words_finish(kn_words *words);
/* The number must not have a text yet. Of several numbers with the same text, the last is found. False: out
 * of memory, or the number is too large. */
bool kn_words_put(kn_words *words, uint32_t number, const char *text, size_t length);
/* -1 if there is no such text. */
int64_t kn_words_find(const kn_words *words, const char *text, size_t length);
/* NULL if the number has no text. Terminated. */
const char *kn_words_at(const kn_words *words, int64_t number, size_t *length);

#define KN_PAIR_NONE UINT64_MAX
typedef struct kn_pair {
    uint64_t key; /* left << 32 | right */
    uint32_t first, second;
} kn_pair;
typedef struct kn_pairs {
    kn_pair *slots;
    size_t slot_count, count;
} kn_pairs;
/* The entry of a pair, with zeros if it is new; NULL: out of memory. left and right must not both be
 * UINT32_MAX. */
kn_pair *kn_pairs_put(kn_pairs *pairs, const kn_host *host, uint32_t left, uint32_t right);
const kn_pair *kn_pairs_find(const kn_pairs *pairs, uint32_t left, uint32_t right);
/* All entries, (count), by `first`, then `second`, then key. Released by the caller; NULL: out of memory. */
const kn_pair **kn_pairs_sorted(const kn_pairs *pairs, const kn_host *host);
void kn_pairs_finish(kn_pairs *pairs, const kn_host *host);

typedef struct kn_trie {
    kn_pairs pairs;
    uint32_t nodes;
    uint8_t begins[32]; /* a bit for each byte that a text begins with */
} kn_trie;
bool kn_trie_put(kn_trie *trie, const kn_host *host, const char *text, size_t length, uint32_t number);
/* The node after a text, or -1. */
int64_t kn_trie_node(const kn_trie *trie, const char *text, size_t length);
/* Follows a byte; returns the number of the text that ends there, or -1. *on is false if nothing follows. */
int64_t kn_trie_next(const kn_trie *trie, uint32_t *node, uint8_t byte, bool *on);
/* The number of the longest text from `node` on that `text` begins with, or -1. */
int64_t kn_trie_longest(const kn_trie *trie, uint32_t node, const char *text, size_t room, size_t *length);
void kn_trie_finish(kn_trie *trie, const kn_host *host);

/* ---- characters (characters.c) ------------------------------------------------------------------- */

#define KN_CHARACTER_INVALID UINT32_MAX
/* The length of the character at `bytes`; an invalid byte is a character of length 1 and
 * KN_CHARACTER_INVALID. */
size_t kn_character_read(const char *bytes, size_t count, uint32_t *code);
bool kn_character_is_space(uint32_t code); /* White_Space */

/* Categories and normal forms come from utf8proc; KN_ERROR_UNSUPPORTED, naming `what` needs them, if Koine
 * was built without it. */
kn_status kn_characters_check(const char *what, kn_error *error);
typedef enum kn_character_class {
    KN_CHARACTER_MARK,        /* M */
    KN_CHARACTER_MARK_NARROW, /* Mn */
    KN_CHARACTER_NUMBER,      /* N */
    KN_CHARACTER_PUNCTUATION, /* P, or ASCII punctuation and symbols */
    KN_CHARACTER_OTHER,       /* Cc, Cf, Cs, Co */
    KN_CHARACTER_WORD,        /* letters, marks, decimal and letter numbers, connectors */
} kn_character_class;
bool kn_character_is(uint32_t code, kn_character_class what);
/* Appends the text in a normal form. */
void kn_characters_normalize(const char *bytes, size_t count, bool compatible, bool composed, kn_text *to);
/* Appends the lower case of a character. */
void kn_character_lower(const char *bytes, size_t count, uint32_t code, kn_text *to);

/* ---- a text, or a regular expression (regex.c) -------------------------------------------------------- */

typedef struct kn_pattern {
    const char *text; /* NULL: the regular expression */
    size_t length;
    kn_regex *regex;
    const char *source; /* of the regular expression; of a GGUF file, that of the original tokenizer.json */
} kn_pattern;
/* Receives the parts of a text in order: matches, and what is between them. */
typedef void kn_pattern_part(void *user, size_t begin, size_t end, bool match);
kn_status kn_pattern_search(const kn_host *host, const kn_pattern *pattern, const char *text, size_t count,
                            kn_pattern_part *part, void *user);

/* ---- normalizers (normalize.c) -------------------------------------------------------------------- */

typedef enum kn_normalizer_kind {
    KN_NORMALIZER_FORM,
    KN_NORMALIZER_LOWERCASE,
    KN_NORMALIZER_STRIP_ACCENTS,
    KN_NORMALIZER_PREPEND,
    KN_NORMALIZER_REPLACE,
    KN_NORMALIZER_STRIP,
    KN_NORMALIZER_BERT,
    KN_NORMALIZER_BYTES,
} kn_normalizer_kind;

typedef struct kn_normalizer {
    kn_normalizer_kind kind;
    bool compatible, composed;           /* form */
    bool left, right;                    /* strip */
    bool clean, chinese, lower, accents; /* bert */
    kn_pattern pattern;                  /* replace */
    const char *content;                 /* replace, prepend */
    size_t content_length;
} kn_normalizer;
/* Appends the normalized text. */
kn_status kn_normalize(const kn_host *host, const kn_normalizer *normalizer, const char *text, size_t count,
                       kn_text *to);

/* ---- splitting into pieces (split.c) ----------------------------------------------------------------- */

typedef enum kn_split_behavior {
    KN_SPLIT_REMOVED,
    KN_SPLIT_ISOLATED,
    KN_SPLIT_MERGED_PREVIOUS,
    KN_SPLIT_MERGED_NEXT,
    KN_SPLIT_CONTIGUOUS,
} kn_split_behavior;

typedef enum kn_splitter_kind {
    KN_SPLITTER_PATTERN,
    KN_SPLITTER_DIGITS,
    KN_SPLITTER_PUNCTUATION,
    KN_SPLITTER_SPACE,
    KN_SPLITTER_WORDS,
    KN_SPLITTER_BYTES,     /* to the 256 letters of GPT-2 */
    KN_SPLITTER_METASPACE, /* spaces to a letter, and a letter in front */
    KN_SPLITTER_PREFIX,    /* a space in front */
} kn_splitter_kind;

typedef enum kn_prepend { KN_PREPEND_ALWAYS, KN_PREPEND_FIRST, KN_PREPEND_NEVER } kn_prepend;

typedef struct kn_splitter {
    kn_splitter_kind kind;
    kn_split_behavior behavior;
    kn_pattern pattern;
    bool invert;
    kn_prepend prepend; /* metaspace, with the letter as pattern */
} kn_splitter;

/* A text and the ends of its pieces. */
typedef struct kn_run {
    kn_text text;
    size_t *ends; /* (count) */
    size_t count, capacity;
} kn_run;
void kn_run_init(kn_run *run, const kn_host *host);
void kn_run_finish(kn_run *run);
void kn_run_clear(kn_run *run);
/* Ends a piece at the end of the text, if it is not empty. Failures make the text fail. */
void kn_run_end(kn_run *run);
/* Appends the pieces of `from` after splitting. begins: the text begins here. */
kn_status kn_run_split(const kn_host *host, const kn_splitter *splitter, const kn_run *from, bool begins,
                       kn_run *to);
/* Appends bytes as GPT-2's letters. */
void kn_byte_letters(const char *bytes, size_t count, kn_text *to);
/* The byte of a letter, or -1. */
int kn_byte_of_letter(uint32_t code);
/* The expression of GPT-2. */
#define KN_REGEX_GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* ---- models (model.c, bpe.c, unigram.c, wordpiece.c) ------------------------------------------------- */

typedef struct kn_tokens {
    const kn_host *host;
    int32_t *items;
    size_t count, capacity;
    bool failed;
} kn_tokens;
void kn_tokens_add(kn_tokens *tokens, int64_t token);

/* Memory that the pieces of one text use in turn. */
typedef struct kn_workspace {
    const kn_host *host;
    struct kn_symbol *symbols;
    struct kn_candidate *heap;
    struct kn_path *path;
    size_t symbol_capacity, heap_capacity, path_capacity, heap_count;
    kn_words cached;    /* pieces whose tokens are known */
    kn_tokens cache;    /* their tokens */
    size_t *cache_ends; /* (cached.count) */
    size_t cache_capacity;
} kn_workspace;

typedef struct kn_text_model kn_text_model;
/* Appends the tokens of a piece. KN_ERROR_NOT_FOUND: a character has no token. */
typedef kn_status kn_piece_encode(const kn_text_model *model, kn_workspace *work, const char *piece,
                                  size_t length, kn_tokens *tokens);
struct kn_text_model {
    const char *name; /* "BPE" */
    kn_piece_encode *encode;
    kn_words words;
    int64_t unknown; /* -1: none */
    bool byte_fallback, fuse_unknown, ignore_merges;
    bool barriers; /* nothing is merged across a character without any token, which is dropped afterwards */
    int64_t bytes[256];          /* the tokens <0x00> to <0xFF>, or -1 */
    const char *prefix, *suffix; /* of words that continue; of the end of words */
    kn_pairs merges;             /* of a pair of tokens: rank, merged token */
    const double *scores;        /* (words.count): unigram and scored merges */
    double least;                /* score */
    kn_trie trie;                /* unigram, wordpiece */
    int64_t continues;           /* the trie's node after the prefix; -1: none */
    size_t longest;              /* characters of a word, for wordpiece */
};
void kn_text_model_init(kn_text_model *model, const kn_host *host);
void kn_text_model_finish(kn_text_model *model, const kn_host *host);
/* Finds the byte tokens. */
void kn_text_model_find_bytes(kn_text_model *model);
/* Adds a merge of two words. NULL: done; "": out of memory; otherwise what is not in the vocabulary, for a
 * message. */
const char *kn_text_model_add_merge(kn_text_model *model, const kn_host *host, uint32_t rank,
                                    const char *left, size_t left_length, const char *right,
                                    size_t right_length);
/* Puts all words into the trie. */
bool kn_text_model_grow(kn_text_model *model, const kn_host *host);
/* Appends byte tokens for all bytes, or returns false if there are none for them. */
bool kn_text_model_fall_back(const kn_text_model *model, const char *bytes, size_t count, kn_tokens *tokens);
/* Numbers in the opposite order of scores. */
uint32_t kn_score_order(double score);
kn_piece_encode kn_bpe_encode, kn_scored_encode, kn_unigram_encode, kn_wordpiece_encode, kn_wordlevel_encode;
void kn_workspace_init(kn_workspace *work, const kn_host *host);
void kn_workspace_finish(kn_workspace *work);
/* The model's tokens of a piece, or the cached ones. */
kn_status kn_piece_tokens(const kn_text_model *model, kn_workspace *work, const char *piece, size_t length,
                          kn_tokens *tokens);

/* ---- added tokens (added.c) ---------------------------------------------------------------------- */

typedef struct kn_added {
    int32_t token;
    const char *text; /* normalized if `normalized` */
    size_t length;
    bool special, normalized, single_word, left, right;
} kn_added;

typedef struct kn_added_set {
    kn_trie trie;       /* numbers in `items` */
    kn_trie ordinary;   /* without special tokens */
    bool longest_first; /* in the whole text, as in llama.cpp, instead of the first position */
} kn_added_set;

/* ---- decoders (decode.c) ------------------------------------------------------------------------- */

typedef enum kn_decoder_kind {
    KN_DECODER_BYTES,
    KN_DECODER_REPLACE,
    KN_DECODER_BYTE_FALLBACK,
    KN_DECODER_STRIP,
    KN_DECODER_METASPACE,
    KN_DECODER_WORDPIECE,
    KN_DECODER_SUFFIX,
    KN_DECODER_SPACES, /* a space between tokens, without a decoder */
} kn_decoder_kind;

typedef struct kn_decoder {
    kn_decoder_kind kind;
    kn_pattern pattern;  /* replace; strip and metaspace: a character; suffix */
    const char *content; /* replace; wordpiece: the prefix */
    size_t content_length;
    bool clean;          /* wordpiece */
    bool whole;          /* strip: at the beginning of the whole text instead of each token */
    kn_prepend prepend;  /* metaspace */
    int64_t start, stop; /* strip: the maximum number of characters */
} kn_decoder;

/* ---- the vocabulary (vocabulary.c) -------------------------------------------------------------------- */

enum { KN_VOCABULARY_ENDS = 32 };

struct kn_vocabulary {
    kn_host host;
    kn_error error;
    kn_arena arena;
    kn_text_model model;
    kn_added *added; /* (added_count) */
    size_t added_count;
    kn_words added_words;  /* the added tokens' texts as written, by token */
    kn_words added_normal; /* the normalized ones, as they are decoded */
    kn_added_set raw, normalized;
    kn_normalizer *normalizers;
    size_t normalizer_count;
    kn_splitter *splitters;
    size_t splitter_count;
    kn_decoder *decoders;
    size_t decoder_count;
    int32_t *before, *after; /* what the post-processor adds */
    size_t before_count, after_count;
    int32_t roles[4];
    int32_t ends[KN_VOCABULARY_ENDS]; /* tokens that end generation */
    size_t end_count;
    int32_t size;
    uint8_t *special; /* a bit for each token */
    const char *summary, *chat_template;
    const char *name; /* in messages */
};

/* Normalizes with all normalizers. */
kn_status kn_vocabulary_normalize(const kn_vocabulary *vocabulary, const char *text, size_t count,
                                  kn_text *to);
/* Fills in the tables of added tokens, roles, ends and the summary after everything was read. */
kn_status kn_vocabulary_complete(kn_vocabulary *vocabulary);
/* Read a tokenizer.json (json_tokenizer.c), and the files next to it, tokenizer_config.json and
 * generation_config.json (json_settings.c). */
kn_status kn_tokenizer_read(kn_vocabulary *vocabulary, const kn_json *root);
kn_status kn_tokenizer_read_settings(kn_vocabulary *vocabulary, const kn_json *root);
kn_status kn_tokenizer_read_generation(kn_vocabulary *vocabulary, const kn_json *root);
/* Reads and completes the vocabulary of a GGUF file (gguf_vocabulary.c). */
kn_status kn_vocabulary_read_gguf(kn_vocabulary *vocabulary, const kn_gguf *file);
/* tokenizer.ggml.pre for a byte-level vocabulary whose tokenizer.json splits texts with these expressions
 * (the second may be NULL); NULL: there is none. */
const char *kn_gguf_pre_named(const char *first, const char *second, bool ignore_merges);
/* Calls `visit` for the parts of a text: added tokens, and (token -1) what is between them. */
typedef kn_status kn_added_part(void *user, int32_t token, const char *text, size_t count);
kn_status kn_added_split(const kn_vocabulary *vocabulary, const kn_added_set *set, unsigned flags,
                         const char *text, size_t count, kn_added_part *visit, void *user);
/* Adds a token that ends generation, unless it is -1; no more than KN_VOCABULARY_ENDS are kept. */
void kn_vocabulary_add_end(kn_vocabulary *vocabulary, int64_t token);
kn_vocabulary *kn_vocabulary_create(const kn_host *host);

#endif
