/* koine-doctor: the file checks of `koine doctor`, as a program that starts without an OpenCL loader, unlike
 * koine. */
#include <stdio.h>
#include <string.h>

#include "doctor.h"

int main(int count, char **arguments) {
    doctor_visit *doctor = doctor_begin();
    if (!doctor) {
        fputs("koine-doctor: out of memory\n", stderr);
        return 1;
    }
    for (int i = 1; i < count; i++) {
        if (!strcmp(arguments[i], "--json")) {
            doctor->found.json = true;
        } else if (!strcmp(arguments[i], "--root") && i + 1 < count) {
            doctor->root = arguments[++i];
        } else {
            bool asked = !strcmp(arguments[i], "--help");
            fputs("usage: koine-doctor [--root DIR] [--json]\n\n"
                  "Says what is wrong with an OpenCL installation, as far as files show it; it starts where "
                  "no OpenCL is\n"
                  "installed at all. koine doctor says the same, and tries the devices.\n",
                  asked ? stdout : stderr);
            return asked ? 0 : 2;
        }
    }
    doctor_files(doctor);
    const int status = doctor->found.problems ? 1 : 0;
    doctor_end(doctor);
    return status;
}
