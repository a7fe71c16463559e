/* How many registers a work-item may use, for products with many sums a work-item. OpenCL does not tell, but
 * drivers tell whether a kernel's variables fit: the product is compiled with more sums, then with fewer. */
#include <stdio.h>

#include <koine/version.h>

#include "device/device_private.h"

/* From the most sums of a work-item to the fewest; `registers` is what a tile must ask for to get them. */
static const struct {
    int registers;
    const char *prelude;
} products[] = {{256, "#define KN_ITEM_M 8\n#define KN_ITEM_N 8\n#define KN_VECTOR 4\n"},
                {128, "#define KN_ITEM_M 8\n#define KN_ITEM_N 4\n#define KN_VECTOR 4\n"}};
enum { PRODUCTS = KN_COUNT_OF(products), FEWEST = 64, USUAL = 128 };

/* Whether the driver tells it, and then whether all variables of product `i` fit into registers. */
static bool ask(kn_context *context, int i, bool *fits) {
    kn_program_request request = {.file = "matmul/tiled.cl", .prelude = products[i].prelude};
    kn_program *program = NULL;
    kn_kernel *kernel = NULL;
    kn_error error = {.status = KN_OK};
    uint64_t bytes = 0;
    bool told = kn_program_get(context, &request, &program, &error) == KN_OK &&
                kn_kernel_create(context, program, "kn_matmul", &kernel, &error) == KN_OK &&
                kn_kernel_private_bytes(kernel, &bytes);
    kn_kernel_destroy(&kernel);
    *fits = bytes == 0;
    return told;
}

int kn_context_item_registers(kn_context *context) {
    if (context->capabilities.item_registers) return context->capabilities.item_registers;
    /* A processor keeps the variables of many work-items in its caches anyway. */
    if (context->described || context->found.info.type == KN_DEVICE_CPU) return USUAL;
    char key[96];
    double registers = 0;
    snprintf(key, sizeof key, "registers/%s/%016llx", kn_version_text(),
             (unsigned long long)kn_kernels_hash(context));
    /* 0: a process ended while it asked; negative: the context with that time could not ask. */
    if (kn_verdict_get(context, key, &registers) && (registers >= 0 || registers == -context->made))
        return registers >= 1 ? (int)registers : USUAL;
    kn_attempt attempt;
    kn_attempt_begin(context, &attempt, key);
    bool told = true, fits = false;
    int i = 0;
    while (i < PRODUCTS && told && !fits) {
        told = ask(context, i, &fits);
        registers = told && fits ? products[i].registers : FEWEST;
        i++;
    }
    kn_verdict_put(context, key, told ? registers : -context->made);
    kn_attempt_end(context, &attempt);
    return told ? (int)registers : USUAL;
}
