/* The transforms of Winograd's 3x3 convolutions, F(KN_TILE x KN_TILE, 3x3), for one line of elements: `vector` is the
 * type of one element, or of as many as a kernel transforms at a time, defined by the file that includes this one.
 * Defines, with their defaults:
 *   KN_TILE 4   results of a tile along each side: 4 or 2 */
#ifndef KN_WINOGRAD_POINTS_CL
#define KN_WINOGRAD_POINTS_CL
#ifndef KN_TILE
#define KN_TILE 4
#endif
#define KN_REACH (KN_TILE + 2)
#define KN_POINTS (KN_REACH * KN_REACH)

/* X(0), X(1) … for the points of a line, and for its results. */
#if KN_TILE == 4
#define KN_EACH_POINT(X) X(0) X(1) X(2) X(3) X(4) X(5)
#define KN_EACH_RESULT(X) X(0) X(1) X(2) X(3)
/* The points are 0, +-P, +-Q and infinity, with P and Q chosen for small errors, a third of the errors for 1 and 2. All
 * coefficients except those of filters are exact. */
#define KN_P 0.625f
#define KN_Q 1.5f
#define KN_P2 (KN_P * KN_P)
#define KN_Q2 (KN_Q * KN_Q)
/* Transforms d0 … d5, a line of six pixels, to points p0 … p5. */
#define KN_TO_POINTS(d, p)                                                                                   \
    const vector p##a = d##4 - KN_Q2 * d##2, p##b = d##3 - KN_Q2 * d##1, p##c = d##4 - KN_P2 * d##2,         \
                 p##d = d##3 - KN_P2 * d##1;                                                                 \
    const vector p##0 = KN_P2 * KN_Q2 * d##0 - (KN_P2 + KN_Q2) * d##2 + d##4, p##1 = p##a + KN_P * p##b,     \
                 p##2 = p##a - KN_P * p##b, p##3 = p##c + KN_Q * p##d, p##4 = p##c - KN_Q * p##d,            \
                 p##5 = KN_P2 * KN_Q2 * d##1 - (KN_P2 + KN_Q2) * d##3 + d##5;
/* Transforms m0 … m5 to four results r0 … r3. */
#define KN_TO_RESULTS(m, r)                                                                                  \
    const vector r##a = m##1 + m##2, r##b = m##1 - m##2, r##c = m##3 + m##4, r##d = m##3 - m##4;             \
    const vector r##0 = m##0 + r##a + r##c, r##1 = KN_P * r##b + KN_Q * r##d,                                \
                 r##2 = KN_P2 * r##a + KN_Q2 * r##c, r##3 = KN_P2 * KN_P * r##b + KN_Q2 * KN_Q * r##d + m##5;
/* Transforms g0, g1, g2, a line of a filter, to points f0 … f5. */
#define KN_COEFFICIENT(x, y) (0.5f / ((x) * ((x) - (y))))
#define KN_FILTER_POINTS(g, f)                                                                               \
    const vector f##a = (g##0 + KN_P2 * g##2) * KN_COEFFICIENT(KN_P2, KN_Q2),                                      \
                 f##b = g##1 * (KN_P * KN_COEFFICIENT(KN_P2, KN_Q2)),                                              \
                 f##c = (g##0 + KN_Q2 * g##2) * KN_COEFFICIENT(KN_Q2, KN_P2),                                      \
                 f##d = g##1 * (KN_Q * KN_COEFFICIENT(KN_Q2, KN_P2));                                              \
    const vector f##0 = g##0 * (1.0f / (KN_P2 * KN_Q2)), f##1 = f##a + f##b, f##2 = f##a - f##b,             \
                 f##3 = f##c + f##d, f##4 = f##c - f##d, f##5 = g##2;
/* The transposes of the last two: four elements of a line of dy to six points, and six points to a line of a filter.
 * */
#define KN_GRADIENT_POINTS(d, z)                                                                             \
    const vector z##a = d##0 + KN_P2 * d##2, z##b = KN_P * d##1 + KN_P2 * KN_P * d##3,                       \
                 z##c = d##0 + KN_Q2 * d##2, z##d = KN_Q * d##1 + KN_Q2 * KN_Q * d##3;                       \
    const vector z##0 = d##0, z##1 = z##a + z##b, z##2 = z##a - z##b, z##3 = z##c + z##d,                    \
                 z##4 = z##c - z##d, z##5 = d##3;
#define KN_POINTS_FILTER(u, g)                                                                               \
    const vector g##a = (u##1 + u##2) * KN_COEFFICIENT(KN_P2, KN_Q2),                                              \
                 g##b = (u##1 - u##2) * KN_COEFFICIENT(KN_P2, KN_Q2),                                              \
                 g##c = (u##3 + u##4) * KN_COEFFICIENT(KN_Q2, KN_P2),                                              \
                 g##d = (u##3 - u##4) * KN_COEFFICIENT(KN_Q2, KN_P2);                                              \
    const vector g##0 = u##0 * (1.0f / (KN_P2 * KN_Q2)) + g##a + g##c, g##1 = KN_P * g##b + KN_Q * g##d,     \
                 g##2 = KN_P2 * g##a + KN_Q2 * g##c + u##5;
#else
#define KN_EACH_POINT(X) X(0) X(1) X(2) X(3)
#define KN_EACH_RESULT(X) X(0) X(1)
#define KN_TO_POINTS(d, p)                                                                                   \
    const vector p##0 = d##0 - d##2, p##1 = d##1 + d##2, p##2 = d##2 - d##1, p##3 = d##1 - d##3;
#define KN_TO_RESULTS(m, r) const vector r##0 = m##0 + m##1 + m##2, r##1 = m##1 - m##2 - m##3;
#define KN_FILTER_POINTS(g, f)                                                                               \
    const vector f##a = 0.5f * (g##0 + g##2), f##b = 0.5f * g##1;                                            \
    const vector f##0 = g##0, f##1 = f##a + f##b, f##2 = f##a - f##b, f##3 = g##2;
#define KN_GRADIENT_POINTS(d, z)                                                                             \
    const vector z##0 = d##0, z##1 = d##0 + d##1, z##2 = d##0 - d##1, z##3 = -d##1;
#define KN_POINTS_FILTER(u, g)                                                                               \
    const vector g##a = 0.5f * (u##1 + u##2), g##1 = 0.5f * (u##1 - u##2);                                   \
    const vector g##0 = u##0 + g##a, g##2 = g##a + u##3;
#endif
#endif
