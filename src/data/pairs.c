/* Byte-pair encoding: the initial tokens are the characters of a text; then the most frequent pair of
 * adjacent tokens is repeatedly merged into a new token. A token never extends past a space or newline, so
 * the text splits into pieces, each beginning with a space, that are merged independently. */
#include "data/pairs.h"

#include <string.h>

enum { SEPARATOR = 0x1e, MAX_BYTES = 64 }; /* MAX_BYTES per token */

static bool is_space(uint8_t byte) {
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

/* ---- the vocabulary as text ---------------------------------------------------------------------- */

bool kn_pairs_is(const char *vocabulary) {
    return vocabulary[0] == SEPARATOR && strchr(vocabulary + 1, SEPARATOR) != NULL;
}

static int number_of(const kn_pairs *pairs, const uint8_t *bytes, size_t count) {
    const uint32_t *entry = kn_map_get(&pairs->numbers, bytes, count);
    return entry ? (int)(entry - pairs->begins) : -1;
}

kn_status kn_pairs_open(kn_pairs *pairs, const kn_host *host, const char *vocabulary, kn_error *error) {
    const size_t bytes = strlen(vocabulary);
    *pairs = (kn_pairs){.host = host, .joined = kn_pairs_is(vocabulary)};
    kn_map_init(&pairs->numbers, host);
    pairs->text = kn_copy_text(host, vocabulary);
    pairs->begins = kn_allocate(host, bytes + 2, sizeof *pairs->begins);
    if (!pairs->text || !pairs->begins) return kn_fail_memory(error, bytes * sizeof *pairs->begins);
    if (bytes >= UINT32_MAX) return kn_fail(error, KN_ERROR_UNSUPPORTED, "a vocabulary of %zu bytes", bytes);
    for (size_t at = 0; at < bytes;) {
        uint32_t code;
        size_t begin = at + pairs->joined;
        size_t length =
            begin < bytes ? kn_utf8_read((const uint8_t *)vocabulary + begin, bytes - begin, &code) : 0;
        if (pairs->joined && length > 0) length = strcspn(vocabulary + begin, "\x1e");
        if (length == 0)
            return kn_fail(error, KN_ERROR_FORMAT, "the text vocabulary is not valid UTF-8 at byte %zu",
                           begin);
        pairs->begins[pairs->count++] = (uint32_t)begin;
        at = begin + length;
    }
    pairs->begins[pairs->count] = (uint32_t)bytes + pairs->joined;
    for (int i = pairs->count - 1; i >= 0; i--) /* of two equal tokens, the first counts */
        if (!kn_map_put(&pairs->numbers, vocabulary + pairs->begins[i],
                        pairs->begins[i + 1] - pairs->begins[i] - pairs->joined, &pairs->begins[i]))
            return kn_fail_memory(error, bytes);
    return KN_OK;
}

void kn_pairs_close(kn_pairs *pairs) {
    if (!pairs->host) return;
    kn_release(pairs->host, pairs->text);
    kn_release(pairs->host, pairs->begins);
    kn_map_finish(&pairs->numbers);
    *pairs = (kn_pairs){.host = NULL};
}

/* ---- encoding ------------------------------------------------------------------------------------ */

/* The offsets of the characters of a piece and its end; returns their number, 0 if the text is invalid. */
static int cut_piece(const uint8_t *bytes, uint64_t count, uint64_t begins[KN_PIECE_MAX + 1]) {
    int characters = 0;
    uint64_t at = 0;
    while (at < count && characters < KN_PIECE_MAX && (at == 0 || !is_space(bytes[at]))) {
        uint32_t code;
        size_t length = kn_utf8_read(bytes + at, count - at, &code);
        if (length == 0) break;
        begins[characters++] = at;
        at += length;
    }
    begins[characters] = at;
    return characters;
}

int kn_pairs_encode(const kn_pairs *pairs, const uint8_t *bytes, uint64_t count,
                    int32_t numbers[KN_PIECE_MAX], uint64_t *used) {
    uint64_t begins[KN_PIECE_MAX + 1];
    int tokens = cut_piece(bytes, count, begins);
    *used = 0;
    for (int i = 0; i < tokens; i++) {
        numbers[i] = number_of(pairs, bytes + begins[i], (size_t)(begins[i + 1] - begins[i]));
        if (numbers[i] < 0) tokens = i; /* encode up to here */
    }
    while (pairs->joined && tokens > 1) {
        int index = -1, best = -1;
        for (int i = 0; i + 1 < tokens; i++) {
            uint64_t length = begins[i + 2] - begins[i];
            int number = length <= MAX_BYTES ? number_of(pairs, bytes + begins[i], (size_t)length) : -1;
            if (number < 0 || (best >= 0 && number >= best)) continue;
            best = number;
            index = i;
        }
        if (index < 0) break;
        numbers[index] = best;
        tokens--;
        memmove(numbers + index + 1, numbers + index + 2, (size_t)(tokens - index - 1) * sizeof *numbers);
        memmove(begins + index + 1, begins + index + 2, (size_t)(tokens - index) * sizeof *begins);
    }
    if (tokens > 0) *used = begins[tokens];
    return tokens;
}

/* ---- training ------------------------------------------------------------------------------------ */

/* A piece that occurs `weight` times. */
typedef struct piece {
    uint32_t begin, count; /* range of its token ids */
    uint32_t weight;
} piece;

typedef struct learning {
    const kn_host *host;
    kn_text text;     /* the vocabulary so far */
    uint32_t *begins; /* offset of each token in the text */
    uint16_t *lengths;
    uint32_t count, most;
    kn_map known; /* bytes of a token -> its entry in begins */
    kn_map seen;  /* bytes of a piece -> its index + 1 */
    piece *pieces;
    size_t piece_count, piece_capacity;
    uint32_t *numbers; /* token ids of all pieces */
    size_t number_count, number_capacity;
    uint32_t *pairs; /* (most,most): how often the second token follows the first */
    uint32_t *best;  /* for each first token, its most frequent successor */
    bool *changed;   /* rows whose best is outdated */
} learning;

static bool add_token(learning *self, const char *bytes, size_t count) {
    uint32_t *entry = &self->begins[self->count];
    kn_text_format(&self->text, "\x1e");
    *entry = (uint32_t)self->text.length;
    self->lengths[self->count++] = (uint16_t)count;
    kn_text_format(&self->text, "%.*s", (int)count, bytes);
    return !kn_text_failed(&self->text) && kn_map_put(&self->known, bytes, count, entry);
}

/* Increases or decreases the counts of a piece's pairs. */
static void count_pairs(learning *self, const piece *from, bool less) {
    const uint32_t *numbers = self->numbers + from->begin;
    for (uint32_t i = 0; i + 1 < from->count; i++) {
        if (self->lengths[numbers[i]] + self->lengths[numbers[i + 1]] > MAX_BYTES) continue;
        uint32_t *entry = &self->pairs[(size_t)numbers[i] * self->most + numbers[i + 1]];
        *entry = less ? *entry - from->weight : *entry + from->weight;
        self->changed[numbers[i]] = true;
    }
}

/* Replaces each adjacent pair of first and second by `joined`. */
static void join(learning *self, uint32_t first, uint32_t second, uint32_t joined) {
    for (size_t p = 0; p < self->piece_count; p++) {
        piece *at = &self->pieces[p];
        uint32_t *numbers = self->numbers + at->begin, kept = 0, i = 0;
        while (i + 1 < at->count && !(numbers[i] == first && numbers[i + 1] == second))
            i++;
        if (i + 1 >= at->count) continue;
        count_pairs(self, at, true);
        for (i = 0; i < at->count; i++) {
            bool both = i + 1 < at->count && numbers[i] == first && numbers[i + 1] == second;
            numbers[kept++] = both ? joined : numbers[i];
            i += both;
        }
        at->count = kept;
        count_pairs(self, at, false);
    }
}

/* The most frequent pair; among equals, the pair with the oldest tokens; false if no pair occurs twice. */
static bool find_pair(learning *self, uint32_t *first, uint32_t *second) {
    uint32_t most = 1;
    for (uint32_t row = 0; row < self->count; row++) {
        const uint32_t *counts = self->pairs + (size_t)row * self->most;
        if (self->changed[row]) {
            self->best[row] = 0;
            for (uint32_t i = 1; i < self->count; i++)
                if (counts[i] > counts[self->best[row]]) self->best[row] = i;
            self->changed[row] = false;
        }
        if (counts[self->best[row]] <= most) continue;
        most = counts[self->best[row]];
        *first = row;
        *second = self->best[row];
    }
    return most > 1;
}

static bool grow(learning *self) {
    uint32_t first = 0, second = 0;
    while (self->count < self->most && find_pair(self, &first, &second)) {
        char both[MAX_BYTES];
        size_t length = self->lengths[first], all = length + self->lengths[second];
        memcpy(both, self->text.data + self->begins[first], length);
        memcpy(both + length, self->text.data + self->begins[second], all - length);
        const uint32_t *entry = kn_map_get(&self->known, both, all);
        uint32_t joined = entry ? (uint32_t)(entry - self->begins) : self->count;
        if (!entry && !add_token(self, both, all)) return false;
        join(self, first, second, joined);
    }
    return true;
}

/* Adds a piece, or counts another occurrence. Its characters must already be tokens. */
static bool add_piece(learning *self, const uint8_t *bytes, const uint64_t *begins, int characters) {
    const size_t length = (size_t)begins[characters];
    uintptr_t there = (uintptr_t)kn_map_get(&self->seen, bytes, length);
    if (there) {
        self->pieces[there - 1].weight++;
        return true;
    }
    if (!kn_reserve(self->host, (void **)&self->pieces, &self->piece_capacity, self->piece_count + 1,
                    sizeof *self->pieces) ||
        !kn_reserve(self->host, (void **)&self->numbers, &self->number_capacity,
                    self->number_count + (size_t)characters, sizeof *self->numbers))
        return false;
    self->pieces[self->piece_count++] = (piece){(uint32_t)self->number_count, (uint32_t)characters, 1};
    for (int i = 0; i < characters; i++) {
        const uint32_t *entry =
            kn_map_get(&self->known, bytes + begins[i], (size_t)(begins[i + 1] - begins[i]));
        self->numbers[self->number_count++] = (uint32_t)(entry - self->begins);
    }
    return kn_map_put(&self->seen, bytes, length, (void *)(uintptr_t)self->piece_count);
}

static kn_status fail_pieces(kn_error *error, const char *path, uint64_t at) {
    return kn_fail(error, KN_ERROR_FORMAT,
                   "%s: invalid at byte %llu: a byte-pair vocabulary needs text in UTF-8 without U+001E",
                   path, (unsigned long long)at);
}

/* The characters of `alphabet` are the initial tokens. */
static kn_status learn(learning *self, const char *path, const uint8_t *bytes, uint64_t count,
                       const char *alphabet, kn_error *error) {
    for (size_t at = 0, length; alphabet[at]; at += length) {
        uint32_t code;
        length = kn_utf8_read((const uint8_t *)alphabet + at, strlen(alphabet + at), &code);
        if (length == 0 || code == SEPARATOR) return fail_pieces(error, path, 0);
        if (self->count == self->most)
            return kn_fail(
                error, KN_ERROR_ARGUMENT,
                "%s: a vocabulary of %u tokens is too small: the text has more distinct characters", path,
                self->most);
        if (!add_token(self, alphabet + at, length)) return kn_fail_memory(error, self->text.length);
    }
    uint64_t begins[KN_PIECE_MAX + 1];
    for (uint64_t at = 0; at < count; at += begins[0]) {
        int characters = cut_piece(bytes + at, count - at, begins);
        if (characters == 0) return fail_pieces(error, path, at);
        if (!add_piece(self, bytes + at, begins, characters))
            return kn_fail_memory(error, self->number_count * sizeof *self->numbers);
        begins[0] = begins[characters];
    }
    for (size_t p = 0; p < self->piece_count; p++)
        count_pairs(self, &self->pieces[p], false);
    return grow(self) ? KN_OK : kn_fail_memory(error, self->text.length);
}

kn_status kn_pairs_learn(kn_pairs *pairs, const kn_host *host, const char *path, const uint8_t *bytes,
                         uint64_t count, const char *alphabet, uint64_t wanted, kn_error *error) {
    learning own = {.host = host, .most = (uint32_t)wanted};
    *pairs = (kn_pairs){.host = NULL};
    if (wanted < 2 || wanted > KN_PAIRS_MAX || count > UINT32_MAX)
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "%s: a vocabulary of %llu tokens from %llu bytes; expected 2 to %d tokens and at most %llu bytes",
            path, (unsigned long long)wanted, (unsigned long long)count, KN_PAIRS_MAX,
            (unsigned long long)UINT32_MAX);
    kn_text_init(&own.text, host);
    kn_map_init(&own.known, host);
    kn_map_init(&own.seen, host);
    own.begins = kn_allocate(host, own.most, sizeof *own.begins);
    own.lengths = kn_allocate(host, own.most, sizeof *own.lengths);
    own.pairs = kn_allocate(host, (size_t)own.most * own.most, sizeof *own.pairs);
    own.best = kn_allocate(host, own.most, sizeof *own.best);
    own.changed = kn_allocate(host, own.most, sizeof *own.changed);
    kn_status status = own.begins && own.lengths && own.pairs && own.best && own.changed
                           ? learn(&own, path, bytes, count, alphabet, error)
                           : kn_fail_memory(error, (size_t)own.most * own.most * sizeof *own.pairs);
    if (status == KN_OK) status = kn_pairs_open(pairs, host, own.text.data, error);
    kn_release(host, own.begins);
    kn_release(host, own.lengths);
    kn_release(host, own.pairs);
    kn_release(host, own.best);
    kn_release(host, own.changed);
    kn_release(host, own.pieces);
    kn_release(host, own.numbers);
    kn_map_finish(&own.known);
    kn_map_finish(&own.seen);
    kn_text_finish(&own.text);
    return status;
}

/* ---- public functions --------------------------------------------------------------------------------- */

kn_status kn_text_encode(const kn_allocator *allocator, const char *vocabulary, const char *text,
                         int32_t *numbers, size_t *count, size_t *bytes) {
    if (!vocabulary || !text || !numbers || !count || !bytes) return KN_ERROR_ARGUMENT;
    const kn_host host = kn_host_with(allocator);
    const size_t all = strlen(text);
    int32_t piece_numbers[KN_PIECE_MAX];
    kn_error error = {KN_OK, ""};
    kn_pairs pairs;
    *count = *bytes = 0;
    if (!vocabulary[0]) {
        for (; *bytes < all; ++*bytes)
            numbers[(*count)++] = (uint8_t)text[*bytes];
        return KN_OK;
    }
    kn_status status = kn_pairs_open(&pairs, &host, vocabulary, &error);
    while (status == KN_OK && *bytes < all) {
        uint64_t used;
        int tokens =
            kn_pairs_encode(&pairs, (const uint8_t *)text + *bytes, all - *bytes, piece_numbers, &used);
        if (tokens == 0) status = KN_ERROR_NOT_FOUND;
        memcpy(numbers + *count, piece_numbers, (size_t)tokens * sizeof *numbers);
        *count += (size_t)tokens;
        *bytes += (size_t)used;
    }
    kn_pairs_close(&pairs);
    return status;
}
