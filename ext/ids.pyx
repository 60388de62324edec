"""Streams of word ids: renumbering scanned text, and the inverted index from words to their positions.

A stream holds word ids 0 .. n_words - 1, GAP = n_words for a token outside the vocabulary that still takes its place,
and END = -1 behind each sequence.
"""

from cython.parallel cimport prange
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

# Raw streams (of tokens.pyx) use negative ids for what is no word.
LINE_END, REJECTED, FILE_END = -1, -2, -3
# Values of a map beside word ids.
DROP = -4
END = -1
# Boundaries.
BY_LINE, BY_FILE, BY_BLANK = range(3)
STATE_SIZE = 8


def ids_remap(const int32_t[::1] raw, const int32_t[::1] ids, int32_t rejected, int boundary,
              const uint64_t[::1] thresholds, uint64_t seed, int32_t[::1] out, int64_t[::1] state):
    """Renumber a piece of a raw stream and close its sequences.

    IN raw (n,); ids (types,), what each type becomes: an id, the gap or DROP; rejected, the same for refused tokens;
    thresholds (types,) or empty: a token of type t at token position p stays while hash(seed, p) <= thresholds[t];
    OUT out (n,) (may be raw itself); IN/OUT state (8,), zero at the start of a text: 0 tokens in the open sequence,
    1 longest sequence, 2 tokens since the last line end, 3 tokens in all, 4 lines, 5 something since the last line
    end, 6 tokens refused, 7 tokens kept. Returns the length written.
    """
    cdef int64_t i, n = raw.shape[0], written = 0, types = ids.shape[0]
    cdef int32_t x, y
    cdef bint sampled = thresholds.shape[0] > 0
    cdef int64_t open_tokens = state[0], longest = state[1], since = state[2], tokens = state[3], refused = state[6]
    cdef int64_t lines = state[4], kept = state[7]
    if out.shape[0] < n or state.shape[0] < 8:
        raise ValueError("no room")
    if sampled and thresholds.shape[0] != types:
        raise ValueError("thresholds do not fit the types")
    with nogil:
        for i in range(n):
            x = raw[i]
            if x >= 0 or x == -2:
                tokens += 1
                since += 1
                if x >= 0:
                    if x >= types:
                        continue
                    y = ids[x]
                    if sampled and y >= 0 and mix(seed, tokens) > thresholds[x]:
                        y = -4
                else:
                    y = rejected
                    refused += 1
                if y == -4:
                    continue
                out[written] = y
                written += 1
                open_tokens += 1
            else:
                if x == -1:
                    lines += 1
                    if boundary == 1 or (boundary == 2 and since > 0):
                        since = 0
                        continue
                since = 0
                if open_tokens > 0:
                    out[written] = -1
                    written += 1
                    kept += open_tokens
                    if open_tokens > longest:
                        longest = open_tokens
                    open_tokens = 0
    state[0], state[1], state[2], state[3], state[4], state[6], state[7] = (
        open_tokens, longest, since, tokens, lines, refused, kept)
    return written


cdef inline uint64_t mix(uint64_t seed, uint64_t position) noexcept nogil:
    cdef uint64_t z = seed + position * <uint64_t>0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


def ids_index(const int32_t[::1] ids, int64_t n_words, int64_t[::1] starts, uint32_t[::1] positions,
              int64_t[:, ::1] scratch, int n_threads):
    """Counting sort of positions by word.

    IN ids (n,), n < 2**32. OUT starts (n_words + 1,), positions (at least the words' number,): word w stands at
    positions[starts[w] : starts[w + 1]], ascending. scratch (pieces, n_words): one piece of the stream a row; the
    result does not depend on their number.
    """
    cdef int64_t n = ids.shape[0], pieces = scratch.shape[0], piece, i, w, total = 0, count
    if n >= 2**32:
        raise ValueError(f"{n} ids are too many for one index")
    if starts.shape[0] < n_words + 1 or scratch.shape[1] < n_words:
        raise ValueError("no room")
    with nogil:
        for piece in prange(pieces, num_threads=n_threads, schedule="static", chunksize=1):
            count_piece(&ids[0] if n else NULL, n * piece // pieces, n * (piece + 1) // pieces, n_words,
                        &scratch[piece, 0] if n_words else NULL)
        for w in range(n_words):
            starts[w] = total
            for piece in range(pieces):
                count = scratch[piece, w]
                scratch[piece, w] = total
                total += count
        starts[n_words] = total
    if positions.shape[0] < total:
        raise ValueError(f"no room for {total} positions")
    with nogil:
        for piece in prange(pieces, num_threads=n_threads, schedule="static", chunksize=1):
            place_piece(&ids[0] if n else NULL, n * piece // pieces, n * (piece + 1) // pieces, n_words,
                        &scratch[piece, 0] if n_words else NULL, &positions[0] if total else NULL)


cdef void count_piece(const int32_t* ids, int64_t begin, int64_t end, int64_t n_words, int64_t* counts) noexcept nogil:
    cdef int64_t i
    for i in range(n_words):
        counts[i] = 0
    for i in range(begin, end):
        if ids[i] >= 0 and ids[i] < n_words:
            counts[ids[i]] += 1


cdef void place_piece(const int32_t* ids, int64_t begin, int64_t end, int64_t n_words, int64_t* places,
                      uint32_t* positions) noexcept nogil:
    cdef int64_t i
    for i in range(begin, end):
        if ids[i] >= 0 and ids[i] < n_words:
            positions[places[ids[i]]] = <uint32_t>i
            places[ids[i]] += 1
