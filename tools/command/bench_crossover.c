/* koine bench-crossover: the size at which each device becomes faster than the others, including
 * transfers. */
#include <math.h>
#include <string.h>

#include "bench_crossover.h"

/* Skips devices that are slower than this at larger sizes. A device must be faster by the margin to replace
 * the previous one. */
static const double longest_seconds = 0.25, margin = 0.05;

static bool open_devices(const common_options *common, kn_device_list *list, cross_devices *devices) {
    for (size_t i = 0; i < kn_device_list_count(list) && devices->count < CROSS_DEVICES; i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        char index[24];
        common_options own = *common;
        if (!info->usable) continue;
        snprintf(index, sizeof index, "%d", info->index);
        own.device = index;
        devices->contexts[devices->count] = context_open(&own);
        if (!devices->contexts[devices->count]) continue;
        devices->infos[devices->count++] = info;
    }
    return devices->count > 0 || command_error("no OpenCL device can be used; run koine doctor for advice");
}

/* The fastest device at a size; the previous one stays unless another is faster by the margin. -1: no
 * measurement. */
static int fastest_of(const double *seconds, int count, int before) {
    int best = -1;
    for (int d = 0; d < count; d++)
        if (isfinite(seconds[d]) && (best < 0 || seconds[d] < seconds[best])) best = d;
    bool stays = before >= 0 && best >= 0 && isfinite(seconds[before]) &&
                 seconds[best] > (1 - margin) * seconds[before];
    return stays ? before : best;
}

/* Alternate the devices at each size, so that background load affects all of them. */
static void measure(const bench_options *options, const cross_devices *devices, int sizes,
                    cross_curve *curve) {
    bool going[CROSS_DEVICES];
    int left = devices->count;
    for (int d = 0; d < devices->count; d++)
        going[d] = true;
    for (int i = 0; i < sizes && left; i++) {
        int before = i ? curve->fastest[i - 1] : -1;
        curve->size[i] = curve->operation->first << i;
        for (int d = 0; d < devices->count; d++) {
            double *seconds = &curve->seconds[i][d];
            *seconds = NAN;
            if (!going[d]) continue;
            progress_now("%s, size %lld, on %s", curve->operation->name, (long long)curve->size[i],
                         devices->infos[d]->name);
            *seconds = cross_measure(devices->contexts[d], curve->operation, curve->size[i],
                                     &options->common.arithmetic, options->seconds, &curve->flops[i]);
            going[d] = *seconds < longest_seconds;
            left -= !going[d];
        }
        curve->fastest[i] = fastest_of(curve->seconds[i], devices->count, before);
        curve->sizes = i + 1;
    }
    progress_clear();
}

/* ---- results --------------------------------------------------------------------------------- */

/* "device 0 up to 64, device 1 from 128 on" */
static void print_ranges(const cross_curve *curve, const cross_devices *devices) {
    const char *before = "";
    for (int i = 0; i < curve->sizes;) {
        int who = curve->fastest[i], end = i;
        while (end + 1 < curve->sizes && curve->fastest[end + 1] == who)
            end++;
        if (who >= 0) {
            printf("%sdevice %d ", *before ? before : "fastest: ", devices->infos[who]->index);
            if (i == 0 && end + 1 == curve->sizes)
                printf("at all sizes");
            else if (i == 0)
                printf("up to %lld", (long long)curve->size[end]);
            else if (end + 1 == curve->sizes)
                printf("from %lld up", (long long)curve->size[i]);
            else if (i == end)
                printf("at %lld", (long long)curve->size[i]);
            else
                printf("from %lld to %lld", (long long)curve->size[i], (long long)curve->size[end]);
            before = ", ";
        }
        i = end + 1;
    }
    puts("\n");
}

static void print_text(const cross_curve *curve, const cross_devices *devices) {
    printf("%s\n%8s", curve->operation->title, "N");
    for (int d = 0; d < devices->count; d++)
        printf("   %4d, ms", devices->infos[d]->index);
    puts("   fastest");
    for (int i = 0; i < curve->sizes; i++) {
        printf("%8lld", (long long)curve->size[i]);
        for (int d = 0; d < devices->count; d++)
            if (isfinite(curve->seconds[i][d]))
                printf("%11.4g", 1e3 * curve->seconds[i][d]);
            else
                printf("%11s", "-");
        if (curve->fastest[i] >= 0) printf("%10d", devices->infos[curve->fastest[i]]->index);
        puts("");
    }
    print_ranges(curve, devices);
}

static void print_json(const cross_curve *curve, const cross_devices *devices, const arithmetic *how) {
    for (int i = 0; i < curve->sizes; i++)
        for (int d = 0; d < devices->count; d++) {
            double seconds = curve->seconds[i][d];
            printf("{\"operation\": \"%s\", \"size\": %lld, \"math\": \"%s\", \"index\": %d, \"device\": ",
                   curve->operation->name, (long long)curve->size[i], how->exact ? "exact" : "fast",
                   devices->infos[d]->index);
            json_text(stdout, devices->infos[d]->name);
            printf(", \"median_ms\": ");
            json_measure(stdout, 1e3 * seconds);
            printf(", \"gflops\": ");
            json_measure(stdout, 1e-9 * curve->flops[i] / seconds);
            printf(", \"fastest\": %s}\n", curve->fastest[i] == d ? "true" : "false");
        }
}

static bool is_wanted(const char *only, const char *name) {
    size_t length = strlen(name);
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && (!at[length] || at[length] == ',')) return true;
    return !only;
}

static int bench(const bench_options *options, const char *only, int sizes, const char *plot) {
    static cross_curve curves[CROSS_OPERATIONS];
    cross_devices devices = {.count = 0};
    int count = 0;
    messages_setup(&options->common);
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    if (!list) return command_fail("out of memory");
    bool fine = open_devices(&options->common, list, &devices);
    if (fine && devices.count == 1) command_info("there is only one device: nothing to compare");
    for (int d = 0; fine && !options->common.json && d < devices.count; d++)
        printf("device %d: %s\n%s", devices.infos[d]->index, devices.infos[d]->name,
               d + 1 == devices.count ? "\n" : "");
    for (int i = 0; fine && i < CROSS_OPERATIONS; i++) {
        if (!is_wanted(only, cross_operations[i].name)) continue;
        cross_curve *curve = &curves[count++];
        curve->operation = &cross_operations[i];
        measure(options, &devices, sizes, curve);
        if (options->common.json)
            print_json(curve, &devices, &options->common.arithmetic);
        else
            print_text(curve, &devices);
        fflush(stdout);
    }
    if (fine && plot) fine = cross_plot(plot, curves, count, &devices);
    for (int d = 0; d < devices.count; d++)
        kn_context_destroy(&devices.contexts[d]);
    kn_device_list_destroy(&list);
    return fine ? EXIT_DONE : EXIT_FAILED;
}

static int check(const char *only, uint64_t sizes) {
    for (const char *at = only; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        bool known = false;
        for (int i = 0; i < CROSS_OPERATIONS; i++) {
            size_t length = strlen(cross_operations[i].name);
            known = known ||
                    (!strncmp(at, cross_operations[i].name, length) && (!at[length] || at[length] == ','));
        }
        if (!known)
            return command_misuse("--operators is '%s'; expected some of matmul, conv2d, train", only);
    }
    if (sizes < 1 || sizes > CROSS_SIZES)
        return command_misuse("--sizes is %llu; expected 1 to %d", (unsigned long long)sizes, CROSS_SIZES);
    return EXIT_DONE;
}

static int run(int count, char **arguments) {
    bench_options options = BENCH_DEFAULTS;
    const char *only = NULL, *plot = NULL;
    uint64_t sizes = 9;
    const option rows[] = {
        HEADING("operations"),
        {"operators", OPTION_TEXT, "A,B", "only these: matmul, conv2d, train", &only},
        {"sizes", OPTION_COUNT, "N", "number of sizes, each twice the previous one (9)", &sizes},
        {"seconds", OPTION_NUMBER, "S", "minimum measuring time per size and device (0.2)", &options.seconds},
        HEADING("output"),
        {"plot", OPTION_TEXT, "FILE", "write the curves as SVG", &plot},
        OVERWRITE_OPTION(options.common),
        HEADING("device"),
        MATH_OPTIONS(options.common),
        KERNEL_OPTIONS(options.common),
        COMMON_OPTIONS(options.common),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_bench_crossover, rows, count, arguments, words, &word_count, 0, &status) ||
        (status = bench_check(&options, 0.2)) != EXIT_DONE || (status = check(only, sizes)) != EXIT_DONE)
        return status;
    if (plot && !path_writable(plot, PATH_WHOLE, options.common.overwrite)) return EXIT_FAILED;
    return bench(&options, only, (int)sizes, plot);
}

const command command_bench_crossover = {
    "bench-crossover",
    "find the sizes at which each device is fastest",
    "[--operators A,B] [--plot FILE] [--OPTION …]",
    "operators sizes seconds plot json",
    "koine bench-crossover --operators matmul --sizes 4\n"
    "koine bench-crossover --operators matmul,train --sizes 3 --plot crossover.svg",
    "Times matrix products, convolutions and training steps of growing sizes on all devices, including\n"
    "uploads and downloads, and prints the sizes at which each device is fastest by at least 5%. A device "
    "is\n"
    "not tried beyond the size that takes a quarter of a second.",
    run};
