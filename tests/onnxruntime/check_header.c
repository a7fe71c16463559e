/* The tables of src/onnxruntime against ONNX Runtime's own header: compiled, never run. */
#include <onnxruntime_c_api.h>

#include <stddef.h>

#define DONE(index, tier, type, name, parameters)                                                            \
    _Static_assert(offsetof(struct OrtApi, name) == (index) * sizeof(void (*)(void)), #name);                \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((struct OrtApi *)0)->name), type(*) parameters), \
                   "type of " #name);
#define OPEN(index, tier, gives, name)                                                                       \
    _Static_assert(offsetof(struct OrtApi, name) == (index) * sizeof(void (*)(void)), #name);
#define CALLED(index, tier, gives, type, name, parameters) DONE(index, tier, type, name, parameters)
#define UNNAMED(index, gives)
#include "onnxruntime/functions.def"

_Static_assert(sizeof(struct OrtApi) == 426 * sizeof(void (*)(void)), "number of functions");
_Static_assert(ORT_API_VERSION == 30, "version");

#define BEGIN(type)
#define VALUE(name, number) _Static_assert((int)(name) == (number), #name);
#define END(type)
#include "onnxruntime/enums.def"

_Static_assert(offsetof(OrtAllocator, Info) == 3 * sizeof(void *), "Info");
_Static_assert(offsetof(OrtAllocator, Reserve) == 4 * sizeof(void *), "Reserve");
_Static_assert(offsetof(OrtAllocator, GetStats) == 5 * sizeof(void *), "GetStats");
_Static_assert(offsetof(OrtAllocator, AllocOnStream) == 6 * sizeof(void *), "AllocOnStream");
_Static_assert(offsetof(OrtAllocator, Shrink) == 7 * sizeof(void *), "Shrink");
