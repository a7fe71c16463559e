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
 *                   prefetches what it reads for a vector of results */
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
#endif
