/* Groups of threads of one process. A message is copied once, from the sender's memory to the receiver's, by
 * whichever of the two waits for it first. */
#include <koine/communicator.h>

#include <string.h>

#include "base/base.h"

typedef struct member member;

/* One end of a message: a send, or an expected receive. */
typedef struct message {
    struct message *next;  /* of its list */
    struct message *other; /* the other end, once both exist */
    member *owner;
    bool sends;
    int from, to, tag;
    void *data; /* only read if it sends */
    size_t bytes;
    bool copying, done;
} message;

typedef struct message_list {
    message *first, *last;
} message_list;

/* A rank, and the messages to it of which one end is missing, oldest first. */
struct member {
    kn_communicator communicator;
    kn_group *group;
    kn_condition *changed; /* a message of this rank was matched or copied, or the group has ended */
    message_list sent, expected;
};

/* The mutex guards everything that changes. */
struct kn_group {
    kn_host host;
    kn_arena arena; /* members and messages */
    kn_mutex *mutex;
    member *members;
    int ranks;
    message_list spare; /* messages for later calls */
    kn_error error;     /* why the group has ended; written once */
};

static void list_add(message_list *list, message *added) {
    added->next = NULL;
    if (list->first)
        list->last->next = added;
    else
        list->first = added;
    list->last = added;
}

/* Removes the message after `before`, or the first for NULL. */
static message *list_remove(message_list *list, message *before) {
    message *removed = before ? before->next : list->first;
    if (before)
        before->next = removed->next;
    else
        list->first = removed->next;
    if (list->last == removed) list->last = before;
    return removed;
}

/* Ends the group, whose error has been set. */
static void end_group(kn_group *group) {
    for (int r = 0; r < group->ranks; r++) {
        message_list *lists[] = {&group->members[r].sent, &group->members[r].expected};
        for (size_t k = 0; k < KN_COUNT_OF(lists); k++)
            while (lists[k]->first)
                list_remove(lists[k], NULL)->done = true;
        kn_condition_broadcast(group->members[r].changed);
    }
}

/* Matches a new end of a message with the other end, or queues it. */
static kn_status match(kn_group *group, message *added) {
    member *receiver = &group->members[added->to];
    message_list *others = added->sends ? &receiver->expected : &receiver->sent;
    message *before = NULL, *other = others->first;
    while (other && (other->from != added->from || other->tag != added->tag)) {
        before = other;
        other = other->next;
    }
    if (!other) {
        list_add(added->sends ? &receiver->sent : &receiver->expected, added);
        return KN_OK;
    }
    if (other->bytes != added->bytes)
        return kn_fail(&group->error, KN_ERROR_ARGUMENT,
                       "rank %d sent %zu bytes to rank %d with tag %d, which expected %zu", added->from,
                       added->sends ? added->bytes : other->bytes, added->to, added->tag,
                       added->sends ? other->bytes : added->bytes);
    list_remove(others, before);
    added->other = other;
    other->other = added;
    kn_condition_broadcast(other->owner->changed);
    return KN_OK;
}

/* With the mutex held. */
static kn_status begin_locked(kn_group *group, const message *wanted, int peer, void **request) {
    if (peer < 0 || peer >= group->ranks || wanted->tag < 0 || wanted->tag >= KN_COMMUNICATOR_TAGS)
        return kn_fail(
            &group->error, KN_ERROR_ARGUMENT,
            "message from rank %d to rank %d with tag %d; expected ranks below %d and tags below %d",
            wanted->from, wanted->to, wanted->tag, group->ranks, KN_COMMUNICATOR_TAGS);
    if (!request || (wanted->bytes && !wanted->data))
        return kn_fail(&group->error, KN_ERROR_ARGUMENT,
                       "message of %zu bytes from rank %d to rank %d: its memory or request is NULL",
                       wanted->bytes, wanted->from, wanted->to);
    message *begun = group->spare.first ? list_remove(&group->spare, NULL)
                                        : kn_arena_take(&group->arena, 1, sizeof *begun);
    if (!begun) return kn_fail_memory(&group->error, sizeof *begun);
    *begun = *wanted;
    kn_status status = match(group, begun);
    if (status)
        list_add(&group->spare, begun);
    else
        *request = begun;
    return status;
}

static kn_status begin(const message *wanted, int peer, void **request) {
    kn_group *group = wanted->owner->group;
    if (request) *request = NULL;
    kn_mutex_lock(group->mutex);
    kn_status status = KN_ERROR_CANCELLED;
    if (group->error.status == KN_OK) {
        status = begin_locked(group, wanted, peer, request);
        if (status) end_group(group);
    }
    kn_mutex_unlock(group->mutex);
    return status;
}

static kn_status group_send(void *user, int rank, int tag, const void *data, size_t bytes, void **request) {
    member *own = user;
    const message wanted = {.owner = own,
                            .sends = true,
                            .from = own->communicator.rank,
                            .to = rank,
                            .tag = tag,
                            .data = (void *)(uintptr_t)data,
                            .bytes = bytes};
    return begin(&wanted, rank, request);
}

static kn_status group_receive(void *user, int rank, int tag, void *data, size_t bytes, void **request) {
    member *own = user;
    const message wanted = {
        .owner = own, .from = rank, .to = own->communicator.rank, .tag = tag, .data = data, .bytes = bytes};
    return begin(&wanted, rank, request);
}

/* Copies a matched message, releasing the mutex meanwhile. */
static void copy_message(kn_group *group, message *own) {
    message *other = own->other;
    own->copying = other->copying = true;
    kn_mutex_unlock(group->mutex);
    if (own->bytes)
        memcpy(own->sends ? other->data : own->data, own->sends ? own->data : other->data, own->bytes);
    kn_mutex_lock(group->mutex);
    own->done = other->done = true;
    kn_condition_broadcast(other->owner->changed);
}

static kn_status group_wait(void *user, void **request) {
    const member *own = user;
    kn_group *group = own->group;
    message *waited = request ? *request : NULL;
    kn_mutex_lock(group->mutex);
    while (waited && !waited->done) {
        if (waited->copying)
            kn_condition_wait(own->changed, group->mutex);
        else if (group->error.status)
            waited->done = waited->other->done = true; /* matched, but never copied */
        else if (waited->other)
            copy_message(group, waited);
        else
            kn_condition_wait(own->changed, group->mutex);
    }
    if (waited) {
        list_add(&group->spare, waited);
        *request = NULL;
    }
    const bool ended = group->error.status != KN_OK;
    kn_mutex_unlock(group->mutex);
    return ended ? KN_ERROR_CANCELLED : KN_OK;
}

static void group_abort(void *user, const char *reason) {
    kn_group *group = ((member *)user)->group;
    kn_mutex_lock(group->mutex);
    if (group->error.status == KN_OK) {
        kn_fail(&group->error, KN_ERROR_CANCELLED, "%s", reason ? reason : "ended without a reason");
        end_group(group);
    }
    kn_mutex_unlock(group->mutex);
}

static const char *group_error(void *user) {
    kn_group *group = ((member *)user)->group;
    kn_mutex_lock(group->mutex);
    const char *text = group->error.status ? group->error.text : "";
    kn_mutex_unlock(group->mutex);
    return text;
}

static bool make_member(kn_group *group, int rank) {
    member *own = &group->members[rank];
    own->group = group;
    own->communicator = (kn_communicator){.size = sizeof own->communicator,
                                          .rank = rank,
                                          .ranks = group->ranks,
                                          .user = own,
                                          .send = group_send,
                                          .receive = group_receive,
                                          .wait = group_wait,
                                          .abort = group_abort,
                                          .error = group_error,
                                          .allocator = group->host.allocator};
    own->changed = kn_condition_create(&group->host);
    return own->changed != NULL;
}

kn_status kn_group_create(int ranks, const kn_allocator *allocator, kn_group **group) {
    if (!group) return KN_ERROR_ARGUMENT;
    *group = NULL;
    if (ranks < 1) return KN_ERROR_ARGUMENT;
    const kn_host host = kn_host_with(allocator);
    kn_group *made = kn_allocate(&host, 1, sizeof *made);
    if (!made) return KN_ERROR_MEMORY;
    made->host = host;
    kn_arena_init(&made->arena, &made->host);
    made->mutex = kn_mutex_create(&host);
    made->members = kn_arena_take(&made->arena, (size_t)ranks, sizeof *made->members);
    bool complete = made->mutex && made->members;
    if (complete) made->ranks = ranks;
    for (int r = 0; complete && r < ranks; r++)
        complete = make_member(made, r);
    if (!complete) kn_group_destroy(&made);
    *group = made;
    return complete ? KN_OK : KN_ERROR_MEMORY;
}

void kn_group_destroy(kn_group **group) {
    if (!group || !*group) return;
    kn_group *destroyed = *group;
    const kn_host host = destroyed->host;
    for (int r = 0; r < destroyed->ranks; r++)
        kn_condition_destroy(&host, &destroyed->members[r].changed);
    kn_mutex_destroy(&host, &destroyed->mutex);
    kn_arena_finish(&destroyed->arena);
    kn_release(&host, destroyed);
    *group = NULL;
}

const kn_communicator *kn_group_communicator(kn_group *group, int rank) {
    return group && rank >= 0 && rank < group->ranks ? &group->members[rank].communicator : NULL;
}
