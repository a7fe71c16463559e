/* koine doctor: finds problems of an OpenCL installation and suggests fixes. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "doctor.h"
#include "doctor_report.h"

/* OpenCL requires this much of a device with the full profile. */
enum { ENOUGH_LOCAL_BYTES = 32768, MAX_PATIENCE = 1000000 };

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

/* Compiles and runs relu on the device: whether it worked, else why not. */
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
    params.switches = "programs=unsaved"; /* another program than a cached one */
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

static void try_device(doctor_visit *doctor, const kn_device_info *info) {
    char place[32], reason[1200], cache[4096];
    remarks said = {""};
    kn_context_params params;
    kn_context_params_init(&params);
    snprintf(place, sizeof place, "%d:%d", info->platform_index, info->device_index);
    params.device = place;
    params.log = (kn_logger){.level = KN_LOG_WARNING, .write = remember, .user = &said};
    /* What is known about the device is in the cache, and others should know if this process ends here. */
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
        finding_tell(&doctor->found, FINDING_PROBLEM, "device", "", "%s (%s) cannot be opened: %s",
                     info->name, info->platform, context ? kn_context_error(context) : "out of memory");
    } else if (!computes) {
        finding_tell(&doctor->found, FINDING_PROBLEM, "compiler", "",
                     "%s (%s) does not compile or run a simple kernel; reinstalling its driver may help, and "
                     "koine verify "
                     "makes a report for its authors: %s",
                     info->name, info->platform, reason);
    } else {
        finding_tell(&doctor->found, FINDING_FINE, "device", "", "%s (%s) compiles and computes%s",
                     info->name, info->platform, units);
    }
    if (said.text[0]) finding_tell(&doctor->found, FINDING_HINT, "device", "", "%s", said.text);
    kn_context_destroy(&context);
    if (info->local_bytes < ENOUGH_LOCAL_BYTES)
        finding_tell(&doctor->found, FINDING_HINT, "local-memory", "",
                     "%s has %llu bytes of local memory, and OpenCL asks for %d: products, convolutions and "
                     "attention take "
                     "slower kernels; a newer driver may show more",
                     info->name, (unsigned long long)info->local_bytes, ENOUGH_LOCAL_BYTES);
}

static const char pocl[] = "Portable Computing Language";

/* Reports what OpenCL shows but cannot be used. */
static void tell_unusable(doctor_visit *doctor, const kn_device_info *info, bool others) {
    const char *mend = "";
    bool device = info->device_index >= 0, platform = info->platform_index >= 0;
    if (!device && platform && !strcmp(info->platform, "rusticl"))
        mend = getenv("RUSTICL_ENABLE") ? "export RUSTICL_ENABLE=llvmpipe" : "";
    else if (!device && platform && strcmp(info->platform, pocl) != 0)
        mend = "sudo usermod -aG render,video \"$USER\"";
    else if (!device && !platform && !info->name[0] && strstr(info->problem, "pocl-opencl-icd"))
        mend = "sudo apt-get install pocl-opencl-icd";
    finding_tell(&doctor->found, others || device ? FINDING_HINT : FINDING_PROBLEM,
                 device          ? "device"
                 : platform      ? "platform"
                 : info->name[0] ? "gpu"
                                 : "platform",
                 mend, "%s%s%s%s%s", info->name, info->name[0] && info->platform[0] ? ", " : "",
                 info->platform, info->name[0] || info->platform[0] ? ": " : "", info->problem);
}

/* Tries the entries of the list from doctor->device on. */
static void try_list(doctor_visit *doctor, const char *about) {
    const size_t first = (size_t)doctor->device;
    doctor->device = -1;
    (void)about;
    kn_device_list *list = kn_device_list_create(NULL, NULL);
    int usable = 0;
    if (!list) {
        finding_tell(&doctor->found, FINDING_PROBLEM, "platform", "", "out of memory");
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
            tell_unusable(doctor, info, usable > 0);
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
                finding_tell(&doctor->found, FINDING_HINT, "copies", "",
                             "%s occurs twice, as %d:%d and %d:%d: two copies of its driver are installed",
                             info->name, other->platform_index, other->device_index, info->platform_index,
                             info->device_index);
        }
    }
    kn_device_list_destroy(&list);
}

/* Runs in another process and, if a device ends that, in another one for the remaining devices. */
static void check_opencl(doctor_visit *doctor) {
    doctor_cache(doctor);
    if (doctor->deadly) {
        finding_tell(&doctor->found, FINDING_HINT, "device", "",
                     "no device is tried as long as the driver that fails is asked as well");
        return;
    }
    for (doctor->device = 0; !doctor_apart(doctor, try_list, ""); doctor->device++) {
        progress_now("trying");
        progress_clear();
        if (doctor->device < 0) {
            finding_tell(&doctor->found, FINDING_PROBLEM, "platform", "",
                         "a driver fails when OpenCL's devices are listed: %s. So does every program that "
                         "asks for them; the "
                         "environment variable OCL_ICD_VENDORS may name the ICD file of one driver, to find "
                         "out which it is",
                         doctor->end);
            return;
        }
        finding_tell(&doctor->found, FINDING_PROBLEM, "device", "",
                     "%s fails while a simple kernel is compiled and run: %s. A newer driver may help; until "
                     "then take another "
                     "device, with --device or KOINE_DEVICE",
                     doctor->name, doctor->end);
    }
}

static int run_report(report_options *report, const char *device, uint64_t patience, const char *path) {
    if (path) return report_read(path);
    const char *wish = getenv("KOINE_DEVICE");
    report->patience = (double)patience;
    report->device = device ? device : wish && *wish ? wish : "gpu";
    if (!(report->minutes > 0 && report->minutes <= 1e6))
        return command_misuse("--minutes is %g; expected a number above 0", report->minutes);
    if (!path_writable(report->path, PATH_STREAM, true)) return EXIT_FAILED;
    return report_write(report);
}

static int run(int count, char **arguments) {
    report_options report = {.path = "koine-report.txt", .minutes = 10};
    const char *read = NULL;
    bool gpu = false;
    const char *root = "";
    uint64_t patience = 0;
    common_options common = {.device = NULL};
    const option options[] = {
        HEADING("report"),
        {"gpu", OPTION_FLAG, NULL, "check and time a device, and write a report to mail", &gpu},
        {"device", OPTION_TEXT, "DEVICE",
         "of the report: as for other commands (else KOINE_DEVICE, else gpu)", &common.device},
        {"minutes", OPTION_NUMBER, "N",
         "when it ends at the latest (10); the next start continues with what is left out", &report.minutes},
        {"only", OPTION_TEXT, "A,B", "only stages with one of these words, such as matmul,lenet",
         &report.only},
        {"output", OPTION_TEXT, "FILE", "where it is written (koine-report.txt), or added to", &report.path},
        OVERWRITE_OPTION(report),
        {"read", OPTION_TEXT, "FILE", "print the results of a report, with what was predicted for its device",
         &read},
        HEADING("installation"),
        {"root", OPTION_TEXT, "DIR",
         "look at the files of a system below this folder, such as an image; tries no device", &root},
        {"patience", OPTION_COUNT, "SECONDS",
         "how long a driver may take for each device (120), or stage of a report (60; 150 to time a network)",
         &patience},
        {"json", OPTION_FLAG, NULL, "results as JSON objects, one a line, for programs", &common.json},
        {"quiet", OPTION_FLAG, NULL, "no progress, only results and errors", &common.quiet},
        {.name = NULL}};
    const char *words[1];
    int word_count, status;
    if (!options_read(&command_doctor, options, count, arguments, words, &word_count, 0, &status))
        return status;
    progress_setup(&common);
    if (!gpu && (common.device || report.only || report.overwrite))
        return command_misuse("--device, --only and --overwrite are of a report: give --gpu as well");
    if (gpu || read) return run_report(&report, common.device, patience, read);
    doctor_visit *doctor = doctor_begin();
    if (!doctor) return command_fail("out of memory");
    doctor->root = root;
    doctor->found.json = common.json;
    if (patience) doctor->patience = patience < MAX_PATIENCE ? (unsigned)patience : MAX_PATIENCE;
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
    "doctor", "find problems of the OpenCL installation, and fixes", "[--OPTION …]",
    "Looks at the loader, at the files that name drivers, at the drivers' libraries and at the device\n"
    "nodes, then compiles and runs a kernel on each device. Drivers are asked in another process, so that\n"
    "one that ends the program or never returns is reported as well. Each finding begins with ok, hint or\n"
    "problem and, if one is known, has the command that fixes it. The status is 1 if there is a problem.\n"
    "Without an OpenCL loader koine cannot start; use the program koine-doctor then.\n"
    "\n"
    "--gpu takes one device, checks every operator on it and times networks, each in a separate process: "
    "one\n"
    "that crashes or hangs does not stop the others, and if it stops the machine, the same command "
    "continues\n"
    "after it. The report is text without names of files or users. Measurements from GPUs are wanted: "
    "please\n"
    "attach it to an issue.\n"
    "\n"
    "  koine doctor\n"
    "  koine doctor --json\n"
    "  koine doctor --gpu\n"
    "  koine doctor --read koine-report.txt",
    run};
