"""Text to text: tokens split by the Unicode-aware rules or at white space, ASCII ones folded, one space between."""

from libc.stdint cimport int64_t, uint8_t

cdef extern from "words.h" nogil:
    ctypedef struct lw_folding:
        int drop_punctuation
        int lowercase
        int digits
    int64_t lw_split_words(const uint8_t* text, int64_t n, const uint8_t* classes, const lw_folding* folding,
                           uint8_t* out)
    int64_t lw_fold_words(const uint8_t* text, int64_t n, const lw_folding* folding, uint8_t* out)

cdef extern from "tokens.h" nogil:
    int PADDING "LAGWISE_PADDING"

KEEP_DIGITS, ZERO_DIGITS, NUM_DIGITS = range(3)


def room(int64_t size, int digits):
    """Bytes that `split_words` and `fold_words` may need for a text of `size` bytes, padding included."""
    return (4 if digits == 2 else 2) * size + 2 * PADDING


def split_words(const uint8_t[::1] text, int64_t size, const uint8_t[::1] classes, bint drop_punctuation,
                bint lowercase, int digits, uint8_t[::1] out):
    """Split text[:size] by the rules of the ``words`` tokenizer.

    IN text, padded; classes (0x110000,): 0 other, 1 space, 2 letter, mark or number, 3 underscore. OUT out, of
    `room(size, digits)` bytes. Tokens with bytes above 127 are not folded. Returns the bytes written.
    """
    cdef lw_folding folding
    cdef int64_t written
    folding.drop_punctuation, folding.lowercase, folding.digits = drop_punctuation, lowercase, digits
    if text.shape[0] < size + PADDING or size < 0:
        raise ValueError("the text is not padded")
    if classes.shape[0] < 0x110000 or out.shape[0] < room(size, digits):
        raise ValueError("classes or room too short")
    with nogil:
        written = lw_split_words(&text[0], size, &classes[0], &folding, &out[0])
    return written


def fold_words(const uint8_t[::1] text, int64_t size, bint lowercase, int digits, uint8_t[::1] out):
    """Split text[:size] at ASCII white space and fold the ASCII tokens; arguments as for `split_words`."""
    cdef lw_folding folding
    cdef int64_t written
    folding.drop_punctuation, folding.lowercase, folding.digits = False, lowercase, digits
    if text.shape[0] < size + PADDING or size < 0:
        raise ValueError("the text is not padded")
    if out.shape[0] < room(size, digits):
        raise ValueError("room too short")
    with nogil:
        written = lw_fold_words(&text[0], size, &folding, &out[0])
    return written
