/* koine devices: lists the devices, and why some are not usable. */
#include <math.h>
#include <stdlib.h>

#include "command.h"

static const char *const types[] = {"CPU", "GPU", "accelerator"};

/* The measurements of --measure on the selected device. */
typedef struct measured {
    kn_limits limits;
    kn_transfers transfers;
} measured;

static void measured_json(const measured *found) {
    const struct {
        const char *name;
        double number;
    } rows[] = {{"gflops", found->limits.gflops},
                {"gb_s", found->limits.gbytes},
                {"upload_gb_s", found->transfers.upload_gbytes},
                {"download_gb_s", found->transfers.download_gbytes},
                {"launch_us", 1e6 * found->transfers.launch_seconds}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        printf(", \"%s\": ", rows[i].name);
        json_measure(stdout, rows[i].number > 0 ? rows[i].number : NAN);
    }
}

static void measured_text(const measured *found) {
    printf("      measured: %.0f GFLOP/s, memory %.1f GB/s, to the device %.1f GB/s, from it %.1f GB/s, a "
           "launch "
           "%.1f us\n",
           found->limits.gflops, found->limits.gbytes, found->transfers.upload_gbytes,
           found->transfers.download_gbytes, 1e6 * found->transfers.launch_seconds);
}

static void print_json(const kn_device_list *list, const kn_context *context, const measured *found) {
    const kn_device_info *chosen = context ? kn_context_device(context) : NULL;
    for (size_t i = 0; i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        printf("{\"index\": %d, \"platform_index\": %d, \"device_index\": %d, \"name\": ", info->index,
               info->platform_index, info->device_index);
        json_text(stdout, info->name);
        json_text_member(stdout, "type", types[info->type]);
        json_text_member(stdout, "platform", info->platform);
        json_text_member(stdout, "version", info->version);
        json_text_member(stdout, "driver", info->driver);
        printf(", \"usable\": %s, \"problem\": ", info->usable ? "true" : "false");
        json_text(stdout, info->problem);
        json_text_member(stdout, "identity", info->identity);
        printf(", \"compute_units\": %d, \"memory_bytes\": %llu, \"largest_block_bytes\": %llu, "
               "\"local_bytes\": %llu, \"shares_memory\": %s, \"embedded\": %s, "
               "\"chosen\": %s",
               info->compute_units, (unsigned long long)info->memory_bytes,
               (unsigned long long)info->largest_block_bytes, (unsigned long long)info->local_bytes,
               info->shares_memory ? "true" : "false", info->embedded ? "true" : "false",
               chosen && info->index == chosen->index ? "true" : "false");
        if (found && chosen && info->index == chosen->index) measured_json(found);
        puts("}");
    }
}

static void print_chosen(const kn_context *context) {
    const kn_capabilities *can = kn_context_capabilities(context);
    printf("      %s kernels, vectors of %d floats, double %s, integer dot products %s\n",
           can->wide_vector ? "CPU" : "GPU", can->vector_width,
           can->double_precision ? "yes"
           : can->double_claimed ? "claimed, but not computed correctly"
                                 : "no",
           can->integer_dot           ? "yes"
           : can->integer_dot_claimed ? "claimed, but not computed correctly"
                                      : "no");
}

static void print_text(const kn_device_list *list, const kn_context *context, bool asked,
                       const measured *found) {
    const kn_device_info *chosen = context ? kn_context_device(context) : NULL;
    for (size_t i = 0; i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        char memory[32];
        if (!info->usable) {
            bool named = info->name[0] || info->platform[0];
            printf("-     %s%s%s%s%s\n", info->name, info->name[0] && info->platform[0] ? ", " : "",
                   info->platform, named ? ": cannot be used\n      " : "", info->problem);
            continue;
        }
        bool taken = chosen && chosen->index == info->index;
        printf("%-5d %s %s, %d units, %s of memory%s\n", info->index, types[info->type], info->name,
               info->compute_units, bytes_text((double)info->memory_bytes, memory, sizeof memory),
               !taken  ? ""
               : asked ? "   <- selected, as requested"
                       : "   <- selected by default");
        printf("      %d:%d %s, %s%s\n", info->platform_index, info->device_index, info->platform,
               info->version, info->embedded ? ", embedded profile" : "");
        if (taken) print_chosen(context);
        if (taken && found) measured_text(found);
    }
}

static int run(int count, char **arguments) {
    common_options common = {.device = NULL};
    bool measure = false;
    measured found = {{.size = sizeof found.limits}, {.size = sizeof found.transfers}};
    const option options[] = {HEADING("device"),
                              {"measure", OPTION_FLAG, NULL,
                               "measure the selected device: arithmetic, memory, transfers, launches",
                               &measure},
                              COMMON_OPTIONS(common),
                              {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_devices, options, count, arguments, words, &word_count, 0, &status))
        return status;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    if (!list) return command_fail("out of memory");
    int usable = 0, platforms = 0;
    const char *wish = getenv("KOINE_DEVICE");
    for (size_t i = 0; i < kn_device_list_count(list); i++)
        usable += kn_device_list_at(list, i)->usable,
            platforms += kn_device_list_at(list, i)->platform_index >= 0;
    kn_context *context = usable ? context_open(&common) : NULL;
    if (measure && context) {
        progress_now("measuring");
        kn_context_measure_limits(context, true, &found.limits);
        kn_context_measure_transfers(context, &found.transfers);
    }
    progress_clear();
    if (common.json)
        print_json(list, context, measure ? &found : NULL);
    else
        print_text(list, context, (common.device || (wish && *wish)) && !device_is_auto(&common),
                   measure ? &found : NULL);
    status = context ? EXIT_DONE : EXIT_FAILED;
    if (!usable)
        command_fail(
            "no OpenCL device can be used; run koine doctor for advice%s",
            platforms
                ? ""
                : ". On a machine without a GPU, PoCL provides the processor as a device: apt-get install "
                  "pocl-opencl-icd, or your system's package of that name");
    kn_context_destroy(&context);
    kn_device_list_destroy(&list);
    return status;
}

const command command_devices = {
    "devices",
    "list the OpenCL devices of this machine",
    "[--OPTION …]",
    "device measure json",
    "koine devices\n"
    "koine devices --device cpu\n"
    "koine devices --measure",
    "Lists every OpenCL device, whether it is usable, and why not. --device takes the number in front, or\n"
    "0:1 (platform and device), gpu, cpu, or part of a name. The default is the device with the fastest\n"
    "short matrix product.",
    run};
