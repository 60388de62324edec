/* Words of a text and their ids: an open-addressing hash table and the scanner that fills it.
 *
 * A slot keeps the first 16 bytes of its word, so that most look-ups touch one cache line and never the word itself.
 * Texts are given with LAGWISE_PADDING readable bytes behind their end, the first of which is a space.
 */
#ifndef LAGWISE_TOKENS_H
#define LAGWISE_TOKENS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "simd.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define LAGWISE_PADDING 64
#define LAGWISE_BATCH 32
#define LAGWISE_LINE_END (-1)
#define LAGWISE_REJECTED (-2)

typedef struct {
    uint64_t k0, k1; /* first 16 bytes; of a longer word: first 8 bytes, hash of all */
    uint32_t length;
    int32_t id;
    int64_t count;
} lw_slot;

typedef struct {
    lw_slot *slots;
    int bits; /* 2^bits slots */
    int64_t size;
    uint8_t *arena; /* the bytes of all words, one behind the other */
    int64_t arena_size, arena_capacity;
    int64_t *starts; /* word i is arena[starts[i] : starts[i + 1]] */
    int64_t starts_capacity;
} lw_table;

typedef struct {
    uint64_t k0, k1, hash;
    const uint8_t *word;
    int64_t out;
    uint32_t length;
} lw_token;

LAGWISE_INLINE int lw_is_space(uint8_t c) { return c == 32 || (uint8_t)(c - 9) < 5; }

/* Number of bytes from p up to the next white space; the padding ends every word. */
LAGWISE_INLINE int64_t lw_word_length(const uint8_t *p) {
    const uint8_t *q = p;
#if defined(__SSE2__)
    const __m128i space = _mm_set1_epi8(32), nine = _mm_set1_epi8(9), four = _mm_set1_epi8(4);
    for (;; q += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)q);
        __m128i control = _mm_sub_epi8(x, nine);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(x, space), _mm_cmpeq_epi8(_mm_min_epu8(control, four), control));
        int mask = _mm_movemask_epi8(hit);
        if (mask) return (q - p) + __builtin_ctz((unsigned)mask);
    }
#else
    while (!lw_is_space(*q)) q++;
    return q - p;
#endif
}

LAGWISE_INLINE uint64_t lw_load8(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

LAGWISE_INLINE uint64_t lw_low_bytes(int64_t n) { return n >= 8 ? ~(uint64_t)0 : (((uint64_t)1 << (8 * n)) - 1); }

LAGWISE_INLINE uint64_t lw_mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
    h = (h ^ b) * 0xA0761D6478BD642Fu;
    h ^= h >> 29;
    return h * 0xE7037ED1A0B428DBu;
}

/* IN word (16 readable bytes), length. OUT the key and hash of the token. */
LAGWISE_INLINE void lw_key(const uint8_t *word, int64_t length, lw_token *token) {
    token->word = word;
    token->length = (uint32_t)length;
    if (length <= 16) {
        token->k0 = lw_load8(word) & lw_low_bytes(length);
        token->k1 = length > 8 ? lw_load8(word + 8) & lw_low_bytes(length - 8) : 0;
    } else {
        uint64_t h = (uint64_t)length;
        int64_t i = 0;
        for (; i + 8 <= length; i += 8) h = lw_mix(h, lw_load8(word + i));
        if (i < length) h = lw_mix(h, lw_load8(word + length - 8));
        token->k0 = lw_load8(word);
        token->k1 = h;
    }
    token->hash = lw_mix(token->k0 + (uint64_t)length, token->k1);
}

static void lw_table_free(lw_table *table) {
    free(table->slots);
    free(table->arena);
    free(table->starts);
    memset(table, 0, sizeof *table);
}

/* 2^bits empty slots, NULL when memory is short; large tables ask for large pages, for look-ups go everywhere. */
static lw_slot *lw_new_slots(int bits) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const size_t large = (size_t)1 << 21, size = sizeof(lw_slot) << bits;
    if (size >= large) {
        void *slots = NULL;
        if (posix_memalign(&slots, large, size)) return NULL;
        madvise(slots, size, MADV_HUGEPAGE);
        return (lw_slot *)memset(slots, 0, size);
    }
#endif
    return (lw_slot *)calloc((size_t)1 << bits, sizeof(lw_slot));
}

/* 0, or -1 when memory is short. */
static int lw_table_init(lw_table *table, int bits) {
    memset(table, 0, sizeof *table);
    table->bits = bits;
    table->slots = lw_new_slots(bits);
    table->arena_capacity = 1 << 16;
    table->arena = (uint8_t *)malloc((size_t)table->arena_capacity);
    table->starts_capacity = 1 << 12;
    table->starts = (int64_t *)malloc(sizeof(int64_t) * (size_t)table->starts_capacity);
    if (!table->slots || !table->arena || !table->starts) {
        lw_table_free(table);
        return -1;
    }
    table->starts[0] = 0;
    return 0;
}

/* Keep the load below one half for `more` new words; 0, or -1 when memory is short. */
static int lw_table_reserve(lw_table *table, int64_t more) {
    if (2 * (table->size + more) < (int64_t)1 << table->bits) return 0;
    int bits = table->bits;
    while (2 * (table->size + more) >= (int64_t)1 << bits) bits++;
    lw_slot *slots = lw_new_slots(bits);
    if (!slots) return -1;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (int64_t i = 0; i < (int64_t)1 << table->bits; i++) {
        const lw_slot *slot = table->slots + i;
        if (!slot->length) continue;
        uint64_t place = lw_mix(slot->k0 + slot->length, slot->k1) >> (64 - bits);
        while (slots[place].length) place = (place + 1) & mask;
        slots[place] = *slot;
    }
    free(table->slots);
    table->slots = slots;
    table->bits = bits;
    return 0;
}

/* Append a new word's bytes; 0, or -1 when memory is short. */
static int lw_table_append(lw_table *table, const uint8_t *word, uint32_t length) {
    if (table->arena_size + length > table->arena_capacity) {
        int64_t capacity = 2 * table->arena_capacity;
        if (capacity < table->arena_size + length) capacity = table->arena_size + length;
        uint8_t *arena = (uint8_t *)realloc(table->arena, (size_t)capacity);
        if (!arena) return -1;
        table->arena = arena;
        table->arena_capacity = capacity;
    }
    if (table->size + 2 > table->starts_capacity) {
        int64_t *starts = (int64_t *)realloc(table->starts, sizeof(int64_t) * 2 * (size_t)table->starts_capacity);
        if (!starts) return -1;
        table->starts = starts;
        table->starts_capacity *= 2;
    }
    memcpy(table->arena + table->arena_size, word, length);
    table->arena_size += length;
    table->size++;
    table->starts[table->size] = table->arena_size;
    return 0;
}

/* The id of a token, entered if it is new, with `count` added to its count; -1 when memory is short.
 * Room must have been reserved. */
LAGWISE_INLINE int32_t lw_table_enter(lw_table *table, const lw_token *token, int64_t count) {
    const uint64_t mask = ((uint64_t)1 << table->bits) - 1;
    uint64_t place = token->hash >> (64 - table->bits);
    for (;; place = (place + 1) & mask) {
        lw_slot *slot = table->slots + place;
        if (slot->k0 == token->k0 && slot->k1 == token->k1 && slot->length == token->length &&
            (token->length <= 16 ||
             memcmp(table->arena + table->starts[slot->id], token->word, token->length) == 0)) {
            slot->count += count;
            return slot->id;
        }
        if (!slot->length) {
            slot->k0 = token->k0;
            slot->k1 = token->k1;
            slot->length = token->length;
            slot->id = (int32_t)table->size;
            slot->count = count;
            if (lw_table_append(table, token->word, token->length)) {
                memset(slot, 0, sizeof *slot);
                return -1;
            }
            return slot->id;
        }
    }
}

/* The id of a token, -1 where it was never entered. */
static int32_t lw_table_find(const lw_table *table, const lw_token *token) {
    const uint64_t mask = ((uint64_t)1 << table->bits) - 1;
    for (uint64_t place = token->hash >> (64 - table->bits);; place = (place + 1) & mask) {
        const lw_slot *slot = table->slots + place;
        if (!slot->length) return -1;
        if (slot->k0 == token->k0 && slot->k1 == token->k1 && slot->length == token->length &&
            (token->length <= 16 || memcmp(table->arena + table->starts[slot->id], token->word, token->length) == 0))
            return slot->id;
    }
}

typedef struct {
    int64_t count;
    uint64_t prefix; /* first 8 bytes, the first of them highest */
    int64_t id;
} lw_ranked;

static uint64_t lw_prefix(const lw_table *table, int64_t id) {
    const uint8_t *word = table->arena + table->starts[id];
    const int64_t length = table->starts[id + 1] - table->starts[id];
    uint64_t prefix = 0;
    for (int64_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < length ? word[i] : 0);
    return prefix;
}

/* Whether a word ranks before another: by falling count, then by bytes. */
LAGWISE_INLINE int lw_before(const lw_table *table, const lw_ranked *a, const lw_ranked *b) {
    if (a->count != b->count) return a->count > b->count;
    if (a->prefix != b->prefix) return a->prefix < b->prefix;
    const int64_t n = table->starts[a->id + 1] - table->starts[a->id];
    const int64_t m = table->starts[b->id + 1] - table->starts[b->id];
    const int order = memcmp(table->arena + table->starts[a->id], table->arena + table->starts[b->id],
                             (size_t)(n < m ? n : m));
    return order ? order < 0 : n <= m;
}

/* Sort ids of distinct words by falling counts[id], ties by bytes; 0, or -1 when memory is short. */
static int lw_rank(const lw_table *table, const int64_t *counts, int64_t *ids, int64_t n) {
    lw_ranked *from = (lw_ranked *)malloc(sizeof(lw_ranked) * 2 * (size_t)(n ? n : 1)), *to = from + n;
    if (!from) return -1;
    lw_ranked *const both = from;
    for (int64_t i = 0; i < n; i++) from[i] = (lw_ranked){counts[ids[i]], lw_prefix(table, ids[i]), ids[i]};
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = begin + width < n ? begin + width : n;
            const int64_t end = middle + width < n ? middle + width : n;
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++)
                to[i] = b == end || (a < middle && lw_before(table, from + a, from + b)) ? from[a++] : from[b++];
        }
        lw_ranked *swap = from;
        from = to;
        to = swap;
    }
    for (int64_t i = 0; i < n; i++) ids[i] = from[i].id;
    free(both);
    return 0;
}

/* Enter a batch of tokens whose slots were prefetched; 0, or -1 when memory is short. */
LAGWISE_INLINE int lw_enter_batch(lw_table *table, const lw_token *batch, int n, int32_t *ids) {
    for (int i = 0; i < n; i++) {
        int32_t id = lw_table_enter(table, batch + i, 1);
        if (id < 0) return -1;
        ids[batch[i].out] = id;
    }
    return 0;
}

/* Scan a padded text into ids: each word's id, LINE_END for each newline, REJECTED for a word above max_length bytes.
 * OUT ids (at most n + 1 of them), *n_ids. Returns the bytes consumed: less than n when `capacity` ids were not enough
 * (call again from there), or -1 when memory is short. */
static int64_t lw_scan(lw_table *table, const uint8_t *text, int64_t n, int64_t max_length, int32_t *ids,
                       int64_t capacity, int64_t *n_ids) {
    lw_token batch[LAGWISE_BATCH];
    const uint8_t *p = text, *end = text + n;
    int64_t out = 0;
    int filled = 0;
    if (lw_table_reserve(table, LAGWISE_BATCH)) return -1;
    while (p < end && out + 2 <= capacity) {
        int64_t length = lw_word_length(p);
        if (length) {
            if (length > max_length) {
                ids[out++] = LAGWISE_REJECTED;
            } else {
                lw_token *token = batch + filled;
                lw_key(p, length, token);
                token->out = out++;
                LAGWISE_PREFETCH(table->slots + (token->hash >> (64 - table->bits)));
                if (++filled == LAGWISE_BATCH) {
                    if (lw_enter_batch(table, batch, filled, ids)) return -1;
                    filled = 0;
                    if (lw_table_reserve(table, LAGWISE_BATCH)) return -1;
                }
            }
            p += length;
        }
        if (p < end && *p == '\n') ids[out++] = LAGWISE_LINE_END;
        p++;
    }
    if (lw_enter_batch(table, batch, filled, ids)) return -1;
    *n_ids = out;
    return p < end ? p - text : n;
}

/* Place behind the last white space of text[0:n], or 0 where there is none. */
static int64_t lw_last_space(const uint8_t *text, int64_t n) {
    while (n > 0 && !lw_is_space(text[n - 1])) n--;
    return n;
}

/* Place of the first byte that is not part of valid UTF-8 (RFC 3629: no surrogates, no overlong forms), or -1. */
static int64_t lw_invalid_utf8(const uint8_t *s, int64_t n) {
    int64_t i = 0;
    while (i < n) {
        if (i + 8 <= n && !(lw_load8(s + i) & 0x8080808080808080u)) {
            i += 8;
            continue;
        }
        uint8_t c = s[i];
        if (c < 0x80) {
            i++;
            continue;
        }
        int more;
        uint8_t low = 0x80, high = 0xBF;
        if (c >= 0xC2 && c <= 0xDF) more = 1;
        else if (c >= 0xE0 && c <= 0xEF) {
            more = 2;
            if (c == 0xE0) low = 0xA0;
            if (c == 0xED) high = 0x9F;
        } else if (c >= 0xF0 && c <= 0xF4) {
            more = 3;
            if (c == 0xF0) low = 0x90;
            if (c == 0xF4) high = 0x8F;
        } else return i;
        for (int k = 1; k <= more; k++) {
            if (i + k >= n || s[i + k] < low || s[i + k] > high) return i;
            low = 0x80;
            high = 0xBF;
        }
        i += more + 1;
    }
    return -1;
}

#endif
