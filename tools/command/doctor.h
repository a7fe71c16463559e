/* Declarations shared by the files of `koine doctor`. The first half does not need OpenCL; koine-doctor uses
 * only that half. */
#ifndef KOINE_COMMAND_DOCTOR_H
#define KOINE_COMMAND_DOCTOR_H

#include "findings.h"

typedef struct doctor_visit {
    const char *root; /* the root folder for file lookups; "" for this machine */
    findings found;
    bool elsewhere; /* an environment variable sets where drivers are listed */
    bool rusticl;   /* an installed driver lists devices only if the environment names them */
    bool retries;   /* devices use the kernels again that they avoid */
    bool deadly;    /* a driver crashes or blocks every program that queries devices */
    /* For the parts that run in a separate process (doctor_apart.c): */
    unsigned timeout; /* time limit per step in seconds */
    bool apart;       /* the part runs in a separate process */
    bool finished;
    char end[120];    /* how it ended abnormally */
    bool loaded;      /* whether the library was loaded, */
    char reason[600]; /* or why not */
    int device;       /* the entry of the list being tried; -1 before the first */
    char name[600];   /* and the entry's name */
} doctor_visit;

/* Memory shared with processes started from now on; NULL when out of memory. */
doctor_visit *doctor_begin(void);
void doctor_end(doctor_visit *doctor);
typedef void doctor_part(doctor_visit *doctor, const char *about);
/* Runs a part of the visit in a separate process; if it did not complete, returns false with the reason in
 * `end`. */
bool doctor_apart(doctor_visit *doctor, doctor_part *part, const char *about);
/* Called in that process: starts a step that may take `timeout` seconds. */
void doctor_step(const doctor_visit *doctor);
/* Loads a driver's library in a separate process and queries devices: sets `loaded` or `reason`; false as
 * above. */
bool doctor_library(doctor_visit *doctor, const char *path);

/* Checks the loader, the ICD files, the drivers' libraries and the device nodes. */
void doctor_files(doctor_visit *doctor);
/* Checks for drivers that are installed but not listed, and for duplicate copies (doctor_drivers.c). `named`
 * has `count` paths or names of libraries, `files` the ICD files that list them. */
void doctor_drivers(doctor_visit *doctor, char *const *named, char *const *files, int count);
/* The package of a driver's library, and the driver's name; "" if unknown. */
/* Whether two libraries are versions of the same one: equal up to ".so". */
bool doctor_same_driver(const char *left, const char *right);
const char *doctor_package(const char *library);
/* Calls visit once per file for each path of `name` in the library folders. Returns the number of files. */
int doctor_each_library(const doctor_visit *doctor, const char *name,
                        void (*visit)(void *user, const char *path), void *user);
/* Checks the cache folder for compiled kernels (doctor_cache.c, which needs the library). */
void doctor_cache(doctor_visit *doctor);
/* Reports PoCL's cache folder if it is not writable. */
void doctor_cache_pocl(doctor_visit *doctor);
/* ", and multiplies float16 and bfloat16 by the matrix unit mma"; "" without one (doctor_units.c). Tests the
 * units. */
enum { DOCTOR_UNITS = 128 };
struct kn_context;
void doctor_units(struct kn_context *context, char text[DOCTOR_UNITS]);
/* Checks device nodes that the user may not open, and RUSTICL_ENABLE (doctor_nodes.c). */
void doctor_nodes(doctor_visit *doctor);

#endif
