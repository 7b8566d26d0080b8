/*
 * coldvol: block volumes that are cold after a restore, as files of a FUSE mount.
 *
 * Each volume is a file in a reflink pool. The data is always there: what is modelled is when a request
 * may be answered. A request's due time follows, at arrival, from the volume's IOPS and throughput
 * schedules, its base latency and, for cold blocks, the end of their fetch. A request that is due now is
 * answered by the thread that read it; any other waits in a heap, without a thread, for its time.
 *
 * Usage: coldvol --pool DIR --mount DIR --socket PATH --parent PID
 * Prints "ready" when it serves. Ends on unmount, SIGTERM, or the death of the parent.
 */
#define FUSE_USE_VERSION 312
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BLOCK_BYTES (512u << 10) /* hydration granularity: the block size of the EBS direct APIs */
#define SUB_BYTES (64u << 10)    /* writes that cover whole 64 KiB parts make a cold block local without a fetch */
#define IO_UNIT_BYTES (256u << 10) /* gp3 counts one I/O per started 256 KiB */
#define MAX_REQUEST_BYTES (1u << 20)
#define INLINE_BYTES (64u << 10) /* the timer answers reads up to this itself */
#define NOW_SLACK_NS 20000ull    /* due within 20 us: not worth a timer */
#define CATCH_UP_NS 2000000ull   /* a schedule may lag 2 ms behind, so that wake-up jitter costs no rate */
#define FETCH_SIGMA 0.35         /* lognormal; p99 is 2.26 times the median */
#define COLD UINT64_MAX
#define ZEROS (-1)
#define MAX_FETCHERS 1024
#define COMPLETION_THREADS 3
#define READER_THREADS 16
#define BACKGROUND_REQUESTS 4096
#define ID_BYTES 64
#define MAX_VOLUMES_PER_SNAPSHOT 64
#define SECOND_NS 1000000000ull

struct limits {
    uint64_t iops;             /* 0: unlimited */
    uint64_t bytes_per_second; /* 0: unlimited */
    uint64_t base_ns;
    uint64_t fetch_ns;
    uint32_t fetch_parallel;
    uint64_t hydration_bytes_per_second; /* 0: no background hydration */
};

struct volume {
    struct volume *next;
    char id[ID_BYTES + 1];
    char snapshot_id[ID_BYTES + 1]; /* empty: made blank */
    fuse_ino_t ino;
    int fd;
    int origin_fd;            /* the snapshot it was made from, -1: none */
    uint64_t size;
    uint64_t blocks;
    struct limits limits;
    pthread_mutex_t model;    /* guards everything below */
    uint64_t *ready_ns;       /* per block: 0 local, COLD, else when its fetch ends */
    uint8_t *covered;         /* per block: which 64 KiB parts of a cold block were overwritten whole */
    uint8_t *present;         /* bitmap: blocks that a snapshot of this volume holds */
    uint8_t *written;         /* bitmap: blocks that are not as they were in the origin */
    uint64_t iops_ns, bytes_ns; /* when the next I/O, the next byte, may start */
    uint64_t slot_ns[MAX_FETCHERS];
    uint64_t hydration_ns, hydration_cursor;
    uint64_t random_state;
    uint64_t blocks_in_snapshot, read_bytes, cold_fetches;
    pthread_rwlock_t gate;    /* writers hold it shared; a snapshot holds it alone */
    unsigned references;      /* guarded by table_lock: the table's own, open files, control calls */
};

struct snapshot {
    struct snapshot *next;
    char id[ID_BYTES + 1];
    uint64_t size;
    uint8_t *present;
};

struct completion {
    uint64_t due_ns, sequence;
    fuse_req_t request;
    int fd; /* where a read's data is; ZEROS: nowhere */
    uint32_t size;
    uint64_t offset;
    bool is_write;
};

static int pool_fd;
static struct fuse_session *session;
static const char *mount_point;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct volume *volumes;
static struct snapshot *snapshots;
static fuse_ino_t next_ino = 2;
static pthread_mutex_t snapshot_lock = PTHREAD_MUTEX_INITIALIZER; /* one snapshot command at a time */

/* ---------------------------------------------------------------- small things */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "coldvol: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *must_alloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p)
        die("out of memory");
    return p;
}

static bool bit_get(const uint8_t *bits, uint64_t i) { return bits[i >> 3] >> (i & 7) & 1; }
static void bit_set(uint8_t *bits, uint64_t i) { bits[i >> 3] |= (uint8_t)(1u << (i & 7)); }
static uint64_t blocks_of(uint64_t size) { return (size + BLOCK_BYTES - 1) / BLOCK_BYTES; }
static size_t bitmap_bytes(uint64_t blocks) { return (blocks + 7) / 8; }
static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

static bool valid_id(const char *id)
{
    size_t n = strlen(id);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)id[i]) && id[i] != '-')
            return false;
    return n > 0 && n <= ID_BYTES;
}

static double uniform(struct volume *v) /* (0, 1); xorshift64* */
{
    uint64_t x = v->random_state;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    v->random_state = x;
    return ((double)((x * 2685821657736338717ull) >> 11) + 0.5) / 9007199254740992.0;
}

/* ---------------------------------------------------------------- the volume model; call with v->model held */

static uint64_t fetch_duration_ns(struct volume *v)
{
    double normal = sqrt(-2.0 * log(uniform(v))) * cos(2.0 * M_PI * uniform(v));
    return (uint64_t)((double)v->limits.fetch_ns * exp(FETCH_SIGMA * normal));
}

/* Blocks that background hydration brought in since the last look: computed, not run. */
static void advance_hydration(struct volume *v, uint64_t now)
{
    if (!v->limits.hydration_bytes_per_second)
        return;
    uint64_t interval = BLOCK_BYTES * SECOND_NS / v->limits.hydration_bytes_per_second;
    while (v->hydration_ns <= now && v->hydration_cursor < v->blocks) {
        uint64_t b = v->hydration_cursor++;
        if (v->ready_ns[b] != COLD)
            continue;
        v->ready_ns[b] = 0;
        v->hydration_ns += interval;
    }
}

/* When block b is local; starts its fetch if nobody did. */
static uint64_t fetch_block(struct volume *v, uint64_t b, uint64_t now)
{
    if (v->ready_ns[b] != COLD) {
        if (v->ready_ns[b] <= now)
            v->ready_ns[b] = 0;
        return v->ready_ns[b];
    }
    uint32_t slot = 0;
    for (uint32_t i = 1; i < v->limits.fetch_parallel; i++)
        if (v->slot_ns[i] < v->slot_ns[slot])
            slot = i;
    uint64_t end = max_u64(now, v->slot_ns[slot]) + fetch_duration_ns(v);
    v->slot_ns[slot] = v->ready_ns[b] = end;
    v->cold_fetches++;
    uint64_t start = b * BLOCK_BYTES; /* the pool's own disk works while the modelled fetch runs */
    int fd = bit_get(v->written, b) ? v->fd : v->origin_fd;
    posix_fadvise(fd, (off_t)start, (off_t)min_u64(BLOCK_BYTES, v->size - start), POSIX_FADV_WILLNEED);
    return end;
}

/* The parts of block b that [from, to) covers: every part it touches, or only those it covers whole. */
static uint8_t parts_of(const struct volume *v, uint64_t b, uint64_t from, uint64_t to, bool whole)
{
    uint8_t mask = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t start = b * BLOCK_BYTES + (uint64_t)i * SUB_BYTES;
        uint64_t end = min_u64(start + SUB_BYTES, v->size);
        if (start >= v->size)
            break;
        if (whole ? from <= start && to >= end : from < end && to > start)
            mask |= (uint8_t)(1u << i);
    }
    return mask;
}

static uint64_t fetch_for_read(struct volume *v, uint64_t from, uint64_t to, uint64_t now)
{
    uint64_t ready = now;
    for (uint64_t b = from / BLOCK_BYTES; b * BLOCK_BYTES < to; b++) {
        if (!v->ready_ns[b])
            continue;
        uint8_t wanted = parts_of(v, b, from, to, false);
        if ((wanted & ~v->covered[b]) == 0)
            continue;
        ready = max_u64(ready, fetch_block(v, b, now));
    }
    return ready;
}

static uint64_t fetch_for_write(struct volume *v, uint64_t from, uint64_t to, uint64_t now)
{
    uint64_t ready = now;
    for (uint64_t b = from / BLOCK_BYTES; b * BLOCK_BYTES < to; b++) {
        bit_set(v->present, b);
        bit_set(v->written, b);
        if (!v->ready_ns[b])
            continue;
        v->covered[b] |= parts_of(v, b, from, to, true);
        if (v->covered[b] == parts_of(v, b, 0, v->size, false))
            v->ready_ns[b] = 0;
        else if (parts_of(v, b, from, to, false) & ~v->covered[b])
            ready = max_u64(ready, fetch_block(v, b, now));
    }
    return ready;
}

/* Take `cost` from a schedule: returns when the request may start. Rate 0 is no limit. */
static uint64_t take_turn(uint64_t *schedule_ns, uint64_t cost, uint64_t rate, uint64_t now)
{
    if (!rate)
        return now;
    uint64_t start = max_u64(*schedule_ns, now - CATCH_UP_NS);
    *schedule_ns = start + (uint64_t)((double)cost * (double)SECOND_NS / (double)rate);
    return start;
}

/* Where to read [from, to). What is as in the snapshot is read there, so that all volumes made from it share
 * one copy in this machine's memory. Decided on arrival: a write that comes later may be missed, as on a disk. */
static int fd_of(const struct volume *v, uint64_t from, uint64_t to)
{
    bool present = false, written = false;
    for (uint64_t b = from / BLOCK_BYTES; b * BLOCK_BYTES < to; b++) {
        present |= bit_get(v->present, b);
        written |= bit_get(v->written, b);
    }
    return written ? v->fd : present ? v->origin_fd : ZEROS;
}

/* When the request may be answered, and for a read in *fd from where. */
static uint64_t due_ns(struct volume *v, uint64_t offset, uint64_t size, bool is_write, int *fd)
{
    uint64_t now = now_ns();
    pthread_mutex_lock(&v->model);
    advance_hydration(v, now);
    uint64_t units = (size + IO_UNIT_BYTES - 1) / IO_UNIT_BYTES;
    uint64_t start = max_u64(take_turn(&v->iops_ns, units, v->limits.iops, now),
                             take_turn(&v->bytes_ns, size, v->limits.bytes_per_second, now));
    uint64_t ready = is_write ? fetch_for_write(v, offset, offset + size, now)
                              : fetch_for_read(v, offset, offset + size, now);
    if (!is_write)
        v->read_bytes += size, *fd = fd_of(v, offset, offset + size);
    pthread_mutex_unlock(&v->model);
    return max_u64(max_u64(start, ready), now) + v->limits.base_ns;
}

/* ---------------------------------------------------------------- tables */

static struct volume *find_volume(const char *id) /* table_lock held */
{
    for (struct volume *v = volumes; v; v = v->next)
        if (!strcmp(v->id, id))
            return v;
    return NULL;
}

static struct snapshot *find_snapshot(const char *id) /* table_lock held */
{
    for (struct snapshot *s = snapshots; s; s = s->next)
        if (!strcmp(s->id, id))
            return s;
    return NULL;
}

static struct volume *hold_volume(const char *id)
{
    pthread_mutex_lock(&table_lock);
    struct volume *v = find_volume(id);
    if (v)
        v->references++;
    pthread_mutex_unlock(&table_lock);
    return v;
}

static struct volume *hold_inode(fuse_ino_t ino)
{
    pthread_mutex_lock(&table_lock);
    struct volume *v = volumes;
    while (v && v->ino != ino)
        v = v->next;
    if (v)
        v->references++;
    pthread_mutex_unlock(&table_lock);
    return v;
}

static void free_volume(struct volume *v)
{
    if (v->fd >= 0)
        close(v->fd);
    if (v->origin_fd >= 0)
        close(v->origin_fd);
    free(v->ready_ns), free(v->covered), free(v->present), free(v->written);
    pthread_mutex_destroy(&v->model);
    pthread_rwlock_destroy(&v->gate);
    free(v);
}

static void drop_volume(struct volume *v)
{
    pthread_mutex_lock(&table_lock);
    bool last = --v->references == 0;
    pthread_mutex_unlock(&table_lock);
    if (last)
        free_volume(v);
}

/* ---------------------------------------------------------------- completions */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t timer_wakes, worker_wakes;
    struct completion *heap;
    size_t count, room;
    struct completion *queue; /* ring of due requests for the workers */
    size_t head, length, queue_room;
    unsigned idle_workers;
    uint64_t sequence;
} line = {.lock = PTHREAD_MUTEX_INITIALIZER, .worker_wakes = PTHREAD_COND_INITIALIZER};

static bool earlier(const struct completion *a, const struct completion *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static void heap_push(struct completion c)
{
    if (line.count == line.room) {
        line.room = line.room ? line.room * 2 : 1024;
        line.heap = realloc(line.heap, line.room * sizeof c);
        if (!line.heap)
            die("out of memory");
    }
    size_t i = line.count++;
    for (; i > 0 && earlier(&c, &line.heap[(i - 1) / 2]); i = (i - 1) / 2)
        line.heap[i] = line.heap[(i - 1) / 2];
    line.heap[i] = c;
}

static struct completion heap_pop(void)
{
    struct completion top = line.heap[0], last = line.heap[--line.count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= line.count)
            break;
        if (child + 1 < line.count && earlier(&line.heap[child + 1], &line.heap[child]))
            child++;
        if (!earlier(&line.heap[child], &last))
            break;
        line.heap[i] = line.heap[child];
        i = child;
    }
    line.heap[i] = last;
    return top;
}

static void queue_push(struct completion c)
{
    if (line.length == line.queue_room) {
        size_t room = line.queue_room ? line.queue_room * 2 : 1024;
        struct completion *grown = must_alloc(room, sizeof c);
        for (size_t i = 0; i < line.length; i++)
            grown[i] = line.queue[(line.head + i) % line.queue_room];
        free(line.queue);
        line.queue = grown, line.head = 0, line.queue_room = room;
    }
    line.queue[(line.head + line.length++) % line.queue_room] = c;
}

static __thread char *read_buffer;
static pthread_key_t buffer_key;

static char *thread_buffer(void)
{
    if (!read_buffer) {
        if (posix_memalign((void **)&read_buffer, 4096, MAX_REQUEST_BYTES))
            die("out of memory");
        pthread_setspecific(buffer_key, read_buffer);
    }
    return read_buffer;
}

/* Reads and answers. With may_wait false it returns false where the pool's own disk would have to be read. */
static bool answer_read(const struct completion *c, bool may_wait)
{
    static const char zeros[MAX_REQUEST_BYTES];
    if (c->fd == ZEROS) {
        fuse_reply_buf(c->request, zeros, c->size);
        return true;
    }
    char *buffer = thread_buffer();
    size_t got = 0;
    while (got < c->size) {
        struct iovec part = {buffer + got, c->size - got};
        ssize_t n = preadv2(c->fd, &part, 1, (off_t)(c->offset + got), may_wait ? 0 : RWF_NOWAIT);
        if (n > 0) {
            got += (size_t)n;
        } else if (n == 0) { /* the volume is larger than its origin */
            memset(buffer + got, 0, c->size - got);
            got = c->size;
        } else if (errno == EINTR) {
            continue;
        } else if (!may_wait) {
            return false;
        } else {
            fuse_reply_err(c->request, errno);
            return true;
        }
    }
    fuse_reply_buf(c->request, buffer, got);
    return true;
}

static bool answer(const struct completion *c, bool may_wait)
{
    if (!c->is_write)
        return answer_read(c, may_wait);
    fuse_reply_write(c->request, c->size);
    return true;
}

static void hand_to_worker(struct completion c) /* line.lock held */
{
    queue_push(c);
    if (line.idle_workers)
        pthread_cond_signal(&line.worker_wakes);
}

static void *timer_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&line.lock);
    for (;;) {
        if (!line.count) {
            pthread_cond_wait(&line.timer_wakes, &line.lock);
            continue;
        }
        uint64_t due = line.heap[0].due_ns;
        if (due > now_ns() + NOW_SLACK_NS) {
            struct timespec at = {(time_t)(due / SECOND_NS), (long)(due % SECOND_NS)};
            pthread_cond_timedwait(&line.timer_wakes, &line.lock, &at);
            continue;
        }
        struct completion c = heap_pop();
        if (!c.is_write && c.size > INLINE_BYTES) {
            hand_to_worker(c);
            continue;
        }
        pthread_mutex_unlock(&line.lock);
        bool answered = answer(&c, false);
        pthread_mutex_lock(&line.lock);
        if (!answered)
            hand_to_worker(c);
    }
    return NULL;
}

static void *worker_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&line.lock);
    for (;;) {
        if (!line.length) {
            line.idle_workers++;
            pthread_cond_wait(&line.worker_wakes, &line.lock);
            line.idle_workers--;
            continue;
        }
        struct completion c = line.queue[line.head];
        line.head = (line.head + 1) % line.queue_room, line.length--;
        pthread_mutex_unlock(&line.lock);
        answer(&c, true);
        pthread_mutex_lock(&line.lock);
    }
    return NULL;
}

static void answer_when_due(struct completion c)
{
    if (c.due_ns <= now_ns() + NOW_SLACK_NS) {
        answer(&c, true);
        return;
    }
    pthread_mutex_lock(&line.lock);
    c.sequence = line.sequence++;
    heap_push(c);
    if (line.heap[0].sequence == c.sequence)
        pthread_cond_signal(&line.timer_wakes);
    pthread_mutex_unlock(&line.lock);
}

/* ---------------------------------------------------------------- FUSE */

static void fill_attributes(const struct volume *v, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_ino = v ? v->ino : FUSE_ROOT_ID;
    st->st_mode = v ? S_IFREG | 0600 : S_IFDIR | 0700;
    st->st_nlink = v ? 1 : 2;
    st->st_size = v ? (off_t)v->size : 0;
    st->st_blksize = 4096;
    st->st_blocks = st->st_size / 512;
}

static void on_init(void *unused, struct fuse_conn_info *conn)
{
    (void)unused;
    conn->want |= conn->capable & FUSE_CAP_ASYNC_DIO; /* without it the kernel sends one request at a time */
    conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
    conn->max_background = BACKGROUND_REQUESTS;
    conn->congestion_threshold = BACKGROUND_REQUESTS;
    conn->max_write = MAX_REQUEST_BYTES;
    if (!(conn->capable & FUSE_CAP_ASYNC_DIO))
        fprintf(stderr, "coldvol: this kernel has no FUSE_ASYNC_DIO; volumes will be serial\n");
}

static void on_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct volume *v = parent == FUSE_ROOT_ID ? hold_volume(name) : NULL;
    if (!v) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    struct fuse_entry_param e = {.ino = v->ino, .attr_timeout = 0, .entry_timeout = 0};
    fill_attributes(v, &e.attr);
    drop_volume(v);
    fuse_reply_entry(req, &e);
}

static void on_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;
    if (fi || ino == FUSE_ROOT_ID) {
        fill_attributes(ino == FUSE_ROOT_ID ? NULL : (struct volume *)(uintptr_t)fi->fh, &st);
        fuse_reply_attr(req, &st, 0);
        return;
    }
    struct volume *v = hold_inode(ino);
    if (!v) {
        fuse_reply_err(req, ESTALE);
        return;
    }
    fill_attributes(v, &st);
    drop_volume(v);
    fuse_reply_attr(req, &st, 0);
}

static void on_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void)fi;
    if (ino != FUSE_ROOT_ID) {
        fuse_reply_err(req, ENOTDIR);
        return;
    }
    char *buffer = must_alloc(1, size);
    size_t used = 0;
    off_t position = 0;
    pthread_mutex_lock(&table_lock);
    for (struct volume *v = volumes; v; v = v->next) {
        if (++position <= offset)
            continue;
        struct stat st;
        fill_attributes(v, &st);
        size_t entry = fuse_add_direntry(req, buffer + used, size - used, v->id, &st, position);
        if (entry > size - used)
            break;
        used += entry;
    }
    pthread_mutex_unlock(&table_lock);
    fuse_reply_buf(req, buffer, used);
    free(buffer);
}

static void on_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct volume *v = hold_inode(ino);
    if (!v) {
        fuse_reply_err(req, ESTALE);
        return;
    }
    fi->fh = (uintptr_t)v;
    fi->direct_io = 1;
    if (fuse_reply_open(req, fi) == -ENOENT)
        drop_volume(v); /* the opener was interrupted: no release will come */
}

static void on_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    drop_volume((struct volume *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

static void on_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    (void)ino;
    struct volume *v = (struct volume *)(uintptr_t)fi->fh;
    if ((uint64_t)offset >= v->size || size == 0) {
        fuse_reply_buf(req, NULL, 0);
        return;
    }
    size = min_u64(min_u64(size, MAX_REQUEST_BYTES), v->size - (uint64_t)offset);
    struct completion c = {.request = req, .offset = (uint64_t)offset, .size = (uint32_t)size};
    c.due_ns = due_ns(v, c.offset, size, false, &c.fd);
    answer_when_due(c);
}

static int write_all(int fd, const char *data, size_t size, off_t offset)
{
    while (size) {
        ssize_t n = pwrite(fd, data, size, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        data += n, size -= (size_t)n, offset += n;
    }
    return 0;
}

static void on_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    (void)ino;
    struct volume *v = (struct volume *)(uintptr_t)fi->fh;
    if ((uint64_t)offset >= v->size || size > v->size - (uint64_t)offset) {
        fuse_reply_err(req, ENOSPC);
        return;
    }
    if (!size) {
        fuse_reply_write(req, 0);
        return;
    }
    pthread_rwlock_rdlock(&v->gate);
    struct completion c = {.request = req, .size = (uint32_t)size, .is_write = true};
    c.due_ns = due_ns(v, (uint64_t)offset, size, true, NULL);
    int error = write_all(v->fd, data, size, offset);
    pthread_rwlock_unlock(&v->gate);
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    answer_when_due(c);
}

static void on_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    (void)ino, (void)datasync;
    int failed = fdatasync(((struct volume *)(uintptr_t)fi->fh)->fd);
    fuse_reply_err(req, failed ? errno : 0);
}

static const struct fuse_lowlevel_ops operations = {
    .init = on_init, .lookup = on_lookup, .getattr = on_getattr, .readdir = on_readdir, .open = on_open,
    .release = on_release, .read = on_read, .write = on_write, .fsync = on_fsync,
};

/* ---------------------------------------------------------------- volumes and snapshots */

/* Control replies: a line "ok ..." or "error ..." */
static char *say(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        die("out of memory");
    va_end(arguments);
    return text;
}

static char *say_errno(const char *what, const char *id)
{
    return say("error %s %s: %s", what, id, strerror(errno));
}

static int open_at(int flags, const char *format, ...)
{
    char path[ID_BYTES * 2 + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    return openat(pool_fd, path, flags | O_CLOEXEC, 0600);
}

static void unlink_at(const char *format, ...)
{
    char path[ID_BYTES * 2 + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    unlinkat(pool_fd, path, 0);
}

static bool clone_file(int from, int to) { return ioctl(to, FICLONE, from) == 0; }

static struct volume *new_volume(const char *id, uint64_t size, struct limits limits)
{
    struct volume *v = must_alloc(1, sizeof *v);
    strcpy(v->id, id);
    v->fd = v->origin_fd = -1;
    v->size = size;
    v->blocks = blocks_of(size);
    v->limits = limits;
    v->ready_ns = must_alloc(v->blocks, sizeof *v->ready_ns);
    v->covered = must_alloc(v->blocks, 1);
    v->present = must_alloc(bitmap_bytes(v->blocks), 1);
    v->written = must_alloc(bitmap_bytes(v->blocks), 1);
    v->random_state = 0x9e3779b97f4a7c15ull;
    for (const char *c = id; *c; c++)
        v->random_state = (v->random_state ^ (uint8_t)*c) * 1099511628211ull;
    v->random_state |= 1;
    v->references = 1;
    pthread_mutex_init(&v->model, NULL);
    pthread_rwlockattr_t writers_first;
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&v->gate, &writers_first);
    pthread_rwlockattr_destroy(&writers_first);
    return v;
}

static void mark_cold(struct volume *v, const struct snapshot *s)
{
    strcpy(v->snapshot_id, s->id);
    for (uint64_t b = 0; b < blocks_of(s->size); b++)
        if (bit_get(s->present, b)) {
            bit_set(v->present, b);
            v->ready_ns[b] = COLD;
            v->blocks_in_snapshot++;
        }
    v->hydration_ns = now_ns();
}

static bool fill_volume_file(struct volume *v, const char *snapshot_id)
{
    v->fd = open_at(O_RDWR | O_CREAT | O_TRUNC, "volumes/%s.img", v->id);
    if (v->fd < 0)
        return false;
    if (*snapshot_id) {
        v->origin_fd = open_at(O_RDONLY, "snapshots/%s.img", snapshot_id);
        if (v->origin_fd < 0 || !clone_file(v->origin_fd, v->fd))
            return false;
    }
    return ftruncate(v->fd, (off_t)v->size) == 0;
}

/* create ID SIZE IOPS BYTES_PER_SECOND BASE_NS FETCH_NS FETCH_PARALLEL HYDRATION_BYTES_PER_SECOND [SNAPSHOT] */
static char *do_create(char *arguments)
{
    char id[ID_BYTES + 1], snapshot_id[ID_BYTES + 1] = "";
    uint64_t size;
    struct limits l;
    int n = sscanf(arguments, "%64s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu64
                   " %64s", id, &size, &l.iops, &l.bytes_per_second, &l.base_ns, &l.fetch_ns, &l.fetch_parallel,
                   &l.hydration_bytes_per_second, snapshot_id);
    if (n < 8 || !valid_id(id) || size == 0 || size % 4096 || l.fetch_parallel < 1 || l.fetch_parallel > MAX_FETCHERS)
        return say("error create: bad arguments");
    char *answer_line = NULL;
    pthread_mutex_lock(&table_lock);
    struct volume *v = find_volume(id);
    struct snapshot *s = *snapshot_id ? find_snapshot(snapshot_id) : NULL;
    if (v && v->size == size && !strcmp(v->snapshot_id, snapshot_id))
        answer_line = say("ok exists");
    else if (v)
        answer_line = say("error volume %s exists with another size or snapshot", id);
    else if (*snapshot_id && !s)
        answer_line = say("error snapshot %s does not exist", snapshot_id);
    else if (s && s->size > size)
        answer_line = say("error snapshot %s needs %" PRIu64 " bytes, volume %s has %" PRIu64, s->id, s->size, id, size);
    if (!answer_line) {
        v = new_volume(id, size, l);
        if (s)
            mark_cold(v, s);
        if (fill_volume_file(v, snapshot_id)) {
            v->ino = next_ino++;
            v->next = volumes;
            volumes = v;
            answer_line = say("ok created");
        } else {
            answer_line = say_errno("create volume", id);
            unlink_at("volumes/%s.img", id);
            free_volume(v);
        }
    }
    pthread_mutex_unlock(&table_lock);
    return answer_line;
}

static char *do_delete(char *arguments)
{
    pthread_mutex_lock(&table_lock);
    struct volume **at = &volumes;
    while (*at && strcmp((*at)->id, arguments))
        at = &(*at)->next;
    struct volume *v = *at;
    if (v) {
        *at = v->next;
        unlink_at("volumes/%s.img", v->id);
    }
    pthread_mutex_unlock(&table_lock);
    if (v)
        drop_volume(v);
    return say("ok");
}

static bool write_block_map(const struct snapshot *s)
{
    int fd = open_at(O_WRONLY | O_CREAT | O_TRUNC, "snapshots/%s.blocks.new", s->id);
    if (fd < 0)
        return false;
    char header[64];
    int n = snprintf(header, sizeof header, "coldvol-blocks 1 %" PRIu64 "\n", s->size);
    bool ok = write_all(fd, header, (size_t)n, 0) == 0 &&
              write_all(fd, (const char *)s->present, bitmap_bytes(blocks_of(s->size)), n) == 0 && fsync(fd) == 0;
    return close(fd) == 0 && ok;
}

static void publish_block_map(const char *id)
{
    char from[ID_BYTES + 64], to[ID_BYTES + 64];
    snprintf(from, sizeof from, "snapshots/%s.blocks.new", id);
    snprintf(to, sizeof to, "snapshots/%s.blocks", id);
    if (renameat(pool_fd, from, pool_fd, to))
        die("publish a snapshot's block map");
}

struct pair {
    struct volume *volume;
    struct snapshot *snapshot;
    int fd;
};

static int by_ino(const void *a, const void *b)
{
    fuse_ino_t x = ((const struct pair *)a)->volume->ino, y = ((const struct pair *)b)->volume->ino;
    return (x > y) - (x < y);
}

/* All volumes' writes stand still while all the files are cloned: one instant. The gate is short because what
 * was dirty was flushed twice before it closed; FICLONE has to flush the rest. Returns gate time, 0 on failure. */
static uint64_t clone_at_one_instant(struct pair *pairs, size_t count)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++)
            fdatasync(pairs[i].volume->fd);
    uint64_t closed = now_ns();
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        pthread_rwlock_wrlock(&pairs[i].volume->gate);
    for (size_t i = 0; i < count && ok; i++) {
        struct volume *v = pairs[i].volume;
        ok = clone_file(v->fd, pairs[i].fd);
        pthread_mutex_lock(&v->model);
        memcpy(pairs[i].snapshot->present, v->present, bitmap_bytes(v->blocks));
        pthread_mutex_unlock(&v->model);
    }
    int error = errno;
    for (size_t i = 0; i < count; i++)
        pthread_rwlock_unlock(&pairs[i].volume->gate);
    errno = error;
    return ok ? max_u64(now_ns() - closed, 1) : 0;
}

static uint64_t take_snapshots(struct pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pairs[i].fd = open_at(O_RDWR | O_CREAT | O_TRUNC, "snapshots/%s.img", pairs[i].snapshot->id);
        if (pairs[i].fd < 0)
            return 0;
    }
    uint64_t gate_ns = clone_at_one_instant(pairs, count);
    for (size_t i = 0; i < count && gate_ns; i++)
        if (fsync(pairs[i].fd) || !write_block_map(pairs[i].snapshot))
            gate_ns = 0;
    for (size_t i = 0; i < count && gate_ns; i++)
        publish_block_map(pairs[i].snapshot->id);
    if (gate_ns)
        fsync(pool_fd);
    return gate_ns;
}

/* Reads "VOLUME=SNAPSHOT ..." into pairs; returns an error line or NULL. Volumes in pairs are held. */
static char *parse_pairs(char *arguments, struct pair *pairs, size_t *count, size_t *existing)
{
    char *rest = NULL;
    for (char *word = strtok_r(arguments, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *separator = strchr(word, '=');
        if (!separator || *count == MAX_VOLUMES_PER_SNAPSHOT)
            return say("error snapshot: bad arguments");
        *separator = 0;
        const char *snapshot_id = separator + 1;
        if (!valid_id(snapshot_id))
            return say("error snapshot: bad id");
        pthread_mutex_lock(&table_lock);
        bool exists = find_snapshot(snapshot_id) != NULL;
        pthread_mutex_unlock(&table_lock);
        if (exists) {
            ++*existing;
            continue;
        }
        struct volume *v = hold_volume(word);
        if (!v)
            return say("error volume %s does not exist", word);
        struct snapshot *s = must_alloc(1, sizeof *s);
        strcpy(s->id, snapshot_id);
        s->size = v->size;
        s->present = must_alloc(bitmap_bytes(v->blocks), 1);
        pairs[(*count)++] = (struct pair){v, s, -1};
    }
    return NULL;
}

static void forget_snapshot(struct snapshot *s)
{
    unlink_at("snapshots/%s.blocks", s->id);
    unlink_at("snapshots/%s.blocks.new", s->id);
    unlink_at("snapshots/%s.img", s->id);
    free(s->present);
    free(s);
}

/* snapshot VOLUME=SNAPSHOT ... */
static char *do_snapshot(char *arguments)
{
    struct pair pairs[MAX_VOLUMES_PER_SNAPSHOT];
    size_t count = 0, existing = 0;
    pthread_mutex_lock(&snapshot_lock);
    char *error = parse_pairs(arguments, pairs, &count, &existing);
    if (!error && count && existing)
        error = say("error some of these snapshots exist and some do not; one instant is not possible any more");
    qsort(pairs, count, sizeof *pairs, by_ino); /* one locking order for all */
    for (size_t i = 1; i < count && !error; i++)
        if (pairs[i].volume == pairs[i - 1].volume)
            error = say("error volume %s is named twice", pairs[i].volume->id);
    uint64_t gate_ns = 0;
    if (!error && count) {
        gate_ns = take_snapshots(pairs, count);
        if (!gate_ns)
            error = say_errno("snapshot", pairs[0].snapshot->id);
    }
    pthread_mutex_lock(&table_lock);
    for (size_t i = 0; i < count; i++) {
        if (error) {
            forget_snapshot(pairs[i].snapshot);
        } else {
            pairs[i].snapshot->next = snapshots;
            snapshots = pairs[i].snapshot;
            fprintf(stderr, "coldvol: snapshot %s of %s, writes stood still %" PRIu64 " us\n", pairs[i].snapshot->id,
                    pairs[i].volume->id, gate_ns / 1000);
        }
    }
    pthread_mutex_unlock(&table_lock);
    pthread_mutex_unlock(&snapshot_lock);
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].fd >= 0)
            close(pairs[i].fd);
        drop_volume(pairs[i].volume);
    }
    return error ? error : say("ok");
}

static char *do_delete_snapshot(char *arguments)
{
    pthread_mutex_lock(&table_lock);
    struct snapshot **at = &snapshots;
    while (*at && strcmp((*at)->id, arguments))
        at = &(*at)->next;
    struct snapshot *s = *at;
    if (s) {
        *at = s->next;
        forget_snapshot(s);
    }
    pthread_mutex_unlock(&table_lock);
    return say("ok");
}

/* blocks SNAPSHOT: "ok SIZE first-last first-last ..." */
static char *do_blocks(char *arguments)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        die("out of memory");
    pthread_mutex_lock(&table_lock);
    struct snapshot *s = find_snapshot(arguments);
    if (!s) {
        fprintf(out, "error snapshot %s does not exist", arguments);
    } else {
        fprintf(out, "ok %" PRIu64, s->size);
        uint64_t blocks = blocks_of(s->size);
        for (uint64_t b = 0; b < blocks; b++) {
            if (!bit_get(s->present, b))
                continue;
            uint64_t first = b;
            while (b + 1 < blocks && bit_get(s->present, b + 1))
                b++;
            fprintf(out, " %" PRIu64 "-%" PRIu64, first, b);
        }
    }
    pthread_mutex_unlock(&table_lock);
    fclose(out);
    return text;
}

static char *do_stat(char *arguments)
{
    struct volume *v = hold_volume(arguments);
    if (!v)
        return say("error volume %s does not exist", arguments);
    uint64_t now = now_ns(), cold = 0;
    pthread_mutex_lock(&v->model);
    advance_hydration(v, now);
    for (uint64_t b = 0; b < v->blocks; b++)
        cold += v->ready_ns[b] > now;
    char *text = say("ok {\"blocks_in_snapshot\": %" PRIu64 ", \"blocks_cold\": %" PRIu64
                     ", \"read_bytes\": %" PRIu64 ", \"cold_fetches\": %" PRIu64 "}",
                     v->blocks_in_snapshot, cold, v->read_bytes, v->cold_fetches);
    pthread_mutex_unlock(&v->model);
    drop_volume(v);
    return text;
}

static char *do_list(char *arguments)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        die("out of memory");
    fprintf(out, "ok");
    pthread_mutex_lock(&table_lock);
    if (!strcmp(arguments, "volumes"))
        for (struct volume *v = volumes; v; v = v->next)
            fprintf(out, " %s", v->id);
    else
        for (struct snapshot *s = snapshots; s; s = s->next)
            fprintf(out, " %s", s->id);
    pthread_mutex_unlock(&table_lock);
    fclose(out);
    return text;
}

/* ---------------------------------------------------------------- control socket */

static char *run_command(char *text)
{
    static const struct {
        const char *name;
        char *(*run)(char *);
    } commands[] = {{"create", do_create},   {"delete", do_delete}, {"snapshot", do_snapshot},
                    {"delete-snapshot", do_delete_snapshot}, {"blocks", do_blocks},
                    {"stat", do_stat},       {"list", do_list}};
    char *arguments = strchr(text, ' ');
    if (arguments)
        *arguments++ = 0;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (!strcmp(text, commands[i].name))
            return commands[i].run(arguments ? arguments : text + strlen(text));
    return say("error unknown command %s", text);
}

static void *control_main(void *argument)
{
    int fd = (int)(intptr_t)argument;
    FILE *stream = fdopen(fd, "r+");
    char *text = NULL;
    size_t room = 0;
    ssize_t n = stream ? getline(&text, &room, stream) : -1;
    if (n > 0) {
        text[strcspn(text, "\n")] = 0;
        char *reply = run_command(text);
        dprintf(fd, "%s\n", reply);
        free(reply);
    }
    free(text);
    if (stream)
        fclose(stream);
    else
        close(fd);
    return NULL;
}

static void start_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, argument))
        die("start a thread");
    pthread_detach(thread);
}

static void *accept_main(void *argument)
{
    int listener = (int)(intptr_t)argument;
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            start_thread(control_main, (void *)(intptr_t)fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            usleep(100000); /* out of descriptors: let some close */
    }
    return NULL;
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        die(path);
    }
    strcpy(address.sun_path, path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 64))
        die(path);
    return fd;
}

/* ---------------------------------------------------------------- life */

/*
 * What waits for a volume ends with an error. Closing /dev/fuse does that too, but not always in time: the last process
 * of a mount namespace unmounts what is mounted there before it closes its files, and a filesystem on one of our own
 * volumes would wait for us for ever. Where volumes are in use the mount stays, and only its connection ends.
 */
static void end_connection(void)
{
    if (umount2(mount_point, MNT_FORCE) && errno != EBUSY && errno != EINVAL)
        perror("coldvol: end the connection");
}

/* A pidfd speaks of the process; PR_SET_PDEATHSIG would fire when the one thread that started us ends. */
static void *parent_main(void *argument)
{
    struct pollfd parent = {.fd = (int)(intptr_t)argument, .events = POLLIN};
    while (poll(&parent, 1, -1) < 0 && errno == EINTR)
        ;
    fprintf(stderr, "coldvol: parent is gone\n");
    end_connection();
    _exit(3);
    return NULL;
}

static struct snapshot *read_block_map(FILE *in, const char *id)
{
    uint64_t size;
    if (fscanf(in, "coldvol-blocks 1 %" SCNu64, &size) != 1 || fgetc(in) != '\n')
        return NULL;
    struct snapshot *s = must_alloc(1, sizeof *s);
    size_t bytes = bitmap_bytes(blocks_of(size));
    strcpy(s->id, id);
    s->size = size;
    s->present = must_alloc(bytes, 1);
    if (fread(s->present, 1, bytes, in) == bytes)
        return s;
    free(s->present);
    free(s);
    return NULL;
}

static void load_snapshot(const char *id)
{
    int fd = open_at(O_RDONLY, "snapshots/%s.blocks", id);
    FILE *in = fd >= 0 ? fdopen(fd, "r") : NULL;
    struct snapshot *s = in ? read_block_map(in, id) : NULL;
    if (s) {
        s->next = snapshots;
        snapshots = s;
    } else {
        fprintf(stderr, "coldvol: the block map of snapshot %s cannot be read; the snapshot is dropped\n", id);
    }
    if (in)
        fclose(in);
}

/* Calls use(name without suffix) for the files of a pool folder that end in suffix. */
static void each_file(const char *folder, const char *suffix, void (*use)(const char *))
{
    int fd = openat(pool_fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
    if (!directory)
        die(folder);
    for (struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name), tail = strlen(suffix);
        if (length <= tail || length - tail > ID_BYTES || strcmp(entry->d_name + length - tail, suffix))
            continue;
        char id[ID_BYTES + 1];
        memcpy(id, entry->d_name, length - tail);
        id[length - tail] = 0;
        use(id);
    }
    closedir(directory);
}

static void discard_volume(const char *id) { unlink_at("volumes/%s.img", id); }
static void discard_new_map(const char *id) { unlink_at("snapshots/%s.blocks.new", id); }

static void discard_unfinished(const char *id)
{
    if (!find_snapshot(id))
        unlink_at("snapshots/%s.img", id);
}

static void open_pool(const char *path)
{
    pool_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pool_fd < 0)
        die(path);
    if (mkdirat(pool_fd, "volumes", 0700) && errno != EEXIST)
        die("make the pool's volumes folder");
    if (mkdirat(pool_fd, "snapshots", 0700) && errno != EEXIST)
        die("make the pool's snapshots folder");
    each_file("snapshots", ".blocks", load_snapshot);
    each_file("snapshots", ".blocks.new", discard_new_map);
    each_file("snapshots", ".img", discard_unfinished);
    each_file("volumes", ".img", discard_volume); /* a volume lives no longer than its daemon */
}

static void start_completions(void)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&line.timer_wakes, &monotonic);
    pthread_key_create(&buffer_key, free);
    start_thread(timer_main, NULL);
    for (int i = 0; i < COMPLETION_THREADS; i++)
        start_thread(worker_main, NULL);
}

static const char *option(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], name))
            return argv[i + 1];
    fprintf(stderr, "usage: coldvol --pool DIR --mount DIR --socket PATH --parent PID\n");
    exit(2);
}

int main(int argc, char **argv)
{
    const char *pool = option(argc, argv, "--pool"), *socket_path = option(argc, argv, "--socket");
    mount_point = option(argc, argv, "--mount");
    int parent = (int)syscall(SYS_pidfd_open, atoi(option(argc, argv, "--parent")), 0);
    if (parent < 0)
        die("find the parent process");
    /* Volumes are disks: an allocation here must not wait for a write to one of them. */
    prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
    open_pool(pool);
    int listener = listen_at(socket_path);

    char *fuse_argv[] = {argv[0], "-o", "fsname=coldvol,subtype=coldvol"};
    struct fuse_args arguments = FUSE_ARGS_INIT(3, fuse_argv);
    session = fuse_session_new(&arguments, &operations, sizeof operations, NULL);
    if (!session || fuse_set_signal_handlers(session) || fuse_session_mount(session, mount_point))
        exit(1); /* libfuse said why */

    start_thread(parent_main, (void *)(intptr_t)parent);
    start_completions();
    start_thread(accept_main, (void *)(intptr_t)listener);
    printf("ready\n");
    fflush(stdout);

    struct fuse_loop_config *config = fuse_loop_cfg_create();
    fuse_loop_cfg_set_max_threads(config, READER_THREADS);
    fuse_loop_cfg_set_idle_threads(config, READER_THREADS);
    int status = fuse_session_loop_mt(session, config);
    /* No unmount and no tear-down: timers may still hold requests, and loop devices must keep a path in the
     * mount so that clean-up recognises them. */
    end_connection();
    unlink(socket_path);
    _exit(status < 0 ? 1 : 0);
}
