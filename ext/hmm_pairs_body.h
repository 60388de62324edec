/* Viterbi of second-order models where each position has only some possible states, so that costs belong to pairs of
   those; included by hmm_paths.h like hmm_paths_body.h. */

/* line[c] = min_h before[h * stride] + w[as[h], c] of 8 NV columns. */
#define HMM_LINE(NV)                                                                                                   \
    HMM_INLINE void HMM_NAME(hmm_line_##NV)(const double *before, int64_t stride, const int32_t *as, int64_t na,       \
                                      const double *w, int64_t P, double *line) {                                      \
        hmm_d8 acc[NV];                                                                                                \
        _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) acc[v] = before[0] + HMM_D8(w + as[0] * P + 8 * v);       \
        for (int64_t h = 1; h < na; h++) {                                                                             \
            double s = before[h * stride];                                                                             \
            const double *from = w + as[h] * P;                                                                        \
            _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) acc[v] = HMM_LESSER(s + HMM_D8(from + 8 * v), acc[v]); \
        }                                                                                                              \
        _Pragma("GCC unroll 4") for (int v = 0; v < NV; v++) *(hmm_d8 *)(line + 8 * v) = acc[v];                       \
    }
HMM_LINE(4) HMM_LINE(3) HMM_LINE(2) HMM_LINE(1)

/* best[j] = min over a of before[a, i] + middle[b, a, c_j], for predecessors a and states c of three positions. */
HMM_INLINE void HMM_NAME(hmm_pair_best)(const hmm_pairs *m, const double *before, int64_t stride, const int32_t *as, int64_t na,
                                  int64_t b, const int32_t *cs, int64_t nc, double *best) {
    const double *w = m->middle + b * m->K * m->P;
    int64_t P = m->P, j = 0;
    if (8 * nc <= P) { /* few: one by one */
        for (; j < nc; j++) {
            double least = before[0] + w[as[0] * P + cs[j]];
            for (int64_t h = 1; h < na; h++) {
                double x = before[h * stride] + w[as[h] * P + cs[j]];
                least = x < least ? x : least;
            }
            best[j] = least;
        }
        return;
    }
    double line[32];
    for (int64_t c = 0; c < P && j < nc; c += 32) { /* all columns that are near */
        int64_t width = P - c < 32 ? P - c : 32;
        if (cs[j] >= c + width) continue;
        if (width == 32) HMM_NAME(hmm_line_4)(before, stride, as, na, w + c, P, line);
        else if (width == 24) HMM_NAME(hmm_line_3)(before, stride, as, na, w + c, P, line);
        else if (width == 16) HMM_NAME(hmm_line_2)(before, stride, as, na, w + c, P, line);
        else HMM_NAME(hmm_line_1)(before, stride, as, na, w + c, P, line);
        for (; j < nc && cs[j] < c + width; j++) best[j] = line[cs[j] - c];
    }
}

/* costs: a block (possible states of t - 1) x (those of t) for each time, at place[t]; of time 0 a single row. Each
   block has its least entry taken out. Returns the first impossible time, or -1. */
HMM_TARGET static int64_t HMM_NAME(hmm_pair_costs)(const hmm_pairs *m, const int32_t *rows, int64_t T, double *costs,
                                              int64_t *place) {
    int64_t na = 0, nb = 1;
    const int32_t *as = NULL, *bs = NULL;
    place[0] = 0;
    for (int64_t t = 0; t < T; t++) {
        const int32_t *cs = m->states + m->first[rows[t]];
        const double *e = m->values + m->first[rows[t]], *before = t ? costs + place[t - 1] : NULL;
        int64_t nc = m->first[rows[t] + 1] - m->first[rows[t]];
        double *block = costs + place[t], least = INFINITY;
        for (int64_t i = 0; i < nb; i++) {
            double *row = block + i * nc;
            if (t == 0)
                for (int64_t j = 0; j < nc; j++) row[j] = m->start[cs[j]];
            else if (t == 1)
                for (int64_t j = 0; j < nc; j++) row[j] = before[i] + m->second[bs[i] * m->P + cs[j]];
            else
                HMM_NAME(hmm_pair_best)(m, before + i, nb, as, na, bs[i], cs, nc, row);
            for (int64_t j = 0; j < nc; j++) {
                row[j] += e[j];
                least = row[j] < least ? row[j] : least;
            }
        }
        if (least == INFINITY) return t;
        for (int64_t i = 0; i < nb * nc; i++) block[i] -= least;
        place[t + 1] = place[t] + nb * nc;
        na = nb, as = bs;
        nb = nc, bs = cs;
    }
    return -1;
}

/* The path behind the costs, lowest states first; returns 0 where none can end, else 1. */
HMM_TARGET static int HMM_NAME(hmm_pair_back)(const hmm_pairs *m, const int32_t *rows, int64_t T, const double *costs,
                                        const int64_t *place, int32_t *path) {
    int64_t nc = m->first[rows[T - 1] + 1] - m->first[rows[T - 1]], x = -1, y = -1;
    const int32_t *cs = m->states + m->first[rows[T - 1]], *bs = T > 1 ? m->states + m->first[rows[T - 2]] : NULL;
    int64_t nb = T > 1 ? m->first[rows[T - 2] + 1] - m->first[rows[T - 2]] : 1;
    double best = INFINITY;
    for (int64_t i = 0; i < nb; i++)
        for (int64_t j = 0; j < nc; j++) {
            double value = costs[place[T - 1] + i * nc + j] + (T == 1 ? m->final1[cs[j]] : m->final[bs[i] * m->K + cs[j]]);
            if (value < best) { best = value; x = i; y = j; }
        }
    if (x < 0) return 0;
    path[T - 1] = cs[y];
    if (T > 1) path[T - 2] = bs[x];
    for (int64_t t = T - 1; t > 1; t--) { /* x: place of the state of t - 1 among its row's */
        const int32_t *as = m->states + m->first[rows[t - 2]];
        int64_t na = m->first[rows[t - 2] + 1] - m->first[rows[t - 2]];
        int64_t width = m->first[rows[t - 1] + 1] - m->first[rows[t - 1]], lowest = 0;
        const double *w = m->middle + path[t - 1] * m->K * m->P + path[t], *s = costs + place[t - 1] + x;
        if (na > 1) {
            double least = INFINITY;
            for (int64_t h = 0; h < na; h++) {
                double value = s[h * width] + w[as[h] * m->P];
                if (value < least) { least = value; lowest = h; }
            }
        }
        path[t - 2] = as[lowest];
        x = lowest;
    }
    return 1;
}
