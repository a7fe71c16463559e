/* How many registers a work-item may use, for products with many accumulators per work-item. OpenCL does not
 * report it, but drivers report whether a kernel's variables fit: the product is compiled with many
 * accumulators, then with fewer. */
#include <stdio.h>

#include <koine/version.h>

#include "device/device_private.h"

#define PRODUCT(columns) "#define KN_ITEM_M 8\n#define KN_ITEM_N " columns "\n#define KN_VECTOR 4\n"

/* Ways to compile a product, starting with the most accumulators per work-item: `registers` is what a tile
 * must request to get them. A compiler option may give a work-item more registers than usual, to fewer
 * work-items; compilers that do not know the option refuse to compile. */
static const struct {
    int registers;
    const char *prelude, *option;
} ways[] = {{256, PRODUCT("8"), NULL},
            {256, PRODUCT("8") "#define KN_REGISTERS 192\n", "-cl-intel-256-GRF-per-thread"},
            {128, PRODUCT("4"), NULL}};
enum { WAYS = KN_COUNT_OF(ways), NONE_FITS = WAYS + 1, NONE_COMPILES, FEWEST = 64, USUAL = 128 };

typedef enum answer { UNKNOWN, REFUSED, SPILLS, FITS } answer;

/* Whether all variables fit into registers if the product is compiled in this way; REFUSED: it does not
 * compile, UNKNOWN: the driver does not report it, or there was no memory. */
static answer ask(kn_context *context, int way) {
    kn_program_request request = {.file = "matmul/tiled.cl", .prelude = ways[way].prelude};
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {.status = KN_OK};
    uint64_t bytes = 0;
    context->register_option = ways[way].option;
    if (kn_program_get(context, &request, &program, &error))
        return error.status == KN_ERROR_COMPILE || ways[way].option ? REFUSED : UNKNOWN;
    const bool reported = kn_kernel_create(context, program, "kn_matmul", &kernel, &error) == KN_OK &&
                          kn_kernel_private_bytes(kernel, &bytes);
    kn_kernel_destroy(&kernel);
    return !reported ? UNKNOWN : bytes ? SPILLS : FITS;
}

/* Applies a stored result: the index of a way plus 1; NONE_FITS; or NONE_COMPILES. */
static int use(kn_context *context, int number) {
    context->register_option = number <= WAYS ? ways[number - 1].option : NULL;
    return number <= WAYS ? ways[number - 1].registers : number == NONE_FITS ? FEWEST : USUAL;
}

/* From the cache, or determined now; if the driver does not report it, other contexts ask again. A compiler
 * that fails on many accumulators is asked for fewer. */
static int find(kn_context *context) {
    char key[96];
    double known = 0;
    snprintf(key, sizeof key, "registers/%s/%016llx", kn_version_text(),
             (unsigned long long)kn_kernels_hash(context));
    /* 0: a process ended while asking. A precompiling context asks only if the main process shares its
     * programs, which the two must compile for the same number. */
    if (!kn_verdict_prepares(context, key) && kn_verdict_expect(context, key, 1, &known))
        return known >= 1 && known <= NONE_COMPILES ? use(context, (int)known) : USUAL;
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    int number = 0, refused = 0;
    answer last = SPILLS;
    while (number < WAYS && (last == SPILLS || last == REFUSED)) {
        last = ask(context, number++);
        refused += last == REFUSED;
    }
    if (last != FITS) number = refused == WAYS ? NONE_COMPILES : NONE_FITS;
    if (last != UNKNOWN) kn_verdict_put(context, key, number);
    kn_attempt_end(context, &attempt);
    context->register_option = NULL;
    return last == UNKNOWN ? USUAL : use(context, number);
}

int kn_context_item_registers(kn_context *context) {
    int *registers = &context->capabilities.item_registers;
    /* A CPU keeps the variables of many work-items in its caches anyway. */
    if (!*registers)
        *registers = context->described || context->found.info.type == KN_DEVICE_CPU ? USUAL : find(context);
    return *registers;
}
