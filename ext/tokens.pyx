"""Bytes to provisional ids: a word table and the scanner that fills it."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

cdef extern from "tokens.h" nogil:
    int PADDING "LAGWISE_PADDING"
    ctypedef struct lw_slot:
        uint64_t k0
        uint64_t k1
        uint32_t length
        int32_t id
        int64_t count
    ctypedef struct lw_table:
        lw_slot* slots
        int bits
        int64_t size
        uint8_t* arena
        int64_t arena_size
        int64_t arena_capacity
        int64_t* starts
        int64_t starts_capacity
    ctypedef struct lw_token:
        uint64_t hash
    int lw_table_init(lw_table* table, int bits)
    void lw_table_free(lw_table* table)
    int lw_table_reserve(lw_table* table, int64_t more)
    int32_t lw_table_enter(lw_table* table, const lw_token* token, int64_t count)
    int32_t lw_table_find(const lw_table* table, const lw_token* token)
    void lw_key(const uint8_t* word, int64_t length, lw_token* token)
    int64_t lw_scan(lw_table* table, const uint8_t* text, int64_t n, int64_t max_length, int32_t* ids,
                    int64_t capacity, int64_t* n_ids)
    int lw_rank(const lw_table* table, const int64_t* counts, int64_t* ids, int64_t n)
    int64_t lw_last_space(const uint8_t* text, int64_t n)
    int64_t lw_invalid_utf8(const uint8_t* text, int64_t n)

TEXT_PADDING = PADDING
LINE_END = -1
REJECTED = -2


cdef class WordTable:
    """Words by id in order of entry, with their counts. Not safe for use by two threads at once."""

    cdef lw_table table

    def __cinit__(self, int bits=12):
        if lw_table_init(&self.table, bits):
            raise MemoryError("no memory for a word table")

    def __dealloc__(self):
        lw_table_free(&self.table)

    def __len__(self):
        return self.table.size

    @property
    def nbytes(self):
        """Bytes the table holds: slots, words and their places."""
        return (<int64_t>sizeof(lw_slot) << self.table.bits) + self.table.arena_capacity + 8 * self.table.starts_capacity

    def scan(self, const uint8_t[::1] text, int64_t start, int64_t size, int64_t max_length, int32_t[::1] ids):
        """IN text[start:size], padded behind `size` (TEXT_PADDING bytes, the first a space). OUT ids.

        Returns (place reached, number of ids): a place below `size` asks for another call with room for more ids.
        """
        cdef int64_t n_ids = 0, reached
        if text.shape[0] < size + PADDING or start < 0 or start > size:
            raise ValueError("the text is not padded")
        if ids.shape[0] < 2:
            raise ValueError("no room for ids")
        if self.table.size + (size - start) // 2 + 1 >= 2**31 - 64:
            raise OverflowError("more than 2**31 distinct words")
        with nogil:
            reached = lw_scan(&self.table, &text[start], size - start, max_length, &ids[0], ids.shape[0], &n_ids)
        if reached < 0:
            raise MemoryError("no memory for the word table")
        return start + reached, n_ids

    def add(self, bytes word, int64_t count=1):
        """Enter one word (of any bytes but none) with a count; returns its id."""
        cdef lw_token token
        cdef int64_t length = PyBytes_GET_SIZE(word)
        cdef int32_t id
        cdef bytes padded
        if length == 0 or length >= 2**31:
            raise ValueError(f"a word of {length} bytes cannot be entered")
        padded = word + b"\0" * 16 if length < 16 else word
        lw_key(<const uint8_t*>PyBytes_AS_STRING(padded), length, &token)
        if lw_table_reserve(&self.table, 1):
            raise MemoryError("no memory for the word table")
        id = lw_table_enter(&self.table, &token, count)
        if id < 0:
            raise MemoryError("no memory for the word table")
        return id

    def find(self, bytes word):
        """The id of a word, -1 where it was never entered."""
        cdef lw_token token
        cdef int64_t length = PyBytes_GET_SIZE(word)
        cdef bytes padded = word + b"\0" * 16 if length < 16 else word
        if length == 0 or length >= 2**31:
            return -1
        lw_key(<const uint8_t*>PyBytes_AS_STRING(padded), length, &token)
        return lw_table_find(&self.table, &token)

    def absorb(self, WordTable other, int32_t[::1] ids):
        """Add all words and counts of another table. OUT ids[i] (len(other),): the id here of its word i."""
        cdef int64_t i, slots = (<int64_t>1) << other.table.bits
        cdef lw_slot* slot
        cdef lw_token token
        cdef int32_t id
        cdef bint short_of_memory = False
        cdef uint8_t small[32]
        cdef uint8_t* word
        if ids.shape[0] < other.table.size:
            raise ValueError("no room for ids")
        with nogil:
            for i in range(slots):
                slot = other.table.slots + i
                if slot.length == 0:
                    continue
                word = other.table.arena + other.table.starts[slot.id]
                if slot.length < 16:
                    memcpy(small, word, slot.length)
                    word = small
                lw_key(word, slot.length, &token)
                if lw_table_reserve(&self.table, 1):
                    short_of_memory = True
                    break
                id = lw_table_enter(&self.table, &token, slot.count)
                if id < 0:
                    short_of_memory = True
                    break
                ids[slot.id] = id
        if short_of_memory:
            raise MemoryError("no memory for the word table")

    def counts(self, int64_t[::1] out):
        """OUT out[i] (len(self),): the count of word i."""
        cdef int64_t i
        if out.shape[0] < self.table.size:
            raise ValueError("no room for counts")
        with nogil:
            for i in range((<int64_t>1) << self.table.bits):
                if self.table.slots[i].length:
                    out[self.table.slots[i].id] = self.table.slots[i].count

    def non_ascii(self, uint8_t[::1] out):
        """OUT out[i] (len(self),): 1 where word i holds a byte above 127, else 0."""
        cdef int64_t i, k
        cdef uint8_t high
        if out.shape[0] < self.table.size:
            raise ValueError("no room for flags")
        with nogil:
            for i in range(self.table.size):
                high = 0
                for k in range(self.table.starts[i], self.table.starts[i + 1]):
                    high |= self.table.arena[k]
                out[i] = high >> 7

    def rank(self, int64_t[::1] ids, const int64_t[::1] counts):
        """IN/OUT ids (n,), distinct: sorted by falling counts[id] (len(self),), ties by the bytes of the words."""
        cdef int64_t i, n = ids.shape[0]
        cdef int failed
        if counts.shape[0] < self.table.size:
            raise ValueError("a count for each word is needed")
        for i in range(n):
            if not 0 <= ids[i] < self.table.size:
                raise IndexError(f"word {ids[i]} of {self.table.size}")
        if n < 2:
            return
        with nogil:
            failed = lw_rank(&self.table, &counts[0], &ids[0], n)
        if failed:
            raise MemoryError("no memory to sort the words")

    def texts(self, const int64_t[::1] ids):
        """Words as a list of str; bytes that are not UTF-8 become lone surrogates."""
        cdef int64_t i, id
        cdef list result = []
        for i in range(ids.shape[0]):
            id = ids[i]
            if not 0 <= id < self.table.size:
                raise IndexError(f"word {id} of {self.table.size}")
            result.append(PyUnicode_DecodeUTF8(<char*>self.table.arena + self.table.starts[id],
                                               self.table.starts[id + 1] - self.table.starts[id], "surrogateescape"))
        return result

    def spell(self, const int32_t[::1] ids, const int32_t[::1] labels, const int64_t[::1] offsets,
              const uint8_t[::1] names, const int64_t[::1] places, const uint8_t[::1] marks, uint8_t[::1] out):
        """Write words with labels behind them, sequence by sequence.

        IN ids (n,) of words; labels (n,) in 0 .. L - 1; offsets (sequences + 1,); names, the names of the labels one
        behind the other, where name i is names[places[i] : places[i + 1]]; marks (4,): what stands between a word and
        its label, behind a label, behind the last label of a sequence, and behind that (0 for nothing). OUT out.
        Empty sequences leave nothing. Returns the length written, or where `out` may be too short, minus a length that
        is enough.
        """
        cdef int64_t i, j, begin, end, written = 0, wanted = 0, L = places.shape[0] - 1, n = ids.shape[0], length
        if labels.shape[0] < n or offsets.shape[0] < 1 or marks.shape[0] != 4:
            raise ValueError("arrays of different lengths")
        for i in range(offsets.shape[0] - 1):
            if not 0 <= offsets[i] <= offsets[i + 1] <= n:
                raise IndexError("the offsets do not fit the words")
            wanted += 1
        for i in range(L):
            if not 0 <= places[i] <= places[i + 1] <= names.shape[0]:
                raise IndexError("the places do not fit the names")
        for j in range(n):
            if not 0 <= ids[j] < self.table.size or not 0 <= labels[j] < L:
                raise IndexError(f"word {ids[j]} of {self.table.size}, label {labels[j]} of {L}")
            wanted += self.table.starts[ids[j] + 1] - self.table.starts[ids[j]] + 2
            wanted += places[labels[j] + 1] - places[labels[j]]
        if wanted > out.shape[0]:
            return -wanted
        with nogil:
            for i in range(offsets.shape[0] - 1):
                begin = offsets[i]
                end = offsets[i + 1]
                for j in range(begin, end):
                    length = self.table.starts[ids[j] + 1] - self.table.starts[ids[j]]
                    memcpy(&out[written], self.table.arena + self.table.starts[ids[j]], length)
                    written += length
                    out[written] = marks[0]
                    length = places[labels[j] + 1] - places[labels[j]]
                    if length:  # an empty name may stand behind the last byte
                        memcpy(&out[written + 1], &names[places[labels[j]]], length)
                    written += 1 + length
                    out[written] = marks[1] if j + 1 < end else marks[2]
                    written += 1
                if end > begin and marks[3]:
                    out[written] = marks[3]
                    written += 1
        return written

    def word(self, int64_t id):
        """The bytes of word `id`."""
        if id < 0 or id >= self.table.size:
            raise IndexError(f"word {id} of {self.table.size}")
        return PyBytes_FromStringAndSize(<char*>self.table.arena + self.table.starts[id],
                                         self.table.starts[id + 1] - self.table.starts[id])


def last_space(const uint8_t[::1] text, int64_t size):
    """The place behind the last ASCII white space of text[:size], 0 where there is none."""
    if size > text.shape[0]:
        raise ValueError("size beyond the text")
    return lw_last_space(&text[0], size) if size else 0


def invalid_utf8(const uint8_t[::1] text, int64_t start, int64_t size):
    """The place of the first byte of text[start:size] that is not part of valid UTF-8, or -1."""
    cdef int64_t place
    if size > text.shape[0] or start < 0 or start > size:
        raise ValueError("size beyond the text")
    if start == size:
        return -1
    with nogil:
        place = lw_invalid_utf8(&text[start], size - start)
    return -1 if place < 0 else start + place
