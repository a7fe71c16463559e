/* The table of functions: its versions and, of Koine's, the stubs, and NULL for each pointer. */
#include "interface_tests.h"

#include <stdlib.h>
#include <string.h>

static void versions(void **state) {
    assert_null(base->GetApi(0));
    for (uint32_t version = 1; version <= ORT_API_VERSION; version++)
        assert_ptr_equal(base->GetApi(version), api);
    if (!original) assert_null(base->GetApi(ORT_API_VERSION + 1));
    assert_int_equal(strncmp(base->GetVersionString(), "1.", 2), 0);
    assert_true(atoi(base->GetVersionString() + 2) >= ORT_API_VERSION);
    assert_non_null(strstr(api->GetBuildInfoString(), "ORT Build Info: "));
}

static void stubs(void **state) {
    if (original) skip();
#define DONE(index, tier, type, name, parameters)
#define OPEN(index, tier, gives, name) STUB_##gives(name)
#define STUB_STATUS(name)                                                                                    \
    fails_with(((OrtStatus * (*)(void))(void (*)(void))api->name)(), ORT_NOT_IMPLEMENTED, #name);
#define STUB_NOTHING(name) ((void (*)(void))api->name)();
#define STUB_POINTER(name) assert_null(((void *(*)(void))(void (*)(void))api->name)());
#define STUB_NUMBER(name) assert_int_equal(((int64_t(*)(void))(void (*)(void))api->name)(), 0);
#include "onnxruntime/functions.def"
}

static void every_pointer_null(void **state) {
    if (original) skip();
    /* Integers and pointers are passed alike, so that eight zeros suffice for every function. */
    typedef OrtStatus *(*any)(void *, void *, void *, void *, void *, void *, void *, void *);
    static const struct {
        const char *type;
        size_t offset;
    } functions[] = {
#define DONE(index, tier, type, name, parameters) {#type, offsetof(OrtApi, name)},
#define OPEN(index, tier, gives, name)
#include "onnxruntime/functions.def"
    };
    int count = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        any call;
        memcpy(&call, (const char *)api + functions[i].offset, sizeof call);
        if (!strcmp(functions[i].type, "OrtStatus *")) {
            OrtStatus *status = call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
            if (!status && functions[i].offset != offsetof(OrtApi, ReleaseAvailableProviders))
                fail_msg("function %zu accepts NULL", functions[i].offset / sizeof call);
            api->ReleaseStatus(status);
            count++;
        } else if (!strcmp(functions[i].type, "void")) {
            call(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
        }
    }
    assert_true(count > 130);
}

int test_table(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),
        cmocka_unit_test(stubs),
        cmocka_unit_test(every_pointer_null),
    };
    return run_group("table", tests);
}
