/* A growing string, locale-independent numbers, and similar words. */
#include "base/base.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The data of a text without memory; never written, because its capacity is 0. */
static const char nothing[1] = "";

void kn_text_init(kn_text *text, const kn_host *host) {
    *text = (kn_text){.host = host, .data = (char *)nothing};
}

void kn_text_finish(kn_text *text) {
    if (text->capacity > 0) kn_release(text->host, text->data);
    kn_text_init(text, text->host);
}

void kn_text_clear(kn_text *text) {
    text->length = 0;
    text->failed = false;
    if (text->capacity > 0) text->data[0] = '\0';
}

/* Makes room for `count` more bytes and the terminator. */
static bool make_room(kn_text *text, size_t count) {
    if (text->failed) return false;
    if (count >= SIZE_MAX - text->length) {
        text->failed = true;
        return false;
    }
    void *data = text->capacity > 0 ? text->data : NULL;
    if (!kn_reserve(text->host, &data, &text->capacity, text->length + count + 1, 1)) {
        text->failed = true;
        return false;
    }
    text->data = data;
    return true;
}

void kn_text_add_bytes(kn_text *text, const char *bytes, size_t count) {
    if (!make_room(text, count)) return;
    if (count > 0) memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = '\0';
}

void kn_text_add(kn_text *text, const char *piece) {
    kn_text_add_bytes(text, piece, strlen(piece));
}

void kn_text_format(kn_text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length < 0) {
        text->failed = true;
    } else if (make_room(text, (size_t)length)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

bool kn_text_failed(const kn_text *text) {
    return text->failed;
}

char *kn_text_take(kn_text *text) {
    if (!make_room(text, 0)) { /* an empty text still returns a terminated string */
        kn_text_finish(text);
        text->failed = true;
        return NULL;
    }
    text->data[text->length] = '\0';
    char *data = text->data;
    kn_text_init(text, text->host);
    return data;
}

/* ---- writing numbers ----------------------------------------------------- */

/* A positive number 0.DIGITS times ten to the power `point`. */
typedef struct decimal {
    char digits[24];
    int count, point;
} decimal;

static double read_back(const decimal *number) {
    char buffer[48];
    snprintf(buffer, sizeof buffer, "%.*se%d", number->count, number->digits, number->point - number->count);
    return strtod(buffer, NULL); /* integer digits and an exponent: no decimal separator */
}

static bool reads_back(const decimal *number, double value, bool as_float) {
    double read = read_back(number);
    if (!as_float) return read == value;
    /* Correct for readers that round once, to float, and for readers that first read a double. */
    char buffer[48];
    snprintf(buffer, sizeof buffer, "%.*se%d", number->count, number->digits, number->point - number->count);
    return (float)read == (float)value && strtof(buffer, NULL) == (float)value;
}

/* The `count` digits nearest to value > 0. */
static decimal round_to(double value, int count) {
    char buffer[64];
    snprintf(buffer, sizeof buffer, "%.*e", count - 1, value);
    decimal number = {.count = 0};
    const char *c = buffer;
    /* Any other character between the digits is the locale's separator. */
    for (; *c != '\0' && *c != 'e'; c++)
        if (kn_is_digit(*c) && number.count < count) number.digits[number.count++] = *c;
    number.point = (*c == 'e' ? atoi(c + 1) : 0) + 1;
    return number;
}

/* The next larger number with the same number of digits. */
static decimal next_up(decimal number) {
    int i = number.count - 1;
    while (i >= 0 && number.digits[i] == '9')
        number.digits[i--] = '0';
    if (i >= 0) {
        number.digits[i]++;
    } else {
        number.digits[0] = '1';
        number.point++;
    }
    return number;
}

static decimal shortest(double value, bool as_float) {
    int most = as_float ? 9 : 17;
    bool full = value >= (as_float ? (double)FLT_MIN : DBL_MIN);
    /* A number with this many digits survives conversion to binary and back, so shorter numbers appear with
     * trailing zeros. Subnormal numbers have fewer digits. */
    int first = !full ? 1 : as_float ? FLT_DIG : DBL_DIG;
    int exponent;
    bool power_of_two = frexp(value, &exponent) == 0.5;
    decimal number = {.count = 0};
    for (int count = first; count <= most; count++) {
        number = round_to(value, count);
        if (reads_back(&number, value, as_float)) break;
        if (!power_of_two) continue;
        /* Above a power of two numbers are twice as far apart as below: the decimal above may read back even
         * if the nearer one below does not. */
        decimal above = next_up(number);
        if (reads_back(&above, value, as_float)) {
            number = above;
            break;
        }
    }
    while (number.count > 1 && number.digits[number.count - 1] == '0')
        number.count--;
    return number;
}

/* Writes nan, inf and zero, with the sign of zero and infinity; false for everything else. */
static bool add_special(kn_text *text, double value) {
    if (isnan(value)) {
        kn_text_add(text, "nan");
        return true;
    }
    if (signbit(value)) kn_text_add(text, "-");
    if (isinf(value)) {
        kn_text_add(text, "inf");
        return true;
    }
    if (value == 0) {
        kn_text_add(text, "0");
        return true;
    }
    return false;
}

static void add_number(kn_text *text, double value, bool as_float) {
    if (add_special(text, value)) return;
    decimal number = shortest(fabs(value), as_float);
    const char *digits = number.digits;
    size_t count = (size_t)number.count;
    if (number.point > 16 || number.point < -4) { /* 1e-7, 1.25e30 */
        kn_text_add_bytes(text, digits, 1);
        if (count > 1) {
            kn_text_add(text, ".");
            kn_text_add_bytes(text, digits + 1, count - 1);
        }
        kn_text_format(text, "e%d", number.point - 1);
    } else if (number.point <= 0) { /* 0.00125 */
        kn_text_add(text, "0.");
        kn_text_add_bytes(text, "0000", (size_t)-number.point);
        kn_text_add_bytes(text, digits, count);
    } else { /* 125, 12500, 1.25 */
        size_t whole = (size_t)number.point;
        kn_text_add_bytes(text, digits, count < whole ? count : whole);
        for (size_t i = count; i < whole; i++)
            kn_text_add(text, "0");
        if (count > whole) {
            kn_text_add(text, ".");
            kn_text_add_bytes(text, digits + whole, count - whole);
        }
    }
}

void kn_text_number(kn_text *text, double value) {
    add_number(text, value, false);
}

void kn_text_number_float(kn_text *text, float value) {
    add_number(text, (double)value, true);
}

/* decimals is clamped to 0..60. */
void kn_text_fixed(kn_text *text, double value, int decimals) {
    if (!isfinite(value)) {
        add_special(text, value);
        return;
    }
    if (decimals < 0) decimals = 0;
    if (decimals > 60) decimals = 60;
    char buffer[512]; /* a double has at most 309 digits before the point */
    int length = snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
    if (length < decimals || (size_t)length >= sizeof buffer) {
        text->failed = true;
        return;
    }
    const char *c = buffer;
    if (*c == '-') c++;
    while (kn_is_digit(*c))
        c++;
    kn_text_add_bytes(text, buffer, (size_t)(c - buffer));
    if (decimals == 0) return;
    kn_text_add(text, ".");
    kn_text_add_bytes(text, buffer + length - decimals, (size_t)decimals);
}

/* ---- JSON ------------------------------------------------------------------ */

/* The length of the UTF-8 character at `c`; 0 if it is invalid. Stops at the first invalid byte, so it never
 * reads past the terminator. */
static size_t utf8_length(const unsigned char *c) {
    size_t count;
    unsigned char low = 0x80, high = 0xBF; /* range of the second byte */
    if (c[0] < 0x80) return 1;
    if (c[0] >= 0xC2 && c[0] <= 0xDF) {
        count = 2;
    } else if ((c[0] & 0xF0) == 0xE0) {
        count = 3;
        if (c[0] == 0xE0) low = 0xA0;  /* overlong forms */
        if (c[0] == 0xED) high = 0x9F; /* surrogates */
    } else if (c[0] >= 0xF0 && c[0] <= 0xF4) {
        count = 4;
        if (c[0] == 0xF0) low = 0x90;
        if (c[0] == 0xF4) high = 0x8F; /* above U+10FFFF */
    } else {
        return 0;
    }
    if (c[1] < low || c[1] > high) return 0;
    for (size_t i = 2; i < count; i++)
        if (c[i] < 0x80 || c[i] > 0xBF) return 0;
    return count;
}

void kn_text_json(kn_text *text, const char *value) {
    if (!value) {
        kn_text_add(text, "null");
        return;
    }
    kn_text_add(text, "\"");
    const unsigned char *c = (const unsigned char *)value;
    while (*c != '\0') {
        size_t count = utf8_length(c);
        if (count == 0) {
            kn_text_add(text, "\xEF\xBF\xBD");
            count = 1;
        } else if (*c == '"' || *c == '\\') {
            kn_text_format(text, "\\%c", *c);
        } else if (*c == '\n') {
            kn_text_add(text, "\\n");
        } else if (*c == '\t') {
            kn_text_add(text, "\\t");
        } else if (*c == '\r') {
            kn_text_add(text, "\\r");
        } else if (*c < 0x20) {
            kn_text_format(text, "\\u%04x", *c);
        } else {
            kn_text_add_bytes(text, (const char *)c, count);
        }
        c += count;
    }
    kn_text_add(text, "\"");
}

void kn_text_json_number(kn_text *text, double value) {
    if (isfinite(value))
        kn_text_number(text, value);
    else
        kn_text_add(text, "null");
}

/* ---- reading numbers --------------------------------------------------------- */

static int digit_value(char c, int base) {
    int value = 99;
    if (kn_is_digit(c)) value = c - '0';
    if (c >= 'a' && c <= 'f') value = c - 'a' + 10;
    if (c >= 'A' && c <= 'F') value = c - 'A' + 10;
    return value < base ? value : -1;
}

/* The length of `word` (lower case) if `text` begins with it in any case, else 0. */
static size_t begins_with(const char *text, const char *word) {
    size_t i = 0;
    for (; word[i] != '\0'; i++)
        if (text[i] != word[i] && text[i] != word[i] - 'a' + 'A') return 0;
    return i;
}

/* Further digits only affect rounding by being nonzero. */
enum { MAX_DIGITS = 800 };

/* Reads DIGITS[.DIGITS][e|p EXPONENT] in `base` and rewrites it as integer digits and an exponent, which
 * strtod rounds correctly in every locale. */
static bool read_digits(const char *text, int base, const char **end, double *value) {
    char buffer[MAX_DIGITS + 40];
    size_t count = 0;
    int64_t exponent = 0;
    bool any = false, point = false, dropped = false;
    if (base == 16) {
        buffer[count++] = '0';
        buffer[count++] = 'x';
    }
    const size_t start = count;
    const char *c = text;
    for (;; c++) {
        if (*c == '.' && !point) {
            point = true;
            continue;
        }
        int digit = digit_value(*c, base);
        if (digit < 0) break;
        any = true;
        if (point) exponent--;
        if (digit == 0 && count == start) continue; /* skip leading zeros */
        if (count < start + MAX_DIGITS) {
            buffer[count++] = *c;
        } else {
            exponent++;
            dropped = dropped || digit != 0;
        }
    }
    if (!any) return false;
    if (dropped) { /* represents the dropped digits: slightly above the digits kept */
        buffer[count++] = '1';
        exponent--;
    }
    if (count == start) {
        buffer[count++] = '0';
        exponent = 0;
    }
    if (base == 16) exponent *= 4;

    char mark = base == 16 ? 'p' : 'e';
    if (*c == mark || *c == mark - 'a' + 'A') {
        const char *e = c + 1;
        bool negative = *e == '-';
        if (*e == '-' || *e == '+') e++;
        if (kn_is_digit(*e)) {
            const int64_t large = 1000000000000000; /* no text in memory has enough digits to compensate */
            int64_t written = 0;
            for (; kn_is_digit(*e); e++)
                if (written < large) written = written * 10 + (*e - '0');
            exponent += negative ? -written : written;
            c = e;
        }
    }
    if (exponent > 99999) exponent = 99999;
    if (exponent < -99999) exponent = -99999;
    snprintf(buffer + count, sizeof buffer - count, "%c%d", mark, (int)exponent);

    int before = errno;
    double read = strtod(buffer, NULL);
    errno = before;
    if (isinf(read)) return false;
    *value = read;
    *end = c;
    return true;
}

bool kn_parse_double(const char *text, const char **end, double *value) {
    const char *c = text;
    bool negative = *c == '-';
    if (*c == '-' || *c == '+') c++;
    double read = 0;
    const char *after = c;
    size_t word;
    if ((word = begins_with(c, "infinity")) || (word = begins_with(c, "inf"))) {
        read = HUGE_VAL;
        after = c + word;
    } else if ((word = begins_with(c, "nan"))) {
        read = (double)NAN;
        after = c + word;
    } else if (c[0] == '0' && (c[1] == 'x' || c[1] == 'X') &&
               (digit_value(c[2], 16) >= 0 || (c[2] == '.' && digit_value(c[3], 16) >= 0))) {
        if (!read_digits(c + 2, 16, &after, &read)) return false;
    } else if (!read_digits(c, 10, &after, &read)) {
        return false;
    }
    *value = negative ? -read : read;
    if (end) *end = after;
    return true;
}

bool kn_parse_int64(const char *text, const char **end, int64_t *value) {
    const char *c = text;
    bool negative = *c == '-';
    if (*c == '-' || *c == '+') c++;
    if (!kn_is_digit(*c)) return false;
    int64_t read = 0; /* accumulated as a negative number: that side has one more value */
    for (; kn_is_digit(*c); c++) {
        int digit = *c - '0';
        if (read < (INT64_MIN + digit) / 10) return false;
        read = read * 10 - digit;
    }
    if (!negative && read == INT64_MIN) return false;
    *value = negative ? read : -read;
    if (end) *end = c;
    return true;
}

/* ---- words -------------------------------------------------------------------- */

enum { MAX_WORD = 64 };

/* Beyond 64 characters it returns the longer length, an upper bound. */
int kn_edit_distance(const char *left, const char *right) {
    size_t rows = strlen(left), columns = strlen(right);
    if (rows > MAX_WORD || columns > MAX_WORD) {
        size_t longer = rows > columns ? rows : columns;
        return longer > INT32_MAX ? INT32_MAX : (int)longer;
    }
    int distance[MAX_WORD + 1]; /* one row of the table: left[0..row) to right[0..column) */
    for (size_t column = 0; column <= columns; column++)
        distance[column] = (int)column;
    for (size_t row = 1; row <= rows; row++) {
        int diagonal = distance[0];
        distance[0] = (int)row;
        for (size_t column = 1; column <= columns; column++) {
            int replaced = diagonal + (left[row - 1] != right[column - 1]);
            int removed = distance[column] + 1, added = distance[column - 1] + 1;
            diagonal = distance[column];
            distance[column] = removed < added ? removed : added;
            if (replaced < distance[column]) distance[column] = replaced;
        }
    }
    return distance[columns];
}

const char *kn_nearest_word(const char *word, const char *const *words, size_t count) {
    size_t length = strlen(word);
    if (length > MAX_WORD) return NULL;
    const char *nearest = NULL;
    int least = (int)(length / 3) + 1;
    for (size_t i = 0; i < count; i++) {
        if (!words[i]) continue;
        int distance = kn_edit_distance(word, words[i]);
        if (distance < least) {
            least = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

/* After a mismatch the last * matches one more character. */
bool kn_pattern_fits(const char *pattern, const char *name) {
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == *name || *pattern == '?') {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
