/* Matrix units: finds the unit that multiplies tiles of 16-bit floats, of TF32, or of 8-bit integers on this
 * device. A compiler reports which instructions it supports; a unit is used once it has multiplied a tile
 * correctly, with the code of the product's kernel. */
#include <stdio.h>
#include <string.h>

#include <koine/version.h>

#include "device/device_private.h"

/* As in cl/probe/matrix.cl. */
enum { ROWS = 64, COLUMNS = 32, DEPTH = 32 };

static const char emulated[] = "emulated-";

/* The types in which units multiply, in the order of a context's matrix_units. */
enum { FLOAT16, BFLOAT16, TF32, INT8 };
static const struct {
    kn_dtype type;
    const char *name;
    int numbers;      /* KN_FORMAT of cl/common/fragment.cl */
    uint32_t bits[4]; /* encodings of 0, 1, 2 and 3 */
    uint32_t sign;
} types[KN_MATRIX_TYPES] = {
    [FLOAT16] = {KN_FLOAT16, "float16", 1, {0, 0x3c00, 0x4000, 0x4200}, 0x8000},
    [BFLOAT16] = {KN_BFLOAT16, "bfloat16", 2, {0, 0x3f80, 0x4000, 0x4040}, 0x8000},
    [TF32] = {KN_FLOAT32, "tf32", 3, {0, 0x3f800000, 0x40000000, 0x40400000}, 0x80000000},
    [INT8] = {KN_INT8, "int8", 5, {0}, 0}};

enum { USUAL = 1 << FLOAT16 | 1 << BFLOAT16 | 1 << INT8 };
static const struct {
    const char *name;
    int types; /* one bit per type */
} units[KN_MATRIX_UNIT_LAST + 1] = {
    [KN_MATRIX_UNIT_NONE] = {"none", USUAL},        [KN_MATRIX_UNIT_MMA] = {"mma", USUAL | 1 << TF32},
    [KN_MATRIX_UNIT_WMMA] = {"wmma", USUAL},        [KN_MATRIX_UNIT_WMMA12] = {"wmma12", USUAL},
    [KN_MATRIX_UNIT_MFMA] = {"mfma", USUAL},        [KN_MATRIX_UNIT_DPAS8] = {"dpas8", USUAL},
    [KN_MATRIX_UNIT_DPAS16] = {"dpas16", USUAL},    [KN_MATRIX_UNIT_AMX] = {"amx", 1 << BFLOAT16},
    [KN_MATRIX_UNIT_MMA8] = {"mma8", 1 << FLOAT16},
};

static bool has_type(int unit, int type) {
    return units[unit].types >> type & 1;
}

/* Whether the context's kernels can use the unit, and this process, if it belongs to the CPU. */
static bool is_usable(const kn_context *context, int unit) {
    if (unit == KN_MATRIX_UNIT_AMX) return context->capabilities.wide_vector && kn_tiles_allowed();
    return !context->capabilities.wide_vector;
}

const char *kn_matrix_unit_name(kn_matrix_unit unit) {
    return unit >= 0 && unit <= KN_MATRIX_UNIT_LAST ? units[unit].name : "unknown";
}

kn_status kn_context_force_matrix_unit(kn_context *context, const char *word, kn_error *error) {
    if (!word || !word[0]) return KN_OK;
    const bool emulates = !strncmp(word, emulated, strlen(emulated));
    const char *name = emulates ? word + strlen(emulated) : word;
    int unit = emulates ? 1 : 0;
    while (unit <= KN_MATRIX_UNIT_LAST && strcmp(name, units[unit].name) != 0)
        unit++;
    if (unit > KN_MATRIX_UNIT_LAST)
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "matrix_unit is '%.40s'; expected none, mma, wmma, wmma12, mfma, dpas8, dpas16, amx or mma8, or "
            "any of these except none after 'emulated-'",
            word);
    context->matrix_emulated = emulates;
    if (unit && !emulates) context->matrix_only = (kn_matrix_unit)unit;
    for (int type = 0; type < KN_MATRIX_TYPES; type++) {
        context->matrix_units[type] = has_type(unit, type) ? (kn_matrix_unit)unit : KN_MATRIX_UNIT_NONE;
        context->matrix_known[type] = !context->matrix_only;
    }
    return KN_OK;
}

/* ---- trying ------------------------------------------------------------------------------------------- */

/* How a type is tried: for 8-bit integers, which sides are signed, with all values in range. */
typedef struct numbers_tried {
    int type;
    bool left_signed, right_signed;
} numbers_tried;

static int of_byte(int number, bool is_signed) {
    const int byte = number & 0xff;
    return is_signed && byte > 127 ? byte - 256 : byte;
}

/* Integers for which every sum is exact. */
static int left_value(const numbers_tried *trial, int row, int k) {
    if (trial->type == INT8) return of_byte(row * 37 + k * 101 + row * k, trial->left_signed);
    return (row * 5 + k * 3 + row * k) % 7 - 3;
}
static int right_value(const numbers_tried *trial, int k, int column) {
    if (trial->type == INT8) return of_byte(k * 59 + column * 83 + column * k, trial->right_signed);
    return (k * 4 + column * 3 + column * k) % 5 - 2;
}
/* Stores an integer as element `at` of an array; it is small except for 8-bit integers. */
static void put(void *array, int at, int number, int type) {
    if (type == INT8) {
        ((uint8_t *)array)[at] = (uint8_t)number;
        return;
    }
    const uint32_t bits =
        types[type].bits[number < 0 ? -number : number] | (number < 0 ? types[type].sign : 0);
    if (types[type].sign >> 31)
        ((uint32_t *)array)[at] = bits;
    else
        ((uint16_t *)array)[at] = (uint16_t)bits;
}

/* Whether the unit multiplies correctly; an error reports why it could not be tried. */
static bool is_right(kn_context *context, kn_matrix_unit unit, const numbers_tried *trial, kn_error *error) {
    enum { NUMBERS = (ROWS + COLUMNS) * DEPTH };
    const int type = trial->type, depth = type == INT8 ? 2 * DEPTH : DEPTH;
    uint32_t input[NUMBERS] = {0};
    float output[ROWS * COLUMNS];
    char prelude[128];
    const bool tiles = unit == KN_MATRIX_UNIT_AMX;
    snprintf(prelude, sizeof prelude,
             "#define KN_FRAGMENT %d\n#define KN_FORMAT %d\n#define KN_SIGNED_A %d\n#define KN_SIGNED_B %d\n",
             (int)unit, types[type].numbers, trial->left_signed, trial->right_signed);
    const kn_probe task = {.name = "matrix unit",
                           .file = tiles ? "probe/amx.cl" : "probe/matrix.cl",
                           .kernel = tiles ? "kn_probe_amx" : "kn_probe_matrix",
                           .prelude = prelude,
                           .input = input,
                           .input_bytes = sizeof input,
                           .output = output,
                           .output_bytes = sizeof output,
                           .local = tiles ? 1 : KN_PROBE_ITEMS};
    for (int k = 0; k < depth; k++) {
        for (int row = 0; row < ROWS; row++)
            put(input, row * depth + k, left_value(trial, row, k), type);
        for (int column = 0; column < COLUMNS; column++)
            put(input, (ROWS + column) * depth + k, right_value(trial, k, column), type);
    }
    if (kn_probe_run(context, &task, error)) return false;
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++) {
            int sum = 0;
            for (int k = 0; k < depth; k++)
                sum += left_value(trial, row, k) * right_value(trial, k, column);
            if (output[row * COLUMNS + column] != (float)sum)
                return kn_fail(error, KN_ERROR_MISMATCH, "a probe kernel gave wrong results") == KN_OK;
        }
    return true;
}

/* is_right for a type; for 8-bit integers, in every combination of signs that kernels use. */
static bool multiplies(kn_context *context, kn_matrix_unit unit, int type, kn_error *error) {
    const numbers_tried all[] = {
        {type, true, true}, {type, false, true}, {type, true, false}, {type, false, false}};
    const int count = type == INT8 && unit != KN_MATRIX_UNIT_MFMA ? 4 : 1;
    for (int i = 0; i < count; i++)
        if (!is_right(context, unit, &all[i], error)) return false;
    return true;
}

/* The unit of an NVIDIA GPU by its compute capability, about which the compiler's feature tests say nothing:
 * instructions of KN_MATRIX_UNIT_MMA need 8.0, those of KN_MATRIX_UNIT_MMA8 7.5. */
static kn_matrix_unit unit_of_nvidia(const kn_context *context) {
    enum { MAJOR = 0x4000, MINOR = 0x4001 }; /* cl_nv_device_attribute_query */
    const cl_device_id device = context->found.device;
    cl_uint major = 0, minor = 0;
    if (!kn_device_claims(device, "cl_nv_device_attribute_query") ||
        clGetDeviceInfo(device, MAJOR, sizeof major, &major, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(device, MINOR, sizeof minor, &minor, NULL) != CL_SUCCESS || major >= 8)
        return KN_MATRIX_UNIT_MMA;
    return major == 7 && minor >= 5 ? KN_MATRIX_UNIT_MMA8 : KN_MATRIX_UNIT_NONE;
}

/* One bit per unit that the compiler claims to support. Of the two units for Intel's sub-groups, it is the
 * one for the smallest sub-groups of the device. */
static uint32_t claims_of(kn_context *context, kn_error *error) {
    enum { SUB_GROUP_SIZES = 0x4108 };
    uint16_t input[2] = {0, 0};
    uint32_t claims = 0;
    size_t sizes[16] = {0}, bytes = 0, least = 0;
    const kn_probe task = {.name = "matrix units",
                           .file = "probe/matrix.cl",
                           .kernel = "kn_probe_claims",
                           .prelude = "",
                           .input = input,
                           .input_bytes = sizeof input,
                           .output = &claims,
                           .output_bytes = sizeof claims,
                           .local = 1};
    if (kn_probe_run(context, &task, error)) return 0;
    if (claims >> KN_MATRIX_UNIT_MMA & 1)
        claims = (claims & ~(1u << KN_MATRIX_UNIT_MMA)) | (1u << unit_of_nvidia(context) & ~1u);
    const uint32_t both = 1u << KN_MATRIX_UNIT_DPAS8 | 1u << KN_MATRIX_UNIT_DPAS16;
    if (!(claims & both)) return claims;
    if (clGetDeviceInfo(context->found.device, SUB_GROUP_SIZES, sizeof sizes, sizes, &bytes) == CL_SUCCESS)
        for (size_t i = 0; i < bytes / sizeof *sizes; i++)
            if (!least || sizes[i] < least) least = sizes[i];
    const uint32_t kept = least == 8    ? 1u << KN_MATRIX_UNIT_DPAS8
                          : least == 16 ? 1u << KN_MATRIX_UNIT_DPAS16
                                        : 0;
    return (claims & ~both) | kept;
}

/* *final: whether the answer is final. */
static kn_matrix_unit try_all(kn_context *context, int type, bool *final) {
    kn_error error = {.status = KN_OK};
    const uint32_t claims = claims_of(context, &error);
    *final = error.status != KN_ERROR_MEMORY;
    for (int unit = 1; unit <= KN_MATRIX_UNIT_LAST; unit++) {
        if (!(claims >> unit & 1) || !has_type(unit, type) || !is_usable(context, unit) ||
            (context->matrix_only && (int)context->matrix_only != unit))
            continue;
        if (context->trust_claims || multiplies(context, (kn_matrix_unit)unit, type, &error))
            return (kn_matrix_unit)unit;
        *final = *final && error.status != KN_ERROR_MEMORY;
        kn_log_write(&context->host, KN_LOG_WARNING, "%s claims matrix unit %s, which is not used for %s: %s",
                     context->found.info.name, units[unit].name, types[type].name, error.text);
        error = (kn_error){.status = KN_OK};
    }
    return KN_MATRIX_UNIT_NONE;
}

/* The key under which the unit for a type is stored. */
static void name_key(const kn_context *context, int type, char key[128]) {
    snprintf(key, 128, "matrix_unit/%s%s/%s/%016llx", types[type].name,
             context->trust_claims ? "-claimed" : "", kn_version_text(),
             (unsigned long long)kn_kernels_hash(context));
}

static kn_matrix_unit unit_of(double stored) {
    return stored >= 1 && stored <= KN_MATRIX_UNIT_LAST ? (kn_matrix_unit)stored : KN_MATRIX_UNIT_NONE;
}

bool kn_matrix_unit_stored(const kn_context *context, const kn_verdicts *verdicts, kn_matrix_unit *unit) {
    *unit = KN_MATRIX_UNIT_NONE;
    for (int type = FLOAT16; type <= BFLOAT16 && !*unit; type++) {
        char key[128];
        double stored = 0;
        name_key(context, type, key);
        if (!kn_verdicts_get(verdicts, key, &stored) && !kn_verdicts_deadly(verdicts, key)) return false;
        *unit = unit_of(stored);
    }
    return true;
}

/* From the cache, or by trial. */
static kn_matrix_unit find(kn_context *context, int type) {
    char key[128];
    double known = 0;
    name_key(context, type, key);
    if (!context->matrix_only && !kn_verdict_prepares(context, key) &&
        kn_verdict_expect(context, key, 0, &known))
        return unit_of(known);
    kn_attempt attempt;
    bool final = false;
    kn_attempt_begin(context, &attempt, key);
    const kn_matrix_unit unit = try_all(context, type, &final);
    if (final && !context->matrix_only) kn_verdict_put(context, key, unit);
    kn_attempt_end(context, &attempt);
    return unit;
}

/* Determines the unit by asking the device, except for a CPU that may not answer yet, so that later processes
 * ask again. */
static kn_matrix_unit ask(kn_context *context, int type) {
    const bool tiles = is_usable(context, KN_MATRIX_UNIT_AMX);
    if (context->described)
        return has_type(context->matrix_stated, type) ? context->matrix_stated : KN_MATRIX_UNIT_NONE;
    return tiles != context->capabilities.wide_vector || (tiles && !has_type(KN_MATRIX_UNIT_AMX, type))
               ? KN_MATRIX_UNIT_NONE
               : find(context, type);
}

kn_matrix_unit kn_context_matrix_unit_for(kn_context *context, kn_dtype type) {
    int which = 0;
    while (which < KN_MATRIX_TYPES && types[which].type != type)
        which++;
    if (!context || context->failure.status || which == KN_MATRIX_TYPES) return KN_MATRIX_UNIT_NONE;
    if (!context->matrix_known[which]) context->matrix_units[which] = ask(context, which);
    context->matrix_known[which] = true;
    const kn_matrix_unit unit = context->matrix_units[which];
    return (unit == KN_MATRIX_UNIT_AMX) == context->capabilities.wide_vector ? unit : KN_MATRIX_UNIT_NONE;
}

kn_matrix_unit kn_context_matrix_unit(kn_context *context, kn_precision precision) {
    switch (precision) {
    case KN_PRECISION_FLOAT16:
        return kn_context_matrix_unit_for(context, KN_FLOAT16);
    case KN_PRECISION_BFLOAT16:
        return kn_context_matrix_unit_for(context, KN_BFLOAT16);
    case KN_PRECISION_TF32:
        return kn_context_matrix_unit_for(context, KN_FLOAT32);
    default:
        return KN_MATRIX_UNIT_NONE;
    }
}

void kn_context_tell_tf32(kn_context *context) {
    if (context->reported_tf32 || kn_context_matrix_unit(context, KN_PRECISION_TF32)) return;
    context->reported_tf32 = true;
    kn_log_write(&context->host, KN_LOG_WARNING,
                 "%s has no matrix unit for tf32: products and convolutions are computed in float32",
                 context->found.info.name);
}

bool kn_context_emulates_matrix_unit(const kn_context *context) {
    return context->matrix_emulated;
}
