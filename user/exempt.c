// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What a filter never drops: prefixes of addresses, each with the reason why it is there. The record
 * is an LPM trie, pinned as `exempt`. Up to eight of them are constants of the program; of more, the
 * program asks the trie.
 *
 * A set of them is replaced as a whole. The new trie is pinned as `exempt-next`, the program that
 * knows it comes into force in one step, and then the pin takes the other's place. The constants in
 * force name their trie, so that whoever opens the filter after a tool that died between the two can
 * tell which of the pins is the record.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "internal.h"

/* An exemption costs what it exempts a look into a trie; so many are surely a mistake. */
#define EXEMPT_MAX (1u << 20)
#define V6_BYTES 16
#define MAPPED_BITS 96
#define NEXT "exempt-next"

static const uint8_t mapped[V6_BYTES] = { [10] = 0xff, [11] = 0xff };

/* ---- one ---- */

const char *xbloom_exemption_text(const struct xbloom_exemption *e, char buf[XBLOOM_EXEMPTION_TEXT])
{
	char addr[INET6_ADDRSTRLEN];
	bool v4 = e->key.plen >= MAPPED_BITS &&
		  !memcmp(e->key.addr, mapped, sizeof(mapped) - sizeof(uint32_t));
	unsigned int plen = e->key.plen - (v4 ? MAPPED_BITS : 0);

	inet_ntop(v4 ? AF_INET : AF_INET6,
		  e->key.addr + (v4 ? sizeof(mapped) - sizeof(uint32_t) : 0), addr, sizeof(addr));
	if (plen == (v4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST))
		snprintf(buf, XBLOOM_EXEMPTION_TEXT, "%s", addr);
	else
		snprintf(buf, XBLOOM_EXEMPTION_TEXT, "%s/%u", addr, plen);
	return buf;
}

int xbloom_exemption(const struct xbloom_flow *flow, uint32_t why, struct xbloom_exemption *out,
		     struct xbloom_error *err)
{
	__u64 mask[2], addr[2], outer[2];
	char text[XBLOOM_EXEMPTION_TEXT];

	*out = (struct xbloom_exemption){ .why = why };
	if (flow->family == XBLOOM_FAMILY_V4) {
		memcpy(out->key.addr, mapped, sizeof(mapped));
		memcpy(out->key.addr + sizeof(mapped) - sizeof(flow->src.v4), &flow->src.v4,
		       sizeof(flow->src.v4));
		out->key.plen = MAPPED_BITS + flow->plen;
	} else {
		memcpy(out->key.addr, flow->src.v6, V6_BYTES);
		out->key.plen = flow->plen;
	}
	xbloom_raw_mask128(out->key.plen, mask);
	memcpy(addr, out->key.addr, sizeof(addr));
	addr[0] &= mask[0];
	addr[1] &= mask[1];
	memcpy(out->key.addr, addr, sizeof(addr));
	/* IPv4 lives in there, and was not meant. */
	memcpy(outer, mapped, sizeof(outer));
	if (flow->family == XBLOOM_FAMILY_V6 && out->key.plen < MAPPED_BITS &&
	    !((outer[0] & mask[0]) ^ addr[0]) && !((outer[1] & mask[1]) ^ addr[1]))
		return xbloom_fail(err, -EINVAL,
				   "to exempt %s would be to exempt all IPv4 addresses, too: write "
				   "narrower prefixes (2000::/3 is the Internet)",
				   xbloom_exemption_text(out, text));
	return 0;
}

static int compare(const void *x, const void *y)
{
	const struct xbloom_exemption *a = x, *b = y;
	int order = memcmp(a->key.addr, b->key.addr, V6_BYTES);

	return order ? order : (int)a->key.plen - (int)b->key.plen;
}

/* ---- the record ---- */

static int next_path(char path[XBLOOM_PATH_MAX], const struct xbloom *f, struct xbloom_error *err)
{
	return xbloom_entry_path(path, f->name, NEXT, err);
}

static bool is_trie(int fd, uint32_t id)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) && info.id == id &&
	       info.type == BPF_MAP_TYPE_LPM_TRIE &&
	       info.key_size == sizeof(struct xbloom_exempt_key) &&
	       info.value_size == sizeof(uint32_t);
}

static int trie_at(const char *path, uint32_t id)
{
	int fd = bpf_obj_get(path);

	if (!is_trie(fd, id))
		xbloom_close_fd(&fd);
	return fd;
}

/* A tool may have died between the program's coming into force and the renaming of its record. */
static int record_in_next(const struct xbloom *f, uint32_t id)
{
	char path[XBLOOM_PATH_MAX];

	return next_path(path, f, NULL) ? -1 : trie_at(path, id);
}

static int record_in_place(const struct xbloom *f, uint32_t id)
{
	char path[XBLOOM_PATH_MAX];

	return xbloom_pin_path(path, f->name, XBLOOM_PIN_EXEMPT, NULL) ? -1 : trie_at(path, id);
}

/* Each look of a reader meets another writer's change; nobody makes so many in a row. */
#define LOOKS 100

int xbloom_check_exempt(struct xbloom *f)
{
	uint32_t id = xbloom_params_in_force(f)->exempt_id, last;
	int i, fd;

	/*
	 * A reader holds no lock: while it looked from the record to the pins, both may have become
	 * another set's. Only where the record stands still is a trie that it names and nobody pins
	 * a damage.
	 */
	for (i = 0; i < LOOKS; i++) {
		if (!id) {
			xbloom_close_fd(&f->fd[XBLOOM_PIN_EXEMPT]);
			return 0;
		}
		if (is_trie(f->fd[XBLOOM_PIN_EXEMPT], id))
			return 0;
		/* In the order in which it moves, so that it is not missed on its way. */
		fd = record_in_next(f, id);
		if (fd < 0)
			fd = record_in_place(f, id);
		if (fd >= 0) {
			xbloom_close_fd(&f->fd[XBLOOM_PIN_EXEMPT]);
			f->fd[XBLOOM_PIN_EXEMPT] = fd;
			return 0;
		}
		last = id;
		id = xbloom_params_in_force(f)->exempt_id;
		if (id == last)
			break;
	}
	return -ENOENT;
}

/*
 * The pin NEXT takes the place of the other, or goes. Where it is in force and cannot be renamed, it
 * stays: it is the record, which is found there, too.
 */
static void settle_pin(const struct xbloom *f, bool in_force)
{
	if (in_force)
		renameat(f->dir_fd, NEXT, f->dir_fd, xbloom_pin_names[XBLOOM_PIN_EXEMPT]);
	else
		unlinkat(f->dir_fd, NEXT, 0);
}

static bool is_pinned(const struct xbloom *f, const char *pin)
{
	return !faccessat(f->dir_fd, pin, F_OK, AT_SYMLINK_NOFOLLOW);
}

void xbloom_settle_exempt(struct xbloom *f)
{
	const char *pin = xbloom_pin_names[XBLOOM_PIN_EXEMPT];
	uint32_t id = f->meta->params.exempt_id;
	int fd;

	/* Who ended all exemptions died before the record of them went. */
	if (!id && is_pinned(f, pin))
		unlinkat(f->dir_fd, pin, 0);
	if (!is_pinned(f, NEXT))
		return;
	fd = id ? record_in_next(f, id) : -1;
	settle_pin(f, fd >= 0);
	xbloom_close_fd(&fd);
}

int xbloom_exempt_list(const struct xbloom *f, struct xbloom_exemption **out, size_t *n,
		       struct xbloom_error *err)
{
	int fd = f->fd[XBLOOM_PIN_EXEMPT];
	struct xbloom_exempt_key at, *last = NULL;
	struct xbloom_exemption *v = NULL;
	size_t used = 0, room = 0;
	int ret = fd < 0 ? -ENOENT : 0;

	*out = NULL;
	*n = 0;
	while (!ret) {
		ret = bpf_map_get_next_key(fd, last, &at);
		if (ret)
			break;
		if (used == room) {
			struct xbloom_exemption *more;

			room = room ? room * 2 : 16;
			more = reallocarray(v, room, sizeof(*v));
			if (!more) {
				free(v);
				return xbloom_fail(err, -ENOMEM, "out of memory");
			}
			v = more;
		}
		/* Nobody writes a record in place: what was found is there. */
		v[used] = (struct xbloom_exemption){ .key = at };
		ret = bpf_map_lookup_elem(fd, &at, &v[used].why);
		used += !ret;
		last = &at;
	}
	/* Half of them would be taken for all, and the rest be lost with the next change. */
	if (ret != -ENOENT) {
		free(v);
		return xbloom_fail_errno(err, ret, "cannot read the exemptions of filter %s",
					 f->name);
	}
	if (used)
		qsort(v, used, sizeof(*v), compare);
	*out = v;
	*n = used;
	return 0;
}

/* ---- another set ---- */

/* What stays of the old ones, and the new ones; each once, with all its reasons. */
static int unite(const struct xbloom_exemption *old, size_t n_old, uint32_t replaced,
		 const struct xbloom_exemption *new, size_t n_new, struct xbloom_exemption **out,
		 size_t *n, struct xbloom_error *err)
{
	struct xbloom_exemption *v = calloc(n_old + n_new + 1, sizeof(*v));
	size_t i, all = 0, kept = 0;

	if (!v)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < n_old; i++) {
		v[all] = old[i];
		v[all].why &= ~replaced;
		all += v[all].why != 0;
	}
	for (i = 0; i < n_new; i++) {
		v[all] = new[i];
		all += v[all].why != 0;
	}
	if (all)
		qsort(v, all, sizeof(*v), compare);
	for (i = 0; i < all; i++) {
		if (kept && !compare(&v[kept - 1], &v[i]))
			v[kept - 1].why |= v[i].why;
		else
			v[kept++] = v[i];
	}
	*out = v;
	*n = kept;
	return 0;
}

static bool are_same(const struct xbloom_exemption *a, size_t n_a, const struct xbloom_exemption *b,
		     size_t n_b)
{
	size_t i;

	for (i = 0; n_a == n_b && i < n_a; i++)
		if (compare(&a[i], &b[i]) || a[i].why != b[i].why)
			return false;
	return n_a == n_b;
}

static int make_trie(const struct xbloom_exemption *v, size_t n, struct xbloom_error *err)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_NO_PREALLOC);
	AUTO_CLOSE int fd = -1;
	size_t i;
	int ret;

	if (n > EXEMPT_MAX)
		return xbloom_fail(err, -E2BIG, "%zu exemptions are more than %u", n, EXEMPT_MAX);
	fd = bpf_map_create(BPF_MAP_TYPE_LPM_TRIE, "xbloom_exempt",
			    sizeof(struct xbloom_exempt_key), sizeof(uint32_t), EXEMPT_MAX, &opts);
	if (fd < 0)
		return xbloom_fail_errno(err, -errno, "cannot make the trie of exemptions");
	for (i = 0; i < n; i++)
		if (bpf_map_update_elem(fd, &v[i].key, &v[i].why, BPF_ANY))
			return xbloom_fail_errno(err, -errno, "cannot fill the trie of exemptions");
	ret = fd;
	fd = -1;
	return ret;
}

/* How a program is told. */
static void tell(struct xbloom_params *p, const struct xbloom_exemption *v, size_t n, uint32_t id)
{
	size_t i;

	memset(p->exempt, 0, sizeof(p->exempt));
	p->exempt_id = id;
	p->exempt_trie = n > XBLOOM_EXEMPT_CONSTANTS;
	p->n_exempt = p->exempt_trie ? 0 : (uint32_t)n;
	p->extras = n ? p->extras | XBLOOM_EXEMPTS : p->extras & ~XBLOOM_EXEMPTS;
	for (i = 0; i < p->n_exempt; i++) {
		memcpy(p->exempt[i].addr, v[i].key.addr, sizeof(p->exempt[i].addr));
		xbloom_raw_mask128(v[i].key.plen, p->exempt[i].mask);
	}
}

/* Bring a set into force; none of it where this fails. */
static int put(struct xbloom *f, const struct xbloom_exemption *v, size_t n,
	       struct xbloom_error *err)
{
	struct xbloom_params next = f->meta->params;
	int old = f->fd[XBLOOM_PIN_EXEMPT], fd = -1, ret = 0;
	char path[XBLOOM_PATH_MAX];

	if (n) {
		fd = make_trie(v, n, err);
		if (fd < 0)
			return fd;
		ret = next_path(path, f, err);
		if (!ret && bpf_obj_pin(fd, path))
			ret = xbloom_fail_errno(err, -errno, "cannot pin %s", path);
	}
	tell(&next, v, n, n ? xbloom_map_id(fd) : 0);
	f->fd[XBLOOM_PIN_EXEMPT] = fd;
	if (!ret)
		ret = xbloom_change_params(f, &next, err);
	if (ret) {
		settle_pin(f, false);
		f->fd[XBLOOM_PIN_EXEMPT] = old;
		xbloom_close_fd(&fd);
		return ret;
	}
	if (n)
		settle_pin(f, true);
	else
		unlinkat(f->dir_fd, xbloom_pin_names[XBLOOM_PIN_EXEMPT], 0);
	xbloom_close_fd(&old);
	return 0;
}

int xbloom_exempt_at_birth(struct xbloom *f, const struct xbloom_exemption *v, size_t n,
			   struct xbloom_error *err)
{
	struct xbloom_exemption *all = NULL;
	size_t n_all = 0;
	int ret = n ? unite(NULL, 0, 0, v, n, &all, &n_all, err) : 0;

	if (!ret && n_all) {
		ret = make_trie(all, n_all, err);
		if (ret >= 0) {
			f->fd[XBLOOM_PIN_EXEMPT] = ret;
			tell(&f->meta->params, all, n_all, xbloom_map_id(ret));
			ret = 0;
		}
	}
	free(all);
	return ret;
}

int xbloom_exempt_replace(struct xbloom *f, uint32_t why, const struct xbloom_exemption *v,
			  size_t n, struct xbloom_error *err)
{
	struct xbloom_exemption *old = NULL, *all = NULL;
	size_t n_old = 0, n_all = 0;
	int ret = xbloom_check_writable(f, err);

	if (!ret)
		ret = xbloom_exempt_list(f, &old, &n_old, err);
	if (!ret)
		ret = unite(old, n_old, why, v, n, &all, &n_all, err);
	if (!ret && !are_same(old, n_old, all, n_all))
		ret = put(f, all, n_all, err);
	free(old);
	free(all);
	return ret;
}

/* ---- from a list ---- */

struct reading {
	struct xbloom_exemption *v;
	size_t n, room;
	struct xbloom_error *err;
};

static int keep(struct reading *r, const struct xbloom_exemption *e)
{
	if (r->n == r->room) {
		size_t room = r->room ? r->room * 2 : 16;
		struct xbloom_exemption *v = reallocarray(r->v, room, sizeof(*v));

		if (!v)
			return xbloom_fail(r->err, -ENOMEM, "out of memory");
		r->v = v;
		r->room = room;
	}
	r->v[r->n++] = *e;
	return 0;
}

static int take(void *ctx, unsigned int worker, const struct xbloom_flow *flow, const char *text,
		size_t len)
{
	struct reading *r = ctx;
	struct xbloom_exemption e;

	(void)worker;
	(void)text;
	(void)len;
	if (xbloom_exemption(flow, XBLOOM_EXEMPT_USER, &e, r->err))
		return -EBADMSG;
	return keep(r, &e);
}

int xbloom_exempt_read(const char *path, struct xbloom_exemption **out, size_t *n,
		       struct xbloom_error *err)
{
	const struct xbloom_list_options options = {
		.fields = XBLOOM_SRC,
		.everything = true,
		.threads = 1,
	};
	struct reading r = { .err = err };
	int ret = xbloom_list_read(path, &options, take, &r, NULL, err);

	if (ret)
		free(r.v);
	*out = ret ? NULL : r.v;
	*n = ret ? 0 : r.n;
	return ret == -EBADMSG ? -EINVAL : ret;
}

/* ---- the guard ---- */

static int add_machine(struct reading *r, const struct xbloom_machine_addr *a, uint32_t why)
{
	struct xbloom_flow flow = a->flow;
	struct xbloom_exemption e;
	int ret;

	flow.plen = flow.family == XBLOOM_FAMILY_V4 ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST;
	ret = xbloom_exemption(&flow, why, &e, r->err);
	return ret ? ret : keep(r, &e);
}

static bool is_one_of(unsigned int ifindex, const unsigned int *ifindexes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ifindexes[i] == ifindex)
			return true;
	return false;
}

/* What these devices live by, and all that stand on them, which is nothing for none of them. */
static int collect(const struct xbloom_machine *m, const unsigned int *ifindexes, size_t n,
		   struct reading *r)
{
	unsigned int *all = NULL;
	size_t i, n_all = 0;
	int ret = n ? xbloom_machine_above(m, ifindexes, n, &all, &n_all, r->err) : 0;

	for (i = 0; i < m->n && n_all && !ret; i++) {
		const struct xbloom_machine_addr *a = &m->v[i];

		if (a->why == XBLOOM_EXEMPT_RESOLVER || is_one_of(a->ifindex, all, n_all))
			ret = add_machine(r, a, a->why);
	}
	free(all);
	return ret;
}

int xbloom_guard(struct xbloom *f, const unsigned int *ifindexes, size_t n,
		 struct xbloom_error *err)
{
	struct xbloom_machine machine = { 0 };
	struct reading r = { .err = err };
	int ret = n ? xbloom_machine_read(&machine, err) : 0;

	if (!ret)
		ret = collect(&machine, ifindexes, n, &r);
	if (!ret)
		ret = xbloom_exempt_replace(f, XBLOOM_EXEMPT_GUARD, r.v, r.n, err);
	free(r.v);
	xbloom_machine_free(&machine);
	return ret;
}

/* Those of the record that are there for the guard's sake, and for that alone. */
static int read_guard(const struct xbloom *f, struct reading *r)
{
	struct xbloom_exemption *old = NULL;
	size_t i, n = 0;
	int ret = xbloom_exempt_list(f, &old, &n, r->err);

	for (i = 0; i < n && !ret; i++) {
		old[i].why &= XBLOOM_EXEMPT_GUARD;
		if (old[i].why)
			ret = keep(r, &old[i]);
	}
	free(old);
	return ret;
}

int xbloom_guard_more(struct xbloom *f, const unsigned int *ifindexes, size_t n,
		      struct xbloom_error *err)
{
	struct xbloom_machine machine = { 0 };
	struct reading r = { .err = err };
	int ret = xbloom_machine_read(&machine, err);

	if (!ret)
		ret = read_guard(f, &r);
	if (!ret)
		ret = collect(&machine, ifindexes, n, &r);
	if (!ret)
		ret = xbloom_exempt_replace(f, XBLOOM_EXEMPT_GUARD, r.v, r.n, err);
	free(r.v);
	xbloom_machine_free(&machine);
	return ret;
}

static uint32_t why_in(const struct reading *r, const struct xbloom_exemption *e)
{
	uint32_t why = 0;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (!compare(&r->v[i], e))
			why |= r->v[i].why;
	return why;
}

int xbloom_guard_less(struct xbloom *f, const unsigned int *gone, size_t n_gone,
		      const unsigned int *stay, size_t n_stay, struct xbloom_error *err)
{
	struct reading now = { .err = err }, out = { .err = err }, kept = { .err = err };
	struct xbloom_machine machine = { 0 };
	size_t i, devices = 0;
	int ret = xbloom_machine_read(&machine, err);

	if (!ret)
		ret = read_guard(f, &now);
	if (!ret)
		ret = collect(&machine, gone, n_gone, &out);
	if (!ret)
		ret = collect(&machine, stay, n_stay, &kept);
	for (i = 0; i < now.n && !ret; i++) {
		/* The resolvers are no device's, and stay as long as one does. */
		uint32_t went = why_in(&out, &now.v[i]) & ~why_in(&kept, &now.v[i]) &
				~XBLOOM_EXEMPT_RESOLVER;

		now.v[i].why &= ~went;
		devices += !!(now.v[i].why & ~XBLOOM_EXEMPT_RESOLVER);
	}
	if (!ret)
		ret = xbloom_exempt_replace(f, XBLOOM_EXEMPT_GUARD, now.v,
					    devices || n_stay ? now.n : 0, err);
	free(now.v);
	free(out.v);
	free(kept.v);
	xbloom_machine_free(&machine);
	return ret;
}

int xbloom_set_guard(struct xbloom *f, bool on, struct xbloom_error *err)
{
	int ret = xbloom_check_writable(f, err);

	if (!ret)
		__atomic_store_n(&f->meta->guard, on, __ATOMIC_RELAXED);
	return ret;
}
