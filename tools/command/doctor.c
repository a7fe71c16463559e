/* koine doctor: finds problems of an OpenCL installation and suggests fixes. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "doctor.h"

/* The minimum that OpenCL requires of a full-profile device. */
enum { ENOUGH_LOCAL_BYTES = 32768, MAX_TIMEOUT = 1000000 };

/* The messages of the library. */
typedef struct remarks {
    char text[800];
} remarks;

static void remember(void *user, kn_log_level level, const char *message) {
    remarks *said = user;
    size_t used = strlen(said->text);
    (void)level;
    snprintf(said->text + used, sizeof said->text - used, "%s%s", used ? "\n" : "", message);
}

/* Compiles and runs relu on the device; on failure gets the reason. */
static bool try_kernel(kn_context *context, char *reason, size_t room) {
    static const float in[4] = {-1, 2, -3, 4};
    float out[4] = {0};
    kn_graph *graph = kn_graph_create(NULL);
    kn_value *x = kn_input(graph, "x", KN_FLOAT32, "4"), *y = kn_apply(graph, "relu", &x, 1, NULL);
    kn_output(y, "y");
    kn_feed feed = {"x", in, sizeof in};
    kn_fetch fetch = {"y", out, sizeof out};
    kn_session_params params;
    kn_session_params_init(&params);
    params.switches = "programs=unsaved"; /* do not use a cached program */
    kn_session *session = kn_session_create(context, &y, 1, &params);
    bool right = kn_session_status(session) == KN_OK && kn_session_run(session, &feed, 1, &fetch, 1) == KN_OK;
    if (!right)
        snprintf(reason, room, "%s", session ? kn_session_error(session) : "out of memory");
    else if (out[0] != 0 || out[1] != 2 || out[2] != 0 || out[3] != 4) {
        snprintf(reason, room, "the kernel ran, but its results are wrong");
        right = false;
    }
    kn_session_destroy(&session);
    kn_graph_destroy(&graph);
    return right;
}

/* The library's words about kernels that the device avoids. */
static const char avoided[] = " is not used for another ";

static void try_device(doctor_visit *doctor, const kn_device_info *info) {
    char place[32], reason[1200], cache[4096];
    remarks said = {""};
    kn_context_params params;
    kn_context_params_init(&params);
    snprintf(place, sizeof place, "%d:%d", info->platform_index, info->device_index);
    params.device = place;
    params.log = (kn_logger){.level = KN_LOG_WARNING, .write = remember, .user = &said};
    /* Set the cache folder: it stores device information even if the driver crashes this process. */
    if (kn_default_cache_folder(getenv("XDG_CACHE_HOME"), getenv("HOME"), cache, sizeof cache) &&
        folder_makable(cache, reason, sizeof reason))
        params.cache_folder = cache;
    kn_context *context = kn_context_create(&params);
    const kn_status status = kn_context_status(context);
    const bool open = status == KN_OK, computes = open && try_kernel(context, reason, sizeof reason);
    const bool compiler_fails = context && status == KN_ERROR_COMPILE;
    if (compiler_fails) snprintf(reason, sizeof reason, "%s", kn_context_error(context));
    char units[DOCTOR_UNITS] = "";
    if (computes) doctor_units(context, units);
    progress_clear();
    if (!open && !compiler_fails) {
        finding_add(&doctor->found, FINDING_PROBLEM, "device", "", "%s (%s) cannot be opened: %s", info->name,
                    info->platform, context ? kn_context_error(context) : "out of memory");
    } else if (!computes) {
        finding_add(&doctor->found, FINDING_PROBLEM, "compiler", "",
                    "%s (%s) does not compile or run a simple kernel; reinstalling its driver may help; "
                    "attach the output of koine verify to a report to its authors: %s",
                    info->name, info->platform, reason);
    } else {
        finding_add(&doctor->found, FINDING_FINE, "device", "", "%s (%s) compiles and computes%s", info->name,
                    info->platform, units);
    }
    if (said.text[0])
        finding_add(&doctor->found, FINDING_HINT, "device",
                    doctor->retries || !strstr(said.text, avoided) ? "" : "koine doctor --retry-avoided",
                    "%s", said.text);
    if (open && doctor->retries && kn_context_clear_avoided(context))
        finding_add(
            &doctor->found, FINDING_FINE, "device", "",
            "%s uses the kernels again that it avoided; if the driver crashes again, they are avoided "
            "again",
            info->name);
    kn_context_destroy(&context);
    if (info->local_bytes < ENOUGH_LOCAL_BYTES)
        finding_add(&doctor->found, FINDING_HINT, "local-memory", "",
                    "%s has %llu bytes of local memory, and OpenCL asks for %d: products, convolutions and "
                    "attention take "
                    "slower kernels; a newer driver may show more",
                    info->name, (unsigned long long)info->local_bytes, ENOUGH_LOCAL_BYTES);
}

static const char pocl[] = "Portable Computing Language";

/* Reports devices that OpenCL lists but that cannot be used. */
static void print_unusable(doctor_visit *doctor, const kn_device_info *info, bool others) {
    const char *fix = "";
    bool device = info->device_index >= 0, platform = info->platform_index >= 0;
    if (!device && platform && !strcmp(info->platform, "rusticl"))
        fix = getenv("RUSTICL_ENABLE") ? "export RUSTICL_ENABLE=llvmpipe" : "";
    else if (!device && platform && strcmp(info->platform, pocl) != 0)
        fix = "sudo usermod -aG render,video \"$USER\"";
    else if (!device && !platform && !info->name[0] && strstr(info->problem, "pocl-opencl-icd"))
        fix = "sudo apt-get install pocl-opencl-icd";
    finding_add(&doctor->found, others || device ? FINDING_HINT : FINDING_PROBLEM,
                device          ? "device"
                : platform      ? "platform"
                : info->name[0] ? "gpu"
                                : "platform",
                fix, "%s%s%s%s%s", info->name, info->name[0] && info->platform[0] ? ", " : "", info->platform,
                info->name[0] || info->platform[0] ? ": " : "", info->problem);
}

/* Tries the entries of the list from doctor->device on. */
static void try_list(doctor_visit *doctor, const char *about) {
    const size_t first = (size_t)doctor->device;
    doctor->device = -1;
    (void)about;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    int usable = 0;
    if (!list) {
        finding_add(&doctor->found, FINDING_PROBLEM, "platform", "", "out of memory");
        return;
    }
    for (size_t i = 0; first == 0 && i < kn_device_list_count(list); i++)
        if (!strcmp(kn_device_list_at(list, i)->platform, pocl)) {
            doctor_cache_pocl(doctor);
            break;
        }
    for (size_t i = 0; i < kn_device_list_count(list); i++)
        usable += kn_device_list_at(list, i)->usable;
    for (size_t i = first; i < kn_device_list_count(list); i++) {
        const kn_device_info *info = kn_device_list_at(list, i);
        if (!info->usable) {
            print_unusable(doctor, info, usable > 0);
            continue;
        }
        doctor->device = (int)i;
        snprintf(doctor->name, sizeof doctor->name, "%s (%s)", info->name, info->platform);
        doctor_step(doctor);
        progress_now("trying %s", info->name);
        try_device(doctor, info);
        for (size_t j = 0; j < i; j++) {
            const kn_device_info *other = kn_device_list_at(list, j);
            if (other->usable && !strcmp(other->name, info->name) &&
                !strcmp(other->platform, info->platform) && other->platform_index != info->platform_index)
                finding_add(&doctor->found, FINDING_HINT, "copies", "",
                            "%s occurs twice, as %d:%d and %d:%d: two copies of its driver are installed",
                            info->name, other->platform_index, other->device_index, info->platform_index,
                            info->device_index);
        }
    }
    kn_device_list_destroy(&list);
}

/* Runs in a separate process and, if a device crashes it, in another one for the remaining devices. */
static void check_opencl(doctor_visit *doctor) {
    doctor_cache(doctor);
    if (doctor->deadly) {
        finding_add(&doctor->found, FINDING_HINT, "device", "",
                    "no device is tried while the failing driver is installed");
        return;
    }
    for (doctor->device = 0; !doctor_apart(doctor, try_list, ""); doctor->device++) {
        progress_now("trying");
        progress_clear();
        if (doctor->device < 0) {
            finding_add(&doctor->found, FINDING_PROBLEM, "platform", "",
                        "a driver fails when OpenCL's devices are listed: %s. So does every program that "
                        "asks for them; the "
                        "environment variable OCL_ICD_VENDORS may name the ICD file of one driver, to find "
                        "out which it is",
                        doctor->end);
            return;
        }
        finding_add(&doctor->found, FINDING_PROBLEM, "device", "",
                    "%s fails while a simple kernel is compiled and run: %s. A newer driver may help; until "
                    "then take another "
                    "device, with --device or KOINE_DEVICE",
                    doctor->name, doctor->end);
    }
}

static int run(int count, char **arguments) {
    const char *root = "";
    uint64_t timeout = 0;
    bool retries = false;
    common_options common = {.device = NULL};
    const option options[] = {
        HEADING("installation"),
        {"root", OPTION_TEXT, "DIR",
         "check the files of a system below this folder, such as an image; tries no device", &root},
        {"timeout", OPTION_COUNT, "S", "seconds that a driver may take per device (120)", &timeout},
        {"retry-avoided", OPTION_FLAG, NULL,
         "use the kernels again that are avoided because a program ended while they were tried", &retries},
        HEADING("messages"),
        JSON_OPTION(common.json),
        QUIET_OPTION(common.quiet),
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_doctor, options, count, arguments, words, &word_count, 0, &status))
        return status;
    progress_setup(&common);
    doctor_visit *doctor = doctor_begin();
    if (!doctor) return command_fail("out of memory");
    doctor->root = root;
    doctor->found.json = common.json;
    doctor->retries = retries;
    if (timeout) doctor->timeout = timeout < MAX_TIMEOUT ? (unsigned)timeout : MAX_TIMEOUT;
    doctor_files(doctor);
    if (!root[0]) check_opencl(doctor);
    if (!common.json)
        printf("%s\n", doctor->found.problems ? "there are problems"
                       : doctor->found.hints  ? "no problems; hints are above"
                                              : "all is well");
    status = doctor->found.problems ? EXIT_FAILED : EXIT_DONE;
    doctor_end(doctor);
    return status;
}

const command command_doctor = {
    "doctor",
    "find and fix problems of the OpenCL installation",
    "[--OPTION …]",
    "root timeout retry-avoided json quiet",
    "koine doctor\n"
    "koine doctor --json",
    "Checks the OpenCL loader, the files that name drivers, the driver libraries and the device nodes, then\n"
    "compiles and runs a kernel on each device. Drivers are queried in a separate process, so that a driver\n"
    "that crashes or hangs is reported as well. Each finding begins with ok, hint or problem and, if one is\n"
    "known, has the command that fixes it. The exit status is 1 if there is a problem. Without an OpenCL\n"
    "loader koine cannot start; use the program koine-doctor then.\n"
    "\n"
    "koine report checks and times a device, and writes a report for an issue.",
    run};
