/* Text to text: tokens split, folded and set apart by single spaces, for the scanner of tokens.h. */
#ifndef LAGWISE_WORDS_H
#define LAGWISE_WORDS_H

#include <stdint.h>

#include "simd.h"

enum { LW_OTHER = 0, LW_SPACE = 1, LW_LETTER = 2, LW_UNDERSCORE = 3 };
enum { LW_KEEP_DIGITS = 0, LW_ZERO_DIGITS = 1, LW_NUM_DIGITS = 2 };

typedef struct {
    int drop_punctuation, lowercase, digits;
} lw_folding;

/* Fold an ASCII token in place (a copy of it at `to`); returns its new length. A digit can grow to three bytes. */
LAGWISE_INLINE int64_t lw_fold_ascii(const uint8_t *from, int64_t n, uint8_t *to, const lw_folding *folding) {
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t c = from[i];
        if (folding->lowercase && (uint8_t)(c - 'A') < 26) c |= 32;
        if (folding->digits && (uint8_t)(c - '0') < 10) {
            if (folding->digits == LW_ZERO_DIGITS) {
                c = '0';
            } else {
                to[m++] = 'N';
                to[m++] = 'U';
                c = 'M';
                while (i + 1 < n && (uint8_t)(from[i + 1] - '0') < 10) i++;
            }
        }
        to[m++] = c;
    }
    return m;
}

/* Write a token, folded where it is ASCII, and a space; returns the place behind them. */
LAGWISE_INLINE uint8_t *lw_put_token(uint8_t *out, const uint8_t *word, int64_t n, int ascii,
                                     const lw_folding *folding) {
    if (ascii && (folding->lowercase || folding->digits)) {
        out += lw_fold_ascii(word, n, out, folding);
    } else if (n <= 16) { /* both sides are padded */
        __builtin_memcpy(out, word, 16);
        out += n;
    } else {
        __builtin_memcpy(out, word, (size_t)n);
        out += n;
    }
    *out++ = ' ';
    return out;
}

/* The class of the character at p and its length in bytes; a byte that is not UTF-8 is a character of its own. */
LAGWISE_INLINE int lw_class(const uint8_t *p, const uint8_t *classes, int *length) {
    uint32_t c = p[0];
    if (c < 0x80) {
        *length = 1;
        return classes[c];
    }
    int n = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    uint32_t value = n == 4 ? c & 7 : n == 3 ? c & 15 : c & 31;
    for (int k = 1; k < n; k++) {
        if ((p[k] & 0xC0) != 0x80) n = 0;
        value = value << 6 | (p[k] & 63);
    }
    if (n == 0 || (n == 3 && (value < 0x800 || (value >= 0xD800 && value < 0xE000))) ||
        (n == 4 && (value < 0x10000 || value > 0x10FFFF))) {
        *length = 1;
        return LW_OTHER;
    }
    *length = n;
    return classes[value];
}

/* Bytes of the joiner at p (one of ' . , - or U+2019), 0 if it is none. */
LAGWISE_INLINE int lw_joiner(const uint8_t *p) {
    if (*p == '\'' || *p == '.' || *p == ',' || *p == '-') return 1;
    return p[0] == 0xE2 && p[1] == 0x80 && p[2] == 0x99 ? 3 : 0;
}

/* Unicode-aware splitting. IN text[0:n], padded; classes of all code points. OUT out. Returns the bytes written. */
static int64_t lw_split_words(const uint8_t *text, int64_t n, const uint8_t *classes, const lw_folding *folding,
                              uint8_t *out) {
    const uint8_t *p = text, *end = text + n;
    uint8_t *start = out;
    while (p < end) {
        int length, kind = lw_class(p, classes, &length);
        if (kind == LW_SPACE) {
            if (*p == '\n') *out++ = '\n';
            p += length;
        } else if (kind == LW_OTHER) {
            if (!folding->drop_punctuation) out = lw_put_token(out, p, length, length == 1, folding);
            p += length;
        } else {
            const uint8_t *word = p;
            uint8_t high = 0;
            for (;;) {
                int last = kind;
                high |= *p;
                p += length;
                if (p >= end) break;
                kind = lw_class(p, classes, &length);
                if (kind >= LW_LETTER) continue;
                int join = last == LW_LETTER ? lw_joiner(p) : 0;
                if (!join || p + join >= end) break;
                int next_length, next = lw_class(p + join, classes, &next_length);
                if (next != LW_LETTER) break;
                high |= *p;
                p += join;
                kind = next;
                length = next_length;
            }
            out = lw_put_token(out, word, p - word, high < 0x80, folding);
        }
    }
    return out - start;
}

/* White-space splitting with folding of ASCII tokens; arguments as above. */
static int64_t lw_fold_words(const uint8_t *text, int64_t n, const lw_folding *folding, uint8_t *out) {
    const uint8_t *p = text, *end = text + n;
    uint8_t *start = out;
    while (p < end) {
        if (*p == 32 || (uint8_t)(*p - 9) < 5) {
            if (*p == '\n') *out++ = '\n';
            p++;
            continue;
        }
        const uint8_t *word = p;
        uint8_t high = 0;
        while (p < end && !(*p == 32 || (uint8_t)(*p - 9) < 5)) high |= *p++;
        out = lw_put_token(out, word, p - word, high < 0x80, folding);
    }
    return out - start;
}

#endif
