/* The kernels embedded in the library are the files of cl/, byte for byte. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/embedded.h"

TEST(same_bytes) {
    assert_true(kn_embedded_file_count > 0);
    for (unsigned long i = 0; i < kn_embedded_file_count; i++) {
        const kn_embedded_file *file = &kn_embedded_files[i];
        char path[4096];
        FILE *stream = fopen(test_path(path, sizeof path, KERNEL_FOLDER, file->name), "rb");
        if (!stream) fail_msg("%s is embedded and cannot be read", path);
        unsigned char *bytes = malloc(file->size + 2);
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, file->size + 2, stream), file->size);
        assert_memory_equal(bytes, file->bytes, file->size);
        assert_int_equal(file->bytes[file->size], 0);
        free(bytes);
        fclose(stream);
    }
}

TEST(hashes) {
    for (unsigned long i = 0; i < kn_embedded_file_count; i++) {
        unsigned long long hash = 0xcbf29ce484222325ull;
        for (unsigned long k = 0; k < kn_embedded_files[i].size; k++)
            hash = (hash ^ kn_embedded_files[i].bytes[k]) * 0x100000001b3ull;
        assert_true(hash == kn_embedded_files[i].hash);
    }
}

TEST(sorted_and_ended) {
    for (unsigned long i = 1; i < kn_embedded_file_count; i++)
        assert_true(strcmp(kn_embedded_files[i - 1].name, kn_embedded_files[i].name) < 0);
    assert_null(kn_embedded_files[kn_embedded_file_count].name);
}

TEST_FILE(main, NULL, NULL)
