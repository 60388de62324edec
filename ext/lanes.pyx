"""Linear recursions along many sequences at once (lane_rows.h): filter, smoother, and what a lane owes to the next."""

from common cimport real_t
from libc.stdint cimport int32_t, int64_t

cdef extern from "lane_rows.h" nogil:
    # A macro that chooses the function by the type of the table; arguments as in the header.
    void lr_walk(...)
    const int LR_LANES

LANES = LR_LANES  # lanes that go through all their steps together: rows of the scratch space


def panel_edges(h, itemsize):
    """Where the panels of h columns begin and end: vectors of 64 bytes, then half of one where that is enough."""
    lanes = 64 // itemsize
    width = -(-2 * h // lanes) * lanes // 2
    return [*range(0, width, lanes), width]


def lanes_walk(const real_t[:, ::1] table, const int32_t[::1] ids, const int64_t[::1] begins,
               const int64_t[::1] lengths, int direction, const real_t[::1] packed, const int64_t[:, ::1] reach,
               int64_t t0, int64_t t1, bint add, real_t[:, ::1] x, real_t[:, ::1] y, real_t[:, ::1] states):
    """Steps t0 .. t1 - 1 of lanes of falling length, forwards (direction 1) or from their last rows back (-1).

    A step makes r = R x. With `add`, r is added to the row of `states` and x becomes r + table[id]; without, x becomes
    r + table[id] and goes to its row. Without a table, which needs `add`, x becomes r.

    IN      table (n, h) or (0, h): none; ids (T,), not read without a table; begins, lengths (B,): rows of a lane
            packed, reach (n_panels, 2): R by panels of columns, and the rows from which to which each panel goes, as
            `panel_edges` says and `lagwise.lds.recurrence.Recurrence` packs them
    IN/OUT  x (at least B rounded up to a multiple of 8, h), states (T, h)
    OUT     y (LANES, stride): scratch, stride at least the width of all panels and a multiple of a vector
    """
    cdef int64_t n = begins.shape[0], held = 0
    cdef Py_ssize_t h = x.shape[1], stride = y.shape[1], width, i
    if n == 0 or h == 0:
        return
    edges = panel_edges(h, sizeof(real_t))
    width = max(edges)
    if reach.shape[0] == len(edges) - 1 and reach.shape[1] == 2:
        for i in range(reach.shape[0]):
            if not 0 <= reach[i, 0] <= reach[i, 1] <= h:
                raise ValueError("a panel goes beyond the matrix")
            held += (reach[i, 1] - reach[i, 0]) * (edges[i + 1] - edges[i])
    else:
        raise ValueError("arrays whose shapes do not go together")
    if (lengths.shape[0] != n or x.shape[0] < (n + 7) // 8 * 8 or y.shape[0] < LR_LANES or states.shape[1] != h
            or table.shape[1] != h or packed.shape[0] != held
            or stride < width or stride * sizeof(real_t) % 64
            or (table.shape[0] == 0 and not add) or (table.shape[0] and ids.shape[0] != states.shape[0])):
        raise ValueError("arrays whose shapes do not go together")
    cdef const real_t *rows = &table[0, 0] if table.shape[0] else NULL
    cdef const int32_t *words = &ids[0] if ids.shape[0] else NULL
    cdef const real_t *matrix = &packed[0] if held else NULL
    cdef real_t *own = &x[0, 0]
    cdef real_t *scratch = &y[0, 0]
    cdef real_t *out = &states[0, 0]
    with nogil:
        lr_walk(rows, words, &begins[0], &lengths[0], n, h, direction, matrix, &reach[0, 0], width, t0, t1, add, own, scratch, stride, out)
