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
enum { WAYS = KN_COUNT_OF(ways), FEWEST = 64, USUAL = 128 };

/* Whether the product compiles in this way, its kernel can be created, and the driver reports whether all
 * variables fit into registers; *fits: whether they do. */
static bool ask(kn_context *context, int way, bool *fits) {
    kn_program_request request = {.file = "matmul/tiled.cl", .prelude = ways[way].prelude};
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {.status = KN_OK};
    uint64_t bytes = 0;
    context->register_option = ways[way].option;
    bool told = kn_program_get(context, &request, &program, &error) == KN_OK &&
                kn_kernel_create(context, program, "kn_matmul", &kernel, &error) == KN_OK &&
                kn_kernel_private_bytes(kernel, &bytes);
    kn_kernel_destroy(&kernel);
    *fits = told && bytes == 0;
    return told;
}

/* Applies a stored result: the index of a way plus 1; WAYS + 1: none fits. */
static int use(kn_context *context, int number) {
    context->register_option = number <= WAYS ? ways[number - 1].option : NULL;
    return number <= WAYS ? ways[number - 1].registers : FEWEST;
}

/* From the cache, or determined now; if the driver does not report it, other contexts ask again. */
static int find(kn_context *context) {
    char key[96];
    double known = 0;
    snprintf(key, sizeof key, "registers/%s/%016llx", kn_version_text(),
             (unsigned long long)kn_kernels_hash(context));
    /* 0: a process ended while asking. A precompiling context asks only if the main process shares its
     * programs, which the two must compile for the same number. */
    if (!kn_verdict_prepares(context, key) && kn_verdict_expect(context, key, 1, &known))
        return known >= 1 && known <= WAYS + 1 ? use(context, (int)known) : USUAL;
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    bool told = true, fits = false;
    int number = 0;
    while (number < WAYS && told && !fits)
        told = ask(context, number++, &fits) || ways[number - 1].option;
    if (!fits) number = WAYS + 1;
    if (told) kn_verdict_put(context, key, number);
    kn_attempt_end(context, &attempt);
    context->register_option = NULL;
    return told ? use(context, number) : USUAL;
}

int kn_context_item_registers(kn_context *context) {
    int *registers = &context->capabilities.item_registers;
    /* A CPU keeps the variables of many work-items in its caches anyway. */
    if (!*registers)
        *registers = context->described || context->found.info.type == KN_DEVICE_CPU ? USUAL : find(context);
    return *registers;
}
