/* What the files of `koine doctor` share. The first half needs no OpenCL, and koine-doctor is made of it
 * alone. */
#ifndef KOINE_COMMAND_DOCTOR_H
#define KOINE_COMMAND_DOCTOR_H

#include "findings.h"

typedef struct doctor_visit {
    const char *root; /* files are looked at below this folder; "" for this machine's own */
    findings found;
    bool elsewhere; /* the environment says where drivers are named */
    bool rusticl;   /* a driver that shows devices only where the environment names them is installed */
    bool deadly;    /* a driver ends, or holds up, each program that asks for devices */
    /* Of what runs in a process of its own (doctor_apart.c): */
    unsigned patience; /* seconds that a driver has for one step */
    bool apart;        /* the part runs in a process of its own */
    bool finished;
    char end[120];    /* how it ended otherwise */
    bool loaded;      /* the library, */
    char reason[600]; /* else why not */
    int device;       /* the entry of the list that is tried; -1 before there is one */
    char name[600];   /* and what it is called */
} doctor_visit;

/* Memory that processes which begin from here on share; NULL without memory. */
doctor_visit *doctor_begin(void);
void doctor_end(doctor_visit *doctor);
typedef void doctor_part(doctor_visit *doctor, const char *about);
/* Does a part of the visit in another process; false where it did not come to its end, and `end` says why. */
bool doctor_apart(doctor_visit *doctor, doctor_part *part, const char *about);
/* Within it: a step begins, for which there is `patience`. */
void doctor_step(const doctor_visit *doctor);
/* Loads a driver's library in another process and asks for devices: `loaded`, else `reason`; false as above.
 */
bool doctor_library(doctor_visit *doctor, const char *path);

/* The loader, the files that name drivers, the drivers' libraries and the device nodes. */
void doctor_files(doctor_visit *doctor);
/* What those files name, in doctor_drivers.c: drivers that lie here and are named nowhere, and two copies of
 * one. `named` are `count` paths or names of libraries, `files` the ICD files that name them. */
void doctor_drivers(doctor_visit *doctor, char *const *named, char *const *files, int count);
/* The package that brings a driver's library, and that driver's name; "" where it is not known. */
const char *doctor_package(const char *library);
/* Calls visit for each path of `name` in the folders that libraries lie in; each file once. Answers how many.
 */
int doctor_each_library(const doctor_visit *doctor, const char *name,
                        void (*visit)(void *user, const char *path), void *user);
/* The folder for compiled kernels (doctor_cache.c, which needs the library). */
void doctor_cache(doctor_visit *doctor);
/* PoCL's own, where it cannot be written. */
void doctor_cache_pocl(doctor_visit *doctor);
/* Nodes that the user may not open, and RUSTICL_ENABLE (doctor_nodes.c). */
void doctor_nodes(doctor_visit *doctor);

#endif
