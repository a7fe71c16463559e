/* Loads elements from global memory into the slices of common/fragment.cl, which includes this file.
 *
 * A side of a slice is loaded in pieces of `vector` elements, 1, 4 or 8, that are adjacent and aligned. If rows of the
 * matrix are along k, a piece is in a row; if they are across the side, a piece has two rows, so that pairs along k
 * are stored to local memory, or one row if elements have a word each. There 16 / vector pieces are adjacent across,
 * and the others along k. Elements along k that may not be adjacent in memory are gathered one by one: pieces
 * along k of 2, or deep ones of KN_DEEP_COUNT. Deep pieces are adjacent across, like elements in memory; a work-item's
 * pieces begin at the same k. Padded lines begin in different banks in turn. Lines that pieces along k store at the
 * same time are as far from each other as possible, to use all banks. */
#ifdef KN_FRAGMENT_CL
#define KN_ALONG 0
#define KN_ACROSS 1
#define KN_DEEP 2
#if KN_IN_WORD == 1
#define KN_DEEP_COUNT 4
#else
#define KN_DEEP_COUNT 8
#endif
#define KN_LINES(order) ((order) == KN_ACROSS ? KN_IN_WORD : 1)
#define KN_PIECES(side, vector, order) ((side) * KN_TILE_K / (vector) / KN_LINES(order) / KN_ITEMS)
typedef struct position {
    int k, i;
} position;
/* Lines that fill the 32 banks, and lines after which a line begins in the same bank again. */
#define KN_LINES_AT_ONCE (32 * KN_IN_WORD / KN_TILE_K)
#define KN_PADDING (KN_SLICE_ROW - KN_TILE_K)
#define KN_LINES_AROUND (32 * KN_IN_WORD / KN_PADDING)
static inline int spread_line(const int line, const int side) {
#if KN_PADDING > 0 && KN_LINES_AT_ONCE > 1 && KN_LINES_AT_ONCE <= 8
    if (side % KN_LINES_AROUND == 0)
        return line / KN_LINES_AROUND * KN_LINES_AROUND +
               line % KN_LINES_AT_ONCE * (KN_LINES_AROUND / KN_LINES_AT_ONCE) +
               line % KN_LINES_AROUND / KN_LINES_AT_ONCE;
#endif
    return line;
}
/* Pieces along k of a slice of tiles: two adjacent pieces of each of eight lines, then the next two. */
#define KN_BY_TILES(vector) (KN_FRAGMENT >= 5 && (vector) >= 4 && KN_TILE_K > 2 * (vector))
static inline position piece_at(const int p, const int order, const int side, const int vector) {
    const int item = get_local_id(0), piece = p * KN_ITEMS + item;
    const int width = order == KN_ACROSS ? 16 / vector : KN_TILE_K / vector;
    const int lines = KN_TILE_K / KN_IN_WORD, line = piece / width, items = KN_ITEMS * vector / KN_TILE_K;
    const int in_eight = piece % (8 * width);
    const position in_tiles = {(in_eight / 16 * 2 + piece % 2) * vector, piece / (8 * width) * 8 + in_eight / 2 % 8};
    const position along = KN_BY_TILES(vector) ? in_tiles : (position){piece % width * vector, spread_line(line, side)};
    const position deep = {item / items * vector, p * items + item % items};
    const position across = {line % lines * KN_IN_WORD, (line / lines * width + piece % width) * vector};
    return order == KN_ACROSS ? across : order == KN_DEEP ? deep : along;
}

/* Two 16-bit elements per word, except for a single element. */
#if KN_IN_WORD == 1
#define KN_RAW_1 uint
#define KN_RAW_2 uint2
#define KN_RAW_4 uint4
#else
#define KN_RAW_1 ushort
#define KN_RAW_2 uint
#define KN_RAW_4 uint2
#define KN_RAW_8 uint4
#endif
#define KN_FLOATS_1 float
#define KN_FLOATS_4 float4
#define KN_FLOATS_8 float8
/* The bits of the elements at p, stored as `kind` (common/storage.cl). */
#define KN_LOAD_RAW(kind, vector, p) KN_PASTE(KN_LOAD_RAW_, kind)(vector, p)
#define KN_LOAD_RAW_0(vector, p)                                                                             \
    KN_PASTE(round_, vector)(*(global const KN_PASTE(KN_FLOATS_, vector) *)(p))
#define KN_LOAD_RAW_1(vector, p) (*(global const KN_PASTE(KN_RAW_, vector) *)(p))
#define KN_LOAD_RAW_2(vector, p) (*(global const KN_PASTE(KN_RAW_, vector) *)(p))
#if KN_FORMAT == 3
static inline uint round_1(const float number) {
#if KN_EMULATED
    const uint bits = as_uint(number);
    return isnan(number) ? 0x7fffffffu : (bits + 0x1000u) & ~0x1fffu;
#else
    uint bits;
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(number));
    return bits;
#endif
}
static inline uint4 round_4(const float4 n) {
    return (uint4)(round_1(n.s0), round_1(n.s1), round_1(n.s2), round_1(n.s3));
}
#elif KN_FORMAT == 4
/* The high part and the rounded remainder. */
static inline uint round_1(const float number) {
#if KN_FRAGMENT == 1 && !KN_EMULATED
    uint high, both;
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(high) : "f"(number), "f"(0.0f));
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(number), "f"(number - as_float(high)));
    return both;
#else
    const uint high = (uint)kn_to_bfloat(number) << 16;
    return high | kn_to_bfloat(number - as_float(high));
#endif
}
static inline uint4 round_4(const float4 n) {
    return (uint4)(round_1(n.s0), round_1(n.s1), round_1(n.s2), round_1(n.s3));
}
#elif KN_FRAGMENT == 1 && !KN_EMULATED
#if KN_MMA_DEPTH == 8
#define KN_ROUND_PAIR                                                                                        \
    "{ .reg .f16 low, high; cvt.rn.f16.f32 high, %1; cvt.rn.f16.f32 low, %2; mov.b32 %0, {low, high}; }"
#elif KN_FORMAT == 1
#define KN_ROUND_PAIR "cvt.rn.f16x2.f32 %0, %1, %2;"
#else
#define KN_ROUND_PAIR "cvt.rn.bf16x2.f32 %0, %1, %2;"
#endif
static inline uint round_2(const float first, const float second) {
    uint bits;
    __asm__(KN_ROUND_PAIR : "=r"(bits) : "f"(second), "f"(first));
    return bits;
}
static inline ushort round_1(const float number) {
    return round_2(number, 0.0f);
}
static inline uint2 round_4(const float4 n) {
    return (uint2)(round_2(n.s0, n.s1), round_2(n.s2, n.s3));
}
static inline uint4 round_8(const float8 n) {
    return (uint4)(round_4(n.lo), round_4(n.hi));
}
#elif KN_FORMAT == 1
#define round_1(number) kn_to_half(number)
#define round_4(numbers) as_uint2(kn_to_half_4(numbers))
#define round_8(numbers) as_uint4(kn_to_half_8(numbers))
#else
#define round_1(number) kn_to_bfloat(number)
#define round_4(numbers) as_uint2(kn_to_bfloat_4(numbers))
#define round_8(numbers) as_uint4(kn_to_bfloat_8(numbers))
#endif

/* The elements at from[at], or 0 if the condition is false. PTX has conditional loads. Other compilers branch, and wait
 * in each branch for what it loads and packs: there the first elements are loaded instead. */
#if KN_FRAGMENT == 1
#define KN_LOAD_RAW_IF(wanted, kind, vector, from, at)                                                       \
    ((wanted) ? KN_LOAD_RAW(kind, vector, (from) + (at)) : (KN_PASTE(KN_RAW_, vector))0)
#else
#define KN_LOAD_RAW_IF(wanted, kind, vector, from, at)                                                       \
    KN_PASTE(keep_, vector)(wanted, KN_LOAD_RAW(kind, vector, (from) + ((wanted) ? (at) : 0)))
#define KN_DEFINE_KEEP(vector)                                                                               \
    static inline KN_RAW_##vector keep_##vector(const bool wanted, const KN_RAW_##vector bits) {             \
        return wanted ? bits : (KN_RAW_##vector)0;                                                           \
    }
KN_DEFINE_KEEP(1)
KN_DEFINE_KEEP(4)
#if KN_IN_WORD == 2
KN_DEFINE_KEEP(8)
#endif
#endif

#define KN_PUT(left, slice, i, k) ((slice) + ((left) ? KN_LEFT_PLACE(i, k) : KN_RIGHT_PLACE(i, k)))
/* Of pieces that are stored at the same time, two begin in the same bank. Across, in padded lines these are 8 lines
 * apart (those that are 4 apart are in different banks); in slices of tiles the same on the left, and on the right
 * every second pair along k. Along k, they are adjacent pieces, on the right of slices of tiles. The second piece is
 * turned: it stores lines, or words, whose numbers differ in `bit` in the opposite order. */
#if KN_PADDING == 4 * KN_IN_WORD
#define KN_ACROSS_BIT(vector) ((vector) / 2)
#define KN_TURNS_ACROSS(left, at) ((at).i / 8 % 2)
#elif KN_FRAGMENT >= 5 && KN_IN_WORD == 2
#define KN_ACROSS_BIT(vector) 1
#define KN_TURNS_ACROSS(left, at) (((left) ? (at).i / 8 : (at).k / 4) % 2)
#else
#define KN_ACROSS_BIT(vector) 0
#define KN_TURNS_ACROSS(left, at) 0
#endif
/* Stores WORD(l), for each l below count, with PUT(l, word). */
#define KN_PUT_TURNED(count, bit, turned, WORD, PUT)                                                         \
    KN_UNROLL for (int l = 0; l < (count); l++) {                                                            \
        if (l & (bit)) continue;                                                                             \
        const uint lower = WORD(l), higher = WORD(l ^ (bit));                                                \
        PUT(l + ((turned) ? (bit) : 0), (turned) ? higher : lower);                                          \
        if (bit) PUT(l + ((turned) ? 0 : (bit)), (turned) ? lower : higher);                                 \
    }
#define KN_PUT_ACROSS(l, word) *(local uint *)KN_PUT(left, slice, at.i + (l), at.k) = (word)
/* A piece being loaded for local memory; a piece along k uses only the first line. */
#define KN_DEFINE_PIECE(vector)                                                                              \
    typedef struct piece_##vector {                                                                          \
        KN_RAW_##vector line[KN_IN_WORD];                                                                    \
    } piece_##vector;                                                                                        \
    static inline void put_piece_##vector(const piece_##vector piece, const position at, const bool across,  \
                                          const bool left, local KN_NUMBER *slice) {                         \
        KN_PUT_LINES(vector)                                                                                 \
    }
#if KN_IN_WORD == 1
/* Whether elements along k are adjacent: all for TF32, in pairs for split elements, otherwise none. */
#if KN_FORMAT == 3
#define KN_PUT_ALONG(vector) *(local KN_RAW_##vector *)KN_PUT(left, slice, at.i, at.k) = piece.line[0];
#elif KN_FRAGMENT < 5
#define KN_PUT_ALONG(vector)                                                                                 \
    if (vector == 1) *KN_PUT(left, slice, at.i, at.k) = *words;                                              \
    KN_UNROLL for (int w = 0; w < vector / 2; w++) *(local uint2 *)KN_PUT(left, slice, at.i, at.k + 2 * w) = \
        (uint2)(words[2 * w], words[2 * w + 1]);
#else
#define KN_PUT_ALONG(vector)                                                                                 \
    KN_UNROLL for (int w = 0; w < vector; w++) *KN_PUT(left, slice, at.i, at.k + w) = words[w];
#endif
#define KN_WORD_OF_LINE(l) words[l]
#define KN_PUT_LINES(vector)                                                                                 \
    const uint *words = (const uint *)&piece.line[0];                                                        \
    if (across) {                                                                                            \
        const bool turned = KN_TURNS_ACROSS(left, at);                                                       \
        KN_PUT_TURNED(vector, KN_ACROSS_BIT(vector), turned, KN_WORD_OF_LINE, KN_PUT_ACROSS)                 \
    } else {                                                                                                 \
        KN_PUT_ALONG(vector)                                                                                 \
    }
KN_DEFINE_PIECE(1)
KN_DEFINE_PIECE(2)
KN_DEFINE_PIECE(4)
#else
#define KN_WORD_OF_LINE(l)                                                                                   \
    ((l) % 2 ? first[(l) / 2] >> 16 | (second[(l) / 2] & 0xffff0000u)                                        \
             : (first[(l) / 2] & 0xffffu) | second[(l) / 2] << 16)
#define KN_WORD_ALONG(l) first[l]
#define KN_PUT_ALONG(l, word) *(local uint *)KN_PUT(left, slice, at.i, at.k + 2 * (l)) = (word)
#define KN_PUT_LINES(vector)                                                                                 \
    const uint *first = (const uint *)&piece.line[0], *second = (const uint *)&piece.line[1];                \
    if (!across && KN_FRAGMENT == 4 && vector == 8) {                                                        \
        KN_UNROLL for (int w = 0; w < vector / 2; w += 2)                                                    \
            *(local uint2 *)KN_PUT(left, slice, at.i, at.k + 2 * w) = (uint2)(first[w], first[w + 1]);       \
        return;                                                                                              \
    }                                                                                                        \
    if (!across && (left || KN_FRAGMENT < 5)) {                                                              \
        *(local KN_RAW_##vector *)KN_PUT(left, slice, at.i, at.k) = piece.line[0];                           \
        return;                                                                                              \
    }                                                                                                        \
    if (across) {                                                                                            \
        const bool turned = KN_TURNS_ACROSS(left, at);                                                       \
        KN_PUT_TURNED(vector, KN_ACROSS_BIT(vector), turned, KN_WORD_OF_LINE, KN_PUT_ACROSS)                 \
    } else {                                                                                                 \
        const bool turned = at.k / vector % 2;                                                               \
        KN_PUT_TURNED(vector / 2, vector >= 4, turned, KN_WORD_ALONG, KN_PUT_ALONG)                          \
    }
KN_DEFINE_PIECE(2)
KN_DEFINE_PIECE(4)
KN_DEFINE_PIECE(8)
typedef struct piece_1 {
    ushort line[2];
} piece_1;
static inline void put_piece_1(const piece_1 piece, const position at, const bool across, const bool left,
                               local ushort *slice) {
    if (across)
        *(local uint *)KN_PUT(left, slice, at.i, at.k) = piece.line[0] | (uint)piece.line[1] << 16;
    else
        *KN_PUT(left, slice, at.i, at.k) = piece.line[0];
}
#endif
#define KN_PUT_PIECES(next, order, side, vector, left, slice)                                                \
    KN_UNROLL for (int p = 0; p < KN_PIECES(side, vector, order); p++)                                       \
        KN_PASTE(put_piece_, vector)(next[p], piece_at(p, order, side, vector), (order) == KN_ACROSS, left, slice);

/* Loads a piece starting at k: LOAD(vector, k) returns the bits of the adjacent elements; with vector 1, `count` of
 * them are gathered. */
#define KN_LOAD_PIECE(piece, order, vector, count, LOAD, k)                                                  \
    KN_PASTE(KN_LOAD_PIECE_, vector)(piece, order, count, LOAD, k)
#define KN_LOAD_PIECE_1(piece, order, count, LOAD, k)                                                        \
    KN_UNROLL for (int w = 0; w < (count) / KN_IN_WORD; w++)                                                 \
        ((uint *)&piece.line[0])[w] = KN_LOAD_WORD(LOAD, (k) + KN_IN_WORD * w);
#if KN_IN_WORD == 1
#define KN_LOAD_WORD(LOAD, k) LOAD(1, k)
#else
#define KN_LOAD_WORD(LOAD, k) ((uint)LOAD(1, k) | (uint)LOAD(1, (k) + 1) << 16)
#endif
#define KN_LOAD_PIECE_4(piece, order, count, LOAD, k) KN_LOAD_LINES(piece, order, 4, LOAD, k)
#define KN_LOAD_PIECE_8(piece, order, count, LOAD, k) KN_LOAD_LINES(piece, order, 8, LOAD, k)
#define KN_LOAD_LINES(piece, order, vector, LOAD, k)                                                         \
    piece.line[0] = LOAD(vector, k);                                                                         \
    if ((order) == KN_ACROSS && KN_IN_WORD == 2) piece.line[KN_IN_WORD - 1] = LOAD(vector, (k) + 1);
#endif
