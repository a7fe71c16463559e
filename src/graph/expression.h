/* Pointwise expressions: a small language with the same meaning on the host and on the device.
 *
 *   numbers, names, ( ), unary - and !, * / + -, < <= > >= == !=, && ||, c ? a : b, and calls of exp log sqrt
 *   rsqrt abs sin cos tanh erf pow min max floor isnan sigmoid(x) softplus(x) ceil round tan asin acos atan
 *   sinh cosh asinh acosh atanh atan2(y, x) fmod(x, y) quotient(x, y) log1p expm1
 *   bit_and bit_or bit_xor bit_left bit_right (x, y), of integers; coarse(x, u, places).
 *
 * Example: "x > 0 ? x : slope * x". Comparisons and logic give 0 or 1. A comparison with NaN is false (!=
 * true), so "x > 0 ? x : 0" maps NaN to 0; min and max propagate it, so max(x, 0) does not:
 *   max(a, b) is a < b || isnan(b) ? b : a,   min(a, b) is a > b || isnan(b) ? b : a.
 * coarse(x, u, places) rounds the float x, which must not be NaN, to a mantissa without its last `places`
 * bits (a literal). It rounds away from 0 if u >= 1 - (the discarded fraction), towards 0 otherwise, so that
 * u uniform in [0, 1) makes the mean x (stochastic rounding). 23 places and u = 0 give a power of two.
 * sigmoid and softplus do not overflow. round rounds ties to even; fmod has the sign of x; quotient is x / y
 * rounded toward 0, and 0 if y is 0. x / y is real, also for integers. Included by graph.h. */
#ifndef KN_GRAPH_EXPRESSION_H
#define KN_GRAPH_EXPRESSION_H

typedef struct kn_expression kn_expression;

/* Parses into the arena; an error names the text, the column and what was expected. */
kn_status kn_expression_parse(kn_arena *arena, const char *text, kn_expression **expression, kn_error *error);
/* The names in the expression, each once, in order of first appearance. */
int kn_expression_name_count(const kn_expression *expression);
const char *kn_expression_name(const kn_expression *expression, int position);
bool kn_expression_reads(const kn_expression *expression, const char *name);
/* Evaluates it in double precision; `numbers` are in the order of kn_expression_name. */
double kn_expression_evaluate(const kn_expression *expression, const double *numbers);
/* Prints it as OpenCL C. `type` is the compute type ("float", or "float16" for a vector of 16);
 * `replacements` replace the names, in order (variable names or literals). The result is one parenthesised
 * expression that works for scalars and vectors alike (select instead of ?:, typed literals). */
void kn_expression_print(const kn_expression *expression, const char *type, const char *const *replacements,
                         kn_text *text);
/* Prints a number as a literal of a compute type, for replacements: "0.5f", "(float16)(0.5f)", "INFINITY". */
void kn_expression_literal(double number, const char *type, kn_text *text);

#endif
