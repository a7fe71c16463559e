/* Sounds in WAV files: one channel of 16-bit samples, at one rate and of one length. */
#include "data/sounds.h"

#include <math.h>
#include <string.h>

enum { MAX_LENGTH = 1 << 26, MAX_RATE = 10000000 };

static bool is_sound(const char *name) {
    return kn_name_ends(name, ".wav") || kn_name_ends(name, ".wave");
}

static kn_status open_sound(const kn_host *host, const kn_sample_file *file, kn_wave *wave, uint8_t **owned,
                            kn_error *error) {
    const uint8_t *bytes;
    uint64_t count;
    kn_status status = kn_sample_file_bytes(host, file, &bytes, &count, owned, error);
    if (status == KN_OK) status = kn_wave_read(file->name, bytes, count, wave, error);
    if (status == KN_OK && wave->frames == 0)
        status = kn_fail(error, KN_ERROR_FORMAT, "%s: the sound is empty", file->name);
    if (status == KN_OK) return KN_OK;
    kn_release(host, *owned);
    *owned = NULL;
    return status;
}

/* Takes the rate and length from the first file unless something else determines them. */
static kn_status measure(const kn_host *host, kn_sample_job *job, const kn_sample_file *file,
                         kn_error *error) {
    kn_sound_options *asked = job->own;
    kn_wave wave;
    uint8_t *owned;
    kn_status status = open_sound(host, file, &wave, &owned, error);
    if (status != KN_OK) return status;
    const uint64_t rate = asked->rate ? asked->rate : wave.rate, length = asked->length;
    const double found = ceil((double)wave.frames * (double)rate / wave.rate);
    kn_release(host, owned);
    if (!length && found > MAX_LENGTH)
        return kn_fail(error, KN_ERROR_UNSUPPORTED,
                       "%s: the sound is too long; expected at most %d samples; set length=N", file->name,
                       MAX_LENGTH);
    asked->rate = rate;
    asked->length = length ? length : (uint64_t)found;
    job->sample.shape[job->sample.rank - 1] = (int64_t)asked->length;
    return KN_OK;
}

/* out is (length): the beginning of the sound, padded with zeros. */
static kn_status read(const kn_host *host, const kn_sample_job *job, const kn_sample_file *file, void *out,
                      kn_error *error) {
    const kn_sound_options *asked = job->own;
    kn_wave wave;
    uint8_t *owned;
    kn_status status = open_sound(host, file, &wave, &owned, error);
    if (status != KN_OK) return status;
    const uint64_t needed = kn_sinc_reach(wave.rate, (uint32_t)asked->rate, asked->length, wave.frames);
    float *from = kn_resize(host, NULL, (size_t)needed + 1, sizeof *from);
    float *to = kn_resize(host, NULL, (size_t)asked->length, sizeof *to);
    if (!from || !to) status = kn_fail_memory(error, (size_t)needed * sizeof *from);
    for (uint64_t i = 0; i < needed && status == KN_OK; i++) {
        from[i] = kn_wave_at(&wave, i);
        if (!isfinite(from[i]))
            status = kn_fail(error, KN_ERROR_FORMAT, "%s: sample %llu of the sound is not finite", file->name,
                             (unsigned long long)i);
    }
    if (status == KN_OK) {
        kn_sinc_resample(&asked->sinc, from, needed, wave.rate, (uint32_t)asked->rate, to, asked->length);
        for (uint64_t i = 0; i < asked->length; i++) {
            const float value = rintf(to[i] * 32768);
            ((int16_t *)out)[i] = (int16_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
        }
    }
    kn_release(host, from);
    kn_release(host, to);
    kn_release(host, owned);
    return status;
}

const kn_sample_kind kn_sample_sounds = {.what = "sounds",
                                         .endings = ".wav",
                                         .is = is_sound,
                                         .measure = measure,
                                         .read = read,
                                         .scale = 1.0 / 32768};

/* The shape that the model expects, (length) or (1,length). */
static void shape(const kn_source_options *options, kn_sound_options *asked, kn_tensor_info *sample) {
    const kn_tensor_info *wanted = options->expected;
    const bool flat = wanted && wanted->rank == 1;
    const bool known = flat || (wanted && wanted->rank == 2 && wanted->shape[0] == 1);
    if (asked->length == 0 && known) asked->length = (uint64_t)wanted->shape[wanted->rank - 1];
    *sample = (kn_tensor_info){KN_INT16, flat ? 1 : 2, {1, (int64_t)asked->length}};
    if (flat) sample->shape[0] = (int64_t)asked->length;
}

/* Whether a file is a sound rather than an archive, by its first bytes. */
static kn_status find_sound(const kn_host *host, const char *path, bool *found, kn_error *error) {
    kn_file_view view;
    *found = is_sound(path);
    if (*found) return KN_OK;
    kn_status status = kn_file_open_view(host, path, &view, error);
    if (status != KN_OK) return status;
    *found = view.count >= 4 && memcmp(view.bytes, "RIFF", 4) == 0;
    kn_file_close_view(host, &view);
    return KN_OK;
}

static kn_status open_wave(kn_dataset *dataset, const char *rest, const kn_source_options *options) {
    kn_error *error = &dataset->error;
    kn_sound_options *asked = kn_allocate(&dataset->host, 1, sizeof *asked);
    if (!asked) return kn_fail_memory(error, sizeof *asked);
    const kn_spec_option known[] = {{"rate", KN_SPEC_COUNT, &asked->rate},
                                    {"length", KN_SPEC_COUNT, &asked->length}};
    kn_sample_job job = {
        .kind = &kn_sample_sounds, .options = options, .own = asked, .own_bytes = sizeof *asked};
    char *path;
    kn_status status = kn_spec_read(&dataset->host, "wav", rest, &path, known, KN_COUNT_OF(known), error);
    if (status == KN_OK) {
        if (!asked->rate) asked->rate = options->sample_rate;
        shape(options, asked, &job.sample);
        if (asked->rate > MAX_RATE || asked->length > MAX_LENGTH)
            kn_fail(error, KN_ERROR_ARGUMENT,
                    "data \"wav%s\": expected a rate of at most %d and a length of at most %d", rest,
                    MAX_RATE, MAX_LENGTH);
        else if (!path || !kn_path_exists(path))
            kn_fail(error, KN_ERROR_FILE, "data \"wav%s\": the folder, archive or file does not exist", rest);
    }
    if (error->status == KN_OK) {
        job.known = asked->rate && asked->length;
        kn_sinc_make(&asked->sinc);
        bool files = kn_path_is_folder(path);
        status = files ? KN_OK : find_sound(&dataset->host, path, &files, error);
        if (status == KN_OK && files)
            kn_sample_files_open(dataset, path, &job);
        else if (status == KN_OK)
            kn_sample_archive_open(dataset, path, &job);
        if (dataset->store) dataset->store->rate = asked->rate;
        if (dataset->test) dataset->test->rate = asked->rate;
    }
    kn_release(&dataset->host, path);
    kn_release(&dataset->host, asked);
    return error->status;
}

const kn_source_row kn_data_source_wav = {
    .name = "wav",
    .usage = "wav:PATH[,rate=N][,length=N]",
    .text = "sounds in WAV files: one folder per class, or train/ and test/ or val/ with one folder per\n"
            "class; the mean of the channels, resampled to one rate (that of the first file) and cut or\n"
            "padded to N samples (as the model expects, else the length of the first file); a .tar, .tar.gz\n"
            "or .zip with such folders is read in place",
    .open = open_wave};
