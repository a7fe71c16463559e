/* Loaders: batches prepared by threads ahead of the caller.
 *
 * Slots form a ring: the caller holds one slot, and each thread fills one of the following slots. A thread
 * claims the next batch and the next slot together, with the indices of its samples, so that batches come
 * out in order, whichever is ready first. Threads continue past the end of an epoch, so that the first batch
 * of the next epoch is ready, too. All memory is allocated on creation, except for samples decoded at each
 * read. */
#include "data/augment.h"

#include <string.h>

enum { ALIGNMENT = 64, MAX_WORKERS = 16, MAX_SLOTS = MAX_WORKERS + 1, USUAL_WORKERS = 4, MIXED_FEEDS = 2 };

typedef enum slot_state { SLOT_EMPTY, SLOT_CLAIMED, SLOT_FULL, SLOT_HELD } slot_state;

typedef struct slot {
    slot_state state;
    uint64_t epoch, index; /* the batch it holds */
    uint64_t count;
    uint64_t first, own; /* the part of the batch that is delivered */
    uint64_t *samples;
    void *blocks[KN_FIELDS_MAX]; /* memory blocks; the feeds point into them, aligned */
    /* the fields, then the mixture's fields if samples are mixed */
    kn_feed feeds[KN_FIELDS_MAX + MIXED_FEEDS];
    kn_feed given[KN_FIELDS_MAX + MIXED_FEEDS]; /* the delivered part of the feeds */
    void *scratch;                              /* memory for one sample, if samples are changed */
    kn_mixture mixture;                         /* if samples are mixed */
    kn_error error;                             /* error from filling the slot */
} slot;

struct kn_loader {
    kn_host host;
    kn_error error;
    kn_dataset *dataset; /* owned by the loader */
    uint64_t batch, seed, batches;
    int shards, first_shard, own_shards; /* as in kn_loader_params; shards 0: all of each batch */
    bool shuffle, in_sequence;
    kn_augmentation augmentation;
    bool augments, mixes;
    bool as_bytes[KN_FIELDS_MAX]; /* by field: delivered as stored, with a scale */
    size_t augmented, labels;     /* the field that is changed; the label field, if samples are mixed */
    size_t feed_count;
    int slot_count, workers;
    slot slots[MAX_SLOTS];

    kn_mutex *mutex; /* guards the following members and the slots' states */
    kn_condition *changed;
    kn_thread *threads[MAX_WORKERS];
    uint32_t *order; /* of the epoch being claimed */
    kn_balance balance;
    uint64_t order_epoch;
    bool ordered;
    bool stop;
    int claimed;                     /* number of slots being filled */
    int fill, take;                  /* the next slots to fill and to hand out */
    uint64_t next_epoch, next_index; /* the next batch to fill */
    uint64_t epoch, index;           /* the next batch to hand out; index may equal `batches` */
    double waited;
};

/* ---- filling (on worker threads) ---------------------------------------------------------- */

/* Sets the order of an epoch. The mutex is held. */
static void arrange(kn_loader *loader, uint64_t epoch) {
    if (loader->ordered && (loader->order_epoch == epoch || !loader->shuffle)) return;
    size_t count = (size_t)loader->dataset->count;
    uint64_t key = kn_hash_number(kn_random_key(loader->seed, "koine.loader"), epoch);
    if (loader->balance.samples)
        kn_balance_draw(&loader->balance, key, loader->order, count);
    else
        for (size_t i = 0; i < count; i++)
            loader->order[i] = (uint32_t)i;
    if (loader->in_sequence) {
        for (uint64_t i = 0; i < loader->batch * loader->batches; i++)
            loader->order[i] = (uint32_t)(i % loader->batch * loader->batches + i / loader->batch);
    } else if (loader->shuffle) {
        kn_random_shuffle(key, loader->order, count);
    }
    loader->ordered = true;
    loader->order_epoch = epoch;
}

/* The number of samples that a slot holds: the delivered ones or, if samples are mixed within the batch, all.
 */
static uint64_t filled(const kn_loader *loader, const slot *target) {
    return loader->mixes ? target->count : target->own;
}
static uint64_t filled_from(const kn_loader *loader, const slot *target) {
    return loader->mixes ? 0 : target->first;
}

/* Claims the next batch for the next slot. The mutex is held. */
static slot *claim(kn_loader *loader) {
    slot *target = &loader->slots[loader->fill];
    const uint64_t count = loader->dataset->count, first = loader->next_index * loader->batch;
    arrange(loader, loader->next_epoch);
    target->state = SLOT_CLAIMED;
    target->epoch = loader->next_epoch;
    target->index = loader->next_index;
    target->count = count - first < loader->batch ? count - first : loader->batch;
    target->first = 0;
    target->own = target->count;
    if (loader->shards)
        target->own =
            kn_shards_samples(loader->shards, loader->first_shard, loader->first_shard + loader->own_shards,
                              target->count, &target->first);
    for (uint64_t i = 0; i < filled(loader, target); i++)
        target->samples[i] = loader->order[first + filled_from(loader, target) + i];
    loader->claimed++;
    loader->fill = (loader->fill + 1) % loader->slot_count;
    if (++loader->next_index == loader->batches) {
        loader->next_index = 0;
        loader->next_epoch++;
    }
    return target;
}

/* The size of one sample of a field as delivered. */
static size_t sample_bytes(const kn_loader *loader, size_t field) {
    return kn_field_bytes(&loader->dataset->store->fields[field], loader->as_bytes[field]);
}

/* A sample that occurs twice in an epoch, as with balancing, is changed differently each time, because the
 * key includes its position. */
static void augment(const kn_loader *loader, slot *target) {
    const kn_sample_field *field = &loader->dataset->store->fields[loader->augmented];
    uint8_t *x = (uint8_t *)(uintptr_t)target->feeds[loader->augmented].data;
    const uint64_t key = kn_hash_number(kn_random_key(loader->seed, "koine.augment"), target->epoch);
    for (uint64_t i = 0; i < filled(loader, target); i++) {
        uint64_t own = kn_hash_number(key, target->samples[i]);
        if (loader->balance.samples)
            own = kn_hash_number(own, target->index * loader->batch + filled_from(loader, target) + i);
        kn_augment(&loader->augmentation, &field->read, own, loader->as_bytes[loader->augmented],
                   x + i * sample_bytes(loader, loader->augmented), target->scratch);
    }
}

static void mix(const kn_loader *loader, slot *target) {
    const kn_sample_field *fields = loader->dataset->store->fields;
    const size_t count = loader->dataset->store->field_count;
    kn_mixture *mixture = &target->mixture;
    const uint64_t epoch = kn_hash_number(kn_random_key(loader->seed, "koine.mix"), target->epoch);
    mixture->x = (float *)(uintptr_t)target->feeds[loader->augmented].data;
    mixture->y = target->feeds[loader->labels].data;
    kn_mix(&loader->augmentation, &fields[loader->augmented].read, kn_hash_number(epoch, target->index),
           target->count, mixture);
    target->feeds[count] =
        (kn_feed){"y.other", mixture->other, (size_t)target->count * sizeof *mixture->other};
    target->feeds[count + 1] =
        (kn_feed){"y.share", mixture->fraction, (size_t)target->count * sizeof *mixture->fraction};
}

static void fill_slot(kn_loader *loader, slot *target) {
    const kn_dataset *dataset = loader->dataset;
    kn_error_clear(&target->error);
    for (size_t f = 0; f < dataset->store->field_count; f++) {
        kn_feed *feed = &target->feeds[f];
        if (kn_dataset_gather(dataset, f, target->samples, filled(loader, target), loader->as_bytes[f],
                              (void *)(uintptr_t)feed->data, &target->error) != KN_OK)
            return;
        feed->bytes = (size_t)filled(loader, target) * sample_bytes(loader, f);
        if (!loader->as_bytes[f])
            kn_dataset_watch(dataset, f, target->samples, filled(loader, target), feed->data);
    }
    if (loader->augments) augment(loader, target);
    if (loader->mixes) mix(loader, target);
    const uint64_t skipped = target->first - filled_from(loader, target);
    for (size_t f = 0; f < loader->feed_count; f++) {
        const size_t each = target->feeds[f].bytes / (size_t)filled(loader, target);
        target->given[f] = target->feeds[f];
        target->given[f].data = (const uint8_t *)target->feeds[f].data + (size_t)skipped * each;
        target->given[f].bytes = (size_t)target->own * each;
    }
}

static void work(void *argument) {
    kn_loader *loader = argument;
    kn_mutex_lock(loader->mutex);
    while (!loader->stop) {
        if (loader->slots[loader->fill].state != SLOT_EMPTY) {
            kn_condition_wait(loader->changed, loader->mutex);
            continue;
        }
        slot *target = claim(loader);
        kn_mutex_unlock(loader->mutex);
        fill_slot(loader, target);
        kn_mutex_lock(loader->mutex);
        loader->claimed--;
        /* A concurrent seek waits until nothing is claimed, then empties the slots. */
        target->state = SLOT_FULL;
        kn_condition_broadcast(loader->changed);
    }
    kn_mutex_unlock(loader->mutex);
}

/* ---- creation -------------------------------------------------------------------------------- */

KN_DEFINE_INIT(kn_loader_params, KN_LOADER_DEFAULTS)

/* The unmixed samples need as much memory again as a batch. */
static bool take_mixture(kn_loader *loader, kn_mixture *made) {
    const size_t batch = (size_t)loader->batch;
    made->other = kn_allocate(&loader->host, batch, sizeof *made->other);
    made->fraction = kn_allocate(&loader->host, batch, sizeof *made->fraction);
    made->partners = kn_allocate(&loader->host, batch, sizeof *made->partners);
    made->plain =
        kn_allocate(&loader->host, batch, loader->dataset->store->fields[loader->augmented].read_bytes + 1);
    return made->other && made->fraction && made->partners && made->plain;
}

static bool take_slot(kn_loader *loader, slot *made) {
    const kn_sample_store *store = loader->dataset->store;
    made->samples = kn_allocate(&loader->host, (size_t)loader->batch, sizeof *made->samples);
    if (!made->samples) return false;
    for (size_t f = 0; f < store->field_count; f++) {
        size_t bytes = sample_bytes(loader, f);
        if (bytes > 0 && loader->batch > ((size_t)PTRDIFF_MAX - ALIGNMENT) / bytes) return false;
        made->blocks[f] = kn_allocate(&loader->host, (size_t)loader->batch * bytes + ALIGNMENT, 1);
        if (!made->blocks[f]) return false;
        size_t over = (uintptr_t)made->blocks[f] % ALIGNMENT;
        made->feeds[f].data = (uint8_t *)made->blocks[f] + (ALIGNMENT - over) % ALIGNMENT;
        made->feeds[f].name = store->fields[f].name;
        made->feeds[f].scale = loader->as_bytes[f] ? kn_field_scale(&store->fields[f]) : 0;
    }
    if (loader->mixes && !take_mixture(loader, &made->mixture)) return false;
    if (!loader->augments) return true;
    made->scratch = kn_allocate(&loader->host, 1, store->fields[loader->augmented].read_bytes + 1);
    return made->scratch != NULL;
}

/* Checks the samples' requirements. Needs the loader's dataset. */
static kn_status prepare(kn_loader *loader, const kn_loader_params *params, kn_error *error) {
    const kn_sample_store *store = loader->dataset->store;
    size_t y;
    if (params->augmentation) {
        const kn_augmentation *given = params->augmentation;
        kn_augmentation *self = &loader->augmentation;
        if (KN_PARAMS_TAKE(kn_augmentation, self, given, error) != KN_OK) return error->status;
        loader->augments = kn_augments(self);
        loader->mixes = kn_mixes(self);
    }
    loader->feed_count = store->field_count + (loader->mixes ? MIXED_FEEDS : 0);
    if (loader->augments || loader->mixes) {
        if (!kn_dataset_find_field(loader->dataset, "x", &loader->augmented))
            return kn_fail(error, KN_ERROR_ARGUMENT, "augmentation: the data has no \"x\"");
        bool there = kn_dataset_find_field(loader->dataset, "y", &y);
        kn_status status = kn_augment_check(&loader->augmentation, &store->fields[loader->augmented].read,
                                            there ? &store->fields[y].read : NULL, error);
        if (status == KN_OK)
            status = kn_mix_check(&loader->augmentation, &store->fields[loader->augmented].read,
                                  kn_dataset_label_field(loader->dataset, &loader->labels), error);
        if (status != KN_OK) return status;
    }
    for (size_t f = 0; f < store->field_count; f++) {
        const double scale = kn_field_scale(&store->fields[f]);
        const bool changed = (loader->augments || loader->mixes) && f == loader->augmented;
        loader->as_bytes[f] = params->bytes && scale != 0 &&
                              !(changed && (!kn_augmentation_keeps_bytes(&loader->augmentation) ||
                                            scale < 0)); /* -0 is not 0 */
    }
    if (params->balanced && !loader->shuffle)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a balanced loader draws samples at random and cannot keep their order");
    if (params->balanced) return kn_balance_open(&loader->balance, loader->dataset, error);
    return KN_OK;
}

static int count_workers(const kn_loader *loader, int asked) {
    /* One thread that only copies is faster than any device. */
    bool much = loader->augments || loader->mixes || loader->dataset->store->later;
    int workers = asked > 0 ? asked : much ? kn_processor_count() : 1;
    int most = asked > 0 ? MAX_WORKERS : USUAL_WORKERS;
    return workers < 1 ? 1 : workers > most ? most : workers;
}

static kn_status start(kn_loader *loader, const kn_dataset *dataset, const kn_loader_params *params) {
    kn_error *error = &loader->error;
    loader->batch = params->batch;
    loader->seed = params->seed;
    loader->in_sequence = params->in_sequence;
    loader->shards = params->shards;
    loader->first_shard = params->first_shard;
    loader->own_shards = params->own_shards;
    if (params->shards && (params->shards < 1 || params->first_shard < 0 || params->own_shards < 1 ||
                           params->own_shards > params->shards - params->first_shard))
        return kn_fail(
            error, KN_ERROR_ARGUMENT,
            "a loader for %d shards, starting at %d of %d; expected at least one, and a range within them",
            params->own_shards, params->first_shard, params->shards);
    loader->shuffle = !params->no_shuffle && !params->in_sequence;
    const bool drop_last = params->drop_last || params->in_sequence;
    uint64_t count = dataset->count;
    if (loader->batch == 0)
        return kn_fail(error, KN_ERROR_ARGUMENT, "a loader's batch is 0; expected 1 or more");
    loader->batches = count / loader->batch + (!drop_last && count % loader->batch > 0);
    if (loader->batches == 0)
        return kn_fail(error, KN_ERROR_ARGUMENT,
                       "a dataset of %llu samples has no full batch of %llu; use a smaller batch, or keep "
                       "partial batches",
                       (unsigned long long)count, (unsigned long long)loader->batch);
    /* A batch larger than the dataset is never full. */
    if (loader->batch > count) loader->batch = count;
    loader->dataset = kn_dataset_view(dataset, NULL, count);
    if (!loader->dataset) return kn_fail_memory(error, sizeof *dataset);
    if (loader->dataset->error.status != KN_OK) {
        *error = loader->dataset->error;
        return error->status;
    }
    kn_status status = prepare(loader, params, error);
    if (status != KN_OK) return status;
    loader->workers = count_workers(loader, params->workers);
    loader->slot_count = loader->workers + 1;
    loader->order = kn_allocate(&loader->host, (size_t)count, sizeof *loader->order);
    bool taken = loader->order != NULL;
    for (int i = 0; i < loader->slot_count && taken; i++)
        taken = take_slot(loader, &loader->slots[i]);
    loader->mutex = kn_mutex_create(&loader->host);
    loader->changed = kn_condition_create(&loader->host);
    if (!taken || !loader->mutex || !loader->changed)
        return kn_fail(error, KN_ERROR_MEMORY, "out of host memory for batches of %llu samples",
                       (unsigned long long)loader->batch);
    for (int i = 0; i < loader->workers; i++)
        loader->threads[i] = kn_thread_start(&loader->host, work, loader);
    /* Fewer threads suffice. */
    for (int i = 0; i < loader->workers; i++)
        if (loader->threads[i]) return KN_OK;
    return kn_fail(error, KN_ERROR_MEMORY, "a loader thread could not be started");
}

kn_loader *kn_loader_create(const kn_dataset *dataset, const kn_loader_params *params) {
    if (!dataset) return NULL;
    kn_loader *loader = kn_allocate(&dataset->host, 1, sizeof *loader);
    if (!loader) return NULL;
    loader->host = dataset->host;
    loader->error = dataset->error;
    kn_loader_params known = KN_LOADER_DEFAULTS;
    if (loader->error.status == KN_OK) KN_PARAMS_TAKE(kn_loader_params, &known, params, &loader->error);
    if (loader->error.status == KN_OK) start(loader, dataset, &known);
    return loader;
}

void kn_loader_destroy(kn_loader **loader) {
    if (!loader || !*loader) return;
    kn_loader *made = *loader;
    kn_host host = made->host;
    if (made->mutex && made->changed) {
        kn_mutex_lock(made->mutex);
        made->stop = true;
        kn_condition_broadcast(made->changed);
        kn_mutex_unlock(made->mutex);
    }
    for (int i = 0; i < MAX_WORKERS; i++)
        if (made->threads[i]) kn_thread_join(&host, &made->threads[i]);
    kn_condition_destroy(&host, &made->changed);
    kn_mutex_destroy(&host, &made->mutex);
    for (int i = 0; i < MAX_SLOTS; i++) {
        kn_release(&host, made->slots[i].samples);
        kn_release(&host, made->slots[i].scratch);
        kn_release(&host, made->slots[i].mixture.other);
        kn_release(&host, made->slots[i].mixture.fraction);
        kn_release(&host, made->slots[i].mixture.partners);
        kn_release(&host, made->slots[i].mixture.plain);
        for (int f = 0; f < KN_FIELDS_MAX; f++)
            kn_release(&host, made->slots[i].blocks[f]);
    }
    kn_release(&host, made->order);
    kn_balance_close(&host, &made->balance);
    kn_dataset_destroy(&made->dataset);
    kn_release(&host, made);
    *loader = NULL;
}

kn_status kn_loader_status(const kn_loader *loader) {
    return loader ? loader->error.status : KN_ERROR_MEMORY;
}

const char *kn_loader_error(const kn_loader *loader) {
    return loader ? loader->error.text : "out of host memory: the loader could not be created";
}

uint64_t kn_loader_batches(const kn_loader *loader) {
    return kn_loader_status(loader) == KN_OK ? loader->batches : 0;
}

double kn_loader_wait_seconds(const kn_loader *loader) {
    return loader ? loader->waited : 0;
}

/* ---- handing out (on the caller's thread) ---------------------------------------------------- */

/* Releases the batch that the caller holds. The mutex is held. */
static void release_held(kn_loader *loader) {
    for (int i = 0; i < loader->slot_count; i++)
        if (loader->slots[i].state == SLOT_HELD) {
            loader->slots[i].state = SLOT_EMPTY;
            kn_condition_broadcast(loader->changed);
        }
}

bool kn_loader_ready(kn_loader *loader) {
    if (kn_loader_status(loader) != KN_OK || loader->index == loader->batches) return true;
    kn_mutex_lock(loader->mutex);
    bool ready = loader->slots[loader->take].state == SLOT_FULL;
    kn_mutex_unlock(loader->mutex);
    return ready;
}

kn_status kn_loader_next(kn_loader *loader, kn_batch *batch) {
    if (kn_loader_status(loader) != KN_OK) return kn_loader_status(loader);
    if (!kn_has_size(batch)) return KN_ERROR_ARGUMENT;
    kn_batch next = {.size = sizeof next, .epoch = loader->epoch, .index = loader->index};
    kn_mutex_lock(loader->mutex);
    release_held(loader);
    if (loader->index == loader->batches) {
        loader->epoch++;
        loader->index = 0;
    } else {
        slot *ready = &loader->slots[loader->take];
        if (ready->state != SLOT_FULL) {
            double began = kn_clock();
            while (ready->state != SLOT_FULL)
                kn_condition_wait(loader->changed, loader->mutex);
            loader->waited += kn_clock() - began;
        }
        if (ready->error.status != KN_OK) {
            loader->error = ready->error;
            kn_mutex_unlock(loader->mutex);
            return loader->error.status;
        }
        ready->state = SLOT_HELD;
        loader->take = (loader->take + 1) % loader->slot_count;
        loader->index++;
        next.count = ready->count;
        next.samples = ready->samples + (ready->first - filled_from(loader, ready));
        next.feeds = ready->given;
        next.feed_count = loader->feed_count;
    }
    kn_mutex_unlock(loader->mutex);
    return KN_RESULT_GIVE(kn_batch, batch, &next);
}

kn_status kn_loader_seek(kn_loader *loader, uint64_t epoch, uint64_t batch) {
    if (kn_loader_status(loader) != KN_OK) return kn_loader_status(loader);
    if (batch > loader->batches) {
        kn_log_write(&loader->host, KN_LOG_ERROR, "kn_loader_seek: batch %llu, but an epoch has %llu",
                     (unsigned long long)batch, (unsigned long long)loader->batches);
        return KN_ERROR_ARGUMENT;
    }
    kn_mutex_lock(loader->mutex);
    release_held(loader);
    if (epoch != loader->epoch || batch != loader->index) {
        /* Claimed batches are finished first; threads stop by themselves when all slots are full. */
        while (loader->claimed > 0)
            kn_condition_wait(loader->changed, loader->mutex);
        for (int i = 0; i < loader->slot_count; i++)
            loader->slots[i].state = SLOT_EMPTY;
        loader->fill = loader->take = 0;
        loader->epoch = epoch;
        loader->index = batch;
        loader->next_epoch = batch == loader->batches ? epoch + 1 : epoch;
        loader->next_index = batch == loader->batches ? 0 : batch;
        kn_condition_broadcast(loader->changed);
    }
    kn_mutex_unlock(loader->mutex);
    return KN_OK;
}
