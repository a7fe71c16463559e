/* Declarations shared by the files of `koine doctor`. The first half needs no OpenCL; koine-doctor consists
 * of it alone. */
#ifndef KOINE_COMMAND_DOCTOR_H
#define KOINE_COMMAND_DOCTOR_H

#include "findings.h"

typedef struct doctor_visit {
    const char *root; /* files are looked up below this folder; "" for this machine */
    findings found;
    bool elsewhere; /* the environment says where drivers are listed */
    bool rusticl;   /* a driver that shows devices only if the environment names them is installed */
    bool deadly;    /* a driver ends or blocks each program that asks for devices */
    /* Of what runs in a separate process (doctor_apart.c): */
    unsigned timeout; /* seconds that a driver has for one step */
    bool apart;       /* the part runs in a separate process */
    bool finished;
    char end[120];    /* how it ended abnormally */
    bool loaded;      /* whether the library was loaded, */
    char reason[600]; /* or why not */
    int device;       /* the entry of the list being tried; -1 before the first */
    char name[600];   /* and its name */
} doctor_visit;

/* Memory shared with processes started from here on; NULL when out of memory. */
doctor_visit *doctor_begin(void);
void doctor_end(doctor_visit *doctor);
typedef void doctor_part(doctor_visit *doctor, const char *about);
/* Runs a part of the visit in another process; false if it did not complete, with the reason in `end`. */
bool doctor_apart(doctor_visit *doctor, doctor_part *part, const char *about);
/* Called in that process: a step begins that may take `timeout` seconds. */
void doctor_step(const doctor_visit *doctor);
/* Loads a driver's library in another process and asks for devices: sets `loaded` or `reason`; false as
 * above. */
bool doctor_library(doctor_visit *doctor, const char *path);

/* Checks the loader, the ICD files, the drivers' libraries and the device nodes. */
void doctor_files(doctor_visit *doctor);
/* Checks drivers that are installed but not listed, and duplicate copies (doctor_drivers.c). `named` are
 * `count` paths or names of libraries, `files` the ICD files that list them. */
void doctor_drivers(doctor_visit *doctor, char *const *named, char *const *files, int count);
/* The package of a driver's library, and the driver's name; "" if unknown. */
/* Whether two libraries are versions of one: equal up to ".so". */
bool doctor_same_driver(const char *left, const char *right);
const char *doctor_package(const char *library);
/* Calls visit for each path of `name` in the library folders, each file once. Returns their number. */
int doctor_each_library(const doctor_visit *doctor, const char *name,
                        void (*visit)(void *user, const char *path), void *user);
/* Checks the cache folder for compiled kernels (doctor_cache.c, which needs the library). */
void doctor_cache(doctor_visit *doctor);
/* Checks PoCL's cache folder, if it cannot be written. */
void doctor_cache_pocl(doctor_visit *doctor);
/* ", and multiplies float16 and bfloat16 by the matrix unit mma"; "" without one (doctor_units.c). The units
 * are tried here. */
enum { DOCTOR_UNITS = 128 };
struct kn_context;
void doctor_units(struct kn_context *context, char text[DOCTOR_UNITS]);
/* Checks nodes that the user may not open, and RUSTICL_ENABLE (doctor_nodes.c). */
void doctor_nodes(doctor_visit *doctor);

#endif
