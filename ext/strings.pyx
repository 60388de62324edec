# Python strings to numbers and back, where Python's own loops would take longer than the work between them.
#
# These hold the interpreter's lock: all that they touch are Python objects.
cimport cython
from cpython.dict cimport PyDict_GetItemWithError
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()


@cython.boundscheck(True)  # a string's own __hash__ might shorten its list
def strings_number(list sentences, dict index, dict new, int32_t[::1] numbers):
    """Number the words of some sentences, one behind the other.

    IN sentences, lists; index, word -> number; IN/OUT new, other words -> 0, 1, .. as they are met; OUT numbers (n,):
    that of `index`, or -1 - that of `new`. Returns the place of the first sentence that holds something else than
    strings, or -1.
    """
    cdef int64_t i, j, written = 0, found
    cdef list words
    cdef object word
    cdef PyObject *number
    for i in range(len(sentences)):
        words = <list?>sentences[i]
        for j in range(len(words)):
            word = words[j]
            number = PyDict_GetItemWithError(index, word) if isinstance(word, str) else NULL
            if number is not NULL:
                found = <object>number
            else:
                if not isinstance(word, str):
                    return i
                number = PyDict_GetItemWithError(new, word)
                if number is not NULL:
                    found = -1 - <int64_t>(<object>number)
                else:
                    found = -1 - <int64_t>len(new)
                    new[word] = len(new)
            numbers[written] = <int32_t>found
            written += 1
    return -1


def strings_name(const int32_t[::1] numbers, const int64_t[::1] offsets, list names):
    """IN numbers (n,) in 0 .. len(names) - 1; offsets (sentences + 1,). Returns a list of the names of each sentence.

    Lists of strings hold no cycles, so the collector need not look at them each time some hundreds have been made.
    """
    cdef int64_t i, j, begin, end, n = offsets.shape[0] - 1, least = 0, most = -1
    cdef list sentences, words
    cdef object name
    cdef bint collecting
    for j in range(numbers.shape[0]):
        least = min(least, numbers[j])
        most = max(most, numbers[j])
    if least < 0 or most >= len(names):
        raise IndexError(f"the numbers {least} to {most} do not name {len(names)} things")
    for i in range(n):
        if not 0 <= offsets[i] <= offsets[i + 1] <= numbers.shape[0]:
            raise IndexError("the offsets do not fit the numbers")
    collecting = PyGC_Disable()
    try:
        sentences = PyList_New(n)
        for i in range(n):
            begin = offsets[i]
            end = offsets[i + 1]
            words = PyList_New(end - begin)
            for j in range(begin, end):
                name = names[numbers[j]]
                Py_INCREF(name)
                PyList_SET_ITEM(words, j - begin, name)
            Py_INCREF(words)
            PyList_SET_ITEM(sentences, i, words)
    finally:
        if collecting:
            PyGC_Enable()
    return sentences


def strings_endings(words, dict tree, int64_t longest, int32_t none, int32_t[::1] rows):
    """The row of the longest ending of each word that a tree holds.

    IN words (n), iterable of str; tree: "C" (capitalised) or "c" -> (row, branches), and branches: the character before
    -> (row, branches); none, the row of words whose case is not there; OUT rows (n,).
    """
    cdef int64_t place = 0, i
    cdef int32_t row
    cdef str word
    cdef tuple node
    cdef PyObject *step
    for entry in words:
        word = entry
        step = PyDict_GetItemWithError(tree, "C" if len(word) > 0 and word[0].isupper() else "c")
        row = none
        i = len(word) - 1
        while step is not NULL:
            node = <tuple>step
            row = node[0]
            if i < 0 or len(word) - i > longest:
                break
            step = PyDict_GetItemWithError(<dict>node[1], word[i])
            i -= 1
        rows[place] = row
        place += 1
