/* Pointwise work on each result before it is stored; by default there is none.
 *   KN_EPILOGUE_PARAMETERS
 *                   its operands, at the end of a kernel's parameters
 *   KN_EPILOGUE(v, outer, middle, inner)
 *                   applied to one result, by its position
 *   KN_EPILOGUE_4(v, outer, middle, inner)
 *                   in the plain layout: applied to four results along the inner axis, by the position of the first,
 *                   which is a multiple of 4, as is the size of the axis
 *   KN_EPILOGUE_VECTOR(v, outer, middle, inner)
 *                   applied to a vector of results, by the position of the first
 *   KN_EPILOGUE_PREFETCH(outer, middle, inner)
 *                   prefetches what it reads for a vector of results
 * Kernels that can store a result in 8 bits, which the epilogue makes a whole number, have for that
 *   KN_RESULT_T     the type of the stored results: float, uchar or char
 *   KN_AS_RESULT(v) converts one, which wraps around; KN_STORE_RESULTS(v, p) of common/vector.cl stores a vector */
#ifndef KN_EPILOGUE_CL
#define KN_EPILOGUE_CL
#include "common/storage.cl"
#ifndef KN_EPILOGUE_PARAMETERS
#define KN_EPILOGUE_PARAMETERS
#endif
#ifndef KN_EPILOGUE
#define KN_EPILOGUE(v, outer, middle, inner) (v)
#endif
#ifndef KN_EPILOGUE_4
#define KN_EPILOGUE_4(v, outer, middle, inner) (v)
#endif
#ifndef KN_EPILOGUE_VECTOR
#define KN_EPILOGUE_VECTOR(v, outer, middle, inner) (v)
#endif
#ifndef KN_EPILOGUE_PREFETCH
#define KN_EPILOGUE_PREFETCH(outer, middle, inner)
#endif
#ifndef KN_RESULT_T
#define KN_RESULT_T float
#endif
#define KN_AS_RESULT(v) KN_PASTE(KN_AS_RESULT_, KN_RESULT_T)(v)
#define KN_AS_RESULT_float(v) (v)
#define KN_AS_RESULT_uchar(v) ((uchar)(int)(v))
#define KN_AS_RESULT_char(v) ((char)(int)(v))
#endif
